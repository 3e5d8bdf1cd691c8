"""Graph breaks: results stay right, and `strict` names the line that needed a value."""

import copy
import inspect
import math

import numpy as np
import pytest
from helpers.strategies import assert_values

import pycudakit as pk
from pycudakit.fusing.schedule.executor import Executor

SIZES = [100, 20_000]


def if_any(x):
    y = x * 2
    if np.any(y > 5):
        y -= 1
    return y


def while_larger(x):
    y = x * 1
    while np.max(np.abs(y)) > 0.5:
        y = y / 2
    return y


def converge(x):
    old, new, steps = x, x * 0.5, 0
    while np.max(np.abs(new - old)) > 0.1:
        old, new = new, new * 0.5
        steps += 1
    return new, steps


def a_float(x):
    return x * float(np.max(x))


def an_int(x):
    return x[int(np.argmax(x)) :] + 1


def a_range(x):
    for k in range(np.argmax(x > 0)):
        if k > 3:
            break
        x = x + k
    return x


def printed(x):
    y = x + 1
    print(y[:2], np.sum(y > 0))  # noqa: T201
    return y * 2


def formatted(x):
    y = x + 1
    text = f"{np.max(y):.2f}"
    return y, text


def as_memory(x):
    y = memoryview(x + 1)
    y = np.asarray(y) * 2
    return y + x


def of_an_item(x):
    return x / x.max().item()


def of_a_list(x):
    return x + sum((x + 1)[:3].tolist())


def by_math(x):
    return x * math.sqrt(np.max(x * x))


def membership(x):
    return 3.0 in x, x + 1


def by_fft(x):
    return np.abs(np.fft.fft(x + 1)) * 2


def by_spacing(x):
    return np.spacing(x * 3) + 1


def by_polyfit(x):
    return x * 2 + np.round(np.polyfit(x, x * 3 + 1, 1), 6)[0]


def by_apply(x):
    return np.apply_along_axis(np.max, 0, x.reshape(4, -1) + 1) * 2


def by_vectorize(x):
    return np.vectorize(lambda v: v + 1)(x[:9] * 2) + 1


def masked(x):
    y = x + 1
    return y[y > 2] * 3


def masked_then_written(x):
    y = x + 1
    y[y > 2] = 0
    return y[x > 1], y


def trimmed(x):
    rest = np.trim_zeros(x * 9)
    return rest + 1


def chosen_by_python(x):
    return max(x[0], x[1]) + x, min(x[:3]), sorted(x[:4] * -1)


def compared(x):
    return x + 1 if x[0] < x[1] < x[2] else x - 1


def negated(x):
    return (x, 0) if not np.all(x > 0) else (x * 2, 1)


def built_in(x):
    return round(x[3], 2) + abs(x), divmod(x[5], 2), sum(x[:5]), bool(x[0]), complex(x[1])


def rounds_of_a_look(x):
    y = x * 2
    first = float(y[0])
    y[0] = 7
    second = float(y[0])
    x[0] = 3
    return y, first, second, float(x[0] + y[0])


def copied(x):
    y = copy.copy(x + 1)
    z = copy.deepcopy(y)
    z += 1
    return y, z


def seen_through_asarray(x):
    y = x + 1
    seen = np.asarray(y)
    y *= 2
    return seen + 0, y


def written_through_asarray(x):
    y = x + 1
    seen = np.asarray(y)
    z = y * 2
    seen[0] = 50
    return y, z, y * 1


def through_memory(x):
    y = x + 1
    memory = memoryview(np.asarray(y))
    np.frombuffer(memory)[1] = 9
    return y * 2


LOOKS = [if_any, while_larger, converge, a_float, an_int, a_range, printed, formatted, as_memory, of_an_item]
LOOKS += [of_a_list, by_math, membership, by_fft, by_spacing, by_polyfit, by_apply, by_vectorize, masked]
LOOKS += [masked_then_written, trimmed, compared, negated, built_in, rounds_of_a_look, seen_through_asarray]
LOOKS += [chosen_by_python, written_through_asarray, through_memory]


def flat(value):
    return [part for each in value for part in flat(each)] if isinstance(value, (tuple, list)) else [value]


def argument(size):
    return np.random.default_rng(size).standard_normal(size) * 3


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("body", [*LOOKS, copied], ids=lambda body: body.__name__)
def test_looks(engine, body, size, capsys):
    ours, numpys = argument(size), argument(size)
    got, said = pk.fuse(body)(ours), capsys.readouterr().out
    want = body(numpys)
    assert said == capsys.readouterr().out
    for mine, theirs in zip(flat(got), flat(want), strict=True):
        assert type(mine) is type(theirs)
        if isinstance(theirs, (np.ndarray, np.generic)):
            if body in (by_fft, by_polyfit):
                np.testing.assert_allclose(mine, theirs, rtol=1e-9)
            else:
                assert_values(np.asarray(mine), np.asarray(theirs))
        else:
            assert mine == theirs
    assert_values(ours, numpys)


