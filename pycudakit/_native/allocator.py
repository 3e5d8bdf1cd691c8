"""New arrays for large results, in memory that results left which are no more."""

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

MIN_BYTES = 8 << 20  # bytes; less is kept by malloc itself, in pages that are in use all along

# Of NumPy's table of C functions, at these places since NumPy 1.22.
_SET_HANDLER, _GET_HANDLER, _DEFAULT_HANDLER = 304, 305, 306


def library() -> ctypes.CDLL | None:
    """Return the library whose memory results have, if there is one."""
    return next((loader.library(name) for name in ("cpu", "cuda") if engine_status.status(name)), None)


class _Handlers:
    """NumPy's own way to have arrays' memory from elsewhere (NEP 49), which leaves them ordinary."""

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
        # NumPy's own name, which outlives every array as ours would not.
        self.pooled = capsule(allocator.value, name_of(self.default), None)


@functools.cache
def _handlers() -> _Handlers | None:
    owner = library() if hasattr(ctypes, "pythonapi") else None
    return None if owner is None else _Handlers(owner)


def with_result_allocator(size: int, make: Callable[[], Any]) -> Any:
    """Make an array in such memory, if so many bytes are worth it, and the user has set no other."""
    handlers = _handlers() if size >= MIN_BYTES else None
    if handlers is None or handlers.get() is not handlers.default:
        return make()
    # NumPy keeps its choice in the context, and C puts that back, whatever a signal's handler raises.
    return contextvars.copy_context().run(_run_with_allocator, handlers, make)


def _run_with_allocator(handlers: _Handlers, make: Callable[[], Any]) -> Any:
    handlers.set(handlers.pooled)
    return make()


def empty(shape: int | Sequence[int], dtype: Any, scalar_may_stay: bool = False) -> np.ndarray[Any, Any]:
    """Return a new array, C-contiguous, whose elements mean nothing yet.

    One without dimensions is for the host to look at, unless it may stay on a device that nobody waits for.
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
    on_new_array: Callable[[np.ndarray[Any, Any]], None] | None = None
    on_host_access: Callable[[np.ndarray[Any, Any], bool], None] | None = None
    may_stay_on_device: Callable[[np.ndarray[Any, Any]], bool] | None = None
    refuse_numpy = False
    checks_errors = True


residency_hooks = _ResidencyHooks()


def may_be_on_device() -> bool:
    """Tell whether arrays of the call may lie on a device, and not on the host."""
    return residency_hooks.on_host_access is not None


def stays_on_device(array: np.ndarray[Any, Any]) -> bool:
    """Tell whether a result may lie on a device alone, where who asked for it expects it."""
    return residency_hooks.may_stay_on_device is not None and residency_hooks.may_stay_on_device(array)


def checks_errors(array: np.ndarray[Any, Any]) -> bool:
    """Tell whether a result is looked at for what there is to warn of: not where nobody waits for it."""
    return residency_hooks.checks_errors or not stays_on_device(array)


def access_on_host(*arrays: np.ndarray[Any, Any], will_change: bool = False) -> None:
    """Say that elements are about to be looked at on the host, or changed, beside what entries do."""
    if residency_hooks.on_host_access is not None:
        for array in arrays:
            residency_hooks.on_host_access(array, will_change)


class NumPyRefusedError(Exception):
    """A call is NumPy's after all, and its arrays may lie on a device alone."""


def check_numpy_is_allowed() -> None:
    """Say that NumPy is about to compute a call."""
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
    """Tell somebody of arrays that `empty` makes in a block, before they are written to, and of looks.

    `hides` tells of a result whether it may lie on a device alone: where what is called returns it, and is
    no part of what looks at it. Where arguments may, too, calls that are NumPy's are to be `left_home`: they
    raise. Unless they are heeded, nobody is told what results are.
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
