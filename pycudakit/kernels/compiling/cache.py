"""What compilers made, kept in memory and on disk: a source is compiled once."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib
import json
import os
import re
import shutil
import stat
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._library import abi, loader, measured
from pycudakit._library.version import __version__
from pycudakit.kernels.compiling.source import Binary, Compiled, Source

_COMPILERS = {"cuda": "pycudakit.kernels.compiling.nvrtc", "cpu": "pycudakit.kernels.compiling.host_compiler"}
_KEPT = 256  # in memory
_KEPT_ON_DISK = 256 << 20  # bytes
_MOST_INCLUDED = 1 << 20  # bytes of a file
_FORM = 1  # of what is on disk

CacheDir = str | os.PathLike[str] | bool | None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A binary, and what its compiler told of it, as `source.Compiled` has it."""

    binary: Binary
    symbols: dict[str, str]
    log: str


def get(source: Source, engine: str, cache_dir: CacheDir = None) -> Loaded:
    """Return the binary of a source: from memory, from disk, or compiled.

    Parameters
    ----------
    cache_dir
        Where on disk; None for the usual place, False for nowhere.

    Raises
    ------
    CompileError
        It does not compile, or there is no compiler.
    """
    compiler = importlib.import_module(_COMPILERS[engine])
    key = _key(source, engine, compiler.fingerprint())
    found = _memory.get(key)
    if found is not None:
        return found
    with _compiling(key):  # once, where many threads ask
        found = _memory.get(key)
        if found is None:
            found = _from_disk_or_compiler(source, engine, compiler, key, cache_dir)
            _memory.put(key, found)
    return found


@functools.cache
def why_not_cuda() -> str | None:
    """Return what it is beside a GPU that is missing to compile for it; None if nothing is."""
    try:
        importlib.import_module(_COMPILERS["cuda"]).fingerprint()
    except errors.Error as error:
        return str(error)
    return None


@functools.cache
def arch(device: int) -> str:
    """Return what a GPU's code is compiled for, ``"sm_90"``."""
    info = np.zeros(1, abi.DEVICE)
    loader.library("cuda").pk_device_info(device, info)
    return f"sm_{info['compute_major'][0]}{info['compute_minor'][0]}"


def _from_disk_or_compiler(
    source: Source, engine: str, compiler: Any, key: bytes, cache_dir: CacheDir
) -> Loaded:
    folder = None if cache_dir is False else _folder(cache_dir if cache_dir is not True else None)
    if folder is not None:
        found = _read(folder, key, engine)
        if found is not None:
            return found
    compiled: Compiled = compiler.compile(source)
    if folder is not None:
        with contextlib.suppress(OSError):
            _write(folder, key, compiled)
            _prune(folder, keep=key)
            found = _read(folder, key, engine)
            if found is not None:
                return found
    data = compiled.data
    if engine == "cpu":  # whose library takes a path
        folder = _private_folder()
        _write(folder, key, compiled)
        data = os.fsencode(_path(folder, key))
    return Loaded(Binary(data, key[:16], engine), compiled.symbols, compiled.log)


# ---- Keys ------------------------------------------------------------------------------------------


def _key(source: Source, engine: str, fingerprint: str) -> bytes:
    """Return what is the same only where all that a compilation depends on is."""
    whole = [str(_FORM), __version__, engine, fingerprint]
    whole += [f"{field.name}={getattr(source, field.name)!r}" for field in fields(source)]
    folders = [*folders_of(source.include_dirs, source.options), Path()]
    whole += [f"{name}={text}" for name, text in included(source.text, folders)]
    return hashlib.sha256("\0".join(whole).encode("utf-8", "surrogatepass")).digest()


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


def folders_of(include_dirs: Iterable[str], options: Iterable[str]) -> list[Path]:
    """Return where `include_dirs` and the compiler's options say that headers are."""
    found = [Path(folder) for folder in include_dirs]
    words = iter(options)
    for word in words:
        match = re.match(r"(?:-I|--include-path(?:=|$))(.*)", word)
        if match is not None:
            found.append(Path(match[1] or next(words, ".")))
    return found


def find_included(name: str, folders: Iterable[Path]) -> str | None:
    """Return the text of a header of the user's, or None if it is not one."""
    for folder in folders:
        with contextlib.suppress(OSError, ValueError):
            path = folder / name
            if path.is_file() and path.stat().st_size <= _MOST_INCLUDED:
                return path.read_text(encoding="utf-8", errors="replace")
    return None


