"""Functions of Dask arrays whose elements are looked up, moved, or left out, which no arithmetic decides."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit import errors
from pycudakit._dask.call_arguments import (
    BlockFunction,
    CallArguments,
    Function,
    as_dtype,
    flat,
    needs_whole_array,
    sample,
)
from pycudakit._dask.lazy_imports import dask_array, public_api
from pycudakit._interop.foreign_arrays import is_dask


def look_up(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return where each element is found in what is known."""
    place = 1 if function.__name__ == "searchsorted" else 0
    if [at for at, value in enumerate(args) if is_dask(value)] != [place]:
        raise errors.Unsupported(
            f"{function.__name__} of Dask arrays: one may be looked up, and the others must be known: "
            ".compute() them first"
        )
    x, compute = args[place], BlockFunction(function, args, kwargs)
    dtype = np.asarray(compute(sample(x))).dtype
    return x.map_blocks(compute, dtype=dtype, meta=np.empty((0,) * x.ndim, dtype))


def rearranged(supported: str) -> Function:
    """Return the kind of a function that is Dask's own, as bits stay as they are; what it heeds."""

    def handler(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        arguments = CallArguments(function, args, kwargs, supported)
        x, others = args[0], {name: arguments[name] for name in supported.split()}
        dtype = np.asarray(function(sample(x), **others)).dtype  # or what NumPy refuses
        if function.__name__ == "roll":
            others["shift"], others["axis"] = _pairs(others["shift"], others["axis"])
        if function.__name__ in ("tril", "triu") and x.ndim == 1:
            x = dask_array().broadcast_to(x, (x.size, x.size))
        return as_dtype(getattr(dask_array(), function.__name__)(x, **others), dtype)

    return handler


def _pairs(shift: Any, axis: Any) -> tuple[Any, Any]:
    """Return as many shifts as axes."""
    if axis is None:
        return int(np.sum(shift)), None
    shifts, axes = (each.ravel().tolist() for each in np.broadcast_arrays(shift, axis))
    return shifts, axes


def nonzero(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return where elements are that are not zero."""
    arguments = CallArguments(function, args, kwargs, "")
    x = args[0]
    if x.ndim == 0:
        function(np.ones((), x.dtype))  # which refuses it, or else finds a place without axes
        raise errors.Unsupported(f"{arguments.title} of a Dask array: it has no axis: x.reshape(1) first")
    if 0 not in x.shape:
        return getattr(dask_array(), function.__name__)(x)
    nothing = function(np.empty([0] * x.ndim, x.dtype))
    lazy = dask_array().asarray
    return tuple(map(lazy, nothing)) if isinstance(nothing, tuple) else lazy(nothing)


def take_along_axis(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the elements of lines at places of their own."""
    arguments = CallArguments(function, args, kwargs, "axis", lazy="arr indices")
    x, indices = (dask_array().asarray(arguments[name]) for name in ("arr", "indices"))
    axis = arguments["axis"]
    if axis is None:
        x, axis = flat(x), 0
    arguments.check_sizes(x, indices)
    function(sample(x), np.zeros((1,) * indices.ndim, indices.dtype), axis)
    axis = normalize_axis_index(axis, x.ndim)
    if any(n != m for at, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True)) if at != axis):
        raise errors.Unsupported(f"{arguments.title} of a Dask array: give indices of as many lines")
    if x.ndim == 1 and x.npartitions > 1:
        raise needs_whole_array(arguments.title, "x[indices] takes those of one dimension")
    x = x.rechunk({axis: -1})
    cut = {at: n for at, n in enumerate(x.chunks) if at != axis}
    indices = indices.rechunk({axis: -1, **cut})
    return dask_array().map_blocks(
        BlockFunction(function, (x, indices, axis), {}),
        x,
        indices,
        chunks=indices.chunks,
        dtype=x.dtype,
        meta=np.empty((0,) * x.ndim, x.dtype),
    )


