"""Races of whole functions: tasks, their contenders (NumPy, `pk.fuse`, other libraries), and their times.

Ordinary arrays in and out, all contenders in turn, the best of some rounds each.
"""

import contextlib
import dataclasses
import json
import math
import os
import signal
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path

import libraries
import numpy as np
import report
from harness import machine

import pycudakit as pk
from pycudakit._cli.progress import Progress
from pycudakit._native.formatting import format_seconds

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
