"""The works of peers.py that are not elementwise: reductions, scans, sorts and counts of one array."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import pycudakit as pk
from pycudakit._cli import bench
from pycudakit._cli.timing import Times

ROUNDS = 3  # at most: the slowest works take seconds
PATIENCE = 1.0  # seconds; a slower contender is timed once
LIBRARIES = ("NumPy", "CuPy", "PyTorch", "JAX")  # which have all of these functions


@dataclasses.dataclass(frozen=True)
class Family:
    """A work, and its required figures.

    Parameters
    ----------
    by
        Computes it by NumPy or a similar library: ``by(np, array)``.
    ours
        Computes it by pycudakit.
    up, down
        The bytes that it moves per element.
    of_floor, of_best
        The figures: the speed relative to the link's, and to the best GPU library's.
    others
        The versions of libraries with another API, by the library's name; None to leave one out.
    truth
        The right result, if it is not NumPy's.
    shown
        Computes the value to compare with the truth from a result and its array.
    within
        The allowed distance of other libraries' results from the truth, relative to its largest element: they
        sum in float32.
    ours_within
        The allowed distance of pycudakit's.
    fresh
        Makes an array of a number of elements.
    """

    by: Callable[..., Any]
    ours: Callable[..., Any]
    up: int
    down: int
    of_floor: float | None
    of_best: float
    others: Mapping[str, Callable[..., Any] | None] = dataclasses.field(default_factory=dict)
    truth: Callable[..., Any] | None = None
    shown: Callable[..., Any] = lambda result, _: result
    within: float = 0
    ours_within: float = 0
    fresh: Callable[..., Any] = lambda rng, size: rng.random(size, np.float32)


def sample(array):
    """Return about so many elements of a large array."""
    return array.reshape(-1)[:: max(1, array.size // bench.COMPARED)]


def mean_and_variance(kit, a):
    return kit.mean(a), kit.var(a)


ROUNDED = 1e-7  # a little more than half a unit in the last place of float32

FAMILIES = {
    "sum": Family(
        lambda kit, a: kit.sum(a), pk.sum, 4, 0, 0.80, 4,
        truth=lambda a: a.sum(dtype=np.float64), within=1e-4, ours_within=ROUNDED,
    ),
    "max": Family(lambda kit, a: kit.max(a), pk.max, 4, 0, 0.80, 4),
    # Two calls, each of which uploads the array.
    "mean + var": Family(
        mean_and_variance, lambda a: mean_and_variance(pk, a), 8, 0, 0.80, 4,
        others={"PyTorch": lambda torch, a: torch.var_mean(a, correction=0)[::-1]},
        truth=lambda a: (a.mean(dtype=np.float64), a.var(dtype=np.float64)), within=1e-4, ours_within=ROUNDED,
    ),
    # Numbers around 0: a running sum of positive ones in float32 stops growing at 2**24.
    "cumsum": Family(
        lambda kit, a: kit.cumsum(a), pk.cumsum, 4, 4, 0.65, 10,
        others={"PyTorch": lambda torch, a: torch.cumsum(a, 0)},
        truth=lambda a: a.cumsum(dtype=np.float64), within=1e-2, ours_within=ROUNDED,
        fresh=lambda rng, size: rng.random(size, np.float32) - np.float32(0.5),
    ),
    "sort": Family(
        lambda kit, a: kit.sort(a), pk.sort, 4, 4, None, 5.5,
        others={"PyTorch": lambda torch, a: torch.sort(a).values},
    ),
    # Equal elements may be in any order; the array taken in that order is compared.
    "argsort": Family(
        lambda kit, a: kit.argsort(a), pk.argsort, 4, 8, None, 3,
        truth=lambda a: sample(np.sort(a)), shown=lambda order, a: a[sample(order)],
    ),
    # Compiled JAX functions have static shapes.
    "unique": Family(lambda kit, a: kit.unique(a), pk.unique, 4, 1, None, 3, others={"JAX": None}),
    "bincount": Family(
        lambda kit, a: kit.bincount(a), pk.bincount, 1, 0, 0.70, 3.5,
        others={"JAX": lambda jnp, a: jnp.bincount(a, length=256)},
        fresh=lambda rng, size: rng.integers(0, 256, size, np.uint8),
    ),
    # Other libraries may put an element close to an edge on its other side.
    "histogram": Family(
        lambda kit, a: kit.histogram(a, 100)[0], lambda a: pk.histogram(a, 100)[0], 4, 0, 0.70, 3.5,
        others={"PyTorch": lambda torch, a: torch.histc(a, 100)}, within=1e-2,
    ),
}  # fmt: skip


def engines():
    """Return the contenders of pycudakit, by name: an engine, and whether the array is in pinned memory."""
    here = [name for name in ("cpu", "cuda") if pk.engines()[name]]
    found = {name: (name, False) for name in ("auto", *here)}
    return found | ({"pinned": ("cuda", True)} if "cuda" in here else {})


def contenders(family, peers):
    """Return all contenders; `peers` are functions that make a call from a family, by the library's name."""
    found = {}
    for name, (engine, pinned) in engines().items():
        keywords = {"prepare": lambda arrays: tuple(map(pk.pinned_copy, arrays))} if pinned else {}
        found[f"pycudakit {name}"] = bench.Contender(family.ours, engine, **keywords)
    for name, call_of in peers.items():
        spelling = family.others.get(name, family.by)
        if name in LIBRARIES and spelling:
            found[name] = bench.Contender(call_of(dataclasses.replace(family, by=spelling)))
    return found


def apart(result, expected):
    """Return the distance of a result from the expected one, relative to the largest element."""
    if isinstance(expected, tuple):
        return max(map(apart, result, expected)) if len(result) == len(expected) else math.inf
    result, expected = np.asarray(result), np.asarray(expected)
    if result.shape != expected.shape:
        return math.inf
    result, expected = sample(result).astype(np.float64), sample(expected).astype(np.float64)
    largest = np.abs(expected).max(initial=0)
    return float(np.abs(result - expected).max(initial=0) / (largest or 1))


def race(family, size, contenders, rounds):
    """Check the contenders, time those that are right, and return the errors of the others."""
    rng = np.random.default_rng(0)
    arrays = (family.fresh(rng, size),)
    expected = family.truth(*arrays) if family.truth else family.by(np, *arrays)
    rounds = min(rounds, ROUNDS)
    once, wrong = {}, {}
    for name, contender in contenders.items():
        try:
            given = contender.prepare(arrays)
            with pk.engine(contender.engine):
                for _ in range(2):  # the first call may compile
                    begin = time.perf_counter()
                    result = contender.call(*given)
                    once[name] = time.perf_counter() - begin
                    if once[name] <= PATIENCE:
                        break
            if contender.ulps is not None:
                far = apart(family.shown(result, *arrays), expected)
                if not far <= (family.ours_within if name.startswith("pycudakit") else family.within):
                    wrong[name] = f"WRONG by {far:.2g} of the largest"
        except Exception as error:  # noqa: BLE001 - whatever a library raises
            wrong[name] = f"{type(error).__name__}: {error}".splitlines()[0]
        given = result = None
    right = {name: contender for name, contender in contenders.items() if name not in wrong}
    quick = {name: contender for name, contender in right.items() if once[name] <= PATIENCE}
    times = bench.timed(quick, lambda: (family.fresh(rng, size),), rounds, warm_up=0)
    return {name: times.get(name) or Times((once[name],) * rounds) for name in right}, wrong
