"""The axes of an image in an array: batch, height, width and channels."""

from __future__ import annotations

import math
import operator
from typing import Any

from pycudakit._native.dtypes import Array


def has_channels(array: Array, channel_axis: Any = "auto") -> bool:
    """Return True if the last axis is channels; raise if the array is not an image."""
    if channel_axis not in ("auto", None, -1):
        raise ValueError(f"channel_axis must be 'auto', None or -1, not {channel_axis!r}")
    automatic = channel_axis == "auto" and array.ndim >= 3 and array.shape[-1] in (3, 4)
    has_channel_axis: bool = automatic or channel_axis == -1
    if array.ndim < 2 + has_channel_axis:
        axes = "rows, columns and channels" if has_channel_axis else "rows and columns"
        raise ValueError(f"an image has {axes}, but this array has {array.ndim} dimensions")
    return has_channel_axis


def split(array: Array, channel_axis: Any = "auto") -> tuple[int, int, int, int]:
    """Return the number of images in an array, and their height, width and channels.

    An array of two dimensions is a grey image. In arrays of more, a last axis of length 3 or 4 is channels,
    and the axes before an image's are a batch. `channel_axis` None means no channels, -1 the last axis.
    """
    channels = array.shape[-1:] if has_channels(array, channel_axis) else ()
    plane = array.ndim - 2 - len(channels)
    height, width = array.shape[plane : plane + 2]
    return math.prod(array.shape[:plane]), height, width, math.prod(channels)


def checked_crop(
    shape: tuple[int, ...], first: int, top: int, left: int, height: int, width: int
) -> tuple[slice, ...]:
    """Return the slices that crop images whose rows are axis `first`; raise if they are not inside."""
    row, column, rows, columns = (operator.index(n) for n in (top, left, height, width))
    for start, count, size in ((row, rows, shape[first]), (column, columns, shape[first + 1])):
        if start < 0 or count < 0 or start + count > size:
            whole, part = f"{shape[first]} x {shape[first + 1]}", f"{rows} x {columns} at ({row}, {column})"
            raise ValueError(f"{part} is not inside the image of {whole}")
    return (*(slice(None),) * first, slice(row, row + rows), slice(column, column + columns))
