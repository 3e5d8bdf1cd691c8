"""What a fused function keeps on the device between its passes: the C library's, and for its time alone."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, loader
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime import context
from pycudakit._runtime.call_log import call_from_report
from pycudakit._runtime.native_call import log_call
from pycudakit.fusing.memory.background_jit import compile_requested

INPUT, TEMPORARY, RESULT = range(3)
TO_THE_HOST = "to the host"  # what records call it
MIN_RESIDENT_BYTES = 64 << 10  # bytes that are worth keeping, where the rest goes over the link
_MIN_ASYNC_INPUT_BYTES = 16  # bytes of two of them
MAX_INLINE_UPLOAD_BYTES = 64 << 10  # bytes that go up to what is queued, and nobody waits
_KERNELS_BETWEEN_COMPILES = 32  # passes


class CaptureListener(Protocol):
    """Who hears of what is kept while a function runs."""

    def mark_not_replayable(self) -> None:
        """Hear that the host looked at what is kept, or wrote to it."""

    def keep_alive(self, owner: Array) -> None:
        """Hear whose memory has a home."""

    def on_resident(self, address: int, size: int, intent: int) -> None:
        """Hear of memory that is kept."""

    def on_imported(self, address: int, size: int, device_address: int, valid: int) -> None:
        """Hear of memory that stands for the caller's own."""

    def on_dropped(self, address: int) -> None:
        """Hear of memory that is kept no longer."""

    def on_allocated(self, new: Any, address: int, shape: tuple[int, ...], dtype: DType) -> None:
        """Hear of a new array beside the caller's."""


class _Local(threading.local):
    listener: CaptureListener | None = None


_local = _Local()


@contextlib.contextmanager
def listened_to_by(listener: CaptureListener) -> Iterator[None]:
    """Tell somebody of what functions keep that the thread runs in a block."""
    outer, _local.listener = _local.listener, listener
    try:
        yield
    finally:
        _local.listener = outer


def has_listener() -> bool:
    """Tell whether somebody hears of what the thread's functions keep."""
    return _local.listener is not None


