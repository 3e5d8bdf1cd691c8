"""Run a program on an engine's library, and report what it met as NumPy would."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit import _abi, _call, _engine, _loader, _watch, errors
from pycudakit._program import Program
from pycudakit._progress import Report
from pycudakit._values import Array

SPANS = 1 << 16  # that are kept of a call, in a profile


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


class Work:
    """A program and the arrays that it reads and writes: what `pk_evaluate` takes, of either library.

    Parameters
    ----------
    function
        What is computed, for those who ask.
    program
        How it is computed.
    inputs, outs, mask
        The arguments, broadcast to `shape`, and where the results go.
    """

    def __init__(
        self,
        function: str,
        program: Program,
        *,
        inputs: Sequence[Any],
        outs: Sequence[Array],
        shape: tuple[int, ...],
        mask: Array | None = None,
    ) -> None:
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

        self.size = outs[0].size
        self.progress: Report | None = None
        self._function, self._program = function, program
        self._arrays, self._table = arrays, table  # the table alone would not keep the arrays
        self._shape = np.array((self.size,) if dense else shape, np.int64)
        self._met: Array = np.empty(len(program.instructions), np.uint8)
        self._met_any = 0

    def run(self, engine: str, reason: str, rest: Array | None = None) -> None:
        """Run on ``"cpu"`` or ``"cuda"``, and record the call.

        If the CUDA engine fails, `rest` tells what it leaves; given to the CPU engine, that is what it does.
        """
        asked = _engine.asked.get()
        devices = _engine.devices_asked() if engine == "cuda" else ()
        spans = np.empty(SPANS, _abi.SPAN) if asked.profiles else None
        indices = np.array(devices, np.int64) if devices not in ((), (0,)) else None  # (0,) is the usual
        watcher = _watch.take()
        watcher.progress = self.progress
        options = watcher.options
        if not (spans is None and indices is None and rest is None):
            options = _options(watcher.address, indices, rest, spans)
        report = np.empty(1, _abi.REPORT)
        began = time.perf_counter()
        try:
            _loader.library(engine).pk_evaluate(
                *(self._program.instructions_argument, len(self._program.instructions)),
                *(self._table, len(self._table)),
                *(self._shape, len(self._shape)),
                *(options, self._met, report),
            )
        except errors.Interrupted:
            if not watcher.stopped:
                raise
        except (errors.DeviceError, errors.NoDevice):
            _engine.status.cache_clear()  # the device may be lost for good
            raise
        watcher.raise_error()
        _watch.give_back(watcher)
        _call.record(self._function, engine, reason, devices, report, began, spans)
        self._met_any |= int(report["exceptions"][0])

    def take_over(self, rest: Array) -> None:
        """Do on the CPU engine what the CUDA engine, which failed, left."""
        ranges = rest["ranges"][0, : rest["count"][0]]
        left = int(ranges["count"].sum())
        delivered = self._met.copy() if left else np.zeros_like(self._met)
        what = f", with {left:,} of {self.size:,} elements left" if left else ""
        self.run("cpu", f"auto: the CUDA engine failed{what}", rest)
        self._met |= delivered
        self._met_any |= int(delivered.max())

    def report_exceptions(self) -> None:
        """Raise or warn as NumPy would for what the calls met."""
        if self._met_any:
            _report_exceptions(self._program, self._met)


def _options(watch: int, devices: Array | None, rest: Array | None, spans: Array | None) -> Array:
    """Return a call's options; the arrays must live as long as the call."""

    def at(array: Array | None) -> int:
        return 0 if array is None else array.ctypes.data

    options = np.zeros(1, _abi.OPTIONS)
    counts = (0 if devices is None else len(devices), 0 if spans is None else len(spans))
    options[0] = (watch, at(devices), counts[0], at(rest), at(spans), counts[1])
    return options


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


def _report_exceptions(program: Program, met: Array) -> None:
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
