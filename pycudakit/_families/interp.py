"""`interp`, NumPy's piecewise linear interpolation: a binary search for each value."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native import allocator
from pycudakit._native.dtypes import FLOAT64, Array
from pycudakit._runtime import context, cost_model, native_call, operands
from pycudakit._runtime.engine_choice import Cost, choose_engine, requested_engine
from pycudakit._runtime.public_function import public_function

# Nanoseconds per value and bisection step: NumPy's, and the CPU engine's on one thread.
_NUMPY_NS, _CPU_NS = 3.0, 1.0


def _cost_of(x: Array, points: int) -> Cost:
    halvings = math.log2(points + 2)
    work = _CPU_NS * 1e-9 * x.size * halvings
    workers = cost_model.threads() if work > cost_model.MIN_SECONDS_FOR_THREADS else 1
    moved = 8 * x.size
    return Cost(5e-6 + _NUMPY_NS * 1e-9 * x.size * halvings, cost_model.CALL + work / workers, moved, moved)


def periodic_points(
    xp: Array, fp: Array, period: float, take: Callable[[Any, Any], Any] = np.take
) -> tuple[Array, Array]:
    """Extend points to cover one period, with a neighbour on each side."""
    xp = xp % period
    order = np.argsort(xp)
    xp, fp = take(xp, order), take(fp, order)
    xp = np.concatenate((xp[-1:] - period, xp, xp[:1] + period))
    return xp, np.concatenate((fp[-1:], fp, fp[:1]))


def interpolate(at: Array, points: Array, values: Array) -> Array:
    """Interpolate at `at` between the points (`points`, `values`); values beyond them are not defined."""
    choice = requested_engine("interp", context.checked_current_engine())
    out = allocator.empty(at.shape, FLOAT64)
    native_call.run(
        choice, "pk_interp", points, values, points.size, 0.0, 0.0, at, out, out.size, size=out.size
    )
    return out


@public_function(numpy=np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Interpolate linearly in one dimension, for monotonically increasing sample points.

    Parameters
    ----------
    x : array_like
        The coordinates at which to interpolate.
    xp, fp : array_like
        The points, of one dimension each; `xp` must increase, which is not checked, unless there is a
        `period`. Only NumPy supports complex `fp`.
    left, right : float, optional
        The values left and right of the points, by default the first and the last.
    period : float, optional
        The period of `xp`; `left` and `right` are then ignored.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.interp : NumPy's function.
    searchsorted, digitize

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.interp([0.5, 1.25, 9.0], [0, 1, 2], [0, 10, 40])
    array([ 5. , 17.5, 40. ])
    """
    at, points, values = (operands.as_array(value) for value in (x, xp, fp))
    by_numpy = functools.partial(np.interp, x, xp, fp, left, right, period)
    if at is None or points is None or values is None:
        return native_call.numpy_fallback("interp", by_numpy)
    choice = choose_engine("interp", [at], _cost_of(at, points.size))
    if choice.engine == "numpy":
        return native_call.run_numpy("interp", choice.reason, by_numpy)
    np.interp(0.0, points, values, left, right)  # raises NumPy's errors for bad points
    if period == 0:
        raise ValueError("period must be a non-zero value")
    at, points, values = (np.require(array, FLOAT64, ["C", "A"]) for array in (at, points, values))
    if period is not None:
        at = np.asarray(at % abs(period))
        points, values = periodic_points(points, values, abs(period))
        left = right = None
    first = float(values[0] if left is None else left)
    last = float(values[-1] if right is None else right)
    out = allocator.empty(np.shape(x), FLOAT64)
    arguments = points, values, points.size, first, last
    native_call.run(choice, "pk_interp", *arguments, at, out, out.size, size=out.size)
    return out if out.ndim else out[()]
