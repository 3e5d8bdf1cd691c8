"""Calls of fused functions behave as calls of the plain function: names, arguments, results."""

import asyncio
import concurrent.futures
import functools
import inspect
import math
import pickle
import re
import sys
import threading
import warnings
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
import pytest

import pycudakit as pk

SIZES = [100, 20_000]

FACTOR = 2.0


@pytest.fixture(params=SIZES)
def x(request):
    return np.linspace(-3, 3, request.param)


class Pair(NamedTuple):
    first: Any
    second: Any


@pk.fuse
def scaled(x):
    return x * FACTOR + 1


@pk.fuse
def factorial(x, n):
    return x if n == 0 else factorial(x, n - 1) * n


@pk.fuse
def later(x):
    return defined_later(x) + 1


def defined_later(x):
    return x * 2


# ---- Names are looked up at every call ------------------------------------------------------------------


def test_globals_are_never_stale(engine, x, monkeypatch):
    for factor in (2.0, 3.0, -1, np.float32(0.5), np.full(x.size, 4.0)):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        np.testing.assert_array_equal(scaled(x), x * factor + 1)
    monkeypatch.setitem(globals(), "defined_later", np.negative)
    np.testing.assert_array_equal(later(x), -x + 1)


def test_closures_and_defaults_are_never_stale(engine, x):
    factor = 2

    def body(x, shift=1, *, sign=1):
        return sign * x * factor + shift

    fused = pk.fuse(body)
    for factor in (2, 5, 0.5):
        np.testing.assert_array_equal(fused(x), x * factor + 1)
    body.__defaults__, body.__kwdefaults__ = (7,), {"sign": -1}
    np.testing.assert_array_equal(fused(x), -x * factor + 7)
    np.testing.assert_array_equal(fused(x, sign=2), 2 * x * factor + 7)


def test_nonlocal_is_assigned(engine, x):
    count = 0

    @pk.fuse
    def body(x):
        nonlocal count
        count += 1
        return x + count

    for expected in (1, 2, 3):
        np.testing.assert_array_equal(body(x), x + expected)
    assert count == 3


def test_nonlocal_that_is_an_argument_too_is_assigned(engine, x):
    def running(fuse):
        total = x

        def body(x):
            nonlocal total
            total = total + x
            return total * 2

        add = fuse(body)
        return [*(add(x) for _ in range(3)), total]

    np.testing.assert_array_equal(running(pk.fuse), running(lambda body: body))


def test_global_is_assigned(engine, x):
    space = {"np": np}
    exec("def body(x):\n    global total\n    total = np.sum(x > 0)\n    return total + x", space)
    np.testing.assert_array_equal(pk.fuse(space["body"])(x), np.sum(x > 0) + x)
    assert space["total"] == np.sum(x > 0)


@pytest.mark.parametrize("size", [10, 5_000, 20_000])
def test_global_array_that_changes_after_it_was_read(engine, size):
    table = np.arange(float(size))

    @pk.fuse
    def body(x):
        y = x + table
        table[:] = 0
        z = y + table
        table[1] = 5
        return y, z, z + table

    got = body(np.ones(size))
    want = np.arange(float(size)) + 1
    np.testing.assert_array_equal(got[0], want)
    np.testing.assert_array_equal(got[1], want)
    assert got[2][1] == 7
    assert table[1] == 5


def test_argument_that_is_a_global_too(engine, x):
    """The body writes to an argument's memory through a global."""

    @pk.fuse
    def body(y):
        z = y * 2
        x[:] = 1
        z += y
        x[2:] += 1
        return z, y + 0

    was = x.copy()
    got = body(x)
    np.testing.assert_array_equal(got[0], was * 2 + 1)
    np.testing.assert_array_equal(got[1][:3], [1, 1, 2])
    np.testing.assert_array_equal(x[:3], [1, 1, 2])


def test_global_array_is_written(engine, x):
    total = np.zeros_like(x)

    @pk.fuse
    def body(x):
        np.add(total, x, out=total)
        total[1:] += x[1:]
        return total * 1

    np.testing.assert_array_equal(body(x), total)
    assert total[1] == 2 * x[1]


# ---- Arguments and results ----------------------------------------------------------------------------


