"""Tracing: a call of a fused function runs its body with tracers, and computes their operations.

A trace is scheduled as fused kernels (passes). A call may be captured at the same time, to be replayed.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import time
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from pycudakit import errors
from pycudakit._interop.cuda_libraries import device_choice
from pycudakit._interop.foreign_arrays import is_ordinary, read
from pycudakit._runtime import context
from pycudakit._runtime.call_log import Reason
from pycudakit._runtime.interrupts import ended_a_call
from pycudakit._runtime.native_call import (
    FALLBACK_ERRORS,
    NOTHING_TO_COMPUTE,
    collect_calls,
    log_empty_call,
    log_fused_call,
    observe_entries,
    run_numpy,
)
from pycudakit.fusing.arguments import ArgumentMap
from pycudakit.fusing.bytecode.analysis import Analysis
from pycudakit.fusing.escape import aliased_arrays, replace_escaped_tracers
from pycudakit.fusing.execute.capture import Capture, Scalar
from pycudakit.fusing.function_analysis import analyse
from pycudakit.fusing.guards import Guards, guards_of
from pycudakit.fusing.host_replay import PlanCache, Signature, guards_hold
from pycudakit.fusing.memory.imported_arrays import ImportedArrays
from pycudakit.fusing.memory.pytree import all_tracers, arrays_in, as_plain_array, device_arrays_in, tree_map
from pycudakit.fusing.numpy_api.registry import HANDLERS
from pycudakit.fusing.trace.current_trace import run_with_trace
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.traced_body import TracedBody

_NO_ARRAY = (
    "no NumPy array, Series or DataFrame among the arguments, so that nothing is fused; of other objects "
    "with labels, pass the values: .to_numpy()"
)
_TINY = "NumPy computes operations of few elements"
_PACKAGE = __name__.partition(".")[0] + "."
_MAX_ANALYSES = 8


class TracedFunction:
    """A function whose calls are traced, and captured for replays.

    Parameters
    ----------
    function
        The function.
    strict
        Whether a graph break raises.
    """

    def __init__(self, function: Any, strict: bool) -> None:
        self.function, self.strict = function, strict
        self.__module__ = getattr(function, "__module__", None) or ""
        self.body = TracedBody(function)
        self.plans = PlanCache()
        self.runs_lazily = any(
            test(function)
            for test in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        )
        self.analyses: list[Analysis] = []  # of calls of different kinds
        # The arguments, by index or name, that the function only computes with, in all kinds of calls so far.
        self.scalar_arguments: frozenset[int | str] = frozenset()
        # The library's own functions see nothing but their arguments.
        self._is_from_library = self.__module__.startswith(_PACKAGE)

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", "fused")

    @functools.cached_property
    def guards(self) -> Guards | None:
        """The guards on the function's free variables; None if its calls cannot be replayed."""
        return None if self.runs_lazily else guards_of(self.function)

    def new_trace(self) -> Trace:
        """Return a trace for a call."""
        return Trace(self.name, HANDLERS, self.strict)

    def _new_trace_to_capture(self) -> Trace:
        # A capture defers operations that are otherwise computed at once. A number that is then needed is no
        # graph break of the function: a call that is not captured finds those.
        return Trace(self.name, HANDLERS, strict=False)

    def capture(
        self,
        signature: Signature,
        args: Any,
        kwargs: Any,
        reason: Reason = "",
        max_seconds: float | None = None,
        begin_trace: Callable[[], Trace] | None = None,
    ) -> Any:
        """Run the call traced and captured, and keep its plan.

        `reason` is that of the engine, if `auto` chose it. `begin_trace` returns the trace.
        """
        run = functools.partial(
            self.run_captured, args, kwargs, reason=reason, begin_trace=begin_trace, signature=signature
        )
        return self.plans.capture(signature, self.name, run, max_seconds)

    def run_captured(
        self,
        args: Any,
        kwargs: Any,
        capture: Capture,
        reason: Reason = "",
        begin_trace: Callable[[], Trace] | None = None,
        signature: Signature | None = None,
    ) -> Any:
        """Run the call traced, while a capture observes its library calls."""
        # The trace begins here, as it takes the capture's filters of warnings for those of the caller.
        trace = (begin_trace or self._new_trace_to_capture)()
        trace.executor.begun_capture = capture
        capture.sets_errors = self.guards is not None and self.guards.sets_errors
        with observe_entries(capture.on_native_call):
            result = self.run(trace, arrays_in([args, kwargs]), args, kwargs, reason=reason)
        if signature is not None and not guards_hold(self, signature):  # an array has changed meanwhile
            capture.mark_not_replayable()
        return result

    def run(
        self,
        trace: Trace,
        arrays: list[Any],
        args: Any,
        kwargs: Any,
        device_arrays: Sequence[Any] = (),
        reason: Reason = "",
    ) -> Any:
        """Run the call, and log its passes as one call, with the time of the whole.

        `reason` is that of the engine, if `auto` chose one for the whole call.
        """
        began = time.perf_counter()
        run = functools.partial(self._run_in_scope, trace, arrays, args, kwargs, device_arrays)
        result, passes = collect_calls(run)
        if passes or trace.breaks or trace.has_tiny_operations:
            seconds = time.perf_counter() - began
            if not (passes or trace.breaks):
                reason = _TINY
            log_fused_call(self.name, passes, seconds, trace.numpy_seconds(), trace.breaks, reason)
        else:
            log_empty_call(self.name, NOTHING_TO_COMPUTE if arrays else _NO_ARRAY)
        return result

    def _run_in_scope(
        self, trace: Trace, arrays: list[Any], args: Any, kwargs: Any, device_arrays: Sequence[Any]
    ) -> Any:
        trace.buffers.add_arguments([as_plain_array(array) for array in arrays])
        trace.buffers.find_aliased_arrays = functools.partial(
            aliased_arrays, self.function, self.body.is_rebound, (*args, *kwargs.values())
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
            raise type(error)(f"{error}; {self.name} had begun to write to its arguments") from error
        finally:
            trace.has_ended = True  # also where an interrupt has cut short the end of the trace

    def _run_with_imports(self, trace: Trace, device_arrays: Sequence[Any], args: Any, kwargs: Any) -> Any:
        imported = ImportedArrays(trace.buffers, device_arrays)
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
        trace.deferred.computes_unread = imported is None and not self._is_from_library
        roots = self.function, args, kwargs
        args, kwargs = argument_map.to_tracers(self.function, args, kwargs)
        analysis = self._analysis_of(args, kwargs)
        if analysis is not None:
            trace.defers_float = analysis.defers_float
        is_pure = analysis is None or analysis.is_pure  # no instruction can reach memory past the trace
        trace.analysis, trace.outermost_code = None if is_pure else analysis, _RUN_CODE
        if trace.executor.begun_capture is not None and trace.executor.begun_capture.scalars:
            args, kwargs = self._with_scalar_operands(trace, trace.executor.begun_capture, args, kwargs)
        listener = trace.buffers.scope.listener
        if trace.analysis is not None and _has_risks(trace.analysis, trace.executor.begun_capture):
            trace.mark_not_replayable()
            if listener is not None:
                listener.mark_not_replayable()
        try:
            result = run_with_trace(trace, functools.partial(self.body, *args, **kwargs))
            del args, kwargs
            if trace.executor.begun_capture is not None:
                trace.executor.begun_capture.body_has_ended = True
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
                    (*roots, result), argument_map.leaf_to_caller, are_tracers_left, has_copies
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
        """Return the analysis of a call; None for the library's own functions."""
        if self._is_from_library:
            return None
        for analysis in self.analyses:
            if analysis.holds_for(args, kwargs):
                break
        else:
            analysis = analyse(self.function, args, kwargs)
            computed_with = self._arguments_of(analysis.scalar_parameters)
            self.scalar_arguments = computed_with & self.scalar_arguments if self.analyses else computed_with
            self.analyses = [analysis, *self.analyses[: _MAX_ANALYSES - 1]]
        return analysis

    def analyse_call(self, args: Any, kwargs: Any) -> None:
        """Analyse a call before it is traced."""
        args, kwargs = ArgumentMap(self.new_trace(), None).to_tracers(self.function, args, kwargs)
        self._analysis_of(args, kwargs)

    def _arguments_of(self, parameters: frozenset[str]) -> frozenset[int | str]:
        """Return the indices and the names of arguments for parameters of the function."""
        names = self.parameter_names()
        return parameters | {index for index, name in enumerate(names) if name in parameters}

    def parameter_names(self) -> tuple[str, ...]:
        """Return the names of the function's parameters, in order."""
        code = getattr(self.function, "__code__", None)
        first = int(type(self.function) is MethodType)
        return () if code is None else code.co_varnames[first : code.co_argcount]

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

    def run_on_devices(self, *args: Any, **kwargs: Any) -> Any:
        """Run the call on the GPU of its device arrays, with results on that GPU, too."""
        device_arrays = device_arrays_in((args, kwargs))
        device_ids = set(map(id, device_arrays))
        if not all(id(value) in device_ids or is_ordinary(value) for value in (*args, *kwargs.values())):
            args, kwargs = tree_map((args, kwargs), read_unless_on_device(self.name, device_arrays))
        engine, arrays = context.current_engine(), arrays_in([args, kwargs])
        reason = device_choice(self.name, engine).reason
        with contextlib.nullcontext() if engine == "cuda" else context.override(engine="cuda"):
            return self.run(self.new_trace(), arrays, args, kwargs, device_arrays, reason)

    def run_by_numpy(self, args: Any, kwargs: Any, reason: Reason) -> Any:
        """Run the function as it is, in NumPy."""

        def compute() -> Any:  # the calls of the body are a part of this one
            return collect_calls(lambda: self.function(*args, **kwargs))[0]

        return run_numpy(self.name, reason, compute)


_RUN_CODE = TracedFunction._run.__code__  # noqa: SLF001


def _has_risks(analysis: Analysis, capture: Capture | None) -> bool:
    """Return True if a captured call may run other code, or read memory that no guard compares."""
    reads_guarded = capture is not None and capture.has_guarded_arrays and analysis.only_reads_arrays
    return analysis.has_risks and not reads_guarded


def _restore_arrays(trace: Trace, argument_map: ArgumentMap, roots: tuple[Any, ...]) -> None:
    """After an exception, sync the caller's arrays, and replace escaped tracers by arrays."""
    error = roots[-1]
    if isinstance(error, Exception) and not isinstance(error, errors.Error) and not ended_a_call(error):
        with contextlib.suppress(Exception):  # of an operation that raised this error
            trace.executor.compute(trace.deferred.nodes())  # which may have to warn
    # After an engine failure, device data may be lost; the error already reports that.
    with contextlib.suppress(*(errors.Error,) * isinstance(error, errors.Error)):
        trace.buffers.sync_all_to_caller()
        argument_map.write_back()
        replace_escaped_tracers(roots, argument_map.leaf_to_caller)


def read_unless_on_device(title: str, device_arrays: Sequence[Any]) -> Callable[[Any], Any]:
    """Return a function that reads an argument, except for device arrays, which it returns as they are."""
    device_ids = {id(device) for device in device_arrays}
    return lambda value: value if id(value) in device_ids else read(value, title)
