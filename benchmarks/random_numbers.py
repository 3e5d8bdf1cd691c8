"""Random numbers against NumPy's Philox generator.

Each row that has a required figure ends with ok or SHORT.
"""

import sys

import numpy as np
from harness import Harness, Times, link_seconds

import pycudakit as pk

M = 1_000_000


def same(ours, numpys):
    return np.array_equal(ours, numpys)


def alike(ours, numpys):
    """Return True if both samples could be of one distribution, by their means and deviations."""
    error = 6 * numpys.std(dtype=np.float64) / np.sqrt(numpys.size)
    mean, deviation = (
        getattr(ours, f)(dtype=np.float64) - getattr(numpys, f)(dtype=np.float64) for f in ("mean", "std")
    )
    return abs(mean) < 2 * error and abs(deviation) < 10 * error


def reordered(ours, numpys):
    return np.array_equal(np.sort(ours), np.sort(numpys))


def cupy():
    try:
        import cupy  # noqa: PLC0415
    except ImportError:
        return None
    return cupy


def main():
    harness = Harness(__doc__.splitlines()[0], 11)
    on_gpu = harness.engine == "cuda"

    def compare(work, millions, draw, check=alike, at_least=None, others=None):
        """Time a method, called on either generator, and `others`, by name."""
        if not harness.wanted(work):
            return
        size = harness.size(millions * M)
        ours, numpys = pk.random.default_rng(1), np.random.Generator(np.random.Philox(1))
        harness.step(work)
        pk.set_engine(harness.engine)
        drawn = draw(ours, size)
        right = check(drawn, draw(numpys, size))
        if not right:
            harness.wrong += 1
            print(f"{work}: pycudakit differs", file=sys.stderr)
        calls = {name: lambda f=f: f(size) for name, f in (others or {}).items()}
        times = harness.time(lambda: draw(ours, size), {"NumPy": lambda: draw(numpys, size), **calls})
        rounds = len(times["NumPy"].rounds)
        if on_gpu:
            times["the link"] = Times((link_seconds(0, drawn.nbytes),) * rounds)
        for name, taken in times.items():
            if name != "pycudakit":
                required = (at_least or {}).get(name)
                harness.row(work, size, harness.engine, times["pycudakit"], name, taken, required, right)

    def random_floats(g, n):
        return g.random(n, np.float32)

    gpu = cupy() if on_gpu else None
    others = {"CuPy": lambda n: gpu.random.random(n, dtype=np.float32).get()} if gpu else {}
    figures = {"the link": 0.8, "CuPy": 10.0} if on_gpu else {"NumPy": 3.0}
    compare("random float32", 64 if on_gpu else 32, random_floats, same, figures, others)
    compare("random float64", 32, lambda g, n: g.random(n), same)
    figures = None if on_gpu else {"NumPy": 2.0}
    compare("normal float32", 32, lambda g, n: g.standard_normal(n, np.float32), at_least=figures)
    compare("normal float64", 32, lambda g, n: g.standard_normal(n))
    compare("exponential", 32, lambda g, n: g.exponential(2.0, n))
    compare("lognormal", 32, lambda g, n: g.lognormal(0.0, 0.5, n))
    compare("gamma, shape 2.5", 16, lambda g, n: g.standard_gamma(2.5, n))
    compare("gamma, shape 0.5", 16, lambda g, n: g.standard_gamma(0.5, n))
    compare("beta", 16, lambda g, n: g.beta(2.0, 3.0, n))
    compare("geometric", 16, lambda g, n: g.geometric(0.1, n))
    compare("integers", 32, lambda g, n: g.integers(100, size=n))
    compare("integers uint8", 32, lambda g, n: g.integers(0, 100, n, np.uint8))
    compare("poisson, mean 4", 8, lambda g, n: g.poisson(4, n))
    compare("poisson, mean 100", 8, lambda g, n: g.poisson(100, n))
    compare("binomial", 8, lambda g, n: g.binomial(1000, 0.3, n))
    compare("permutation", 4, lambda g, n: g.permutation(n), reordered)
    compare(
        "permuted, 100 rows", 4, lambda g, n: g.permuted(np.arange(n).reshape(100, -1), axis=1), reordered
    )
    compare("multivariate_normal", 2, lambda g, n: g.multivariate_normal(np.zeros(4), np.eye(4) + 0.5, n))
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
