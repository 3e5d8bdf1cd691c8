"""Execute one entry of the C ABI: options, report, interruption, CPU fallback, call log.

The first part keeps the call log: the thread's last call, composite calls, profiles. The second part is
`NativeCall`, a prepared call of an entry, and `run`, which calls an entry with given arguments.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, ParamSpec, TypeGuard, TypeVar

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, allocator, driver_jit, engine_status, loader
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context
from pycudakit._runtime.call_log import (
    Call,
    Estimates,
    RawCall,
    Reason,
    SmallCall,
    call_from_report,
    combine_calls,
    combine_passes,
    sum_of_estimates,
)
from pycudakit._runtime.cost_model import REASON_NUMPY_FASTER_FOR_SIZE
from pycudakit._runtime.engine_choice import NO_COST, EngineChoice, choose_engine
from pycudakit._runtime.fp_errors import caller_stacklevel
from pycudakit._runtime.interrupts import Watcher
from pycudakit._runtime.progress import CallProgress, ProgressCallback

NOTHING_TO_COMPUTE = "nothing to compute"
_MAX_SPANS = 1 << 16  # spans of one call that a profile records
# Errors of the CUDA engine after which the CPU engine may compute the rest, under `auto`.
FALLBACK_ERRORS = (errors.NoDevice, errors.OutOfMemory, errors.DeviceError)

T = TypeVar("T")
P = ParamSpec("P")


# ---- The call log -----------------------------------------------------------------------------------


class _CompositeCall(NamedTuple):
    """A call that consists of other calls."""

    function: str
    parts: list[Any]
    seconds: float | None = None


class _FusedCall(NamedTuple):
    """A call of a fused function, with its passes."""

    function: str
    parts: list[Any]
    seconds: float
    numpy_seconds: float
    breaks: Sequence[Any]
    reason: Reason


class _NumPyCall(NamedTuple):
    """A call that NumPy computed."""

    function: str
    reason: Reason
    seconds: float
    began: float


CallRecord = Call | RawCall | SmallCall | _CompositeCall | _FusedCall | _NumPyCall


class CallLog(threading.local):
    """The calls of a thread, and their observers.

    `call` is the last call, and `parts` are those of the composite call under way. `on_entry` observes native
    calls, and `capture_listener` the buffers on a device. While `is_filling_cache`, a call may leave in
    `offered` a prepared call for the dispatch cache, with its result.
    """

    call: CallRecord | None = None
    parts: list[CallRecord] | None = None
    on_entry: Callable[[NativeCall, str], object] | None = None
    capture_listener: Any = None
    is_filling_cache = False
    offered: tuple[Any, Any] | None = None


thread_log = CallLog()
_current_context = context.current_context


def last_call() -> Call | None:
    """Return the record of the calling thread's last call: engine, reason, bytes moved, time of each stage.

    Returns
    -------
    Call or None

    See Also
    --------
    profile, engine

    Examples
    --------
    >>> import pycudakit as pk
    >>> with pk.engine("cpu"):
    ...     _ = pk.sqrt([1.0, 4.0])
    >>> pk.last_call().function, pk.last_call().engine
    ('sqrt', 'cpu')
    """
    call = thread_log.call
    if call is not None and not isinstance(call, Call):
        parts, raw_call = thread_log.parts, call
        call = thread_log.call = as_call(raw_call)
        if parts and parts[-1] is raw_call:  # or it would be counted twice
            parts[-1] = call
    return call


def as_call(call: CallRecord) -> Call:
    """Return a record as a `Call`."""
    if isinstance(call, Call):
        return call
    if isinstance(call, _CompositeCall):
        parts = [as_call(part) for part in call.parts]
        return combine_calls(call.function, parts, wall_seconds=call.seconds)
    if isinstance(call, _FusedCall):
        return combine_passes(call.function, [as_call(part) for part in call.parts], *call[2:])
    if isinstance(call, _NumPyCall):
        return Call(call.function, "numpy", str(call.reason), call.seconds, began=call.began)
    if _is_small(call):
        describe, size, types = call
        return describe(size, types)
    return call_from_report(*call)


def last_record() -> CallRecord | None:
    """Return the thread's last call in the form in which it was recorded."""
    return thread_log.call


