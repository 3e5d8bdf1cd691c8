"""Rows of arrays on a GPU, sorted where they lie."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pycudakit import errors
from pycudakit._element_programs.device_launch import enqueue_copy
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
from pycudakit._native.abi import MAX_DIMS
from pycudakit._native.dtypes import DType
from pycudakit._runtime.native_call import NativeCall, Pool

_MAX_ELEMENTS = 1 << 30  # elements
_INT64 = np.dtype(np.int64)


def sort(
    a: Any = None,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
) -> Any:
    """Sort the rows of a dense array; None where that takes more care."""
    return None if descending else _call("sort", a, axis, kind, order, stable)


def argsort(
    a: Any = None,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
) -> Any:
    """Find the order of the rows of a dense array; None where that takes more care."""
    return _call("argsort", a, axis, kind, order, stable, bool(descending))


def partition(a: Any, kth: Any = None, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """Sort the rows of an array, of which each element is then where it is to be."""
    return _call("sort", a, axis, None, order, None) if _is_kth(a, kth, axis, kind) else None


def argpartition(
    a: Any, kth: Any = None, axis: Any = -1, kind: Any = "introselect", order: Any = None
) -> Any:
    """Find the order of the rows of an array."""
    return _call("argsort", a, axis, None, order, None, False) if _is_kth(a, kth, axis, kind) else None


def _is_kth(a: Any, kth: Any, axis: Any, kind: Any) -> bool:
    """Tell whether a place is one in a row."""
    shape = getattr(a, "shape", ())
    try:
        length = math.prod(shape) if axis is None else shape[axis]
    except (IndexError, TypeError):
        return False
    return kind == "introselect" and type(kth) is int and -length <= kth < length


class _PreparedForm(NamedTuple):
    """What is known of calls of one form."""

    dtype: DType
    shape: tuple[int, ...]  # of the result
    order: tuple[int, ...]  # of the axes, that along which is sorted last
    rows: tuple[int, ...]  # the shape in this order
    strides: tuple[int, ...] | None  # in this order, of what is copied first: entries take rows side by side


@functools.lru_cache(1024)
def _known(fields: tuple[Any, ...], axis: Any) -> _PreparedForm | None:
    """Return how arrays of a form are sorted; None where that takes more care."""
    form = ArraySignature(*fields)
    dtype, shape = numpy_dtype(form.dtype), tuple(form.shape)
    size, dimensions = math.prod(shape), len(shape)
    along = dimensions - 1 if axis is None else axis
    if type(along) is not int or not -dimensions <= along < dimensions or dtype is None:
        return None
    if not 0 < size <= _MAX_ELEMENTS or dimensions > MAX_DIMS:
        return None
    order = (*(d for d in range(dimensions) if d != along % dimensions), along % dimensions)
    rows, strides = tuple(shape[d] for d in order), None
    if form.strides is not None or order != tuple(range(dimensions)):
        own = contiguous_strides(shape, dtype) if form.strides is None else form.strides
        strides = tuple(own[d] for d in order)
    return _PreparedForm(dtype, shape, order, rows, strides)


def _call(name: str, a: Any, axis: Any, kind: Any, order: Any, stable: Any, *descending: bool) -> Any:
    library, engine = library_of_type(type(a)), device_engine()
    if library is None or engine is None or not (kind is order is None and stable in (None, True, False)):
        return None
    try:
        seen = library.inspect(a)
    except INSPECT_ERRORS:
        return None
    known = None if seen is None or type(axis) not in (int, type(None)) else _known(seen[0], axis)
    if seen is None or known is None:
        return None
    dtype, shape, axes, rows, strides = known
    address, stream = seen[1:]
    given = dtype if name == "sort" else _INT64
    try:
        if strides is not None:
            copy = library.empty(rows, dtype, a)
            to = library.address_of(copy), contiguous_strides(rows, dtype)
            enqueue_copy(dtype, rows, to, (address, strides), stream)
            address = to[0]
        size = math.prod(rows)
        if axis is None:
            rows, axes = (size,), (0,)
        result = library.empty(rows, given, a)
        pool = _pool(name, dtype, size // rows[-1], rows[-1], descending)
        work = pool.take()
        try:
            work.source.value, work.result.value = address, library.address_of(result)
            work.run_on_stream(device_choice(name, engine), stream)
        finally:
            pool.give_back(work)
        if axes != tuple(range(len(axes))):
            back = library.empty(shape, given, a)
            own = contiguous_strides(shape, given)
            to = library.address_of(back), tuple(own[d] for d in axes)
            enqueue_copy(
                given, rows, to, (library.address_of(result), contiguous_strides(rows, given)), stream
            )
            return back
    except errors.OutOfMemory:  # the way over the host needs less on the GPU
        return None
    return result


class _PreparedSort(NativeCall):
    """What an entry that sorts takes of arrays of one form."""

    def __init__(self, entry: str, rows: int, columns: int, descending: tuple[bool, ...]) -> None:
        super().__init__()
        self.entry = entry
        self.source, self.result = ctypes.c_void_p(), ctypes.c_void_p()
        # Of an order, there is as much of each row as it has.
        self._more = rows, columns, *((columns, int(*descending)) if descending else ())

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry with its arguments."""
        return abi.bound(
            library, self.entry, self.source, self.result, *self._more, self.options, self.report
        )


@functools.lru_cache(1024)
def _pool(
    name: str, dtype: DType, rows: int, columns: int, descending: tuple[bool, ...]
) -> Pool[_PreparedSort]:
    key = "u8" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"
    return Pool(functools.partial(_PreparedSort, f"pk_{name}_{key}", rows, columns, descending))