def test_every_kind_of_parameter(engine, x):
    @pk.fuse
    def body(a, /, b, *rest, c=1, **named):
        return a + b * c + sum(rest) + named.get("d", 0)

    plain = body.__wrapped__
    for args, kwargs in [
        ((x, x), {}),
        ((x, 2, x, 3), {"c": x}),
        ((x, 1), {"c": 2, "d": x}),
        ((x,), {"b": x}),
    ]:
        np.testing.assert_array_equal(body(*args, **kwargs), plain(*args, **kwargs))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        body(x)


def test_nested_arguments_and_results(engine, x):
    given = {"pair": Pair(x, [x + 1, (x, "text")]), "none": None, 3: object}

    def body(d):
        first, (second, (third, text)) = d["pair"]
        return {
            "sum": first + second,
            "pair": Pair(third * 2, [text, (np.max(first), first)]),
            "as it was": d[3],
        }

    got, want = pk.fuse(body)(given), body(given)
    np.testing.assert_array_equal(got["sum"], want["sum"])
    assert type(got["pair"]) is Pair
    np.testing.assert_array_equal(got["pair"].first, x * 2)
    assert got["pair"].second[0] == "text"
    assert type(got["pair"].second[1][0]) is np.float64
    assert got["pair"].second[1][1] is x
    assert got["as it was"] is object


def test_arguments_themselves_are_returned(engine, x):
    y = [x, {"x": x}]
    got = pk.fuse(lambda x, y: (x, y, x[:], x.T, x[::2], y[0]))(x, y)
    assert got[0] is x
    assert got[5] is x
    assert got[1][0] is x
    assert got[1][1]["x"] is x
    for view in got[2:5]:
        assert type(view) is np.ndarray
        assert np.shares_memory(view, x)
    changed = pk.fuse(lambda x: x.__iadd__(1))(x)
    assert changed is x


def test_same_list_or_dict_is_returned_and_changed(engine, x):
    given = []

    @pk.fuse
    def body(x, sink):
        sink.append(x + 1)
        return sink

    assert body(x, given) is given
    np.testing.assert_array_equal(np.asarray(given[0]), x + 1)


