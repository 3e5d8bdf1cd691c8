"""The dispatch cache of each function under `auto`: small calls skip the general path.

The key is the signature of the call: dtypes, numbers of dimensions, size classes, static arguments. The value
is an `Executable`. The first call with a signature takes the general path. If that left the call to NumPy
because of its size, later calls with the signature go to NumPy's function at once, which `public_function`
names. If it ran on an engine, the function may offer a prepared call (`offer_to_cache`), which later calls
use. Where the estimates of the engines are close, an `Autotuner` measures some calls before that. A signature
whose calls leave nothing to cache is cached, too: its calls go straight to the general path.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import NoneType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pycudakit._runtime import context, native_call
from pycudakit._runtime.autotuner import MIN_MEASURED_SECONDS, Autotuner, autotuner_of
from pycudakit._runtime.call_log import Call, Estimates, Reason
from pycudakit._runtime.context import Preference
from pycudakit._runtime.cost_model import REASON_COMPARED, REASON_NUMPY_FASTER_FOR_LAYOUT
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.lru_cache import LRUCache
from pycudakit._runtime.native_call import thread_log

F = TypeVar("F", bound=Callable[..., Any])
Signature = tuple[Any, ...]

_current_context = context.current_context
_array, _integer, _bit_length = np.ndarray, int, int.bit_length
# Entries of one function, and of all together. A prepared call takes some 13 KiB.
_MAX_ENTRIES, _MAX_OF_ALL = 1000, 5000
_MAX_UNCACHEABLE = 32  # calls that leave nothing to cache, after which their signature is general
_SMALL_INTEGER = 64  # the value of integers nearer to 0 is part of the signature: axes, orders, and so on
_NUMBERS = frozenset({bool, float, int})
_SCALARS = frozenset({complex, float, *(t for t in np.sctypeDict.values() if issubclass(t, np.number))})
_STATIC_TYPES = frozenset({bool, str, type, np.bool, NoneType, type(np._NoValue)})  # noqa: SLF001
_SHORT_LIST = 32  # elements; longer lists of numbers are converted to arrays before dispatch

# The signature of arguments that contain longer lists.
LONG_LIST: Signature = ("a long list",)


def signature_of(arguments: tuple[Any, ...], named: dict[str, Any] | None = None) -> Signature | None:
    """Return the signature of a call, or None if an argument has a type that is not cached.

    Arrays contribute their dtype, number of dimensions, and the bit length of their size; those of several
    dimensions the bit length of each, too, and whether they are C-contiguous. `LONG_LIST` is returned for
    arguments that contain long lists of numbers: see `_as_arrays`.
    """
    signature: list[Any] = []
    if named:
        signature += named
        arguments += (*named.values(),)
    for value in arguments:
        kind = type(value)
        if kind is _array:
            signature += value.dtype, value.ndim, value.size.bit_length()
            if value.ndim > 1:
                signature += value.flags.c_contiguous, *map(_bit_length, value.shape)
        elif kind is _integer:
            signature.append(value if -_SMALL_INTEGER < value < _SMALL_INTEGER else (value.bit_length(),))
        elif kind in _SCALARS:
            signature.append(kind)
        elif kind in _STATIC_TYPES:
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

MAX_PREPARED_BYTES = 1 << 18  # the largest arrays for which calls are prepared


class CachedCall(NamedTuple):
    """A prepared call: it computes the result of its arguments, or returns None if it cannot.

    It is valid for arguments of any shape, or for those with the shapes and strides of the first call only.
    """

    compute: Callable[[tuple[Any, ...]], Any]
    any_shape: bool = False


# Prepares a call, given the engine choice of the first call, and its arguments.
Prepare = Callable[[EngineChoice, tuple[Any, ...]], "CachedCall | None"]


def run_and_collect_offer(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Run a call that fills the cache; return its result, and the offer to the cache, if any."""
    outer = thread_log.is_filling_cache, thread_log.offered
    thread_log.is_filling_cache, thread_log.offered = True, None
    try:
        result = function(*args, **kwargs)
        return result, thread_log.offered
    finally:
        thread_log.is_filling_cache, thread_log.offered = outer


