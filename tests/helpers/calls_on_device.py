"""Tables of calls on device arrays, by their transfers, and the arrays that they name."""

import functools
import inspect
import re

import numpy as np
import pytest

import pycudakit as pk
from helpers.numpy_versions import has_numpy

RNG = np.random.default_rng(1)
SIZE = 100_003  # large enough that masks, too, get a device buffer
ARRAYS = {
    "a": RNG.random(SIZE) * 100,
    "b": RNG.random(SIZE) * 100 + 1,
    "m": RNG.random((120, 90)),
    "s": RNG.random((90, 70)),
    "i": RNG.integers(0, 100, SIZE),
    "n": np.where(RNG.random(SIZE) < 0.1, np.nan, RNG.random(SIZE)),
    "p": RNG.random((260, 300)).astype(np.float32),
    "w": RNG.random((300, 400)),
    "u": RNG.random((301, 400)),
    "t": RNG.random((6, 90, 70)),
    "k": RNG.integers(0, 4, SIZE),
    "c": RNG.integers(0, 3, (3, SIZE)),
    "r": RNG.integers(0, 3, (SIZE, 4)).astype(np.float32),
    "g": RNG.integers(0, 50, SIZE).astype(np.uint64) << np.uint64(56),
    "q": RNG.integers(-9, 9, (900, 90)),
    "f": RNG.integers(0, 8, (1030, 1040)).astype(np.float32),
    "v": RNG.integers(0, 2, (500, 70)).astype(np.int8)[RNG.integers(0, 500, 70_000)],
}
EDGES = np.linspace(0, 100, 11)
CDF = "inverted_cdf"


def arrays_of(call):
    """Return copies of the arrays that a call names as its parameters."""
    return {name: ARRAYS[name].copy() for name in inspect.signature(call).parameters if name in ARRAYS}


def parts_of(result):
    """Return a result as a list of arrays."""
    return result if isinstance(result, tuple) else (result,)


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


