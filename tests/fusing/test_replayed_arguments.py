"""Arguments of replayed calls other than arrays: named tuples, nested lists and dicts, and keywords."""

import collections
from typing import NamedTuple

import numpy as np
import pytest
from helpers.nested import assert_near

import pycudakit as pk

pytestmark = pytest.mark.usefixtures("really_replayed")
SIZE = 700


class State(NamedTuple):
    u: np.ndarray
    v: np.ndarray
    steps: int = 3


Pair = collections.namedtuple("Pair", "first second")  # noqa: PYI024


class Sum(NamedTuple):
    """It adds as arrays do, and not as tuples."""

    x: np.ndarray

    def __add__(self, other):
        return self.x + other * 10


class Total(Pair):
    """It has a method that changes what it returns."""

    def __getitem__(self, place):
        return super().__getitem__(1 - place)


def numbers(seed):
    return np.random.default_rng(seed).random(SIZE)


def of_state(state, dt):
    for _ in range(state.steps):
        state = State(state.u + dt * state.v, state.v - dt * state.u, steps=state.steps)
    return state._replace(v=state.v * 2)


def of_pairs(pair, dt):
    (a, b), c = pair
    return Pair(second=a + b[0] * dt, first=c), pair.first.second[1] - c


def of_dicts(parameters, dt):
    fields = parameters["fields"]
    out = {name: each * dt for name, each in fields.items()}
    return out, [layer[0] + layer[1] for layer in parameters["layers"]], parameters["scale"] * fields["u"]


def of_keywords(x, **named):
    return x * named["scale"] + named["other"], len(named)


def cases(body, seed):
    x, y = numbers(seed), numbers(seed + 100)
    if body is of_state:
        return (State(x, y), 0.1), {}
    if body is of_pairs:
        return (Pair(Pair(x, [y, y * 2]), x + y), 0.5), {}
    if body is of_dicts:
        layers = [[x, y], [y * 2, x * 3]]
        return ({"fields": {"u": x, "v": y}, "layers": layers, "scale": 2.0}, 0.5), {}
    return (x,), {"scale": 2.0, "other": y}


@pytest.mark.parametrize("body", [of_state, of_pairs, of_dicts, of_keywords], ids=lambda body: body.__name__)
def test_replayed_arguments(engine, body):
    fused = pk.fuse(body)
    for seed in range(5):
        args, kwargs = cases(body, seed)
        assert_near(fused(*args, **kwargs), body(*args, **kwargs))
    if engine != "auto":
        assert "replayed" in pk.last_call().reason


def test_other_forms_have_other_plans(engine):
    def body(state, scale):
        return [each * scale for each in state]

    fused = pk.fuse(body)
    for seed in range(4):
        x, y = numbers(seed), numbers(seed + 1)
        for form in ((x, y), [x, y], Pair(x, y), State(x, y, 3), State(x, y, 4), (x, x), Pair(x, x)):
            assert_near(fused(form, 0.5), body(form, 0.5))


@pytest.mark.parametrize("kind", [Sum, Total])
def test_named_tuples_with_code_of_their_own(engine, kind):
    def body(value):
        return value[0] * 2 if len(value) > 1 else value + 3

    fused = pk.fuse(body)
    for seed in range(4):
        parts = [numbers(seed), numbers(seed + 1)][: len(kind._fields)]
        assert_near(fused(kind(*parts)), body(kind(*parts)))


class Shape(NamedTuple):
    side: np.ndarray
    count: float = 2.0

    @property
    def area(self):
        SEEN.append(self.count)
        return self.side * FACTOR


SEEN, FACTOR = [], 2.0


def test_named_tuples_with_properties(engine, monkeypatch):
    """The code of a property runs in each call, and class attributes have their present values."""
    monkeypatch.setattr(Shape, "scale", 3.0, raising=False)

    def body(x):
        return Shape(x).area * Shape.scale

    fused, of_argument = pk.fuse(body), pk.fuse(lambda shape: shape.area * shape.scale)
    for factor, scale in ((2.0, 3.0), (5.0, 3.0), (5.0, 4.0)):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        monkeypatch.setattr(Shape, "scale", scale)
        for seed in range(4):
            x = numbers(seed)
            SEEN.clear()
            assert_near(fused(x), x * factor * scale)
            assert_near(of_argument(Shape(x)), x * factor * scale)
            assert len(SEEN) == 2


@pytest.mark.parametrize("shared", [False, True])
def test_inner_lists_that_are_changed(engine, shared):
    """Two of them may be one object."""

    def body(parameters):
        first, second = parameters["a"], parameters["b"]
        first[0] = first[0] + 1
        second.append(second[0] * 2)
        return first[0] * second[-1], len(first)

    fused = pk.fuse(body)
    for seed in range(5):
        both = []
        for _ in range(2):
            a = [numbers(seed), numbers(seed + 1)]
            both.append({"a": a, "b": a if shared else [numbers(seed + 2)]})
        assert_near(fused(both[0]), body(both[1]))
        assert_near(both[0], both[1])


def test_objects_in_inner_lists(engine):
    """They may run other code, which sees the writes before it."""
    seen = []

    class Recorder:
        def __init__(self, array):
            self.array = array

        def record(self):
            seen.append(self.array.copy())

    def body(x, parameters):
        x += 1
        parameters["inner"][0] = parameters["recorder"]
        parameters["inner"][0].record()
        x *= 2
        return x

    fused = pk.fuse(body)
    for seed in range(4):
        x = numbers(seed)
        want = (numbers(seed) + 1) * 2
        np.testing.assert_array_equal(fused(x, {"inner": [x], "recorder": Recorder(x)}), want)
        np.testing.assert_array_equal(seen[-1], numbers(seed) + 1)


def test_keywords_that_the_body_changes(engine):
    def body(x, **named):
        named["y"] = named["y"] * 2
        named.update(z=x)
        return named["y"] + named["z"]

    fused = pk.fuse(body)
    for seed in range(4):
        named = {"y": numbers(seed)}
        assert_near(fused(numbers(seed), **named), body(numbers(seed), **named))
        assert list(named) == ["y"]
