"""Views, new arrays, and arrays put together, in a fused function."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._calls import operands
from pycudakit._library.types import CODES, Array
from pycudakit.fusing import device
from pycudakit.fusing.elements import conversion
from pycudakit.fusing.nodes import PLAIN, Node, leaf
from pycudakit.fusing.recording import Recording
from pycudakit.fusing.stand_in import StandIn

Handler = Callable[..., Any]
SHAPES: dict[Any, Handler] = {}


def captures(table: dict[Any, Handler], *functions: Any) -> Callable[[Handler], Handler]:
    """Have a handler take functions of NumPy's."""

    def decorate(handler: Handler) -> Handler:
        for function in functions:
            table[function] = handler
        return handler

    return decorate


_captures = functools.partial(captures, SHAPES)

# ---- Views ------------------------------------------------------------------------------------------


def _view(function: Any) -> Handler:
    def handle(recording: Recording, a: Any, *arguments: Any, **keywords: Any) -> Any:
        if type(a) is not StandIn:
            return recording.on_host(function, (a, *arguments), keywords)
        rest, named = recording.resolved(arguments), recording.resolved(keywords)
        return recording.view(a, lambda array: function(array, *rest, **named))

    return handle


_VIEWS = """broadcast_to diagonal expand_dims flip fliplr flipud matrix_transpose moveaxis permute_dims ravel
reshape rollaxis rot90 squeeze swapaxes transpose"""
for _name in _VIEWS.split():
    if hasattr(np, _name):  # some are newer than NumPy 2.0
        SHAPES[getattr(np, _name)] = _view(getattr(np, _name))


def _split(function: Any) -> Handler:
    def handle(recording: Recording, a: Any, *arguments: Any, **keywords: Any) -> Any:
        if type(a) is not StandIn:
            return recording.on_host(function, (a, *arguments), keywords)
        parts = function(recording.store(a), *recording.resolved(arguments), **keywords)
        return [StandIn(recording, leaf(part, a.node.storage)) for part in parts]

    return handle


for _name in ("split", "array_split", "hsplit", "vsplit", "dsplit"):
    SHAPES[getattr(np, _name)] = _split(getattr(np, _name))


def _at_least(function: Any) -> Handler:
    def handle(recording: Recording, *arrays: Any) -> Any:
        found = [
            recording.view(a, function) if type(a) is StandIn else recording.wrap(function(a)) for a in arrays
        ]
        return found[0] if len(found) == 1 else tuple(found)

    return handle


for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    SHAPES[getattr(np, _name)] = _at_least(getattr(np, _name))

SHAPES[np.shape] = lambda _, a: a.shape
SHAPES[np.ndim] = lambda _, a: a.ndim
SHAPES[np.real] = lambda _, val: val
SHAPES[np.iscomplexobj] = lambda *_: False
SHAPES[np.isrealobj] = lambda *_: True


@_captures(np.size)
def _size(_: Recording, a: Any, axis: Any = None) -> Any:
    if axis is None:
        return a.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    size = 1
    for each in axes:
        size *= a.shape[each]
    return size


def _of_types(function: Any) -> Handler:
    def handle(_: Recording, *arguments: Any, **keywords: Any) -> Any:
        return function(*(_without_elements(a) if type(a) is StandIn else a for a in arguments), **keywords)

    return handle


def _without_elements(a: StandIn) -> Any:
    return np.broadcast_to(np.zeros((), a.dtype), a.shape)


for _name in ("result_type", "can_cast"):
    SHAPES[getattr(np, _name)] = _of_types(getattr(np, _name))


@_captures(np.may_share_memory, np.shares_memory)
def _shares(recording: Recording, a: Any, b: Any, *_: Any, **__: Any) -> bool:
    first, second = (recording.store(x) if type(x) is StandIn else x for x in (a, b))
    return bool(np.may_share_memory(first, second))


# ---- Copies and new arrays --------------------------------------------------------------------------


