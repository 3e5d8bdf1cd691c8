"""Kernels of your own: CUDA C, compiled at run time, called with NumPy arrays, on a GPU or without one."""

from __future__ import annotations

from pycudakit import _lazy
from pycudakit.kernels.function import Function, grid_for
from pycudakit.kernels.module import SourceModule
from pycudakit.kernels.program import Program
from pycudakit.kernels.ready_made import ElementwiseKernel, ReductionKernel
from pycudakit.kernels.ready_made_scans import ExclusiveScanKernel, InclusiveScanKernel
from pycudakit.kernels.running.wrappers import In, InOut, Out

__all__ = [
    "ElementwiseKernel",
    "ExclusiveScanKernel",
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

_lazy.show(__name__, __all__)