# For each body, the line of its graph break, and a part of the hint.
STRICT = {
    if_any: ("if np.any(y > 5):", r"numpy\.where\(\)"),
    while_larger: ("while np.max(np.abs(y)) > 0.5:", r"numpy\.where\(\)"),
    a_float: ("return x * float(np.max(x))", r"float\(\).*0-d array"),
    an_int: ("return x[int(np.argmax(x)) :] + 1", r"int\(\)"),
    a_range: ("for k in range(np.argmax(x > 0)):", r"an index"),
    printed: ("print(y[:2], np.sum(y > 0))  # noqa: T201", r"outside of the function"),
    formatted: ('text = f"{np.max(y):.2f}"', r"outside of the function"),
    as_memory: ("y = memoryview(x + 1)", r"memoryview\(\)"),
    of_an_item: ("return x / x.max().item()", r"\.item\(\)"),
    of_a_list: ("return x + sum((x + 1)[:3].tolist())", r"\.tolist\(\)"),
    by_math: ("return x * math.sqrt(np.max(x * x))", r"float\(\)"),
    by_fft: ("return np.abs(np.fft.fft(x + 1)) * 2", r"fft"),
    by_spacing: ("return np.spacing(x * 3) + 1", r"spacing"),
    masked: ("return y[y > 2] * 3", r"a mask.*numpy\.where\(\)"),
    trimmed: ("rest = np.trim_zeros(x * 9)", r"trim_zeros"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("body", STRICT, ids=lambda body: body.__name__)
def test_strict_names_the_line(engine, body, size):
    text, remedy = STRICT[body]
    lines, first = inspect.getsourcelines(body)
    number = next(first + k for k, line in enumerate(lines) if line.strip() == text)
    for _ in range(2):
        with pytest.raises(pk.errors.Unsupported, match=remedy) as told:
            pk.fuse(body, strict=True)(argument(size))
        assert f"{body.__name__}: line {number} of test_graph_breaks.py, `{text}`" in str(told.value)


def in_one_go(x):
    y = np.where(x > 0, x, -x) + np.arange(x.size)
    y[1:] -= y[:-1].mean()
    y[y > 3] = 3
    z = np.zeros((2, x.size))
    z[0], z[1] = np.sort(y), np.cumsum(y)
    best = np.argmax(z, axis=1)
    if x.ndim == 1 and len(x) > 3:
        z *= np.sqrt(np.abs(np.max(z, axis=1, keepdims=True)))
    return np.concatenate([z, z[:, ::-1]], axis=1).T, best, np.median(z), (z @ z.T).sum(), z.astype("f4")


@pytest.mark.parametrize("size", SIZES)
def test_strict_passes_where_nothing_looks(engine, size):
    got, want = pk.fuse(strict=True)(in_one_go)(argument(size)), in_one_go(argument(size))
    for mine, theirs in zip(got, want, strict=True):
        assert type(mine) is type(theirs)
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_strict_knows_the_callers_line(engine):
    """The line of the break may be in a function that the fused one calls."""

    def helper(y):
        return float(y[0])

    with pytest.raises(pk.errors.Unsupported, match=r"`return float\(y\[0\]\)`: float\(\)"):
        pk.fuse(lambda x: x + helper(x), strict=True)(argument(100))


def test_written_before_a_strict_error(engine):
    x = argument(20_000)
    want = x + 1

    @pk.fuse(strict=True)
    def body(x):
        x += 1
        return float(x[0])

    with pytest.raises(pk.errors.Unsupported):
        body(x)
    assert_values(x, want)


@pytest.mark.parametrize(
    "body",
    [
        lambda x: np.einsum(x, (0,), x, np.array([0])),
        lambda x: x[:20] @ (1j * np.arange(20)),
        lambda x: np.dot(x[:20], np.array([1j] * 20)),
        lambda x: np.where(x > 0, x, 1j),
        lambda x: np.where(x > 0, "up", "down") == "up",
    ],
)
def test_forms_that_only_numpy_takes(engine, body):
    x = np.linspace(0, 1, 20_000)
    np.testing.assert_allclose(pk.fuse(body)(x), body(x))
    if engine != "auto":  # under `auto`, pycudakit's function falls back to NumPy itself
        assert pk.fuse(body).explain(x).breaks
        with pytest.raises(pk.errors.Unsupported, match=r"line \d+ of test_graph_breaks.py"):
            pk.fuse(body, strict=True)(x)


def halved_until_small(x):
    while np.abs(x).max() > 0.5:
        x = x * 0.9 - 0.001 * x * x
    return x


def test_a_loop_that_looks_does_not_begin_again(engine, monkeypatch):
    steps = []
    reduce_operand = Executor._reduce_operand

    def counted(executor, node, producer):
        steps.append(node.steps)
        return reduce_operand(executor, node, producer)

    monkeypatch.setattr(Executor, "_reduce_operand", counted)
    x = np.linspace(0, 3, 20_000)
    fused = pk.fuse(halved_until_small)
    with pk.engine("cpu" if engine == "auto" else engine):
        got = fused(x)
    np.testing.assert_allclose(got, halved_until_small(x), rtol=1e-12)
    assert len(steps) > 10
    assert max(steps) <= 4 * steps[1]  # the operations of two turns, where shared ones count twice
