"""`np.sort`, `np.argsort` and `np.searchsorted` of computed arrays: requests of a plan."""

import numpy as np
import pytest
from helpers.nested import assert_parts

import pycudakit as pk

pytestmark = pytest.mark.usefixtures("really_replayed")
SIZE = 2400


def sorts(x, q):
    y = x * 2
    return np.sort(y), np.argsort(y, kind="stable"), np.sort(x), np.sort(q, kind="stable")


def rows(x, q):
    """Along the last axis of matrices."""
    a = x.reshape(40, 60) + 1
    return np.sort(a), np.sort(a, axis=1), np.argsort(a, axis=-1, stable=True), np.sort(a[3:7])


def searches(x, q):
    s = np.sort(x)
    left, right = np.searchsorted(s, q), np.searchsorted(s, q + 1, side="right")
    return left, right, np.searchsorted(s, q.reshape(2, -1), "right"), s[left % SIZE]


def loop(x, q):
    """Ranks of a sample in a sequence of others."""
    total = np.zeros(len(q), np.int64)
    for _ in range(4):
        order = np.argsort(x, kind="stable")
        total = total + np.searchsorted(x[order], q)
        x = x * 0.5 + np.sort(x)[::-1]
    return total, x


def of_views(x, q):
    """Strided, descending, flattened and other sorts, which are no requests."""
    a = x.reshape(40, 60)
    return np.sort(a, axis=0), np.sort(a, axis=None), np.sort(a.T), np.sort(x[::3]), np.sort(a[:, 5])


BODIES = (sorts, rows, searches, loop, of_views)


def arguments(seed, dtype="f8"):
    generator = np.random.default_rng(seed)
    x, q = (generator.integers(-50, 50, size).astype(dtype) for size in (SIZE, 60))
    if np.dtype(dtype).kind == "f":
        x[generator.integers(0, SIZE, 5)] = np.nan, -0.0, 0.0, np.inf, -np.inf
    return x, q


def assert_same(got, want):
    def are_same(one, other):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.dtype, one.shape, one.strides) == (other.dtype, other.shape, other.strides)
        np.testing.assert_array_equal(one, other)

    assert_parts(got, want, are_same)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i2", "u1"])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_replayed_sorts(engine, body, dtype):
    fused = pk.fuse(body)
    for seed in (0, 1, 2, 3, 4):
        ours, numpys = arguments(seed, dtype), arguments(seed, dtype)
        assert_same(fused(*ours), body(*numpys))
        assert_same(ours, numpys)
    if engine == "auto" or body is of_views or dtype == "f2":
        return  # which may not be replayed
    assert "replayed" in pk.last_call().reason
    (tree,) = fused._traced.plans.trees()
    assert not tree.has_host_calls


def test_sorts_of_what_was_written_between(engine):
    """Each sort reads the values of its line."""

    def body(x):
        first = np.sort(x)
        x[: SIZE // 2] += 100
        second = np.sort(x)
        x[:] = second[::-1]
        return first, second, np.argsort(x, kind="stable")

    fused = pk.fuse(body)
    for seed in range(5):
        ours, numpys = arguments(seed, "f4")[0], arguments(seed, "f4")[0]
        assert_same(fused(ours), body(numpys))
        assert_same(ours, numpys)


def test_bools_and_searches_of_two_dtypes(engine):
    def body(x, q):
        return (
            np.sort(x > 0),
            np.searchsorted(np.sort(x), q.astype(np.float32)),
            np.argsort(x > 0, kind="stable"),
        )

    fused = pk.fuse(body)
    for seed in range(4):
        assert_same(fused(*arguments(seed)), body(*arguments(seed)))
    with pytest.raises(ValueError, match="sort kind must be one of"):
        pk.fuse(lambda x: np.sort(x * 2, kind="nonsense"))(arguments(0)[0])
