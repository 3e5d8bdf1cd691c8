"""Cached calls of small scans: a prepared `pk_scan` that later calls with the same signature reuse."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native import abi, allocator
from pycudakit._native.abi import address_of
from pycudakit._native.allocator import residency_hooks
from pycudakit._native.dtypes import Array
from pycudakit._runtime.dispatch_cache import CachedCall
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.native_call import NativeCall, Pool
from pycudakit._runtime.operands import locate_operand

# The arguments of pk_scan: operation, flags, the table of the array and the result, the shape, the number of
# outer axes, and the number of scanned axes.
ScanRequest = tuple[int, int, Array, Array, int, int]


class _PreparedScan(NativeCall):
    """Prepared arguments of `pk_scan` for dense host arrays."""

    entry = "pk_scan"

    def __init__(self, described: ScanRequest) -> None:
        super().__init__()
        self._request = described
        self._table: Array = described[2].copy()
        self.addresses = self._table["address"]
        self.shape: Array = described[3].copy()

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry, bound to its arguments."""
        operation, flags, _, shape, outer, rows = self._request
        arguments = (operation, flags, self._table, self.shape, len(shape), outer, rows)
        return abi.bound(library, self.entry, *arguments, self.options, self.report)


def fast_path_of(
    described: ScanRequest, array: Array, result: Array
) -> Callable[[EngineChoice, tuple[Any, ...]], CachedCall | None]:
    """Return a function that makes a cached call for dense arrays of the same type.

    The arrays have the same shape, or are one-dimensional.
    """
    dtype, shape, is_flat = result.dtype, result.shape, array.ndim == 1

    def prepare(choice: EngineChoice, arguments: tuple[Any, ...]) -> CachedCall | None:
        located = locate_operand(array, arguments, 0)
        if located != (0, 0) or any(type(value) is np.ndarray for value in arguments[1:]):
            return None
        any_shape = is_flat and arguments[0].ndim == 1
        pool: Pool[_PreparedScan] = Pool(lambda: _PreparedScan(described))

        def compute(arguments: tuple[Any, ...]) -> Any:
            array = arguments[0]
            if residency_hooks.on_new_array is not None:
                return None
            if any_shape and not (array.size and array.flags.c_contiguous):
                return None
            result = allocator.empty(array.shape if any_shape else shape, dtype)
            work = pool.take()
            try:
                if any_shape:
                    work.shape[0] = array.size
                work.addresses[:] = address_of(array), address_of(result)
                fp_flags = work.run_on_cpu(choice)
            finally:
                pool.give_back(work)
            return None if fp_flags else result

        return CachedCall(compute, any_shape)

    return prepare
