"""Whole functions of NumPy's, in few passes: `fuse`."""

from pycudakit.fusing.api import Fused, fuse

__all__ = ["Fused", "fuse"]
