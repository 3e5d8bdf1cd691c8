"""Rows of arrays on a GPU, sorted where they lie."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._calls.invocation import run_there
from pycudakit._calls.queued import UNSEEN, Form, dtype_of, engine_here, library_of_type, plan_of
from pycudakit._library.abi import There

_MOST = 1 << 30  # elements


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
    size = math.prod(shape)
    if axis is None:
        shape = (size,)
    elif type(axis) is not int or axis not in (-1, len(shape) - 1):
        return None
    if dtype is None or form.strides is not None or not shape or not 0 < size <= _MOST:
        return None
    columns = shape[-1]
    key = "u8" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"
    result = library.make(shape, dtype if name == "sort" else np.dtype(np.int64), a)
    arguments = There(address), There(library.address_of(result)), size // columns, columns
    more = (columns, int(*descending)) if descending else ()
    try:
        run_there(plan_of(name, engine), f"pk_{name}_{key}", stream, *arguments, *more)
    except errors.OutOfMemory:  # the way over the host needs less on the GPU
        return None
    return result
