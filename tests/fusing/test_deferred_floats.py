"""Python's floats of computed numbers, as by `float(x.max())`: replays compute with them, without Python."""

import json
import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pycudakit as pk

pytestmark = pytest.mark.usefixtures("really_replayed")
LAST = SimpleNamespace(error=0.0)


def is_replayed():
    return "replayed" in pk.last_call().reason


def converged(x, tolerance):
    turns = 0
    for _ in range(40):
        y = x * 0.75 + 0.125
        error = float(np.abs(y - x).max())
        if error < tolerance:
            break
        x, turns = y, turns + 1
    return x, error, turns


def by_item(x, tolerance):
    errors = []
    while not errors or errors[-1] > tolerance:
        before = x
        x = x * 0.5 + 0.25
        errors.append(np.abs(x - before).max().item())
    return x, errors


def by_norm(x, tolerance):
    first = None
    while True:
        change = float(np.linalg.norm(x * 0.25))
        first = change if first is None else first
        if change / first <= tolerance:
            return x, change / first
        x = x - x * 0.25


def summed(x, _):
    total, mass = 0.0, 1
    for _ in range(6):
        total += float(x.sum())
        mass *= float(x.max()) - float(x.min())
        x = x * 0.5
    return x, total, -mass, abs(total - mass)


def weighted(x, _):
    scale = float(x.max())
    return x / scale, 2 * x * scale - scale * scale, scale > x


def best_of(x, tolerance):
    best, worst = math.inf, 0.0
    for _ in range(5):
        value = residual(x)
        best, worst = min(best, value), max(worst, value)
        x = damped(x, value * 0.125)
    return x, best, worst, [best, (worst, best)], best < tolerance


def residual(x):
    return float((x * x).mean())


def damped(x, by):
    return x - x * by


def of_others(x, _):
    return x + float((x > 1).sum()) + float((x > 2).any()), float(len(x)), float("1.5")


def compared(x, _):
    low, high = float(x.min()), float(x.max())
    flags = [low < high, low <= 0, high == low, high != 3, low > True]
    return x * 2, flags, bool(low), not high, low if low > -9 else high


REPLAYED = (converged, by_item, by_norm, summed, weighted, best_of, of_others, compared)


def same(got, want):
    """Compare results and their types: numbers and exact arrays by their bits, sums within rounding."""
    assert type(got) is type(want)
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            same(one, other)
    elif isinstance(want, np.ndarray):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6 if want.dtype == "f4" else 1e-13)
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=1e-6, nan_ok=True)
    else:
        assert got == want


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("body", REPLAYED, ids=lambda body: body.__name__)
def test_replays_compute_with_the_floats(engine, body, dtype):
    fused, generator = pk.fuse(body), np.random.default_rng(3)
    for _ in range(8):
        x = (generator.random(9000) + 0.5).astype(dtype)
        same(fused(x, 1e-3), body(x, 1e-3))
    fused(x, 1e-3)  # the branches of these numbers are known
    is_captured = engine == "cpu" or (engine == "cuda" and body is not by_norm)  # `auto` may choose NumPy
    assert is_replayed() or not is_captured


def formatted(x):
    value = float(x.max())
    return x * value, f"{value:.3f} {value}"


def powers(x):
    value = float(x.max())
    return x * value, value**2, value // 0.5, value % 0.5, math.sqrt(value), round(value), int(value)


def kinds(x):
    value = float(x.max())
    return x * value, type(value), isinstance(value, np.floating), hasattr(value, "shape"), value.is_integer()


def kept_elsewhere(x):
    LAST.error = float(x.max())
    return x * LAST.error


def as_arrays(x):
    values = [float(x.max()), x.min().item()]
    return x + np.array(values).sum(), json.dumps(values), np.sin(values[0]), sum(values)


def as_elements(x):
    x = x.copy()
    x[0] = float(x.max())
    return x, {"value": float(x.sum())}


def through_globals(x):
    value = float(x.min())
    return x * value, min(vars()), "value" in locals()


@pytest.mark.parametrize(
    "body",
    [formatted, powers, kinds, kept_elsewhere, as_arrays, as_elements, through_globals],
    ids=lambda body: body.__name__,
)
def test_other_code_gets_a_float(engine, body):
    fused, generator = pk.fuse(body), np.random.default_rng(5)
    for _ in range(5):
        x = generator.random(20_000) + 0.5
        got, want = fused(x), body(x)
        if body is kept_elsewhere:
            assert type(LAST.error) is float
            assert LAST.error == x.max()
        assert str(got[1:]) == str(want[1:]) or body in (as_arrays, as_elements, kept_elsewhere)
        if body is not as_elements:
            same(got, want)
        else:
            same(got[0], want[0])
            assert type(got[1]["value"]) is float


def divided(x, y):
    return x * 2, float(x.sum()) / float(y.sum())


def scaled_up(x, y):
    return x * 2, float(x.max()) * float(y.max())


