"""Devices, and contexts: tokens over one primary context a device, in a stack for each thread."""

from __future__ import annotations

import ctypes
import functools
import operator
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from pycudakit._native import abi, loader
from pycudakit._native.version import __version__
from pycudakit.pycuda import _engine
from pycudakit.pycuda._device_attributes import CPU_ATTRIBUTES, device_attribute
from pycudakit.pycuda._enums import compute_mode, func_cache, limit, shared_config
from pycudakit.pycuda._errors import LogicError

Result = TypeVar("Result")

_CPU_NAME = "pycudakit CPU engine"
_CPU_BUS_ID = "0000:00:00.0"
_CUDA_VERSION = (13, 0, 0)  # of the programming interface that is offered


def init(flags: int = 0) -> None:
    """Choose the engine; calling it is not necessary."""
    if flags:
        raise LogicError(f"init: flags are {flags}; 0 is the only value")
    _engine.current()


def get_version() -> tuple[int, int, int]:
    """Return the version of CUDA."""
    return _CUDA_VERSION


def get_driver_version() -> int:
    """Return the version of CUDA that the driver offers, as 13000."""
    major, minor, _ = _CUDA_VERSION
    return major * 1000 + minor * 10


# ---- Devices ---------------------------------------------------------------------------------------


@functools.cache
def _device_info(index: int) -> Any:
    info = np.zeros(1, abi.DEVICE)
    loader.library("cuda").pk_device_info(index, info)
    return info[0]


def _count() -> int:
    engine = _engine.current()
    if engine.is_cpu:
        return 1
    count = ctypes.c_int64()
    engine.device_count(ctypes.byref(count))
    return count.value


