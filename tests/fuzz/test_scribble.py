"""Inputs that another thread changes during the call: any result will do, but memory must stay sound.

AddressSanitizer finds writes out of bounds; `.ci/run asan` runs these tests with it.
"""

import contextlib
import os
import threading

import numpy as np
import pytest

import pycudakit as pk

ROUNDS = int(os.environ.get("PYCUDAKIT_FUZZ_ROUNDS", "3"))
SIZE = 200_001
FLOATS, KEYS = np.float64, np.uint16


def mixed(dtype, seed):
    """Return values with many duplicates, zeros of both signs and NaN."""
    rng = np.random.default_rng(seed)
    if dtype == KEYS:
        return rng.integers(0, 50, SIZE).astype(KEYS)
    values = rng.integers(-5, 5, SIZE) * rng.choice([1.0, 1e-300, -0.0, np.nan], SIZE, p=[0.5, 0.2, 0.2, 0.1])
    return values.astype(dtype)


CALLS = {
    "sort": lambda x, _: pk.sort(x),
    "sort of rows": lambda x, _: pk.sort(x[:200_000].reshape(-1, 100), axis=1),
    "argsort": lambda x, _: pk.argsort(x),
    "unique": lambda x, _: pk.unique(x),
    "unique with all": lambda x, _: pk.unique(x, True, True, True),
    "lexsort": lambda x, y: pk.lexsort([x, y]),
    "partition": lambda x, _: pk.partition(x, 1000),
    "argpartition": lambda x, _: pk.argpartition(x, [5, 100_000]),
    "topk": lambda x, _: pk.topk(x, 5),
    "searchsorted": pk.searchsorted,
    "median": lambda x, _: pk.median(x),
    "median of rows": lambda x, _: pk.median(x[:200_000].reshape(-1, 100), axis=1),
    "quantile": lambda x, _: pk.quantile(x, [0.1, 0.5, 0.9]),
    "argmax": lambda x, _: pk.argmax(x),
    "argmin along rows": lambda x, _: pk.argmin(x[:200_000].reshape(100, -1), axis=1),
    "nanargmax": lambda x, _: pk.nanargmax(x),
    "sum": lambda x, _: pk.sum(x),
    "var": lambda x, _: pk.var(x),
    "nanvar": lambda x, _: pk.nanvar(x),
    "cumsum": lambda x, _: pk.cumsum(x),
    "cummax": lambda x, _: pk.cummax(x),
    "bincount": lambda x, _: pk.bincount(x.astype(np.int64) if x.dtype != KEYS else x, minlength=60),
    "histogram": lambda x, y: pk.histogram(x, 10, (0, 5), weights=y),
    "histogram without a range": lambda x, _: pk.histogram(x, 10),
    "digitize": lambda x, _: pk.digitize(x, [0.0, 1.0, 4.0]),
    "power": pk.power,
    "where": lambda x, y: pk.where(x > 1, x, y),
    "evaluate": lambda x, y: pk.evaluate("sqrt(x * x + y) if x > y else y // 3", {"x": x, "y": y}),
    "matmul": lambda x, y: pk.matmul(x[:10_000].reshape(100, 100), y[:10_000].reshape(100, 100)),
    "interp": lambda x, y: pk.interp(x, y, x),
    "binomial": lambda x, _: pk.random.default_rng(1).binomial(np.abs(x).astype(np.int64), 0.5),
    "poisson": lambda x, _: pk.random.default_rng(1).poisson(x),
    "choice": lambda x, _: pk.random.default_rng(1).choice(x, 100, p=None),
    "resize": lambda x, _: pk.image.resize(x[:40_000].reshape(200, 200), (77, 31)),
    "median_filter": lambda x, _: pk.image.median_filter(x[:40_000].reshape(200, 200), 5),
    "equalize_histogram": lambda x, _: pk.image.equalize_histogram(x[:40_000].reshape(200, 200)),
    "fuse": pk.fuse(lambda a, b: np.cumsum(a[np.argsort(b)]) + np.max(a)),
}


@pytest.mark.parametrize("dtype", [FLOATS, np.float32, KEYS], ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_memory_stays_sound(engine, name, dtype):
    x, y = mixed(dtype, 1), mixed(dtype, 2)
    others = [mixed(dtype, seed) for seed in (3, 4, 5)]
    is_over = threading.Event()

    def scribble():
        turn = 0
        while not is_over.is_set():
            for array in (x, y):
                array[:] = others[turn % 3]
                array[turn % 7 :: 7] = others[turn % 2][turn % 7 :: 7][: len(array[turn % 7 :: 7])]
            turn += 1

    writer = threading.Thread(target=scribble)
    writer.start()
    try:
        with np.errstate(all="ignore"):
            for _ in range(ROUNDS):
                with contextlib.suppress(ValueError, TypeError, IndexError, pk.errors.Error):
                    CALLS[name](x, y)  # the changed values may be refused
    finally:
        is_over.set()
        writer.join()
    assert pk.sort([3.0, 1.0]).tolist() == [1.0, 3.0]
