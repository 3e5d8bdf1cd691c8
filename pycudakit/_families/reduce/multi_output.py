"""Several reductions of the same values, in one pass."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pycudakit._families.reduce import reduce_kernel
from pycudakit._families.reduce.reduce_kernel import Recipe, ReduceWork, Request
from pycudakit._native import abi
from pycudakit._native.dtypes import Array
from pycudakit._runtime.native_call import Pool


class _NotYetError(Exception):
    """Ends a function at its reduction, whose result is not there yet."""


class _Together:
    """Functions that each reduce something, first as far as that, and then from its result on."""

    def __init__(self) -> None:
        self.request: Request | None = None  # of the function that is called
        self.result: Array | None = None
        self._is_asking = False

    def ask(self, call: Callable[[], Any]) -> Any:
        """Return a function's request, or its result if it makes none."""
        self.request, self._is_asking = None, True
        try:
            return call()
        except _NotYetError:
            return self.request
        finally:
            self._is_asking = False

    def answer(self, call: Callable[[], Any], result: Array) -> Any:
        """Return what a function makes of the result of its reduction."""
        self.result = result
        return call()

    def result_of(self, request: Request) -> Array:
        """Stand in for a reduction."""
        if self._is_asking:
            self.request = request
            raise _NotYetError
        if self.result is not None:
            result, self.result = self.result, None
            return result
        return reduce_kernel.run([request], request.recipe.works)[0]  # a further one, such as a count of NaN


def reduce_together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return the results of functions that each reduce the same values; in one pass, where they can be.

    Their exceptions and warnings come in their order.
    """
    outer = reduce_kernel.exchange(together := _Together())
    try:
        asked = [together.ask(call) for call in calls]
        requests = [request for request in asked if isinstance(request, Request)]
        if len(requests) < 2 or not go_together(requests):
            reduce_kernel.exchange(None)
            return [call() if isinstance(a, Request) else a for a, call in zip(asked, calls, strict=True)]
        found = iter(_reduce(requests))
        return [
            together.answer(call, next(found)) if isinstance(a, Request) else a
            for a, call in zip(asked, calls, strict=True)
        ]
    finally:
        reduce_kernel.exchange(outer)


def requests_of(calls: Sequence[Callable[[], Any]]) -> list[Request] | None:
    """Return what functions ask for that each reduce the same values; None if that is not one pass."""
    outer = reduce_kernel.exchange(together := _Together())
    try:
        asked = [together.ask(call) for call in calls]
    finally:
        reduce_kernel.exchange(outer)
    are_requests = len(asked) <= abi.MAX_REDUCTIONS and all(isinstance(each, Request) for each in asked)
    return asked if are_requests and go_together(asked) else None


def answers_to(calls: Sequence[Callable[[], Any]], results: Sequence[Array]) -> list[Any]:
    """Return what functions make of the results of the reductions that they ask for."""
    outer = reduce_kernel.exchange(together := _Together())
    try:
        return [together.answer(call, result) for call, result in zip(calls, results, strict=True)]
    finally:
        reduce_kernel.exchange(outer)


def _reduce(requests: Sequence[Request]) -> list[Array]:
    results: list[Array] = []
    for first in range(0, len(requests), abi.MAX_REDUCTIONS):
        some = requests[first : first + abi.MAX_REDUCTIONS]
        some = under_one_name(some)
        results += reduce_kernel.run(some, works_of_requests(some))
    return results


def under_one_name(requests: Sequence[Request]) -> list[Request]:
    """Return the same, with all functions' names in the plan of each."""
    name = ", ".join(request.plan.function for request in requests)
    return [request._replace(plan=replace(request.plan, function=name)) for request in requests]


def works_of_requests(requests: Sequence[Request]) -> Pool[ReduceWork]:
    """Return what is prepared for such requests in one pass."""
    return _works(tuple([request.recipe for request in requests]))


@functools.lru_cache(256)
def _works(recipes: tuple[Recipe, ...]) -> Pool[ReduceWork]:
    folded = [each.folded for each in recipes]
    return Pool(functools.partial(ReduceWork, recipes[0].program, *folded))


def go_together(requests: Sequence[Request]) -> bool:
    """Tell whether requests reduce the same values."""
    return all(_is_of_same(requests[0], request) for request in requests[1:])


def _is_of_same(one: Request, other: Request) -> bool:
    same_arrays = len(one.values) == len(other.values) and all(
        a is b for a, b in zip(one.values, other.values, strict=True)
    )
    return (
        same_arrays
        and (one.shape, one.axes, one.plan.engine) == (other.shape, other.axes, other.plan.engine)
        and _same_program(one.recipe, other.recipe)
    )


@functools.lru_cache(1024)
def _same_program(one: Recipe, other: Recipe) -> bool:
    a, b = one.program, other.program
    if a.instructions.tobytes() != b.instructions.tobytes() or len(a.operands) != len(b.operands):
        return False
    return all(
        (x.source, x.position, x.dtype) == (y.source, y.position, y.dtype)
        and (None if x.constant is None else x.constant.tobytes())
        == (None if y.constant is None else y.constant.tobytes())
        for x, y in zip(a.operands, b.operands, strict=True)
    )
