"""Colour conversions of images: RGB to grey and back."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pycudakit._native import abi, allocator
from pycudakit._native.dtypes import FLOAT32, UINT8, Array
from pycudakit._runtime import native_call
from pycudakit._runtime.native_call import run
from pycudakit.image._arguments import UINT16, as_image, operands_of, plan_image, shape_of

# Weights of red, green and blue, and their sum.
_WEIGHTS = {"BT.601": ((299, 587, 114), 1000), "BT.709": ((2126, 7152, 722), 10000)}

# Nanoseconds per pixel, on one thread.
_NANOSECONDS = {UINT8: 0.2, UINT16: 0.5, FLOAT32: 0.7}
_REPEATED, _REPEATED_BY_NUMPY = 0.1, 1.5  # an element


def rgb_to_gray(
    image: Any,
    method: Literal["BT.601", "BT.709"] = "BT.601",
    *,
    rounding: Literal["nearest", "truncate"] = "nearest",
) -> Array:
    """Convert the image from RGB to grey: 0.299 red + 0.587 green + 0.114 blue.

    Parameters
    ----------
    image : array_like of uint8, uint16 or float32
        Red, green and blue along the last axis, in this order; a fourth channel is ignored.
    method : {"BT.601", "BT.709"}
        The weights: those above, or 0.2126, 0.7152 and 0.0722.
    rounding : {"nearest", "truncate"}
        For integers, the exact value, (299 red + 587 green + 114 blue) / 1000, is rounded to nearest even, or
        truncated as in the classic formula. Floats are summed in float64 and rounded once.

    Returns
    -------
    ndarray
        An array of the same type, without the last axis, in C order.

    See Also
    --------
    gray_to_rgb

    Examples
    --------
    >>> import pycudakit as pk
    >>> import numpy as np
    >>> image = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], np.uint8)
    >>> pk.image.rgb_to_gray(image)
    array([[ 76, 150,  29]], dtype=uint8)
    >>> pk.image.rgb_to_gray(image, "BT.709", rounding="truncate")
    array([[ 54, 182,  18]], dtype=uint8)
    """
    array = as_image("rgb_to_gray", image)
    if method not in _WEIGHTS:
        raise ValueError(f"method is {method!r}; choose 'BT.601' or 'BT.709'")
    if rounding not in ("nearest", "truncate"):
        raise ValueError(f"rounding is {rounding!r}; choose 'nearest' or 'truncate'")
    if array.ndim == 0 or array.shape[-1] not in (3, 4):
        raise ValueError(
            f"an image in colour has 3 or 4 channels along its last axis, not {array.shape[-1:]}"
        )
    weights, divisor = _WEIGHTS[method]
    out = allocator.empty(array.shape[:-1], array.dtype.newbyteorder("="))
    chosen = plan_image("rgb_to_gray", _NANOSECONDS[out.dtype] * out.size, array.nbytes, out.nbytes)
    if out.size:
        by = np.array(weights, np.int64), divisor, int(rounding == "truncate")
        run(chosen, "pk_gray", operands_of(array, out), shape_of(array), array.ndim, *by, size=array.size)
    return out


def gray_to_rgb(image: Any) -> Array:
    """Convert a grey image to RGB, with three equal channels.

    Parameters
    ----------
    image : array_like of uint8, uint16 or float32
        The grey image; it is repeated along a new last axis.

    Returns
    -------
    ndarray
        An array of the same type, with a last axis of length 3, in C order.

    See Also
    --------
    rgb_to_gray

    Examples
    --------
    >>> import pycudakit as pk
    >>> import numpy as np
    >>> pk.image.gray_to_rgb(np.array([[7, 8]], np.uint8))
    array([[[7, 7, 7],
            [8, 8, 8]]], dtype=uint8)
    """
    array = as_image("gray_to_rgb", image)
    out = allocator.empty((*array.shape, 3), array.dtype.newbyteorder("="))
    seconds = 1e-9 * _REPEATED_BY_NUMPY * out.size
    chosen = plan_image("gray_to_rgb", _REPEATED * out.size, array.nbytes, out.nbytes, seconds)
    if chosen.engine == "numpy":
        native_call.run_numpy("gray_to_rgb", chosen.reason, lambda: np.copyto(out, array[..., np.newaxis]))
    elif out.size:
        # A resize by "nearest" of one channel to three times the width.
        source = (array if array.ndim > 1 else np.atleast_2d(array))[..., np.newaxis]
        height, width = source.shape[-3:-1]
        arguments = shape_of(source), source.ndim, height, 3 * width, abi.RESIZE_NEAREST
        run(chosen, "pk_resize", operands_of(source, out), *arguments, size=out.size)
    return out
