"""The functions that the bodies in `contraction.py` call, for arrays on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._families.elementwise import ufuncs
from pycudakit._families.elementwise.manipulation import contiguous
from pycudakit._families.matmul import matmul
from pycudakit._families.matmul.dot import sum_of_products
from pycudakit._families.reduce import sums, truth_values
from pycudakit._native import allocator
from pycudakit._native.dtypes import BOOL, Array, DType
from pycudakit._runtime.ufunc_arguments import broadcast_shapes

__all__ = ["as_matrix", "contiguous", "dots", "multiply", "product", "sum"]


def as_matrix(array: Array, order: list[int], *shape: int) -> Array:
    """Return an array with its axes in an order and grouped to a matrix: a view if possible."""
    matrix: Array = contiguous(array.transpose(order)).reshape(shape)
    return matrix


def product(name: str, numpy: Callable[..., Any], a: Array, b: Array, *, warns: str | None) -> Any:
    """Return the product of matrices, or of stacks of them; `numpy` is NumPy's function for it."""
    return matmul.product(name, lambda: numpy(a, b), a, b, warns=warns)


def dots(name: str, a: Array, b: Array, *, warns: bool) -> Array:
    """Return the sums of products along the last axes."""
    return np.asarray(sum_of_products(name, lambda: np.vecdot(a, b), a, b, -1, warns=warns))


def multiply(a: Array, b: Array) -> Array:
    """Return the products of elements, in C order."""
    out = allocator.empty(broadcast_shapes(a.shape, b.shape), np.result_type(a, b))
    ufuncs.multiply(a, b, out=out)
    return out


def sum(array: Array, axes: tuple[int, ...], dtype: DType) -> Array:
    """Return the sum along axes in a dtype; that of bools is `any`."""
    return np.asarray(truth_values.any(array, axes) if dtype == BOOL else sums.sum(array, axes, dtype=dtype))
