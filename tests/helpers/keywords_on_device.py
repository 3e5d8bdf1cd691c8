"""Tables of calls on device arrays with keywords and with `out=`, which move nothing over the link either."""

import numpy as np

import pycudakit as pk

_SUMS = ["sum", "prod", "mean", "std", "var", "nansum", "nanprod", "nanmean", "nanstd", "nanvar"]
_EXTREMES = ["min", "max", "nanmin", "nanmax"]
_PLACES = ["argmin", "argmax", "nanargmin", "nanargmax"]
_SCANS = ["cumsum", "cumprod", "nancumsum", "nancumprod"]
_TRUTHS = ["any", "all"]


def _reduction(name, with_mask=False, **keywords):
    function = getattr(pk, name)

    def call(w, **_):
        given = {"where": pk.greater(w, 0.5)} if with_mask else {}
        return function(w, **keywords, **given)

    return call


KEYWORDS = {
    **{f"{name} dtype": _reduction(name, axis=1, dtype="f4") for name in _SUMS},
    **{f"{name} axis, dtype": _reduction(name, axis=0, dtype=np.float64, keepdims=True) for name in _SUMS},
    **{f"{name} where": _reduction(name, True, axis=1) for name in (*_SUMS, *_TRUTHS)},
    **{f"{name} where of all": _reduction(name, True) for name in (*_SUMS, *_TRUTHS)},
    **{f"{name} where, initial": _reduction(name, True, axis=0, initial=0.7) for name in _EXTREMES},
    **{f"{name} initial": _reduction(name, axis=(0, 1), initial=3) for name in (*_EXTREMES, "sum", "prod")},
    "sum from -0.0": lambda w, **_: pk.copysign(
        1, pk.sum(pk.multiply(w, -0.0), 0, initial=-0.0, where=pk.greater(w, 2))
    ),
    "var about a mean": lambda w, **_: pk.var(w, axis=0, mean=pk.mean(w, axis=0, keepdims=True), ddof=1),
    "sum by a mask that broadcasts": lambda w, **_: pk.sum(w, 0, where=pk.greater(w[0], 0.5)),
    "sum of integers, in a type": lambda q, **_: pk.sum(q, axis=1, dtype=np.int16),
    "ufunc's reduce": lambda w, **_: pk.add.reduce(w, 1, dtype="f4"),
    "ufunc's accumulate": lambda w, **_: pk.add.accumulate(w, 1),
    "average along, by a vector": lambda w, **_: pk.average(w, axis=0, weights=w[:, 0]),
    "average, returned": lambda w, **_: pk.average(w, axis=1, weights=w, returned=True),
    "sort of columns": lambda w, **_: pk.sort(w.T if hasattr(w, "T") else w),
    "searchsorted in an order": lambda a, b, **_: pk.searchsorted(a, b, "right", pk.argsort(a)),
    "nonzero of a matrix": lambda q, **_: pk.nonzero(q),
    "argwhere": lambda q, **_: pk.argwhere(pk.greater(q, 3)),
    "take_along_axis of columns": lambda w, u, **_: pk.take_along_axis(w, pk.argsort(u[:50], axis=0), 0),
    "matmul in a type": lambda p, **_: pk.matmul(p[:40, :30], p[:30, :40], dtype=np.float64),
    "matmul along axes": lambda q, **_: pk.matmul(q[:90], q[:90], axes=[(1, 0), (0, 1), (1, 0)]),
    "vdot of matrices": lambda w, u, **_: pk.vdot(w, u[:300]),
    "interp with a period": lambda a, **_: pk.interp(a, [0.0, 100.0], [0.0, 1.0], period=30.0),
    "interp of float32": lambda p, **_: pk.interp(p, [0.0, 0.5, 1.0], [0.0, 1.0, -1.0]),
    "threshold": lambda p, **_: pk.image.threshold(p),
    "flip": lambda p, **_: pk.image.flip(p),
    "rotate90": lambda p, **_: pk.image.rotate90(p),
    "equalize_histogram": lambda w, **_: pk.fuse(
        lambda x: pk.image.equalize_histogram((x * 255).astype("u1").reshape(100, 300, 4), channel_axis=-1)
    )(w),
    "normalize": lambda p, **_: pk.image.normalize(p),
}


def _into(name, **keywords):
    function = getattr(pk, name)
    return lambda w, out, **_: function(w, out=out, **keywords)


