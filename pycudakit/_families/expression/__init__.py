"""Expressions of several functions, in one pass."""
