"""Functions of pandas' Series and DataFrames under `auto`, against the same functions of NumPy on pandas."""

import sys

import numpy as np
import pandas as pd
from harness import Harness

import pycudakit as pk

M = 1_000_000
WARM_UP = 40  # calls, after which `auto` has measured the engines
WITHIN = 1e-4  # relative to the norm: pandas adds up float32 in another order
SERIES = {
    "add": lambda kit, x, y: kit.add(x, y),
    "exp": lambda kit, x, _: kit.exp(x),
    "sum": lambda kit, x, _: kit.sum(x),
    "mean": lambda kit, x, _: kit.mean(x),
    "max": lambda kit, x, _: kit.max(x),
    "std": lambda kit, x, _: kit.std(x),
    "cumsum": lambda kit, x, _: kit.cumsum(x),
    "clip": lambda kit, x, _: kit.clip(x, 0.25, 0.75),
    "where": lambda kit, x, y: kit.where(y, x, 0.0),
    "median": lambda kit, x, _: kit.median(x),
    "histogram": lambda kit, x, _: kit.histogram(x, bins=64)[0],
    "sort": lambda kit, x, _: kit.sort(x),
}
FRAMES = {
    "add": lambda kit, x, y: kit.add(x, y),
    "exp": lambda kit, x, _: kit.exp(x),
    "std": lambda kit, x, _: kit.std(x, axis=0),
    "cumsum": lambda kit, x, _: kit.cumsum(x, axis=0),
    "clip": lambda kit, x, _: kit.clip(x, 0.25, 0.75),
}


def scaled(x, y):
    return np.sqrt(x * x + y * y) / (1.0 + np.exp(-x))


def compare(harness, work, size, ours, theirs):
    """Time a call, once `auto` has chosen an engine."""
    if harness.wanted(work):
        pk.set_engine("auto")
        for _ in range(WARM_UP):
            ours()
        harness.compare(work, size, ours, {"pandas": theirs}, within=WITHIN, engine="auto")


def main():
    harness = Harness(__doc__.splitlines()[0], len(SERIES) + len(FRAMES) + 3)
    rng = np.random.default_rng(0)
    n = harness.size(2 * M)
    x, y = (pd.Series(rng.random(n, np.float32)) for _ in range(2))
    for name, call in SERIES.items():
        other = y > 0.5 if name == "where" else y
        compare(
            harness,
            f"Series {name}",
            n,
            lambda call=call, other=other: call(pk, x, other),
            lambda call=call, other=other: call(np, x, other),
        )
    a, b = (pd.DataFrame({name: rng.random(n // 4) for name in "pqrs"}) for _ in range(2))
    for name, call in FRAMES.items():
        compare(
            harness, f"frame {name}", n, lambda call=call: call(pk, a, b), lambda call=call: call(np, a, b)
        )
    mixed = a.assign(q=a["q"].astype(np.float32), r=np.arange(len(a)))
    fused = pk.fuse(scaled)
    for work, args in {"Series": (x, y), "frame": (a, b), "mixed frame": (a, mixed)}.items():
        compare(harness, f"fused {work}", n, lambda args=args: fused(*args), lambda args=args: scaled(*args))
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