def ran_in_numpy(call: CallRecord, reason: str) -> bool:
    """Return True if NumPy computed a call for this reason."""
    return isinstance(call, (Call, _NumPyCall)) and call.reason == reason and as_call(call).engine == "numpy"


def ran_in_numpy_for_size(call: CallRecord) -> bool:
    """Return True if NumPy computed a call, or all of its parts, because of the size of the arrays."""
    if isinstance(call, _CompositeCall):
        return all(map(ran_in_numpy_for_size, call.parts))
    if isinstance(call, _NumPyCall) and isinstance(call.reason, Estimates):
        return call.reason.by_size
    return _is_small(call) or ran_in_numpy(call, REASON_NUMPY_FASTER_FOR_SIZE)


def estimates_of(call: CallRecord) -> Estimates | None:
    """Return the estimates by which `auto` chose the engine of a call; of its parts, their sums."""
    if isinstance(call, _CompositeCall):
        parts = [part for part in map(estimates_of, call.parts) if part is not None]
        return sum_of_estimates(parts) if parts else None
    reason = call[2] if _is_raw(call) else getattr(call, "reason", None)
    return reason if isinstance(reason, Estimates) else None


def seconds_of(call: CallRecord) -> float:
    """Return the time of a call in NumPy or in a library, as far as it is known; of its parts, their sum."""
    if isinstance(call, _CompositeCall):
        return sum(map(seconds_of, call.parts))
    return as_call(call).seconds or 0.0


def _is_small(call: CallRecord) -> TypeGuard[SmallCall]:
    return type(call) is tuple and len(call) == 3


def _is_raw(call: CallRecord) -> TypeGuard[RawCall]:
    return type(call) is tuple and len(call) == 5


def function_of(call: CallRecord) -> str:
    """Return the name of the function of a call."""
    if isinstance(call, (_CompositeCall, _FusedCall, _NumPyCall)):
        return call.function
    return call[0] if _is_raw(call) else as_call(call).function


def cpu_choice_of(call: CallRecord) -> EngineChoice:
    """Return the choice by which `auto` ran a call on the CPU engine, for calls like it."""
    reason = call[2] if _is_raw(call) else as_call(call).reason
    return EngineChoice(function_of(call), "cpu", reason, automatic=True)


def log_call(call: CallRecord) -> None:
    """Record a call as the thread's last; add it to the composite call under way, or else to profiles."""
    if thread_log.parts is not None:
        _add_part(call)
        thread_log.call = call
        return
    thread_log.call = call
    if profiles := _current_context.get().profiles:
        thread_log.call = as_call(call)
        for calls in profiles:
            calls.append(thread_log.call)


def _add_part(*calls: CallRecord) -> None:
    """Add parts to the composite call under way, after the last call if a `call_logger` recorded that."""
    parts, last = thread_log.parts, thread_log.call
    if parts is not None:
        if last is not None and not (parts and parts[-1] is last):
            parts.append(last)
        parts.extend(calls)


def call_logger(call: CallRecord | None) -> Callable[[], object]:
    """Return a fast function that records a constant call, for use where nothing observes calls."""
    return functools.partial(setattr, thread_log, "call", call)


def run_numpy(function: str, reason: Reason, compute: Callable[[], T]) -> T:
    """Compute a call with NumPy, and record it."""
    allocator.check_numpy_is_allowed()
    began = time.perf_counter()
    result = compute()
    log_call(_NumPyCall(function, reason, time.perf_counter() - began, began))
    return result


def log_empty_call(function: str, reason: str = NOTHING_TO_COMPUTE) -> int:
    """Record a call that has nothing to compute; return its floating-point flags, which are 0."""
    log_call(Call(function, "numpy", reason))
    return 0


def collect_calls(
    compute: Callable[[], T], calls: list[CallRecord] | None = None
) -> tuple[T, list[CallRecord]]:
    """Return the result of a function, and the calls that it made, which are hidden from the call log.

    The calls are appended to `calls`, if that is given: it has those before an exception, too. A signal
    handler may raise wherever a Python function begins, so nothing is called between the end of `compute` and
    the restoration of the call log.
    """
    if calls is None:
        calls = []
    outer = thread_log.call, thread_log.parts
    try:
        thread_log.call, thread_log.parts = None, calls
        result = compute()
    finally:
        last: CallRecord | None = thread_log.call
        thread_log.call, thread_log.parts = outer
        if last is not None and not (calls and calls[-1] is last):
            calls.append(last)
    return result, calls


