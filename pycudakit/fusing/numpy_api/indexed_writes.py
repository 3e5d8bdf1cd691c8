"""Handlers for NumPy functions that write to some elements of an array, in a fused function.

A call that equals an assignment becomes that assignment (`put` is `x.ravel()[i] = v`, `copyto` with a mask is
a `where`). NumPy does the rest on the host, without a graph break. If the array is device-resident, the
indices are computed and the values are scattered on the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime.ufunc_arguments import broadcasts_to
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.index_parsing import nonnegative_index
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.where_argument import is_mask_of

Handler = Callable[..., Any]
PUTTING: dict[Any, Handler] = {}


def _writes(function: Any, key: Any = None) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Register a handler for a function that writes to its first argument.

    The handler returns False for a call that it does not support; NumPy runs it on the host.
    """

    def decorate(handler: Callable[..., bool]) -> Callable[..., bool]:
        def handle(trace: Trace, a: Any, *arguments: Any, **keywords: Any) -> None:
            is_external = type(a) is np.ndarray and a.dtype in CODES
            target = trace.external_tracer(a) if is_external else a
            if type(target) is not Tracer or target.is_scalar:
                trace.on_host(function, (a, *arguments), keywords, may_write=True)
                return
            is_writeable = trace.materialize(target).flags.writeable
            if not (is_writeable and handler(trace, target, *arguments, **keywords)):
                trace.write_by_numpy(function, target, arguments, keywords)
            if is_external:
                trace.mark_escaped(target)

        PUTTING[key or function] = handle
        return handler

    return decorate


def _is_array(value: Any) -> TypeGuard[Any]:
    return (type(value) is Tracer or type(value) is np.ndarray) and value.dtype in CODES


def _can_cast_value(value: Any, dtype: Any, casting: Any) -> bool:
    """Return True for an array or a Python number that can be cast to a dtype."""
    if type(value) in (bool, int, float):
        return bool(np.result_type(dtype, value) == dtype)
    return _is_array(value) and np.can_cast(value.dtype, dtype, casting)


def _is_number(value: Any) -> bool:
    return type(value) in (bool, int, float)


def _values(value: Any, a: Tracer) -> Any:
    """Return the values to write as an array; raise for a number that does not fit the dtype."""
    if _is_array(value):
        return value
    return np.asarray(value, a.dtype if _is_number(value) else None)


def _cycled(values: Any, count: int) -> Any:
    """Return `count` values, repeated cyclically."""
    if values.ndim == 0:
        return values
    values = np.ravel(values)
    if values.size >= count:
        return values[:count]
    return values[0] if values.size == 1 else np.take(values, np.arange(count) % values.size)


# ---- Writes by index ------------------------------------------------------------------------------------


@_writes(np.put)
def _put(trace: Trace, a: Tracer, ind: Any, v: Any, mode: Any = "raise") -> bool:
    indices: Any = ind if type(ind) is Tracer else np.asarray(ind)
    is_plain = mode in ("raise", "wrap", "clip") and np.can_cast(indices.dtype, np.int64, "safe")
    if not (is_plain and indices.size and trace.is_writable_on_device(a)):
        return False
    values = _values(v, a)
    if not (_is_array(values) and values.size):
        return False
    indices = _to_tracer(trace, indices).astype(np.int64).ravel()
    if mode == "wrap":
        indices = np.remainder(indices, a.size)
    elif mode == "clip":
        indices = np.clip(indices, 0, a.size - 1)
    trace.set(a.reshape(-1), indices, _cycled(values, indices.size))
    return True


@_writes(np.put_along_axis)
def _put_along_axis(trace: Trace, arr: Tracer, indices: Any, values: Any, axis: Any = -1) -> bool:
    is_plain = _is_array(indices) and indices.dtype.kind in "iu" and indices.size and type(axis) is int
    if not (is_plain and indices.ndim == arr.ndim and trace.is_writable_on_device(arr)):
        return False
    axis, shape = normalize_axis_index(axis, arr.ndim), arr.shape
    if any(d != axis and n not in (1, shape[d]) for d, n in enumerate(indices.shape)):
        return False
    index_shape = tuple([indices.shape[d] if d == axis else n for d, n in enumerate(shape)])
    values = _values(values, arr)
    if not (_is_array(values) and broadcasts_to(values.shape, index_shape)):
        return False
    along = _to_tracer(trace, indices).astype(np.int64)
    flat_indices: Any = 0
    for d, length in enumerate(shape):
        column = (-1, *(1,) * (arr.ndim - 1 - d))
        is_along = d == axis
        each = nonnegative_index(trace, along, length, d) if is_along else np.arange(length).reshape(column)
        flat_indices = flat_indices * length + each
    trace.set(arr.reshape(-1), flat_indices, values)
    return True


