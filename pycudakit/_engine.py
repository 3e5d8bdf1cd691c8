"""Which engine runs a call."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pycudakit import _abi, _loader, errors

NAMES = ("auto", "cuda", "cpu", "numpy")


def _checked(name: str, setting: str) -> str:
    if name not in NAMES:
        known = ", ".join(repr(known) for known in NAMES)
        raise errors.InvalidArgument(f"{setting} is {name!r}; choose one of {known}")
    return name


# From weak to strong: the environment's, the process's, the context's.
process: str = os.environ.get("PYCUDAKIT_ENGINE") or "auto"
context: ContextVar[str | None] = ContextVar("pycudakit_engine", default=None)


def current() -> str:
    """Return the engine that is asked for here."""
    return context.get() or process


def checked_current() -> str:
    """Return the engine that is asked for here, refusing a misspelt PYCUDAKIT_ENGINE."""
    return _checked(current(), "PYCUDAKIT_ENGINE")


def set_engine(name: str) -> None:
    """Choose the engine for the whole process, every thread of it.

    Parameters
    ----------
    name : {"auto", "cuda", "cpu", "numpy"}
        ``"auto"`` takes for each call the engine that will answer first. The others are strict: a call
        runs there or raises.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.set_engine("cpu")
    >>> pk.add([1, 2], [3, 4])
    array([4, 6])
    >>> pk.set_engine("auto")
    """
    global process  # noqa: PLW0603
    process = _checked(name, "name")


def engine(name: str) -> Any:
    """Choose the engine for the calls inside a ``with`` block, in this thread or task alone.

    Parameters
    ----------
    name : {"auto", "cuda", "cpu", "numpy"}
        As for `set_engine`, which it overrides. Threads started inside the block don't inherit it.

    Examples
    --------
    >>> import pycudakit as pk
    >>> with pk.engine("cpu"):
    ...     total = pk.add([1.0, 2.0], 0.5)
    >>> total, pk.last_call().engine
    (array([1.5, 2.5]), 'cpu')
    """
    return _in_context(_checked(name, "name"))


@contextmanager
def _in_context(name: str) -> Iterator[None]:
    token = context.set(name)
    try:
        yield
    finally:
        context.reset(token)


# ---- What there is ---------------------------------------------------------------------------------


class EngineStatus(NamedTuple):
    """Whether an engine can run calls here, and if not, the reason."""

    available: bool
    reason: str

    def __bool__(self) -> bool:
        """Tell whether the engine is available."""
        return self.available


@dataclass(frozen=True)
class Device:
    """A GPU, as plain data."""

    index: int
    name: str
    compute_capability: tuple[int, int]
    memory: int
    multiprocessors: int
    pcie_generation: int | None
    pcie_width: int | None


@functools.cache
def status(name: str) -> EngineStatus:
    """Return whether one engine is available; the answer is found once."""
    if name in ("numpy", "auto"):
        return EngineStatus(True, f"NumPy {np.__version__}" if name == "numpy" else "always")
    try:
        library = _loader.library(name)
        count = ctypes.c_int64()
        library.pk_device_count(ctypes.byref(count))
        if name == "cuda":
            return EngineStatus(True, f"{count.value} device" + "s" * (count.value != 1))
        text = ctypes.c_char_p()
        library.pk_instruction_set(ctypes.byref(text))
        library.pk_thread_count(ctypes.byref(count))
    except errors.Error as error:
        return EngineStatus(False, str(error))
    threads = f"{count.value} thread" + "s" * (count.value != 1)
    return EngineStatus(True, f"{threads}, {(text.value or b'').decode()}")


def engines() -> dict[str, EngineStatus]:
    """Return each engine with whether it can run calls here, or the one plain reason why not.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.engines()["numpy"].available
    True
    >>> sorted(pk.engines())
    ['cpu', 'cuda', 'numpy']
    """
    return {name: status(name) for name in ("cuda", "cpu", "numpy")}


def _pcie(bus: str, what: str) -> float | None:
    try:
        text = Path(f"/sys/bus/pci/devices/{bus.lower()}/max_link_{what}").read_text()
        return float(text.split()[0])
    except (OSError, ValueError, IndexError):
        return None


_GENERATION_OF_SPEED = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def devices() -> list[Device]:
    """Return the GPUs that the CUDA engine can use, as plain data; an empty list where it can use none.

    Examples
    --------
    >>> import pycudakit as pk
    >>> all(device.memory > 0 for device in pk.devices())
    True
    """
    if not status("cuda"):
        return []
    library = _loader.library("cuda")
    count = ctypes.c_int64()
    library.pk_device_count(ctypes.byref(count))
    found = []
    for index in range(count.value):
        info = np.zeros(1, _abi.DEVICE)
        library.pk_device_info(index, info)
        row = info[0]
        bus = row["pci_bus_id"].decode()
        width = _pcie(bus, "width")
        found.append(
            Device(
                index=index,
                name=row["name"].decode("utf-8", "replace"),
                compute_capability=(int(row["compute_major"]), int(row["compute_minor"])),
                memory=int(row["memory"]),
                multiprocessors=int(row["multiprocessors"]),
                pcie_generation=_GENERATION_OF_SPEED.get(_pcie(bus, "speed") or 0.0),
                pcie_width=int(width) if width else None,
            )
        )
    return found


@dataclass(frozen=True)
class Memory:
    """The bytes that the CUDA library keeps from call to call, and may keep."""

    device_bytes: int
    device_budget: int
    pinned_bytes: int
    pinned_budget: int


def memory_info() -> Memory:
    """Return what the CUDA library keeps to stream arrays through the GPU; all zero where there is none.

    The budgets are set by ``PYCUDAKIT_DEVICE_MEMORY`` and ``PYCUDAKIT_PINNED_MEMORY``, as ``"512M"``.

    Examples
    --------
    >>> import pycudakit as pk
    >>> info = pk.memory_info()
    >>> info.device_bytes <= info.device_budget, info.pinned_bytes <= info.pinned_budget
    (True, True)
    """
    row = np.zeros(1, _abi.MEMORY)
    if status("cuda"):
        _loader.library("cuda").pk_memory_info(row)
    return Memory(*row[0].item())


def release() -> None:
    """Give back the device and pinned memory that the CUDA library keeps, but for calls under way.

    Later calls take it again, which costs the first of them some milliseconds.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.release()
    >>> pk.memory_info().device_bytes
    0
    """
    if status("cuda"):
        _loader.library("cuda").pk_release()


def build_info() -> dict[str, dict[str, str]]:
    """Return how each library that is present was built, as plain text.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.build_info()["cpu"]["version"] == pk.__version__
    True
    """
    built = {}
    for name in ("cpu", "cuda"):
        try:
            library = _loader.library(name)
        except errors.NoDevice:
            continue
        text = ctypes.c_char_p()
        library.pk_build_info(ctypes.byref(text))
        lines = (text.value or b"").decode().splitlines()
        facts = (line.partition(":") for line in lines)
        built[name] = {key: value.strip() for key, _, value in facts}
        built[name]["path"] = str(_loader.find(name))
    return built


# ---- What ran --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """What a call did."""

    function: str
    engine: str
    reason: str
    seconds: float | None = None
    bytes_up: int = 0
    bytes_down: int = 0
    chunks: int = 0
    threads: int = 1
    stages: dict[str, float] = field(default_factory=dict)


class _Local(threading.local):
    call: Call | None = None


local = _Local()


def last_call() -> Call | None:
    """Return what the calling thread's last call did: its engine, why, bytes moved, and time by stage.

    Examples
    --------
    >>> import pycudakit as pk
    >>> with pk.engine("cpu"):
    ...     _ = pk.sqrt([1.0, 4.0])
    >>> pk.last_call().function, pk.last_call().engine
    ('sqrt', 'cpu')
    """
    return local.call


def record(function: str, engine: str, reason: str, report: np.ndarray[Any, Any]) -> int:
    """Remember a call that a library ran, for `last_call`, and return what it met."""
    up, down, chunks, threads, met, seconds, stage, upload, kernel, download, unstage = report.item()
    stages = {"compute": seconds}
    if engine == "cuda":
        stages = {
            "stage": stage,
            "upload": upload,
            "kernel": kernel,
            "download": download,
            "unstage": unstage,
        }
    local.call = Call(function, engine, reason, seconds, up, down, chunks, threads, stages)
    return int(met)
