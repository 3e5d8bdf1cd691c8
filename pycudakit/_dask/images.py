"""Images that are Dask arrays: their pixels, how they lie, and batches of whole ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._dask.call_arguments import BlockFunction, CallArguments, Function
from pycudakit._dask.lazy_imports import dask_array
from pycudakit.image._axes import checked_crop, has_channels


def plane_of(image: Any, channel_axis: Any) -> tuple[int, int | None]:
    """Return the axis of an image's rows, and that of its channels, which a block's length would not tell."""
    small = np.zeros((2,) * (image.ndim - 1) + image.shape[-1:], np.uint8)
    channels = has_channels(small, channel_axis)
    return image.ndim - 2 - channels, -1 if channels else None


def per_pixel(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what becomes of each pixel by itself, or of a batch's images where they must be known."""
    arguments = CallArguments(function, args, kwargs)
    name, image = arguments.title, args[0]
    if name == "gray_to_rgb":
        return _of_blocks(BlockFunction(function, args, kwargs), image, image.ndim)
    if name == "rgb_to_gray":
        return _of_blocks(BlockFunction(function, args, kwargs), image.rechunk({-1: -1}), image.ndim - 1)
    plane, channels = plane_of(image, arguments["channel_axis"])
    given = ("value",) if name == "threshold" else ("mean", "std")
    if all(
        arguments[each] is None or arguments[each] == "otsu" for each in given
    ):  # which takes the whole image
        return whole_images(function, args, kwargs)
    if channels is not None:
        image = image.rechunk({-1: -1})
    kwargs = {**kwargs, "channel_axis": channels}
    return _of_blocks(BlockFunction(function, (image, *args[1:]), kwargs), image, plane + 2)


def _of_blocks(compute: Function, image: Any, kept: int) -> Any:
    """Return what a function makes of blocks, which keep the lengths of the first axes."""
    one = compute(np.zeros((*(1,) * kept, *image.shape[kept:]), image.dtype))
    rest = tuple((n,) for n in one.shape[kept:])
    return image.map_blocks(
        compute,
        drop_axis=list(range(kept, image.ndim)),
        new_axis=list(range(kept, one.ndim)),
        chunks=(*image.chunks[:kept], *rest),
        dtype=one.dtype,
        meta=np.empty((0,) * one.ndim, one.dtype),
    )


def whole_images(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what becomes of each image of a batch, which is made to lie in one block."""
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
    """Return images mirrored."""
    arguments = CallArguments(function, args, kwargs)
    plane, _ = plane_of(args[0], arguments["channel_axis"])
    axis = arguments["axis"]
    _try(function, args, kwargs)
    return dask_array().flip(args[0], (plane, plane + 1) if axis is None else plane + axis)


def rotate90(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return images turned by quarters."""
    arguments = CallArguments(function, args, kwargs)
    plane, _ = plane_of(args[0], arguments["channel_axis"])
    _try(function, args, kwargs)
    return dask_array().rot90(args[0], arguments["k"], (plane, plane + 1))


def crop(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a part of images."""
    arguments = CallArguments(function, args, kwargs)
    arguments.check_sizes(args[0])
    plane, _ = plane_of(args[0], arguments["channel_axis"])
    return args[0][
        checked_crop(args[0].shape, plane, *(arguments[each] for each in ("top", "left", "height", "width")))
    ]


def _try(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Have the function refuse what it refuses of small arrays."""
    shape = (2,) * (args[0].ndim - 1) + args[0].shape[-1:]
    function(np.zeros(shape, args[0].dtype), *args[1:], **kwargs)