def included(text: str, folders: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield the headers of the user's that a text includes, directly or not, and their texts."""
    seen: set[str] = set()
    left = [(text, folders)]
    while left:
        text, places = left.pop()
        for name in _INCLUDE.findall(text):
            if name in seen:
                continue
            seen.add(name)
            found = find_included(name, places)
            if found is not None:
                yield name, found
                beside = [folder / Path(name).parent for folder in folders]
                left.append((found, [*beside, *folders]))


# ---- In memory -------------------------------------------------------------------------------------


class _Memory:
    """The binaries that were last used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._binaries: OrderedDict[bytes, Loaded] = OrderedDict()

    def get(self, key: bytes) -> Loaded | None:
        with self._lock:
            found = self._binaries.get(key)
            if found is None:
                return None
            if found.binary.engine == "cpu" and not os.path.exists(found.binary.data):
                del self._binaries[key]  # somebody emptied the cache
                return None
            self._binaries.move_to_end(key)
            return found

    def put(self, key: bytes, loaded: Loaded) -> None:
        with self._lock:
            self._binaries[key] = loaded
            while len(self._binaries) > _KEPT:
                self._binaries.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._binaries.clear()


_memory = _Memory()
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
    """In a child: locks may be held by threads that it does not have."""
    global _locks_lock  # noqa: PLW0603
    _memory.__init__()  # type: ignore[misc]
    _locks.clear()
    _locks_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# ---- On disk ---------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Return where binaries are kept on disk."""
    return Path(measured.cache_folder())


def _folder(asked: str | os.PathLike[str] | None) -> Path | None:
    """Return a folder that is ours alone, or None: code is loaded from it."""
    folder = (cache_folder() if asked is None else Path(asked)) / "images"  # others may write beside it
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.stat()
    except (OSError, ValueError, RuntimeError):
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return folder.absolute() if is_ours and not found.st_mode & 0o022 else None


@functools.cache
def _private_folder_of(process: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="pycudakit-"))

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _private_folder() -> Path:
    """Return a folder that goes when the process ends."""
    return _private_folder_of(os.getpid())


def _path(folder: Path, key: bytes) -> Path:
    return folder / f"{key.hex()}.image"


def _notes_path(folder: Path, key: bytes) -> Path:
    return folder / f"{key.hex()}.json"


def _write(folder: Path, key: bytes, compiled: Compiled) -> None:
    """Write a binary, and then what belongs to it; a reader sees all of a file or nothing."""
    notes: dict[str, Any] = {"symbols": compiled.symbols, "log": compiled.log}
    notes["data"] = hashlib.sha256(compiled.data).hexdigest()
    notes["notes"] = _checksum(notes)
    _put(_path(folder, key), compiled.data)
    _put(_notes_path(folder, key), json.dumps(notes).encode())


def _checksum(notes: dict[str, Any]) -> str:
    whole = {name: value for name, value in notes.items() if name != "notes"}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _put(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".new")  # for the owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _read(folder: Path, key: bytes, engine: str) -> Loaded | None:
    """Return a binary, or None if there is none, or it is damaged."""
    path = _path(folder, key)
    try:
        data = path.read_bytes()
        notes = json.loads(_notes_path(folder, key).read_bytes())
        if notes["data"] != hashlib.sha256(data).hexdigest() or notes["notes"] != _checksum(notes):
            return None
        symbols, log = {str(k): str(v) for k, v in notes["symbols"].items()}, str(notes["log"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # it is in use
    if engine == "cpu":
        data = os.fsencode(path)
    return Loaded(Binary(data, key[:16], engine), symbols, log)


def _prune(folder: Path, keep: bytes) -> None:
    """Remove what was not used for longest, until the rest is no more than is kept."""
    found = []
    for path in folder.glob("*.image"):
        with contextlib.suppress(OSError):
            state = path.stat()
            found.append((state.st_mtime, state.st_size, path))
    left = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if left <= _KEPT_ON_DISK:
            break
        if path != _path(folder, keep):
            for gone in (path, path.with_suffix(".json")):
                with contextlib.suppress(OSError):
                    gone.unlink()
            left -= size
