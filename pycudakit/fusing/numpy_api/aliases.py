"""Handlers for NumPy functions that reduce to other NumPy functions, in a fused function.

Examples are `linalg.matmul` (`matmul` under another name), `fft.fftshift` (a `roll`) and `linalg.multi_dot`
(products in the cheapest order, found by the dynamic program for matrix chains).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit import errors
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, implements

ALIASES: dict[Any, Handler] = {}
_implements = functools.partial(implements, ALIASES)


def _renamed(function: Any, **defaults: Any) -> Handler:
    def handle(trace: Trace, *arguments: Any, **keywords: Any) -> Any:
        return trace.call(function, arguments, {**defaults, **keywords})

    return handle


ALIASES[np.linalg.matmul] = _renamed(np.matmul)
ALIASES[np.linalg.vecdot] = _renamed(np.vecdot)
ALIASES[np.linalg.tensordot] = _renamed(np.tensordot)
ALIASES[np.linalg.trace] = _renamed(np.trace, axis1=-2, axis2=-1)
ALIASES[np.linalg.diagonal] = _renamed(np.diagonal, axis1=-2, axis2=-1)
ALIASES[np.linalg.matrix_transpose] = _renamed(np.matrix_transpose)


@_implements(np.linalg.matrix_norm)
def _matrix_norm(trace: Trace, x: Any, *, keepdims: Any = False, ord: Any = "fro") -> Any:
    return trace.call(np.linalg.norm, (x, ord, (-2, -1), keepdims), {})


@_implements(np.linalg.outer)
def _outer(trace: Trace, x1: Any, x2: Any) -> Any:
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise errors.Unsupported("linalg.outer takes vectors only")
    return trace.call(np.outer, (x1, x2), {})


@_implements(np.linalg.cross)
def _cross(trace: Trace, x1: Any, x2: Any, *, axis: Any = -1) -> Any:
    if np.shape(x1)[axis] != 3 or np.shape(x2)[axis] != 3:
        raise errors.Unsupported("linalg.cross takes vectors of length 3 only")
    return trace.call(np.cross, (x1, x2), {"axis": axis})


@_implements(np.linalg.vector_norm)
def _vector_norm(trace: Trace, x: Any, *, axis: Any = None, keepdims: Any = False, ord: Any = 2) -> Any:
    if type(x) is not Tracer or not x.ndim:
        raise errors.Unsupported("vector_norm")
    axes = normalize_axis_tuple(range(x.ndim) if axis is None else axis, x.ndim)
    rest = tuple(each for each in range(x.ndim) if each not in axes)
    moved = x if len(axes) == 1 else np.transpose(x, axes + rest)
    if len(axes) > 1:
        moved = moved.reshape((math.prod(x.shape[each] for each in axes), *[x.shape[each] for each in rest]))
    norms = trace.call(np.linalg.norm, (moved, ord, axes[0] if len(axes) == 1 else 0), {})
    if not keepdims:
        return norms
    return norms.reshape(tuple([1 if each in axes else n for each, n in enumerate(x.shape)]))


def _shifted(sign: int) -> Handler:
    def handle(trace: Trace, x: Any, axes: Any = None) -> Any:
        along = tuple(range(x.ndim)) if axes is None else axes if np.iterable(axes) else (axes,)
        by = [sign * (x.shape[each] // 2) for each in along]
        return trace.call(np.roll, (x, by, along), {})

    return handle


ALIASES[np.fft.fftshift], ALIASES[np.fft.ifftshift] = _shifted(1), _shifted(-1)


def _unique(name: str, **outputs: bool) -> None:
    function = getattr(np, name)
    result = type(function(np.zeros(0)))

    def handle(trace: Trace, x: Any) -> Any:
        return result(*trace.call(np.unique, (x,), {**outputs, "equal_nan": False}))

    ALIASES[function] = handle


_unique("unique_all", return_index=True, return_inverse=True, return_counts=True)
_unique("unique_counts", return_counts=True)
_unique("unique_inverse", return_inverse=True)


@_implements(np.array_equiv)
def _array_equiv(trace: Trace, a1: Any, a2: Any) -> bool:
    try:
        np.broadcast_shapes(np.shape(a1), np.shape(a2))
    except ValueError:
        return False
    return bool(trace.resolved(np.all(np.equal(a1, a2))))


@_implements(np.histogram_bin_edges)
def _histogram_bin_edges(trace: Trace, a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    is_number = isinstance(bins, (int, np.integer))
    if type(a) is not Tracer or not a.size or a.dtype == np.bool_ or weights is not None or not is_number:
        raise errors.Unsupported("histogram_bin_edges")
    # NumPy needs only the dtype and the minimum and maximum of the array.
    ends = [0, 0] if range is not None else trace.resolved([np.min(a), np.max(a)])
    return trace.wrap(np.histogram_bin_edges(np.array(ends, a.dtype), bins, trace.resolved(range)))


def _as_matrices(name: str, takes_columns: bool) -> None:
    function = getattr(np, name, None)
    if function is None:  # some are newer than NumPy 2.0
        return

    def handle(_: Trace, x1: Any, x2: Any, *arguments: Any, **keywords: Any) -> Any:
        if arguments or keywords or min(np.ndim(x1), np.ndim(x2)) < 1:
            raise errors.Unsupported(name)
        if takes_columns:
            return np.matmul(x1, x2[..., None])[..., 0]
        return np.matmul(x1[..., None, :], x2)[..., 0, :]

    ALIASES[function] = handle


_as_matrices("matvec", takes_columns=True)
_as_matrices("vecmat", takes_columns=False)


@_implements(np.linalg.multi_dot)
def _multi_dot(_: Trace, arrays: Any, *, out: Any = None) -> Any:
    parts = list(arrays)
    are_matrices = len(parts) > 1 and all(np.ndim(part) == 2 for part in parts[1:-1])
    if not are_matrices or out is not None or not {np.ndim(parts[0]), np.ndim(parts[-1])} <= {1, 2}:
        raise errors.Unsupported("multi_dot")
    is_row, is_column = np.ndim(parts[0]) == 1, np.ndim(parts[-1]) == 1
    parts[0] = np.atleast_2d(parts[0])
    parts[-1] = np.transpose(np.atleast_2d(parts[-1])) if is_column else parts[-1]
    product = _product(parts, _matrix_chain_splits([*(len(part) for part in parts), np.shape(parts[-1])[1]]))
    if is_row and is_column:
        return product[0, 0]
    return product.ravel() if is_row or is_column else product


def _matrix_chain_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return the cheapest split of each run of matrices: the matrix chain order, by dynamic programming.

    Matrix k has `sizes[k]` rows and `sizes[k + 1]` columns. Keys are (first, last); the value is the last
    matrix of the left factor.
    """
    count = len(sizes) - 1
    costs: dict[tuple[int, int], int] = {(each, each): 0 for each in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            costs[first, last], cuts[first, last] = min(
                (
                    costs[first, cut]
                    + costs[cut + 1, last]
                    + sizes[first] * sizes[cut + 1] * sizes[last + 1],
                    cut,
                )
                for cut in range(first, last)
            )
    return cuts


def _product(parts: list[Any], cuts: dict[tuple[int, int], int], first: int = 0, last: int = -1) -> Any:
    last %= len(parts)
    if first == last:
        return parts[first]
    cut = cuts[first, last]
    return np.dot(_product(parts, cuts, first, cut), _product(parts, cuts, cut + 1, last))
