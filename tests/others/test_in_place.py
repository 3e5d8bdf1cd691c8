"""What stays on a GPU of arrays that lie there, by a stand-in for one; test_on_device.py has a real one."""

import sys
import warnings

import numpy as np
import pytest
from helpers import stand_in_gpu
from helpers.given import forget_entries
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit import errors
from pycudakit._library import present

RNG = np.random.default_rng(1)
SIZE = 20_003
ARRAYS = {
    "a": RNG.random(SIZE) * 100,
    "b": RNG.random(SIZE) * 100 + 1,
    "m": RNG.random((120, 90)),
    "s": RNG.random((90, 70)),
    "i": RNG.integers(0, 100, SIZE),
    "n": np.where(RNG.random(SIZE) < 0.1, np.nan, RNG.random(SIZE)),
    "p": RNG.random((60, 80)).astype(np.float32),
    "w": RNG.random((300, 400)),
    "t": RNG.random((6, 90, 70)),
    "k": RNG.integers(0, 4, SIZE),
    "q": RNG.integers(-9, 9, (150, 90)),
}
EDGES = np.linspace(0, 100, 11)


@pytest.fixture
def gpu(monkeypatch):
    """Return a GPU that is none, on the engine "cuda"."""
    if not pk.engines()["cpu"]:
        pytest.skip("needs the CPU library")
    if pk.engines()["cuda"]:
        pytest.skip("there is a real one")
    gpu = stand_in_gpu.put(monkeypatch)
    present.status.cache_clear()
    with pk.engine("cuda"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield gpu
    monkeypatch.undo()
    forget_entries()
    present.status.cache_clear()


def up(x):
    return sys.modules["cupy"].asarray(x)


def down(x):
    return x.values if type(x) is stand_in_gpu.ndarray else x


def both(call, gpu):
    """Return what a call gives of arrays on the host, and there, and these arrays afterwards."""
    at_home = {name: x.copy() for name, x in ARRAYS.items()}
    there = {name: up(x) for name, x in ARRAYS.items()}
    with pk.engine("cpu"):
        want = call(**at_home)
    gpu.bytes_up = gpu.bytes_down = gpu.queued = gpu.lent = 0
    got = call(**there)
    for name, x in at_home.items():
        assert_array_equal(down(there[name]), x)
    return want, got


def check(call, gpu, by_blas=False):
    want, got = both(call, gpu)
    wants, gots = (x if isinstance(x, tuple) else (x,) for x in (want, got))
    assert len(wants) == len(gots)
    for one, other in zip(gots, wants, strict=True):
        if not isinstance(other, bool):
            assert type(one) is stand_in_gpu.ndarray
            assert down(one).dtype == np.asarray(other).dtype
        if by_blas:
            np.testing.assert_allclose(down(one), other, rtol=1e-12)
        else:
            assert_array_equal(down(one), other)


def fused(body):
    return lambda a, b, **_: pk.fuse(body)(a, b)


def in_place(x, y):
    x *= 2
    x[1:-1] += y[2:]
    return x


def with_a_scalar(x, y):
    first = x[0]
    x += 1
    return first + y


# Nothing goes over the link, but results of a few bytes.
STAYS = {
    "cumsum": lambda a, **_: pk.cumsum(a),
    "cumsum axis": lambda m, **_: pk.cumsum(m, 0),
    "cumsum last axis": lambda m, **_: pk.cumsum(m, -1),
    "cumsum out": lambda a, b, **_: pk.cumsum(b, out=a),
    "cumsum in place": lambda a, **_: pk.cumsum(a, out=a),
    "cumsum of a view": lambda m, **_: pk.cumsum(m[:, 3:7], 0),
    "cumsum of a large view": lambda w, **_: pk.cumsum(w[::2, 3:], 1),
    "cumprod": lambda m, **_: pk.cumprod(m),
    "cummax": lambda a, **_: pk.cummax(a),
    "cummin of integers": lambda i, **_: pk.cummin(i),
    "exclusive_scan": lambda i, **_: pk.exclusive_scan(i),
    "nancumsum": lambda n, **_: pk.nancumsum(n),
    "cumulative_sum": lambda a, **_: pk.cumulative_sum(a),
    "cumulative_sum from 0": lambda a, **_: pk.cumulative_sum(a, include_initial=True),
    "cumulative_prod from 1": lambda w, **_: pk.cumulative_prod(w, axis=0, include_initial=True),
    "cumsum dtype": lambda i, **_: pk.cumsum(i, dtype=np.float64),
    "bincount": lambda i, **_: pk.bincount(i),
    "histogram": lambda a, **_: pk.histogram(a, 10, (0, 100)),
    "histogram of edges": lambda a, **_: pk.histogram(a, EDGES),
    "histogram of an extent": lambda a, **_: pk.histogram(a, 12),
    "histogram of a view": lambda w, **_: pk.histogram(w[:, 100:], 10),
    "histogram2d": lambda a, b, **_: pk.histogram2d(a, b, 7),
    "histogram2d of edges": lambda a, i, **_: pk.histogram2d(a, i, [EDGES, 5], density=True),
    "histogramdd": lambda a, b, i, **_: pk.histogramdd([a, b, i], 4)[0],
    "histogramdd of columns": lambda w, **_: pk.histogramdd(w[:, :3], [2, 3, 4], [[0, 1], None, [0, 1]])[0],
    "digitize": lambda a, **_: pk.digitize(a, EDGES),
    "divmod": lambda a, b, **_: pk.divmod(a, b),
    "divmod of a number": lambda i, **_: pk.divmod(i, 7),
    "modf": lambda a, **_: pk.modf(a),
    "frexp": lambda a, **_: pk.frexp(a),
    "diff": lambda a, **_: pk.diff(a),
    "diff twice": lambda m, **_: pk.diff(m, 2, axis=0),
    "diff with ends": lambda a, **_: pk.diff(a, prepend=0.0, append=1.0),
    "gradient": lambda a, **_: pk.gradient(a),
    "trapezoid": lambda a, **_: pk.trapezoid(a),
    "random": lambda a, **_: pk.random.default_rng(5).random(out=a),
    "standard_normal": lambda a, **_: pk.random.default_rng(5).standard_normal(out=a),
    "standard_gamma": lambda a, **_: pk.random.default_rng(5).standard_gamma(2.0, out=a),
    "permutation": lambda w, **_: pk.random.default_rng(5).permutation(w),
    "permutation axis": lambda w, **_: pk.random.default_rng(5).permutation(w, 1),
    "permuted": lambda w, **_: pk.random.default_rng(5).permuted(w),
    "permuted axis": lambda w, **_: pk.random.default_rng(5).permuted(w, axis=0),
    "permuted out": lambda w, **_: pk.random.default_rng(5).permuted(w, axis=1, out=w),
    "choice": lambda a, **_: pk.random.default_rng(5).choice(a, 15_000),
    "choice of rows": lambda w, **_: pk.random.default_rng(5).choice(w, 30),
    "choice without replacement": lambda a, **_: pk.random.default_rng(5).choice(a, 15_000, replace=False),
    "choice of one": lambda a, **_: pk.random.default_rng(5).choice(a),
    "choice by probabilities": lambda w, **_: pk.random.default_rng(5).choice(w, 30, p=[1 / 300] * 300),
    "sort": lambda a, **_: pk.sort(a),
    "sort axis": lambda m, **_: pk.sort(m, axis=0),
    "sort flat": lambda m, **_: pk.sort(m, axis=None),
    "sort a view": lambda m, **_: pk.sort(m[::2, 5:]),
    "argsort axis": lambda m, **_: pk.argsort(m, axis=0),
    "sort descending": lambda n, **_: pk.sort(n, descending=True),
    "sort descending axis": lambda q, **_: pk.sort(q, 0, descending=True),
    "argsort descending": lambda i, **_: pk.argsort(i, descending=True),
    "isin": lambda i, **_: pk.isin(i, [1, 2, 3]),
    "isin of two types": lambda i, a, **_: pk.isin(i, pk.floor(a), invert=True),
    "isin with NaN": lambda n, **_: pk.isin(n, n[:9000]),
    "isin of what lies in steps": lambda w, **_: pk.isin(w[:, ::2], w[::3]),
    "union1d": lambda i, k, **_: pk.union1d(i, k),
    "intersect1d": lambda i, q, **_: pk.intersect1d(i, q),
    "intersect1d with indices": lambda i, k, **_: pk.intersect1d(i, k, return_indices=True),
    "setdiff1d": lambda i, k, **_: pk.setdiff1d(i, k),
    "setdiff1d in order": lambda a, b, **_: pk.setdiff1d(a, b, True),
    "setxor1d": lambda i, k, **_: pk.setxor1d(i, k),
    "unique_values": lambda n, **_: pk.unique_values(n),
    "unique": lambda i, **_: pk.unique(i),
    "searchsorted": lambda a, **_: pk.searchsorted(EDGES, a),
    "lexsort": lambda a, b, **_: pk.lexsort([a, b]),
    "nonzero": lambda i, **_: pk.nonzero(i),
    "compress": lambda a, **_: pk.compress(pk.less(a, 50), a),
    "partition": lambda a, **_: pk.partition(a, 10),
    "argpartition": lambda a, **_: pk.argpartition(a, 10),
    "median": lambda a, **_: pk.median(a),
    "median of a view": lambda w, **_: pk.median(w[:, 100:]),
    "median axis": lambda m, **_: pk.median(m, axis=0),
    "quantile": lambda a, **_: pk.quantile(a, [0.1, 0.9]),
    "percentile": lambda m, **_: pk.percentile(m, 30, axis=1),
    "nanmedian": lambda n, **_: pk.nanmedian(n),
    "nanmedian of no NaN": lambda m, **_: pk.nanmedian(m, axis=1),
    "nanquantile": lambda n, **_: pk.nanquantile(n, [0.2, 0.5]),
    "nanpercentile": lambda m, **_: pk.nanpercentile(m, 40, axis=0),
    "median of NaN": lambda n, **_: pk.median(n),
    "nansum": lambda n, **_: pk.nansum(n),
    "nanmax": lambda n, **_: pk.nanmax(n),
    "nanmean": lambda n, **_: pk.nanmean(n),
    "nanstd": lambda n, **_: pk.nanstd(n),
    "nanargmax": lambda n, **_: pk.nanargmax(n),
    "nanargmin axis": lambda w, **_: pk.nanargmin(w, axis=0),
    "ptp": lambda m, **_: pk.ptp(m, axis=1),
    "weighted average": lambda a, b, **_: pk.average(a, weights=b),
    "weighted average axis": lambda m, **_: pk.average(m, axis=0, weights=m),
    "average": lambda m, **_: pk.average(m, axis=0),
    "dot": lambda a, b, **_: pk.dot(a, b),
    "vdot": lambda a, b, **_: pk.vdot(a, b),
    "inner": lambda a, b, **_: pk.inner(a, b),
    "products of integers": lambda q, **_: pk.matmul(q, q[:90]),
    "vecdot": lambda w, **_: pk.vecdot(w, w),
    "vecdot axis": lambda w, **_: pk.vecdot(w, w, axis=0),
    "vecdot of vectors": lambda a, b, **_: pk.vecdot(a, b),
    "kron": lambda m, s, **_: pk.kron(m[:20], s[:9]),
    "kron of a vector": lambda a, m, **_: pk.kron(a[:20], m),
    "einsum of vectors": lambda a, b, **_: pk.einsum("i,i", a, b),
    "einsum of rows": lambda w, **_: pk.einsum("ij,ij->i", w, w),
    "einsum of elements": lambda w, **_: pk.einsum("ij,ij->ji", w, w),
    "einsum of sums": lambda w, **_: pk.einsum("ij,kl->", w, w),
    "einsum of sums beside": lambda w, a, **_: pk.einsum("ij,k->k", w, a),
    "outer": lambda a, b, **_: pk.outer(a[:300], b[:200]),
    "trace": lambda m, **_: pk.trace(m),
    "norm of order 3": lambda a, **_: pk.linalg.norm(a, 3),
    "norm of order 1 axis": lambda w, **_: pk.linalg.norm(w, 1, axis=0),
    "norm of order inf": lambda i, **_: pk.linalg.norm(i, np.inf),
    "norm of a matrix": lambda w, **_: pk.linalg.norm(w, -1),
    "norm": lambda a, **_: pk.linalg.norm(a),
    "tril": lambda m, **_: pk.tril(m, 3),
    "interp of a view": lambda w, **_: pk.interp(w[:, 100:], [0.0, 1.0], [0.0, 3.0]),
    "interp": lambda a, **_: pk.interp(a, [0.0, 100.0], [0.0, 1.0]),
    "take by indices there": lambda a, i, **_: pk.take(a, i),
    "take": lambda a, **_: pk.take(a, [5, 3, 8]),
    "allclose": lambda a, b, **_: pk.allclose(a, b),
    "array_equal": lambda a, **_: pk.array_equal(a, a),
    "power of integers": lambda i, k, **_: pk.power(i, k),
    "power of integers out": lambda i, k, **_: pk.power(i, k, out=i),
    "power of integers where": lambda i, k, **_: pk.power(i, k, out=i, where=pk.less(i, 50)),
    "evaluate a power": lambda i, k, **_: pk.evaluate("i**k + 1", {"i": i, "k": k}),
    "where=": lambda a, b, **_: pk.add(a, b, out=a, where=pk.less(a, b)),
    "dtype=": lambda a, b, **_: pk.add(a, b, dtype=np.float32),
    "concatenate": lambda a, b, **_: pk.concatenate([a, b]),
    "box_blur": lambda p, **_: pk.image.box_blur(p, 3),
    "sobel": lambda p, **_: pk.image.sobel(p),
    "resize": lambda p, **_: pk.image.resize(p, (30, 30)),
    "fuse": fused(lambda x, y: (np.sqrt(x) * y, np.max(x + y))),
    "fuse in place": fused(in_place),
    "fuse with an element": fused(with_a_scalar),
    "fuse a scan and more": fused(lambda x, y: np.cumsum(x - np.mean(x))[::-1] * y),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(gpu, name):
    check(STAYS[name], gpu)
    assert gpu.bytes_up <= 64
    assert gpu.bytes_down <= 64


# Products of floats, which the CPU engine has NumPy multiply: they are close.
PRODUCTS = {
    "matmul": lambda m, s, **_: pk.matmul(m, s),
    "matmul of views": lambda w, **_: pk.matmul(w[::2, 100:], w[:, 200:]),
    "matmul of stacks": lambda t, **_: pk.matmul(t[:, :, :60], t[:, :60]),
    "matmul of a matrix and a stack": lambda m, t, **_: pk.matmul(m, t),
    "matmul of a matrix and a vector": lambda w, a, **_: pk.matmul(w, a[:400]),
    "matmul of a vector and a matrix": lambda w, a, **_: pk.matmul(a[:300], w),
    "matmul of two types": lambda p, w, **_: pk.matmul(p, w[:80]),
    "matrix_power": lambda w, **_: pk.linalg.matrix_power(w[:, :300], 5),
    "dot of matrices": lambda m, s, **_: pk.dot(m, s),
    "dot of stacks": lambda m, t, **_: pk.dot(m, t),
    "inner of matrices": lambda w, **_: pk.inner(w[:200], w[200:]),
    "tensordot": lambda m, s, **_: pk.tensordot(m, s, 1),
    "tensordot of turned axes": lambda t, m, **_: pk.tensordot(t, m, ([1], [1])),
    "tensordot of all": lambda w, **_: pk.tensordot(w, w, 2),
    "einsum": lambda m, s, **_: pk.einsum("ij,jk->ik", m, s),
    "einsum turned": lambda m, s, **_: pk.einsum("ij,jk->ki", m, s),
    "einsum of stacks": lambda t, **_: pk.einsum("bij,bik->bjk", t, t),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_stay(gpu, name):
    check(PRODUCTS[name], gpu, by_blas=True)
    assert gpu.bytes_up <= 64
    assert gpu.bytes_down <= 64


# What is still computed from a copy on the host, or looks at some of it there.
GOES_HOME = {
    "weighted histogram": lambda a, b, **_: pk.histogram(a, 10, weights=b),
    "weighted bincount": lambda i, b, **_: pk.bincount(i, b),
    "a rule for bins": lambda a, **_: pk.histogram(a, "sturges"),
    "einsum with a diagonal": lambda w, **_: pk.einsum("ii,i->i", w[:, :300], w[0, :300]),
    "normal around": lambda a, **_: pk.random.default_rng(5).normal(a, 1.0),
}


@pytest.mark.parametrize("name", GOES_HOME)
def test_what_goes_home_is_right(gpu, name):
    check(GOES_HOME[name], gpu)
    assert gpu.bytes_down > 64


QUEUED = {
    "float64": lambda a, b, **_: pk.add(a, b),
    "float32": lambda p, **_: pk.multiply(p, p),
    "where=": lambda a, b, **_: pk.add(a, b, out=a, where=pk.less(a, b)),
    "divmod": lambda a, b, **_: pk.divmod(a, b),
    "sum": lambda a, **_: pk.sum(a),
    "cumsum": lambda a, **_: pk.cumsum(a),
    "sort": lambda m, **_: pk.sort(m, axis=0),
    "fuse": fused(lambda x, y: np.sqrt(x * x + y) - y / 2),
    "fuse several": fused(lambda x, y: {"sum": x + y, "all": [x * y, x - y]}),
    "fuse in place": fused(lambda x, y: x.__iadd__(y)),
}


@pytest.mark.parametrize("name", QUEUED)
def test_what_is_queued(gpu, name):
    both(QUEUED[name], gpu)
    assert gpu.queued
    assert gpu.lent == 0


def test_what_is_queued_follows_and_is_followed(gpu):
    """What a plan writes to is read by what is queued, and the other way round."""

    @pk.fuse
    def steps(x, y):
        x += y  # queued
        total = np.sum(x)  # in a plan
        y -= total  # in it, or queued
        return np.cumsum(y) + x

    check(lambda a, b, **_: steps(a, b), gpu)


def test_arguments_that_overlap(gpu):
    x = np.arange(3000.0)
    a = up(x)
    got = pk.fuse(lambda u, v: u + v)(a[:-1], a[1:])
    assert_array_equal(down(got), x[:-1] + x[1:])
    pk.fuse(lambda u, v: u.__iadd__(v))(a[1:], a[:-1])
    x[1:] += x[:-1].copy()
    assert_array_equal(down(a), x)


def test_a_product_that_overflows_looks_at_its_factors(gpu):
    x = np.full((100, 100), 1e200)
    with warnings.catch_warnings(record=True) as caught, pk.engine("cuda"):
        warnings.simplefilter("always")
        pk.matmul(up(x), up(x))
    assert [str(each.message) for each in caught] == ["overflow encountered in matmul"]


def test_explain_counts_once(gpu):
    @pk.fuse
    def change(x, y):
        x *= 2
        return {"sum": np.sum(x), "both": x + y}

    x = RNG.random(SIZE)
    there = up(x)
    plan = change.explain(there, up(x))
    assert (plan.engine, plan.breaks) == ("cuda", ())
    assert plan.bytes_up <= 8
    assert_array_equal(down(there), x)


def test_shuffle(gpu):
    x = RNG.random((300, 90))
    for axis in (0, 1):
        there, ours, numpys = up(x), x.copy(), pk.random.default_rng(3)
        rng = pk.random.default_rng(3)
        gpu.bytes_up = gpu.bytes_down = 0
        assert rng.shuffle(there, axis) is None
        assert (gpu.bytes_up, gpu.bytes_down) == (0, 0)
        with pk.engine("cpu"):
            numpys.shuffle(ours, axis)
        assert_array_equal(down(there), ours)
        assert rng == numpys
    read_only = up(x)
    read_only.values.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        pk.random.default_rng(3).shuffle(read_only)
    assert_array_equal(read_only.values, x)


@pytest.mark.parametrize("name", ["call", "out", "evaluate", "fuse", "number"])
def test_integers_to_negative_powers(gpu, name):
    i, k, out = up(np.full(SIZE, 3)), up(np.arange(SIZE) - 1), up(np.full(SIZE, 7))
    call = {
        "call": lambda: pk.power(i, k),
        "out": lambda: pk.power(i, k, out=out),
        "evaluate": lambda: pk.evaluate("i**k", {"i": i, "k": k}),
        "fuse": lambda: pk.fuse(lambda x, y: x**y)(i, k),
        "number": lambda: pk.power(i, -1),
    }[name]
    with pytest.raises(ValueError, match=r"Integers to negative integer powers are not allowed\."):
        call()
    assert (out.values == 7).all()
    assert (i.values == 3).all()


def test_only_nan(gpu):
    with pytest.raises(ValueError, match="All-NaN slice encountered"):
        pk.nanargmax(up(np.full(SIZE, np.nan)))


def test_norms_of_singular_values_are_numpys(gpu):
    x = RNG.random((40, 30))
    np.testing.assert_allclose(down(pk.linalg.norm(up(x), 2)), np.linalg.norm(x, 2))


class ReadOnly(stand_in_gpu.ndarray):
    """Of a library whose arrays can be, as CuPy's cannot."""


def test_refusals_name_the_argument(gpu):
    strange = up(ARRAYS["a"])
    strange.values = strange.values.astype(complex)
    with pytest.raises(errors.Unsupported, match=r"^add, .*: ndarray of complex128"):
        pk.add(strange, 1.0)

    @pk.fuse
    def double(given):
        return given * 2

    with pytest.raises(errors.Unsupported, match=r"^double, given: ndarray of complex128"):
        double(strange)
    read_only = ReadOnly(ARRAYS["a"].shape, values=ARRAYS["a"].copy())
    read_only.values.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        pk.fuse(lambda x: x.__iadd__(1))(read_only)
    with pytest.raises(ValueError, match="read-only"):
        pk.cumsum(up(ARRAYS["a"]), out=read_only)
    assert_array_equal(read_only.values, ARRAYS["a"])
