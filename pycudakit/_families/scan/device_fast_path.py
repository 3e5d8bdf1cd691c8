"""Scans of a dense array on a GPU, along an axis or all, where it lies: queued in its stream."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit import errors
from pycudakit._interop.cuda_libraries import (
    INSPECT_ERRORS,
    ArraySignature,
    device_choice,
    device_engine,
    library_of_type,
    numpy_dtype,
)
from pycudakit._interop.device_view import contiguous_strides
from pycudakit._native import abi
from pycudakit._native.dtypes import CODES, DType
from pycudakit._runtime.native_call import NativeCall, Pool


def scan(name: str, operation: int, flags: int, result_type: Callable[[DType], DType]) -> Callable[..., Any]:
    """Return what computes a function where an array lies; None where that takes more care."""
    return functools.partial(_call, name, operation, flags, result_type)


class _PreparedScan(NativeCall):
    """What `pk_scan` takes of arrays of one form."""

    entry = "pk_scan"

    def __init__(self, operation: int, flags: int, lengths: tuple[int, int, int], types: Any) -> None:
        super().__init__()
        self._operation, self._scan_flags = operation, flags
        self._table, self._shape = np.zeros(2, abi.OPERAND), np.array(lengths, np.int64)
        self._table["flags"], self._table["type"] = abi.OPERAND_ON_DEVICE, [CODES[dtype] for dtype in types]
        for row, dtype in zip(self._table, types, strict=True):
            row["strides"][:3] = contiguous_strides(lengths, dtype)
        self.addresses = self._table["address"]

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry with its arguments."""
        given = (self._operation, self._scan_flags, self._table, self._shape, 3, 1, 1)
        return abi.bound(library, self.entry, *given, self.options, self.report)


class _PreparedForm(NamedTuple):
    """What is known of calls of one form."""

    shape: tuple[int, ...]
    dtype: DType
    bytes_: int  # of the array, or of the result
    pool: Pool[_PreparedScan]


@functools.lru_cache(1024)
def _known(
    operation: int,
    flags: int,
    result_type: Callable[[DType], DType],
    fields: tuple[Any, ...],
    axis: int | None,
) -> _PreparedForm | None:
    """Return how arrays of a form are scanned; None where that takes more care."""
    form = ArraySignature(*fields)
    given, shape = numpy_dtype(form.dtype), tuple(form.shape)
    if given is None or form.strides is not None or not shape or 0 in shape:
        return None
    size = math.prod(shape)
    lengths = 1, size, 1
    if axis is not None:
        at = normalize_axis_index(axis, len(shape))
        lengths = math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])
    wanted = result_type(given)
    pool: Pool[_PreparedScan] = Pool(
        functools.partial(_PreparedScan, operation, flags, lengths, (given, wanted))
    )
    made = (size,) if axis is None else shape
    return _PreparedForm(made, wanted, size * max(given.itemsize, wanted.itemsize), pool)


def _call(
    name: str,
    operation: int,
    flags: int,
    result_type: Callable[[DType], DType],
    a: Any = None,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    library, engine = library_of_type(type(a)), device_engine()
    if library is None or engine is None or dtype is not None or not (axis is None or type(axis) is int):
        return None
    try:
        seen = library.inspect(a)
        target = None if type(out) is not type(a) else library.inspect(out)
    except INSPECT_ERRORS:
        return None
    if seen is None or (out is not None and target is None):
        return None
    known = _known(operation, flags, result_type, seen[0], axis)
    if known is None:
        return None
    address, stream = seen[1:]
    if target is None:
        result = library.empty(known.shape, known.dtype, a)
        to = library.address_of(result)
    else:
        result, to, place = out, target[1], ArraySignature(*target[0])
        fits = (
            numpy_dtype(place.dtype) == known.dtype
            and tuple(place.shape) == known.shape
            and place.strides is None
        )
        overlaps = address < to + known.bytes_ and to < address + known.bytes_
        if not fits or place.is_readonly or target[2] != stream or overlaps:
            return None
    work = known.pool.take()
    try:
        work.addresses[:] = address, to
        work.run_on_stream(device_choice(name, engine), stream)
    except errors.OutOfMemory:  # the way over the host needs less on the GPU
        return None
    finally:
        known.pool.give_back(work)
    return result
