"""Composites for differences, gradients, integrals and cross products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from pycudakit._families.scan.differences import differences
from pycudakit._interop.foreign_arrays import is_dask
from pycudakit._runtime.fp_errors import warn_caller
from pycudakit._runtime.lazy_array import LazyArray
from pycudakit._runtime.operands import axis_index
from pycudakit.fusing.composites.decorator import as_array, composite

# The lengths of the vectors that `np.cross` takes.
_LENGTHS = {2, 3} if np.lib.NumpyVersion(np.__version__) < "2.5.0" else {3}


def _along(axis: int, part: Any) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, part)


_NOT_GIVEN: Any = np._NoValue  # noqa: SLF001


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _NOT_GIVEN, append: Any = _NOT_GIVEN) -> Any:
    """Compute the n-th difference along an axis, as `pycudakit.diff` does."""
    a = as_array(a)
    return a if n == 0 else differences(np, a, n, axis, prepend, append)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Compute the differences of consecutive elements, with `to_begin` before and `to_end` after them."""
    ary = np.ravel(ary)
    differences = ary[1:] - ary[:-1]
    before, after = _ends(to_begin, "to_begin", ary), _ends(to_end, "to_end", ary)
    return np.concatenate([*before, differences, *after]) if before or after else differences


def _ends(values: Any, name: str, like: Any) -> list[Any]:
    """Return a list of the values to prepend or append, cast to the dtype of `like`; [] if there are none."""
    if values is None:
        return []
    ends = as_array(values)
    if not np.can_cast(ends, like.dtype, casting="same_kind"):
        raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
    return [ends.ravel().astype(like.dtype)]


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    """Add multiples of the period so that no two neighbours differ by more than half a period."""
    steps = diff(p, axis=axis)
    dtype = np.result_type(steps, period)
    high, rest = divmod(period, 2) if dtype.kind in "iu" else (period / 2, 0)
    low = -high
    wrapped = np.remainder(steps - low, period) + low
    if rest == 0:  # a jump of exactly +half a period stays positive
        wrapped = np.where((wrapped == low) & (steps > 0), high, wrapped)
    corrections = np.where(np.abs(steps) < (period / 2 if discont is None else discont), 0, wrapped - steps)
    result = p.astype(dtype)
    later = _along(normalize_axis_index(axis, p.ndim), slice(1, None))
    result[later] = p[later] + corrections.cumsum(axis)
    return result


