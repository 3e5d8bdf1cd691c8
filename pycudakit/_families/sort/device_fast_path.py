"""The device fast path of sorts: device arrays are sorted by rows, asynchronously, in their stream."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pycudakit._element_programs.device_launch import enqueue_copy
from pycudakit._interop.cuda_libraries import ArraySignature, DeviceOperand, numpy_dtype
from pycudakit._interop.memory_layout import contiguous_strides
from pycudakit._native import abi
from pycudakit._native.abi import MAX_DIMS
from pycudakit._native.dtypes import CODES, DType
from pycudakit._runtime.native_call import NativeCall, Pool

_MAX_ELEMENTS = 1 << 30  # elements
_INT64 = np.dtype(np.int64)


def sort(
    a: Any = None,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
) -> Any:
    """Sort a device array along an axis; return None if it needs the general path."""
    return None if descending else _call("sort", a, axis, kind, order, stable)


def argsort(
    a: Any = None,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: Any = None,
) -> Any:
    """Argsort a device array along an axis; return None if it needs the general path."""
    return _call("argsort", a, axis, kind, order, stable, bool(descending))


def partition(a: Any, kth: Any = None, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Any:
    """Partition a device array by sorting it, which is a partition for every `kth`."""
    return _call("sort", a, axis, None, order, None) if _is_kth(a, kth, axis, kind) else None


def argpartition(
    a: Any, kth: Any = None, axis: Any = -1, kind: Any = "introselect", order: Any = None
) -> Any:
    """Argpartition a device array by a stable argsort."""
    return _call("argsort", a, axis, None, order, None, False) if _is_kth(a, kth, axis, kind) else None


def _is_kth(a: Any, kth: Any, axis: Any, kind: Any) -> bool:
    """Return True if `kth` is one valid index along the axis."""
    shape = getattr(a, "shape", ())
    try:
        length = math.prod(shape) if axis is None else shape[axis]
    except (IndexError, TypeError):
        return False
    return kind == "introselect" and type(kth) is int and -length <= kth < length


class _PreparedSignature(NamedTuple):
    """The layout of a sort for one array signature."""

    dtype: DType
    shape: tuple[int, ...]  # of the result
    order: tuple[int, ...]  # of the axes, with the sorted one last
    rows: tuple[int, ...]  # the shape in this order
    strides: tuple[int, ...] | None  # in this order, if the array must be copied to contiguous rows first


@functools.lru_cache(1024)
def _prepare_signature(fields: tuple[Any, ...], axis: Any) -> _PreparedSignature | None:
    """Compute the layout for an array signature; None if it needs the general path."""
    signature = ArraySignature(*fields)
    dtype, shape = numpy_dtype(signature.dtype), tuple(signature.shape)
    size, dimensions = math.prod(shape), len(shape)
    along = dimensions - 1 if axis is None else axis
    if type(along) is not int or not -dimensions <= along < dimensions or dtype is None:
        return None
    if not 0 < size <= _MAX_ELEMENTS or dimensions > MAX_DIMS:
        return None
    order = (*(d for d in range(dimensions) if d != along % dimensions), along % dimensions)
    rows, strides = tuple(shape[d] for d in order), None
    if signature.strides is not None or order != tuple(range(dimensions)):
        own_strides = (
            contiguous_strides(shape, dtype.itemsize) if signature.strides is None else signature.strides
        )
        strides = tuple(own_strides[d] for d in order)
    return _PreparedSignature(dtype, shape, order, rows, strides)


def _call(name: str, a: Any, axis: Any, kind: Any, order: Any, stable: Any, *descending: bool) -> Any:
    operand = DeviceOperand.of(a)
    if operand is None or not (kind is order is None and stable in (None, True, False)):
        return None
    prepared = _prepare_signature(operand.signature, axis) if type(axis) in (int, type(None)) else None
    if prepared is None:
        return None
    dtype, shape, axes, rows, strides = prepared
    library, _, _, address, stream = operand
    result_dtype = dtype if name == "sort" else _INT64
    if strides is not None:
        copy = library.empty(rows, dtype, a)
        to = library.address_of(copy), contiguous_strides(rows, dtype.itemsize)
        enqueue_copy(dtype, rows, to, (address, strides), stream)
        address = to[0]
    size = math.prod(rows)
    if axis is None:
        rows, axes = (size,), (0,)
    result = library.empty(rows, result_dtype, a)
    sorted_at = library.address_of(result)
    operand.run(name, _pool(name, dtype, size // rows[-1], rows[-1], descending), address, sorted_at)
    if axes == tuple(range(len(axes))):
        return result
    moved_back = library.empty(shape, result_dtype, a)
    result_strides = contiguous_strides(shape, result_dtype.itemsize)
    to = library.address_of(moved_back), tuple(result_strides[d] for d in axes)
    source = sorted_at, contiguous_strides(rows, result_dtype.itemsize)
    enqueue_copy(result_dtype, rows, to, source, stream)
    return moved_back


class _PreparedSort(NativeCall):
    """Prepared arguments of a sorting entry for device arrays of one signature."""

    def __init__(
        self, name: str, dtype: DType, rows: int, columns: int, descending: tuple[bool, ...]
    ) -> None:
        super().__init__()
        self.entry = f"pk_{name}"
        self._operands = np.zeros(2, abi.OPERAND)  # the values, and the result
        self._operands["type"] = CODES[dtype], CODES[_INT64 if descending else dtype]
        self._operands["flags"] = abi.ON_DEVICE
        self._addresses = self._operands["address"]
        # An argsort also takes the number of indices to return per row, here all of them.
        self._more = rows, columns, *((columns, int(*descending)) if descending else ())

    def bind_device(self, address: int, result: int) -> None:
        """Bind the addresses of the array and the result."""
        self._addresses[:] = address, result

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry, bound to its arguments."""
        return abi.bound(library, self.entry, self._operands, *self._more, self.options, self.report)


@functools.lru_cache(1024)
def _pool(
    name: str, dtype: DType, rows: int, columns: int, descending: tuple[bool, ...]
) -> Pool[_PreparedSort]:
    return Pool(functools.partial(_PreparedSort, name, dtype, rows, columns, descending))
