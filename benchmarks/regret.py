"""The regret of `auto`: its time over the best named engine's, for a hundred calls and ten fused functions.

A cell is one call at one size: `auto` and every engine that runs the call are timed in turn, in three rounds
or, where they are quick, fifteen. The times are the least of the rounds: a sample may be a single call.
`auto` should have a geometric mean of 1.02 at most, and no cell above 1.25.
"""

import argparse
import collections
import dataclasses
import json
import math
import statistics
import sys
import warnings

import functions
import numpy as np
import racing
import small
from harness import machine

import pycudakit as pk
from pycudakit._cli.progress import Progress
from pycudakit._cli.timing import interleave
from pycudakit._native.formatting import format_seconds

MEAN, MOST = 1.02, 1.25
SIZES = tuple(10**e for e in range(3, 8))
HUGE = 10**8
LONGEST = 3.0  # seconds: a contender whose call takes longer is left out
LEARNING = 0.15  # seconds of calls, in which `auto` measures the engines
CELL_SECONDS = 0.2  # of a cell, unless three rounds take longer
NAMES = """
    abs add arctan2 bitwise_and cbrt cos exp expm1 exp2 floor_divide fmod gcd greater hypot isnan log
    log10 log1p logaddexp maximum multiply negative power reciprocal rint sin sqrt square subtract tan
    tanh true_divide all any argmax argmin average count_nonzero max mean median min nanmax nanmean
    nanmedian nansum percentile prod ptp quantile std sum var allclose array_equal clip compress
    concatenate convolve correlate cov cumprod cumsum diff digitize dot flip histogram histogram2d
    bincount interp intersect1d isclose isin kron lexsort matmul nan_to_num nonzero outer pad partition
    argpartition argsort repeat roll round searchsorted setdiff1d sort stack take take_along_axis tile
    trapezoid tril union1d unique vdot where gradient
""".split()  # noqa: SIM905 - a hundred names
HUGE_NAMES = ["add", "exp", "sum", "std", "sort", "cumsum", "median", "histogram", "where", "unique"]


@dataclasses.dataclass(frozen=True)
class Cell:
    """The times of a call at one size: `auto`'s, the engine that it chose, and those of the named engines."""

    work: str
    elements: int
    chosen: str
    seconds: float
    engines: dict[str, float]

    @property
    def best(self):
        return min(self.engines, key=self.engines.get)

    @property
    def best_seconds(self):
        return self.engines[self.best]

    @property
    def regret(self):
        return self.seconds / self.best_seconds


def calls(only):
    """Yield a label, and a function that returns a call's function and arguments at a size."""
    for name in NAMES:
        if only in name:
            yield name, lambda data, name=name: (getattr(pk, name), small.arguments_of(name, data))
    generator = pk.random.default_rng(1)
    for name, arguments in small.DRAWS.items():
        if only in f"rng.{name}":
            yield (
                f"rng.{name}",
                lambda data, name=name, arguments=arguments: (getattr(generator, name), arguments(data)),
            )
    for name, whole in functions.WHOLES.items():
        if only in name:
            yield name, lambda data, whole=whole: fused(whole, data.size)


def fused(whole, elements):
    """Return a fused function of functions.py, and its arguments of about so many elements."""
    one = whole.make(np.random.default_rng(42), 1.0 / 4096)
    size_of = max([a.size for a in one if isinstance(a, np.ndarray)] + [int(64e6 / 4096)])
    arguments = whole.make(np.random.default_rng(42), elements / (4096 * size_of))
    function = pk.fuse(whole.function)
    task = racing.Task("", whole.function, arguments, whole.written)
    return lambda *_: function(*task.fresh(pk)), ()


def contenders(function, arguments):
    """Return the call for `auto` and for each engine that runs it within LONGEST, by the engine's name.

    `auto` has learned before, for LEARNING.
    """
    found = {}
    for engine in ("auto", *(name for name, status in pk.engines().items() if status)):
        pk.set_engine(engine)
        try:
            times = [racing.timed(function, arguments)[0] for _ in range(3)]
            while engine == "auto" and sum(times) < LEARNING:
                times.append(racing.timed(function, arguments)[0])
        except (pk.errors.Unsupported, TypeError):
            continue  # a named engine that lacks the call
        if engine == "auto" or min(times) < LONGEST:
            found[engine] = lambda: function(*arguments)
    return found


def measure(label, make, data, rounds):
    """Return a cell, or None where NumPy does not take this size."""
    try:
        function, arguments = make(data)
        found = contenders(function, arguments)
    except ValueError:  # for example for too few elements
        return None
    if len(found) < 2:
        return None
    timed = interleave(found, rounds=rounds, before=pk.set_engine, seconds=CELL_SECONDS)
    times = {name: min(t.rounds) for name, t in timed.items()}
    pk.set_engine("auto")
    found["auto"]()
    chosen = pk.last_call().engine if pk.last_call() else "numpy"
    seconds = times.pop("auto")
    return Cell(label, data.size, chosen, seconds, times)


def summary(cells):
    """Return the geometric mean of the regrets, by size and of all, and the number of cells above MOST."""
    by_size = collections.defaultdict(list)
    for cell in cells:
        by_size[f"{cell.elements:,}"].append(cell.regret)
    by_size["all"] = [cell.regret for cell in cells]
    return {
        size: (statistics.geometric_mean(regrets), sum(r > MOST for r in regrets), len(regrets))
        for size, regrets in by_size.items()
        if regrets
    }


def _sizes(text):
    return tuple(int(size) for size in text.split(","))


def main():
    """Measure, and print the cells with a regret, worst last."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two sizes, a round: no figures")
    parser.add_argument("--rounds", type=int, help="most rounds of each cell (15; 1 when quick)")
    parser.add_argument("--sizes", type=_sizes, default=(*SIZES, HUGE), metavar="N,N", help="elements")
    parser.add_argument("--only", default="", help="calls whose name contains this")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a figure is missed")
    parser.add_argument("--json", metavar="FILE", help="write all cells to a file")
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 15)
    sizes = SIZES[:2] if options.quick else options.sizes
    warnings.simplefilter("ignore")
    print(machine())
    cells, works = [], list(calls(options.only))
    progress = Progress(len(works) * len(sizes), print)
    for size in sizes:
        data = small.Data(size)
        for label, make in works:
            progress.step(f"{label}, {size:,}")
            if size == HUGE and label not in HUGE_NAMES:
                continue
            cell = measure(label, make, data, rounds)
            if cell is None:
                continue
            cells.append(cell)
            if cell.regret > MOST:
                progress.say(
                    f"{label:<18} {size:>11,}  auto took {cell.chosen:<5} {format_seconds(cell.seconds):>8}, "
                    f"{cell.best:<5} {format_seconds(cell.best_seconds):>8}: {cell.regret:.2f}"
                )
    progress.close()
    found = summary(cells)
    for size, (mean, above, count) in found.items():
        print(f"{size:>11}: geometric mean {mean:.3f}, {above} of {count} above {MOST}")
    if options.json:
        names = "best", "best_seconds", "regret"
        rows = [
            {**dataclasses.asdict(cell), **{name: getattr(cell, name) for name in names}} for cell in cells
        ]
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine(), "quick": options.quick, "rows": rows}, file, indent=1)
    mean, above, _ = found.get("all", (math.nan, 0, 0))
    return int(options.strict and not (mean <= MEAN and above == 0))


if __name__ == "__main__":
    sys.exit(main())
