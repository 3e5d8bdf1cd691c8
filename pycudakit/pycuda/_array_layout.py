"""The layout of arrays: strides, contiguity, indexing."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Strides = tuple[int, ...]


class ArrayFlags(NamedTuple):
    """Whether an array has no gaps, in C's or in Fortran's order."""

    c_contiguous: bool
    f_contiguous: bool

    @property
    def forc(self) -> bool:
        """Whether it is contiguous in either order."""
        return self.c_contiguous or self.f_contiguous


def lengths_of(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple of integers."""
    if isinstance(shape, np.ndarray) and shape.ndim == 0:
        shape = shape.item()
    try:
        lengths: tuple[int, ...] = (operator.index(shape),)
    except TypeError:
        lengths = tuple(map(operator.index, shape))
    if min(lengths, default=0) < 0:
        raise ValueError(f"shape is {shape!r}; sizes are not negative")
    return lengths


def contiguous_strides(itemsize: int, shape: Sequence[int], order: str = "C") -> Strides:
    """Return the strides of an array without gaps."""
    if order not in ("C", "F"):
        raise ValueError(f"invalid order: {order!r}; it is 'C' or 'F'")
    if len(shape) == 1:
        return (itemsize,)
    lengths = shape[:0:-1] if order == "C" else shape[:-1]
    strides = [itemsize]
    for length in lengths:
        strides.append(strides[-1] * length)
    strides = strides[: len(shape)]
    return tuple(reversed(strides) if order == "C" else strides)


def flags_of(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> ArrayFlags:
    """Return the flags of a layout; as in NumPy, axes of one element may have any stride."""
    if 0 in shape:
        return ArrayFlags(c_contiguous=True, f_contiguous=True)

    def is_contiguous(order: str) -> bool:
        return have_same_strides(shape, strides, contiguous_strides(itemsize, shape, order))

    return ArrayFlags(is_contiguous("C"), is_contiguous("F"))


def have_same_strides(shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> bool:
    """Return whether strides reach the same elements; those of axes of one element do not matter."""
    return all(
        stride == each or length == 1 for stride, each, length in zip(strides, wanted, shape, strict=True)
    )


def compact_strides(array: Any, itemsize: int | None = None) -> Strides:
    """Return the strides of an array without gaps whose axes are in the same order in memory.

    The items may be of another size than the array's.
    """
    strides = [0] * len(array.shape)
    stride = array.dtype.itemsize if itemsize is None else itemsize
    for axis in sorted(range(len(strides)), key=lambda axis: (abs(array.strides[axis]), array.shape[axis])):
        strides[axis] = stride
        stride *= array.shape[axis]
    return tuple(strides)


def check_reach(nbytes: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]) -> None:
    """Raise unless all elements of a layout are within its first `nbytes` bytes."""
    if len(strides) != len(shape):
        raise ValueError(f"{len(strides)} strides are given for {len(shape)} axes")
    if not nbytes:
        return
    reach = sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    is_reversed = any(stride < 0 < length - 1 for length, stride in zip(shape, strides, strict=True))
    if is_reversed or reach + itemsize > nbytes:
        raise ValueError(
            f"strides {tuple(strides)} leave the {nbytes} bytes of new memory: give gpudata that has room"
        )


def is_compact(array: Any) -> bool:
    """Return True if an array has no gaps, its axes in any order."""
    return array.size == 0 or have_same_strides(array.shape, array.strides, compact_strides(array))


def reshaped(shape: Sequence[Any], size: int) -> tuple[int, ...]:
    """Return a new shape for `size` elements; one length may be -1."""
    lengths = list(map(operator.index, shape))
    if lengths.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    if -1 in lengths:
        known = -math.prod(lengths)
        lengths[lengths.index(-1)] = size // known if known else 0
    if math.prod(lengths) != size or min(lengths, default=0) < 0:
        raise ValueError(f"total size of new array must be unchanged: {size} elements, and shape {shape}")
    return tuple(lengths)


def indexed(index: Any, shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], Strides, int]:
    """Return the shape, the strides and the offset in bytes of the view that basic indexing selects."""
    entries = list(index) if isinstance(index, tuple) else [index]
    ellipses = [place for place, entry in enumerate(entries) if entry is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("more than one ellipsis not allowed in index")
    named = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if named > len(shape):
        raise IndexError(f"too many axes in index: the array has {len(shape)}, and {named} are given")
    place = ellipses[0] if ellipses else len(entries)
    entries[place : place + 1] = [slice(None)] * (len(shape) - named)
    lengths, steps, offset, axis = [], [], 0, 0
    for entry in entries:
        if entry is None:
            lengths.append(1)
            steps.append(0)
            continue
        length, stride = shape[axis], strides[axis]
        if isinstance(entry, slice):
            chosen = range(*entry.indices(length))
            lengths.append(len(chosen))
            steps.append(stride * chosen.step)
            offset += stride * chosen.start if chosen else 0
        else:
            try:
                number = operator.index(entry)
            except TypeError:
                raise IndexError(f"invalid subindex in axis {axis}: {entry!r}") from None
            if not -length <= number < length:
                raise IndexError(f"subindex in axis {axis} out of range: {number} of {length}")
            offset += stride * (number % length)
        axis += 1
    return tuple(lengths), tuple(steps), offset
