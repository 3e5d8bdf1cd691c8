"""Plain calls, whose way is short: what the library takes is prepared once for a function and its types."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit import _abi, _cost, _engine, _execute, _loader, _results
from pycudakit._function import Function, compile_function
from pycudakit._program import Program
from pycudakit._values import CODES

_LIBRARIES = ("cpu", "cuda")


@functools.lru_cache(512)
def _program(function: Function, types: tuple[Any, ...], out: int | None) -> Program | None:
    """Return the program for arguments of these types, codes of pk_type or `int` and `float`."""
    program = compile_function(
        function,
        tuple(_abi.TYPES[t] if type(t) is int else t for t in types),
        (None if out is None else _abi.TYPES[out],) * function.outputs,
        False,
        None,
        "same_kind",
    )
    return None if program.may_refuse else program


def _takes(function: Function, out: Any, shape: tuple[int, ...], inputs: Sequence[Any]) -> bool:
    """Tell whether a result can be put at once into what is given for it."""
    return (
        function.outputs == 1
        and type(out) is np.ndarray
        and out.shape == shape
        and out.dtype in CODES
        and out.flags.c_contiguous
        and out.flags.writeable
        and not any(
            type(value) is np.ndarray and value is not out and np.may_share_memory(value, out)
            for value in inputs
        )
    )


def call(function: Function, inputs: Sequence[Any], out: Any) -> Any:
    """Compute a plain call on a library's engine, asked for by name or taken by `auto`; else return None.

    Plain are arrays of native types, dense and of one shape, and Python numbers beside them.
    """
    engine, reason = _engine.asked.get().plain or _engine.process, _engine.ASKED_FOR
    # With `out=`, a call under `auto` is mostly NumPy's, which is decided on the long way.
    automatic = engine == "auto" and out is None and _engine.status("cpu").available
    if engine not in _LIBRARIES and not automatic:
        return None
    shape, size = None, 0
    types: list[Any] = []
    for value in inputs:
        kind = type(value)
        if kind is np.ndarray:
            code = CODES.get(value.dtype)
            if code is None or not value.flags.c_contiguous:
                return None
            if shape is None:
                shape, size = value.shape, value.size
            elif value.shape != shape:
                return None
            types.append(code)
        elif kind is int or kind is float:
            types.append(kind)
        else:
            return None
    if shape is None or (out is not None and not _takes(function, out, shape, inputs)):
        return None

    if not automatic:
        _loader.library(engine)  # or NoDevice, before anything else can be wrong
    program = _program(function, tuple(types), None if out is None else CODES[out.dtype])
    if program is None:
        return None
    if automatic:
        engine, reason = _cost.choose(program, size, size * program.in_bytes)
        if engine not in _LIBRARIES:
            return None
    empty = np.empty if size * program.out_bytes < _results.LEAST else _results.empty
    results = [empty(shape, dtype) for dtype in program.out_dtypes] if out is None else [out]
    work = _execute.take(function.name, program)
    try:
        try:
            work.aim(size, *results, None, *inputs)
        except OverflowError:  # an integer that its company's type cannot hold
            return None
        if automatic and engine == "cuda":
            work.run_or_take_over(reason)
        else:
            work.run_plainly(engine, reason, (0,) if engine == "cuda" else ())
        work.report_exceptions()
    finally:
        _execute.give_back(work)
    if out is None and not shape:
        results = [result[()] for result in results]
    return results[0] if function.outputs == 1 else tuple(results)
