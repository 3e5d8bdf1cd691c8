"""Handlers for joining and repeating arrays in a fused function: `concatenate`, `stack`, `roll`, `tile`."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from pycudakit._native.dtypes import Array
from pycudakit._runtime.operands import axis_index
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, empty, full, implements, layout_stub, new

TOGETHER: dict[Any, Handler] = {}
_implements = functools.partial(implements, TOGETHER)


def along(axis: int, part: Any) -> tuple[Any, ...]:
    """Return the index tuple that applies `part` to one axis."""
    return (*(slice(None),) * axis, part)


def tracers_of_arrays(trace: Trace, values: Any) -> list[Any]:
    """Return a tracer for each array; values of unsupported dtypes, and of subclasses, stay as they are."""
    return [value if _is_of_subclass(value) else trace.lift(value) for value in values]


def _is_of_subclass(value: Any) -> bool:
    kind = type(value)
    return kind not in (Tracer, np.ndarray, np.memmap) and issubclass(kind, np.ndarray)


@_implements(np.concatenate)
def _concatenate(trace: Trace, arrays: Any, /, axis: Any = 0, out: Any = None, **keywords: Any) -> Any:
    if type(arrays) is Tracer:
        arrays = list(arrays)
    parts = tracers_of_arrays(trace, arrays)
    if out is not None or keywords or any(type(part) is not Tracer for part in parts):
        options = keywords if out is None else {"out": out, **keywords}
        result = trace.on_host(np.concatenate, (list(arrays), axis), options, out is not None)
        return result if out is None else out
    if axis is None:
        parts = _promote_numbers(arrays, parts)
        parts, axis = [part.ravel() for part in parts], 0
    _check_shapes([part.shape for part in parts], axis)
    axis = axis_index(axis, parts[0].ndim)
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    order = _common_order([trace.materialize(part) for part in parts])
    dtype = np.result_type(*(part.dtype for part in parts))
    inverse_order = tuple(order.index(d) for d in range(len(order)))
    in_order = np.empty([shape[d] for d in order], dtype).transpose(inverse_order)
    joined = new(trace, np.empty_like(in_order))
    offset = 0
    for part in parts:
        length = part.shape[axis]
        if length:
            trace.set(joined, along(axis, slice(offset, offset + length)), part)
        offset += length
    return joined


def _promote_numbers(values: Sequence[Any], parts: list[Any]) -> list[Any]:
    """Cast the parts that were Python numbers to the common dtype (NEP 50 weak scalars)."""
    are_numbers = [type(value) in (int, float) for value in values]
    if all(are_numbers) or not any(are_numbers):
        return parts
    each = zip(values, parts, are_numbers, strict=True)
    dtype = np.result_type(*(value if is_number else part.dtype for value, part, is_number in each))
    return [part.astype(dtype) if n else part for part, n in zip(parts, are_numbers, strict=True)]


def _common_order(arrays: Sequence[Array]) -> list[int]:
    """Return the axes of the result, outermost in memory first, as `np.concatenate` lays it out.

    An axis goes inside another if its stride is smaller in all arrays. If the arrays disagree, C order wins.
    """
    order: list[int] = []
    for axis in range(arrays[0].ndim):
        position = axis
        for outer in reversed(range(axis)):
            goes_within = [
                abs(array.strides[order[outer]]) >= abs(array.strides[axis])
                for array in arrays
                if 1 not in (array.shape[order[outer]], array.shape[axis])
            ]
            if any(goes_within):
                break
            if goes_within:
                position = outer
        order.insert(position, axis)
    return order


def _check_shapes(shapes: list[tuple[int, ...]], axis: Any) -> None:
    """Raise NumPy's errors for shapes that cannot be concatenated."""
    fits = bool(shapes) and -len(shapes[0]) <= axis < len(shapes[0])
    for shape in shapes[1:] if fits else ():
        along = range(len(shapes[0]))[axis]
        fits = len(shape) == len(shapes[0]) and all(
            d == along or n == m for d, (n, m) in enumerate(zip(shape, shapes[0], strict=True))
        )
        if not fits:
            break
    if not fits:  # views of one element: NumPy checks the shapes before it copies
        np.concatenate([np.broadcast_to(np.int8(0), shape) for shape in shapes], axis=axis)


def _stack(trace: Trace, arrays: Any, axis: Any = 0, out: Any = None, **keywords: Any) -> Any:
    parts = tracers_of_arrays(trace, arrays)
    if len({part.shape for part in parts}) > 1:
        raise ValueError("all input arrays must have the same shape")
    if not parts:
        raise ValueError("need at least one array to stack")
    new_axis = normalize_axis_index(axis, parts[0].ndim + 1)
    expanded = [part[along(new_axis, None)] for part in parts]
    return trace.call(
        np.concatenate, (expanded, new_axis), {"out": out, **keywords} if out is not None else keywords
    )


def _stack_handler(at_least: Any, axis: Callable[[Sequence[Any]], int]) -> Handler:
    def handle(trace: Trace, tup: Any, **keywords: Any) -> Any:
        parts = [trace.call(at_least, (part,), {}) for part in tracers_of_arrays(trace, tup)]
        return trace.call(np.concatenate, (parts, axis(parts)), keywords)

    return handle


