"""Handlers (NEP 18) of the NumPy functions that a fused function may call."""