# Nothing goes over the link but results of a few bytes.
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
    "cumulative_sum out": lambda w, u, **_: pk.cumulative_sum(w, axis=0, out=u, include_initial=True),
    "bincount": lambda i, **_: pk.bincount(i),
    "histogram": lambda a, **_: pk.histogram(a, 10, (0, 100)),
    "histogram of edges": lambda a, **_: pk.histogram(a, EDGES),
    "histogram of bytes": lambda v, **_: pk.histogram(v, 9),
    "histogram2d of edges and ranges": lambda a, i, **_: pk.histogram2d(a, i, [EDGES, 5], [None, (0, 99)]),
    "histogramdd of edges": lambda a, b, **_: pk.histogramdd([a, b], [EDGES, EDGES], density=True)[0],
    "bincount at least": lambda i, **_: pk.bincount(i, minlength=500),
    "digitize by edges there": lambda a, w, **_: pk.digitize(a, pk.sort(w[0])),
    "interp by points there": lambda a, w, **_: pk.interp(a, pk.cumsum(w[0]), w[1], left=-1.0),
    "interp with a period": lambda a, w, **_: pk.interp(a, w[0], w[1], period=2.5),
    "nanquantile of rows": lambda u, **_: pk.nanquantile(pk.divide(u, pk.greater(u, 0.2)), 0.3, 1),
    "quantiles": lambda w, **_: pk.quantile(w, [0.1, 0.5, 0.9], 1),
    "nanvar of nothing": lambda w, **_: pk.nanvar(pk.divide(w[:, :1], pk.subtract(w[:, :1], w[:, :1])), 1),
    "histogram of an extent": lambda a, **_: pk.histogram(a, 12),
    "histogram of a view": lambda w, **_: pk.histogram(w[:, 100:], 10),
    "histogram by a rule": lambda a, **_: pk.histogram(a, "sturges"),
    "histogram of integers by a rule": lambda q, **_: pk.histogram(q, "sqrt", density=True),
    "histogram of a view by a rule": lambda w, **_: pk.histogram(w[:, 100:], bins="rice"),
    "histogram of a range by a rule": lambda a, **_: pk.histogram(a, "rice", (5, 50), True),
    "histogram of many bins by quartiles": lambda a, **_: pk.histogram(a, "fd"),
    "histogram of many bins by quartiles of integers": lambda q, **_: pk.histogram(q, "fd"),
    "histogram of many bins by the best rule": lambda p, **_: pk.histogram(p, "auto"),
    "histogram by deviations": lambda a, **_: pk.histogram(a, "scott"),
    "histogram by deviations of float32": lambda p, **_: pk.histogram(p, "scott", (0.25, 0.5)),
    "histogram by deviations of integers": lambda q, **_: pk.histogram(q, "scott"),
    "histogram by skewness": lambda b, **_: pk.histogram(pk.multiply(b, b), "doane", density=True),
    "histogram by skewness of integers": lambda q, **_: pk.histogram(pk.multiply(q, q), "doane"),
    "histogram of many bins by the error that is left": lambda w, **_: pk.histogram(w[:, :20], "stone"),
    "histogram of bools by a rule": lambda a, **_: pk.histogram(pk.less(a, 20), "doane"),
    "histogram2d": lambda a, b, **_: pk.histogram2d(a, b, 7),
    "histogram2d of edges": lambda a, i, **_: pk.histogram2d(a, i, [EDGES, 5], density=True),
    "histogramdd": lambda a, b, i, **_: pk.histogramdd([a, b, i], 4)[0],
    "histogramdd of columns": lambda r, **_: pk.histogramdd(r[:, :3], [2, 3, 4], [[0, 3], None, [0, 2]])[0],
    "weighted bincount": lambda i, b, **_: pk.bincount(i, b),
    "weighted bincount by integers": lambda i, k, **_: pk.bincount(i, weights=k, minlength=200),
    "weighted histogram": lambda a, b, **_: pk.histogram(a, 10, weights=b, density=True),
    "weighted histogram of edges": lambda p, **_: pk.histogram(p, EDGES / 100, weights=p),
    "histogram weighted by integers": lambda a, i, **_: pk.histogram(a, EDGES, weights=i),
    "weighted histogram by the host": lambda i, **_: pk.histogram(i, 7, (5, 90), weights=ARRAYS["b"]),
    "weighted histogram of a view": lambda w, **_: pk.histogram(w[:, 100:], 9, weights=w[:, :300]),
    "weighted histogram of many bins": lambda a, b, **_: pk.histogram(a, 20_000, (0, 100), weights=b),
    "weighted histogram2d": lambda a, b, **_: pk.histogram2d(a, b, 7, weights=b),
    "weighted histogramdd": lambda a, b, i, **_: pk.histogramdd([a, b, i], 4, weights=a)[0],
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
    "normal around": lambda a, b, **_: pk.random.default_rng(5).normal(a, b),
    "normal around integers": lambda i, **_: pk.random.default_rng(5).normal(i, 2.0, (3, SIZE)),
    "exponential": lambda a, **_: pk.random.default_rng(5).exponential(a),
    "poisson": lambda a, **_: pk.random.default_rng(5).poisson(a),
    "gamma": lambda a, b, **_: pk.random.default_rng(5).gamma(a, b),
    "beta": lambda b, **_: pk.random.default_rng(5).beta(b, 2.0),
    "uniform": lambda a, **_: pk.random.default_rng(5).uniform(a, 200.0),
    "permutation": lambda w, **_: pk.random.default_rng(5).permutation(w),
    "permutation axis": lambda w, **_: pk.random.default_rng(5).permutation(w, 1),
    "permuted": lambda w, **_: pk.random.default_rng(5).permuted(w),
    "permuted axis": lambda w, **_: pk.random.default_rng(5).permuted(w, axis=0),
    "permuted out": lambda w, **_: pk.random.default_rng(5).permuted(w, axis=1, out=w),
    "choice": lambda a, **_: pk.random.default_rng(5).choice(a, 15_000),
    "choice of rows": lambda w, **_: pk.random.default_rng(5).choice(w, 30),
    "choice without replacement": lambda a, **_: pk.random.default_rng(5).choice(a, 75_000, replace=False),
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
    "isin with NaN": lambda n, **_: pk.isin(n, n[:90_000]),
    "isin of strided columns": lambda w, **_: pk.isin(w[:, 1:], w[::3]),
    "union1d": lambda i, k, **_: pk.union1d(i, k),
    "intersect1d": lambda i, q, **_: pk.intersect1d(i, q),
    "intersect1d with indices": lambda i, k, **_: pk.intersect1d(i, k, return_indices=True),
    "setdiff1d": lambda i, k, **_: pk.setdiff1d(i, k),
    "setdiff1d in order": lambda a, b, **_: pk.setdiff1d(a, b, True),
    "setxor1d": lambda i, k, **_: pk.setxor1d(i, k),
    "unique_values": lambda n, **_: pk.unique_values(n),
    "sets of two signs": lambda i, g, **_: (pk.union1d(i, g), pk.intersect1d(g, i), pk.setxor1d(i, g)),
    "isin of two signs": lambda i, g, **_: (pk.isin(i, g), pk.isin(g, i, invert=True)),
    "isin of none that fits": lambda g, **_: pk.isin(g, np.array([-1, -2])),
    "setdiff1d of two signs": lambda i, g, **_: pk.setdiff1d(i, g),
    "sets of two types": lambda i, b, **_: (pk.intersect1d(i, pk.floor(b)), pk.setxor1d(i, pk.floor(b))),
    "unique rows": lambda r, **_: pk.unique(r, axis=0),
    "unique rows with all": lambda r, **_: pk.unique(r, True, True, True, axis=0),
    "unique columns": lambda c, **_: pk.unique(c, return_counts=True, axis=-1),
    "unique of few in three dimensions": lambda t, **_: pk.unique(pk.round(t[:, :20, :2]), axis=1),
    "unique of long rows": lambda v, **_: pk.unique(v, axis=0),
    "unique of long rows with all": lambda v, **_: pk.unique(v, True, True, True, axis=0),
    "unique of few long rows": lambda w, **_: pk.unique(w, axis=0),
    "unique of few long columns": lambda q, **_: pk.unique(pk.less(q, 9), True, True, True, axis=1),
    "unique": lambda i, **_: pk.unique(i),
    "searchsorted": lambda a, **_: pk.searchsorted(EDGES, a),
    "lexsort": lambda a, b, **_: pk.lexsort([a, b]),
    "nonzero": lambda i, **_: pk.nonzero(i),
    "compress": lambda a, **_: pk.compress(pk.less(a, 50), a),
    "topk": lambda w, **_: pk.topk(w, 30),
    "topk axis": lambda w, **_: pk.topk(w, 30, 0),
    "topk of the smallest": lambda t, **_: pk.topk(t, 20, 1, largest=False),
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
    "median of axes": lambda t, **_: pk.median(t, axis=(0, 2)),
    "median of axes in turn": lambda t, **_: pk.median(t, axis=(2, 1), keepdims=True),
    "median of all": lambda t, **_: pk.median(t, None, None, True, True),
    "median out": lambda w, u, **_: pk.median(w, 1, out=u[0, :300]),
    "quantile by a method": lambda w, **_: pk.quantile(w, [0.2, 0.7], 0, method="lower", keepdims=True),
    "percentile of float32": lambda p, **_: pk.percentile(p, 30.0, method="hazen", overwrite_input=True),
    "nanmedian of axes": lambda t, **_: pk.nanmedian(t, axis=(1, 0), keepdims=True),
    "nanquantile by a method": lambda n, **_: pk.nanquantile(n, [0.3, 0.9], method="nearest"),
    "weighted quantile": lambda a, b, **_: pk.quantile(a, [0.1, 0.9], weights=b, method=CDF),
    "weighted percentile axis": lambda w, u, **_: pk.percentile(
        w, [30, 60.0], 1, weights=u[:300], method=CDF, keepdims=True
    ),
    "weighted quantile of axes": lambda t, **_: pk.quantile(t, 0.25, (0, 2), weights=t[:, 0], method=CDF),
    "weighted quantile of axes in turn": lambda t, u, **_: pk.quantile(
        t, 0.25, (2, 1), weights=u[:70, :90], method=CDF
    ),
    "weighted quantile by integers": lambda a, i, **_: pk.quantile(a, [0, 1], weights=i, method=CDF),
    "weighted quantile of NaN": lambda n, i, **_: pk.quantile(n, 0.5, weights=i, method=CDF),
    "weighted quantile by the host": lambda w, **_: pk.quantile(
        w, 0.5, axis=0, weights=np.arange(300), method=CDF
    ),
    "weighted quantile out": lambda w, u, **_: pk.quantile(w, 0.5, 1, weights=w, method=CDF, out=u[0, :300]),
    "weighted nanquantile": lambda n, i, **_: pk.nanquantile(n, [0.1, 0.9], weights=i, method=CDF),
    "weighted nanpercentile of axes": lambda t, **_: pk.nanpercentile(
        t, [3, 80.0], (0, 2), weights=t, method=CDF, keepdims=True
    ),
    "weighted nanquantile out": lambda w, u, **_: pk.nanquantile(
        w, 0.5, 1, weights=w, method=CDF, out=u[0, :300]
    ),
    "weighted nanquantile of integers": lambda q, **_: pk.nanquantile(
        q, 0.5, 0, weights=pk.multiply(q, q), method=CDF
    ),
    "weighted quantile of float32": lambda p, **_: pk.quantile(p, np.float32(0.7), -1, weights=p, method=CDF),
    "nansum": lambda n, **_: pk.nansum(n),
    "nanmax": lambda n, **_: pk.nanmax(n),
    "nanmean": lambda n, **_: pk.nanmean(n),
    "nanstd": lambda n, **_: pk.nanstd(n),
    "nanargmax": lambda n, **_: pk.nanargmax(n),
    "nanargmin axis": lambda w, **_: pk.nanargmin(w, axis=0),
    "nanvar": lambda n, **_: pk.nanvar(n, ddof=1),
    "nanstd axis": lambda w, **_: pk.nanstd(w, axis=0, ddof=2),
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
    "vecdot of a stack and a vector": lambda w, u, **_: pk.vecdot(w, u[300]),
    "vecdot of two stacks": lambda t, s, **_: pk.vecdot(t, s),
    "vecdot of two types, across": lambda t, q, **_: pk.vecdot(t[:, :, :1], q[:90], axis=-2),
    "vecdot out": lambda w, a, **_: pk.vecdot(w, w, out=a[:300]),
    "vecdot keepdims": lambda w, u, **_: pk.vecdot(w, u[:300], axis=0, keepdims=True),
    "vecdot of axes": lambda t, s, **_: pk.vecdot(t, s, axes=[1, 0, ()]),
    "vecdot of axes and one that is kept": lambda t, s, **_: pk.vecdot(t, s, axes=[1, 0, 1], keepdims=True),
    "vecdot of two vectors, kept": lambda a, b, **_: pk.vecdot(a, b, keepdims=True),
    "vecdot of integers as floats": lambda q, **_: pk.vecdot(q, q, dtype=np.float64),
    "vecdot with rows by the host": lambda w, **_: pk.vecdot(np.arange(300), w, axis=0),
    "kron": lambda m, s, **_: pk.kron(m[:20], s[:9]),
    "kron of a vector": lambda a, m, **_: pk.kron(a[:20], m),
    "einsum of one": lambda t, **_: pk.einsum("ijk->kij", t),
    "einsum of one summed": lambda t, **_: pk.einsum("ijk->ki", t),
    "einsum of one to a number": lambda w, **_: pk.einsum("ij->", w),
    "einsum of vectors": lambda a, b, **_: pk.einsum("i,i", a, b),
    "einsum of rows": lambda w, **_: pk.einsum("ij,ij->i", w, w),
    "einsum of elements": lambda w, **_: pk.einsum("ij,ij->ji", w, w),
    "einsum of sums": lambda w, **_: pk.einsum("ij,kl->", w, w),
    "einsum of sums beside": lambda w, a, **_: pk.einsum("ij,k->k", w, a),
    "einsum of a diagonal": lambda w, **_: pk.einsum("ii->i", w[:, :300]),
    "einsum of a trace": lambda w, **_: pk.einsum("ii", w[:, 100:]),
    "einsum of diagonals": lambda t, **_: pk.einsum("iji->j", t[:, :, :6]),
    "einsum of a diagonal and a vector": lambda w, a, **_: pk.einsum("ii,i->i", w[:, :300], a[:300]),
    "einsum of types": lambda q, m, **_: pk.einsum("ij,kl->kl", q, m),
    "einsum out": lambda w, u, **_: pk.einsum("ij,j->ij", w, u[0], out=u[:300]),
    "outer": lambda a, b, **_: pk.outer(a[:300], b[:200]),
    "trace": lambda m, **_: pk.trace(m),
    "norm of order 3": lambda a, **_: pk.linalg.norm(a, 3),
    "norm of order 1 axis": lambda w, **_: pk.linalg.norm(w, 1, axis=0),
    "norm of order inf": lambda i, **_: pk.linalg.norm(i, np.inf),
    "norm of a matrix": lambda w, **_: pk.linalg.norm(w, -1),
    "norm": lambda a, **_: pk.linalg.norm(a),
    "tril": lambda w, **_: pk.tril(w, 3),
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

