"""Reductions of what a program computes, in the same pass."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._families.reduce import kinds
from pycudakit._families.reduce.call import Reduction, written_within
from pycudakit._programs.function import ElementFunction

_WRITES = {
    **{
        name: getattr(kinds, name.upper())
        for name in ["sum", "prod", "mean", "var", "std", "min", "max", "any", "all"]
    },
    **{name: getattr(kinds, name.upper()) for name in ("argmin", "argmax")},
    "amin": kinds.MIN,
    "amax": kinds.MAX,
    "ptp": kinds.SPREAD,
    "count_nonzero": kinds.COUNT,
}


def reduce_program(
    name: str,
    function: ElementFunction,
    inputs: Sequence[Any],
    out: Any,
    axis: Any = None,
    keepdims: bool = False,
    ddof: float = 0,
) -> Any:
    """Reduce the values of a function, as NumPy's function of that name does.

    Parameters
    ----------
    name
        Of the reduction.
    function, inputs
        What computes its argument.
    out, axis, keepdims, ddof
        As for NumPy.
    """

    def numpy() -> Any:
        keywords = {"ddof": ddof} if name in ("var", "std") else {}
        if out is not None:
            keywords["out"] = out
        return getattr(np, name)(function.numpy(*inputs), axis=axis, keepdims=keepdims, **keywords)

    if name in ("argmin", "argmax") and isinstance(axis, tuple):
        return numpy()  # raises
    decides = name in ("sum", "prod")
    given = [v if type(v) in (int, float) else np.asanyarray(v) for v in inputs]
    call = Reduction(
        *(name, _WRITES[name], numpy, given, axis),
        out=out,
        keepdims=keepdims,
        decides=decides,
        within=functools.partial(written_within, function),
    )
    if call.is_numpys or (name in ("var", "std") and ddof >= call.length):
        return call.by_numpy()
    result = call.reduce(ddof=ddof)
    if name in ("sum", "prod", "mean", "var", "std", "ptp"):
        call.warn(result, "reduce" if name in ("sum", "prod", "mean") else "subtract")
    return call.finish(result)
