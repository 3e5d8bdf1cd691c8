"""Image filters of Dask arrays: each block is extended by a halo as wide as the window reaches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit._dask.call_arguments import CallArguments
from pycudakit._dask.images import plane_of
from pycudakit._dask.lazy_imports import dask_array


def filter_image(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Filter an image; the outer borders are handled by the mode of the filter."""
    arguments = CallArguments(function, args, kwargs)
    image, *others = args
    plane, channels = plane_of(image, arguments["channel_axis"])
    kwargs = {**kwargs, "channel_axis": channels}
    if channels is not None:  # the channels must be in one block
        image = image.rechunk({image.ndim - 1: -1})
    dtype = function(  # validates the arguments
        np.zeros((1,) * plane + (8, 8) + image.shape[plane + 2 :], image.dtype), *others, **kwargs
    ).dtype
    reach = _reach(function.__name__, others, kwargs)
    depth = {plane + axis: min(far, image.shape[plane + axis]) for axis, far in enumerate(reach)}
    wraps = kwargs.get("mode", "reflect").endswith("wrap")  # the halo at one end comes from the other
    return dask_array().map_overlap(
        _Filter(function, others, kwargs),
        image,
        depth=depth,
        boundary="periodic" if wraps else "none",
        dtype=dtype,
        meta=np.empty((0,) * image.ndim, dtype),
    )


class _Filter:
    """The filter of one extended block, as a picklable function."""

    def __init__(
        self, function: Callable[..., Any], others: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self._function, self._others, self._kwargs = function, tuple(others), dict(kwargs)
        self.__name__ = function.__name__

    def __call__(self, block: Any) -> Any:
        return self._function(block, *self._others, **self._kwargs)


def _reach(name: str, others: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, int]:
    """Return an upper bound of the window radius, in rows and in columns."""
    if name in ("sobel", "laplace"):
        return 1, 1
    if name in ("correlate", "convolve"):
        rows, columns = np.shape(others[0] if others else kwargs["weights"])
        return rows, columns
    if name == "gaussian_blur":
        sigmas = np.broadcast_to(others[0] if others else kwargs["sigma"], 2)
        radius = kwargs.get("radius")
        if radius is not None:
            rows, columns = np.broadcast_to(radius, 2)
            return int(rows), int(columns)
        rows, columns = (math.ceil(kwargs.get("truncate", 4.0) * float(s)) + 1 for s in sigmas)
        return rows, columns
    rows, columns = np.broadcast_to(others[0] if others else kwargs.get("size", 3), 2)
    return int(rows), int(columns)
