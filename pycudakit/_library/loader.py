"""Find and open a library."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pycudakit import errors
from pycudakit._library import abi

_PACKAGE = __name__.partition(".")[0]
_SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"


def file_name(engine: str) -> str:
    """Return the file that holds an engine's library."""
    return f"libpycudakit_{engine}{_SUFFIX}"


def candidates(engine: str) -> Iterator[Path]:
    """Every path at which an engine's library may lie, in the order they are tried."""
    name = file_name(engine)
    forced = os.environ.get("PYCUDAKIT_LIBRARY_DIR")
    if forced:
        yield Path(forced) / name
        return
    for entry in sys.modules[_PACKAGE].__path__:
        yield Path(entry) / "lib" / name
    # Python started inside a clone imports the clone's package, which holds no library.
    import importlib.metadata  # noqa: PLC0415  (takes 15 ms, and is seldom needed)

    try:
        installed = importlib.metadata.files("pycudakit") or []
    except importlib.metadata.PackageNotFoundError:
        return
    for file in installed:
        if file.name == name:
            yield Path(str(file.locate()))


def find(engine: str) -> Path | None:
    """Return the first path that exists, or None."""
    return next((path for path in candidates(engine) if path.is_file()), None)


_opened: list[ctypes.CDLL] = []


def _unwatch() -> None:
    """Keep the calls of daemon threads out of Python, which ends a thread that enters it at its own end.

    They go on: handlers of `atexit` that run after this one may join such threads.
    """
    for opened in _opened:
        opened.pk_unwatch()


@functools.cache
def library(engine: str) -> ctypes.CDLL:
    """Open the library of an engine, ``"cpu"`` or ``"cuda"``, once."""
    path = find(engine)
    if path is None:
        tried = "".join(f"\n  {path}" for path in dict.fromkeys(candidates(engine)))
        raise errors.NoDevice(
            f"no library built: {file_name(engine)} is at none of{tried or ' no path at all'}"
        )
    try:
        opened = ctypes.CDLL(str(path))
    except OSError as error:
        raise errors.NoDevice(f"{path} does not open: {error}") from None
    version = ctypes.c_int64()
    try:
        opened.pk_abi_version(ctypes.byref(version))
    except AttributeError:
        raise errors.NoDevice(f"{path} is not a library of pycudakit") from None
    if version.value != abi.ABI_VERSION:
        raise errors.NoDevice(
            f"{path} speaks version {version.value} of the ABI and this pycudakit {abi.ABI_VERSION}: "
            "install the two from one release"
        )
    abi.declare(opened)
    if not _opened:
        atexit.register(_unwatch)
    _opened.append(opened)
    # After all handlers of `atexit`, when nobody can join a thread any more, calls that are left are stopped.
    ctypes.pythonapi.Py_AtExit(ctypes.cast(opened.pk_shutdown, ctypes.c_void_p))
    return opened
