"""Handlers of NumPy functions that make views, copies and new arrays, and helpers to allocate them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime import operands
from pycudakit.fusing.memory import residency
from pycudakit.fusing.memory.nodes import DEFAULT_OPTIONS, Node, leaf, order_of
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.memory.tracer_methods import astype
from pycudakit.fusing.trace.elementwise import conversion
from pycudakit.fusing.trace.trace import Trace

Handler = Callable[..., Any]
SHAPES: dict[Any, Handler] = {}


def implements(table: dict[Any, Handler], *functions: Any) -> Callable[[Handler], Handler]:
    """Return a decorator that registers a handler for NumPy functions in a table."""

    def decorate(handler: Handler) -> Handler:
        for function in functions:
            table[function] = handler
        return handler

    return decorate


_implements = functools.partial(implements, SHAPES)

# ---- Views ------------------------------------------------------------------------------------------


def _view(function: Any) -> Handler:
    def handle(trace: Trace, a: Any, *arguments: Any, **keywords: Any) -> Any:
        if type(a) is not Tracer:
            return trace.on_host(function, (a, *arguments), keywords)
        rest, named = trace.resolved(arguments), trace.resolved(keywords)
        return trace.view(a, lambda array: function(array, *rest, **named))

    return handle


_VIEWS = """broadcast_to diagonal expand_dims flip fliplr flipud matrix_transpose moveaxis permute_dims ravel
reshape rollaxis rot90 squeeze swapaxes transpose"""
for _name in _VIEWS.split():
    if hasattr(np, _name):  # some are newer than NumPy 2.0
        SHAPES[getattr(np, _name)] = _view(getattr(np, _name))


@_implements(np.lib.stride_tricks.sliding_window_view)
def _sliding_window_view(
    trace: Trace,
    x: Any,
    window_shape: Any,
    axis: Any = None,
    *,
    subok: Any = False,
    writeable: Any = False,
) -> Any:
    del subok
    if writeable:  # overlapping windows: writes would have an order
        return NotImplemented
    return _view(np.lib.stride_tricks.sliding_window_view)(trace, x, window_shape, axis)


def _split(function: Any) -> Handler:
    def handle(trace: Trace, a: Any, *arguments: Any, **keywords: Any) -> Any:
        if type(a) is not Tracer:
            return trace.on_host(function, (a, *arguments), keywords)
        parts = function(trace.materialize(a), *trace.resolved(arguments), **keywords)
        return [Tracer(trace, leaf(part, a.node.buffer), False, a.owner) for part in parts]

    return handle


for _name in ("split", "array_split", "hsplit", "vsplit", "dsplit"):
    SHAPES[getattr(np, _name)] = _split(getattr(np, _name))


if hasattr(np, "unstack"):  # which is newer than NumPy 2.0

    @_implements(np.unstack)
    def _unstack(_: Trace, x: Any, /, *, axis: Any = 0) -> Any:
        if x.ndim == 0:
            raise ValueError("Input array must be at least 1-d.")
        return tuple(np.moveaxis(x, axis, 0))


def _at_least(function: Any) -> Handler:
    def handle(trace: Trace, *arrays: Any) -> Any:
        results = [trace.view(a, function) if type(a) is Tracer else trace.wrap(function(a)) for a in arrays]
        return results[0] if len(results) == 1 else tuple(results)

    return handle


for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    SHAPES[getattr(np, _name)] = _at_least(getattr(np, _name))

SHAPES[np.shape] = lambda _, a: a.shape
SHAPES[np.ndim] = lambda _, a: a.ndim
SHAPES[np.real] = lambda _, val: val
SHAPES[np.iscomplexobj] = lambda *_: False
SHAPES[np.isrealobj] = lambda *_: True


@_implements(np.size)
def _size(_: Trace, a: Any, axis: Any = None) -> Any:
    if axis is None:
        return a.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    size = 1
    for each in axes:
        size *= a.shape[each]
    return size


def _of_types(function: Any) -> Handler:
    def handle(_: Trace, *arguments: Any, **keywords: Any) -> Any:
        return function(*(_without_elements(a) if type(a) is Tracer else a for a in arguments), **keywords)

    return handle


def _without_elements(a: Tracer) -> Any:
    return np.broadcast_to(np.zeros((), a.dtype), a.shape)


_OF_TYPES = """can_cast common_type diag_indices_from einsum_path result_type tril_indices_from
triu_indices_from"""
for _name in _OF_TYPES.split():
    SHAPES[getattr(np, _name)] = _of_types(getattr(np, _name))


def _shares(function: Any) -> Handler:
    def handle(trace: Trace, a: Any, b: Any, max_work: Any = None) -> bool:
        first, second = (trace.in_caller_memory(x) if type(x) is Tracer else x for x in (a, b))
        return bool(function(first, second, max_work))

    return handle


SHAPES[np.may_share_memory], SHAPES[np.shares_memory] = (
    _shares(np.may_share_memory),
    _shares(np.shares_memory),
)


# ---- Copies and new arrays --------------------------------------------------------------------------


@_implements(np.astype, np.ndarray.astype, astype)
def _astype(trace: Trace, x: Any, dtype: Any, *arguments: Any, copy: bool = True, **keywords: Any) -> Any:
    wanted = np.dtype(dtype)
    casting = arguments[1] if len(arguments) > 1 else keywords.get("casting", "unsafe")
    if wanted not in CODES or not np.can_cast(x.dtype, wanted, casting):
        return trace.on_host(lambda a: a.astype(dtype, *arguments, copy=copy, **keywords), (x,), {})
    reordered = _reordered_copy(trace, x, wanted, arguments[0] if arguments else keywords.get("order", "K"))
    if reordered is not None:
        return reordered
    return x if wanted == x.dtype and not copy else in_order_of_copy(trace, _converted(trace, x, wanted), x)


@_implements(np.copy)
def _copy(trace: Trace, a: Any, order: Any = "K", subok: bool = False) -> Any:
    del subok
    reordered = _reordered_copy(trace, a, a.dtype, order)
    if reordered is not None:
        return reordered
    result = in_order_of_copy(trace, _converted(trace, a, a.dtype.newbyteorder("=")), a)
    result.is_scalar = False
    return result


def in_order_of_copy(trace: Trace, result: Tracer, a: Tracer) -> Tracer:
    """Give a deferred result the memory order of a copy: in NumPy's, axes that are broadcast vary fastest."""
    if a.ndim > 1 and (a.node.array is not None or a.node.view is not None):
        array = trace.materialize(a)
        if 0 in array.strides:
            set_order(result, np.empty_like(array, np.uint8, subok=False))
    return result