def run_preferring(
    preference: Preference | None, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[Any, Any]:
    """Run a call that fills the cache on the engine that is preferred, if one is."""
    if preference is None:
        return run_and_collect_offer(function, *args, **kwargs)
    outer = _current_context.get()
    try:  # not by a token, which is lost if a signal handler raises before it is assigned
        _current_context.set(context.preferring(outer, preference))
        return run_and_collect_offer(function, *args, **kwargs)
    finally:
        _current_context.set(outer)


def measure(
    autotuner: Autotuner,
    numpy: Callable[..., Any] | None,
    function: Callable[..., Any],
    *args: Any,
    **kwargs: Any,
) -> tuple[Any, Estimates | None]:
    """Run and time a call on the engine whose turn it is; return the results of `Autotuner.measure`."""

    def run(engine: str | None) -> Any:
        if engine == "numpy" and numpy is not None:
            compute = functools.partial(numpy, *args, **kwargs)
            return native_call.run_numpy(autotuner.name, REASON_COMPARED, compute)
        preference = preference_of(autotuner, engine, REASON_COMPARED)
        return run_preferring(preference, function, *args, **kwargs)[0]

    return autotuner.measure(run)


def is_filling_cache() -> bool:
    """Return True if the running call fills the cache."""
    return thread_log.is_filling_cache


def offer_to_cache(result: Any, prepare: Any) -> None:
    """Offer a prepared call to the cache; it is taken if `result` is the result of the whole call."""
    if thread_log.is_filling_cache:
        thread_log.offered = result, prepare


def _has_exact_key(argument: Any) -> bool:
    """Return True unless an argument is a list, or a tuple with elements other than integers."""
    kind = type(argument)
    return kind is not list and (kind is not tuple or {*map(type, argument)} <= {int})


def _exact_key(arguments: tuple[Any, ...]) -> Signature:
    """Return the key of arguments beyond their signature: shapes and strides of arrays, values of others."""
    # Zeros by their repr, since -0.0 == 0.0.
    shapes = [(v.shape, v.strides) if type(v) is _array else v or repr(v) for v in arguments]
    return tuple(shapes)


class Executable(NamedTuple):
    """How calls with a signature are computed.

    With `log`, NumPy's function computes them, and `log` logs them. With `compute`, that prepared call does.
    With `by_shape`, the exact key of the arguments selects another one. With `autotuner`, they are measured.
    With none of these, the general path computes them, on the engine of `preference` if there is one; with
    `is_general`, it leaves nothing to cache.
    """

    log: Callable[[], object] | None = None
    compute: Callable[[tuple[Any, ...]], Any] | None = None
    by_shape: bool = False
    preference: Preference | None = None
    autotuner: Autotuner | None = None
    is_general: bool = False


_of_all_functions: list[LRUCache[Signature, Executable]] = []


class DispatchCache:
    """The dispatch cache of one function: from signatures, and from exact keys, to executables."""

    def __init__(self, numpy: Callable[..., Any], function: Callable[..., Any]) -> None:
        self._numpy, self._function = numpy, function
        self.executables: LRUCache[Signature, Executable] = LRUCache(_MAX_ENTRIES)
        self._uncacheable: LRUCache[Signature, int] = LRUCache(_MAX_ENTRIES)  # that left nothing to cache
        _of_all_functions.append(self.executables)

    def dispatch(
        self,
        signature: Signature,
        executable: Executable | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Compute a call that `executable`, None on a miss, has not computed at once.

        It is computed by the exact key, by an autotuner, or on the general path, which may fill the cache.
        """
        # A call nested in one that prefers an engine runs there, too, and does not fill the cache.
        if _current_context.get().preference is not None:
            return self._function(*args, **kwargs)
        if executable is not None and executable.is_general:
            if executable.preference is None:
                return self._function(*args, **kwargs)
            return run_preferring(executable.preference, self._function, *args, **kwargs)[0]
        arguments = (*args, *kwargs.values()) if kwargs else args
        if executable is not None and executable.by_shape:
            exact = self.executables[signature, _exact_key(arguments)]
            if exact is not None and exact.log is not None:
                result = self._numpy(*args, **kwargs)
                exact.log()
                return result
            if exact is not None and exact.compute is not None:
                result = exact.compute(arguments)
                if result is not None:
                    return result
        if executable is not None and executable.autotuner is not None:
            return self._measure(signature, executable.autotuner, args, kwargs)
        preference = None if executable is None else executable.preference
        is_nested = thread_log.is_filling_cache  # the call around this one is measured as a whole
        previous = native_call.last_record()
        result, offered = run_preferring(preference, self._function, *args, **kwargs)
        logged = native_call.last_record()
        if logged is None or logged is previous:
            self._count_uncacheable(signature, executable)
        elif (
            executable is None
            and not is_nested
            and (autotuner := _autotuner(logged, (*arguments, result))) is not None
        ):
            self._store(signature, Executable(autotuner=autotuner))
        elif not self._cache(signature, arguments, result, logged, offered):
            self._count_uncacheable(signature, executable)
        return result

    def _store(self, key: Signature, executable: Executable) -> None:
        """Add an executable; drop those of all functions that were not used lately if there are many."""
        self.executables[key] = executable
        if sum(map(len, _of_all_functions)) > _MAX_OF_ALL // 2:  # of the recent generations
            for executables in _of_all_functions:
                executables.age()

    def _measure(
        self, signature: Signature, autotuner: Autotuner, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Measure a call; choose the fastest engine once all are measured."""
        result, best = measure(autotuner, self._numpy, self._function, *args, **kwargs)
        if best is not None:
            preference = preference_of(autotuner, best.engine, best)
            log = None if preference else _numpy_logger(autotuner.name, best)
            self._store(signature, Executable(log, preference=preference))
        return result

    def _cache(
        self,
        signature: Signature,
        arguments: tuple[Any, ...],
        result: Any,
        logged: native_call.CallRecord,
        offered: tuple[Any, Prepare] | None,
    ) -> bool:
        """Add the executable for calls like this one; return False if there is none."""
        before = self.executables[signature] or Executable()
        if before.preference is None and native_call.ran_in_numpy_for_size(logged):
            self._store(signature, Executable(_logger(logged)))
            return True
        if not all(map(_has_exact_key, arguments)):
            return False
        if offered is not None and offered[0] is result:
            cached_call = offered[1](native_call.cpu_choice_of(logged), arguments)
            if cached_call is None:
                return False
            executable, any_shape = Executable(compute=cached_call.compute), cached_call.any_shape
        elif native_call.ran_in_numpy(logged, REASON_NUMPY_FASTER_FOR_LAYOUT):
            executable, any_shape = Executable(_logger(logged)), False
        else:
            return False
        if any_shape:
            self._store(signature, before._replace(compute=executable.compute))
        else:
            self._store(signature, before._replace(by_shape=True))
            self._store((signature, _exact_key(arguments)), executable)
        return True

    def _count_uncacheable(self, signature: Signature, executable: Executable | None) -> None:
        """Count a call that left nothing to cache; after a few, later ones take the general path at once."""
        before = executable or Executable()
        if not before.by_shape and before.compute is None:
            self._uncacheable[signature] = tries = (self._uncacheable[signature] or 0) + 1
            if tries >= _MAX_UNCACHEABLE:
                self._store(signature, before._replace(is_general=True))


# The functions of which NumPy and the engines compute identical bits of floats, except for payloads of NaN
# and for the sign of a zero that `min` or `max` returns.
_SAME_BITS = frozenset(
    """
    abs absolute add all allclose any argmax argmin argwhere array_equal ascontiguousarray ceil clip compress
    concatenate copysign count_nonzero diff digitize divide equal fabs flatnonzero flip floor fmod greater
    greater_equal heaviside isclose isfinite isinf isnan kron ldexp less less_equal lexsort logical_and
    logical_not logical_or logical_xor max min multiply nan_to_num nanargmax nanargmin nanmax nanmin negative
    nonzero not_equal outer positive ptp reciprocal repeat rint roll searchsorted sign signbit
    sqrt square stack subtract swapaxes take take_along_axis tile transpose tril triu true_divide trunc where
    """.split()  # noqa: SIM905 - many names
)
# NumPy orders equal elements as it likes, its `round` to negative decimals overflows, or its time depends on
# the values.
_NEVER_BY_NUMPY = frozenset(
    """
    argpartition argsort intersect1d isin partition round setdiff1d setxor1d union1d unique unique_values
    """.split()  # noqa: SIM905
)


def _autotuner(logged: native_call.CallRecord, values: tuple[Any, ...]) -> Autotuner | None:
    """Return an autotuner for calls like one that ran, with its arguments and result, if it pays.

    Results must not depend on the time at which a call was measured, so NumPy is measured only if it computes
    the same bits.
    """
    if 0 < native_call.seconds_of(logged) < MIN_MEASURED_SECONDS:
        return None
    name = native_call.function_of(logged)
    are_exact = name not in _NEVER_BY_NUMPY and not any(map(_has_floats, values))
    return autotuner_of(name, native_call.estimates_of(logged), name in _SAME_BITS or are_exact)


def _has_floats(value: Any) -> bool:
    if type(value) is tuple or type(value) is list:
        return any(map(_has_floats, value))
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind not in "biu"
    return isinstance(value, float)


def preference_of(autotuner: Autotuner, engine: str | None, reason: Reason) -> Preference | None:
    """Return the preference of an autotuner's engine; None if that is NumPy, or the estimates decide."""
    if engine is None or engine == "numpy":
        return None
    return Preference(engine, reason, autotuner.may_be_numpy)


def _logger(logged: native_call.CallRecord) -> Callable[[], object]:
    call = native_call.as_call(logged)
    return _numpy_logger(call.function, call.reason)


def _numpy_logger(function: str, reason: Reason) -> Callable[[], object]:
    return native_call.call_logger(Call(function, "numpy", str(reason)))


def with_dispatch_cache(numpy: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that looks its calls up in a dispatch cache under `auto`."""
    cache = DispatchCache(numpy, function)
    executables = cache.executables

    def of_long_lists(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arrays = _as_arrays(args)
        signature = signature_of(arrays, kwargs)
        if signature is None or signature is LONG_LIST:
            return function(*args, **kwargs)
        signature = (*map(type, args), LONG_LIST, *signature)
        executable = executables[signature]
        if executable is None or executable.log is None:
            return cache.dispatch(signature, executable, args, kwargs)
        result = numpy(*arrays, **kwargs)
        executable.log()
        return result

    def call(*args: Any, **kwargs: Any) -> Any:
        if (_current_context.get().fast_path_engine or context.process_engine) != "auto" or (
            signature := signature_of(args, kwargs)
        ) is None:
            return function(*args, **kwargs)
        if signature is LONG_LIST:
            return of_long_lists(args, kwargs)
        executable = executables[signature]
        if executable is not None:
            log, compute, *_ = executable
            if log is not None:
                result = numpy(*args, **kwargs)
                log()
                return result
            if compute is not None:
                result = compute((*args, *kwargs.values()) if kwargs else args)
                if result is not None:
                    return result
        return cache.dispatch(signature, executable, args, kwargs)

    return call
