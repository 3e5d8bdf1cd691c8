"""Elementwise programs: NumPy's ufuncs lowered to instructions for `pk_evaluate`, and their launch."""
