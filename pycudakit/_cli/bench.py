"""`pycudakit bench`: a compact table of times, the engines present against NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

import pycudakit as pk
from pycudakit import _engine
from pycudakit._cli import work
from pycudakit._cli.compare import verdict
from pycudakit._cli.measure import in_words, interleave
from pycudakit._cli.progress import Progress, Say

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 30_000_000)
ROUNDS = 7

Make = Callable[[Any, Any], Any]
FUNCTIONS: dict[str, tuple[Make, Make, int]] = {
    "add": (pk.add, np.add, 0),
    "multiply": (pk.multiply, np.multiply, 0),
    "exp": (lambda a, _: pk.exp(a), lambda a, _: np.exp(a), work.ULPS),
    "evaluate": (lambda a, b: pk.evaluate(work.EXPRESSION, {"a": a, "b": b}), work.by_numpy, work.ULPS),
}


def run(say: Say, quick: bool = False) -> int:
    """Print the table; return the exit status."""
    present = work.engines(say)
    if not present:
        return 1
    sizes = [size for size in SIZES if size <= 1_000_000] if quick else list(SIZES)
    columns = ["auto", *present]
    for name in present:
        say(f"{name}: {pk.engines()[name].reason}")
    say(f'float32; evaluate is "{work.EXPRESSION}"; Nx is how many times faster than NumPy.')
    say("")
    say(f"{'function':<9} {'elements':>11} {'NumPy':>9}" + "".join(f" {name:>9}        " for name in columns))
    rng = np.random.default_rng(0)
    everything = [rng.random(sizes[-1], np.float32) for _ in "ab"]
    failures, outer = 0, _engine.process

    def choose(name: str) -> None:
        pk.set_engine("auto" if name == "NumPy" else name)

    with closing(Progress(len(FUNCTIONS) * len(sizes), say)) as progress:
        for name, (ours, numpys, ulps) in FUNCTIONS.items():
            for size in sizes:
                progress.step(f"{name} of {size:,}")
                a, b = (array[:size] for array in everything)
                call, reference = functools.partial(ours, a, b), functools.partial(numpys, a, b)
                expected, wrong = reference(), []
                for engine in columns:
                    choose(engine)
                    right, words = verdict(call(), expected, ulps)
                    wrong += [] if right else [f"{engine} {words}"]
                failures += len(wrong)
                contenders = {"NumPy": reference, **dict.fromkeys(columns, call)}
                times = interleave(contenders, 3 if quick else ROUNDS, before=choose)
                cells = "".join(
                    f" {in_words(times[e].median):>9} {times['NumPy'].over(times[e])[0]:>6.2f}x"
                    for e in columns
                )
                first = f"{name:<9} {size:>11,} {in_words(times['NumPy'].median):>9}"
                progress.say(f"{first}{cells} {' '.join(wrong)}".rstrip())
    pk.set_engine(outer)
    say("")
    say("The full benchmarks, with peers and required figures, are benchmarks/*.py in the source tree.")
    return 1 if failures else 0
