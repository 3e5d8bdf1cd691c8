"""Kernels of the user's own in a fused function: they work in what the device keeps, where that can be."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import Any

import numpy as np

from pycudakit.fusing.memory.pytree import all_stand_ins, mapped
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.trace.current_trace import recording_now
from pycudakit.fusing.trace.trace import Recording
from pycudakit.kernels.kernel_templates import ReductionKernel
from pycudakit.kernels.program import Program
from pycudakit.kernels.running.execute import isolates
from pycudakit.kernels.running.transfers import In, Wrapper

# Methods that launch, and how many arguments come before the kernel's own.
_LAUNCHES = {"launch": 1, "prepared_call": 2}


class Kernel:
    """A kernel, or what has some, that takes stand-ins.

    Parameters
    ----------
    kernel
        The user's object.
    meaning
        What returns an attribute as the body of a fused function sees it.
    """

    def __init__(self, kernel: Any, meaning: Callable[[Any], Any]) -> None:
        self._kernel = kernel
        self._meaning = meaning

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
            return lambda *arguments, **keywords: self._meaning(found(*arguments, **keywords))
        return self._meaning(found)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run it on arrays."""
        return self._run(self._kernel, 0, *arguments, **keywords)

    def _run(self, function: Callable[..., Any], ahead: int, *arguments: Any, **keywords: Any) -> Any:
        recording = recording_now()
        if recording is None:
            return function(*arguments, **keywords)
        given = arguments, keywords
        if not _may_work_at_home(recording, self._kernel, given):
            return recording.on_host(function, arguments, keywords, may_write=True)
        for stand_in in _written(self._kernel, arguments[ahead:], (arguments[:ahead], keywords)):
            recording.in_one_memory(stand_in)
            if stand_in.node.storage is not None:
                recording.before_write(stand_in.node.storage)
        placed, named = mapped(given, functools.partial(_placed, recording))
        return recording.leave_results(function, placed, named, all_stand_ins(given))


def _may_work_at_home(recording: Recording, kernel: Any, given: Any) -> bool:
    """Tell whether nobody lays out arrays anew, or needs them, on the host."""
    named = given[1]
    if not recording.memory.scope.is_open or isolates(named.get("isolate"), named.get("timeout")):
        return False
    if named.get("symbols") is not None or (isinstance(kernel, Program) and kernel.has_inouts):
        return False
    arrays: list[Any] = []
    mapped(given, lambda part: arrays.append(_stand_in_of(part)))
    return all(_is_dense(recording, array) for array in arrays)


def _is_dense(recording: Recording, value: Any) -> bool:
    array = value
    if type(value) is StandIn:
        if value.is_scalar:
            return True
        array = recording.store(value)
    elif isinstance(value, Wrapper):
        array = value.array
    if not isinstance(array, np.ndarray):
        return True
    return array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative


def _written(kernel: Any, arguments: Sequence[Any], rest: Any) -> Iterable[StandIn]:
    """Return the stand-ins that may be written to."""
    if isinstance(kernel, ReductionKernel):
        return []
    parameters: Any = getattr(kernel, "parameters", None) or getattr(kernel, "_parameters", ())
    if len(parameters) != len(arguments):
        return all_stand_ins(mapped((arguments, rest), _stand_in_of))
    return [
        _stand_in_of(value)
        for parameter, value in zip(parameters, arguments, strict=True)
        if type(_stand_in_of(value)) is StandIn
        and parameter.pointer
        and not (parameter.const or isinstance(value, In))
    ]


def _placed(recording: Recording, value: Any) -> Any:
    """Return what stands for a value where the library looks for it."""
    stand_in = _stand_in_of(value)
    if type(stand_in) is not StandIn or stand_in.is_scalar:
        return recording.resolved(value)
    array = recording.where_it_is(stand_in)
    return array if value is stand_in else value.around(array)


# ---- In, Out and InOut ------------------------------------------------------------------------------


def _stand_in_of(value: Any) -> Any:
    """Return what a wrapper is of, if that is a stand-in."""
    return getattr(value, "stand_in", value) if isinstance(value, Wrapper) else value


@functools.cache
def transfer(kind: Any) -> Callable[..., Any]:
    """Return what makes one of `In`, `Out` and `InOut`, of stand-ins, too."""

    class OfStandIn(kind):  # type: ignore[misc]
        def __init__(self, recording: Recording, stand_in: StandIn, keywords: dict[str, Any]) -> None:
            self.recording, self.stand_in, self.keywords = recording, stand_in, keywords

        @property
        def array(self) -> Any:
            """The host's memory, which others may write to from now on."""
            values = self.recording.read(self.stand_in)
            storage = self.stand_in.node.storage
            if storage is not None:
                self.recording.before_write(storage)
            self.recording.share(self.stand_in)
            return values

        def settled(self) -> Any:
            return self.around(self.array)

        def around(self, array: Any) -> Any:
            return kind(array, **self.keywords)

    @functools.wraps(kind, updated=())
    def make(array: Any, **keywords: Any) -> Any:
        recording = recording_now()
        if recording is None or type(array) is not StandIn:
            return kind(array, **keywords)
        return OfStandIn(recording, array, keywords)

    return make
