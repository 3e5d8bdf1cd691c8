"""The short way of small scans: what a call takes is kept, ready for other arrays of the same form."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._calls.invocation import Invocation, Pool
from pycudakit._calls.operands import place_of
from pycudakit._calls.plan import on_cpu
from pycudakit._calls.small import Way
from pycudakit._library import abi
from pycudakit._library.abi import address_of
from pycudakit._library.types import Array

# A scan as pk_scan takes it: its operation and flags, the table of the array and the result, the shape, and
# how many axes are before, and are scanned.
Described = tuple[int, int, Array, Array, int, int]


class _Work(Invocation):
    def __init__(self, described: Described) -> None:
        super().__init__()
        self._described = described
        self._table: Array = described[2].copy()
        self.addresses = self._table["address"]

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry with its arguments."""
        operation, flags, _, shape, outer, rows = self._described
        kind, skips, count, before, along = map(ctypes.c_int64, (operation, flags, len(shape), outer, rows))
        given = (kind, skips, self._table, shape, count, before, along, self.options, self.report)
        return abi.bound(library, "pk_scan", *given)


def of_shape(
    described: Described, array: Array, result: Array
) -> Callable[[str, tuple[Any, ...]], Way | None]:
    """Return what prepares the way of scans of other arrays, dense ones, of the same shape and type."""
    dtype, shape, size = result.dtype, result.shape, array.size

    def prepare(name: str, arguments: tuple[Any, ...]) -> Way | None:
        found = place_of(array, arguments, 0)
        if found != (0, 0) or any(type(value) is np.ndarray for value in arguments[1:]):
            return None
        plan = on_cpu(name)
        pool: Pool[_Work] = Pool(lambda: _Work(described))

        def compute(arguments: tuple[Any, ...]) -> Any:
            result = np.empty(shape, dtype)
            work = pool.take()
            try:
                work.addresses[:] = address_of(arguments[0]), address_of(result)
                met = work.run(plan, size)
            finally:
                pool.give_back(work)
            return None if met else result

        return compute

    return prepare
