"""Views and new arrays, in a fused function."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime import operands
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.nodes import PLAIN, Node, leaf
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.trace.elementwise import conversion
from pycudakit.fusing.trace.trace import Recording

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


@_captures(np.lib.stride_tricks.sliding_window_view)
def _sliding_window_view(
    recording: Recording,
    x: Any,
    window_shape: Any,
    axis: Any = None,
    *,
    subok: Any = False,
    writeable: Any = False,
) -> Any:
    del subok
    if writeable:  # whose elements are written one after the other
        return NotImplemented
    return _view(np.lib.stride_tricks.sliding_window_view)(recording, x, window_shape, axis)


def _split(function: Any) -> Handler:
    def handle(recording: Recording, a: Any, *arguments: Any, **keywords: Any) -> Any:
        if type(a) is not StandIn:
            return recording.on_host(function, (a, *arguments), keywords)
        parts = function(recording.store(a), *recording.resolved(arguments), **keywords)
        return [StandIn(recording, leaf(part, a.node.storage)) for part in parts]

    return handle


for _name in ("split", "array_split", "hsplit", "vsplit", "dsplit"):
    SHAPES[getattr(np, _name)] = _split(getattr(np, _name))


if hasattr(np, "unstack"):  # which is newer than NumPy 2.0

    @_captures(np.unstack)
    def _unstack(_: Recording, x: Any, /, *, axis: Any = 0) -> Any:
        if x.ndim == 0:
            raise ValueError("Input array must be at least 1-d.")
        return tuple(np.moveaxis(x, axis, 0))


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


_OF_TYPES = """can_cast common_type diag_indices_from einsum_path result_type tril_indices_from
triu_indices_from"""
for _name in _OF_TYPES.split():
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


def is_laid_out_anew(a: StandIn) -> bool:
    """Tell whether what is sorted of an array may lie in C order: on the host, it lies as the array does."""
    return bool(a.ndim == 1 or a.flags.c_contiguous or a.recording.memory.stream)


def outline(a: StandIn) -> Array:
    """Return what lies in memory as a stand-in's array does, or will, and is not to be read."""
    node = a.node
    if node.array is not None:
        return node.array
    if node.order == "C":
        return np.empty(node.shape, node.dtype)
    whole = [array for array in node.laid_out_by() if array.shape == node.shape]
    return operands.allocate(node.dtype, node.shape, whole)


def in_order(a: Any) -> Any:
    """Return an array, or a copy if it is not in C's order, in which NumPy makes some."""
    return a if type(a) is not StandIn or outline(a).flags.c_contiguous else a.copy()


def new(recording: Recording, array: Array) -> StandIn:
    """Return what stands for an array that nobody has written to."""
    made = recording.stand_in(array)
    if made.node.storage is not None:
        made.node.storage.keep(residency.TEMPORARY)
    return made


def empty(recording: Recording, shape: Any, dtype: Any = float, order: Any = "C") -> StandIn:
    """Return what stands for a new array."""
    return new(recording, np.empty(shape, dtype, order))


def numbers(recording: Recording, count: int) -> Any:
    """Return the integers from 0 on: made on the device, where nobody waits for what goes up."""
    if not recording.memory.scope.queues:
        return np.arange(count)
    return recording.call(np.cumsum, (full(recording, count, 1, np.intp),), {}) - 1


def full(recording: Recording, shape: Any, value: Any, dtype: Any, order: Any = "C") -> StandIn:
    """Return what stands for a new array of one value."""
    number = np.asarray(value, dtype)
    if recording.engine != "cuda" or order not in ("C", "K", None):
        is_zero = not number and not (number.dtype.kind == "f" and np.signbit(number))
        make = np.zeros(shape, dtype, order) if is_zero else np.full(shape, number, dtype, order)
        return recording.stand_in(make)
    sizes = (
        tuple(map(operator.index, shape)) if isinstance(shape, (tuple, list)) else (operator.index(shape),)
    )
    return recording.put_off(
        StandIn(recording, Node(conversion(number.dtype), (leaf(number),), PLAIN, number.dtype, sizes))
    )


def spread(recording: Recording, a: StandIn, shape: tuple[int, ...]) -> StandIn:
    """Return a copy that an array is broadcast to, which is put off: what reads it may read the array."""
    recording.store(a)
    node = a.node
    made = recording.put_off(
        StandIn(recording, Node(conversion(node.dtype), (node,), PLAIN, node.dtype, shape))
    )
    if node.storage is not None and node.storage.is_shared:
        recording.store(made)
    return made


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
        if type(prototype) is not StandIn:
            return np.zeros(sizes, dtype) if not value else np.ones(sizes, dtype)
        made = np.empty_like(outline(prototype), dtype, order, shape=shape)
        if dtype not in CODES:
            if value is not None:
                made[...] = value
            return made
        if value is None:
            return new(recording, made)
        if made.flags.c_contiguous:
            return full(recording, made.shape, value, dtype)
        return _filled(recording, new(recording, made), value)

    return handle


SHAPES[np.zeros_like], SHAPES[np.ones_like], SHAPES[np.empty_like] = _like(0), _like(1), _like(None)


@_captures(np.full_like)
def _full_like(recording: Recording, a: Any, fill_value: Any, *arguments: Any, **keywords: Any) -> Any:
    made = SHAPES[np.empty_like](recording, a, *arguments, **keywords)
    if type(made) is not StandIn:
        made[...] = recording.resolved(fill_value)
        return made
    return _filled(recording, made, fill_value)
