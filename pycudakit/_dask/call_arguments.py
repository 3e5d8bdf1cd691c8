"""A call with Dask arrays: its arguments by their parameters, and as it is made of blocks."""

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
    """Return a Dask array without blocks of nothing beside others, and one of a list that has some."""
    if not is_dask(value):
        return normalized(dask_array().asarray(value)) if has_dask(value) else value
    filled = {
        axis: tuple(n for n in cut if n) or (0,)
        for axis, cut in enumerate(value.chunks)
        if len(cut) > 1 and 0 in cut and not any(map(math.isnan, cut))
    }
    return value.rechunk(filled) if filled else value


def sample(x: Any) -> Any:
    """Return an element that stands for all: what a function makes of it tells types, and what it refuses."""
    return np.ones((1,) * x.ndim, x.dtype)


def skips_nan(function: Function, x: Any) -> bool:
    """Tell whether a function passes over NaN in an array, which integers have not."""
    return function.__name__.startswith("nan") and bool(x.dtype.kind == "f")


def flat(x: Any) -> Any:
    """Return the elements of a Dask array in a row, which its own `ravel` refuses of nothing."""
    return dask_array().empty(0, dtype=x.dtype) if 0 in x.shape else x.ravel()


def as_dtype(array: Any, dtype: Any) -> Any:
    """Return an array of a type, whose order of bytes what Dask moves may have lost."""
    if dtype.isnative:
        return array.astype(dtype)
    return array.map_blocks(np.asarray, dtype, dtype=dtype, meta=np.empty((0,) * array.ndim, dtype))


class BlockFunction:
    """A call whose Dask arrays are given block by block; it pickles, as functions of the kit do."""

    def __init__(self, function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._function, self._kwargs = function, dict(kwargs)
        self._args = [None if is_dask(value) else value for value in args]
        self._places = [position for position, value in enumerate(args) if is_dask(value)]
        self.__name__ = function.__name__

    def __call__(self, *blocks: Any, part: int | None = None) -> Any:
        """Compute a block."""
        args = list(self._args)
        for position, block in zip(self._places, blocks, strict=True):
            args[position] = block
        result = self._function(*args, **self._kwargs)
        return result if part is None else result[part]


class CallArguments:
    """A call's arguments by their parameters; those that are left out have their defaults.

    Parameters
    ----------
    function, args, kwargs
        The call, of a Dask array as the first argument.
    heeded
        The parameters that are heeded beside that, or None for all. Others are refused.
    lazy
        Those that Dask arrays may be given for, too.
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
        given = signature.bind(*args, **kwargs)
        first = next(iter(signature.parameters))
        accepted = signature.parameters if supported is None else (first, *supported.split(), *lazy.split())
        for name, value in given.arguments.items():
            if is_dask(value) != (name == first) and name not in lazy.split():
                raise errors.Unsupported(
                    f"{self.title} of Dask arrays: {name} must be {'one' if name == first else 'known'}: "
                    ".compute() the others first"
                )
            default = signature.parameters[name].default
            if name not in accepted and (np.ndim(value) or value != default):
                raise errors.Unsupported(f"{self.title} of a Dask array does not take {name}=")
        given.apply_defaults()
        self._values: dict[str, Any] = given.arguments

    def __getitem__(self, name: str) -> Any:
        """Return what is given for a parameter."""
        return self._values[name]

    @property
    def keepdims(self) -> bool:
        """Whether axes are kept; NumPy's own default says that they are not."""
        given = self["keepdims"]
        return given is not np._NoValue and bool(given)  # noqa: SLF001  (which others hand on)

    def check_sizes(self, *arrays: Any) -> None:
        """Refuse arrays of unknown sizes."""
        check_sizes(self.title, *arrays)


def check_sizes(title: str, *arrays: Any) -> None:
    """Refuse arrays of unknown sizes."""
    if any(math.isnan(n) for array in arrays for n in np.shape(array)):
        raise errors.Unsupported(
            f"{title} of a Dask array: its size is unknown: x.compute_chunk_sizes() first"
        )


def needs_whole_array(title: str, remedy: str = "") -> errors.Unsupported:
    """Return the error of a function that cannot be computed block by block."""
    remedy = remedy or f"have dask.array.map_blocks(pk.{title}, x) for each block by itself"
    return errors.Unsupported(
        f"{title} of a Dask array needs all of it at once: .compute() it first, or {remedy}"
    )
