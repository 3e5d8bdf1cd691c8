"""Residency scope: the buffers that the device keeps between the kernels of one fused call.

The C library owns the device memory (`pk_run_in_residency_scope` and the `pk_residency_*` entries); host
addresses are the keys.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, loader
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime import context
from pycudakit._runtime.call_log import call_from_report
from pycudakit._runtime.native_call import log_call, thread_log
from pycudakit.fusing.memory.background_jit import compile_requested

INPUT, TEMPORARY, RESULT = range(3)
TO_THE_HOST = "to the host"  # the function's name in the call log
MIN_RESIDENT_BYTES = 64 << 10  # smaller buffers are transferred with each call
_MIN_ASYNC_INPUT_BYTES = 16  # more than one number
MAX_INLINE_UPLOAD_BYTES = 64 << 10  # uploads that do not synchronize an asynchronous call
_KERNELS_BETWEEN_COMPILES = 32  # kernels


class CaptureListener(Protocol):
    """Callbacks for the buffer operations of a call that is being captured for replay."""

    def mark_not_replayable(self) -> None:
        """Note that the host read or wrote a resident buffer."""

    def keep_alive(self, owner: Array) -> None:
        """Keep a host copy, or the owner of a resident buffer, alive."""

    def on_resident(self, address: int, size: int, intent: int) -> None:
        """Note that a buffer was made resident."""

    def on_imported(self, address: int, size: int, device_address: int, valid: int) -> None:
        """Note that a device buffer of the caller was imported."""

    def on_dropped(self, address: int) -> None:
        """Note that a buffer was dropped."""

    def on_allocated(self, new: Any, address: int, shape: tuple[int, ...], dtype: DType) -> None:
        """Note that a new array was allocated on the device of the caller's arrays."""


@contextlib.contextmanager
def listened_to_by(listener: CaptureListener) -> Iterator[None]:
    """Install a listener for the calls that this thread makes within a block."""
    outer, thread_log.capture_listener = thread_log.capture_listener, listener
    try:
        yield
    finally:
        thread_log.capture_listener = outer


def has_listener() -> bool:
    """Return True if this thread has a listener."""
    return thread_log.capture_listener is not None


class ResidencyScope:
    """The resident buffers of one call. On the CPU engine the scope stays closed and does nothing."""

    def __init__(self) -> None:
        self.listener = thread_log.capture_listener
        self._library: ctypes.CDLL | None = None
        self.device = 0  # that holds the buffers
        self.has_imports = False  # device arrays are among the arguments: all temporaries stay on the device
        self.is_async = False  # calls are enqueued without waiting, and without a check of FP flags
        self.peak_resident_bytes = 0  # the maximum over the call
        self._resident_sizes: dict[int, int] = {}
        self._kernel_count = 0

    @property
    def is_open(self) -> bool:
        """Whether buffers can be resident."""
        return self._library is not None

    def run(self, engine: str, body: Callable[[], Any], devices: tuple[int, ...] = (0,)) -> Any:
        """Run a body within the scope, open if the engine is `cuda` with one device.

        With several devices the scope stays closed: their shards exchange data through host memory.
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
        """Select the device for buffers that are made resident from now on."""
        if self._library is not None and device != self.device:
            self._library.pk_residency_set_device(device)
            self.device = device

    def enqueue_on(self, stream: int) -> None:
        """Enqueue calls in a stream from now on. 0 synchronizes, and makes calls synchronous again."""
        if self._library is not None and (stream or self.is_async):
            self._library.pk_residency_set_stream(stream)
            self.is_async = bool(stream)

    def count_kernel(self) -> None:
        """Count a kernel; from time to time, start the compilation of frequent kernels."""
        self._kernel_count += 1
        if self._library is not None and self._kernel_count % _KERNELS_BETWEEN_COMPILES == 0:
            compile_requested(self._library)

    def make_resident(self, address: int, size: int, intent: int) -> bool:
        """Make a host range resident; return False if it is too small or the device has no room."""
        if self._library is None or size < self._min_bytes(intent):
            return False
        is_resident = ctypes.c_int32()
        self._library.pk_residency_add(address, size, intent, ctypes.byref(is_resident))
        if is_resident.value:
            self._resident_sizes[address] = size
            self.peak_resident_bytes = max(self.peak_resident_bytes, sum(self._resident_sizes.values()))
            if self.listener is not None:
                self.listener.on_resident(address, size, intent)
        return bool(is_resident.value)

    def _min_bytes(self, intent: int) -> int:
        """Return the size from which buffers of an intent are made resident."""
        if self.has_imports and intent == TEMPORARY:
            return 1
        return _MIN_ASYNC_INPUT_BYTES if self.is_async and intent == INPUT else MIN_RESIDENT_BYTES

    def import_buffer(self, address: int, size: int, device_address: int, stream: int, valid: int) -> int:
        """Register a device buffer of the caller under a host address; return the index of its device."""
        if self._library is None:
            raise errors.Unsupported("arrays on a GPU need the engine 'cuda'")
        device = ctypes.c_int32()
        self._library.pk_residency_import(address, size, device_address, stream, valid, ctypes.byref(device))
        if self.listener is not None:
            self.listener.on_imported(address, size, device_address, valid)
        return device.value

    def sync_to_device(self, address: int) -> None:
        """Upload values that only the host has."""
        self._move("pk_residency_upload", address, "to the device", "bytes_up")

    def sync_to_host(self, address: int) -> None:
        """Download values that only the device has."""
        self._move("pk_residency_download", address, TO_THE_HOST, "bytes_down")

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
        """Mark the host's values as newer than the device's."""
        if self._library is not None:
            self._library.pk_residency_invalidate(address)
            if self.listener is not None:
                self.listener.mark_not_replayable()

    def drop(self, address: int) -> None:
        """Drop a buffer from the residency table."""
        self._resident_sizes.pop(address, None)
        if self._library is not None:
            self._library.pk_residency_drop(address)
            if self.listener is not None:
                self.listener.on_dropped(address)


def budget() -> int:
    """Return how many bytes may be resident on a device; 0 outside of a scope if that is not yet known."""
    row = np.zeros(1, abi.MEMORY)
    loader.library("cuda").pk_memory_info(row)
    return int(row["plan_budget"][0])


def run_in_residency_scope(library: ctypes.CDLL, body: Callable[[], Any]) -> Any:
    """Run a body inside `pk_run_in_residency_scope`; return its result or raise its exception."""
    result: Any = None
    error: BaseException | None = None
    is_running = False

    def run() -> Generator[int, Any, None]:
        # A signal handler runs, and may raise, where Python code is entered. In a generator that is already
        # inside the `try`; in a function it would be before the `try`, and ctypes would drop the exception.
        nonlocal result, error, is_running
        try:
            try:
                yield 0
                is_running = True
                result = body()
                is_running = False
                yield 0
            except BaseException as raised:  # noqa: BLE001
                if type(raised) is GeneratorExit and not is_running:
                    return  # the generator is dropped
                error = raised
                yield 1
        except BaseException as raised:  # noqa: BLE001  (an interrupt in the handler of another exception)
            if type(raised) is not GeneratorExit:
                error = raised
                yield 1

    steps = run()
    next(steps)
    if error is None:  # no interrupt has ended the generator's wait
        entry = abi.RESIDENCY_BODY(steps.send)
        with contextlib.suppress(errors.Interrupted):  # it only says that the body raised
            library.pk_run_in_residency_scope(entry, None)
    for _ in steps:  # it ends here: an exception in a finalizer would be lost
        pass
    if error is not None:
        try:
            raise error
        finally:
            del error
    return result