@composite("f")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return the gradient: central differences inside, one-sided differences at both ends.

    Parameters
    ----------
    f : array_like
        The samples.
    varargs : float or array_like, optional
        The distance of samples, or their coordinates: one for all axes, or one for each.
    axis : int or tuple of ints, optional
        The axes; all of them if None.
    edge_order : {1, 2}
        The order of the differences at both ends.

    Returns
    -------
    ndarray, or a tuple of one for each axis

    See Also
    --------
    numpy.gradient : NumPy's function.
    diff, trapezoid

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.gradient([1.0, 2.0, 4.0, 7.0])
    array([1. , 1.5, 2.5, 3. ])
    """
    axes = tuple(range(f.ndim)) if axis is None else normalize_axis_tuple(axis, f.ndim)
    spacings = _spacings(f, axes, varargs)
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    if f.dtype.kind in "iu":
        f = f.astype(np.float64)
    slopes = [_slope(f, each, spacing, edge_order) for each, spacing in zip(axes, spacings, strict=True)]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _spacings(f: Any, axes: tuple[int, ...], varargs: tuple[Any, ...]) -> list[Any]:
    """Return the spacing of each axis: a number, or all distances if they differ."""
    if not varargs:
        return [1.0] * len(axes)
    if len(varargs) == 1 and np.ndim(varargs[0]) == 0:
        return list(varargs) * len(axes)
    if len(varargs) != len(axes):
        raise TypeError("invalid number of arguments")
    spacings: list[Any] = []
    for axis, spacing in zip(axes, varargs, strict=True):
        if np.ndim(spacing) == 0:
            spacings.append(spacing)
            continue
        if np.ndim(spacing) != 1:
            raise ValueError("distances must be either scalars or 1d")
        if len(spacing) != f.shape[axis]:
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
        coordinates = (
            spacing.resolved() if isinstance(spacing, LazyArray) else np.asarray(spacing)
        )  # a small array, read on the host
        distances = np.diff(coordinates.astype(np.float64) if coordinates.dtype.kind in "iu" else coordinates)
        spacings.append(distances[0] if (distances == distances[0]).all() else distances)
    return spacings


def _slope(f: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    if f.shape[axis] < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, "
            "at least (edge_order + 1) elements are required."
        )
    dtype = f.dtype if f.dtype.kind == "f" else np.float64
    first, last = _slopes_at_ends(f, axis, spacing, edge_order)
    if is_dask(f):  # setting an item of a Dask array rewrites all of its blocks
        first, last = (end[_along(axis, np.newaxis)] for end in (first, last))
        slopes: Any = np.concatenate([first, _slope_inside(f, axis, spacing), last], axis)
        return slopes.astype(dtype).rechunk(f.chunks)
    out = np.empty_like(f, dtype=dtype)
    if f.shape[axis] > 2:
        out[_along(axis, slice(1, -1))] = _slope_inside(f, axis, spacing)
    out[_along(axis, 0)], out[_along(axis, -1)] = first, last
    return out


def _slopes_at_ends(f: Any, axis: int, spacing: Any, edge_order: int) -> tuple[Any, Any]:
    """Return the slopes at the first sample and at the last."""

    def at(index: int) -> Any:
        return f[_along(axis, index)]

    is_even = np.ndim(spacing) == 0
    first, second, last, last_but_one = (spacing,) * 4 if is_even else spacing[[0, 1, -1, -2]]
    if edge_order == 1:
        return (at(1) - at(0)) / first, (at(-1) - at(-2)) / last
    if is_even:
        a, b, c = -1.5 / first, 2.0 / first, -0.5 / first
    else:
        a = -(2.0 * first + second) / (first * (first + second))
        b = (first + second) / (first * second)
        c = -first / (second * (first + second))
    at_first = a * at(0) + b * at(1) + c * at(2)
    if is_even:
        a, b, c = 0.5 / last, -2.0 / last, 1.5 / last
    else:
        a = last / (last_but_one * (last_but_one + last))
        b = -(last + last_but_one) / (last_but_one * last)
        c = (2.0 * last + last_but_one) / (last * (last_but_one + last))
    return at_first, a * at(-3) + b * at(-2) + c * at(-1)


def _slope_inside(f: Any, axis: int, spacing: Any) -> Any:
    """Return the second-order central differences at all samples but the first and the last."""
    before, centre, after = (
        f[_along(axis, part)] for part in (slice(None, -2), slice(1, -1), slice(2, None))
    )
    if np.ndim(spacing) == 0:
        return (after - before) / (2.0 * spacing)
    left, right = spacing[:-1], spacing[1:]
    weights = (
        -right / (left * (left + right)),
        (right - left) / (left * right),
        left / (right * (left + right)),
    )
    shape = [-1 if each == axis else 1 for each in range(f.ndim)]
    a, b, c = (weight.reshape(shape) for weight in weights)
    return a * before + b * centre + c * after


@composite("y", "x")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral along an axis, by the trapezoidal rule.

    Parameters
    ----------
    y : array_like
        The samples.
    x : array_like, optional
        The coordinates of the samples.
    dx : float
        The distance of samples, if `x` is None.
    axis : int
        The axis.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.trapezoid : NumPy's function.
    sum, gradient

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's, and only the
    result can overflow, not a partial sum.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.trapezoid([1, 2, 3], x=[4, 6, 8])
    np.float64(8.0)
    """
    axis = axis_index(axis, y.ndim)
    distances = dx
    if x is not None:
        distances = np.diff(x, axis=0 if x.ndim == 1 else axis)
        if x.ndim == 1:
            distances = distances.reshape([-1 if each == axis else 1 for each in range(y.ndim)])
    sums = y[_along(axis, slice(1, None))] + y[_along(axis, slice(None, -1))]
    return np.sum(distances * sums / 2.0, axis=axis)


@composite("a", "b")
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """Return the cross products of vectors of length 3; of length 2, too, with NumPy before 2.5.

    Parameters
    ----------
    a, b : array_like
        The vectors, broadcast together.
    axisa, axisb, axisc : int
        The axes of the components of `a`, of `b` and of the result.
    axis : int, optional
        All three of these.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.cross : NumPy's function.
    dot, outer

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cross([1, 2, 3], [4, 5, 6])
    array([-3,  6, -3])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    if a.ndim < 1 or b.ndim < 1:
        raise ValueError("At least one array has zero dimension")
    a = np.moveaxis(a, normalize_axis_index(axisa, a.ndim, "axisa"), -1)
    b = np.moveaxis(b, normalize_axis_index(axisb, b.ndim, "axisb"), -1)
    lengths = a.shape[-1], b.shape[-1]
    if not {*lengths} <= _LENGTHS:
        return np.cross(np.zeros(lengths[0]), np.zeros(lengths[1]))  # NumPy's error
    if 2 in lengths:
        warn_caller(
            "Arrays of 2-dimensional vectors are deprecated. Use arrays of 3-dimensional vectors instead. "
            "(deprecated in NumPy 2.0)",
            DeprecationWarning,
        )
    dtype = np.promote_types(a.dtype, b.dtype)
    a0, a1, a2 = _components(a.astype(dtype))
    b0, b1, b2 = _components(b.astype(dtype))
    last = a0 * b1 - a1 * b0
    if a2 is b2 is None:
        return last[..., 0]
    if a2 is None:
        parts = [a1 * b2, -(a0 * b2), last]
    elif b2 is None:
        parts = [-(a2 * b1), a2 * b0, last]
    else:
        parts = [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, last]
    axis = normalize_axis_index(axisc, max(a.ndim, b.ndim), "axisc")
    joined: Any = np.concatenate(parts, axis=-1)
    if isinstance(joined, np.ndarray) and not joined.flags.c_contiguous:
        joined = joined.copy(order="C")
    return np.moveaxis(joined, -1, axis)


def _components(vectors: Any) -> tuple[Any, Any, Any]:
    """Return the components as arrays of one column, since numbers warn of integers that wrap around."""
    return vectors[..., :1], vectors[..., 1:2], vectors[..., 2:] if vectors.shape[-1] == 3 else None
