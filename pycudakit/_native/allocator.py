"""The allocator of results: large arrays reuse the memory of freed results (NEP 49), through a C pool.

The module also holds the hooks (`_ResidencyHooks`) by which fused functions learn of new results and of host
accesses, so that results may stay in device memory.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import functools
import importlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pycudakit._native import engine_status, loader

MIN_BYTES = 8 << 20  # smaller arrays come from malloc, which reuses its pages itself

# Indices in NumPy's table of C functions, since NumPy 1.22.
_SET_HANDLER, _GET_HANDLER, _DEFAULT_HANDLER = 304, 305, 306


def library() -> ctypes.CDLL | None:
    """Return the library whose pool serves results, or None."""
    return next((loader.library(name) for name in ("cpu", "cuda") if engine_status.status(name)), None)


class _Handlers:
    """NumPy's allocator interface (NEP 49): its get and set functions, its default, and our pool."""

    def __init__(self, owner: ctypes.CDLL) -> None:
        python = ctypes.pythonapi
        exported = vars(importlib.import_module("numpy._core._multiarray_umath"))["_ARRAY_API"]
        pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
            ("PyCapsule_GetPointer", python)
        )
        name_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyCapsule_GetName", python))
        capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
            ("PyCapsule_New", python)
        )
        table = ctypes.cast(pointer_of(exported, None), ctypes.POINTER(ctypes.c_void_p))
        self.set = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
        self.get = ctypes.PYFUNCTYPE(ctypes.py_object)(table[_GET_HANDLER])
        self.default = ctypes.cast(table[_DEFAULT_HANDLER], ctypes.POINTER(ctypes.py_object))[0]
        allocator = ctypes.c_uint64()
        owner.pk_result_allocator(ctypes.byref(allocator))
        # The capsule's name must outlive every array, so it is NumPy's own string.
        self.pooled = capsule(allocator.value, name_of(self.default), None)


@functools.cache
def _handlers() -> _Handlers | None:
    owner = library() if hasattr(ctypes, "pythonapi") else None
    return None if owner is None else _Handlers(owner)


def with_result_allocator(size: int, make: Callable[[], Any]) -> Any:
    """Call `make` with the pool as NumPy's allocator, if the result is large and no other is set."""
    handlers = _handlers() if size >= MIN_BYTES else None
    if handlers is None or handlers.get() is not handlers.default:
        return make()
    # NumPy stores the allocator in a context variable; leaving the context restores it even if a signal
    # handler raises.
    return contextvars.copy_context().run(_run_with_allocator, handlers, make)


def _run_with_allocator(handlers: _Handlers, make: Callable[[], Any]) -> Any:
    handlers.set(handlers.pooled)
    return make()


def empty(shape: int | Sequence[int], dtype: Any, scalar_may_stay: bool = False) -> np.ndarray[Any, Any]:
    """Return a new, uninitialized, C-contiguous array, and announce it to the residency hooks.

    A 0-d array is not announced, since the host will read it, unless `scalar_may_stay` and the caller accepts
    results that stay on the device.
    """
    size = shape if isinstance(shape, int) else math.prod(shape)
    bytes_ = size * np.dtype(dtype).itemsize
    array = (
        np.empty(shape, dtype)
        if bytes_ < MIN_BYTES
        else with_result_allocator(bytes_, lambda: np.empty(shape, dtype))
    )
    stays = array.ndim != 0 or (
        scalar_may_stay
        and not residency_hooks.checks_errors
        and residency_hooks.may_stay_on_device is not None
    )
    if stays and residency_hooks.on_new_array is not None:
        residency_hooks.on_new_array(array)
    return array


class _ResidencyHooks(threading.local):
    """Hooks that are in force in a thread; see `hooked`."""

    on_new_array: Callable[[np.ndarray[Any, Any]], None] | None = None
    on_host_access: Callable[[np.ndarray[Any, Any], bool], None] | None = None
    may_stay_on_device: Callable[[np.ndarray[Any, Any]], bool] | None = None
    refuse_numpy = False
    checks_errors = True


residency_hooks = _ResidencyHooks()


def may_be_on_device() -> bool:
    """Return True if arrays of the running call may be device-resident."""
    return residency_hooks.on_host_access is not None


def stays_on_device(array: np.ndarray[Any, Any]) -> bool:
    """Return True if the caller accepts that a result stays on the device."""
    return residency_hooks.may_stay_on_device is not None and residency_hooks.may_stay_on_device(array)


def checks_errors(array: np.ndarray[Any, Any]) -> bool:
    """Return True if a result is checked for NaN and infinity: not in asynchronous calls."""
    return residency_hooks.checks_errors or not stays_on_device(array)


def access_on_host(*arrays: np.ndarray[Any, Any], will_change: bool = False) -> None:
    """Announce that the host will read elements of arrays, or change them, outside of native calls."""
    if residency_hooks.on_host_access is not None:
        for array in arrays:
            residency_hooks.on_host_access(array, will_change)


class NumPyRefusedError(Exception):
    """The call would fall back to NumPy, but its arrays may be device-resident."""


def check_numpy_is_allowed() -> None:
    """Raise `NumPyRefusedError` if the call must not fall back to NumPy."""
    if residency_hooks.refuse_numpy:
        raise NumPyRefusedError


@contextlib.contextmanager
def hooked(
    on_new_array: Callable[[np.ndarray[Any, Any]], None],
    on_host_access: Callable[[np.ndarray[Any, Any], bool], None],
    may_stay_on_device: Callable[[np.ndarray[Any, Any]], bool] | None = None,
    refuse_numpy: bool = False,
    checks_errors: bool = True,
) -> Iterator[None]:
    """Install residency hooks in this thread for a ``with`` block.

    Parameters
    ----------
    on_new_array
        Called with each array that `empty` returns, before it is written.
    on_host_access
        Called before the host accesses an array; the second argument is True if the host will change it.
    may_stay_on_device
        Returns True if the caller accepts that a result stays on the device.
    refuse_numpy
        Raise instead of falling back to NumPy, because arguments may be device-resident.
    checks_errors
        False skips floating-point checks that would synchronize.
    """
    outer = vars(residency_hooks).copy()
    vars(residency_hooks).update(
        on_new_array=on_new_array,
        on_host_access=on_host_access,
        may_stay_on_device=may_stay_on_device,
        refuse_numpy=refuse_numpy,
        checks_errors=checks_errors,
    )
    try:
        yield
    finally:
        vars(residency_hooks).clear()
        vars(residency_hooks).update(outer)
