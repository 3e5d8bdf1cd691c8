"""A short run of every family with CUDA kernels, for compute-sanitizer."""

import numpy as np
import pytest

import pycudakit as pk

pytestmark = pytest.mark.smoke
RNG = np.random.default_rng(0)
COPIED = {"in_place_bytes": 0, "chunk_bytes": 256 << 10, "device_bytes": 512 << 10, "threads": 2}

WORKS = {
    "sum": lambda kit, x: (
        kit.sum(x),
        kit.sum(x.reshape(-1, 25), axis=0),
        kit.max(x.reshape(25, -1), axis=1),
    ),
    "mean": lambda kit, x: (kit.nanmean(x, where=x > 9), kit.var(x.reshape(10, -1), axis=0), kit.argmin(x)),
    "cumsum": lambda kit, x: (kit.cumsum(x), kit.cumsum(x.reshape(-1, 25), axis=0), kit.nancumsum(x)),
    "sort": lambda kit, x: (kit.sort(x), np.sort(kit.partition(x, 7)), kit.sort(x.reshape(25, -1))),
    "argsort": lambda kit, x: (kit.argsort(x, kind="stable"), kit.searchsorted(np.sort(x), x[:500])),
    "unique": lambda kit, x: (kit.unique(x), kit.unique(x, return_counts=True)[1]),
    "median": lambda kit, x: (kit.median(x), kit.quantile(x.reshape(25, -1), [0.1, 0.9], axis=1)),
    "histogram": lambda kit, x: (
        kit.histogram(x, 30)[0],
        kit.histogram(x, 30, (0, 90))[0],
        kit.digitize(x, [5, 9]),
    ),
    "bincount": lambda kit, x: (kit.bincount(x.astype(np.uint8)), kit.bincount(x.astype(np.int64))),
}


@pytest.mark.parametrize(
    ("dtype", "copied"),
    [("float32", False), ("float32", True), ("int16", False)],
    ids=["float32", "float32 copied", "int16"],
)
@pytest.mark.parametrize("work", WORKS)
def test_family(engine, work, dtype, copied):
    x = RNG.integers(0, 100, 30_000 if copied else 2_500).astype(dtype)  # sums are exact in float32
    with pk.tuned(**(COPIED if copied and engine == "cuda" else {})):
        for got, want in zip(WORKS[work](pk, x), WORKS[work](np, x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
