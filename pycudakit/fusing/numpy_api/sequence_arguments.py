"""NumPy functions of one array, called with a list of tracers, in a fused function.

NumPy does not dispatch on lists: it would ask each tracer for its values, a graph break. These wrappers stack
the list to one traced array instead, or reduce along the list without stacking it.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES
from pycudakit.fusing.memory.nodes import leaf
from pycudakit.fusing.memory.pytree import tree_map
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.current_trace import current_trace, trace_if_tracing
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import as_c_ordered, empty, layout_stub

# Functions of one array, which may be given as a list of arrays.
SEQUENCE_FUNCTIONS = """all amax amin any argmax argmin argsort average count_nonzero cumprod cumsum max mean
median min nanmax nanmean nanmin nanstd nansum nanvar percentile prod ptp quantile sort std sum var"""

# Ufuncs that give the same bits in any order of reduction, and the NumPy functions that reduce by them.
_EXACT = """bitwise_and bitwise_or bitwise_xor fmax fmin gcd lcm logical_and logical_or logical_xor maximum
minimum"""
_EXACT_UFUNCS = frozenset(getattr(np, name) for name in _EXACT.split())
_BY: dict[Any, Any] = {
    np.all: np.logical_and,
    np.any: np.logical_or,
    **dict.fromkeys((np.max, np.amax), np.maximum),
    **dict.fromkeys((np.min, np.amin), np.minimum),
}


def contains_tracer(value: Any) -> bool:
    """Return True if nested tuples, lists and dicts contain a tracer."""
    kind = type(value)
    if kind is Tracer:
        return True
    if kind in (tuple, list):
        return any(contains_tracer(part) for part in value)
    return kind is dict and any(contains_tracer(part) for part in value.values())


def _one_array(trace: Trace, value: Any, dtype: Any = None) -> Any:
    """Stack a list of arrays to one array, as `np.array` does; return None if their shapes differ."""
    parts = _parts(trace, value, dtype)
    if parts is None:
        return None
    shape, dtype = (len(parts), *parts[0].shape), np.result_type(*(part.dtype for part in parts))
    constants = {index: part for index, part in enumerate(parts) if type(part) is not Tracer}
    if not constants:
        result = empty(trace, shape, dtype)
    else:
        array = np.empty(shape, dtype)
        for index, part in constants.items():
            array[index] = part
        result = trace.tracer_for(array)
    for index, part in enumerate(parts):
        if index not in constants:
            trace.set(result, index, part)
    return result


def _parts(trace: Trace, values: Any, dtype: Any = None) -> list[Any] | None:
    """Return the arrays of a list; None if their shapes differ or a dtype is unsupported."""
    parts: list[Any] = []
    for value in values:
        if type(value) is Tracer:
            part = value if dtype is None else value.astype(dtype)
        elif type(value) in (list, tuple) and contains_tracer(value):
            part = _one_array(trace, value, dtype)
        else:
            part = np.asarray(value, dtype)
        if part is None or part.dtype not in CODES or (parts and part.shape != parts[0].shape):
            return None
        parts.append(part)
    return parts


def replacement_for(function: Any) -> Callable[..., Any]:
    """Return a replacement for `np.array`, `asarray` or its kin that takes tracers and lists of them."""

    @functools.wraps(function)
    def make(*arguments: Any, **keywords: Any) -> Any:
        trace = current_trace() if arguments and type(arguments[0]) is Tracer else None
        if trace is not None and trace.has_stopped_deferring:
            array = trace.resolved(arguments[0])
            result = function(array, *arguments[1:], **keywords)
            return arguments[0] if result is array else result
        if trace is not None:
            array_of = _required if function is np.require else _array_of
            result = trace.run_handler(array_of, function, *arguments, **keywords)
            if result is not None:
                return result if trace.analysis is None else trace.returned(result)
            arguments = _value_of(arguments[0]), *arguments[1:]
        trace = _trace_of_sequence(arguments)
        dtype = keywords.get("dtype", arguments[1] if len(arguments) == 2 else None)
        is_plain = len(arguments) <= 2 and keywords.keys() <= {"dtype"} and _is_taken(dtype)
        if trace is not None and is_plain:
            result = trace.run_handler(_one_array, trace, arguments[0], dtype)
            if result is not None:
                return result if trace.analysis is None else trace.returned(result)
        if trace is not None:  # NumPy finds the common type of numbers, strings and objects
            arguments = tree_map(arguments, _number_of)
        return function(*arguments, **keywords)

    return make


def _number_of(value: Any) -> Any:
    """Return NumPy's scalar for the tracer of a number; return other values as they are."""
    return _value_of(value) if type(value) is Tracer and value.is_scalar else value


_ORDERS = {np.ascontiguousarray: "C", np.asfortranarray: "F"}
_FLAGS = {"C", "F", "A", "W", "O", "C_CONTIGUOUS", "F_CONTIGUOUS", "ALIGNED", "WRITEABLE", "OWNDATA"}


