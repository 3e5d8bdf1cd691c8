"""Composites: NumPy functions written in terms of other NumPy functions, and fused as a whole."""
