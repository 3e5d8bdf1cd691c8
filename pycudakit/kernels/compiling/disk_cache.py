"""The disk cache of compiled kernels, in a folder that only the user can write, since binaries are code."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pycudakit._native import calibration_file
from pycudakit.kernels.compiling import include_tracking, path_security

_MAX_CACHE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class CachedBinary:
    """A binary with its symbols and log, the states of its dependencies, and the start time (ns)."""

    data: bytes
    symbols: dict[str, str]
    log: str
    read: include_tracking.States
    made: int


def cache_folder() -> Path:
    """Return the default folder of the cache."""
    return Path(calibration_file.cache_folder())


def folder(asked: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder of binaries, created if necessary; None if it is not usable or not trusted."""
    try:
        directory = (cache_folder() if asked is None else Path(asked)).absolute() / "images"
        for parent in reversed(directory.parents):
            parent.mkdir(mode=0o700, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        reason = path_security.why_untrusted_folder(directory)
    except (OSError, ValueError, RuntimeError):
        return None
    if reason is not None:
        _warn(f"compiled kernels are not kept in {directory}: {reason}")
        return None
    return directory


@functools.cache
def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)


@functools.cache
def _private_folder_of(process: int) -> Path:
    candidates = (tempfile.gettempdir(), "/dev/shm", "/var/tmp", str(cache_folder().parent))  # noqa: S108
    parent = next(
        (one for one in candidates if os.access(one, os.W_OK) and path_security.runs_code(Path(one))), None
    )
    directory = Path(tempfile.mkdtemp(prefix="pycudakit-", dir=parent))

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return directory


def private_folder() -> Path:
    """Return a temporary folder of this process, if possible on a file system that allows code."""
    return _private_folder_of(os.getpid())


def image_path(folder: Path, key: bytes, data: bytes) -> Path:
    """Return the path of a binary. It depends on the contents, since two of one key may be loaded at once."""
    return folder / f"{key.hex()[:32]}.{hashlib.sha256(data).hexdigest()[:32]}.image"


def _notes_path(folder: Path, key: bytes) -> Path:
    return folder / f"{key.hex()[:32]}.json"


def write(folder: Path, key: bytes, entry: CachedBinary) -> None:
    """Write a binary, and then its notes, each atomically."""
    notes: dict[str, Any] = {"key": key.hex(), "symbols": entry.symbols, "log": entry.log}
    notes |= {"read": dict(entry.read), "made": entry.made}
    notes["data"] = hashlib.sha256(entry.data).hexdigest()
    notes["notes"] = _checksum(notes)
    _put(image_path(folder, key, entry.data), entry.data)
    _put(_notes_path(folder, key), json.dumps(notes).encode())
    _prune(folder, image_path(folder, key, entry.data))


def read(folder: Path, key: bytes) -> CachedBinary | None:
    """Read an entry; return None if it is missing, damaged, not trusted, or stale."""
    try:
        notes = json.loads(path_security.content(_notes_path(folder, key)))
        if notes["notes"] != _checksum(notes) or notes["key"] != key.hex():
            return None
        path = folder / f"{key.hex()[:32]}.{notes['data'][:32]}.image"
        data = path_security.content(path)
        if notes["data"] != hashlib.sha256(data).hexdigest():
            return None
        entry = CachedBinary(
            data, dict(notes["symbols"]), str(notes["log"]), notes["read"], int(notes["made"])
        )
        if not include_tracking.are_unchanged(entry.read, entry.made):
            return None
    except path_security.UntrustedFile as error:
        _warn(f"a kernel is compiled anew: {error}")
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    with contextlib.suppress(OSError):
        os.utime(path, follow_symlinks=False)  # marks it as used, for `_prune`
    return entry


def _checksum(notes: dict[str, Any]) -> str:
    whole = {name: value for name, value in notes.items() if name != "notes"}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _put(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".new")  # readable by the owner only
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _prune(folder: Path, keep: Path) -> None:
    """Remove the least recently used entries until the cache is within its limit."""
    for path in folder.glob(".*.new"):  # left by killed writers
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < time.time() - 3600:
                path.unlink()
    entries = []
    for path in folder.glob("*.image"):
        with contextlib.suppress(OSError):
            state = path.lstat()
            entries.append((state.st_mtime, state.st_size, path))
    left = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if left <= _MAX_CACHE_BYTES:
            break
        if path != keep:
            for gone in (path, folder / f"{path.name.partition('.')[0]}.json"):
                with contextlib.suppress(OSError):
                    gone.unlink()
            left -= size
