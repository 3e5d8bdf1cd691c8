"""Cached calls of small reductions: prepared requests that later calls with the same signature reuse."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pycudakit._families.reduce.reduce_kernel import (
    PreparedReduce,
    ReduceKernel,
    ReduceRequest,
    reduced_shape,
    set_initial_and_ddof,
)
from pycudakit._native.abi import address_of, address_of_dense
from pycudakit._native.dtypes import Array
from pycudakit._runtime.dispatch_cache import MAX_PREPARED_BYTES, CachedCall
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.native_call import Pool
from pycudakit._runtime.operands import locate_operand, placeholder_like

_all = np.logical_and.reduce  # `ndarray.all`, without its call in Python
# Elements up to which the engine choice does not depend on the shape.
MAX_ELEMENTS_OF_ANY_SHAPE = MAX_PREPARED_BYTES // 8
_PYTHON_SUM_MAX = 100  # numbers up to which Python's sum is faster than a NumPy reduction


def _is_finite(result: Array) -> bool:
    """Return True if all numbers are finite; may return False if their sum overflows."""
    if result.size <= _PYTHON_SUM_MAX:
        return math.isfinite(sum(result.ravel().tolist()))
    return bool(_all(np.isfinite(result), None))


def total_fast_path(
    kernel: ReduceKernel, choice: EngineChoice, arguments: tuple[Any, ...]
) -> CachedCall | None:
    """Make a cached call that reduces whole dense arrays, the first arguments, of any common shape."""
    count = 1 + max(o.position for o in kernel.program.operands if o.source == "input")
    if any(type(value) is np.ndarray for value in arguments[count:]):
        return None
    may_warn = kernel.reducer.result.kind == "f"
    pool: Pool[_PreparedTotal] = Pool(functools.partial(_PreparedTotal, kernel))

    def compute(arguments: tuple[Any, ...]) -> Any:
        work = pool.take()
        try:
            if not work.try_bind(arguments):
                return None
            fp_flags = work.run_on_cpu(choice)
            number = work.result[()]
        finally:
            pool.give_back(work)
        return None if fp_flags or (may_warn and not math.isfinite(number)) else number

    return CachedCall(compute, any_shape=True)


class _PreparedTotal(PreparedReduce):
    """A prepared reduction to one number, with a buffer for it."""

    def __init__(self, kernel: ReduceKernel) -> None:
        super().__init__(kernel.program, kernel.reducer)
        self.result = np.empty((), kernel.reducer.result)
        self.addresses[-1] = address_of(self.result)

    def try_bind(self, arguments: tuple[Any, ...]) -> bool:
        """Bind dense arrays of one shape; return False if they are not."""
        first = arguments[0]
        shape, size, addresses = first.shape, first.size, self.addresses
        if not size:
            return False
        for row, position in self.inputs:
            array = arguments[position]
            if not array.flags.c_contiguous or array.shape != shape:
                return False
            addresses[row] = address_of_dense(array)
        self.shape[0] = size
        return True


def fast_path_of(
    request: ReduceRequest, keepdims: bool, choice: EngineChoice, arguments: tuple[Any, ...]
) -> CachedCall | None:
    """Make a cached call that repeats a request on other arrays."""
    is_whole = (
        len(request.axes) == len(request.shape)
        and math.prod(request.shape) <= MAX_ELEMENTS_OF_ANY_SHAPE
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
        and all(locate_operand(v, arguments, i) == (i, 0) for i, v in enumerate(request.values))
    )
    return (
        total_fast_path(request.kernel, choice, arguments)
        if is_whole
        else _same_shape_fast_path(request, keepdims, choice, arguments)
    )


def _same_shape_fast_path(
    request: ReduceRequest, keepdims: bool, choice: EngineChoice, arguments: tuple[Any, ...]
) -> CachedCall | None:
    """Make a cached call for arrays of the same shapes and strides; None if an operand is a copy."""
    values = request.values
    kept_axes = len(reduced_shape(request.shape, request.axes, False))
    if kept_axes > 1 and any(type(v) is np.ndarray and not v.flags.c_contiguous for v in values):
        return None  # its result is not in C order
    request = request._replace(values=tuple(map(placeholder_like, values)))  # keep no arrays alive
    kernel = request.kernel
    dtype, may_warn = kernel.reducer.result, kernel.reducer.result.kind == "f"
    shape = reduced_shape(request.shape, request.axes, keepdims)
    pool: Pool[PreparedReduce] = Pool(functools.partial(_prepared_for, request))
    work = pool.take()
    sources = []  # of operands: the row in the table, the argument's index, and the offset in it
    for row, position in work.inputs:
        source = locate_operand(values[position], arguments, position)
        if source is None:
            return None
        sources.append((row, *source))
    if {index for _, index, _ in sources} != {i for i, v in enumerate(arguments) if type(v) is np.ndarray}:
        return None
    pool.give_back(work)

    def compute(arguments: tuple[Any, ...]) -> Any:
        result = np.empty(shape, dtype)
        work = pool.take()
        try:
            addresses = work.addresses
            for row, index, offset in sources:
                addresses[row] = address_of(arguments[index]) + offset
            addresses[-1] = address_of(result)
            fp_flags = work.run_on_cpu(choice)
        finally:
            pool.give_back(work)
        if shape:
            return None if fp_flags or (may_warn and not _is_finite(result)) else result
        number = result[()]
        return None if fp_flags or (may_warn and not math.isfinite(number)) else number

    return CachedCall(compute)


def _prepared_for(request: ReduceRequest) -> PreparedReduce:
    work = PreparedReduce(request.kernel.program, request.kernel.reducer)
    result = np.empty(reduced_shape(request.shape, request.axes, False), request.kernel.reducer.result)
    work.bind_broadcast(request.shape, request.axes, [result], *request.values)
    set_initial_and_ddof(work.reduction, request.initial, request.ddof)
    return work
