"""Which axes of an array are an image's."""

from __future__ import annotations

import math
import operator
from typing import Any

from pycudakit._native.dtypes import Array


def has_channels(array: Array, channel_axis: Any = "auto") -> bool:
    """Tell whether the last axis is channels; refuse what is no image."""
    if channel_axis not in ("auto", None, -1):
        raise ValueError(f"channel_axis is 'auto', None or -1, not {channel_axis!r}")
    automatic = channel_axis == "auto" and array.ndim >= 3 and array.shape[-1] in (3, 4)
    found: bool = automatic or channel_axis == -1
    if array.ndim < 2 + found:
        axes = "rows, columns and channels" if found else "rows and columns"
        raise ValueError(f"an image has {axes}, and this array {array.ndim} dimensions")
    return found


def split(array: Array, channel_axis: Any = "auto") -> tuple[int, int, int, int]:
    """Return how many images an array holds, and their height, width and channels.

    An array of two dimensions is a grey image. Of more, the last axis is channels if there are 3 or 4 of
    them, and the axes before an image's are a batch. `channel_axis` None means no channels, -1 the last axis.
    """
    channels = array.shape[-1:] if has_channels(array, channel_axis) else ()
    plane = array.ndim - 2 - len(channels)
    height, width = array.shape[plane : plane + 2]
    return math.prod(array.shape[:plane]), height, width, math.prod(channels)


def checked_crop(
    shape: tuple[int, ...], first: int, top: int, left: int, height: int, width: int
) -> tuple[slice, ...]:
    """Return the part of images whose rows are this axis; refuse one that is not inside them."""
    row, column, rows, columns = (operator.index(n) for n in (top, left, height, width))
    for start, count, size in ((row, rows, shape[first]), (column, columns, shape[first + 1])):
        if start < 0 or count < 0 or start + count > size:
            whole, part = f"{shape[first]} x {shape[first + 1]}", f"{rows} x {columns} at ({row}, {column})"
            raise ValueError(f"{part} is not inside the image of {whole}")
    return (*(slice(None),) * first, slice(row, row + rows), slice(column, column + columns))
