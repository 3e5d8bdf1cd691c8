"""What pycudakit.kernels is made of."""
