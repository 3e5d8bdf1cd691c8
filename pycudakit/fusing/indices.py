"""What an index asks for: a view, elements at some places, or those that a mask keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._library.abi import address_of
from pycudakit._library.types import Array
from pycudakit.fusing.stand_in import StandIn


def parts(index: Any) -> tuple[Any, ...]:
    """Return the parts of an index."""
    return index if type(index) is tuple else (index,)


WITH_STAND_IN = "with a stand-in"  # true, as every string


def is_basic(index: Any) -> bool | str:
    """Tell whether an index makes a view, and whether it has a stand-in's value."""
    found: bool | str = True
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind is slice:
            if type(part.start) is StandIn or type(part.stop) is StandIn or type(part.step) is StandIn:
                found = WITH_STAND_IN
            continue
        if kind is int or part is None or part is Ellipsis:
            continue
        if kind is bool or (kind is not StandIn and isinstance(part, (list, np.bool_))):
            return False
        if kind is StandIn or isinstance(part, np.ndarray):  # NumPy copies for one without dimensions, too
            if part.ndim or part.dtype.kind not in "iu":
                return False
            found = WITH_STAND_IN
        elif not hasattr(part, "__index__"):
            return False
    return found


def is_view_at(array: Array, index: Any, value: Array | None) -> bool:
    """Tell whether a value is the very elements that it is to be written to."""
    if value is None or not all(type(p) is slice or p is Ellipsis or type(p) is int for p in parts(index)):
        return False
    part = array[index]
    return (
        type(part) is np.ndarray
        and part.shape == value.shape
        and part.strides == value.strides
        and part.dtype == value.dtype
        and address_of(part) == address_of(value)
    )


def is_mask(part: Any) -> bool:
    """Tell whether a part of an index is a mask."""
    return (type(part) is StandIn or isinstance(part, np.ndarray)) and part.dtype == np.bool_