class ResidencyScope:
    """What is kept, while a function runs; on the CPU engine, nothing needs to be."""

    def __init__(self) -> None:
        self.listener = _local.listener
        self._library: ctypes.CDLL | None = None
        self.device = 0  # that keeps
        self.has_imports = False  # memory for arrays that lie there: then nothing need go over the link
        self.is_async = (
            False  # in their stream, what lies there: nobody waits for that, nor is told what it meets
        )
        self.peak_resident_bytes = 0  # at most, at once
        self._resident_sizes: dict[int, int] = {}
        self._kernel_count = 0

    @property
    def is_open(self) -> bool:
        """Whether anything can be kept."""
        return self._library is not None

    def run(self, engine: str, body: Callable[[], Any], devices: tuple[int, ...] = (0,)) -> Any:
        """Run a body, on its engine, with a device that keeps things for it.

        None of several does: a call that they share goes over the host's memory.
        """
        if engine != "cuda" or len(devices) > 1:
            return body()
        self._library, self.device = loader.library("cuda"), 0
        try:
            return run_in_residency_scope(self._library, functools.partial(self._run_on, devices[0], body))
        finally:
            if self._kernel_count:
                compile_requested(self._library)
            self._library, self.is_async = None, False

    def _run_on(self, device: int, body: Callable[[], Any]) -> Any:
        self.set_device(device)
        return body()

    def set_device(self, device: int) -> None:
        """Have another device keep what is kept from now on."""
        if self._library is not None and device != self.device:
            self._library.pk_plan_set_device(device)
            self.device = device

    def enqueue_on(self, stream: int) -> None:
        """Have calls queued in a stream from now on; 0: have what was queued done, and no more be."""
        if self._library is not None and (stream or self.is_async):
            self._library.pk_plan_set_stream(stream)
            self.is_async = bool(stream)

    def count_kernel(self) -> None:
        """Have passes compiled that are worth it, now and then in a long function."""
        self._kernel_count += 1
        if self._library is not None and self._kernel_count % _KERNELS_BETWEEN_COMPILES == 0:
            compile_requested(self._library)

    def make_resident(self, address: int, size: int, intent: int) -> bool:
        """Have the device keep memory, if it has room."""
        if self._library is None or size < self._min_bytes(intent):
            return False
        is_resident = ctypes.c_int32()
        self._library.pk_plan_make_resident(address, size, intent, ctypes.byref(is_resident))
        if is_resident.value:
            self._resident_sizes[address] = size
            self.peak_resident_bytes = max(self.peak_resident_bytes, sum(self._resident_sizes.values()))
            if self.listener is not None:
                self.listener.on_resident(address, size, intent)
        return bool(is_resident.value)

    def _min_bytes(self, intent: int) -> int:
        """Return from how many bytes on memory is kept; an input of what is queued is more than a number."""
        if self.has_imports and intent == TEMPORARY:
            return 1
        return _MIN_ASYNC_INPUT_BYTES if self.is_async and intent == INPUT else MIN_RESIDENT_BYTES

    def import_buffer(self, address: int, size: int, device_address: int, stream: int, valid: int) -> int:
        """Have memory stand for the caller's own on a device, and return which device that is."""
        if self._library is None:
            raise errors.Unsupported("arrays on a GPU are for the engine 'cuda'")
        device = ctypes.c_int32()
        self._library.pk_plan_import(address, size, device_address, stream, valid, ctypes.byref(device))
        if self.listener is not None:
            self.listener.on_imported(address, size, device_address, valid)
        return device.value

    def sync_to_device(self, address: int) -> None:
        """Bring what the host alone has to the device."""
        self._move("pk_plan_upload", address, "to the device", "bytes_up")

    def sync_to_host(self, address: int) -> None:
        """Bring what the device alone has to the host."""
        self._move("pk_plan_download", address, TO_THE_HOST, "bytes_down")

    def _move(self, entry: str, address: int, function: str, bytes_moved: str) -> None:
        if self._library is None:
            return
        options, report = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)
        began = time.perf_counter()
        getattr(self._library, entry)(address, options, report)
        if report[bytes_moved][0]:
            if self.listener is not None:
                self.listener.mark_not_replayable()
            log_call(
                call_from_report(
                    function, "cuda", context.REASON_ENGINE_REQUESTED, (self.device,), report.tobytes(), began
                )
            )

    def mark_host_dirty(self, address: int) -> None:
        """Say that the host's memory is newer."""
        if self._library is not None:
            self._library.pk_plan_invalidate(address)
            if self.listener is not None:
                self.listener.mark_not_replayable()

    def drop(self, address: int) -> None:
        """Keep memory no longer."""
        self._resident_sizes.pop(address, None)
        if self._library is not None:
            self._library.pk_plan_drop(address)
            if self.listener is not None:
                self.listener.on_dropped(address)


def budget() -> int:
    """Return how many bytes a device may keep: outside of a plan, 0 where that is not known yet."""
    row = np.zeros(1, abi.MEMORY)
    loader.library("cuda").pk_memory_info(row)
    return int(row["plan_budget"][0])


def run_in_residency_scope(library: ctypes.CDLL, body: Callable[[], Any]) -> Any:
    """Call pk_run_plan, and return or raise what the body does."""
    result: Any = None
    error: BaseException | None = None

    def run() -> Generator[int, Any, None]:
        # A signal's handler runs, and raises, where Python code is entered: in a generator that is inside the
        # `try`, in a function before it, and ctypes would drop the exception.
        nonlocal result, error
        try:
            yield 0
            result = body()
        except BaseException as raised:  # noqa: BLE001
            error = raised
        yield 0 if error is None else 1

    steps = run()
    next(steps)
    entry = abi.PLAN_BODY(steps.send)
    with contextlib.suppress(errors.Interrupted):  # which says that the body raised
        library.pk_run_plan(entry, None)
    if error is not None:
        try:
            raise error
        finally:
            del error
    return result