def set_order(result: Tracer, array: Array) -> None:
    """Give a deferred result the memory order of an array."""
    if result.node.array is None:
        result.node.order = order_of(array)


def _converted(trace: Trace, x: Tracer, dtype: Any) -> Tracer:
    result: Tracer = trace.apply(conversion(dtype), (x,))
    result.is_scalar = x.is_scalar
    return result


def _reordered_copy(trace: Trace, a: Tracer, dtype: Any, order: Any) -> Tracer | None:
    """Return a copy in `order`; None if the array has that order already."""
    if a.is_scalar or order not in ("C", "F", "A"):
        return None
    flags = layout_stub(a).flags
    if order == "A":
        order = "F" if flags.fnc else "C"
    return None if flags[order] else _filled(trace, empty(trace, a.shape, dtype, order), a)


def _filled(trace: Trace, target: Tracer, value: Any) -> Tracer:
    trace.set(target, ..., value)
    return target


def may_sort_in_c_order(a: Tracer) -> bool:
    """Return True if a sorted copy may be in C order; on the host, it has the order of the array."""
    return bool(a.ndim == 1 or a.flags.c_contiguous or a.owning_trace.buffers.stream)


def layout_stub(a: Tracer) -> Array:
    """Return an array with the memory order of a tracer's array, for its layout only."""
    node = a.node
    if node.array is not None:
        return node.array
    if node.order == "C":
        return np.empty(node.shape, node.dtype)
    same_shape = [array for array in node.layout_arrays() if array.shape == node.shape]
    return operands.allocate(node.dtype, node.shape, same_shape)


def as_c_ordered(a: Any) -> Any:
    """Return the array if it is in C order, else a copy that is."""
    return a if type(a) is not Tracer or layout_stub(a).flags.c_contiguous else a.copy()


