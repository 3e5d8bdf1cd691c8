"""Functions of Dask arrays, by what each is: of blocks, of trees over these, or of whole lines.

Which of these a function is, `KINDS` says. Blocks are computed where Dask's scheduler puts them, on the
engine that is set there.
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
    Asked,
    Function,
    OfBlocks,
    check_sizes,
    needs_all,
    ready,
    sample,
    skips_nan,
)
from pycudakit._dask.lazy_imports import dask_array, kit
from pycudakit._families.expression.parser import REDUCTIONS
from pycudakit._families.sort.sorting import TopK
from pycudakit._interop.foreign_arrays import is_dask

_SHOWN = ("image", "linalg", "random")  # beside the package itself, what shows functions


def call(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], module: str = "pycudakit") -> Any:
    """Call a function of this name, which a module shows or has within, with Dask arrays among its arguments.

    Raises
    ------
    Unsupported
        It cannot be computed block by block.
    """
    room = module.split(".")[1:2]
    module = f"pycudakit.{room[0]}" if room and room[0] in _SHOWN else "pycudakit"
    title = f"{module.removeprefix('pycudakit.')}.{name}" if module != "pycudakit" else name
    kind = KINDS.get(title)
    if module == "pycudakit.random":
        raise errors.Unsupported(
            f"{name}: .compute() the Dask array first; pk.random.on_dask draws one, by numbers as parameters"
        )
    if kind is None:
        raise needs_all(title)
    function = getattr(sys.modules[module], name)
    are_many = kind is indexing.joined
    args = [[*map(ready, v)] if are_many and n == 0 else ready(v) for n, v in enumerate(args)]
    goes_elsewhere = kwargs.get("out") is not None
    kwargs = {key: ready(value) for key, value in kwargs.items() if key != "out"}
    if any(map(is_dask, kwargs.values())):
        given = inspect.signature(function).bind(*args, **kwargs)
        args, kwargs = given.args, given.kwargs
    named = any(map(is_dask, kwargs.values())) and kind is not composites.average
    one_by_one = kind is _elementwise and any(map(_has_axes, kwargs.values()))  # which would not be cut
    if one_by_one or named or goes_elsewhere:
        raise errors.Unsupported(
            f"{title} of a Dask array: give arrays by position, and neither `out` nor `where`"
        )
    try:
        found = _of_nothing(function, args, kwargs)
        return kind(function, args, kwargs) if found is None else found
    except (TypeError, ValueError) as error:
        if not isinstance(error, (errors.Error, np.exceptions.AxisError)):  # as Dask's, of sizes that are NaN
            check_sizes(title, *_arrays(args[0] if are_many else args))
        raise


def _of_nothing(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the array that a function makes of arrays without elements, which are there at once, or None."""
    arrays = _arrays(args)
    if not arrays or any(array.size != 0 for array in arrays):  # or is not known
        return None
    found = function(*(np.empty(v.shape, v.dtype) if is_dask(v) else v for v in args), **kwargs)
    return None if isinstance(found, tuple) else dask_array().asarray(found)


def _has_axes(value: Any) -> bool:
    """Tell whether this is an array or a list, and no number, type or name."""
    return not isinstance(value, type) and np.ndim(value) > 0


def _arrays(args: Sequence[Any]) -> list[Any]:
    return [value for value in args if is_dask(value)]


