"""Functions of Dask arrays that look up, move or select elements, such as `take`, `unique` and `roll`."""

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
from pycudakit._runtime.operands import axis_index


def look_up(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Look up each element in arrays in memory, for `searchsorted`, `interp`, `digitize` and `isin`."""
    position = 1 if function.__name__ == "searchsorted" else 0
    if [index for index, value in enumerate(args) if is_dask(value)] != [position]:
        raise errors.Unsupported(
            f"{function.__name__} of Dask arrays: only one may be a Dask array, "
            "and the others must be known: .compute() them first"
        )
    x, compute = args[position], BlockFunction(function, args, kwargs)
    dtype = np.asarray(compute(sample(x))).dtype
    return x.map_blocks(compute, dtype=dtype, meta=np.empty((0,) * x.ndim, dtype))


def rearranged(supported: str) -> Function:
    """Return the handler of a function that Dask computes itself, as no arithmetic is involved."""

    def handler(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        arguments = CallArguments(function, args, kwargs, supported)
        x, others = args[0], {name: arguments[name] for name in supported.split()}
        dtype = np.asarray(function(sample(x), **others)).dtype  # or raises NumPy's errors
        if function.__name__ == "roll":
            others["shift"], others["axis"] = _pairs(others["shift"], others["axis"])
        if function.__name__ in ("tril", "triu") and x.ndim == 1:
            x = dask_array().broadcast_to(x, (x.size, x.size))
        return as_dtype(getattr(dask_array(), function.__name__)(x, **others), dtype)

    return handler


def _pairs(shift: Any, axis: Any) -> tuple[Any, Any]:
    """Return one shift for each axis."""
    if axis is None:
        return int(np.sum(shift)), None
    shifts, axes = (each.ravel().tolist() for each in np.broadcast_arrays(shift, axis))
    return shifts, axes


def nonzero(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the indices of the elements that are not zero."""
    arguments = CallArguments(function, args, kwargs, "")
    x = args[0]
    if x.ndim == 0:
        function(np.ones((), x.dtype))  # raises for some functions; others return an index without axes
        raise errors.Unsupported(f"{arguments.title} of a Dask array: it has no axis: x.reshape(1) first")
    if 0 not in x.shape:
        return getattr(dask_array(), function.__name__)(x)
    nothing = function(np.empty([0] * x.ndim, x.dtype))
    lazy = dask_array().asarray
    return tuple(map(lazy, nothing)) if isinstance(nothing, tuple) else lazy(nothing)


def take_along_axis(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Take elements along an axis, with indices for each row."""
    arguments = CallArguments(function, args, kwargs, "axis", lazy="arr indices")
    x, indices = (dask_array().asarray(arguments[name]) for name in ("arr", "indices"))
    axis = arguments["axis"]
    if axis is None:
        x, axis = flat(x), 0
    arguments.check_sizes(x, indices)
    function(sample(x), np.zeros((1,) * indices.ndim, indices.dtype), axis)
    axis = normalize_axis_index(axis, x.ndim)
    if any(n != m for at, (n, m) in enumerate(zip(x.shape, indices.shape, strict=True)) if at != axis):
        raise errors.Unsupported(
            f"{arguments.title} of a Dask array: give indices whose other axes have the lengths of the array"
        )
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
    """Take elements along an axis; the indices are not a Dask array."""
    arguments = CallArguments(function, args, kwargs, "indices axis")
    x, indices, axis = args[0], np.asarray(arguments["indices"]), arguments["axis"]
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_index(axis, x.ndim)
    dtype = np.asarray(function(sample(x), np.zeros(indices.shape, np.intp), axis)).dtype
    result = dask_array().take(x, indices.ravel(), axis=axis)
    if indices.ndim != 1:
        arguments.check_sizes(x)
        result = result.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return as_dtype(result, dtype)


def compress(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Select elements, or slices along an axis, by a condition."""
    arguments = CallArguments(function, args, kwargs, "axis", lazy="condition a")
    x = arguments["a"] if is_dask(arguments["a"]) else dask_array().asarray(arguments["a"])
    return as_dtype(dask_array().compress(arguments["condition"], x, axis=arguments["axis"]), x.dtype)


def unique(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute the sorted unique elements: of each block, then of all results together."""
    optional_outputs = (
        ("return_index", "return_inverse", "return_counts") if function.__name__ == "unique" else ()
    )
    arguments = CallArguments(function, args, kwargs, " ".join(optional_outputs))
    da, delayed, x = dask_array(), importlib.import_module("dask").delayed, args[0]
    row = flat(x)
    outputs = {name: True for name in optional_outputs if arguments[name] and name != "return_inverse"}
    merged = delayed(_combine_unique)(function, _parts(row, function, outputs), outputs)
    values = da.from_delayed(merged["values"], (np.nan,), x.dtype)
    results = [values]
    for name in optional_outputs:
        if name in outputs:
            results.append(da.from_delayed(merged[name], (np.nan,), np.intp))
        elif arguments[name]:
            inverse = row.map_blocks(
                _inverse_of_block, merged["values"], dtype=np.intp, meta=np.empty(0, np.intp)
            )
            results.append(inverse if x.ndim == 1 else inverse.reshape(x.shape))
    return values if len(results) == 1 else tuple(results)


def _inverse_of_block(block: Any, values: Any) -> Any:
    return np.searchsorted(values, block)


def _parts(row: Any, function: Function, outputs: Mapping[str, bool]) -> list[Any]:
    """Return the delayed unique elements of each block."""
    of_block = functools.partial(_unique_of_block, function=function, outputs=outputs)
    parts: list[Any] = row.map_blocks(of_block, dtype=object, meta=np.empty(0, object)).to_delayed().tolist()
    return parts


def _unique_of_block(block: Any, function: Function, outputs: Mapping[str, bool]) -> dict[str, Any]:
    """Compute the unique elements of a block, the optional outputs, and the length of the block."""
    result = function(block, **outputs)
    values = dict(zip(("values", *outputs), result if outputs else (result,), strict=True))
    return {**values, "length": len(block)}


def _combine_unique(function: Function, parts: Sequence[Any], outputs: Mapping[str, bool]) -> dict[str, Any]:
    """Merge the results of all blocks; the first index is that in the first block with the value."""
    values_of_blocks = np.concatenate([part["values"] for part in parts], dtype=parts[0]["values"].dtype)
    if not outputs:
        return {"values": function(values_of_blocks)}
    values, first, inverse = function(values_of_blocks, return_index=True, return_inverse=True)
    merged = {"values": values}
    if "return_index" in outputs:
        starts = np.cumsum([0, *(part["length"] for part in parts)])
        merged["return_index"] = np.concatenate(
            [part["return_index"] + start for part, start in zip(parts, starts, strict=False)]
        )[first]
    if "return_counts" in outputs:
        merged["return_counts"] = np.zeros(len(values), np.intp)
        np.add.at(merged["return_counts"], inverse, np.concatenate([part["return_counts"] for part in parts]))
    return merged


def set_operation(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Apply a set function to the unique elements of two arrays."""
    names = list(inspect.signature(function).parameters)[:2]
    arguments = CallArguments(function, args, kwargs, "", lazy=" ".join(names))
    arrays = [dask_array().asarray(arguments[name]) for name in names]
    delayed, unique_function = importlib.import_module("dask").delayed, public_api().unique
    sets = [
        delayed(_combine_unique)(unique_function, _parts(flat(each), unique_function, {}), {})["values"]
        for each in arrays
    ]
    dtype = function(*(np.ones(1, each.dtype) for each in arrays)).dtype
    return dask_array().from_delayed(delayed(function)(*sets), (np.nan,), dtype)


def join(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Join arrays along an existing or a new axis."""
    arguments = CallArguments(function, args, kwargs, lazy="arrays")
    arrays, axis, dtype = (
        list(map(dask_array().asarray, arguments["arrays"])),
        arguments["axis"],
        arguments["dtype"],
    )
    ones = [*map(sample, arrays)]
    function(ones, *args[1:], **kwargs)  # raises NumPy's errors
    if axis is None:
        arrays, axis = [flat(array) for array in arrays], 0
    other_lengths = {(*a.shape[:axis], *a.shape[axis:][1:]) for a in arrays if not math.isnan(a.size)}
    if arguments.title == "concatenate" and len(other_lengths) > 1:  # Dask ignores empty arrays
        raise errors.InvalidArgument(f"concatenate: lengths of other axes differ: {sorted(other_lengths)}")
    joined = getattr(dask_array(), function.__name__)(arrays, axis)
    return joined if dtype is None else joined.astype(dtype)
