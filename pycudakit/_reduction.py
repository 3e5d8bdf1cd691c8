"""One call of a reduction: its operands, its engine, its result."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit import _call, _execute, _family, _reduce
from pycudakit._arguments import as_mask, broadcast_shapes
from pycudakit._folds import INFINITIES, NANS
from pycudakit._reduce import Recipe
from pycudakit._values import CODES, Array, DType

NONE: Any = np._NoValue  # type: ignore[attr-defined]  # noqa: SLF001



class Reduction:
    """One call of a function: its operands, and what it is asked to do with them.

    Parameters
    ----------
    name, write
        NumPy's name, and how its programs are written.
    numpy
        Computes the call with NumPy.
    values
        The arguments.
    axis, keepdims, where
        As for NumPy.
    dtype, out
        As for NumPy; `out` has the type of the computation if there is no `dtype` and it `decides`.
    foreign
        Why the call is NumPy's alone, if it is.
    """

    def __init__(
        self,
        name: str,
        write: _reduce.Write,
        numpy: Callable[[], Any],
        values: Sequence[Any],
        axis: Any = None,
        *,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        where: Any = True,
        decides: bool = True,
        foreign: str | None = None,
    ) -> None:
        self.name, self.numpy = name, numpy
        self.keepdims = bool(keepdims)
        arrays = [_family.as_array(value) for value in values]
        mask = as_mask(where)
        if isinstance(out, tuple) and len(out) == 1:
            out = out[0]
        if out is not None and not isinstance(out, np.ndarray):
            raise TypeError("return arrays must be of ArrayType")
        self.out = out
        asked = None if dtype is None else np.dtype(dtype)
        if asked is None and out is not None and decides:
            asked = out.dtype
        if asked is not None:
            asked = asked.newbyteorder("=")
            if asked not in CODES:
                foreign = foreign or f"a result of {asked}"
        if out is not None and _family.as_array(out) is None:
            foreign = foreign or "such an out"
        known = [array for array in arrays if array is not None]
        self.is_empty = foreign is None and len(known) == len(arrays) and not all(a.size for a in known)
        self.arrays = known if mask is None else [*known, mask]
        self.recipe: Recipe | None = None
        cost = _family.Cost(None, 0, 0, 0)
        if foreign is None and len(known) == len(arrays):
            types = tuple(a.dtype.newbyteorder("=") for a in known)
            self.recipe = _reduce.recipe(name, write, types, mask is not None, asked)
            self.shape = broadcast_shapes(*(a.shape for a in self.arrays))
            self.axes = _reduce.axes_of(axis, len(self.shape))
            self.is_empty = 0 in self.shape
            up = sum(a.nbytes for a in self.arrays)
            cost = _reduce.cost_of(self.recipe, math.prod(self.shape), up, 0)
        self.plan = _family.plan(name, arrays, cost, foreign)

    @property
    def is_numpys(self) -> bool:
        """Whether NumPy computes it; also where there is nothing to compute."""
        return self.plan.engine == "numpy" or self.is_empty or self.recipe is None

    def by_numpy(self) -> Any:
        """Compute with NumPy."""
        reason = self.plan.reason if self.plan.engine == "numpy" else "there are no elements to compute with"
        return _call.by_numpy(self.name, reason, self.numpy)

    def reduce(self, write: _reduce.Write | None = None, **numbers: Any) -> Array:
        """Return the result, without the axes; of another function of the same operands if that is given."""
        recipe = self.recipe
        assert recipe is not None
        if write is not None:
            types = tuple(a.dtype.newbyteorder("=") for a in self.arrays)
            recipe = _reduce.recipe(self.name, write, types[:1], len(types) > 1, None)
        return _reduce.reduce(recipe, self.plan, self.arrays, self.axes, **numbers)

    def finish(self, result: Array, casting: Any = "same_kind") -> Any:
        """Return a result as NumPy would, or put it into `out`."""
        shape = _reduce.shape_without(self.shape, self.axes, self.keepdims)
        result = result.reshape(shape)
        if self.out is None:
            return result[()] if result.ndim == 0 else result
        if self.out.shape != shape:
            raise ValueError(
                f"output parameter for reduction operation {self.name} has the wrong shape: it is "
                f"{self.out.shape}, and the result {shape}"
            )
        np.copyto(self.out, result, casting=casting)
        return self.out

    def warn(self, result: Array, of: str = "reduce") -> None:
        """Warn as NumPy does where numbers have become infinite, or finite ones and infinities NaN."""
        if result.dtype.kind != "f" or np.isfinite(result).all():
            return
        before = _call.local.call
        if np.isnan(result).any() and (np.isnan(result) & (self.reduce(NANS) == 0)).any():
            _execute.report("invalid", of)
        if np.isinf(result).any() and (np.isinf(result) & (self.reduce(INFINITIES) == 0)).any():
            _execute.report("over", of)
        _call.local.call = before


def given(value: Any, usual: Any) -> Any:
    """Return an argument, or what it is if it was not given."""
    return usual if value is NONE else value


def keywords(**given: Any) -> dict[str, Any]:
    """Return the keywords that were given, for NumPy."""
    return {name: value for name, value in given.items() if value is not NONE}


@functools.lru_cache(512)
def _whole(name: str, write: _reduce.Write, dtype: DType) -> Recipe:
    return _reduce.recipe(name, write, (dtype,), False, None)


def plainly(name: str, write: _reduce.Write, a: Any) -> Any:
    """Reduce the whole of an ordinary array, or return None where that is not so short."""
    if type(a) is not np.ndarray or a.dtype not in CODES or not a.size or not a.flags.c_contiguous:
        return None
    result = _reduce.whole(_whole(name, write, a.dtype), a)
    if result is not None and isinstance(result, np.floating) and not math.isfinite(result):
        return None  # there may be something to warn of
    return result


