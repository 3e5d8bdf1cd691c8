"""NumPy's order statistics: medians, quantiles and percentiles, with and without NaN.

The engines select the elements of the needed ranks (radix select). NumPy's own arithmetic interpolates
between them, so that every bit is NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._families.select.order_statistics import (
    OrderStatisticRequest,
    Selector,
    by_numpy,
    plan_selection,
    warn_all_nan_slice,
)
from pycudakit._families.select.quantile_interpolation import QuantileInterpolation, quantile_is_valid
from pycudakit._families.select.weighted_quantiles import weighted_quantiles
from pycudakit._native.dtypes import Array
from pycudakit._runtime.operands import as_array
from pycudakit._runtime.public_function import public_function

MASKED_MEDIAN_BELOW = 600  # for shorter rows NumPy uses a masked array, which adds in the array's own type


@public_function(numpy=np.median, one_call="median")
def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """Compute the median along the specified axis.

    Parameters
    ----------
    a : array_like
        The values. A NaN among them makes the median NaN.
    axis : int, tuple of int or None, optional
        The axes along which to compute; None for all elements.
    out : ndarray, optional
        Where to put the result.
    overwrite_input : bool, optional
        Whether `a` may be changed. The engines do not change it.
    keepdims : bool, optional
        Whether the reduced axes stay, of length 1.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.median : NumPy's function.
    quantile, percentile, nanmedian, mean

    Differs from NumPy
    ------------------
    The engines put -0.0 before 0.0, an order that NumPy leaves open.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> pk.median(np.array([[10, 7, 4], [3, 2, 1]]), axis=1)
    array([7., 2.])
    """
    choice, request = plan_selection("median", a, 0.5, (axis, out, keepdims))
    if choice.engine == "numpy" or request is None or request.a.size == 0:
        return by_numpy(choice, lambda: np.median(a, axis, out, overwrite_input, keepdims))
    n = request.columns
    elements, nans = Selector(choice, request).select(np.unique([(n - 1) // 2, n // 2]))
    result: Any = np.mean(elements.reshape(-1, *request.outer_shape), axis=0, out=request.view)
    return request.finish(request.laid_out_as_reduction(_propagate_nan(result, nans, request)))


def _propagate_nan(result: Any, nans: Array, request: OrderStatisticRequest) -> Any:
    """Set the results of rows that have a NaN to NaN, as NumPy does."""
    if not nans.any():
        return result
    nan = request.a.dtype.newbyteorder("=").type(np.nan)
    if np.ndim(result) == 0 and request.out is None:
        return nan
    np.copyto(result, nan, where=nans.reshape(request.outer_shape) != 0)
    return result


@public_function(numpy=np.nanmedian, one_call="nanmedian")
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """Compute the median along the specified axis, ignoring NaNs.

    Parameters
    ----------
    a : array_like
        The values. The median of NaN alone is NaN, with a RuntimeWarning.
    axis, out, overwrite_input, keepdims
        As for `median`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.nanmedian : NumPy's function.
    median, nanquantile

    Differs from NumPy
    ------------------
    The engines put -0.0 before 0.0, an order that NumPy leaves open.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nanmedian([[1.0, float("nan"), 3.0], [4.0, 5.0, 9.0]], axis=1)
    array([2., 5.])
    """
    choice, request = plan_selection("nanmedian", a, 0.5, (axis, out, keepdims))
    if choice.engine == "numpy" or request is None or request.a.size == 0:
        return by_numpy(choice, lambda: np.nanmedian(a, axis, out, overwrite_input, keepdims=keepdims))
    selector = Selector(choice, request)
    valid = selector.valid_counts()
    last = np.maximum(valid - 1, 0)
    pairs, _ = selector.select(np.stack([last // 2, np.minimum(valid // 2, last)], axis=1))
    if not valid.all():
        warn_all_nan_slice()
    if request.floating and request.outer_shape and request.columns < MASKED_MEDIAN_BELOW:
        result: Any = np.add.reduce(pairs, axis=0)
        np.true_divide(result, 2.0, out=result, casting="unsafe")
    else:
        result = np.mean(pairs[:1], axis=0)
        even = valid % 2 == 0
        if even.any():
            result[even] = np.mean(pairs[:, even], axis=0)
    result = result.reshape(request.outer_shape)[()]
    if not request.outer_shape and not valid.all():
        result = request.a.dtype.type(np.nan)
    if out is not None:
        request.view[...] = result
    is_by_rows = request.columns >= MASKED_MEDIAN_BELOW
    return request.finish(result if is_by_rows else request.laid_out_as_reduction(result))


@public_function(numpy=np.quantile, one_call="quantile")
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Compute the q-th quantile of the data along the specified axis.

    Parameters
    ----------
    a : array_like
        The values. A NaN among them makes the quantiles NaN.
    q : array_like of float
        The quantile levels, from 0 to 1: a number, or an array of one dimension or two.
    axis, out, overwrite_input, keepdims
        As for `median`. The first dimensions of the result are those of `q`.
    method : str, optional
        The interpolation between two values: any of `numpy.quantile`'s methods.
    weights : array_like, optional
        A weight for each value, for the method ``"inverted_cdf"``.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.quantile : NumPy's function.
    percentile, median, nanquantile

    Differs from NumPy
    ------------------
    The engines put -0.0 before 0.0, an order that NumPy leaves open.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.quantile([10.0, 20.0, 30.0, 40.0], [0.25, 0.5])
    array([17.5, 25. ])
    >>> pk.quantile([10, 20, 30, 40], 0.4, method="lower")
    np.int64(20)
    """
    return _quantiles("quantile", a, q, (axis, out, overwrite_input, method, keepdims), weights)


