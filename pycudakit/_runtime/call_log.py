"""The record of a call: `Call`, made of the report that a library fills, or combined from several calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pycudakit import errors
from pycudakit._native import abi
from pycudakit._native.engine_status import EngineStatus
from pycudakit._native.formatting import format_seconds, html_table
from pycudakit._native.hardware import link_speed
from pycudakit._runtime import context

# The names of the stages of the pipeline, in their order in the ABI.
STAGES = ("stage", "upload", "kernel", "download", "unstage", "compute")


@dataclass(frozen=True)
class Call:
    """The record of one call: the engine, the reason, the bytes moved, and the time of each stage.

    Attributes
    ----------
    function, engine, reason
        The function, the engine that ran it, and the reason for that engine.
    seconds
        The wall time of the call; None for small calls that `auto` hands to NumPy, outside a profile.
    bytes_up, bytes_down
        The bytes uploaded to the GPUs and downloaded from them.
    chunks, threads
        The number of chunks of the work, and of the host threads that took part.
    stages
        The seconds in which at least one chunk was in a stage: ``stage`` (copy to pinned memory),
        ``upload``, ``kernel``, ``download`` and ``unstage`` on the engine ``"cuda"``; ``compute`` on
        ``"cpu"``.
    devices
        The indices of the GPUs.
    overlap
        The fraction of the time in which at least two stages overlapped.
    began, spans, spans_left_out
        In a profile: the start of the call, on the clock of `time.perf_counter`; the span of each stage of
        each chunk; and the number of spans beyond the capacity.
    passes
        The fused kernels of a fused function, in order, each as a call of its own.
    rest
        The other parts of a fused function's time, as one call named "NumPy", of the functions that NumPy
        computed for the trace, and one named "Python and other libraries".
    breaks
        The graph breaks of a fused function.
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
    passes: tuple[Call, ...] = field(default=(), compare=False, repr=False)
    rest: tuple[Call, ...] = field(default=(), compare=False, repr=False)
    breaks: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    @property
    def link_share(self) -> float | None:
        """The fraction of the link's speed that the call reached; None if the speed is unknown."""
        if self.engine != "cuda" or not self.seconds:
            return None
        try:
            links = [link_speed(device) for device in self.devices]
        except errors.Error:  # the call was pickled on another machine, or the GPU was lost since
            return None
        up, down = sum(link.up for link in links), sum(link.down for link in links)
        return max(self.bytes_up / up, self.bytes_down / down) / self.seconds

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        rows = [("function", self.function), ("engine", self.engine), ("reason", self.reason)]
        if self.seconds is not None:
            rows.append(("time", format_seconds(self.seconds)))
        moved = {"uploaded": self.bytes_up, "downloaded": self.bytes_down}
        rows += [(name, f"{count / 1e6:,.1f} MB") for name, count in moved.items() if count]
        rows += [(stage, format_seconds(seconds)) for stage, seconds in self.stages.items()]
        rows += [
            (f"pass {n}", f"{one.function}, {format_seconds(one.seconds or 0.0)}")
            for n, one in enumerate(self.passes, 1)
        ]
        return html_table([], rows)


_REQUESTED = context.REASON_ENGINE_REQUESTED
_MAX_BREAKS_SHOWN = 3  # graph breaks that a reason names


