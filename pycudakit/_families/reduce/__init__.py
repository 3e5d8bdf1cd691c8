"""Functions that make one of many elements."""
