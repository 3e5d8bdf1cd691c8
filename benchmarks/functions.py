"""Whole functions by NumPy, by pk.fuse on each engine, and by other libraries where they are installed.

Ordinary arrays in and out, all contenders in turn, the best of some rounds each. Then come the target figures
on a GPU, at --scale 1: most are fractions of the floor, the time that the link needs to upload the arguments
or to download the results. benchmarks/npbench.py uses this module for its programs.
"""

import contextlib
import dataclasses
import importlib.util
import json
import math
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path

import figures
import libraries
import numpy as np
import report
from harness import link_seconds, machine

import pycudakit as pk
from pycudakit._cli.progress import Progress
from pycudakit._native.formatting import format_seconds

M = 1_000_000
CLOSE = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-8, np.dtype(np.complex128): 1e-8}
ENOUGH = 10.0  # seconds of timing per contender, after which it has no more rounds
PATIENCE = 120.0  # seconds for another library's first call: some compile every step of a loop
WIDTH = 20


# ---- Tasks and their contenders -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Task:
    """A function and its arguments.

    Parameters
    ----------
    name, function, arguments
        The call. A Seed among the arguments becomes a random generator of the library.
    written
        The indices of the arguments that the function modifies: each call gets copies of these.
    within
        The allowed difference from NumPy's results, relative to the largest, if not that of their dtype.
    others
        The allowed fraction of a result's integers that differ from NumPy's.
    numba
        Whether Numba's users would write it like this.
    versions
        The function as another library's users write it, by the library's name.
    scratch
        The indices of the arguments that the function may overwrite without a meaning: calls get copies, too.
    """

    name: str
    function: Callable
    arguments: tuple
    written: tuple = ()
    within: float | None = None
    others: float = 0.0
    numba: bool = False
    versions: Mapping[str, Callable] = dataclasses.field(default_factory=dict)
    scratch: tuple = ()

    def fresh(self, library):
        """Return arguments for one call."""
        return [
            library.random.default_rng(int(value))
            if isinstance(value, Seed)
            else value.copy()
            if place in self.written or place in self.scratch
            else value
            for place, value in enumerate(self.arguments)
        ]

    def results(self, returned, arguments):
        """Return all results as a list: the returned ones, and the arguments that were written to."""
        returned = [] if returned is None else returned if isinstance(returned, (tuple, list)) else [returned]
        return [*returned, *(arguments[place] for place in self.written)]


class Seed(int):
    """A placeholder for a random generator with this seed."""


@dataclasses.dataclass(frozen=True)
class Contender:
    """A library that runs tasks: `library` has its generators, and `prepare(task)` returns a task's call."""

    library: types.ModuleType
    prepare: Callable
    is_ours: bool = False


class TooLong(BaseException):  # a compiling library would handle an Exception as its own error
    """A call took longer than PATIENCE."""


@contextlib.contextmanager
def patience(seconds):
    """Raise TooLong if the body takes longer."""

    def stop(*_):
        raise TooLong(f"no result in {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def in_terms_of(function, namespace):
    """Return a copy of a function with another `np` in its globals, and in those of functions it calls."""
    own = function.__globals__
    there = {**own, "np": namespace}

    def copied(other):
        return types.FunctionType(
            other.__code__, there, other.__name__, other.__defaults__, other.__closure__
        )

    there.update(
        (name, copied(value))
        for name, value in own.items()
        if isinstance(value, types.FunctionType) and value.__globals__ is own
    )
    return copied(function)


def by(function_of, engine):
    """Make a `prepare` that applies `function_of` to a task's function, to be called under an engine.

    For NumPy the engine is `cpu`: image functions that NumPy lacks are pycudakit's, one by one.
    """

    def prepare(task):
        function = function_of(task.function)

        def call(*arguments):
            with pk.engine(engine):
                return task.results(function(*arguments), arguments)

        return call

    return prepare


def cupy():
    import cupy  # noqa: PLC0415

    cupy.cuda.runtime.getDeviceCount()

    def prepare(task):
        function = task.versions.get("CuPy") or in_terms_of(task.function, cupy)

        def call(*arguments):
            there = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
            return [cupy.asnumpy(result) for result in task.results(function(*there), there)]

        return call

    return Contender(cupy, prepare)


def functional_results(returned):
    """Return the results of a function without side effects as a list."""
    return [*returned] if isinstance(returned, (tuple, list)) else [returned]


def jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)

    def prepare(task):
        if own := task.versions.get("JAX"):
            return lambda *arguments: [
                np.asarray(r)
                for r in functional_results(
                    own(*(jax.numpy.array(a) if isinstance(a, np.ndarray) else a for a in arguments))
                )
            ]
        if task.written:
            raise TypeError("JAX's arrays cannot be written to")
        if any(isinstance(a, Seed) for a in task.arguments):
            raise TypeError("JAX has no generators")
        fixed = [place for place, a in enumerate(task.arguments) if not isinstance(a, np.ndarray)]
        function = jax.jit(in_terms_of(task.function, jax.numpy), static_argnums=fixed)
        return lambda *arguments: [np.asarray(r) for r in task.results(function(*arguments), arguments)]

    return Contender(np, prepare)


