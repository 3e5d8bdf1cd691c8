"""The one way to make a call: what it is asked, what it tells, and who is told."""

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
from types import TracebackType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, allocator, driver_jit, engine_status, loader
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context
from pycudakit._runtime.call_log import Call, Told, described, joined
from pycudakit._runtime.engine_choice import NOTHING, Plan, plan_call
from pycudakit._runtime.fp_errors import level_of_caller
from pycudakit._runtime.interrupts import Watcher
from pycudakit._runtime.progress import CallProgress

_SPANS = 1 << 16  # that are kept of a call, in a profile
FAILURES = (errors.NoDevice, errors.OutOfMemory, errors.DeviceError)  # after which the CPU engine may go on

T = TypeVar("T")
P = ParamSpec("P")


# ---- Who is told ------------------------------------------------------------------------------------


class _Joined(NamedTuple):
    """A call that was made of others."""

    function: str
    parts: list[Any]
    are_passes: bool = False


Record = Call | Told | _Joined


class _Local(threading.local):
    call: Record | None = None  # the last one
    parts: list[Record] | None = None  # of the call that is being made of several
    hears: Callable[[Invocation], object] | None = None  # of each entry that was called


_local = _Local()
_here = context.here


def last_call() -> Call | None:
    """Return what the calling thread's last call did: its engine, why, bytes moved, and time by stage.

    Examples
    --------
    >>> import pycudakit as pk
    >>> with pk.engine("cpu"):
    ...     _ = pk.sqrt([1.0, 4.0])
    >>> pk.last_call().function, pk.last_call().engine
    ('sqrt', 'cpu')
    """
    call = _local.call
    if call is not None and not isinstance(call, Call):
        parts, told = _local.parts, call
        call = _local.call = _described(told)
        if parts and parts[-1] is told:  # or it would be counted twice
            parts[-1] = call
    return call


def _described(call: Record) -> Call:
    if isinstance(call, Call):
        return call
    if isinstance(call, _Joined):
        return joined(call.function, [_described(part) for part in call.parts], call.are_passes)
    return described(*call)


def last_record() -> Record | None:
    """Return the thread's last call as it was recorded."""
    return _local.call


def is_by_numpy(call: Record, reason: str) -> bool:
    """Tell whether NumPy computed a call, or all that it is made of, for this reason."""
    if isinstance(call, _Joined):
        return all(is_by_numpy(part, reason) for part in call.parts)
    return isinstance(call, Call) and call.engine == "numpy" and call.reason == reason


def name_of(call: Record) -> str:
    """Return the function of a call."""
    return call[0] if isinstance(call, tuple) else call.function


def done(call: Record) -> None:
    """Record a call: it is the thread's last, and profiles have it, unless it is a part of another."""
    if _local.parts is not None:
        _add_part(call)
        _local.call = call
        return
    _local.call = call
    if profiles := _here.get().profiles:
        _local.call = _described(call)
        for calls in profiles:
            calls.append(_local.call)


def _add_part(*calls: Record) -> None:
    """Add to what a call is made of, after what a recorder has said meanwhile."""
    parts, last = _local.parts, _local.call
    if parts is not None:
        if last is not None and not (parts and parts[-1] is last):
            parts.append(last)
        parts.extend(calls)


def recorder(call: Record | None) -> Callable[[], object]:
    """Return what records a call that is always the same, where nobody watches: it takes no time."""
    return functools.partial(setattr, _local, "call", call)


def by_numpy(function: str, reason: str, compute: Callable[[], T]) -> T:
    """Compute with NumPy, and record that."""
    allocator.refuse_numpy()
    if not _here.get().profiles:
        result = compute()
        done(Call(function, "numpy", reason))
        return result
    began = time.perf_counter()
    result = compute()
    done(Call(function, "numpy", reason, time.perf_counter() - began, began=began))
    return result


def nothing(function: str) -> int:
    """Record a call that has nothing to compute, and return what that met."""
    done(Call(function, "numpy", "nothing was left for an engine to compute"))
    return 0


