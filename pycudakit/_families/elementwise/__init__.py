"""Elementwise functions: each output element depends on the input elements at the same index."""