# Products of floats: the CPU engine uses NumPy's BLAS, so results are close, not equal.
PRODUCTS = {
    "matmul that is split": lambda f, **_: pk.matmul(f[:, :1030], f[:, 10:]),
    "matmul": lambda m, s, **_: pk.matmul(m, s),
    "matmul of views": lambda w, **_: pk.matmul(w[::2, 100:], w[:, 200:]),
    "matmul of stacks": lambda t, **_: pk.matmul(t[:, :, :60], t[:, :60]),
    "matmul of a matrix and a stack": lambda m, t, **_: pk.matmul(m, t),
    "matmul of a matrix and a vector": lambda w, a, **_: pk.matmul(w, a[:400]),
    "matmul of a vector and a matrix": lambda w, a, **_: pk.matmul(a[:300], w),
    "matmul of two types": lambda p, w, **_: pk.matmul(p, w),
    "matrix_power": lambda w, **_: pk.linalg.matrix_power(w[:, :300], 5),
    "dot of matrices": lambda m, s, **_: pk.dot(m, s),
    "dot of stacks": lambda m, t, **_: pk.dot(m, t),
    "inner of matrices": lambda w, **_: pk.inner(w[:200], w[200:]),
    "tensordot": lambda m, s, **_: pk.tensordot(m, s, 1),
    "tensordot of turned axes": lambda t, m, **_: pk.tensordot(t, m, ([1], [1])),
    "tensordot of all": lambda w, **_: pk.tensordot(w, w, 2),
    "einsum": lambda m, s, **_: pk.einsum("ij,jk->ik", m, s),
    "einsum turned": lambda m, s, **_: pk.einsum("ij,jk->ki", m, s),
    "einsum not optimized": lambda m, s, **_: pk.einsum("ij,jk", m, s, optimize=False),
    "einsum of stacks": lambda t, **_: pk.einsum("bij,bik->bjk", t, t),
}

