"""Validation of ufunc arguments as NumPy does it: inputs, `out`, `where`, broadcasting, overlap."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import BOOL, Array, code_of
from pycudakit._runtime.lazy_array import LazyArray


def as_argument(value: Any) -> Any:
    """Return an argument as an array or a Python number, or None if only NumPy supports it."""
    kind = type(value)
    if kind is int or kind is float:
        return value
    if issubclass(kind, LazyArray):
        value = value.resolved()
    elif kind is np.memmap:
        value = value.view(np.ndarray)
    elif kind is not np.ndarray:
        if isinstance(value, np.ndarray) or (
            (hasattr(kind, "__array_ufunc__") or hasattr(kind, "__array_wrap__"))
            and not isinstance(value, np.generic)
        ):
            return None
        value = np.asarray(value)
    return value if code_of(value.dtype) is not None else None


def as_out(out: Any) -> Any:
    """Validate the `out` argument of a function with one output: an array, None, or `...`."""
    return ... if out is ... else as_outs(out, 1)[0]


def as_outs(out: Any, count: int) -> list[Array | None]:
    """Validate the `out` argument of a function with several outputs."""
    if out is None:
        return [None] * count
    if count > 1 and not isinstance(out, tuple):
        raise TypeError("'out' must be a tuple of arrays")
    outs = list(out) if isinstance(out, tuple) else [out]
    if len(outs) != count:
        raise ValueError("The 'out' tuple must have exactly one entry per ufunc output")
    if not all(o is None or isinstance(o, np.ndarray) for o in outs):
        raise TypeError("return arrays must be of ArrayType")
    for array in outs:
        check_writeable(array)
    return outs


def check_writeable(out: Array | None) -> None:
    """Raise NumPy's error if an output is read-only."""
    if out is not None and not out.flags.writeable:
        raise ValueError("output array is read-only")


def as_mask(where: Any) -> Array | None:
    """Return the `where` argument as a bool array, or None for True; raise NumPy's error for other types."""
    if where is True:
        return None
    mask = where if isinstance(where, np.ndarray) else np.asarray(where, bool)
    if mask.dtype != BOOL:
        data = "array data" if mask.ndim else "scalar"
        raise TypeError(
            f"Cannot cast {data} from {mask.dtype!r} to dtype('bool') according to the rule 'safe'"
        )
    return mask


def refuse_byte_order(dtype: Any) -> None:
    """Raise NumPy's error if the `dtype` of a ufunc has a byte order that is not native."""
    if dtype is not None and not np.dtype(dtype).isnative:
        np.add.reduce((), dtype=dtype)


def as_order(order: Any) -> str:
    """Return the `order` of a ufunc's result as a capital letter; raise NumPy's error if it is invalid."""
    letter = str(order or "K").upper()
    if letter not in ("C", "F", "A", "K"):
        np.positive(0, order=order)
    return letter


def broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Return True if an array of `shape` can be assigned to one of the shape `target`."""
    try:
        return broadcast_shapes(shape, target) == target
    except ValueError:
        return False


_BROADCAST_SHAPES_MAX_DIMS = 32  # the limit of `np.broadcast_shapes`; arrays may have 64


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Broadcast shapes as `np.broadcast_shapes` does, but with up to 64 dimensions."""
    if len({*shapes}) == 1:
        return shapes[0]
    if max(map(len, shapes), default=0) <= _BROADCAST_SHAPES_MAX_DIMS:
        return np.broadcast_shapes(*shapes)
    full = []
    for sizes in itertools.zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        sizes_but_one = set(sizes) - {1}
        if len(sizes_but_one) > 1:
            raise ValueError("shape mismatch")
        full.append(sizes_but_one.pop() if sizes_but_one else 1)
    return tuple(reversed(full))


def broadcast(arrays: Sequence[Array], outs: Sequence[Array | None]) -> tuple[int, ...]:
    """Return the broadcast shape of a call; raise NumPy's errors if inputs or outputs do not match."""
    shapes = {a.shape for a in arrays}
    existing = [o for o in outs if o is not None]
    try:
        shape = shapes.pop() if len(shapes) == 1 else broadcast_shapes(*shapes)
        full = broadcast_shapes(shape, *(o.shape for o in existing)) if existing else shape
    except ValueError:
        listed = " ".join(str(a.shape).replace(" ", "") for a in [*arrays, *existing])
        raise ValueError(f"operands could not be broadcast together with shapes {listed} ") from None
    for out in existing:
        if out.shape != full:
            out_text, full_text = (str(s).replace(" ", "") for s in (out.shape, full))
            raise ValueError(
                f"non-broadcastable output operand with shape {out_text} doesn't match the broadcast shape "
                f"{full_text}"
            )
        check_writeable(out)
    if math.prod(n for n in full if n) > sys.maxsize:
        raise ValueError(
            "array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size."
        )
    return full


def _same_elements(a: Array, b: Array) -> bool:
    return (
        a.shape == b.shape
        and a.strides == b.strides
        and a.dtype == b.dtype
        and address_of(a) == address_of(b)
    )


def _overlaps_itself(array: Array) -> bool:
    if array.flags.c_contiguous or array.flags.f_contiguous or array.size == 0:
        return False
    return _strides_overlap(array.shape, array.strides, array.itemsize)


@functools.lru_cache(1024)
def _strides_overlap(shape: tuple[int, ...], strides: tuple[int, ...], reach: int) -> bool:
    for stride, size in sorted((abs(st), n) for st, n in zip(strides, shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (size - 1)
    return False


def needs_copy(out: Array, others: Sequence[Array]) -> bool:
    """Return True if writing to `out` could change elements of the others before they are read."""
    return _overlaps_itself(out) or any(
        np.may_share_memory(out, other) and not _same_elements(out, other) for other in others
    )