def torch():
    import torch  # noqa: PLC0415

    def prepare(task):
        torch.compiler.reset()
        function = torch.compile(task.function)
        return lambda *arguments: task.results(function(*arguments), arguments)

    return Contender(np, prepare)


def numba():
    import numba  # noqa: PLC0415

    def prepare(task):
        function = task.versions.get("Numba")
        if function is None and not task.numba:
            raise TypeError("its users would write it otherwise")
        function = function or numba.njit(parallel=True, fastmath=False)(task.function)
        return lambda *arguments: task.results(function(*arguments), arguments)

    return Contender(np, prepare)


PEERS = {"CuPy": cupy, "JAX": jax, "torch.compile": torch, "Numba": numba}


# ---- Races --------------------------------------------------------------------------------------------


def difference(results, expected, task):
    """Describe how results differ from NumPy's, or return None if they don't."""
    if len(results) != len(expected):
        return f"{len(results)} results, not {len(expected)}"
    for mine, theirs in zip(map(np.asarray, results), map(np.asarray, expected), strict=True):
        if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
            return f"{mine.dtype} of {mine.shape}, not {theirs.dtype} of {theirs.shape}"
        if theirs.dtype.kind not in "fc":
            wrong = np.count_nonzero(mine != theirs)
            if wrong > task.others * theirs.size:
                return f"{wrong} of {theirs.size} are others"
            continue
        if (np.isnan(mine) != np.isnan(theirs)).any():
            return "it has its NaNs elsewhere"
        part = CLOSE[theirs.dtype] if task.within is None else task.within
        largest = np.abs(theirs).max(initial=0, where=np.isfinite(theirs))
        if not np.allclose(mine, theirs, part, part * largest, equal_nan=True):
            return (
                f"as far as {np.nanmax(np.abs(mine - theirs)):.3g} from it, the largest being {largest:.3g}"
            )
    return None


def timed(call, arguments):
    begin = time.perf_counter()
    results = call(*arguments)
    return time.perf_counter() - begin, results


def parser(file, description):
    """Make a script's parser."""
    available = [name for name in ("cpu", "cuda") if pk.engines()[name]]
    stem = Path(file).stem
    parser = report.parser(file, description)
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="those whose name has this")
    parser.add_argument("--engines", nargs="+", choices=[*available, "auto"], default=[*available, "auto"])
    parser.add_argument("--no-peers", action="store_true", help="NumPy and pycudakit alone")
    parser.add_argument("--repeat", type=int, help="rounds of each race (5; 3 when quick)")
    parser.add_argument(
        "--json", nargs="?", const=f"{stem}.json", metavar="FILE", help=f"write JSON ({stem}.json)"
    )
    return parser


def wanted(names, options):
    return [name for name in names if any(part in name for part in options.only)]


