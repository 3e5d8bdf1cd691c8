"""The cache of compiled kernels, in memory and on disk.

The key is a hash of the source, the options and the compiler. An entry also records the headers that the
compilation depended on, and is stale if one of them has changed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, loader
from pycudakit._native.version import __version__
from pycudakit.kernels.compiling import disk_cache, include_tracking, path_security
from pycudakit.kernels.compiling.source import Binary, Compiled, Source

# The compilers of kernels by engine, and those of wrapped sources, whose host code is compiled, too.
_COMPILERS = {
    "cuda": "pycudakit.kernels.compiling.nvrtc",
    "cpu": "pycudakit.kernels.compiling.host_compiler",
    "wrapped cuda": "pycudakit.kernels.wrapping.cuda_build",
    "wrapped cpu": "pycudakit.kernels.wrapping.cpu_build",
    "wrapped types": "pycudakit.kernels.wrapping.types_build",
}
_MAX_ENTRIES = 256  # in memory
_FORMAT_VERSION = 2  # of the disk cache

CacheDir = str | os.PathLike[str] | bool | None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A binary, with the compiler's symbols and log, as in `source.Compiled`."""

    binary: Binary
    symbols: dict[str, str]
    log: str


def get(source: Source, engine: str, cache_dir: CacheDir = None) -> Loaded:
    """Return the binary of a source: from memory, from disk, or compiled.

    Parameters
    ----------
    cache_dir
        The folder of the disk cache; None for the default, False for none.

    Raises
    ------
    CompileError
        The source does not compile, or there is no compiler.
    """
    compiler = importlib.import_module(_COMPILERS[engine])
    key = _key(source, engine, compiler.fingerprint())
    entry = _memory_cache.get(key)
    if entry is not None:
        return entry.loaded
    with _compiling(key):  # only one thread compiles
        entry = _memory_cache.get(key)
        if entry is None:
            entry = _from_disk_or_compiler(source, engine, compiler, key, cache_dir)
            _memory_cache.put(key, entry)
    return entry.loaded


@functools.cache
def why_not_cuda() -> str | None:
    """Return the missing requirement for compiling for a GPU, or None; the GPU itself is not checked."""
    try:
        importlib.import_module(_COMPILERS["cuda"]).fingerprint()
    except errors.Error as error:
        return str(error)
    return None


@functools.cache
def arch(device: int) -> str:
    """Return the architecture of a GPU, ``"sm_90"``."""
    info = np.zeros(1, abi.DEVICE)
    loader.library("cuda").pk_device_info(device, info)
    return f"sm_{info['compute_major'][0]}{info['compute_minor'][0]}"


def _from_disk_or_compiler(
    source: Source, engine: str, compiler: Any, key: bytes, cache_dir: CacheDir
) -> _CacheEntry:
    folder = None if cache_dir is False else disk_cache.folder(cache_dir if cache_dir is not True else None)
    if folder is not None:
        entry = disk_cache.read(folder, key)
        if entry is not None:
            return _loaded(entry, key, engine, folder)
    read = _headers(source, engine, compiler)
    started = time.time_ns()
    compiled: Compiled = compiler.compile(source)
    read = _dependencies(read, compiled.read, started)
    entry = disk_cache.CachedBinary(compiled.data, compiled.symbols, compiled.log, read or {}, started)
    if folder is not None and read is not None:
        try:
            disk_cache.write(folder, key, entry)
        except OSError:  # the disk is full or not writable
            folder = None
    else:
        folder = None
    return _loaded(entry, key, engine, folder, is_known=read is not None)


def _dependencies(
    looked_for: dict[str, include_tracking.State | None] | None, listed: tuple[str, ...], started: int
) -> dict[str, include_tracking.State | None] | None:
    """Return the files that a compilation depended on; None if unknown, or if one changed meanwhile."""
    if looked_for is None or not include_tracking.are_unchanged_since(looked_for):
        return None
    others = include_tracking.read_by_compiler((path for path in listed if path not in looked_for), started)
    return None if others is None else looked_for | others


