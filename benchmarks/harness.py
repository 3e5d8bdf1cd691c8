"""The harness of every benchmark here: it checks results, times calls, and prints rows.

pycudakit and the other libraries do a work in one process, in turn, round after round, after each result was
compared with that of the first other library. A row gives the medians, and the ratio of the other's time to
pycudakit's: the median of the rounds' ratios, with their interquartile range.
"""

import argparse
import contextlib
import csv
import dataclasses
import json
import os
import platform
import sys
from pathlib import Path

import numpy as np

import pycudakit as pk
from pycudakit._cli.progress import Progress
from pycudakit._cli.timing import Times, interleave
from pycudakit._cli.ulp_compare import verdict
from pycudakit._native.formatting import format_seconds

_FOLDER = str(Path(__file__).resolve().parent)
if _FOLDER in sys.path:  # last, since `pycuda` is PyCUDA, not benchmarks/pycuda.py
    sys.path.remove(_FOLDER)
    sys.path.append(_FOLDER)

ULPS = 8  # at most 4 of pycudakit's and 4 of NumPy's
_LINE = "{:<24} {:>11}  {:<6} {:>9}  {:<17} {:>9}  {:>7} {:>5}  {:>8}  {}"


@dataclasses.dataclass(frozen=True)
class Row:
    """The times of one work, against one other library."""

    work: str
    elements: int
    engine: str
    seconds: float
    other: str
    other_seconds: float
    ratio: float
    spread: float
    at_least: float | None
    verdict: str


@dataclasses.dataclass(frozen=True)
class Allowance:
    """A required time that is computed from another's: factor * time + extra."""

    name: str
    of: str
    factor: float = 1.0
    extra: float = 0.0

    def times(self, times):
        return Times(tuple(self.factor * t + self.extra for t in times.rounds))


def machine():
    """Describe the machine in a line."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    with contextlib.suppress(AttributeError):
        model += f", {len(os.sched_getaffinity(0))} processors"
    parts = [model, *(f"{d.name} ({d.memory / 2**30:.0f} GiB)" for d in pk.devices())]
    parts += [f"{name}: {status.reason}" for name, status in pk.engines().items() if status]
    parts.append(f"pycudakit {pk.__version__}, Python {platform.python_version()}")
    parts.append(f"load {os.getloadavg()[0]:.1f}")
    return "; ".join(parts)


def link_seconds(up, down):
    """Return the seconds that the GPU's link needs for these bytes from and to pinned memory."""
    speed_up, speed_down = pk.link_speed()
    return max(up / speed_up, down / speed_down)