@_implements(np.append)
def _append(trace: Trace, arr: Any, values: Any, axis: Any = None) -> Any:
    parts = tracers_of_arrays(trace, (arr, values))
    return trace.call(np.concatenate, (parts, axis), {})


@_implements(np.column_stack)
def _column_stack(trace: Trace, tup: Any) -> Any:
    parts = [part[..., None] if part.ndim == 1 else part for part in tracers_of_arrays(trace, tup)]
    return trace.call(np.concatenate, ([part[None] if not part.ndim else part for part in parts], 1), {})


@_implements(np.diagflat)
def _diagflat(trace: Trace, v: Any, k: Any = 0) -> Any:
    return trace.call(np.diag, (np.ravel(v), k), {})


@_implements(np.diag)
def _diag(trace: Trace, v: Any, k: Any = 0) -> Any:
    if v.ndim == 2:
        return np.diagonal(v, k)
    if v.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    k = operator.index(k)
    length = v.size + abs(k)
    result = full(trace, (length, length), 0, v.dtype)
    first = k if k >= 0 else -k * length
    diagonal = slice(first, first + v.size * (length + 1), length + 1)
    trace.set(result.reshape(-1), diagonal, v)
    return result


TOGETHER[np.stack] = _stack
TOGETHER[np.vstack] = _stack_handler(np.atleast_2d, lambda _: 0)
TOGETHER[np.hstack] = _stack_handler(np.atleast_1d, lambda parts: 0 if parts[0].ndim == 1 else 1)
TOGETHER[np.dstack] = _stack_handler(np.atleast_3d, lambda _: 2)


@_implements(np.roll)
def _roll(trace: Trace, a: Any, shift: Any, axis: Any = None) -> Any:
    if type(a) is not Tracer or a.is_scalar:
        return trace.on_host(np.roll, (a, shift, axis), {})
    if axis is None:
        return trace.call(np.roll, (a.ravel(), shift, 0), {}).reshape(a.shape)
    axes = normalize_axis_tuple(axis, a.ndim, allow_duplicate=True)
    pairs = np.broadcast(trace.resolved(shift), axes)
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    shifts = dict.fromkeys(range(a.ndim), 0)
    for shift_by, each in pairs:
        shifts[each] += int(shift_by)
    # For each axis: the (source, target) slices of its one or two moves.
    moves = [_roll_slices(shifts[each], length) for each, length in enumerate(a.shape)]
    result = new(trace, np.empty_like(layout_stub(a)))
    for parts in itertools.product(*moves):
        source, target = zip(*parts, strict=True) if parts else ((), ())
        trace.set(result, target, a[source])
    return result


def _roll_slices(shift: int, length: int) -> list[tuple[slice, slice]]:
    offset = shift % length if length else 0
    if not offset:
        return [(slice(None), slice(None))]
    return [
        (slice(0, length - offset), slice(offset, None)),
        (slice(length - offset, None), slice(0, offset)),
    ]


@_implements(np.resize)
def _resize(trace: Trace, a: Any, new_shape: Any) -> Any:
    shape = trace.resolved(new_shape)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if min(shape, default=0) < 0:
        raise ValueError("all elements of `new_shape` must be non-negative")
    size = math.prod(shape)
    if not size or not np.size(a):
        return np.zeros_like(a, shape=shape)
    repeats = -(-size // a.size)
    return trace.call(np.tile, (a.ravel(), repeats), {})[:size].reshape(shape)


@_implements(np.tile)
def _tile(trace: Trace, A: Any, reps: Any) -> Any:  # noqa: N803
    counts = _counts(trace.resolved(reps))
    if type(A) is not Tracer or counts is None or min(counts, default=0) < 0:
        return trace.on_host(np.tile, (A, reps), {})
    counts = (1,) * (A.ndim - len(counts)) + counts
    if {*counts} <= {1}:
        return A.reshape((1,) * (len(counts) - A.ndim) + A.shape).copy("K")
    shape = (1,) * (len(counts) - A.ndim) + A.shape
    result = empty(trace, tuple(x for pair in zip(counts, shape, strict=True) for x in pair), A.dtype)
    trace.set(result, ..., A.reshape(tuple(x for n in shape for x in (1, n))))
    return result.reshape(tuple(c * n for c, n in zip(counts, shape, strict=True)))


def _counts(reps: Any) -> tuple[int, ...] | None:
    """Return the repetitions along each axis; None if they are not integers."""
    try:
        return tuple([int(operator.index(each)) for each in (reps if np.iterable(reps) else (reps,))])
    except TypeError:
        return None


@_implements(np.repeat)
def _repeat(trace: Trace, a: Any, repeats: Any, axis: Any = None) -> Any:
    if type(a) is not Tracer or not isinstance(repeats, int):
        return trace.on_host(np.repeat, (a, repeats, axis), {})
    if axis is None or a.ndim == 0:
        a, axis = a.ravel(), 0 if axis is None else axis
    repeat_axis, repeats = axis_index(axis, a.ndim), int(repeats)
    before, length, after = a.shape[:repeat_axis], a.shape[repeat_axis], a.shape[repeat_axis + 1 :]
    result = empty(trace, (*before, length * repeats, *after), a.dtype)
    copies = result.reshape((*before, length, repeats, *after))
    trace.set(copies, ..., a[along(repeat_axis + 1, None)])
    return result
