"""`pycudakit info`: prints engines, devices, libraries, versions and environment variables."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Iterator
from typing import Any

import numpy as np

import pycudakit as pk
from pycudakit import errors
from pycudakit._cli import diagnostics
from pycudakit._native import abi, calibration_file, driver_jit, loader
from pycudakit._runtime import context

VARIABLES = {
    "PYCUDAKIT_ENGINE": "the engine to start with",
    "PYCUDAKIT_LIBRARY_DIR": "the only folder that is searched for the libraries",
    "PYCUDAKIT_THREADS": "threads of the host",
    "PYCUDAKIT_ISA": "the instruction set of the CPU engine",
    "PYCUDAKIT_DEVICE_MEMORY": "device memory that the CUDA engine may keep",
    "PYCUDAKIT_PINNED_MEMORY": "host memory that it may pin",
    "PYCUDAKIT_RESULT_MEMORY": "host memory of freed results that is kept for reuse",
    "PYCUDAKIT_PLAN_MEMORY": "device memory for arrays that fused functions leave there",
    "PYCUDAKIT_CACHE_DIR": "the folder of compiled kernels and measured constants",
    "PYCUDAKIT_ISOLATE": "1: user kernels run in a helper process",
    "PYCUDAKIT_COMPILE_LIMIT": "seconds that the host's compiler may take for a kernel",
    "PYCUDAKIT_FIBERS": "1: kernels with barriers run on fibers on the CPU, never as loops",
    "PYCUDAKIT_BLOCK_LIMIT": "seconds that a block may take with debug=True on the CPU",
    "PYCUDAKIT_REPLAY": "0: calls of fused functions on NumPy arrays are traced each time",
    "PYCUDAKIT_TUNED": "0: the constants of `pycudakit tune` are not used",
    "CUDA_VISIBLE_DEVICES": "the GPUs that CUDA shows",
}
DRIVER = "A library built with CUDA 13 needs NVIDIA driver 580 or newer."
PTX_ALONE = (
    "It holds PTX only: the GPU's driver compiles kernels at their first use, which takes seconds.",
    "On a machine with a GPU, or with PYCUDAKIT_ALL_GPUS=1, `pip install .` builds it with machine code.",
)
COMPILED_LATER = (
    "The library holds no code for it: its driver compiles kernels at first use, and caches them."
)
NO_LIBRARIES = (
    "No library can be loaded, so NumPy is the only engine. To build them, run `pip install .` in the",
    "sources; for a build directory of your own, set PYCUDAKIT_LIBRARY_DIR to its lib/.",
)


def facts() -> dict[str, Any]:
    """Return the contents of `pycudakit info` as plain data."""
    name = context.current_engine()
    built = pk.build_info()
    return {
        "pycudakit": pk.__version__,
        "abi": abi.ABI_VERSION,
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        "numpy": np.__version__,
        "package": os.path.dirname(os.path.abspath(pk.__file__)),
        "engines": {
            engine: {"available": status.available, "reason": _reason(engine, status)}
            for engine, status in pk.engines().items()
        },
        "in_force": name if name in context.ENGINE_NAMES else None,
        "devices": [_device(device) for device in pk.devices()],
        "libraries": {engine: _library(engine, built) for engine in ("cpu", "cuda")},
        "compilers": diagnostics.compilers(),
        "times": _times(),
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name in VARIABLES or name.startswith("PYCUDAKIT_STREAM_")
        },
    }


def _reason(engine: str, status: pk.EngineStatus) -> str:
    return status.reason if status else diagnostics.with_remedy(engine, status.reason)


def _device(device: pk.Device) -> dict[str, Any]:
    """Return a device as plain data, with the bandwidth of its link."""
    try:
        link = pk.link_speed(device.index)._asdict()
    except errors.Error as error:
        link = {"error": str(error)}
    return {**dataclasses.asdict(device), "link": link, "compiled": driver_jit.has_native_code(device.index)}


def _library(engine: str, built: dict[str, dict[str, str]]) -> dict[str, str]:
    if engine in built:
        return built[engine]
    path = loader.find(engine)
    return {} if path is None else {"path": f"{path}, which does not open: see Engines"}


def _times() -> str:
    """Return the origin of the constants by which `auto` decides."""
    calibration = calibration_file.CALIBRATION
    if calibration.day:
        return f"of this machine, by `pycudakit tune` on {calibration.day}: {calibration_file.path()}"
    usual = "the package's own; `pycudakit tune` measures this machine's"
    if calibration.ignored:
        return (
            f"the package's own, as {calibration_file.path()} is ignored: {calibration.ignored}; "
            f"{calibration_file.RETUNE_HINT}"
        )
    return usual


def _row(key: str, text: str) -> str:
    return f"  {key:<12}{text}".rstrip()


def _engines(values: dict[str, Any]) -> Iterator[str]:
    for name, status in values["engines"].items():
        yield _row(name, f"{'available' if status['available'] else 'not available'}: {status['reason']}")
    name = context.current_engine()
    wrong = f"none: PYCUDAKIT_ENGINE is {name!r}; choose auto, cuda, cpu or numpy"
    yield _row("in force", values["in_force"] or wrong)
    yield _row("times", values["times"])


def _devices(values: dict[str, Any]) -> Iterator[str]:
    for device in values["devices"]:
        generation, width, link = device["pcie_generation"], device["pcie_width"], device["link"]
        pcie = f"PCIe {generation} x{width}" if generation and width else "PCIe unknown"
        yield _row(
            str(device["index"]),
            f"{device['name']}, compute capability {'.'.join(map(str, device['compute_capability']))}, "
            f"{device['memory'] / 2**30:.1f} GiB, {device['multiprocessors']} multiprocessors",
        )
        speed = link.get("error") or f"{link['up'] / 1e9:.1f} GB/s up, {link['down'] / 1e9:.1f} GB/s down"
        yield _row("", f"{pcie}: {speed}")
        if not device["compiled"]:
            yield _row("", COMPILED_LATER)
    if not values["devices"]:
        yield _row("none", "")


def _libraries(values: dict[str, Any]) -> Iterator[str]:
    for name, library in values["libraries"].items():
        yield _row(name, library.get("path", "missing"))
        others = "; ".join(f"{k} {v}" for k, v in library.items() if v and k != "path")
        if others:
            yield _row("", others)
        if name == "cuda" and "sm_" not in library.get("architectures", "sm_"):
            for line in PTX_ALONE:
                yield _row("", line)
    if not any(library.get("version") for library in values["libraries"].values()):
        for line in NO_LIBRARIES:
            yield _row("", line)
    elif not values["libraries"]["cuda"] and platform.system() == "Linux":
        yield _row("", "`pip install .` builds the cuda library too, unless PYCUDAKIT_CUDA=OFF.")
    yield _row("", DRIVER)
    for name, text in values["compilers"].items():
        yield _row(name, text)


def _environment(values: dict[str, Any]) -> Iterator[str]:
    for name, value in values["environment"].items():
        yield f"  {name}={value}  ({VARIABLES.get(name, 'a constant of the streaming engine')})"
    if not values["environment"]:
        yield "  no variable of pycudakit is set"


_PARTS = {"Engines": _engines, "Devices": _devices, "Libraries": _libraries, "Environment": _environment}


def lines() -> Iterator[str]:
    """Yield the lines of `pycudakit info`."""
    values = facts()
    yield f"pycudakit {values['pycudakit']}, ABI {values['abi']}"
    for name in ("python", "numpy", "package"):
        yield _row(name, values[name])
    for title, part in _PARTS.items():
        yield ""
        yield title
        yield from part(values)


def as_json() -> str:
    """Return the output of `pycudakit info --json`."""
    return json.dumps(facts(), indent=2)