@contextlib.contextmanager
def observe_entries(on_entry: Callable[[NativeCall, str], object]) -> Iterator[None]:
    """Call `on_entry` for each native call that the thread makes in a ``with`` block, with its function."""
    outer, thread_log.on_entry = thread_log.on_entry, on_entry
    try:
        yield
    finally:
        thread_log.on_entry = outer


def logged_as_one_call(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function so that its calls are logged as one call."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def logged(*args: P.args, **kwargs: P.kwargs) -> T:
            return as_one_call(name, lambda: function(*args, **kwargs))

        return logged

    return decorate


def as_one_call(name: str, compute: Callable[[], T]) -> T:
    """Return the result of a function, whose calls are logged as one call."""
    began = time.perf_counter()
    result, parts = collect_calls(compute)
    if parts:
        log_composite_call(name, parts, time.perf_counter() - began)
    else:
        log_empty_call(name)
    return result


def log_composite_call(name: str, parts: Sequence[CallRecord], seconds: float | None = None) -> None:
    """Record one call that consists of others; its duration is theirs if `seconds` is None."""
    log_call(_CompositeCall(name, list(parts), seconds))


def log_fused_call(
    name: str,
    parts: list[CallRecord],
    seconds: float,
    numpy_seconds: float,
    breaks: Sequence[Any],
    reason: Reason = "",
) -> None:
    """Record a call of a fused function: see `call_log.combine_passes`."""
    log_call(_FusedCall(name, parts, seconds, numpy_seconds, breaks, reason))


def numpy_fallback(function: str, compute: Callable[[], T], unsupported: str | None = None) -> T:
    """Compute with NumPy a call that only NumPy supports, if the engine in force allows it.

    The reason is an argument for which `as_array` returned None, or the text `unsupported`.
    """
    chosen = choose_engine(function, [None] if unsupported is None else [], NO_COST, unsupported)
    return run_numpy(function, chosen.reason, compute)


def log_split_call(call: CallRecord, functions: Sequence[str], seconds: Sequence[float]) -> None:
    """Record a call that computed several functions as one call for each, with a share of the time."""
    whole = as_call(call)
    took, total = whole.seconds or 0.0, sum(seconds) or 1.0
    times = dict(whole.stages)
    for function, part in zip(functions, seconds, strict=True):
        stages = {stage: time * part / total for stage, time in times.items()}
        log_call(replace(whole, function=function, seconds=took * part / total, stages=stages))
        whole = replace(whole, spans=None, spans_left_out=0)  # only the first has the spans


def extending_last_call(compute: Callable[[], T]) -> T:
    """Return the result of a function, and merge the calls that it made into the call before it."""
    previous = thread_log.call
    result, parts = collect_calls(compute)
    if previous is not None and parts:
        _amend(previous, _CompositeCall(function_of(previous), [previous, *parts]))
    return result


def add_reason(text: str) -> None:
    """Append a note to the reason of the thread's last call."""
    call = thread_log.call
    if call is not None and _is_raw(call):
        function, engine, reason, devices, report = call
        _amend(call, (function, engine, f"{reason}; {text}", devices, report))
    elif call is not None:
        full_call = as_call(call)
        _amend(call, replace(full_call, reason=f"{full_call.reason}; {text}"))


def _amend(previous: CallRecord, after: CallRecord) -> None:
    """Replace the last call in the call log, the composite call and the profiles."""
    parts = thread_log.parts
    thread_log.call = after
    if parts is not None:
        if parts and parts[-1] is previous:
            parts.pop()
        parts.append(after)
    elif profiles := _current_context.get().profiles:
        thread_log.call = as_call(after)
        for calls in profiles:
            if calls and calls[-1] is previous:
                calls[-1] = thread_log.call


# ---- Calls of a library -----------------------------------------------------------------------------


class Pool(Generic[T]):
    """A pool of reusable objects, each used by one call at a time."""

    def __init__(self, make: Callable[..., T]) -> None:
        self._make = make
        self._idle: list[T] = []

    def take(self, *arguments: Any) -> T:
        """Return an idle object, or a new one made of the arguments."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._make(*arguments)

    def give_back(self, used: T) -> None:
        """Return an object to the pool."""
        self._idle.append(used)


@contextlib.contextmanager
def call_progress(function: str, size: int) -> Iterator[ProgressCallback]:
    """Return a function that reports the progress of a call that Python code computes in parts."""
    target = _current_context.get().progress
    if target is None:
        yield lambda done, total: None  # noqa: ARG005
    else:
        with CallProgress(target, function, size) as report:
            yield report


class NativeCall(ABC):
    """A prepared call of one ABI entry on either library, like a prepared statement of a database.

    A subclass binds the arguments once; `run` then calls the entry any number of times, one call at a time.
    """

    entry: str  # the entry's name
    falls_back = True  # under `auto`, to the CPU engine if the CUDA engine fails
    resumes = False  # the fallback computes only the elements that were not delivered
    max_devices: int | None = None

    def __init__(self) -> None:
        self.options = np.zeros(1, abi.OPTIONS)
        self.report = np.empty(1, abi.REPORT)
        self._exceptions: Array = self.report["exceptions"]
        self._entries: dict[str, Callable[[], int]] = {}  # by engine
        self._has_options = False
        self._watcher = Watcher()
        self.options["progress_callback"] = self._watcher.address

    @abstractmethod
    def bind(self, library: Any) -> Callable[[], Any]:
        """Return the entry of a library, bound to its arguments, with `self.options` and `self.report`."""

    def describe_entry(self) -> tuple[str, tuple[Any, ...]]:
        """Return the entry's name and its arguments."""
        name, arguments = self.bind(abi.EntryRecorder())()
        return name, arguments

    def run(self, choice: EngineChoice, size: int) -> int:
        """Call a library for `size` elements, record the call, and return its floating-point flags."""
        call_context = _current_context.get()
        if call_context.fast_path_engine == context.NO_FAST_PATH or (
            self.falls_back and choice.automatic and choice.engine == "cuda"
        ):
            return self._run_observed(choice, size, call_context)
        self._set_options(None, None, None)
        return self._run(choice, (0,) if choice.engine == "cuda" else ())

    def run_unobserved(self, choice: EngineChoice) -> int:
        """Call a library without progress, profile or fallback, and record the call."""
        return self._run(choice, (0,))

    def run_on_stream(self, choice: EngineChoice, stream: int) -> int:
        """Call a library on device arrays of a CUDA stream, and record the call.

        Returns its floating-point flags; an asynchronous call reports none.
        """
        waits = _current_context.get().wait
        self.options["stream"], self.options["asynchronous"] = stream, not waits
        fp_flags = self.run_unobserved(choice)
        return fp_flags if waits else 0

    def run_on_cpu(self, choice: EngineChoice) -> int:
        """Call the CPU library, like `run`, but without the check for progress and profiles."""
        self._set_options(None, None, None)
        return self._run(choice, ())

    def _run_observed(self, choice: EngineChoice, size: int, call_context: context.CallContext) -> int:
        if call_context.progress is None:
            return self._run_with_fallback(choice, call_context)
        progress = CallProgress(call_context.progress, choice.function, size)
        with progress as report:
            if self._needs_driver_jit(choice):
                progress.wait(driver_jit.JIT_PROGRESS)
            self._watcher.progress = report
            try:
                return self._run_with_fallback(choice, call_context)
            finally:
                self._watcher.progress = None

    def _run_with_fallback(self, choice: EngineChoice, call_context: context.CallContext) -> int:
        if not (self.falls_back and choice.automatic and choice.engine == "cuda"):
            return self._run_with_options(choice, call_context)
        rest = np.zeros(1, abi.REST) if self.resumes else None
        try:
            return self._run_with_options(choice, call_context, rest)
        except FALLBACK_ERRORS as error:
            warn_of_fallback(error)
            return self.fall_back(choice, call_context, rest)

    def fall_back(self, choice: EngineChoice, call_context: context.CallContext, rest: Array | None) -> int:  # noqa: ARG002
        """Compute on the CPU engine the elements that the CUDA engine did not deliver."""
        return self._run_with_options(fallback_choice(choice), call_context)

    def _run_with_options(
        self, choice: EngineChoice, call_context: context.CallContext, rest: Array | None = None
    ) -> int:
        devices = context.current_devices()[: self.max_devices] if choice.engine == "cuda" else ()
        indices = None if devices in ((), (0,)) else np.array(devices, np.int64)  # (0,) is the default
        spans = np.empty(_MAX_SPANS, abi.SPAN) if call_context.profiles else None
        self._set_options(indices, spans, rest)
        return self._run(choice, devices, spans)

    def _set_options(self, devices: Array | None, spans: Array | None, rest: Array | None) -> None:
        if not self._has_options and devices is spans is rest is None:
            return
        for name, array in (("devices", devices), ("spans", spans), ("rest", rest)):
            self.options[name] = 0 if array is None else abi.address_of(array)
        self.options["device_count"] = 0 if devices is None else len(devices)
        self.options["span_capacity"] = 0 if spans is None else len(spans)
        self._has_options = not (devices is spans is rest is None)

    def _run(self, choice: EngineChoice, devices: tuple[int, ...], spans: Array | None = None) -> int:
        entry = self._entries.get(choice.engine)
        if entry is None:
            if self._needs_driver_jit(choice):
                choice = replace(choice, reason=f"{choice.reason}; {driver_jit.JIT_REASON}")
            entry = self._entries[choice.engine] = self.bind(loader.library(choice.engine))
            if choice.engine == "cuda":
                driver_jit.note_use(self.entry)
        began = 0.0 if spans is None else time.perf_counter()
        try:
            if status := entry():
                abi.raise_error(loader.library(choice.engine), status)
        except errors.Error as error:
            if isinstance(error, (errors.DeviceError, errors.NoDevice)):
                engine_status.status.cache_clear()  # the device may be lost for good
            if self._watcher.error is None:
                raise
        if self._watcher.error is not None:  # takes precedence over errors that followed from the stop
            self._watcher.raise_error()
        if thread_log.on_entry is not None:
            thread_log.on_entry(self, choice.function)
        raw_call = choice.function, choice.engine, choice.reason, devices, self.report.tobytes()
        if spans is not None:
            log_call(call_from_report(*raw_call, began, spans))
        else:  # `log_call` without a profile, inlined
            if thread_log.parts is not None:
                _add_part(raw_call)
            thread_log.call = raw_call
        fp_flags: int = self._exceptions.item()
        return fp_flags

    def _needs_driver_jit(self, choice: EngineChoice) -> bool:
        """Return True if the GPU's driver will compile the entry's kernels in this call."""
        if choice.engine != "cuda" or "cuda" in self._entries:
            return False
        return driver_jit.is_first_use(self.entry, context.current_devices())


def warn_of_fallback(error: errors.Error) -> None:
    """Warn that the CUDA engine failed and the CPU engine computes the rest."""
    warnings.warn(
        f"the CUDA engine failed, and the CPU engine took over: {error}",
        RuntimeWarning,
        stacklevel=caller_stacklevel(),
    )


def fallback_choice(choice: EngineChoice, detail: str = "") -> EngineChoice:
    """Return the choice of the CPU engine after a failure of the CUDA engine."""
    return EngineChoice(choice.function, "cpu", context.REASON_CUDA_FAILED + detail)


class _UnpreparedCall(NativeCall):
    """A call of an entry whose arguments are set anew for each call."""

    def __init__(self, entry: str) -> None:
        super().__init__()
        self.entry = entry
        self._options_and_report = abi.ArrayPointer(self.options), abi.ArrayPointer(self.report)
        self.arguments: tuple[Any, ...] = ()

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return a function that calls the entry with the arguments that are set at that time."""
        entry = getattr(library, self.entry)
        return lambda: entry(*self.arguments, *self._options_and_report)


@functools.cache
def _pool(entry: str) -> Pool[_UnpreparedCall]:
    return Pool(functools.partial(_UnpreparedCall, entry))


def run(choice: EngineChoice, entry: str, *arguments: Any, size: int) -> int:
    """Call an entry of the chosen library with these arguments, pk_options and pk_report; record the call.

    Returns the report's `exceptions` (floating-point flags). The entry's outputs must not overlap its inputs:
    under `auto`, the CPU engine repeats the whole call if the CUDA engine fails.
    """
    pool = _pool(entry)
    call = pool.take()
    call.arguments = arguments
    try:
        return call.run(choice, size)
    finally:
        call.arguments = ()
        pool.give_back(call)
