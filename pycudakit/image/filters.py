"""Linear image filters with SciPy's results: blurs, correlation, derivatives."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from pycudakit._families.elementwise import ufuncs
from pycudakit._families.expression.evaluate import evaluate
from pycudakit._native import abi, allocator
from pycudakit._native.dtypes import Array
from pycudakit._runtime.public_function import public_function
from pycudakit.image._window import MAX_SIZE, Border, Window, centred, checked_size, filtered, in_plane, pair

_ROUNDING = 2.0**-50  # the relative error of products of weights that were rounded to float64


def box_blur(
    image: Any,
    size: Any = 3,
    *,
    mode: str = "reflect",
    cval: float = 0.0,
    edge: str | None = None,
    channel_axis: Any = "auto",
) -> Any:
    """Compute the mean of the window around each element, as `scipy.ndimage.uniform_filter`.

    Parameters
    ----------
    image : array_like
        An image of uint8, uint16 or float32, or a batch of them. The mean of integers is rounded to the
        nearest, ties to even.
    size : int or a pair of int, optional
        Rows and columns of the window, up to 63.
    mode : {"reflect", "nearest", "mirror", "wrap", "constant"}, optional
        The extension of the image beyond its border, as in SciPy.
    cval : float, optional
        The value beyond the border with the mode "constant": a number of the image's type.
    edge : "shrink", optional
        Shrinks the window at the border, so that the mean is of elements inside the image only.
    channel_axis : {"auto", None, -1}, optional
        The axis of the channels, which are filtered separately: ``"auto"`` is the last axis if an array of
        more than two dimensions has 3 or 4 elements along it; None is no axis; -1 is the last axis.

    Returns
    -------
    ndarray
        The filtered image, of the image's shape and type.

    See Also
    --------
    scipy.ndimage.uniform_filter : SciPy's function.
    gaussian_blur

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> a = np.array([[0, 0, 0], [0, 90, 0], [0, 0, 0]], np.uint8)
    >>> pk.image.box_blur(a, 3)
    array([[10, 10, 10],
           [10, 10, 10],
           [10, 10, 10]], dtype=uint8)
    >>> pk.image.box_blur(a, 3, edge="shrink")
    array([[22, 15, 22],
           [15, 10, 15],
           [22, 15, 22]], dtype=uint8)
    """
    if edge not in (None, "shrink"):
        raise ValueError(f"edge is None or 'shrink', not {edge!r}")

    def by_scipy(ndimage: Any, array: Array) -> Any:
        sizes = in_plane(array, channel_axis, *pair(size), 1)
        return ndimage.uniform_filter(array, sizes, mode=mode, cval=cval)

    return filtered(
        "box_blur",
        image,
        lambda: centred(abi.FILTER_BOX, checked_size("box_blur", size)),
        Border(mode, cval, edge == "shrink"),
        channel_axis,
        by_scipy if edge is None else None,
    )


def gaussian_blur(
    image: Any,
    sigma: Any,
    *,
    mode: str = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    radius: Any = None,
    dtype: Any = None,
    channel_axis: Any = "auto",
) -> Any:
    """Blur the image by a Gaussian, as `scipy.ndimage.gaussian_filter`.

    Parameters
    ----------
    image, mode, cval, channel_axis
        As for `box_blur`.
    sigma : float or a pair of float
        The standard deviation, in rows and in columns.
    truncate : float, optional
        The radius of the window in standard deviations.
    radius : int or a pair of int, optional
        The radius in elements, instead; up to 31.
    dtype : dtype, optional
        The result's type: the image's, or float32.

    Returns
    -------
    ndarray
        The filtered image, of the image's shape, and of its type or `dtype`.

    See Also
    --------
    scipy.ndimage.gaussian_filter : SciPy's function.
    box_blur

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> a = np.zeros((3, 5), np.uint8)
    >>> a[:, 2] = 200
    >>> pk.image.gaussian_blur(a, 1.0)[0]
    array([12, 48, 80, 48, 12], dtype=uint8)
    """

    def window() -> Window:
        radii = (None, None) if radius is None else pair(radius)
        halves = [_gaussian(s, truncate, r) for s, r in zip(pair(sigma), radii, strict=True)]
        return centred(
            abi.FILTER_SEPARABLE, (halves[0].size, halves[1].size), np.concatenate(halves).tolist()
        )

    def by_scipy(ndimage: Any, array: Array) -> Any:
        sigmas = in_plane(array, channel_axis, *pair(sigma), 0)
        radii = None if radius is None else in_plane(array, channel_axis, *pair(radius), 0)
        return ndimage.gaussian_filter(array, sigmas, mode=mode, cval=cval, truncate=truncate, radius=radii)

    return filtered("gaussian_blur", image, window, Border(mode, cval), channel_axis, by_scipy, dtype)


def _gaussian(sigma: float, truncate: float, radius: Any) -> Array:
    """Return SciPy's weights of a Gaussian."""
    if not sigma >= 0 or not np.isfinite(sigma):
        raise ValueError(f"gaussian_blur: sigma is {sigma}; it must be finite and not negative")
    if sigma <= 1e-15:
        return np.ones(1)
    reach = int(truncate * float(sigma) + 0.5) if radius is None else operator.index(radius)
    if not 0 <= reach <= MAX_SIZE // 2:
        raise ValueError(
            f"gaussian_blur: the window would reach {reach} elements, and must reach from 0 to "
            f"{MAX_SIZE // 2}; give a smaller sigma, truncate or radius"
        )
    x = np.arange(-reach, reach + 1)
    weights: Array = np.exp(-0.5 / (sigma * sigma) * x**2)
    weights /= weights.sum()
    return weights


