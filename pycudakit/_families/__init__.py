"""pycudakit's own functions, each named as the csrc/<family>.cu that computes it."""
