"""Bodies of `tensordot`, `kron` and `einsum`, for arrays on the host and on a device.

They reduce contractions to products of matrices, sums of products, or products of elements. Their parameter
`xp` computes these: `host_contraction`, or `DeviceContraction` in `fusing/device_impls/matmul.py`. Of Dask
arrays, `kron` alone has this body; the others are blocked products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pycudakit._runtime.operands import with_shape


def contract_axes(xp: Any, name: str, x: Any, y: Any, axes: tuple[list[int], list[int]]) -> Any:
    """Sum products over pairs of axes; the other axes keep their order."""
    of_x, of_y = axes
    kept_of_x = [d for d in range(x.ndim) if d not in of_x]
    kept_of_y = [d for d in range(y.ndim) if d not in of_y]
    rows, columns = [x.shape[d] for d in kept_of_x], [y.shape[d] for d in kept_of_y]
    depth = math.prod([x.shape[d] for d in of_x])
    left = xp.as_matrix(x, [*kept_of_x, *of_x], math.prod(rows), depth)
    right = xp.as_matrix(y, [*of_y, *kept_of_y], depth, math.prod(columns))
    return with_shape(xp.product(name, np.dot, left, right, warns="dot"), (*rows, *columns))


def kronecker(x: Any, y: Any, multiply: Callable[[Any, Any], Any]) -> Any:
    """Return the Kronecker product of two arrays of at least one dimension, by a product of elements."""
    ndim = max(x.ndim, y.ndim)
    x, y = (each[(np.newaxis,) * (ndim - each.ndim)] for each in (x, y))
    products = multiply(x[(slice(None), np.newaxis) * ndim], y[(np.newaxis, slice(None)) * ndim])
    return products.reshape([n * m for n, m in zip(x.shape, y.shape, strict=True)])


# ---- einsum ------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """An operand and one label (a letter) for each of its axes."""

    labels: str
    array: Any


def with_distinct_labels(labels: str, array: Any) -> Part:
    """Return a view with each label once: the diagonal of axes with the same label."""
    distinct = "".join(dict.fromkeys(labels))
    return Part(distinct, array if distinct == labels else np.einsum(f"{labels}->{distinct}", array))


def sum_unshared(xp: Any, part: Part, shared: set[str], dtype: Any) -> Part:
    """Sum an operand, as `dtype`, along the axes whose labels no other operand and no result shares."""
    labels, array = part
    unshared = tuple(d for d, label in enumerate(labels) if label not in shared)
    if not unshared:
        return part
    return Part("".join(label for label in labels if label in shared), xp.sum(array, unshared, dtype))


def contract_pair(xp: Any, first: Part, second: Part, result: str, sizes: dict[str, int]) -> Any:
    """Contract two operands of one dtype to an array with the labels of `result`."""
    (left, x), (right, y) = first, second
    both = [c for c in left if c in right]
    summed, batch = [c for c in both if c not in result], [c for c in result if c in both]
    rows, columns = [c for c in result if c not in right], [c for c in result if c not in left]

    def arranged(labels: str, array: Any, *groups: list[str]) -> Any:
        order = [labels.index(c) for group in groups for c in group]
        return xp.as_matrix(array, order, *(math.prod([sizes[c] for c in group]) for group in groups))

    def of_elements(labels: str, array: Any) -> Any:
        if not labels:
            return array
        order = tuple([labels.index(c) for c in result if c in labels])
        return array.transpose(order)[tuple([slice(None) if c in labels else None for c in result])]

    if not summed:
        with np.errstate(all="ignore"):
            return xp.multiply(of_elements(left, x), of_elements(right, y))
    if not rows and not columns:
        a, b = arranged(left, x, batch, summed), arranged(right, y, batch, summed)
        contracted = xp.dots("einsum", a, b, warns=False)
    else:
        a, b = arranged(left, x, batch, rows, summed), arranged(right, y, batch, summed, columns)
        if not batch:
            a, b = a[0], b[0]
        contracted = xp.product("einsum", np.matmul, a, b, warns=None)
    labels = "".join((*batch, *rows, *columns))
    return in_order(xp, Part(labels, with_shape(contracted, tuple([sizes[c] for c in labels]))), result)


def in_order(xp: Any, part: Part, result: str) -> Any:
    """Return the array with its axes in the order of `result`: a copy if that is another order."""
    labels, array = part
    return (
        array
        if labels == result
        else xp.contiguous(array.transpose(tuple([labels.index(c) for c in result])))
    )
