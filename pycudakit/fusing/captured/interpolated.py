"""Interpolation where the places lie on the device; the points come down."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pycudakit._families.interp import points_around
from pycudakit._library.types import CODES, FLOAT64
from pycudakit.fusing.captured.kit import has_elements
from pycudakit.fusing.recording.call import Recording
from pycudakit.fusing.recording.shapes import Handler, captures

INTERPOLATED: dict[Any, Handler] = {}


@functools.partial(captures, INTERPOLATED)(np.interp)
def _interp(
    recording: Recording, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    if not has_elements(x) or x.dtype not in CODES or (x.dtype == FLOAT64 and period is None):
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
