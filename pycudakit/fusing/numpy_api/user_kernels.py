"""Kernels of the user's own in a fused function: they work in what the device keeps, where that can be."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import Any

import numpy as np

from pycudakit.fusing.memory.pytree import all_tracers, tree_map
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.current_trace import current_trace
from pycudakit.fusing.trace.trace import Trace
from pycudakit.kernels.kernel_templates import ReductionKernel
from pycudakit.kernels.program import Program
from pycudakit.kernels.running.execute import isolates
from pycudakit.kernels.running.transfers import In, Wrapper

# Methods that launch, and how many arguments come before the kernel's own.
_LAUNCHES = {"launch": 1, "prepared_call": 2}


class TracedKernel:
    """A kernel, or what has some, that takes tracers.

    Parameters
    ----------
    kernel
        The user's object.
    meaning
        What returns an attribute as the body of a fused function sees it.
    """

    def __init__(self, kernel: Any, resolve_name: Callable[[Any], Any]) -> None:
        self._kernel = kernel
        self._resolve_name = resolve_name

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The kernel's own, for those who ask with `isinstance`."""
        return type(self._kernel)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the kernel's, such as a module's function."""
        found = getattr(self._kernel, name)
        if name in _LAUNCHES:
            return functools.partial(self._run, found, _LAUNCHES[name])
        if isinstance(found, MethodType):
            return lambda *arguments, **keywords: self._resolve_name(found(*arguments, **keywords))
        return self._resolve_name(found)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run it on arrays."""
        return self._run(self._kernel, 0, *arguments, **keywords)

    def _run(self, function: Callable[..., Any], ahead: int, *arguments: Any, **keywords: Any) -> Any:
        trace = current_trace()
        if trace is None:
            return function(*arguments, **keywords)
        given = arguments, keywords
        if not _may_run_on_device(trace, self._kernel, given):
            return trace.on_host(function, arguments, keywords, may_write=True)
        for tracer in _written(self._kernel, arguments[ahead:], (arguments[:ahead], keywords)):
            trace.in_caller_memory(tracer)
            if tracer.node.buffer is not None:
                trace.before_write(tracer.node.buffer)
        placed, named = tree_map(given, functools.partial(_placed, trace))
        return trace.keep_results_on_device(function, placed, named, all_tracers(given))


def _may_run_on_device(trace: Trace, kernel: Any, given: Any) -> bool:
    """Tell whether nobody lays out arrays anew, or needs them, on the host."""
    named = given[1]
    if not trace.buffers.scope.is_open or isolates(named.get("isolate"), named.get("timeout")):
        return False
    if named.get("symbols") is not None or (isinstance(kernel, Program) and kernel.has_inouts):
        return False
    arrays: list[Any] = []
    tree_map(given, lambda part: arrays.append(_tracer_of(part)))
    return all(_is_dense(trace, array) for array in arrays)


def _is_dense(trace: Trace, value: Any) -> bool:
    array = value
    if type(value) is Tracer:
        if value.is_scalar:
            return True
        array = trace.materialize(value)
    elif isinstance(value, Wrapper):
        array = value.array
    if not isinstance(array, np.ndarray):
        return True
    return array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative


def _written(kernel: Any, arguments: Sequence[Any], rest: Any) -> Iterable[Tracer]:
    """Return the tracers that may be written to."""
    if isinstance(kernel, ReductionKernel):
        return []
    parameters: Any = getattr(kernel, "parameters", None) or getattr(kernel, "_parameters", ())
    if len(parameters) != len(arguments):
        return all_tracers(tree_map((arguments, rest), _tracer_of))
    return [
        _tracer_of(value)
        for parameter, value in zip(parameters, arguments, strict=True)
        if type(_tracer_of(value)) is Tracer
        and parameter.pointer
        and not (parameter.const or isinstance(value, In))
    ]


def _placed(trace: Trace, value: Any) -> Any:
    """Return what stands for a value where the library looks for it."""
    tracer = _tracer_of(value)
    if type(tracer) is not Tracer or tracer.is_scalar:
        return trace.resolved(value)
    array = trace.device_or_host_array(tracer)
    return array if value is tracer else value.around(array)


# ---- In, Out and InOut ------------------------------------------------------------------------------


def _tracer_of(value: Any) -> Any:
    """Return what a wrapper is of, if that is a tracer."""
    return getattr(value, "tracer", value) if isinstance(value, Wrapper) else value


@functools.cache
def transfer(kind: Any) -> Callable[..., Any]:
    """Return what makes one of `In`, `Out` and `InOut`, of tracers, too."""

    class OfTracer(kind):  # type: ignore[misc]
        def __init__(self, trace: Trace, tracer: Tracer, keywords: dict[str, Any]) -> None:
            self.trace, self.tracer, self.keywords = trace, tracer, keywords

        @property
        def array(self) -> Any:
            """The host's memory, which others may write to from now on."""
            values = self.trace.to_host(self.tracer)
            buffer = self.tracer.node.buffer
            if buffer is not None:
                self.trace.before_write(buffer)
            self.trace.mark_escaped(self.tracer)
            return values

        def settled(self) -> Any:
            return self.around(self.array)

        def around(self, array: Any) -> Any:
            return kind(array, **self.keywords)

    @functools.wraps(kind, updated=())
    def make(array: Any, **keywords: Any) -> Any:
        trace = current_trace()
        if trace is None or type(array) is not Tracer:
            return kind(array, **keywords)
        return OfTracer(trace, array, keywords)

    return make
