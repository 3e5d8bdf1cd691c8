"""NumPy's rules for bins where arrays stay on the device: what they ask of the elements is found there."""

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

# Those that ask for the number of elements, extremes, quartiles and counts, of which NumPy has the same bits.
_EXACT = ("auto", "fd", "rice", "sqrt", "stone", "sturges")
_OF_SUMS = ("doane", "scott")  # which NumPy adds up in an order of its own
_OF_NUMBERS = {code for code in CODES if code.kind in "iuf"}


class _UndecidedError(Exception):
    """How NumPy rounds its sums may decide."""


def edges_by_estimator(trace: Trace, a: Any, rule: str, range: Any) -> tuple[Any, Array, int] | None:
    """Return the array, the edges of its bins and how many bins there are; None for what the host does."""
    numpys = getattr(importlib.import_module("numpy.lib"), "_histograms_impl", None)
    edges_of = getattr(numpys, "_get_bin_edges", None)  # the only way to NumPy's rules alone
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
        found = [edges_of(_Sample(trace, sample, bounds, end), rule, range, None) for end in ends]
    except _UndecidedError:
        return None
    except (MemoryError, OverflowError, ValueError):
        if bounds.is_asked:  # NumPy's own may have bins
            return None
        raise
    edges, (_, _, count) = found[0]
    return (a, edges, count) if count == found[-1][1][2] > 0 else None


def bools_as_integers(a: Tracer) -> Any:
    """Return bools as `np.histogram` counts them, which warns of it."""
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
    """What NumPy's rules ask of elements: these lie on the device.

    Of what NumPy rounds in its own way, they are told the least that it may have, or the greatest.
    """

    def __init__(self, trace: Trace, a: Tracer, bounds: _MomentBounds, end: int) -> None:
        self.size, self.dtype = a.size, a.dtype
        self._trace, self._elements, self._bounds, self._end = trace, a, bounds, end

    def min(self) -> Any:
        return self._trace.resolved(np.min(self._elements))

    def max(self) -> Any:
        return self._trace.resolved(np.max(self._elements))

    def __ge__(self, _: Any) -> Any:
        return np.ones(1, bool)  # within the range, as all that are left

    __le__ = __ge__

    def __sub__(self, _: Any) -> _Cubes:
        return _Cubes(self._bounds.skewness()[self._end])

    def __array_function__(self, function: Any, _: Any, arguments: Any, keywords: Any) -> Any:
        if function is np.result_type:
            return np.result_type(*(self.dtype if each is self else each for each in arguments))
        if function is np.std:
            return self._bounds.deviation()[self._end]
        if function is np.mean:
            return self.dtype.type(0)  # which is to be subtracted, and no more
        found = self._trace.call(function, (self._elements, *arguments[1:]), keywords)
        return self._trace.resolved(found)


class _Cubes:
    """What a rule makes of the differences from the mean, of which it asks for the mean alone."""

    def __init__(self, mean: Any) -> None:
        self._mean = mean

    def __array_ufunc__(self, *_: Any, **__: Any) -> _Cubes:
        return self

    def __array_function__(self, *_: Any) -> Any:
        return self._mean


class _MomentBounds:
    """Between what limits NumPy's own standard deviation and skewness of elements are, in their type.

    NumPy halves what it adds up until it has 128 numbers or less, and adds these up in eight sums. What it
    converts, it takes as many at a time as fit its buffer, one sum after the other. `_rounded` says how far
    that may be off, at twice what each rounding is, which leaves room for ours.
    """

    def __init__(self, trace: Trace, a: Tracer) -> None:
        self._trace, self._a = trace, a
        self._dtype: DType = np.dtype(a.dtype if a.dtype.kind == "f" else np.float64).newbyteorder("=")
        self._known: tuple[float, ...] = ()
        self.is_asked = False

    def _moments(self) -> tuple[float, ...]:
        """Return the mean, how far NumPy's may be from it, and the limits of NumPy's variance."""
        self.is_asked = True
        if self._known:
            return self._known
        if self._dtype.itemsize < 4:  # whose every sum NumPy rounds to three digits
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
        """Return the limits of its size: a rule asks for no more."""
        mean, slip, least, most = self._moments()
        with np.errstate(all="ignore"):
            y = self._a.astype(np.float64) - mean
            cubes = y * y * y
        third, size = self._resolved(np.mean(cubes), np.mean(np.abs(cubes)))
        tiny = float(np.finfo(self._dtype).tiny)
        slip = 2 * slip  # from our own mean
        moved = 3 * slip * most + 4 * slip**3
        apart = moved + self._rounded() * (size ** (1 / 3) + slip) ** 3
        low = max(abs(third) - apart, 0.0) / most**1.5 * (1 - self._rounded()) - tiny
        high = (abs(third) + apart) / least**1.5 * (1 + self._rounded()) + tiny
        if not high < float(np.finfo(self._dtype).max):
            raise _UndecidedError
        return [self._dtype.type(max(each, 0.0)) for each in (low, high)]