def _array_of(
    function: Any, a: Tracer, dtype: Any = None, order: Any = None, copy: Any = ..., **keywords: Any
) -> Any:
    """Return the result of `np.array` or a related function for a tracer; None if that is left to NumPy."""
    is_forced = copy is True or (copy is ... and function is np.array)
    if function in _ORDERS and (order is not None or copy is not ...):
        return None
    order = _ORDERS.get(function, order)
    if keywords or not _is_taken(dtype) or order not in (None, "K", "C", "F"):
        return None
    if function in _ORDERS and not a.ndim:  # NumPy adds an axis
        return None
    if function is not np.asanyarray and a.owning_trace.memmap_of(a) is not None:
        array = a.owning_trace.in_caller_memory(a)
        a = Tracer(a.owning_trace, leaf(array.view(), a.node.buffer))  # an ndarray of the same memory
    converted = a if dtype is None else a.astype(dtype, copy=False)
    if order in ("C", "F") and not layout_stub(converted).flags[order]:
        converted = converted.copy(order=order)
    elif is_forced or converted.is_scalar:
        converted = np.copy(converted)
    return None if copy is False and converted is not a else converted


def _required(_: Any, a: Tracer, dtype: Any = None, requirements: Any = None, **keywords: Any) -> Any:
    """Return the result of `np.require` for a tracer that meets the requirements; None for others."""
    if not isinstance(requirements, (str, list, tuple, set, type(None))):
        return None
    flags = {str(each).upper() for each in requirements or ()}
    if not flags <= _FLAGS or {"C", "F"} <= {each[0] for each in flags}:
        return None
    result = _array_of(np.asanyarray, a, dtype, **keywords)
    if result is None:
        return None
    met: Any = layout_stub(result).flags
    return result if all(met[each] for each in flags) else None


def _value_of(tracer: Tracer) -> Any:
    """Return the array or number of a tracer, which code outside of the trace may keep."""
    return tracer.owning_trace.resolved(tracer) if tracer.is_scalar else tracer.__array__()


def _is_taken(dtype: Any) -> bool:
    return dtype is None or np.dtype(dtype) in CODES


def _trace_of_sequence(arguments: tuple[Any, ...]) -> Trace | None:
    """Return the current trace if the first argument is a list that contains a tracer; else None."""
    trace = trace_if_tracing() if arguments and type(arguments[0]) in (list, tuple) else None
    return trace if trace is not None and contains_tracer(arguments[0]) else None


def accepting_sequences(function: Any) -> Callable[..., Any]:
    """Return the function, made to take lists of tracers."""
    by = _BY.get(function)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        trace = _trace_of_sequence(arguments)
        if trace is None:
            return function(*arguments, **keywords)
        is_along_list = (arguments[1:], keywords) in (((0,), {}), ((), {"axis": 0}))
        result = _reduced_along(trace, by, arguments[0]) if by is not None and is_along_list else None
        return _called(trace, function, arguments, keywords) if result is None else result

    return call


def _called(trace: Trace, function: Any, arguments: tuple[Any, ...], keywords: Any) -> Any:
    """Call a function of one array with a list of arrays."""
    array = trace.run_handler(_one_array, trace, arguments[0])
    return function(*arguments, **keywords) if array is None else function(array, *arguments[1:], **keywords)


def _reduced_along(trace: Trace, ufunc: Any, arrays: Any) -> Any:
    """Reduce along a list by a ufunc without stacking it; return None if it must be stacked."""
    parts = _parts(trace, arrays)
    if parts is None or len(parts) < 2:
        return None
    dtype = np.result_type(*(part.dtype for part in parts))
    if not ufunc.__name__.startswith("logical"):
        parts = [part if part.dtype == dtype else part.astype(dtype) for part in parts]
    result = as_c_ordered(trace.run_handler(functools.reduce, ufunc, parts))
    return result if trace.analysis is None else trace.returned(result)


# ---- Methods of ufuncs ----------------------------------------------------------------------------------


@functools.cache
def reducing(ufunc: Any) -> Any:
    """Return a ufunc whose `reduce` takes a list of arrays."""
    return _Reducing(ufunc)


class _Reducing:
    """A proxy of a ufunc whose `reduce` takes lists of tracers."""

    def __init__(self, ufunc: Any) -> None:
        self._ufunc = ufunc

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class `np.ufunc`, so that `isinstance` holds."""
        return np.ufunc

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._ufunc(*arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the ufunc."""
        return getattr(self._ufunc, name)

    def __eq__(self, other: object) -> bool:
        return self._ufunc is (other._ufunc if type(other) is _Reducing else other)

    def __hash__(self) -> int:
        return hash(self._ufunc)

    def __repr__(self) -> str:
        return repr(self._ufunc)

    def __reduce__(self) -> Any:
        return copy.copy, (self._ufunc,)  # which returns it: modules cannot be pickled, ufuncs can

    def reduce(self, *arguments: Any, **keywords: Any) -> Any:
        """Reduce an array, or a list of arrays."""
        reduce, trace = self._ufunc.reduce, _trace_of_sequence(arguments)
        if trace is None:
            return reduce(*arguments, **keywords)
        is_along_list = (arguments[1:], keywords) in (((), {}), ((0,), {}), ((), {"axis": 0}))
        is_exact = self._ufunc in _EXACT_UFUNCS
        result = _reduced_along(trace, self._ufunc, arguments[0]) if is_exact and is_along_list else None
        return _called(trace, reduce, arguments, keywords) if result is None else result
