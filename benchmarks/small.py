"""Overhead of small calls under `auto` over NumPy's, for every public function that NumPy has.

A figure is the time beyond NumPy's: 2 us where NumPy computes, 4 us elsewhere, below 10,000 elements.
"""

import argparse
import dataclasses
import json
import operator
import sys
import time
import warnings

import numpy as np
from harness import machine

import pycudakit as pk

SIZES = (1, 10, 1000, 10_000)
BY_NUMPY, BY_ENGINES = 2e-6, 4e-6
BELOW = 10_000  # elements up to which the figures hold

# Names to skip: functions that only pycudakit has or that are timed elsewhere, and constants.
OTHERS = [
    "cummax",
    "cummin",
    "exclusive_scan",
    "topk",
    "evaluate",
    "fuse",
    "random",
    "image",
    "linalg",
    "kernels",
    "errors",
    "engine",
    "engines",
    "set_engine",
    "last_call",
    "profile",
    "devices",
    "build_info",
    "memory_info",
    "release",
    "link_speed",
    "tunings",
    "tuned",
    "get_include",
    "get_library_dir",
    "empty_pinned",
    "pinned_copy",
    "grid_for",
    "wrap",
    "numpy",
]

INTEGERS = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "left_shift",
    "right_shift",
    "gcd",
    "lcm",
    "bitwise_invert",
    "bitwise_not",
    "invert",
]
WITHIN_ONE = ["arcsin", "asin", "arccos", "acos", "arctanh", "atanh"]


class Data:
    """The arguments of one size."""

    def __init__(self, size):
        rng = np.random.default_rng(1)
        self.size = size
        self.x = rng.random(size) + 1.0
        self.y = rng.random(size) + 1.0
        self.part = rng.random(size) * 0.9
        self.i = rng.integers(1, 50, size)
        self.j = rng.integers(1, 20, size)
        self.truth = self.x > 1.5
        self.out = np.empty(size)
        self.side = side = max(1, int(size**0.5))
        self.square = rng.random((side, side))
        self.row = self.square[0]
        self.list = self.x.tolist()


