"""NumPy's functions that are others by another name, or in a form of their own, in a fused function."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit import errors
from pycudakit.fusing.arrays.stand_in import StandIn
from pycudakit.fusing.recording.call import Recording
from pycudakit.fusing.recording.shapes import Handler, captures

ALIASES: dict[Any, Handler] = {}
_captures = functools.partial(captures, ALIASES)


def _as(function: Any, **given: Any) -> Handler:
    def handle(recording: Recording, *arguments: Any, **keywords: Any) -> Any:
        return recording.call(function, arguments, {**given, **keywords})

    return handle


ALIASES[np.linalg.matmul] = _as(np.matmul)
ALIASES[np.linalg.vecdot] = _as(np.vecdot)
ALIASES[np.linalg.tensordot] = _as(np.tensordot)
ALIASES[np.linalg.trace] = _as(np.trace, axis1=-2, axis2=-1)
ALIASES[np.linalg.diagonal] = _as(np.diagonal, axis1=-2, axis2=-1)
ALIASES[np.linalg.matrix_transpose] = _as(np.matrix_transpose)


@_captures(np.linalg.matrix_norm)
def _matrix_norm(recording: Recording, x: Any, *, keepdims: Any = False, ord: Any = "fro") -> Any:
    return recording.call(np.linalg.norm, (x, ord, (-2, -1), keepdims), {})


@_captures(np.linalg.outer)
def _outer(recording: Recording, x1: Any, x2: Any) -> Any:
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise errors.Unsupported("outer, of what are no vectors")
    return recording.call(np.outer, (x1, x2), {})


@_captures(np.linalg.cross)
def _cross(recording: Recording, x1: Any, x2: Any, *, axis: Any = -1) -> Any:
    if np.shape(x1)[axis] != 3 or np.shape(x2)[axis] != 3:
        raise errors.Unsupported("cross, of what are no vectors of three")
    return recording.call(np.cross, (x1, x2), {"axis": axis})


@_captures(np.linalg.vector_norm)
def _vector_norm(
    recording: Recording, x: Any, *, axis: Any = None, keepdims: Any = False, ord: Any = 2
) -> Any:
    if type(x) is not StandIn or not x.ndim:
        raise errors.Unsupported("vector_norm")
    axes = normalize_axis_tuple(range(x.ndim) if axis is None else axis, x.ndim)
    rest = tuple(each for each in range(x.ndim) if each not in axes)
    moved = x if len(axes) == 1 else np.transpose(x, axes + rest)
    if len(axes) > 1:
        moved = moved.reshape((math.prod(x.shape[each] for each in axes), *[x.shape[each] for each in rest]))
    found = recording.call(np.linalg.norm, (moved, ord, axes[0] if len(axes) == 1 else 0), {})
    if not keepdims:
        return found
    return found.reshape(tuple([1 if each in axes else n for each, n in enumerate(x.shape)]))


def _shifted(sign: int) -> Handler:
    def handle(recording: Recording, x: Any, axes: Any = None) -> Any:
        along = tuple(range(x.ndim)) if axes is None else axes if np.iterable(axes) else (axes,)
        by = [sign * (x.shape[each] // 2) for each in along]
        return recording.call(np.roll, (x, by, along), {})

    return handle


ALIASES[np.fft.fftshift], ALIASES[np.fft.ifftshift] = _shifted(1), _shifted(-1)


def _unique(name: str, **wanted: bool) -> None:
    function = getattr(np, name)
    result = type(function(np.zeros(0)))

    def handle(recording: Recording, x: Any) -> Any:
        return result(*recording.call(np.unique, (x,), {**wanted, "equal_nan": False}))

    ALIASES[function] = handle


_unique("unique_all", return_index=True, return_inverse=True, return_counts=True)
_unique("unique_counts", return_counts=True)
_unique("unique_inverse", return_inverse=True)


@_captures(np.array_equiv)
def _array_equiv(recording: Recording, a1: Any, a2: Any) -> bool:
    try:
        np.broadcast_shapes(np.shape(a1), np.shape(a2))
    except ValueError:
        return False
    return bool(recording.resolved(np.all(np.equal(a1, a2))))


@_captures(np.histogram_bin_edges)
def _histogram_bin_edges(
    recording: Recording, a: Any, bins: Any = 10, range: Any = None, weights: Any = None
) -> Any:
    is_number = isinstance(bins, (int, np.integer))
    if type(a) is not StandIn or not a.size or a.dtype == np.bool_ or weights is not None or not is_number:
        raise errors.Unsupported("histogram_bin_edges")
    # All that NumPy takes of an array: its type, and the range of its values.
    ends = [0, 0] if range is not None else recording.resolved([np.min(a), np.max(a)])
    return recording.wrap(np.histogram_bin_edges(np.array(ends, a.dtype), bins, recording.resolved(range)))


def _as_matrices(name: str, takes_columns: bool) -> None:
    function = getattr(np, name, None)
    if function is None:  # some are newer than NumPy 2.0
        return

    def handle(_: Recording, x1: Any, x2: Any, *arguments: Any, **keywords: Any) -> Any:
        if arguments or keywords or min(np.ndim(x1), np.ndim(x2)) < 1:
            raise errors.Unsupported(name)
        if takes_columns:
            return np.matmul(x1, x2[..., None])[..., 0]
        return np.matmul(x1[..., None, :], x2)[..., 0, :]

    ALIASES[function] = handle


_as_matrices("matvec", takes_columns=True)
_as_matrices("vecmat", takes_columns=False)
