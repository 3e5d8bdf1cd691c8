"""Autotuning: the engine that a call of a fused function runs on under `auto`.

Calls on small arrays run in NumPy until that has taken long, and so does the first call on medium ones. If
that was long, the next call is captured, and replays are measured. Else, and for large arrays at once, a call
with given shapes and dtypes is traced, and its costs are estimated. Later calls run on the engine that was
estimated to be fastest; where the estimates are close, a few calls are measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from pycudakit._native import engine_status
from pycudakit._runtime import context
from pycudakit._runtime.autotuner import MAX_CAPTURE_SECONDS, Autotuner, candidates
from pycudakit._runtime.call_log import Estimates, Reason
from pycudakit._runtime.cost_model import REASON_COMPARED, REASON_NUMPY_FASTER_FOR_SIZE
from pycudakit._runtime.engine_choice import EngineChoice, choice_is_final
from pycudakit._runtime.lru_cache import LRUCache
from pycudakit._runtime.native_call import FALLBACK_ERRORS, warn_of_fallback
from pycudakit.fusing import host_replay
from pycudakit.fusing.execute.capture import MAX_SECONDS, SMALL_ARRAYS
from pycudakit.fusing.memory.background_jit import is_compiling
from pycudakit.fusing.memory.pytree import arrays_in, as_plain_array, save_rng_state
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.tracing import TracedFunction

_MAX_KEYS = 256
# Elements of all arguments up to which the first call runs in NumPy. Tracing an operation takes about as long
# as NumPy takes for so many; and how long a loop takes in NumPy is known only after a call.
_FIRST_IN_NUMPY = 1 << 19
_REASON_FIRST = "auto: the first call runs in NumPy, which tells whether tracing pays"
# Seconds of one call in NumPy, after which the next one is captured: of small arrays, and of larger ones.
_SLOW_SECONDS, _SLOW_SECONDS_OF_FIRST = 5e-3, 2e-3
_TRIAL_SECONDS = 20e-3  # of all calls in NumPy, after which one is traced, which takes about as long
_REPLAY_SECONDS = 30e-6  # no replay is much faster than a call in NumPy of this length
_SHORT_CALLS = 64  # one in so many shorter calls in NumPy is timed: with other numbers, they may take longer


class NumPyCallsLeft:
    """The number of calls that NumPy computes before one is timed, or captured, again.

    If the calls `are_short`, the engines are not tried then.
    """

    __slots__ = ("_left", "are_short", "reason")

    def __init__(
        self, left: int, are_short: bool = False, reason: Reason = REASON_NUMPY_FASTER_FOR_SIZE
    ) -> None:
        self._left, self.are_short, self.reason = left, are_short, reason

    def count(self) -> bool:
        """Use up a call; return False if none was left."""
        self._left -= 1
        return self._left >= 0


class TimedOutCapture(NumPyCallsLeft):
    """The number of calls in NumPy after a capture that met its time limit, until another one is tried.

    Together they take as long as the next capture may take.
    """

    __slots__ = ("max_seconds", "numpy_seconds")

    def __init__(self, max_seconds: float, choice: EngineChoice, numpy_seconds: float) -> None:
        super().__init__(math.ceil(max_seconds / numpy_seconds), reason=choice.reason)
        self.max_seconds, self.numpy_seconds = max_seconds, numpy_seconds


class _FirstCall:
    """The state of a signature after its first call, which ran in NumPy and was short."""


_State = EngineChoice | float | Autotuner | NumPyCallsLeft | _FirstCall


class AutotunedFunction:
    """The calls of a traced function under `auto`."""

    def __init__(self, traced: TracedFunction) -> None:
        self._traced = traced
        # By shapes and dtypes, and of small arrays by the numbers among the arguments, too:
        # - the choice of an engine,
        # - the seconds of a slow call in NumPy, after which the next one is captured,
        # - the number of calls that are left to NumPy, also after a capture that met its time limit,
        # - that the first call was short,
        # - or an autotuner while it measures.
        self.best: LRUCache[tuple[Any, ...] | None, _State] = LRUCache(_MAX_KEYS)

    def run(
        self,
        arrays: list[Any],
        args: Any,
        kwargs: Any,
        tables: Sequence[Any] = (),
        has_failed_to_replay: bool = False,
    ) -> Any:
        """Run the call on the engine that is fastest for its signature.

        `tables` are the Series and DataFrames among the arguments. With `has_failed_to_replay`, the caller
        has tried a replay on the CPU engine.
        """
        traced = self._traced
        key = key_of_arrays(arrays)
        if not arrays:
            key = tuple(self._numbers_in(args, kwargs).items())
        if tables:
            key += tuple([(table.shape, getattr(table, "dtype", None), "pandas") for table in tables])
        best = self.best[key]
        choice = best if type(best) is EngineChoice else None
        if choice is not None and choice.engine == "cpu" and not has_failed_to_replay:
            answer = self.replay("cpu", args, kwargs, choice.reason)
            if answer is not NotImplemented:
                return answer
        size = sum(array.size for array in arrays) + sum(table.size for table in tables)
        if type(best) is TimedOutCapture and not traced.strict:
            if best.count():
                return traced.run_by_numpy(args, kwargs, best.reason)
            best = self.best[key] = self._autotuner_of_slow(
                args, kwargs, best.numpy_seconds, best.max_seconds
            )
        if isinstance(best, float) and arrays and not traced.strict and traced.guards is not None:
            best = self.best[key] = self._autotuner_of_slow(args, kwargs, best)
        if (best is None or type(best) is NumPyCallsLeft) and size <= SMALL_ARRAYS and not traced.strict:
            return self._run_small(key, args, kwargs)
        if best is None and arrays and not tables and size <= _FIRST_IN_NUMPY and not traced.strict:
            return self._run_first(key, args, kwargs)
        if choice is not None and choice.engine == "numpy" and not traced.strict:
            return traced.run_by_numpy(args, kwargs, choice.reason)
        if choice is not None and choice.engine == "cuda":
            return self._run_on_cuda(arrays, args, kwargs, choice.reason)
        if isinstance(best, Autotuner):
            engine = best.next_engine(self._numbers_in(args, kwargs))
            if engine is not None:
                return self._run_measured(best, engine, key, arrays, args, kwargs)
        if choice is not None:
            reason = "" if traced.strict else choice.reason
            return traced.run(traced.new_trace(), arrays, args, kwargs, reason=reason)
        return self._run_estimated(key, arrays, args, kwargs)

    def replay(
        self,
        engine: str,
        args: Any,
        kwargs: Any,
        reason: Reason,
        autotuner: Autotuner | None = None,
        begin_trace: Callable[[], Trace] | None = None,
        *,
        may_capture: bool = True,
    ) -> Any:
        """Replay the call on an engine, or capture it; return NotImplemented if that is impossible.

        An `autotuner`, if one measures the call, tells how long a capture on the CPU engine may take.
        """
        plans, is_on_cpu = self._traced.plans, engine == "cpu"
        signature = host_replay.signature_of(self._traced, engine, args, kwargs)
        if signature is None:
            return NotImplemented
        answer = plans.replay(signature, reason)
        if answer is NotImplemented and not is_on_cpu and plans.adopt(signature):
            answer = plans.replay(signature, reason)
        if answer is not NotImplemented or not may_capture:
            return answer
        max_seconds = None
        if is_on_cpu:
            max_seconds = MAX_CAPTURE_SECONDS if autotuner is None else autotuner.max_capture_seconds
        # The function has succeeded before, in NumPy or traced; on a GPU, so has the engine.
        is_warm = autotuner is not None or not is_on_cpu
        if not plans.may_capture(signature, is_warm, max_seconds):
            plans.note(signature)
            return NotImplemented
        if not self._traced.analyses:  # which tells the numbers that are operands, and no constants
            self._traced.analyse_call(args, kwargs)
            signature = host_replay.signature_of(self._traced, engine, args, kwargs) or signature
        with _override(engine):
            return self._traced.capture(signature, args, kwargs, reason, max_seconds, begin_trace)

    def _run_measured(
        self,
        autotuner: Autotuner,
        engine: str,
        key: tuple[Any, ...],
        arrays: list[Any],
        args: Any,
        kwargs: Any,
    ) -> Any:
        """Run and time the call; store the fastest engine once enough calls were measured."""
        traced = self._traced
        began, captured_before, late_before = time.perf_counter(), traced.plans.captured, traced.plans.late
        timed_out_before = traced.plans.timed_out
        if engine == "numpy":
            result = traced.run_by_numpy(args, kwargs, REASON_COMPARED)
        elif engine == "cuda" and not autotuner.may_trace_on_gpu:
            result = self.replay("cuda", args, kwargs, REASON_COMPARED, may_capture=False)
            if result is NotImplemented:
                best = autotuner.exclude("cuda")
                if best is not None:
                    self.best[key] = self._choice(best)
                    engine = best.engine
                else:
                    engine = autotuner.next_engine(self._numbers_in(args, kwargs)) or "cpu"
                return self._run_measured(autotuner, engine, key, arrays, args, kwargs)
        elif engine == "cuda":
            result = self._run_on_cuda(arrays, args, kwargs, REASON_COMPARED)
        elif (answer := self.replay("cpu", args, kwargs, REASON_COMPARED, autotuner)) is not NotImplemented:
            result = answer
        else:
            result = traced.run(traced.new_trace(), arrays, args, kwargs, reason=REASON_COMPARED)
        if traced.plans.captured > captured_before:  # not timed: the next call is replayed
            return result
        if traced.plans.late > late_before:  # NumPy ran the rest of the call
            autotuner.timed_out = traced.plans.timed_out > timed_out_before
            best = autotuner.exclude("cpu")
        else:
            seconds, is_cuda = time.perf_counter() - began, engine == "cuda"
            best = autotuner.record_time(engine, seconds, is_compiling=is_cuda and is_compiling())
        if best is not None:
            self.best[key] = self._state_after(autotuner, best)
        return result

    def _state_after(self, autotuner: Autotuner, best: Estimates) -> _State:
        """Return the state after the calls that were measured, which is the choice of the fastest engine.

        If a capture met its time limit, another one is tried after some calls in NumPy, with twice the limit.
        """
        choice, max_seconds = self._choice(best), 2 * autotuner.max_capture_seconds
        if not autotuner.timed_out or choice.engine != "numpy" or max_seconds > MAX_SECONDS:
            return choice
        return TimedOutCapture(max_seconds, choice, best.numpy or _SLOW_SECONDS)

    def _run_estimated(self, key: tuple[Any, ...], arrays: list[Any], args: Any, kwargs: Any) -> Any:
        """Run the call traced; choose an engine, or the engines to measure, by its costs."""
        traced, best = self._traced, self.best[key]
        trace = traced.new_trace()
        trace.costs.has_small_arguments = isinstance(best, (float, _FirstCall))
        result = traced.run(trace, arrays, args, kwargs)
        if isinstance(best, Autotuner):  # with other numbers than the measured calls
            return result
        trace.costs.up += sum(array.nbytes for array in arrays)
        trace.costs.down += sum(array.nbytes for array in arrays_in([result]))
        if traced.strict:
            self.best[key] = self._choice(trace.costs.best())
            return result
        estimates = trace.costs.estimates(may_replay=traced.guards is not None)
        numpy_seconds = trace.costs.numpy + trace.numpy_seconds()
        numbers = self._numbers_in(args, kwargs)
        has_graph = traced.guards is not None and trace.costs.has_graph
        self.best[key] = Autotuner(
            numbers, candidates(estimates), numpy_seconds, estimates, has_graph=has_graph
        )
        return result

    def _run_small(self, key: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
        """Run a call with small arguments in NumPy; if it or all so far took long, the next one is traced."""
        traced = self._traced
        began = time.thread_time()  # not affected by other load on the machine
        result = traced.run_by_numpy(args, kwargs, REASON_NUMPY_FASTER_FOR_SIZE)
        seconds = time.thread_time() - began
        plain_key = key_of(args, kwargs)
        is_short = seconds < _REPLAY_SECONDS or traced.guards is None
        before = self.best[plain_key]
        had_trial = type(before) is NumPyCallsLeft and not before.are_short
        if seconds > _SLOW_SECONDS or (had_trial and not is_short):
            self.best[plain_key] = None
            self.best[key] = seconds
        elif plain_key:
            left = _SHORT_CALLS if is_short else int(_TRIAL_SECONDS / seconds)
            self.best[plain_key] = NumPyCallsLeft(left, is_short)
        return result

    def _run_first(self, key: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
        """Run the first call in NumPy; if it took long, the next one is captured, else it is traced."""
        began = time.thread_time()
        result = self._traced.run_by_numpy(args, kwargs, _REASON_FIRST)
        seconds = time.thread_time() - began
        self.best[key] = seconds if seconds > _SLOW_SECONDS_OF_FIRST else _FirstCall()
        return result

    def _run_on_cuda(self, arrays: list[Any], args: Any, kwargs: Any, reason: Reason) -> Any:
        """Run on the GPU; fall back to the CPU engine if that fails before an argument was written to."""
        traced = self._traced
        begun: list[tuple[Trace, Callable[[], None]]] = []

        def begin_trace() -> Trace:
            begun.append((traced.new_trace(), save_rng_state([*args, *kwargs.values()])))
            return begun[-1][0]

        try:
            if not traced.strict:
                answer = self.replay("cuda", args, kwargs, reason, begin_trace=begin_trace)
                if answer is not NotImplemented:
                    return answer
            with _override("cuda"):
                return traced.run(begin_trace(), arrays, args, kwargs, reason=reason)
        except FALLBACK_ERRORS as error:
            for trace, restore_rng_state in begun:
                if trace.buffers.written:
                    raise
                restore_rng_state()
            warn_of_fallback(error)
        with _override("cpu"):
            return traced.run(traced.new_trace(), arrays, args, kwargs, reason=context.REASON_CUDA_FAILED)

    def _autotuner_of_slow(
        self, args: Any, kwargs: Any, numpy_seconds: float, max_capture_seconds: float | None = None
    ) -> Autotuner:
        """Return an autotuner for calls that NumPy takes long for, in relation to the arrays' sizes.

        They may have many steps. On a GPU, a traced call of that kind takes far longer than NumPy's.
        """
        engines = ["cpu", "numpy"]
        if engine_status.status("cuda").available and choice_is_final():
            engines.append("cuda")
        autotuner = Autotuner(
            self._numbers_in(args, kwargs), engines, numpy_seconds, has_graph=True, may_trace_on_gpu=False
        )
        if max_capture_seconds is not None:
            autotuner.max_capture_seconds = max_capture_seconds
        return autotuner

    def _choice(self, times: Estimates) -> EngineChoice:
        return EngineChoice(self._traced.name, times.engine, times)

    def _numbers_in(self, args: Any, kwargs: Any) -> dict[int | str, Any]:
        """Return the numbers among the arguments on which the time of a call may depend."""
        named = [*enumerate(args), *kwargs.items()]
        operands = self._traced.scalar_arguments
        return {
            key: value
            for key, value in named
            if type(value) in (int, bool) or (type(value) is float and key not in operands)
        }


def _override(engine: str) -> AbstractContextManager[None]:
    """Override `auto` by an engine, whose host calls may run in NumPy."""
    return context.override(engine=engine, fallback="numpy")


def key_of(values: Sequence[Any], named: Mapping[str, Any] | None = None) -> tuple[Any, ...] | None:
    """Return a key of the arguments on which a call's time depends; None if one is of another type."""
    parts: list[Any] = []
    if named:
        values = [*values, *named.values()]
        parts += named
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            parts.append((value.shape, value.dtype))
        elif kind is float:
            parts.append(kind)
        elif kind is int:
            parts.append(value)
        elif kind is bool or kind is str or value is None:
            parts.append((kind, value))
        else:
            return None
    return tuple(parts)


def key_of_arrays(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Return the key of arrays, of which some may be memory maps."""
    return key_of(arrays) or key_of([*map(as_plain_array, arrays)]) or ()
