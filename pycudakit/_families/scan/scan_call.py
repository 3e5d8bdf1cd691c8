"""A scan's call: dtype and memory of the result, engine choice by cost, and `pk_scan`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._families.scan import device_fast_path, prepared
from pycudakit._families.scan.prepared import ScanRequest
from pycudakit._native import abi, allocator
from pycudakit._native.dtypes import FLOAT64, Array, DType, code_of
from pycudakit._runtime import cost_model, dispatch_cache, fp_errors, native_call
from pycudakit._runtime.call_log import Reason
from pycudakit._runtime.engine_choice import NO_COST, Cost, choice_is_final, choose_engine
from pycudakit._runtime.native_call import log_empty_call, run
from pycudakit._runtime.operands import allocate, as_array, axis_index, fill_operand_row
from pycudakit._runtime.ufunc_arguments import check_writeable, needs_copy

# Nanoseconds per element: of NumPy, of the CPU engine on one thread, and of its float64 sums and products.
_NUMPY_NS, _CPU_NS, _CPU_NS_FLOAT64 = 2.5, 1.5, 4.0
# An array of more bytes exceeds all caches.
_BEYOND_CACHES = 64e6
# Seconds per element of the scan of the blocks' totals, which one thread does.
_SERIAL_SECONDS_PER_ELEMENT = 80e-12


@dataclass(frozen=True, slots=True)
class ScanFunction:
    """A scan: its name, NumPy's ufunc, the ABI's operation and flags, and NumPy's function if it has one."""

    name: str
    ufunc: Any
    operation: int
    numpy: Callable[..., Any] | None
    flags: int = 0


@functools.cache
def result_type(ufunc: Any, operand: DType, dtype: DType | None, out: DType | None) -> DType:
    """Return the type in which NumPy computes a scan."""
    computed: Any = dtype
    if dtype is None and out is None:
        computed = ufunc.accumulate(np.empty(0, operand)).dtype
    elif dtype is None:
        computed = ufunc.resolve_dtypes((out, operand, None))[0]
    result: DType = np.dtype(computed).newbyteorder("=")
    return result


def check_out(out: Any, shape: tuple[int, ...]) -> None:
    """Raise NumPy's error for an `out` that cannot hold a result of a shape."""
    if not isinstance(out, np.ndarray):
        raise TypeError("output must be an array")
    check_writeable(out)
    if out.shape != shape:
        raise ValueError(f"the output array has shape {out.shape}, and the result {shape}")


def _layout(array: Array, axis: int) -> tuple[int, ...]:
    """Return a permutation of the axes with larger strides first; the scan axis keeps its rank among them."""
    by_stride = [(-abs(stride), d) for d, stride in enumerate(array.strides)]
    before = sorted(at for at in by_stride if at < by_stride[axis])
    behind = sorted(at for at in by_stride if at > by_stride[axis])
    return (*(d for _, d in before), axis, *(d for _, d in behind))


def _allocate(dtype: DType, array: Array, flat: bool) -> Array:
    if flat:
        return allocator.empty(array.size, dtype)
    return allocate(dtype, array.shape, [array])


def _dense_strides(shape: tuple[int, ...], stride: int) -> tuple[int, ...]:
    """Return the strides of a flat array that is viewed in a shape."""
    strides = []
    for size in reversed(shape):
        strides.append(stride)
        stride *= size
    return tuple(reversed(strides))


def _scan_request(scan: ScanFunction, array: Array, axis: int | None, target: Array) -> ScanRequest:
    """Describe a scan as `pk_scan` takes it."""
    operands = np.zeros(2, abi.OPERAND)
    if axis is None:
        shape, outer, rows = array.shape, 0, array.ndim
        fill_operand_row(operands[0], array, array.strides)
        fill_operand_row(operands[1], target, _dense_strides(shape, target.strides[0]))
    else:
        if target.ndim > 1:
            order = _layout(target, axis)
            array, target, axis = array.transpose(order), target.transpose(order), order.index(axis)
        shape, outer, rows = array.shape, axis, 1
        fill_operand_row(operands[0], array, array.strides)
        fill_operand_row(operands[1], target, target.strides)
    return scan.operation, scan.flags, operands, np.array(shape, np.int64), outer, rows


