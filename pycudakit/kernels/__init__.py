"""User kernels in CUDA C: compiled at run time, called with NumPy arrays, on a GPU or on the CPU."""

from __future__ import annotations

from pycudakit import _lazy
from pycudakit.kernels.function import Function, grid_for
from pycudakit.kernels.kernel_templates import ElementwiseKernel, ReductionKernel
from pycudakit.kernels.module import SourceModule
from pycudakit.kernels.program import Program
from pycudakit.kernels.running.transfers import In, InOut, Out
from pycudakit.kernels.scan_kernel_templates import ExclusiveScanKernel, InclusiveScanKernel
from pycudakit.kernels.wrapping.library import Library, wrap

__all__ = [
    "ElementwiseKernel",
    "ExclusiveScanKernel",
    "Function",
    "In",
    "InOut",
    "InclusiveScanKernel",
    "Library",
    "Out",
    "Program",
    "ReductionKernel",
    "SourceModule",
    "grid_for",
    "wrap",
]

_lazy.set_public_names(__name__, __all__)
