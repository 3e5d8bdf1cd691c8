"""Reductions of a dense array on a GPU, along one axis or all, where it lies."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.lib.array_utils import normalize_axis_index

from pycudakit import errors
from pycudakit._families.reduce.reduce_kernel import Recipe, ReduceWork, Write, recipe_for
from pycudakit._interop.cuda_libraries import UNSEEN, Form, dtype_of, engine_here, library_of_type, plan_of
from pycudakit._native import abi
from pycudakit._native.dtypes import DType
from pycudakit._runtime.native_call import Pool


def reduction(name: str, write: Write) -> Callable[..., Any]:
    """Return what computes a function where an array lies; None where that takes more care."""

    def call(a: Any = None, axis: Any = None, *rest: Any, **more: Any) -> Any:
        return None if rest or more else _call(name, write, a, axis)

    return call


class _Known(NamedTuple):
    """What is known of calls of one form."""

    shape: tuple[int, ...]
    dtype: DType
    pool: Pool[ReduceWork]


def _known_of(recipe: Recipe, shape: tuple[int, ...], sizes: tuple[int, int, int]) -> _Known:
    pool = Pool(lambda: ReduceWork(recipe.program, recipe.folded).lie_there(sizes))
    return _Known(shape, recipe.folded.result, pool)


@functools.lru_cache(1024)
def _known(name: str, write: Write, fields: tuple[Any, ...], axis: int | None) -> _Known | None:
    """Return how arrays of a form are reduced; None where that takes more care."""
    form = Form(*fields)
    dtype, shape = dtype_of(form.dtype), tuple(form.shape)
    if dtype is None or form.strides is not None or 0 in shape or (axis is not None and not shape):
        return None
    recipe = recipe_for(name, write, (dtype,), False, None)
    if not all(op in (abi.LOAD, abi.STORE) for op in recipe.program.instructions["op"].tolist()):
        return None
    if axis is None:
        return _known_of(recipe, (), (1, math.prod(shape), 1))
    at = normalize_axis_index(axis, len(shape))
    sizes = math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])
    return _known_of(recipe, (*shape[:at], *shape[at + 1 :]), sizes)


def _call(name: str, write: Write, a: Any, axis: Any) -> Any:
    library, engine = library_of_type(type(a)), engine_here()
    if library is None or engine is None or not (axis is None or type(axis) is int):
        return None
    try:
        seen = library.see(a)
    except UNSEEN:
        return None
    known = None if seen is None else _known(name, write, seen[0], axis)
    if seen is None or known is None:
        return None
    result = library.make(known.shape, known.dtype, a)
    work = known.pool.take()
    try:
        work.aim_there(seen[1], library.address_of(result))
        work.run_there(plan_of(name, engine), seen[2])
    except errors.OutOfMemory:  # the way that takes more care needs less on the GPU
        return None
    finally:
        known.pool.give_back(work)
    return result
