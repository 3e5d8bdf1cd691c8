"""Passes: what was asked of arrays, computed."""