# Calls that named engines do not support for host arrays: results are compared with NumPy's.
EINSUMS = {
    "einsum of integers": lambda kit, q, i, **_: kit.einsum("ij,kj,j->ik", q, q[:200], i[:90]),
    "einsum of bools": lambda kit, q, **_: kit.einsum(
        "ij,ij,j->i", kit.greater(q, 0), kit.less(q, 5), kit.greater(q[0], -5)
    ),
    "einsum of elements of three": lambda kit, a, b, i, **_: kit.einsum("i,i,i->i", a, b, i),
    "einsum of broadcast arrays": lambda kit, w, **_: kit.einsum("ij,ij->ij", w[:1], w),
    "einsum of an ellipsis": lambda kit, t, **_: kit.einsum("...ij->...ji", t),
    "einsum of three": lambda kit, m, s, t, **_: kit.einsum("ij,jk,bjk->ib", m[:60], s, t),
    "einsum of three vectors": lambda kit, a, b, i, **_: kit.einsum("i,i,i", a, b, i),
    "einsum of four": lambda kit, w, a, b, **_: kit.einsum("i,ij,kj,k->", a[:300], w, w[:200], b[:200]),
    "einsum of three optimized": lambda kit, m, s, **_: kit.einsum("ij,jk,lj->ikl", m, s, m, optimize=True),
    "einsum of rows that broadcast": lambda kit, r, **_: kit.einsum("ij,ij->i", r[:, :1], r),
    "einsum of ellipses": lambda kit, t, w, **_: kit.einsum("...ij,...kj->...ik", t, w[:200, :70]),
    "einsum of axes in lists": lambda kit, m, s, **_: kit.einsum(m, [0, 1], s, [1, 2], [2, 0]),
    "einsum of axes in lists, in their order": lambda kit, m, s, **_: kit.einsum(m, (7, 3), s, (3, 1)),
    "einsum of a diagonal in a list": lambda kit, w, **_: kit.einsum(w[:, :300], [5, 5]),
    "einsum of many axes in lists": lambda kit, t, m, **_: kit.einsum(
        *(t, [..., 51, np.int64(30)], m, [2, 51], [2, 30, ...])
    ),
    "einsum of types, in float64": lambda kit, q, p, **_: kit.einsum(
        "ij,ik->jk", q[:260, :50], p, dtype=np.float64
    ),
    "einsum of integers in int32": lambda kit, q, **_: kit.einsum(
        "ij,kj->ik", q, q[:200], dtype="i4", casting="same_kind"
    ),
    "einsum of one in float32": lambda kit, q, **_: kit.einsum("ij->j", q, dtype="f4", casting="unsafe"),
    "einsum of products in order C": lambda kit, m, s, **_: kit.einsum("ij,jk->ki", m, s, order="C"),
    "einsum of products in order F": lambda kit, m, s, **_: kit.einsum("ij,jk->ki", m, s, order="F"),
    "einsum of one in order F": lambda kit, t, **_: kit.einsum("ijk->kj", t, order="F"),
    "einsum of products in order A": lambda kit, m, s, **_: kit.einsum("ij,jk->ki", m, s, order="A"),
    "einsum to a number in order F": lambda kit, a, b, **_: kit.einsum("i,i", a, b, order="F"),
    "einsum along a path": lambda kit, m, s, t, **_: kit.einsum(
        "ij,jk,bjk->ib", m[:60], s, t, optimize=["einsum_path", (1, 2), (0, 1)]
    ),
    "einsum along a path of several at once": lambda kit, w, a, b, **_: kit.einsum(
        *("i,ij,kj,k->", a[:300], w, w[:200], b[:200]), optimize=("einsum_path", (3, 0, 1), (0,), (1, 0))
    ),
    "einsum within memory": lambda kit, m, s, **_: kit.einsum(
        "ij,jk,lj->ikl", m, s, m, optimize=("greedy", 1e6)
    ),
}