class Estimates(NamedTuple):
    """The seconds on each engine that `auto` compared for a call; `str` makes the reason of them.

    `numpy_below` is the number of elements below which NumPy is fastest, if that is known. With `by_size`,
    the choice is NumPy's, and holds for all calls of a similar size. `measured` are the engines that were
    measured; the others were estimated.
    """

    engine: str
    numpy: float | None
    cpu: float | None
    cuda: float | None
    cuda_status: EngineStatus
    numpy_below: float = 0.0
    by_size: bool = False
    measured: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return the reason."""
        estimates = {"numpy": self.numpy, "cpu": self.cpu, "cuda": self.cuda}
        known = {name: seconds for name, seconds in estimates.items() if seconds not in (None, math.inf)}
        ordered = sorted(known, key=lambda name: (name != self.engine, known[name]))
        times = [(f"{name} {_milliseconds(known[name])}", name in self.measured) for name in ordered]
        measured = ", ".join([time for time, is_measured in times if is_measured])
        estimated = ", ".join([time for time, is_measured in times if not is_measured])
        if measured:
            measured += " (measured)"
            estimated = estimated and f", {estimated} (estimated)"
        reason = f"auto: {measured}{estimated}"
        if 1 <= self.numpy_below < math.inf:
            reason += f" (numpy below {self.numpy_below:,.0f} elements)"
        if not self.cuda_status.available:
            reason += f"; cuda not available: {self.cuda_status.reason.partition(':')[0]}"
        elif self.cuda is None:
            reason += "; cuda not estimated"
        return reason

    def seconds(self) -> dict[str, float]:
        """Return the seconds by engine, of those that are known."""
        times = {"cpu": self.cpu, "cuda": self.cuda, "numpy": self.numpy}
        return {engine: seconds for engine, seconds in times.items() if seconds is not None}


def sum_of_estimates(parts: Sequence[Estimates]) -> Estimates:
    """Return the sums of the estimates of several calls, with the engine of the longest."""
    longest = max(parts, key=lambda part: part.seconds().get(part.engine, 0.0))

    def total(engine: str) -> float | None:
        times = [part.seconds().get(engine) for part in parts]
        return None if None in times else sum(filter(None, times))

    return longest._replace(numpy=total("numpy"), cpu=total("cpu"), cuda=total("cuda"))


def _milliseconds(seconds: float) -> str:
    milliseconds = seconds * 1e3
    if milliseconds < 0.001:
        return "under 0.001 ms"
    return f"{milliseconds:,.0f} ms" if milliseconds >= 100 else f"{milliseconds:.2g} ms"


class Noted(NamedTuple):
    """A reason with a note; `str` joins them."""

    reason: Reason
    note: str

    def __str__(self) -> str:
        """Return the reason and the note."""
        return f"{self.reason}; {self.note}"


Reason: TypeAlias = str | Estimates | Noted

# Two forms of a record that `last_call()` converts to a `Call` on demand. Of a call of a library: function,
# engine, reason, devices and raw report. Of a small call of NumPy: the function that describes it, and
# that function's arguments.
RawCall = tuple[str, str, Reason, tuple[int, ...], bytes]
SmallCall = tuple[Callable[..., Call], int, Any]


def call_from_report(
    function: str,
    engine: str,
    reason: Reason,
    devices: tuple[int, ...],
    report: bytes,
    began: float | None = None,
    spans: np.ndarray[Any, Any] | None = None,
) -> Call:
    """Return the `Call` of a library's report, a `pk_report` as bytes."""
    row = np.frombuffer(report, abi.REPORT)[0]
    stages = dict(zip(STAGES, row["stage_seconds"].tolist(), strict=True))
    absent = STAGES[: abi.STAGE_COMPUTE] if engine == "cpu" else STAGES[abi.STAGE_COMPUTE :]
    for name in absent:
        del stages[name]
    seconds, reported = float(row["seconds"]), int(row["spans"])
    copied_spans = None if spans is None else spans[:reported].copy()
    return Call(
        function,
        engine,
        str(reason),
        seconds,
        bytes_up=int(row["bytes_up"]),
        bytes_down=int(row["bytes_down"]),
        chunks=int(row["chunks"]),
        threads=int(row["threads"]),
        stages=stages,
        devices=devices,
        overlap=float(row["overlap_seconds"]) / seconds if seconds else 0.0,
        began=began,
        spans=copied_spans,
        spans_left_out=0 if copied_spans is None else reported - len(copied_spans),
    )