@_captures(np.astype, np.ndarray.astype)
def _astype(
    recording: Recording, x: Any, dtype: Any, *arguments: Any, copy: bool = True, **keywords: Any
) -> Any:
    wanted = np.dtype(dtype)
    casting = arguments[1] if len(arguments) > 1 else keywords.get("casting", "unsafe")
    if wanted not in CODES or not np.can_cast(x.dtype, wanted, casting):
        return recording.on_host(lambda a: a.astype(dtype, *arguments, copy=copy, **keywords), (x,), {})
    turned = _turned(recording, x, wanted, arguments[0] if arguments else keywords.get("order", "K"))
    if turned is not None:
        return turned
    return x if wanted == x.dtype and not copy else _converted(recording, x, wanted)


@_captures(np.copy)
def _copy(recording: Recording, a: Any, order: Any = "K", subok: bool = False) -> Any:
    del subok
    turned = _turned(recording, a, a.dtype, order)
    if turned is not None:
        return turned
    result = _converted(recording, a, a.dtype.newbyteorder("="))
    result.is_scalar = False
    return result


def _converted(recording: Recording, x: StandIn, dtype: Any) -> StandIn:
    result: StandIn = recording.apply(conversion(dtype), (x,))
    result.is_scalar = x.is_scalar
    return result


def _turned(recording: Recording, a: StandIn, dtype: Any, order: Any) -> StandIn | None:
    """Return a copy in an order that an array has not; None where its own will do."""
    if a.is_scalar or order not in ("C", "F", "A"):
        return None
    flags = outline(a).flags
    if order == "A":
        order = "F" if flags.fnc else "C"
    return None if flags[order] else _filled(recording, empty(recording, a.shape, dtype, order), a)


def _filled(recording: Recording, made: StandIn, value: Any) -> StandIn:
    recording.set(made, ..., value)
    return made


def outline(a: StandIn) -> Array:
    """Return what lies in memory as a stand-in's array does, or will, and is not to be read."""
    node = a.node
    if node.array is not None:
        return node.array
    whole = [array for array in node.leaves() if array.shape == node.shape]
    if all(array.flags.c_contiguous for array in whole):
        return np.empty(node.shape, node.dtype)
    return operands.allocate(node.dtype, node.shape, whole)


def _new(recording: Recording, array: Array) -> StandIn:
    made = recording.stand_in(array)
    if made.node.storage is not None:
        made.node.storage.keep(device.TEMPORARY)
    return made


def empty(recording: Recording, shape: Any, dtype: Any = float, order: Any = "C") -> StandIn:
    """Return what stands for a new array."""
    return _new(recording, np.empty(shape, dtype, order))


def full(recording: Recording, shape: Any, value: Any, dtype: Any, order: Any = "C") -> StandIn:
    """Return what stands for a new array of one value."""
    number = np.asarray(value, dtype)
    if recording.engine != "cuda" or order not in ("C", "K", None):
        make = np.full(shape, number, dtype, order) if value else np.zeros(shape, dtype, order)
        return recording.stand_in(make)
    sizes = (
        tuple(map(operator.index, shape)) if isinstance(shape, (tuple, list)) else (operator.index(shape),)
    )
    return recording.put_off(
        StandIn(recording, Node(conversion(number.dtype), (leaf(number),), PLAIN, number.dtype, sizes))
    )


def _like(value: Any) -> Handler:
    def handle(
        recording: Recording,
        prototype: Any,
        dtype: Any = None,
        order: Any = "K",
        subok: bool = True,
        shape: Any = None,
        **_: Any,
    ) -> Any:
        del subok
        dtype = np.dtype(prototype.dtype if dtype is None else dtype)
        sizes = prototype.shape if shape is None else shape
        if dtype not in CODES or type(prototype) is not StandIn:
            return np.zeros(sizes, dtype) if not value else np.ones(sizes, dtype)
        made = np.empty_like(outline(prototype), dtype, order, shape=shape)
        if value is None:
            return _new(recording, made)
        if made.flags.c_contiguous:
            return full(recording, made.shape, value, dtype)
        return _filled(recording, _new(recording, made), value)

    return handle


