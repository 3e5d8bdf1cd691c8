"""Numbers in a fused function: deferred where nothing can see the difference, else NumPy's scalars."""

import dataclasses
import json
import warnings

import numpy as np
import pytest
from fusing.number_bodies import NEED_SCALARS, Recorder

import pycudakit as pk
from pycudakit.fusing.function_analysis import analyse
from pycudakit.fusing.memory.tracer import Tracer


def described(value):
    """Return the types and values of a result, for comparison."""
    if isinstance(value, np.ndarray):
        return type(value).__name__, str(value.dtype), [described(each) for each in value.tolist()]
    if isinstance(value, np.generic) or type(value) is float:
        return type(value).__name__, str(getattr(value, "dtype", "")), repr(value)
    if isinstance(value, dict):
        return type(value).__name__, [(described(key), described(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [described(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(repr, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, described(vars(value))
    assert type(value) is not Tracer
    return type(value).__name__, repr(value)


def integers(size):
    """Return an array of small integers as floats, whose sums are exact in any order."""
    values = np.random.default_rng(size).integers(-40, 99, size).astype(float)
    values[size // 2 :] = np.abs(values[size // 2 :])
    return values


def run(function, x, recorder):
    try:
        return described(function(x, recorder))
    except Exception as error:  # noqa: BLE001  (the same one is wanted)
        return type(error), str(error)


@pytest.mark.parametrize("size", [16, 20_000])
@pytest.mark.parametrize("function", NEED_SCALARS, ids=lambda function: function.__name__)
def test_numbers_are_as_in_numpy(engine, function, size, capsys):
    wanted, said = run(function, integers(size), Recorder()), capsys.readouterr().out
    fused = pk.fuse(function)
    for _ in range(2):
        assert run(fused, integers(size), Recorder()) == wanted
        assert capsys.readouterr().out == said


# ---- Functions whose numbers stay deferred -------------------------------------------------------------


def arithmetic(x):
    m = x.max()
    y = (x - m) / (x.sum() + 1) ** 2
    m += y[3] * 2
    return y * m


def numpy_functions(x):
    low, high = x.min(), x.max()
    y = np.clip(x, low / 2, np.minimum(high, 3.0)) + np.full(x.shape, x.mean())
    return np.where(y > low, np.sqrt(np.abs(high)), y).clip(low, high), np.array([low, high])


def an_index(x):
    k = x.argmax()
    return x[k], x[k:], x[::2][k // 4]


def returned(x):
    named = {"max": x.max(), "both": [x.min(), x.sum()]}
    named["more"] = (x.mean(), x.argmin())
    return named, x.max() if x.ndim else None


def in_a_list(x):
    sums = []
    for n in range(1, 4):
        sums.append((x * n).sum())  # noqa: PERF401
    sums += [x.max()]
    return np.array(sums) / sums[0], [each * 2 for each in sums]


def by_helpers(x):
    def scaled(y, by=2.0):
        return y / peak * by

    peak = largest(x)
    return scaled(x), scaled(x, by=largest(x * 2)), (lambda y: y * peak)(x)  # noqa: PLC3002


def largest(x):
    return np.abs(x).max()


def looked_at(x):
    m, k = x.max(), x.argmax()
    if m > 3 and not k:
        x = x + 1
    x = x if m is not None else x - 1
    return x * float(m), int(k), f"{m:.2f}", isinstance(m, float), len(x), abs(m), max(m, x[1]) * x


def in_a_loop(x, steps=3):
    best = None
    for n in range(steps):
        total = (x * n).sum()
        best = total if best is None else np.maximum(best, total)
    while best > 1e9:
        best = best / 2
    return best


DEFERRED = [arithmetic, numpy_functions, an_index, returned, in_a_list, by_helpers, looked_at, in_a_loop]


@pytest.mark.parametrize("function", DEFERRED, ids=lambda function: function.__name__)
def test_numbers_that_stay_deferred(engine, function):
    fused = pk.fuse(function)
    x = integers(20_000)
    with pk.engine("cpu" if engine == "auto" else engine):
        assert described(fused(x)) == described(function(x))
    (analysis,) = fused._traced.analyses
    assert analysis.concrete_numbers == {}
    assert analysis.is_pure


def test_a_number_ends_no_pass_if_its_uses_are_known(engine):
    @pk.fuse
    def shifted(x):
        low, high = x.min(), x.max()
        return (x - low) / (high - low), low, high

    with pk.engine("cpu" if engine == "auto" else engine):
        plan = shifted.explain(integers(20_000))
    assert plan.breaks == ()
    assert plan.passes[0].function == "min, max"


# ---- Their graph breaks ---------------------------------------------------------------------------------


def passed_on(x, recorder):
    m = x.max()
    y = x * m
    recorder["m"] = m
    return y


def test_explain_names_a_number_that_ends_a_pass(engine):
    with pk.engine("cpu" if engine == "auto" else engine):
        plan = pk.fuse(passed_on).explain(integers(20_000), Recorder())
    (graph_break,) = plan.breaks
    first = passed_on.__code__.co_firstlineno
    assert (graph_break.line, graph_break.text, graph_break.name) == (first + 1, "m = x.max()", "a number")
    assert f"a number, since line {first + 3} stores it in an object that other code may reach, needs" in str(
        plan
    )
    assert "use numbers in arithmetic, NumPy's functions, indices and `return` alone" in str(plan)


def test_strict_refuses_such_a_number(engine):
    recorder = Recorder()
    with pytest.raises(pk.errors.Unsupported, match=r"`m = x.max\(\)`: a number, since line \d+ stores it"):
        pk.fuse(passed_on, strict=True)(integers(20_000), recorder)
    assert recorder.seen == []


def test_every_number_of_an_unanalysed_function_is_a_scalar(engine, monkeypatch):
    monkeypatch.setattr("pycudakit.fusing.function_analysis._MAX_INSTRUCTIONS", 5)
    recorder = Recorder()

    def body(x):
        low, y = x.min(), x * 2
        recorder(low)
        return y.max() - low, type(y[0]) is np.float64, json.dumps(y.sum())

    x = integers(20_000)
    fused = pk.fuse(body)
    with pk.engine("cpu" if engine == "auto" else engine):
        got = described(fused(x))
    assert fused._traced.analyses[0].unanalysed
    assert [name for name, *_ in recorder.seen] == ["float64"]
    assert got == described(body(x))


def test_a_scalar_is_computed_before_a_later_write(engine):
    seen = []

    @pk.fuse
    def body(x):
        seen.append(x.max())
        x *= 2
        seen.append(x.max())
        return x

    x = np.arange(20_000.0)
    body(x)
    assert described(seen) == described([np.float64(19_999), np.float64(39_998)])


def test_reasons_name_the_line_of_the_use():
    def body(x, thing):
        low, high = x.min(), x.max()
        for value in (low, 1):
            thing(value)
        return high

    trace_like = np.ones(3)
    analysis = analyse(body, (trace_like, Recorder()), {})
    first = body.__code__.co_firstlineno
    assert any(reason.startswith(f"line {first + 3} ") for reason in analysis.concrete_numbers.values())


# ---- Numbers that Python looks at ----------------------------------------------------------------------


def halved_until_small(x, threshold):
    while x.max() > threshold:
        x = x * 0.5
    return x


def test_a_look_at_a_comparison_runs_no_kernel():
    with pk.engine("cpu"):
        plan = pk.fuse(halved_until_small).explain(np.arange(20_000.0), 3.0)
    assert not [each.function for each in plan.passes if "greater" in each.function]
    assert len(plan.breaks) == 14


@pytest.mark.parametrize("threshold", [1.5, np.float32(1.5), 2, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1"])
def test_looks_at_comparisons(engine, dtype, threshold):
    def body(x, other):
        if x.max() > threshold and not x.min() >= threshold:
            x = x + 1
        if x.sum() == other.sum() or x[0] != other[0]:
            x = x * 2
        return x

    x, other = np.arange(20_000).astype(dtype), np.arange(20_000).astype(dtype) + 1
    assert described(pk.fuse(body)(x, other)) == described(body(x, other))


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (lambda x: np.log(x).sum(), ["divide by zero encountered in log"]),
        (lambda x: (x * np.inf).max(), ["invalid value encountered in multiply"]),
        (lambda x: (1 / x).min(), ["divide by zero encountered in divide"]),
        (lambda x: np.sqrt(x - 1).mean(), ["invalid value encountered in sqrt"]),
    ],
)
def test_a_fused_reduction_warns_once(engine, body, wanted):
    with warnings.catch_warnings(record=True) as met, pk.engine("cpu" if engine == "auto" else engine):
        warnings.simplefilter("always")
        pk.fuse(body)(np.arange(20_000.0))
    assert [str(each.message) for each in met] == wanted
