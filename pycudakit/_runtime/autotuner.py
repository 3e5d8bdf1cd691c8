"""The autotuner of `auto`: it times calls on each engine to choose between them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pycudakit._native import engine_status
from pycudakit._runtime import native_call
from pycudakit._runtime.call_log import Estimates
from pycudakit._runtime.cost_model import CUDA_CALL
from pycudakit._runtime.engine_choice import choice_is_final

T = TypeVar("T")

# The time limit of a capture under `auto` is _CAPTURE_RATIO times NumPy's time, within these bounds.
MAX_CAPTURE_SECONDS, _MIN_CAPTURE_SECONDS, _CAPTURE_RATIO = 1.0, 0.05, 100
_SHORT_SECONDS = 10e-3  # calls below this are short
_MEASURED_CALLS = 2  # of each engine
_SHORT_CALLS = 8  # of each engine, if they are short and do not take _MEASURED_SECONDS together
_MEASURED_SECONDS = 20e-3
_CALLS_IN_A_ROW = 4  # short calls on one engine, before those on the next
# Short calls on an engine before the measured ones: they find cold caches, and compile. A call of t seconds
# counts as round(t / _WARM_UP_SECONDS) of them, at least one.
_WARM_UPS = {"cpu": 8, "cuda": 8, "numpy": 1}
_WARM_UP_SECONDS = 0.5e-3
_REPLAYS_BEFORE_GRAPHS = 2  # on a GPU: then a CUDA graph of them is captured
# Measuring an engine stops early if its time is above the fastest one's by a factor: the first after two
# short calls, the second for NumPy after one call that is not short, unless NumPy is known to be faster.
_SLOWER_RATIO, _HOPELESS_RATIO = 2, 4
# An engine is measured only if its estimate is below the smallest one times a factor: the first if NumPy is
# one of the two, the second between cpu and cuda, whose threads and transfers are estimated less well.
_CONCLUSIVE_RATIO, _CONCLUSIVE_RATIO_OF_ENGINES = 3, 8
MIN_MEASURED_SECONDS = 20e-6  # shorter calls are not measured


def candidates(estimates: Mapping[str, float]) -> list[str]:
    """Return the engines that may be fastest by these estimates, so that calls are to be measured."""
    least = min(estimates, key=lambda name: estimates[name])

    def may_be_fastest(engine: str) -> bool:
        involves_numpy = "numpy" in (engine, least)
        ratio = _CONCLUSIVE_RATIO if involves_numpy else _CONCLUSIVE_RATIO_OF_ENGINES
        return estimates[engine] < ratio * estimates[least] or engine == least

    return list(filter(may_be_fastest, estimates))


def autotuner_of(name: str, estimates: Estimates | None, may_be_numpy: bool) -> Autotuner | None:
    """Return an autotuner for a function with these estimates; None if measuring its calls does not pay.

    With `may_be_numpy`, it may choose between NumPy and the engines, else only between the engines. While a
    GPU sleeps, nothing is measured.
    """
    if estimates is None or estimates.measured or not choice_is_final():
        return None
    seconds = estimates.seconds()
    if not may_be_numpy:
        if estimates.engine == "numpy":
            return None
        seconds.pop("numpy", None)
    bounds = dict(seconds)  # from below: a call on a GPU takes its overhead at least
    if engine_status.status("cuda").available:
        bounds.setdefault("cuda", CUDA_CALL)
    engines = candidates(bounds) if len(bounds) > 1 else []
    if not engines or min(bounds.values()) < MIN_MEASURED_SECONDS:
        return None
    return Autotuner({}, engines, estimates=seconds, name=name, may_be_numpy=may_be_numpy)


class Autotuner:
    """Times calls of one signature to choose between engines.

    Long calls run on each engine in turn. Short ones run in groups on one engine, so that its threads stay
    awake, and the first ones are not timed. If all of these engines take longer than
    another one's estimate, that one is measured, too.

    Parameters
    ----------
    numbers
        The scalar arguments of the first call, by their index or name. Calls with another value of one of
        them are not timed, since a scalar may be a number of steps.
    engines
        The engines, of "cpu", "cuda" and "numpy".
    numpy_seconds
        The time of a call in NumPy, if it is known.
    estimates
        The estimated times, by engine.
    name
        The function.
    may_be_numpy
        Whether NumPy may be chosen.
    has_graph
        Whether replays on a GPU are captured in a CUDA graph, which makes them faster.
    may_trace_on_gpu
        Whether a GPU is measured by calls that are traced, too, and not by replays alone.
    """

    def __init__(
        self,
        numbers: Mapping[int | str, Any],
        engines: Iterable[str] = ("cpu", "numpy"),
        numpy_seconds: float | None = None,
        estimates: Mapping[str, float] | None = None,
        name: str = "",
        may_be_numpy: bool = True,
        has_graph: bool = False,
        may_trace_on_gpu: bool = True,
    ) -> None:
        self.name, self.may_be_numpy, self.may_trace_on_gpu = name, may_be_numpy, may_trace_on_gpu
        self._replays_before_graphs = _REPLAYS_BEFORE_GRAPHS if has_graph else 0
        self._seconds_on_gpu = 0.0  # of the calls after the warm-up
        self._numbers, self._estimates = numbers, estimates or {}
        self.timed_out = False  # a capture of the function met the time limit, `max_capture_seconds`
        self.max_capture_seconds = MAX_CAPTURE_SECONDS
        if numpy_seconds is not None:
            seconds = max(_MIN_CAPTURE_SECONDS, _CAPTURE_RATIO * numpy_seconds)
            self.max_capture_seconds = min(MAX_CAPTURE_SECONDS, seconds)
        self._known_numpy = self._estimates.get("numpy", numpy_seconds)
        self._seconds: dict[str, list[float]] = {engine: [] for engine in engines}
        self._warm_ups = dict(_WARM_UPS)

    def measure(self, run: Callable[[str | None], T]) -> tuple[T, Estimates | None]:
        """Run and time a call; return its result, and the fastest engine, with the times, once it is known.

        `run` takes the engine, or None for any. An engine that does not run the call, as it lacks that or has
        failed, has an infinite time.
        """
        engine = self.next_engine({})
        began = time.perf_counter()
        result = run(engine)
        seconds = time.perf_counter() - began
        if engine is None:
            return result, None
        record = native_call.last_record()
        if record is None or native_call.as_call(record).engine != engine:
            seconds = math.inf
        elif seconds < MIN_MEASURED_SECONDS:  # no engine is much faster
            self._seconds[engine].append(seconds)
            return result, self._times_of_all(engine)
        return result, self.record_time(engine, seconds)

    def next_engine(self, numbers: Mapping[int | str, Any]) -> str | None:
        """Return the engine for a call that is to be measured; None if it is not."""
        are_same = all(_are_same(self._numbers.get(key, number), number) for key, number in numbers.items())
        return self._next() if are_same else None

    def exclude(self, engine: str) -> Estimates | None:
        """Stop measuring an engine; return the fastest one, with the times, if the others are measured.

        If no engine is left, NumPy is.
        """
        # New dicts, since other threads may read these.
        others = {name: each for name, each in self._seconds.items() if name != engine}
        self._seconds = others or {"numpy": []}
        self._estimates = {name: each for name, each in self._estimates.items() if name != engine}
        return self._best_of_all() if self._next() is None else None

    def record_time(self, engine: str, seconds: float, *, is_compiling: bool = False) -> Estimates | None:
        """Record a call's time; return the fastest engine, with the times, once all are measured.

        With `is_compiling`, later calls may be faster.
        """
        times = self._seconds.get(engine)
        if times is None:  # another thread has excluded it meanwhile
            return None
        if seconds < _SHORT_SECONDS and self._warm_ups[engine] > 0:
            self._warm_ups[engine] -= max(1, round(seconds / _WARM_UP_SECONDS))
            if engine == "cuda":
                self._replays_before_graphs -= 1
            return None
        if engine == "cuda" and self._is_discarded(seconds, is_compiling):
            return None
        times.append(seconds)
        return self._best_of_all() if self._next() is None else None

    def _best_of_all(self) -> Estimates | None:
        """Return the fastest engine, with the times, unless the estimate of another one is below them."""
        best = min(self._seconds, key=self._fastest_time)
        others: dict[str, list[float]] = {
            name: [] for name, estimate in self._estimates.items() if estimate < self._fastest_time(best)
        }
        if others.keys() <= self._seconds.keys():
            return self._times_of_all(best)
        self._seconds = others | self._seconds
        return None

    def _is_discarded(self, seconds: float, is_compiling: bool) -> bool:
        """Count a call on a GPU; return True to discard its time, since later ones may be much faster."""
        self._seconds_on_gpu += seconds
        is_first = self._replays_before_graphs > 0
        if is_first:
            self._replays_before_graphs -= 1
        others = [self._fastest_time(name) for name in self._seconds if name != "cuda"]
        is_hopeless = seconds > _HOPELESS_RATIO * min(others, default=math.inf)
        return (is_first or is_compiling) and not is_hopeless and self._seconds_on_gpu < MAX_CAPTURE_SECONDS

    def _next(self) -> str | None:
        """Return the engine to measure next; None if all have been measured enough."""
        left = [engine for engine in self._seconds if not self._is_measured(engine)]
        is_begun = {engine: len(self._seconds[engine]) % _CALLS_IN_A_ROW > 0 for engine in left}
        begun = [engine for engine in left if is_begun[engine] and self._is_short(engine)]
        return begun[0] if begun else min(left, key=lambda engine: len(self._seconds[engine]), default=None)

    def _is_measured(self, engine: str) -> bool:
        """Return True if an engine has been measured enough."""
        times, fastest = self._seconds[engine], min(map(self._fastest_time, self._seconds))
        if engine == "numpy" and times and min(times) > max(_HOPELESS_RATIO * fastest, _SHORT_SECONDS):
            is_expected = self._known_numpy is None or self._known_numpy > fastest
            return is_expected or len(times) >= _MEASURED_CALLS  # the machine may have been busy
        if len(times) < _MEASURED_CALLS or not self._is_short(engine):
            return len(times) >= _MEASURED_CALLS
        is_slower = min(times) > _SLOWER_RATIO * fastest
        return len(times) >= _SHORT_CALLS or sum(times) > _MEASURED_SECONDS or is_slower

    def _times_of_all(self, best: str) -> Estimates:
        timed = {engine: min(times) for engine, times in self._seconds.items() if times}
        times = {**self._estimates, **timed}
        return Estimates(
            best,
            times.get("numpy"),
            times.get("cpu"),
            times.get("cuda"),
            engine_status.status("cuda"),
            by_size=best == "numpy",
            measured=frozenset(timed),
        )

    def _fastest_time(self, engine: str) -> float:
        return min(self._seconds[engine], default=math.inf)

    def _is_short(self, engine: str) -> bool:
        return self._fastest_time(engine) <= _SHORT_SECONDS


def _are_same(one: Any, other: Any) -> bool:
    return bool(one == other) or repr(one) == repr(other)  # NaN
