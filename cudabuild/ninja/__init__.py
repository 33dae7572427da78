"""This package runs the missing work through ninja: parallel, under cargo's job limit, and stopped as a whole."""
