"""Image filters by the ranks of a window's elements, with SciPy's results: medians, minima, maxima."""

from __future__ import annotations

from typing import Any

from pycudakit._native import abi
from pycudakit._native.dtypes import Array
from pycudakit.image._window import Border, centred, checked_size, filtered, in_plane, pair


def _rank_filter(name: str, kind: int, image: Any, size: Any, border: Border, channel_axis: Any) -> Any:
    def by_scipy(ndimage: Any, array: Array) -> Any:
        sizes = in_plane(array, channel_axis, *pair(size), 1)
        return getattr(ndimage, name)(array, sizes, mode=border.mode, cval=border.cval)

    return filtered(
        name, image, lambda: centred(kind, checked_size(name, size)), border, channel_axis, by_scipy
    )


def median_filter(
    image: Any, size: Any = 3, *, mode: str = "reflect", cval: float = 0.0, channel_axis: Any = "auto"
) -> Any:
    """Compute the median of the window around each element, as `scipy.ndimage.median_filter`.

    For an even number of elements it is the upper one of the two in the middle. NaN sorts last.

    Parameters
    ----------
    image, size, mode, cval, channel_axis
        As for `box_blur`.

    Returns
    -------
    ndarray
        The filtered image, of the image's shape and type.

    See Also
    --------
    scipy.ndimage.median_filter : SciPy's function.
    minimum_filter

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> a = np.array([[1, 2, 3], [4, 200, 6], [7, 8, 9]], np.uint8)
    >>> pk.image.median_filter(a)
    array([[2, 3, 3],
           [4, 6, 6],
           [7, 8, 9]], dtype=uint8)
    """
    return _rank_filter("median_filter", abi.FILTER_MEDIAN, image, size, Border(mode, cval), channel_axis)


def minimum_filter(
    image: Any, size: Any = 3, *, mode: str = "reflect", cval: float = 0.0, channel_axis: Any = "auto"
) -> Any:
    """Compute the minimum of the window around each element, as `scipy.ndimage.minimum_filter`.

    NaN propagates.

    Parameters
    ----------
    image, size, mode, cval, channel_axis
        As for `box_blur`.

    Returns
    -------
    ndarray
        The filtered image, of the image's shape and type.

    See Also
    --------
    scipy.ndimage.minimum_filter : SciPy's function.
    maximum_filter

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> pk.image.minimum_filter(np.array([[5, 3, 9, 7]], np.uint8), 3)
    array([[3, 3, 3, 7]], dtype=uint8)
    """
    return _rank_filter("minimum_filter", abi.FILTER_MINIMUM, image, size, Border(mode, cval), channel_axis)


def maximum_filter(
    image: Any, size: Any = 3, *, mode: str = "reflect", cval: float = 0.0, channel_axis: Any = "auto"
) -> Any:
    """Compute the maximum of the window around each element, as `scipy.ndimage.maximum_filter`.

    NaN propagates.

    Parameters
    ----------
    image, size, mode, cval, channel_axis
        As for `box_blur`.

    Returns
    -------
    ndarray
        The filtered image, of the image's shape and type.

    See Also
    --------
    scipy.ndimage.maximum_filter : SciPy's function.
    minimum_filter

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> pk.image.maximum_filter(np.array([[5, 3, 9, 7]], np.uint8), 3)
    array([[5, 9, 9, 9]], dtype=uint8)
    """
    return _rank_filter("maximum_filter", abi.FILTER_MAXIMUM, image, size, Border(mode, cval), channel_axis)
