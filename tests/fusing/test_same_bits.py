"""Fused bodies, and the same pycudakit functions called one by one, give the same bits on an engine."""

import inspect

import numpy as np
import pytest
from helpers.strategies import assert_values, outcome

import pycudakit as pk

SIZE = 20_003


def arrays(dtype):
    """Return the arrays that bodies name, of one dtype."""
    rng = np.random.default_rng(3)
    x, y = ((rng.standard_normal(SIZE) * 5).astype(dtype) for _ in range(2))
    table = (rng.standard_normal((151, 131)) * 3).astype(dtype)
    special = rng.choice(np.array([0, -0.0, np.nan, np.inf, -np.inf, 1, -2.5, 600], dtype), SIZE)
    return {
        "x": x,
        "y": y,
        "p": np.abs(x) + dtype(0.1),
        "s": special,
        "A": table,
        "F": np.asfortranarray(table),
    }


# Bodies whose functions come from `o`: pycudakit, or NumPy in a fused body.
ELEMENTWISE = {
    "gauss": lambda o, x, y: o.multiply(o.exp(o.negative(o.square(x))), o.sin(y)),
    "roots": lambda o, p, x: o.add(o.sqrt(p), o.cbrt(x)),
    "logs": lambda o, p: o.divide(o.log(p), o.add(o.log2(p), o.log10(p))),
    "small": lambda o, p, x: o.subtract(o.log1p(p), o.expm1(o.minimum(x, 2))),
    "turns": lambda o, x, y: o.add(o.arctan2(x, y), o.hypot(x, y)),
    "waves": lambda o, x, y: o.multiply(o.cos(x), o.add(o.tan(y), o.tanh(x))),
    "hyperbolic": lambda o, x: o.divide(o.sinh(x), o.add(o.cosh(x), 1)),
    "inverse": lambda o, x: o.add(o.arcsin(o.sin(x)), o.arctan(x)),
    "powers": lambda o, p, y: o.power(p, o.multiply(y, 0.5)),
    "whole": lambda o, x, y: o.add(o.floor_divide(x, 1.5), o.remainder(y, 0.7)),
    "rounded": lambda o, x: o.add(o.round(x, 1), o.rint(o.multiply(x, 3))),
    "chosen": lambda o, x, y: o.where(o.greater(x, y), o.exp(x), o.exp2(y)),
    "clipped": lambda o, x, y: o.clip(o.add(o.exp(x), y), -1, 4),
    "special": lambda o, s: o.add(o.exp(s), o.nan_to_num(o.log(s))),
    "special roots": lambda o, s: o.divide(o.sqrt(s), o.sin(s)),
    "columns": lambda o, A: o.exp(o.subtract(A, o.max(A, axis=0))),
    "rows": lambda o, A: o.divide(o.exp(A), o.sum(o.exp(A), axis=1, keepdims=True)),
    "turned": lambda o, F: o.exp(o.sin(F)),
}
REDUCED = {
    "sum": lambda o, x: o.sum(o.exp(x)),
    "sums": lambda o, A: o.sum(o.multiply(A, A), axis=0),
    "mean": lambda o, x, y: o.mean(o.multiply(o.sin(x), y)),
    "means": lambda o, A: o.mean(o.exp(A), axis=1),
    "std": lambda o, x: o.std(o.multiply(x, 1.5)),
    "var": lambda o, A: o.var(o.tanh(A), axis=0, ddof=1),
    "prod": lambda o, p: o.prod(o.add(1, o.divide(p, 1e4))),
    "max": lambda o, x, y: o.max(o.add(o.exp(x), y)),
    "argmin": lambda o, A: o.argmin(o.cos(A), axis=1),
    "sum of turned": lambda o, F: o.sum(o.exp(F), axis=0),
    "standard": lambda o, A: o.divide(o.subtract(A, o.mean(A, axis=0)), o.std(A, axis=0)),
    "cumsum": lambda o, x: o.cumsum(o.exp(o.minimum(x, 3))),
    "norm": lambda o, x: o.linalg.norm(o.exp(o.minimum(x, 3))),
    "median": lambda o, x: o.median(o.sin(x)),
    "percentile": lambda o, A: o.percentile(o.sin(A), 30, axis=1),
    "interp": lambda o, x: o.interp(o.sin(x), o.linspace(-1, 1, 9), o.exp(o.linspace(-1, 1, 9))),
    "histogram": lambda o, x: o.histogram(o.sin(x), bins=9, range=(-1, 1))[0],
    "matmul": lambda o, A: o.matmul(o.exp(A).T, o.sin(A)),
    "einsum": lambda o, A: o.einsum("ij,ij->j", o.exp(A), A),
    "sort": lambda o, x: o.sort(o.exp(x)),
    "of a part": lambda o, x: o.sum(o.exp(x[1:])),
    "of a step": lambda o, x: o.mean(o.exp(x[::3])),
    "backwards": lambda o, x: o.sum(o.exp(x[::-1])),
}
BODIES = ELEMENTWISE | REDUCED