@public_function(numpy=np.percentile, one_call="percentile")
def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Compute the q-th percentile of the data along the specified axis.

    Parameters
    ----------
    q : array_like of float
        The percentage levels, from 0 to 100.
    a, axis, out, overwrite_input, method, keepdims, weights
        As for `quantile`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.percentile : NumPy's function.
    quantile, median, nanpercentile

    Differs from NumPy
    ------------------
    The engines put -0.0 before 0.0, an order that NumPy leaves open.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.percentile([10.0, 20.0, 30.0, 40.0], 25)
    np.float64(17.5)
    """
    return _quantiles("percentile", a, q, (axis, out, overwrite_input, method, keepdims), weights)


@public_function(numpy=np.nanquantile, one_call="nanquantile")
def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Compute the q-th quantile of the data along the specified axis, ignoring NaNs.

    Parameters
    ----------
    a : array_like
        The values. The quantiles of NaN alone are NaN, with a RuntimeWarning.
    q, axis, out, overwrite_input, method, keepdims, weights
        As for `quantile`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.nanquantile : NumPy's function.
    quantile, nanpercentile

    Differs from NumPy
    ------------------
    The engines put -0.0 before 0.0, an order that NumPy leaves open.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nanquantile([10.0, float("nan"), 30.0], 0.25)
    np.float64(15.0)
    """
    return _quantiles("nanquantile", a, q, (axis, out, overwrite_input, method, keepdims), weights)


