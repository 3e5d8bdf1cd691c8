"""What a source of kernels declares."""
