"""What a process and its helper share: requests as messages, and memory."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import tempfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from pycudakit import errors
from pycudakit._families.elementwise.fast_path import call
from pycudakit._families.elementwise.manipulation import copy_function
from pycudakit._native import engine_status
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, native_call
from pycudakit.kernels.compiling.source import Binary
from pycudakit.kernels.running.run_request import Buffer

_MAX_KEPT_BYTES = 128 << 20  # bytes that are shared between runs
_ALIGNMENT = 256
_THREADED_COPY_BYTES = 1 << 20  # bytes that are worth threads
_COPY = copy_function("copyto", np.copyto)


def copy(target: Array, source: Array) -> None:
    """Copy one dense array to another of as many bytes; a large one on the CPU engine's threads."""
    into, what = _bytes_of(target), _bytes_of(source)
    if what.nbytes < _THREADED_COPY_BYTES or not engine_status.status("cpu"):
        into[:] = what
        return
    # Nobody asked for this call.
    with native_call.collect_calls(), context.override(engine="cpu", progress=None, profiles=()):
        call(_COPY, (what,), into, numpy_call=lambda values: np.copyto(into, values))


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1, order="A").view(np.uint8)


class Packer(pickle.Pickler):
    """Pickles a request, and leaves out what the other side has: binaries, and the arrays of buffers."""

    def __init__(self, file: IO[bytes], known: dict[bytes, Binary]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._known = known
        self.new: dict[bytes, Binary] = {}

    def persistent_id(self, value: Any) -> Any:
        """Return a binary's key."""
        if not isinstance(value, Binary):
            return None
        key = value.engine.encode() + value.key
        if key not in self._known:
            self.new[key] = value
        return key


class Unpacker(pickle.Unpickler):
    """Unpickles what `Packer` pickled."""

    def __init__(self, file: IO[bytes], known: dict[bytes, Binary]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, key: Any) -> Binary:
        """Return the binary of a key."""
        return self._known[key]


def places(buffers: Sequence[Buffer]) -> tuple[list[int], int]:
    """Return where in the shared memory each buffer's array lies, and how many bytes all take."""
    offsets, end = [], 0
    for buffer in buffers:
        offsets.append(end)
        if buffer.up or buffer.down:
            end += -(-buffer.bytes // _ALIGNMENT) * _ALIGNMENT
    return offsets, end


class Shared:
    """Memory that two processes share: a file that has no name."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._map: mmap.mmap | None = None
        self._mapped = 0

    def grow(self, size: int) -> None:
        """Have at least so many bytes."""
        size = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            if os.fstat(self._file).st_size < size:
                os.ftruncate(self._file, size)
            if self._mapped < size:
                self._map = mmap.mmap(self._file, size)  # the old one goes with the last array in it
                self._mapped = size
        except (OSError, ValueError, OverflowError) as error:
            raise errors.OutOfMemory(f"isolate=True: {size:,} bytes to share: {error}") from None

    def shrink(self) -> None:
        """Give back what is more than is kept."""
        if self._mapped > _MAX_KEPT_BYTES:
            self._map, self._mapped = None, 0
            os.ftruncate(self._file, 0)

    def forget(self, size: int) -> None:
        """Unmap what the other side may have given back."""
        if size > _MAX_KEPT_BYTES:
            self._map, self._mapped = None, 0

    def array(self, offset: int, size: int) -> Array:
        """Return bytes of it."""
        assert self._map is not None  # noqa: S101  (grow was called)
        return np.frombuffer(self._map, np.uint8, size, offset)


def memory_file() -> int:
    """Open a file in memory."""
    with contextlib.suppress(OSError, AttributeError):  # where there is none, or it is forbidden
        return os.memfd_create("pycudakit", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
