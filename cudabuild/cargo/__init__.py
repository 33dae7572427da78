"""This package is the contract with cargo: what it tells a build script, and what the script answers."""
