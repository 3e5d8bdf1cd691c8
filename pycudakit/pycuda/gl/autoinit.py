"""`pycuda.gl.autoinit`: graphics interoperability, which is not offered."""

from __future__ import annotations

from pycudakit.pycuda._errors import absent_module

__getattr__ = absent_module("pycuda.gl.autoinit", "copy the array to the host, and draw it from there")
