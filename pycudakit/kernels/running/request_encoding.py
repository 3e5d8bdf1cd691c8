"""A run of kernels as a library takes it."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit._native import abi
from pycudakit._native.dtypes import Array
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.native_call import NativeCall
from pycudakit.kernels.compiling.source import Binary
from pycudakit.kernels.running.device_arguments import DeviceArgument
from pycudakit.kernels.running.run_request import Buffer, Kernel, Launch, Place, Repeat, RunRequest

_MAX_TEXT_BYTES = 1 << 20  # bytes of what a run's kernels print
_BUFFER = struct.Struct("=QQqii")  # address, stream, bytes, flags and item of a pk_buffer
_STEP = struct.Struct("=12q")  # a pk_step
_BUFFER_BYTES = abi.BUFFER.itemsize


def print_text(text: str) -> None:
    """Write what kernels print where Python prints."""
    if text and sys.stdout is not None:
        sys.stdout.write(text)


class EncodedRequest(NativeCall):
    """A request as a library takes it, for calls one by one: between them, what is in it may change.

    Parameters
    ----------
    request
        Its arrays are kept by whoever calls.
    engine
        The one that its binaries are for.
    """

    entry = "pk_run_kernels"
    falls_back = False  # what has run may have written already
    max_devices = 1

    def __init__(self, request: RunRequest, engine: str) -> None:
        super().__init__()
        self._launches = _launches(request.steps)
        self._keep_alive: list[Array] = []
        self._binaries: dict[bytes, tuple[int, Binary]] = {}
        self._kernels: dict[tuple[bytes, str], tuple[int, Kernel]] = {}
        self._steps: list[tuple[Any, ...]] = []
        self._arguments: list[tuple[int, int, int]] = []
        self._values: list[bytes] = []
        self._add(request.steps)
        symbols = [
            (self._binary(binary), *self._text(name.encode()), *self._data(value))
            for binary, values in request.symbols.items()
            for name, value in values.items()
        ]
        buffers = np.zeros(len(request.buffers), abi.BUFFER)
        self._buffer_bytes = _bytes_of(buffers)
        for index, buffer in enumerate(request.buffers):
            buffers[index]["label"] = _cut(buffer.label, 64)
            self.set_buffer(index, *buffer_fields(buffer))
        steps = _table(abi.STEP, self._steps)
        self._step_bytes = _bytes_of(steps)
        values = np.frombuffer(bytearray(b"".join(self._values)), np.uint8)
        self._value_bytes = _bytes_of(values)
        binaries = [
            (*self._text(binary.data), np.frombuffer(binary.key, np.uint64))
            for _, binary in self._binaries.values()
        ]
        kernels = [
            (
                self._binary(kernel.binary),
                *self._text(kernel.symbol.encode()),
                _cut(kernel.label, abi.NAME_SIZE),
            )
            for _, kernel in self._kernels.values()
        ]
        tables = (
            _table(abi.IMAGE, binaries),
            _table(abi.USER_KERNEL, kernels),
            buffers,
            _table(abi.SYMBOL, symbols),
            steps,
            _table(abi.ARGUMENT, self._arguments),
            values,
        )
        self._keep_alive += tables
        whole: list[int] = []
        for table in tables:
            whole += [table.ctypes.data if len(table) else 0, len(table)]
        self._run_table = _table(abi.RUN, [(*whole, request.block_limit)])
        self._printed: Array = np.empty(_MAX_TEXT_BYTES, np.uint8)
        self._length = ctypes.c_int64()
        self.set_blocking(request.waits)
        stages = self.report["stage_seconds"][0]
        at = abi.STAGE_KERNEL if engine == "cuda" else abi.STAGE_COMPUTE
        self._seconds = stages[at : at + 1]

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry with its arguments."""
        return abi.bound(
            *(library, self.entry, self._run_table),
            *(self._printed, ctypes.c_int64(_MAX_TEXT_BYTES), ctypes.byref(self._length)),
            *(self.options, self.report),
        )

    # ---- What may change ---------------------------------------------------------------------------

    def set_buffer(self, index: int, address: int, stream: int, size: int, flags: int, item: int) -> None:
        """Say where a buffer's array lies, how it begins and ends, and how large an element is."""
        _BUFFER.pack_into(self._buffer_bytes, index * _BUFFER_BYTES, address, stream, size, flags, item)

    def set_blocking(self, waits: bool) -> None:
        """Say whether a run of arrays on a GPU has ended when the call returns."""
        self.options["synchronous"] = waits

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
                self._steps[place] = (abi.STEP_REPEAT, step.count, length, 0, 0, 0, (0, 0, 0), (0, 0, 0))
                continue
            first = len(self._arguments)
            for argument in step.arguments:
                if isinstance(argument, Place):
                    self._arguments.append((argument.buffer, argument.offset, 8))
                elif argument is None:
                    self._arguments.append((abi.ARGUMENT_NULL, 0, 8))
                else:
                    self._arguments.append((abi.ARGUMENT_VALUE, 0, len(argument)))
                    self._values.append(argument)
            count = len(self._arguments) - first
            kernel = self._kernel(step.kernel)
            self._steps.append((kernel, step.elements, 0, first, count, step.shared, step.grid, step.block))

    def _binary(self, binary: Binary) -> int:
        return self._binaries.setdefault(binary.key, (len(self._binaries), binary))[0]

    def _kernel(self, kernel: Kernel) -> int:
        self._binary(kernel.binary)
        key = kernel.binary.key, kernel.symbol
        return self._kernels.setdefault(key, (len(self._kernels), kernel))[0]

    def _text(self, text: bytes) -> tuple[int, int]:
        return self._data(np.frombuffer(text, np.uint8))

    def _data(self, array: Any) -> tuple[int, int]:
        self._keep_alive.append(array)
        return array.ctypes.data, array.nbytes

    # ---- Running -----------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """The time of the steps of the last run."""
        return float(self._seconds.item())

    def run_and_print(self, choice: EngineChoice) -> str:
        """Run, and print what kernels print, if they fail, too; return that."""
        self._length.value = 0
        try:
            self.run(choice, self._launches)
        finally:
            text = self._printed_text() if self._length.value else ""
            print_text(text)
        return text

    def _printed_text(self) -> str:
        length = self._length.value
        text = self._printed[: min(length, _MAX_TEXT_BYTES)].tobytes().decode("utf-8", "replace")
        if length > _MAX_TEXT_BYTES:
            text += f"\n[{length - _MAX_TEXT_BYTES:,} more bytes were printed]\n"
        return text


def buffer_fields(buffer: Buffer) -> tuple[int, int, int, int, int]:
    """Return what `EncodedRequest.aim` takes of a buffer."""
    flags = (
        abi.BUFFER_UPLOAD * buffer.up
        | abi.BUFFER_DOWNLOAD * buffer.down
        | abi.BUFFER_POISON * buffer.poison
        | abi.BUFFER_CONSTANT * buffer.constant
    )
    if isinstance(buffer.array, DeviceArgument):
        there = buffer.array
        return there.address, there.stream, buffer.bytes, flags | abi.BUFFER_ON_DEVICE, buffer.item
    moves = buffer.array is not None and (buffer.up or buffer.down)
    address = abi.address_of(buffer.array) if moves else 0  # type: ignore[arg-type]
    return address, 0, buffer.bytes, flags, buffer.item


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
