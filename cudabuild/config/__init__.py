"""This package turns cudabuild.toml or Cargo.toml, the environment and the command line into one BuildConfig."""
