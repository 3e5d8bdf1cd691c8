"""Sums, products, means, variances and standard deviations of Dask arrays, by a tree over the blocks.

On one machine floats are summed in double-double arithmetic and rounded once. So are they here: each block
gives its sum, the rounding error of that sum, and its count. These partial results are added with the same
compensation, and the result is rounded once.
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

_PARTIAL_LENGTH = 3  # numbers of a partial result: the sum, its rounding error, and the count


def reduction_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], supported: str = ""
) -> tuple[CallArguments, Any, Axes, bool]:
    """Validate a reduction; return its arguments, the array, the axes, and whether they are kept."""
    arguments = CallArguments(function, args, kwargs, f"axis keepdims {supported}")
    x, axis, keepdims = args[0], arguments["axis"], arguments.keepdims
    function(sample(x), axis=axis)  # raises for an invalid axis
    if x.ndim == 0:  # 0-d: reduce a view with one axis
        return arguments, x.reshape(1), (0,), False
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    if not axes:
        raise errors.Unsupported(
            f"{arguments.title} of a Dask array needs at least one axis, and got axis=()"
        )
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
    """Build a tree reduction: `of_block` reduces a block, `of_some` combines results, `joined` finishes."""
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
    """Return the `meta` of a result, so that Dask does not call the functions with empty arrays."""
    return np.empty((0,) * (x.ndim if keepdims else x.ndim - len(axes)), dtype)


def _reduced(block: Any, axis: Any, keepdims: bool, function: Any) -> Any:
    return function(block, axis=axis, keepdims=keepdims)


def sum_(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute a sum; compensated for floats."""
    arguments, x, axes, keepdims = reduction_arguments(function, args, kwargs, "dtype")
    options = {"dtype": arguments["dtype"]}
    dtype = dtype_of(function, x, **options)
    if dtype.kind != "f" or _is_masked(x):
        of_block, joined = (functools.partial(each, **options) for each in (function, public_api().sum))
        return tree_reduction(x, axes, keepdims, dtype, of_block, joined)
    return _compensated(x, axes, keepdims, dtype, function)


