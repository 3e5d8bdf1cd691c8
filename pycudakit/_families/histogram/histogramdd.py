"""`histogramdd`: each point's bin index by `searchsorted` along every axis, counted by `bincount`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from pycudakit._families.elementwise.ufuncs import add, equal, multiply, subtract
from pycudakit._families.histogram.histogram import as_density, bincount
from pycudakit._families.reduce.min_max import max as greatest
from pycudakit._families.reduce.min_max import min as least
from pycudakit._families.sort.searching import searchsorted
from pycudakit._native.dtypes import Array
from pycudakit._runtime.composite import arrays_or_numpy_result
from pycudakit._runtime.public_function import public_function

_NUMPY: Any = np  # NumPy's annotations are narrower than its functions


@public_function(numpy=np.histogramdd, one_call="histogramdd")
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """Compute the multidimensional histogram of some data.

    Parameters
    ----------
    sample : array_like of shape (N, D), or D sequences
        The points' coordinates.
    bins : int, or a sequence of D ints or arrays of edges
        The number of bins along each axis, or their edges.
    range : sequence of D pairs or None, optional
        The outer edges along each axis; by default the least and the greatest coordinate.
    density : bool, optional
        Whether to divide by the bins' volumes and by the total.
    weights : array_like, optional
        Weights to add up for each point, in float64, instead of counting points.

    Returns
    -------
    H : ndarray
        The count, sum of weights, or density of each bin, in float64.
    edges : list of ndarrays
        The edges along each axis.

    See Also
    --------
    numpy.histogramdd : NumPy's function.
    histogram, histogram2d

    Differs from NumPy
    ------------------
    Weights are added in float64, in an order that depends only on the numbers of elements and bins, so the
    last bits of their sums can differ from NumPy's.

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
    points = sample if is_array else np.atleast_2d(sample).T
    inputs = [points] if weights is None else [points, weights]
    unsupported = None if points.ndim == 2 and points.size else "it has no points"
    arrays, numpy_result = arrays_or_numpy_result("histogramdd", compute, *inputs, unsupported=unsupported)
    if not arrays:
        return numpy_result
    columns = list(arrays[0].T)
    edges = edges_of(columns, bins, range, lambda column: (least(column), greatest(column)))
    shape = tuple(len(each) + 1 for each in edges)  # with a bin for the outside at both ends
    if math.prod(shape) > np.iinfo(np.intp).max:
        raise ValueError("invalid dims: array size defined by dims is larger than the maximum possible size.")
    indices = flat_bins(_ON_HOST, columns, edges, edges)
    weight_array = arrays[1] if len(arrays) > 1 else None
    return histogram_from_counts(bincount(indices, weight_array, math.prod(shape)), edges, density)


_ON_HOST = SimpleNamespace(
    add=add, equal=equal, multiply=multiply, searchsorted=searchsorted, subtract=subtract
)


def flat_bins(xp: Any, columns: Sequence[Any], edges: Sequence[Array], placed_edges: Sequence[Any]) -> Any:
    """Return the flat index of each point's bin, with a bin for the outside at both ends of each axis.

    `xp` has the functions of the columns' arrays, and `placed_edges` are the edges where the columns are.
    """
    indices: Any = None
    for column, axis_edges, placed in zip(columns, edges, placed_edges, strict=True):
        index = xp.searchsorted(placed, column, side="right")
        index = xp.subtract(index, xp.equal(column, axis_edges[-1]))  # the last bin includes its right edge
        indices = index if indices is None else xp.add(xp.multiply(indices, axis_edges.size + 1), index)
    return indices


def histogram_from_counts(counts: Array, edges: Any, density: Any) -> tuple[Array, Any]:
    """Make the histogram from counts that include the outside at both ends of each axis."""
    shape = tuple(len(each) + 1 for each in edges)
    hist = counts.reshape(shape).astype(float)[(slice(1, -1),) * len(edges)]
    return as_density(hist, edges, hist.sum()) if density else hist, edges


def edges_of(columns: Sequence[Any], bins: Any, range: Any, extent: Callable[[Any], Any]) -> Any:
    """Return NumPy's edges, computed from two points that span the columns' ranges (`extent`)."""
    limits: list[Any] = list(range) if range is not None else [None] * len(columns)
    ends = [
        (0, 0) if n < len(limits) and limits[n] is not None else extent(column)
        for n, column in enumerate(columns)
    ]
    corners = np.array(ends, columns[0].dtype).T
    return _NUMPY.histogramdd(corners, bins, range)[1]
