"""NumPy's order statistics: medians, quantiles and percentiles, with and without NaN.

The engines find the elements that sorting would put in the middle, and the like; NumPy's own arithmetic makes
the results of these, so that every bit is NumPy's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit import _call, _cost, _engine, _execute, _family
from pycudakit._family import Cost, Plan, as_array
from pycudakit._quantiles import Points, are_valid
from pycudakit._values import Array

# Nanoseconds an element, and a row, measured on two cores: NumPy, and the CPU engine's single thread.
_NUMPY, _NUMPY_ROW = 8.0, 150.0
_NUMPY_NAN_ROW = (
    1500.0  # a row of a function that leaves NaN out is some calls in Python, or a masked array's
)
_OURS, _OURS_ROW = 1.5, 60.0
_COPY = 2.0  # to lay rows out one after the other, in NumPy
_PYTHON = 30e-6  # what a call takes beside that, more than NumPy's own


class _Request:
    """A call's array and axes, its rows, and how NumPy shapes what is found of each."""

    def __init__(self, a: Array, axis: Any, out: Any, keepdims: Any) -> None:
        self.a = a
        self.out = out
        self.floating = a.dtype.kind == "f"
        self.axes = None if axis is None else normalize_axis_tuple(axis, a.ndim)
        self.keep = [d for d in range(a.ndim) if self.axes is not None and d not in self.axes]
        self.rest = tuple(a.shape[d] for d in self.keep)  # the results' shape
        self.rows = math.prod(self.rest)
        self.columns = a.size // self.rows if self.rows else 0
        self.keepdims = bool(keepdims)
        self.view = out  # the part of `out` that is shaped as the results
        if keepdims and out is not None:
            self.view = out[self._index(0)]

    def _index(self, instead: Any) -> tuple[Any, ...]:
        return (..., *(slice(None) if d in self.keep else instead for d in range(self.a.ndim)))

    def dense(self) -> Array:
        """Return the rows, one after the other."""
        if self.axes is None:
            flat = self.a.ravel(order="K")
        else:
            flat = np.moveaxis(self.a, self.keep, range(len(self.keep)))
        native = self.a.dtype.newbyteorder("=")
        return np.ascontiguousarray(flat.reshape(self.rows, self.columns), native)

    def is_dense(self) -> bool:
        if not self.a.dtype.isnative:
            return False
        if self.axes is None:
            return bool(self.a.flags.forc)
        return bool(self.a.flags.c_contiguous) and self.keep == list(range(len(self.keep)))

    def finish(self, result: Any) -> Any:
        if self.out is not None:
            return self.out
        if self.keepdims:
            result = result[self._index(np.newaxis)]
        return result


class _Selector:
    """The rows of a request on the engine that a plan names."""

    def __init__(self, plan: Plan, request: _Request) -> None:
        self.plan = plan
        self.request = request
        self.rows = request.dense()
        dtype = self.rows.dtype
        name = "u8" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"
        self._entry = f"pk_select_{name}"
        self._stored = np.dtype(f"u{dtype.itemsize}") if dtype.kind == "b" or name == "f16" else dtype

    def select(self, ranks: Array) -> tuple[Array, Array]:
        """Return the elements of these ranks, which are for each row, or for each its own, and counts of NaN.

        The elements' first axis is the ranks', and the others are the results'.
        """
        count, columns = self.rows.shape
        ranks = np.atleast_2d(ranks)
        found = np.empty((count, ranks.shape[1]), self._stored)
        nans = np.empty(count, np.int64)
        _family.run(
            self.plan,
            self._entry,
            *(self.rows.view(self._stored), count, columns),
            *(np.ascontiguousarray(ranks).ravel(), len(ranks), ranks.shape[1]),
            *(found, nans),
            size=self.rows.size,
        )
        own = np.ascontiguousarray(found.T).view(self.rows.dtype)
        return own.astype(self.request.a.dtype, copy=False), nans

    def valid_counts(self) -> Array:
        """Return how many of each row's elements are not NaN."""
        columns = self.request.columns
        if not self.request.floating:
            return np.full(len(self.rows), columns)
        return columns - self.select(np.empty((1, 0), np.int64))[1]


def _plan(
    name: str, a: Any, q: Any, request_of: tuple[Any, Any, Any], foreign: str | None = None
) -> tuple[Plan, _Request | None]:
    """Return where a call runs and, if that may be an engine, what is asked of it."""
    array, quantiles = as_array(a), as_array(q)
    if array is None or quantiles is None or foreign is not None:
        return _family.plan(name, (array, quantiles), Cost(0.0, 1.0, 0, 0), foreign), None
    request = _Request(array, *request_of)
    size, rows = array.size, request.rows
    in_numpy = size * _NUMPY + rows * (_NUMPY_NAN_ROW if name.startswith("nan") else _NUMPY_ROW)
    work = (size * _OURS + rows * _OURS_ROW) * 1e-9
    threads = _cost.threads() if work > _cost.SHARED_WORK and _engine.status("cpu") else 1
    copy = 0.0 if request.is_dense() else size * _COPY * 1e-9
    in_ours = _PYTHON + _cost.CALL + copy + work / threads
    # On a GPU the rows go up, are read some times from its memory, and next to nothing comes back.
    cost = Cost(in_numpy * 1e-9, in_ours, array.nbytes, 0, copy + 2e-3 + rows * 1e-6)
    return _family.plan(name, (array, quantiles), cost), request


