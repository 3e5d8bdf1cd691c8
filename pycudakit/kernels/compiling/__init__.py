"""Compilation of kernel sources by NVRTC or by the host's C++ compiler, and the caches of binaries."""
