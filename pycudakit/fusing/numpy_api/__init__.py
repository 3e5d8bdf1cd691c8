"""NumPy's functions that a fused function may call."""
