"""Numbers that a fused function only computes with: its calls with other values find one plan."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit._runtime import autotuner as tuning
from pycudakit.fusing import autotuning

pytestmark = pytest.mark.usefixtures("really_replayed")


def scaled(x, t):
    return np.sin(x * t) + 0.5 * t - x / (t * t + 2.0)


def stepped(x, t):
    u = x.copy()
    for _ in range(4):
        u[1:-1] += t * (u[2:] - 2 * u[1:-1] + u[:-2])
        t = t * 0.5
    return u


def reduced(x, t):
    return (x * t).sum(), np.exp(x * -t).max(), x > t


def slope(x, t):
    return half(t) - x * t


def half(t):
    return 0.5 * t


def runge_kutta(x, t):
    return x + t * slope(x + half(t) * slope(x, t), t + half(t))


def shifted(x, t=1.0, *, by=2.0):
    return x * t + by


def by_keyword(x, t):
    return slope(t=half(t=t), x=x) + shifted(x, by=t) - shifted(x, t, by=-t)


BODIES = {body.__name__: body for body in (scaled, stepped, reduced, runge_kutta, by_keyword)}


def parts_of(result):
    return result if type(result) is tuple else (result,)


def is_replayed():
    return pk.last_call().reason.endswith("replayed")


def numbers(dtype):
    return (np.random.default_rng(0).random(6000) * 9).astype(dtype)


@pytest.mark.parametrize("kind", [float, np.float64])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "?"])
@pytest.mark.parametrize("name", BODIES)
def test_other_values_find_the_plan(engine, name, dtype, kind):
    if engine == "auto":
        pytest.skip("it may choose NumPy")
    body, x = BODIES[name], numbers(dtype)
    if name == "stepped" and dtype in ("i4", "?"):
        pytest.skip("NumPy refuses these writes")
    fused = pk.fuse(body)
    for i in range(6):
        t = kind(0.125 + i / 7)
        got, want, alone = fused(x, t), body(x, t), pk.fuse(lambda x, t=t: body(x, t))(x)
        for one, other, third in zip(*map(parts_of, (got, want, alone)), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-5 if dtype == "f4" else 1e-12)
            np.testing.assert_array_equal(one, third)
        fused(x, t)
        assert is_replayed() == (i > 0)
    assert len(fused._traced.plans.plans()) == 1


@given(st.floats(), st.sampled_from([np.float64, np.float32]))
def test_any_value(engine, value, dtype):
    x = numbers(dtype)

    def body(x, t):
        return x * t, (t + 1.0) * x, x <= -t

    fused = pk.fuse(body)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        for t in (0.1, 0.2, 0.3, value, 0.4):
            for got, want in zip(fused(x, t), body(x, t), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-6)
                assert got.dtype == want.dtype


def larger(x, /, *rest, t, **named):
    """Look at the numbers, unless it gets them as `x` or `t`."""
    if (rest and np.max(rest[0]) > 0.75) or (named and np.max(named["x"]) > 0.75):
        return x + t
    return x - t


CALLS = ["half({0})", "half(t={0})", "shifted({0}, {1})", "shifted({0}, by={1})", "slope(t={0}, x={1})"]
CALLS += [
    "shifted(x, by={0}, t={1})",
    "larger({0}, {1}, t=0.5)",
    "larger({0}, x={1}, t=0.5)",
    "larger(x, t={0})",
]
expressions = st.recursive(
    st.sampled_from(["x", "t", "s", "0.5", "2", "x[::-1]"]),
    lambda parts: st.one_of(
        st.tuples(parts, st.sampled_from(["+", "-", "*", "/"]), parts).map(
            lambda each: f"({' '.join(each)})"
        ),
        parts.map(lambda each: f"(-{each})"),
        parts.map(lambda each: f"np.where(x > {each}, x, 2)"),
        parts.map(lambda each: f"np.abs(x + {each})"),
        st.tuples(st.sampled_from(CALLS), parts, parts).map(lambda each: each[0].format(*each[1:])),
    ),
    max_leaves=10,
)


@given(expressions, st.sampled_from(["f8", "f4", "i2"]), st.sampled_from([float, np.float64]))
def test_random_expressions(text, dtype, kind):
    body = eval(f"lambda x, t, s: ({text}) + x", globals())
    x, fused = (np.arange(1, 5001) % 7 + 1).astype(dtype), pk.fuse(body)
    with np.errstate(all="ignore"):
        for t, s in ((0.3, 0.2), (0.7, 1.5), (1.9, 0.1), (2.7, 0.9), (2.7, 2.7), (1.1, 0.0)):
            try:
                want = body(x, kind(t), kind(s))
            except ZeroDivisionError:
                with pytest.raises(ZeroDivisionError):
                    fused(x, kind(t), kind(s))
                continue
            got = fused(x, kind(t), kind(s))
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-3 if dtype == "f4" else 1e-9, atol=1e-3)


def sine(x, t):
    return x * math.sin(t)


def branch(x, t):
    return x * t if t > 0.5 else x + t


def returned(x, t):
    return x * t, t


def formatted(x, t):
    return x * len(f"{t:.3f}") * t


def listed(x, t):
    return x * max([t, 0.3])


def power(x, t):
    return x**t


def counted(x, t):
    return x * t + int(10 * t)


def by_name(x, t):
    return x * locals()["t"]


def in_closure(x, t):
    return sum([x * t for _ in range(2)])


def attribute(x, t):
    return x * t.real


def stored(x, t):
    y = x * t
    y[3] = t
    return y


def sign(t):
    return 1 if t > 0.5 else -1


def in_a_function(x, t):
    return x * sign(half(t))


def rest_of_arguments(x, t):
    return larger(x, t, t=0.5)


def named_beside_a_parameter(x, t):
    return larger(x, x=t, t=0.5)


def unpacked(x, t):
    return slope(*(x, t))


def compared(x, t):
    is_large = t > 0.5
    return x * (is_large + is_large)


LOOKS = [
    in_a_function,
    rest_of_arguments,
    named_beside_a_parameter,
    unpacked,
    compared,
    sine,
    branch,
    returned,
    formatted,
    listed,
    power,
    counted,
    by_name,
    attribute,
]


@pytest.mark.parametrize("body", [*LOOKS, in_closure, stored])
def test_a_value_that_the_body_looks_at(engine, body):
    del engine
    x, fused = numbers("f8"), pk.fuse(body)
    for t in (0.25, 0.5, 0.75, 1.5, 0.25, 2.5):
        for _ in range(2):
            for got, want in zip(*map(parts_of, (fused(x, t), body(x, t))), strict=True):
                assert type(got) is type(want)
                np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("body", LOOKS)
def test_it_is_known_which_bodies_look(engine, body):
    if engine == "auto":
        pytest.skip("NumPy may run it")
    fused = pk.fuse(body)
    fused(numbers("f8"), 0.5)
    assert fused._traced.scalar_arguments.isdisjoint({1, "t"})


def test_keywords_and_methods(engine):
    if engine == "auto":
        pytest.skip("it may choose NumPy")

    class Model:
        @pk.fuse
        def scaled(self, x, *, t):
            return x * t

    x, model = numbers("f8"), Model()
    for t in (1.5, 2.5, 3.5):
        np.testing.assert_array_equal(model.scaled(x, t=t), x * t)
    fused = pk.fuse(lambda x, t: x * t)
    for t in (1.5, 2.5, 3.5, 4.5):
        np.testing.assert_array_equal(fused(x, t=t), x * t)
    assert is_replayed()


def test_division_by_zero_raises_as_in_python(engine):
    del engine
    x, fused = numbers("f8"), pk.fuse(lambda x, t: x * (1 / t))
    for t in (2.0, 0.0, 4.0, 0.0, 3.0, 0.0):
        if t:
            np.testing.assert_allclose(fused(x, t), x * (1 / t), rtol=1e-15)
        else:
            with pytest.raises(ZeroDivisionError, match="division by zero"):
                fused(x, t)


def test_infinity_by_arithmetic_of_floats_does_not_warn(engine):
    del engine
    x, fused = numbers("f8") + 1, pk.fuse(lambda x, t: x * (t * 10.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for t in (1e308, 1e308, 1.0, 2.0, 1e308, 3.0):
            np.testing.assert_allclose(fused(x, t), x * (t * 10.0), rtol=1e-15)


def test_calls_of_other_kinds(engine):
    del engine

    @pk.fuse
    def body(x, t):
        if isinstance(x, np.ndarray) and x.ndim == 2:
            return x * (2 if t > 0.5 else 3)
        return x * t

    rows, flat = numbers("f8").reshape(60, 100), numbers("f8")
    for t in (0.25, 0.5, 0.75, 0.3, 0.9):
        for x, factor in ((flat, t), (rows, t), (flat, t), (flat, flat + t), (rows, 2)):
            np.testing.assert_array_equal(body(x, factor), body.__wrapped__(x, factor))


def test_numpy_runs_the_rest_of_a_late_capture(monkeypatch):
    """It gets Python's float, which does not make float32 a float64."""
    x = numbers("f4").repeat(20)

    def body(x, t):
        y = x * t
        for _ in range(30):
            y = np.sqrt(y * y + t) - t
        return y

    fused = pk.fuse(body)
    monkeypatch.setattr(autotuning, "MAX_CAPTURE_SECONDS", 0.0)
    monkeypatch.setattr(tuning, "_MIN_CAPTURE_SECONDS", 0.0)
    with pk.engine("auto"):
        for t in (0.5, 0.75, 0.25, 0.5, 1.5):
            got, want = fused(x, t), body(x, t)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-4)


def test_the_plan_names_the_number(engine):
    if engine == "auto":
        pytest.skip("it may choose NumPy")
    fused, x = pk.fuse(scaled), numbers("f8")
    for t in (0.5, 0.75, 0.25):
        fused(x, t)
    assert any("t" in each.reads for each in fused.explain(x, 3.0).passes)


def test_auto_measures_though_the_number_changes():
    x, fused = numbers("f8").repeat(20), pk.fuse(scaled)
    with pk.engine("auto"):
        for i in range(40):  # several for each engine
            fused(x, 0.5 + i / 16)
        assert is_replayed() or pk.last_call().engine == "numpy"
    engines = [plan.engine for plan in fused._traced.plans.plans()]
    assert len(set(engines)) == len(engines)
