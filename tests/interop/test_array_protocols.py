"""Operands that override NumPy functions (`__array_ufunc__`, NEP 13; `__array_function__`, NEP 18)."""

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors

X = np.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])


class Tagged(np.ndarray):
    """A subclass of ndarray with a tag."""

    def __new__(cls, values):
        return np.asarray(values).view(cls)

    def __array_finalize__(self, _):
        self.tag = "tag"


class TaggedUfunc(Tagged):
    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return ("ufunc", ufunc.__name__, method, sorted(keywords))


class TaggedFunction(Tagged):
    def __array_function__(self, function, types, args, kwargs):
        return ("function", function.__name__, sorted(kwargs))


class Ufunc:
    """An object, not an array, that overrides ufuncs."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values

    __array_ufunc__ = TaggedUfunc.__array_ufunc__


class Both(Ufunc):
    __array_function__ = TaggedFunction.__array_function__


class Refusing(Ufunc):
    __array_ufunc__ = None


class Mapped(np.memmap):
    def __new__(cls, values):
        return np.asarray(values).view(cls)


KINDS = [Tagged, TaggedUfunc, TaggedFunction, Ufunc, Both, Refusing, Mapped, np.matrix]

# Calls of each family, with the operand at each position.
CALLS = {
    "add": lambda k, x: k.add(x, 1.0),
    "add second": lambda k, x: k.add(X, x),
    "add out": lambda k, x: k.add(X, 1.0, out=x),
    "add out tuple": lambda k, x: k.add(X, 1.0, out=(x,)),
    "add where": lambda k, x: k.add(X, 1.0, where=X > 2, out=x),
    "add dtype": lambda k, x: k.add(x, 1.0, dtype=np.float32),
    "add order": lambda k, x: k.add(x, 1.0, order="F"),
    "exp": lambda k, x: k.exp(x),
    "divmod": lambda k, x: k.divmod(x, 2.0),
    "reduce": lambda k, x: k.add.reduce(x),
    "accumulate": lambda k, x: k.add.accumulate(x),
    "outer": lambda k, x: k.hypot.outer(x, X),
    "clip": lambda k, x: k.clip(x, 1.5, 2.5),
    "where": lambda k, x: k.where(X > 2, x, 0.0),
    "round": lambda k, x: k.round(x, 1),
    "nan_to_num": lambda k, x: k.nan_to_num(x),
    "isclose": lambda k, x: k.isclose(x, 3.0),
    "array_equal": lambda k, x: k.array_equal(x, x),
    "sum": lambda k, x: k.sum(x),
    "sum along": lambda k, x: k.sum(x, axis=0, keepdims=True),
    "mean": lambda k, x: k.mean(x, axis=0),
    "std": lambda k, x: k.std(x),
    "max": lambda k, x: k.max(x),
    "argmax": lambda k, x: k.argmax(x),
    "any": lambda k, x: k.any(x),
    "count_nonzero": lambda k, x: k.count_nonzero(x),
    "ptp": lambda k, x: k.ptp(x, axis=0),
    "nansum": lambda k, x: k.nansum(x),
    "nanmean": lambda k, x: k.nanmean(x),
    "average": lambda k, x: k.average(x),
    "cumsum": lambda k, x: k.cumsum(x),
    "diff": lambda k, x: k.diff(x),
    "sort": lambda k, x: k.sort(x, axis=0),
    "argsort": lambda k, x: k.argsort(x),
    "lexsort": lambda k, x: k.lexsort([x, x]),
    "unique": lambda k, x: k.unique(x),
    "searchsorted": lambda k, x: k.searchsorted([2.0, 4.0], x),
    "isin": lambda k, x: k.isin(x, [1.0]),
    "median": lambda k, x: k.median(x),
    "quantile": lambda k, x: k.quantile(x, 0.5, axis=0),
    "histogram": lambda k, x: k.histogram(x, 3, (0, 6)),
    "digitize": lambda k, x: k.digitize(x, [2.0, 4.0]),
    "matmul": lambda k, x: k.matmul(x, X.T),
    "dot": lambda k, x: k.dot(X.T, x),
    "einsum": lambda k, x: k.einsum("ij,kj->ik", x, X),
    "tensordot": lambda k, x: k.tensordot(x, X.T, 1),
    "vecdot": lambda k, x: k.vecdot(x, X),
    "trace": lambda k, x: k.trace(x),
    "tril": lambda k, x: k.tril(x),
    "roll": lambda k, x: k.roll(x, 1),
    "flip": lambda k, x: k.flip(x),
    "transpose": lambda k, x: k.transpose(x),
    "interp": lambda k, x: k.interp(x, [0.0, 9.0], [0.0, 1.0]),
    "norm": lambda k, x: k.linalg.norm(x),
    "gradient": lambda k, x: k.gradient(x),
    "trapezoid": lambda k, x: k.trapezoid(X, x),
    "cov": lambda k, x: k.cov(x),
    "cross": lambda k, x: k.cross(X, x),
    "convolve": lambda k, x: k.convolve(x, X[0]),
    "pad": lambda k, x: k.pad(x, 1),
    "concatenate": lambda k, x: k.concatenate([X, x]),
    "tile": lambda k, x: k.tile(x, 2),
}


def outcome(name, kit, x):
    try:
        return CALLS[name](kit, x)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return error


def alike(got, want):
    if isinstance(want, Exception):
        return isinstance(got, Exception) and not isinstance(got, errors.Error)
    if isinstance(want, (tuple, list)):
        return type(got) is type(want) and all(map(alike, got, want))
    if isinstance(want, Ufunc):
        return type(got) is type(want)
    return type(got) is type(want) and np.array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_under_auto_they_decide(name, kind):
    got, want = (outcome(name, kit, kind(X.copy())) for kit in (pk, np))
    assert alike(got, want), f"{got!r} is not {want!r}"


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_named_engines_refuse_to_lose_them(engine, name, kind):
    with pytest.raises(
        errors.Unsupported, match=r"overrides NumPy's functions|it takes bool|many|has no|such"
    ):
        CALLS[name](pk, kind(X.copy()))


def test_the_refusal_tells_the_remedy(engine):
    with pytest.raises(
        errors.Unsupported, match=r"^sort: .* Tagged overrides .*numpy\.asarray\(\.\.\.\) first"
    ):
        pk.sort(Tagged(X))
    assert type(pk.sort(np.asarray(Tagged(X)))) is np.ndarray


def test_the_record_tells_who_decided():
    pk.sort(Tagged(X))
    assert (pk.last_call().engine, pk.last_call().reason) == (
        "numpy",
        "auto: Tagged overrides NumPy's functions",
    )


def test_a_memmap_is_an_array(engine, tmp_path):
    X.tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", float, "r", shape=X.shape)
    assert (pk.sort(mapped, axis=0) == np.sort(X, axis=0)).all()


# ---- Other libraries ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
def test_xarray(name):
    xarray = pytest.importorskip("xarray")
    make = lambda: xarray.DataArray(X.copy(), dims=("a", "b"))  # noqa: E731
    got, want = (outcome(name, kit, make()) for kit in (pk, np))
    assert alike(got, want)


@pytest.mark.parametrize("name", CALLS)
def test_pint(name):
    pint = pytest.importorskip("pint")
    metre = pint.UnitRegistry().m
    got, want = (outcome(name, kit, X * metre) for kit in (pk, np))
    assert str(got) == str(want)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["Series", "DataFrame"])
def test_pandas(name, kind):
    pd = pytest.importorskip("pandas")
    make = lambda: getattr(pd, kind)(X[0] if kind == "Series" else X)  # noqa: E731
    got, want = (outcome(name, kit, make()) for kit in (pk, np))
    assert alike(got, want)


@pytest.mark.parametrize("name", ["sum along", "max", "argsort", "flip", "transpose"])
def test_pandas_labels_are_not_lost(engine, name):
    pd = pytest.importorskip("pandas")
    if name in ("argsort", "flip"):
        with pytest.raises(errors.Unsupported, match=r"Series has labels, .*\.to_numpy\(\) first"):
            CALLS[name](pk, pd.Series(X[0]))
    else:
        calls = {"max": lambda k, x: k.max(x, axis=0), "sum along": lambda k, x: k.sum(x, axis=0)}
        with pytest.raises(errors.Unsupported, match=r"DataFrame has labels, .*\.to_numpy\(\) first"):
            (calls.get(name) or CALLS[name])(pk, pd.DataFrame(X))
    with pytest.raises(errors.Unsupported, match="cumsum: DataFrame has labels"):
        pk.cumsum(pd.DataFrame(X))  # pandas adds by columns, NumPy over the flattened array
    assert pk.sum(pd.Series(X[0])) == 6.0
    np.testing.assert_array_equal(pk.gradient(pd.Series(X[0])), np.gradient(X[0]))
