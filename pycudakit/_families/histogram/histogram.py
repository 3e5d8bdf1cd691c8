"""NumPy's `bincount`, `histogram`, `histogram2d` and `digitize`."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit._families.histogram import binning
from pycudakit._native import allocator
from pycudakit._native.dtypes import BOOL, INT64, Array
from pycudakit._runtime import cost_model, fp_errors, native_call
from pycudakit._runtime.engine_choice import Cost, EngineChoice, choose_engine
from pycudakit._runtime.operands import as_array
from pycudakit._runtime.public_function import public_function

_NUMPY: Any = np  # NumPy's annotations are narrower than its functions


# Nanoseconds per element of NumPy, and of the CPU engine on one thread; seconds per call of NumPy; and the
# maximal number of calls to the native library.
_RATES = {
    "bincount": (1.3, 0.6, 1e-6, 2),
    "histogram": (6.0, 1.5, 40e-6, 2),
    "histogram2d": (75.0, 15.0, 60e-6, 3),
    "digitize": (30.0, 6.0, 5e-6, 1),
}
_NANOSECONDS_OF_WEIGHTS = 1.0  # more per element with weights
_SMALL_BIN_COUNT = 4096  # bins that fit in cache; also the sample size for guessing the number of bins
_MAX_ELEMENTS_OF_SAME_SUM = 65536  # elements up to which our sums of weights have NumPy's bits
_MAX_EXACT_INTEGER = 2**53  # integers up to this are exact in float64
_NO_WIDTH = "its bin width or edges are not finite floats"
_TOO_MANY = "it has more than 2**31 bins"


class _HistogramRequest:
    """One call: its arrays, its weights and its engine."""

    choice: EngineChoice

    def __init__(
        self, function: str, values: Sequence[Any], weights: Any, numpy_call: Callable[[], Any]
    ) -> None:
        self.function = function
        self.arrays: list[Any] = [as_array(value) for value in values]
        self.weights: Any = None if weights is None else as_array(weights)
        self._operands: list[Any] = self.arrays if weights is None else [*self.arrays, self.weights]
        self._numpy_call = numpy_call

    def uses_numpy(self, unsupported: str | None = None) -> bool:
        """Choose the engine; return True if it is NumPy. `unsupported` is why only NumPy can compute it."""
        self.choice = choose_engine(self.function, self._operands, self._cost(), unsupported)
        return self.choice.engine == "numpy"

    def by_numpy(self, unsupported: str | None = None) -> Any:
        """Compute the call with NumPy."""
        if unsupported is not None:
            self.uses_numpy(unsupported)
        return native_call.run_numpy(self.function, self.choice.reason, self._numpy_call)

    def _cost(self) -> Cost:
        """Estimate the call's cost; weights are summed on the host by either engine."""
        if any(array is None for array in self._operands):
            return Cost(None, 0.0, 0, 0)
        size = self.arrays[0].size
        numpy_each, cpu_each, numpy_call, calls = _RATES[self.function]
        work = 1e-9 * size * (cpu_each + (0 if self.weights is None else _NANOSECONDS_OF_WEIGHTS))
        moved = sum(array.nbytes for array in self._operands)
        workers = cost_model.threads() if work > cost_model.MIN_SECONDS_FOR_THREADS else 1
        reading = moved / min(workers * cost_model.THREAD_BANDWIDTH, cost_model.HOST_BANDWIDTH)
        same = self.weights is None or size <= _MAX_ELEMENTS_OF_SAME_SUM
        return Cost(
            numpy_call + 1e-9 * size * numpy_each if same else None,
            calls * cost_model.CALL + max(work / workers, reading),
            moved,
            8 * size if self.function == "digitize" else 0,
            0.0 if self.weights is None else math.inf,
        )


