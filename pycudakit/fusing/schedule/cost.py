"""Cost model of `auto`: estimated times of a fused call in NumPy and on each engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudakit._element_programs.program_cost import GPU_MARGIN, THREAD_WAKE_SECONDS
from pycudakit._families.matmul.matmul import blas_seconds
from pycudakit._native import engine_status
from pycudakit._runtime.call_log import Estimates
from pycudakit._runtime.cost_model import CUDA_CALL, cuda_seconds, threads

# Seconds
_NUMPY_CALL = 0.8e-6  # the overhead of a NumPy call
_TRACE_OP = 3e-6  # the overhead of tracing an operation
_KERNEL = 40e-6  # the overhead of a fused kernel
_REPLAY, _REPLAYED_KERNEL = 15e-6, 4e-6  # the overheads of a replayed call, and of a kernel in it
_REPLAYED_CUDA_KERNEL, _KERNEL_OF_GRAPH = 8e-6, 3e-6  # the same on a GPU, and in a CUDA graph
_MIN_PASSES_OF_GRAPH, _MAX_BYTES_OF_GRAPH = 8, 32 << 20
# Of reductions and of other functions that are not element programs, in NumPy and on one thread.
_REDUCED_ELEMENT, _ELEMENT = 0.5e-9, 2e-9
_GIVE_UP_SECONDS = 4e-3  # a traced call that takes longer may fall back to NumPy
_GIVE_UP_SECONDS_SMALL = 1e-3  # the same for small arguments

_GIVE_UP_RATIO = 4  # times NumPy's time: a traced call that takes longer falls back to NumPy


@dataclass
class Costs:
    """The estimated times of one call, added up while it is traced."""

    numpy: float = 0.0
    cpu: float = 0.0
    replayed: float = _REPLAY  # on the CPU engine, without tracing
    on_gpu: float = 0.0  # computing on a GPU, as far as it is not far shorter than transfers
    passes: int = 0
    up: int = 0  # bytes that would be uploaded to a GPU
    down: int = 0
    has_small_arguments: bool = False  # NumPy is likely to be fastest
    has_plans_on_gpu: bool = True  # all of its functions can be requests of a plan there

    def operation(self, size: int, seconds_per_element: float) -> None:
        """Add a recorded operation."""
        self.numpy += _NUMPY_CALL + size * seconds_per_element
        self.cpu += _TRACE_OP

    def view(self) -> None:
        """Add a view."""
        self.numpy += 0.25e-6
        self.cpu += 0.5 * _TRACE_OP

    def graph_break(self) -> None:
        """Add a graph break."""
        self.numpy += 0.1e-6
        self.cpu += 3 * _TRACE_OP

    def evaluated(self, seconds: float) -> None:
        """Add a fused kernel."""
        self.cpu += _KERNEL + seconds
        self.replayed += _REPLAYED_KERNEL + seconds
        self.passes += 1

    def called(
        self,
        size: int,
        *,
        runs_in_numpy: bool = False,
        is_reduction: bool = False,
        has_plans_on_gpu: bool = False,
    ) -> None:
        """Add a function that is no element program; with `runs_in_numpy`, the CPU engine calls NumPy's."""
        self.has_plans_on_gpu &= has_plans_on_gpu or is_reduction
        seconds = size * (_REDUCED_ELEMENT if is_reduction else _ELEMENT)
        self.numpy += 5 * _NUMPY_CALL + seconds
        if seconds > THREAD_WAKE_SECONDS and not runs_in_numpy:
            seconds /= threads()
        self.cpu += _KERNEL + seconds
        self.replayed += _KERNEL + seconds
        self.passes += 1

    def multiplied(self, a: Any, b: Any) -> None:
        """Add a product of matrices, of stacks of them, or of a matrix and a vector, by NumPy's BLAS."""
        dtype = np.result_type(a.dtype, b.dtype)
        stack = max(math.prod(a.shape[:-2]), math.prod(b.shape[:-2]))
        products = float(stack * math.prod(a.shape[-2:])) * (b.shape[-1] if b.ndim > 1 else 1)
        seconds, on_gpu = blas_seconds(products, (a.size + b.size) * dtype.itemsize, dtype)
        self.numpy += 5 * _NUMPY_CALL + seconds
        self.cpu += _KERNEL + seconds
        self.replayed += _REPLAYED_KERNEL + seconds
        self.on_gpu += on_gpu
        self.passes += 1

    @property
    def is_far_slower_than_numpy(self) -> bool:
        """Whether the call is so much slower than NumPy that NumPy should run the rest of it."""
        threshold = _GIVE_UP_SECONDS_SMALL if self.has_small_arguments else _GIVE_UP_SECONDS
        return self.cpu > threshold and self.cpu > _GIVE_UP_RATIO * self.numpy

    @property
    def cuda(self) -> float:
        """The time on a GPU."""
        if not engine_status.status("cuda"):
            return math.inf
        return cuda_seconds(self.up, self.down) + self.passes * CUDA_CALL + self.on_gpu

    @property
    def has_graph(self) -> bool:
        """Whether replays on a GPU may launch a CUDA graph."""
        is_small = self.up + self.down <= _MAX_BYTES_OF_GRAPH
        return self.has_plans_on_gpu and is_small and self.passes >= _MIN_PASSES_OF_GRAPH

    def best(self) -> Estimates:
        """Return the estimates, with the engine that has the smallest one."""
        engine = "cuda" if self.cuda < GPU_MARGIN * self.cpu else "cpu"
        if self.numpy <= self.cpu:
            engine = "numpy"
        return Estimates(engine, self.numpy, self.cpu, self.cuda, engine_status.status("cuda"))

    def estimates(self, may_replay: bool) -> dict[str, float]:
        """Return the estimated time of a later call on each engine."""
        cpu, cuda = self.cpu, self.cuda
        if may_replay:
            cpu = min(cpu, self.replayed)
        if may_replay and self.has_plans_on_gpu:
            kernel = _KERNEL_OF_GRAPH if self.has_graph else _REPLAYED_CUDA_KERNEL
            cuda -= self.passes * (CUDA_CALL - kernel)
        return {"cpu": cpu, "cuda": cuda, "numpy": self.numpy}
