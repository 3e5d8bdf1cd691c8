"""Dispatch of pycudakit functions with Dask arrays: the table `HANDLERS` and the entry point `call`.

A handler builds a lazy Dask array: elementwise by block, by a tree reduction over blocks, or along an axis in
one chunk. Dask's scheduler decides where a block is computed; the engine set in that process computes it.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import math
import operator
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._dask import along_axis, composites, histograms, images, indexing, linalg, overlap, reductions
from pycudakit._dask.call_arguments import (
    BlockFunction,
    CallArguments,
    Function,
    check_sizes,
    needs_whole_array,
    normalized,
    sample,
    skips_nan,
)
from pycudakit._dask.lazy_imports import dask_array, public_api
from pycudakit._families.expression.parser import REDUCTIONS
from pycudakit._families.sort.topk import TopK
from pycudakit._interop.foreign_arrays import is_dask

_PUBLIC_MODULES = ("image", "linalg", "random")  # the public namespaces besides the package itself


def call(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], module: str = "pycudakit") -> Any:
    """Call a pycudakit function by name, with Dask arrays among its arguments.

    Raises
    ------
    Unsupported
        It cannot be computed block by block.
    """
    submodule = module.split(".")[1:2]
    module = f"pycudakit.{submodule[0]}" if submodule and submodule[0] in _PUBLIC_MODULES else "pycudakit"
    title = f"{module.removeprefix('pycudakit.')}.{name}" if module != "pycudakit" else name
    handler = HANDLERS.get(title)
    if module == "pycudakit.random":
        raise errors.Unsupported(
            f"{name}: .compute() the Dask array first; "
            "pk.random.on_dask draws a Dask array, with numbers as parameters"
        )
    if handler is None:
        raise needs_whole_array(title)
    function = getattr(sys.modules[module], name)
    is_joining = handler is indexing.join
    args = [[*map(normalized, v)] if is_joining and n == 0 else normalized(v) for n, v in enumerate(args)]
    has_out = kwargs.get("out") is not None
    kwargs = {key: normalized(value) for key, value in kwargs.items() if key != "out"}
    if any(map(is_dask, kwargs.values())):
        bound = inspect.signature(function).bind(*args, **kwargs)
        args, kwargs = bound.args, bound.kwargs
    # Blocks are made of positional arguments only: an array passed by keyword would reach every block whole.
    has_dask_keyword = any(map(is_dask, kwargs.values())) and handler is not composites.average
    has_array_keyword = handler is _elementwise and any(map(_has_axes, kwargs.values()))
    if has_array_keyword or has_dask_keyword or has_out:
        raise errors.Unsupported(
            f"{title} of a Dask array: give arrays by position, and neither `out` nor `where`"
        )
    try:
        result = _of_empty_arrays(function, args, kwargs)
        return handler(function, args, kwargs) if result is None else result
    except (TypeError, ValueError) as error:
        if not isinstance(
            error, (errors.Error, np.exceptions.AxisError)
        ):  # Dask raises these for sizes that are NaN
            check_sizes(title, *_arrays(args[0] if is_joining else args))
        raise


def _of_empty_arrays(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute the result at once if all arrays are empty; else return None."""
    arrays = _arrays(args)
    if not arrays or any(array.size != 0 for array in arrays):  # NaN if unknown
        return None
    result = function(*(np.empty(v.shape, v.dtype) if is_dask(v) else v for v in args), **kwargs)
    return None if isinstance(result, tuple) else dask_array().asarray(result)


def _has_axes(value: Any) -> bool:
    """Return True for arrays and lists of at least one dimension."""
    return not isinstance(value, type) and np.ndim(value) > 0


def _arrays(args: Sequence[Any]) -> list[Any]:
    return [value for value in args if is_dask(value)]


