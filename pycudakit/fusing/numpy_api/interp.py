"""Interpolation where the places lie on the device, and the points, too, or on the host."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pycudakit._families.interp import interpolate, periodic_points
from pycudakit._native.dtypes import CODES, FLOAT64
from pycudakit.fusing.device_impls.take import take_unchecked
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.numpy_api.library_calls import has_elements
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, implements

INTERPOLATED: dict[Any, Handler] = {}


@functools.partial(implements, INTERPOLATED)(np.interp)
def _interp(
    trace: Trace, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    if not has_elements(x) or x.dtype not in CODES:
        return NotImplemented
    if trace.buffers.scope.is_open and Tracer in (type(xp), type(fp)):
        found = _interp_on_device(trace, x, xp, fp, *trace.resolved((left, right, period)))
        if found is not NotImplemented:
            return found
    if x.dtype == FLOAT64 and period is None:
        return NotImplemented
    at = x.astype(FLOAT64)
    if period is None:
        return trace.call(np.interp, (at, xp, fp, left, right), {})
    xp, fp, period = trace.resolved((xp, fp, period))
    places, values = np.asarray(xp), np.asarray(fp)
    are_points = places.ndim == values.ndim == 1 and places.size == values.size > 0
    if not (are_points and np.ndim(period) == 0 and period) or values.dtype.kind == "c":
        return NotImplemented  # which raises
    period = abs(period)
    around = periodic_points(places.astype(FLOAT64), values.astype(FLOAT64), period)
    return trace.call(np.interp, (at % period, *around), {})


def _interp_on_device(trace: Trace, x: Tracer, xp: Any, fp: Any, left: Any, right: Any, period: Any) -> Any:
    points = [
        each if type(each) is Tracer else trace.wrap(np.asarray(trace.resolved(each))) for each in (xp, fp)
    ]
    if not all(type(each) is Tracer and each.ndim == 1 and each.size == points[0].size for each in points):
        return NotImplemented
    if not points[0].size or not all(each is None or type(each) in (int, float) for each in (left, right)):
        return NotImplemented
    at, places, values = (each.astype(FLOAT64) for each in (x, *points))
    if period is not None:
        if type(period) not in (int, float) or not period:
            return NotImplemented
        at, left, right = at % abs(period), None, None
        places, values = periodic_points(
            places, values, abs(period), functools.partial(take_unchecked, trace)
        )
    found = trace.on_device(
        interpolate, (at, places, values), {}, num_device_args=3, results_stay_on_device=True
    )
    first = values[:1] if left is None else float(left)
    last = values[-1:] if right is None else float(right)
    return np.where(at < places[:1], first, np.where(at > places[-1:], last, found))
