"""What the families other than the elementwise one share: which engine runs a call, and how it runs there."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pycudakit import _abi, _call, _cost, _engine, _execute, _loader, _machine, _watch, errors
from pycudakit._arguments import as_argument
from pycudakit._progress import CallProgress
from pycudakit._values import Array, DType, code_of


class Cost(NamedTuple):
    """What a call is guessed to take.

    Seconds in NumPy (None if it may not go there) and on the CPU engine; for the CUDA engine, the bytes that
    go up and down, and seconds of work that no transfer hides.
    """

    numpy: float | None
    cpu: float
    up: int
    down: int
    gpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a call runs, and why."""

    function: str
    engine: str  # "numpy", "cpu" or "cuda"
    reason: str
    automatic: bool = False


def as_array(value: Any) -> Array | None:
    """Return an ordinary array that the engines can compute with, or None for what is NumPy's alone."""
    array = as_argument(value)
    return array if array is None or isinstance(array, np.ndarray) else np.asarray(array)


def describe(row: Any, array: Array, strides: Sequence[int]) -> None:
    """Fill a row of an operand table."""
    row["address"] = _abi.address_of(array)
    row["type"] = code_for(array.dtype)
    row["flags"] = 0 if array.dtype.isnative else _abi.BYTE_SWAPPED
    row["strides"][: len(strides)] = strides


def code_for(dtype: DType) -> int:
    """Return the pk_type of a dtype, or what the libraries refuse."""
    code = code_of(dtype)
    return -1 if code is None else code


def plan(function: str, values: Iterable[Any], cost: Cost, foreign: str | None = None) -> Plan:
    """Choose the engine of a call.

    Parameters
    ----------
    function
        NumPy's name of what is computed.
    values
        What `as_array` made of the arguments: None stands for one that is NumPy's alone, which `auto` leaves
        to it and which raises `Unsupported` where an engine is forced.
    cost
        What `auto` decides by.
    foreign
        Why this call is NumPy's alone, if it is for another reason.
    """
    engine = _engine.checked_current()
    if engine == "numpy":
        return Plan(function, "numpy", _engine.ASKED_FOR)
    automatic = engine == "auto"
    if not automatic:
        _loader.library(engine)  # or NoDevice, before anything else can be wrong
    elif not (_engine.status("cpu") or _engine.status("cuda")):
        return Plan(function, "numpy", f"auto: {_engine.status('cpu').reason}")
    if foreign is None and any(value is None for value in values):
        foreign = "it takes bool, integers and floats of up to 64 bits"
    if foreign is not None:
        if automatic:
            return Plan(function, "numpy", f"auto: only NumPy takes this: {foreign}")
        raise errors.Unsupported(
            f"{function}: not on the {engine} engine: {foreign}; convert it, or use the engine 'auto'"
        )
    if automatic:
        return _choose(function, cost)
    return Plan(function, engine, _engine.ASKED_FOR)


def numpys(function: str, compute: Callable[[], Any], foreign: str | None = None) -> Any:
    """Have NumPy compute what it alone takes, if the engine in force allows it.

    That is for an argument of which `as_array` made None, or because the call is `foreign`.
    """
    chosen = plan(function, [None] if foreign is None else [], Cost(0.0, 0.0, 0, 0), foreign)
    return _call.by_numpy(function, chosen.reason, compute)


def _choose(function: str, cost: Cost) -> Plan:
    if cost.numpy is not None and cost.numpy <= cost.cpu:
        return Plan(function, "numpy", _cost.SMALL)
    worth_it = cost.cpu > _cost.WORTH_WAKING or _machine.link_is_known()
    if worth_it and _engine.status("cuda"):
        on_cuda = _cost.cuda_seconds(cost.up, cost.down) + cost.gpu
        if on_cuda < cost.cpu or not _engine.status("cpu"):
            reason = f"auto: about {on_cuda * 1e3:.3g} ms, against {cost.cpu * 1e3:.3g} ms on the CPU"
            return Plan(function, "cuda", reason, automatic=True)
    return Plan(function, "cpu", _cost.CPU_FIRST, automatic=True)


def run(plan: Plan, entry: str, *arguments: Any, size: int) -> int:
    """Call an entry of the plan's library with these arguments, pk_options and pk_report; record the call.

    Returns the report's `exceptions`. What the entry writes must be nothing that it reads: under `auto`, the
    CPU engine does the whole of a call that failed on the CUDA engine.
    """
    try:
        return _run_watched(plan, entry, arguments, size)
    except (errors.NoDevice, errors.OutOfMemory, errors.DeviceError) as error:
        if not plan.automatic or plan.engine != "cuda":
            raise
        _execute.warn_of_takeover(error)
        on_cpu = Plan(plan.function, "cpu", "auto: the CUDA engine failed")
        return _run_watched(on_cpu, entry, arguments, size)


def _run_watched(plan: Plan, entry: str, arguments: tuple[Any, ...], size: int) -> int:
    progress = _engine.asked.get().progress
    watcher = _watch.take()
    if progress is None:
        return _run_entry(plan, entry, arguments, watcher)
    with CallProgress(progress, plan.function, size) as watcher.progress:
        return _run_entry(plan, entry, arguments, watcher)


def _run_entry(plan: Plan, entry: str, arguments: tuple[Any, ...], watcher: _watch.Watcher) -> int:
    devices = _engine.devices_asked() if plan.engine == "cuda" else ()
    indices = np.array(devices, np.int64)
    spans = np.empty(_execute.SPANS, _abi.SPAN) if _engine.asked.get().profiles else None
    options, report = np.zeros(1, _abi.OPTIONS), np.empty(1, _abi.REPORT)
    options["watch"] = watcher.address
    options["devices"], options["device_count"] = indices.ctypes.data, len(indices)
    if spans is not None:
        options["spans"], options["span_capacity"] = spans.ctypes.data, len(spans)
    began = time.perf_counter()
    function = getattr(_loader.library(plan.engine), entry)
    _execute.call_watched(functools.partial(function, *arguments, options, report), watcher)
    told = plan.function, plan.engine, plan.reason, devices, report.tobytes()
    _call.local.call = told
    if spans is not None:
        _call.collect(told, began, spans)
    return int(report["exceptions"][0])
