"""Functions of the kit's, called by themselves with arrays on a GPU: each is a fused function of one call."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._families.elementwise import non_ufuncs, two_output_ufuncs
from pycudakit.fusing import replay
from pycudakit.fusing.api import Fused
from pycudakit.fusing.numpy_api.elementwise import pair
from pycudakit.fusing.trace.current_trace import recording_now
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.traced_body import evaluate, kit_function


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function where its arrays lie."""
    return replay.call(function, _fused(function), args, kwargs)


@functools.lru_cache(1024)
def _fused(function: Any) -> Fused[Any, Any]:
    return Fused(_Body(function), strict=False)


class _Body:
    """What one function asks of a recording."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self.__name__ = function.name if isinstance(function, ElementFunction) else function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self._function, ElementFunction):
            recording = recording_now()
            assert recording is not None  # noqa: S101
            return _elementwise(recording, self._function, *args, **kwargs)
        if self.__name__ == "evaluate":
            return evaluate(*args, **kwargs)
        return kit_function(self._function)(*args, **kwargs)


def _elementwise(
    recording: Recording,
    function: ElementFunction,
    *inputs: Any,
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    if function.outputs > 1:
        own = getattr(two_output_ufuncs, function.name)
        named = {k: v for k, v in {"out": out, "dtype": dtype}.items() if v is not None}
        if where is not True or casting != "same_kind":
            named |= {"where": where, "casting": casting}
        return pair(recording, own, inputs, named)
    named = {"dtype": dtype, "casting": casting}
    if where is True:
        return recording.apply(function, inputs, out=out, **named)
    # Where the mask is off, as in a program that has one: an argument to which no function objects.
    harmless = function.harmless
    of_bools = np.bool_(harmless)  # beside which bools stay bools
    kept = [
        recording.apply(non_ufuncs.WHERE, (where, value, of_bools if _is_of_bools(value) else harmless))
        for value in inputs
    ]
    result = recording.apply(function, kept, **named)
    if out is None:
        return result
    chosen = recording.apply(non_ufuncs.WHERE, (where, result, out))
    del kept, result  # or they would be computed by themselves before what they read is overwritten
    recording.set(out, ..., chosen)
    return out


def _is_of_bools(value: Any) -> bool:
    return getattr(value, "dtype", None) == np.bool_
