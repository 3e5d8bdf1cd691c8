"""Profiles: the calls of a ``with`` block, as a table and as a trace for Perfetto or Chrome."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pycudakit._native.formatting import format_seconds, html_table
from pycudakit._runtime import context
from pycudakit._runtime.call_log import STAGES, Call, combine_calls
from pycudakit._runtime.progress import checked_progress


@dataclass
class Profile:
    """The calls that were made inside a `profile` block, in the order in which they ended.

    Attributes
    ----------
    calls : list of Call
        The record of each. Printed, a profile is a table of them, with the fused kernels of fused functions
        below each.
    """

    calls: list[Call] = field(default_factory=list)

    def __str__(self) -> str:
        """Return a table with a line for each call, and a total."""
        return "\n".join(_table(self.calls))

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """Print the table, for IPython in a terminal."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Return the table as HTML, for notebooks."""
        rows = rows_of(self.calls)
        columns = {
            "time" if name == "ms" else name: _texts(name, column, rows, self.calls, format_seconds)
            for name, column in _COLUMNS.items()
        }
        shown = {name: cells for name, cells in columns.items() if cells}
        return html_table([*shown], zip(*shown.values(), strict=True), _left_out(self.calls))

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the stages of every chunk as a trace for https://ui.perfetto.dev and Chrome.

        Each thread of the host and each staging slot of a GPU has a row of its own, and so have the calls.

        Parameters
        ----------
        path : path-like
            The file to write, as ``"trace.json"``.
        """
        import json  # noqa: PLC0415  (takes 3 ms, and is seldom needed)

        trace = {"traceEvents": list(_events(self.calls)), "displayTimeUnit": "ms"}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace, file, separators=(",", ":"))


def profile(progress: Any = None) -> AbstractContextManager[Profile]:
    """Collect the record of each call inside a ``with`` block, in this thread or task, on any engine.

    Parameters
    ----------
    progress : bool or callable, optional
        As for `engine`.

    Returns
    -------
    context manager
        It yields a `Profile`.

    See Also
    --------
    last_call

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> with pk.profile() as p, pk.engine("cpu"):
    ...     root = pk.sqrt(np.ones(100_000))
    ...     total = pk.add(root, 1.0)
    >>> [(call.function, call.engine) for call in p.calls]
    [('sqrt', 'cpu'), ('add', 'cpu')]
    >>> [line.split()[:2] for line in str(p).splitlines()]
    [['function', 'engine'], ['sqrt', 'cpu'], ['add', 'cpu'], ['2', 'calls']]
    """
    return _collecting({} if progress is None else {"progress": checked_progress(progress)})


@contextmanager
def _collecting(changes: dict[str, Any]) -> Iterator[Profile]:
    collected = Profile()
    with context.override(profiles=(*context.current_context.get().profiles, collected.calls), **changes):
        yield collected


# ---- The table -------------------------------------------------------------------------------------

Values = list[Any]  # the values of a column, one for each call; None for an empty cell


class _Column(NamedTuple):
    """A column of the table: how to get a call's value, to format it, and to compute the total."""

    value: Callable[[Call], Any]
    show: Callable[[Any], str] = str
    total: Callable[[Values, list[Call]], Any] = lambda _values, _calls: None


def _sum(values: Values, _: list[Call]) -> Any:
    present = [value for value in values if value is not None]
    return sum(present) if present else None


def _mean(values: Values, calls: list[Call]) -> Any:
    """Return the mean, weighted by the duration of the calls."""
    weighted = [
        (value, call.seconds or 0.0) for value, call in zip(values, calls, strict=True) if value is not None
    ]
    seconds = sum(weight for _, weight in weighted)
    return sum(value * weight for value, weight in weighted) / seconds if seconds else None


def _count(values: Values, _: list[Call]) -> str:
    return f"{len(values)} call" + "s" * (len(values) != 1)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f}"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f}"


def _stage(name: str) -> _Column:
    return _Column(lambda call: call.stages.get(name), _milliseconds, _sum)


_COLUMNS = {
    "function": _Column(lambda call: call.function, total=_count),
    "engine": _Column(lambda call: call.engine),
    "ms": _Column(lambda call: call.seconds, _milliseconds, _sum),
    "MB up": _Column(lambda call: call.bytes_up or None, _megabytes, _sum),
    "MB down": _Column(lambda call: call.bytes_down or None, _megabytes, _sum),
    **{name: _stage(name) for name in STAGES},
    "overlap": _Column(lambda call: call.overlap if call.engine == "cuda" else None, "{:.0%}".format, _mean),
    "link": _Column(lambda call: call.link_share, "{:.0%}".format, _mean),
    "reason": _Column(lambda call: call.reason),
}
_LEFT_ALIGNED = ("function", "engine", "reason")


