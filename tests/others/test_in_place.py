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
        if np.asarray(other).ndim == 2 and by_blas:
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
    "cumsum dtype": lambda i, **_: pk.cumsum(i, dtype=np.float64),
    "bincount": lambda i, **_: pk.bincount(i),
    "histogram": lambda a, **_: pk.histogram(a, 10, (0, 100)),
    "histogram of edges": lambda a, **_: pk.histogram(a, EDGES),
    "histogram of an extent": lambda a, **_: pk.histogram(a, 12),
    "histogram of a view": lambda w, **_: pk.histogram(w[:, 100:], 10),
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
    "sort": lambda a, **_: pk.sort(a),
    "sort axis": lambda m, **_: pk.sort(m, axis=0),
    "sort flat": lambda m, **_: pk.sort(m, axis=None),
    "sort a view": lambda m, **_: pk.sort(m[::2, 5:]),
    "argsort axis": lambda m, **_: pk.argsort(m, axis=0),
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
    "ptp": lambda m, **_: pk.ptp(m, axis=1),
    "weighted average": lambda a, b, **_: pk.average(a, weights=b),
    "weighted average axis": lambda m, **_: pk.average(m, axis=0, weights=m),
    "average": lambda m, **_: pk.average(m, axis=0),
    "dot": lambda a, b, **_: pk.dot(a, b),
    "vdot": lambda a, b, **_: pk.vdot(a, b),
    "inner": lambda a, b, **_: pk.inner(a, b),
    "dot of matrices": lambda m, s, **_: pk.dot(m, s),
    "matmul": lambda m, s, **_: pk.matmul(m, s),
    "matmul of views": lambda w, **_: pk.matmul(w[::2, 100:], w[:, 200:]),
    "outer": lambda a, b, **_: pk.outer(a[:300], b[:200]),
    "trace": lambda m, **_: pk.trace(m),
    "norm": lambda a, **_: pk.linalg.norm(a),
    "tril": lambda m, **_: pk.tril(m, 3),
    "interp of a view": lambda w, **_: pk.interp(w[:, 100:], [0.0, 1.0], [0.0, 3.0]),
    "interp": lambda a, **_: pk.interp(a, [0.0, 100.0], [0.0, 1.0]),
    "take": lambda a, **_: pk.take(a, [5, 3, 8]),
    "allclose": lambda a, b, **_: pk.allclose(a, b),
    "array_equal": lambda a, **_: pk.array_equal(a, a),
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
    check(STAYS[name], gpu, "mat" in name)  # matrices, which the CPU engine has NumPy multiply
    assert gpu.bytes_up <= 64
    assert gpu.bytes_down <= 64


# What is still computed from a copy on the host, or looks at some of it there.
GOES_HOME = {
    "isin": lambda i, **_: pk.isin(i, [1, 2, 3]),
    "take by indices there": lambda a, i, **_: pk.take(a, i),
    "nanargmax": lambda n, **_: pk.nanargmax(n),
    "weighted histogram": lambda a, b, **_: pk.histogram(a, 10, weights=b),
    "a rule for bins": lambda a, **_: pk.histogram(a, "sturges"),
    "tensordot": lambda m, s, **_: pk.tensordot(m, s, 1),
    "norm of order 3": lambda a, **_: pk.linalg.norm(a, 3),
    "normal around": lambda a, **_: pk.random.default_rng(5).normal(a, 1.0),
    "choice": lambda a, **_: pk.random.default_rng(1).choice(a, 10),
    "cumulative_sum from 0": lambda a, **_: pk.cumulative_sum(a, include_initial=True),
}


@pytest.mark.parametrize("name", GOES_HOME)
def test_what_goes_home_is_right(gpu, name):
    check(GOES_HOME[name], gpu, name == "tensordot")
    assert gpu.bytes_down > 64 or "indices" in name  # which the entry itself brings home


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
    read_only = up(ARRAYS["a"])
    read_only.values.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        pk.fuse(lambda x: x.__iadd__(1))(read_only)
    with pytest.raises(ValueError, match="read-only"):
        pk.cumsum(up(ARRAYS["a"]), out=read_only)
    assert_array_equal(read_only.values, ARRAYS["a"])
