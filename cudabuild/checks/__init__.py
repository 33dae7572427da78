"""This package looks at what a build needs, one subject after another: what is found, what is wrong, and the cure."""
