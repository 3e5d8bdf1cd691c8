"""`pycudakit bench`: a benchmark of each family against NumPy; benchmarks/peers.py adds other libraries."""

from __future__ import annotations

import datetime as dt
import functools
import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

import pycudakit as pk
from pycudakit import errors
from pycudakit._cli import bench_cases, common, info, report
from pycudakit._cli.bench_cases import Family
from pycudakit._cli.idle_processors import LEAST_SHARE, processor_share
from pycudakit._cli.progress import Progress, Say
from pycudakit._cli.timing import Times, interleave
from pycudakit._cli.ulp_compare import verdict
from pycudakit._native import calibration_file
from pycudakit._native.formatting import format_seconds
from pycudakit._runtime import context
from pycudakit._runtime.context import EngineName

SIZES = (1_000, 64_000, 1_000_000, 16_000_000)
ROUNDS = 7
SECONDS = 0.5  # after which a row has no further round, if it has three
COMPARED = 1_000_000  # a larger result is compared at about so many of its elements, evenly spaced

Arrays = tuple[Any, ...]


def _evaluate(a: Any, b: Any, out: Any = None) -> Any:
    return pk.evaluate(common.EXPRESSION, {"a": a, "b": b}, out)


FAMILIES = {
    "add": Family(lambda xp, a, b: xp.add(a, b), pk.add, "a + b"),
    "multiply": Family(lambda xp, a, b: xp.multiply(a, b), pk.multiply, "a * b"),
    "exp": Family(lambda xp, a: xp.exp(a), pk.exp, "exp(a)", inputs=1, ulps=common.ULPS),
    "evaluate": Family(common.evaluate_by, _evaluate, common.EXPRESSION, ulps=common.ULPS),
}


@dataclass(frozen=True)
class Contender:
    """A contender of a benchmark: an engine or library, and how it is called.

    Parameters
    ----------
    call
        The timed function: ``call(*arrays)``.
    engine
        The engine in force.
    prepare
        Converts a round's arrays to the arguments of `call`, unmeasured.
    ulps
        The allowed distance from NumPy's result; None skips the comparison.
    """

    call: Callable[..., Any]
    engine: EngineName = "auto"
    prepare: Callable[[Arrays], Arrays] = lambda arrays: arrays
    ulps: int | None = 0


def timed(
    contenders: Mapping[str, Contender],
    fresh: Callable[[], Arrays],
    rounds: int = ROUNDS,
    warm_up: int = 2,
    seconds: float = math.inf,
) -> dict[str, Times]:
    """Time contenders in turn; `fresh` makes new arrays for each round."""
    arrays: dict[str, Arrays] = {}

    def new_round() -> None:
        arrays.clear()
        round_arrays = fresh()
        arrays.update({name: contender.prepare(round_arrays) for name, contender in contenders.items()})

    calls = {name: lambda n=name, call=c.call: call(*arrays[n]) for name, c in contenders.items()}
    engine_before = context.process_engine
    try:
        return interleave(
            calls, rounds, warm_up, lambda name: pk.set_engine(contenders[name].engine), new_round, seconds
        )
    finally:
        pk.set_engine(engine_before)


