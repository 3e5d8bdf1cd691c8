"""Intensity transforms of images: thresholds, histogram equalization and normalization."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from pycudakit._families.elementwise.manipulation import copy_function, copy_into, dense
from pycudakit._families.expression.evaluate import evaluate
from pycudakit._families.histogram import binning
from pycudakit._families.histogram.histogram import histogram
from pycudakit._families.reduce import min_max
from pycudakit._native import allocator
from pycudakit._native.dtypes import FLOAT32, FLOAT64, UINT8, Array, DType
from pycudakit._runtime import native_call
from pycudakit._runtime.native_call import run
from pycudakit._runtime.public_function import public_function
from pycudakit.image._arguments import UINT16, ChannelAxis, as_image, operands_of, plan_image, shape_of
from pycudakit.image._axes import has_channels

_PLANES = copy_function("equalize_histogram", np.copy)
# Nanoseconds per element: NumPy's, and the CPU engine's on one thread.
_COUNTED, _LOOKED_UP = (1.3, 0.3), (1.5, 0.4)


def _levels(dtype: DType) -> int:
    return int(np.iinfo(dtype).max) + 1


def _counts(function: str, values: Array) -> Array:
    """Count how often each value of an integer type occurs."""
    levels = _levels(values.dtype)
    numpy, ours = (1e-9 * each * values.size for each in _COUNTED)
    chosen = plan_image(function, 1e9 * ours, values.nbytes, 0, numpy)
    if chosen.engine == "numpy":
        counts = native_call.run_numpy(
            function, chosen.reason, lambda: np.bincount(values.ravel(), minlength=levels)
        )
    else:
        counts = binning.count(chosen, [values], [binning.integer_bins(levels)])[:levels]
    result: Array = counts
    return result


def _look_up(function: str, values: Array, table: Array, out: Array) -> None:
    """Write the table's element for each value to `out`."""
    numpy, ours = (1e-9 * each * values.size for each in _LOOKED_UP)
    chosen = plan_image(function, 1e9 * ours, values.nbytes, out.nbytes, numpy)
    if chosen.engine == "numpy":
        native_call.run_numpy(
            function, chosen.reason, lambda: np.copyto(out, table[values], casting="unsafe")
        )
        return
    arguments = operands_of(values, out), shape_of(values), values.ndim, table, len(table)
    run(chosen, "pk_lookup", *arguments, size=values.size)


def _image_axes(array: Array, channel_axis: ChannelAxis) -> tuple[int, ...]:
    """Return the axes of one image, including its channels."""
    return tuple(range(-3 if has_channels(array, channel_axis) else -2, 0))


@public_function(one_call="threshold_otsu")
def threshold_otsu(image: Any, nbins: int = 256, *, channel_axis: ChannelAxis = "auto") -> np.generic | Array:
    """Return Otsu's threshold, which maximizes the variance between the two classes of pixels.

    It is that of scikit-image's `threshold_otsu`, the first of several, with sums in float64. Pixels above it
    are one class, all others the other. All channels count alike.

    Parameters
    ----------
    image : array_like of uint8, uint16 or float32
        An image, or a batch of them.
    nbins : int
        For floats, the number of bins of the histogram from the least to the greatest value. For integers,
        each value has its own bin.
    channel_axis : {"auto", None, -1}
        As for `resize`.

    Returns
    -------
    scalar or ndarray
        An integer of the image's type, or the centre of a bin; for a batch, one for each image. If all
        pixels are equal, their value.

    See Also
    --------
    threshold

    Examples
    --------
    >>> import pycudakit as pk
    >>> import numpy as np
    >>> int(pk.image.threshold_otsu(np.array([[10, 12, 11], [200, 210, 205]], np.uint8)))
    12
    """
    array = as_image("threshold_otsu", image)
    batch = array.shape[: array.ndim - len(_image_axes(array, channel_axis))]
    if not array.size:
        raise ValueError("an image without pixels has no threshold")
    thresholds = np.empty(batch, array.dtype.newbyteorder("="))
    for index in np.ndindex(batch):
        thresholds[index] = _otsu(array[index], nbins)
    return thresholds if batch else thresholds[()]


