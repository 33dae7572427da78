"""This package is all that cudabuild knows of nvcc: where it is, what it is made of, its arguments and what it prints."""