def combine_calls(
    function: str, parts: Sequence[Call], are_passes: bool = False, wall_seconds: float | None = None
) -> Call:
    """Combine several calls to one, with the engine and the reason of the longest.

    Unless the parts are passes, one that NumPy computed is the longest only if there are no others, as
    these are not always timed. The duration is that of the parts together if `wall_seconds` is None.
    """
    longest = max(parts, key=lambda part: (are_passes or part.engine != "numpy", part.seconds or 0.0))
    notes = [note for part in parts for note in part.reason.split("; ")[1:]]  # notes of `add_reason`
    reason = "; ".join(dict.fromkeys([*longest.reason.split("; "), *notes]))
    known_seconds = [part.seconds for part in parts if part.seconds is not None]
    seconds = (sum(known_seconds) if known_seconds else None) if wall_seconds is None else wall_seconds
    stages: dict[str, float] = {}
    for part in parts:
        for name, time in part.stages.items():
            stages[name] = stages.get(name, 0.0) + time
    began = next((part.began for part in parts if part.began is not None), None)
    spans = [_spans_on_clock_of(began, part) for part in parts if part.spans is not None]
    return Call(
        function,
        longest.engine,
        reason,
        seconds,
        bytes_up=sum(part.bytes_up for part in parts),
        bytes_down=sum(part.bytes_down for part in parts),
        chunks=sum(part.chunks for part in parts),
        threads=max(part.threads for part in parts),
        stages=stages,
        devices=tuple(dict.fromkeys(device for part in parts for device in part.devices)),
        overlap=sum(part.overlap * (part.seconds or 0.0) for part in parts) / seconds if seconds else 0.0,
        began=began,
        spans=np.concatenate(spans) if spans else None,
        spans_left_out=sum(part.spans_left_out for part in parts),
        passes=tuple(replace(part, spans=None) for part in parts) if are_passes else (),
    )


def combine_passes(
    function: str,
    passes: Sequence[Call],
    wall_seconds: float,
    numpy_seconds: float,
    breaks: Sequence[Any],
    reason: Reason = "",
) -> Call:
    """Combine the passes of a fused function to one call, with rows for the rest of its time.

    `reason` says why all passes ran on one engine, where these say that it was requested, or why none was
    needed.
    """
    names = list(dict.fromkeys(each.name for each in breaks))
    shown = ", ".join(names[:_MAX_BREAKS_SHOWN]) + ", ..." * (len(names) > _MAX_BREAKS_SHOWN)
    note = f"graph breaks: {shown}" if names else ""
    text, chosen = str(reason), str(reason.reason if isinstance(reason, Noted) else reason)
    if chosen:
        passes = [replace(each, reason=each.reason.replace(_REQUESTED, chosen, 1)) for each in passes]
    if passes:
        whole = combine_calls(function, passes, True, wall_seconds)
    else:
        whole = Call(function, "numpy", "", wall_seconds)
    if isinstance(reason, Estimates) and reason.engine != whole.engine:  # `auto` chose one for each pass
        text = ""
    own = whole.reason if whole.reason.startswith(text) else text
    why = "; ".join(filter(None, (own, note))) or "nothing to compute"
    whole = replace(whole, reason=why)
    lacking = ", ".join(dict.fromkeys(each.name for each in breaks if each.is_lacking))
    why = f"pycudakit lacks {lacking}" if lacking else ""
    known = sum(each.seconds or 0.0 for each in passes) + numpy_seconds
    rest = (
        *((Call("NumPy", "numpy", why, numpy_seconds),) if numpy_seconds else ()),
        Call("Python and other libraries", "", "", max(0.0, wall_seconds - known)),
    )
    return replace(whole, rest=rest, breaks=tuple(dict.fromkeys(breaks)))


def _spans_on_clock_of(began: float | None, part: Call) -> Any:
    """Return the spans of a part, in seconds since the start of the whole call."""
    spans: Any = part.spans.copy() if part.spans is not None else None
    if began is not None and part.began is not None:
        spans["begin"] += part.began - began
        spans["end"] += part.began - began
    return spans