@public_function(numpy=np.bincount, one_call="bincount")
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """Count number of occurrences of each value in array of non-negative ints.

    Parameters
    ----------
    x : array_like, 1-D
        Non-negative integers.
    weights : array_like, optional
        Weights to add up, in float64, instead of counting elements.
    minlength : int
        The minimal length of the result.

    Returns
    -------
    ndarray
        The count, or the sum of weights, of each integer from 0 to the greatest in `x`.

    See Also
    --------
    numpy.bincount : NumPy's function.
    histogram, unique

    Differs from NumPy
    ------------------
    Weights are added in float64, in an order that depends only on the numbers of elements and bins, so the
    last bits of their sums can differ from NumPy's.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.bincount([0, 1, 1, 3])
    array([1, 2, 0, 1])
    """
    request = _HistogramRequest("bincount", [x], weights, lambda: _NUMPY.bincount(x, weights, minlength))
    if request.uses_numpy():
        return request.by_numpy()
    (values,), weights_ = request.arrays, request.weights
    # NumPy's result for no elements, and its errors.
    none_counted, end = (values[:0] if values.size and values.ndim == 1 else x), 0
    if values.size and values.dtype.kind == "f" and not isinstance(x, np.ndarray):
        none_counted, values, end = [0.0], values.astype(INT64), 1  # NumPy accepts lists of floats
    no_weights = weights_[:end] if weights_ is not None and weights_.ndim == 1 else weights_
    none = _NUMPY.bincount(none_counted, no_weights, minlength)
    if values.size == 0:
        return none
    if weights_ is not None and len(weights_) != len(values):
        raise ValueError("The weights and list don't have the same length.")
    count = _guess_bin_count(values) if weights_ is None else 0
    result = None
    if count:
        counts = binning.count(request.choice, [values], [binning.integer_bins(count)])
        if not counts[count]:
            count = int(np.flatnonzero(counts[:count])[-1]) + 1
            result = binning.first(counts, count)
    if result is None:
        least, greatest = (int(value) for value in binning.value_range(request.choice, values))
        if least < 0 or greatest > np.iinfo(INT64).max:
            raise ValueError("'list' argument must have no negative elements")
        count = greatest + 1
        if count >= binning.MAX_BINS:
            return request.by_numpy(_TOO_MANY)
        bins = [binning.integer_bins(count)]
        if weights_ is not None:
            result, _ = binning.weighted_count(request.choice, [values], bins, weights_)
        else:
            result = binning.first(binning.count(request.choice, [values], bins), count)
    if count < len(none):
        padded = np.zeros(len(none), result.dtype)
        padded[:count] = result
        return padded
    return result


def _guess_bin_count(values: Array) -> int:
    """Return a number of bins to try before searching for the greatest element, or 0."""
    whole_type: int = 1 << (8 * values.itemsize - (values.dtype.kind == "i"))
    if values.itemsize <= 2 and whole_type <= values.size:
        return whole_type
    if allocator.may_be_on_device():
        return 0
    sample = values[:_SMALL_BIN_COUNT]
    return (
        _SMALL_BIN_COUNT
        if sample.size == _SMALL_BIN_COUNT and 0 <= int(sample.min()) <= int(sample.max()) < _SMALL_BIN_COUNT
        else 0
    )


