"""The autotuner of `auto`: it times calls on each engine to choose between them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pycudakit._native import engine_status, hardware
from pycudakit._runtime.call_log import Estimates
from pycudakit._runtime.cost_model import CUDA_CALL
from pycudakit._runtime.engine_choice import choice_is_final

T = TypeVar("T")

# Capturing a call may take this many seconds under `auto`: so many times NumPy's time, within these bounds.
MAX_PATIENCE, _MIN_PATIENCE, _PATIENCE_RATIO = 1.0, 0.05, 50
_MEASURED_CALLS, _SHORT_CALLS = 2, 5  # measured calls of each engine, of any length and of short ones
# The first calls of an engine, which find cold caches and compile, and which are not timed if they are short.
_WARM_UPS, _SHORT_SECONDS = {"cpu": 8, "cuda": 8, "numpy": 1}, 1e-3
# NumPy is not measured again if it takes long, and so many times as long as an engine (which may compile).
_HOPELESS_RATIO, _LONG_SECONDS = 4, 10e-3
# An engine is measured only if its estimate is below so many times the smallest one.
_CONCLUSIVE_RATIO = 3
_WORTH_MEASURING = 20e-6  # seconds: shorter calls are not measured
_CONCLUSIVE_RATIO_OF_ENGINES = 8  # of the two engines: threads and transfers are estimated less well


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
    if hardware.link_is_known():
        seconds.setdefault("cuda", CUDA_CALL)
    if not may_be_numpy:
        if estimates.engine == "numpy":
            return None
        seconds.pop("numpy", None)
    engines = candidates(seconds) if len(seconds) > 1 else []
    if not engines or min(seconds.values()) < _WORTH_MEASURING:
        return None
    return Autotuner({}, engines, estimates=seconds, name=name, may_be_numpy=may_be_numpy)


class Autotuner:
    """Times calls of one signature to choose between engines.

    The calls run on each engine in turn, so that all find warm memory in the end. Of short calls, the first
    ones are not timed. Only calls with the scalar arguments of the first one are timed, because a scalar may
    be a number of steps. If all of these engines take longer than another one's estimate, that one is
    measured, too.

    Parameters
    ----------
    numbers
        The scalar arguments of the first call, by their index or name.
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
    """

    def __init__(
        self,
        numbers: Mapping[int | str, Any],
        engines: Iterable[str] = ("cpu", "numpy"),
        numpy_seconds: float | None = None,
        estimates: Mapping[str, float] | None = None,
        name: str = "",
        may_be_numpy: bool = True,
    ) -> None:
        self.name, self.may_be_numpy = name, may_be_numpy
        self._numbers, self._estimates = numbers, estimates or {}
        # Seconds that capturing a call may take.
        self.patience = MAX_PATIENCE
        if numpy_seconds is not None:
            self.patience = min(MAX_PATIENCE, max(_MIN_PATIENCE, _PATIENCE_RATIO * numpy_seconds))
        self._seconds: dict[str, list[float]] = {engine: [] for engine in engines}
        self._warm_ups = dict(_WARM_UPS)

    def measure(self, run: Callable[[str | None], T]) -> tuple[T, Estimates | None]:
        """Run and time a call; return its result, and that of `record_time`.

        `run` takes the engine, or None for any.
        """
        engine = self.next_engine({})
        began = time.perf_counter()
        result = run(engine)
        return result, None if engine is None else self.record_time(engine, time.perf_counter() - began)

    def next_engine(self, numbers: Mapping[int | str, Any]) -> str | None:
        """Return the engine for a call that is to be measured; None if it is not."""
        is_other = any(self._numbers.get(key, number) != number for key, number in numbers.items())
        return None if is_other else self._next()

    def record_time(self, engine: str, seconds: float) -> Estimates | None:
        """Record a call's time; return the fastest engine, with the times, once all are measured."""
        if seconds < _SHORT_SECONDS and self._warm_ups[engine] > 0:
            self._warm_ups[engine] -= 1
            return None
        self._seconds[engine].append(seconds)
        if self._next() is not None:
            return None
        best = min(self._seconds, key=self._least)
        others: dict[str, list[float]] = {
            name: [] for name, estimate in self._estimates.items() if estimate < self._least(best)
        }
        if others.keys() <= self._seconds.keys():
            return self._times_of_all(best)
        self._seconds = others | self._seconds
        return None

    def _next(self) -> str | None:
        """Return the engine that has been measured least; None if all have been measured enough."""
        most = _HOPELESS_RATIO * min(map(self._least, self._seconds))
        left = [
            engine
            for engine, each in self._seconds.items()
            if len(each) < (_MEASURED_CALLS if self._least(engine) > _SHORT_SECONDS else _SHORT_CALLS)
            and not (engine == "numpy" and each and min(each) > max(most, _LONG_SECONDS))
        ]
        return min(left, key=lambda engine: len(self._seconds[engine]), default=None)

    def _times_of_all(self, best: str) -> Estimates:
        times = {**self._estimates, **{engine: self._least(engine) for engine in self._seconds}}
        return Estimates(
            best,
            times.get("numpy"),
            times.get("cpu"),
            times.get("cuda"),
            engine_status.status("cuda"),
            by_size=best == "numpy",
            measured=frozenset(self._seconds),
        )

    def _least(self, engine: str) -> float:
        return min(self._seconds[engine], default=math.inf)
