"""Medians, percentiles and quantiles of device-resident arrays, along any axes.

The reduced axes are moved last, so that each row is contiguous. Handlers return NotImplemented for calls that
the host must compute.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit._native.dtypes import CODES
from pycudakit.fusing.device_impls.quantiles_by_sort import row_quantiles
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, layout_stub

QUANTILES: dict[Any, Handler] = {}


def _median(name: str) -> Handler:
    def handle(
        trace: Trace,
        a: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: Any = False,
        keepdims: Any = False,
    ) -> Any:
        del overwrite_input
        if out is not None:
            return NotImplemented
        return _row_statistic(trace, name, a, (), {}, axis, keepdims)

    return handle


def _quantile(name: str) -> Handler:
    def handle(
        trace: Trace,
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: Any = False,
        method: Any = "linear",
        keepdims: Any = False,
        *,
        weights: Any = None,
    ) -> Any:
        del overwrite_input
        if out is not None:
            return NotImplemented
        levels = trace.resolved(q)
        if weights is not None:
            if method != "inverted_cdf":
                return NotImplemented
            return _weighted_quantile(trace, name, a, np.asarray(levels), axis, keepdims, weights)
        return _row_statistic(trace, name, a, (levels,), {"method": method}, axis, keepdims)

    return handle


for _name in ("median", "nanmedian"):
    QUANTILES[getattr(np, _name)] = _median(_name)
for _name in ("nanpercentile", "nanquantile", "percentile", "quantile"):
    QUANTILES[getattr(np, _name)] = _quantile(_name)


def _row_statistic(
    trace: Trace,
    name: str,
    a: Any,
    levels: tuple[Any, ...],
    keywords: dict[str, Any],
    axis: Any,
    keepdims: Any,
) -> Any:
    axes = _axes_of(a, axis)
    if not axes:
        return NotImplemented
    remaining = _remaining_axes(name, a, axes)
    rest = tuple(a.shape[d] for d in remaining)
    if remaining:
        a_rows = a.transpose((*remaining, *sorted(axes)))
        if not trace.materialize(a_rows).flags.c_contiguous:
            a_rows = trace.call(np.copy, (a_rows, "C"), {})
        rows, along = a_rows.reshape((*rest, -1)), -1
    else:
        rows, along = a, None
    trace.costs.called(a.size)
    result = NotImplemented
    if type(rows) is Tracer:
        level_and_method = levels[0] if levels else None, keywords.get("method", "linear")
        result = row_quantiles(trace, name, rows if remaining else rows.ravel(), *level_and_method)
        result = result if result is NotImplemented or keepdims or result.ndim else result[()]
    if result is NotImplemented:
        function = getattr(_family(), name)
        result = trace.on_device(function, (rows, *levels), {**keywords, "axis": along})
    if remaining != sorted(remaining):
        result = trace.wrap(result).transpose([remaining.index(d) for d in sorted(remaining)])
    return _shaped(trace, result, a, axes, np.shape(levels[0] if levels else 0), keepdims)


def _remaining_axes(name: str, a: Tracer, axes: tuple[int, ...]) -> list[int]:
    """Return the axes that remain, in memory order of NumPy's result for medians along one axis."""
    remaining = [d for d in range(a.ndim) if d not in axes]
    is_of_one = name.endswith("median") and len(axes) == 1
    if is_of_one and (name == "median" or a.shape[axes[0]] < _family().MASKED_MEDIAN_BELOW):
        strides = layout_stub(a).strides
        remaining.sort(key=lambda d: -abs(strides[d]))
    return remaining


def _weighted_quantile(
    trace: Trace, name: str, a: Any, levels: Any, axis: Any, keepdims: Any, weights: Any
) -> Any:
    weighted: Any = importlib.import_module("pycudakit.fusing.device_impls.weighted_quantiles")
    if levels.dtype in CODES and name.endswith("percentile"):
        levels = np.asarray(np.true_divide(levels, 100))
    axes = _axes_of(a, axis)
    if not (axes and weighted.are_valid_levels(levels)):
        return NotImplemented
    trace.costs.called(a.size)
    options = (levels, None if axis is None else axes, weights, name.startswith("nan"))
    result = weighted.weighted_row_quantiles(trace, a, *options)
    if result is NotImplemented:
        return result
    return _shaped(trace, result, a, axes, levels.shape, keepdims)


def _family() -> Any:
    return importlib.import_module("pycudakit._families.select.quantiles")


def _axes_of(a: Any, axis: Any) -> tuple[int, ...]:
    """Return the reduced axes if the array is on the device and the axes are valid; else ()."""
    is_on_device = type(a) is Tracer and a.ndim > 0 and a.size > 0
    try:
        return normalize_axis_tuple(range(a.ndim) if axis is None else axis, a.ndim) if is_on_device else ()
    except (TypeError, ValueError):
        return ()


def _shaped(
    trace: Trace, result: Any, a: Tracer, axes: tuple[int, ...], level_shape: tuple[int, ...], keepdims: Any
) -> Any:
    """Reshape the result for `keepdims`."""
    if not keepdims:
        return result
    sizes = tuple(1 if d in axes else n for d, n in enumerate(a.shape))
    return trace.wrap(result).reshape((*level_shape, *sizes))