def new(trace: Trace, array: Array) -> Tracer:
    """Return a tracer of a new array, whose values are not yet written."""
    tracer = trace.tracer_for(array)
    if tracer.node.buffer is not None:
        tracer.node.buffer.make_resident(residency.TEMPORARY)
    return tracer


def empty(trace: Trace, shape: Any, dtype: Any = float, order: Any = "C") -> Tracer:
    """Return a tracer of a new, uninitialized array."""
    return new(trace, np.empty(shape, dtype, order))


def numbers(trace: Trace, count: int) -> Any:
    """Return `arange(count)`, made on the device in an asynchronous call, without an upload."""
    if not trace.buffers.scope.is_async:
        return np.arange(count)
    return trace.call(np.cumsum, (full(trace, count, 1, np.intp),), {}) - 1


def full(trace: Trace, shape: Any, value: Any, dtype: Any, order: Any = "C") -> Tracer:
    """Return a tracer of a new array that is filled with one value."""
    number = _cast(value, dtype)
    capture = trace.capture
    is_kernel = trace.engine == "cuda" or capture is not None  # that writes the array
    if capture is not None and order == "F":
        result = empty(trace, shape, dtype, order)
        trace.set(result, ..., number[()])
        return result
    if not is_kernel or order not in ("C", "K", None):
        is_zero = not number and not (number.dtype.kind == "f" and np.signbit(number))
        array = np.zeros(shape, dtype, order) if is_zero else np.full(shape, number, dtype, order)
        return trace.tracer_for(array)
    if capture is not None:
        capture.add_constant(number)
    sizes = (
        tuple(map(operator.index, shape)) if isinstance(shape, (tuple, list)) else (operator.index(shape),)
    )
    return trace.deferred.add(
        Tracer(trace, Node(conversion(number.dtype), (leaf(number),), DEFAULT_OPTIONS, number.dtype, sizes))
    )


def _cast(value: Any, dtype: Any) -> Array:
    """Return a value as an array of a dtype, cast as NumPy's `full` casts."""
    array = np.empty(np.shape(value), dtype)
    np.copyto(array, value, casting="unsafe")
    return array


def broadcast_copy(trace: Trace, a: Tracer, shape: tuple[int, ...]) -> Tracer:
    """Return a deferred copy of an array, broadcast to `shape`; a kernel that reads it may read the array."""
    trace.materialize(a)
    node = a.node
    copy = trace.deferred.add(
        Tracer(trace, Node(conversion(node.dtype), (node,), DEFAULT_OPTIONS, node.dtype, shape))
    )
    if node.buffer is not None and node.buffer.has_escaped:
        trace.materialize(copy)
    return copy


def _like(value: Any) -> Handler:
    def handle(
        trace: Trace,
        prototype: Any,
        dtype: Any = None,
        order: Any = "K",
        subok: bool = True,
        shape: Any = None,
        device: Any = None,
    ) -> Any:
        del subok
        if device is not None:
            np.empty(0, device=device)  # raises for any but the CPU
        dtype = np.dtype(prototype.dtype if dtype is None else dtype)
        sizes = prototype.shape if shape is None else shape
        if type(prototype) is not Tracer:
            return np.zeros(sizes, dtype) if not value else np.ones(sizes, dtype)
        result = np.empty_like(layout_stub(prototype), dtype, order, shape=shape)
        if dtype not in CODES:
            if value is not None:
                result[...] = value
            return result
        if value is None:
            return new(trace, result)
        if result.flags.c_contiguous:
            return full(trace, result.shape, value, dtype)
        return _filled(trace, new(trace, result), value)

    return handle


SHAPES[np.zeros_like], SHAPES[np.ones_like], SHAPES[np.empty_like] = _like(0), _like(1), _like(None)


@_implements(np.full_like)
def _full_like(trace: Trace, a: Any, fill_value: Any, *arguments: Any, **keywords: Any) -> Any:
    result = SHAPES[np.empty_like](trace, a, *arguments, **keywords)
    if type(result) is not Tracer:
        result[...] = trace.resolved(fill_value)
        return result
    is_tracer = type(fill_value) is Tracer
    value = fill_value.astype(result.dtype) if is_tracer else _cast(trace.resolved(fill_value), result.dtype)
    return _filled(trace, result, value)
