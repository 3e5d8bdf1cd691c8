"""The dispatch cache of each function under `auto`: small calls skip the general path.

The key is the signature of the call: dtypes, numbers of dimensions, size classes, static arguments. The first
call with a signature takes the general path. If that left the call to NumPy because of its size, later calls
with the signature go to NumPy's function at once, which `numpy_for_small` names. If it ran on an engine, the
function may offer a prepared call (`offer_to_cache`), which later calls use.
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
_MAX_SIGNATURES = 1000  # entries of a function's cache; a full cache is cleared
_SMALL_INTEGER = 64  # integers nearer to 0 are part of the signature: axes, orders, and so on
_NUMBERS = frozenset({bool, float, int})
_SCALARS = frozenset({complex, float, *(t for t in np.sctypeDict.values() if issubclass(t, np.number))})
_WORDS = frozenset({bool, str, type, np.bool, NoneType, type(np._NoValue)})  # noqa: SLF001
_SHORT_LIST = 32  # elements; longer lists of numbers are converted to arrays before dispatch

# The signature of arguments that contain longer lists.
LONG_LIST: Signature = ("a long list",)


def numpy_for_small(numpy: Callable[..., Any] | None) -> Callable[[F], F]:
    """Mark a function with the NumPy function that computes its small calls from the same arguments."""

    def mark(function: F) -> F:
        function.numpy_for_small = numpy  # type: ignore[attr-defined]
        return function

    return mark


def signature_of(arguments: tuple[Any, ...], named: dict[str, Any] | None = None) -> Signature | None:
    """Return the signature of a call, or None if an argument has a type that is not cached.

    Arrays contribute their dtype, number of dimensions, and the bit length of their size. `LONG_LIST` is
    returned for arguments that contain long lists of numbers: see `_as_arrays`.
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
    """Return the signature of a list of numbers, of arrays, or of such lists."""
    count = len(values)
    if count > _SHORT_LIST and type(values[0]) in _NUMBERS:
        return LONG_LIST
    kinds = {*map(type, values)}
    if kinds <= _NUMBERS:
        exact_values = tuple(values) if type(values) is tuple and kinds == {int} else ()  # axes, shapes
        return (count.bit_length(), frozenset(kinds), *exact_values)
    return signature_of(tuple(values)) if count < _SMALL_INTEGER else None


def _as_arrays(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert long lists of numbers among the arguments to arrays."""
    return tuple(
        np.asarray(v) if type(v) is list and len(v) > _SHORT_LIST and type(v[0]) in _NUMBERS else v
        for v in arguments
    )


# ---- Prepared calls ----------------------------------------------------------------------------------

MAX_BYTES = 1 << 18  # the largest arrays for which calls are prepared


class CachedCall(NamedTuple):
    """A prepared call: it computes the result of its arguments, or returns None if it cannot.

    It is valid for arguments of any shape, or for those with the shapes and strides of the first call only.
    """

    compute: Callable[[tuple[Any, ...]], Any]
    any_shape: bool = False


# Prepares a call, given the function's name and the arguments of the first call.
Prepare = Callable[[str, tuple[Any, ...]], "CachedCall | None"]


class _Local(threading.local):
    """Per thread: whether a call fills the cache, and the prepared call that it offered, with its result."""

    is_filling_cache = False
    offered: tuple[Any, Any] | None = None


_local = _Local()


def run_and_collect_offer(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Run a call that fills the cache; return its result, and the offer to the cache, if any."""
    _local.is_filling_cache, _local.offered = True, None
    try:
        result = function(*args, **kwargs)
    finally:
        offered, _local.is_filling_cache, _local.offered = _local.offered, False, None
    return result, offered


def is_filling_cache() -> bool:
    """Return True if the running call fills the cache."""
    return _local.is_filling_cache


def offer_to_cache(result: Any, prepare: Any) -> None:
    """Offer a prepared call to the cache; it is taken if `result` is the result of the whole call."""
    if _local.is_filling_cache:
        _local.offered = result, prepare


def _has_shape(argument: Any) -> bool:
    """Return True unless an argument is a list, or a tuple with elements other than integers."""
    kind = type(argument)
    return kind is not list and (kind is not tuple or {*map(type, argument)} <= {int})


def _exact_key(arguments: tuple[Any, ...]) -> Signature:
    """Return the key of arguments beyond their signature: shapes and strides of arrays, values of others."""
    # Zeros by their repr, since -0.0 == 0.0.
    shapes = [(v.shape, v.strides) if type(v) is _array else v or repr(v) for v in arguments]
    return tuple(shapes)


class DispatchCache:
    """The dispatch cache of one function: by signature, NumPy's calls and prepared calls."""

    def __init__(self, numpy: Callable[..., Any], function: Callable[..., Any]) -> None:
        self._numpy, self._function = numpy, function
        # Calls that NumPy computes, with the function that logs them; and prepared calls for any shape.
        self.loggers: dict[Signature, Callable[[], object]] = {}
        self.cached_calls: dict[Signature, Callable[[tuple[Any, ...]], Any]] = {}
        # The same for exact shapes.
        self.cached_calls_by_shape: dict[Signature, dict[Signature, Callable[[tuple[Any, ...]], Any]]] = {}
        self._loggers_by_shape: dict[Signature, dict[Signature, Callable[[], object]]] = {}

    def dispatch(self, signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute a call that has no entry for any shape: by an entry for its shape, or the general path."""
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
    """Return a function that looks its calls up in a dispatch cache under `auto`."""
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
