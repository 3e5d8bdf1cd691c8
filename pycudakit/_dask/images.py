"""Image functions of Dask arrays: per pixel, per whole image of a batch, and flips, rotations and crops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._dask.call_arguments import BlockFunction, CallArguments, Function
from pycudakit._dask.lazy_imports import dask_array
from pycudakit.image._axes import checked_crop, has_channels


def plane_of(image: Any, channel_axis: Any) -> tuple[int, int | None]:
    """Return the axis of the rows and that of the channels (or None), from the whole image.

    The length of a block along the last axis would not tell whether it holds channels.
    """
    small = np.zeros((2,) * (image.ndim - 1) + image.shape[-1:], np.uint8)
    channels = has_channels(small, channel_axis)
    return image.ndim - 2 - channels, -1 if channels else None


def per_pixel(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute a function of each pixel, block by block; by whole images if it needs their statistics."""
    arguments = CallArguments(function, args, kwargs)
    name, image = arguments.title, args[0]
    if name == "gray_to_rgb":
        return _of_blocks(BlockFunction(function, args, kwargs), image, image.ndim)
    if name == "rgb_to_gray":
        return _of_blocks(BlockFunction(function, args, kwargs), image.rechunk({-1: -1}), image.ndim - 1)
    plane, channels = plane_of(image, arguments["channel_axis"])
    statistics = ("value",) if name == "threshold" else ("mean", "std")
    if all(
        arguments[each] is None or arguments[each] == "otsu" for each in statistics
    ):  # statistics of the whole image
        return whole_images(function, args, kwargs)
    if channels is not None:
        image = image.rechunk({-1: -1})
    kwargs = {**kwargs, "channel_axis": channels}
    return _of_blocks(BlockFunction(function, (image, *args[1:]), kwargs), image, plane + 2)


def _of_blocks(compute: Function, image: Any, kept: int) -> Any:
    """Apply a function to each block; the first `kept` axes keep their lengths."""
    sample_result = compute(np.zeros((*(1,) * kept, *image.shape[kept:]), image.dtype))
    rest = tuple((n,) for n in sample_result.shape[kept:])
    return image.map_blocks(
        compute,
        drop_axis=list(range(kept, image.ndim)),
        new_axis=list(range(kept, sample_result.ndim)),
        chunks=(*image.chunks[:kept], *rest),
        dtype=sample_result.dtype,
        meta=np.empty((0,) * sample_result.ndim, sample_result.dtype),
    )


def whole_images(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Apply a function to each image of a batch, rechunked so that an image is in one block."""
    arguments = CallArguments(function, args, kwargs)
    image = args[0]
    plane, channels = plane_of(image, arguments["channel_axis"])
    if plane == 0 and max(image.numblocks) > 1:
        raise errors.Unsupported(
            f"image.{arguments.title} of a Dask array needs whole images: give a batch of them, "
            "x[np.newaxis] for one, or x.rechunk(-1)"
        )
    arguments.check_sizes(image[(0,) * plane] if plane else image)
    image = image.rechunk(dict.fromkeys(range(plane, image.ndim), -1))
    compute = BlockFunction(function, (image, *args[1:]), {**kwargs, "channel_axis": channels})
    return _of_blocks(compute, image, plane)


def flip(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Mirror images."""
    arguments = CallArguments(function, args, kwargs)
    plane, _ = plane_of(args[0], arguments["channel_axis"])
    axis = arguments["axis"]
    _try(function, args, kwargs)
    return dask_array().flip(args[0], (plane, plane + 1) if axis is None else plane + axis)


def rotate90(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Rotate images by multiples of 90 degrees."""
    arguments = CallArguments(function, args, kwargs)
    plane, _ = plane_of(args[0], arguments["channel_axis"])
    _try(function, args, kwargs)
    return dask_array().rot90(args[0], arguments["k"], (plane, plane + 1))


def crop(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Cut a rectangle out of images."""
    arguments = CallArguments(function, args, kwargs)
    arguments.check_sizes(args[0])
    plane, _ = plane_of(args[0], arguments["channel_axis"])
    return args[0][
        checked_crop(args[0].shape, plane, *(arguments[each] for each in ("top", "left", "height", "width")))
    ]


def _try(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Call the function with a small array, so that it raises for invalid arguments."""
    shape = (2,) * (args[0].ndim - 1) + args[0].shape[-1:]
    function(np.zeros(shape, args[0].dtype), *args[1:], **kwargs)
