"""Running kernels: argument binding, request encoding, launches in this process or in a helper process."""
