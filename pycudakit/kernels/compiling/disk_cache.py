"""Compiled kernels on disk, in a folder that nobody else can write to: they are code."""

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

_MAX_CACHE_BYTES = 256 << 20  # bytes


@dataclass(frozen=True, slots=True)
class CachedBinary:
    """What a compiler made and told, the files that it depended on, and when it began, in nanoseconds."""

    data: bytes
    symbols: dict[str, str]
    log: str
    read: include_tracking.States
    made: int


def cache_folder() -> Path:
    """Return where binaries are kept on disk."""
    return Path(calibration_file.cache_folder())


def folder(asked: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder of binaries, made if need be; None if it cannot be, or others may change it."""
    try:
        found = (cache_folder() if asked is None else Path(asked)).absolute() / "images"
        for parent in reversed(found.parents):
            parent.mkdir(mode=0o700, exist_ok=True)
        found.mkdir(mode=0o700, exist_ok=True)
        reason = path_security.why_untrusted_folder(found)
    except (OSError, ValueError, RuntimeError):
        return None
    if reason is not None:
        _warn(f"kernels are compiled anew, and not kept in {found}: {reason}")
        return None
    return found


@functools.cache
def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)


@functools.cache
def _private_folder_of(process: int) -> Path:
    places = (tempfile.gettempdir(), "/dev/shm", "/var/tmp", str(cache_folder().parent))  # noqa: S108
    place = next(
        (one for one in places if os.access(one, os.W_OK) and path_security.runs_code(Path(one))), None
    )
    found = Path(tempfile.mkdtemp(prefix="pycudakit-", dir=place))

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(found, ignore_errors=True)

    atexit.register(remove)
    return found


def private_folder() -> Path:
    """Return a folder that goes when the process ends, where libraries can be loaded if anywhere."""
    return _private_folder_of(os.getpid())


def image_path(folder: Path, key: bytes, data: bytes) -> Path:
    """Return where a binary is; another one of the same key has another place, since both may be loaded."""
    return folder / f"{key.hex()[:32]}.{hashlib.sha256(data).hexdigest()[:32]}.image"


def _notes_path(folder: Path, key: bytes) -> Path:
    return folder / f"{key.hex()[:32]}.json"


def write(folder: Path, key: bytes, found: CachedBinary) -> None:
    """Write a binary, and then what belongs to it; a reader sees all of a file or nothing."""
    notes: dict[str, Any] = {"key": key.hex(), "symbols": found.symbols, "log": found.log}
    notes |= {"read": dict(found.read), "made": found.made}
    notes["data"] = hashlib.sha256(found.data).hexdigest()
    notes["notes"] = _checksum(notes)
    _put(image_path(folder, key, found.data), found.data)
    _put(_notes_path(folder, key), json.dumps(notes).encode())
    _prune(folder, image_path(folder, key, found.data))


def read(folder: Path, key: bytes) -> CachedBinary | None:
    """Return a binary, or None: there is none, it is damaged or not ours, or a header has changed."""
    try:
        notes = json.loads(path_security.content(_notes_path(folder, key)))
        if notes["notes"] != _checksum(notes) or notes["key"] != key.hex():
            return None
        path = folder / f"{key.hex()[:32]}.{notes['data'][:32]}.image"
        data = path_security.content(path)
        if notes["data"] != hashlib.sha256(data).hexdigest():
            return None
        found = CachedBinary(
            data, dict(notes["symbols"]), str(notes["log"]), notes["read"], int(notes["made"])
        )
        if not include_tracking.are_unchanged(found.read, found.made):
            return None
    except path_security.UntrustedFile as error:
        _warn(f"a kernel is compiled anew: {error}")
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    with contextlib.suppress(OSError):
        os.utime(path, follow_symlinks=False)  # it is in use
    return found


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


def _prune(folder: Path, keep: Path) -> None:
    """Remove what was not used for longest, until the rest is no more than is kept."""
    for path in folder.glob(".*.new"):  # of writers that were killed
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < time.time() - 3600:
                path.unlink()
    found = []
    for path in folder.glob("*.image"):
        with contextlib.suppress(OSError):
            state = path.lstat()
            found.append((state.st_mtime, state.st_size, path))
    left = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if left <= _MAX_CACHE_BYTES:
            break
        if path != keep:
            for gone in (path, folder / f"{path.name.partition('.')[0]}.json"):
                with contextlib.suppress(OSError):
                    gone.unlink()
            left -= size
