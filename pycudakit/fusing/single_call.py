"""Calls of single pycudakit functions on device arrays: each is run as a fused function of one call."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._families.elementwise import non_ufuncs, two_output_ufuncs
from pycudakit.fusing import device_replay
from pycudakit.fusing.api import Fused
from pycudakit.fusing.device_replay import CallSignature
from pycudakit.fusing.numpy_api.elementwise import pair
from pycudakit.fusing.trace.current_trace import current_trace
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.traced_body import evaluate, traced_library_function


def call(function: Any, args: Any, kwargs: Any, signature: CallSignature | None) -> Any:
    """Call a function on the device of its arrays; capture its second call with a signature."""
    return device_replay.call(signature, _fused(function), args, kwargs)


@functools.lru_cache(1024)
def _fused(function: Any) -> Fused[Any, Any]:
    return Fused(_Body(function), strict=False)


class _Body:
    """The body of the fused function of one call."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self.__name__ = function.name if isinstance(function, ElementFunction) else function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self._function, ElementFunction):
            trace = current_trace()
            assert trace is not None  # noqa: S101
            return _elementwise(trace, self._function, *args, **kwargs)
        if self.__name__ == "evaluate":
            return evaluate(*args, **kwargs)
        return traced_library_function(self._function)(*args, **kwargs)


def _elementwise(
    trace: Trace,
    function: ElementFunction,
    *inputs: Any,
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    if function.outputs > 1:
        ufunc = getattr(two_output_ufuncs, function.name)
        keywords = {k: v for k, v in {"out": out, "dtype": dtype}.items() if v is not None}
        if where is not True or casting != "same_kind":
            keywords |= {"where": where, "casting": casting}
        return pair(trace, ufunc, inputs, keywords)
    keywords = {"dtype": dtype, "casting": casting}
    if where is True:
        return trace.apply(function, inputs, out=out, **keywords)
    # Where the mask is False, the function gets a neutral value, which raises no floating-point flags.
    neutral_value = function.neutral_value
    neutral_bool = np.bool_(neutral_value)  # so that bool operands stay bool
    masked = [
        trace.apply(non_ufuncs.WHERE, (where, value, neutral_bool if _is_of_bools(value) else neutral_value))
        for value in inputs
    ]
    result = trace.apply(function, masked, **keywords)
    if out is None:
        return result
    chosen = trace.apply(non_ufuncs.WHERE, (where, result, out))
    # Otherwise they would be computed separately before their inputs are overwritten.
    del masked, result
    trace.set(out, ..., chosen)
    return out


def _is_of_bools(value: Any) -> bool:
    return getattr(value, "dtype", None) == np.bool_
