"""Encoding of a run request as the tables of the C entry `pk_run_kernels`."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit._interop.device_view import DeviceView
from pycudakit._native import abi
from pycudakit._native.dtypes import Array
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.native_call import NativeCall
from pycudakit.kernels.compiling.source import Binary
from pycudakit.kernels.running.run_request import Buffer, Kernel, Launch, Place, Repeat, RunRequest

_MAX_TEXT_BYTES = 1 << 20  # capacity for the text that a run's kernels print
_BUFFER = struct.Struct("=QQqii")  # address, stream, bytes, flags and item of a pk_buffer
_STEP = struct.Struct("=12q")  # a pk_step
_BUFFER_BYTES = abi.BUFFER.itemsize


def print_text(text: str) -> None:
    """Write the kernels' output to Python's stdout."""
    if text and sys.stdout is not None:
        sys.stdout.write(text)


class EncodedRequest(NativeCall):
    """A reusable encoded request: buffers, shapes and values may be changed between calls.

    Parameters
    ----------
    request
        The request. The caller keeps its arrays alive.
    engine
        The engine of its binaries.
    """

    entry = "pk_run_kernels"
    falls_back = False  # kernels that ran may already have written
    max_devices = 1

    def __init__(self, request: RunRequest, engine: str) -> None:
        super().__init__()
        self._stream = self.options["stream"]
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
        """Return the entry, bound to its arguments."""
        return abi.bound(
            *(library, self.entry, self._run_table),
            *(self._printed, ctypes.c_int64(_MAX_TEXT_BYTES), ctypes.byref(self._length)),
            *(self.options, self.report),
        )

    # ---- Changes between calls ---------------------------------------------------------------------

    def set_buffer(self, index: int, address: int, stream: int, size: int, flags: int, item: int) -> None:
        """Set a buffer's address, stream, size, flags and element size."""
        if flags & abi.ON_DEVICE:  # a run is asynchronous only if its arrays are of one stream
            self._stream[0] = stream
        _BUFFER.pack_into(self._buffer_bytes, index * _BUFFER_BYTES, address, stream, size, flags, item)

    def set_blocking(self, waits: bool) -> None:
        """Set whether a run on device arrays is synchronous."""
        self.options["asynchronous"] = not waits

    def shape(self, elements: int, shared: int, grid: Sequence[int], block: Sequence[int]) -> None:
        """Set the shape of the only launch."""
        count = len(self._arguments)
        _STEP.pack_into(self._step_bytes, 0, 0, elements, 0, 0, count, shared, *grid, *block)

    def set_values(self, values: bytes) -> None:
        """Set the values of the only launch, concatenated."""
        self._value_bytes[:] = values

    # ---- Encoding ----------------------------------------------------------------------------------

    def _add(self, steps: Sequence[Launch | Repeat]) -> None:
        for step in steps:
            if isinstance(step, Repeat):
                index = len(self._steps)
                self._steps.append(())
                self._add(step.steps)
                length = len(self._steps) - index - 1
                self._steps[index] = (abi.STEP_REPEAT, step.count, length, 0, 0, 0, (0, 0, 0), (0, 0, 0))
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
        """The duration of the steps in the last run."""
        return float(self._seconds.item())

    def run_and_print(self, choice: EngineChoice) -> str:
        """Run, and print the kernels' output, also if they fail; return the output."""
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
    """Return the arguments of `EncodedRequest.set_buffer` for a buffer, but for its index."""
    flags = (
        abi.BUFFER_UPLOAD * buffer.up
        | abi.BUFFER_DOWNLOAD * buffer.down
        | abi.BUFFER_POISON * buffer.poison
        | abi.BUFFER_CONSTANT * buffer.constant
    )
    if isinstance(buffer.array, DeviceView):
        there = buffer.array
        return there.address, there.stream, buffer.bytes, flags | abi.ON_DEVICE, buffer.item
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
    """Encode a text, truncated to `size` bytes with a terminating zero."""
    return text.encode()[: size - 1].decode("utf-8", "ignore").encode()