class Races:
    """Runs tasks by all contenders, and prints a row for each.

    Parameters
    ----------
    options
        The parsed command line.
    total
        The number of tasks.
    longest
        The seconds that a first call may take under NumPy and pycudakit, if there is a limit.
    """

    def __init__(self, options, total, longest=None):
        self._options, self._longest = options, longest
        self._repeat = options.repeat or (3 if options.quick else 5)
        peers, self._missing = libraries.installed({} if options.no_peers else PEERS)
        ours = {name: Contender(pk, by(pk.fuse, name), is_ours=True) for name in options.engines}
        self._contenders = {"NumPy": Contender(np, by(lambda function: function, "cpu")), **ours, **peers}
        self._rows, self._notes, self._failed = [], [], False
        print(machine())
        if self._missing:
            print(f"not installed: {', '.join(self._missing)}")
        print("times, and how many times as fast as NumPy\n")
        print(f"{'':<14}" + "".join(f"{name:>{WIDTH}}" for name in self._contenders))
        self._progress = Progress(total, print)

    def step(self, name):
        """Show the name of the task being prepared and run."""
        self._progress.step(name)

    def run(self, task):
        """Run a task and print its row; return the times by contender, and NumPy's results."""
        calls, samples, words, expected = {}, {}, {}, None
        for name, contender in self._contenders.items():
            is_peer = name != "NumPy" and not contender.is_ours
            limit = PATIENCE if is_peer else self._longest
            try:
                with contextlib.nullcontext() if limit is None else patience(limit):
                    call = contender.prepare(task)
                    seconds, results = timed(call, task.fresh(contender.library))
            except (Exception, TooLong) as error:  # a library may raise anything
                if name == "NumPy" and not isinstance(error, TooLong):
                    raise
                note = f"{type(error).__name__}: {error}".splitlines()[0]
                late = isinstance(error, TooLong) and not is_peer
                words[name] = "late" if late else "FAILED" if contender.is_ours else "-"
            else:
                note = None if expected is None else difference(results, expected, task)
                expected = results if expected is None else expected
                if note is None:
                    calls[name], samples[name] = call, [seconds] if name == "NumPy" else []
                else:
                    words[name] = "WRONG"
                del results
            if name in words:
                self._note(task, name, words[name], note)
            if words.get("NumPy"):
                return {}, None
        names = [*calls]
        for _ in range(self._repeat):
            for name in names:
                if sum(samples[name]) < ENOUGH:
                    arguments = task.fresh(self._contenders[name].library)
                    samples[name].append(timed(calls[name], arguments)[0])
            names.reverse()
        taken = {name: min(times) for name, times in samples.items()}
        self._row(task, taken, words)
        return taken, expected

    def _note(self, task, name, word, note):
        self._notes.append({"task": task.name, "by": name, "word": word, "note": note})
        if word != "-":
            self._progress.say(f"{task.name}: {name} {word}: {note}")
        self._failed |= self._contenders[name].is_ours and word != "late"

    def _row(self, task, taken, words):
        line = f"{task.name:<14}"
        for name in self._contenders:
            cell = words.get(name, "")
            if name in taken:
                ratio = taken["NumPy"] / taken[name]
                self._rows.append({"task": task.name, "by": name, "seconds": taken[name], "ratio": ratio})
                cell = format_seconds(taken[name]) + ("" if name == "NumPy" else f"{ratio:>8.2f}x")
            line += f"{cell:>{WIDTH}}"
        self._progress.say(line)

    def _means(self):
        means = {}
        for name in self._contenders:
            logs = [math.log(row["ratio"]) for row in self._rows if row["by"] == name]
            means[name] = math.exp(sum(logs) / len(logs)) if logs else None
        return means

    def close(self):
        """Print the geometric means."""
        self._progress.close()
        cells = ["" if m is None or n == "NumPy" else f"{m:.2f}x" for n, m in self._means().items()]
        print(f"{'geometric mean':<14}" + "".join(f"{cell:>{WIDTH}}" for cell in cells))

    def finish(self, **more):
        """Write the outputs; return the exit status, which is 1 if pycudakit is wrong or failed."""
        if self._options.json:
            everything = {
                "machine": machine(),
                "quick": self._options.quick,
                "missing": self._missing,
                "rows": self._rows,
                "means": self._means(),
                "notes": self._notes,
                **more,
            }
            Path(self._options.json).write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
            print(f"wrote {self._options.json}")
        report.picture(self._options.png, self._draw)
        return 1 if self._failed else 0

    def _draw(self, axes):
        tasks = [*dict.fromkeys(row["task"] for row in self._rows)]
        for name in self._contenders:
            ratios = {row["task"]: row["ratio"] for row in self._rows if row["by"] == name}
            axes[0].plot([*ratios.values()], [tasks.index(task) for task in ratios], "o", label=name)
        axes[0].set_yticks(range(len(tasks)), tasks, fontsize="x-small")
        axes[0].set(xscale="log", xlabel="times as fast as NumPy")
        axes[0].grid(alpha=0.3)
        axes[0].legend(fontsize="small")