SHAPES[np.zeros_like], SHAPES[np.ones_like], SHAPES[np.empty_like] = _like(0), _like(1), _like(None)


@_captures(np.full_like)
def _full_like(recording: Recording, a: Any, fill_value: Any, *arguments: Any, **keywords: Any) -> Any:
    return _filled(recording, SHAPES[np.empty_like](recording, a, *arguments, **keywords), fill_value)


# ---- Put together -----------------------------------------------------------------------------------


def _along(axis: int, part: Any) -> tuple[Any, ...]:
    """Return the index of a part along an axis, or of a new one."""
    return (*(slice(None),) * axis, part)


def _arrays_of(recording: Recording, values: Any) -> list[Any]:
    return [value if type(value) is StandIn else recording.wrap(np.asarray(value)) for value in values]


@_captures(np.concatenate)
def _concatenate(
    recording: Recording, arrays: Any, /, axis: Any = 0, out: Any = None, **keywords: Any
) -> Any:
    if type(arrays) is StandIn:
        arrays = list(arrays)
    parts = _arrays_of(recording, arrays)
    if out is not None or keywords or any(type(part) is not StandIn for part in parts):
        given = keywords if out is None else {"out": out, **keywords}
        result = recording.on_host(np.concatenate, (list(arrays), axis), given, out is not None)
        return result if out is None else out
    if axis is None:
        parts, axis = [part.ravel() for part in parts], 0
    _check_together([part.shape for part in parts], axis)
    axis = normalize_axis_index(axis, parts[0].ndim)
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    order = _order_together([recording.store(part) for part in parts])
    dtype = np.result_type(*(part.dtype for part in parts))
    places = tuple(order.index(d) for d in range(len(order)))
    made = _new(recording, np.empty([shape[d] for d in order], dtype).transpose(places))
    at = 0
    for part in parts:
        length = part.shape[axis]
        if length:
            recording.set(made, _along(axis, slice(at, at + length)), part)
        at += length
    return made


def _order_together(arrays: Sequence[Array]) -> list[int]:
    """Return an array's axes, from the outermost in memory, as NumPy lays out what it puts together.

    An axis goes within another where arrays have that: where they differ, the order is C's.
    """
    order: list[int] = []
    for axis in range(arrays[0].ndim):
        place = axis
        for before in reversed(range(axis)):
            goes_within = [
                abs(array.strides[order[before]]) >= abs(array.strides[axis])
                for array in arrays
                if 1 not in (array.shape[order[before]], array.shape[axis])
            ]
            if any(goes_within):
                break
            if goes_within:
                place = before
        order.insert(place, axis)
    return order


def _check_together(shapes: list[tuple[int, ...]], axis: Any) -> None:
    """Raise NumPy's errors for shapes that do not go together."""
    fits = bool(shapes) and -len(shapes[0]) <= axis < len(shapes[0])
    for shape in shapes[1:] if fits else ():
        along = range(len(shapes[0]))[axis]
        fits = len(shape) == len(shapes[0]) and all(
            d == along or n == m for d, (n, m) in enumerate(zip(shape, shapes[0], strict=True))
        )
        if not fits:
            break
    if not fits:  # views of one element: NumPy looks at shapes alone before it copies
        np.concatenate([np.broadcast_to(np.int8(0), shape) for shape in shapes], axis=axis)


def _stack(recording: Recording, arrays: Any, axis: Any = 0, out: Any = None, **keywords: Any) -> Any:
    parts = _arrays_of(recording, arrays)
    if len({part.shape for part in parts}) > 1:
        raise ValueError("all input arrays must have the same shape")
    if not parts:
        raise ValueError("need at least one array to stack")
    place = normalize_axis_index(axis, parts[0].ndim + 1)
    expanded = [part[_along(place, None)] for part in parts]
    return recording.call(
        np.concatenate, (expanded, place), {"out": out, **keywords} if out is not None else keywords
    )


