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

from pycudakit._families.matmul.matrix_power import power_by_squaring
from pycudakit._native import abi
from pycudakit._native.dtypes import CODES
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, implements

PRODUCTS: dict[Any, Handler] = {}
_implements = functools.partial(implements, PRODUCTS)
_NONE: Any = np._NoValue  # noqa: SLF001


def family(module: str) -> Any:
    """Return a module of the family's, which is imported when it is needed."""
    return importlib.import_module(f"pycudakit._families.matmul.{module}")


def as_tracers(trace: Trace, *operands: Any) -> list[Tracer] | None:
    """Return arrays, of which one at least is a tracer, as tracers; None for what has no product."""
    if Tracer not in map(type, operands):
        return None
    found = [x if type(x) is Tracer else np.asarray(x) for x in operands]
    if any(x.size == 0 or x.ndim == 0 or x.dtype not in CODES for x in found):
        return None
    return [x if type(x) is Tracer else trace.wrap(x) for x in found]


def _both(trace: Trace, a: Any, b: Any) -> tuple[Tracer, Tracer] | None:
    found = as_tracers(trace, a, b)
    return None if found is None else (found[0], found[1])


def product(trace: Trace, a: Any, b: Any, name: str, warns: str | None) -> Any:
    """Return the product of two matrices, or of stacks of them, or of vectors, which `matmul` has."""
    common = np.result_type(a.dtype, b.dtype).newbyteorder("=")
    placed = [x if x.dtype == common else x.astype(common) for x in (a, b)]
    function = family("matmul").product

    def multiply(x: Any, y: Any) -> Any:
        return function(name, lambda: np.matmul(x, y), x, y, warns=warns)

    multiply.__name__ = name
    trace.costs.called(max(a.size, b.size), is_numpys=True)
    return trace.on_device(multiply, placed, {}, num_device_args=2)  # type: ignore[arg-type]


def dots(trace: Trace, name: str, a: Any, b: Any, warns: bool) -> Any:
    """Return the sums of products along the last axes of arrays of one shape."""
    function = family("dot").sum_of_products

    def multiply(x: Any, y: Any) -> Any:
        return function(name, lambda: np.vecdot(x, y), x, y, -1, warns=warns)

    multiply.__name__ = name
    trace.costs.called(max(a.size, b.size), is_numpys=True)
    return trace.on_device(multiply, (a, b), {}, num_device_args=2, results_stay_on_device=True)


@_implements(np.matmul)
def _matmul(
    trace: Trace,
    a: Any,
    b: Any,
    /,
    *,
    dtype: Any = None,
    casting: Any = "same_kind",
    axes: Any = None,
    **keywords: Any,
) -> Any:
    both: Any = None if keywords else _both(trace, a, b)
    if both is not None and dtype is not None:
        is_taken = np.dtype(dtype) in CODES and all(np.can_cast(x.dtype, dtype, casting) for x in both)
        both = [x.astype(dtype) for x in both] if is_taken else None
    if both is not None and axes is not None:
        are_of_matrices = type(axes) is list and [np.shape(each) for each in axes] == [(2,)] * 3
        moved = zip(both, axes, strict=False)
        both = [np.moveaxis(x, at, (-2, -1)) for x, at in moved] if are_of_matrices else None
    if both is None or not _fit(*both):
        return NotImplemented
    result = product(trace, both[0], both[1], "matmul", "matmul")
    return result if axes is None else np.moveaxis(result, (-2, -1), axes[2])


def _fit(a: Tracer, b: Tracer) -> bool:
    """Tell whether `matmul` takes them."""
    if a.shape[-1] != b.shape[max(b.ndim - 2, 0)] or max(a.ndim, b.ndim) > abi.MAX_DIMS:
        return False
    try:
        np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        return False
    return True


def broadcast_copy(trace: Trace, a: Any, shape: tuple[int, ...]) -> Any:
    """Return an array of a shape that it is broadcast to, with memory for each element."""
    return a if a.shape == shape else trace.call(np.copy, (np.broadcast_to(a, shape), "C"), {})


