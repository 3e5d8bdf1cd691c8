"""Reductions fused with the elementwise program that computes their argument."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._families.reduce import lowering
from pycudakit._families.reduce.reduction import Reduction, fused_lowering

_LOWERINGS = {
    "sum": lowering.SUM,
    "prod": lowering.PROD,
    "mean": lowering.MEAN,
    "var": lowering.VAR,
    "std": lowering.STD,
    "min": lowering.MIN,
    "max": lowering.MAX,
    "any": lowering.ANY,
    "all": lowering.ALL,
    "argmin": lowering.ARGMIN,
    "argmax": lowering.ARGMAX,
    "amin": lowering.MIN,
    "amax": lowering.MAX,
    "ptp": lowering.PTP,
    "count_nonzero": lowering.COUNT,
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
    """Compute a reduction of an elementwise function's values in one pass.

    Parameters
    ----------
    name
        The reduction's NumPy name.
    function, inputs
        The elementwise function that computes the reduction's argument, and its inputs.
    out, axis, keepdims, ddof
        As for NumPy.
    """

    def call_numpy() -> Any:
        keywords = {"ddof": ddof} if name in ("var", "std") else {}
        if out is not None:
            keywords["out"] = out
        return getattr(np, name)(function.numpy(*inputs), axis=axis, keepdims=keepdims, **keywords)

    if name in ("argmin", "argmax") and isinstance(axis, tuple):
        return call_numpy()  # raises
    operands = [value if type(value) in (int, float) else np.asanyarray(value) for value in inputs]
    call = Reduction(
        *(name, _LOWERINGS[name], call_numpy, operands, axis),
        out=out,
        keepdims=keepdims,
        out_takes_part=name in ("sum", "prod"),
        wrap_lowering=functools.partial(fused_lowering, function),
    )
    if call.uses_numpy or (name in ("var", "std") and ddof >= call.length):
        return call.by_numpy()
    result = call.reduce(ddof=ddof)
    if name in ("sum", "prod", "mean", "var", "std", "ptp"):
        # NumPy's warning names the ufunc that overflowed: a sum, or the difference from the mean or of the
        # extremes.
        call.warn(result, "reduce" if name in ("sum", "prod", "mean") else "subtract")
    return call.finish(result)
