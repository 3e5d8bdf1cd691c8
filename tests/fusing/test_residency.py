"""Sorting and indexing of resident arrays: each input is uploaded once, each result downloaded once."""

import numpy as np
import pytest
from helpers import fake_gpu
from helpers.strategies import assert_values

import pycudakit as pk

N = 200_000
NOTES = 16_384  # the most bytes that kernels transfer beside arrays


def given():
    rng = np.random.default_rng(8)
    x = rng.standard_normal(N)
    return {
        "x": x,
        "y": x[::-1].copy(),
        "z": rng.choice([0.0, -0.0, np.nan, 1.5, 2.0], N),
        "X": x.reshape(400, 500),
        "F": np.asfortranarray(x.reshape(400, 500)),
        "i": rng.integers(-N, N, N),
        "n": rng.integers(0, N, N).astype("i4"),
        "r": rng.integers(-400, 400, 9000),
        "c": rng.integers(-500, 500, 9000),
        "k": rng.integers(0, 500, (400, 500)),
        "m": x > 0.2,
    }


T = np.linspace(0, 1, 77)
MASK = np.random.default_rng(4).random(N) > 0.5


def placed(x):
    x.sort()
    return x * 2


def ranked(x):
    order = np.argsort(x * 2, kind="stable")
    return np.sort(x * 2)[::2] + 1, order, (x * 3)[order]


def rows_written(X):
    X[X[:, 0] > 0] = X[3] * 2
    X[X[:, 1] > 1] = 7
    return X + 1


# All of them leave their results on the device.
BODIES = {
    "sort": lambda x: np.sort(x * 2) + 1,
    "sort rows": lambda X: np.sort(X * 2, axis=1) + 1,
    "sort columns": lambda X: np.sort(X * 2, axis=0) + 1,
    "sort all": lambda X: np.sort(X * 2, axis=None) + 1,
    "sort steps": lambda x: np.sort((x * 2)[::3]) + 1,
    "sort in place": placed,
    "order columns": lambda X: np.argsort(X * 2, axis=0, kind="stable") + 1,
    "rank": ranked,
    "partition": lambda x: np.partition(x * 2, 50)[50],
    "lexsort": lambda x, y: np.lexsort((np.round(x, 1), np.round(y, 1))) + 1,
    "search": lambda x, y: np.searchsorted(np.sort(x), y * 2, side="right") + 1,
    "search types": lambda x, y: np.searchsorted(np.sort(x), (y * 2).astype("f4")) + 1,
    "unique": lambda z: np.unique(z * 2),
    "unique all": lambda z: np.unique(z * 2, return_index=True, return_inverse=True, return_counts=True),
    "unique nan": lambda z: np.unique(z * 2, return_counts=True, equal_nan=False),
    "unique rows": lambda k: np.unique(k % 7, return_inverse=True)[1] + 1,
    "take": lambda x, i: np.take(x * 2, i) + 1,
    "take narrow": lambda x, n: (x * 2).take(n) + 1,
    "take wrapped": lambda x, i: np.take(x * 2, i * 3, mode="wrap") + 1,
    "take clipped": lambda x, i: np.take(x * 2, i * 3, mode="clip") + 1,
    "take along": lambda X, k: np.take_along_axis(X * 2, k, axis=1) + 1,
    "take from a table": lambda i: np.take(T, i % 77) + 1,
    "at": lambda x, i: (x * 2)[i] + 1,
    "rows at": lambda X, r: (X * 2)[r] + 1,
    "columns at": lambda X, c: (X * 2)[:, c] + 1,
    "parts of rows at": lambda X, r: (X * 2)[r, 1:] + 1,
    "pairs at": lambda X, r, c: (X * 2)[r, c] + 1,
    "pairs of rows at": lambda X, r, c: X.reshape(20, 20, 500)[r % 20, c % 20] * 2,
    "by a mask of others": lambda x: (x * 2)[MASK] + 1,
    "by a mask": lambda x: (x * 2)[x > 0] + 1,
    "rows by a mask": lambda X: (X * 2)[X[:, 0] > 0] + 1,
    "compress": lambda x, m: np.compress(m, x * 2) + 1,
    "flatnonzero": lambda x: np.flatnonzero(x > 0) + 1,
    "nonzero": lambda m: np.nonzero(m)[0] + 1,
    "quantiles by weights": lambda x, y: np.quantile(x * 2, [0.2, 0.7], weights=y * y, method="inverted_cdf"),
    "histogram by a rule": lambda x: np.histogram(x * 2, "sturges"),
    "histogram by a rule of deviations": lambda x: np.histogram(x * 2, "scott"),
    "edges by a rule": lambda x: np.histogram_bin_edges(x * 2, "doane"),
    "vectors across": lambda k: np.vecdot(k * 2, k[3] * 3) + 1,
    "sums of axes in lists": lambda k: np.einsum(k * 2, [0, 1], k * 3, [2, 1], [2, 0]) + 1,
    "an element": lambda x: (x * 2)[5] + np.max(x),
    "rows written": rows_written,
}


def arrays_for(body):
    known, names = given(), body.__code__.co_varnames[: body.__code__.co_argcount]
    return [known[name].copy() for name in names]


