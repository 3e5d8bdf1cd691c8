"""The device fast path of reductions: dense device arrays, along one axis or all, in the arrays' stream."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.lib.array_utils import normalize_axis_index

from pycudakit._families.reduce.reduce_kernel import Lowering, PreparedReduce, ReduceKernel, reduce_kernel_for
from pycudakit._interop.cuda_libraries import ArraySignature, DeviceOperand, numpy_dtype
from pycudakit._native import abi
from pycudakit._native.dtypes import DType
from pycudakit._runtime.native_call import Pool


def reduction(name: str, lower: Lowering) -> Callable[..., Any]:
    """Make the device fast path of a reduction; it returns None if the arguments need the general path."""

    def call(a: Any = None, axis: Any = None, *rest: Any, **more: Any) -> Any:
        return None if rest or more else _call(name, lower, a, axis)

    return call


class _PreparedSignature(NamedTuple):
    """The prepared reduction for one call signature: result shape, result type, and pool."""

    shape: tuple[int, ...]
    dtype: DType
    pool: Pool[PreparedReduce]


def _prepared_signature(
    kernel: ReduceKernel, shape: tuple[int, ...], sizes: tuple[int, int, int]
) -> _PreparedSignature:
    pool = Pool(lambda: PreparedReduce(kernel.program, kernel.reducer).configure_on_device(sizes))
    return _PreparedSignature(shape, kernel.reducer.result, pool)


@functools.lru_cache(1024)
def _prepare_signature(
    name: str, lower: Lowering, fields: tuple[Any, ...], axis: int | None
) -> _PreparedSignature | None:
    """Prepare a reduction for an array signature; None if it needs the general path."""
    signature = ArraySignature(*fields)
    dtype, shape = numpy_dtype(signature.dtype), tuple(signature.shape)
    if dtype is None or signature.strides is not None or 0 in shape or (axis is not None and not shape):
        return None
    kernel = reduce_kernel_for(name, lower, (dtype,), False, None)
    if not all(op in (abi.OP_LOAD, abi.OP_STORE) for op in kernel.program.instructions["op"].tolist()):
        return None
    if axis is None:
        return _prepared_signature(kernel, (), (1, math.prod(shape), 1))
    axis_index = normalize_axis_index(axis, len(shape))
    sizes = math.prod(shape[:axis_index]), shape[axis_index], math.prod(shape[axis_index + 1 :])
    return _prepared_signature(kernel, (*shape[:axis_index], *shape[axis_index + 1 :]), sizes)


def _call(name: str, lower: Lowering, a: Any, axis: Any) -> Any:
    operand = DeviceOperand.of(a)
    if operand is None or not (axis is None or type(axis) is int):
        return None
    prepared = _prepare_signature(name, lower, operand.signature, axis)
    if prepared is None:
        return None
    result = operand.library.empty(prepared.shape, prepared.dtype, a)
    operand.run(name, prepared.pool, operand.address, operand.library.address_of(result))
    return result
