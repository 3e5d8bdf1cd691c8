"""Handlers for broadcasting and index grids in a fused function: `broadcast_arrays`, `meshgrid`, `ix_`."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.numpy_api.joining import tracers_of_arrays
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, broadcast_copy, implements

GRIDS: dict[Any, Handler] = {}
_implements = functools.partial(implements, GRIDS)


def _as_arrays(trace: Trace, values: Any) -> list[Any]:
    arrays = tracers_of_arrays(trace, values)
    if any(type(each) is not Tracer for each in arrays):
        raise errors.Unsupported("arrays of dtypes that only NumPy has")
    return [_as_array(trace, each) for each in arrays]


def _as_array(trace: Trace, a: Tracer) -> Any:
    return trace.call(np.copy, (a,), {}) if a.is_scalar else a


@_implements(np.broadcast_arrays)
def _broadcast_arrays(trace: Trace, *args: Any, subok: Any = False) -> Any:
    del subok
    arrays = _as_arrays(trace, args)
    shape = np.broadcast_shapes(*(each.shape for each in arrays))
    shape_only = np.broadcast_to(np.int8(0), shape)
    return tuple(
        each if each.shape == shape else trace.view(each, lambda a: np.broadcast_arrays(a, shape_only)[0])
        for each in arrays
    )


_VIEWS: Any = type(np.meshgrid(0, sparse=True, copy=False))  # a list, before NumPy 2.5


@_implements(np.meshgrid)
def _meshgrid(trace: Trace, *xi: Any, copy: Any = True, sparse: Any = False, indexing: Any = "xy") -> Any:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    axes = list(range(len(xi)))
    if indexing == "xy":
        axes[:2] = axes[:2][::-1]
    axis_arrays: Any = [
        each.reshape(tuple([-1 if axis == along else 1 for axis in range(len(xi))]))
        for each, along in zip(_as_arrays(trace, xi), axes, strict=True)
    ]
    if copy:
        shape = np.broadcast_shapes(*(each.shape for each in axis_arrays))
        return tuple([broadcast_copy(trace, each, each.shape if sparse else shape) for each in axis_arrays])
    return _VIEWS(axis_arrays) if sparse else _broadcast_arrays(trace, *axis_arrays)


@_implements(np.ix_)
def _ix(_: Trace, *args: Any) -> Any:
    index_arrays = []
    for axis, sequence in enumerate(args):
        each = sequence if type(sequence) is Tracer else np.asarray(sequence)
        if not each.size and type(sequence) is not Tracer and not isinstance(sequence, np.ndarray):
            each = each.astype(np.intp)
        if each.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if each.dtype == np.bool_:
            (each,) = np.nonzero(each)
        index_arrays.append(each.reshape((1,) * axis + (each.size,) + (1,) * (len(args) - axis - 1)))
    return tuple(index_arrays)


# ---- Flat indices ---------------------------------------------------------------------------------------


def _lengths(trace: Trace, shape: Any) -> tuple[int, ...]:
    shape = trace.resolved(shape)
    return tuple(map(operator.index, shape if np.iterable(shape) else (shape,)))


def _steps(lengths: tuple[int, ...], order: Any) -> list[int]:
    """Return the stride of each axis, in elements, in C or Fortran order."""
    if order not in ("C", "F"):
        raise errors.Unsupported("an order other than C or F")
    within = [lengths[k + 1 :] if order == "C" else lengths[:k] for k in range(len(lengths))]
    return [math.prod(each) for each in within]


def _as_numbers(a: Any) -> Any:
    if type(a) is not Tracer or not np.can_cast(a.dtype, np.intp) or a.dtype == np.bool_ or not a.size:
        raise errors.Unsupported("no integer indices")
    return a if a.dtype == np.intp else a.astype(np.intp)


def _are_within(trace: Trace, a: Any, length: int) -> bool:
    return not trace.branches_on(np.any((a < 0) | (a >= length)))


@_implements(np.unravel_index)
def _unravel_index(trace: Trace, indices: Any, shape: Any, order: Any = "C") -> Any:
    lengths = _lengths(trace, shape)
    steps, numbers = _steps(lengths, order), _as_numbers(indices)
    if not lengths or not _are_within(trace, numbers, math.prod(lengths)):
        raise errors.Unsupported("an index that is out of bounds")
    return tuple(numbers // step % length for step, length in zip(steps, lengths, strict=True))


@_implements(np.ravel_multi_index)
def _ravel_multi_index(
    trace: Trace, multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C"
) -> Any:
    lengths = _lengths(trace, dims)
    coordinates = tracers_of_arrays(trace, multi_index)
    modes = (mode,) * len(lengths) if isinstance(mode, str) else tuple(mode)
    if not lengths or len(coordinates) != len(lengths) or len(modes) != len(lengths) or 0 in lengths:
        raise errors.Unsupported("indices that do not match dims")
    flat_indices: Any = 0
    for each, length, step, rule in zip(coordinates, lengths, _steps(lengths, order), modes, strict=True):
        numbers = _as_numbers(each)
        if rule == "wrap":
            numbers = numbers % length
        elif rule == "clip":
            numbers = np.clip(numbers, 0, length - 1)
        elif rule != "raise" or not _are_within(trace, numbers, length):
            raise errors.Unsupported("an index that is out of bounds")
        flat_indices = numbers * step + flat_indices
    return flat_indices
