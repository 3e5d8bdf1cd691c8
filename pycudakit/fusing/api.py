"""`fuse` and `Fused`: compile a NumPy function into as few fused kernels as possible.

A call traces the function's body with tracers instead of arrays, schedules the trace as fused kernels
(passes), and runs these. Under ``"auto"``, `Fused` chooses between NumPy and the engines for each signature
of array arguments, first by estimated costs and, where these are close, by measuring a few calls. Calls are
replayed where possible (`host_replay`, and `device_replay` for device arrays).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, overload

import numpy as np

from pycudakit import errors
from pycudakit._interop.foreign_arrays import (
    can_use_device_arrays,
    check_device_arguments,
    is_ordinary,
    read,
    read_all,
)
from pycudakit._runtime import context
from pycudakit._runtime.call_log import Call, Estimates, Reason
from pycudakit._runtime.cost_model import REASON_COMPARED, REASON_NUMPY_FASTER_FOR_SIZE
from pycudakit._runtime.engine_choice import NO_COST, EngineChoice, choose_engine, numpy_choice_for_size
from pycudakit._runtime.interrupts import ended_a_call
from pycudakit._runtime.lru_cache import LRUCache
from pycudakit._runtime.native_call import (
    FALLBACK_ERRORS,
    NOTHING_TO_COMPUTE,
    collect_calls,
    last_call,
    log_empty_call,
    log_fused_call,
    observe_entries,
    run_numpy,
    warn_of_fallback,
)
from pycudakit.fusing import device_replay, host_replay
from pycudakit.fusing.arguments import ArgumentMap
from pycudakit.fusing.escape import aliased_arrays, replace_escaped_tracers
from pycudakit.fusing.execute.capture import SMALL_ARRAYS, Capture, Scalar
from pycudakit.fusing.function_analysis import Analysis, analyse
from pycudakit.fusing.guards import Guards, guards_of
from pycudakit.fusing.memory.imported_arrays import ImportedArrays
from pycudakit.fusing.memory.pytree import (
    all_tracers,
    arrays_in,
    as_plain_array,
    copied,
    device_arrays_in,
    names_of,
    pandas_in,
    save_rng_state,
    tree_map,
)
from pycudakit.fusing.numpy_api.registry import HANDLERS
from pycudakit.fusing.pickling import UNFUSED, find_by_name, unfused_alias
from pycudakit.fusing.schedule.cost import MAX_PATIENCE, Autotuner, candidates
from pycudakit.fusing.schedule.explain import Explained
from pycudakit.fusing.trace.current_trace import current_trace, run_with_trace
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.traced_body import TracedBody

_NO_ARRAY = (
    "no NumPy array, Series or DataFrame among the arguments, so that nothing is fused; of other objects "
    "with labels, pass the values: .to_numpy()"
)

P = ParamSpec("P")
R = TypeVar("R")


class Fused(Generic[P, R]):
    """A fused function: the result of `fuse`.

    Calling it gives the function's results; `explain` shows how they are computed. ``__wrapped__`` is the
    original function.

    Parameters
    ----------
    function
        The function to run.
    strict
        Whether a graph break raises.

    Notes
    -----
    Under the engine ``"numpy"`` the original function runs, and generators and coroutines are never fused.
    Under ``"auto"``, calls whose arrays have at most 4096 elements run in NumPy until that has taken long;
    then a few are measured. For larger arrays, the first call with given shapes and dtypes is traced. Later
    calls run on the engine that was estimated to be fastest; where the estimates are close, a few calls are
    measured.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> @pk.fuse
    ... def halve(x):
    ...     x[x > 1] = 0
    ...     x *= 0.5
    >>> x = np.array([1.0, 4.0])
    >>> halve(x)
    >>> x
    array([0.5, 0. ])
    """

    is_fused_function: ClassVar = True  # read by modules of lower layers

    def __init__(self, function: Callable[P, R], strict: bool) -> None:
        functools.update_wrapper(self, function)
        self.__wrapped__ = function
        self._strict = strict
        self._body = TracedBody(function)
        self._runs_lazily = any(
            test(function)
            for test in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        )
        # By shapes and dtypes, and of small arrays by the numbers among the arguments, too: the choice of an
        # engine, the time of a slow call in NumPy, after which the next one is traced, the number of small
        # calls that are left to NumPy, or an autotuner while it measures.
        self._best: LRUCache[tuple[Any, ...] | None, EngineChoice | float | Autotuner | _CallsLeft] = (
            LRUCache(_MAX_KEYS)
        )
        self._analyses: list[Analysis] = []  # of calls of different kinds
        # The arguments, by index or name, that the function only computes with, in all kinds of calls so far.
        self.scalar_arguments: frozenset[int | str] = frozenset()
        self._plans = host_replay.PlanCache()
        # The library's own functions see nothing but their arguments.
        self._is_from_library = (getattr(function, "__module__", None) or "").startswith(_PACKAGE)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function."""
        if current_trace() is not None:
            return self._body(*args, **kwargs)  # type: ignore[no-any-return]
        engine, has_failed_to_replay = context.checked_current_engine(), False
        if self._runs_lazily:
            return self.__wrapped__(*args, **kwargs)
        if engine == "auto" and not (kwargs or self._strict):
            best = self._best[_key_of(args)]
            if type(best) is EngineChoice:
                if best.engine == "numpy":
                    return self._run_by_numpy(args, kwargs, best.reason)  # type: ignore[no-any-return]
                if best.engine == "cpu":
                    if (answer := self._run_replayed(args, kwargs, best.reason)) is not NotImplemented:
                        return answer  # type: ignore[no-any-return]
                    has_failed_to_replay = True
            elif type(best) is _CallsLeft and best.count():
                return self._run_by_numpy(args, kwargs)  # type: ignore[no-any-return]
        signature = host_replay.signature_of(self, engine, args, kwargs)
        if signature is not None:
            answer = self._plans.replay(signature, context.REASON_ENGINE_REQUESTED)
            if answer is not NotImplemented:
                return answer  # type: ignore[no-any-return]
        if context.is_only_numpy(engine):
            return self._run_by_numpy(args, kwargs, choose_engine(self._name, (), NO_COST).reason)  # type: ignore[no-any-return]
        has_foreign = not (all(map(is_ordinary, args)) and all(map(is_ordinary, kwargs.values())))
        if has_foreign:
            if (answer := device_replay.try_replay(self, args, kwargs)) is not NotImplemented:
                return answer  # type: ignore[no-any-return]
            device_arrays = device_arrays_in((args, kwargs)) if can_use_device_arrays() else []
            if device_arrays:
                run = functools.partial(self._run_on_devices, device_arrays)
                return device_replay.call(self, run, args, kwargs)  # type: ignore[no-any-return]
            args, kwargs = read_all(self._name, self.__wrapped__, args, kwargs, by_numpy=True)  # type: ignore[assignment]
        result: R
        arrays = arrays_in(args)
        if kwargs:
            arrays += arrays_in(kwargs.values())
        tables = pandas_in((args, kwargs)) if has_foreign else []
        if engine == "auto":
            result = self._run_automatically(arrays, args, kwargs, tables, has_failed_to_replay)
            return result
        if signature is None or not self._plans.may_capture(signature, is_warm=False):
            known_scalars = self.scalar_arguments
            result = self._run_traced(Trace(self._name, HANDLERS, self._strict), arrays, args, kwargs)
            if signature is not None and self.scalar_arguments is not known_scalars:
                signature = host_replay.signature_of(self, engine, args, kwargs)
            self._plans.note(signature)
            return result
        run_captured = functools.partial(self._run_captured, args, kwargs)
        result = self._plans.capture(signature, self._name, run_captured)
        return result

    def _run_captured(
        self,
        args: Any,
        kwargs: Any,
        capture: Capture,
        begin_trace: Callable[[], Trace] | None = None,
        reason: Reason = "",
    ) -> Any:
        """Run the call traced, while a capture observes its library calls.

        `reason` is that of `auto` for the engine.
        """
        # A capture defers operations that are otherwise computed at once. A number that is then needed is no
        # graph break of the function: a call that is not captured finds those.
        # The trace begins here, as it takes the capture's filters of warnings for those of the caller.
        trace = begin_trace() if begin_trace else Trace(self._name, HANDLERS, strict=False)
        trace.begun_capture = capture
        trace.reason = trace.reason or reason
        with observe_entries(capture.on_native_call):
            return self._run_traced(trace, arrays_in([args, kwargs]), args, kwargs)

    def _run_automatically(
        self,
        arrays: list[Any],
        args: Any,
        kwargs: Any,
        tables: Sequence[Any] = (),
        has_failed_to_replay: bool = False,
    ) -> Any:
        """Run the call under `auto`: on the engine that is cheapest for its signature.

        `tables` are the Series and DataFrames among the arguments.
        """
        key = _key_of_arrays(arrays)
        if not arrays:
            key = tuple(self._numbers_in(args, kwargs).items())
        if tables:
            key += tuple([(table.shape, getattr(table, "dtype", None), "pandas") for table in tables])
        best = self._best[key]
        choice = best if type(best) is EngineChoice else None
        if choice is not None and choice.engine == "cpu" and not has_failed_to_replay:
            answer = self._run_replayed(args, kwargs, choice.reason)
            if answer is not NotImplemented:
                return answer
        if isinstance(best, float) and arrays and not self._strict and self.guards is not None:
            numbers = self._numbers_in(args, kwargs)
            best = self._best[key] = Autotuner(numbers, numpy_seconds=best)
        size = sum(array.size for array in arrays) + sum(table.size for table in tables)
        if (best is None or type(best) is _CallsLeft) and size <= SMALL_ARRAYS and not self._strict:
            return self._run_small(key, args, kwargs)
        if choice is not None and choice.engine == "numpy" and not self._strict:
            return self._run_by_numpy(args, kwargs, choice.reason)
        if choice is not None and choice.engine == "cuda":
            return self._run_on_cuda(arrays, args, kwargs, choice.reason)
        if isinstance(best, Autotuner):
            engine = best.next_engine(self._numbers_in(args, kwargs))
            if engine is not None:
                return self._run_measured(best, engine, key, arrays, args, kwargs)
        trace = Trace(self._name, HANDLERS, self._strict)
        if choice is not None and not self._strict:
            trace.reason = choice.reason
        trace.costs.has_small_arguments = isinstance(best, float)
        result = self._run_traced(trace, arrays, args, kwargs)
        if best is None or isinstance(best, float):
            trace.costs.up += sum(array.nbytes for array in arrays)
            trace.costs.down += sum(array.nbytes for array in arrays_in([result]))
            if self._strict:
                self._best[key] = self._choice(trace.costs.best())
                return result
            estimates = trace.costs.estimates(may_replay=self.guards is not None)
            numpy_seconds = trace.costs.numpy + trace.numpy_seconds()
            numbers = self._numbers_in(args, kwargs)
            self._best[key] = Autotuner(numbers, candidates(estimates), numpy_seconds, estimates)
        return result

    def _choice(self, times: Estimates) -> EngineChoice:
        return EngineChoice(self._name, times.engine, times)

    def _numbers_in(self, args: Any, kwargs: Any) -> dict[int | str, Any]:
        """Return the numbers among the arguments on which the time of a call may depend."""
        named = [*enumerate(args), *kwargs.items()]
        operands = self.scalar_arguments
        return {
            key: value
            for key, value in named
            if type(value) in (int, bool) or (type(value) is float and key not in operands)
        }

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
        began, plans = time.perf_counter(), self._plans.captured
        if engine == "numpy":
            result = self._run_by_numpy(args, kwargs, REASON_COMPARED)
        elif engine == "cuda":
            result = self._run_on_cuda(arrays, args, kwargs, REASON_COMPARED)
        elif (answer := self._run_replayed(args, kwargs, REASON_COMPARED, autotuner)) is not NotImplemented:
            result = answer
        else:
            trace = Trace(self._name, HANDLERS, self._strict)
            trace.reason = REASON_COMPARED
            result = self._run_traced(trace, arrays, args, kwargs)
        if self._plans.captured > plans:  # the next call replays it
            return result
        best = autotuner.record_time(engine, time.perf_counter() - began)
        if best is not None:
            self._best[key] = self._choice(best)
        return result

    def _run_replayed(
        self, args: Any, kwargs: Any, reason: Reason, autotuner: Autotuner | None = None
    ) -> Any:
        """Replay the call on the CPU engine, or capture it; return NotImplemented if that is impossible.

        An `autotuner`, if one measures the call, tells how long the capture may take.
        """
        signature = host_replay.signature_of(self, "cpu", args, kwargs)
        if signature is None:
            return NotImplemented
        answer = self._plans.replay(signature, reason)
        is_measured = autotuner is not None
        if answer is not NotImplemented or not self._plans.may_capture(signature, is_measured, True):
            self._plans.note(signature)  # `auto` has chosen an engine by earlier calls
            return answer
        patience = MAX_PATIENCE if autotuner is None else autotuner.patience
        with context.override(engine="cpu", fallback="numpy"):
            run_captured = functools.partial(self._run_captured, args, kwargs, reason=reason)
            return self._plans.capture(signature, self._name, run_captured, patience)

    def _run_small(self, key: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
        """Run a call with small arguments in NumPy; if it or all so far took long, the next one is traced."""
        began = time.thread_time()  # not affected by other load on the machine
        result = self._run_by_numpy(args, kwargs)
        seconds = time.thread_time() - began
        plain_key = None if kwargs else _key_of(args)
        is_short = seconds < _REPLAY_SECONDS or self.guards is None
        if seconds > _SLOW_SECONDS or (type(self._best[plain_key]) is _CallsLeft and not is_short):
            self._best[plain_key] = None
            self._best[key] = seconds
        elif plain_key:
            self._best[plain_key] = (
                numpy_choice_for_size(self._name) if is_short else _CallsLeft(int(_TRIAL_SECONDS / seconds))
            )
        return result

    def _run_by_numpy(self, args: Any, kwargs: Any, reason: Reason = REASON_NUMPY_FASTER_FOR_SIZE) -> Any:
        def compute() -> Any:  # the calls of the body are a part of this one
            return collect_calls(lambda: self.__wrapped__(*args, **kwargs))[0]

        return run_numpy(self._name, reason, compute)

    def _run_on_cuda(self, arrays: list[Any], args: Any, kwargs: Any, reason: Reason) -> Any:
        """Run on the GPU; fall back to the CPU engine if that fails before an argument was written to."""
        signature = None if self._strict else host_replay.signature_of(self, "cuda", args, kwargs)
        if signature is not None:
            answer = self._plans.replay(signature, reason)
            if answer is not NotImplemented:
                return answer
        restore_rng_state = save_rng_state([*args, *kwargs.values()])
        traces: list[Trace] = []

        def begin_trace() -> Trace:
            traces.append(Trace(self._name, HANDLERS, self._strict))
            traces[0].reason = reason
            return traces[0]

        with context.override(engine="cuda"):
            try:
                if signature is None or not self._plans.may_capture(signature, is_warm=True):
                    return self._run_traced(begin_trace(), arrays, args, kwargs)
                run_captured = functools.partial(self._run_captured, args, kwargs, begin_trace=begin_trace)
                return self._plans.capture(signature, self._name, run_captured)
            except FALLBACK_ERRORS as error:
                if traces and traces[0].buffers.written:
                    raise
                warn_of_fallback(error)
                restore_rng_state()
        with context.override(engine="cpu"):
            trace = Trace(self._name, HANDLERS, self._strict)
            trace.reason = context.REASON_CUDA_FAILED
            return self._run_traced(trace, arrays, args, kwargs)

    @functools.cached_property
    def guards(self) -> Guards | None:
        """The guards on the function's free variables; None if its calls cannot be replayed."""
        return None if self._runs_lazily else guards_of(self.__wrapped__)

    def _run_on_devices(self, device_arrays: list[Any], *args: Any, **kwargs: Any) -> Any:
        """Run the call on the GPU of its device arrays, with results on that GPU, too."""
        device_ids = set(map(id, device_arrays))
        if not all(id(value) in device_ids or is_ordinary(value) for value in (*args, *kwargs.values())):
            args, kwargs = tree_map((args, kwargs), _read_unless_on_device(self._name, device_arrays))
        with (
            contextlib.nullcontext()
            if context.current_engine() == "cuda"
            else context.override(engine="cuda")
        ):
            trace = Trace(self._name, HANDLERS, self._strict)
            return self._run_traced(trace, arrays_in([args, kwargs]), args, kwargs, device_arrays)

    @property
    def _name(self) -> str:
        return getattr(self.__wrapped__, "__name__", "fused")

    def _run_traced(
        self, trace: Trace, arrays: list[Any], args: Any, kwargs: Any, device_arrays: Sequence[Any] = ()
    ) -> Any:
        """Run the call, and log its passes as one call, with the time of the whole."""
        began = time.perf_counter()
        run = functools.partial(self._run_in_scope, trace, arrays, args, kwargs, device_arrays)
        result, passes = collect_calls(run)
        if passes or trace.breaks:
            seconds = time.perf_counter() - began
            log_fused_call(self._name, passes, seconds, trace.numpy_seconds(), trace.breaks, trace.reason)
        else:
            log_empty_call(self._name, NOTHING_TO_COMPUTE if arrays else _NO_ARRAY)
        return result

    def _run_in_scope(
        self, trace: Trace, arrays: list[Any], args: Any, kwargs: Any, device_arrays: Sequence[Any]
    ) -> Any:
        trace.buffers.add_arguments([as_plain_array(array) for array in arrays])
        trace.buffers.find_aliased_arrays = functools.partial(
            aliased_arrays, self.__wrapped__, self._body.is_rebound, (*args, *kwargs.values())
        )
        body = functools.partial(self._run, trace, args, kwargs)
        if device_arrays:
            body = functools.partial(self._run_with_imports, trace, device_arrays, args, kwargs)
        try:
            gpus = (0,) if device_arrays else context.current_devices()
            return trace.buffers.scope.run(trace.engine, body, gpus)
        except FALLBACK_ERRORS as error:
            if not trace.buffers.written:
                raise
            raise type(error)(f"{error}; {self._name} had begun to write to its arguments") from error
        finally:
            trace.has_ended = True  # also where an interrupt has cut short the end of the trace

    def _run_with_imports(self, trace: Trace, device_arrays: Sequence[Any], args: Any, kwargs: Any) -> Any:
        try:
            imported = ImportedArrays(trace.buffers, device_arrays)
        except errors.Error:
            check_device_arguments(self._name, self.__wrapped__, args, kwargs)  # names the argument
            raise
        trace.buffers.scope.set_device(imported.device)
        imported.enter_async()
        imported_device = (imported.device,)
        is_usual = context.current_devices() == imported_device
        try:
            with contextlib.nullcontext() if is_usual else context.override(devices=imported_device):
                return self._run(trace, args, kwargs, imported)
        finally:
            imported.return_to_owners()

    def _run(self, trace: Trace, args: Any, kwargs: Any, imported: ImportedArrays | None = None) -> Any:
        argument_map = ArgumentMap(trace, imported)
        # Calls on device arrays do not warn, nor do our own bodies by results that they do not use.
        trace.computes_unread = imported is None and not self._is_from_library
        roots = self.__wrapped__, args, kwargs
        args, kwargs = argument_map.to_tracers(self.__wrapped__, args, kwargs)
        trace.analysis, trace.outermost_code = self._analysis_of(args, kwargs), _RUN_CODE
        if trace.begun_capture is not None and trace.begun_capture.scalars:
            args, kwargs = self._with_scalar_operands(trace, trace.begun_capture, args, kwargs)
        listener = trace.buffers.scope.listener
        if trace.analysis is not None and trace.analysis.has_risks:
            trace.mark_not_replayable()
            if listener is not None:
                listener.mark_not_replayable()
        try:
            result = run_with_trace(trace, functools.partial(self._body, *args, **kwargs))
            del args, kwargs
            if trace.begun_capture is not None:
                trace.begun_capture.body_has_ended = True
            if imported is None:
                trace.finish(all_tracers(result))
            else:
                argument_map.compute_on_device(all_tracers(result), imported)
            argument_map.write_back()
            result = argument_map.to_caller(result, None if trace.capture is None else Scalar)
            argument_map.forget_tracers()
            are_tracers_left = trace.forget_tracers()
            has_copies = argument_map.has_copies  # of which one may be kept, even one without tracers
            if has_copies or are_tracers_left():
                replace_escaped_tracers(
                    (*roots, result), argument_map.leaf_to_caller, lambda: has_copies or are_tracers_left()
                )
                result = tree_map(result, argument_map.iterator_to_caller)
            if imported is not None:
                trace.finish(())
        except BaseException as error:
            restore = functools.partial(_restore_arrays, trace, argument_map, (*roots, error))
            try:
                restore()
            except BaseException as second:
                if not isinstance(second, Exception):  # an interrupt: its work is done again
                    restore()
                raise
            raise
        finally:
            trace.has_stopped_deferring = True
            trace.forget_tracers()
            trace.memmaps.clear()
        return result

    def _analysis_of(self, args: Any, kwargs: Any) -> Analysis | None:
        """Return the analysis of a call; None if no instruction can reach memory past the trace."""
        if self._is_from_library:
            return None
        for analysis in self._analyses:
            if analysis.holds_for(args, kwargs):
                break
        else:
            analysis = analyse(self.__wrapped__, args, kwargs)
            computed_with = self._arguments_of(analysis.scalar_parameters)
            self.scalar_arguments = computed_with & self.scalar_arguments if self._analyses else computed_with
            self._analyses = [analysis, *self._analyses[: _MAX_ANALYSES - 1]]
        return None if analysis.is_pure else analysis

    def _arguments_of(self, parameters: frozenset[str]) -> frozenset[int | str]:
        """Return the indices and the names of arguments for parameters of the function."""
        names = self._parameter_names()
        return parameters | {index for index, name in enumerate(names) if name in parameters}

    def _parameter_names(self) -> tuple[str, ...]:
        code = getattr(self.__wrapped__, "__code__", None)
        return () if code is None else code.co_varnames[: code.co_argcount]

    def _with_scalar_operands(self, trace: Trace, capture: Capture, args: Any, kwargs: Any) -> Any:
        """Replace the numbers that the function only computes with by tracers of the capture's arrays."""
        if not capture.scalars.keys() <= self.scalar_arguments:  # a call of another kind looks at one
            capture.mark_not_replayable()
            return args, kwargs
        args, kwargs = list(args), dict(kwargs)
        for key, array in capture.scalars.items():
            arguments: Any = args if type(key) is int else kwargs
            number, tracer = arguments[key], trace.tracer_for(array)
            tracer.is_scalar, arguments[key] = True, tracer
            if type(number) is float:
                trace.weak_scalars.add(tracer.node, number)
        return args, kwargs

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Explained:
        """Return the passes and breaks of a call.

        If calls with these arguments are replayed, these are the passes of the plan, and nothing runs. Else
        the function runs on copies of its arrays.

        Examples
        --------
        >>> import numpy as np
        >>> import pycudakit as pk
        >>> @pk.fuse
        ... def spread(x):
        ...     return x - np.mean(x)
        >>> with pk.engine("cpu"):
        ...     plan = spread.explain(np.ones(100_000))
        >>> [each.function for each in plan.passes], plan.breaks
        (['mean', 'subtract'], ())
        """
        if context.is_only_numpy(context.checked_current_engine()):
            return Explained(self._name, "numpy", (), ())
        device_arrays = device_arrays_in((args, kwargs)) if can_use_device_arrays() else []
        if device_arrays:
            check_device_arguments("explain", self.__wrapped__, args, kwargs)
            with context.override(engine="cuda"):
                return self._explain(
                    *tree_map((args, kwargs), _read_unless_on_device("explain", device_arrays))
                )
        signature = self._signature_of_replay(args, kwargs)
        plan = None if signature is None else self._plans.plan_of(signature)
        if signature is not None and plan is not None:
            names = names_of(self.__wrapped__, args, kwargs)
            for key, array in signature.scalars.items():
                names[id(array)] = key if type(key) is str else self._parameter_names()[key]  # type: ignore[index]
            return Explained.of_plan(plan, [names.get(id(array), "?") for array in signature.arrays])
        return self._explain(*read_all("explain", self.__wrapped__, args, kwargs, by_numpy=True))

    def _signature_of_replay(self, args: Any, kwargs: Any) -> host_replay.Signature | None:
        """Return the signature of a call, on the engine that would replay it."""
        engine = context.current_engine()
        if engine == "auto":
            best = self._best[_key_of_arrays(arrays_in([args, kwargs]))]
            engine = best.engine if type(best) is EngineChoice else engine
        return host_replay.signature_of(self, engine, args, kwargs)

    def _explain(self, args: Any, kwargs: Any) -> Explained:
        args, kwargs = tree_map((args, kwargs), copied)
        trace = Trace(self._name, HANDLERS, self._strict)
        trace.passes = []
        arrays = arrays_in([args, kwargs])
        trace.buffers.label(names_of(self.__wrapped__, args, kwargs))
        device_arrays = device_arrays_in((args, kwargs))

        def run() -> Call | None:
            self._run_traced(trace, arrays, args, kwargs, device_arrays)
            return last_call()

        call, _ = collect_calls(run)
        return Explained(
            self._name,
            trace.engine if call is None else call.engine,
            tuple(trace.passes),
            tuple(trace.breaks),
            0 if call is None else call.bytes_up,
            0 if call is None else call.bytes_down,
            trace.buffers.scope.peak_resident_bytes,
            None if call is None else call.seconds,
            {} if call is None else {row.function: row.seconds or 0.0 for row in call.rest},
            () if trace.analysis is None else trace.analysis.described(),
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind to an instance, as methods do."""
        return self if instance is None else BoundFused(self, instance)

    @functools.cached_property
    def _unfused(self) -> Any:
        return unfused_alias(self.__wrapped__)

    def __reduce__(self) -> Any:
        """Pickle by name, as functions are; else pickle the wrapped function."""
        name: str = getattr(self.__wrapped__, "__qualname__", "")
        is_known = find_by_name(self.__module__, name) is self
        if is_known and self.__module__ != "__main__":
            return name
        unpickle = sys.modules["pycudakit"]._unpickle_fused  # noqa: SLF001  (stays when modules move)
        return unpickle, (self._unfused if is_known else self.__wrapped__, self._strict)

    def __repr__(self) -> str:
        """Show the wrapped function."""
        return f"<fused {self.__wrapped__!r}>"


def unpickle_fused(function: Any, strict: bool) -> Fused[Any, Any]:
    """Return the script's own fused function if its `_unfused` alias is `function`; else fuse `function`."""
    name, _, last = getattr(function, "__qualname__", "").rpartition(".")
    if last == UNFUSED:
        existing = find_by_name(function.__module__, name)
        if isinstance(existing, Fused) and existing._unfused is function:  # noqa: SLF001
            return existing
        function.__qualname__ = name
    return Fused(function, strict)


class BoundFused:
    """A fused method of an instance."""

    def __init__(self, function: Fused[Any, Any], instance: Any) -> None:
        functools.update_wrapper(self, function)
        self.__func__ = function
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method."""
        return self.__func__(self.__self__, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        """Return True if `other` is the same function, bound to the same instance."""
        if not isinstance(other, BoundFused):
            return NotImplemented
        return self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        """Return a hash of the function and the instance."""
        return hash((self.__func__, id(self.__self__)))

    def __reduce__(self) -> Any:
        """Pickle it as Python's methods are pickled: the instance and the method's name."""
        return getattr, (self.__self__, self.__func__.__name__)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        """Return the function and the instance that it is bound to."""
        return f"<bound {self.__func__!r} of {self.__self__!r}>"

    def explain(self, *args: Any, **kwargs: Any) -> Explained:
        """Run the method on copies of its arrays, and return the passes and breaks of the call."""
        return self.__func__.explain(self.__self__, *args, **kwargs)


_MAX_KEYS = 256
_PACKAGE = __name__.partition(".")[0] + "."
_MAX_ANALYSES = 8
_RUN_CODE = Fused._run.__code__  # noqa: SLF001
_SLOW_SECONDS = 5e-3  # of one call in NumPy, after which the next is traced
_TRIAL_SECONDS = 20e-3  # of all calls in NumPy: tracing and measuring take about as long
_REPLAY_SECONDS = 30e-6  # no replay is much faster than a call in NumPy of this length


class _CallsLeft:
    """The number of calls with small arguments that NumPy computes before the engines are tried."""

    __slots__ = ("_left",)

    def __init__(self, left: int) -> None:
        self._left = left

    def count(self) -> bool:
        """Count a call; return False once none is left."""
        self._left -= 1
        return self._left >= 0


def _key_of(values: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return a key of arrays and numbers, by which the time of a call differs; None for other values."""
    parts: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            parts.append((value.shape, value.dtype))
        elif kind is float:
            parts.append(kind)
        elif kind is int:
            parts.append(value)
        else:
            return None
    return tuple(parts)


def _key_of_arrays(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Return the key of arrays, of which some may be memory maps."""
    return _key_of(arrays) or _key_of([*map(as_plain_array, arrays)]) or ()


def _restore_arrays(trace: Trace, argument_map: ArgumentMap, roots: tuple[Any, ...]) -> None:
    """After an exception, sync the caller's arrays, and replace escaped tracers by arrays."""
    error = roots[-1]
    if isinstance(error, Exception) and not isinstance(error, errors.Error) and not ended_a_call(error):
        with contextlib.suppress(Exception):  # of an operation that raised this error
            trace.compute(trace.deferred())  # which may have to warn
    # After an engine failure, device data may be lost; the error already reports that.
    with contextlib.suppress(*(errors.Error,) * isinstance(error, errors.Error)):
        trace.buffers.sync_all_to_caller()
        argument_map.write_back()
        replace_escaped_tracers(roots, argument_map.leaf_to_caller)


def _read_unless_on_device(title: str, device_arrays: Sequence[Any]) -> Callable[[Any], Any]:
    """Return a function that reads an argument, except for device arrays, which it returns as they are."""
    device_ids = {id(device) for device in device_arrays}
    return lambda value: value if id(value) in device_ids else read(value, title)


@overload
def fuse(function: Callable[P, R], *, strict: bool = False) -> Fused[P, R]: ...


@overload
def fuse(*, strict: bool = False) -> Callable[[Callable[P, R]], Fused[P, R]]: ...


def fuse(function: Any = None, *, strict: bool = False) -> Any:
    """Compile a NumPy function into as few fused kernels as possible.

    Parameters
    ----------
    function : callable
        A function or method written for NumPy. `fuse` may also be its decorator.
    strict : bool, optional
        Whether a graph break raises `errors.Unsupported`, whose message names the replacement.

    Returns
    -------
    Fused
        Called as the function is. Without `function`, a decorator is returned.

    See Also
    --------
    evaluate, Fused.explain, last_call

    Notes
    -----
    The body runs with tracers in place of the arrays among the arguments. A tracer records operations; they
    are computed when a value is needed, on the current engine, with the bits of the library functions called
    one by one. Calls of a body without side effects are replayed from the third one with a signature on: the
    recorded operations run without Python. It may have branches on computed numbers.

    Where Python needs a value, as `if`, ``float()`` and ``numpy.asarray()`` do, and where pycudakit lacks a
    function, the recorded operations are computed before the body goes on. This is a graph break;
    `Fused.explain` lists them.

    Of pandas' Series and DataFrames, operations that mean the same in NumPy are recorded: operators of Series
    with one index, elementwise functions, reading and assigning a column. pandas computes the others, which
    are graph breaks.

    Writing into an argument writes into the caller's array, and a view stays a view. A large array that is
    not an argument, such as a global, is read at once: pass it as an argument instead.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> @pk.fuse
    ... def distance(x, y):
    ...     return np.sqrt(x * x + y * y)
    >>> distance(np.array([3.0, 5.0]), np.array([4.0, 12.0]))
    array([ 5., 13.])
    """
    if function is None:
        return functools.partial(fuse, strict=strict)
    if not callable(function):
        raise errors.Unsupported(f"fuse takes a function, not {type(function).__name__}")
    return Fused(function, strict)
