"""NumPy's `flip` and `roll`, whose results are new arrays in C order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit import _call, _family
from pycudakit._dispatch import call
from pycudakit._family import Cost
from pycudakit._function import Function
from pycudakit._values import Array


def _write_copy(_: Any, x: Any, **__: Any) -> tuple[Any, ...]:
    return (x,)


_FLIP, _ROLL = (Function(name, getattr(np, name), _write_copy) for name in ("flip", "roll"))


def _copy(function: Function, source: Array, out: Array) -> None:
    """Copy on the engine, in the name of a function."""
    call(function, (source,), out, numpy_call=lambda values: np.copyto(out, values))


def flip(m: Any, axis: Any = None) -> Any:
    """Return a C-contiguous copy with the elements along some axes in reverse.

    Parameters
    ----------
    m : array_like
        What to reverse.
    axis : int or tuple of ints, optional
        The axes; all of them if None.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.flip([[1, 2], [3, 4]], axis=1)
    array([[2, 1],
           [4, 3]])
    """
    array = _family.as_array(m)
    if array is None:
        plan = _family.plan("flip", [None], Cost(0.0, 0.0, 0, 0))
        return _call.by_numpy(
            "flip", plan.reason, lambda: np.array(np.flip(m, axis), order="C", copy=True, subok=True)
        )
    view = np.asarray(np.flip(array, axis))
    out = np.empty(view.shape, view.dtype)
    _copy(_FLIP, view, out)
    return out if out.ndim else out[()]  # as NumPy does


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Return a C-contiguous copy whose elements are moved along some axes, from the end to the beginning.

    Parameters
    ----------
    a : array_like
        What to roll.
    shift : int or tuple of ints
        By how many places; for several axes, one for each or one for all.
    axis : int or tuple of ints, optional
        The axes; the flattened array is rolled if None.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.roll([1, 2, 3, 4, 5], 2)
    array([4, 5, 1, 2, 3])
    """
    array = _family.as_array(a)
    if array is None:
        plan = _family.plan("roll", [None], Cost(0.0, 0.0, 0, 0))
        return _call.by_numpy(
            "roll", plan.reason, lambda: np.array(np.roll(a, shift, axis), order="C", copy=True, subok=True)
        )
    out = np.empty(array.shape, array.dtype)
    source, target = array, out
    if axis is None:
        source, target, axis = array.ravel(), out.reshape(-1), 0
    axes = normalize_axis_tuple(axis, source.ndim, allow_duplicate=True)
    shifts = dict.fromkeys(range(source.ndim), 0)
    for by, along in np.broadcast(shift, axes):
        shifts[int(along)] += int(by)
    blocks = []  # along each axis, where elements go and where they come from
    for along, by in shifts.items():
        size = source.shape[along]
        first = by % size if size else 0  # the place of what was the first
        parts = [(slice(first, None), slice(0, size - first)), (slice(0, first), slice(size - first, None))]
        blocks.append(parts if first else parts[:1])
    for block in itertools.product(*blocks):
        to: Any = (..., *(part[0] for part in block))
        come: Any = (..., *(part[1] for part in block))
        _copy(_ROLL, source[come], target[to])
    return out