# ---- The functions ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Whole:
    """A function, its arguments, and its target figures.

    Parameters
    ----------
    function
        Takes NumPy from the module's global `np`.
    make
        Makes its arguments from a generator and the scale.
    of_floor, most_ms, most_of_memory
        The minimal fraction of the floor's speed; the maximal ms; the maximal multiple of the time to read
        and write its array once per step in an H200's memory.
    written, others, within
        As for a Task; `within` is called with the scale.
    """

    function: Callable
    make: Callable
    of_floor: float | None = None
    most_ms: float | None = None
    most_of_memory: float | None = None
    written: tuple = ()
    others: float = 0.0
    within: Callable = lambda _: None


MEMORY_SPEED = 4.3e12  # bytes a second
SPOT, RATE, VOLATILITY, YEARS = 100.0, 0.02, 0.3, 1.0


def side(length, scale):
    return max(16, round(length * scale**0.5))


def normal_cdf(x):
    """Return the normal distribution function of x, by Abramowitz and Stegun's formula 26.2.17."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    polynomial = t * (
        0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    )
    above = 0.3989422804 * np.exp(-0.5 * x * x) * polynomial
    return np.where(x > 0, 1.0 - above, above)


def black_scholes(price, strike, years):
    spread = VOLATILITY * np.sqrt(years)
    d1 = (np.log(price / strike) + (RATE + 0.5 * VOLATILITY * VOLATILITY) * years) / spread
    d2 = d1 - spread
    owed = strike * np.exp(-RATE * years)
    call = price * normal_cdf(d1) - owed * normal_cdf(d2)
    return call, call - price + owed


def haversine(latitude_1, longitude_1, latitude_2, longitude_2):
    a = np.sin((latitude_2 - latitude_1) / 2) ** 2
    b = np.cos(latitude_1) * np.cos(latitude_2) * np.sin((longitude_2 - longitude_1) / 2) ** 2
    return 12742.0 * np.arcsin(np.sqrt(a + b))


def standardise(x):
    return np.clip((x - x.mean(axis=0)) / x.std(axis=0), -3.0, 3.0)


def softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def rolling_mean(x, width):
    sums = np.cumsum(x, dtype=np.float64)  # float32 would be too inexact for so many elements
    return ((sums[width:] - sums[:-width]) / width).astype(np.float32)


def nearest_centre(points, centres):
    squares = np.sum(points * points, axis=1, keepdims=True) + np.sum(centres * centres, axis=1)
    return np.argmin(squares - 2.0 * (points @ centres.T), axis=1)


def statistics(x):
    y = np.sqrt(x * x + 1.0) * np.exp(-x)
    return y.mean(), y.std(), y.min(), y.max()


def monte_carlo(generator, paths):
    """Return the price of a call option whose strike is the price of today."""
    normals = generator.standard_normal(paths, dtype=np.float32)
    drift = (RATE - 0.5 * VOLATILITY * VOLATILITY) * YEARS
    price = SPOT * np.exp(drift + VOLATILITY * math.sqrt(YEARS) * normals)
    return math.exp(-RATE * YEARS) * np.maximum(price - SPOT, 0.0).mean()


def edges_of_image(image):
    grey = pk.image.rgb_to_gray(image)
    edges = pk.image.sobel(pk.image.gaussian_blur(grey, 1.0), None)
    return np.bincount(edges.ravel(), minlength=256)


def heat(u, steps):
    for _ in range(steps):
        sides = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u[1:-1, 1:-1] += 0.2 * (sides - 4.0 * u[1:-1, 1:-1])


def singles(low, high, count, millions):
    """Return a function that makes arrays of float32 between two numbers."""

    def make(rng, scale):
        size = round(millions * M * scale)
        return tuple(
            (low + (high - low) * rng.random(size, np.float32)).astype(np.float32) for _ in range(count)
        )

    return make


def square(length, *more):
    """Return a function that makes a square array of normal float32, and further arguments."""

    def make(rng, scale):
        return rng.standard_normal((side(length, scale),) * 2, np.float32), *more

    return make


def make_series(rng, scale):
    import pandas as pd  # noqa: PLC0415

    return tuple(map(pd.Series, singles(-1.5, 1.5, 4, 32)(rng, scale)))


def make_options(rng, scale):
    price, strike, years = singles(0.0, 1.0, 3, 32)(rng, scale)
    return 20 + 80 * price, 20 + 80 * strike, np.float32(0.1) + years


def make_points(rng, scale):
    shapes = (round(4 * M * scale), 16), (64, 16)
    return tuple(rng.standard_normal(shape, np.float32) for shape in shapes)


def make_image(rng, scale):
    return (rng.integers(0, 256, (side(4320, scale), side(7680, scale), 3), np.uint8),)


def make_plate(rng, scale):
    return rng.random((side(4096, scale),) * 2, np.float32), heat_steps(scale)


def heat_steps(scale):
    return max(10, round(1000 * scale))


def of_draws(scale):
    """Return six times the relative standard error of the difference of two prices from that many paths."""
    return 6 * math.sqrt(2 * 2.4 / (64 * M * scale))


WHOLES = {
    "Black-Scholes": Whole(black_scholes, make_options, 0.6),
    "haversine": Whole(haversine, singles(-1.5, 1.5, 4, 32), 0.65),
    "standardise": Whole(standardise, square(8192), 0.5),
    "softmax": Whole(softmax, square(8192), 0.5),
    "rolling mean": Whole(
        rolling_mean, lambda rng, scale: (*singles(0.0, 1.0, 1, 64)(rng, scale), 100), 0.45
    ),
    "k-means": Whole(nearest_centre, make_points, 0.4, others=1e-4),
    "statistics": Whole(statistics, singles(-2.0, 2.0, 1, 64), 0.65),
    "Monte Carlo": Whole(
        monte_carlo, lambda _, scale: (Seed(42), round(64 * M * scale)), most_ms=2.5, within=of_draws
    ),
    "image": Whole(edges_of_image, make_image, most_ms=4.0),
    "heat": Whole(heat, make_plate, most_of_memory=2.5, written=(0,)),
}
if importlib.util.find_spec("pandas"):
    WHOLES["pandas Series"] = Whole(haversine, make_series)


def hold(held, name, scale, taken, up, down):
    """Compare CUDA's time, for the bytes moved up and down, with the required figures."""
    whole, floor = WHOLES[name], link_seconds(up, down)
    if whole.of_floor:
        held.check(f"{name}: of the floor's speed, {format_seconds(floor)}", floor / taken, whole.of_floor)
    if whole.most_ms:
        title = f"{name}: time, the floor's being {format_seconds(floor)}"
        held.check(title, taken * 1e3, whole.most_ms, "ms", at_most=True)
    if whole.most_of_memory:
        floor = heat_steps(scale) * 2 * up / MEMORY_SPEED
        title = f"{name}: to the memory's time, {format_seconds(floor)}"
        held.check(title, taken / floor, whole.most_of_memory, at_most=True)


def main():
    parse = parser(__file__, __doc__)
    parse.add_argument("--scale", type=float, help="of the full size (1/8; 1/256 when quick)")
    options = parse.parse_args()
    scale = options.scale or (1 / 256 if options.quick else 1 / 8)
    names = wanted(WHOLES, options)
    races, measured = Races(options, len(names)), []
    for name in names:
        races.step(name)
        whole = WHOLES[name]
        arguments = whole.make(np.random.default_rng(42), scale)
        task = Task(name, whole.function, arguments, whole.written, whole.within(scale), whole.others)
        taken, results = races.run(task)
        if "cuda" in taken:
            up = sum(a.nbytes for a in arguments if isinstance(a, np.ndarray))
            down = sum(np.asarray(result).nbytes for result in results)
            measured.append((name, scale, taken["cuda"], up, down))
    races.close()
    held = figures.Figures(types.SimpleNamespace(only="", quick=scale != 1))
    if measured:
        print("\n" + figures.LINE.format("figure", "measured", "required", "").rstrip())
        for one in measured:
            hold(held, *one)
    return races.finish(scale=scale, figures=[dataclasses.asdict(figure) for figure in held.found])


if __name__ == "__main__":
    sys.exit(main())
