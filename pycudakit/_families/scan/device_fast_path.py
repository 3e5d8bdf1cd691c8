"""The device fast path of scans: dense device arrays, along one axis or all, in the arrays' stream."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._interop.cuda_libraries import ArraySignature, DeviceOperand, numpy_dtype
from pycudakit._interop.memory_layout import contiguous_strides, overlap
from pycudakit._native import abi
from pycudakit._native.dtypes import CODES, DType
from pycudakit._runtime.fp_errors import report_fp_flags
from pycudakit._runtime.native_call import NativeCall, Pool


def scan(name: str, operation: int, flags: int, result_type: Callable[[DType], DType]) -> Callable[..., Any]:
    """Make the device fast path of a scan; it returns None if the arguments need the general path."""
    return functools.partial(_call, name, operation, flags, result_type)


class _PreparedScan(NativeCall):
    """Prepared arguments of `pk_scan` for device arrays of one signature."""

    entry = "pk_scan"

    def __init__(self, operation: int, flags: int, lengths: tuple[int, int, int], types: Any) -> None:
        super().__init__()
        self._operation, self._scan_flags = operation, flags
        self._table, self._shape = np.zeros(2, abi.OPERAND), np.array(lengths, np.int64)
        self._table["flags"], self._table["type"] = abi.ON_DEVICE, [CODES[dtype] for dtype in types]
        for row, dtype in zip(self._table, types, strict=True):
            row["strides"][:3] = contiguous_strides(lengths, dtype.itemsize)
        self._addresses = self._table["address"]

    def bind_device(self, address: int, result: int) -> None:
        """Bind the addresses of the array and the result."""
        self._addresses[:] = address, result

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry, bound to its arguments."""
        arguments = (self._operation, self._scan_flags, self._table, self._shape, 3, 1, 1)
        return abi.bound(library, self.entry, *arguments, self.options, self.report)


class _PreparedSignature(NamedTuple):
    """The prepared scan for one call signature: result shape and type, size, and pool."""

    shape: tuple[int, ...]
    dtype: DType
    bytes_: int  # the larger of the array's and the result's
    pool: Pool[_PreparedScan]


@functools.lru_cache(1024)
def _prepare_signature(
    operation: int,
    flags: int,
    result_type: Callable[[DType], DType],
    fields: tuple[Any, ...],
    axis: int | None,
) -> _PreparedSignature | None:
    """Prepare a scan for an array signature; None if it needs the general path."""
    signature = ArraySignature(*fields)
    dtype, shape = numpy_dtype(signature.dtype), tuple(signature.shape)
    if dtype is None or signature.strides is not None or not shape or 0 in shape:
        return None
    size = math.prod(shape)
    lengths = 1, size, 1
    if axis is not None:
        at = normalize_axis_index(axis, len(shape))
        lengths = math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])
    result_dtype = result_type(dtype)
    pool: Pool[_PreparedScan] = Pool(
        functools.partial(_PreparedScan, operation, flags, lengths, (dtype, result_dtype))
    )
    result_shape = (size,) if axis is None else shape
    return _PreparedSignature(
        result_shape, result_dtype, size * max(dtype.itemsize, result_dtype.itemsize), pool
    )


def _call(
    name: str,
    operation: int,
    flags: int,
    result_type: Callable[[DType], DType],
    a: Any = None,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    operand = DeviceOperand.of(a)
    target = DeviceOperand.of(out) if type(out) is type(a) else None
    if operand is None or dtype is not None or not (axis is None or type(axis) is int):
        return None
    prepared = _prepare_signature(operation, flags, result_type, operand.signature, axis)
    if prepared is None or (out is not None and target is None):
        return None
    result = operand.library.empty(prepared.shape, prepared.dtype, a) if target is None else out
    to = operand.library.address_of(result) if target is None else target.address
    if target is not None:
        signature = ArraySignature(*target.signature)
        fits = (
            numpy_dtype(signature.dtype) == prepared.dtype
            and tuple(signature.shape) == prepared.shape
            and signature.strides is None
        )
        memory = (operand.address, operand.address + prepared.bytes_), (to, to + prepared.bytes_)
        if not fits or signature.is_readonly or target.stream != operand.stream or overlap(*memory):
            return None
    if fp_flags := operand.run(name, prepared.pool, operand.address, to):
        report_fp_flags({"accumulate": fp_flags})
    return result
