"""Plans of fused functions: capture, and runs by the C library."""
