"""Kernels of your own: CUDA C, compiled at run time, called with NumPy arrays, on a GPU or without one."""

from __future__ import annotations

from pycudakit._kernels.arguments import In, InOut, Out
from pycudakit._kernels.function import Function, grid_for
from pycudakit._kernels.module import SourceModule
from pycudakit._kernels.program import Program
from pycudakit._kernels.ready_made import ElementwiseKernel, InclusiveScanKernel, ReductionKernel

__all__ = [
    "ElementwiseKernel",
    "Function",
    "In",
    "InOut",
    "InclusiveScanKernel",
    "Out",
    "Program",
    "ReductionKernel",
    "SourceModule",
    "grid_for",
]
