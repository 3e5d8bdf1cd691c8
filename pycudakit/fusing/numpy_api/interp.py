"""Interpolation where the places lie on the device, and the points, too, or on the host."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pycudakit._families.interp import points_around, through
from pycudakit._native.dtypes import CODES, FLOAT64
from pycudakit.fusing.device_impls.take import taken
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.numpy_api.library_calls import has_elements
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.trace.views_and_creation import Handler, captures

INTERPOLATED: dict[Any, Handler] = {}


@functools.partial(captures, INTERPOLATED)(np.interp)
def _interp(
    recording: Recording, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    if not has_elements(x) or x.dtype not in CODES:
        return NotImplemented
    if recording.memory.scope.is_open and StandIn in (type(xp), type(fp)):
        found = _by_points_there(recording, x, xp, fp, *recording.resolved((left, right, period)))
        if found is not NotImplemented:
            return found
    if x.dtype == FLOAT64 and period is None:
        return NotImplemented
    at = x.astype(FLOAT64)
    if period is None:
        return recording.call(np.interp, (at, xp, fp, left, right), {})
    xp, fp, period = recording.resolved((xp, fp, period))
    places, values = np.asarray(xp), np.asarray(fp)
    are_points = places.ndim == values.ndim == 1 and places.size == values.size > 0
    if not (are_points and np.ndim(period) == 0 and period) or values.dtype.kind == "c":
        return NotImplemented  # which raises
    period = abs(period)
    around = points_around(places.astype(FLOAT64), values.astype(FLOAT64), period)
    return recording.call(np.interp, (at % period, *around), {})


def _by_points_there(
    recording: Recording, x: StandIn, xp: Any, fp: Any, left: Any, right: Any, period: Any
) -> Any:
    points = [
        each if type(each) is StandIn else recording.wrap(np.asarray(recording.resolved(each)))
        for each in (xp, fp)
    ]
    if not all(type(each) is StandIn and each.ndim == 1 and each.size == points[0].size for each in points):
        return NotImplemented
    if not points[0].size or not all(each is None or type(each) in (int, float) for each in (left, right)):
        return NotImplemented
    at, places, values = (each.astype(FLOAT64) for each in (x, *points))
    if period is not None:
        if type(period) not in (int, float) or not period:
            return NotImplemented
        at, left, right = at % abs(period), None, None
        places, values = points_around(places, values, abs(period), functools.partial(taken, recording))
    found = recording.at_home(through, (at, places, values), {}, places=3, are_unseen=True)
    first = values[:1] if left is None else float(left)
    last = values[-1:] if right is None else float(right)
    return np.where(at < places[:1], first, np.where(at > places[-1:], last, found))
