"""NumPy's functions that are made of others, each in one trip."""
