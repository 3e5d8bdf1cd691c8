"""Run a program on an engine's library, and report what it met as NumPy would."""

from __future__ import annotations

import ctypes
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit import _abi, _call, _engine, _loader, _results, _watch, errors
from pycudakit._abi import address_of
from pycudakit._program import Program
from pycudakit._progress import Report
from pycudakit._values import Array

SPANS = 1 << 16  # that are kept of a call, in a profile


def allocate(dtype: np.dtype[Any], shape: tuple[int, ...], arrays: Sequence[Array]) -> Array:
    """Return a new array laid out as NumPy lays out a ufunc's output for these inputs."""
    if all(a.flags.c_contiguous for a in arrays):
        return _results.empty(shape, dtype)
    nditer: Any = np.nditer
    layout = _results.made(
        math.prod(shape) * dtype.itemsize,
        lambda: nditer(
            [*arrays, None],
            flags=["zerosize_ok", "multi_index"],
            op_flags=[["readonly"]] * len(arrays) + [["writeonly", "allocate"]],
            op_dtypes=[None] * len(arrays) + [dtype],
            order="K",
            itershape=shape,
        ),
    )
    out: Array = layout.operands[-1]
    return out


def strides_of(array: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the array's strides when broadcast to a shape."""
    missing = len(shape) - array.ndim
    own = (0 if size == 1 else stride for size, stride in zip(array.shape, array.strides, strict=True))
    return (0,) * missing + tuple(own)


def call_watched(entry: Callable[[], Any], watcher: _watch.Watcher) -> None:
    """Call a library; raise what stopped it, or, if nothing did, keep the watcher for the next call."""
    try:
        entry()
    except errors.Interrupted:
        if not watcher.stopped:
            raise
    except (errors.DeviceError, errors.NoDevice):
        _engine.status.cache_clear()  # the device may be lost for good
        raise
    watcher.raise_error()
    _watch.give_back(watcher)


def warn_of_takeover(error: errors.Error) -> None:
    """Warn that the CPU engine does what the CUDA engine could not."""
    warnings.warn(
        f"the CUDA engine failed, and the CPU engine took over: {error}",
        RuntimeWarning,
        stacklevel=level_of_caller(),
    )


class Work:
    """A program, with what `pk_evaluate` takes for it, of either library: prepared once for calls one by one.

    Parameters
    ----------
    function
        What is computed, for those who ask.
    program
        How it is computed.
    """

    def __init__(self, function: str, program: Program) -> None:
        self.program = program
        self.size = 0
        self.progress: Report | None = None
        self.is_altered = False
        self._function = function
        self._table = program.table.copy()
        self._addresses = self._table["address"]
        self._strides = self._table["strides"]
        self._flags = self._table["flags"]
        self._arrays = program.arrays
        self._numbers: list[tuple[Array, int]] = []
        for index, position, dtype in program.numbers:
            number = np.empty((), dtype)
            self._addresses[index] = address_of(number)
            self._numbers.append((number, position))
        self._shape = np.empty(_abi.MAX_DIMS, np.int64)
        self._dimensions = ctypes.c_int64(1)
        self._options = np.zeros(1, _abi.OPTIONS)
        self._watch = self._options["watch"]
        self._met: Array = np.empty(len(program.instructions), np.uint8)
        self._met_any = 0
        self._report = np.empty(1, _abi.REPORT)
        self._exceptions = self._report["exceptions"]
        self._entries: dict[Any, Callable[[], int]] = {}

    def aim(self, size: int, *values: Any) -> None:
        """Say what a call reads and writes: its outputs, its mask and its inputs, which must live as long."""
        for number, position in self._numbers:
            number[()] = values[position]
        for index, position in self._arrays:
            self._addresses[index] = address_of(values[position])
        self._shape[0] = self.size = size

    def spread(self, shape: tuple[int, ...], *values: Any) -> None:
        """Let them be of any layout, broadcast to a shape; else they are dense, and all of one shape."""
        arrays = [(index, values[position]) for index, position in self._arrays]
        if all(a.shape == shape and a.flags.c_contiguous and a.dtype.isnative for _, a in arrays):
            return
        self.is_altered = True
        self._shape[: len(shape)] = shape
        self._dimensions.value = len(shape)
        for index, array in arrays:
            self._strides[index, : len(shape)] = strides_of(array, shape)
            if not array.dtype.isnative:
                self._flags[index] = _abi.BYTE_SWAPPED

    def restore(self) -> None:
        """Make it what it was before a call that was not dense, or had options."""
        self._dimensions.value = 1
        self._strides[...] = self.program.table["strides"]
        self._flags[...] = 0
        self._options[...] = 0
        self.is_altered = False

    def run(self, engine: str, reason: str, rest: Array | None = None) -> None:
        """Run on ``"cpu"`` or ``"cuda"``, and record the call.

        If the CUDA engine fails, `rest` tells what it leaves; given to the CPU engine, that is what it does.
        """
        devices = _engine.devices_asked() if engine == "cuda" else ()
        spans = np.empty(SPANS, _abi.SPAN) if _engine.asked.get().profiles else None
        indices = np.array(devices, np.int64) if devices not in ((), (0,)) else None  # (0,) is the usual
        if spans is None and indices is None and rest is None:
            self.run_plainly(engine, reason, devices)
            return
        self.is_altered = True
        for name, array in (("devices", indices), ("rest", rest), ("spans", spans)):
            self._options[name] = 0 if array is None else address_of(array)
        self._options["device_count"] = 0 if indices is None else len(indices)
        self._options["span_capacity"] = 0 if spans is None else len(spans)
        began = time.perf_counter()
        told = self.run_plainly(engine, reason, devices)
        if spans is not None:
            _call.collect(told, began, spans)

    def run_plainly(self, engine: str, reason: str, devices: tuple[int, ...]) -> _call.Told:
        """Run, and record the call, without any options but to be stopped."""
        watcher = _watch.take()
        watcher.progress = self.progress
        self._watch[0] = watcher.address
        call_watched(self._entry(engine), watcher)
        self._met_any = self._exceptions.item()
        told = self._function, engine, reason, devices, self._report.tobytes()
        _call.local.call = told
        return told

    def _entry(self, engine: str) -> Callable[[], int]:
        library = _loader.library(engine)
        entry = self._entries.get(library)
        if entry is None:
            instructions = self.program.instructions
            entry = self._entries[library] = _abi.bound(
                *(library, "pk_evaluate"),
                *(instructions, ctypes.c_int64(len(instructions))),
                *(self._table, ctypes.c_int64(len(self._table))),
                *(self._shape, self._dimensions),
                *(self._options, self._met, self._report),
            )
        return entry

    def run_or_take_over(self, reason: str) -> None:
        """Run on the CUDA engine; if it fails, do on the CPU engine what it has left, with a warning."""
        rest = np.zeros(1, _abi.REST)
        try:
            self.run("cuda", reason, rest)
        except (errors.NoDevice, errors.OutOfMemory, errors.DeviceError) as error:
            warn_of_takeover(error)
            self._take_over(rest)

    def _take_over(self, rest: Array) -> None:
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
            report_exceptions(self.program, self._met)


def take(function: str, program: Program) -> Work:
    """Return work for a call; `give_back` takes it, when the call has ended well or not."""
    try:
        return program.idle.pop()
    except IndexError:
        return Work(function, program)


def give_back(work: Work) -> None:
    """Keep work for the program's next call."""
    work.progress = None
    if work.is_altered:
        work.restore()
    work.program.idle.append(work)


# ---- Floating-point exceptions, as np.errstate asks for them ---------------------------------------

_KINDS = (
    (_abi.DIVIDE, "divide", "divide by zero", 1),
    (_abi.OVERFLOW, "over", "overflow", 2),
    (_abi.INVALID, "invalid", "invalid value", 8),
)
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def level_of_caller() -> int:
    """Return the stack level, as `warnings.warn` counts it here, of the first frame outside the package."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def report_exceptions(program: Program, met: Array) -> None:
    """Raise, warn, print or stay silent for what each instruction met, function by function."""
    by_function: dict[str, int] = {}
    for name, flags in zip(program.names, met.tolist(), strict=True):
        by_function[name] = by_function.get(name, 0) | flags
    if any(flags & _abi.NEGATIVE_POWER for flags in by_function.values()):
        raise ValueError("Integers to negative integer powers are not allowed.")
    report_met(by_function)


def report_met(by_function: dict[str, int]) -> None:
    """Raise, warn, print or stay silent for what functions, by their names in NumPy's words, met."""
    for name, flags in by_function.items():
        for flag, kind, _, _ in _KINDS:
            if flags & flag:
                report(kind, name)


def report(kind: str, name: str) -> None:
    """Raise, warn, print or stay silent, as `np.errstate` asks, for what a function met."""
    mode = np.geterr()[kind]  # type: ignore[literal-required]
    if mode == "ignore":
        return
    text, numpy_flag = next((text, flag) for _, known, text, flag in _KINDS if known == kind)
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
            raise NameError(f"python callback specified for {text} (in {name}) but no function found.")
        handler(text, numpy_flag)
    else:
        log: Any = np.geterrcall()
        if log is None:
            raise NameError(f"log specified for {text} (in {name}) but no object with write method found.")
        log.write(f"Warning: {message}\n")
