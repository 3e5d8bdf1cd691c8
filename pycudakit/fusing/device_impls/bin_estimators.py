"""NumPy's bin estimators ("auto", "fd", "scott", ...) for device-resident arrays.

NumPy's own estimators run on a proxy of the array, which computes the statistics that they ask for on the
device. Sums may round otherwise than NumPy's: an estimator that uses them is run at both ends of an error
bound, and the host computes the bins if the two results differ.
"""

from __future__ import annotations

import importlib
import math
import warnings
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES, Array, DType
from pycudakit._runtime import fp_errors
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace

# Estimators that use sizes, extremes, quartiles and counts, which have the same bits as in NumPy.
_EXACT = ("auto", "fd", "rice", "sqrt", "stone", "sturges")
_OF_SUMS = ("doane", "scott")  # estimators that use sums, which NumPy adds in an order of its own
_OF_NUMBERS = {code for code in CODES if code.kind in "iuf"}


class _UndecidedError(Exception):
    """Raised if the result may depend on how NumPy rounds its sums."""


def edges_by_estimator(trace: Trace, a: Any, rule: str, range: Any) -> tuple[Any, Array, int] | None:
    """Return the array, its bin edges and the number of bins; None if the host must compute them."""
    numpy_histograms = getattr(importlib.import_module("numpy.lib"), "_histograms_impl", None)
    edges_of = getattr(
        numpy_histograms, "_get_bin_edges", None
    )  # the only way to NumPy's estimators without the counting
    is_on_device = type(a) is Tracer and a.ndim > 0 and a.size > 0
    if not is_on_device or rule not in (*_EXACT, *_OF_SUMS) or edges_of is None:
        return None
    if a.dtype == np.bool_:
        a = bools_as_integers(a)
    sample = a
    if range is not None:
        if type(range) not in (list, tuple) or not _are_limits(*range):
            return None
        flat = a.ravel()
        sample = trace.call(np.compress, ((flat >= range[0]) & (flat <= range[1]), flat), {})
    bounds = _MomentBounds(trace, sample)
    ends = (0, 1) if rule in _OF_SUMS else (0,)
    try:
        results = [edges_of(_Sample(trace, sample, bounds, end), rule, range, None) for end in ends]
    except _UndecidedError:
        return None
    except (MemoryError, OverflowError, ValueError):
        if bounds.was_used:  # NumPy's exact sums may give valid bins
            return None
        raise
    edges, (_, _, count) = results[0]
    return (a, edges, count) if count == results[-1][1][2] > 0 else None


def bools_as_integers(a: Tracer) -> Any:
    """Convert bools to integers with the warning of `np.histogram`."""
    warnings.warn(
        f"Converting input from {a.dtype} to {np.uint8} for compatibility.",
        RuntimeWarning,
        stacklevel=fp_errors.caller_stacklevel(),
    )
    return a.astype(np.uint8)


def _are_limits(*limits: Any) -> bool:
    are_numbers = len(limits) == 2 and all(
        type(each) in (int, float) or (isinstance(each, np.generic) and each.dtype in _OF_NUMBERS)
        for each in limits
    )
    return are_numbers and all(map(math.isfinite, limits)) and bool(limits[0] < limits[1])


class _Sample:
    """A proxy that NumPy's estimators take for an array whose elements are on the device.

    For values that NumPy rounds in its own way it returns the lower or the upper bound (`end`).
    """

    def __init__(self, trace: Trace, a: Tracer, bounds: _MomentBounds, end: int) -> None:
        self.size, self.dtype = a.size, a.dtype
        self._trace, self._elements, self._bounds, self._end = trace, a, bounds, end

    def min(self) -> Any:
        return self._trace.resolved(np.min(self._elements))

    def max(self) -> Any:
        return self._trace.resolved(np.max(self._elements))

    def __ge__(self, _: Any) -> Any:
        return np.ones(1, bool)  # the elements are within the range already

    __le__ = __ge__

    def __sub__(self, _: Any) -> _Cubes:
        return _Cubes(self._bounds.skewness()[self._end])

    def __array_function__(self, function: Any, _: Any, arguments: Any, keywords: Any) -> Any:
        if function is np.result_type:
            return np.result_type(*(self.dtype if each is self else each for each in arguments))
        if function is np.std:
            return self._bounds.deviation()[self._end]
        if function is np.mean:
            return self.dtype.type(0)  # the estimator only subtracts it
        result = self._trace.call(function, (self._elements, *arguments[1:]), keywords)
        return self._trace.resolved(result)


