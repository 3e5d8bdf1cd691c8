"""`pycuda.sparse.inner`: sparse matrices, which are not offered."""

from __future__ import annotations

from pycudakit.pycuda._errors import absent_module

__getattr__ = absent_module("pycuda.sparse.inner", "use CuPy's sparse matrices, or SciPy's")
