"""Tracers that escape from a fused call, in objects that outlive it, are replaced by arrays."""

import collections
import contextlib
import contextvars
import dataclasses
import functools
import itertools
import pickle
import sys
import threading
import types
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.thorough_cases import thorough

import pycudakit as pk


@pytest.fixture(params=[100, *thorough(20_000)])
def x(request):
    return np.linspace(-3, 3, request.param)


@pk.fuse
def scaled(x):
    return x * 2 + 1


HISTORY = []


def remembered(x):
    HISTORY.append(np.sum(x))
    return x


def test_leaked_tracers(engine, x):
    leaked = []

    @pk.fuse
    def body(x):
        y = x + 1
        leaked[:] = [y, y[1:], np.sum(y), x, y * 2]
        y += 1
        return np.max(y)

    assert body(x) == np.max(x + 2)
    y, part, total, given, twice = leaked
    np.testing.assert_array_equal(np.asarray(y), x + 2)
    np.testing.assert_array_equal(np.asarray(part), (x + 2)[1:])
    np.testing.assert_allclose(float(total), np.sum(x + 1))
    np.testing.assert_array_equal(np.asarray(given), x)
    np.testing.assert_array_equal(np.asarray(twice), (x + 1) * 2)
    np.testing.assert_array_equal(np.asarray(y * 2 + x), (x + 2) * 2 + x)
    np.testing.assert_array_equal(np.asarray(np.exp(y)[:3]), np.asarray(np.exp(y))[:3])


class Walk:
    """A state that each step replaces."""

    __slots__ = ("__dict__", "last")

    def __init__(self, size):
        self.place = np.zeros(size)
        self.means = []
        self.parts = {}
        self.last = None

    def step(self, x):
        self.place = self.place * 0.5 + x
        self.means.append(self.place.mean())
        self.parts["ends"] = self.place[1:], [self.place[:-1]]
        self.last = x
        return self.place - x


def test_methods_store_arrays_in_objects(engine, x):
    ours, numpys = Walk(x.size), Walk(x.size)
    step = pk.fuse(Walk.step)
    for n in range(4):
        given = x + n
        np.testing.assert_array_equal(step(ours, given), numpys.step(given))
        assert ours.last is given
    assert type(ours.place) is np.ndarray
    np.testing.assert_array_equal(ours.place, numpys.place)
    assert {type(mean) for mean in ours.means} == {np.float64}
    np.testing.assert_allclose(ours.means, numpys.means, atol=1e-15)
    after, (before,) = ours.parts["ends"]
    assert type(after) is type(before) is np.ndarray
    assert np.shares_memory(after, ours.place)


class Log:
    def __init__(self):
        self.means, self.by_name = [], {}

    def add(self, x):
        self.means.append(x.mean())
        self.by_name["x", len(self.means)] = x * 2, {x.max()}
        return self.means, self.by_name, [self.means]


def test_lists_and_dicts_that_are_returned_are_those_that_the_body_has(engine, x):
    log = Log()
    for n in range(2):
        means, by_name, (again,) = pk.fuse(Log.add)(log, x + n)
        assert means is again is log.means
        assert by_name is log.by_name
    assert [type(mean) for mean in means] == [np.float64] * 2
    for twice, greatest in by_name.values():
        assert (type(twice), [type(each) for each in greatest]) == (np.ndarray, [np.float64])


