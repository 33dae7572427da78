"""This package tells what a build did: one report, for people and for tools."""