@public_function(numpy=np.histogram, one_call="histogram")
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Compute the histogram of a dataset.

    Parameters
    ----------
    a : array_like
        The elements.
    bins : int, array_like or str
        The number of bins of equal width, or their edges, or the name of one of NumPy's rules, such as
        ``"auto"``. A bin includes its left edge and excludes its right one, but the last bin includes both.
    range : (float, float), optional
        The outer edges of a number of bins; by default the least and the greatest element.
    density : bool, optional
        Whether to divide by the bins' widths and by the total.
    weights : array_like, optional
        Weights to add up, in float64, instead of counting elements.

    Returns
    -------
    hist : ndarray
        The count, sum of weights, or density of each bin.
    bin_edges : ndarray
        The edges, one more than the bins.

    See Also
    --------
    numpy.histogram : NumPy's function.
    histogram2d, histogramdd, bincount, digitize

    Differs from NumPy
    ------------------
    Weights are added in float64, in an order that depends only on the numbers of elements and bins, so the
    last bits of their sums can differ from NumPy's.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.histogram([1, 2, 1, 4], bins=[0, 1, 2, 3])
    (array([0, 2, 1]), array([0, 1, 2, 3]))
    >>> counts, edges = pk.histogram([0.1, 0.2, 0.9], bins=2, range=(0, 1))
    >>> counts
    array([2, 1])
    """
    request = _HistogramRequest(
        "histogram", [a], weights, lambda: _NUMPY.histogram(a, bins, range, density, weights)
    )
    if request.uses_numpy():
        return request.by_numpy()
    (values,), weight_array = request.arrays, request.weights
    dtype = values.dtype.newbyteorder("=")
    if weight_array is not None and weight_array.shape != values.shape:
        raise ValueError("weights should have the same shape as a.")
    uses_edges = not isinstance(bins, str) and np.ndim(bins) != 0
    if not uses_edges and not isinstance(bins, str) and range is not None:
        range = tuple(range)
    if dtype == BOOL:
        dtype = np.dtype(np.uint8)
        warnings.warn(
            f"Converting input from {BOOL} to {np.uint8} for compatibility.",
            RuntimeWarning,
            stacklevel=fp_errors.caller_stacklevel(),
        )
    if uses_edges:
        edges = _NUMPY.histogram_bin_edges(np.empty(0, dtype), bins)
        unsupported = why_numpy_edges(edges)
        if unsupported is not None:
            return request.by_numpy(unsupported)
        axis_bins = binning.edge_bins(edges, dtype) if len(edges) > 1 else None
    elif isinstance(bins, str) or range is not None or values.size == 0 or weight_array is not None:
        # The elements from which NumPy computes the edges: all for a rule, else the least and the greatest.
        sample = values.astype(dtype) if isinstance(bins, str) else np.empty(0, dtype)
        if range is None and values.size and not isinstance(bins, str):
            sample = binning.value_range(request.choice, values).astype(dtype)
        rules = weight_array if isinstance(bins, str) else None  # NumPy refuses weights with a rule
        edges = _NUMPY.histogram_bin_edges(sample, bins, range, rules)
        if len(edges) == 1:  # the rule's width is infinite, or exceeds the range
            return _NUMPY.histogram(sample, bins, range, density)  # raises
        if len(edges) > binning.MAX_BINS:
            return request.by_numpy(_TOO_MANY)
        axis_bins = binning.uniform_bins(edges, *outer_edges(sample, range), dtype)
        if axis_bins is None:
            return request.by_numpy(_NO_WIDTH)
    else:
        return _over_data_range(request, values, bins, dtype, density)
    hist = _counted(request, values, axis_bins, weight_array, uses_edges, len(edges))
    return _with_edges(hist, edges, density)


def _with_edges(hist: Array, edges: Array, density: Any) -> tuple[Array, Array]:
    if density:
        widths = np.array(np.diff(edges), float)
        return hist / widths / hist.sum(), edges
    return hist, edges


def _over_data_range(request: _HistogramRequest, values: Array, bins: Any, dtype: Any, density: Any) -> Any:
    """Compute the histogram over the range from the least to the greatest element."""
    edges: Array = np.empty(0)
    try:
        count = operator.index(bins)
    except TypeError:
        count = 0
    if count < 1:
        _NUMPY.histogram_bin_edges(edges, bins)  # raises
    if count >= binning.MAX_BINS:
        return request.by_numpy(_TOO_MANY)

    def find(extent: Array) -> binning.Bins:
        nonlocal edges
        sample = extent.astype(dtype)
        edges = _NUMPY.histogram_bin_edges(sample, bins)
        axis_bins = binning.uniform_bins(edges, *outer_edges(sample, None), dtype)
        if axis_bins is None:
            raise _UnsupportedBinsError
        return axis_bins

    try:
        counts = binning.count_over_min_max(request.choice, values, count, find)
    except _UnsupportedBinsError:
        return request.by_numpy(_NO_WIDTH)
    check_out_of_range(bool(counts[-1]), len(edges))
    return _with_edges(binning.first(counts, count), edges, density)


class _UnsupportedBinsError(Exception):
    """Raised in the callback if only NumPy can compute with the bins."""


def check_out_of_range(lost: bool, edges: int) -> None:
    """Raise NumPy's error if an element is within the range but in no bin."""
    if lost:
        raise IndexError(f"an index is out of bounds for axis 0 with size {edges}")


