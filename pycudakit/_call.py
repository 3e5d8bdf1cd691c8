"""What ran: a record of each thread's last call, and of every call of a profile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pycudakit import _abi, _engine, errors
from pycudakit._machine import link_speed

# The names of the stages, in their order in the ABI.
STAGES = ("stage", "upload", "kernel", "download", "unstage", "compute")


@dataclass(frozen=True)
class Call:
    """What a call did.

    Attributes
    ----------
    function, engine, reason
        What was computed, on which engine, and why there.
    seconds
        How long the call took; None of NumPy's calls outside a profile.
    bytes_up, bytes_down
        What went to the GPUs and came back.
    chunks, threads
        The parts that the work was cut into, and the threads of the host that took part.
    stages
        The seconds in which at least one chunk was in a stage: ``stage`` (copied to pinned memory),
        ``upload``, ``kernel``, ``download`` and ``unstage`` on the engine ``"cuda"``; ``compute`` on
        ``"cpu"``.
    devices
        The indices of the GPUs.
    overlap
        The share of the time in which at least two stages were under way.
    began, spans, spans_left_out
        In a profile: when the call began, on the clock of `time.perf_counter`; each stage of each chunk;
        and how many of those there was no place for.
    """

    function: str
    engine: str
    reason: str
    seconds: float | None = None
    bytes_up: int = 0
    bytes_down: int = 0
    chunks: int = 0
    threads: int = 1
    stages: dict[str, float] = field(default_factory=dict)
    devices: tuple[int, ...] = ()
    overlap: float = 0.0
    began: float | None = field(default=None, compare=False, repr=False)
    spans: np.ndarray[Any, Any] | None = field(default=None, compare=False, repr=False)
    spans_left_out: int = field(default=0, compare=False, repr=False)

    @property
    def link_share(self) -> float | None:
        """The share of the speed of the GPUs' links that the call reached; None where none is known."""
        if self.engine != "cuda" or not self.seconds:
            return None
        try:
            links = [link_speed(device) for device in self.devices]
        except errors.Error:  # of a call that was pickled elsewhere, or a GPU that was lost since
            return None
        up, down = sum(link.up for link in links), sum(link.down for link in links)
        return max(self.bytes_up / up, self.bytes_down / down) / self.seconds


# What a library told of a call: a `Call` is made of it when somebody asks.
Told = tuple[str, str, str, tuple[int, ...], bytes]


class _Local(threading.local):
    call: Call | Told | None = None


local = _Local()


def last_call() -> Call | None:
    """Return what the calling thread's last call did: its engine, why, bytes moved, and time by stage.

    Examples
    --------
    >>> import pycudakit as pk
    >>> with pk.engine("cpu"):
    ...     _ = pk.sqrt([1.0, 4.0])
    >>> pk.last_call().function, pk.last_call().engine
    ('sqrt', 'cpu')
    """
    if isinstance(local.call, tuple):
        local.call = _described(*local.call)
    return local.call


def _described(
    function: str,
    engine: str,
    reason: str,
    devices: tuple[int, ...],
    report: bytes,
    began: float | None = None,
    spans: np.ndarray[Any, Any] | None = None,
) -> Call:
    row = np.frombuffer(report, _abi.REPORT)[0]
    stages = dict(zip(STAGES, row["stage_seconds"].tolist(), strict=True))
    absent = STAGES[: _abi.COMPUTE] if engine == "cpu" else STAGES[_abi.COMPUTE :]
    for name in absent:
        del stages[name]
    seconds, reported = float(row["seconds"]), int(row["spans"])
    kept = None if spans is None else spans[:reported].copy()
    return Call(
        function,
        engine,
        reason,
        seconds,
        bytes_up=int(row["bytes_up"]),
        bytes_down=int(row["bytes_down"]),
        chunks=int(row["chunks"]),
        threads=int(row["threads"]),
        stages=stages,
        devices=devices,
        overlap=float(row["overlap_seconds"]) / seconds if seconds else 0.0,
        began=began,
        spans=kept,
        spans_left_out=0 if kept is None else reported - len(kept),
    )


def collect(told: Told, began: float, spans: np.ndarray[Any, Any]) -> None:
    """Hand a call that a library ran to the profiles; `spans` has a place for each."""
    _collect(_described(*told, began, spans))


def _collect(call: Call) -> None:
    local.call = call
    for profile in _engine.asked.get().profiles:
        profile.calls.append(call)


def add_to_reason(text: str) -> None:
    """Say more of the calling thread's last call."""
    told = local.call
    if isinstance(told, tuple):
        local.call = (*told[:2], f"{told[2]}; {text}", *told[3:])
    elif told is not None:
        local.call = replace(told, reason=f"{told.reason}; {text}")
        for profile in _engine.asked.get().profiles:
            if profile.calls and profile.calls[-1] is told:
                profile.calls[-1] = local.call


def computed(call: Call) -> None:
    """Remember a call that Python has computed itself."""
    _collect(call)


def by_numpy(function: str, reason: str, compute: Callable[[], Any]) -> Any:
    """Compute with NumPy, and remember that."""
    if not _engine.asked.get().profiles:
        local.call = Call(function, "numpy", reason)
        return compute()
    began = time.perf_counter()
    result = compute()
    _collect(Call(function, "numpy", reason, time.perf_counter() - began, began=began))
    return result
