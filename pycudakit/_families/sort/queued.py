"""Rows of arrays on a GPU, sorted where they lie."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._calls.device_array import strides_of_dense
from pycudakit._calls.invocation import run_there
from pycudakit._calls.plan import Plan
from pycudakit._calls.queued import UNSEEN, Form, dtype_of, engine_here, library_of_type, plan_of
from pycudakit._library.abi import MAX_DIMS, There
from pycudakit._programs.queued import queue_copy

_MOST = 1 << 30  # elements
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


def _call(name: str, a: Any, axis: Any, kind: Any, order: Any, stable: Any, *descending: bool) -> Any:
    library, engine = library_of_type(type(a)), engine_here()
    if library is None or engine is None or not (kind is order is None and stable in (None, True, False)):
        return None
    try:
        seen = library.see(a)
    except UNSEEN:
        return None
    if seen is None:
        return None
    form, address, stream = Form(*seen[0]), seen[1], seen[2]
    dtype, shape = dtype_of(form), tuple(form.shape)
    size, dimensions = math.prod(shape), len(shape)
    along = dimensions - 1 if axis is None else axis
    if type(along) is not int or not -dimensions <= along < dimensions or dtype is None:
        return None
    if not 0 < size <= _MOST or dimensions > MAX_DIMS:
        return None
    order = [d for d in range(dimensions) if d != along % dimensions] + [along % dimensions]
    rows = tuple(shape[d] for d in order)
    run = functools.partial(_run, name, dtype, plan_of(name, engine), descending, stream)
    given = dtype if name == "sort" else _INT64
    try:
        if form.strides is not None or rows != shape:  # entries take rows that lie one after the other
            strides = strides_of_dense(shape, dtype) if form.strides is None else form.strides
            copy = library.make(rows, dtype, a)
            to = library.address_of(copy), strides_of_dense(rows, dtype)
            queue_copy(dtype, rows, to, (address, tuple(strides[d] for d in order)), stream)
            address = to[0]
        if axis is None:
            rows = shape = (size,)
            order = [0]
        result = library.make(rows, given, a)
        run(address, library.address_of(result), size // rows[-1], rows[-1])
        if order != sorted(order):
            back = library.make(shape, given, a)
            strides = strides_of_dense(shape, given)
            to = library.address_of(back), tuple(strides[d] for d in order)
            queue_copy(given, rows, to, (library.address_of(result), strides_of_dense(rows, given)), stream)
            return back
    except errors.OutOfMemory:  # the way over the host needs less on the GPU
        return None
    return result


def _run(
    name: str,
    dtype: Any,
    plan: Plan,
    descending: tuple[bool, ...],
    stream: int,
    address: int,
    result: int,
    rows: int,
    columns: int,
) -> None:
    key = "u8" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"
    more = (columns, int(*descending)) if descending else ()
    run_there(plan, f"pk_{name}_{key}", stream, There(address), There(result), rows, columns, *more)
