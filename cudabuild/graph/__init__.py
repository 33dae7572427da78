"""This package is the dependency graph: translation units, the files that each read, and the paths that must stay absent."""