if has_numpy("2.4"):  # its contraction paths respect dtype=
    EINSUMS |= {
        "einsum of three optimized, in float64": lambda kit, p, q, **_: kit.einsum(
            "ij,ik,kl->jl", p[:, :90], q[:260], q[:90], optimize=True, dtype=np.float64
        ),
        "einsum along a path, of sums in int8": lambda kit, v, **_: kit.einsum(
            "ij,kj,kl->il", v[:600], v[:500], v[:500], dtype="i8", optimize=["einsum_path", (1, 2), (0, 1)]
        ),
        "einsum of three at once, of sums in int64": lambda kit, v, **_: kit.einsum(
            "ij,k,l->il", v[:600], v[:70, 0], v[:90, 1], dtype="i8", optimize=["einsum_path", (0, 1, 2)]
        ),
        "einsum of bools, in float32": lambda kit, q, **_: kit.einsum(
            "ij,kj->ik", kit.greater(q, 0), q[:200], dtype="f4", casting="unsafe", optimize="optimal"
        ),
        "einsum of two, in float32": lambda kit, m, s, **_: kit.einsum(
            "ij,jk->i", kit.floor(kit.multiply(m, 9)), kit.ceil(s), optimize=True, dtype="f4"
        ),
        "einsum of one optimized, in float64": lambda kit, q, **_: kit.einsum(
            "ij->j", q, dtype="f8", optimize="greedy", order="F"
        ),
    }

