"""`pycudakit info`: engines, devices, libraries, versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator

import numpy as np

import pycudakit as pk
from pycudakit._calls import asked
from pycudakit._library import abi, loader

VARIABLES = {
    "PYCUDAKIT_ENGINE": "the engine to start with",
    "PYCUDAKIT_LIBRARY_DIR": "where the libraries are looked for, alone",
    "PYCUDAKIT_THREADS": "threads on the host",
    "PYCUDAKIT_ISA": "the instruction set of the CPU engine",
    "PYCUDAKIT_DEVICE_MEMORY": "device memory that the CUDA engine may keep",
    "PYCUDAKIT_PINNED_MEMORY": "host memory that it may pin",
    "PYCUDAKIT_PLAN_MEMORY": "device memory for what fused functions leave there",
    "CUDA_VISIBLE_DEVICES": "the GPUs that CUDA shows",
}
DRIVER = "A library built with CUDA 13 needs NVIDIA driver 580 or newer."
PTX_ALONE = (
    "It holds PTX alone: the GPU's driver compiles what a call uses first, which takes seconds.",
    "On a machine with a GPU, or with PYCUDAKIT_ALL_GPUS=1, `pip install .` builds it ready to run.",
)
NO_LIBRARIES = (
    "No library is here, so NumPy is the only engine. To build them, run `pip install .` in the sources;",
    "for a build directory of your own, set PYCUDAKIT_LIBRARY_DIR to its lib/.",
)


def _row(key: str, text: str) -> Iterator[str]:
    first, *others = text.splitlines() or [""]
    yield f"  {key:<12}{first}".rstrip()
    for line in others:
        yield f"  {'':<12}{line}"


def _engines() -> Iterator[str]:
    yield "Engines"
    for name, status in pk.engines().items():
        yield from _row(name, f"{'available' if status else 'not available'}: {status.reason}")
    name = asked.current()
    if name in asked.NAMES:
        yield from _row("in force", name)
    else:
        yield from _row("in force", f"none: PYCUDAKIT_ENGINE is {name!r}; choose auto, cuda, cpu or numpy")


def _devices() -> Iterator[str]:
    yield "Devices"
    devices = pk.devices()
    for device in devices:
        major, minor = device.compute_capability
        link = "PCIe unknown"
        if device.pcie_generation and device.pcie_width:
            link = f"PCIe {device.pcie_generation} x{device.pcie_width}"
        yield from _row(
            str(device.index),
            f"{device.name}, compute capability {major}.{minor}, {device.memory / 2**30:.1f} GiB, "
            f"{device.multiprocessors} multiprocessors, {link}",
        )
    if not devices:
        yield from _row("none", "")


def _libraries() -> Iterator[str]:
    yield "Libraries"
    built = pk.build_info()
    for name in ("cpu", "cuda"):
        if name in built:
            facts = built[name]
            yield from _row(name, facts["path"])
            yield from _row("", "; ".join(f"{k} {v}" for k, v in facts.items() if v and k != "path"))
            if name == "cuda" and "sm_" not in facts["architectures"]:
                for line in PTX_ALONE:
                    yield from _row("", line)
        elif loader.find(name) is None:
            yield from _row(name, "missing")
        else:
            yield from _row(name, f"{loader.find(name)}, which does not open: see Engines")
    if not built:
        for line in NO_LIBRARIES:
            yield from _row("", line)
    elif "cuda" not in built and platform.system() == "Linux":
        yield from _row("", "`pip install .` builds the cuda library too, unless PYCUDAKIT_CUDA=OFF.")
    yield from _row("", DRIVER)


def lines() -> Iterator[str]:
    """Yield what `pycudakit info` prints."""
    yield f"pycudakit {pk.__version__}, ABI {abi.ABI_VERSION}"
    yield from _row("python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    yield from _row("numpy", np.__version__)
    yield from _row("package", os.path.dirname(os.path.abspath(pk.__file__)))
    for part in (_engines, _devices, _libraries):
        yield ""
        yield from part()
    yield ""
    yield "Environment"
    given = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    for name, value in given.items():
        yield f"  {name}={value}  ({VARIABLES[name]})"
    if not given:
        yield f"  none of {', '.join(VARIABLES)}"
