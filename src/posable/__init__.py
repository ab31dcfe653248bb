"""Posable: say what you want of a figure, get the pose that does it."""

__version__ = "0.1.0"