def _by_numpy(plan: Plan, compute: Callable[[], Any]) -> Any:
    """Have NumPy answer: because the plan says so, or because there are no elements to select from."""
    if plan.engine == "numpy":
        return _call.by_numpy(plan.function, plan.reason, compute)
    _call.local.call = _call.Call(plan.function, plan.engine, plan.reason, 0.0)
    return compute()


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=_execute.level_of_caller())


def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """Return the middle element in order, or the mean of the two in the middle.

    Parameters
    ----------
    a : array_like
        The values. A NaN among them makes the median NaN.
    axis : int, tuple of int or None, optional
        Along what; None is all elements.
    out : ndarray, optional
        Where to put the result.
    overwrite_input : bool, optional
        Whether `a` may be changed. The engines leave it as it is.
    keepdims : bool, optional
        Keep the axes that go, as axes of length 1.

    Returns
    -------
    ndarray or scalar

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> pk.median(np.array([[10, 7, 4], [3, 2, 1]]), axis=1)
    array([7., 2.])
    """
    plan, request = _plan("median", a, 0.5, (axis, out, keepdims))
    if plan.engine == "numpy" or request is None or request.a.size == 0:
        return _by_numpy(plan, lambda: np.median(a, axis, out, overwrite_input, keepdims))
    n = request.columns
    found, nans = _Selector(plan, request).select(np.unique([(n - 1) // 2, n // 2]))
    result: Any = np.mean(found.reshape(-1, *request.rest), axis=0, out=request.view)
    return request.finish(_with_nans(result, nans, request))


def _with_nans(result: Any, nans: Array, request: _Request) -> Any:
    """Make the results of rows that have a NaN NaN, as NumPy does."""
    if not nans.any():
        return result
    nan = request.a.dtype.newbyteorder("=").type(np.nan)
    if np.ndim(result) == 0 and request.out is None:
        return nan
    np.copyto(result, nan, where=nans.reshape(request.rest) != 0)
    return result


def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """Return the median of what is not NaN.

    Parameters
    ----------
    a : array_like
        The values. Where all are NaN the median is NaN, with a RuntimeWarning.
    axis, out, overwrite_input, keepdims
        As for `median`.

    Returns
    -------
    ndarray or scalar

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nanmedian([[1.0, float("nan"), 3.0], [4.0, 5.0, 9.0]], axis=1)
    array([2., 5.])
    """
    plan, request = _plan("nanmedian", a, 0.5, (axis, out, keepdims))
    if plan.engine == "numpy" or request is None or request.a.size == 0:
        return _by_numpy(plan, lambda: np.nanmedian(a, axis, out, overwrite_input, keepdims=keepdims))
    selector = _Selector(plan, request)
    valid = selector.valid_counts()
    last = np.maximum(valid - 1, 0)
    pairs, _ = selector.select(np.stack([last // 2, np.minimum(valid // 2, last)], axis=1))
    if not valid.all():
        _warn("All-NaN slice encountered")
    if request.floating and request.rest and request.columns < _MASKED_BELOW:
        result: Any = np.add.reduce(pairs, axis=0)
        np.true_divide(result, 2.0, out=result, casting="unsafe")
    else:
        result = np.mean(pairs[:1], axis=0)
        even = valid % 2 == 0
        if even.any():
            result[even] = np.mean(pairs[:, even], axis=0)
    result = result.reshape(request.rest)[()]
    if not request.rest and not valid.all():
        result = request.a.dtype.type(np.nan)
    if out is not None:
        request.view[...] = result
    return request.finish(result)


_MASKED_BELOW = 600  # NumPy takes shorter rows by way of a masked array, which adds in their own type


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
    """Return what a share of the values is below.

    Parameters
    ----------
    a : array_like
        The values. A NaN among them makes the quantiles NaN.
    q : array_like of float
        The shares, from 0 to 1: a number, or an array of one dimension or two.
    axis, out, overwrite_input, keepdims
        As for `median`. The first dimensions of the result are those of `q`.
    method : str, optional
        What is taken between two values: any of `numpy.quantile`'s methods.
    weights : array_like, optional
        A weight for each value, with the method ``"inverted_cdf"``. Weights are NumPy's alone.

    Returns
    -------
    ndarray or scalar

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.quantile([10.0, 20.0, 30.0, 40.0], [0.25, 0.5])
    array([17.5, 25. ])
    >>> pk.quantile([10, 20, 30, 40], 0.4, method="lower")
    np.int64(20)
    """
    return _quantiles("quantile", a, q, (axis, out, overwrite_input, method, keepdims), weights)


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
    """Return what a percentage of the values is below.

    Parameters
    ----------
    q : array_like of float
        The percentages, from 0 to 100.
    a, axis, out, overwrite_input, method, keepdims, weights
        As for `quantile`.

    Returns
    -------
    ndarray or scalar

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.percentile([10.0, 20.0, 30.0, 40.0], 25)
    np.float64(17.5)
    """
    return _quantiles("percentile", a, q, (axis, out, overwrite_input, method, keepdims), weights)


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
    """Return the quantiles of what is not NaN.

    Parameters
    ----------
    a : array_like
        The values. Where all are NaN the quantiles are NaN, with a RuntimeWarning.
    q, axis, out, overwrite_input, method, keepdims, weights
        As for `quantile`.

    Returns
    -------
    ndarray or scalar

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nanquantile([10.0, float("nan"), 30.0], 0.25)
    np.float64(15.0)
    """
    return _quantiles("nanquantile", a, q, (axis, out, overwrite_input, method, keepdims), weights)


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
    """Return the percentiles of what is not NaN.

    Parameters
    ----------
    a : array_like
        The values. Where all are NaN the percentiles are NaN, with a RuntimeWarning.
    q : array_like of float
        The percentages, from 0 to 100.
    axis, out, overwrite_input, method, keepdims, weights
        As for `quantile`.

    Returns
    -------
    ndarray or scalar

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nanpercentile([10.0, float("nan"), 30.0], 25)
    np.float64(15.0)
    """
    return _quantiles("nanpercentile", a, q, (axis, out, overwrite_input, method, keepdims), weights)


def _quantiles(name: str, a: Any, q: Any, keywords: tuple[Any, Any, bool, str, bool], weights: Any) -> Any:
    axis, out, _, method, keepdims = keywords
    foreign = None if weights is None else "weights are NumPy's alone"
    plan, request = _plan(name, a, q, (axis, out, keepdims), foreign)
    if plan.engine == "numpy" or request is None:
        return _by_numpy(plan, lambda: getattr(np, name)(a, q, *keywords, weights=weights))
    shares = np.asarray(q)
    if name.endswith("percentile"):
        shares = np.asarray(np.true_divide(shares, 100))
    if not are_valid(shares):
        limits = "Percentiles must be in the range [0, 100]", "Quantiles must be in the range [0, 1]"
        raise ValueError(limits[name.endswith("quantile")])
    if request.a.size == 0:
        return _by_numpy(plan, lambda: getattr(np, name)(a, q, *keywords))
    if shares.ndim > 2:
        raise ValueError("q must be a scalar or 1d")
    weak = type(q) in (int, float)
    if name.startswith("nan"):
        result = _nan_quantiles(_Selector(plan, request), shares, method, weak)
        if out is not None:
            request.view[...] = result
        return request.finish(result)
    points = Points(request.columns, shares, method, request.floating)
    found, nans = _Selector(plan, request).select(points.ranks)
    result = points.between(found.reshape(-1, *request.rest), weak, request.view)
    return request.finish(_with_nans(result, nans, request))


def _nan_quantiles(selector: _Selector, shares: Array, method: str, weak: bool) -> Any:
    """Return the quantiles of each row's own number of elements."""
    request = selector.request
    dtype = request.a.dtype
    valid = selector.valid_counts()
    if not valid.all():
        _warn("All-NaN slice encountered")
    counts, group_of = np.unique(valid, return_inverse=True)
    points = {
        group: Points(int(n), shares, method, request.floating) for group, n in enumerate(counts) if n > 0
    }
    most = max((len(p.ranks) for p in points.values()), default=0)
    of_group = np.zeros((len(counts), most), np.int64)
    for group, own in points.items():
        if most:
            of_group[group] = np.resize(own.ranks, most)
            of_group[group, len(own.ranks) :] = own.ranks[-1]
    found, _ = selector.select(of_group if len(counts) == 1 else of_group[group_of])
    if not request.rest:
        if not valid[0]:
            return np.full(shares.shape, np.nan, dtype)[()]
        return points[0].between(found[:, 0], weak)
    result: Any = None
    for group in np.unique(group_of, return_index=True)[1].argsort():
        rows = np.flatnonzero(group_of == group)
        if group in points:
            own_result = points[group].between(found[:, rows], weak)
        else:
            own_result = np.full((*shares.shape, len(rows)), np.nan, dtype)
        if result is None:  # the first row's type is that of all
            kind = own_result.dtype if shares.ndim else own_result.dtype.newbyteorder("=")
            result = np.empty((*shares.shape, len(valid)), kind)
        result[..., rows] = own_result
    return result.reshape(shares.shape + request.rest)
