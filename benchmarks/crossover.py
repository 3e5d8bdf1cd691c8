"""The sizes from which on a call is faster on a GPU, family by family: the data of docs/which-calls-pay.md.

    python benchmarks/crossover.py --measure run.json           # on a machine with a GPU, in 140 seconds
    python benchmarks/crossover.py --from run.json docs/pays    # anywhere: draws it, and writes the page
    python benchmarks/crossover.py docs/pays                    # without a run: by the cost model

A run has the times of NumPy and of each engine, measured in turn, of ordinary arrays in and new ones out, up
to the size at which a call would take over PATIENCE. Without a run, the cost model of `auto` gives the times,
for the machine of docs/measured.md. Drawing needs matplotlib.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import pycudakit as pk
from pycudakit._cli import bench
from pycudakit._cli.progress import Progress
from pycudakit._cli.timing import interleave

SIZES = [factor * 10**power for power in range(3, 8) for factor in (1, 2, 5)] + [10**8]
QUICK = [1_000, 10_000, 100_000]
PATIENCE = 0.15  # seconds per call; a size that would take longer is not begun
EXPRESSION = "where(x > 0.5, sqrt(x*x + 1) * exp(-x), log1p(x) / (1 + x))"


@dataclass(frozen=True)
class Call:
    """A call that is timed at each size.

    Parameters
    ----------
    of
        The call: ``of(*arrays)``.
    arrays
        Makes its arguments from that many random numbers.
    dtype
        The numbers' type; floats are in [0, 1), integers below their count.
    row
        The label of its row in docs/measured.md, if it has one.
    modelled
        Whether the cost model covers the call.
    """

    of: Callable
    arrays: Callable = lambda x: (x,)
    dtype: type = np.float32
    row: str | None = None
    modelled: bool = True


def square(x):
    side = int(x.size**0.5)
    return (x[: side * side].reshape(side, side),)


def standardise(x):
    return np.clip((x - x.mean()) / x.std(), -3.0, 3.0)


def haversine(a, b):
    half = np.sin((b - a) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin((a * b) / 2) ** 2
    return 12742.0 * np.arcsin(np.sqrt(half))


def twice(x):
    return x, x


def points(x):
    return x, np.linspace(0, 1, 1000), np.ones(1000)


def draws(method):
    return lambda x: getattr(pk.random.default_rng(1), method)(x.size, np.float32)


FAMILIES = {
    "elementwise": {
        "add": Call(pk.add, twice, row="add"),
        "exp": Call(pk.exp),
        "sin, float64": Call(pk.sin, dtype=np.float64),
        "less": Call(pk.less, twice),
    },
    "expression": {
        "a long expression": Call(lambda x: pk.evaluate(EXPRESSION, {"x": x})),
        "a*b + c": Call(lambda x: pk.evaluate("x*x + x", {"x": x})),
    },
    "reduce": {"sum": Call(pk.sum, row="sum"), "std": Call(pk.std), "argmax": Call(pk.argmax)},
    "scan": {"cumsum": Call(pk.cumsum, row="cumsum"), "diff": Call(pk.diff)},
    "sort": {
        "sort": Call(pk.sort, row="sort"),
        "argsort": Call(pk.argsort, row="argsort"),
        "unique": Call(pk.unique, row="unique"),
    },
    "histogram": {
        "histogram, 100 bins": Call(lambda x: pk.histogram(x, 100, (0, 1)), row="histogram, 100 bins"),
    },
    "select": {"median": Call(pk.median)},
    "matmul": {"product of square matrices": Call(lambda x: pk.matmul(x, x), square)},
    "interp": {"interp, 1,000 points": Call(pk.interp, points)},
    "take": {"take, int64": Call(pk.take, twice, np.int64)},
    "random": {
        "random": Call(draws("random"), row="random float32, 64,000,000"),
        "standard_normal": Call(draws("standard_normal")),
    },
    "image": {
        "gaussian_blur(3)": Call(lambda x: pk.image.gaussian_blur(x, 3), square),
        "box_blur, 3 x 3": Call(lambda x: pk.image.box_blur(x, 3), square),
        "median_filter, 3 x 3": Call(lambda x: pk.image.median_filter(x, 3), square),
    },
    "fusing": {
        "standardise": Call(pk.fuse(standardise), modelled=False),
        "haversine": Call(pk.fuse(haversine), twice, modelled=False),
    },
}


# ---- Measuring ----------------------------------------------------------------------------------------


def measure(only, seconds, sizes):
    """Time all calls, the small sizes first, for about `seconds`; return a run, as plain data."""
    end = time.monotonic() + seconds
    engines = {"NumPy": "numpy", **{name: name for name in ("cpu", "cuda") if pk.engines()[name]}}
    numbers = np.random.default_rng(0).random(max(sizes), np.float32)
    calls = [(family, name, call) for family in FAMILIES for name, call in FAMILIES[family].items()]
    calls = [each for each in calls if only in each[0] or only in each[1]]
    rows, left = [], {(family, name): dict(engines) for family, name, _ in calls}
    progress = Progress(len(sizes) * len(calls), print)
    for size, larger in zip(sizes, [*sizes[1:], None], strict=True):
        for family, name, call in calls:
            progress.step(f"{name} of {size:,}")
            wanted = left[family, name]
            if not wanted or time.monotonic() > end:
                continue
            for by, taken in _times(call, _typed(numbers[:size], call.dtype), wanted).items():
                rows.append({"family": family, "call": name, "elements": size, "by": by, "rounds": taken})
                if larger and taken[len(taken) // 2] * larger / size > PATIENCE:
                    del wanted[by]
    progress.close()
    pk.set_engine("auto")
    told = bench.described()
    links = [device["link"] for device in told["machine"]["devices"]]
    return {
        "day": told["day"],
        "processor": told["processor"],
        "cpu": told["machine"]["engines"]["cpu"]["reason"],
        "devices": [device["name"] for device in told["machine"]["devices"]],
        "links": links,
        "numpy": np.__version__,
        "pycudakit": pk.__version__,
        "whole": time.monotonic() < end,
        "rows": rows,
    }


def _typed(numbers, dtype):
    scale = numbers.size - 1 if np.issubdtype(dtype, np.integer) else 1
    return numbers if numbers.dtype == dtype else (numbers * np.float64(scale)).astype(dtype)


def _times(call, numbers, engines):
    """Return the sorted seconds of some rounds, by engine; drop engines that do not support the call."""
    arrays = call.arrays(numbers)
    for by in list(engines):
        pk.set_engine(engines[by])
        try:
            call.of(*arrays)
        except pk.errors.Error as error:
            print(f"{by}: {error}")
            del engines[by]
    calls = {by: lambda: call.of(*arrays) for by in engines}
    rounds = 7 if numbers.size <= 1_000_000 else 3
    found = interleave(calls, rounds, 1, lambda by: pk.set_engine(engines[by]))
    return {by: [float(f"{each:.4g}") for each in sorted(times.rounds)] for by, times in found.items()}


# ---- The command line ---------------------------------------------------------------------------------


def main():
    """Measure a run, or draw the plots and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where the plots go")
    parser.add_argument("--measure", type=Path, metavar="JSON", help="time all calls here, and write the run")
    parser.add_argument("--from", type=Path, metavar="JSON", dest="run", help="draw this run")
    parser.add_argument("--seconds", type=float, default=140, help="after which no more is measured")
    parser.add_argument("--only", default="", help="families or calls whose name contains this")
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    options = parser.parse_args()
    if not (options.measure or options.folder):
        parser.error("name a measurement, or a folder for the plots")
    run = json.loads(options.run.read_text(encoding="utf-8")) if options.run else None
    if options.measure:
        run = measure(options.only, options.seconds, QUICK if options.quick else SIZES)
        options.measure.write_text(json.dumps(run, indent=0) + "\n", encoding="utf-8")
        print(f"wrote {options.measure}: {len(run['rows'])} times" + ("" if run["whole"] else ", cut short"))
    if options.folder:
        import crossover_plots  # noqa: PLC0415 - matplotlib is not where a run is measured

        options.folder.mkdir(parents=True, exist_ok=True)
        crossover_plots.draw(options.folder, run, FAMILIES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
