"""Sums of Dask arrays' elements: with a second number for what each block's sum rounds away.

One machine adds floats up with twice their digits, and rounds once. So does this: each block tells its sum
and what is missing from it, these add up with twice their digits again, and the result is rounded once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._dask.modules import dask_array, kit

Axes = tuple[int, ...]


def of_axes(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any, bool]:
    """Return what a reduction is of: the array, the axes, and whether they are kept."""

    def asked(a: Any, axis: Any = None, *, keepdims: Any = False, out: None = None) -> tuple[Any, Any, bool]:
        del out
        return a, axis, bool(keepdims)

    try:
        return asked(*args, **kwargs)
    except TypeError as error:
        text = str(error).partition("asked() ")[2]
        raise errors.Unsupported(
            f"{name} of a Dask array takes axis and keepdims alone, but it {text}"
        ) from None


def total(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a sum."""
    x, axis, keepdims = of_axes(function.__name__, args, kwargs)
    dtype = dtype_of(function, x)
    if dtype.kind != "f":
        sums = kit().sum
        return dask_array().reduction(x, function, sums, axis=axis, keepdims=keepdims, dtype=dtype)
    return _parts(x, axis, keepdims, dtype, function, 1)


def mean(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a mean: the sum with all its digits, divided, and rounded once."""
    x, axis, keepdims = of_axes(function.__name__, args, kwargs)
    return _parts(x, axis, keepdims, dtype_of(function, x), kit().sum, _count(x, axis))


def spread(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a variance or a standard deviation in two passes: the mean, and squares of what is off it."""
    pk = kit()
    ddof = dict(kwargs).get("ddof", 0)
    x, axis, keepdims = of_axes(function.__name__, args, {k: v for k, v in kwargs.items() if k != "ddof"})
    wide = x.astype(np.float64)
    if function.__name__.startswith("nan"):
        off = pk.subtract(wide, _shared(wide, axis, True, _numbers(x, axis, True)))
        variance = _shared(pk.square(off), axis, keepdims, _numbers(x, axis, keepdims) - ddof)
    else:
        off = pk.subtract(wide, mean(pk.mean, (wide, axis), {"keepdims": True}))
        count = _count(x, axis) - ddof
        variance = _parts(pk.square(off), axis, keepdims, np.dtype(np.float64), pk.sum, count)
    found = pk.sqrt(variance) if function.__name__.endswith("std") else variance
    return found.astype(dtype_of(function, x))


def mean_of_numbers(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a mean of what is not NaN."""
    x, axis, keepdims = of_axes(function.__name__, args, kwargs)
    found = _shared(x.astype(np.float64), axis, keepdims, _numbers(x, axis, keepdims))
    return found.astype(dtype_of(function, x))


def dtype_of(function: Callable[..., Any], x: Any) -> Any:
    """Return the type of what a reduction of an array gives."""
    return function(np.ones((1,) * x.ndim, x.dtype)).dtype


def _count(x: Any, axis: Any) -> int:
    """Return how many elements each result is of."""
    axes = range(x.ndim) if axis is None else np.atleast_1d(axis)
    return int(np.prod([x.shape[a] for a in axes]))


def _numbers(x: Any, axis: Any, keepdims: bool) -> Any:
    pk = kit()
    there = pk.logical_not(pk.isnan(x))
    return pk.count_nonzero(there, axis=axis, keepdims=keepdims)


def _shared(x: Any, axis: Any, keepdims: bool, count: Any) -> Any:
    """Return the sum of what is not NaN, divided by a count."""
    pk = kit()
    return pk.divide(total(pk.nansum, (x, axis), {"keepdims": keepdims}), count)


def _parts(x: Any, axis: Any, keepdims: bool, dtype: Any, function: Any, count: int) -> Any:
    return dask_array().reduction(
        x,
        functools.partial(_pair, function=function),
        functools.partial(_whole, count=count, dtype=dtype),
        combine=functools.partial(_pair, function=kit().sum),
        axis=axis,
        keepdims=keepdims,
        dtype=dtype,
        concatenate=True,
    )


def _pair(block: Any, axis: Any, keepdims: bool, function: Any) -> Any:
    """Return a block's sum and what is missing from it, side by side along the first of the axes."""
    del keepdims
    axes: Axes = (axis,) if isinstance(axis, int) else tuple(axis)
    high, low = _accounted(block, axes, function)
    return np.concatenate([high, low], axes[0])


def _accounted(block: Any, axes: Axes, function: Any) -> tuple[Any, Any]:
    high = function(block, axis=axes, keepdims=True, dtype=np.float64)
    if block.size == high.size:
        return high, np.zeros_like(high)
    with np.errstate(invalid="ignore"):  # of infinities, of which nothing is missing
        if high.size == 1:
            low = function(block, axis=axes, keepdims=True, dtype=np.float64, initial=-high.item())
        else:
            rows = [-np.broadcast_to(high, [1 if a in axes else n for a, n in enumerate(block.shape)])]
            flat, rest = _flat(block, axes), _flat(rows[0], axes)
            both = np.concatenate([flat, rest], -1, dtype=np.float64)
            low = function(both, axis=-1, dtype=np.float64).reshape(high.shape)
    return high, np.where(np.isfinite(high), low, 0.0)


def _flat(block: Any, axes: Axes) -> Any:
    """Return the elements that add up in rows, the last axis."""
    kept = [a for a in range(block.ndim) if a not in axes]
    turned = block.transpose([*kept, *axes])
    return turned.reshape([*turned.shape[: len(kept)], -1])


def _whole(pairs: Any, axis: Any, keepdims: bool, count: int, dtype: Any) -> Any:
    """Return the sum of all pairs, divided by a count, and rounded once."""
    axes: Axes = (axis,) if isinstance(axis, int) else tuple(axis)
    high, low = _accounted(pairs, axes, kit().sum)
    if count != 1:
        with np.errstate(invalid="ignore", divide="ignore"):
            quotient = high / np.float64(count)
            product, missing = _product(quotient, float(count))
            rest = ((high - product) - missing + low) / count
            high = np.where(np.isfinite(quotient) & np.isfinite(rest), quotient + rest, quotient)
    return (high if keepdims else np.squeeze(high, axes)).astype(dtype)


def _product(a: Any, b: float) -> tuple[Any, Any]:
    """Return a product, and exactly what is missing from it (Dekker)."""
    split = 134217729.0  # 2**27 + 1

    def halves(x: Any) -> tuple[Any, Any]:
        high = x * split - (x * split - x)
        return high, x - high

    (a1, a2), (b1, b2) = halves(a), halves(b)
    product = a * b
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