def _otsu(image: Array, nbins: int) -> Any:
    if image.dtype.kind == "u":
        counts = _counts("threshold_otsu", image)
        present = np.flatnonzero(counts)
        centres = np.arange(present[0], present[-1] + 1)
        counts = counts[present[0] : present[-1] + 1]
    else:
        least = min_max.min(image)
        if least == min_max.max(image):
            return least
        counts, edges = histogram(image, nbins)
        centres = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts, dtype=FLOAT64)
    above = np.cumsum(counts[::-1], dtype=FLOAT64)[::-1]
    mean_below = np.cumsum(counts * centres, dtype=FLOAT64) / below
    mean_above = np.cumsum((counts * centres)[::-1], dtype=FLOAT64)[::-1] / above
    between = below[:-1] * above[1:] * (mean_below[:-1] - mean_above[1:]) ** 2
    return centres[np.argmax(between)] if len(between) else centres[0]


@public_function(one_call="threshold")
def threshold(
    image: Any,
    value: float | Literal["otsu"] = "otsu",
    *,
    high: float | None = None,
    channel_axis: ChannelAxis = "auto",
) -> Array:
    """Convert the image to two intensities: `high` where it exceeds a value, and 0 elsewhere.

    Parameters
    ----------
    image : array_like of uint8, uint16 or float32
        An image, or a batch of them.
    value : float or "otsu"
        The threshold; ``"otsu"`` takes each image's `threshold_otsu`.
    high : float, optional
        The intensity above the threshold; by default the greatest of an integer type, and 1 for floats.
    channel_axis : {"auto", None, -1}
        As for `resize`.

    Returns
    -------
    ndarray
        An array of the same shape and type, in C order.

    See Also
    --------
    threshold_otsu

    Examples
    --------
    >>> import pycudakit as pk
    >>> import numpy as np
    >>> pk.image.threshold(np.array([[100, 101, 102]], np.uint8), 100.5)
    array([[  0, 255, 255]], dtype=uint8)
    """
    array = as_image("threshold", image)
    axes = _image_axes(array, channel_axis)
    dtype = array.dtype.newbyteorder("=")
    if high is None:
        high = 1.0 if dtype == FLOAT32 else _levels(dtype) - 1
    limit: Any = value
    if isinstance(value, str):
        if value != "otsu":
            raise ValueError(f"value is {value!r}; choose a number or 'otsu'")
        limit = np.asarray(threshold_otsu(array, channel_axis=channel_axis)) if array.size else dtype.type(0)
        limit = np.expand_dims(limit, axes) if np.ndim(limit) else limit
    elif dtype.kind == "u":
        limit = float(value)
        limit = math.floor(limit) if math.isfinite(limit) else limit  # the same integers exceed it
    two = {"x": array, "limit": limit, "high": dtype.type(high), "low": dtype.type(0)}
    out = allocator.empty(array.shape, dtype)
    evaluate("where(x > limit, high, low)", two, out=out)
    return out


@public_function(one_call="equalize_histogram")
def equalize_histogram(image: Any, *, channel_axis: ChannelAxis = "auto") -> Array:
    """Equalize the histogram, so that every intensity is about equally frequent.

    A value becomes ``(c - c0) / (n - c0) * most``, rounded to nearest even: `c` of the `n` pixels do not
    exceed it, `c0` of them have the least value, and `most` is the greatest value of the type. An image of
    equal pixels does not change. Each channel of each image is equalized separately.

    Parameters
    ----------
    image : array_like of uint8 or uint16
        An image, or a batch of them.
    channel_axis : {"auto", None, -1}
        As for `resize`.

    Returns
    -------
    ndarray
        An array of the same shape and type, in C order.

    See Also
    --------
    normalize

    Examples
    --------
    >>> import pycudakit as pk
    >>> import numpy as np
    >>> pk.image.equalize_histogram(np.array([[50, 51], [52, 53]], np.uint8))
    array([[  0,  85],
           [170, 255]], dtype=uint8)
    """
    array = as_image("equalize_histogram", image, (UINT8, UINT16))
    axes = _image_axes(array, channel_axis)
    out = allocator.empty(array.shape, array.dtype.newbyteorder("="))
    planes = (array[..., np.newaxis], out[..., np.newaxis]) if len(axes) == 2 else (array, out)
    sources, results = (np.moveaxis(plane, -1, 0) for plane in planes)
    if not array.size:
        return out
    is_moved = len(axes) == 3 and allocator.may_be_on_device()  # device-resident planes must be contiguous
    if is_moved:
        sources, results = dense(_PLANES, sources), allocator.empty(results.shape, out.dtype)
    for index in np.ndindex(sources.shape[:-2]):
        counts = _counts("equalize_histogram", sources[index])
        _look_up("equalize_histogram", sources[index], _equalizing(counts), results[index])
    if is_moved:
        copy_into(_PLANES, np.moveaxis(results, 0, -1), out)
    return out