def _beside(at_least: Any, axis: Callable[[Sequence[Any]], int]) -> Handler:
    def handle(recording: Recording, tup: Any, **keywords: Any) -> Any:
        parts = [recording.call(at_least, (part,), {}) for part in _arrays_of(recording, tup)]
        return recording.call(np.concatenate, (parts, axis(parts)), keywords)

    return handle


@_captures(np.append)
def _append(recording: Recording, arr: Any, values: Any, axis: Any = None) -> Any:
    parts = _arrays_of(recording, (arr, values))
    return recording.call(np.concatenate, (parts, axis), {})


@_captures(np.column_stack)
def _column_stack(recording: Recording, tup: Any) -> Any:
    parts = [part[..., None] if part.ndim == 1 else part for part in _arrays_of(recording, tup)]
    return recording.call(np.concatenate, ([part[None] if not part.ndim else part for part in parts], 1), {})


@_captures(np.diag)
def _diag(recording: Recording, v: Any, k: Any = 0) -> Any:
    if v.ndim != 1:
        return np.diagonal(v, k)
    k = operator.index(k)
    length = v.size + abs(k)
    made = full(recording, (length, length), 0, v.dtype)
    first = k if k >= 0 else -k * length
    places = slice(first, first + v.size * (length + 1), length + 1)
    recording.set(made.reshape(-1), places, v)
    return made


SHAPES[np.stack] = _stack
SHAPES[np.vstack] = _beside(np.atleast_2d, lambda _: 0)
SHAPES[np.hstack] = _beside(np.atleast_1d, lambda parts: 0 if parts[0].ndim == 1 else 1)
SHAPES[np.dstack] = _beside(np.atleast_3d, lambda _: 2)


@_captures(np.roll)
def _roll(recording: Recording, a: Any, shift: Any, axis: Any = None) -> Any:
    if type(a) is not StandIn or not isinstance(shift, int) or not (axis is None or isinstance(axis, int)):
        return recording.on_host(np.roll, (a, shift, axis), {})
    if axis is None:
        return recording.call(np.roll, (a.ravel(), shift, 0), {}).reshape(a.shape)
    place = normalize_axis_index(axis, a.ndim)
    length = a.shape[place]
    by = shift % length if length else 0
    made = _new(recording, np.empty_like(outline(a)))
    recording.set(made, _along(place, slice(by, None)), a[_along(place, slice(0, length - by))])
    recording.set(made, _along(place, slice(0, by)), a[_along(place, slice(length - by, None))])
    return made


@_captures(np.tile)
def _tile(recording: Recording, A: Any, reps: Any) -> Any:  # noqa: N803
    counts = (reps,) if isinstance(reps, int) else tuple(reps)
    if type(A) is not StandIn:
        return recording.on_host(np.tile, (A, reps), {})
    counts = (1,) * (A.ndim - len(counts)) + counts
    shape = (1,) * (len(counts) - A.ndim) + A.shape
    made = empty(recording, tuple(x for pair in zip(counts, shape, strict=True) for x in pair), A.dtype)
    recording.set(made, ..., A.reshape(tuple(x for n in shape for x in (1, n))))
    return made.reshape(tuple(c * n for c, n in zip(counts, shape, strict=True)))


@_captures(np.repeat)
def _repeat(recording: Recording, a: Any, repeats: Any, axis: Any = None) -> Any:
    if type(a) is not StandIn or not isinstance(repeats, int):
        return recording.on_host(np.repeat, (a, repeats, axis), {})
    if axis is None:
        a, axis = a.ravel(), 0
    place = normalize_axis_index(axis, a.ndim)
    shape = (*a.shape[: place + 1], repeats, *a.shape[place + 1 :])
    made = empty(recording, shape, a.dtype)
    recording.set(made, ..., a[_along(place + 1, None)])
    return made.reshape((*a.shape[:place], a.shape[place] * repeats, *a.shape[place + 1 :]))
