"""Passes that NVRTC compiles in the background: until they are there, the interpreter gives the same bits."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import threading
from typing import Any

import numpy as np

from pycudakit import errors

# For the 128 bits in which huge angles are reduced.
_OPTIONS = ("--device-int128",)

_busy = threading.Lock()  # while a thread compiles
_worker: threading.Thread | None = None


def compile_requested(library: ctypes.CDLL) -> None:
    """Begin to compile the passes that have done much work, if there are any and nobody does."""
    global _worker  # noqa: PLW0603
    if _busy.locked() or not _wanted(library, np.empty(0, np.uint8))[0]:
        return
    if not _busy.acquire(blocking=False):
        return
    # The process waits for it at its end: NVRTC would not survive that.
    _worker = threading.Thread(target=_compile_all, args=(library,), name="pycudakit-compile", daemon=False)
    try:
        _worker.start()
    except RuntimeError:  # there are too many threads, or the process ends
        _busy.release()


def wait() -> None:
    """Wait for the passes that are being compiled."""
    if _worker is not None and _worker.ident is not None:
        _worker.join()


def _wanted(library: ctypes.CDLL, source: Any) -> tuple[int, int]:
    """Return the bytes and the number of the source that comes next, which is written if there is room."""
    size, number = ctypes.c_int64(), ctypes.c_uint64()
    library.pk_plan_jit_request(source, len(source), ctypes.byref(size), ctypes.byref(number))
    return size.value, number.value


def _compile_all(library: ctypes.CDLL) -> None:
    try:
        source = np.empty(1 << 18, np.uint8)
        while True:
            size, number = _wanted(library, source)
            if size > len(source):
                source = np.empty(2 * size, np.uint8)
            elif size:
                image = _compiled(source[:size].tobytes().decode())
                library.pk_plan_jit_install(number, np.frombuffer(image or b"\0", np.uint8), len(image))
            else:
                return
    except errors.Error:  # of a GPU that is lost: then nobody waits for it
        return
    finally:
        _busy.release()


def _compiled(text: str) -> bytes:
    """Return the image of a source; an empty one where it cannot be had: the interpreter serves as well."""
    cache = importlib.import_module("pycudakit.kernels.compiling.cache")
    source = importlib.import_module("pycudakit.kernels.compiling.source")
    with contextlib.suppress(errors.Error):
        kernel = source.Signature("pass", (), 1)
        asked = source.Source(text, "pass", _OPTIONS, (), True, False, cache.arch(0), (kernel,))
        image: bytes = cache.get(asked, "cuda").binary.data
        return image
    return b""
