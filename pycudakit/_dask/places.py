"""Functions of Dask arrays whose elements are looked up, moved, or left out, which no arithmetic decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit import errors
from pycudakit._calls.others import is_dask
from pycudakit._dask.asked import Asked, Function, OfBlocks
from pycudakit._dask.modules import dask_array


def looked_up(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return where each element is found in what is known."""
    place = 1 if function.__name__ == "searchsorted" else 0
    if [at for at, value in enumerate(args) if is_dask(value)] != [place]:
        raise errors.Unsupported(
            f"{function.__name__} of Dask arrays: one may be looked up, and the others must be known: "
            ".compute() them first"
        )
    x, compute = args[place], OfBlocks(function, args, kwargs)
    dtype = compute(np.ones((1,) * x.ndim, x.dtype)).dtype
    return x.map_blocks(compute, dtype=dtype, meta=np.empty((0,) * x.ndim, dtype))


def moved(heeded: str) -> Function:
    """Return the kind of a function that is Dask's own, as bits stay as they are; what it heeds."""

    def kind(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        Asked(function, args, kwargs, heeded)
        return getattr(dask_array(), function.__name__)(*args, **kwargs)

    return kind


def take(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the elements at places that are known."""
    asked = Asked(function, args, kwargs, "indices axis")
    x, places, axis = args[0], np.asarray(asked["indices"]), asked["axis"]
    if axis is None:
        x, axis = x.ravel(), 0
    axis = normalize_axis_index(axis, x.ndim)
    found = dask_array().take(x, places.ravel(), axis=axis)
    if places.ndim == 1:
        return found
    asked.check_sizes(x)
    return found.reshape(*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])


def compress(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the elements, or lines, that a condition keeps."""
    asked = Asked(function, args, kwargs, "axis", lazy="condition a")
    x = asked["a"] if is_dask(asked["a"]) else dask_array().asarray(asked["a"])
    return dask_array().compress(asked["condition"], x, axis=asked["axis"])


def unique(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the elements that differ from each other, in order: those of blocks, and of all of these."""
    counts = "return_index return_inverse return_counts" if function.__name__ == "unique" else ""
    Asked(function, args, kwargs, counts)
    if args[0].ndim != 1:
        raise errors.Unsupported(f"{function.__name__} of a Dask array: of one dimension: x.ravel() first")
    return dask_array().unique(*args, **kwargs)
