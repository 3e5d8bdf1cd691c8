"""Products of arrays of any dimensions where these stay on the device: made of products of matrices there.

Each returns NotImplemented for what the host does.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._families.matmul.matrix_power import raised
from pycudakit._native import abi
from pycudakit._native.dtypes import CODES
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.trace.views_and_creation import Handler, captures

PRODUCTS: dict[Any, Handler] = {}
_captures = functools.partial(captures, PRODUCTS)
_NONE: Any = np._NoValue  # noqa: SLF001


def family(module: str) -> Any:
    """Return a module of the family's, which is imported when it is needed."""
    return importlib.import_module(f"pycudakit._families.matmul.{module}")


def stood(recording: Recording, *operands: Any) -> list[StandIn] | None:
    """Return arrays, of which one at least is a stand-in, as stand-ins; None for what has no product."""
    if StandIn not in map(type, operands):
        return None
    found = [x if type(x) is StandIn else np.asarray(x) for x in operands]
    if any(x.size == 0 or x.ndim == 0 or x.dtype not in CODES for x in found):
        return None
    return [x if type(x) is StandIn else recording.wrap(x) for x in found]


def _both(recording: Recording, a: Any, b: Any) -> tuple[StandIn, StandIn] | None:
    found = stood(recording, a, b)
    return None if found is None else (found[0], found[1])


def product(recording: Recording, a: Any, b: Any, name: str, warns: str | None) -> Any:
    """Return the product of two matrices, or of stacks of them, or of vectors, which `matmul` has."""
    common = np.result_type(a.dtype, b.dtype).newbyteorder("=")
    placed = [x if x.dtype == common else x.astype(common) for x in (a, b)]
    function = family("matmul").product

    def multiply(x: Any, y: Any) -> Any:
        return function(name, lambda: np.matmul(x, y), x, y, warns=warns)

    multiply.__name__ = name
    recording.costs.called(max(a.size, b.size), is_numpys=True)
    return recording.at_home(multiply, placed, {}, places=2)  # type: ignore[arg-type]


def dots(recording: Recording, name: str, a: Any, b: Any, warns: bool) -> Any:
    """Return the sums of products along the last axes of arrays of one shape."""
    function = family("dot").dots

    def multiply(x: Any, y: Any) -> Any:
        return function(name, lambda: np.vecdot(x, y), x, y, -1, warns=warns)

    multiply.__name__ = name
    recording.costs.called(max(a.size, b.size), is_numpys=True)
    return recording.at_home(multiply, (a, b), {}, places=2, are_unseen=True)


@_captures(np.matmul)
def _matmul(
    recording: Recording,
    a: Any,
    b: Any,
    /,
    *,
    dtype: Any = None,
    casting: Any = "same_kind",
    axes: Any = None,
    **keywords: Any,
) -> Any:
    both: Any = None if keywords else _both(recording, a, b)
    if both is not None and dtype is not None:
        is_taken = np.dtype(dtype) in CODES and all(np.can_cast(x.dtype, dtype, casting) for x in both)
        both = [x.astype(dtype) for x in both] if is_taken else None
    if both is not None and axes is not None:
        are_of_matrices = type(axes) is list and [np.shape(each) for each in axes] == [(2,)] * 3
        moved = zip(both, axes, strict=False)
        both = [np.moveaxis(x, at, (-2, -1)) for x, at in moved] if are_of_matrices else None
    if both is None or not _fit(*both):
        return NotImplemented
    result = product(recording, both[0], both[1], "matmul", "matmul")
    return result if axes is None else np.moveaxis(result, (-2, -1), axes[2])


def _fit(a: StandIn, b: StandIn) -> bool:
    """Tell whether `matmul` takes them."""
    if a.shape[-1] != b.shape[max(b.ndim - 2, 0)] or max(a.ndim, b.ndim) > abi.MAX_DIMS:
        return False
    try:
        np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        return False
    return True


def spread(recording: Recording, a: Any, shape: tuple[int, ...]) -> Any:
    """Return an array of a shape that it is broadcast to, with memory for each element."""
    return a if a.shape == shape else recording.call(np.copy, (np.broadcast_to(a, shape), "C"), {})


def as_matrix(recording: Recording, a: StandIn, order: Sequence[int], *shape: int) -> Any:
    """Return axes in an order as those of a matrix, or of a stack of them, which lies side by side."""
    turned = a.transpose(tuple(order))
    if not recording.store(turned).flags.c_contiguous:
        turned = recording.call(np.copy, (turned, "C"), {})
    return turned.reshape(shape)


