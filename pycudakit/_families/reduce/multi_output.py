"""Several reductions of the same values in one pass.

Each function is prepared: it checks its arguments and returns the request of its reduction. Then the joint
pass runs, and each function is finished with its result, with NumPy's warnings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pycudakit._families.reduce import reduce_kernel
from pycudakit._families.reduce.reduce_kernel import PreparedReduce, ReduceKernel, ReduceRequest
from pycudakit._families.reduce.reduction import PendingReduction, ToPrepare
from pycudakit._native import abi
from pycudakit._native.dtypes import Array
from pycudakit._runtime.native_call import Pool


def reduce_multi_output(functions: Sequence[Callable[[Any], Any]], operand: Any) -> list[Any]:
    """Call functions that each reduce an operand, in one pass where possible.

    A function that fails up to its reduction, on an invalid axis, does so before any function warns. Later
    exceptions and warnings, such as those of a sum that overflows, come in the order of the functions.
    """
    if len(functions) == 1:
        return [functions[0](operand)]
    prepared = [function(ToPrepare(operand)) for function in functions]
    requests = [each.request for each in prepared if isinstance(each, PendingReduction)]
    if len(requests) < 2 or not can_share_a_pass(requests):
        return [function(operand) for function in functions]
    results = iter(_reduce(requests))
    return [
        each.finish(next(results)) if isinstance(each, PendingReduction) else function(operand)
        for each, function in zip(prepared, functions, strict=True)
    ]


def prepare_reductions(
    functions: Sequence[Callable[[Any], Any]], operand: Any
) -> list[PendingReduction] | None:
    """Prepare functions that reduce an operand; return None if they cannot share a pass."""
    prepared = [function(ToPrepare(operand)) for function in functions]
    if len(prepared) > abi.MAX_REDUCTIONS or not all(isinstance(each, PendingReduction) for each in prepared):
        return None
    return prepared if can_share_a_pass([each.request for each in prepared]) else None


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
