"""What an index asks for: a view, elements at some places, or those that a mask keeps."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit.fusing.memory.tracer import Tracer


def parts(index: Any) -> tuple[Any, ...]:
    """Return the parts of an index."""
    return index if type(index) is tuple else (index,)


WITH_TRACER = "with a tracer"  # true, as every string


def is_basic(index: Any) -> bool | str:
    """Tell whether an index makes a view, and whether it has a tracer's value."""
    found: bool | str = True
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind is slice:
            if type(part.start) is Tracer or type(part.stop) is Tracer or type(part.step) is Tracer:
                found = WITH_TRACER
            continue
        if kind is int or part is None or part is Ellipsis:
            continue
        if kind is bool or (kind is not Tracer and isinstance(part, (list, np.bool_))):
            return False
        if kind is Tracer or isinstance(part, np.ndarray):  # NumPy copies for one without dimensions, too
            if part.ndim or part.dtype.kind not in "iu":
                return False
            found = WITH_TRACER
        elif not hasattr(part, "__index__"):
            return False
    return found


def is_view_at(array: Array, index: Any, value: Array | None) -> bool:
    """Tell whether a value is the very elements that it is to be written to."""
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
    """Tell whether a part of an index is a mask."""
    return (type(part) is Tracer or isinstance(part, np.ndarray)) and part.dtype == np.bool_


class IntegerIndex(NamedTuple):
    """What an index of integer arrays means: a view, and the arrays, which stand for as many of its axes."""

    view: tuple[Any, ...]
    axis: int  # the first of them
    arrays: list[Any]


def parse_integer_index(index: Any, shape: tuple[int, ...]) -> IntegerIndex | None:
    """Return what an index with arrays of integers picks; None for what NumPy alone takes.

    A mask that is no tracer counts as the integers that it stands for.
    """
    given: list[Any] = []
    for part in parts(index):
        taken = _taken(part, shape, given)
        if taken is None:
            return None
        given += taken
    places = [place for place, part in enumerate(given) if _is_picking(part)]
    if not places or places[-1] - places[0] >= len(places):
        return None
    taken_up = sum(part is not None and part is not Ellipsis for part in given)
    if taken_up > len(shape) or sum(part is Ellipsis for part in given) > 1:
        return None  # which is an error
    view = tuple([slice(None) if _is_picking(part) else part for part in given])
    before = given[: places[0]]
    axis = len(before)
    if _has_ellipsis(before):
        axis += len(shape) - taken_up - 1
    return IntegerIndex(view, axis, [given[place] for place in places])


def _array_of(numbers: list[Any]) -> Array | None:
    if any(type(number) is Tracer for number in numbers):
        return None
    try:
        return np.asarray(numbers)
    except ValueError:  # it is ragged
        return None


def _has_ellipsis(given: list[Any]) -> bool:
    return any(part is Ellipsis for part in given)


def _is_picking(part: Any) -> bool:
    return type(part) is Tracer or isinstance(part, np.ndarray)


def _taken(part: Any, shape: tuple[int, ...], before: list[Any]) -> list[Any] | None:
    """Return what to take a part of an index for, behind others."""
    if part is None or part is Ellipsis or type(part) is slice:
        contains_tracer = type(part) is slice and Tracer in map(type, (part.start, part.stop, part.step))
        return None if contains_tracer else [part]
    array: Any = _array_of(part) if type(part) is list else part
    if not _is_picking(array) or not array.ndim or not array.size:
        return None
    if array.dtype.kind in "iu":
        return [array]
    if type(array) is Tracer or array.dtype != np.bool_ or _has_ellipsis(before):
        return None
    axis = sum(each is not None for each in before)
    return list(array.nonzero()) if array.shape == shape[axis : axis + array.ndim] else None


def flat_index(trace: Any, arrays: list[Any], lengths: tuple[int, ...], axis: int) -> Any:
    """Return the places of elements among those of several axes in a row, by their indices along each."""
    if len(arrays) == 1:
        return arrays[0]
    flat: Any = 0
    each: Any
    for along, (each, length) in enumerate(zip(arrays, lengths, strict=True), axis):
        flat = flat * length + nonnegative_index(trace, each, length, along)
    return cast("Tracer", flat)


def nonnegative_index(trace: Any, places: Any, length: int, axis: int) -> Any:
    """Return places that count from the first element; raise NumPy's error for those that are none."""
    if places.size and trace.resolved(np.max(np.maximum(places, ~places))) >= length:
        raise index_error_of(trace.resolved(places), length, axis)
    return np.where(places < 0, places + length, places)


def index_error_of(places: Array, length: int, axis: int) -> IndexError:
    """Return NumPy's error for the first place that is none."""
    wrong = places[(places < -length) | (places >= length)][0]
    return IndexError(f"index {wrong} is out of bounds for axis {axis} with size {length}")
