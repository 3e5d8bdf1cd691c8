"""Small calls: those that NumPy was seen to answer under `auto` go to it at once.

A function says by `numpy_for_small` what of NumPy's it then is. The first call of a form goes the long way, where
the function decides; if that was for NumPy, since its arguments are small, later calls of that form are, too.
Where it was for an engine, the function may offer a short way to it, with its request kept ready.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import NoneType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pycudakit._runtime import context, native_call
from pycudakit._runtime.call_log import Call
from pycudakit._runtime.cost_model import REASON_NUMPY_FASTER_FOR_LAYOUT, REASON_NUMPY_FASTER_FOR_SIZE

F = TypeVar("F", bound=Callable[..., Any])
Signature = tuple[Any, ...]

_current_context = context.current_context
_array, _integer = np.ndarray, int
_MAX_SIGNATURES = 1000  # that are kept of a function
_SMALL_INTEGER = 64  # integers nearer to 0 are forms of their own: axes, orders, and so on
_NUMBERS = frozenset({bool, float, int})
_SCALARS = frozenset({complex, float, *(t for t in np.sctypeDict.values() if issubclass(t, np.number))})
_WORDS = frozenset({bool, str, type, np.bool, NoneType, type(np._NoValue)})  # noqa: SLF001
_SHORT_LIST = 32  # elements of a list, whose types are looked at: of more, NumPy makes an array first

# Stands for the form of arguments that hold longer lists.
LONG_LIST: Signature = ("a long list",)


def numpy_for_small(numpy: Callable[..., Any] | None) -> Callable[[F], F]:
    """Say which function of NumPy's, if any, a small call's answer is, called with the same arguments."""

    def mark(function: F) -> F:
        function.numpy_for_small = numpy  # type: ignore[attr-defined]
        return function

    return mark


def signature_of(arguments: tuple[Any, ...], named: dict[str, Any] | None = None) -> Signature | None:
    """Return what decides, of plain arguments, whether NumPy answers first; None of others.

    Of arrays these are type, dimensions, and about how many elements. LONG stands for lists that are to be
    arrays.
    """
    signature: list[Any] = []
    if named:
        signature += named
        arguments += (*named.values(),)
    for value in arguments:
        kind = type(value)
        if kind is _array:
            signature += value.dtype, value.ndim, value.size.bit_length()
        elif kind is _integer:
            signature.append(value if -_SMALL_INTEGER < value < _SMALL_INTEGER else (value.bit_length(),))
        elif kind in _SCALARS:
            signature.append(kind)
        elif kind in _WORDS:
            signature += kind, value
        elif kind is list or kind is tuple:
            inner = _signature_within(value)
            if inner is None or inner is LONG_LIST:
                return inner
            signature += kind, inner
        elif isinstance(value, np.dtype):
            signature.append(value)
        else:
            return None
    return tuple(signature)


def _signature_within(values: list[Any] | tuple[Any, ...]) -> Signature | None:
    """Return the form of a list of numbers, of arrays, or of such lists."""
    count = len(values)
    if count > _SHORT_LIST and type(values[0]) in _NUMBERS:
        return LONG_LIST
    kinds = {*map(type, values)}
    if kinds <= _NUMBERS:
        exact_values = tuple(values) if type(values) is tuple and kinds == {int} else ()  # axes, shapes
        return (count.bit_length(), frozenset(kinds), *exact_values)
    return signature_of(tuple(values)) if count < _SMALL_INTEGER else None


def _as_arrays(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments with arrays in the place of long lists of numbers, as NumPy makes them."""
    return tuple(
        np.asarray(v) if type(v) is list and len(v) > _SHORT_LIST and type(v[0]) in _NUMBERS else v
        for v in arguments
    )


# ---- Ways that were learned --------------------------------------------------------------------------

MAX_BYTES = 1 << 18  # bytes of arrays whose calls are short


class CachedCall(NamedTuple):
    """What computes a call of its arguments, or returns None: for those of the same shapes, or of any."""

    compute: Callable[[tuple[Any, ...]], Any]
    any_shape: bool = False


# What makes a way of a function's name and the arguments that it was learned from.
Prepare = Callable[[str, tuple[Any, ...]], "CachedCall | None"]


class _Local(threading.local):
    is_filling_cache = False
    offered: tuple[Any, Any] | None = None


_local = _Local()


