"""User kernels (CUDA C) called in a fused function: they run on device-resident buffers where possible.

The names of kernels in the function body resolve to `TracedKernel` proxies. A launch runs on the device if
the scope is open and every array is dense; otherwise its arguments are brought to the host first.
"""

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

# Methods that launch, and the number of arguments before those of the kernel.
_LAUNCHES = {"launch": 1, "prepared_call": 2}


class TracedKernel:
    """A proxy of a kernel, or of a module of kernels, that takes tracers.

    Parameters
    ----------
    kernel
        The user's object.
    resolve_name
        Maps an attribute to the value that the body of a fused function sees.
    """

    def __init__(self, kernel: Any, resolve_name: Callable[[Any], Any]) -> None:
        self._kernel = kernel
        self._resolve_name = resolve_name

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of the kernel, so that `isinstance` holds."""
        return type(self._kernel)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the kernel, such as a function of a module."""
        attribute = getattr(self._kernel, name)
        if name in _LAUNCHES:
            return functools.partial(self._run, attribute, _LAUNCHES[name])
        if isinstance(attribute, MethodType):
            return lambda *arguments, **keywords: self._resolve_name(attribute(*arguments, **keywords))
        return self._resolve_name(attribute)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Launch the kernel on arrays."""
        return self._run(self._kernel, 0, *arguments, **keywords)

    def _run(self, function: Callable[..., Any], ahead: int, *arguments: Any, **keywords: Any) -> Any:
        trace = current_trace()
        if trace is None:
            return function(*arguments, **keywords)
        call_arguments = arguments, keywords
        if not _may_run_on_device(trace, self._kernel, call_arguments):
            return trace.on_host(function, arguments, keywords, may_write=True)
        for tracer in _written(self._kernel, arguments[ahead:], (arguments[:ahead], keywords)):
            trace.in_caller_memory(tracer)
            if tracer.node.buffer is not None:
                trace.before_write(tracer.node.buffer)
        device_args, named = tree_map(call_arguments, functools.partial(_device_value, trace))
        return trace.call_on_device(function, device_args, named, all_tracers(call_arguments))


def _may_run_on_device(trace: Trace, kernel: Any, call_arguments: Any) -> bool:
    """Return True if no array must be copied, or read, on the host before the launch."""
    named = call_arguments[1]
    if not trace.buffers.scope.is_open or isolates(named.get("isolate"), named.get("timeout")):
        return False
    if named.get("symbols") is not None or (isinstance(kernel, Program) and kernel.has_inouts):
        return False
    arrays: list[Any] = []
    tree_map(call_arguments, lambda part: arrays.append(_tracer_of(part)))
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
    """Return the tracers that the kernel may write to."""
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


def _device_value(trace: Trace, value: Any) -> Any:
    """Return the array by which the library finds a tracer's buffer, in the same `In`/`Out` wrapper."""
    tracer = _tracer_of(value)
    if type(tracer) is not Tracer or tracer.is_scalar:
        return trace.resolved(value)
    array = trace.device_or_host_array(tracer)
    return array if value is tracer else value.around(array)


# ---- In, Out and InOut ------------------------------------------------------------------------------


def _tracer_of(value: Any) -> Any:
    """Return the tracer inside a wrapper, or the value itself."""
    return getattr(value, "tracer", value) if isinstance(value, Wrapper) else value


@functools.cache
def transfer(kind: Any) -> Callable[..., Any]:
    """Return a constructor of `In`, `Out` or `InOut` that takes tracers, too."""

    class OfTracer(kind):  # type: ignore[misc]
        def __init__(self, trace: Trace, tracer: Tracer, keywords: dict[str, Any]) -> None:
            self.trace, self.tracer, self.keywords = trace, tracer, keywords

        @property
        def array(self) -> Any:
            """The host array; it counts as escaped, since other code may write to it from now on."""
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