class Harness:
    """Parses the command line, runs works, and prints their rows."""

    def __init__(self, description, works):
        """Parse the command line; `works` is about the number of works."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--engine", default="cpu", choices=["auto", "cuda", "cpu", "numpy"])
        parser.add_argument(
            "--quick", action="store_true", help="a sixteenth of the size, fewer rounds: no figures"
        )
        parser.add_argument("--rounds", type=int, help="rounds of each work (9; 3 when quick)")
        parser.add_argument("--only", default="", help="works whose name contains this")
        parser.add_argument("--strict", action="store_true", help="exit with 1 if a figure is missed")
        output = parser.add_mutually_exclusive_group()
        output.add_argument("--json", action="store_true", help="print JSON")
        output.add_argument("--csv", action="store_true", help="print CSV")
        self.arguments = parser.parse_args()
        self.quick = self.arguments.quick
        self.engine = self.arguments.engine
        self.rounds = self.arguments.rounds or (3 if self.quick else 9)
        self.rows = []
        self.wrong = 0
        self._text = not (self.arguments.json or self.arguments.csv)
        if self.engine != "auto" and not pk.engines()[self.engine]:
            parser.error(f"the engine {self.engine} is not available: {pk.engines()[self.engine].reason}")
        if self._text:
            print(machine())
            print("quick: smaller and fewer, so no figures" if self.quick else "")
            print(
                _LINE.format(
                    "work", "elements", "engine", "time", "against", "time", "ratio", "+-", "at least", ""
                ).rstrip()
            )
        self._progress = Progress(works, print)

    def size(self, elements):
        """Return the number of elements to use for a nominal number."""
        return max(1, elements // 16) if self.quick and elements > 10_000 else elements

    def wanted(self, work):
        """Return True if the command line selects this work."""
        return self.arguments.only in work

    def step(self, label):
        """Show progress."""
        self._progress.step(label)

    def check(self, work, ours, others, ulps, within=None):
        """Compare all results with that of the first other; return True if they agree."""
        names = list(others)
        expected = others[names[0]]()

        def agrees(result):
            if within is None:
                return np.allclose(result, expected, rtol=1e-5, equal_nan=True)
            return np.linalg.norm(result - expected) <= within * np.linalg.norm(expected)

        if within is None:
            right, words = verdict(ours(), expected, ulps)
        else:
            right, words = agrees(ours()), f"is further than {within:g} from it"
        problems = [] if right else [f"pycudakit {words}"]
        agree = {name: agrees(others[name]()) for name in names[1:]}
        problems += [f"{name} differs" for name, right in agree.items() if not right]
        self.wrong += len(problems)
        for problem in problems:
            print(f"{work}: {problem}", file=sys.stderr)
        return not problems

    def time(self, ours, others, engine=None, rounds=None):
        """Return the times of all; pycudakit's under its engine's name."""
        pk.set_engine(engine or self.engine)
        return interleave({"pycudakit": ours, **others}, rounds or self.rounds)

    def compare(
        self, work, elements, ours, others, *, at_least=None, ulps=0, within=None, engine=None, rounds=None
    ):
        """Run a work and print a row for each required figure, or for each other without a figure.

        Parameters
        ----------
        work, elements
            Its name and its size.
        ours, others
            Callables without arguments; others by name, NumPy's first.
        at_least
            The required ratio against an other, by name, or by Allowance.
        ulps
            The allowed distance of pycudakit's result from the first other's.
        within
            Instead of `ulps`: the allowed distance of any result from it, relative to its norm.
        engine
            pycudakit's engine, if not the command line's.
        """
        if not self.wanted(work):
            return
        self.step(work)
        pk.set_engine(engine or self.engine)
        right = self.check(work, ours, others, ulps, within)
        times = self.time(ours, others, engine, rounds)
        figures = dict(at_least or {})
        for name in others:
            if not any(name in (f, getattr(f, "of", None)) for f in figures):
                figures[name] = None
        for figure, required in figures.items():
            allowed = isinstance(figure, Allowance)
            theirs = figure.times(times[figure.of]) if allowed else times[figure]
            name = figure.name if allowed else figure
            self.row(work, elements, engine or self.engine, times["pycudakit"], name, theirs, required, right)

    def row(self, work, elements, engine, ours, name, theirs, required=None, right=True):
        """Add a row, and print it."""
        ratio, spread = theirs.over(ours)
        word = "" if required is None else "ok" if round(ratio, 2) >= required else "SHORT"
        word = word if right else "WRONG"
        row = Row(
            work,
            elements,
            engine,
            ours.median,
            name,
            theirs.median,
            round(ratio, 4),
            round(spread, 4),
            required,
            word,
        )
        self.rows.append(row)
        if self._text:
            least = "" if required is None else f"{required:.2f}x"
            times = format_seconds(row.seconds), format_seconds(row.other_seconds)
            cells = (
                work,
                f"{elements:,}",
                engine,
                times[0],
                name,
                times[1],
                f"{ratio:.2f}x",
                f"{spread:.0%}",
                least,
            )
            self._progress.say(_LINE.format(*cells, word).rstrip())

    def finish(self):
        """Print the summary; return the exit status."""
        self._progress.close()
        pk.set_engine("auto")
        rows = [dataclasses.asdict(row) for row in self.rows]
        if self.arguments.json:
            print(json.dumps({"machine": machine(), "quick": self.quick, "rows": rows}, indent=1))
        elif self.arguments.csv:
            writer = csv.DictWriter(sys.stdout, [f.name for f in dataclasses.fields(Row)])
            writer.writeheader()
            writer.writerows(rows)
        else:
            figures = [row for row in self.rows if row.at_least is not None]
            met = sum(row.verdict == "ok" for row in figures)
            print(
                f"\n{met} of {len(figures)} figures met"
                + (", at sizes they are not about" if self.quick else "")
            )
        short = any(row.verdict == "SHORT" for row in self.rows)
        return 1 if self.wrong or (short and self.arguments.strict) else 0
