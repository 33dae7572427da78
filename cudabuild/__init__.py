"""This package builds CUDA translation units for Cargo crates, and rebuilds them exactly when what they read changes."""

__version__ = "0.1.0"
