"""The engine of the process, which is chosen at first use, and the C entries of its library."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, abi_objects, loader
from pycudakit._runtime import context
from pycudakit.kernels.compiling import cache
from pycudakit.kernels.running import execute
from pycudakit.pycuda._errors import LogicError, raise_error, translated

_MAX_TEXT_BYTES = 1 << 20


class Engine:
    """The library of an engine: each of its entries for memory, streams, events and modules is a method.

    A method returns nothing, and raises PyCUDA's exception if the entry fails.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_cpu = name == "cpu"
        self.is_forked = False  # whether this process was forked from the one that uses the device
        self.library = loader.library(name)
        # These entries are called often, so that the callers check their status.
        self.copy = self.entry("pk_device_memory_copy")
        self._allocate, self._free = map(self.entry, ("pk_device_memory_allocate", "pk_device_memory_free"))
        self.has_text = False  # whether kernels may have printed
        self._printing = weakref.WeakSet[Any]()  # their modules

    def entry(self, name: str) -> Any:
        """Return a C entry whose status the caller must check; it takes tables as addresses or bytes."""
        function = self.library[name]  # not the attribute, which others use
        kinds = abi.SIGNATURES[name]
        function.argtypes = [ctypes.c_void_p if hasattr(kind, "_dtype_") else kind for kind in kinds]
        function.restype = ctypes.c_int32
        return function

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return the method of an entry: `device_memory_free` for `pk_device_memory_free`."""
        if f"pk_{name}" not in abi.SIGNATURES:
            raise AttributeError(name)
        function, library = self.entry(f"pk_{name}"), self.library

        def method(*arguments: Any) -> None:
            status = function(*arguments)
            if status:
                raise_error(library, status)

        setattr(self, name, method)
        return method

    def allocate(self, device: int, size: int, flags: int = abi_objects.MEMORY_ZEROS) -> int:
        """Allocate memory of a device; return its address."""
        address = ctypes.c_uint64()
        status = self._allocate(device, size, flags, ctypes.byref(address))
        if status:
            raise_error(self.library, status)
        return address.value

    def give_back_memory(self, address: int) -> None:
        """Free memory, for finalizers: see `give_back`."""
        if not self.is_forked:
            self._free(address)

    def synchronize(self, device: int) -> None:
        """Wait for all work of a device, and print the output of kernels."""
        self.device_synchronize(device)
        if self.has_text:
            self.print_texts()

    def give_back(self, entry: str, handle: int) -> None:
        """Give an object back, for finalizers: not in a forked child, and after a fault all calls fail."""
        if not self.is_forked:
            try:  # noqa: SIM105  (globals may be gone at the end of the process)
                getattr(self, entry)(handle)
            except Exception:  # noqa: BLE001, S110
                pass

    # ---- printf ------------------------------------------------------------------------------------

    def note_print(self, module: Any) -> None:
        """Note that kernels of a module may have printed."""
        self._printing.add(module)
        self.has_text = True

    def print_texts(self) -> None:
        """Write the output of kernels to `sys.stdout`."""
        self.has_text = False
        while self._printing:
            try:
                module = self._printing.pop()
            except KeyError:
                return
            text = np.empty(_MAX_TEXT_BYTES, np.uint8)
            length = ctypes.c_int64()
            self.module_printed(module.handle, text.ctypes.data, len(text), ctypes.byref(length))
            if length.value and sys.stdout is not None:
                sys.stdout.write(_text(text, length.value))


def _text(written: Any, length: int) -> str:
    text: str = written[: min(length, _MAX_TEXT_BYTES)].tobytes().decode("utf-8", "replace")
    if length > _MAX_TEXT_BYTES:
        text += f"\n[{length - _MAX_TEXT_BYTES:,} more bytes were printed]\n"
    return text


_engine: Engine | None = None
_lock = threading.Lock()
_on_fork: weakref.WeakSet[Any] = weakref.WeakSet()  # objects whose `forget` is called in a forked child


def current() -> Engine:
    """Return the engine of the process; the first call chooses it.

    Raises
    ------
    LogicError
        Another engine was chosen since then, or this process was forked from one that used the device.
    """
    engine = _engine
    if engine is None:
        return _choose()
    if engine.is_forked:
        raise LogicError(
            "this process was forked from one that used the device: start processes with the 'spawn' "
            "method, or use the device in the child alone"
        )
    wanted = context.current_engine()
    if wanted not in ("auto", engine.name):
        raise LogicError(
            f"the engine is {wanted!r} now, and the device has been used on {engine.name!r}: a process "
            "uses one engine by PyCUDA's names"
        )
    return engine


def active() -> Engine:
    """Return the engine as `current` does, without a look at the one that is in force now."""
    engine = _engine
    return current() if engine is None or engine.is_forked else engine


def _choose() -> Engine:
    global _engine  # noqa: PLW0603
    if os.environ.get("PYCUDAKIT_ISOLATE", "0") not in ("", "0"):
        raise LogicError(
            "PYCUDAKIT_ISOLATE is set, and memory that outlives a call is in this process: unset it"
        )
    with _lock:
        if _engine is None:
            try:
                choice = execute.choose("pycuda", cache.why_not_cuda)
                _engine = Engine(choice.engine)
            except errors.Error as error:
                raise translated(error) from None
    return current()


def forget_on_fork(owner: Any) -> None:
    """Have `owner.forget()` called in a forked child, where its cached objects must not be used."""
    _on_fork.add(owner)


def _after_fork() -> None:
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    if _engine is None:
        return
    _engine.is_forked = True
    for owner in list(_on_fork):
        owner.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
