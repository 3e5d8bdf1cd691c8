"""Which axes of an array are a picture's."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

from pycudakit._values import Array

ChannelAxis = Literal["auto", -1] | None


class Shape(NamedTuple):
    """A batch of pictures: how many, and the shape of each; one channel if there is no axis of channels."""

    batch: int
    height: int
    width: int
    channels: int


def has_channels(array: Array, channel_axis: ChannelAxis) -> bool:
    """Tell whether the last axis is that of channels."""
    if isinstance(channel_axis, str) and channel_axis == "auto":
        return array.ndim >= 3 and array.shape[-1] in (3, 4)
    if channel_axis is None:
        return False
    given: Any = channel_axis
    if isinstance(given, bool) or not isinstance(given, int) or given not in (-1, array.ndim - 1):
        raise ValueError(f"channel_axis is {channel_axis!r}; choose 'auto', None or -1, the last axis")
    return True


def split(array: Array, channel_axis: ChannelAxis) -> Shape:
    """Return how many pictures an array has, and their height, width and channels.

    Under ``"auto"``, a last axis of length 3 or 4 is that of channels if there are three axes or more. All
    axes before the height's are a batch.
    """
    own = 3 if has_channels(array, channel_axis) else 2
    if array.ndim < own:
        raise ValueError(f"a picture has at least {own} dimensions here, and this array has {array.ndim}")
    height, width, channels = (*array.shape[array.ndim - own :], 1)[:3]
    return Shape(math.prod(array.shape[: array.ndim - own]), height, width, channels)
