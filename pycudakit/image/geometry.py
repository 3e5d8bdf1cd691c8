"""Geometric transforms of images: resizing, rotation by 90 degrees, flips and crops."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._families.elementwise.manipulation import contiguous_copy, copy_function
from pycudakit._native import abi, allocator
from pycudakit._native.dtypes import Array
from pycudakit._runtime.native_call import run
from pycudakit.image._arguments import ChannelAxis, as_image, operands_of, plan_image, shape_of
from pycudakit.image._axes import checked_crop, has_channels, split

_METHODS = {"nearest": abi.RESIZE_NEAREST, "bilinear": abi.RESIZE_BILINEAR, "area": abi.RESIZE_AREA}
# Nanoseconds per element that is read, and per element that is written, on one thread.
_NANOSECONDS = {"nearest": (0.0, 0.7), "bilinear": (0.0, 2.5), "area": (0.6, 1.3)}
# Seconds on the GPU: fixed, and per uploaded byte, as the upload overlaps with nothing else.
_GPU, _GPU_UPLOAD = 1e-3, 1 / 50e9


def resize(
    image: Any,
    shape: tuple[int, int],
    method: Literal["nearest", "bilinear", "area"] = "bilinear",
    *,
    channel_axis: ChannelAxis = "auto",
) -> Array:
    """Resize the image.

    Pixels are adjacent squares, and the outer edges of the two images coincide: the centre of pixel ``i`` of
    ``m`` is at ``(i + 0.5) * n / m - 0.5`` among the ``n`` old ones, as in OpenCV and scikit-image.

    Parameters
    ----------
    image : array_like of uint8, uint16 or float32
        An image, or a batch of them.
    shape : (int, int)
        The new height and width.
    method : {"nearest", "bilinear", "area"}
        ``"nearest"`` takes the old pixel that contains the centre of a new one (on an edge, the later one);
        ``"bilinear"`` the weighted mean of the two by two pixels around it, repeating the border; and
        ``"area"`` the mean over the area of a new pixel, which is best for smaller images.
    channel_axis : {"auto", None, -1}
        Whether the last axis is that of channels: with ``"auto"``, if an array of three dimensions or more
        has 3 or 4 elements along it. All axes before the height's are a batch.

    Returns
    -------
    ndarray
        An array of the same type, in C order, computed in float64 and rounded once; integers to nearest even.

    See Also
    --------
    crop

    Examples
    --------
    >>> import pycudakit as pk
    >>> import numpy as np
    >>> image = np.array([[0, 100], [100, 200]], np.uint8)
    >>> pk.image.resize(image, (2, 4))
    array([[  0,  25,  75, 100],
           [100, 125, 175, 200]], dtype=uint8)
    >>> pk.image.resize(image, (1, 1), "area")
    array([[100]], dtype=uint8)
    """
    array = as_image("resize", image)
    if method not in _METHODS:
        raise ValueError(f"method is {method!r}; choose 'nearest', 'bilinear' or 'area'")
    height, width = (operator.index(side) for side in shape)
    if height < 0 or width < 0:
        raise ValueError(f"an image cannot be {height} x {width}")
    _, *old, channels = split(array, channel_axis)
    source = array if has_channels(array, channel_axis) else array[..., np.newaxis]
    new_shape = (*source.shape[:-3], height, width, channels)
    out = allocator.empty(new_shape, array.dtype.newbyteorder("="))
    if out.size and not array.size:
        raise ValueError(f"an image of {old[0]} x {old[1]} has no pixels to resize")
    read, written = _NANOSECONDS[method]
    work, gpu = read * array.size + written * out.size, _GPU + _GPU_UPLOAD * array.nbytes
    chosen = plan_image("resize", work, array.nbytes, out.nbytes, gpu=gpu)
    if out.size:
        arguments = shape_of(source), source.ndim, height, width, _METHODS[method]
        run(chosen, "pk_resize", operands_of(source, out), *arguments, size=out.size)
    return out if source is array else out[..., 0]


# ---- Copies -----------------------------------------------------------------------------------------


_FLIP, _ROTATE, _CROP = (
    copy_function("flip", np.flip),
    copy_function("rotate90", np.rot90),
    copy_function("crop", np.copy),
)


def _copied(function: ElementFunction, image: Any, view_of: Callable[[Array], Array]) -> Any:
    return contiguous_copy(function, image, lambda array: view_of(np.asanyarray(array)))


def _height_axis(array: Array, channel_axis: ChannelAxis) -> int:
    return array.ndim - (3 if has_channels(array, channel_axis) else 2)


def flip(image: Any, axis: int | None = 1, *, channel_axis: ChannelAxis = "auto") -> Any:
    """Flip the image horizontally or vertically.

    Parameters
    ----------
    image : array_like
        An image, or a batch of them.
    axis : {1, 0, None}
        1 swaps left and right, 0 top and bottom, None both.
    channel_axis : {"auto", None, -1}
        As for `resize`.

    Returns
    -------
    ndarray
        A copy.

    See Also
    --------
    rotate90, pycudakit.flip

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.image.flip([[1, 2], [3, 4]])
    array([[2, 1],
           [4, 3]])
    """
    if axis not in (0, 1, None) or isinstance(axis, bool):
        raise ValueError(f"axis is {axis!r}; choose 1 (left and right), 0 (top and bottom) or None (both)")

    def view_of(array: Array) -> Array:
        first = _height_axis(array, channel_axis)
        return np.flip(array, (first, first + 1) if axis is None else first + axis)

    return _copied(_FLIP, image, view_of)


def rotate90(image: Any, k: int = 1, *, channel_axis: ChannelAxis = "auto") -> Any:
    """Rotate the image by multiples of 90 degrees, anticlockwise, as `numpy.rot90`.

    Parameters
    ----------
    image : array_like
        An image, or a batch of them.
    k : int
        The number of rotations; clockwise if negative.
    channel_axis : {"auto", None, -1}
        As for `resize`.

    Returns
    -------
    ndarray
        A copy.

    See Also
    --------
    flip

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.image.rotate90([[1, 2], [3, 4]])
    array([[2, 4],
           [1, 3]])
    """
    quarters = operator.index(k)

    def view_of(array: Array) -> Array:
        first = _height_axis(array, channel_axis)
        return np.rot90(array, quarters, (first, first + 1))

    return _copied(_ROTATE, image, view_of)


def crop(
    image: Any, top: int, left: int, height: int, width: int, *, channel_axis: ChannelAxis = "auto"
) -> Any:
    """Return a copy of a rectangle of the image.

    Parameters
    ----------
    image : array_like
        An image, or a batch of them.
    top, left, height, width : int
        The first row and column, and the size; all must be inside the image.
    channel_axis : {"auto", None, -1}
        As for `resize`.

    Returns
    -------
    ndarray
        A copy of the rectangle.

    See Also
    --------
    resize

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.image.crop([[1, 2, 3], [4, 5, 6]], 0, 1, 2, 2)
    array([[2, 3],
           [5, 6]])
    """

    def view_of(array: Array) -> Array:
        return array[checked_crop(array.shape, _height_axis(array, channel_axis), top, left, height, width)]

    return _copied(_CROP, image, view_of)
