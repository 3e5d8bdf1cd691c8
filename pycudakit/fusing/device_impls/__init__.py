"""NumPy's functions where arrays stay on the device, made of what is there."""
