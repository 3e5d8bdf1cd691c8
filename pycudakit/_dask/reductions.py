"""Sums of Dask arrays' elements: with a second number for what each block's sum rounds away.

One machine adds floats up with twice their digits, and rounds once. So does this: each block tells its sum,
what is missing from it, and of how many elements it is; these add up with twice their digits again, and the
result is rounded once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit import errors
from pycudakit._dask.call_arguments import CallArguments, sample, skips_nan
from pycudakit._dask.lazy_imports import dask_array, public_api

Axes = tuple[int, ...]

_PARTIAL_LENGTH = (
    3  # numbers that a block tells: its sum, what is missing from it, and how many elements it is of
)


def reduction_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], supported: str = ""
) -> tuple[CallArguments, Any, Axes, bool]:
    """Return what a reduction is asked, and is of: the array, the axes, and whether they are kept."""
    arguments = CallArguments(function, args, kwargs, f"axis keepdims {supported}")
    x, axis, keepdims = args[0], arguments["axis"], arguments.keepdims
    function(sample(x), axis=axis)  # which refuses what is no axis
    if x.ndim == 0:  # one element, which has no axis to go along
        return arguments, x.reshape(1), (0,), False
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    if not axes:
        raise errors.Unsupported(f"{arguments.title} of a Dask array takes an axis at least, and got axis=()")
    return arguments, x, axes, keepdims


def tree_reduction(
    x: Any,
    axes: Axes,
    keepdims: bool,
    dtype: Any,
    of_block: Callable[..., Any],
    joined: Callable[..., Any],
    of_some: Callable[..., Any] | None = None,
) -> Any:
    """Return a reduction: what it is of a block, of some of these, and, joined, of all."""
    return dask_array().reduction(
        x,
        functools.partial(_reduced, function=of_block),
        functools.partial(_reduced, function=joined),
        combine=functools.partial(_reduced, function=of_some or joined),
        axis=axes,
        keepdims=keepdims,
        dtype=dtype,
        concatenate=True,
        meta=None if _is_masked(x) else _meta(x, axes, keepdims, dtype),
    )


def _meta(x: Any, axes: Axes, keepdims: bool, dtype: Any) -> Any:
    """Return what Dask knows of a result, so that it does not try functions on arrays of nothing."""
    return np.empty((0,) * (x.ndim if keepdims else x.ndim - len(axes)), dtype)


def _reduced(block: Any, axis: Any, keepdims: bool, function: Any) -> Any:
    return function(block, axis=axis, keepdims=keepdims)


def sum_(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a sum."""
    arguments, x, axes, keepdims = reduction_arguments(function, args, kwargs, "dtype")
    given = {"dtype": arguments["dtype"]}
    dtype = dtype_of(function, x, **given)
    if dtype.kind != "f" or _is_masked(x):
        of_block, joined = (functools.partial(each, **given) for each in (function, public_api().sum))
        return tree_reduction(x, axes, keepdims, dtype, of_block, joined)
    return _compensated(x, axes, keepdims, dtype, function)


