"""Diagnostics of missing engines and compilers: one line with the cause and the remedy."""

from __future__ import annotations

import os
from collections.abc import Callable

from pycudakit import errors
from pycudakit._families.matmul import matmul
from pycudakit._native import loader
from pycudakit.kernels.compiling import compiler_process, nvrtc

INSTALL = "install pycudakit again, or run `pip install .` in its sources"
_REINSTALL = f"install the library and the package from one release: {INSTALL}"


def _of_library(name: str) -> str:
    folder = os.environ.get("PYCUDAKIT_LIBRARY_DIR")
    if folder:
        return f"set PYCUDAKIT_LIBRARY_DIR to a folder that has {loader.file_name(name)}, or unset it"
    return INSTALL


def _of_devices(_: str) -> str:
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        shown = os.environ["CUDA_VISIBLE_DEVICES"]
        return f"CUDA_VISIBLE_DEVICES is {shown!r} and hides GPUs: unset it, or name a GPU, such as 0"
    return "check whether `nvidia-smi -L` lists a GPU; a container must be started with --gpus all"


# A text that a reason contains, and the remedy.
_REMEDIES: dict[str, Callable[[str], str]] = {
    "no library built": _of_library,
    "does not open": lambda _: f"check that the file is readable and complete, or {INSTALL}",
    "is not a library of pycudakit": _of_library,
    "of the ABI": lambda _: _REINSTALL,
    "no driver": lambda _: (
        "if there is an NVIDIA GPU, install its driver, 580 or newer; "
        "a container must be started with --gpus all"
    ),
    "driver too old": lambda _: "update NVIDIA's driver to 580 or newer, or build with an nvcc of CUDA 12",
    "no device": _of_devices,
}


def with_remedy(name: str, reason: str) -> str:
    """Return one line with the reason why an engine is not available, and the remedy.

    Examples
    --------
    >>> from pycudakit._cli.diagnostics import with_remedy
    >>> with_remedy("cuda", "driver too old for this build").partition(": ")[2]
    "update NVIDIA's driver to 580 or newer, or build with an nvcc of CUDA 12"
    """
    cause = " ".join(reason.split())
    for words, remedy in _REMEDIES.items():
        if words in cause:
            cause = cause.removesuffix(": install the two from one release").removesuffix(loader.HINT)
            return f"{cause}: {remedy(name)}"
    return cause


def compilers() -> dict[str, str]:
    """Return the compilers and libraries that are opened at run time: version or path, or the remedy."""
    return {
        "nvrtc": _version_or_reason(_nvrtc),
        "cublas": _version_or_reason(_cublas),
        "c++": _version_or_reason(compiler_process.path),
    }


def _version_or_reason(find: Callable[[], str]) -> str:
    try:
        return find()
    except errors.Error as error:
        return "missing: " + " ".join(str(error).split())


def _nvrtc() -> str:
    return "{}.{}".format(*nvrtc.version())


def _cublas() -> str:
    if loader.find("cuda") is None:
        return "not searched without the cuda library"
    if matmul.cublas():
        return "found"
    raise errors.NoDevice(
        'matrix products on a GPU run without cuBLAS, which is slower: pip install "pycudakit[cuda13]"'
    )