class apart:  # noqa: N801  (a context manager)
    """Keep the calls of a block to oneself: the list that it gives has them at the end."""

    def __enter__(self) -> list[Record]:
        """Begin."""
        self._outer = _local.call, _local.parts
        self._calls: list[Record] = []
        _local.call, _local.parts = None, self._calls
        return self._calls

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave no trace."""
        _add_part()
        _local.call, _local.parts = self._outer


@contextlib.contextmanager
def heard_by(hears: Callable[[Invocation], object]) -> Iterator[None]:
    """Tell somebody of each entry that the thread calls in a block."""
    outer, _local.hears = _local.hears, hears
    try:
        yield
    finally:
        _local.hears = outer


def one_call(name: str, of_passes: bool = False) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make one call, of this name, of those that a function makes; it tells them, if they are its passes."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def made_of_others(*args: P.args, **kwargs: P.kwargs) -> T:
            with apart() as parts:
                result = function(*args, **kwargs)
            if parts:
                done_in_parts(name, parts, of_passes)
            else:
                nothing(name)
            return result

        return made_of_others

    return decorate


def done_in_parts(name: str, parts: Sequence[Record], are_passes: bool = False) -> None:
    """Record one call that was made of others."""
    done(_Joined(name, list(parts), are_passes))


def by_numpy_alone(function: str, compute: Callable[[], T], foreign: str | None = None) -> T:
    """Have NumPy compute what it alone takes, if the engine in force allows it.

    That is for an argument of which `as_array` made None, or because the call is `foreign`.
    """
    chosen = plan_call(function, [None] if foreign is None else [], NOTHING, foreign)
    return by_numpy(function, chosen.reason, compute)


def done_for_several(call: Record, functions: Sequence[str], seconds: Sequence[float]) -> None:
    """Record a call that computed several functions, as a call for each, with its part of the time."""
    whole = _described(call)
    took, total = whole.seconds or 0.0, sum(seconds) or 1.0
    times = dict(whole.stages)
    for function, part in zip(functions, seconds, strict=True):
        stages = {stage: time * part / total for stage, time in times.items()}
        done(replace(whole, function=function, seconds=took * part / total, stages=stages))
        whole = replace(whole, spans=None, spans_left_out=0)  # which the first has


@contextlib.contextmanager
def as_part_of_last() -> Iterator[None]:
    """Make what is called in a block a part of the call before it."""
    before = _local.call
    with apart() as parts:
        yield
    if before is not None and parts:
        _amend(before, _Joined(name_of(before), [before, *parts]))


def add_reason(text: str) -> None:
    """Add to the reason of the thread's last call."""
    call = _local.call
    if isinstance(call, tuple) and not isinstance(call, _Joined):
        function, engine, reason, devices, report = call
        _amend(call, (function, engine, f"{reason}; {text}", devices, report))
    elif call is not None:
        known = _described(call)
        _amend(call, replace(known, reason=f"{known.reason}; {text}"))


def _amend(before: Record, after: Record) -> None:
    """Put something else in the place of the last call."""
    parts = _local.parts
    _local.call = after
    if parts is not None:
        if parts and parts[-1] is before:
            parts.pop()
        parts.append(after)
    elif profiles := _here.get().profiles:
        _local.call = _described(after)
        for calls in profiles:
            if calls and calls[-1] is before:
                calls[-1] = _local.call


# ---- Calls of a library -----------------------------------------------------------------------------