@_captures(np.tensordot)
def tensordot(recording: Recording, a: Any, b: Any, axes: Any = 2) -> Any:
    """Multiply along pairs of axes."""
    return _along_pairs(recording, "tensordot", a, b, axes)


def _along_pairs(recording: Recording, name: str, a: Any, b: Any, axes: Any) -> Any:
    both = _both(recording, a, b)
    if both is None:
        return NotImplemented
    x, y = both
    found = family("tensor_products").pairs(axes, x.shape, y.shape)
    if found is None:
        return NotImplemented
    of_x, of_y = found
    of_x_alone = [d for d in range(x.ndim) if d not in of_x]
    of_y_alone = [d for d in range(y.ndim) if d not in of_y]
    rows, columns = [x.shape[d] for d in of_x_alone], [y.shape[d] for d in of_y_alone]
    depth = math.prod(x.shape[d] for d in of_x)
    left = as_matrix(recording, x, [*of_x_alone, *of_x], math.prod(rows), depth)
    right = as_matrix(recording, y, [*of_y, *of_y_alone], depth, math.prod(columns))
    return product(recording, left, right, name, "dot").reshape((*rows, *columns))


@_captures(np.dot)
def _dot(recording: Recording, a: Any, b: Any, out: Any = None) -> Any:
    if out is not None or max(np.ndim(a), np.ndim(b)) < 2:
        return NotImplemented  # vectors, which others take
    return _along_pairs(recording, "dot", a, b, ([-1], [max(np.ndim(b) - 2, 0)]))


@_captures(np.vdot)
def _vdot(recording: Recording, a: Any, b: Any, /) -> Any:
    both = _both(recording, a, b)
    if both is None or both[0].size != both[1].size or max(x.ndim for x in both) < 2:
        return NotImplemented
    return recording.call(np.vdot, tuple(np.ravel(x) for x in both), {})


@_captures(np.inner)
def _inner(recording: Recording, a: Any, b: Any) -> Any:
    if max(np.ndim(a), np.ndim(b)) < 2:
        return NotImplemented
    return _along_pairs(recording, "inner", a, b, ([-1], [-1]))


@_captures(np.kron)
def _kron(recording: Recording, a: Any, b: Any) -> Any:
    both = _both(recording, a, b)
    if both is None:
        return NotImplemented
    x, y = both
    count = max(x.ndim, y.ndim)
    sizes = [(1,) * (count - each.ndim) + each.shape for each in (x, y)]
    pairs = list(zip(*sizes, strict=True))
    product_of = x.reshape([n for first, _ in pairs for n in (first, 1)]) * y.reshape(
        [n for _, second in pairs for n in (1, second)]
    )
    return product_of.reshape([first * second for first, second in pairs])


if hasattr(np, "vecdot"):

    @_captures(np.vecdot)
    def _vecdot(
        recording: Recording,
        x1: Any,
        x2: Any,
        /,
        *,
        axes: Any = _NONE,
        axis: Any = _NONE,
        keepdims: Any = False,
        dtype: Any = None,
        casting: Any = "same_kind",
        **keywords: Any,
    ) -> Any:
        both = None if keywords or type(keepdims) is not bool else _both(recording, x1, x2)
        if both is None:
            return NotImplemented
        try:
            *of_each, kept = family("tensor_products").places(axes, axis, keepdims)
            first, second = (np.moveaxis(x, at, -1) for x, at in zip(both, of_each, strict=True))  # type: ignore[type-var]
            shape = (*np.broadcast_shapes(first.shape[:-1], second.shape[:-1]), first.shape[-1])
            are_taken = dtype is None or all(np.can_cast(x.dtype, dtype, casting) for x in both)
        except (TypeError, ValueError):
            return NotImplemented
        is_known = dtype is None or np.dtype(dtype) in CODES
        if first.shape[-1] != second.shape[-1] or not (are_taken and is_known):
            return NotImplemented
        first, second = (
            spread(recording, x if dtype is None else x.astype(dtype), shape) for x in (first, second)
        )
        found = dots(recording, "vecdot", first, second, warns=True)
        if keepdims:
            found = np.moveaxis(np.expand_dims(found, -1), -1, kept)
        return found


def matrix_power(recording: Recording, a: Any, n: Any) -> Any:
    """Multiply a matrix by itself n times."""
    is_square = type(a) is StandIn and a.ndim > 1 and a.shape[-1] == a.shape[-2] and a.size > 0
    if not is_square or type(n) is not int or n < 1:
        return NotImplemented
    result = raised(a, n, lambda x, y: recording.call(np.matmul, (x, y), {}))
    return result.copy() if result is a else result
