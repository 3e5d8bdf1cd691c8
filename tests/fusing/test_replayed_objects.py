"""Methods and objects: the attributes that a function reads are constants and guards of its plan."""

import copy
import dataclasses
import functools
import random

import numpy as np
import pytest
from helpers.nested import assert_near

import pycudakit as pk

pytestmark = pytest.mark.usefixtures("really_replayed")
SIZE = 600
RATE = 0.5
TABLE = np.linspace(1.0, 2.0, SIZE)


class Base:
    power = 2
    shift = np.arange(3.0)

    def __init__(self, scale=2.0):
        self.scale = scale
        self.weights = np.linspace(0.0, 1.0, SIZE)
        self.steps = 3

    def flux(self, x):
        return self.scale * x * self.weights

    def step(self, x, dt):
        for _ in range(self.steps):
            x = x + dt * self.flux(x) * self.factor(self.power)
        return x[:3] + self.shift, x

    def factor(self, n):
        return RATE * n

    @pk.fuse
    def fused_step(self, x, dt):
        return self.step(x, dt)


class Model(Base):
    def factor(self, n):
        return RATE + n


@dataclasses.dataclass
class Parameters:
    k: float
    offsets: tuple[float, float] = (1.0, 2.0)
    mode: str = "up"


def numbers(seed):
    return np.random.default_rng(seed).random(SIZE)


def assert_replayed(engine):
    if engine != "auto":
        assert "replayed" in pk.last_call().reason


def assert_traced(engine):
    if engine != "auto":
        assert "replayed" not in pk.last_call().reason


def of_object(model, x):
    return model.flux(x) + model.scale


def of_parameters(x, parameters):
    first, second = parameters.offsets
    return x * parameters.k + first if parameters.mode == "up" else x - second


@pytest.mark.parametrize("cls", [Base, Model])
def test_methods(engine, cls):
    model = cls()
    bound = pk.fuse(model.step)
    for seed in range(5):
        x = numbers(seed)
        want = model.step(x, 0.1 + seed)
        assert_near(bound(x, 0.1 + seed), want)
        assert_replayed(engine if seed >= 2 else "auto")
        assert_near(model.fused_step(x, 0.1 + seed), want)
    assert_near(pk.fuse(of_object)(model, x), of_object(model, x))


def test_attributes_that_change(engine, monkeypatch):
    model, fused = Model(), pk.fuse(of_object)
    bound = pk.fuse(model.step)

    def check():
        for seed in range(4):
            x = numbers(seed)
            assert_near(fused(model, x), of_object(model, x))
            assert_near(bound(x, 0.1), model.step(x, 0.1))
        assert_replayed(engine)

    check()
    model.scale = 3.0
    check()
    model.weights[:] = 1.0
    check()
    model.weights = np.ones(SIZE, np.float32)
    model.power, model.steps = 5, 2
    check()
    monkeypatch.setattr(Base, "flux", lambda _, x: x * 7)
    check()
    monkeypatch.setattr(Model, "factor", lambda self, n: self.scale * n * RATE)
    check()
    monkeypatch.setitem(globals(), "RATE", 0.25)
    check()
    model.factor = np.sqrt
    check()
    monkeypatch.setattr(Base, "shift", np.ones(3))
    check()