def _fault_of(contender: Contender, arrays: Arrays, expected: Any) -> str | None:
    """Check a contender's result against NumPy's; return the fault as text, or None."""
    evenly_spaced = slice(None, None, max(1, np.size(expected) // COMPARED))
    engine_before = context.process_engine
    pk.set_engine(contender.engine)
    try:
        result = contender.call(*contender.prepare(arrays))
        if contender.ulps is None:
            return None
        mine, theirs = (np.atleast_1d(each)[evenly_spaced] for each in (result, expected))
        is_right, message = verdict(mine, theirs, contender.ulps)
    except Exception as error:  # noqa: BLE001 - whatever a library raises
        return f"{type(error).__name__}: {error}".splitlines()[0]
    finally:
        pk.set_engine(engine_before)
    return None if is_right else message


def race(
    family: Family,
    size: int,
    contenders: Mapping[str, Contender],
    rounds: int = ROUNDS,
    seconds: float = math.inf,
) -> tuple[dict[str, Times], dict[str, str]]:
    """Check the contenders against NumPy, and time those that are right.

    Returns
    -------
    times
        The times of each contender that is right.
    wrong
        The faults of the others, as text.
    """
    rng = np.random.default_rng(0)

    def fresh() -> Arrays:
        return tuple(rng.random(size, np.float32) for _ in range(family.inputs))

    arrays = fresh()
    expected = family.by(np, *arrays)
    faults = {name: _fault_of(c, arrays, expected) for name, c in contenders.items()}
    del arrays, expected
    wrong = {name: fault for name, fault in faults.items() if fault is not None}
    right = {n: c for n, c in contenders.items() if n not in wrong}
    return timed(right, fresh, rounds, seconds=seconds), wrong


def engines_of(family: Family) -> dict[str, Contender]:
    """Return the contenders of pycudakit: `auto`, each available engine, and `cuda` with pinned arrays."""
    names: tuple[EngineName, ...] = ("auto", "cpu", "cuda")
    contenders = {
        str(name): Contender(family.ours, name, ulps=family.ulps)
        for name in names
        if name == "auto" or pk.engines()[name]
    }
    if "cuda" in contenders:
        contenders["pinned"] = Contender(
            lambda *arrays: family.ours(*arrays[:-1], out=arrays[-1]), "cuda", _pinned, family.ulps
        )
    return contenders


def _pinned(arrays: Arrays) -> Arrays:
    return *map(pk.pinned_copy, arrays), pk.empty_pinned(arrays[0].shape, arrays[0].dtype)


def _families(only: str) -> dict[str, Family]:
    every = {**FAMILIES, **bench_cases.FAMILIES}
    chosen = {name: family for name, family in every.items() if only in name}
    if not chosen:
        raise errors.InvalidArgument(f"no function is called {only!r}: choose from {', '.join(every)}")
    return chosen


def run(say: Say, quick: bool = False, only: str = "", outputs: Outputs | None = None) -> int:
    """Run the benchmark, print its table, and write the requested files; return the exit status."""
    outputs, families = outputs or Outputs(), _families(only)
    old = _read(outputs.against) if outputs.against else None
    outputs.check_writable()  # before the benchmark, which is long
    available = common.engines(say)
    if not available:
        return 1
    largest = {name: 1_000_000 if quick else bench_cases.LARGEST.get(name, max(SIZES)) for name in families}
    sizes_of = {name: [size for size in SIZES if size <= most] for name, most in largest.items()}
    columns = list(engines_of(FAMILIES["add"]))
    for engine in available:
        say(f"{engine}: {pk.engines()[engine].reason}")
    say(f'float32; evaluate is "{common.EXPRESSION}"; Nx is how many times faster than NumPy.')
    if "pinned" in columns:
        say("pinned is cuda, with arrays in pinned memory.")
    share = processor_share()
    if share < LEAST_SHARE:
        say(f"This machine is busy: {share:.0%} of the processors are free, so times mean little.")
    say("")
    say(f"{'function':<9} {'elements':>11} {'NumPy':>9}" + "".join(f" {name:>9}        " for name in columns))
    failed, rows = False, []
    with closing(Progress(sum(map(len, sizes_of.values())), say)) as progress:
        for name, family in families.items():
            numpy = Contender(functools.partial(family.by, np))
            for size in sizes_of[name]:
                progress.step(f"{name} of {size:,}")
                contenders = {"NumPy": numpy, **engines_of(family)}
                if name not in FAMILIES:  # the others take no `out`
                    contenders.pop("pinned", None)
                times, wrong = race(family, size, contenders, 3 if quick else ROUNDS, SECONDS)
                failed = failed or bool(wrong)
                floor = _floor(size, *bench_cases.MOVED[name])
                rows += [
                    {"family": name, "elements": size, "by": contender, "rounds": time.rounds, "floor": floor}
                    for contender, time in times.items()
                ]
                first = f"{name:<9} {size:>11,} {format_seconds(times['NumPy'].median):>9}"
                cells = "".join(_cell(times["NumPy"], times.get(column)) for column in columns)
                notes = ", ".join(f"{column} {fault}" for column, fault in wrong.items())
                progress.say(f"{first}{cells} {notes}".rstrip())
    say("")
    outputs.write(say, {**described(), "processor_share": share, "rows": rows}, old)
    say("The full benchmarks, with peers and required figures, are benchmarks/*.py in the source tree.")
    return 1 if failed else 0


@dataclass(frozen=True)
class Outputs:
    """The files to which a run is written, and the run to compare with (`against`); None for none."""

    json: str | None = None
    html: str | None = None
    markdown: str | None = None
    against: str | None = None

    def check_writable(self) -> None:
        """Raise `InvalidArgument` if a file cannot be written."""
        for path in filter(None, (self.json, self.html, self.markdown)):
            file_or_folder = path if os.path.exists(path) else os.path.dirname(path) or "."
            if os.path.isdir(path) or not os.access(file_or_folder, os.W_OK):
                raise errors.InvalidArgument(f"{path} cannot be written: name another file")

    def write(self, say: Say, report_data: report.Run, old: report.Run | None) -> None:
        """Write the files, and print the comparison."""
        for path, form in (
            (self.json, lambda run: json.dumps(run, indent=1) + "\n"),
            (self.html, report.page),
            (self.markdown, report.markdown),
        ):
            if path:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(form(report_data))
                say(f"wrote {path}")
        if old is not None:
            for line in report.compared(old, report_data):
                say(line)


def _read(path: str) -> report.Run:
    try:
        with open(path, encoding="utf-8") as file:
            old: report.Run = json.load(file)
        _ = report.families(old), old["processor"]  # which raises if they are missing or malformed
    except OSError as error:
        raise errors.InvalidArgument(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise errors.InvalidArgument(f"{path} is not a report of `pycudakit bench --json`") from error
    return old


def described() -> dict[str, Any]:
    """Return the date and the machine of a run, as plain data."""
    day = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d")
    return {"day": day, "processor": calibration_file.machine(), "machine": info.facts()}


def _floor(size: int, up: int, down: int) -> float | None:
    """Return the time that a GPU's link takes at least, without a GPU None.

    `up` and `down` are bytes per element in each direction; the link moves both at once, so the longer time
    counts.
    """
    if not pk.engines()["cuda"]:
        return None
    link = pk.link_speed(0)
    return max(size * up / link.up, size * down / link.down)


def _cell(numpy: Times, ours: Times | None) -> str:
    if ours is None:
        return f" {'-':>9}        "
    return f" {format_seconds(ours.median):>9} {numpy.over(ours)[0]:>6.2f}x"
