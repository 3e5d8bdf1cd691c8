"""`interp` with `x` on the device, in a fused function; `xp` and `fp` may be on the device or the host."""

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
        result = _interp_on_device(trace, x, xp, fp, *trace.resolved((left, right, period)))
        if result is not NotImplemented:
            return result
    if x.dtype == FLOAT64 and period is None:
        return NotImplemented
    x_float64 = x.astype(FLOAT64)
    if period is None:
        return trace.call(np.interp, (x_float64, xp, fp, left, right), {})
    xp, fp, period = trace.resolved((xp, fp, period))
    points, values = np.asarray(xp), np.asarray(fp)
    are_points = points.ndim == values.ndim == 1 and points.size == values.size > 0
    if not (are_points and np.ndim(period) == 0 and period) or values.dtype.kind == "c":
        return NotImplemented  # and NumPy raises
    period = abs(period)
    around = periodic_points(points.astype(FLOAT64), values.astype(FLOAT64), period)
    return trace.call(np.interp, (x_float64 % period, *around), {})


def _interp_on_device(trace: Trace, x: Tracer, xp: Any, fp: Any, left: Any, right: Any, period: Any) -> Any:
    points = [
        each if type(each) is Tracer else trace.wrap(np.asarray(trace.resolved(each))) for each in (xp, fp)
    ]
    if not all(type(each) is Tracer and each.ndim == 1 and each.size == points[0].size for each in points):
        return NotImplemented
    if not points[0].size or not all(each is None or type(each) in (int, float) for each in (left, right)):
        return NotImplemented
    x_float64, points_x, values = (each.astype(FLOAT64) for each in (x, *points))
    if period is not None:
        if type(period) not in (int, float) or not period:
            return NotImplemented
        x_float64, left, right = x_float64 % abs(period), None, None
        points_x, values = periodic_points(
            points_x, values, abs(period), functools.partial(take_unchecked, trace)
        )
    interpolated = trace.on_device(
        interpolate, (x_float64, points_x, values), {}, num_device_args=3, results_stay_on_device=True
    )
    first = values[:1] if left is None else float(left)
    last = values[-1:] if right is None else float(right)
    return np.where(x_float64 < points_x[:1], first, np.where(x_float64 > points_x[-1:], last, interpolated))
