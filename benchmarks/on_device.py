"""Calls on device arrays, in and out, against CuPy and PyTorch.

A time is that of one call, measured over several calls and one synchronization; over a hundred if short.
"""

import functools
import importlib
import sys
import time

import numpy as np
from harness import Harness

import pycudakit as pk
from pycudakit._cli.timing import Times

M = 1_000_000
FEW = 1000


def six(a, b, c, sqrt):
    """Compute six operations."""
    return sqrt(a * a + b * b) / (c * 2 + 1)


def twenty(x, y, np):
    """Compute twenty-five operations."""
    for k in range(5):
        x = np.sqrt(x * x + y) - y / (k + 2)
    return x


def standardise(x):
    """Compute two reductions and two operations."""
    return (x - x.mean()) / x.std()


def counts_of(kit):
    """Return a function that counts numbers from 0 to 1."""
    return lambda x: kit.histogram(x, 100, (0, 1))[0]


def repeated(function, times, wait):
    """Return a function that calls another a number of times, and synchronizes."""

    def call():
        for _ in range(times):
            result = function()
        wait()
        return result

    return call


class OnDevice:
    """The works, on the same memory for all libraries."""

    def __init__(self, harness):
        """Import the libraries."""
        self.harness, self.cupy = harness, importlib.import_module("cupy")
        try:
            self.torch = importlib.import_module("torch")
            self.torch.set_grad_enabled(False)
        except ImportError:
            self.torch = None
        self.size = harness.size(64 * M)
        rng = self.cupy.random.default_rng(0)
        self.arrays = [rng.random(self.size, dtype=np.float32) for _ in range(3)]

    def wait(self):
        """Synchronize the GPU."""
        self.cupy.cuda.runtime.deviceSynchronize()

    def compare(self, work, ours, others, at_least, size=None, times=5, atol=1e-8):
        """Check the results against `atol`, time all, and print rows."""
        if not self.harness.wanted(work):
            return
        self.harness.step(work)
        pk.set_engine("cuda")
        want, got = (self.cupy.asarray(call()).get() for call in (next(iter(others.values())), ours))
        right = np.allclose(got, want, rtol=2e-5, atol=atol)
        for _ in range(3):  # background compilation finishes soon
            [call() for call in (ours, *others.values())]
            time.sleep(0.5)
        calls = {name: repeated(call, times, self.wait) for name, call in others.items()}
        taken = self.harness.time(repeated(ours, times, self.wait), calls, engine="cuda")
        taken = {name: Times(tuple(t / times for t in each.rounds)) for name, each in taken.items()}
        for name in others:
            required = at_least.get(name)
            row = work, size or self.size, "cuda", taken["pycudakit"], name, taken[name], required, right
            self.harness.row(*row)
        report = pk.last_call()
        if report.bytes_up or report.bytes_down:
            print(f"{work}: {report.bytes_up} bytes went up, {report.bytes_down} down")

    def as_torch(self, *arrays):
        """Return the arrays as PyTorch tensors."""
        return [self.torch.as_tensor(array, device="cuda") for array in arrays]

    def both(self, name, *arrays):
        """Return CuPy's and PyTorch's call of a name."""
        others = {"CuPy": functools.partial(getattr(self.cupy, name), *arrays)}
        if self.torch:
            more = (0,) if name == "cumsum" else ()
            others["PyTorch"] = functools.partial(getattr(self.torch, name), *self.as_torch(*arrays), *more)
        return others

    def run_calls(self):
        """Time single calls."""
        a, b, _ = self.arrays
        self.compare("add", functools.partial(pk.add, a, b), self.both("add", a, b), {"CuPy": 0.95})
        for name in ("sum", "cumsum", "sort"):
            ours = functools.partial(getattr(pk, name), a)
            self.compare(name, ours, self.both(name, a), {"CuPy": 0.9})
        few = a[:FEW], b[:FEW]
        ours, others = functools.partial(pk.add, *few), self.both("add", *few)
        self.compare("add of 1,000", ours, others, {}, FEW, 100)
        if self.torch:
            tensors = self.as_torch(*few)
            ours = functools.partial(pk.add, *tensors)
            others = {"PyTorch": functools.partial(self.torch.add, *tensors)}
            self.compare("add of 1,000 tensors", ours, others, {}, FEW, 100)

    def run_order(self):
        """Time order statistics and counts."""
        a, rows = self.arrays[0], self.arrays[0][: self.size // FEW * FEW].reshape(-1, FEW)
        places = (a * FEW).astype(np.int64)
        works = {
            "median": lambda kit: kit.median(a),
            "median of rows of 1,000": lambda kit: kit.median(rows, 1),
            "percentile, 3 shares": lambda kit: kit.percentile(a, [5, 50, 95]),
            "histogram, 100 bins": lambda kit: kit.histogram(a, 100, (0, 1))[0],
            "bincount": lambda kit: kit.bincount(places),
        }
        for name, call in works.items():
            ours, theirs = (functools.partial(call, kit) for kit in (pk, self.cupy))
            self.compare(name, ours, {"CuPy": theirs}, {})

    def run_small(self):
        """Time functions of several steps on few elements, where the Python overhead counts."""
        cupy, (a, b, _) = self.cupy, self.arrays
        m, n, x, y = a[: 1 << 16].reshape(256, 256), b[: 1 << 16].reshape(256, 256), a[:FEW], b[:FEW]
        standardised = pk.fuse(standardise)
        works = {
            "matmul, 256 x 256": (pk.matmul, cupy.matmul, (m, n)),
            "einsum ij,jk->ki": (pk.einsum, cupy.einsum, ("ij,jk->ki", m, n)),
            "sort of columns": (pk.sort, cupy.sort, (m, 0)),
            "average of columns": (pk.average, cupy.average, (m, 0)),
            "norm": (pk.linalg.norm, cupy.linalg.norm, (x,)),
            "dot": (pk.dot, cupy.dot, (x, y)),
            "sort": (pk.sort, cupy.sort, (x,)),
            "median": (pk.median, cupy.median, (x,)),
            "histogram": (counts_of(pk), counts_of(cupy), (x,)),
            "gradient": (pk.gradient, cupy.gradient, (x,)),
            "concatenate": (pk.concatenate, cupy.concatenate, ([x, y],)),
            "fuse, (x - mean) / std": (standardised, standardise, (x,)),
        }
        for name, (ours, theirs, arguments) in works.items():
            calls = functools.partial(ours, *arguments), {"CuPy": functools.partial(theirs, *arguments)}
            size = m.size if any(each is m for each in arguments) else FEW
            # In float32, CuPy's differences from a mean have few correct bits, some near 0.
            self.compare(name, *calls, {}, size, 100, atol=2e-6 if ours is standardised else 1e-8)

    def run_weights(self):
        """Time weighted counts, which are added in one order here, and in any order by CuPy."""
        weights, shares, _ = self.arrays
        for bins in (1000, 1):
            places = (shares * bins).astype(np.int32)
            ours = functools.partial(pk.bincount, places, weights)
            others = {"CuPy": functools.partial(self.cupy.bincount, places, weights)}
            self.compare(f"bincount, weights in {bins:,} bins", ours, others, {})

    def run_functions(self):
        """Time expressions and functions."""
        a, b, c = self.arrays
        named = {"a": a, "b": b, "c": c}
        ours = functools.partial(pk.evaluate, "sqrt(a*a + b*b) / (c*2 + 1)", named)
        others = {"CuPy": lambda: six(a, b, c, self.cupy.sqrt)}
        tensors = self.as_torch(a, b, c) if self.torch else []
        if self.torch:
            compiled = self.torch.compile(six)
            others["torch.compile"] = lambda: compiled(*tensors, self.torch.sqrt)
        self.compare("evaluate, 6 operations", ours, others, {"CuPy": 3, "torch.compile": 0.95})
        fused = pk.fuse(lambda x, y: twenty(x, y, np))
        others = {"CuPy": lambda: twenty(a, b, self.cupy)}
        if self.torch:
            compiled_twenty = self.torch.compile(twenty)
            others["torch.compile"] = lambda: compiled_twenty(*tensors[:2], self.torch)
            self.compare_first_calls(functools.partial(fused, a, b), others["torch.compile"])
        self.compare("fuse, 25 operations", lambda: fused(a, b), others, {"torch.compile": 0.9})

    def compare_first_calls(self, *calls):
        """Print the times of first calls."""
        taken = []
        for call in calls:
            began = time.perf_counter()
            call()
            self.wait()
            taken.append(time.perf_counter() - began)
        ours, theirs = (f"{1e3 * seconds:.0f} ms" for seconds in taken)
        print(f"first call of 25 operations: {ours}, torch.compile's {theirs}")


def main():
    """Run all works."""
    harness = Harness(__doc__.splitlines()[0], 8)
    works = OnDevice(harness)
    works.run_calls()
    works.run_small()
    works.run_order()
    works.run_weights()
    works.run_functions()
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
