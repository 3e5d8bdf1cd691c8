"""Have a library run a request."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit import _abi, _call, _engine, _execute, _loader, _watch, errors
from pycudakit._family import Plan
from pycudakit._kernels.request import Buffer, Image, Kernel, Launch, Outcome, Place, Repeat, Request
from pycudakit._progress import CallProgress
from pycudakit._values import Array

_TEXT = 1 << 20  # bytes of what a run's kernels print
_BUFFER = struct.Struct("=Qqii")  # address, bytes, flags and item of a pk_buffer
_STEP = struct.Struct("=12q")  # a pk_step
_BUFFER_BYTES = _abi.BUFFER.itemsize
_BLOCK_LIMIT = 10.0  # seconds that a block of a checked kernel may take on the CPU

Say = Callable[[str], object]


def choose(function: str, why_not_cuda: Callable[[], str | None]) -> Plan:
    """Return where kernels run, or raise why they cannot.

    Parameters
    ----------
    function
        What `last_call` names.
    why_not_cuda
        Returns what there is beside a GPU that is missing.
    """
    engine = _engine.checked_current()
    if engine == "numpy":
        raise errors.Unsupported(
            f"{function}: the engine 'numpy' runs no kernels; use the engine 'auto', 'cuda' or 'cpu'"
        )
    if engine != "auto":
        _loader.library(engine)  # or NoDevice
        return Plan(function, engine, _engine.ASKED_FOR)
    status = _engine.status("cuda")
    missing = why_not_cuda() if status else status.reason
    if missing is None:
        return Plan(function, "cuda", "auto: kernels run on a GPU where there is one", automatic=True)
    _loader.library("cpu")
    return Plan(function, "cpu", f"auto: no kernels on a GPU: {missing}")


def taken_over(error: errors.Error, plan: Plan, has_inouts: bool) -> Plan:
    """Return where kernels run that the CUDA engine could not, with a warning, or raise why it could not."""
    # Memory may run out on the way home, when what goes both ways is not what it was.
    is_intact = isinstance(error, errors.NoDevice) or not has_inouts
    if not (plan.automatic and is_intact):
        raise error
    _execute.warn_of_takeover(error)
    return Plan(plan.function, "cpu", "auto: the CUDA engine failed")


def block_limit() -> int:
    """Return the milliseconds that a block may take where kernels are checked."""
    given = os.environ.get("PYCUDAKIT_BLOCK_LIMIT")
    try:
        seconds = _BLOCK_LIMIT if given is None else float(given)
        return round(seconds * 1000)
    except (ValueError, OverflowError):
        raise errors.InvalidArgument(
            f"PYCUDAKIT_BLOCK_LIMIT is {given!r}; give seconds, such as 10, or 0 for no limit"
        ) from None


def isolates(isolate: bool | None, timeout: float | None) -> bool:
    """Tell whether a run is to be in a helper process: what is asked for, or else PYCUDAKIT_ISOLATE."""
    if timeout is not None:
        if not isinstance(timeout, (int, float, np.number)):
            raise TypeError(f"timeout is {timeout!r}; give seconds, or None")
        if not timeout > 0:
            raise errors.InvalidArgument(f"timeout is {timeout!r}; give seconds, more than 0")
        if isolate is False:
            raise errors.InvalidArgument(
                "timeout is given with isolate=False: what runs in this process cannot be stopped"
            )
        return True
    if isolate is None:
        return os.environ.get("PYCUDAKIT_ISOLATE", "0") not in ("", "0")
    return bool(isolate)


def run(
    request: Request, plan: Plan, *, isolate: bool | None = False, timeout: float | None = None
) -> Outcome:
    """Run, record the call, and print what kernels print.

    Parameters
    ----------
    isolate
        Whether to run in a helper process; None: as PYCUDAKIT_ISOLATE says.
    timeout
        Seconds, after which a helper process is stopped.
    """
    if isolates(isolate, timeout):
        from pycudakit._kernels import isolation  # noqa: PLC0415  (few need it)

        outcome = isolation.run(request, plan, timeout)
        say(outcome.text)
        return outcome
    tables = Tables(request, plan.engine)
    text = tables.run(plan)
    return Outcome(tables.seconds, text)


def say(text: str) -> None:
    """Write what kernels print where Python prints."""
    if text and sys.stdout is not None:
        sys.stdout.write(text)


class Tables:
    """A request as a library takes it, for calls one by one: between them, what is in it may change.

    Parameters
    ----------
    request
        Its arrays are kept by whoever calls.
    engine
        The one that its images are for.
    """

    def __init__(self, request: Request, engine: str) -> None:
        self._launches = _launches(request.steps)
        self._kept: list[Array] = []
        self._images: dict[bytes, tuple[int, Image]] = {}
        self._kernels: dict[tuple[bytes, str], tuple[int, Kernel]] = {}
        self._steps: list[tuple[Any, ...]] = []
        self._arguments: list[tuple[int, int, int]] = []
        self._values: list[bytes] = []
        self._add(request.steps)
        symbols = [
            (self._image(image), *self._text(name.encode()), *self._data(value))
            for image, values in request.symbols.items()
            for name, value in values.items()
        ]
        buffers = np.zeros(len(request.buffers), _abi.BUFFER)
        self._buffer_bytes = _bytes_of(buffers)
        for index, buffer in enumerate(request.buffers):
            buffers[index]["label"] = _cut(buffer.label, 64)
            self.aim(index, *memory(buffer))
        steps = _table(_abi.STEP, self._steps)
        self._step_bytes = _bytes_of(steps)
        values = np.frombuffer(bytearray(b"".join(self._values)), np.uint8)
        self._value_bytes = _bytes_of(values)
        images = [
            (*self._text(image.data), np.frombuffer(image.key, np.uint64))
            for _, image in self._images.values()
        ]
        kernels = [
            (
                self._image(kernel.image),
                *self._text(kernel.symbol.encode()),
                _cut(kernel.label, _abi.NAME_SIZE),
            )
            for _, kernel in self._kernels.values()
        ]
        tables = (
            _table(_abi.IMAGE, images),
            _table(_abi.USER_KERNEL, kernels),
            buffers,
            _table(_abi.SYMBOL, symbols),
            steps,
            _table(_abi.ARGUMENT, self._arguments),
            values,
        )
        self._kept += tables
        whole: list[int] = []
        for table in tables:
            whole += [table.ctypes.data if len(table) else 0, len(table)]
        self._run = _table(_abi.RUN, [(*whole, request.block_limit)])
        self._said: Array = np.empty(_TEXT, np.uint8)
        self._length = ctypes.c_int64()
        self._options = np.zeros(1, _abi.OPTIONS)
        self._watch = self._options["watch"]
        self._is_usual = True
        self._report = np.zeros(1, _abi.REPORT)
        stages = self._report["stage_seconds"][0]
        at = _abi.KERNEL if engine == "cuda" else _abi.COMPUTE
        self._seconds = stages[at : at + 1]
        self._entry = _abi.bound(
            *(_loader.library(engine), "pk_run_kernels", self._run),
            *(self._said, ctypes.c_int64(_TEXT), ctypes.byref(self._length)),
            *(self._options, self._report),
        )

    # ---- What may change ---------------------------------------------------------------------------

    def aim(self, index: int, address: int, size: int, flags: int, item: int) -> None:
        """Say where a buffer's array lies, how it begins and ends, and how large an element is."""
        _BUFFER.pack_into(self._buffer_bytes, index * _BUFFER_BYTES, address, size, flags, item)

    def shape(self, elements: int, shared: int, grid: Sequence[int], block: Sequence[int]) -> None:
        """Give the only launch its shape."""
        count = len(self._arguments)
        _STEP.pack_into(self._step_bytes, 0, 0, elements, 0, 0, count, shared, *grid, *block)

    def set_values(self, values: bytes) -> None:
        """Give the only launch its values, one after the other."""
        self._value_bytes[:] = values

    # ---- How it is made ----------------------------------------------------------------------------

    def _add(self, steps: Sequence[Launch | Repeat]) -> None:
        for step in steps:
            if isinstance(step, Repeat):
                place = len(self._steps)
                self._steps.append(())
                self._add(step.steps)
                length = len(self._steps) - place - 1
                self._steps[place] = (_abi.REPEAT, step.count, length, 0, 0, 0, (0, 0, 0), (0, 0, 0))
                continue
            first = len(self._arguments)
            for argument in step.arguments:
                if isinstance(argument, Place):
                    self._arguments.append((argument.buffer, argument.offset, 8))
                elif argument is None:
                    self._arguments.append((_abi.NULL_ARGUMENT, 0, 8))
                else:
                    self._arguments.append((_abi.VALUE_ARGUMENT, 0, len(argument)))
                    self._values.append(argument)
            count = len(self._arguments) - first
            kernel = self._kernel(step.kernel)
            self._steps.append((kernel, step.elements, 0, first, count, step.shared, step.grid, step.block))

    def _image(self, image: Image) -> int:
        return self._images.setdefault(image.key, (len(self._images), image))[0]

    def _kernel(self, kernel: Kernel) -> int:
        self._image(kernel.image)
        key = kernel.image.key, kernel.symbol
        return self._kernels.setdefault(key, (len(self._kernels), kernel))[0]

    def _text(self, text: bytes) -> tuple[int, int]:
        return self._data(np.frombuffer(text, np.uint8))

    def _data(self, array: Any) -> tuple[int, int]:
        self._kept.append(array)
        return array.ctypes.data, array.nbytes

    # ---- Running -----------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """The time of the steps of the last run."""
        return float(self._seconds.item())

    def run(self, plan: Plan) -> str:
        """Run, record the call, and print what kernels print, if they fail, too; return that."""
        asked = _engine.asked.get()
        watcher = _watch.take()
        self._length.value = 0
        try:
            if asked.progress is None:
                self._run_watched(plan, asked, watcher)
            else:
                with CallProgress(asked.progress, plan.function, self._launches) as watcher.progress:
                    self._run_watched(plan, asked, watcher)
        finally:
            text = self._text_said() if self._length.value else ""
            say(text)
        return text

    def _run_watched(self, plan: Plan, asked: _engine.Asked, watcher: _watch.Watcher) -> None:
        # The first alone is used.
        devices = _engine.devices_asked()[:1] if plan.engine == "cuda" else ()
        spans = np.empty(_execute.SPANS, _abi.SPAN) if asked.profiles else None
        indices = np.array(devices, np.int64) if devices not in ((), (0,)) else None
        is_usual = spans is None and indices is None
        if not (is_usual and self._is_usual):
            for name, array in (("devices", indices), ("spans", spans)):
                self._options[name] = 0 if array is None else array.ctypes.data
            self._options["device_count"] = len(devices) if indices is not None else 0
            self._options["span_capacity"] = 0 if spans is None else len(spans)
            self._is_usual = is_usual
        self._watch[0] = watcher.address
        began = time.perf_counter()
        _execute.call_watched(self._entry, watcher)
        told = plan.function, plan.engine, plan.reason, devices, self._report.tobytes()
        _call.local.call = told
        if spans is not None:
            _call.collect(told, began, spans)

    def _text_said(self) -> str:
        length = self._length.value
        text = self._said[: min(length, _TEXT)].tobytes().decode("utf-8", "replace")
        if length > _TEXT:
            text += f"\n[{length - _TEXT:,} more bytes were printed]\n"
        return text


