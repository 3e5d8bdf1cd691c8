"""The arguments of a call with Dask arrays: validation, and the function to apply to each block."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._dask.lazy_imports import dask_array
from pycudakit._interop.foreign_arrays import has_dask, is_dask

Function = Callable[..., Any]


def normalized(value: Any) -> Any:
    """Drop empty chunks; convert a list that contains Dask arrays to one array."""
    if not is_dask(value):
        return normalized(dask_array().asarray(value)) if has_dask(value) else value
    filled = {
        axis: tuple(n for n in cut if n) or (0,)
        for axis, cut in enumerate(value.chunks)
        if len(cut) > 1 and 0 in cut and not any(map(math.isnan, cut))
    }
    return value.rechunk(filled) if filled else value


def sample(x: Any) -> Any:
    """Return a sample of one element: calling a function with it gives the dtype, or NumPy's error."""
    return np.ones((1,) * x.ndim, x.dtype)


def skips_nan(function: Function, x: Any) -> bool:
    """Return True if a function ignores NaN and the array may contain it."""
    return function.__name__.startswith("nan") and bool(x.dtype.kind == "f")


def flat(x: Any) -> Any:
    """Flatten a Dask array; Dask's own `ravel` raises for empty arrays."""
    return dask_array().empty(0, dtype=x.dtype) if 0 in x.shape else x.ravel()


def as_dtype(array: Any, dtype: Any) -> Any:
    """Cast to a dtype; also restores a byte order that Dask may have lost."""
    if dtype.isnative:
        return array.astype(dtype)
    return array.map_blocks(np.asarray, dtype, dtype=dtype, meta=np.empty((0,) * array.ndim, dtype))


class BlockFunction:
    """A picklable function that computes a call for one block of each Dask array."""

    def __init__(self, function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._function, self._kwargs = function, dict(kwargs)
        self._args = [None if is_dask(value) else value for value in args]
        self._places = [position for position, value in enumerate(args) if is_dask(value)]
        self.__name__ = function.__name__

    def __call__(self, *blocks: Any, part: int | None = None) -> Any:
        """Compute one block."""
        args = list(self._args)
        for position, block in zip(self._places, blocks, strict=True):
            args[position] = block
        result = self._function(*args, **self._kwargs)
        return result if part is None else result[part]


class CallArguments:
    """The arguments of a call by parameter name, with defaults filled in.

    Parameters
    ----------
    function, args, kwargs
        The call, of a Dask array as the first argument.
    supported
        The names of the other parameters that are supported, or None for all. Others raise.
    lazy
        The names of the other parameters that may be Dask arrays.
    """

    def __init__(
        self,
        function: Function,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        supported: str | None = None,
        lazy: str = "",
    ) -> None:
        self.title = function.__name__
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs)
        first = next(iter(signature.parameters))
        accepted = signature.parameters if supported is None else (first, *supported.split(), *lazy.split())
        for name, value in bound.arguments.items():
            if is_dask(value) != (name == first) and name not in lazy.split():
                raise errors.Unsupported(
                    f"{self.title} of Dask arrays: {name} must be {'one' if name == first else 'known'}: "
                    ".compute() the others first"
                )
            default = signature.parameters[name].default
            if name not in accepted and (np.ndim(value) or value != default):
                raise errors.Unsupported(f"{self.title} of a Dask array does not take {name}=")
        bound.apply_defaults()
        self._values: dict[str, Any] = bound.arguments

    def __getitem__(self, name: str) -> Any:
        """Return the value of a parameter."""
        return self._values[name]

    @property
    def keepdims(self) -> bool:
        """Whether the reduced axes are kept; NumPy's placeholder default means False."""
        value = self["keepdims"]
        return value is not np._NoValue and bool(value)  # noqa: SLF001  (callers may pass it on)

    def check_sizes(self, *arrays: Any) -> None:
        """Raise for arrays of unknown size."""
        check_sizes(self.title, *arrays)


def check_sizes(title: str, *arrays: Any) -> None:
    """Raise for arrays of unknown size."""
    if any(math.isnan(n) for array in arrays for n in np.shape(array)):
        raise errors.Unsupported(
            f"{title} of a Dask array: its size is unknown: x.compute_chunk_sizes() first"
        )


def needs_whole_array(title: str, remedy: str = "") -> errors.Unsupported:
    """Return the error for a function that cannot be computed block by block."""
    remedy = remedy or f"use dask.array.map_blocks(pk.{title}, x) to compute each block separately"
    return errors.Unsupported(
        f"{title} of a Dask array needs all of it at once: .compute() it first, or {remedy}"
    )