@public_function(numpy=np.nanpercentile, one_call="nanpercentile")
def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Compute the q-th percentile of the data along the specified axis, ignoring NaNs.

    Parameters
    ----------
    a : array_like
        The values. The percentiles of NaN alone are NaN, with a RuntimeWarning.
    q : array_like of float
        The percentage levels, from 0 to 100.
    axis, out, overwrite_input, method, keepdims, weights
        As for `quantile`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.nanpercentile : NumPy's function.
    percentile, nanquantile

    Differs from NumPy
    ------------------
    The engines put -0.0 before 0.0, an order that NumPy leaves open.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nanpercentile([10.0, float("nan"), 30.0], 25)
    np.float64(15.0)
    """
    return _quantiles("nanpercentile", a, q, (axis, out, overwrite_input, method, keepdims), weights)


def _quantiles(name: str, a: Any, q: Any, keywords: tuple[Any, Any, bool, str, bool], weights: Any) -> Any:
    axis, out, _, method, keepdims = keywords
    weight_array = None if weights is None else as_array(weights)
    unsupported = "weights of an unsupported type" if weights is not None and weight_array is None else None
    choice, request = plan_selection(name, a, q, (axis, out, keepdims), unsupported)
    if choice.engine == "numpy" or request is None:
        return by_numpy(choice, lambda: getattr(np, name)(a, q, *keywords, weights=weights))
    levels = np.asarray(q)
    if name.endswith("percentile"):
        levels = np.asarray(np.true_divide(levels, 100))
    if not quantile_is_valid(levels):
        limits = "Percentiles must be in the range [0, 100]", "Quantiles must be in the range [0, 1]"
        raise ValueError(limits[name.endswith("quantile")])
    if request.a.size == 0:
        return by_numpy(choice, lambda: getattr(np, name)(a, q, *keywords, weights=weights))
    if levels.ndim > 2:
        raise ValueError("q must be a scalar or 1d")
    if weight_array is not None:
        skips_nan = name.startswith("nan")
        return weighted_quantiles(
            request.a, levels, axis, out, method, request.keepdims, weight_array, skips_nan
        )
    weak = type(q) in (int, float)
    if name.startswith("nan"):
        result = _quantiles_by_valid_count(Selector(choice, request), levels, method, weak)
        if out is not None:
            request.view[...] = result
        return request.finish(result)
    points = QuantileInterpolation(request.columns, levels, method, request.floating)
    elements, nans = Selector(choice, request).select(points.ranks)
    result = points.interpolate(elements.reshape(-1, *request.outer_shape), weak, request.view)
    return request.finish(_propagate_nan(result, nans, request))


def _quantiles_by_valid_count(selector: Selector, levels: Array, method: str, weak: bool) -> Any:
    """Compute the quantiles of rows that have different numbers of valid elements, group by group."""
    request = selector.request
    dtype = request.a.dtype
    valid = selector.valid_counts()
    if not valid.all():
        warn_all_nan_slice()
    counts, group_of = np.unique(valid, return_inverse=True)
    points = {
        group: QuantileInterpolation(int(n), levels, method, request.floating)
        for group, n in enumerate(counts)
        if n > 0
    }
    most = max((len(p.ranks) for p in points.values()), default=0)
    of_group = np.zeros((len(counts), most), np.int64)
    for group, points_of_group in points.items():
        if most:
            of_group[group] = np.resize(points_of_group.ranks, most)
            of_group[group, len(points_of_group.ranks) :] = points_of_group.ranks[-1]
    elements, _ = selector.select(of_group if len(counts) == 1 else of_group[group_of])
    if not request.outer_shape:
        if not valid[0]:
            return np.full(levels.shape, np.nan, dtype)[()]
        return points[0].interpolate(elements[:, 0], weak)
    result: Any = None
    for group in np.unique(group_of, return_index=True)[1].argsort():
        rows = np.flatnonzero(group_of == group)
        if group in points:
            group_result = points[group].interpolate(elements[:, rows], weak)
        else:
            group_result = np.full((*levels.shape, len(rows)), np.nan, dtype)
        if result is None:  # the first row's type becomes the result's
            kind = group_result.dtype if levels.ndim else group_result.dtype.newbyteorder("=")
            # NumPy stores the quantiles of a row adjacently.
            result = np.moveaxis(np.empty((len(valid), *levels.shape), kind), 0, -1)
        result[..., rows] = group_result
    return result.reshape(levels.shape + request.outer_shape)