def memory(buffer: Buffer) -> tuple[int, int, int, int]:
    """Return what `Tables.aim` takes of a buffer."""
    flags = (
        _abi.BUFFER_UP * buffer.up
        | _abi.BUFFER_DOWN * buffer.down
        | _abi.BUFFER_POISON * buffer.poison
        | _abi.BUFFER_CONSTANT * buffer.constant
    )
    moves = buffer.array is not None and (buffer.up or buffer.down)
    address = _abi.address_of(buffer.array) if moves else 0  # type: ignore[arg-type]
    return address, buffer.bytes, flags, buffer.item


def _launches(steps: Sequence[Launch | Repeat]) -> int:
    return sum(step.count * _launches(step.steps) if isinstance(step, Repeat) else 1 for step in steps)


def _bytes_of(table: Any) -> memoryview:
    return memoryview(table.view(np.uint8))


def _table(dtype: np.dtype[Any], rows: Sequence[tuple[Any, ...]]) -> Array:
    table = np.zeros(len(rows), dtype)
    for index, row in enumerate(rows):
        table[index] = row
    return table


def _cut(text: str, size: int) -> bytes:
    """Return a text as so many bytes hold it, with a zero at the end."""
    return text.encode()[: size - 1].decode("utf-8", "ignore").encode()