_SHAPE, _ROWS = (300, 400), (300,)
FLOAT, INDEX, BOOL = np.float64, np.int64, np.bool_

# Each with the shape and the dtype of `out`.
INTO = {
    **{f"{name} axis": (_into(name, axis=1), _ROWS, FLOAT) for name in (*_SUMS, *_EXTREMES, "ptp")},
    **{f"{name} of all": (_into(name), (), FLOAT) for name in (*_SUMS, *_EXTREMES)},
    **{f"{name} axis": (_into(name, axis=1), _ROWS, INDEX) for name in _PLACES},
    **{f"{name} axis": (_into(name, axis=1), _ROWS, BOOL) for name in _TRUTHS},
    **{f"{name} axis": (_into(name, axis=1), _SHAPE, FLOAT) for name in _SCANS},
    **{
        f"{name} axis 0": (_into(name, axis=0), _SHAPE, FLOAT)
        for name in (*_SCANS, "cummax", "exclusive_scan")
    },
    "cumulative_sum": (_into("cumulative_sum", axis=0, include_initial=True), (301, 400), FLOAT),
    "median": (_into("median", axis=1), _ROWS, FLOAT),
    "quantile": (_into("quantile", q=[0.1, 0.9], axis=1), (2, 300), FLOAT),
    "nanquantile": (_into("nanquantile", q=0.3, axis=1), _ROWS, FLOAT),
    "sum, positional": (lambda w, out: pk.sum(w, 1, None, out), _ROWS, FLOAT),
    "sum in a type, positional": (lambda w, out: pk.sum(w, 1, "f4", out), _ROWS, np.float32),
    "sum of integers": (lambda q, out: pk.sum(q, 1, out=out), (900,), INDEX),
    "sum of float32 in float64": (lambda p, out: pk.sum(p, 1, out=out), (260,), FLOAT),
    "mean of float32 in float64": (lambda p, out: pk.mean(p, 1, out=out), (260,), FLOAT),
    "cumsum of float32 in float64": (lambda p, out: pk.cumsum(p, 1, out=out), (260, 300), FLOAT),
    "ufunc's reduce": (lambda w, out: pk.add.reduce(w, 1, out=out), _ROWS, FLOAT),
    "matmul": (lambda q, out: pk.matmul(q[:90], q[90:180], out=out), (90, 90), INDEX),
    "vecdot": (lambda w, u, out: pk.vecdot(w, u[:300], out=out), _ROWS, FLOAT),
    "trace": (lambda t, out: pk.trace(t, out=out), (70,), FLOAT),
    "take": (lambda a, i, out: pk.take(a, i, out=out, mode="clip"), (100_003,), FLOAT),
    "modf": (lambda w, u, out: pk.modf(w, out=(out, u[:300]))[0], _SHAPE, FLOAT),
    "evaluate": (lambda w, out: pk.evaluate("w * 2 + sin(w)", {"w": w}, out), _SHAPE, FLOAT),
    "bools added where": (
        lambda w, u, out: pk.add(
            pk.greater(w, 0.3), pk.greater(w, 0.6), out=out, where=pk.greater(u[:300], 0.5)
        ),
        _SHAPE,
        FLOAT,
    ),
    "compress": (lambda a, out: pk.compress(pk.less(a, 2e9), a, out=out), (100_003,), FLOAT),
    "nan_to_num": (lambda q, out: pk.add(pk.nan_to_num(q), 1, out=out), (900, 90), INDEX),
    "round": (lambda w, out: pk.round(w, 1, out=out), _SHAPE, FLOAT),
    "clip": (lambda w, out: pk.clip(w, 0.2, 0.7, out=out), _SHAPE, FLOAT),
}
# Forms of `out`: the extra length of its base along the last axis, and the index that selects `out`.
FORMS = {
    "dense": (1, slice(None)),
    "of a wider one": (2, slice(0, None, 2)),
    "every third": (3, slice(1, None, 3)),
}
OTHER_TYPES = {FLOAT: np.float32, INDEX: np.int16, np.float32: np.float64}
# Functions whose intermediate dtypes in NumPy depend on `out`.
EXACT = {
    "median",
    "quantile",
    "ptp axis",
    "cummax axis 0",
    "argmin axis",
    "argmax axis",
    "nanargmin axis",
    "nanargmax axis",
}
