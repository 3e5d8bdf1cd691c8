"""`fuse`: trace a NumPy function and run it as few fused kernels."""

from pycudakit.fusing.api import Fused, fuse

__all__ = ["Fused", "fuse"]
