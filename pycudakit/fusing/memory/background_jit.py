"""Background compilation of fused kernels by NVRTC.

Until a program's own kernel is compiled, a generic kernel interprets the program, with the same results bit
for bit. The C library requests a kernel once a program has computed many operations (see `worth_compiling`).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import threading
from typing import Any

import numpy as np

from pycudakit import errors

# For the 128-bit argument reduction of huge angles.
_OPTIONS = ("--device-int128",)

_busy = threading.Lock()  # held while a thread compiles
_worker: threading.Thread | None = None


def compile_requested(library: ctypes.CDLL) -> None:
    """Start to compile the requested kernels in a thread, unless none is requested or a thread is busy."""
    global _worker  # noqa: PLW0603
    if _busy.locked() or not _next_request(library, np.empty(0, np.uint8))[0]:
        return
    if not _busy.acquire(blocking=False):
        return
    # Not a daemon thread: NVRTC must not run while the process exits.
    _worker = threading.Thread(target=_compile_all, args=(library,), name="pycudakit-compile", daemon=False)
    try:
        _worker.start()
    except RuntimeError:  # too many threads, or the interpreter is shutting down
        _busy.release()


def is_compiling() -> bool:
    """Return True if kernels are being compiled."""
    return _busy.locked()


def wait() -> None:
    """Wait until the running compilation ends."""
    if _worker is not None and _worker.ident is not None:
        _worker.join()


def _next_request(library: ctypes.CDLL, source: Any) -> tuple[int, int]:
    """Return the size and the id of the next requested source; write it to `source` if it fits."""
    size, request_id = ctypes.c_int64(), ctypes.c_uint64()
    library.pk_jit_request(source, len(source), ctypes.byref(size), ctypes.byref(request_id))
    return size.value, request_id.value


def _compile_all(library: ctypes.CDLL) -> None:
    try:
        source = np.empty(1 << 18, np.uint8)
        while True:
            size, request_id = _next_request(library, source)
            if size > len(source):
                source = np.empty(2 * size, np.uint8)
            elif size:
                image = _compiled(source[:size].tobytes().decode())
                library.pk_jit_install(request_id, np.frombuffer(image or b"\0", np.uint8), len(image))
            else:
                return
    except errors.Error:  # the GPU is lost: the kernels are no longer needed
        return
    finally:
        _busy.release()


def _compiled(text: str) -> bytes:
    """Compile a source; return its binary, empty if that fails: the interpreter kernel runs instead."""
    cache = importlib.import_module("pycudakit.kernels.compiling.cache")
    source = importlib.import_module("pycudakit.kernels.compiling.source")
    with contextlib.suppress(errors.Error):
        kernel = source.Signature("pass", (), 1)
        request = source.Source(text, "pass", _OPTIONS, (), True, False, cache.arch(0), (kernel,))
        image: bytes = cache.get(request, "cuda").binary.data
        return image
    return b""