# The arguments and keywords of functions that do not take just one array, or two of one size.
ARGUMENTS = {
    "allclose": lambda d: (d.x, d.x),
    "around": lambda d: (d.x, 1),
    "astype": lambda d: (d.x, np.float32),
    "average": lambda d: (d.x,),
    "bincount": lambda d: (d.i,),
    "clip": lambda d: (d.x, 1.2, 1.8),
    "convolve": lambda d: (d.x, d.x[:5]),
    "correlate": lambda d: (d.x, d.x[:5]),
    "cov": lambda d: (np.stack([d.x, d.y]),),
    "corrcoef": lambda d: (np.stack([d.x, d.y]),),
    "compress": lambda d: (d.truth, d.x),
    "concatenate": lambda d: ((d.x, d.y),),
    "cross": lambda d: (d.x[: d.size // 3 * 3].reshape(-1, 3), d.y[: d.size // 3 * 3].reshape(-1, 3)),
    "digitize": lambda d: (d.x, np.linspace(1, 2, 9)),
    "einsum": lambda d: ("i,i->", d.x, d.y),
    "gradient": lambda d: (np.append(d.x, 1.0),),
    "histogram": lambda d: (d.x,),
    "histogram2d": lambda d: (d.x, d.y),
    "histogramdd": lambda d: (d.square[:, :2],),
    "interp": lambda d: (d.x, np.linspace(0, 3, 100), np.linspace(1, 2, 100)),
    "kron": lambda d: (d.row, d.row),
    "ldexp": lambda d: (d.x, d.i),
    "lexsort": lambda d: ((d.i, d.x),),
    "matmul": lambda d: (d.square, d.square),
    "outer": lambda d: (d.row, d.row),
    "pad": lambda d: (d.x, 2),
    "partition": lambda d: (d.x, d.size // 2),
    "argpartition": lambda d: (d.x, d.size // 2),
    "percentile": lambda d: (d.x, 30.0),
    "nanpercentile": lambda d: (d.x, 30.0),
    "quantile": lambda d: (d.x, 0.3),
    "nanquantile": lambda d: (d.x, 0.3),
    "repeat": lambda d: (d.x, 2),
    "roll": lambda d: (d.x, 3),
    "round": lambda d: (d.x, 1),
    "searchsorted": lambda d: (np.sort(d.x), d.y),
    "stack": lambda d: ((d.x, d.y),),
    "swapaxes": lambda d: (d.square, 0, 1),
    "take": lambda d: (d.x, d.j % d.size),
    "take_along_axis": lambda d: (d.x, d.j % d.size, 0),
    "tensordot": lambda d: (d.square, d.square, 1),
    "tile": lambda d: (d.x, 2),
    "trace": lambda d: (d.square,),
    "transpose": lambda d: (d.square,),
    "trapezoid": lambda d: (d.x,),
    "tril": lambda d: (d.square,),
    "triu": lambda d: (d.square,),
    "where": lambda d: (d.truth, d.x, d.y),
}
TWO = [
    "allclose",
    "array_equal",
    "copysign",
    "dot",
    "inner",
    "intersect1d",
    "isclose",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "vdot",
    "vecdot",
]

# Further calls with options: a label, the function, and its arguments.
MORE = [
    ("exp(1.0)", "exp", lambda _: (1.0,)),
    ("exp(np.float64)", "exp", lambda d: (d.x[0],)),
    ("exp(list)", "exp", lambda d: (d.list,)),
    ("exp(out=)", "exp", lambda d: (d.x, d.out)),
    ("add(x, 2.0)", "add", lambda d: (d.x, 2.0)),
    ("add(x, np.float64)", "add", lambda d: (d.x, d.y[0])),
    ("add(out=)", "add", lambda d: (d.x, d.y, d.out)),
    ("add(square, row)", "add", lambda d: (d.square, d.row)),
    ("add(list, list)", "add", lambda d: (d.list, d.list)),
    ("sum(int)", "sum", lambda d: (d.i,)),
    ("sum(axis=0)", "sum", lambda d: (d.square, 0)),
    ("sum(int, axis=0)", "sum", lambda d: (d.i.reshape(-1, 1), 0)),
    ("mean(axis=1)", "mean", lambda d: (d.square, 1)),
    ("max(axis=0)", "max", lambda d: (d.square, 0)),
    ("argmax(axis=0)", "argmax", lambda d: (d.square, 0)),
    ("any(axis=0)", "any", lambda d: (d.square > 0.5, 0)),
    ("max(list)", "max", lambda d: (d.list,)),
    ("cumsum(int)", "cumsum", lambda d: (d.i,)),
    ("sort(axis=0)", "sort", lambda d: (d.square, 0)),
    ("sort(list)", "sort", lambda d: (d.list,)),
    ("dot(int)", "dot", lambda d: (d.i, d.j)),
    ("linalg.norm", "linalg.norm", lambda d: (d.x,)),
    ("linalg.norm(axis=1)", "linalg.norm", lambda d: (d.square, None, 1)),
    ("linalg.matrix_power", "linalg.matrix_power", lambda d: (d.square[:10, :10], 3)),
]
DRAWS = {
    "random": lambda d: (d.size,),
    "standard_normal": lambda d: (d.size,),
    "normal": lambda d: (0.0, 1.0, d.size),
    "uniform": lambda d: (0.0, 1.0, d.size),
    "exponential": lambda d: (1.0, d.size),
    "poisson": lambda d: (3.0, d.size),
    "binomial": lambda d: (10, 0.3, d.size),
    "integers": lambda d: (0, 100, d.size),
    "permutation": lambda d: (d.size,),
    "choice": lambda d: (d.x, d.size),
}


def arguments_of(name, data):
    """Return the arguments and keywords of a function's call."""
    if name in ARGUMENTS:
        return ARGUMENTS[name](data)
    numpys = getattr(np, name)
    if name in INTEGERS:
        return (data.i, data.j)[: numpys.nin]
    if name in WITHIN_ONE:
        return (data.part,)
    two = name in TWO or (isinstance(numpys, np.ufunc) and numpys.nin == 2)
    return (data.x, data.y) if two else (data.x,)


def calls():
    """Yield a label, pycudakit's function and NumPy's, and a function that makes their arguments."""
    for name in pk.__all__:
        if name not in OTHERS and name[0].islower() and hasattr(np, name):
            yield name, getattr(pk, name), getattr(np, name), lambda d, name=name: arguments_of(name, d)
    for label, name, arguments in MORE:
        yield label, operator.attrgetter(name)(pk), operator.attrgetter(name)(np), arguments
    ours, numpys = pk.random.default_rng(1), np.random.Generator(np.random.Philox(1))
    for name, arguments in DRAWS.items():
        yield f"rng.{name}", getattr(ours, name), getattr(numpys, name), arguments


@dataclasses.dataclass(frozen=True)
class Row:
    """The overhead of a call over NumPy's."""

    work: str
    elements: int
    engine: str
    numpy_seconds: float
    seconds: float
    more: float
    at_most: float | None
    verdict: str


def least(call, arguments, samples, lasting=60e-6):
    """Return the least seconds of a call in each of `samples` samples of a few calls."""
    begin = time.perf_counter()
    call(*arguments)
    count = max(1, int(lasting / max(time.perf_counter() - begin, 1e-7)))
    best = float("inf")
    for _ in range(samples):
        begin = time.perf_counter()
        for _ in range(count):
            call(*arguments)
        best = min(best, (time.perf_counter() - begin) / count)
    return best


def measure(ours, numpys, arguments, rounds):
    """Return a row, or None if the two functions do not support this size."""
    try:
        for _ in range(5):
            ours(*arguments)
            numpys(*arguments)
    except ValueError:  # for example for no elements
        return None
    engine = pk.last_call().engine if pk.last_call() else ""
    times = [(least(numpys, arguments, 10), least(ours, arguments, 10)) for _ in range(rounds)]
    theirs, mine = (min(column) for column in zip(*times, strict=True))
    return theirs, mine, engine


def main():
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two sizes, fewer repeats: no figures")
    parser.add_argument("--rounds", type=int, help="rounds of each call (5; 1 when quick)")
    parser.add_argument("--only", default="", help="calls whose name contains this")
    parser.add_argument("--short", action="store_true", help="print only cases that miss their figure")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a figure is missed")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 5)
    rows = []
    if not options.json:
        print(machine())
        print(f"{'call':<22} {'elements':>8}  {'engine':<6} {'NumPy':>9} {'auto':>9} {'more':>9}  at most")
    pk.set_engine("auto")
    warnings.simplefilter("ignore")
    for size in (10, 1000) if options.quick else SIZES:
        data = Data(size)
        for label, ours, numpys, make in calls():
            if options.only not in label:
                continue
            measured = measure(ours, numpys, make(data), rounds)
            if measured is None:
                continue
            theirs, mine, engine = measured
            allowed = (BY_NUMPY if engine == "numpy" else BY_ENGINES) if size < BELOW else None
            verdict = "" if allowed is None else "ok" if mine - theirs <= allowed else "SHORT"
            row = Row(label, size, engine, theirs, mine, mine - theirs, allowed, verdict)
            rows.append(row)
            if not options.json and (verdict == "SHORT" or not options.short):
                times = (f"{seconds * 1e6:>6.2f} us" for seconds in (theirs, mine, mine - theirs))
                figure = "" if allowed is None else f"{allowed * 1e6:.0f} us"
                print(f"{label:<22} {size:>8,}  {engine:<6}", *times, f" {figure:<7} {verdict}".rstrip())
    if options.json:
        told = {"machine": machine(), "quick": options.quick, "rows": [dataclasses.asdict(r) for r in rows]}
        print(json.dumps(told, indent=1))
    else:
        figures = [row for row in rows if row.at_most is not None]
        print(f"\n{sum(row.verdict == 'ok' for row in figures)} of {len(figures)} figures met")
    return int(options.strict and any(row.verdict == "SHORT" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
