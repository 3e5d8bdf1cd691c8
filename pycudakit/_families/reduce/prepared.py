"""The short way of small reductions: what a call takes is kept, ready for other arrays of the same form."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pycudakit._families.reduce.reduce_kernel import Recipe, ReduceWork, Request, set_numbers, shape_without
from pycudakit._native.abi import address_of, address_of_dense
from pycudakit._native.dtypes import Array
from pycudakit._runtime.dispatch_cache import MOST, Way
from pycudakit._runtime.engine_choice import on_cpu
from pycudakit._runtime.native_call import Pool
from pycudakit._runtime.operands import outline_of, place_of

_all = np.logical_and.reduce  # `ndarray.all`, without its call in Python
MOST_OF_ANY = MOST // 8  # elements of arrays of any shape, for which the same engine is the quickest
_FEW = 100  # numbers of which Python's sum takes less time


def _is_finite(result: Array) -> bool:
    """Tell whether all numbers are finite; for some that are it may say no."""
    if result.size <= _FEW:
        return math.isfinite(sum(result.ravel().tolist()))
    return bool(_all(np.isfinite(result), None))


def whole(recipe: Recipe, name: str, arguments: tuple[Any, ...]) -> Way | None:
    """Return what reduces the whole of dense arrays, the first arguments, of any shape that they all have."""
    count = 1 + max(o.position for o in recipe.program.operands if o.source == "input")
    if any(type(value) is np.ndarray for value in arguments[count:]):
        return None
    plan, may_warn = on_cpu(name), recipe.folded.result.kind == "f"
    pool: Pool[_Whole] = Pool(functools.partial(_Whole, recipe))

    def compute(arguments: tuple[Any, ...]) -> Any:
        work = pool.take()
        try:
            if not work.aim_at(arguments):
                return None
            met = work.run_short(plan)
            number = work.result[()]
        finally:
            pool.give_back(work)
        return None if met or (may_warn and not math.isfinite(number)) else number

    return Way(compute, of_any_shape=True)


class _Whole(ReduceWork):
    """What reduces to one number, which it keeps."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe.program, recipe.folded)
        self.result = np.empty((), recipe.folded.result)
        self.addresses[-1] = address_of(self.result)

    def aim_at(self, arguments: tuple[Any, ...]) -> bool:
        """Take dense arrays of one shape, or tell that they are none, or too large to be few."""
        first = arguments[0]
        shape, size, addresses = first.shape, first.size, self.addresses
        if not 0 < size <= MOST_OF_ANY:
            return False
        for row, position in self.inputs:
            array = arguments[position]
            if not array.flags.c_contiguous or array.shape != shape:
                return False
            addresses[row] = address_of_dense(array)
        self.shape[0] = size
        return True


def way_of(request: Request, keepdims: bool, name: str, arguments: tuple[Any, ...]) -> Way | None:
    """Return what reduces other arrays as those of a request."""
    is_whole = (
        len(request.axes) == len(request.shape)
        and math.prod(request.shape) <= MOST_OF_ANY
        and not keepdims
        and request.initial is None
        and request.ddof == 0
        and len(request.values) <= len(arguments)
        and all(
            type(a) is np.ndarray
            and v.flags.c_contiguous
            and v.dtype.isnative
            and v.shape == a.shape == request.shape
            for v, a in zip(request.values, arguments, strict=False)
        )
        and all(place_of(v, arguments, i) == (i, 0) for i, v in enumerate(request.values))
    )
    return (
        whole(request.recipe, name, arguments) if is_whole else _of_shape(request, keepdims, name, arguments)
    )


def _of_shape(request: Request, keepdims: bool, name: str, arguments: tuple[Any, ...]) -> Way | None:
    """Return what reduces other arrays of the same shapes and strides, unless an operand is a copy."""
    values = request.values
    kept_axes = len(shape_without(request.shape, request.axes, False))
    if kept_axes > 1 and any(type(v) is np.ndarray and not v.flags.c_contiguous for v in values):
        return None  # its result does not lie in C order
    request = request._replace(values=tuple(map(outline_of, values)))  # so that no arrays are kept
    recipe, plan = request.recipe, on_cpu(name)
    dtype, may_warn = recipe.folded.result, recipe.folded.result.kind == "f"
    shape = shape_without(request.shape, request.axes, keepdims)
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
            met = work.run_short(plan)
        finally:
            pool.give_back(work)
        if shape:
            return None if met or (may_warn and not _is_finite(result)) else result
        number = result[()]
        return None if met or (may_warn and not math.isfinite(number)) else number

    return Way(compute)


def _aimed(request: Request) -> ReduceWork:
    work = ReduceWork(request.recipe.program, request.recipe.folded)
    result = np.empty(shape_without(request.shape, request.axes, False), request.recipe.folded.result)
    work.spread(request.shape, request.axes, [result], *request.values)
    set_numbers(work.reduction, request.initial, request.ddof)
    return work
