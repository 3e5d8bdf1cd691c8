"""Reductions of a dense array on a GPU, along one axis or all, where it lies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy.lib.array_utils import normalize_axis_index

from pycudakit import errors
from pycudakit._calls.queued import UNSEEN, Form, dtype_of, engine_here, library_of_type, plan_of
from pycudakit._families.reduce.recipe import Write, recipe_for
from pycudakit._library import abi


def reduction(name: str, write: Write) -> Callable[..., Any]:
    """Return what computes a function where an array lies; None where that takes more care."""

    def call(a: Any = None, axis: Any = None, **more: Any) -> Any:
        return None if more else _call(name, write, a, axis)

    return call


def _call(name: str, write: Write, a: Any, axis: Any) -> Any:
    library, engine = library_of_type(type(a)), engine_here()
    if library is None or engine is None or not (axis is None or type(axis) is int):
        return None
    try:
        seen = library.see(a)
    except UNSEEN:
        return None
    if seen is None:
        return None
    form, address, stream = Form(*seen[0]), seen[1], seen[2]
    dtype, shape = dtype_of(form), tuple(form.shape)
    if dtype is None or form.strides is not None or 0 in shape or (axis is not None and not shape):
        return None
    recipe = recipe_for(name, write, (dtype,), False, None)
    if not all(op in (abi.LOAD, abi.STORE) for op in recipe.program.instructions["op"].tolist()):
        return None
    kept: tuple[int, ...] = ()
    sizes = 1, math.prod(shape), 1
    if axis is not None:
        at = normalize_axis_index(axis, len(shape))
        kept = (*shape[:at], *shape[at + 1 :])
        sizes = math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])
    result = library.make(kept, recipe.folded.result, a)
    work = recipe.works.take()
    try:
        work.aim_there(address, library.address_of(result), sizes, stream)
        work.run_alone(plan_of(name, engine))
    except errors.OutOfMemory:  # the way that takes more care needs less on the GPU
        return None
    finally:
        work.restore()
        recipe.works.give_back(work)
    return result
