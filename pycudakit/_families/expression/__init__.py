"""Expressions of several elementwise functions, computed in one pass over the arrays."""
