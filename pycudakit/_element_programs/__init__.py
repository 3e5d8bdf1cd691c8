"""NumPy's ufuncs as instructions, and what runs them."""
