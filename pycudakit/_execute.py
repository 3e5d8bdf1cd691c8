"""Run a program on an engine's library, and report what it met as NumPy would."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit import _abi, _engine, _loader
from pycudakit._program import Program
from pycudakit._values import Array


def allocate(dtype: np.dtype[Any], shape: tuple[int, ...], arrays: Sequence[Array]) -> Array:
    """Return a new array laid out as NumPy lays out a ufunc's output for these inputs."""
    if all(a.flags.c_contiguous for a in arrays):
        return np.empty(shape, dtype)
    nditer: Any = np.nditer
    layout = nditer(
        [*arrays, None],
        flags=["zerosize_ok", "multi_index"],
        op_flags=[["readonly"]] * len(arrays) + [["writeonly", "allocate"]],
        op_dtypes=[None] * len(arrays) + [dtype],
        order="K",
        itershape=shape,
    )
    out: Array = layout.operands[-1]
    return out


def _strides(array: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the array's strides when broadcast to a shape."""
    missing = len(shape) - array.ndim
    own = (0 if size == 1 else stride for size, stride in zip(array.shape, array.strides, strict=True))
    return (0,) * missing + tuple(own)


def run(
    program: Program,
    engine: str,
    function: str,
    reason: str,
    *,
    inputs: Sequence[Any],
    outs: Sequence[Array],
    shape: tuple[int, ...],
    mask: Array | None = None,
) -> None:
    """Run a program on ``"cpu"`` or ``"cuda"`` into `outs`, record the call, and warn as NumPy would."""
    given = {"input": inputs, "out": outs, "mask": (mask,)}
    dense = True
    arrays: list[Array | None] = []
    for operand in program.operands:
        if operand.constant is not None:
            arrays.append(None)
        elif operand.source == "scalar":
            arrays.append(np.asarray(inputs[operand.position], dtype=operand.dtype))
        else:
            array = given[operand.source][operand.position]
            arrays.append(array)
            dense = dense and array.shape == shape and array.flags.c_contiguous and array.dtype.isnative

    table = (program.dense_table if dense else program.strided_table).copy()
    addresses = table["address"]
    for index, array in enumerate(arrays):
        if array is None:
            continue
        addresses[index] = array.ctypes.data
        if not dense:
            table["strides"][index, : len(shape)] = _strides(array, shape)
            if not array.dtype.isnative:
                table["flags"][index] = _abi.BYTE_SWAPPED

    walked = np.array((outs[0].size,) if dense else shape, np.int64)
    met = np.empty(len(program.instructions), np.uint8)
    report = np.empty(1, _abi.REPORT)
    _loader.library(engine).pk_evaluate(
        *(program.instructions, len(program.instructions)),
        *(table, len(table)),
        *(walked, len(walked)),
        *(met, report),
    )
    if _engine.record(function, engine, reason, report):
        report_exceptions(program, met)


# ---- Floating-point exceptions, as np.errstate asks for them ---------------------------------------

_KINDS = (
    (_abi.DIVIDE, "divide", "divide by zero", 1),
    (_abi.OVERFLOW, "over", "overflow", 2),
    (_abi.INVALID, "invalid", "invalid value", 8),
)
_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def level_of_caller() -> int:
    """Return the stack level, as `warnings.warn` counts it here, of the first frame outside the package."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == _PACKAGE:
        level, frame = level + 1, frame.f_back
    return level


def report_exceptions(program: Program, met: Array) -> None:
    """Raise, warn, print or stay silent for what each instruction met, function by function."""
    by_function: dict[str, int] = {}
    for name, flags in zip(program.names, met.tolist(), strict=True):
        by_function[name] = by_function.get(name, 0) | flags
    if any(flags & _abi.NEGATIVE_POWER for flags in by_function.values()):
        raise ValueError("Integers to negative integer powers are not allowed.")
    modes: Any = np.geterr()
    for name, flags in by_function.items():
        for flag, kind, text, numpy_flag in _KINDS:
            mode = modes[kind]
            if not flags & flag or mode == "ignore":
                continue
            message = f"{text} encountered in {name}"
            if mode == "warn":
                warnings.warn(message, RuntimeWarning, stacklevel=level_of_caller())
            elif mode == "raise":
                raise FloatingPointError(message)
            elif mode == "print":
                sys.stderr.write(f"Warning: {message}\n")
            elif mode == "call":
                handler: Any = np.geterrcall()
                if handler is None:
                    raise NameError(
                        f"python callback specified for {text} (in {name}) but no function found."
                    )
                handler(text, numpy_flag)
            else:
                log: Any = np.geterrcall()
                if log is None:
                    raise NameError(
                        f"log specified for {text} (in {name}) but no object with write method found."
                    )
                log.write(f"Warning: {message}\n")