def test_a_list_that_is_given_twice_is_one(engine, x):
    def body(state, history, again):
        state["history"].append(x.max())
        history.append(history[0] * 2)
        state["of"]["n"] = len(history)
        return history is state["history"] is again[0]

    def run(function):
        history, of = [x.copy()], {"x": x}
        state = {"history": history, "of": of}
        return function(state, history, (history, of)), history, of, state["history"] is history

    got, want = run(pk.fuse(body)), run(body)
    assert got[0] is got[3] is True
    assert got[2]["n"] == want[2]["n"] == 3
    for mine, theirs in zip(got[1], want[1], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_list_that_an_object_has_too_is_one(engine, x):
    class Log:
        pass

    def through_the_object(history, by_name, log, x):
        log.history.append(x * 2)
        history.append(history[1] + x)
        history[0] = history[0] + 1
        log.by_name["sum"] = np.sum(log.history[0])
        history[2] += by_name["sum"]
        return len(history), len(by_name), log.history[0] - x

    def through_a_name(history, by_name, log, x):
        the_history.append(x * 2)
        history.append(the_history[0] + by_name["x"])
        the_history[0] *= 2
        return [each.max() for each in history]

    for body in (through_the_object, through_a_name):
        ran = []
        for function in (pk.fuse(body), body):
            the_history, log = [x.copy()], Log()
            log.history, log.by_name = the_history, {"x": x}
            result = function(the_history, log.by_name, log, x)
            ran.append((result, log.history, log.by_name, log.history is the_history))
        with np.printoptions(threshold=sys.maxsize):
            assert repr(ran[0]) == repr(ran[1])


@dataclasses.dataclass(frozen=True)
class Summary:
    mean: Any
    rest: Any


def test_arrays_are_stored_elsewhere(engine, x):
    met, count = [], 0

    def body(x, latest=[], *, box={}):  # noqa: B006
        nonlocal count
        count = count + np.max(x)
        met.append(collections.deque([x + 1]))
        latest.append(x * 2)
        box["x"] = x
        return (
            Summary(x.mean(), collections.OrderedDict(x=x - 1)),
            {np.min(x)},
            {x[0]: 1},
            (x * k for k in [2]),
        )

    summary, least, first, later = pk.fuse(functools.partial(remembered_and, body))(x)
    kinds = type(count), type(met[0][0]), type(body.__defaults__[0][0]), type(HISTORY[-1])
    assert kinds == (np.float64, np.ndarray, np.ndarray, np.float64)
    assert body.__kwdefaults__["box"]["x"] is x
    assert (type(summary.mean), type(summary.rest["x"])) == (np.float64, np.ndarray)
    assert [type(each) for each in (*least, *first, *later)] == [np.float64, np.float64, np.ndarray]
    HISTORY.clear()


def remembered_and(body, x):
    return body(remembered(x))


def test_an_exception_leaves_arrays(engine, x):
    left = []

    @pk.fuse
    def body(x):
        left.append(x * 2)
        raise KeyError("x")

    wanted = x * 2
    with pytest.raises(KeyError):
        body(x)
    x[:] = 0
    assert type(left[0]) is np.ndarray
    np.testing.assert_array_equal(left[0], wanted)


def test_attributes_of_an_exception_are_arrays(engine, x):
    class NotConvergedError(RuntimeError):
        def __init__(self, message, state):
            super().__init__(message, state[0])
            self.state = state

    kept = []

    @pk.fuse
    def body(x):
        kept.append(ValueError(x.max()))
        raise NotConvergedError("after 3", x * 2)

    with pytest.raises(NotConvergedError) as met:
        body(x)
    message, first = met.value.args
    assert (message, type(first), type(met.value.state)) == ("after 3", np.float64, np.ndarray)
    assert (type(kept[0].args[0]), kept[0].args[0]) == (np.float64, x.max())
    np.testing.assert_array_equal(met.value.state, x * 2)


def test_unreachable_tracer_works_as_an_array(engine, x):
    hidden = []
    pk.fuse(lambda x: hidden.append(iter((x * 2,))))(x)
    left = next(hidden[0])
    for got in (left + 1, np.sin(left), left[1:], left.T, np.stack([left, x])):
        assert type(got) is np.ndarray
    for got in pk.fuse(lambda x: (x + left, left + x, np.stack([x, left]), np.where(x > 0, left, x)))(x):
        assert type(got) is np.ndarray

    @pk.fuse
    def written(x):
        x[:] = left
        x += left
        np.add(x, 1, out=left)
        left[:2] = x[:2]

    doubled = np.array(left)
    written(x)
    np.testing.assert_array_equal(x, doubled * 2)
    np.testing.assert_array_equal(left[2:], doubled[2:] * 2 + 1)
    np.testing.assert_array_equal(left[:2], x[:2])


ITERATORS = {
    "list": lambda x: iter([x, x * 2, x[1:]]),
    "tuple": lambda x: iter((x, np.max(x))),
    "reversed": lambda x: reversed([x, x * 2]),
    "dict": lambda x: iter({np.max(x): 1}),
    "values": lambda x: {"x": x, "twice": x * 2}.values(),
    "items": lambda x: {"x": [x * 2]}.items(),
    "map": lambda x: map(np.sin, [x, x * 2]),
    "generator of tuples": lambda x: ((y, y + 1) for y in (x, x * 2)),
    "filter": lambda x: filter(lambda y: y.size > 3, (x[:2], x)),
    "zip": lambda x: zip("ab", (x, x * 2), strict=True),
    "enumerate": lambda x: enumerate((x, x * 2)),
    "of an array": lambda x: zip(x, x * 2, strict=True),
    "chain": lambda x: itertools.chain((x,), [x * 2]),
    "generator": lambda x: (y for y in (x, x * 2)),
    "generator of a name": lambda x: (x[n:] for n in range(3)),
    "nested": lambda x: {"all": [iter((x, x * 2))]}["all"][0],
}


def parts_of(iterator):
    return [part for each in iterator for part in (each if type(each) is tuple else (each,))]


def check_parts(got, want, x):
    assert [type(part) for part in got] == [type(part) for part in want]
    assert [part is x for part in got] == [part is x for part in want]
    for mine, theirs in zip(got, want, strict=True):
        if isinstance(theirs, np.ndarray):
            np.testing.assert_allclose(mine, theirs)


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators_yield_arrays(engine, x, name):
    def body(x):
        return x, ITERATORS[name](x), {"of": ITERATORS[name](x)}

    got, want = pk.fuse(body)(x), body(x)
    check_parts(parts_of(got[1]), parts_of(want[1]), x)
    check_parts(parts_of(got[2]["of"]), parts_of(want[2]["of"]), x)


@pytest.mark.parametrize("name", ["list", "reversed", "values", "items", "map", "generator of a name"])
def test_iterators_of_objects_yield_arrays(engine, x, name):
    got, want = (each(lambda x: Summary(ITERATORS[name](x), None))(x) for each in (pk.fuse, lambda f: f))
    check_parts(parts_of(got.mean), parts_of(want.mean), x)


def test_iterators_that_have_no_arrays_are_themselves(engine, x):
    numbers = iter([1, 2])
    result, rest = pk.fuse(lambda x, numbers: (x * 2, numbers))(x, numbers)
    np.testing.assert_array_equal(result, x * 2)
    assert rest is numbers


def test_leaked_into_another_call(engine, x):
    kept = []
    pk.fuse(lambda x: kept.append(x * 2))(x)
    got = pk.fuse(lambda x: x + kept[0])(x)
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, x * 3)
    np.testing.assert_array_equal(scaled(kept[0]), x * 4 + 1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kept[0])), x * 2)