def as_matrix(trace: Trace, a: Tracer, order: Sequence[int], *shape: int) -> Any:
    """Return axes in an order as those of a matrix, or of a stack of them, which lies side by side."""
    turned = a.transpose(tuple(order))
    if not trace.materialize(turned).flags.c_contiguous:
        turned = trace.call(np.copy, (turned, "C"), {})
    return turned.reshape(shape)


@_implements(np.tensordot)
def tensordot(trace: Trace, a: Any, b: Any, axes: Any = 2) -> Any:
    """Multiply along pairs of axes."""
    return _along_pairs(trace, "tensordot", a, b, axes)


def _along_pairs(trace: Trace, name: str, a: Any, b: Any, axes: Any) -> Any:
    both = _both(trace, a, b)
    if both is None:
        return NotImplemented
    x, y = both
    found = family("tensor_products").contracted_axes(axes, x.shape, y.shape)
    if found is None:
        return NotImplemented
    of_x, of_y = found
    of_x_alone = [d for d in range(x.ndim) if d not in of_x]
    of_y_alone = [d for d in range(y.ndim) if d not in of_y]
    rows, columns = [x.shape[d] for d in of_x_alone], [y.shape[d] for d in of_y_alone]
    depth = math.prod(x.shape[d] for d in of_x)
    left = as_matrix(trace, x, [*of_x_alone, *of_x], math.prod(rows), depth)
    right = as_matrix(trace, y, [*of_y, *of_y_alone], depth, math.prod(columns))
    return product(trace, left, right, name, "dot").reshape((*rows, *columns))


@_implements(np.dot)
def _dot(trace: Trace, a: Any, b: Any, out: Any = None) -> Any:
    if out is not None or max(np.ndim(a), np.ndim(b)) < 2:
        return NotImplemented  # vectors, which others take
    return _along_pairs(trace, "dot", a, b, ([-1], [max(np.ndim(b) - 2, 0)]))


@_implements(np.vdot)
def _vdot(trace: Trace, a: Any, b: Any, /) -> Any:
    both = _both(trace, a, b)
    if both is None or both[0].size != both[1].size or max(x.ndim for x in both) < 2:
        return NotImplemented
    return trace.call(np.vdot, tuple(np.ravel(x) for x in both), {})


@_implements(np.inner)
def _inner(trace: Trace, a: Any, b: Any) -> Any:
    if max(np.ndim(a), np.ndim(b)) < 2:
        return NotImplemented
    return _along_pairs(trace, "inner", a, b, ([-1], [-1]))


@_implements(np.kron)
def _kron(trace: Trace, a: Any, b: Any) -> Any:
    both = _both(trace, a, b)
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

    @_implements(np.vecdot)
    def _vecdot(
        trace: Trace,
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
        both = None if keywords or type(keepdims) is not bool else _both(trace, x1, x2)
        if both is None:
            return NotImplemented
        try:
            *of_each, kept = family("tensor_products").vecdot_axes(axes, axis, keepdims)
            first, second = (np.moveaxis(x, at, -1) for x, at in zip(both, of_each, strict=True))  # type: ignore[type-var]
            shape = (*np.broadcast_shapes(first.shape[:-1], second.shape[:-1]), first.shape[-1])
            are_taken = dtype is None or all(np.can_cast(x.dtype, dtype, casting) for x in both)
        except (TypeError, ValueError):
            return NotImplemented
        is_known = dtype is None or np.dtype(dtype) in CODES
        if first.shape[-1] != second.shape[-1] or not (are_taken and is_known):
            return NotImplemented
        first, second = (
            broadcast_copy(trace, x if dtype is None else x.astype(dtype), shape) for x in (first, second)
        )
        found = dots(trace, "vecdot", first, second, warns=True)
        if keepdims:
            found = np.moveaxis(np.expand_dims(found, -1), -1, kept)
        return found


def matrix_power(trace: Trace, a: Any, n: Any) -> Any:
    """Multiply a matrix by itself n times."""
    is_square = type(a) is Tracer and a.ndim > 1 and a.shape[-1] == a.shape[-2] and a.size > 0
    if not is_square or type(n) is not int or n < 1:
        return NotImplemented
    result = power_by_squaring(a, n, lambda x, y: trace.call(np.matmul, (x, y), {}))
    return result.copy() if result is a else result