def _cost_of(scan: ScanFunction, array: Array, result: DType) -> Cost:
    size = array.size
    is_float = result.kind == "f" and scan.operation in (abi.SCAN_SUM, abi.SCAN_PROD)
    each = _CPU_NS_FLOAT64 if is_float and FLOAT64 in (array.dtype, result) else _CPU_NS
    work = each * 1e-9 * size
    workers = cost_model.threads() if work > cost_model.MIN_SECONDS_FOR_THREADS else 1
    cpu = work / workers
    # The array is read twice; one thread scans the blocks' totals.
    moved = 2 * array.nbytes + size * result.itemsize
    if moved > _BEYOND_CACHES:
        cpu = (
            max(cpu, moved / min(workers * cost_model.THREAD_BANDWIDTH, cost_model.HOST_BANDWIDTH))
            + size * _SERIAL_SECONDS_PER_ELEMENT
        )
    # NumPy rounds float sums and products differently, and has no exclusive scan.
    numpy = None if is_float or scan.numpy is None else 2e-6 + _NUMPY_NS * 1e-9 * size
    call = cost_model.CALL if workers > 1 else cost_model.SINGLE_THREAD_CALL
    return Cost(numpy, call + cpu, array.nbytes, size * result.itemsize)


def scan_along(scan: ScanFunction, a: Any, axis: Any, dtype: Any, out: Any) -> Any:
    """Scan an array along an axis, or all its elements in C order if the axis is None."""

    def by_numpy(reason: Reason) -> Any:
        if scan.numpy is None:
            raise errors.Unsupported(f"{scan.name}: NumPy has no such function; {reason}")
        return native_call.run_numpy(scan.name, reason, functools.partial(scan.numpy, a, axis, dtype, out))

    if isinstance(out, np.ndarray) and out.ndim == 0:  # NumPy crashes on it
        raise ValueError("provided out is the wrong size for the accumulation.")
    array = as_array(a)
    result_dtype = None if dtype is None else np.dtype(dtype)
    unsupported = array is None or (result_dtype is not None and code_of(result_dtype) is None)
    unsupported = unsupported or (isinstance(out, np.ndarray) and as_array(out) is None)
    if array is None or unsupported:
        choice = choose_engine(scan.name, [None], NO_COST)
        return by_numpy(choice.reason)

    if array.ndim == 0:
        array = array.reshape(1)
    flat, along = axis is None, axis
    if flat and (array.ndim == 1 or array.flags.c_contiguous):
        array, along = array.reshape(-1), 0
    result = result_type(
        scan.ufunc, array.dtype, result_dtype, out.dtype if isinstance(out, np.ndarray) else None
    )
    choice = choose_engine(scan.name, [array], _cost_of(scan, array, result))
    if choice.engine == "numpy":
        return by_numpy(choice.reason)

    if along is not None:
        along = axis_index(along, array.ndim)
    shape = (array.size,) if flat else array.shape
    if out is not None:
        check_out(out, shape)
    target = out
    if (
        out is None
        or out.dtype.newbyteorder("=") != result
        or needs_copy(out, [array])
        # After a failure, the CPU engine can resume only if the input was not overwritten.
        or (choice.automatic and choice.engine == "cuda" and np.may_share_memory(out, array))
    ):
        target = _allocate(result, array, flat)
    if array.size == 0:
        log_empty_call(scan.name)
        return target if out is None else out
    described = _scan_request(scan, array, along, target)
    operation, flags, table, lengths, outer, rows = described
    request = (operation, flags, table, lengths, len(lengths), outer, rows)
    fp_flags = run(choice, "pk_scan", *request, size=array.size)
    is_chosen_once = array.nbytes <= dispatch_cache.MAX_PREPARED_BYTES or choice_is_final()
    fits = out is None and array.flags.c_contiguous and is_chosen_once
    if fits and not fp_flags and choice.engine == "cpu" and dispatch_cache.is_filling_cache():
        dispatch_cache.offer_to_cache(target, prepared.fast_path_of(described, array, target))
    if fp_flags:
        is_cast = array.dtype.kind == "f" and result.kind != "f"
        fp_errors.report_fp_flags({"cast" if is_cast else "accumulate": fp_flags})
    if out is not None and target is not out:
        np.copyto(out, target, casting="unsafe")
    return target if out is None else out


def device_fast_path_of(scan: ScanFunction) -> Callable[..., Any]:
    """Make the device fast path of a scan."""
    dtype_of = functools.partial(result_type, scan.ufunc, dtype=None, out=None)
    return device_fast_path.scan(scan.name, scan.operation, scan.flags, dtype_of)