# ---- Aliased arguments: a write is visible through the alias ----------------------------------------------

PLATE = np.zeros((90, 100))


def diffuse(u):
    for _ in range(9):
        sides = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u[1:-1, 1:-1] += 0.1 * (sides - 4 * u[1:-1, 1:-1])


class Plate:
    """A state that is an attribute, and is also passed to a method."""

    def __init__(self, u):
        self.u = u
        self.rows = {"first": [u[1:3]]}

    def run(self, u):
        diffuse(u)
        return self.u.max(), self.rows["first"][0].copy(), self.u[2, 2]


def plate_now():
    return PLATE.copy()


def of_a_helper(u):
    diffuse(u)
    return plate_now()


def that_assigns_a_global(u):
    global last  # noqa: PLW0603
    diffuse(u)
    last = np.max(PLATE)
    return PLATE.copy(), last


def that_asks_an_object(u, plate=None):
    diffuse(u)
    return functools.partial(Plate.run, plate if plate is not None else Plate(PLATE))(u)


@pytest.mark.parametrize("body", [of_a_helper, that_assigns_a_global, that_asks_an_object])
def test_arguments_that_are_globals_elsewhere(engine, body):
    start = np.random.default_rng(1).random(PLATE.shape)
    results = []
    for function in (body, pk.fuse(body)):
        PLATE[:] = start
        results.append((function(PLATE), PLATE.copy()))
    for want, got in zip(*map(_flat, results), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_arguments_that_are_attributes_too(engine):
    ours, numpys = (Plate(np.random.default_rng(1).random((90, 100))) for _ in range(2))
    run = pk.fuse(Plate.run)
    for _ in range(3):
        for got, want in zip(run(ours, ours.u), numpys.run(numpys.u), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
        np.testing.assert_allclose(ours.u, numpys.u, rtol=1e-12)


def _flat(value):
    return [part for each in value for part in _flat(each)] if isinstance(value, tuple) else [value]


KEPT = []


def test_arguments_that_the_body_keeps_are_the_callers_arrays(engine, x):
    class Holder:
        last = None

        def keep(self, x, y):
            self.last = x
            KEPT.append(y)
            KEPT.append([x, {"y": y}])

    holder, y = Holder(), x + 1
    del KEPT[:]
    pk.fuse(Holder.keep)(holder, x, y)
    assert holder.last is x
    assert KEPT[0] is y
    assert KEPT[1][0] is x
    assert KEPT[1][1]["y"] is y


class OwnTuple(tuple):
    __slots__ = ()


class OwnDict(dict):
    pass


def in_keys(x):
    kept = OwnDict({"first": 1, x.max(): 2, (x.min(), 3): 4, "last": 5})
    kept["members"] = {x.sum(), "text"}
    KEPT.append(kept)


def in_an_array_of_objects(x):
    kept = np.empty((2, 2), object)
    kept[0, 0], kept[1, 1] = x, [x + 1]
    KEPT.append(kept)


def in_tuples_of_other_classes(x):
    KEPT.append(OwnTuple((x, [x * 2])))


def plain(value):
    assert not type(value).__module__.startswith("pycudakit")
    if isinstance(value, np.ndarray):
        return [plain(part) for part in value] if value.dtype == object else value.tolist()
    if isinstance(value, dict):
        return [(plain(key), plain(part)) for key, part in value.items()]
    if isinstance(value, (set, frozenset)):
        return {each if isinstance(each, str) else round(float(each), 6) for each in value}
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [plain(part) for part in value]
    return round(float(value), 9) if isinstance(value, np.floating) else value


@pytest.mark.parametrize("body", [in_keys, in_an_array_of_objects, in_tuples_of_other_classes])
def test_no_tracer_stays_in_containers(engine, body, x):
    outcomes = []
    for function in (body, pk.fuse(body)):
        del KEPT[:]
        function(x)
        outcomes.append(plain(KEPT))
    assert outcomes[0] == outcomes[1]


def test_no_tracer_stays_in_exceptions(engine, x):
    def body(x):
        try:
            try:
                raise ValueError(x + 1)  # noqa: TRY301
            except ValueError as error:
                raise KeyError(x + 2) from error
        except KeyError:
            raise IndexError(x + 3)  # noqa: B904

    with pytest.raises(IndexError) as caught:
        pk.fuse(body)(x)
    error, number = caught.value, 3
    while error is not None:
        np.testing.assert_array_equal(error.args[0], x + number)
        assert type(error.args[0]) is np.ndarray
        error, number = error.__cause__ or error.__context__, number - 1
    assert number == 0


KEPT = []


def keep_calls(x):
    y = x + 1
    KEPT[:] = [
        functools.partial(np.add, y, x),
        functools.partial(np.add, x, out=y),
        functools.partial(y.sum, 0),
        y.sum,
        (x.max, 1),
        lambda one=y, two=(x, y): (one, two),
    ]


def test_calls_that_are_kept_have_arrays(engine, x):
    pk.fuse(keep_calls)(x)
    added, with_out, total, method, (greatest, _), function = KEPT
    y = x + 1
    np.testing.assert_array_equal(added(), y + x)
    assert total() == method() == y.sum()
    assert greatest() == x.max()
    assert [type(each) for each in (*added.args, with_out.keywords["out"])] == [np.ndarray] * 3
    assert added.args[0] is with_out.keywords["out"] is function()[0] is function()[1][1]
    assert added.args[1] is function()[1][0] is x
    assert method.__self__ is total.func.__self__ is added.args[0]


STATE = types.ModuleType("state_of_a_test")
STATE.of_threads = threading.local()
LATEST = contextvars.ContextVar("latest")


class Single:
    one = None

    def __new__(cls):
        if cls.one is None:
            cls.one = object.__new__(cls)
        return cls.one


class Named(np.ndarray):
    pass


NAMED = np.zeros(3).view(Named)


class Counter:
    latest = None
    all_sums: ClassVar[list] = []

    def step(self, x):
        self._log(x)
        type(self).latest = x * 2
        return x + 1

    def _log(self, x):
        self._append(x.sum())

    def _append(self, total):
        KEPT.append(total)

    @classmethod
    def remember(cls, x):
        cls.all_sums.append(x * 4)

    @staticmethod
    def keep(x):
        KEPT.append(x * 5)


def keep_in_classes(counter, x):
    Counter.latest = x
    Counter.remember(x)
    counter.keep(x)
    Single().latest = x * 3
    NAMED.latest = x * 10


def keep_in_modules(counter, x):
    STATE.given, STATE.parts = x, [x * 2, {"x": x[1:]}]
    setattr(STATE, "total", x.sum())  # noqa: B010
    keep_in_modules.latest = x * 6
    STATE.of_threads.latest = x * 7
    LATEST.set(x * 8)


def keep_by_globals(counter, x):
    globals()["KEPT"] = [x * 9, x]


@pytest.mark.parametrize("body", [Counter.step, keep_in_classes, keep_in_modules, keep_by_globals])
def test_no_tracer_stays_in_classes_modules_and_functions(engine, x, body):
    def run(function):
        KEPT.clear()
        Counter.latest, Counter.all_sums, Single.one, NAMED.latest = None, [], None, None
        function(Counter(), x)
        kept = [*KEPT, Counter.latest, *Counter.all_sums, NAMED.latest, getattr(Single.one, "latest", None)]
        if body is keep_in_modules:
            parts = STATE.parts[0], STATE.parts[1]["x"]
            kept += [STATE.given, STATE.total, *parts, body.latest, STATE.of_threads.latest, LATEST.get()]
        return kept

    wanted = run(body)
    for _ in range(2):
        got = run(pk.fuse(body))
        assert [type(each) for each in got] == [type(each) for each in wanted]
        assert [each is x for each in got] == [each is x for each in wanted]
        for one, other in zip(got, wanted, strict=True):
            if one is not None:
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-10)


class Holder:
    pass


def keep_containers(x, parts, names, holder):
    holder.parts = parts
    holder.names = lambda: names
    KEPT[:] = [parts, (names, 1), functools.partial(len, parts)]
    parts.append(x * 2)
    names["total"] = x.sum()


def keep_emptied(x, parts, names, holder):
    keep_containers(x, parts, names, holder)
    parts.clear()
    names.clear()


def keep_and_fail(x, parts, names, holder):
    keep_containers(x, parts, names, holder)
    raise KeyError(parts)


@pytest.mark.parametrize("body", [keep_containers, keep_emptied, keep_and_fail])
def test_lists_and_dicts_that_are_kept_are_those_of_the_caller(engine, x, body):
    parts, names, holder = [x, x[::-1]], {"x": x}, Holder()
    fails = pytest.raises(KeyError) if body is keep_and_fail else contextlib.nullcontext()
    with fails as raised:
        pk.fuse(body)(x, parts, names, holder)
    if body is keep_and_fail:
        assert raised.value.args[0] is parts
    assert holder.parts is KEPT[0] is KEPT[2].args[0] is parts
    assert holder.names() is KEPT[1][0] is names
    assert len(parts) == len(names) + 1 or not (parts or names)
    assert {type(each) for each in parts} <= {np.ndarray}


def keep_generators(x, generator, holder):
    holder.given = generator
    holder.new = np.random.default_rng(3)
    holder.ours = pk.random.default_rng(4)
    return x + holder.new.random()


def test_generators_that_are_kept_are_no_traced_ones(engine, x):
    generator, ours, numpys = np.random.default_rng(5), Holder(), Holder()
    np.testing.assert_array_equal(
        pk.fuse(keep_generators)(x, generator, ours), keep_generators(x, generator, numpys)
    )
    assert ours.given is generator
    assert type(ours.new) is np.random.Generator
    assert type(ours.ours) is type(pk.random.default_rng(4))
    assert ours.new.random() == numpys.new.random()