def run_and_collect_offer(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return a call's result, and what was offered meanwhile, if anything."""
    _local.is_filling_cache, _local.offered = True, None
    try:
        result = function(*args, **kwargs)
    finally:
        offered, _local.is_filling_cache, _local.offered = _local.offered, False, None
    return result, offered


def is_filling_cache() -> bool:
    """Tell whether the call under way is one to learn from."""
    return _local.is_filling_cache


def offer_to_cache(result: Any, prepare: Any) -> None:
    """Offer a short way to what is computed, if the result is that of the whole call."""
    if _local.is_filling_cache:
        _local.offered = result, prepare


def _has_shape(argument: Any) -> bool:
    """Tell whether an argument is no list, nor a tuple of other things than integers."""
    kind = type(argument)
    return kind is not list and (kind is not tuple or {*map(type, argument)} <= {int})


def _exact_key(arguments: tuple[Any, ...]) -> Signature:
    """Return what, with their form, makes arguments the same but for the elements of arrays."""
    # Zeros by how they are written: -0.0 is equal to 0.0.
    shapes = [(v.shape, v.strides) if type(v) is _array else v or repr(v) for v in arguments]
    return tuple(shapes)


class DispatchCache:
    """What was learned of a function's calls, by their forms."""

    def __init__(self, numpy: Callable[..., Any], function: Callable[..., Any]) -> None:
        self._numpy, self._function = numpy, function
        self.loggers: dict[Signature, Callable[[], object]] = {}  # of those that NumPy answers
        self.cached_calls: dict[Signature, Callable[[tuple[Any, ...]], Any]] = {}  # of arrays of any shape
        self.cached_calls_by_shape: dict[Signature, dict[Signature, Callable[[tuple[Any, ...]], Any]]] = {}
        self._loggers_by_shape: dict[Signature, dict[Signature, Callable[[], object]]] = {}

    def dispatch(self, signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute what is not known to be NumPy's, nor to have a way for any shape."""
        arguments = (*args, *kwargs.values()) if kwargs else args
        cached_calls = self.cached_calls_by_shape.get(signature)
        if cached_calls is not None:
            cached_call = cached_calls.get(_exact_key(arguments))
            if cached_call is not None:
                result = cached_call(arguments)
                if result is not None:
                    return result
        loggers = self._loggers_by_shape.get(signature)
        log = None if loggers is None else loggers.get(_exact_key(arguments))
        if log is not None:
            result = self._numpy(*args, **kwargs)
            log()
            return result
        previous = native_call.last_record()
        result, offered = run_and_collect_offer(self._function, *args, **kwargs)
        logged = native_call.last_record()
        if logged is None or logged is previous:
            return result
        if native_call.ran_in_numpy(logged, REASON_NUMPY_FASTER_FOR_SIZE):
            _cleared_if_full(self.loggers)[signature] = _logger(logged, REASON_NUMPY_FASTER_FOR_SIZE)
        elif all(map(_has_shape, arguments)):
            if offered is not None and offered[0] is result:
                self._add_cached_call(signature, arguments, native_call.function_of(logged), offered[1])
            elif native_call.ran_in_numpy(logged, REASON_NUMPY_FASTER_FOR_LAYOUT):
                by_shape = _cleared_if_full(self._loggers_by_shape).setdefault(signature, {})
                _cleared_if_full(by_shape)[_exact_key(arguments)] = _logger(
                    logged, REASON_NUMPY_FASTER_FOR_LAYOUT
                )
        return result

    def _add_cached_call(
        self, signature: Signature, arguments: tuple[Any, ...], name: str, prepare: Prepare
    ) -> None:
        cached_call = prepare(name, arguments)
        if cached_call is None:
            return
        if cached_call.any_shape:
            _cleared_if_full(self.cached_calls)[signature] = cached_call.compute
        else:
            by_shape = _cleared_if_full(self.cached_calls_by_shape).setdefault(signature, {})
            _cleared_if_full(by_shape)[_exact_key(arguments)] = cached_call.compute


def _logger(logged: native_call.CallRecord, reason: str) -> Callable[[], object]:
    return native_call.call_logger(Call(native_call.function_of(logged), "numpy", reason))


def _cleared_if_full(logged: dict[Any, Any]) -> dict[Any, Any]:
    if len(logged) >= _MAX_SIGNATURES:
        logged.clear()
    return logged


def with_dispatch_cache(numpy: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that has NumPy, or an engine, at once answer the calls that it was seen to answer."""
    cache = DispatchCache(numpy, function)
    loggers, cached_calls = cache.loggers, cache.cached_calls

    def of_long_lists(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arrays = _as_arrays(args)
        signature = signature_of(arrays, kwargs)
        if signature is None or signature is LONG_LIST:
            return function(*args, **kwargs)
        signature = (*map(type, args), LONG_LIST, *signature)
        log = loggers.get(signature)
        if log is None:
            return cache.dispatch(signature, args, kwargs)
        result = numpy(*arrays, **kwargs)
        log()
        return result

    def call(*args: Any, **kwargs: Any) -> Any:
        if (_current_context.get().fast_path_engine or context.process_engine) != "auto" or (
            signature := signature_of(args, kwargs)
        ) is None:
            return function(*args, **kwargs)
        if signature is LONG_LIST:
            return of_long_lists(args, kwargs)
        log = loggers.get(signature)
        if log is not None:
            result = numpy(*args, **kwargs)
            log()
            return result
        cached_call = cached_calls.get(signature)
        if cached_call is not None:
            result = cached_call((*args, *kwargs.values()) if kwargs else args)
            if result is not None:
                return result
        return cache.dispatch(signature, args, kwargs)

    return call
