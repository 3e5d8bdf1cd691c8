"""The elementwise functions against NumPy and NumExpr. (peers.py compares with GPU libraries.)

Each row that has a required figure ends with ok or SHORT.
"""

import functools
import sys

import numpy as np
from harness import ULPS, Allowance, Harness
from libraries import ON_CPU, installed

import pycudakit as pk
from pycudakit._cli.bench import FAMILIES

M = 1_000_000
SWEEP = {"add": 2, "multiply": 2, "less": 2, "sqrt": 1, "exp": 1, "sin": 1}
SWEEP_SIZES = [f * 10**e for e in range(8) for f in (1, 3)] + [10**8]


def pair(name, *arrays):
    """Return pycudakit's and NumPy's function of a name, bound to these arrays."""
    ours, numpys = (functools.partial(getattr(kit, name), *arrays) for kit in (pk, np))
    return ours, {"NumPy": numpys}


def uniform(rng, size, low=0.0, high=1.0, dtype=np.float32):
    array = rng.random(size, dtype)
    array *= high - low
    array += low
    return array


def required(harness, rng):
    """Run the works for which the project promises figures."""
    for millions in (1, 32):
        size = harness.size(millions * M)
        a, b = uniform(rng, size), uniform(rng, size)
        harness.compare("add float32", size, *pair("add", a, b), at_least={"NumPy": 1.0})

    size = harness.size(32 * M)
    a, b = uniform(rng, size), uniform(rng, size)
    evaluate = FAMILIES["evaluate"]
    found, missing = installed(ON_CPU)
    for name, reason in missing.items():
        print(f"{name} is not here: {reason}", file=sys.stderr)
    harness.compare(
        "evaluate float32",
        size,
        functools.partial(evaluate.ours, a, b),
        {name: functools.partial(call_of(evaluate), a, b) for name, call_of in found.items()},
        at_least={name: ratio for name, ratio in (("NumPy", 4.0), ("NumExpr", 3.5)) if name in found},
        ulps=ULPS,
    )
    x = uniform(rng, size, -10, 10)
    for name in ("exp", "sin", "tanh"):
        harness.compare(f"{name} float32", size, *pair(name, x), at_least={"NumPy": 1.8}, ulps=ULPS)
    u, v = (rng.integers(0, 256, size, np.uint8) for _ in "uv")
    harness.compare("add uint8", size, *pair("add", u, v), at_least={"NumPy": 1.0})
    d, e = (uniform(rng, size, dtype=np.float64) for _ in "de")
    harness.compare("multiply float64", size, *pair("multiply", d, e), at_least={"NumPy": 1.0})
    i, j = (rng.integers(-1000, 1000, size, np.int64) for _ in "ij")
    harness.compare("less int64", size, *pair("less", i, j), at_least={"NumPy": 1.0})

    ten, other = uniform(rng, 10), uniform(rng, 10)
    harness.compare(
        "add of ten",
        10,
        *pair("add", ten, other),
        at_least={Allowance("NumPy + 1 us", "NumPy", extra=1e-6): 1.0},
        engine="auto",
        rounds=harness.rounds * 5,
    )


def sweep(harness, rng):
    """Print, for each function, the size at which auto does worst against 1.1 times NumPy plus 1 us."""
    sizes = [size for size in SWEEP_SIZES if not harness.quick or size <= 10**6]
    a, b = uniform(rng, sizes[-1]), uniform(rng, sizes[-1])
    limit = Allowance("1.1 NumPy + 1 us", "NumPy", factor=1.1, extra=1e-6)
    for name, arguments in SWEEP.items():
        work = f"{name} worst of 1..{sizes[-1]:.0e}".replace("e+0", "e")
        if not harness.wanted(work):
            continue
        worst = None
        for size in sizes:
            harness.step(f"auto: {name} of {size:,}")
            ours, others = pair(name, *(array[:size] for array in (a, b)[:arguments]))
            pk.set_engine("auto")
            harness.check(work, ours, others, ULPS)
            times = harness.time(ours, others, "auto", harness.rounds * (5 if size <= 10**5 else 1))
            allowed = limit.times(times["NumPy"])
            ratio = allowed.over(times["pycudakit"])[0]
            if worst is None or ratio < worst[0]:
                worst = ratio, size, times["pycudakit"], allowed
        harness.row(work, worst[1], "auto", worst[2], limit.name, worst[3], 1.0)


def main():
    harness = Harness(__doc__.splitlines()[0], 10 + len(SWEEP) * len(SWEEP_SIZES))
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        required(harness, rng)
        sweep(harness, rng)
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