class _Cubes:
    """The cubed deviations of an estimator, which asks for their mean only."""

    def __init__(self, mean: Any) -> None:
        self._mean = mean

    def __array_ufunc__(self, *_: Any, **__: Any) -> _Cubes:
        return self

    def __array_function__(self, *_: Any) -> Any:
        return self._mean


class _MomentBounds:
    """Bounds of the standard deviation and the skewness that NumPy computes, in its dtype.

    NumPy sums pairwise: it halves the array down to 128 elements or fewer, and adds these in eight partial
    sums. Elements that it must cast, it takes one buffer at a time, sequentially. `_rounded` bounds the
    relative error, with twice the unit roundoff per rounding, which leaves room for the errors of the device.
    """

    def __init__(self, trace: Trace, a: Tracer) -> None:
        self._trace, self._a = trace, a
        self._dtype: DType = np.dtype(a.dtype if a.dtype.kind == "f" else np.float64).newbyteorder("=")
        self._known: tuple[float, ...] = ()
        self.was_used = False

    def _moments(self) -> tuple[float, ...]:
        """Return the mean, the error bound of NumPy's mean, and the bounds of NumPy's variance."""
        self.was_used = True
        if self._known:
            return self._known
        if self._dtype.itemsize < 4:  # NumPy rounds each sum to three digits
            raise _UndecidedError
        x = self._a.astype(np.float64)
        mean, size, variance = self._resolved(np.mean(x), np.mean(np.abs(x)), np.var(x))
        rounded, tiny = self._rounded(), float(np.finfo(self._dtype).tiny)
        slip = rounded * size + tiny
        least, most = variance * (1 - rounded) - tiny, (variance + slip * slip) * (1 + rounded) + tiny
        if not (least > 0 and max(most, size) * self._a.size < float(np.finfo(self._dtype).max) / 4):
            raise _UndecidedError
        self._known = mean, slip, least, most
        return self._known

    def _rounded(self) -> float:
        is_converted = self._dtype != self._a.dtype
        roundings = 40 + math.log2(self._a.size) + (2 * self._a.size / np.getbufsize() if is_converted else 0)
        return roundings * float(np.finfo(self._dtype).eps)

    def _resolved(self, *tracers: Any) -> list[float]:
        with np.errstate(all="ignore"):
            return [float(each) for each in self._trace.resolved(list(tracers))]

    def deviation(self) -> list[Any]:
        _, _, least, most = self._moments()
        return [self._dtype.type(math.sqrt(each)) for each in (least, most)]

    def skewness(self) -> list[Any]:
        """Return the bounds of the absolute skewness, which is all that an estimator uses."""
        mean, slip, least, most = self._moments()
        with np.errstate(all="ignore"):
            y = self._a.astype(np.float64) - mean
            cubes = y * y * y
        third, size = self._resolved(np.mean(cubes), np.mean(np.abs(cubes)))
        tiny = float(np.finfo(self._dtype).tiny)
        slip = 2 * slip  # distance from the mean computed here
        moved = 3 * slip * most + 4 * slip**3
        apart = moved + self._rounded() * (size ** (1 / 3) + slip) ** 3
        low = max(abs(third) - apart, 0.0) / most**1.5 * (1 - self._rounded()) - tiny
        high = (abs(third) + apart) / least**1.5 * (1 + self._rounded()) + tiny
        if not high < float(np.finfo(self._dtype).max):
            raise _UndecidedError
        return [self._dtype.type(max(each, 0.0)) for each in (low, high)]