RESULTS = {
    "number": (lambda x: np.sum(x > 0), np.int64),
    "float": (lambda x: x[3], np.float64),
    "short": (lambda x: x.astype("f4").max(), np.float32),
    "truth": (lambda x: np.any(x > 9), np.bool_),
    "of numbers": (lambda x: np.sum(x > 0) * 2 + 1, np.int64),
    "0-d": (lambda x: x[3, ...], np.ndarray),
    "kept": (lambda x: np.max(x, keepdims=True), np.ndarray),
    "array": (lambda x: x * 2, np.ndarray),
    "zeros": (lambda _: np.zeros(3), np.ndarray),
    "0-d zeros": (lambda _: np.zeros(()), np.ndarray),
    "python": (lambda x: float(x[0]), float),
    "length": (len, int),
    "nothing": (lambda _: None, type(None)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_types_of_results(engine, x, name):
    body, kind = RESULTS[name]
    for _ in range(2):
        got, want = pk.fuse(body)(x), body(x)
        assert type(got) is type(want) is kind
        np.testing.assert_array_equal(got, want)


LOOKS_AT_GLOBALS = """
def evaluated(x):
    return eval("np.sum(x > 0) + FACTOR") + x

def executed(x):
    space = {"x": x}
    exec("y = x * FACTOR", globals(), space)
    return space["y"] + 1

def assigned(x):
    globals()["ADDED"] = 3
    return x + ADDED

def class_within(x):
    class Scale:
        by = FACTOR

        def __call__(self, x):
            return x * self.by

    return Scale()(x + 1)

def imported(x):
    from .bodies import flat
    from . import bodies
    return flat([x, [x + 1]])[1] * len(bodies.split("a   b"))
"""


@pytest.mark.parametrize("name", re.findall(r"^def (\w+)", LOOKS_AT_GLOBALS, re.MULTILINE))
def test_functions_that_look_up_globals_themselves(engine, x, name):
    space = {"np": np, "FACTOR": FACTOR, "__name__": __name__, "__package__": "fusing"}
    exec(LOOKS_AT_GLOBALS, space)
    np.testing.assert_array_equal(pk.fuse(space[name])(x), space[name](x))


def test_warnings_of_a_body_are_of_its_module(engine, x):
    @pk.fuse
    def body(x):
        warnings.warn("mine", UserWarning, stacklevel=1)
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module=__name__)
        np.testing.assert_array_equal(body(x), x * 2)


def test_no_array_at_all(engine):
    assert pk.fuse(lambda a, b: a + b)(1, 2) == 3
    assert pk.fuse(lambda: "text")() == "text"
    np.testing.assert_array_equal(pk.fuse(lambda n: np.arange(n) * 2)(20_000), np.arange(20_000) * 2)


def test_types_that_are_passed_through(engine):
    z = np.arange(20_000) * 1j
    np.testing.assert_array_equal(pk.fuse(lambda z: np.abs(z) + z.real)(z), np.abs(z) + z.real)
    masked = np.ma.masked_less(np.arange(5.0), 2)
    assert type(pk.fuse(lambda a: a + 1)(masked)) is np.ma.MaskedArray
    dates = np.arange("2020-01-01", "2020-01-09", dtype="M8[D]")
    np.testing.assert_array_equal(pk.fuse(lambda d: d[1:] - d[:-1])(dates), np.diff(dates))


def test_is_an_array(engine, x):
    assert pk.fuse(lambda x: (isinstance(x, np.ndarray), isinstance(x + 1, np.ndarray)))(x) == (True, True)


def test_is_a_number(engine, x):
    def body(x):
        numbers = x[1], x.max(), np.argmin(x), x[0] > 0
        kinds = np.ndarray, np.generic, float, np.floating, np.integer, np.bool_, Number
        return [[isinstance(number, kind) for kind in kinds] for number in numbers], np.isscalar(x.sum())

    assert pk.fuse(body)(x) == body(x)


def test_numbers_have_the_attributes_of_numpys(engine, x):
    def body(x):
        first, count = x[0], np.arange(5)[3]
        whole = math.trunc(first), math.floor(first), math.ceil(first), first.is_integer(), count.bit_count()
        return *whole, first.as_integer_ratio(), first.hex(), count * 0.5

    assert pk.fuse(body)(x) == body(x)
    for other in (lambda x: x.is_integer(), lambda x: x[0].fields):
        with pytest.raises(AttributeError) as numpys:
            other(x)
        with pytest.raises(AttributeError, match=str(numpys.value)):
            pk.fuse(other)(x)
    with pytest.raises(TypeError):
        pk.fuse(math.trunc)(x)


def test_numbers_repeat_sequences(engine, x):
    def body(x):
        n = np.count_nonzero(x > 2)
        return [0, 1] * n, n * [[1]], (1, 2) * n, "-" * n, n * b"ab", [0] * np.argmax(x), np.array([1, 2]) * n

    for got, want in zip(pk.fuse(body)(x), body(x), strict=True):
        assert type(got) is type(want)
        np.testing.assert_array_equal(got, want)


def test_nothing_equals_text(engine, x):
    def body(x):
        return (
            x == "a",
            x != "a",
            x[0] == "a",
            x.max() != "a",
            x == np.array(["a"]),
            x == np.datetime64("NaT"),
        )

    for got, want in zip(pk.fuse(body)(x), body(x), strict=True):
        assert type(got) is type(want)
        np.testing.assert_array_equal(got, want)


def test_bytes_of_arrays_and_numbers(engine, x):
    whole = np.arange(x.size) % 7
    body = lambda i: (bytes(i[:3]), bytes(i.max()), bytes(i + 1))  # noqa: E731
    assert pk.fuse(body)(whole) == body(whole)


# ---- Kinds of functions -------------------------------------------------------------------------------


class Model:
    """A class with fused methods."""

    bias = 1.0

    def __init__(self, weight):
        self.weight = weight
        self.state = None

    @pk.fuse
    def apply(self, x):
        self.state = x * 2
        return x * self.weight + self.bias

    @staticmethod
    @pk.fuse
    def static(x):
        return x + 1

    @classmethod
    @pk.fuse
    def of_class(cls, x):
        return x + cls.bias

    @pk.fuse
    def __call__(self, x):
        return self.weight - x


def test_methods(engine, x):
    model = Model(np.full(x.size, 3.0))
    np.testing.assert_array_equal(model.apply(x), x * 3 + 1)
    assert type(model.state) is np.ndarray
    np.testing.assert_array_equal(model.state, x * 2)
    model.bias = 5
    np.testing.assert_array_equal(model.apply(x), x * 3 + 5)
    np.testing.assert_array_equal(Model.apply(model, x), x * 3 + 5)
    np.testing.assert_array_equal(Model.static(x), x + 1)
    np.testing.assert_array_equal(model.of_class(x), x + 1)
    np.testing.assert_array_equal(model(x), 3 - x)
    np.testing.assert_array_equal(pk.fuse(model)(x), 3 - x)
    assert model.apply == model.apply
    assert model.apply not in (Model(0.0).apply, model.static, 1)
    assert len({model.apply, model.apply}) == 1
    assert "Model.apply" in repr(model.apply)
    assert repr(model) in repr(model.apply)


def test_partials_lambdas_and_ufuncs(engine, x):
    add = functools.partial(lambda a, b, c: a + b * c, 2, c=x)
    np.testing.assert_array_equal(pk.fuse(add)(x), 2 + x * x)
    np.testing.assert_array_equal(functools.partial(scaled, x)(), x * FACTOR + 1)
    np.testing.assert_array_equal(pk.fuse(np.add)(x, x), x + x)
    np.testing.assert_array_equal(list(map(scaled, [x, x]))[1], x * FACTOR + 1)


def test_generators(engine, x):
    @pk.fuse
    def parts(x, n):
        for k in range(n):
            received = yield x * k
            x = x + (0 if received is None else received)

    found = parts(x, 3)
    assert inspect.isgenerator(found)
    np.testing.assert_array_equal(next(found), x * 0)
    np.testing.assert_array_equal(found.send(2), x + 2)
    np.testing.assert_array_equal(pk.fuse(lambda x: sum(x * k for k in range(4)))(x), x * 6)


def test_coroutines_and_tasks(engine, x):
    @pk.fuse
    async def waits(x, k):
        y = x * k
        await asyncio.sleep(0)
        return y + 1

    async def everything():
        def sync(k):
            return scaled(x + k)

        async def task(k):
            await asyncio.sleep(0)
            return sync(k)

        return await asyncio.gather(*(waits(x, k) for k in range(5)), *(task(k) for k in range(5)))

    got = asyncio.run(everything())
    for k in range(5):
        np.testing.assert_array_equal(got[k], x * k + 1)
        np.testing.assert_array_equal(got[5 + k], (x + k) * FACTOR + 1)


def test_recursion_and_nesting(engine, x):
    np.testing.assert_array_equal(factorial(np.arange(x.size), 6), np.arange(x.size) * 720)
    outer = pk.fuse(lambda x: scaled(scaled(x)) + np.max(scaled(x)))
    np.testing.assert_array_equal(outer(x), (x * 2 + 1) * 2 + 1 + np.max(x * 2 + 1))
    helper = pk.fuse(lambda y: y.__iadd__(1))
    y = x.copy()
    np.testing.assert_array_equal(pk.fuse(lambda y: helper(y[1:]) * 2)(y), (x[1:] + 1) * 2)
    assert y[1] == x[1] + 1


def test_attributes(engine):
    def named(x: int, *, y=2) -> float:
        """Says so."""

    named.own = "own"
    fused = pk.fuse(named)
    assert (fused.__name__, fused.__doc__, fused.own, fused.__wrapped__) == (
        "named",
        "Says so.",
        "own",
        named,
    )
    assert inspect.signature(fused) == inspect.signature(named)
    assert fused.__module__ == named.__module__
    assert "named" in repr(fused)
    with pytest.raises(pk.errors.Unsupported, match="takes a function"):
        pk.fuse(3)
    assert isinstance(pk.fuse()(named), type(fused))


def test_pickles(engine, x):
    assert pickle.loads(pickle.dumps(scaled)) is scaled
    cloudpickle = pytest.importorskip("cloudpickle")
    power = 3
    again = cloudpickle.loads(cloudpickle.dumps(pk.fuse(lambda x: x * power)))
    np.testing.assert_array_equal(again(x), x * 3)


def test_threads(engine, x):
    barrier = threading.Barrier(8)

    def work(k):
        barrier.wait()
        with pk.engine(engine):
            return [scaled(x + k + n) for n in range(5)] + [factorial(np.arange(x.size), k % 4)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    for k, results in enumerate(found):
        for n in range(5):
            np.testing.assert_array_equal(results[n], (x + k + n) * 2 + 1)
        np.testing.assert_array_equal(results[5], np.arange(x.size) * [1, 1, 2, 6][k % 4])


# ---- Results ------------------------------------------------------------------------------------------


def test_temporary_is_returned_on_its_own(engine, x):
    first, second = pk.fuse(lambda x: ((y := x + 1), y))(x)
    assert first is second or np.shares_memory(first, second)
    first[0] = 9
    assert second[0] == 9
    again = pk.fuse(lambda x: x + 1)(x)
    assert again.flags.owndata
    assert again.flags.writeable


def test_attributes_that_a_body_sets_on_a_module(engine, monkeypatch):
    monkeypatch.setattr(np, "of_this_test", 1.0, raising=False)

    def body(x):
        np.of_this_test = 2.0
        return x * np.of_this_test

    assert (pk.fuse(body)(np.ones(5000)) == 2).all()
    assert np.of_this_test == 2.0


def test_ufunc_that_is_no_program_writes_to_out(engine):
    x, out = np.arange(3600.0).reshape(60, 60), np.zeros((60, 60))
    assert pk.fuse(lambda x, y: np.matmul(x, x, out=y))(x, out) is out
    assert (out == x @ x).all()
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        pk.fuse(lambda x, y: np.matmul(x, x, out=y))(x, np.zeros((3, 60)))


def test_a_number_is_no_place_for_results(engine):
    @pk.fuse
    def roots(x):
        total = x.sum()
        return np.sqrt(x, out=total)

    with pytest.raises(TypeError, match="return arrays must be of ArrayType"):
        roots(np.ones(1000))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "float16", "float32"])
