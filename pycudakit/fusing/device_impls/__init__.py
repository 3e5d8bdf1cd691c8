"""Device implementations: NumPy functions composed of kernels on device-resident arrays."""