# All calls; each takes the arrays that its parameters name.
CALLS = {
    **STAYS,
    **PRODUCTS,
    **{f"by {name}": functools.wraps(call)(functools.partial(call, pk)) for name, call in EINSUMS.items()},
}
SLOW = (
    "unique of long rows",
    "unique of long rows with all",
    "histogram of many bins by the error that is left",
)


def with_slow_ones_thorough(names):
    """Return parameters for `pytest.mark.parametrize`, of which slow calls are marked thorough."""
    return [pytest.param(name, marks=[pytest.mark.thorough] * (name in SLOW)) for name in names]


# Calls that read a value on the host, so that they have synchronized when they return.
LOOKS_AT = re.compile(
    # the number of results, or the range of the values
    r"(?!histogram$|.*histogram of edges|histogram weighted by integers|weighted histogram of many bins)"
    r"(?!histogram2d of edges and ranges)"
    r"((weighted )?(bincount|histogram)|union1d|intersect1d|setdiff1d|setxor1d|sets |unique|nonzero|compress"
    # a number that is returned, or that decides whether NumPy raises
    r"|allclose|array_equal|weighted average|choice of one|take by indices there|isin"
    r"|normal around|exponential|poisson|gamma|beta|uniform|power of integers|evaluate a power"
    # weights that NumPy may reject, or an error for an empty result
    r"|weighted (nan)?(quantile|percentile)|nanarg|norm of order 3|digitize by edges there)"
)