def product(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute a product; float16 uses float32 partial products, which would overflow otherwise."""
    arguments, x, axes, keepdims = reduction_arguments(function, args, kwargs, "dtype")
    dtype = dtype_of(function, x, dtype=arguments["dtype"])
    is_half = dtype == np.float16
    of_some = functools.partial(function, dtype=np.float32 if is_half else arguments["dtype"])
    return tree_reduction(x, axes, keepdims, np.dtype("f4") if is_half else dtype, of_some, of_some).astype(
        dtype
    )


def mean(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute a mean: the compensated sum, divided and rounded once."""
    arguments, x, axes, keepdims = reduction_arguments(function, args, kwargs, "dtype")
    dtype = dtype_of_number(function, x, arguments["dtype"])
    return _mean(x, axes, keepdims, dtype, skips_nan(function, x))


def _mean(x: Any, axes: Axes, keepdims: bool, dtype: Any, skips: bool) -> Any:
    pk = public_api()
    return _compensated(x, axes, keepdims, dtype, pk.nansum if skips else pk.sum, divided=True, skips=skips)


def variance_or_std(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute a variance or a standard deviation in two passes: the mean, then squared deviations from it."""
    pk = public_api()
    arguments, x, axes, keepdims = reduction_arguments(function, args, kwargs, "ddof dtype")
    ddof, skips = arguments["ddof"], skips_nan(function, x)
    dtype = dtype_of_number(function, x, arguments["dtype"])
    x_float64 = x.astype(np.float64)
    squares = pk.square(pk.subtract(x_float64, _mean(x_float64, axes, True, x_float64.dtype, skips)))
    if skips:
        squares = pk.where(pk.isnan(x_float64), 0.0, squares)
        count = pk.count_nonzero(pk.logical_not(pk.isnan(x_float64)), axis=axes, keepdims=keepdims)
        degrees = pk.subtract(count, float(ddof))  # NaN without degrees of freedom
        variance = pk.divide(
            _compensated(squares, axes, keepdims, x_float64.dtype, pk.sum),
            pk.where(pk.greater(degrees, 0.0), degrees, np.nan),
        )
    else:
        variance = _compensated(squares, axes, keepdims, x_float64.dtype, pk.sum, divided=True, ddof=ddof)
    result = pk.sqrt(variance) if function.__name__.endswith("std") else variance
    return result.astype(dtype)


def dtype_of(function: Callable[..., Any], x: Any, **given: Any) -> Any:
    """Return the dtype of a reduction of an array."""
    return np.asarray(function(sample(x), **given)).dtype


def dtype_of_number(function: Callable[..., Any], x: Any, requested: Any = None) -> Any:
    """Return the dtype of a mean, variance or standard deviation; raise for unsupported dtypes."""
    dtype = dtype_of(function, x, dtype=requested)
    if _is_masked(x) or x.dtype.kind not in "biuf" or dtype.kind != "f":
        unsupported = (
            "masked arrays" if _is_masked(x) else x.dtype if requested is None else f"dtype={requested}"
        )
        raise errors.Unsupported(
            f"{function.__name__} of a Dask array takes bool, integers and floats, and got {unsupported}: "
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
    finalize = functools.partial(_finalize, divided=divided, ddof=ddof, dtype=dtype)
    return tree_reduction(x, axes, keepdims, dtype, partials, finalize, _combine)


def _partial_sum(block: Any, axis: Axes, keepdims: bool, function: Any, skips: bool) -> Any:
    """Return the sum, its rounding error and the count of a block, concatenated along the first axis."""
    del keepdims
    high, low = _compensated_sum(block, axis, function)
    if skips:
        count = public_api().count_nonzero(~np.isnan(block), axis=axis, keepdims=True)
    else:
        count = np.full(high.shape, math.prod(block.shape[a] for a in axis))
    return np.concatenate([high, low, count], axis[0], dtype=np.float64)


def _combine(partials: Any, axis: Axes, keepdims: bool) -> Any:
    """Combine several partial results to one."""
    del keepdims
    return np.concatenate(_add_partials(partials, axis), axis[0])


def _add_partials(partials: Any, axes: Axes) -> tuple[Any, Any, Any]:
    """Add partial results: return the sum, its rounding error and the count."""
    high, low, count = (
        partials[(slice(None),) * axes[0] + (slice(n, None, _PARTIAL_LENGTH),)]
        for n in range(_PARTIAL_LENGTH)
    )
    return (
        *_compensated_sum(np.concatenate([high, low], axes[0]), axes, public_api().sum),
        public_api().sum(count, axis=axes, keepdims=True),
    )


def _compensated_sum(block: Any, axes: Axes, function: Any) -> tuple[Any, Any]:
    """Return the float64 sum and its rounding error: the sum again, from minus the first sum."""
    high = function(block, axis=axes, keepdims=True, dtype=np.float64)
    if block.size == high.size:
        return high, np.zeros_like(high)
    with np.errstate(invalid="ignore"):  # infinite sums have no rounding error
        if high.size == 1:
            low = function(block, axis=axes, keepdims=True, dtype=np.float64, initial=-high.item())
        else:
            rows = [-np.broadcast_to(high, [1 if a in axes else n for a, n in enumerate(block.shape)])]
            flat, rest = _flat(block, axes), _flat(rows[0], axes)
            both = np.concatenate([flat, rest], -1, dtype=np.float64)
            low = function(both, axis=-1, dtype=np.float64).reshape(high.shape)
    return high, np.where(np.isfinite(high), low, 0.0)


def _flat(block: Any, axes: Axes) -> Any:
    """Reshape so that the reduced axes become one last axis."""
    kept_axes = [a for a in range(block.ndim) if a not in axes]
    transposed = block.transpose([*kept_axes, *axes])
    return transposed.reshape([*transposed.shape[: len(kept_axes)], math.prod(block.shape[a] for a in axes)])


def _finalize(partials: Any, axis: Axes, keepdims: bool, divided: bool, ddof: float, dtype: Any) -> Any:
    """Return the total of all blocks, divided by the count if `divided`, and rounded once."""
    high, low, count = _add_partials(partials, axis)
    if divided:
        count = np.maximum(count - ddof, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            quotient = high / count
            product, error = _product(quotient, count)
            correction = ((high - product) - error + low) / count
            high = np.where(np.isfinite(quotient) & np.isfinite(correction), quotient + correction, quotient)
    return (high if keepdims else np.squeeze(high, axis)).astype(dtype)[()]


def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a product and its exact rounding error (Dekker's product with Veltkamp splitting)."""
    split = 134217729.0  # 2**27 + 1

    def halves(x: Any) -> tuple[Any, Any]:
        high = x * split - (x * split - x)
        return high, x - high

    (a1, a2), (b1, b2) = halves(a), halves(b)
    product = a * b
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
