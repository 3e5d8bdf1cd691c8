"""Classification of index expressions: basic (views), integer arrays, and boolean masks."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit.fusing.memory.tracer import Tracer


def parts(index: Any) -> tuple[Any, ...]:
    """Return an index as a tuple of its parts."""
    return index if type(index) is tuple else (index,)


WITH_TRACER = "with a tracer"  # truthy, as every string


def is_basic(index: Any) -> bool | str:
    """Return True for a basic index, WITH_TRACER for one that contains tracers, False for any other."""
    result: bool | str = True
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind is slice:
            if type(part.start) is Tracer or type(part.stop) is Tracer or type(part.step) is Tracer:
                result = WITH_TRACER
            continue
        if kind is int or part is None or part is Ellipsis:
            continue
        if kind is bool or (kind is not Tracer and isinstance(part, (list, np.bool_))):
            return False
        if kind is Tracer or isinstance(part, np.ndarray):  # NumPy copies for one without dimensions, too
            if part.ndim or part.dtype.kind not in "iu":
                return False
            result = WITH_TRACER
        elif not hasattr(part, "__index__"):
            return False
    return result


def is_view_at(array: Array, index: Any, value: Array | None) -> bool:
    """Return True if a value is the same view as the indexed elements, so that a write changes nothing."""
    if value is None or not all(type(p) is slice or p is Ellipsis or type(p) is int for p in parts(index)):
        return False
    part = array[index]
    return (
        type(part) is np.ndarray
        and part.shape == value.shape
        and part.strides == value.strides
        and part.dtype == value.dtype
        and address_of(part) == address_of(value)
    )


def is_mask(part: Any) -> bool:
    """Return True if a part of an index is a boolean mask."""
    return (type(part) is Tracer or isinstance(part, np.ndarray)) and part.dtype == np.bool_


class IntegerIndex(NamedTuple):
    """A parsed integer-array index: a basic index for a view, and the arrays that index its adjacent axes."""

    view: tuple[Any, ...]
    axis: int  # the first indexed axis
    arrays: list[Any]


def parse_integer_index(index: Any, shape: tuple[int, ...]) -> IntegerIndex | None:
    """Parse an index with integer arrays; return None for an index that is left to NumPy.

    A mask that is not a tracer is converted to integer arrays.
    """
    parsed: list[Any] = []
    for part in parts(index):
        new_parts = _parse_part(part, shape, parsed)
        if new_parts is None:
            return None
        parsed += new_parts
    positions = [position for position, part in enumerate(parsed) if _is_index_array(part)]
    if not positions or positions[-1] - positions[0] >= len(positions):
        return None
    consumed_axes = sum(part is not None and part is not Ellipsis for part in parsed)
    if consumed_axes > len(shape) or sum(part is Ellipsis for part in parsed) > 1:
        return None  # NumPy raises
    view = tuple([slice(None) if _is_index_array(part) else part for part in parsed])
    before = parsed[: positions[0]]
    axis = len(before)
    if _has_ellipsis(before):
        axis += len(shape) - consumed_axes - 1
    return IntegerIndex(view, axis, [parsed[position] for position in positions])


def _array_of(numbers: list[Any]) -> Array | None:
    if any(type(number) is Tracer for number in numbers):
        return None
    try:
        return np.asarray(numbers)
    except ValueError:  # a ragged list
        return None


def _has_ellipsis(index_parts: list[Any]) -> bool:
    return any(part is Ellipsis for part in index_parts)


def _is_index_array(part: Any) -> bool:
    return type(part) is Tracer or isinstance(part, np.ndarray)


def _parse_part(part: Any, shape: tuple[int, ...], before: list[Any]) -> list[Any] | None:
    """Convert a part of an index that follows `before`; return None for a part that is left to NumPy."""
    if part is None or part is Ellipsis or type(part) is slice:
        contains_tracer = type(part) is slice and Tracer in map(type, (part.start, part.stop, part.step))
        return None if contains_tracer else [part]
    array: Any = _array_of(part) if type(part) is list else part
    if not _is_index_array(array) or not array.ndim or not array.size:
        return None
    if array.dtype.kind in "iu":
        return [array]
    if type(array) is Tracer or array.dtype != np.bool_ or _has_ellipsis(before):
        return None
    axis = sum(each is not None for each in before)
    return list(array.nonzero()) if array.shape == shape[axis : axis + array.ndim] else None


def flat_index(trace: Any, arrays: list[Any], lengths: tuple[int, ...], axis: int) -> Any:
    """Combine indices along adjacent axes to flat indices of the merged axis."""
    if len(arrays) == 1:
        return arrays[0]
    flat: Any = 0
    each: Any
    for along, (each, length) in enumerate(zip(arrays, lengths, strict=True), axis):
        flat = flat * length + nonnegative_index(trace, each, length, along)
    return cast("Tracer", flat)


def nonnegative_index(trace: Any, indices: Any, length: int, axis: int) -> Any:
    """Convert negative indices; raise NumPy's error for an index that is out of bounds."""
    if indices.size and trace.resolved(np.max(np.maximum(indices, ~indices))) >= length:
        raise index_error_of(trace.resolved(indices), length, axis)
    return np.where(indices < 0, indices + length, indices)


def index_error_of(indices: Array, length: int, axis: int) -> IndexError:
    """Return NumPy's error for the first index that is out of bounds."""
    wrong = indices[(indices < -length) | (indices >= length)][0]
    return IndexError(f"index {wrong} is out of bounds for axis {axis} with size {length}")
