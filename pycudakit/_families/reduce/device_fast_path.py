"""Reductions of a dense array on a GPU, along one axis or all, where it lies."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.lib.array_utils import normalize_axis_index

from pycudakit import errors
from pycudakit._families.reduce.reduce_kernel import Lowering, PreparedReduce, ReduceKernel, reduce_kernel_for
from pycudakit._interop.cuda_libraries import (
    INSPECT_ERRORS,
    ArraySignature,
    device_choice,
    device_engine,
    library_of_type,
    numpy_dtype,
)
from pycudakit._native import abi
from pycudakit._native.dtypes import DType
from pycudakit._runtime.native_call import Pool


def reduction(name: str, lower: Lowering) -> Callable[..., Any]:
    """Return what computes a function where an array lies; None where that takes more care."""

    def call(a: Any = None, axis: Any = None, *rest: Any, **more: Any) -> Any:
        return None if rest or more else _call(name, lower, a, axis)

    return call


class _PreparedForm(NamedTuple):
    """What is known of calls of one form."""

    shape: tuple[int, ...]
    dtype: DType
    pool: Pool[PreparedReduce]


def _prepared_form(
    kernel: ReduceKernel, shape: tuple[int, ...], sizes: tuple[int, int, int]
) -> _PreparedForm:
    pool = Pool(lambda: PreparedReduce(kernel.program, kernel.reducer).configure_on_device(sizes))
    return _PreparedForm(shape, kernel.reducer.result, pool)


@functools.lru_cache(1024)
def _prepare_form(
    name: str, lower: Lowering, fields: tuple[Any, ...], axis: int | None
) -> _PreparedForm | None:
    """Return how arrays of a form are reduced; None where that takes more care."""
    form = ArraySignature(*fields)
    dtype, shape = numpy_dtype(form.dtype), tuple(form.shape)
    if dtype is None or form.strides is not None or 0 in shape or (axis is not None and not shape):
        return None
    kernel = reduce_kernel_for(name, lower, (dtype,), False, None)
    if not all(op in (abi.OP_LOAD, abi.OP_STORE) for op in kernel.program.instructions["op"].tolist()):
        return None
    if axis is None:
        return _prepared_form(kernel, (), (1, math.prod(shape), 1))
    axis_index = normalize_axis_index(axis, len(shape))
    sizes = math.prod(shape[:axis_index]), shape[axis_index], math.prod(shape[axis_index + 1 :])
    return _prepared_form(kernel, (*shape[:axis_index], *shape[axis_index + 1 :]), sizes)


def _call(name: str, lower: Lowering, a: Any, axis: Any) -> Any:
    library, engine = library_of_type(type(a)), device_engine()
    if library is None or engine is None or not (axis is None or type(axis) is int):
        return None
    try:
        seen = library.inspect(a)
    except INSPECT_ERRORS:
        return None
    prepared = None if seen is None else _prepare_form(name, lower, seen[0], axis)
    if seen is None or prepared is None:
        return None
    result = library.empty(prepared.shape, prepared.dtype, a)
    work = prepared.pool.take()
    try:
        work.bind_device(seen[1], library.address_of(result))
        work.run_on_stream(device_choice(name, engine), seen[2])
    except errors.OutOfMemory:  # the way that takes more care needs less on the GPU
        return None
    finally:
        prepared.pool.give_back(work)
    return result
