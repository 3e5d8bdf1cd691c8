"""Median and quantiles on device arrays, by sorting the rows on the device.

The host waits for the device in two cases, both of which ignore NaN: to warn of rows of only NaN, unless
calls are asynchronous; and to see whether the first row is one, if the levels have another dtype than the
rows.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from pycudakit._native.dtypes import BOOL, CODES, FLOAT32, FLOAT64, Array, DType
from pycudakit.fusing.device_impls.take import take_along_unchecked
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace

_MAX_LEVELS = 32  # quantile levels, each of which is a few kernels
_MAX_ELEMENTS = 1 << 30  # of all rows, which are sorted at once
_MEMORY_FACTOR = 4  # memory needed, in sizes of the rows


def row_quantiles(trace: Trace, name: str, rows: Tracer, q: Any, method: str) -> Any:
    """Return a function's order statistics along the last axis; several levels become the first axis.

    Return NotImplemented if the rows are not device-resident, or the call is not supported by sorting.
    """
    trace.materialize(rows)
    buffer = rows.node.buffer
    fits = rows.size <= _MAX_ELEMENTS and _MEMORY_FACTOR * rows.nbytes <= (residency.budget() or math.inf)
    if buffer is None or not (buffer.is_resident and fits and rows.dtype.isnative):
        return NotImplemented
    if name.endswith("median"):
        return _SortedRows(trace, name, rows).median()
    levels = np.asarray(q)
    if levels.dtype not in CODES or not 0 < levels.size <= _MAX_LEVELS:
        return NotImplemented
    if name.startswith("nan") and levels.ndim and not trace.buffers.scope.is_async:
        return NotImplemented  # NumPy lays out the quantiles of a row next to each other
    if name.endswith("percentile"):
        levels = np.asarray(np.true_divide(levels, 100))
    interpolation: Any = importlib.import_module("pycudakit._families.select.quantile_interpolation")
    are_valid = (
        levels.ndim <= 2 and method in interpolation.METHODS and interpolation.quantile_is_valid(levels)
    )
    # For one row, NumPy returns NaN in the dtype of the row, whatever that of `q` is.
    has_two_types = levels.ndim == 0 and rows.ndim == 1 and rows.dtype != levels.dtype
    is_weak = type(q) in (int, float)
    if not are_valid or (has_two_types and not is_weak):
        return NotImplemented
    if (
        rows.dtype == BOOL
        and interpolation.QuantileInterpolation(rows.shape[-1], levels, method, False).gamma is not None
    ):
        return NotImplemented  # bools cannot be subtracted, so not interpolated
    sorted_rows = _SortedRows(trace, name, rows)
    if sorted_rows.skips_nan and levels.dtype != FLOAT64:
        return NotImplemented
    return sorted_rows.quantiles(interpolation, levels, method, is_weak)


class _SortedRows:
    """The rows sorted along the last axis, NaN last, and the statistics taken from them."""

    def __init__(self, trace: Trace, name: str, rows: Tracer) -> None:
        self._trace = trace
        self._dtype: DType = rows.dtype
        self._floating = rows.dtype.kind == "f"
        self._count = rows.shape[-1]
        self._is_one = rows.ndim == 1
        # An element of a 1-d array would be 0-d, and the host would read it.
        rows = rows.reshape(1, -1) if self._is_one else rows
        self._ordered: Any = trace.call(np.sort, (rows,), {})
        self.skips_nan = name.startswith("nan") and self._floating
        if self.skips_nan:
            valid = np.count_nonzero(~np.isnan(rows), axis=-1)
            self._valid: Any = valid.astype(np.int64)
            self._warn_of_only_nan()

    def _warn_of_only_nan(self) -> None:
        if not self._trace.buffers.scope.is_async and self._trace.resolved(np.any(self._valid == 0)):
            importlib.import_module("pycudakit._families.select.order_statistics").warn_all_nan_slice()

    def _at(self, rank: int) -> Any:
        return self._ordered[..., rank]

    def _at_row_ranks(self, ranks: Any) -> Any:
        """Return the element at a rank of its own in each row; NaN for rows of only NaN."""
        inside = np.minimum(np.maximum(ranks, 0), self._count - 1)
        return take_along_unchecked(self._trace, self._ordered, inside[..., np.newaxis])[..., 0]

    def _or_nan(self, result: Any, is_nan: Any) -> Any:
        return np.where(is_nan, result.dtype.type(np.nan), result)

    def _shaped(self, result: Any, level_shape: tuple[int, ...]) -> Any:
        rest = () if self._is_one else self._ordered.shape[:-1]
        return result.reshape((*level_shape, *rest))

    def median(self) -> Any:
        result = self._median_without_nan() if self.skips_nan else self._median_of_all()
        return self._shaped(result, ())

    def _median_of_all(self) -> Any:
        n = self._count
        low, high = self._at((n - 1) // 2), self._at(n // 2)
        result = self._mean([low] if n % 2 else [low, high])
        return self._or_nan(result, np.isnan(self._at(n - 1))) if self._floating else result

    def _mean(self, elements: list[Any]) -> Any:
        """Compute `np.mean` of one or two elements."""
        dtype = self._dtype if self._floating else FLOAT64
        sum_dtype = FLOAT32 if dtype.itemsize == 2 else dtype
        total = sum((each.astype(sum_dtype) for each in elements[1:]), elements[0].astype(sum_dtype))
        return (total / len(elements)).astype(dtype)

    def _median_without_nan(self) -> Any:
        valid = self._valid
        last = np.maximum(valid - 1, 0)
        low, high = self._at_row_ranks(last // 2), self._at_row_ranks(np.minimum(valid // 2, last))
        quantiles: Any = importlib.import_module("pycudakit._families.select.quantiles")
        if (
            not self._is_one and self._count < quantiles.MASKED_MEDIAN_BELOW
        ):  # then NumPy adds in the rows' dtype
            result = (low + high) / self._dtype.type(2)
        else:
            result = np.where(valid % 2 == 0, self._mean([low, high]), low)
        return self._or_nan(result, valid == 0)

    def quantiles(self, interpolation: Any, levels: Array, method: str, is_weak: bool) -> Any:
        if self.skips_nan:
            per_level = [
                self._level_without_nan(interpolation, level, method, is_weak) for level in levels.ravel()
            ]
            if per_level[0].dtype != self._dtype and self._is_first_empty():
                per_level = [each.astype(self._dtype) for each in per_level]
        else:
            per_level = self._levels(
                interpolation.QuantileInterpolation(self._count, levels, method, self._floating), is_weak
            )
        stacked = self._trace.call(np.stack, (per_level, 0), {}) if levels.ndim else per_level[0]
        return self._shaped(stacked, levels.shape)

    def _is_first_empty(self) -> bool:
        """Return True if the first row has only NaN; this waits for the device.

        NumPy takes the dtype of all results from that of the first row, which is the row's own if it has only
        NaN.
        """
        return not self._trace.resolved(self._valid.ravel()[0])

    def _levels(self, points: Any, is_weak: bool) -> list[Any]:
        indexes = [each.ravel() for each in points.indexes]
        results = []
        for i, low in enumerate(indexes[0]):
            result = self._at(int(low))
            if points.gamma is not None:
                gamma = points.gamma.ravel()[i]
                high = self._at(int(indexes[1][i]))
                result = _lerp(result, high, float(gamma) if is_weak else gamma)
            if self._floating:
                result = self._or_nan(result, np.isnan(self._at(self._count - 1)))
            results.append(result)
        return results

    def _level_without_nan(self, interpolation: Any, level: Any, method: str, is_weak: bool) -> Any:
        indexes, gamma = interpolation.neighbour_indexes(self._valid, level, method, self._floating)
        low, *high = (
            self._at_row_ranks(np.where(index < 0, index + self._valid, index)) for index in indexes
        )
        if gamma is None:
            return self._or_nan(low, self._valid == 0)
        upper_weight, lower_weight = gamma, 1 - gamma
        if is_weak:
            upper_weight, lower_weight = upper_weight.astype(self._dtype), lower_weight.astype(self._dtype)
        difference = high[0] - low
        result = np.where(gamma >= 0.5, high[0] - difference * lower_weight, low + difference * upper_weight)
        return self._or_nan(result, self._valid == 0)


def _lerp(low: Any, high: Any, gamma: Any) -> Any:
    """Interpolate linearly, by the arithmetic of NumPy's `_lerp`."""
    difference = high - low
    return high - difference * (1 - gamma) if gamma >= 0.5 else low + difference * gamma
