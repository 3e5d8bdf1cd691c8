"""Order statistics along any axes, where arrays stay on the device: of rows that lie side by side there.

Each returns NotImplemented for what the host does.
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
        return _of_rows(trace, name, a, (), {}, axis, keepdims)

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
            return _of_weights(trace, name, a, np.asarray(levels), axis, keepdims, weights)
        return _of_rows(trace, name, a, (levels,), {"method": method}, axis, keepdims)

    return handle


for _name in ("median", "nanmedian"):
    QUANTILES[getattr(np, _name)] = _median(_name)
for _name in ("nanpercentile", "nanquantile", "percentile", "quantile"):
    QUANTILES[getattr(np, _name)] = _quantile(_name)


def _of_rows(
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
    kept = _kept(name, a, axes)
    rest = tuple(a.shape[d] for d in kept)
    if kept:
        a_rows = a.transpose((*kept, *sorted(axes)))
        if not trace.materialize(a_rows).flags.c_contiguous:
            a_rows = trace.call(np.copy, (a_rows, "C"), {})
        rows, along = a_rows.reshape((*rest, -1)), -1
    else:
        rows, along = a, None
    trace.costs.called(a.size)
    found = NotImplemented
    if type(rows) is Tracer:
        given = levels[0] if levels else None, keywords.get("method", "linear")
        found = row_quantiles(trace, name, rows if kept else rows.ravel(), *given)
        found = found if found is NotImplemented or keepdims or found.ndim else found[()]
    if found is NotImplemented:
        function = getattr(_family(), name)
        found = trace.on_device(function, (rows, *levels), {**keywords, "axis": along})
    if kept != sorted(kept):
        found = trace.wrap(found).transpose([kept.index(d) for d in sorted(kept)])
    return _shaped(trace, found, a, axes, np.shape(levels[0] if levels else 0), keepdims)


def _kept(name: str, a: Tracer, axes: tuple[int, ...]) -> list[int]:
    """Return the axes that are kept; of medians along one axis, in the order in which NumPy's results lie."""
    kept = [d for d in range(a.ndim) if d not in axes]
    is_of_one = name.endswith("median") and len(axes) == 1
    if is_of_one and (name == "median" or a.shape[axes[0]] < _family().MASKED_MEDIAN_BELOW):
        strides = layout_stub(a).strides
        kept.sort(key=lambda d: -abs(strides[d]))
    return kept


def _of_weights(trace: Trace, name: str, a: Any, levels: Any, axis: Any, keepdims: Any, weights: Any) -> Any:
    weighted: Any = importlib.import_module("pycudakit.fusing.device_impls.weighted_quantiles")
    if levels.dtype in CODES and name.endswith("percentile"):
        levels = np.asarray(np.true_divide(levels, 100))
    axes = _axes_of(a, axis)
    if not (axes and weighted.are_valid_levels(levels)):
        return NotImplemented
    trace.costs.called(a.size)
    given = (levels, None if axis is None else axes, weights, name.startswith("nan"))
    found = weighted.weighted_row_quantiles(trace, a, *given)
    if found is NotImplemented:
        return found
    return _shaped(trace, found, a, axes, levels.shape, keepdims)


def _family() -> Any:
    return importlib.import_module("pycudakit._families.select.quantiles")


def _axes_of(a: Any, axis: Any) -> tuple[int, ...]:
    """Return the axes of a call that stays on the device, or none."""
    is_on_device = type(a) is Tracer and a.ndim > 0 and a.size > 0
    try:
        return normalize_axis_tuple(range(a.ndim) if axis is None else axis, a.ndim) if is_on_device else ()
    except (TypeError, ValueError):
        return ()


def _shaped(
    trace: Trace, found: Any, a: Tracer, axes: tuple[int, ...], ahead: tuple[int, ...], keepdims: Any
) -> Any:
    """Return what is found with the axes that are kept."""
    if not keepdims:
        return found
    sizes = tuple(1 if d in axes else n for d, n in enumerate(a.shape))
    return trace.wrap(found).reshape((*ahead, *sizes))