def correlate(
    image: Any,
    weights: Any,
    *,
    mode: str = "reflect",
    cval: float = 0.0,
    dtype: Any = None,
    channel_axis: Any = "auto",
) -> Any:
    """Compute the weighted sum of the window around each element, as `scipy.ndimage.correlate`.

    Separable weights, the product of a column and a row, are detected, and take one pass along each axis.

    Parameters
    ----------
    image, mode, cval, channel_axis
        As for `box_blur`. The sum of integers is rounded to the nearest, ties to even, and clipped to the
        range of the type.
    weights : array_like
        Two-dimensional, with up to 63 rows and columns.
    dtype : dtype, optional
        The result's type: the image's, or float32.

    Returns
    -------
    ndarray
        The filtered image, of the image's shape, and of its type or `dtype`.

    See Also
    --------
    scipy.ndimage.correlate : SciPy's function.
    convolve

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> a = np.arange(12, dtype=np.float32).reshape(3, 4)
    >>> pk.image.correlate(a, [[-1, 0, 1]])
    array([[1., 2., 2., 1.],
           [1., 2., 2., 1.],
           [1., 2., 2., 1.]], dtype=float32)
    """

    def by_scipy(ndimage: Any, array: Array) -> Any:
        weight_array = np.asarray(weights)
        rows, columns = weight_array.shape
        shape = in_plane(array, channel_axis, rows, columns, 1)
        return ndimage.correlate(array, weight_array.reshape(shape), mode=mode, cval=cval)

    return filtered(
        "correlate",
        image,
        lambda: _weighted("correlate", weights),
        Border(mode, cval),
        channel_axis,
        by_scipy,
        dtype,
    )


