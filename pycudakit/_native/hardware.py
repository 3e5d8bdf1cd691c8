"""GPUs, links, memory held by the libraries, and build information, as plain data."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, allocator, engine_status, loader


@dataclass(frozen=True)
class Device:
    """A GPU as plain data."""

    index: int
    name: str
    compute_capability: tuple[int, int]
    memory: int
    multiprocessors: int
    pcie_generation: int | None
    pcie_width: int | None


def _pcie(bus: str, attribute: str) -> float | None:
    try:
        with open(f"/sys/bus/pci/devices/{bus.lower()}/max_link_{attribute}", encoding="ascii") as file:
            return float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None


_GENERATION_OF_SPEED = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def devices() -> list[Device]:
    """Return the GPUs that the CUDA engine can use, as plain data; an empty list if there are none.

    Returns
    -------
    list of Device

    See Also
    --------
    engines, link_speed

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
    """The bandwidth of the link to a GPU, from and to pinned memory, in bytes a second."""

    up: float
    down: float


def link_speed(device: int = 0) -> Link:
    """Return the bandwidth of the link to a GPU; the first call measures it, in some milliseconds.

    Parameters
    ----------
    device : int
        The GPU's index in `devices`.

    Returns
    -------
    Link

    Raises
    ------
    NoDevice
        There is no GPU.

    See Also
    --------
    devices, pinned_copy

    Examples
    --------
    >>> import pycudakit as pk
    >>> all(pk.link_speed(device.index).up > 1e8 for device in pk.devices())
    True
    """
    return _link(engine_status.index_of_device(device))


def link_is_known() -> bool:
    """Return True if a link's bandwidth was measured, so that a GPU is awake."""
    return _link.cache_info().currsize > 0


@functools.cache
def _link(device: int) -> Link:
    row = np.zeros(1, abi.LINK)
    loader.library("cuda").pk_link_speed(device, row)
    return Link(*row[0].item())


@dataclass(frozen=True)
class Memory:
    """The bytes that the libraries hold between calls, and their budgets.

    The pinned memory of arrays is counted separately: `arrays_bytes` in use, `arrays_kept` for reuse.
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
    """Return the memory that the libraries hold between calls.

    `device_bytes` and `pinned_bytes` are the buffers that stream arrays through a GPU. `arrays_bytes` belongs
    to live arrays of `empty_pinned` and `pinned_copy`; `arrays_kept` to freed ones, and is reused.
    `results_kept` is ordinary memory of freed results: it is reused for new results, and the operating system
    takes it if memory runs short. `plan_bytes` holds arrays that fused functions leave on GPUs between fused
    kernels. Bytes are totals over all GPUs, budgets are for each GPU; `plan_budget` is 0 until a fused
    function runs, unless it is set. The budgets are set by ``PYCUDAKIT_DEVICE_MEMORY``,
    ``PYCUDAKIT_PINNED_MEMORY``, ``PYCUDAKIT_RESULT_MEMORY`` and ``PYCUDAKIT_PLAN_MEMORY``, as ``"512M"``.

    Returns
    -------
    Memory

    See Also
    --------
    release

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


on_release: list[Callable[[], object]] = []  # hooks of modules that hold memory or processes


def release() -> None:
    """Free the memory that the libraries hold, except the memory of running calls and live arrays.

    Later calls allocate it again, which costs the first of them some milliseconds. Idle helper processes of
    kernels end, too.

    See Also
    --------
    memory_info

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
    """Return how each available library was built, as plain text.

    Returns
    -------
    dict
        The build of each library, by engine.

    See Also
    --------
    engines

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
