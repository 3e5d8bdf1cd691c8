"""Wrapping of a CUDA source with ``extern "C"`` functions: as a Python module, and as a package."""
