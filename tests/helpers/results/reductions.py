"""Digest cases of reductions, scans, order statistics and histograms."""

import numpy as np

import pycudakit as pk
from helpers.hashed import ordinary, some_nan, uniform, whole
from helpers.results.common import GROUPS, LONG, attempt, layouts

_REDUCTIONS = [
    "sum", "prod", "mean", "var", "std", "min", "max", "amax", "amin", "ptp", "argmin", "argmax",
    "any", "all", "count_nonzero",
]  # fmt: skip
_NAN = [
    "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmin", "nanmax", "nanargmin",
    "nanargmax",
]  # fmt: skip


def _reductions_of(name, dtype):
    function, kept = getattr(pk, name), {"keepdims": True}
    matrix, block = ordinary(dtype, (37, 129), 1), ordinary(dtype, (5, 17, 30), 2)
    row = ordinary(dtype, 5000, 3)
    if name in ("nanargmin", "nanargmax") or not name.startswith("nan"):
        pass
    elif matrix.dtype.kind == "f":
        matrix, block, row = map(some_nan, (matrix, block, row))
    if "prod" in name and matrix.dtype.kind == "f":
        matrix, block, row = (1 + x / 1024 for x in (matrix, block, row))
    results = [attempt(function, x) for x in (row, matrix, block)]
    results += [attempt(function, matrix, axis=axis, **kept) for axis in (0, 1)]
    results += [attempt(function, x, axis=-1) for x in (*layouts(matrix), block)]
    if "arg" not in name:
        results.append(attempt(function, block, axis=(0, 2)))
    return results


def reduce():
    for name in _REDUCTIONS + _NAN:
        for group, dtypes in GROUPS.items():
            yield f"{name} {group}", [part for dtype in dtypes for part in _reductions_of(name, dtype)]
    a, long = ordinary("float64", (40, 70), 5), uniform(LONG, 6, "float32")
    chosen = a > 0
    yield "sum long", [pk.sum(long), pk.mean(long), pk.var(long), pk.sum(long.reshape(-1, 500), axis=0)]
    yield (
        "sum keywords",
        [
            pk.sum(a, where=chosen, initial=2.5, axis=0),
            pk.sum(a, dtype=np.float32),
            pk.sum(ordinary("int8", 999, 1), dtype=np.int16),
            pk.max(a, where=chosen, initial=-99, axis=1),
            pk.mean(a, axis=1, where=chosen),
            pk.std(a, axis=0, ddof=1, keepdims=True),
            pk.sum(a, axis=0, out=np.empty(70)),
        ],
    )
    yield "norm", [pk.linalg.norm(a, order, 1) for order in (None, 0, 1, 2, 3, np.inf, -np.inf)]
    yield "average", [pk.average(a, axis=0), pk.average(a, axis=1, weights=uniform(70, 7))]


_SCANS = [
    "cumsum", "cumprod", "cummax", "cummin", "nancumsum", "nancumprod", "exclusive_scan",
]  # fmt: skip


def scan():
    for name in _SCANS:
        function = getattr(pk, name)
        for group, dtypes in GROUPS.items():
            results = []
            for dtype in dtypes:
                a, row = ordinary(dtype, (19, 150), 1), ordinary(dtype, 9000, 2)
                if a.dtype.kind == "f":
                    a, row = (some_nan(a), some_nan(row)) if "nan" in name else (a, row)
                    a, row = (1 + a / 1024, 1 + row / 1024) if "prod" in name else (a, row)
                results += [attempt(function, x, axis=axis) for x in (a, *layouts(a)) for axis in (0, 1)]
                results += [attempt(function, row), attempt(function, a)]
            yield f"{name} {group}", results
    a = ordinary("float32", (30, 40), 3)
    yield "diff", [pk.diff(a), pk.diff(a, n=2, axis=0), pk.diff(a, prepend=0), pk.diff(whole(99, 0, 9) > 4)]
    yield "cumsum dtypes", [pk.cumsum(a, dtype="float64"), pk.cumsum(a, axis=1, out=np.empty((30, 40)))]
    yield "cumulative", [pk.cumulative_sum(a, axis=1, include_initial=True), pk.cumulative_prod(a[0] / 8)]
    yield "cumsum long", [pk.cumsum(uniform(LONG, 4)), pk.cumsum(uniform((2400, 500), 5, "float32"), axis=0)]


_METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher",
    "midpoint", "nearest",
]  # fmt: skip


def select():
    for group, dtypes in GROUPS.items():
        results = []
        for dtype in dtypes:
            a = ordinary(dtype, (31, 70), 1)
            results += [attempt(pk.median, x, axis=axis) for x in (a, a[:, ::-1]) for axis in (None, 0, 1)]
        yield f"median {group}", results
    a = ordinary("float64", (31, 70), 2)
    for method in _METHODS:
        yield (
            f"quantile {method}",
            [pk.quantile(a, [0, 0.1, 0.5, 0.875, 1], axis=axis, method=method) for axis in (None, 0, 1)],
        )
    holes, weights = some_nan(a), whole((31, 70), 1, 9, 3).astype(float)
    yield (
        "nan",
        [pk.nanmedian(holes, axis=0), pk.nanquantile(holes, 0.25, axis=1), pk.nanpercentile(holes, [5, 90])],
    )
    yield "percentile", [pk.percentile(a, [10, 50], axis=0, keepdims=True), pk.median(holes, axis=1)]
    yield "weights", [pk.quantile(a, [0.2, 0.7], axis=1, weights=weights, method="inverted_cdf")]
    yield "long", [pk.median(uniform(LONG + 1, 4, "float32")), pk.percentile(uniform(LONG, 5), [1, 99])]


def histogram():
    a, counted = uniform(5000, 1) * 10, whole(5000, 0, 300, 2)
    weights, edges = ordinary("float64", 5000, 3), np.array([0, 0.5, 1, 4, 4.25, 9])
    yield (
        "bincount",
        [pk.bincount(counted), pk.bincount(counted, minlength=1000), pk.bincount(counted, weights)],
    )
    yield (
        "digitize",
        [pk.digitize(a, edges), pk.digitize(a, edges[::-1], right=True), pk.digitize(counted, [9, 50])],
    )
    for name in ("int8", "uint16", "int64", "float16", "float32", "float64"):
        x = ordinary(name, 5000, 4)
        yield (
            f"histogram {name}",
            [*pk.histogram(x), *pk.histogram(x, 17, (-9, 20)), pk.histogram(x, edges)[0]],
        )
    yield (
        "histogram weights",
        [
            pk.histogram(a, 13, weights=weights)[0],
            pk.histogram(a, edges, weights=whole(5000, -9, 9, 5))[0],
            pk.histogram(a, 40, density=True)[0],
            pk.histogram(uniform(LONG, 6), 1000, weights=uniform(LONG, 7))[0],
        ],
    )
    yield "histogram2d", [*pk.histogram2d(a, weights, (8, 11)), pk.histogram2d(a, a[::-1], [edges, 5])[0]]
    counts, (first, second, third) = pk.histogramdd(np.stack([a, weights, counted], 1), (3, 4, 5))
    yield "histogramdd", [counts, first, second, third]
