"""Run operations while their system calls fail; the process has system_call_failures.cpp preloaded."""

import contextlib
import ctypes
import functools
import gc
import io
import json
import os
import pickle
import random
import sys
import traceback
import warnings

import numpy as np
import numpy.testing

import pycudakit as pk
from pycudakit._native import loader

ROWS, COLUMNS = 300, 500
RNG = np.random.default_rng(22)
X, Y = RNG.standard_normal((2, ROWS * COLUMNS))
GRID = X.reshape(ROWS, COLUMNS)
HALVES = X.astype(np.float16)
NUMBERS = RNG.integers(0, 1000, X.size)
BYTES = RNG.integers(0, 256, (ROWS, COLUMNS, 3), np.uint8)
EDGES = np.linspace(-3, 3, 2000)
WITH_NAN = np.where(X > 2, np.nan, X)

SOURCE = r"""
#include <stdio.h>
__constant__ int factor = 3;
__global__ void scaled(int *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
__global__ void reverse_blocks(int *x) {
    __shared__ int kept[128];
    int *const mine = x + blockIdx.x * 128;
    kept[threadIdx.x] = mine[threadIdx.x];
    __syncthreads();
    mine[threadIdx.x] = kept[127 - threadIdx.x];
}
__global__ void print_first(int *x) { printf("%d", x[0]); }
"""


@functools.cache
def kernel(name, debug=False):
    return pk.SourceModule(SOURCE, debug=debug).get_function(name)


def scaled(debug=False, **keywords):
    x = NUMBERS[:12_800].astype(np.int32)
    kernel("scaled", debug)(pk.InOut(x), x.size, block=128, grid=100, **keywords)
    return x


def reverse_blocks():
    x = NUMBERS[:12_800].astype(np.int32)
    kernel("reverse_blocks")(pk.InOut(x), block=128, grid=100)
    return x


def print_first():
    x = np.ones(1, np.int32)
    kernel("print_first")(pk.In(x), block=4)
    return x


def program():
    p = pk.Program("scaled twice")
    x = p.inout("x", 12_800, np.int32)
    with p.repeat(2):
        p.launch(kernel("scaled"), x, 12_800, threads=12_800)
    return p(x=NUMBERS[:12_800].astype(np.int32))["x"]


@functools.cache
def summed():
    return pk.ReductionKernel(np.int64, "0", "a + b", "x[i]", "const long long *x")


@functools.cache
def fused():
    return pk.fuse(lambda x, y: np.sqrt(x * x + y * y).sum() + np.cumsum(x)[-1])


def drawn(name, *arguments):
    return getattr(pk.random.default_rng(3), name)(*arguments, size=100_000)


# The operations that are called on the `cpu` engine.
OPERATIONS = {
    "add": lambda: pk.add(X, Y),
    "add a row": lambda: pk.add(GRID, GRID[0]),
    "add strided": lambda: pk.add(X[::-2], Y[::2]),
    "add halves": lambda: pk.add(HALVES, HALVES),
    "exp": lambda: pk.exp(X),
    "power": lambda: pk.power(NUMBERS, 3),
    "where": lambda: pk.where(X > 0, X, Y),
    "astype": lambda: pk.astype(X, np.float32),
    "divmod": lambda: np.stack(pk.divmod(NUMBERS, 7)),
    "evaluate": lambda: pk.evaluate("sqrt(x * x + y) if x > y else y * 3", {"x": abs(X), "y": abs(Y)}),
    "evaluate a sum": lambda: pk.evaluate("sum(x * y)", {"x": X, "y": Y}),
    "sum": lambda: pk.sum(X),
    "sum of columns": lambda: pk.sum(GRID, axis=0),
    "var": lambda: pk.var(GRID, axis=1),
    "nanmax": lambda: pk.nanmax(WITH_NAN),
    "argmax": lambda: pk.argmax(GRID, axis=1),
    "norm": lambda: pk.linalg.norm(X),
    "cumsum": lambda: pk.cumsum(NUMBERS),
    "cumsum of columns": lambda: pk.cumsum(GRID, axis=0),
    "cummax": lambda: pk.cummax(X),
    "sort": lambda: pk.sort(X),
    "sort of rows": lambda: pk.sort(GRID, axis=1),
    "argsort": lambda: pk.argsort(NUMBERS, kind="stable"),
    "unique": lambda: np.stack(pk.unique(NUMBERS, return_counts=True)),
    "lexsort": lambda: pk.lexsort([X, NUMBERS]),
    "partition": lambda: pk.partition(X, 1000)[1000],
    "topk": lambda: pk.topk(X, 5)[0],
    "searchsorted": lambda: pk.searchsorted(EDGES, X),
    "median": lambda: pk.median(X),
    "quantile of rows": lambda: pk.quantile(GRID, [0.1, 0.5], axis=1),
    "histogram": lambda: pk.histogram(X, 50)[0],
    "histogram of weights": lambda: pk.histogram(X, 50, (-3, 3), weights=Y)[0],
    "bincount": lambda: pk.bincount(NUMBERS),
    "digitize": lambda: pk.digitize(X, EDGES),
    "matmul": lambda: pk.matmul(NUMBERS[:40_000].reshape(200, 200), NUMBERS[:40_000].reshape(200, 200)),
    "einsum": lambda: pk.einsum("ij,kj->i", GRID[:50], GRID[50:90]),
    "interp": lambda: pk.interp(X, EDGES, EDGES**2),
    "take": lambda: pk.take(X, NUMBERS),
    "compress": lambda: pk.compress(X > 0, X),
    "nonzero": lambda: pk.nonzero(NUMBERS % 7)[0],
    "resize": lambda: pk.image.resize(BYTES, (200, 240), "area"),
    "blur": lambda: pk.image.gaussian_blur(BYTES, 2.0),
    "equalise": lambda: pk.image.equalize_histogram(BYTES[..., 0]),
    "normal": lambda: drawn("normal"),
    "binomial": lambda: drawn("binomial", 100, 0.4),
    "permutation": lambda: pk.random.default_rng(4).permutation(50_000),
    "fused": lambda: fused()(X, Y),
    "pinned": lambda: pk.add(pk.pinned_copy(X), 1.0),
    "kernel": scaled,
    "kernel with barriers": reverse_blocks,
    "kernel with symbols": lambda: scaled(symbols={"factor": np.int32(5)}),
    "kernel with checks": lambda: scaled(debug=True),
    "kernel that prints": print_first,
    "program": program,
    "reduction kernel": lambda: summed()(NUMBERS),
}

