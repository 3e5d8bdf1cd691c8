"""Images that are Dask arrays: their pixels, how they lie, and batches of whole ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._dask.call_arguments import Asked, Function, OfBlocks
from pycudakit._dask.lazy_imports import dask_array
from pycudakit.image._axes import has_channels, inside


def plane_of(image: Any, channel_axis: Any) -> tuple[int, int | None]:
    """Return the axis of an image's rows, and that of its channels, which a block's length would not tell."""
    small = np.zeros((2,) * (image.ndim - 1) + image.shape[-1:], np.uint8)
    channels = has_channels(small, channel_axis)
    return image.ndim - 2 - channels, -1 if channels else None


def of_pixels(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what becomes of each pixel by itself, or of a batch's images where they must be known."""
    asked = Asked(function, args, kwargs)
    name, image = asked.title, args[0]
    if name == "gray_to_rgb":
        return _of_blocks(OfBlocks(function, args, kwargs), image, image.ndim)
    if name == "rgb_to_gray":
        return _of_blocks(OfBlocks(function, args, kwargs), image.rechunk({-1: -1}), image.ndim - 1)
    plane, channels = plane_of(image, asked["channel_axis"])
    given = ("value",) if name == "threshold" else ("mean", "std")
    if all(asked[each] is None or asked[each] == "otsu" for each in given):  # which takes the whole image
        return of_images(function, args, kwargs)
    if channels is not None:
        image = image.rechunk({-1: -1})
    kwargs = {**kwargs, "channel_axis": channels}
    return _of_blocks(OfBlocks(function, (image, *args[1:]), kwargs), image, plane + 2)


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


def of_images(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what becomes of each image of a batch, which is made to lie in one block."""
    asked = Asked(function, args, kwargs)
    image = args[0]
    plane, channels = plane_of(image, asked["channel_axis"])
    if plane == 0 and max(image.numblocks) > 1:
        raise errors.Unsupported(
            f"image.{asked.title} of a Dask array needs whole images: give a batch of them, "
            "x[np.newaxis] for one, or x.rechunk(-1)"
        )
    asked.check_sizes(image[(0,) * plane] if plane else image)
    image = image.rechunk(dict.fromkeys(range(plane, image.ndim), -1))
    compute = OfBlocks(function, (image, *args[1:]), {**kwargs, "channel_axis": channels})
    return _of_blocks(compute, image, plane)


def flip(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return images mirrored."""
    asked = Asked(function, args, kwargs)
    plane, _ = plane_of(args[0], asked["channel_axis"])
    axis = asked["axis"]
    _try(function, args, kwargs)
    return dask_array().flip(args[0], (plane, plane + 1) if axis is None else plane + axis)


def rotate90(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return images turned by quarters."""
    asked = Asked(function, args, kwargs)
    plane, _ = plane_of(args[0], asked["channel_axis"])
    _try(function, args, kwargs)
    return dask_array().rot90(args[0], asked["k"], (plane, plane + 1))


def crop(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a part of images."""
    asked = Asked(function, args, kwargs)
    asked.check_sizes(args[0])
    plane, _ = plane_of(args[0], asked["channel_axis"])
    return args[0][
        inside(args[0].shape, plane, *(asked[each] for each in ("top", "left", "height", "width")))
    ]


def _try(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Have the function refuse what it refuses of small arrays."""
    shape = (2,) * (args[0].ndim - 1) + args[0].shape[-1:]
    function(np.zeros(shape, args[0].dtype), *args[1:], **kwargs)