def why_numpy_edges(edges: Array) -> str | None:
    """Return the reason why only NumPy can compare values with these edges, or None."""
    if as_array(edges) is None or edges.dtype.kind not in "biuf":
        return "its edges are not bool, integers or floats of up to 64 bits"
    if edges.dtype.kind == "f" and np.isnan(edges).any():
        return "its edges hold NaN"
    return _TOO_MANY if len(edges) > binning.MAX_BINS else None


def outer_edges(sample: Array, range: Any) -> tuple[Any, Any]:
    """Return the numbers that NumPy uses for the outer edges."""
    if range is not None:
        first, last = range
    elif sample.size == 0:
        first, last = 0, 1
    else:
        first, last = sample.min(), sample.max()
    return (first - 0.5, last + 0.5) if first == last else (first, last)


def _counted(
    request: _HistogramRequest,
    values: Array,
    bins: binning.Bins | None,
    weights: Array | None,
    uses_edges: bool,
    edges: int,
) -> Array:
    """Return the count or the sum of weights of each bin, in NumPy's type."""
    dtype = INT64 if weights is None else weights.dtype
    if uses_edges:
        dtype = dtype.newbyteorder("=")  # NumPy takes differences of sums
    if bins is None or values.size == 0:
        return np.zeros(max(edges - 1, 0), dtype)
    if weights is None:
        counts = binning.count(request.choice, [values], [bins])
        lost = bool(counts[-1])
        result = binning.first(counts, bins.count)
    else:
        if uses_edges and dtype == BOOL:
            _NUMPY.histogram([0.0], [0.0, 1.0], weights=[True])  # raises
        result, lost = binning.weighted_count(request.choice, [values], [bins], weights, dtype.kind != "f")
        result = result.astype(dtype, copy=False)
    check_out_of_range(lost, edges)
    return result


@public_function(numpy=np.histogram2d, one_call="histogram2d")
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """Compute the bi-dimensional histogram of two data samples.

    Parameters
    ----------
    x, y : array_like, 1-D
        The points' coordinates.
    bins : int, array_like, or a list of two of these
        The number of bins along each axis, or their edges.
    range : array_like of shape (2, 2), optional
        The outer edges along each axis; by default the least and the greatest coordinate.
    density : bool, optional
        Whether to divide by the bins' areas and by the total.
    weights : array_like, optional
        Weights to add up for each point, in float64, instead of counting points.

    Returns
    -------
    H : ndarray
        The count, sum of weights, or density of each bin, in float64: `x` along the first axis.
    xedges, yedges : ndarray
        The edges.

    See Also
    --------
    numpy.histogram2d : NumPy's function.
    histogram, histogramdd

    Differs from NumPy
    ------------------
    Weights are added in float64, in an order that depends only on the numbers of elements and bins, so the
    last bits of their sums can differ from NumPy's.

    Examples
    --------
    >>> import pycudakit as pk
    >>> counts, xedges, yedges = pk.histogram2d([0.1, 0.7, 0.8], [0.2, 0.6, 0.9], 2, [[0, 1], [0, 1]])
    >>> counts
    array([[1., 0.],
           [0., 2.]])
    """
    request = _HistogramRequest(
        "histogram2d", [x, y], weights, lambda: _NUMPY.histogram2d(x, y, bins, range, density, weights)
    )
    shapes = {array.shape for array in request.arrays if array is not None}
    are_points = len(shapes) == 1 and len(next(iter(shapes))) == 1
    if request.uses_numpy(None if are_points or not shapes else "x and y are not 1-D arrays of one length"):
        return request.by_numpy()
    arrays, weight_array = request.arrays, request.weights
    if weight_array is not None and weight_array.shape != arrays[0].shape:
        return request.by_numpy("its weights do not have the shape of x")
    edges = histogram2d_edges(arrays, bins, range, lambda array: binning.value_range(request.choice, array))
    axis_bins = bins_along_axes(edges, arrays)
    if isinstance(axis_bins, str):
        return request.by_numpy(axis_bins)
    hist = np.zeros(tuple(len(axis) + 1 for axis in edges))  # with NumPy's border of bins for the outside
    core = hist[1:-1, 1:-1]
    if core.size and arrays[0].size:
        if weight_array is None:
            result = binning.count(request.choice, arrays, axis_bins)[:-2]
        else:
            result, _ = binning.weighted_count(request.choice, arrays, axis_bins, weight_array)
        core[...] = result.reshape(core.shape)
    return as_density(core, edges, core.sum()) if density else core, *edges


