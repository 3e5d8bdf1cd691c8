"""Scans of a dense array on a GPU, along an axis or all, where it lies: queued in its stream."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit import errors
from pycudakit._calls.device_array import strides_of_dense
from pycudakit._calls.invocation import run_there
from pycudakit._calls.queued import UNSEEN, Form, dtype_of, engine_here, library_of_type, plan_of
from pycudakit._library import abi
from pycudakit._library.types import CODES, DType


def scan(name: str, operation: int, flags: int, result_type: Callable[[DType], DType]) -> Callable[..., Any]:
    """Return what computes a function where an array lies; None where that takes more care."""
    return functools.partial(_call, name, operation, flags, result_type)


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
    library, engine = library_of_type(type(a)), engine_here()
    if library is None or engine is None or dtype is not None or not (axis is None or type(axis) is int):
        return None
    try:
        seen = library.see(a)
        target = None if type(out) is not type(a) else library.see(out)
    except UNSEEN:
        return None
    if seen is None or (out is not None and target is None):
        return None
    form, address, stream = Form(*seen[0]), seen[1], seen[2]
    given, shape = dtype_of(form), tuple(form.shape)
    if given is None or form.strides is not None or not shape or 0 in shape:
        return None
    size = math.prod(shape)
    lengths = 1, size, 1
    if axis is not None:
        at = normalize_axis_index(axis, len(shape))
        lengths = math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])
    wanted, made = result_type(given), (size,) if axis is None else shape
    if target is None:
        result = library.make(made, wanted, a)
        to = library.address_of(result)
    else:
        result, to, place = out, target[1], Form(*target[0])
        fits = dtype_of(place) == wanted and tuple(place.shape) == made and place.strides is None
        bytes_ = size * max(given.itemsize, wanted.itemsize)
        overlaps = address < to + bytes_ and to < address + bytes_
        if not fits or place.is_readonly or target[2] != stream or overlaps:
            return None
    operands = np.zeros(2, abi.OPERAND)
    operands["address"], operands["flags"] = (address, to), abi.ON_DEVICE
    operands["type"] = CODES[given], CODES[wanted]
    for row, kind in zip(operands, (given, wanted), strict=True):
        row["strides"][:3] = strides_of_dense(lengths, kind)
    request = operation, flags, operands, np.array(lengths, np.int64), 3, 1, 1
    try:
        run_there(plan_of(name, engine), "pk_scan", stream, *request)
    except errors.OutOfMemory:  # the way over the host needs less on the GPU
        return None
    return result