def _with_passes(call: Call) -> Iterator[Call]:
    """Yield a call, its fused kernels, and the rest of its time.

    Repeated kernels are combined to one row with their count.
    """
    yield call
    by_name: dict[tuple[str, str, str], list[Call]] = {}
    for one in call.passes:
        by_name.setdefault((one.function, one.engine, one.reason), []).append(one)
    for (function, _, _), same in by_name.items():
        times = f", {len(same):,} times" if len(same) > 1 else ""
        yield combine_calls(f"  {function}{times}", same)
    for one in call.rest:
        yield replace(one, function=f"  {one.function}")


def _texts(
    name: str, column: _Column, rows: list[Call], calls: list[Call], show_time: Callable[[float], str]
) -> list[str]:
    """Return the texts of a column, the total last, or an empty list if no row has a value."""
    values = [column.value(row) for row in rows]
    if name != "function" and all(value is None for value in values):
        return []
    total = column.total([column.value(call) for call in calls], calls)
    show = show_time if column.show is _milliseconds else column.show
    return ["" if value is None else show(value) for value in [*values, total]]


def _cells(name: str, texts: list[str]) -> list[str]:
    """Return the texts of a column below its name, in one width."""
    width = max(map(len, [name, *texts]))
    return [text.ljust(width) if name in _LEFT_ALIGNED else text.rjust(width) for text in [name, *texts]]


def rows_of(calls: list[Call]) -> list[Call]:
    """Return the rows of a table: each call, and below it its fused kernels."""
    return [row for call in calls for row in _with_passes(call)]


def _left_out(calls: list[Call]) -> str:
    count = sum(call.spans_left_out for call in calls)
    return f"{count:,} stages of chunks are in these times, but did not fit in the trace." if count else ""


def _table(calls: list[Call]) -> Iterator[str]:
    rows = rows_of(calls)
    texts = {name: _texts(name, column, rows, calls, _milliseconds) for name, column in _COLUMNS.items()}
    for line in zip(*(_cells(name, each) for name, each in texts.items() if each), strict=True):
        yield "  ".join(line).rstrip()
    if left_out := _left_out(calls):
        yield left_out


# ---- The trace -------------------------------------------------------------------------------------

_CALLS, _HOST, _GPU = 1, 2, 3  # "processes", the trace format's groups of rows; GPU n is _GPU + n
_WHOLE, _PASSES = 0, 1  # rows of the calls

Event = dict[str, Any]


def _process(device: int) -> int:
    return _HOST if device < 0 else _GPU + device


def _name_event(kind: str, name: str, process: int, thread: int = 0) -> Event:
    return {"ph": "M", "name": f"{kind}_name", "pid": process, "tid": thread, "args": {"name": name}}


def _event(name: str, begin: float, end: float, process: int, thread: int, **args: Any) -> Event:
    times = {"ts": begin * 1e6, "dur": (end - begin) * 1e6}
    return {"ph": "X", "name": name, **times, "pid": process, "tid": thread, "args": args}


def _events(calls: list[Call]) -> Iterator[Event]:
    """Yield the events of the trace, in microseconds since the first call began."""
    rows = [(_WHOLE, call) for call in calls] + [(_PASSES, one) for call in calls for one in call.passes]
    timed = [(row, call) for row, call in rows if call.began is not None and call.seconds is not None]
    origin = min((call.began or 0.0 for _, call in timed), default=0.0)
    lanes: set[tuple[int, int]] = set()  # devices, -1 being the host, and lanes
    for row, call in timed:
        begin = (call.began or 0.0) - origin
        fields = {"engine": call.engine, "reason": call.reason, "devices": call.devices}
        moved = {"bytes_up": call.bytes_up, "bytes_down": call.bytes_down}
        left_out = {"stages_left_out": call.spans_left_out} if call.spans_left_out else {}
        yield _event(
            call.function, begin, begin + (call.seconds or 0.0), _CALLS, row, **fields, **moved, **left_out
        )
        for start, end, count, elements, stage, device, lane, _ in (
            () if call.spans is None else call.spans.tolist()
        ):
            lanes.add((device, lane))
            times = begin + start, begin + end
            yield _event(STAGES[stage], *times, _process(device), lane, bytes=count, elements=elements)
    yield _name_event("process", "calls", _CALLS)
    yield _name_event("thread", "calls", _CALLS, _WHOLE)
    if any(row == _PASSES for row, _ in timed):
        yield _name_event("thread", "passes of fused functions", _CALLS, _PASSES)
    for device in sorted({device for device, _ in lanes}):
        yield _name_event("process", "host" if device < 0 else f"GPU {device}", _process(device))
    for device, lane in sorted(lanes):
        name = f"host thread {lane}" if device < 0 else f"GPU {device} slot {lane}"
        yield _name_event("thread", name, _process(device), lane)
