"""Functions that go along axes of Dask arrays: blocks are cut so that each has whole lines."""

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
from pycudakit._families.sort.sorting import TopK


def same_shape(supported: str) -> Function:
    """Return the kind of a function whose lines come out as lines; what it heeds beside the axis."""

    def handler(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return _same_shape(CallArguments(function, args, kwargs, f"axis {supported}"), function, args, kwargs)

    return handler


def _same_shape(
    arguments: CallArguments, function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    x, axes = _whole_lines(arguments, args[0])
    return _map_lines(BlockFunction(function, (x, *args[1:]), kwargs), x, axes)


def topk(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TopK:
    """Return each line's best, and where they are."""
    x, axes = _whole_lines(CallArguments(function, args, kwargs, "k axis largest"), args[0])
    compute = BlockFunction(function, (x, *args[1:]), kwargs)
    return TopK(*(_map_lines(functools.partial(compute, part=part), x, axes) for part in range(2)))


def _map_lines(compute: Function, x: Any, axes: tuple[int, ...]) -> Any:
    line = compute(_ones(x, axes))  # which refuses what NumPy refuses
    chunks = tuple((line.shape[a],) if a in axes else cut for a, cut in enumerate(x.chunks))
    return x.map_blocks(compute, chunks=chunks, dtype=line.dtype, meta=np.empty((0,) * x.ndim, line.dtype))


def order_statistics(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return an order statistic of each line, or some, in front."""
    several = "" if "median" in function.__name__ else "q method weights"
    kwargs = {name: value for name, value in kwargs.items() if name != "overwrite_input"}  # others' blocks
    arguments = CallArguments(function, args, kwargs, f"axis keepdims {several}")
    if several and np.ndim(arguments["weights"]) > 1:
        raise errors.Unsupported(f"{function.__name__} of a Dask array takes weights of one dimension")
    x, axes = _whole_lines(arguments, args[0])
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


def _whole_lines(arguments: CallArguments, x: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the array in blocks of whole lines, and the axes of these."""
    axis = arguments["axis"]
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    if all(len(x.chunks[a]) == 1 for a in axes) and (axis is not None or x.ndim == 1):
        return x, axes
    if len(axes) == x.ndim:
        raise needs_whole_array(arguments.title, "give an axis beside which there are others")
    arguments.check_sizes(x)
    others = {} if 0 in x.shape else dict.fromkeys(range(x.ndim), "auto")
    return x.rechunk({**others, **dict.fromkeys(axes, -1)}), axes


def _ones(x: Any, axes: tuple[int, ...]) -> Any:
    """Return a line that stands for all."""
    return np.ones([n if a in axes else 1 for a, n in enumerate(x.shape)], x.dtype)


# ---- Scans of one dimension ----------------------------------------------------------------------------

_COMBINE = {
    **dict.fromkeys(("cumsum", "nancumsum", "cumulative_sum", "exclusive_scan"), "add"),
    **dict.fromkeys(("cumprod", "nancumprod", "cumulative_prod"), "multiply"),
    "cummax": "maximum",
    "cummin": "minimum",
}


def scan(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a scan: of one dimension, each block goes on from the one before."""
    arguments, x = CallArguments(function, args, kwargs, "axis dtype"), args[0]
    if x.ndim != 1:
        return _same_shape(arguments, function, args, kwargs)
    dtype = BlockFunction(function, args, kwargs)(np.ones(1, x.dtype)).dtype  # which refuses what is no axis
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
    """Return what all blocks before each come to: nothing for the first, and for those after empty ones."""
    found, whole = [], lasts[0][:0]
    for last in lasts:
        found.append(whole)
        whole = join(whole, last) if whole.size and last.size else whole if whole.size else last
    return found


def _continue_scan(
    within: Any, join: Function, all_before: Sequence[Any], to: Any, is_exclusive: bool, block_id: tuple[int]
) -> Any:
    """Return a block's scan, which goes on from what is before it."""
    before = all_before[block_id[0]]
    whole = join(before, within) if before.size else within
    if is_exclusive:
        first = before if before.size else np.zeros(1, within.dtype)
        whole = np.concatenate([first, whole[:-1]])[: len(within)]
    return whole.astype(to, copy=False)
