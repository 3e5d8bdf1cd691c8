"""Elements by indices that are known to be those of elements: nobody waits to look at them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._families.take import known_places
from pycudakit.fusing.trace.trace import Recording


def taken(recording: Recording, a: Any, places: Any, axis: Any = None) -> Any:
    """Return the elements at some indices along an axis."""
    with known_places():
        return recording.call(np.take, (a, places, axis), {})


def taken_along(recording: Recording, a: Any, places: Any, axis: Any = -1) -> Any:
    """Return the elements at indices of their own along each line of an axis."""
    with known_places():
        return recording.call(np.take_along_axis, (a, places, axis), {})
