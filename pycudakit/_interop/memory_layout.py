"""The memory of a strided array: contiguous strides, extent, overlap. Extents are half-open byte ranges."""

from __future__ import annotations

from collections.abc import Sequence

Extent = tuple[int, int]


def contiguous_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides of a C-contiguous array."""
    strides, step = [], itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def extent(shape: Sequence[int], strides: Sequence[int], itemsize: int, address: int = 0) -> Extent:
    """Return the first byte of an array's memory, and the byte behind its last; both are 0 if it is empty.

    `address` is that of the first element, which is not the lowest one if a stride is negative.
    """
    first = last = address
    for size, stride in zip(shape, strides, strict=True):
        if size == 0:
            return 0, 0
        if stride < 0:
            first += (size - 1) * stride
        else:
            last += (size - 1) * stride
    return first, last + itemsize


def overlap(one: Extent, other: Extent) -> bool:
    """Return True if two extents have a byte in common."""
    return one[0] < other[1] and other[0] < one[1]