class Device:
    """A device: a GPU, or the CPU as the only one.

    Parameters
    ----------
    number
        Its index, or the bus id of a GPU: ``"0000:65:00.0"``.
    """

    def __init__(self, number: int | str) -> None:
        if isinstance(number, str):
            number = _index_of(number)
        self._index = operator.index(number)
        if not 0 <= self._index < _count():
            raise LogicError(f"there is no device {self._index}: the last one is {_count() - 1}")

    @staticmethod
    def count() -> int:
        """Return the number of devices."""
        return _count()

    def name(self) -> str:
        """Return the device's name."""
        if _engine.current().is_cpu:
            return _CPU_NAME
        name: bytes = _device_info(self._index)["name"]
        return name.decode()

    def pci_bus_id(self) -> str:
        """Return the device's address on the bus."""
        if _engine.current().is_cpu:
            return _CPU_BUS_ID
        bus_id: bytes = _device_info(self._index)["pci_bus_id"]
        return bus_id.decode()

    def compute_capability(self) -> tuple[int, int]:
        """Return the major and the minor number of the device's generation."""
        major = self.get_attribute(device_attribute.COMPUTE_CAPABILITY_MAJOR)
        return int(major), int(self.get_attribute(device_attribute.COMPUTE_CAPABILITY_MINOR))

    def total_memory(self) -> int:
        """Return the bytes of the device's memory."""
        if _engine.current().is_cpu:
            return memory_info(self._index)[1]
        return int(_device_info(self._index)["memory"])

    def get_attribute(self, attr: int) -> Any:
        """Return an attribute, a member of `device_attribute`."""
        number = operator.index(attr)
        engine = _engine.current()
        if engine.is_cpu:
            value = CPU_ATTRIBUTES.get(number, 0)
        else:
            read = ctypes.c_int64()
            engine.device_attribute(self._index, number, ctypes.byref(read))
            value = read.value
        return compute_mode(value) if number == device_attribute.COMPUTE_MODE else value

    def get_attributes(self) -> dict[device_attribute, Any]:
        """Return all attributes."""
        attributes = {}
        for attribute in device_attribute:
            try:
                attributes[attribute] = self.get_attribute(attribute)
            except LogicError as error:
                warnings.warn(f"{attribute} of {self!r}: {error}", stacklevel=2)
        return attributes

    def __getattr__(self, name: str) -> Any:
        """Return an attribute by its name in small letters: ``device.warp_size``."""
        attribute = device_attribute.__members__.get(name.upper())
        if attribute is None or name.startswith("_"):
            raise AttributeError(f"a device has no attribute {name!r}")
        return self.get_attribute(attribute)

    def make_context(self, flags: int = 0) -> Context:  # noqa: ARG002
        """Return a new context, which is current from here on."""
        context = _context_of(self._index)
        context.push()
        return context

    def retain_primary_context(self) -> Context:
        """Return the device's primary context; it is not pushed."""
        return _context_of(self._index)

    def can_access_peer(self, other: Device) -> bool:
        """Return whether the device can access the memory of another one directly: it need not."""
        if not isinstance(other, Device):
            raise TypeError(f"can_access_peer takes a Device, not a {type(other).__name__}")
        return False

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same device."""
        return isinstance(other, Device) and other._index == self._index

    def __hash__(self) -> int:
        """Return a hash of the index."""
        return hash(("Device", self._index))

    def __int__(self) -> int:
        """Return the index."""
        return self._index

    def __repr__(self) -> str:
        """Return the index and the name."""
        return f"<Device {self._index}: {self.name()}>"


def _index_of(bus_id: str) -> int:
    wanted = re.sub(r"^0+(?=\d{4}:)", "", bus_id.lower())
    for index in range(_count()):
        if Device(index).pci_bus_id().lower() == wanted:
            return index
    raise LogicError(f"there is no device at {bus_id!r}")


def memory_info(device: int) -> tuple[int, int]:
    """Return the free and the total bytes of a device's memory."""
    free, total = ctypes.c_int64(), ctypes.c_int64()
    _engine.current().device_memory_info(device, ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


# ---- Contexts --------------------------------------------------------------------------------------


class _Stack(threading.local):
    def __init__(self) -> None:
        self.contexts: list[Context] = []


_stack = _Stack()


def current_device() -> int:
    """Return the index of the current context's device; device 0 is current without a context."""
    contexts = _stack.contexts
    return contexts[-1]._index if contexts else 0  # noqa: SLF001


def cached_per_device(function: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate a function so that its results are cached, apart for each engine and current device.

    The arguments are hashable.
    """

    @functools.lru_cache(1024)
    def cached(_key: tuple[Any, int], *arguments: Any, **keywords: Any) -> Result:
        return function(*arguments, **keywords)

    @functools.wraps(function)
    def wrapper(*arguments: Any, **keywords: Any) -> Result:
        return cached((_engine.current(), current_device()), *arguments, **keywords)

    return wrapper


class Context:
    """A token for a device's primary context, which all contexts of the device share."""

    _index: int
    _is_detached: bool

    def __init__(self) -> None:
        raise LogicError("a context is made by Device(0).make_context()")

    def push(self) -> None:
        """Make it current, above the contexts of this thread."""
        if self._is_detached:
            raise LogicError("the context was detached, and cannot be pushed")
        _stack.contexts.append(self)

    @staticmethod
    def pop() -> None:
        """Make the context current that was so before the last push."""
        if not _stack.contexts:
            raise LogicError("cannot pop: the thread has no context")
        _stack.contexts.pop()

    def detach(self) -> None:
        """Give the context back; it leaves the stack if it is current."""
        if self._is_detached:
            raise LogicError("the context was detached already")
        self._is_detached = True
        _stack.contexts[:] = [context for context in _stack.contexts if context is not self]

    @staticmethod
    def attach(flags: int = 0) -> Context:  # noqa: ARG004
        """Return the current context."""
        context = Context.get_current()
        return _context_of(current_device()) if context is None else context

    @staticmethod
    def get_current() -> Context | None:
        """Return the current context, or None if there is none but the default one of device 0."""
        return _stack.contexts[-1] if _stack.contexts else None

    @staticmethod
    def get_device() -> Device:
        """Return the current context's device."""
        return Device(current_device())

    @staticmethod
    def synchronize() -> None:
        """Wait for all work of the current device."""
        _engine.active().synchronize(current_device())

    @staticmethod
    def get_limit(limit: int) -> int:
        """Return a limit that was set, else CUDA's default."""
        return _limits.get(int(limit), _DEFAULT_LIMITS.get(int(limit), 0))

    @staticmethod
    def set_limit(limit: int, value: int) -> None:
        """Set a limit; the engines need none, so that it only can be read again."""
        if int(limit) not in _DEFAULT_LIMITS:
            raise LogicError(f"there is no limit {limit!r}")
        _limits[int(limit)] = operator.index(value)

    @staticmethod
    def get_cache_config() -> func_cache:
        """Return the preference between cache and shared memory."""
        return _configuration.cache

    @staticmethod
    def set_cache_config(config: int) -> None:
        """Set the preference between cache and shared memory, which the device may ignore."""
        _configuration.cache = func_cache(config)

    @staticmethod
    def get_shared_config() -> shared_config:
        """Return the width of the banks of shared memory."""
        return _configuration.shared

    @staticmethod
    def set_shared_config(config: int) -> None:
        """Set the width of the banks of shared memory, which the device may ignore."""
        _configuration.shared = shared_config(config)

    def get_api_version(self) -> int:
        """Return the version of CUDA that the context was made for."""
        return get_driver_version()

    @staticmethod
    def enable_peer_access(peer: Context, flags: int = 0) -> None:
        """Do nothing: copies between devices need no permission."""

    @staticmethod
    def disable_peer_access(peer: Context) -> None:
        """Do nothing."""

    @property
    def handle(self) -> int:
        """The address of the device's primary context; on the engine `cpu`, a number for each device."""
        engine = _engine.active()
        if engine.is_cpu:
            return self._index + 1
        engine.synchronize(self._index)  # the library makes the context at the device's first use
        return _primary_context(self._index)

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same token."""
        return self is other

    def __hash__(self) -> int:
        """Return a hash of the token."""
        return id(self)

    def __repr__(self) -> str:
        """Return the device's index."""
        return f"<Context of device {self._index}, pycudakit {__version__}>"


def _primary_context(index: int) -> int:
    driver = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    status = (
        driver.cuDeviceGet(ctypes.byref(device), index)
        or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        or driver.cuDevicePrimaryCtxRelease_v2(device)  # the library keeps it
    )
    if status:
        raise LogicError(f"the context of device {index} has no handle: CUDA's driver reports error {status}")
    return context.value or 0


def _context_of(index: int) -> Context:
    context = object.__new__(Context)
    context._index, context._is_detached = index, False
    return context


class _Configuration:
    cache = func_cache.PREFER_NONE
    shared = shared_config.DEFAULT_BANK_SIZE


_configuration = _Configuration()
_limits: dict[int, int] = {}
_DEFAULT_LIMITS: dict[int, int] = {
    limit.STACK_SIZE: 1024,
    limit.PRINTF_FIFO_SIZE: 8 << 20,
    limit.MALLOC_HEAP_SIZE: 8 << 20,
    limit.DEV_RUNTIME_SYNC_DEPTH: 2,
    limit.DEV_RUNTIME_PENDING_LAUNCH_COUNT: 2048,
}
