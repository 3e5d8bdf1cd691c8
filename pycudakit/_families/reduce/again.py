"""The short way of small reductions: what a call takes is kept, ready for other arrays of the same form."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pycudakit._calls.invocation import Pool
from pycudakit._calls.operands import outline_of, place_of
from pycudakit._calls.plan import on_cpu
from pycudakit._calls.small import MOST, Way
from pycudakit._families.reduce.recipe import Recipe, ReduceWork, Request, set_numbers, shape_without
from pycudakit._library.abi import address_of

_all = np.logical_and.reduce  # `ndarray.all`, without its call in Python


def whole(recipe: Recipe, name: str, arguments: tuple[Any, ...]) -> Way | None:
    """Return what reduces the whole of a dense array, the first argument, of any shape."""
    if any(type(value) is np.ndarray for value in arguments[1:]):
        return None
    plan, dtype, may_warn = on_cpu(name), recipe.folded.result, recipe.folded.result.kind == "f"

    def compute(arguments: tuple[Any, ...]) -> Any:
        array = arguments[0]
        if not 0 < array.nbytes <= MOST or not array.flags.c_contiguous:
            return None
        result = np.empty((), dtype)
        work = recipe.works.take()
        try:
            work.aim(result, array)
            met = work.run(plan, array.size)
        finally:
            recipe.works.give_back(work)
        number = result[()]
        return None if met or (may_warn and not math.isfinite(number)) else number

    return compute


def of_shape(request: Request, keepdims: bool, name: str, arguments: tuple[Any, ...]) -> Way | None:
    """Return what reduces other arrays of the same shapes and strides, unless an operand is a copy."""
    values = request.values
    kept_axes = len(shape_without(request.shape, request.axes, False))
    if kept_axes > 1 and any(type(v) is np.ndarray and not v.flags.c_contiguous for v in values):
        return None  # its result does not lie in C order
    request = request._replace(values=tuple(map(outline_of, values)))  # so that no arrays are kept
    recipe, plan = request.recipe, on_cpu(name)
    dtype, may_warn = recipe.folded.result, recipe.folded.result.kind == "f"
    shape = shape_without(request.shape, request.axes, keepdims)
    size = math.prod(request.shape)
    pool: Pool[ReduceWork] = Pool(functools.partial(_aimed, request))
    work = pool.take()
    sources = []  # of operands: their row in the table, their argument, and where in it they begin
    for row, position in work.inputs:
        found = place_of(values[position], arguments, position)
        if found is None:
            return None
        sources.append((row, *found))
    if {place for _, place, _ in sources} != {i for i, v in enumerate(arguments) if type(v) is np.ndarray}:
        return None
    pool.give_back(work)

    def compute(arguments: tuple[Any, ...]) -> Any:
        result = np.empty(shape, dtype)
        work = pool.take()
        try:
            addresses = work.addresses
            for row, place, offset in sources:
                addresses[row] = address_of(arguments[place]) + offset
            addresses[-1] = address_of(result)
            met = work.run(plan, size)
        finally:
            pool.give_back(work)
        if shape:
            return None if met or (may_warn and not _all(np.isfinite(result), None)) else result
        number = result[()]
        return None if met or (may_warn and not math.isfinite(number)) else number

    return compute


def _aimed(request: Request) -> ReduceWork:
    work = ReduceWork(request.recipe.program, request.recipe.folded)
    result = np.empty(shape_without(request.shape, request.axes, False), request.recipe.folded.result)
    work.spread(request.shape, request.axes, [result], *request.values)
    set_numbers(work.reduction, request.initial, request.ddof)
    return work
