"""Advice for `pycudakit trace`: finds calls of a profile that could be fused, pinned or converted."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence

import numpy as np

import pycudakit as pk
from pycudakit import Call
from pycudakit._runtime.engine_choice import LACKING

MAX_GAP_SECONDS = 1e-3  # the longest gap between consecutive calls of one function body
MIN_CALLS = 3  # fewer calls are not worth a finding
MAX_LOOP_CALLS = 64  # the largest loop body, in calls, that is detected
LARGE_BYTES = 32 << 20  # malloc gets new pages from the system for arrays of this size
SMALL_BYTES = 64 << 10  # transfers of fewer bytes do not pay for a GPU
MIN_SECONDS = 1e-3  # calls that take less are not worth a finding
# How the reasons begin of calls that only NumPy could compute.
NUMPY_ONLY = ("auto: only NumPy takes this", f"auto: {LACKING}", "fallback from the ")

_REDUCTIONS = "all any count_nonzero max mean min prod std sum var"
_ELEMENTWISE = "astype clip nan_to_num round where"
FUSED = {
    *_REDUCTIONS.split(),
    *_ELEMENTWISE.split(),
    *(name for name in pk.__all__ if isinstance(getattr(np, name, None), np.ufunc)),
} - {"matmul", "vecdot"}


def advice(calls: Sequence[Call]) -> Iterator[str]:
    """Yield a line for each finding.

    Examples
    --------
    >>> import pycudakit as pk
    >>> from pycudakit._cli.advice import advice
    >>> call = pk.Call("add", "cuda", "the requested engine", 0.01, bytes_up=1000, bytes_down=500)
    >>> list(advice([call] * 5))
    ["5 calls of add took less than 64 KiB to a GPU each: the engine 'auto' uses the CPU for them"]
    """
    yield from _to_fuse(calls)
    by_function: dict[str, list[Call]] = {}
    for call in calls:
        by_function.setdefault(call.function, []).append(call)
    for name, of_one in by_function.items():
        yield from _small(name, of_one)
        yield from _pageable(name, of_one)
        yield from _left_to_numpy(name, of_one)
        yield from _fell_back(name, of_one)


def _runs(calls: Sequence[Call]) -> Iterator[list[Call]]:
    """Yield runs of consecutive calls that `fuse` could combine."""
    run: list[Call] = []
    for call in calls:
        fits = call.function in FUSED and call.engine in ("cpu", "cuda") and call.began is not None
        if run and not (fits and call.engine == run[-1].engine and _follows(run[-1], call)):
            yield run
            run = []
        if fits:
            run.append(call)
    if run:
        yield run


def _follows(before: Call, after: Call) -> bool:
    """Return True if a call begins soon after the end of the one before."""
    seconds = before.seconds or 0.0
    return (after.began or 0.0) - (before.began or 0.0) - seconds < max(MAX_GAP_SECONDS, seconds)


def _bodies(run: list[Call]) -> Iterator[list[Call]]:
    """Split a run into the iterations of a loop, if most of it is one; else yield the run."""
    names = [call.function for call in run]
    for period in range(1, min(MAX_LOOP_CALLS, len(run) // 2) + 1):
        begin, end = _repeated(names, period)
        if 2 * (end - begin) > len(run):
            yield run[:begin]
            yield from (run[first : first + period] for first in range(begin, end, period))
            yield run[end:]
            return
    yield run


def _repeated(names: Sequence[str], period: int) -> tuple[int, int]:
    """Return the bounds of the first part of `names` that repeats with this period."""
    begin = 0
    for same, group in itertools.groupby(map(operator.eq, names, names[period:])):
        count = len(list(group))
        if same and count >= period:
            return begin, begin + (count // period + 1) * period
        begin += count
    return 0, 0


def _to_fuse(calls: Sequence[Call]) -> Iterator[str]:
    runs_by_calls: dict[tuple[str, ...], list[list[Call]]] = {}
    for run in itertools.chain.from_iterable(map(_bodies, _runs(calls))):
        if len(run) > 1:
            runs_by_calls.setdefault((run[0].engine, *(call.function for call in run)), []).append(run)
    for (engine, *names), runs in _joined(runs_by_calls).items():
        seconds = sum(call.seconds or 0.0 for run in runs for call in run)
        if max(len(names), len(runs)) < MIN_CALLS or seconds < MIN_SECONDS:
            continue
        times = sum(map(len, runs)) // len(names)
        often = f", {times} times over" * (times > 1)
        finding = f"these {len(names)} calls could be one `fuse`{often}: {_listed(names)}"
        if engine == "cpu":
            saved = len(names) - 1
            yield f"{finding}: {saved} pass{'es' * (saved > 1)} over memory saved"
            continue
        run = runs[0]
        # A result is downloaded, and uploaded again as an operand of the next call.
        repeated = sum(0 < a.bytes_down <= b.bytes_up for a, b in itertools.pairwise(run))
        yield f"{finding}: up to {2 * repeated} transfers saved"


def _joined(
    runs_by_calls: dict[tuple[str, ...], list[list[Call]]],
) -> dict[tuple[str, ...], list[list[Call]]]:
    """Merge the findings of one loop, whose iterations may have been detected from different calls on."""
    cycles: dict[tuple[str, ...], tuple[tuple[str, ...], list[list[Call]]]] = {}
    for key, runs in runs_by_calls.items():
        engine, *names = key
        begun = min(names[n:] + names[:n] for n in range(len(names)))
        cycles.setdefault((engine, *begun), (key, []))[1].extend(runs)
    joined = dict(cycles.values())
    for part in [key for key, runs in joined.items() if len(runs) == 1]:
        for loop, runs in joined.items():
            if len(runs) > 1 and _is_part(part, loop):
                runs.extend(joined.pop(part))
                break
    return {_in_order(key, runs): runs for key, runs in joined.items()}


def _in_order(key: tuple[str, ...], runs: list[list[Call]]) -> tuple[str, ...]:
    """Return the engine and the calls of a loop, from the call that ran first on."""
    engine, *names = key
    first = [call.function for call in min(runs, key=lambda run: run[0].began or 0.0)][: len(names)]
    for n in range(len(names)):
        begun = names[n:] + names[:n]
        if begun[: len(first)] == first:
            return engine, *begun
    return key


def _is_part(part: tuple[str, ...], loop: tuple[str, ...]) -> bool:
    """Return True if the calls of `part` are consecutive in the iterations of `loop`, on the same engine."""
    calls = part[1:]
    again = loop[1:] * (2 + len(calls) // len(loop))
    inside = any(again[n : n + len(calls)] == calls for n in range(len(loop)))
    return inside and part[0] == loop[0] and part != loop


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:3])} ... {', '.join(names[-2:])}"


def _calls(calls: Sequence[Call]) -> str:
    return f"{len(calls):,} call" + "s" * (len(calls) != 1)


def _mib(count: float) -> str:
    return f"{count / 2**20:,.0f} MiB"


def _small(name: str, calls: Sequence[Call]) -> Iterator[str]:
    few = [call for call in calls if call.engine == "cuda" and call.bytes_up + call.bytes_down < SMALL_BYTES]
    if len(few) >= MIN_CALLS and not few[0].reason.startswith("auto"):
        yield (
            f"{len(few)} calls of {name} took less than {SMALL_BYTES >> 10} KiB to a GPU each: "
            "the engine 'auto' uses the CPU for them"
        )


def _pageable(name: str, calls: Sequence[Call]) -> Iterator[str]:
    down = [c for c in calls if c.bytes_down >= LARGE_BYTES and c.stages.get("unstage", 0.0) >= MIN_SECONDS]
    if len(down) >= MIN_CALLS:
        size = _mib(max(call.bytes_down for call in down))
        yield (
            f"pageable results of {size} in each of {len(down)} calls of {name}: pass `out=`, an array of "
            "`pk.empty_pinned` that is reused"
        )
    up = [c for c in calls if c.bytes_up >= LARGE_BYTES and c.stages.get("stage", 0.0) >= MIN_SECONDS]
    if len(up) >= MIN_CALLS:
        size = _mib(max(call.bytes_up for call in up))
        yield (
            f"pageable operands of {size} in each of {len(up)} calls of {name}: keep arrays that are used "
            "often in `pk.pinned_copy`"
        )


def _left_to_numpy(name: str, calls: Sequence[Call]) -> Iterator[str]:
    numpy_only = [call for call in calls if call.reason.startswith(NUMPY_ONLY)]
    seconds = sum(call.seconds or 0.0 for call in numpy_only)
    if seconds >= MIN_SECONDS:
        reason = numpy_only[0].reason.rpartition(": ")[2]
        taken = f"{seconds * 1e3:,.0f} ms"
        remedy = "" if reason == LACKING else "; convert the argument before"
        yield f"NumPy computed {_calls(numpy_only)} of {name}, {taken}: {reason}{remedy}"


def _fell_back(name: str, calls: Sequence[Call]) -> Iterator[str]:
    failed = [call for call in calls if "took over" in call.reason]
    if failed:
        yield f"{_calls(failed)} of {name} failed on the GPU: {failed[0].reason}"
