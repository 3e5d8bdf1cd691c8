"""The execution context: the engine, GPUs, progress and profiles in force for calls in a thread or task."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast, get_args

from pycudakit import errors
from pycudakit._native import engine_status
from pycudakit._runtime.progress import ProgressSetting, checked_progress

EngineName = Literal["auto", "cuda", "cpu", "numpy"]
ENGINE_NAMES: tuple[EngineName, ...] = get_args(EngineName)
NO_FAST_PATH = "watched"  # in place of an engine: calls are observed and must take the general path
REASON_ENGINE_REQUESTED = "the requested engine"  # the reason of a call on a named engine
REASON_CUDA_FAILED = "auto: the CUDA engine failed"  # of a call that the CPU engine took over

Devices = Literal["all"] | tuple[int, ...] | None
Fallback = Literal["numpy"] | None


def _checked(name: Any, setting: str) -> EngineName:
    if name not in ENGINE_NAMES:
        known = ", ".join(repr(known) for known in ENGINE_NAMES)
        raise errors.InvalidArgument(f"{setting} is {name!r}; choose one of {known}")
    return cast("EngineName", name)


def _checked_fallback(fallback: Any) -> Fallback:
    if fallback not in (None, "numpy"):
        raise errors.InvalidArgument(f"fallback is {fallback!r}; choose 'numpy', or None for no fallback")
    return fallback  # type: ignore[no-any-return]


class Preference(NamedTuple):
    """The engine that `auto` takes for the calls that it supports, instead of comparing estimates.

    Without `over_numpy`, it does so only where NumPy is not estimated to be fastest.
    """

    engine: str  # "cpu" or "cuda"
    reason: Any
    over_numpy: bool = True


@dataclass(frozen=True, slots=True)
class CallContext:
    """The settings in force in a context."""

    engine: str | None = None
    devices: Devices = None
    progress: ProgressSetting | None = None
    profiles: tuple[list[Any], ...] = ()  # the lists of calls that the enclosing `profile` blocks collect
    wait: bool = False  # synchronize calls on device arrays
    fallback: Fallback = None  # of the named engine
    indices_in_bounds: bool = False  # the caller guarantees it, and `take` need not check
    preference: Preference | None = None
    # In whose name floating-point errors are reported; None: that of each function that has them.
    reported_function: str | None = None
    # The engine, if calls may take the fast path: on one GPU at most, without progress or profile.
    fast_path_engine: str | None = field(init=False)

    def __post_init__(self) -> None:
        is_plain = self.progress is None and not self.profiles and self.devices in (None, (0,))
        object.__setattr__(self, "fast_path_engine", self.engine if is_plain else NO_FAST_PATH)


# The engine: the context's takes precedence over the process's, and that over the environment's.
process_engine: EngineName = cast("EngineName", os.environ.get("PYCUDAKIT_ENGINE") or "auto")
process_fallback: Fallback = None
_unchanged = nullcontext()
current_context: ContextVar[CallContext] = ContextVar("pycudakit_context", default=CallContext())  # noqa: B039  (it is frozen)


def current_engine() -> str:
    """Return the engine in force."""
    return current_context.get().engine or process_engine


def falls_back() -> bool:
    """Return True if NumPy may compute the calls that the named engine does not support."""
    context = current_context.get()
    return (context.fallback or (process_fallback if context.engine is None else None)) is not None


def without_fallback() -> AbstractContextManager[None]:
    """Make the named engine strict inside a ``with`` block."""
    return override(engine=current_engine(), fallback=None) if falls_back() else _unchanged


def fast_path_engine() -> str:
    """Return the engine in force for calls on the fast path, or `NO_FAST_PATH` if they must not take it."""
    return current_context.get().fast_path_engine or process_engine


def checked_engine(engine: str) -> str:
    """Return the engine; raise if it is a misspelt PYCUDAKIT_ENGINE."""
    return _checked(engine, "PYCUDAKIT_ENGINE")


def checked_current_engine() -> str:
    """Return the engine in force; raise if it is a misspelt PYCUDAKIT_ENGINE."""
    return checked_engine(current_engine())


def is_only_numpy(engine: str) -> bool:
    """Return True if NumPy computes every call: it is the named engine, or `auto` has no other."""
    if engine != "auto":
        return engine == "numpy"
    return not (engine_status.status("cpu").available or engine_status.status("cuda").available)


@functools.lru_cache(1024)
def preferring(context: CallContext, preference: Preference) -> CallContext:
    """Return a context with a preference."""
    return dataclasses.replace(context, preference=preference)


@contextmanager
def override(**changes: Any) -> Iterator[None]:
    """Override settings of the context inside a ``with`` block."""
    token = current_context.set(dataclasses.replace(current_context.get(), **changes))
    try:
        yield
    finally:
        current_context.reset(token)


def set_engine(name: EngineName, fallback: Fallback = None) -> None:
    """Choose the engine for the whole process, every thread of it.

    Parameters
    ----------
    name : {"auto", "cuda", "cpu", "numpy"}
        ``"auto"`` takes for each call the engine that is expected to be fastest. The others are strict: a
        call runs there or raises.
    fallback : {None, "numpy"}, optional
        ``"numpy"`` lets NumPy compute the calls that a named engine does not support, instead of raising
        `errors.Unsupported`; `last_call` and profiles report them.

    See Also
    --------
    engine, engines

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.set_engine("cpu")
    >>> pk.add([1, 2], [3, 4])
    array([4, 6])
    >>> pk.set_engine("auto")
    """
    global process_engine, process_fallback
    fallback = _checked_fallback(fallback)
    process_engine, process_fallback = _checked(name, "name"), fallback


def engine(
    name: EngineName | None = None,
    *,
    fallback: Fallback = None,
    devices: Any = None,
    progress: Any = None,
    wait: bool | None = None,
) -> AbstractContextManager[None]:
    """Choose the engine for the calls inside a ``with`` block, in this thread or task alone.

    A setting that is None stays as it is outside the block.

    Parameters
    ----------
    name : {"auto", "cuda", "cpu", "numpy"}, optional
        As for `set_engine`, which it overrides. Threads started inside the block don't inherit it.
    fallback : {None, "numpy"}, optional
        As for `set_engine`. A `name` without it is strict, whatever the fallback outside the block.
    devices : "all" or list of int, optional
        The GPUs that share the work of each call on the CUDA engine, by their index in `devices`; GPU 0
        alone by default.
    progress : bool or callable, optional
        True shows the progress of calls that take longer than a second on stderr, if that is a terminal or a
        notebook: as a bar of tqdm if that is installed. A callable is called as ``progress(done, total)``,
        in elements, about ten times a second and, when such a call has succeeded, with ``done == total``.
        An exception that it raises stops the call, and propagates.
    wait : bool, optional
        Whether calls on device arrays are synchronous: they return when they are done, not when they are
        enqueued.

    Returns
    -------
    context manager

    See Also
    --------
    set_engine, engines, last_call

    Examples
    --------
    >>> import pycudakit as pk
    >>> with pk.engine("cpu"):
    ...     total = pk.add([1.0, 2.0], 0.5)
    >>> total, pk.last_call().engine
    (array([1.5, 2.5]), 'cpu')
    >>> with pk.engine("cpu", fallback="numpy"):
    ...     total = pk.add([1j], 1)
    >>> pk.last_call().engine
    'numpy'
    """
    changes: dict[str, Any] = {}
    fallback = _checked_fallback(fallback)
    if name is not None:
        changes.update(engine=_checked(name, "name"), fallback=fallback)
    elif fallback is not None:
        changes["fallback"] = fallback
    if devices is not None:
        changes["devices"] = _checked_devices(devices, name or current_engine())
    if progress is not None:
        changes["progress"] = checked_progress(progress)
    if wait is not None:
        changes["wait"] = bool(wait)
    return override(**changes)


# ---- GPUs ------------------------------------------------------------------------------------------


def current_devices() -> tuple[int, ...]:
    """Return the GPUs in force for calls on the CUDA engine."""
    devices = current_context.get().devices
    return tuple(range(engine_status.device_count())) if devices == "all" else devices or (0,)


def _checked_devices(devices: Any, name: str) -> Devices:
    if isinstance(devices, str) and devices == "all":
        return "all"
    indices: tuple[int, ...] = ()
    if isinstance(devices, (list, tuple)):
        try:
            indices = tuple(engine_status.index_of_device(device) for device in devices)
        except TypeError:
            indices = ()
    count = (
        engine_status.device_count() if name in ("auto", "cuda") and engine_status.status("cuda") else None
    )
    below = 2**31 if count is None else count  # CUDA's device index is an int
    if not indices or len(set(indices)) < len(indices) or not all(0 <= i < below for i in indices):
        upper = "" if count is None else f" to {count - 1}"
        raise errors.InvalidArgument(
            f"devices is {devices!r}; choose 'all', or a list of different indices of GPUs, from 0{upper}"
        )
    return indices