def _elementwise(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    da = dask_array()
    if function.__name__ == "where" and len(args) == 1:
        raise errors.Unsupported(
            "where of a Dask array alone needs all of it at once: .compute() it first, or say what to choose"
        )
    # Other arrays are cut as these are; numbers, types and the like are part of the call.
    given = [da.asarray(v) if not is_dask(v) and _has_axes(v) else v for v in args]
    compute = OfBlocks(function, given, kwargs)
    parts = _PAIRS.get(function.__name__)
    if parts is None:
        return _block_by_block(compute, _arrays(given))
    return tuple(
        _block_by_block(functools.partial(compute, part=part), _arrays(given)) for part in range(parts)
    )


def _block_by_block(compute: Function, arrays: Sequence[Any]) -> Any:
    found = dask_array().core.elemwise(compute, *_cut_alike(arrays))
    if found is NotImplemented:  # all that Dask says of what the function refuses
        compute(*map(sample, arrays))
        raise needs_all(compute.__name__)
    return found


def _cut_alike(arrays: Sequence[Any]) -> Sequence[Any]:
    """Return arrays, the largest cut as the finest of them: Dask would cut all wherever any is cut."""
    size, shape = max(((array.size, array.shape) for array in arrays), key=operator.itemgetter(0))
    if math.isnan(size):
        return arrays
    finest = min((array.chunks for array in arrays if array.shape == shape), key=_largest_block)
    return [array.rechunk(finest) if array.shape == shape else array for array in arrays]


def _largest_block(chunks: Sequence[Sequence[int]]) -> int:
    """Return how many elements the largest block has."""
    return math.prod(map(max, chunks))


def _evaluate(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what an expression gives of blocks; what its outermost call reduces is reduced as that is."""
    expression, operands = args[0], {name: ready(value) for name, value in args[1].items()}
    whole = ast.parse(expression.strip(), mode="eval").body
    if isinstance(whole, ast.Call) and isinstance(whole.func, ast.Name) and whole.func.id in REDUCTIONS:
        inner = _evaluate(function, (ast.unparse(whole.args[0]), operands), kwargs)
        named = {str(each.arg): ast.literal_eval(each.value) for each in whole.keywords}
        return getattr(kit(), whole.func.id)(inner, **named)
    return _elementwise(_Expression(function, expression, list(operands)), list(operands.values()), {})


class _Expression:
    """An expression, as a function of its operands."""

    def __init__(self, evaluate: Function, expression: str, names: Sequence[str]) -> None:
        self._given = evaluate, expression, names
        self.__name__ = "evaluate"

    def __call__(self, *values: Any) -> Any:
        evaluate, expression, names = self._given
        return evaluate(expression, dict(zip(names, values, strict=True)))


_PAIRS = {"divmod": 2, "modf": 2, "frexp": 2}


def _exact(join: str | None = None) -> Function:
    """Return the kind of a reduction whose parts may be joined in any order, by itself or another."""

    def kind(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        _, x, axes, keepdims = reductions.of_axes(function, args, kwargs)
        joined = getattr(kit(), join or function.__name__)
        return reductions.tree(x, axes, keepdims, reductions.dtype_of(function, x), function, joined)

    return kind


def _extreme(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the least or the greatest, which blocks without elements have no say in."""
    _, x, axes, keepdims = reductions.of_axes(function, args, kwargs)
    some = functools.partial(_extreme_of_some, function=function)
    return reductions.tree(x, axes, keepdims, reductions.dtype_of(function, x), some, function, some)


def _extreme_of_some(block: Any, axis: Any, keepdims: bool, function: Function) -> Any:
    shape = [min(n, 1) if a in axis else n for a, n in enumerate(block.shape)]
    if 0 in shape:
        return np.empty_like(block, shape=shape)
    if skips_nan(function, block):
        alone = kit().all(kit().isnan(block), axis=axis, keepdims=True)
        if np.any(alone):  # nothing to warn of yet: other blocks may have numbers
            found = function(np.where(alone, 0, block), axis=axis, keepdims=keepdims)
            return np.where(alone, np.nan, found).astype(block.dtype)
    return function(block, axis=axis, keepdims=keepdims)


def _between(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return how far the extremes are from each other."""
    _, x, axes, keepdims = reductions.of_axes(function, args, kwargs)
    most, least = (_extreme(each, (x, axes), {"keepdims": keepdims}) for each in (kit().max, kit().min))
    return kit().subtract(most, least)


def _first(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return where an extreme is, which no arithmetic decides: along an axis by NumPy, block by block."""
    asked = Asked(function, args, kwargs, "axis keepdims")
    x, axis, keepdims = args[0], asked["axis"], asked.keepdims
    function(sample(x), axis)  # which refuses what is no axis
    if x.ndim == 0:
        x, axis, keepdims = x.reshape(1), 0, False
    if axis is None or np.isnan(x.shape[axis]):
        asked.check_sizes(x)
    if axis is None and x.ndim > 1:  # where Dask finds the first block's, and not the first
        place = _first_of_all(function, x)
        return place.reshape((1,) * x.ndim) if keepdims else place
    return getattr(dask_array(), function.__name__)(x, axis=axis, keepdims=keepdims)


def _first_of_all(function: Function, x: Any) -> Any:
    da, delayed = dask_array(), importlib.import_module("dask").delayed
    starts = [np.cumsum([0, *cut[:-1]]).tolist() for cut in x.chunks]
    of_block = delayed(_first_of_block)
    parts = [
        of_block(function, block, [start[n] for start, n in zip(starts, at, strict=True)], x.shape)
        for at, block in np.ndenumerate(x.to_delayed())
    ]
    return da.from_delayed(delayed(_first_of_parts)(function, parts), (), np.intp)


def _first_of_block(function: Function, block: Any, start: Sequence[int], shape: Sequence[int]) -> Any:
    """Return where a block's extreme is in the whole, and what it is; nothing, if there is none."""
    if not block.size or (skips_nan(function, block) and np.isnan(block).all()):
        return ()
    at = np.unravel_index(function(block), block.shape)
    place = np.ravel_multi_index([int(n) + first for n, first in zip(at, start, strict=True)], shape)
    return int(place), block[at]


def _first_of_parts(function: Function, parts: Sequence[Any]) -> Any:
    found = sorted((part for part in parts if part), key=operator.itemgetter(0))
    if not found:  # which raises, as NumPy does
        return function(np.full(len(parts) * function.__name__.startswith("nan"), np.nan))
    return np.intp(found[function(np.asarray([value for _, value in found]))][0])


# ---- The best ------------------------------------------------------------------------------------------


def _topk(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    da, delayed = dask_array(), importlib.import_module("dask").delayed
    asked = Asked(function, args, kwargs, "k axis largest")
    x, k, axis, largest = args[0], operator.index(asked["k"]), asked["axis"], bool(asked["largest"])
    if x.ndim != 1 or axis not in (-1, 0, None):
        return along_axis.best(function, args, kwargs)
    if np.isnan(x.shape[0]):
        raise errors.Unsupported("topk of a Dask array: its length is unknown: x.compute_chunk_sizes() first")
    if not 0 <= k <= x.shape[0]:
        raise ValueError(f"k={k} is not from 0 to {x.shape[0]}, the length of the axis")
    starts = np.cumsum([0, *x.chunks[0][:-1]])
    best = delayed(_best)
    parts = [best(function, k, largest, b, n) for b, n in zip(x.to_delayed(), starts, strict=True)]
    whole = delayed(_best_of_all)(function, k, largest, parts)
    values, indices = (
        da.from_delayed(whole[n], (k,), dtype) for n, dtype in enumerate((x.dtype, np.dtype(np.intp)))
    )
    return TopK(values, indices)


def _best(function: Function, k: int, largest: bool, block: Any, start: int) -> Any:
    values, indices = function(block, min(k, block.size), largest=largest)
    return values, indices + start


def _best_of_all(function: Function, k: int, largest: bool, parts: Any) -> Any:
    """Return the best of the blocks' best, which are in order: so the first of equals wins here, too."""
    values, indices = (np.concatenate(each, dtype=each[0].dtype) for each in zip(*parts, strict=True))
    values, places = function(values, k, largest=largest)
    return values, indices[places]


# ---- What each function is ----------------------------------------------------------------------------

_ALL_ALIKE = """
add subtract multiply divide true_divide floor_divide remainder mod fmod power pow float_power divmod
modf frexp negative positive abs absolute fabs sign signbit copysign nextafter ldexp reciprocal sqrt
cbrt square exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 sin cos tan arcsin arccos arctan
arctan2 sinh cosh tanh arcsinh arccosh arctanh asin acos atan atan2 asinh acosh atanh hypot sinc deg2rad
rad2deg degrees radians floor ceil trunc rint round around clip nan_to_num maximum minimum fmax fmin
heaviside gcd lcm isfinite isinf isnan isclose equal not_equal less less_equal greater greater_equal
logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert bitwise_invert
bitwise_not left_shift right_shift bitwise_left_shift bitwise_right_shift where astype
"""
_EXACT = "all any"
_EXTREMES = "min max amin amax nanmin nanmax"
_FIRST = "argmin argmax nanargmin nanargmax"
_WINDOWS = """
box_blur gaussian_blur correlate convolve sobel laplace median_filter minimum_filter maximum_filter
"""
_ORDERED = "median percentile quantile nanmedian nanpercentile nanquantile"
_SCANS = """
cumsum cumprod cummax cummin cumulative_sum cumulative_prod nancumsum nancumprod exclusive_scan
"""

KINDS: dict[str, Function] = {
    **dict.fromkeys(_ALL_ALIKE.split(), _elementwise),
    **dict.fromkeys(_EXACT.split(), _exact()),
    **dict.fromkeys(_EXTREMES.split(), _extreme),
    "count_nonzero": _exact("sum"),
    **dict.fromkeys(_FIRST.split(), _first),
    "prod": reductions.product,
    "sum": reductions.total,
    "nansum": reductions.total,
    "mean": reductions.mean,
    "nanmean": reductions.mean,
    "nanvar": reductions.spread,
    "nanstd": reductions.spread,
    "ptp": _between,
    "var": reductions.spread,
    "std": reductions.spread,
    **{f"image.{name}": overlap.filtered for name in _WINDOWS.split()},
    "image.resize": images.of_images,
    "image.equalize_histogram": images.of_images,
    "image.threshold_otsu": images.of_images,
    **{
        f"image.{name}": images.of_pixels for name in ("threshold", "normalize", "rgb_to_gray", "gray_to_rgb")
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
    **dict.fromkeys(["interp", "digitize", "isin", "searchsorted"], indexing.looked_up),
    "flip": indexing.moved("axis"),
    "roll": indexing.moved("shift axis"),
    **dict.fromkeys(("tril", "triu"), indexing.moved("k")),
    "transpose": indexing.moved("axes"),
    "swapaxes": indexing.moved("axis1 axis2"),
    **dict.fromkeys(("nonzero", "flatnonzero", "argwhere"), indexing.found),
    "take_along_axis": indexing.along,
    "take": indexing.take,
    "compress": indexing.compress,
    **dict.fromkeys(("unique", "unique_values"), indexing.unique),
    **dict.fromkeys(("union1d", "intersect1d", "setdiff1d", "setxor1d"), indexing.of_sets),
    "sort": along_axis.kept("kind stable descending"),
    "argsort": along_axis.kept("kind stable descending"),
    **dict.fromkeys(("partition", "argpartition"), along_axis.kept("kth kind")),
    **dict.fromkeys(_ORDERED.split(), along_axis.order_statistic),
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
    **dict.fromkeys(("concatenate", "stack"), indexing.joined),
    "tile": composites.tile,
    "gradient": composites.gradient,
    "trapezoid": composites.written("y x dx"),
    "cross": composites.written("a b"),
    **dict.fromkeys(("cov", "corrcoef"), composites.written("m x y")),
    **dict.fromkeys(("convolve", "correlate"), composites.slid),
    "pad": composites.pad,
    "repeat": composites.repeat,
    **dict.fromkeys(("matmul", "dot", "inner", "vecdot"), linalg.matmul),
    "vdot": linalg.vdot,
    "tensordot": linalg.tensordot,
    "einsum": linalg.einsum,
}