def test_parameters(engine):
    fused = pk.fuse(of_parameters)
    for mode in ("up", "down", "up"):
        for k in (1.0, 2.0):
            for seed in range(4):
                parameters = Parameters(k, (seed // 2, 3.0), mode)
                assert_near(fused(numbers(seed), parameters), of_parameters(numbers(seed), parameters))


def test_numbers_among_the_arguments_of_a_bound_method(engine):
    """The function looks at one of them, and computes with the other."""

    class Own:
        def step(self, x, n, dt):
            return x * dt if n > 1.5 else x + dt

    own = Own()
    bound = pk.fuse(own.step)
    for seed in range(4):
        for n in (1.0, 2.0):
            for dt in (0.5, 0.25):
                assert_near(bound(numbers(seed), n, dt), own.step(numbers(seed), n, dt))
    assert_replayed(engine)


class Counter:
    def __init__(self):
        self.count, self.seen, self.state = 0.0, [], np.zeros(4)

    def assign(self, x):
        self.count += 1
        return x + self.count

    def append(self, x):
        self.seen.append(len(self.seen))
        return x + len(self.seen)

    def write(self, x):
        self.state[1] += 1
        return x[:4] + self.state

    def write_result(self, x):
        np.add(self.state, x[:4], out=self.state)
        return x * 2

    def helped(self, x):
        return self.assign(x) * 2

    @property
    def total(self):
        self.seen.append(1)
        return self.count + len(self.seen)

    def of_property(self, x):
        return x + self.total


@pytest.mark.parametrize("name", ["assign", "append", "write", "write_result", "helped", "of_property"])
def test_side_effects_happen_in_each_call(engine, name):
    ours, numpys = Counter(), Counter()
    bound = pk.fuse(getattr(ours, name))
    by_argument = pk.fuse(getattr(Counter, name))
    for seed in range(5):
        x = numbers(seed)
        assert_near(bound(x), getattr(numpys, name)(x))
        assert_near(by_argument(ours, x), getattr(numpys, name)(x))
        assert_traced(engine)
        assert (ours.count, ours.seen) == (numpys.count, numpys.seen)
        np.testing.assert_allclose(ours.state, numpys.state)


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k


class Callable:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k


class Sized(Callable):
    def __len__(self):
        return int(self.k)

    def __getitem__(self, place):
        return self.k * place


def test_objects_of_other_kinds(engine):
    """They have code or state that no guard sees."""

    def of_attribute(x, value):
        return x * value.k

    def called(x, value):
        return value(x)

    def tested(x, value):
        return x + value[2] if value else x

    cases = [(of_attribute, Slotted), (of_attribute, Callable), (called, Callable), (tested, Sized)]
    for body, cls in cases:
        fused = pk.fuse(body)
        for k in (2.0, 0.5, 2.0):
            for seed in range(4):
                value = cls(k)
                assert_near(fused(numbers(seed), value), body(numbers(seed), value))
    fused = pk.fuse(called)
    for function in (np.sqrt, np.cos, functools.partial(np.multiply, 3), functools.partial(np.multiply, 4)):
        for seed in range(4):
            assert_near(fused(numbers(seed), function), function(numbers(seed)))
    drawing = pk.fuse(lambda x, generator: x + generator.random())
    ours, numpys = random.Random(1), random.Random(1)
    for seed in range(5):
        assert_near(drawing(numbers(seed), ours), numbers(seed) + numpys.random())


def test_attributes_that_are_arguments_too(engine):
    """Writes to the argument change the attribute, which the body reads after them."""

    def body(model, x):
        x[3:9] += 1
        return x * 2 + model.weights

    fused = pk.fuse(body)
    for seed in range(5):
        ours, numpys = Model(), Model()
        ours.weights, numpys.weights = numbers(seed), numbers(seed)
        assert_near(fused(ours, ours.weights), body(numpys, numpys.weights))
        assert_near(ours.weights, numpys.weights)


def test_one_object_or_two(engine):
    def body(x, one, other):
        return x + one.scale if one is other else x - other.scale

    fused, a, b = pk.fuse(body), Model(2.0), Model(2.0)
    for seed in range(4):
        for pair in ((a, a), (a, b), (b, b), (b, a)):
            assert_near(fused(numbers(seed), *pair), body(numbers(seed), *pair))


def test_an_attribute_that_is_a_global_array(engine, monkeypatch):
    """The body may tell it from an equal copy."""

    def body(model, x):
        return x * 2 if model.weights is TABLE else x * (3 + np.shares_memory(model.weights, TABLE))

    fused, model = pk.fuse(body), Model()
    views = (TABLE, TABLE.copy(), TABLE[:], TABLE)
    for weights in (*views, *views):
        model.weights = weights
        for seed in range(3):
            assert_near(fused(model, numbers(seed)), body(model, numbers(seed)))


def test_attributes_of_modules_that_a_method_reads(engine, monkeypatch):
    class Own:
        def area(self, x):
            return np.square(x) * np.own_number + pk.own_number

    fused, own = pk.fuse(lambda own, x: own.area(x)), Own()
    monkeypatch.setattr(np, "own_number", 2.0, raising=False)
    monkeypatch.setattr(pk, "own_number", 2.0, raising=False)
    changes = [(np, "own_number", 3.0), (pk, "own_number", 4.0), (np, "square", np.negative)]
    for module, name, value in [(np, "own_number", 2.0), *changes]:
        monkeypatch.setattr(module, name, value)
        for seed in range(4):
            assert_near(fused(own, numbers(seed)), own.area(numbers(seed)))


def test_a_class_that_changes(engine):
    class Own:
        k = 1.0

    fused, own = pk.fuse(lambda own, x: x * own.k), copy.copy(Own())  # which adds a name to the class
    for seed in range(4):
        assert_near(fused(own, numbers(seed)), numbers(seed))
    assert_replayed(engine)
    Own.__getattribute__ = lambda self, name: 7.0 if name == "k" else object.__getattribute__(self, name)
    for seed in range(4):
        assert_near(fused(own, numbers(seed)), numbers(seed) * 7)


def test_the_object_is_the_result(engine):
    fused, model = pk.fuse(lambda model, x: (model, x * model.scale)), Model()
    for seed in range(4):
        got = fused(model, numbers(seed))
        assert got[0] is model
        assert_near(got[1], numbers(seed) * 2.0)