def flat(result):
    return [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("name", BODIES)
def test_bodies(engine, name):
    body = BODIES[name]
    ours, numpys = arrays_for(body), arrays_for(body)
    result = pk.fuse(body)(*ours)
    call = pk.last_call()
    is_any_zero = name.startswith("unique")  # NumPy may return either of equal zeros
    for mine, theirs in zip([*flat(result), *ours], [*flat(body(*numpys)), *numpys], strict=True):
        assert_values(mine, theirs, free_zero=is_any_zero)
    if engine == "cuda":
        up = sum(array.nbytes for array in ours)
        down = sum(array.nbytes for array in flat(result))
        written = sum(array.nbytes for array in ours) if name in ("sort in place", "rows written") else 0
        table = T.nbytes if name == "take from a table" else 0
        mask = 8 * np.count_nonzero(MASK) if name == "by a mask of others" else 0
        if name == "rows written":  # a mask of rows is expanded when it is staged
            mask = 2 * ours[0].size
        notes = 3 * NOTES if "by a rule" in name else NOTES  # several reductions
        assert up <= call.bytes_up <= up + table + mask + notes
        # NumPy may have computed a part of small calls.
        assert down + written - 1024 <= call.bytes_down <= down + written + notes


LAYOUTS = {
    "rows": lambda X, r: X[r],
    "columns": lambda X, r: X[:, r],
    "parts of rows": lambda X, r: X[r, 1:],
    "in the middle": lambda X, r: X.reshape(20, 20, 500)[:, r % 20],
    "behind": lambda X, r: X.reshape(20, 20, 500)[:, r % 20, r],
    "of two dimensions": lambda X, r: X[r.reshape(30, 30)],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(engine, name):
    """Selected elements have NumPy's memory order, so that views of them are views, too."""
    X, r = given()["X"], given()["r"][:900]
    ours, numpys = pk.fuse(LAYOUTS[name])(X, r), LAYOUTS[name](X, r)
    assert_values(ours, numpys)
    assert ours.strides == numpys.strides


@pytest.mark.parametrize(
    ("index", "size"),
    [((N,), N), ((-N - 1,), N), ((3, 500), 500), ((400, 3), 400), ((3, -501), 500)],
    ids=str,
)
def test_out_of_bounds(engine, index, size):
    wrong = next(each for each in index if not -size <= each < size)
    axis = index.index(wrong)
    array = np.arange(float(N)) if len(index) == 1 else np.arange(float(N)).reshape(400, 500)

    @pk.fuse
    def picked(array, *places):
        return (array * 2)[places] + 1

    places = [np.full(9000, each) for each in index]
    with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis {axis} with size {size}"):
        picked(array, *places)


def test_elements_one_by_one(engine):
    @pk.fuse(strict=False)
    def summed(x):
        y, found = x * 2, []
        for k in range(30):
            found.append(y[k])
            y[k] = 77
        return sum(float(one) for one in found), y

    x = np.arange(float(N))
    total, y = summed(x)
    assert total == sum(2 * k for k in range(30))
    assert (y[:30] == 77).all()
    assert (y[30:] == 2 * x[30:]).all()


@pytest.mark.parametrize("name", BODIES)
def test_values_that_only_a_device_has_are_not_read(name, monkeypatch):
    """A fake GPU hides stale values; only results are downloaded."""
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")
    body = BODIES[name]
    ours, numpys = arrays_for(body), arrays_for(body)
    gpu = fake_gpu.put(monkeypatch)
    with pk.engine("cuda"):
        result = pk.fuse(body)(*ours)
    is_any_zero = name.startswith("unique")
    for mine, theirs in zip([*flat(result), *ours], [*flat(body(*numpys)), *numpys], strict=True):
        assert_values(mine, theirs, free_zero=is_any_zero)
    is_written = name in ("sort in place", "rows written")
    assert gpu.bytes_down <= sum(array.nbytes for array in [*flat(result), *ours * is_written])


def test_results_that_nothing_stands_for_are_on_the_host(monkeypatch):
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")
    swapped, i = given()["x"].astype(">f8"), given()["i"]
    fake_gpu.put(monkeypatch)
    with pk.engine("cuda"):
        taken = pk.fuse(lambda i: np.take(swapped, i))(i)
    assert_values(taken, np.take(swapped, i))


def test_topk(engine):
    @pk.fuse
    def best(x, X):
        return pk.topk(x * 2, 20_000), pk.topk(X * 2, 3, largest=False), pk.topk(X, 40_000, axis=None)

    x, X = given()["x"], given()["X"]
    first, second, third = best(x, X)
    order = np.argsort(-x, kind="stable")
    assert (first.indices == order[:20_000]).all()
    assert (first.values == (x * 2)[order[:20_000]]).all()
    assert (second.indices == np.argsort(X, kind="stable")[:, :3]).all()
    assert (third.values == np.sort(x)[::-1][:40_000]).all()
    with pytest.raises(ValueError, match="from 0 to 200000"):
        pk.fuse(lambda x: pk.topk(x * 2, N + 1))(x)
