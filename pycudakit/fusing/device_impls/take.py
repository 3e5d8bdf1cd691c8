"""`take` and `take_along_axis` with indices known to be in bounds: no check, so no host synchronization."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._runtime import context
from pycudakit.fusing.trace.trace import Trace


def take_unchecked(trace: Trace, a: Any, indices: Any, axis: Any = None) -> Any:
    """Take elements along an axis; the indices must be in bounds."""
    with context.override(indices_in_bounds=True):
        return trace.call(np.take, (a, indices, axis), {})


def take_along_unchecked(trace: Trace, a: Any, indices: Any, axis: Any = -1) -> Any:
    """Take elements along an axis, with indices for each row; they must be in bounds."""
    with context.override(indices_in_bounds=True):
        return trace.call(np.take_along_axis, (a, indices, axis), {})
