"""The engines that are available in this process, and the number of GPUs."""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import warnings
from typing import Any, NamedTuple

import numpy as np

from pycudakit import errors
from pycudakit._native import loader
from pycudakit._native.formatting import html_table


class EngineStatus(NamedTuple):
    """Whether an engine is available, and if not, the reason."""

    available: bool
    reason: str

    def __bool__(self) -> bool:
        """Return True if the engine is available."""
        return self.available


class EngineStatuses(dict[str, EngineStatus]):
    """The status of each engine: a dict, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        rows = [(name, "yes" if each else "no", each.reason) for name, each in self.items()]
        return html_table(["engine", "available", ""], rows)


@functools.cache
def status(name: str) -> EngineStatus:
    """Return the status of one engine. It is cached until a device fails.

    Warns if an engine is missing that should be available, since `auto` goes on without it.
    """
    engine_status, is_broken = _probe(name)
    if is_broken:
        text = f"the {name} engine is missing, and others compute instead: {engine_status.reason}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return engine_status


def _probe(name: str) -> tuple[EngineStatus, bool]:
    """Return the status of an engine, and whether it is missing although it should be available."""
    if name in ("numpy", "auto"):
        return EngineStatus(True, f"NumPy {np.__version__}" if name == "numpy" else "always"), False
    try:
        library = loader.library(name)
    except errors.NoDevice as error:
        return EngineStatus(False, str(error)), loader.is_broken(name)
    try:
        if name == "cuda":
            devices = device_count()
            return EngineStatus(True, f"{devices} device" + "s" * (devices != 1)), False
        count, text = ctypes.c_int64(), ctypes.c_char_p()
        library.pk_instruction_set(ctypes.byref(text))
        library.pk_thread_count(ctypes.byref(count))
    except errors.OutOfMemory:
        raise  # the engine is available, and a later call may have more memory
    except errors.Error as error:
        return EngineStatus(False, str(error)), name == "cpu"
    threads = f"{count.value} thread" + "s" * (count.value != 1)
    return EngineStatus(True, f"{threads}, {(text.value or b'').decode()}"), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=status.cache_clear)  # CUDA does not survive a fork


def engines() -> dict[str, EngineStatus]:
    """Return the status of each engine: whether it is available, or the reason why not.

    Returns
    -------
    dict of str to EngineStatus
        Notebooks show it as a table.

    See Also
    --------
    devices, build_info, engine

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.engines()["numpy"].available
    True
    >>> sorted(pk.engines())
    ['cpu', 'cuda', 'numpy']
    """
    return EngineStatuses({name: _probe(name)[0] for name in ("cuda", "cpu", "numpy")})


def device_count() -> int:
    """Return the number of GPUs; raise `NoDevice`, with the reason, if there is none."""
    count = ctypes.c_int64()
    loader.library("cuda").pk_device_count(ctypes.byref(count))
    return count.value


def index_of_device(device: Any) -> int:
    """Return the index of a GPU as an int, or raise `TypeError`."""
    if isinstance(device, (bool, np.bool_)):
        raise TypeError("a bool is no index of a GPU")
    return operator.index(device)
