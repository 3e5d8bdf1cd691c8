"""The machine and the libraries as plain data: GPUs, their links and memory, how libraries were built."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, allocator, engine_status, loader


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
    if not engine_status.status("cuda"):
        return []
    library = loader.library("cuda")
    gpus = []
    for index in range(engine_status.device_count()):
        info = np.zeros(1, abi.DEVICE)
        library.pk_device_info(index, info)
        row = info[0]
        bus = row["pci_bus_id"].decode()
        width = _pcie(bus, "width")
        gpus.append(
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
    return gpus


class Link(NamedTuple):
    """Bytes a second that the link to a GPU moves from and to pinned memory."""

    up: float
    down: float


def link_speed(device: int = 0) -> Link:
    """Return how fast the link to a GPU is, which is measured when first asked, in some milliseconds.

    Parameters
    ----------
    device : int
        The GPU's index in `devices`.

    Raises
    ------
    NoDevice
        Where there is no GPU.

    Examples
    --------
    >>> import pycudakit as pk
    >>> all(pk.link_speed(device.index).up > 1e8 for device in pk.devices())
    True
    """
    return _link(engine_status.index_of_device(device))


def link_is_known() -> bool:
    """Tell whether the speed of a link was measured, and so a GPU is awake."""
    return _link.cache_info().currsize > 0


@functools.cache
def _link(device: int) -> Link:
    row = np.zeros(1, abi.LINK)
    loader.library("cuda").pk_link_speed(device, row)
    return Link(*row[0].item())


@dataclass(frozen=True)
class Memory:
    """The bytes that the libraries keep from call to call, and may keep.

    The pinned memory of arrays is counted apart: what is in use, and what was and is kept for the next.
    """

    device_bytes: int
    device_budget: int
    pinned_bytes: int
    pinned_budget: int
    arrays_bytes: int
    arrays_kept: int
    results_kept: int
    results_budget: int
    plan_bytes: int
    plan_budget: int


def memory_info() -> Memory:
    """Return what is kept from call to call: to stream arrays through a GPU, and for results.

    `arrays_bytes` is of the arrays of `empty_pinned` and `pinned_copy`, and `arrays_kept` of those that
    are no more, whose memory the next may have. `results_kept` is ordinary memory, of results that are no
    more: the next results have it, or the operating system if it runs short. `plan_bytes` is for what fused
    functions leave on GPUs from pass to pass. Bytes are of all GPUs, and budgets of each; `plan_budget` is 0
    until a function runs, unless it is set. The budgets are set by ``PYCUDAKIT_DEVICE_MEMORY``,
    ``PYCUDAKIT_PINNED_MEMORY``, ``PYCUDAKIT_RESULT_MEMORY`` and ``PYCUDAKIT_PLAN_MEMORY``, as ``"512M"``.

    Examples
    --------
    >>> import pycudakit as pk
    >>> info = pk.memory_info()
    >>> info.device_bytes <= info.device_budget, info.pinned_bytes <= info.pinned_budget
    (True, True)
    """
    row, of_results = np.zeros(1, abi.MEMORY), np.zeros(1, abi.MEMORY)
    if engine_status.status("cuda"):
        loader.library("cuda").pk_memory_info(row)
    allocator_library = allocator.library()
    if allocator_library is not None:
        allocator_library.pk_memory_info(of_results)
    for name in ("results_kept", "results_budget"):
        row[name] = of_results[name]
    return Memory(*row[0].item())


on_release: list[Callable[[], object]] = []  # of whoever else keeps something


def release() -> None:
    """Give back the memory that the libraries keep, but what calls and arrays use.

    Later calls take it again, which costs the first of them some milliseconds. Helper processes of kernels
    that nobody uses end, too.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.release()
    >>> pk.memory_info().device_bytes
    0
    """
    for engine in ("cuda", "cpu"):
        if engine_status.status(engine):
            loader.library(engine).pk_release()
    for give_back in on_release:
        give_back()


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
            library = loader.library(name)
        except errors.NoDevice:
            continue
        text = ctypes.c_char_p()
        library.pk_build_info(ctypes.byref(text))
        lines = (text.value or b"").decode().splitlines()
        facts = (line.partition(":") for line in lines)
        built[name] = {key: value.strip() for key, _, value in facts}
        built[name]["path"] = str(loader.find(name))
    return built
