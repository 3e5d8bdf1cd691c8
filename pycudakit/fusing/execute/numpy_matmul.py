"""NumPy's own loops of `matmul`, called by address, so that a plan multiplies by NumPy's BLAS with its bits.

The C struct of a ufunc begins with its loops, as NumPy's C API documents (PyUFuncObject in ufuncobject.h). A
loop takes the addresses of its operands, their sizes and strides, and needs no interpreter.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from typing import NamedTuple

import numpy as np

from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array

_MAX_PRODUCTS = 1 << 26  # multiplications: a longer call of the loop could not be interrupted


class _UFunc(ctypes.Structure):
    """The beginning of PyUFuncObject."""

    _fields_ = (
        ("refcount", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
    )


class Product(NamedTuple):
    """A call of a loop of `matmul`."""

    loop: int  # the address
    data: int  # an argument of the loop
    sizes: Array  # of the stack, and m, n, p of (m, n) @ (n, p)
    strides: Array  # of the stacks of both operands and the result, and of their rows and columns


def product_of(a: Array, b: Array, result: Array) -> Product | None:
    """Return the call that computes `np.matmul(a, b)` into a new array; None if no loop takes them."""
    loop = _loop_of(a.dtype.char) if a.dtype == b.dtype == result.dtype and a.dtype.isnative else None
    if loop is None or not (a.flags.aligned and b.flags.aligned and a.size and b.size):
        return None
    m, n, p = (a.shape[-2] if a.ndim > 1 else 1), a.shape[-1], (b.shape[-1] if b.ndim > 1 else 1)
    stack = result.shape[: result.ndim - (a.ndim > 1) - (b.ndim > 1)]
    is_stack = [a.ndim == 3, b.ndim == 3, bool(stack)]
    stack_strides = [
        array.strides[0] if each else 0 for each, array in zip(is_stack, (a, b, result), strict=True)
    ]
    if len(stack) > 1 or math.prod(stack) * m * n * p > _MAX_PRODUCTS:
        return None
    rows, columns = _core_strides(a, is_left=True), _core_strides(b, is_left=False)
    out_strides = result.strides[len(stack) :]
    out_row = out_strides[0] if a.ndim > 1 else result.itemsize
    out_column = out_strides[-1] if b.ndim > 1 else result.itemsize
    sizes = np.array([math.prod(stack), m, n, p], np.intp)
    strides = np.array([*stack_strides, *rows, *columns, out_row, out_column], np.intp)
    return Product(*loop, sizes, strides)


def result_shape(a: Array, b: Array) -> tuple[int, ...] | None:
    """Return the shape of `np.matmul(a, b)` for operands with at most one stack dimension; else None."""
    if not (1 <= a.ndim <= 3 and 1 <= b.ndim <= 3):
        return None
    stacks = {array.shape[0] for array in (a, b) if array.ndim == 3}
    if len(stacks) > 1 or a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        return None
    return (*stacks, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))


def _core_strides(array: Array, is_left: bool) -> tuple[int, int]:
    """Return the strides of an operand's rows and columns; a vector is one row, or on the right a column."""
    if array.ndim > 1:
        return array.strides[-2], array.strides[-1]
    return (array.itemsize, array.strides[0]) if is_left else (array.strides[0], array.itemsize)


@functools.cache
def _loop_of(char: str) -> tuple[int, int] | None:
    """Return the address of the loop of `matmul` for a dtype, and its data; None if it cannot be found."""
    ufunc = np.matmul
    signature = f"{char}{char}->{char}"
    if char not in "fd" or sys.implementation.name != "cpython" or not hasattr(ctypes, "pythonapi"):
        return None
    found = _UFunc.from_address(id(ufunc))
    counts = found.nin, found.nout, found.nargs, found.ntypes
    if counts != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes) or found.name != b"matmul":
        return None
    index = ufunc.types.index(signature)
    loop, data = found.functions[index], found.data[index] if found.data else 0
    return None if loop is None or not _is_right(loop, data or 0, char) else (loop, data or 0)


def _is_right(loop: int, data: int, char: str) -> bool:
    """Return True if a loop gives the bits of `matmul`."""
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(loop)
    rng = np.random.default_rng(3)
    for m, n, p in ((1, 9, 1), (5, 7, 3), (40, 30, 20)):
        a, b = (rng.standard_normal(shape).astype(char) for shape in ((m, n), (n, p)))
        result = np.empty((m, p), char)
        sizes, strides = np.array([1, m, n, p], np.intp), [0, 0, 0, *a.strides, *b.strides, *result.strides]
        operands = np.array([address_of(each) for each in (a, b, result)], np.intp)
        steps = np.array(strides, np.intp)
        function(*(address_of(each) for each in (operands, sizes, steps)), data)
        if result.tobytes() != np.matmul(a, b).tobytes():
            return False
    return True