def _elementwise(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    da = dask_array()
    if function.__name__ == "where" and len(args) == 1:
        raise errors.Unsupported(
            "where of a Dask array alone needs all of it at once: "
            ".compute() it first, or give two arrays to choose from"
        )
    # Other arrays are split into the same blocks; scalars, dtypes and the like are part of the call.
    operands = [da.asarray(v) if not is_dask(v) and _has_axes(v) else v for v in args]
    compute = BlockFunction(function, operands, kwargs)
    parts = _SEVERAL_OUTPUTS.get(function.__name__)
    if parts is None:
        return _block_by_block(compute, _arrays(operands))
    return tuple(
        _block_by_block(functools.partial(compute, part=part), _arrays(operands)) for part in range(parts)
    )


def _block_by_block(compute: Function, arrays: Sequence[Any]) -> Any:
    result = dask_array().core.elemwise(compute, *_rechunk_alike(arrays))
    if result is NotImplemented:  # Dask gives no reason: let the function raise
        compute(*map(sample, arrays))
        raise needs_whole_array(compute.__name__)
    return result


def _rechunk_alike(arrays: Sequence[Any]) -> Sequence[Any]:
    """Rechunk the largest arrays like the finest of them: Dask would split at every chunk boundary of any."""
    size, shape = max(((array.size, array.shape) for array in arrays), key=operator.itemgetter(0))
    if math.isnan(size):
        return arrays
    finest = min((array.chunks for array in arrays if array.shape == shape), key=_largest_block)
    return [array.rechunk(finest) if array.shape == shape else array for array in arrays]


def _largest_block(chunks: Sequence[Sequence[int]]) -> int:
    """Return the number of elements of the largest block."""
    return math.prod(map(max, chunks))


def _evaluate(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Evaluate an expression by blocks; an outermost reduction is computed as a tree reduction."""
    expression, operands = args[0], {name: normalized(value) for name, value in args[1].items()}
    tree = ast.parse(expression.strip(), mode="eval").body
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in REDUCTIONS:
        inner = _evaluate(function, (ast.unparse(tree.args[0]), operands), kwargs)
        options = {str(each.arg): ast.literal_eval(each.value) for each in tree.keywords}
        return getattr(public_api(), tree.func.id)(inner, **options)
    return _elementwise(_Expression(function, expression, list(operands)), list(operands.values()), {})


class _Expression:
    """An expression as a picklable function of its operands."""

    def __init__(self, evaluate: Function, expression: str, names: Sequence[str]) -> None:
        self._given = evaluate, expression, names
        self.__name__ = "evaluate"

    def __call__(self, *values: Any) -> Any:
        evaluate, expression, names = self._given
        return evaluate(expression, dict(zip(names, values, strict=True)))


_SEVERAL_OUTPUTS = {"divmod": 2, "modf": 2, "frexp": 2}


def _associative(join: str | None = None) -> Function:
    """Return a handler of an associative reduction.

    The function named `join`, or else the reduction itself, combines the partial results of the blocks.
    """

    def handler(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        _, x, axes, keepdims = reductions.reduction_arguments(function, args, kwargs)
        joined = getattr(public_api(), join or function.__name__)
        return reductions.tree_reduction(
            x, axes, keepdims, reductions.dtype_of(function, x), function, joined
        )

    return handler


def _min_or_max(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute a minimum or maximum; empty blocks do not count."""
    _, x, axes, keepdims = reductions.reduction_arguments(function, args, kwargs)
    some = functools.partial(_min_or_max_of_blocks, function=function)
    return reductions.tree_reduction(
        x, axes, keepdims, reductions.dtype_of(function, x), some, function, some
    )


def _min_or_max_of_blocks(block: Any, axis: Any, keepdims: bool, function: Function) -> Any:
    shape = [min(n, 1) if a in axis else n for a, n in enumerate(block.shape)]
    if 0 in shape:
        return np.empty_like(block, shape=shape)
    if skips_nan(function, block):
        all_nan = public_api().all(public_api().isnan(block), axis=axis, keepdims=True)
        if np.any(all_nan):  # no warning yet: other blocks may have numbers
            result = function(np.where(all_nan, 0, block), axis=axis, keepdims=keepdims)
            return np.where(all_nan, np.nan, result).astype(block.dtype)
    return function(block, axis=axis, keepdims=keepdims)


def _ptp(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute the maximum minus the minimum."""
    _, x, axes, keepdims = reductions.reduction_arguments(function, args, kwargs)
    most, least = (
        _min_or_max(each, (x, axes), {"keepdims": keepdims}) for each in (public_api().max, public_api().min)
    )
    return public_api().subtract(most, least)


def _arg_min_or_max(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute the index of an extreme; along an axis, Dask and NumPy do it, as no arithmetic is involved."""
    arguments = CallArguments(function, args, kwargs, "axis keepdims")
    x, axis, keepdims = args[0], arguments["axis"], arguments.keepdims
    function(sample(x), axis)  # raises for an invalid axis
    if x.ndim == 0:
        x, axis, keepdims = x.reshape(1), 0, False
    if axis is None or np.isnan(x.shape[axis]):
        arguments.check_sizes(x)
    if axis is None and x.ndim > 1:  # Dask returns the first in block order, not in C order
        place = _arg_min_or_max_of_all(function, x)
        return place.reshape((1,) * x.ndim) if keepdims else place
    return getattr(dask_array(), function.__name__)(x, axis=axis, keepdims=keepdims)


def _arg_min_or_max_of_all(function: Function, x: Any) -> Any:
    da, delayed = dask_array(), importlib.import_module("dask").delayed
    starts = [np.cumsum([0, *cut[:-1]]).tolist() for cut in x.chunks]
    of_block = delayed(_arg_min_or_max_of_block)
    parts = [
        of_block(function, block, [start[n] for start, n in zip(starts, at, strict=True)], x.shape)
        for at, block in np.ndenumerate(x.to_delayed())
    ]
    return da.from_delayed(delayed(_combine_arg_min_or_max)(function, parts), (), np.intp)


def _arg_min_or_max_of_block(
    function: Function, block: Any, start: Sequence[int], shape: Sequence[int]
) -> Any:
    """Return the flat index of the extreme of a block, and its value; () if there is none."""
    if not block.size or (skips_nan(function, block) and np.isnan(block).all()):
        return ()
    at = np.unravel_index(function(block), block.shape)
    place = np.ravel_multi_index([int(n) + first for n, first in zip(at, start, strict=True)], shape)
    return int(place), block[at]


def _combine_arg_min_or_max(function: Function, parts: Sequence[Any]) -> Any:
    result = sorted((part for part in parts if part), key=operator.itemgetter(0))
    if not result:  # raises, as NumPy does
        return function(np.full(len(parts) * function.__name__.startswith("nan"), np.nan))
    return np.intp(result[function(np.asarray([value for _, value in result]))][0])


# ---- Top k ---------------------------------------------------------------------------------------------


def _topk(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    da, delayed = dask_array(), importlib.import_module("dask").delayed
    arguments = CallArguments(function, args, kwargs, "k axis largest")
    x, k, axis, largest = (
        args[0],
        operator.index(arguments["k"]),
        arguments["axis"],
        bool(arguments["largest"]),
    )
    if x.ndim != 1 or axis not in (-1, 0, None):
        return along_axis.topk(function, args, kwargs)
    if np.isnan(x.shape[0]):
        raise errors.Unsupported("topk of a Dask array: its length is unknown: x.compute_chunk_sizes() first")
    if not 0 <= k <= x.shape[0]:
        raise ValueError(f"k={k} is not from 0 to {x.shape[0]}, the length of the axis")
    starts = np.cumsum([0, *x.chunks[0][:-1]])
    best = delayed(_topk_of_block)
    parts = [best(function, k, largest, b, n) for b, n in zip(x.to_delayed(), starts, strict=True)]
    combined = delayed(_combine_topk)(function, k, largest, parts)
    values, indices = (
        da.from_delayed(combined[n], (k,), dtype) for n, dtype in enumerate((x.dtype, np.dtype(np.intp)))
    )
    return TopK(values, indices)


def _topk_of_block(function: Function, k: int, largest: bool, block: Any, start: int) -> Any:
    values, indices = function(block, min(k, block.size), largest=largest)
    return values, indices + start


def _combine_topk(function: Function, k: int, largest: bool, parts: Any) -> Any:
    """Return the top k of the top k of each block; blocks are in order, so the first of equals wins."""
    values, indices = (np.concatenate(each, dtype=each[0].dtype) for each in zip(*parts, strict=True))
    values, places = function(values, k, largest=largest)
    return values, indices[places]


# ---- The handler of each function ----------------------------------------------------------------------

_ELEMENTWISE = """
add subtract multiply divide true_divide floor_divide remainder mod fmod power pow float_power divmod
modf frexp negative positive abs absolute fabs sign signbit copysign nextafter ldexp reciprocal sqrt
cbrt square exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 sin cos tan arcsin arccos arctan
arctan2 sinh cosh tanh arcsinh arccosh arctanh asin acos atan atan2 asinh acosh atanh hypot sinc deg2rad
rad2deg degrees radians floor ceil trunc rint round around clip nan_to_num maximum minimum fmax fmin
heaviside gcd lcm isfinite isinf isnan isclose equal not_equal less less_equal greater greater_equal
logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert bitwise_invert
bitwise_not left_shift right_shift bitwise_left_shift bitwise_right_shift where astype
"""
_ASSOCIATIVE = "all any"
_MIN_AND_MAX = "min max amin amax nanmin nanmax"
_ARG_MIN_AND_MAX = "argmin argmax nanargmin nanargmax"
_WINDOWS = """
box_blur gaussian_blur correlate convolve sobel laplace median_filter minimum_filter maximum_filter
"""
_ORDER_STATISTICS = "median percentile quantile nanmedian nanpercentile nanquantile"
_SCANS = """
cumsum cumprod cummax cummin cumulative_sum cumulative_prod nancumsum nancumprod exclusive_scan
"""

HANDLERS: dict[str, Function] = {
    **dict.fromkeys(_ELEMENTWISE.split(), _elementwise),
    **dict.fromkeys(_ASSOCIATIVE.split(), _associative()),
    **dict.fromkeys(_MIN_AND_MAX.split(), _min_or_max),
    "count_nonzero": _associative("sum"),
    **dict.fromkeys(_ARG_MIN_AND_MAX.split(), _arg_min_or_max),
    "prod": reductions.product,
    "sum": reductions.sum_,
    "nansum": reductions.sum_,
    "mean": reductions.mean,
    "nanmean": reductions.mean,
    "nanvar": reductions.variance_or_std,
    "nanstd": reductions.variance_or_std,
    "ptp": _ptp,
    "var": reductions.variance_or_std,
    "std": reductions.variance_or_std,
    **{f"image.{name}": overlap.filter_image for name in _WINDOWS.split()},
    "image.resize": images.whole_images,
    "image.equalize_histogram": images.whole_images,
    "image.threshold_otsu": images.whole_images,
    **{
        f"image.{name}": images.per_pixel for name in ("threshold", "normalize", "rgb_to_gray", "gray_to_rgb")
    },
    "image.flip": images.flip,
    "image.rotate90": images.rotate90,
    "image.crop": images.crop,
    "histogram": histograms.histogram,
    "histogram2d": histograms.histogram2d,
    "histogramdd": histograms.histogramdd,
    "bincount": histograms.bincount,
    "topk": _topk,
    "evaluate": _evaluate,
    **dict.fromkeys(["interp", "digitize", "isin", "searchsorted"], indexing.look_up),
    "flip": indexing.rearranged("axis"),
    "roll": indexing.rearranged("shift axis"),
    **dict.fromkeys(("tril", "triu"), indexing.rearranged("k")),
    "transpose": indexing.rearranged("axes"),
    "swapaxes": indexing.rearranged("axis1 axis2"),
    **dict.fromkeys(("nonzero", "flatnonzero", "argwhere"), indexing.nonzero),
    "take_along_axis": indexing.take_along_axis,
    "take": indexing.take,
    "compress": indexing.compress,
    **dict.fromkeys(("unique", "unique_values"), indexing.unique),
    **dict.fromkeys(("union1d", "intersect1d", "setdiff1d", "setxor1d"), indexing.set_operation),
    "sort": along_axis.same_shape("kind stable descending"),
    "argsort": along_axis.same_shape("kind stable descending"),
    **dict.fromkeys(("partition", "argpartition"), along_axis.same_shape("kth kind")),
    **dict.fromkeys(_ORDER_STATISTICS.split(), along_axis.order_statistics),
    **dict.fromkeys(_SCANS.split(), along_axis.scan),
    "diff": composites.diff,
    "trace": composites.trace,
    "allclose": composites.allclose,
    "array_equal": composites.array_equal,
    "outer": composites.outer,
    "average": composites.average,
    "kron": composites.kron,
    "linalg.norm": composites.norm,
    "linalg.matrix_power": composites.matrix_power,
    **dict.fromkeys(("concatenate", "stack"), indexing.join),
    "tile": composites.tile,
    "gradient": composites.gradient,
    "trapezoid": composites.by_numpy_body("y x dx"),
    "cross": composites.by_numpy_body("a b"),
    **dict.fromkeys(("cov", "corrcoef"), composites.by_numpy_body("m x y")),
    **dict.fromkeys(("convolve", "correlate"), composites.convolve),
    "pad": composites.pad,
    "repeat": composites.repeat,
    **dict.fromkeys(("matmul", "dot", "inner", "vecdot"), linalg.matmul),
    "vdot": linalg.vdot,
    "tensordot": linalg.tensordot,
    "einsum": linalg.einsum,
}
