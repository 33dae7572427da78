"""This package judges freshness: the key of each unit, and what earlier builds left under it."""