def test_a_division_by_zero_raises_in_a_replay(engine):
    fused, x = pk.fuse(divided), np.arange(9000.0)
    for _ in range(4):
        assert fused(x, x + 1)[1] == pytest.approx(divided(x, x + 1)[1])
    with pytest.raises(ZeroDivisionError):
        fused(x, np.zeros(9000))
    assert fused(x, x + 1)[1] == pytest.approx(divided(x, x + 1)[1])


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e200])
def test_pythons_arithmetic_does_not_warn(engine, value):
    fused, x = pk.fuse(scaled_up), np.arange(1.0, 9001)
    for _ in range(3):
        assert fused(x, x)[1] == 81e6
    large, warned = np.full(9000, value), np.full(9000, 1e200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            same(fused(x * 1e-3, large)[1], scaled_up(x * 1e-3, large)[1])
            same(fused(warned, large)[1], scaled_up(warned, large)[1])


def test_a_comparison_with_a_large_integer_is_exact(engine):
    limit = 2**60 + 1
    fused, x = pk.fuse(lambda x: (x * 2, float(x.max()) < limit, float(x.max()) == limit)), np.ones(9000)
    for value in (1.0, 2.0, 2.0**60, 2.0**60, 2.0**60 + 256):
        x[5] = value
        assert fused(x)[1:] == (value < limit, value == limit)


def test_float32_times_a_float_stays_float32(engine):
    fused, x = pk.fuse(lambda x: x * float(x.max())), np.linspace(0.1, 3, 9000, dtype=np.float32)
    for _ in range(4):
        got = fused(x)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, x * float(x.max()))


def test_a_float_of_a_float(engine):
    """Its other use is one of the first, too."""
    fused, x = pk.fuse(lambda x: (x * 2, round(float(float(x.max())), 1))), np.linspace(0, 3.25, 9000)
    for _ in range(4):
        same(fused(x)[1], 3.2)


def beside_a_number_or_an_array(x, k):
    """The other operand is an array on one path, and Python's float on another."""
    value = float(x.max())
    factor = x if k else 2.0
    product = value * factor
    return x * value, np.add(product, 1.0), isinstance(product, np.generic)


def in_a_loop(x, _):
    value, kinds = float(x.max()), []
    for factor in (x, 2.0):
        kinds += [type(np.add(value * factor, 1.0)).__name__]
    return x * value, kinds


def of_a_list(x, _):
    value, factors = x.max().item(), [2.0, x]
    return x * value, type(np.negative(value * factors[0])).__name__


@pytest.mark.parametrize("body", [beside_a_number_or_an_array, in_a_loop, of_a_list])
def test_an_operand_that_may_be_an_array(engine, body):
    fused, x = pk.fuse(body), np.linspace(1.5, 3.25, 9000)
    for _ in range(5):
        same(fused(x, 0)[1:], body(x, 0)[1:])


def test_a_capture_that_gives_up(engine):
    """After it, the rest of the call computes with the floats as Python does."""

    def body(x):
        low = float(x.min())
        high = int(x.max())
        return x * low, low / 3, -low, low < high, low * 2 + high

    fused, x = pk.fuse(body), np.linspace(1.5, 3.25, 9000)
    for _ in range(4):
        same(fused(x)[1:], body(x)[1:])


def test_two_floats_of_one_number_are_that_number_once(engine):
    def body(x):
        number = x.max()
        return number, float(number), number.item(), number * np.float32(2)

    fused, x = pk.fuse(body), np.linspace(0, 3, 9000)
    for _ in range(4):
        assert [type(each) for each in fused(x)] == [type(each) for each in body(x)]
        assert fused(x) == body(x)


OPERATORS = ("a + b", "a - b", "a * 0.5", "-a", "abs(b)", "max(a, b)", "min(a, 2.0)", "a / (abs(b) + 1.5)")
STEPS = (
    *("x = x * 0.5 + y * a", "y = y + b", "a = float(x.mean())", "b = float(a)"),
    *("kept.append(b)", "kept.append((a, [b]))", "kept.append(round(b, 2))"),
)
CONDITIONS = ("a < b", "a >= b", "a > 0.25", "b != a", "not a", "a <= 1 < b + 2")


@settings(max_examples=40)
@given(st.data())
def test_drawn_programs(engine, data):
    lines = ["def body(x, y):", "    a, b, kept = float(x.sum()), x.max().item(), []"]
    for _ in range(data.draw(st.integers(1, 6))):
        target, operator = data.draw(st.sampled_from("ab")), data.draw(st.sampled_from(OPERATORS))
        lines.append(f"    {target} = {operator}")
        step = data.draw(st.sampled_from(STEPS))
        lines += [f"    if {data.draw(st.sampled_from(CONDITIONS))}:", f"        {step}"]
    lines.append("    return x + a, y, a, b, kept")
    names = {"np": np}
    exec("\n".join(lines), names)
    body, generator = names["body"], np.random.default_rng(data.draw(st.integers(0, 9)))
    fused = pk.fuse(body)
    for _ in range(4):
        # Sums of these are exact, so that no condition depends on rounding.
        x, y = [generator.integers(-8, 8, 64) / 8 for _ in range(2)]
        same(fused(x, y), body(x, y))
