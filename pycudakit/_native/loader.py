"""Loader of the C libraries: finds one library for each engine, opens it, and checks its ABI version.

Paths are strings, because importing pathlib takes a tenth of the import of this package.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import stat
import struct
import sys
from collections.abc import Iterator

from pycudakit import errors
from pycudakit._native import abi

_PACKAGE = __name__.partition(".")[0]
_SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"


def file_name(engine: str) -> str:
    """Return the file name of an engine's library."""
    return f"libpycudakit_{engine}{_SUFFIX}"


def candidates(engine: str) -> Iterator[str]:
    """Yield the paths at which an engine's library is searched, in order."""
    name = file_name(engine)
    forced = os.environ.get("PYCUDAKIT_LIBRARY_DIR")
    if forced:
        yield os.path.join(forced, name)
        return
    for entry in sys.modules[_PACKAGE].__path__:
        yield os.path.join(entry, "lib", name)
    # Python that starts inside a clone imports the clone's package, which holds no library.
    import importlib.metadata  # noqa: PLC0415  (takes 15 ms, and is seldom needed)

    try:
        installed = importlib.metadata.files("pycudakit") or []
    except importlib.metadata.PackageNotFoundError:
        return
    for file in installed:
        if file.name == name:
            yield str(file.locate())


def find(engine: str) -> str | None:
    """Return the path of an engine's library, or None."""
    return next((path for path in candidates(engine) if _why_unusable(path) is None), None)


def _why_unusable(path: str) -> str | None:
    """Return None if a path is a file, "" if it does not exist, else why it cannot be used."""
    try:
        return None if stat.S_ISREG(os.stat(path).st_mode) else "is no file"
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return error.strerror or str(error)


def is_broken(engine: str) -> bool:
    """Return True if an engine's library that does not open should exist: every build has the CPU's."""
    return engine == "cpu" or any(_why_unusable(path) != "" for path in candidates(engine))


def _is_complete(path: str) -> bool:
    """Return False if an ELF file is truncated: mapping it would end the process by SIGBUS."""
    with open(path, "rb") as file:
        head = file.read(64)
        size = os.fstat(file.fileno()).st_size
    if len(head) < 64 or not head.startswith(b"\x7fELF\x02\x01"):
        return True  # no 64-bit ELF file: `dlopen` reports it
    (table,), (entry, count) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<HH", head, 58)
    return bool(size >= table + entry * count)


_loaded: list[ctypes.CDLL] = []


def _unwatch() -> None:
    """Disable callbacks: at its end, Python would end a daemon thread that enters it from a native call.

    The calls themselves go on: `atexit` handlers that run later may join such threads.
    """
    for handle in _loaded:
        handle.pk_disable_callbacks()


HINT = ": `pycudakit info` says what to do"


@functools.cache
def library(engine: str) -> ctypes.CDLL:
    """Open the library of an engine, ``"cpu"`` or ``"cuda"``; later calls return the same one."""
    path = find(engine)
    if path is None:
        reasons = {path: _why_unusable(path) for path in candidates(engine)}
        tried = ", ".join(f"{path}" + f" ({why})" * bool(why) for path, why in reasons.items())
        raise errors.NoDevice(
            f"no library built: {file_name(engine)} is at none of {tried or 'no path at all'}{HINT}"
        )
    try:
        if not _is_complete(path):
            raise OSError("a part of it is missing; install it again")  # noqa: TRY301
        handle = ctypes.CDLL(path)
    except OSError as error:
        raise errors.NoDevice(f"{path} does not open: {error}") from None
    version = ctypes.c_int64()
    try:
        handle.pk_abi_version(ctypes.byref(version))
    except AttributeError:
        raise errors.NoDevice(f"{path} is not a library of pycudakit") from None
    if version.value != abi.ABI_VERSION:
        raise errors.NoDevice(
            f"{path} speaks version {version.value} of the ABI and this pycudakit {abi.ABI_VERSION}: "
            "install the two from one release"
        )
    try:
        abi.declare(handle)
    except AttributeError as error:
        raise errors.NoDevice(
            f"{path} lacks an entry ({error}): install it and the Python files from one release"
        ) from None
    if not _loaded:
        atexit.register(_unwatch)
    _loaded.append(handle)
    # After all `atexit` handlers, when no thread can be joined any more, calls that still run are stopped.
    ctypes.pythonapi.Py_AtExit(ctypes.cast(handle.pk_shutdown, ctypes.c_void_p))
    return handle