def product(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a product, whose parts are float32 if it is float16: they may overflow where it does not."""
    arguments, x, axes, keepdims = reduction_arguments(function, args, kwargs, "dtype")
    dtype = dtype_of(function, x, dtype=arguments["dtype"])
    is_half = dtype == np.float16
    of_some = functools.partial(function, dtype=np.float32 if is_half else arguments["dtype"])
    return tree_reduction(x, axes, keepdims, np.dtype("f4") if is_half else dtype, of_some, of_some).astype(
        dtype
    )


def mean(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a mean: the sum with all its digits, divided, and rounded once."""
    arguments, x, axes, keepdims = reduction_arguments(function, args, kwargs, "dtype")
    dtype = dtype_of_number(function, x, arguments["dtype"])
    return _mean(x, axes, keepdims, dtype, skips_nan(function, x))


def _mean(x: Any, axes: Axes, keepdims: bool, dtype: Any, skips: bool) -> Any:
    pk = public_api()
    return _compensated(x, axes, keepdims, dtype, pk.nansum if skips else pk.sum, divided=True, skips=skips)


def variance_or_std(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a variance or a standard deviation in two passes: the mean, and squares of what is off it."""
    pk = public_api()
    arguments, x, axes, keepdims = reduction_arguments(function, args, kwargs, "ddof dtype")
    ddof, skips = arguments["ddof"], skips_nan(function, x)
    dtype = dtype_of_number(function, x, arguments["dtype"])
    wide = x.astype(np.float64)
    squares = pk.square(pk.subtract(wide, _mean(wide, axes, True, wide.dtype, skips)))
    if skips:
        squares = pk.where(pk.isnan(wide), 0.0, squares)
        count = pk.count_nonzero(pk.logical_not(pk.isnan(wide)), axis=axes, keepdims=keepdims)
        free = pk.subtract(count, float(ddof))  # without any, it is not known
        variance = pk.divide(
            _compensated(squares, axes, keepdims, wide.dtype, pk.sum),
            pk.where(pk.greater(free, 0.0), free, np.nan),
        )
    else:
        variance = _compensated(squares, axes, keepdims, wide.dtype, pk.sum, divided=True, ddof=ddof)
    result = pk.sqrt(variance) if function.__name__.endswith("std") else variance
    return result.astype(dtype)


def dtype_of(function: Callable[..., Any], x: Any, **given: Any) -> Any:
    """Return the type of what a reduction of an array gives."""
    return np.asarray(function(sample(x), **given)).dtype


def dtype_of_number(function: Callable[..., Any], x: Any, given: Any = None) -> Any:
    """Return the same, of a mean or of what is made of one."""
    dtype = dtype_of(function, x, dtype=given)
    if _is_masked(x) or x.dtype.kind not in "biuf" or dtype.kind != "f":
        what = "masked arrays" if _is_masked(x) else x.dtype if given is None else f"dtype={given}"
        raise errors.Unsupported(
            f"{function.__name__} of a Dask array takes bool, integers and floats, and got {what}: "
            f"dask.array.{function.__name__} computes it"
        )
    return dtype


def _is_masked(x: Any) -> bool:
    return isinstance(x._meta, np.ma.MaskedArray)  # noqa: SLF001


def _compensated(
    x: Any,
    axes: Axes,
    keepdims: bool,
    dtype: Any,
    function: Any,
    *,
    divided: bool = False,
    skips: bool = False,
    ddof: float = 0,
) -> Any:
    partials = functools.partial(_partial_sum, function=function, skips=skips)
    whole = functools.partial(_finalize, divided=divided, ddof=ddof, dtype=dtype)
    return tree_reduction(x, axes, keepdims, dtype, partials, whole, _combine)


def _partial_sum(block: Any, axis: Axes, keepdims: bool, function: Any, skips: bool) -> Any:
    """Return a block's sum, what is missing from it, and its count, along the first of the axes."""
    del keepdims
    high, low = _compensated_sum(block, axis, function)
    if skips:
        count = public_api().count_nonzero(~np.isnan(block), axis=axis, keepdims=True)
    else:
        count = np.full(high.shape, math.prod(block.shape[a] for a in axis))
    return np.concatenate([high, low, count], axis[0], dtype=np.float64)


def _combine(partials: Any, axis: Axes, keepdims: bool) -> Any:
    """Return what several blocks told, as one would tell it."""
    del keepdims
    return np.concatenate(_add_partials(partials, axis), axis[0])


def _add_partials(partials: Any, axes: Axes) -> tuple[Any, Any, Any]:
    """Return the sum of all blocks, what is missing from it, and of how many elements it is."""
    high, low, count = (
        partials[(slice(None),) * axes[0] + (slice(n, None, _PARTIAL_LENGTH),)]
        for n in range(_PARTIAL_LENGTH)
    )
    return (
        *_compensated_sum(np.concatenate([high, low], axes[0]), axes, public_api().sum),
        public_api().sum(count, axis=axes, keepdims=True),
    )


def _compensated_sum(block: Any, axes: Axes, function: Any) -> tuple[Any, Any]:
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
    kept_axes = [a for a in range(block.ndim) if a not in axes]
    transposed = block.transpose([*kept_axes, *axes])
    return transposed.reshape([*transposed.shape[: len(kept_axes)], math.prod(block.shape[a] for a in axes)])


def _finalize(partials: Any, axis: Axes, keepdims: bool, divided: bool, ddof: float, dtype: Any) -> Any:
    """Return the sum that all blocks told, divided by their count if that is asked, and rounded once."""
    high, low, count = _add_partials(partials, axis)
    if divided:
        count = np.maximum(count - ddof, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            quotient = high / count
            product, missing = _product(quotient, count)
            rest = ((high - product) - missing + low) / count
            high = np.where(np.isfinite(quotient) & np.isfinite(rest), quotient + rest, quotient)
    return (high if keepdims else np.squeeze(high, axis)).astype(dtype)[()]


def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a product, and exactly what is missing from it (Dekker)."""
    split = 134217729.0  # 2**27 + 1

    def halves(x: Any) -> tuple[Any, Any]:
        high = x * split - (x * split - x)
        return high, x - high

    (a1, a2), (b1, b2) = halves(a), halves(b)
    product = a * b
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