def _equalizing(counts: Array) -> Array:
    """Return the lookup table that equalizes a histogram."""
    most = len(counts) - 1
    not_above = np.cumsum(counts)
    least = counts[np.flatnonzero(counts)[0]]
    others = int(not_above[-1] - least)
    if others == 0:
        return np.arange(most + 1, dtype=np.uint16)
    table: Array = np.rint(np.maximum(not_above - least, 0) * most / others).astype(np.uint16)
    return table


@public_function(one_call="normalize")
def normalize(
    image: Any,
    low: float = 0.0,
    high: float = 1.0,
    *,
    mean: Any = None,
    std: Any = None,
    channel_axis: ChannelAxis = "auto",
) -> Array:
    """Scale the image linearly to a range, or subtract a mean and divide by a standard deviation.

    Without `mean` and `std`, the result is ``(x - least) / (greatest - least) * (high - low) + low``, where
    least and greatest are those of each image, over all its channels, or `low` if all pixels are equal.
    Otherwise it is ``(x - mean) / std``.

    Parameters
    ----------
    image : array_like of uint8, uint16 or float32
        An image, or a batch of them.
    low, high : float
        The range.
    mean, std : float or array_like, optional
        One number, or one for each channel; by default 0 and 1 if the other one is passed.
    channel_axis : {"auto", None, -1}
        As for `resize`.

    Returns
    -------
    ndarray of float32
        An array of the same shape, in C order, computed in float64 and rounded once.

    See Also
    --------
    equalize_histogram

    Examples
    --------
    >>> import pycudakit as pk
    >>> import numpy as np
    >>> pk.image.normalize(np.array([[0, 51, 255]], np.uint8))
    array([[0. , 0.2, 1. ]], dtype=float32)
    >>> pk.image.normalize(np.array([[0, 51, 255]], np.uint8), mean=51, std=2)
    array([[-25.5,   0. , 102. ]], dtype=float32)
    """
    array = as_image("normalize", image)
    axes = _image_axes(array, channel_axis)
    out = allocator.empty(array.shape, FLOAT32)
    variables: dict[str, Any]
    if mean is None and std is None:
        if not array.size:
            return out
        least, greatest = (
            np.asarray(f(array, axis=axes, keepdims=True)).astype(FLOAT64) for f in (min_max.min, min_max.max)
        )
        span = np.subtract(greatest, least)
        span[span == 0] = 1
        variables = {
            "x": array,
            "least": least,
            "span": span,
            "low": float(low),
            "wide": float(high) - float(low),
        }
        evaluate("astype((x - least) / span * wide + low, float32)", variables, out=out)
        return out
    variables = {"x": array}
    channels = (1,) if len(axes) == 2 else (1, array.shape[-1])
    for name, numbers, default in (("mean", mean, 0.0), ("std", std, 1.0)):
        of_channels = np.asarray(default if numbers is None else numbers, FLOAT64)
        if of_channels.shape not in ((), *((n,) for n in channels)):
            raise ValueError(f"{name} is not a number, or one for each of {channels[-1]} channels")
        variables[name] = of_channels
    if not np.all(variables["std"]):
        raise ValueError("std has a 0, by which nothing can be divided")
    evaluate("astype((x - mean) / std, float32)", variables, out=out)
    return out