class Pool(Generic[T]):
    """What calls use, each one at a time, and leave to the next."""

    def __init__(self, make: Callable[..., T]) -> None:
        self._make = make
        self._idle: list[T] = []

    def take(self, *arguments: Any) -> T:
        """Return one that nobody uses, or one that is made of the arguments."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._make(*arguments)

    def give_back(self, used: T) -> None:
        """Leave one to the next call."""
        self._idle.append(used)


class Invocation(ABC):
    """An entry of the ABI with what it takes, of either library: prepared once, and called one by one."""

    entry: str  # its name
    goes_on = True  # under `auto`, on the CPU engine where the CUDA engine fails
    takes_rest = False  # and there with what is left alone
    most_devices: int | None = None

    def __init__(self) -> None:
        self.options = np.zeros(1, abi.OPTIONS)
        self.report = np.empty(1, abi.REPORT)
        self._exceptions: Array = self.report["exceptions"]
        self._entries: dict[str, Callable[[], int]] = {}  # by engine
        self._has_options = False
        self._watch()

    @abstractmethod
    def bind(self, library: Any) -> Callable[[], Any]:
        """Return the entry of a library with its arguments, our `options` and `report` among them."""

    def told(self) -> tuple[str, tuple[Any, ...]]:
        """Return the entry's name and its arguments."""
        name, arguments = self.bind(abi.Teller())()
        return name, arguments

    def run(self, plan: Plan, size: int) -> int:
        """Call a library for so many elements, record the call, and return the exceptions that it met."""
        wanted = _here.get()
        if wanted.fast == context.WATCHED or (self.goes_on and plan.automatic and plan.engine == "cuda"):
            return self._run_watched(plan, size, wanted)
        if self._has_options:
            self._set_options(None, None, None)
        return self._run(plan, (0,) if plan.engine == "cuda" else ())

    def run_alone(self, plan: Plan) -> int:
        """Call a library where nobody watches, and record the call."""
        return self._run(plan, (0,))

    def run_there(self, plan: Plan, stream: int) -> int:
        """Call the CUDA library with arrays on a GPU, whose values come in a stream, and record the call."""
        self.options["stream"], self.options["waits"] = stream, _here.get().wait
        return self.run_alone(plan)

    def run_short(self, plan: Plan) -> int:
        """Call the CPU's library where nobody watches, as `run` does, which looks whether somebody does."""
        if self._has_options:
            self._set_options(None, None, None)
        return self._run(plan, ())

    def _run_watched(self, plan: Plan, size: int, wanted: context.Asked) -> int:
        if wanted.progress is None:
            return self._run_or_take_over(plan, wanted)
        progress = CallProgress(wanted.progress, plan.function, size)
        with progress as report:
            if self._waits_for_driver(plan):
                progress.wait(driver_jit.WAIT)
            self._watcher.progress = report
            try:
                return self._run_or_take_over(plan, wanted)
            finally:
                self._watcher.progress = None

    def _run_or_take_over(self, plan: Plan, wanted: context.Asked) -> int:
        if not (self.goes_on and plan.automatic and plan.engine == "cuda"):
            return self._run_with_options(plan, wanted)
        rest = np.zeros(1, abi.REST) if self.takes_rest else None
        try:
            return self._run_with_options(plan, wanted, rest)
        except FAILURES as error:
            warn_of_takeover(error)
            return self.take_over(plan, wanted, rest)

    def take_over(self, plan: Plan, wanted: context.Asked, rest: Array | None) -> int:  # noqa: ARG002
        """Do on the CPU engine what the CUDA engine could not."""
        return self._run_with_options(failed_over(plan), wanted)

    def _run_with_options(self, plan: Plan, wanted: context.Asked, rest: Array | None = None) -> int:
        devices = context.devices_asked()[: self.most_devices] if plan.engine == "cuda" else ()
        indices = None if devices in ((), (0,)) else np.array(devices, np.int64)  # (0,) is the usual
        spans = np.empty(_SPANS, abi.SPAN) if wanted.profiles else None
        self._set_options(indices, spans, rest)
        return self._run(plan, devices, spans)

    def _set_options(self, devices: Array | None, spans: Array | None, rest: Array | None) -> None:
        for name, array in (("devices", devices), ("spans", spans), ("rest", rest)):
            self.options[name] = 0 if array is None else array.ctypes.data
        self.options["device_count"] = 0 if devices is None else len(devices)
        self.options["span_capacity"] = 0 if spans is None else len(spans)
        self._has_options = not (devices is spans is rest is None)

    def _run(self, plan: Plan, devices: tuple[int, ...], spans: Array | None = None) -> int:
        entry = self._entries.get(plan.engine)
        if entry is None:
            if self._waits_for_driver(plan):
                plan = replace(plan, reason=f"{plan.reason}; {driver_jit.WAITED}")
            entry = self._entries[plan.engine] = self.bind(loader.library(plan.engine))
            if plan.engine == "cuda":
                driver_jit.note_use(self.entry)
        began = 0.0 if spans is None else time.perf_counter()
        try:
            if status := entry():
                abi.raise_error(loader.library(plan.engine), status)
        except errors.Error as error:
            if isinstance(error, (errors.DeviceError, errors.NoDevice)):
                engine_status.status.cache_clear()  # the device may be lost for good
            if not self._watcher.stopped:
                raise
        if self._watcher.stopped:  # whatever else went wrong on the way out
            self._stop()
        if _local.hears is not None:
            _local.hears(self)
        told = plan.function, plan.engine, plan.reason, devices, self.report.tobytes()
        if spans is not None:
            done(described(*told, began, spans))
        else:  # as `done` does where there is no profile, without a call
            if _local.parts is not None:
                _add_part(told)
            _local.call = told
        met: int = self._exceptions.item()
        return met

    def _waits_for_driver(self, plan: Plan) -> bool:
        """Tell whether a GPU's driver is about to compile the entry's kernels."""
        if plan.engine != "cuda" or "cuda" in self._entries:
            return False
        return driver_jit.is_first(self.entry, context.devices_asked())

    def _watch(self) -> None:
        self._watcher = Watcher()
        self.options["watch"] = self._watcher.address

    def _stop(self) -> None:
        """Raise what stopped the call."""
        watcher = self._watcher
        self._watch()
        watcher.raise_error()


def warn_of_takeover(error: errors.Error) -> None:
    """Warn that the CPU engine does what the CUDA engine could not."""
    warnings.warn(
        f"the CUDA engine failed, and the CPU engine took over: {error}",
        RuntimeWarning,
        stacklevel=level_of_caller(),
    )


def failed_over(plan: Plan, what: str = "") -> Plan:
    """Return where a call goes on that the CUDA engine could not end."""
    return Plan(plan.function, "cpu", f"auto: the CUDA engine failed{what}")


class _Once(Invocation):
    """An entry whose arguments are others the next time."""

    def __init__(self, entry: str) -> None:
        super().__init__()
        self.entry = entry
        self._last = abi.Lasting(self.options), abi.Lasting(self.report)
        self.arguments: tuple[Any, ...] = ()

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry with whatever its arguments are then."""
        entry = getattr(library, self.entry)
        return lambda: entry(*self.arguments, *self._last)


@functools.cache
def _pool(entry: str) -> Pool[_Once]:
    return Pool(functools.partial(_Once, entry))


def run(plan: Plan, entry: str, *arguments: Any, size: int) -> int:
    """Call an entry of the plan's library with these arguments, pk_options and pk_report; record the call.

    Returns the report's `exceptions`. What the entry writes must be nothing that it reads: under `auto`, the
    CPU engine does the whole of a call that failed on the CUDA engine.
    """
    pool = _pool(entry)
    call = pool.take()
    call.arguments = arguments
    try:
        return call.run(plan, size)
    finally:
        call.arguments = ()
        pool.give_back(call)