def test_squares_of_numbers_have_numpys_types(engine, dtype):
    def squares(x):
        return x.max() ** 2, x.max() ** 2.0, x**2, x**2.0

    x = np.ones(1000, dtype)
    for ours, numpys in zip(pk.fuse(squares)(x), squares(x), strict=True):
        assert (ours.dtype, type(ours)) == (numpys.dtype, type(numpys))
        np.testing.assert_array_equal(ours, numpys)


COUNT = 0
SHUFFLED = np.random.RandomState(3)


def shuffled_and_counted(m):
    global COUNT  # noqa: PLW0603
    COUNT += 1
    np.random.RandomState(1).shuffle(m)
    SHUFFLED.shuffle(m)
    return np.zeros(3) + m[0, 0], pk.add(m, COUNT), pk.evaluate("m * 2"), np.array(m.max(), dtype=object)


def shuffled_and_defined(m):
    class Local:
        first = m[0].copy()

        def rows(self):
            np.random.RandomState(1).shuffle(m)
            return np.max([m, m[::-1]], axis=0)

    rows = Local().rows()
    m[:] += 1
    return rows, Local.first


@pytest.mark.skipif(sys.version_info < (3, 11), reason="calls have no room to be replaced")
@pytest.mark.parametrize("body", [shuffled_and_counted, shuffled_and_defined])
def test_functions_with_global_statements_or_classes(engine, body, monkeypatch):
    results = []
    for function in (body, pk.fuse(body)):
        monkeypatch.setitem(globals(), "COUNT", 0)
        monkeypatch.setitem(globals(), "SHUFFLED", np.random.RandomState(3))
        m = np.arange(30_000.0).reshape(300, 100)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results.append([*function(m), m, COUNT])
    for mine, numpys in zip(*reversed(results), strict=True):
        np.testing.assert_array_equal(mine, numpys)
    assert type(results[1][-3]) is type(results[0][-3])


def shuffled_by_local_and_global_states(m):
    local = np.random.RandomState(3)
    local.shuffle(m)
    SHUFFLED.shuffle(m)
    return m + 1, local.rand(3), local.permutation(m), SHUFFLED.choice(m[:, 0], 3), [local, SHUFFLED]


def test_random_states_of_numpy(engine, monkeypatch):
    results = []
    for function in (shuffled_by_local_and_global_states, pk.fuse(shuffled_by_local_and_global_states)):
        monkeypatch.setitem(globals(), "SHUFFLED", np.random.RandomState(3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            *arrays, states = function(np.arange(30_000.0).reshape(300, 100))
        assert [type(state) for state in states] == [np.random.RandomState] * 2
        assert states[1] is SHUFFLED
        results.append(arrays)
    for mine, numpys in zip(*reversed(results), strict=True):
        np.testing.assert_array_equal(mine, numpys)
