"""The short way of small scans: what a call takes is kept, ready for other arrays of the same form."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native import abi
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit._runtime.dispatch_cache import MAX_BYTES, CachedCall
from pycudakit._runtime.engine_choice import cpu_choice
from pycudakit._runtime.native_call import NativeCall, Pool
from pycudakit._runtime.operands import locate_operand

# A scan as pk_scan takes it: its operation and flags, the table of the array and the result, the shape, and
# how many axes are before, and are scanned.
ScanRequest = tuple[int, int, Array, Array, int, int]


class _PreparedScan(NativeCall):
    entry = "pk_scan"

    def __init__(self, described: ScanRequest) -> None:
        super().__init__()
        self._request = described
        self._table: Array = described[2].copy()
        self.addresses = self._table["address"]
        self.shape: Array = described[3].copy()

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry with its arguments."""
        operation, flags, _, shape, outer, rows = self._request
        given = (operation, flags, self._table, self.shape, len(shape), outer, rows)
        return abi.bound(library, self.entry, *given, self.options, self.report)


def fast_path_of(
    described: ScanRequest, array: Array, result: Array
) -> Callable[[str, tuple[Any, ...]], CachedCall | None]:
    """Return what prepares the way of scans of other arrays, dense ones, of the same type.

    They have the same shape, or one dimension.
    """
    dtype, shape, is_flat = result.dtype, result.shape, array.ndim == 1

    def prepare(name: str, arguments: tuple[Any, ...]) -> CachedCall | None:
        found = locate_operand(array, arguments, 0)
        if found != (0, 0) or any(type(value) is np.ndarray for value in arguments[1:]):
            return None
        choice = cpu_choice(name)
        any_shape = is_flat and arguments[0].ndim == 1
        pool: Pool[_PreparedScan] = Pool(lambda: _PreparedScan(described))

        def compute(arguments: tuple[Any, ...]) -> Any:
            array = arguments[0]
            if any_shape and not (0 < array.nbytes <= MAX_BYTES and array.flags.c_contiguous):
                return None
            result = np.empty(array.shape if any_shape else shape, dtype)
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