def convolve(
    image: Any,
    weights: Any,
    *,
    mode: str = "reflect",
    cval: float = 0.0,
    dtype: Any = None,
    channel_axis: Any = "auto",
) -> Any:
    """Compute the convolution of the image with weights, as `scipy.ndimage.convolve`.

    Parameters
    ----------
    image, weights, mode, cval, dtype, channel_axis
        As for `correlate`, with reversed weights.

    Returns
    -------
    ndarray
        The filtered image, of the image's shape, and of its type or `dtype`.

    See Also
    --------
    scipy.ndimage.convolve : SciPy's function.
    correlate

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> a = np.arange(12, dtype=np.float32).reshape(3, 4)
    >>> pk.image.convolve(a, [[-1, 0, 1]])
    array([[-1., -2., -2., -1.],
           [-1., -2., -2., -1.],
           [-1., -2., -2., -1.]], dtype=float32)
    """

    def window() -> Window:
        forward = _weighted("convolve", np.asarray(weights)[::-1, ::-1] if np.ndim(weights) == 2 else weights)
        rows, columns = forward.size
        return Window(forward.kind, forward.size, ((rows - 1) // 2, (columns - 1) // 2), forward.weights)

    def by_scipy(ndimage: Any, array: Array) -> Any:
        weight_array = np.asarray(weights)
        rows, columns = weight_array.shape
        shape = in_plane(array, channel_axis, rows, columns, 1)
        return ndimage.convolve(array, weight_array.reshape(shape), mode=mode, cval=cval)

    return filtered("convolve", image, window, Border(mode, cval), channel_axis, by_scipy, dtype)


def _weighted(name: str, values: Any) -> Window:
    weights = np.asarray(values)
    if weights.ndim != 2 or weights.size == 0:
        raise RuntimeError(f"{name}: weights must have rows and columns, not the shape {weights.shape}")
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"{name}: weights must be real numbers, not {weights.dtype}")
    rows, columns = checked_size(name, weights.shape)
    weights = weights.astype(np.float64)
    if not np.isfinite(weights).all():
        raise ValueError(f"{name}: a weight is not finite")
    halves = _separated(weights) if min(rows, columns) > 1 else None
    if halves is None:
        return centred(abi.FILTER_CORRELATE, (rows, columns), weights.ravel().tolist())
    return centred(abi.FILTER_SEPARABLE, (rows, columns), np.concatenate(halves).tolist())


def _separated(weights: Array) -> tuple[Array, Array] | None:
    """Factor weights into a column and a row, integers if possible; return None if they are not separable."""
    row_at, column_at = np.unravel_index(np.argmax(np.abs(weights)), weights.shape)
    largest = weights[row_at, column_at]
    if largest == 0:
        return None
    row = weights[row_at]
    if (row == np.rint(row)).all() and np.abs(row).max() < 2**53:
        row = row / np.gcd.reduce(np.abs(row).astype(np.int64))
    column = weights[:, column_at] / row[column_at]
    with np.errstate(over="ignore", under="ignore"):
        products = np.outer(column, row)
    if not (np.abs(products - weights) <= _ROUNDING * np.abs(weights)).all():
        return None
    return column, row


@public_function(one_call="sobel")
def sobel(
    image: Any,
    axis: int | None = -1,
    *,
    mode: str = "reflect",
    cval: float = 0.0,
    dtype: Any = None,
    channel_axis: Any = "auto",
) -> Any:
    """Compute the Sobel derivative, as `scipy.ndimage.sobel` of a grey image.

    Parameters
    ----------
    image, mode, cval, channel_axis
        As for `box_blur`. Negative results in integers become 0: float32 as `dtype` keeps the sign.
    axis : {-1, 1, -2, 0, None}, optional
        Along rows of elements (-1 or 1), along columns (-2 or 0), or the magnitude of both (None).
    dtype : dtype, optional
        The result's type: the image's, or float32.

    Returns
    -------
    ndarray
        The filtered image, of the image's shape, and of its type or `dtype`.

    See Also
    --------
    scipy.ndimage.sobel : SciPy's function.
    laplace

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> a = np.zeros((3, 4), np.uint8)
    >>> a[:, 2:] = 10
    >>> pk.image.sobel(a)
    array([[ 0, 40, 40,  0],
           [ 0, 40, 40,  0],
           [ 0, 40, 40,  0]], dtype=uint8)
    >>> pk.image.sobel(-a.astype(np.float32), axis=None)[0]
    array([ 0., 40., 40.,  0.], dtype=float32)
    """
    if axis is None:
        return _gradient_magnitude(image, mode, cval, dtype, channel_axis)
    smooth, slope = (1.0, 2.0, 1.0), (-1.0, 0.0, 1.0)
    along = np.lib.array_utils.normalize_axis_index(operator.index(axis), 2)
    down, across = (slope, smooth) if along == 0 else (smooth, slope)

    def by_scipy(ndimage: Any, array: Array) -> Any:
        shape = in_plane(array, channel_axis, 3, 3, 1)
        return ndimage.correlate(array, np.outer(down, across).reshape(shape), mode=mode, cval=cval)

    return filtered(
        "sobel",
        image,
        lambda: centred(abi.FILTER_SEPARABLE, (3, 3), down + across),
        Border(mode, cval),
        channel_axis,
        by_scipy,
        dtype,
    )


def _gradient_magnitude(image: Any, mode: str, cval: float, dtype: Any, channel_axis: Any) -> Any:
    image = np.asarray(image)
    integers = image.dtype.kind == "u"
    wide = np.float32 if integers else None
    x, y = (
        sobel(image, axis, mode=mode, cval=cval, dtype=wide, channel_axis=channel_axis) for axis in (1, 0)
    )
    if image.dtype.name == "uint16":  # float32 cannot hold the squares exactly
        x, y = ufuncs.multiply(x, 1.0, dtype=np.float64), ufuncs.multiply(y, 1.0, dtype=np.float64)
    length = evaluate("sqrt(x * x + y * y)", {"x": x, "y": y})
    result = image.dtype.newbyteorder("=") if dtype is None else np.dtype(dtype)
    if result.kind != "u":
        return length.astype(result, copy=False)
    out = allocator.empty(length.shape, result)
    return ufuncs.rint(ufuncs.minimum(length, np.iinfo(result).max), out=out, casting="unsafe")


@public_function(one_call="laplace")
def laplace(
    image: Any,
    *,
    mode: str = "reflect",
    cval: float = 0.0,
    dtype: Any = None,
    channel_axis: Any = "auto",
) -> Any:
    """Compute the Laplacian, the sum of the second differences, as `scipy.ndimage.laplace`.

    Parameters
    ----------
    image, mode, cval, dtype, channel_axis
        As for `sobel`.

    Returns
    -------
    ndarray
        The filtered image, of the image's shape, and of its type or `dtype`.

    See Also
    --------
    scipy.ndimage.laplace : SciPy's function.
    sobel

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> a = np.zeros((3, 3), np.float32)
    >>> a[1, 1] = 1
    >>> pk.image.laplace(a)
    array([[ 0.,  1.,  0.],
           [ 1., -4.,  1.],
           [ 0.,  1.,  0.]], dtype=float32)
    """
    weights = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], np.float64)

    def by_scipy(ndimage: Any, array: Array) -> Any:
        shape = in_plane(array, channel_axis, 3, 3, 1)
        return ndimage.correlate(array, weights.reshape(shape), mode=mode, cval=cval)

    return filtered(
        "laplace",
        image,
        lambda: _weighted("laplace", weights),
        Border(mode, cval),
        channel_axis,
        by_scipy,
        dtype,
    )
