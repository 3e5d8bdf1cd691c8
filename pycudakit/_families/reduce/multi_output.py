"""Several reductions of the same values in one pass.

Each function runs twice. The first run ends at the function's reduction, whose request is captured. The
second run gets the result of the joint pass in place of the reduction. So up to its reduction a function may
only check arguments: a warning there would be given twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pycudakit._families.reduce import reduce_kernel
from pycudakit._families.reduce.reduce_kernel import PreparedReduce, ReduceKernel, ReduceRequest
from pycudakit._native import abi
from pycudakit._native.dtypes import Array
from pycudakit._runtime.native_call import Pool


class _ReductionReachedError(Exception):
    """Ends a captured function at its reduction, whose result is not available yet."""


class _ReductionInterceptor:
    """Captures the reduction request of a function, and later runs the function with the result."""

    def __init__(self) -> None:
        self.request: ReduceRequest | None = None  # of the function that is running
        self.result: Array | None = None
        self._is_capturing = False

    def capture(self, call: Callable[[], Any]) -> Any:
        """Run a function up to its reduction and return the request, or its result if it makes none."""
        self.request, self._is_capturing = None, True
        try:
            return call()
        except _ReductionReachedError:
            return self.request
        finally:
            self._is_capturing = False

    def resume(self, call: Callable[[], Any], result: Array) -> Any:
        """Run a function with the result of its reduction, and return the function's result."""
        self.result = result
        return call()

    def intercept(self, request: ReduceRequest) -> Array:
        """Replace a reduction: capture its request, or return its result."""
        if self._is_capturing:
            self.request = request
            raise _ReductionReachedError
        if self.result is not None:
            result, self.result = self.result, None
            return result
        # A later reduction of the same function, such as a count of NaN.
        return reduce_kernel.run([request], request.kernel.pool)[0]


def reduce_multi_output(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call functions that each reduce the same values, in one pass where possible.

    A function that fails up to its reduction, on an invalid axis, does so before any function warns. Later
    exceptions and warnings, such as those of a sum that overflows, come in the order of the functions.
    """
    outer = reduce_kernel.swap_interceptor(None)
    try:
        if len(calls) == 1:
            return [calls[0]()]
        reduce_kernel.swap_interceptor(interceptor := _ReductionInterceptor())
        requests_or_results = [interceptor.capture(call) for call in calls]
        requests = [request for request in requests_or_results if isinstance(request, ReduceRequest)]
        if len(requests) < 2 or not can_share_a_pass(requests):
            reduce_kernel.swap_interceptor(None)
            return [
                call() if isinstance(each, ReduceRequest) else each
                for each, call in zip(requests_or_results, calls, strict=True)
            ]
        remaining = iter(_reduce(requests))
        return [
            interceptor.resume(call, next(remaining)) if isinstance(each, ReduceRequest) else each
            for each, call in zip(requests_or_results, calls, strict=True)
        ]
    finally:
        reduce_kernel.swap_interceptor(outer)


def capture_requests(calls: Sequence[Callable[[], Any]]) -> list[ReduceRequest] | None:
    """Return the requests of functions that reduce the same values; None if they cannot share a pass."""
    outer = reduce_kernel.swap_interceptor(interceptor := _ReductionInterceptor())
    try:
        requests = [interceptor.capture(call) for call in calls]
    finally:
        reduce_kernel.swap_interceptor(outer)
    are_requests = len(requests) <= abi.MAX_REDUCTIONS and all(
        isinstance(request, ReduceRequest) for request in requests
    )
    return requests if are_requests and can_share_a_pass(requests) else None


def resume_with_results(calls: Sequence[Callable[[], Any]], results: Sequence[Array]) -> list[Any]:
    """Call functions with the results of their reductions."""
    outer = reduce_kernel.swap_interceptor(interceptor := _ReductionInterceptor())
    try:
        return [interceptor.resume(call, result) for call, result in zip(calls, results, strict=True)]
    finally:
        reduce_kernel.swap_interceptor(outer)


def _reduce(requests: Sequence[ReduceRequest]) -> list[Array]:
    results: list[Array] = []
    for first in range(0, len(requests), abi.MAX_REDUCTIONS):
        batch = with_joint_name(requests[first : first + abi.MAX_REDUCTIONS])
        results += reduce_kernel.run(batch, multi_output_pool(batch))
    return results


def with_joint_name(requests: Sequence[ReduceRequest]) -> list[ReduceRequest]:
    """Return the requests with the names of all functions in the engine choice of each."""
    name = ", ".join(request.choice.function for request in requests)
    return [request._replace(choice=replace(request.choice, function=name)) for request in requests]


def multi_output_pool(requests: Sequence[ReduceRequest]) -> Pool[PreparedReduce]:
    """Return the pool of prepared calls that compute these requests in one pass."""
    return _pool_of_kernels(tuple([request.kernel for request in requests]))


@functools.lru_cache(256)
def _pool_of_kernels(kernels: tuple[ReduceKernel, ...]) -> Pool[PreparedReduce]:
    reducers = [kernel.reducer for kernel in kernels]
    return Pool(functools.partial(PreparedReduce, kernels[0].program, *reducers))


def can_share_a_pass(requests: Sequence[ReduceRequest]) -> bool:
    """Return True if all requests reduce the same program of the same arrays along the same axes."""
    return all(_has_same_operands(requests[0], request) for request in requests[1:])


def _has_same_operands(one: ReduceRequest, other: ReduceRequest) -> bool:
    same_arrays = len(one.values) == len(other.values) and all(
        a is b for a, b in zip(one.values, other.values, strict=True)
    )
    return (
        same_arrays
        and (one.shape, one.axes, one.choice.engine) == (other.shape, other.axes, other.choice.engine)
        and _same_program(one.kernel, other.kernel)
    )


@functools.lru_cache(1024)
def _same_program(one: ReduceKernel, other: ReduceKernel) -> bool:
    a, b = one.program, other.program
    if a.instructions.tobytes() != b.instructions.tobytes() or len(a.operands) != len(b.operands):
        return False
    return all(
        (x.source, x.position, x.dtype) == (y.source, y.position, y.dtype)
        and (None if x.constant is None else x.constant.tobytes())
        == (None if y.constant is None else y.constant.tobytes())
        for x, y in zip(a.operands, b.operands, strict=True)
    )