# ---- Failing ----------------------------------------------------------------------------------------

_shim = ctypes.CDLL(None)
_NEVER = 1 << 62
_known = {}  # the result of each operation without failures
_lost = []  # unraisable exceptions


def _begin():
    """Choose the process whose calls fail, before its first call."""
    _shim.failing_library.argtypes = [ctypes.c_char_p]
    _shim.failing_calls.argtypes = [ctypes.c_int64] * 2
    _shim.failing_last.restype = ctypes.c_char_p
    _shim.failing_none.restype = _shim.failing_live.restype = ctypes.c_int64
    loader.library("cpu")
    for public in pk.__all__:  # imports modules once, instead of in each child
        getattr(pk, public)
    assert _shim.failing_library(os.fsencode(os.path.basename(loader.find("cpu"))))
    warnings.simplefilter("error")
    sys.unraisablehook = lambda unraisable: _lost.append(repr(unraisable.exc_value))


def _let_alone(name):
    """Run an operation without failures; return the number of its system calls."""
    with pk.engine("cpu"):
        _shim.failing_calls(_NEVER, _NEVER)
        got = OPERATIONS[name]()
        count = _shim.failing_none()
    _known.setdefault(name, got)
    _check(name, got)
    return count


def _fail(name, number, later):
    """Make one call of an operation fail, or that and all later ones; return True if the operation raised."""
    raised = False
    with pk.engine("cpu"):
        _shim.failing_calls(number, _NEVER if later else number)
        try:
            got = OPERATIONS[name]()
        except MemoryError:
            raised = True
        finally:
            _shim.failing_none()
        if not raised:
            _check(name, got)
        _check(name, OPERATIONS[name]())
    assert not _lost, _lost
    return raised


def _check(name, got):
    np.testing.assert_array_equal(got, _known[name], strict=True)


def _left():
    """Return the memory blocks and file descriptors that remain after everything is released."""
    gc.collect()
    pk.release()
    return _shim.failing_live(), len(os.listdir("/proc/self/fd"))


def _failures(count, most):
    """Return the calls that shall fail, each alone and with all later ones; a sample if there are too many.

    The first call is among them, so that one failure is sure to raise. Others need not raise: an operation
    can do without a thread that fails to start, and the number of calls varies.
    """
    numbers = range(1, count + 3)  # and beyond the last
    if len(numbers) > most:
        numbers = [1, *sorted(random.Random(count).sample(numbers[1:], most - 1))]
    return [(number, later) for number in numbers for later in (False, True)]


def _warm(name, most):
    """Fail calls of an operation that ran before; return the number of failures and of exceptions."""
    for _ in range(2):
        pk.release()  # so that cached resources are acquired again
        count = _let_alone(name)
    before = _left()
    raised = []
    for number, later in _failures(count, most):
        pk.release()
        try:
            raised.append(_fail(name, number, later))
        except BaseException:
            function = os.fsdecode(_shim.failing_last())
            sys.stderr.write(f"{name}: {function}, call {number} of {count}{' and later ones' * later}\n")
            raise
    after = _left()
    assert after <= before, f"{name}: there was left {before}, and is {after}"
    return len(raised), sum(raised)


def _cold(name, most):
    """Fail calls of the first operation of a process; return the same numbers."""
    count, _known[name] = _in_child(lambda: (_let_alone(name), _known[name]))
    raised = [
        _in_child(lambda number=number, later=later: _fail(name, number, later))
        for number, later in _failures(count, most)
    ]
    return len(raised), sum(raised)


def _in_child(work):
    """Run a function in a forked child in which the library has not been used; return its result."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(write, "wb") as file:
                pickle.dump(work(), file)
        except BaseException:  # noqa: BLE001  (the parent tells)
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        answer = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"a child ended with {status}"
    return pickle.loads(answer)


def main():
    """Fail calls of operations; the command line gives the mode, the maximum number and the operations."""
    way, most, *names = sys.argv[1:]
    _begin()
    attack = {"warm": _warm, "cold": _cold}[way]
    with open(os.dup(1), "w", encoding="utf-8") as output, contextlib.redirect_stdout(io.StringIO()):
        json.dump({name: attack(name, int(most)) for name in names}, output)


if __name__ == "__main__":
    main()
