"""Which engine runs a call, and on which GPUs: what is asked for, and what there is."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import operator
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pycudakit import _loader, _progress, errors

if TYPE_CHECKING:
    from pycudakit._profile import Profile

NAMES = ("auto", "cuda", "cpu", "numpy")
ASKED_FOR = "the engine asked for"  # why a call ran on one of the last three

Devices = Literal["all"] | tuple[int, ...] | None


def _checked(name: str, setting: str) -> str:
    if name not in NAMES:
        known = ", ".join(repr(known) for known in NAMES)
        raise errors.InvalidArgument(f"{setting} is {name!r}; choose one of {known}")
    return name


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for in a context."""

    engine: str | None = None
    devices: Devices = None
    progress: _progress.Asked | None = None
    profiles: tuple[Profile, ...] = ()
    # The engine, for the functions that hand small calls to NumPy at once; a profile is to see those, too.
    shortcut: str | None = field(init=False)
    # The engine, for plain calls: on one GPU at most, and told to nobody.
    plain: str | None = field(init=False)

    def __post_init__(self) -> None:
        usual = self.progress is None and self.devices in (None, (0,))
        object.__setattr__(self, "shortcut", "profiled" if self.profiles else self.engine)
        object.__setattr__(self, "plain", self.shortcut if usual else "watched")


# From weak to strong: the environment's, the process's, the context's.
process: str = os.environ.get("PYCUDAKIT_ENGINE") or "auto"
asked: ContextVar[Asked] = ContextVar("pycudakit_asked", default=Asked())  # noqa: B039  (it is frozen)


def current() -> str:
    """Return the engine that is asked for here."""
    return asked.get().engine or process


def checked_current() -> str:
    """Return the engine that is asked for here, refusing a misspelt PYCUDAKIT_ENGINE."""
    return _checked(current(), "PYCUDAKIT_ENGINE")


@contextmanager
def asking(**changes: Any) -> Iterator[None]:
    """Ask for something else inside a ``with`` block."""
    token = asked.set(dataclasses.replace(asked.get(), **changes))
    try:
        yield
    finally:
        asked.reset(token)


def set_engine(name: str) -> None:
    """Choose the engine for the whole process, every thread of it.

    Parameters
    ----------
    name : {"auto", "cuda", "cpu", "numpy"}
        ``"auto"`` takes for each call the engine that will answer first. The others are strict: a call
        runs there or raises.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.set_engine("cpu")
    >>> pk.add([1, 2], [3, 4])
    array([4, 6])
    >>> pk.set_engine("auto")
    """
    global process  # noqa: PLW0603
    process = _checked(name, "name")


def engine(
    name: str | None = None, *, devices: Any = None, progress: Any = None
) -> AbstractContextManager[None]:
    """Choose the engine for the calls inside a ``with`` block, in this thread or task alone.

    What is None stays as it is outside the block.

    Parameters
    ----------
    name : {"auto", "cuda", "cpu", "numpy"}, optional
        As for `set_engine`, which it overrides. Threads started inside the block don't inherit it.
    devices : "all" or list of int, optional
        The GPUs that share the work of each call on the CUDA engine, by their index in `devices`; at
        first, GPU 0 alone.
    progress : bool or callable, optional
        True shows on stderr, if that is a terminal, how far a call has come that takes longer than a
        second: as a bar of tqdm if that is installed. A callable is called as ``progress(done, total)``,
        in elements, about ten times a second and, when such a call has ended well, with ``done == total``.
        What it raises stops the call, and leaves it.

    Examples
    --------
    >>> import pycudakit as pk
    >>> with pk.engine("cpu"):
    ...     total = pk.add([1.0, 2.0], 0.5)
    >>> total, pk.last_call().engine
    (array([1.5, 2.5]), 'cpu')
    """
    changes: dict[str, Any] = {}
    if name is not None:
        changes["engine"] = _checked(name, "name")
    if devices is not None:
        changes["devices"] = _checked_devices(devices, name or current())
    if progress is not None:
        changes["progress"] = _progress.checked(progress)
    return asking(**changes)


# ---- What there is ---------------------------------------------------------------------------------


class EngineStatus(NamedTuple):
    """Whether an engine can run calls here, and if not, the reason."""

    available: bool
    reason: str

    def __bool__(self) -> bool:
        """Tell whether the engine is available."""
        return self.available


@functools.cache
def status(name: str) -> EngineStatus:
    """Return whether one engine is available; the answer is found once, and again after a device failed."""
    if name in ("numpy", "auto"):
        return EngineStatus(True, f"NumPy {np.__version__}" if name == "numpy" else "always")
    try:
        if name == "cuda":
            devices = device_count()
            return EngineStatus(True, f"{devices} device" + "s" * (devices != 1))
        library = _loader.library(name)
        count, text = ctypes.c_int64(), ctypes.c_char_p()
        library.pk_instruction_set(ctypes.byref(text))
        library.pk_thread_count(ctypes.byref(count))
    except errors.Error as error:
        return EngineStatus(False, str(error))
    threads = f"{count.value} thread" + "s" * (count.value != 1)
    return EngineStatus(True, f"{threads}, {(text.value or b'').decode()}")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=status.cache_clear)  # CUDA does not survive a fork


def engines() -> dict[str, EngineStatus]:
    """Return each engine with whether it can run calls here, or the one plain reason why not.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.engines()["numpy"].available
    True
    >>> sorted(pk.engines())
    ['cpu', 'cuda', 'numpy']
    """
    return {name: status(name) for name in ("cuda", "cpu", "numpy")}


# ---- GPUs ------------------------------------------------------------------------------------------


def device_count() -> int:
    """Return the number of GPUs; `NoDevice`, with the reason, where there is none."""
    count = ctypes.c_int64()
    _loader.library("cuda").pk_device_count(ctypes.byref(count))
    return count.value


def devices_asked() -> tuple[int, ...]:
    """Return the GPUs that a call on the CUDA engine is to use here."""
    devices = asked.get().devices
    return tuple(range(device_count())) if devices == "all" else devices or (0,)


def index_of_device(device: Any) -> int:
    """Return what is given as the index of a GPU, or raise `TypeError`."""
    if isinstance(device, (bool, np.bool_)):
        raise TypeError("a bool is no index of a GPU")
    return operator.index(device)


def _checked_devices(devices: Any, name: str) -> Devices:
    if isinstance(devices, str) and devices == "all":
        return "all"
    indices: tuple[int, ...] = ()
    if isinstance(devices, (list, tuple)):
        try:
            indices = tuple(index_of_device(device) for device in devices)
        except TypeError:
            indices = ()
    count = device_count() if name in ("auto", "cuda") and status("cuda") else None
    below = 2**31 if count is None else count  # an int of CUDA's
    if not indices or len(set(indices)) < len(indices) or not all(0 <= i < below for i in indices):
        there = "" if count is None else f" to {count - 1}"
        raise errors.InvalidArgument(
            f"devices is {devices!r}; choose 'all', or a list of different indices of GPUs, from 0{there}"
        )
    return indices
