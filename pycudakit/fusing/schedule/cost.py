"""Cost model and autotuner of `auto`: times of a fused call in NumPy and on each engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pycudakit._element_programs.program_cost import GPU_MARGIN, THREAD_WAKE_SECONDS
from pycudakit._native import engine_status
from pycudakit._runtime.call_log import Estimates
from pycudakit._runtime.cost_model import CUDA_CALL, cuda_seconds, threads

# Seconds
_NUMPY_CALL = 0.8e-6  # the overhead of a NumPy call
_TRACE_OP = 3e-6  # the overhead of tracing an operation
_KERNEL = 40e-6  # the overhead of a fused kernel
_REPLAY, _REPLAYED_KERNEL = 15e-6, 4e-6  # the overheads of a replayed call, and of a kernel in it
_REPLAYED_CUDA_KERNEL = 8e-6  # the same on a GPU
# Of reductions and of other functions that are not element programs, in NumPy and on one thread.
_REDUCED_ELEMENT, _ELEMENT = 0.5e-9, 2e-9
_GIVE_UP_SECONDS = 4e-3  # a traced call that takes longer may fall back to NumPy
_GIVE_UP_SECONDS_SMALL = 1e-3  # the same for small arguments

_GIVE_UP_RATIO = 4  # times NumPy's time: a traced call that takes longer falls back to NumPy
# Capturing a call may take this many seconds under `auto`: so many times NumPy's time, within these bounds.
MAX_PATIENCE, _MIN_PATIENCE, _PATIENCE_RATIO = 1.0, 0.05, 50
_MEASURED_CALLS = 2  # measured calls of each engine
# The first calls of an engine, which find cold caches and compile, and which are not timed if they are short.
_WARM_UPS, _SHORT_SECONDS = {"cpu": 8, "cuda": 8, "numpy": 1}, 1e-3
# NumPy is not measured again if it takes so many times as long as an engine (whose first call may compile).
_HOPELESS_RATIO = 4
# An engine is measured only if its estimate is below so many times the smallest one.
_CONCLUSIVE_RATIO = 3
_CONCLUSIVE_RATIO_OF_ENGINES = 8  # of the two engines: threads and transfers are estimated less well


@dataclass
class Costs:
    """The estimated times of one call, added up while it is traced."""

    numpy: float = 0.0
    cpu: float = 0.0
    replayed: float = _REPLAY  # on the CPU engine, without tracing
    passes: int = 0
    up: int = 0  # bytes that would be uploaded to a GPU
    down: int = 0
    has_small_arguments: bool = False  # NumPy is likely to be fastest

    def operation(self, size: int, seconds_per_element: float) -> None:
        """Add a recorded operation."""
        self.numpy += _NUMPY_CALL + size * seconds_per_element
        self.cpu += _TRACE_OP

    def view(self) -> None:
        """Add a view."""
        self.numpy += 0.25e-6
        self.cpu += 0.5 * _TRACE_OP

    def graph_break(self) -> None:
        """Add a graph break."""
        self.numpy += 0.1e-6
        self.cpu += 3 * _TRACE_OP

    def evaluated(self, seconds: float) -> None:
        """Add a fused kernel."""
        self.cpu += _KERNEL + seconds
        self.replayed += _REPLAYED_KERNEL + seconds
        self.passes += 1

    def called(self, size: int, *, runs_in_numpy: bool = False, is_reduction: bool = False) -> None:
        """Add a function that is no element program; with `runs_in_numpy`, the CPU engine calls NumPy's."""
        seconds = size * (_REDUCED_ELEMENT if is_reduction else _ELEMENT)
        self.numpy += 5 * _NUMPY_CALL + seconds
        if seconds > THREAD_WAKE_SECONDS and not runs_in_numpy:
            seconds /= threads()
        self.cpu += _KERNEL + seconds
        self.replayed += _KERNEL + seconds
        self.passes += 1

    @property
    def is_far_slower_than_numpy(self) -> bool:
        """Whether the call is so much slower than NumPy that NumPy should run the rest of it."""
        threshold = _GIVE_UP_SECONDS_SMALL if self.has_small_arguments else _GIVE_UP_SECONDS
        return self.cpu > threshold and self.cpu > _GIVE_UP_RATIO * self.numpy

    @property
    def cuda(self) -> float:
        """The time on a GPU."""
        if not engine_status.status("cuda"):
            return math.inf
        return cuda_seconds(self.up, self.down) + self.passes * CUDA_CALL

    def best(self) -> Estimates:
        """Return the estimates, with the engine that has the smallest one."""
        engine = "cuda" if self.cuda < GPU_MARGIN * self.cpu else "cpu"
        if self.numpy <= self.cpu:
            engine = "numpy"
        return Estimates(engine, self.numpy, self.cpu, self.cuda, engine_status.status("cuda"))

    def estimates(self, may_replay: bool) -> dict[str, float]:
        """Return the estimated time of a later call on each engine."""
        cpu, cuda = self.cpu, self.cuda
        if may_replay:
            cpu = min(cpu, self.replayed)
            cuda -= self.passes * (CUDA_CALL - _REPLAYED_CUDA_KERNEL)
        return {"cpu": cpu, "cuda": cuda, "numpy": self.numpy}


def candidates(estimates: Mapping[str, float]) -> list[str]:
    """Return the engines that may be fastest by these estimates, so that calls are to be measured."""
    least = min(estimates, key=lambda name: estimates[name])

    def may_be_fastest(engine: str) -> bool:
        involves_numpy = "numpy" in (engine, least)
        ratio = _CONCLUSIVE_RATIO if involves_numpy else _CONCLUSIVE_RATIO_OF_ENGINES
        return estimates[engine] < ratio * estimates[least] or engine == least

    return list(filter(may_be_fastest, estimates))


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
    """

    def __init__(
        self,
        numbers: Mapping[int | str, Any],
        engines: Iterable[str] = ("cpu", "numpy"),
        numpy_seconds: float | None = None,
        estimates: Mapping[str, float] | None = None,
    ) -> None:
        self._numbers, self._estimates = numbers, estimates or {}
        # Seconds that capturing a call may take.
        self.patience = MAX_PATIENCE
        if numpy_seconds is not None:
            self.patience = min(MAX_PATIENCE, max(_MIN_PATIENCE, _PATIENCE_RATIO * numpy_seconds))
        self._seconds: dict[str, list[float]] = {engine: [] for engine in engines}
        self._warm_ups = dict(_WARM_UPS)

    def next_engine(self, numbers: Mapping[int | str, Any]) -> str | None:
        """Return the engine for a call that is to be measured; None if it is not."""
        is_other = any(self._numbers.get(key, number) != number for key, number in numbers.items())
        return None if is_other else self._next()

    def record_time(self, engine: str, seconds: float) -> Estimates | None:
        """Record a call's time; return the fastest engine, with the times, once all are measured."""
        if seconds < _SHORT_SECONDS and self._warm_ups[engine]:
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
            if len(each) < _MEASURED_CALLS and not (engine == "numpy" and each and min(each) > most)
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