def _loaded(
    entry: disk_cache.CachedBinary, key: bytes, engine: str, folder: Path | None, *, is_known: bool = True
) -> _CacheEntry:
    binary_key = hashlib.sha256(key + hashlib.sha256(entry.data).digest()).digest()[:16]
    data = entry.data
    if engine != "cuda":  # a shared library is loaded by its path
        if folder is None or not path_security.runs_code(folder):
            folder = disk_cache.private_folder()
            disk_cache.write(folder, key, entry)
        data = os.fsencode(disk_cache.image_path(folder, key, entry.data))
    loaded = Loaded(Binary(data, binary_key, engine), entry.symbols, entry.log)
    return _CacheEntry(loaded, entry.read if is_known else None, entry.made)


# ---- Keys ------------------------------------------------------------------------------------------


def _key(source: Source, engine: str, fingerprint: str) -> bytes:
    """Return the key of a compilation: a hash of its source, options, compiler and engine.

    The contents of headers are not part of the key; their states are stored with the result.
    """
    whole = [str(_FORMAT_VERSION), __version__, engine, fingerprint]
    whole += [f"{field.name}={getattr(source, field.name)!r}" for field in fields(source)]
    whole += map(os.path.abspath, include_tracking.folders_of(source.include_dirs, source.options))
    if engine == "cuda" and _INCLUDES.search(source.text):
        whole.append(os.getcwd())  # NVRTC searches the current folder
    return hashlib.sha256("\0".join(whole).encode("utf-8", "surrogatepass")).digest()


_INCLUDES = re.compile(r"include|import")


def _headers(source: Source, engine: str, compiler: Any) -> dict[str, include_tracking.State | None] | None:
    """Return the states of the files that a source may include, existing or not; None if unknown."""
    folders = include_tracking.folders_of(source.include_dirs, source.options)
    folders += [Path(folder) for folder in compiler.folders()]
    folders += [Path(), Path(source.name).parent] if engine == "cuda" else []
    return include_tracking.looked_for(source.text, source.options, folders)


# ---- In memory -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _CacheEntry:
    """A binary, the states of the files that its compiler read (None if unknown), and the time of that."""

    loaded: Loaded
    read: include_tracking.States | None
    made: int

    def is_current(self) -> bool:
        if self.read is None or not include_tracking.are_unchanged(self.read, self.made):
            return False
        binary = self.loaded.binary
        return binary.engine == "cuda" or os.path.exists(binary.data)  # the disk cache may have been cleared


class _MemoryCache:
    """An LRU cache of binaries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._binaries: OrderedDict[bytes, _CacheEntry] = OrderedDict()

    def get(self, key: bytes) -> _CacheEntry | None:
        with self._lock:
            entry = self._binaries.get(key)
            if entry is None:
                return None
            self._binaries.move_to_end(key)
        return entry if entry.is_current() else None

    def put(self, key: bytes, entry: _CacheEntry) -> None:
        with self._lock:
            self._binaries[key] = entry
            while len(self._binaries) > _MAX_ENTRIES:
                self._binaries.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._binaries.clear()


_memory_cache = _MemoryCache()
_locks: dict[bytes, threading.Lock] = {}
_locks_lock = threading.Lock()


@contextlib.contextmanager
def _compiling(key: bytes) -> Iterator[None]:
    with _locks_lock:
        lock = _locks.setdefault(key, threading.Lock())
    with lock:
        try:
            yield
        finally:
            with _locks_lock:
                _locks.pop(key, None)


def _after_fork() -> None:
    """Reset the locks in a forked child: threads that held them do not exist there."""
    global _locks_lock  # noqa: PLW0603
    _memory_cache.__init__()  # type: ignore[misc]
    _locks.clear()
    _locks_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