def as_density(hist: Any, edges: Sequence[Any], total: Any) -> Any:
    """Divide a histogram, on the host or on a device, by the bins' volumes and by the total."""
    for axis, axis_edges in enumerate(edges):
        hist = hist / np.diff(axis_edges).reshape([-1 if d == axis else 1 for d, _ in enumerate(edges)])
    return hist / total


def histogram2d_edges(
    columns: Sequence[Any], bins: Any, range: Any, extent: Callable[[Any], Array]
) -> list[Array]:
    """Return NumPy's edges, computed from two points that span the same range as all points."""
    common = np.promote_types(columns[0].dtype, columns[1].dtype)
    sample = [np.zeros(2 if column.size else 0, common) for column in columns]
    per_axis: Any = bins if hasattr(bins, "__len__") and len(bins) in (1, 2) else [bins, bins]
    for i, column in enumerate(columns):
        is_counted = len(per_axis) > i and np.ndim(per_axis[i]) == 0
        if column.size and is_counted and (range is None or len(range) <= i or range[i] is None):
            sample[i] = extent(column).astype(common)
    edges: list[Array] = list(_NUMPY.histogram2d(*sample, bins, range)[1:])
    return edges


def bins_along_axes(edges: Sequence[Array], columns: Sequence[Any]) -> list[binning.Bins] | str:
    """Return the bins along each axis, or the reason why only NumPy can compute with them."""
    common = np.promote_types(columns[0].dtype, columns[1].dtype)
    axis_bins = []
    for axis in edges:
        unsupported = why_numpy_edges(axis)
        mixed = common.kind in "biu" and np.promote_types(common, axis.dtype).kind == "f" != axis.dtype.kind
        if mixed and len(axis) and abs(int(axis[-1])) > _MAX_EXACT_INTEGER:
            unsupported = "its edges and points are int64 and uint64"  # NumPy compares them as floats
        if unsupported is None and math.prod(len(e) for e in edges) > binning.MAX_BINS:
            unsupported = _TOO_MANY
        if unsupported is not None:
            return unsupported
        axis_bins.append(binning.edge_bins(axis, common))
    return axis_bins


@public_function(numpy=np.digitize, one_call="digitize")
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Return the indices of the bins to which each value in input array belongs.

    Parameters
    ----------
    x : array_like
        The elements.
    bins : array_like, 1-D
        The edges, which increase or decrease.
    right : bool
        Whether an interval includes its right edge instead of its left one.

    Returns
    -------
    ndarray of int
        For each element the index of the edge that ends its interval; 0 and ``len(bins)`` are outside.

    See Also
    --------
    numpy.digitize : NumPy's function.
    histogram, searchsorted

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.digitize([0.2, 6.4, 3.0], [0.0, 1.0, 2.5, 4.0, 10.0])
    array([1, 4, 3])
    """
    request = _HistogramRequest("digitize", [x], None, lambda: _NUMPY.digitize(x, bins, right))
    edges = bins if isinstance(bins, np.ndarray) else np.asarray(bins)
    if request.uses_numpy(None if edges.ndim != 1 else why_numpy_edges(edges)):
        return request.by_numpy()
    (values,) = request.arrays
    none = _NUMPY.digitize(np.empty(0, values.dtype), edges, right)  # raises NumPy's errors
    if values.size == 0 or edges.size == 0:
        return np.zeros(values.shape, none.dtype)[()]
    decreasing = bool(edges[0] > edges[-1])
    ordered = edges[::-1] if decreasing else edges
    between = binning.edge_bins(ordered, values.dtype)
    result = binning.bin_indices(request.choice, values, between, bool(right), decreasing)
    return result if result.ndim else result[()]
