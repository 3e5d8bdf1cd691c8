"""Functions along an axis of Dask arrays: sorts, order statistics, top-k and scans.

The array is rechunked so that the axis is one chunk, and each block is computed independently. A scan of a
1-d array keeps its chunks: each block is scanned, and then continued from the total of the blocks before it.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit import errors
from pycudakit._dask.call_arguments import BlockFunction, CallArguments, Function, needs_whole_array
from pycudakit._dask.lazy_imports import public_api
from pycudakit._families.sort.topk import TopK


def same_shape(supported: str) -> Function:
    """Return the handler of a function that keeps the shape; `supported` names its other parameters."""

    def handler(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return _same_shape(CallArguments(function, args, kwargs, f"axis {supported}"), function, args, kwargs)

    return handler


def _same_shape(
    arguments: CallArguments, function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    x, axes = _rechunked_along(arguments, args[0])
    return _map_lines(BlockFunction(function, (x, *args[1:]), kwargs), x, axes)


def topk(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TopK:
    """Return the k largest or smallest elements along an axis, and their indices."""
    x, axes = _rechunked_along(CallArguments(function, args, kwargs, "k axis largest"), args[0])
    compute = BlockFunction(function, (x, *args[1:]), kwargs)
    return TopK(*(_map_lines(functools.partial(compute, part=part), x, axes) for part in range(2)))


def _map_lines(compute: Function, x: Any, axes: tuple[int, ...]) -> Any:
    line = compute(_ones(x, axes))  # raises NumPy's errors
    chunks = tuple((line.shape[a],) if a in axes else cut for a, cut in enumerate(x.chunks))
    return x.map_blocks(compute, chunks=chunks, dtype=line.dtype, meta=np.empty((0,) * x.ndim, line.dtype))


def order_statistics(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute order statistics along axes; the axes of `q` come first."""
    several = "" if "median" in function.__name__ else "q method weights"
    kwargs = {
        name: value for name, value in kwargs.items() if name != "overwrite_input"
    }  # blocks are not ours to overwrite
    arguments = CallArguments(function, args, kwargs, f"axis keepdims {several}")
    if several and np.ndim(arguments["weights"]) > 1:
        raise errors.Unsupported(f"{function.__name__} of a Dask array takes weights of one dimension")
    x, axes = _rechunked_along(arguments, args[0])
    compute = BlockFunction(function, (x, *args[1:]), kwargs)
    line = compute(_ones(x, axes))
    count = np.ndim(arguments["q"]) if several else 0
    stay = range(x.ndim) if arguments["keepdims"] else [a for a in range(x.ndim) if a not in axes]
    rest = [(1,) if a in axes else x.chunks[a] for a in stay]
    return x.map_blocks(
        compute,
        drop_axis=() if arguments["keepdims"] else axes,
        new_axis=list(range(count)),
        chunks=(*((n,) for n in line.shape[:count]), *rest),
        dtype=line.dtype,
        meta=np.empty((0,) * line.ndim, line.dtype),
    )


def _rechunked_along(arguments: CallArguments, x: Any) -> tuple[Any, tuple[int, ...]]:
    """Rechunk so that the axes are one chunk each; return the array and the axes."""
    axis = arguments["axis"]
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    if all(len(x.chunks[a]) == 1 for a in axes) and (axis is not None or x.ndim == 1):
        return x, axes
    if len(axes) == x.ndim:
        raise needs_whole_array(arguments.title, "choose axes that leave at least one other axis")
    arguments.check_sizes(x)
    others = {} if 0 in x.shape else dict.fromkeys(range(x.ndim), "auto")
    return x.rechunk({**others, **dict.fromkeys(axes, -1)}), axes


def _ones(x: Any, axes: tuple[int, ...]) -> Any:
    """Return a sample: ones of full length along the axes and of length 1 elsewhere."""
    return np.ones([n if a in axes else 1 for a, n in enumerate(x.shape)], x.dtype)


# ---- Scans of 1-d arrays -------------------------------------------------------------------------------

_COMBINE = {
    **dict.fromkeys(("cumsum", "nancumsum", "cumulative_sum", "exclusive_scan"), "add"),
    **dict.fromkeys(("cumprod", "nancumprod", "cumulative_prod"), "multiply"),
    "cummax": "maximum",
    "cummin": "minimum",
}


def scan(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute a scan; in one dimension, each block continues from the total of the blocks before it."""
    arguments, x = CallArguments(function, args, kwargs, "axis dtype"), args[0]
    if x.ndim != 1:
        return _same_shape(arguments, function, args, kwargs)
    dtype = BlockFunction(function, args, kwargs)(np.ones(1, x.dtype)).dtype  # raises for an invalid axis
    is_exclusive = function.__name__ == "exclusive_scan"
    inclusive = public_api().cumsum if is_exclusive else function
    join, delayed = (
        getattr(public_api(), _COMBINE[function.__name__]),
        importlib.import_module("dask").delayed,
    )
    wide = np.dtype(np.float64) if dtype.kind == "f" else dtype
    one_block = functools.partial(inclusive, dtype=wide)
    within = x.map_blocks(one_block, dtype=wide, meta=np.empty(0, wide))
    lasts = within.map_blocks(_last, dtype=wide, chunks=((1,) * x.npartitions,), meta=np.empty(0, wide))
    before = delayed(_prefixes)(join, lasts.to_delayed().tolist())
    return within.map_blocks(
        _continue_scan, join, before, dtype, is_exclusive, dtype=dtype, meta=np.empty(0, dtype)
    )


def _last(block: Any) -> Any:
    return block[-1:]


def _prefixes(join: Function, lasts: Sequence[Any]) -> list[Any]:
    """Return, for each block, the combined total of the blocks before it; an empty array if there is none."""
    prefixes, total = [], lasts[0][:0]
    for last in lasts:
        prefixes.append(total)
        total = join(total, last) if total.size and last.size else total if total.size else last
    return prefixes


def _continue_scan(
    within: Any,
    join: Function,
    all_before: Sequence[Any],
    dtype: Any,
    is_exclusive: bool,
    block_id: tuple[int],
) -> Any:
    """Add the total of the blocks before to the scan of a block."""
    before = all_before[block_id[0]]
    continued = join(before, within) if before.size else within
    if is_exclusive:
        first = before if before.size else np.zeros(1, within.dtype)
        continued = np.concatenate([first, continued[:-1]])[: len(within)]
    return continued.astype(dtype, copy=False)
