"""Communication with a helper process: pickled requests, and arrays in shared memory."""

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

_MAX_KEPT_BYTES = 128 << 20  # shared memory that is kept between runs
_ALIGNMENT = 256
_THREADED_COPY_BYTES = 1 << 20  # smaller copies run on the calling thread
_COPY = copy_function("copyto", np.copyto)


def copy(target: Array, source: Array) -> None:
    """Copy one contiguous array to another of the same size; a large one on the CPU engine's threads."""
    into, data = _bytes_of(target), _bytes_of(source)
    if data.nbytes < _THREADED_COPY_BYTES or not engine_status.status("cpu"):
        into[:] = data
        return
    # The user did not make this call, so it is not logged.
    with context.override(engine="cpu", progress=None, profiles=()):
        native_call.collect_calls(
            lambda: call(_COPY, (data,), into, numpy_call=lambda values: np.copyto(into, values))
        )


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1, order="A").view(np.uint8)


class Packer(pickle.Pickler):
    """Pickles a request without known binaries, which are replaced by keys, and without arrays."""

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
    """Unpickles a request of `Packer`."""

    def __init__(self, file: IO[bytes], known: dict[bytes, Binary]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, key: Any) -> Binary:
        """Return the binary of a key."""
        return self._known[key]


def buffer_offsets(buffers: Sequence[Buffer]) -> tuple[list[int], int]:
    """Return the offset of each buffer's array in the shared memory, and the total size."""
    offsets, end = [], 0
    for buffer in buffers:
        offsets.append(end)
        if buffer.up or buffer.down:
            end += -(-buffer.bytes // _ALIGNMENT) * _ALIGNMENT
    return offsets, end


class Shared:
    """A shared memory mapping of an anonymous file."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._map: mmap.mmap | None = None
        self._mapped = 0

    def grow(self, size: int) -> None:
        """Grow the mapping to at least `size` bytes."""
        size = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            if os.fstat(self._file).st_size < size:
                os.ftruncate(self._file, size)
            if self._mapped < size:
                self._map = mmap.mmap(self._file, size)  # the old mapping lives as long as arrays in it
                self._mapped = size
        except (OSError, ValueError, OverflowError) as error:
            raise errors.OutOfMemory(f"isolate=True: {size:,} bytes to share: {error}") from None

    def shrink(self) -> None:
        """Free the memory if it exceeds the amount that is kept."""
        if self._mapped > _MAX_KEPT_BYTES:
            self._map, self._mapped = None, 0
            os.ftruncate(self._file, 0)

    def forget(self, size: int) -> None:
        """Unmap memory that the other process may have freed by `shrink`."""
        if size > _MAX_KEPT_BYTES:
            self._map, self._mapped = None, 0

    def array(self, offset: int, size: int) -> Array:
        """Return a part of the memory as an array of bytes."""
        assert self._map is not None  # noqa: S101  (grow was called)
        return np.frombuffer(self._map, np.uint8, size, offset)


def memory_file() -> int:
    """Open an anonymous file: in memory, or else a temporary file."""
    with contextlib.suppress(OSError, AttributeError):  # not supported or not permitted
        return os.memfd_create("pycudakit", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