def _to_tracer(trace: Trace, array: Any) -> Any:
    return array if type(array) is Tracer else trace.tracer_for(array)


def _stored(trace: Trace, array: Any) -> Array:
    return trace.materialize(_to_tracer(trace, array))


for _ufunc in {value for value in vars(np).values() if type(value) is np.ufunc}:
    _writes(_ufunc.at, (_ufunc, "at"))(lambda *_: False)


# ---- Writes by mask -------------------------------------------------------------------------------------


@_writes(np.copyto)
def _copyto(trace: Trace, dst: Tracer, src: Any, casting: Any = "same_kind", where: Any = True) -> bool:
    if not (_can_cast_value(src, dst.dtype, casting) and broadcasts_to(np.shape(src), dst.shape)):
        return False
    if _is_number(src) and casting not in ("same_kind", "unsafe"):
        return False
    if where is True:
        trace.set(dst, ..., src)
    elif not is_mask_of(where, dst.shape):
        return False
    else:
        values = _values(src, dst)
        if values.dtype != dst.dtype:  # values outside of the mask need not fit the dtype
            values = np.where(where, values, np.zeros((), values.dtype)).astype(dst.dtype)
        trace.set(dst, ..., np.where(where, values, dst))
    return True


@_writes(np.putmask)
def _putmask(trace: Trace, a: Tracer, mask: Any, values: Any) -> bool:
    if not _may_choose(a, mask, values):
        return False
    values = _values(values, a)
    size = values.size
    trailing = [d for d in range(a.ndim) if math.prod(a.shape[d:]) == size]
    if size == 1 or values.shape == a.shape:
        pass
    elif size >= a.size:
        values = np.ravel(values)[: a.size].reshape(a.shape)
    elif trailing:
        values = values.reshape(a.shape[trailing[-1] :])
    elif trace.is_writable_on_device(a):
        values = np.take(_to_tracer(trace, values).ravel(), np.arange(a.size) % size).reshape(a.shape)
    else:
        return False
    _choose(trace, a, mask, values)
    return True


@_writes(np.place)
def _place(trace: Trace, arr: Tracer, mask: Any, vals: Any) -> bool:
    if not _may_choose(arr, mask, vals):
        return False
    values = _values(vals, arr)
    if values.size > 1:
        buffer = arr.node.buffer
        if buffer is None or not trace.is_writable_on_device(arr) or buffer.overlaps(_stored(trace, values)):
            return False
        nth = np.cumsum(_to_tracer(trace, mask).ravel()) - 1
        values = np.take(_to_tracer(trace, values).ravel(), np.remainder(nth, values.size))
        values = values.reshape(arr.shape)
    _choose(trace, arr, mask, values)
    return True


def _may_choose(a: Tracer, mask: Any, values: Any) -> bool:
    is_mask = _is_array(mask) and mask.dtype == np.bool_ and mask.shape == a.shape and mask.ndim > 0
    new_values = values if _is_number(values) or _is_array(values) else np.asarray(values)
    return bool(is_mask and np.size(new_values) and _can_cast_value(new_values, a.dtype, "safe"))


def _choose(trace: Trace, a: Tracer, mask: Any, values: Any) -> None:
    trace.set(a, ..., np.where(mask, values.reshape(()) if values.size == 1 else values, a))


# ---- Diagonals ------------------------------------------------------------------------------------------


@_writes(np.fill_diagonal)
def _fill_diagonal(trace: Trace, a: Tracer, val: Any, wrap: Any = False) -> bool:
    length = min(a.shape, default=0)
    is_tall = a.ndim == 2 and a.shape[0] > a.shape[1] + 1
    is_wrapped = bool(wrap) and is_tall
    is_square = a.ndim == 2 or len(set(a.shape)) == 1
    if a.ndim < 2 or not is_square or (is_wrapped and not trace.materialize(a).flags.c_contiguous):
        return False
    values = _values(val, a)
    if not (length and _is_array(values) and values.size):
        return False
    diagonal = trace.view(a, _wrapped_diagonal if is_wrapped else _diagonal)
    trace.set(diagonal, ..., _cycled(values, diagonal.size))
    return True


def _diagonal(array: Array) -> Array:
    length = min(array.shape)
    letters = "i" * array.ndim
    view: Array = np.einsum(f"{letters}->i", array[(slice(length),) * array.ndim])
    return view


def _wrapped_diagonal(array: Array) -> Array:
    return array.reshape(-1)[:: array.shape[1] + 1]
