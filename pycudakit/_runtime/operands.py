"""Arrays as operands of the C ABI: rows of the operand table, broadcast strides, result allocation."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._native import abi, allocator
from pycudakit._native.dtypes import CODES, Array, DType, code_of
from pycudakit._runtime.ufunc_arguments import as_argument


def as_array(value: Any) -> Array | None:
    """Return a value as an array that the engines support, or None if only NumPy supports it."""
    if type(value) is np.ndarray and value.dtype in CODES:
        return value
    array = as_argument(value)
    if array is None or isinstance(array, np.ndarray):
        return array
    number = np.asarray(array)
    return number if number.dtype in CODES else None  # integers beyond 64 bits are objects


def axis_index(axis: Any, dimensions: int) -> int:
    """Return an axis as an index; raise NumPy's error, for a bool, too, which NumPy's helper accepts."""
    if isinstance(axis, bool | np.bool_):
        raise TypeError("an integer is required for the axis")
    return int(normalize_axis_index(operator.index(axis), dimensions))


def last_axis_to(array: Array, axis: int) -> Array:
    """Return a new array with its last axis moved: itself, which owns its memory, if that changes nothing."""
    return array if axis in (-1, array.ndim - 1) else np.moveaxis(array, -1, axis)


def with_shape(array: Any, shape: tuple[int, ...]) -> Any:
    """Return a new array in another shape: itself, if it owns its memory, so that it still does."""
    if array.shape == shape:  # also a tracer's: a view of it would own nothing
        return array
    if type(array) is not np.ndarray or not array.flags.owndata:
        return array.reshape(shape)
    array.resize(shape, refcheck=False)
    return array


def fill_operand_row(row: Any, array: Array, strides: Sequence[int]) -> None:
    """Fill a row (a `pk_operand`) of an operand table."""
    row["address"] = abi.address_of(array)
    code = CODES.get(array.dtype)
    row["type"] = code_for(array.dtype) if code is None else code
    row["flags"] = 0 if array.dtype.isnative else abi.OPERAND_BYTE_SWAPPED
    row["strides"][: len(strides)] = strides


def code_for(dtype: DType) -> int:
    """Return the `pk_type` of a dtype, or -1, which the libraries refuse."""
    code = code_of(dtype)
    return -1 if code is None else code


def allocate(dtype: np.dtype[Any], shape: tuple[int, ...], arrays: Sequence[Array]) -> Array:
    """Allocate a result with the memory layout that NumPy gives a ufunc's output for these inputs."""
    if all(a.flags.c_contiguous for a in arrays):
        return allocator.empty(shape, dtype)
    nditer: Any = np.nditer
    layout = allocator.with_result_allocator(
        math.prod(shape) * dtype.itemsize,
        lambda: nditer(
            [*arrays, None],
            flags=["zerosize_ok", "multi_index"],
            op_flags=[["readonly"]] * len(arrays) + [["writeonly", "allocate"]],
            op_dtypes=[None] * len(arrays) + [dtype],
            order="K",
            itershape=shape,
        ),
    )
    out: Array = layout.operands[-1]
    return out


# An array's address, and its shape, strides and dtype.
Layout = tuple[int, tuple[tuple[int, ...], tuple[int, ...], DType]]


def layout_of(array: Array) -> Layout:
    """Return an array's address and layout."""
    return abi.address_of(array), (array.shape, array.strides, array.dtype)


def strides_of(array: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the array's strides when broadcast to a shape."""
    return broadcast_strides(array.shape, array.strides, shape)


def broadcast_strides(
    array_shape: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the strides of an array, given by its shape and strides, when broadcast to `shape`."""
    broadcast = [0 if size == 1 else stride for size, stride in zip(array_shape, strides, strict=True)]
    return (*(0,) * (len(shape) - len(array_shape)), *broadcast)


def placeholder_like(array: Array) -> Array:
    """Return an array with the dtype, shape and strides of another, but no memory: it must not be read."""
    outline: Array = np.lib.stride_tricks.as_strided(np.empty((), array.dtype), array.shape, array.strides)
    return outline


def locate_operand(operand: Array, arguments: tuple[Any, ...], position: int) -> tuple[int, int] | None:
    """Return the index of the argument whose memory holds an operand, and the operand's offset in bytes.

    The offset is from the argument's first element. If several arguments share the memory, the one at the
    operand's own position is preferred.
    """
    begin = abi.address_of(operand)
    for index in sorted(range(len(arguments)), key=lambda index: index != position):
        argument = arguments[index]
        if type(argument) is np.ndarray:
            low, high = np.lib.array_utils.byte_bounds(argument)
            if low <= begin < high:
                return index, begin - abi.address_of(argument)
    return None