def take(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the elements at places that are known."""
    arguments = CallArguments(function, args, kwargs, "indices axis")
    x, indices, axis = args[0], np.asarray(arguments["indices"]), arguments["axis"]
    if axis is None:
        x, axis = flat(x), 0
    axis = normalize_axis_index(axis, x.ndim)
    dtype = np.asarray(function(sample(x), np.zeros(indices.shape, np.intp), axis)).dtype
    result = dask_array().take(x, indices.ravel(), axis=axis)
    if indices.ndim != 1:
        arguments.check_sizes(x)
        result = result.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return as_dtype(result, dtype)


def compress(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the elements, or lines, that a condition keeps."""
    arguments = CallArguments(function, args, kwargs, "axis", lazy="condition a")
    x = arguments["a"] if is_dask(arguments["a"]) else dask_array().asarray(arguments["a"])
    return as_dtype(dask_array().compress(arguments["condition"], x, axis=arguments["axis"]), x.dtype)


def unique(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the elements that differ from each other, in order: those of blocks, and of all of these."""
    optional_outputs = (
        ("return_index", "return_inverse", "return_counts") if function.__name__ == "unique" else ()
    )
    arguments = CallArguments(function, args, kwargs, " ".join(optional_outputs))
    da, delayed, x = dask_array(), importlib.import_module("dask").delayed, args[0]
    row = flat(x)
    outputs = {name: True for name in optional_outputs if arguments[name] and name != "return_inverse"}
    whole = delayed(_combine_unique)(function, _parts(row, function, outputs), outputs)
    values = da.from_delayed(whole["values"], (np.nan,), x.dtype)
    results = [values]
    for name in optional_outputs:
        if name in outputs:
            results.append(da.from_delayed(whole[name], (np.nan,), np.intp))
        elif arguments[name]:
            inverse = row.map_blocks(
                _inverse_of_block, whole["values"], dtype=np.intp, meta=np.empty(0, np.intp)
            )
            results.append(inverse if x.ndim == 1 else inverse.reshape(x.shape))
    return values if len(results) == 1 else tuple(results)


def _inverse_of_block(block: Any, values: Any) -> Any:
    return np.searchsorted(values, block)


def _parts(row: Any, function: Function, outputs: Mapping[str, bool]) -> list[Any]:
    """Return what is told of each block, to come."""
    of_block = functools.partial(_unique_of_block, function=function, outputs=outputs)
    parts: list[Any] = row.map_blocks(of_block, dtype=object, meta=np.empty(0, object)).to_delayed().tolist()
    return parts


def _unique_of_block(block: Any, function: Function, outputs: Mapping[str, bool]) -> dict[str, Any]:
    """Return the elements of a block that differ from each other, and what else is to be told of them."""
    result = function(block, **outputs)
    values = dict(zip(("values", *outputs), result if outputs else (result,), strict=True))
    return {**values, "length": len(block)}


def _combine_unique(function: Function, parts: Sequence[Any], outputs: Mapping[str, bool]) -> dict[str, Any]:
    """Return the same of all blocks: the first of equals is that of the first block which has it."""
    every = np.concatenate([part["values"] for part in parts], dtype=parts[0]["values"].dtype)
    if not outputs:
        return {"values": function(every)}
    values, first, place = function(every, return_index=True, return_inverse=True)
    whole = {"values": values}
    if "return_index" in outputs:
        starts = np.cumsum([0, *(part["length"] for part in parts)])
        whole["return_index"] = np.concatenate(
            [part["return_index"] + start for part, start in zip(parts, starts, strict=False)]
        )[first]
    if "return_counts" in outputs:
        whole["return_counts"] = np.zeros(len(values), np.intp)
        np.add.at(whole["return_counts"], place, np.concatenate([part["return_counts"] for part in parts]))
    return whole


def set_operation(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a set made of two: of what differs in each of them."""
    names = list(inspect.signature(function).parameters)[:2]
    arguments = CallArguments(function, args, kwargs, "", lazy=" ".join(names))
    both = [dask_array().asarray(arguments[name]) for name in names]
    delayed, only = importlib.import_module("dask").delayed, public_api().unique
    sets = [delayed(_combine_unique)(only, _parts(flat(each), only, {}), {})["values"] for each in both]
    dtype = function(*(np.ones(1, each.dtype) for each in both)).dtype
    return dask_array().from_delayed(delayed(function)(*sets), (np.nan,), dtype)


def join(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return arrays put together."""
    arguments = CallArguments(function, args, kwargs, lazy="arrays")
    arrays, axis, dtype = (
        list(map(dask_array().asarray, arguments["arrays"])),
        arguments["axis"],
        arguments["dtype"],
    )
    ones = [*map(sample, arrays)]
    function(ones, *args[1:], **kwargs)  # which refuses what NumPy refuses
    if axis is None:
        arrays, axis = [flat(array) for array in arrays], 0
    beside = {(*a.shape[:axis], *a.shape[axis:][1:]) for a in arrays if not math.isnan(a.size)}
    if arguments.title == "concatenate" and len(beside) > 1:  # of which Dask passes over what has no elements
        raise errors.InvalidArgument(f"concatenate: lengths of other axes differ: {sorted(beside)}")
    whole = getattr(dask_array(), function.__name__)(arrays, axis)
    return whole if dtype is None else whole.astype(dtype)
