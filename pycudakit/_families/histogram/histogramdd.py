"""NumPy's histogram of points of any number of dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit._families.elementwise.ufuncs import add, equal, multiply, subtract
from pycudakit._families.histogram.histogram import bincount
from pycudakit._families.reduce.min_max import max as greatest
from pycudakit._families.reduce.min_max import min as least
from pycudakit._families.sort.sorting import searchsorted
from pycudakit._native.dtypes import Array
from pycudakit._runtime.composite import arrays_or_numpy_result
from pycudakit._runtime.dispatch_cache import numpy_for_small
from pycudakit._runtime.native_call import logged_as_one_call

_NUMPY: Any = np  # whose annotations are narrower than what it takes


@numpy_for_small(np.histogramdd)
@logged_as_one_call("histogramdd")
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """Compute the multidimensional histogram of some data.

    Parameters
    ----------
    sample : array_like of shape (N, D), or D sequences
        The points' coordinates.
    bins : int, or a sequence of D ints or arrays of edges
        How many bins each axis has, or their edges.
    range : sequence of D pairs or None, optional
        The outer edges along each axis; by default the least and the greatest coordinate.
    density : bool, optional
        True divides by the boxes' volumes and by the sum of all.
    weights : array_like, optional
        What to add up for each point, in float64, in place of 1.

    Returns
    -------
    H : ndarray
        The count, weight or density of each box, float64.
    edges : list of ndarrays
        The edges along each axis.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> counts, edges = pk.histogramdd(np.array([[0.1, 0.2, 0.3], [0.9, 0.8, 0.7]]), 2, [[0, 1]] * 3)
    >>> counts.shape, counts[0, 0, 0], counts[1, 1, 1]
    ((2, 2, 2), np.float64(1.0), np.float64(1.0))
    """
    compute = functools.partial(_NUMPY.histogramdd, sample, bins, range, density, weights)
    is_array = isinstance(sample, np.ndarray) and sample.ndim == 2
    given = sample if is_array else np.atleast_2d(sample).T
    wanted = [given] if weights is None else [given, weights]
    unsupported = None if given.ndim == 2 and given.size else "it has no points"
    arrays, answer = arrays_or_numpy_result("histogramdd", compute, *wanted, unsupported=unsupported)
    if not arrays:
        return answer
    columns = list(arrays[0].T)
    edges = edges_of(columns, bins, range, lambda column: (least(column), greatest(column)))
    shape = tuple(len(each) + 1 for each in edges)  # with what is outside, at both ends
    if math.prod(shape) > np.iinfo(np.intp).max:
        raise ValueError("invalid dims: array size defined by dims is larger than the maximum possible size.")
    places: Any = None
    for column, own, length in zip(columns, edges, shape, strict=True):
        place = searchsorted(own, column, side="right")
        place = subtract(place, equal(column, own[-1]))  # the last edge is in the last box
        places = place if places is None else add(multiply(places, length), place)
    weighed = arrays[1] if len(arrays) > 1 else None
    return histogram_from_counts(bincount(places, weighed, math.prod(shape)), edges, density)


def histogram_from_counts(counts: Array, edges: Any, density: Any) -> tuple[Array, Any]:
    """Return the histogram, of what is in each box and outside, at both ends of each axis."""
    shape = tuple(len(each) + 1 for each in edges)
    hist = counts.reshape(shape).astype(float)[(slice(1, -1),) * len(edges)]
    if density:
        whole = hist.sum()
        for axis, own in enumerate(edges):
            hist = hist / np.diff(own).reshape([-1 if d == axis else 1 for d, _ in enumerate(edges)])
        hist /= whole
    return hist, edges


def edges_of(columns: Sequence[Any], bins: Any, range: Any, extent: Callable[[Any], Any]) -> Any:
    """Return what NumPy finds of two points that reach as far, as `extent` tells of a column."""
    limits: list[Any] = list(range) if range is not None else [None] * len(columns)
    ends = [
        (0, 0) if n < len(limits) and limits[n] is not None else extent(column)
        for n, column in enumerate(columns)
    ]
    corners = np.array(ends, columns[0].dtype).T
    return _NUMPY.histogramdd(corners, bins, range)[1]
