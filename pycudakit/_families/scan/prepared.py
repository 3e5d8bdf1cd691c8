"""The short way of small scans: what a call takes is kept, ready for other arrays of the same form."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native import abi
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit._runtime.dispatch_cache import MOST, Way
from pycudakit._runtime.engine_choice import on_cpu
from pycudakit._runtime.native_call import Invocation, Pool
from pycudakit._runtime.operands import place_of

# A scan as pk_scan takes it: its operation and flags, the table of the array and the result, the shape, and
# how many axes are before, and are scanned.
Described = tuple[int, int, Array, Array, int, int]


class _Work(Invocation):
    entry = "pk_scan"

    def __init__(self, described: Described) -> None:
        super().__init__()
        self._described = described
        self._table: Array = described[2].copy()
        self.addresses = self._table["address"]
        self.shape: Array = described[3].copy()

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry with its arguments."""
        operation, flags, _, shape, outer, rows = self._described
        given = (operation, flags, self._table, self.shape, len(shape), outer, rows)
        return abi.bound(library, self.entry, *given, self.options, self.report)


def way_of(described: Described, array: Array, result: Array) -> Callable[[str, tuple[Any, ...]], Way | None]:
    """Return what prepares the way of scans of other arrays, dense ones, of the same type.

    They have the same shape, or one dimension.
    """
    dtype, shape, is_flat = result.dtype, result.shape, array.ndim == 1

    def prepare(name: str, arguments: tuple[Any, ...]) -> Way | None:
        found = place_of(array, arguments, 0)
        if found != (0, 0) or any(type(value) is np.ndarray for value in arguments[1:]):
            return None
        plan = on_cpu(name)
        of_any_shape = is_flat and arguments[0].ndim == 1
        pool: Pool[_Work] = Pool(lambda: _Work(described))

        def compute(arguments: tuple[Any, ...]) -> Any:
            array = arguments[0]
            if of_any_shape and not (0 < array.nbytes <= MOST and array.flags.c_contiguous):
                return None
            result = np.empty(array.shape if of_any_shape else shape, dtype)
            work = pool.take()
            try:
                if of_any_shape:
                    work.shape[0] = array.size
                work.addresses[:] = address_of(array), address_of(result)
                met = work.run_short(plan)
            finally:
                pool.give_back(work)
            return None if met else result

        return Way(compute, of_any_shape)

    return prepare