class _Kit:
    """pycudakit's functions, and NumPy's where pycudakit has none."""

    def __getattr__(self, name):
        return getattr(pk, name) if hasattr(pk, name) else getattr(np, name)


def called(body, of, dtype):
    """Return the result of a body, and its warnings."""
    names = [*inspect.signature(body).parameters][1:]
    given = [arrays(dtype)[name] for name in names]
    if of == "fused":
        return outcome(pk.fuse(lambda *arguments: body(np, *arguments)), *given)
    return outcome(lambda *arguments: body(_Kit(), *arguments), *given)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("name", BODIES)
def test_as_one_by_one(engine, name, dtype):
    if engine == "auto":
        pytest.skip("`auto` may choose another engine for a function alone")
    fused, singly = called(BODIES[name], "fused", dtype), called(BODIES[name], "singly", dtype)
    assert fused[0] == singly[0] == "ok", (fused[1], singly[1])
    assert type(fused[1]) is type(singly[1])
    assert_values(np.asarray(fused[1]), np.asarray(singly[1]), context=name)
    assert fused[2] == singly[2]


EXACT = {
    "arithmetic": lambda o, x, y, p: o.divide(o.multiply(o.add(x, y), o.sqrt(p)), o.subtract(x, 2)),
    "sum": lambda o, x, y: o.sum(o.multiply(x, y)),
    "means": lambda o, A: o.mean(o.multiply(A, A), axis=0),
    "var": lambda o, A: o.var(o.add(A, 1), axis=1),
    "chosen": lambda o, s, x: o.where(o.less(s, 1), o.divide(x, 3), o.floor(x)),
    "cumsum": lambda o, x: o.cumsum(o.multiply(x, 0.1)),
    "columns": lambda o, A: o.divide(o.subtract(A, o.mean(A, axis=0)), o.std(A, axis=0)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EXACT)
def test_engines_agree(both_engines, name, dtype):
    results = []
    for engine in ("cpu", "cuda"):
        with pk.engine(engine):
            results.append(np.asarray(called(EXACT[name], "fused", dtype)[1]))
    assert_values(*results, free_zero=True, context=name)


def test_again_and_in_other_company(engine):
    """A result's bits depend on its operands only, not on its neighbours or on repetition."""
    x = arrays(np.float64)["x"]
    # `auto` may choose another engine for transcendental functions from call to call.
    function = np.sqrt if engine == "auto" else np.exp
    singly = getattr(pk, function.__name__)(np.abs(x))

    @pk.fuse
    def together(x):
        e = function(np.abs(x))
        return e, e * 2, np.sum(e), np.sum(e * 2 - e), np.sin(e)[::7], np.mean(e[5:]), e[5:]

    first = together(x)
    for turn in range(400 * (engine == "auto")):  # until it has settled on an engine
        first = together(x)
        if turn > 30 and "compared" not in pk.last_call().reason:
            break
    for _ in range(3):
        again = together(x)
        for k in (0, 1, 2, 3, 5, 6):
            assert_values(np.asarray(first[k]), np.asarray(again[k]), context=str(k))
    assert_values(first[0], singly)
    assert_values(first[6], singly[5:])
    if engine != "auto":
        assert first[2] == pk.sum(singly)
        assert first[5] == pk.mean(singly[5:])
        assert_values(first[4], pk.sin(singly)[::7])


def test_calls_of_other_layouts_one_after_the_other(engine):
    """Prepared programs are reused from call to call: each call sets its own layouts."""
    x = np.arange(4 * 3000.0).reshape(4, 3000)
    layouts = [x, x[:, ::2], x.T, x[::-1], x[:1], x, x.astype(">f8"), x[:, ::2], x[1:2, :7], x]
    for array in layouts:
        expected = array + 1.0
        assert (pk.add(array, 1.0) == expected).all()
        assert (pk.fuse(lambda a: a + 1.0)(array) == expected).all()
        assert (pk.add(array, array[:1]) == array + array[:1]).all()
