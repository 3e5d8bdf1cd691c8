"""Memory that code outside of the trace can reach is read and written when the body says so, as in NumPy."""

import collections
import dataclasses
import re
import types

import numpy as np
import pytest

import pycudakit as pk

SIZE = 20_000


def numbers(size=SIZE):
    return np.linspace(-1, 2, size)


def arrays_in(value):
    if isinstance(value, np.ndarray):
        return [np.array(value, subok=False)]
    if isinstance(value, (tuple, list, collections.deque)):
        return [array for part in value for array in arrays_in(part)]
    if isinstance(value, dict):
        return arrays_in(list(value.values()))
    if isinstance(value, (bytearray, memoryview)):
        return [np.frombuffer(value, np.uint8).copy()]
    if hasattr(value, "__dict__") and not callable(value):
        return arrays_in(list(vars(value).values()))
    return [np.asarray(value)] if isinstance(value, (int, float, np.generic)) else []


def check(body, make):
    """Run a body in NumPy and fused, each on arguments of its own, and compare results and arguments."""
    arguments = make()
    wanted = arrays_in([body(*arguments), *arguments])
    given = make()
    got = arrays_in([pk.fuse(body)(*given), *given])
    assert len(got) == len(wanted) > 0
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


class Model:
    scale = 3.0

    def __init__(self, u):
        self.u = u
        self.dt = 0.5

    def through_attribute(self, u):
        old, total = u.copy(), u.sum()
        self.u[1:-1] *= 2
        return old, total

    def through_method(self, u):
        old = u * 2
        self.change()
        return old

    def change(self):
        self.u[3] = 100

    def through_helper_of_helper(self, u):
        old = u * 2
        self.twice()
        return old

    def twice(self):
        return self.change()

    @property
    def changed(self):
        self.u[:] = 5
        return 1

    def through_property(self, u):
        old = u * 2
        return old * self.changed

    def plain_attributes(self, u):
        return ((u * self.dt + self.dt) * self.scale).sum()

    def in_a_loop(self, u):
        sums = []
        for n in range(5):
            sums.append((u * n).sum())
            self.u[n] = 10 * n
        return sums

    def in_a_handler(self, u):
        old = u * 2
        try:
            u + np.ones(3)
        except ValueError:
            self.u[:] = 1
        return old

    def at_the_end(self, u):
        old = u * 2
        try:
            return old
        finally:
            self.u[:] = 1


def a_model():
    model = Model(numbers())
    return model, model.u


@pytest.mark.parametrize(
    "name",
    [
        "through_attribute",
        "through_method",
        "through_helper_of_helper",
        "through_property",
        "plain_attributes",
        "in_a_loop",
        "in_a_handler",
        "at_the_end",
    ],
)
def test_an_argument_that_a_method_writes_by_its_attribute(engine, name):
    with pk.engine(engine):
        check(getattr(Model, name), a_model)


@dataclasses.dataclass
class Data:
    x: np.ndarray


def in_a_list(x, items):
    old, total = x * 2, x.sum()
    items[0][:] = 1
    return old, total


def in_a_dataclass(x, data):
    old, total = x * 2, x.sum()
    data.x[2:] = 1
    return old, total


def in_a_tuple_in_an_object(x, data):
    old = x * 2
    data.x[0][2:] = 1
    return old


GLOBAL = [None]


def by_a_global(x):
    old, total = x * 2, x.sum()
    write_global()
    return old, total


def write_global():
    GLOBAL[0][:] = 7


def fill_global(size=SIZE):
    GLOBAL[0] = numbers(size)
    return (GLOBAL[0],)


def by_a_call(x, function):
    old = x * 2
    function()
    return old


def by_a_callable(x, functions):
    old = x * 2
    functions[0](x)
    return old


class Callable:
    def __init__(self, x):
        self.x = x

    def __call__(self, _=None):
        self.x[5:] = 3


class Descriptor:
    def __init__(self, x):
        self.x = x

    def __getattr__(self, name):
        if name != "anything":
            raise AttributeError(name)
        self.x[:] = 4
        return 1.0


class Operand:
    __array_ufunc__ = None

    def __init__(self, x):
        self.x = x

    def __rmul__(self, other):
        self.x[:] = 4
        return 1.0

    __radd__ = __mul__ = __rmul__

    def __bool__(self):
        self.x[:] = 4
        return True

    def __iter__(self):
        self.x[:] = 4
        return iter((1, 2))

    def __enter__(self):
        self.x[:] = 4

    def __exit__(self, *_):
        self.x[:] = 5

    def __index__(self):
        self.x[:] = 4
        return 1

    def __len__(self):
        self.x[:] = 6
        return 1


def by_a_getattr(x, thing):
    old = x * 2
    return old * thing.anything


def by_an_operator(x, thing):
    old = x * 2
    thing * 2
    return old


def by_a_reflected_operator(x, thing):
    old = x * 2
    old * thing
    return old


def by_truth(x, thing):
    old = x * 2
    if thing:
        old += 1
    return old


def by_iteration(x, thing):
    old = x * 2
    for part in thing:
        old = old + part
    return old


def by_a_context(x, thing):
    old = x * 2
    with thing:
        new = x * 3
    return old, new


def by_an_index(x, thing):
    old = x * 2
    return old, x[thing]


def by_len(x, thing):
    old = x * 2
    return old, len(thing)


class Convertible:
    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        self.x[:] = 8
        return np.ones(self.x.shape)


def by_a_conversion(x, thing):
    old = x * 2
    new = old + thing
    return old, new


def by_a_sort_key(x, thing):
    old = x * 2
    sorted([1, 2], key=lambda _: thing.__setattr__("y", thing.x.fill(9)) or 0)
    return old


def with_x(make):
    def arguments():
        x = numbers()
        return x, make(x)

    return arguments


@pytest.mark.parametrize(
    ("body", "make"),
    [
        (in_a_list, with_x(lambda x: collections.deque([x]))),
        (in_a_dataclass, with_x(Data)),
        (in_a_dataclass, with_x(lambda x: Data(x[1:]))),
        (in_a_tuple_in_an_object, with_x(lambda x: Data((x, 1)))),
        (by_a_global, fill_global),
        (by_a_call, with_x(Callable)),
        (by_a_call, with_x(lambda x: lambda: x.fill(3))),
        (by_a_callable, with_x(lambda x: [Callable(x)])),
        (by_a_getattr, with_x(Descriptor)),
        (by_a_conversion, with_x(Convertible)),
        *[
            (body, with_x(Operand))
            for body in (
                by_an_operator,
                by_a_reflected_operator,
                by_truth,
                by_iteration,
                by_a_context,
                by_an_index,
                by_len,
                by_a_sort_key,
            )
        ],
    ],
)
def test_an_argument_that_other_code_writes(engine, body, make):
    with pk.engine(engine):
        check(body, make)


# ---- Arrays that left the trace -------------------------------------------------------------------------


class Key:
    def __init__(self, x):
        self.x = x

    def __hash__(self):
        self.x[:] = 4
        return 1

    def __eq__(self, other):
        self.x[:] = 5
        return self is other

    def __index__(self):
        self.x[:] = 6
        return 0

    def __add__(self, other):
        self.x[:] = 7
        return other

    __radd__ = __lt__ = __gt__ = __add__

    def __iter__(self):
        self.x[:] = 8
        return iter((1, 2))


class Changing(type):
    x = None

    def __instancecheck__(cls, _):
        cls.x[:] = 9
        return True

    __subclasscheck__ = __contains__ = __instancecheck__

    def __len__(cls):
        cls.x[:] = 9
        return 3


class Changed(metaclass=Changing):
    pass


class Viewed(np.ndarray):
    def __array_finalize__(self, _):
        if Changing.x is not None:
            Changing.x[:] = 10


def assigned_by_slice(thing):
    items = [1]
    items[:] = thing
    return items


def compared_with_a_sum(thing, x):
    total = x.sum()
    return total < thing


def added_to_a_sum(thing, x):
    total = x.sum()
    total += thing
    return total


RUNS_CODE = {
    "a set": lambda thing, _: ({thing}, 1)[1],
    "a set comprehension": lambda thing, _: ({(each, 1) for each in [thing]}, 1)[1],
    "a set of a list": lambda thing, _: ({*[thing]}, 1)[1],
    "get": lambda thing, _: {1: 2.0}.get(thing, 3.0),
    "setdefault": lambda thing, _: {1: 2.0}.setdefault(thing, 3.0),
    "pop of a dict": lambda thing, _: {1: 2.0}.pop(thing, 3.0),
    "pop of a list": lambda thing, _: [1.0].pop(thing),
    "insert": lambda thing, _: [1.0].insert(thing, 2.0),
    "a slice of a list": lambda thing, _: assigned_by_slice(thing),
    "an operator of a number": lambda thing, x: x.sum() + thing,
    "a comparison of a number": compared_with_a_sum,
    "an operator in place of a number": added_to_a_sum,
    "isinstance": lambda _, x: isinstance(x, Changed),
    "issubclass": lambda *_: issubclass(int, Changed),
    "len of a class": lambda *_: len(Changed),
    "in a class": lambda *_: 1 in Changed,
    "a view": lambda _, x: x[:3].view(Viewed).size,
    "a view of another array": lambda *_: np.ones(3).view(Viewed).size,
    "a class body": lambda thing, x: define(thing, x)(),
}


def define(thing, x):
    class Defined:
        hashed = hash(thing)
        total = x.sum()

    return lambda: Defined.total


@pytest.mark.parametrize("name", RUNS_CODE)
def test_what_runs_code_of_a_class(engine, name, monkeypatch):
    run = RUNS_CODE[name]

    def body(x, thing):
        old, total = x * 2, x.sum()
        result = run(thing, x)
        return old, total, x + 1, result

    def make():
        monkeypatch.setattr(Changing, "x", None)
        x = numbers()
        monkeypatch.setattr(Changing, "x", x)
        return x, Key(x)

    wanted, got = [[function(*make()[:2])[:3] for _ in range(2)] for function in (body, pk.fuse(body))]
    for one, other in zip(got, wanted, strict=True):
        for mine, numpys in zip(one, other, strict=True):
            np.testing.assert_allclose(mine, numpys, rtol=1e-10)


def all_of_a_list(u, items):
    items[:] = [u]
    return items


def one_or_all_of_a_list(u, items):
    items[slice(None) if u[3] < 9 else 0] = [u]
    return items


KEEP_IN_A_LIST = [
    lambda u: all_of_a_list(u, []),
    lambda u: all_of_a_list(u, [1, 2]),
    lambda u: one_or_all_of_a_list(u, []),
    lambda u: 2 * [u],
    lambda u: 2 * (u,),
    lambda u: np.int64(2) * [u],
]


@pytest.mark.parametrize("keep", KEEP_IN_A_LIST)
def test_reads_before_a_write_to_an_array_in_a_list(engine, keep):
    def body(x, model):
        items = keep(model.u)
        old, total = x * 2, x.sum()
        items[0][:] = 3
        return old, total

    check(body, with_x(Model))


OF_A_NUMBER = {
    "+": lambda s: s + 1,
    "-": lambda s: -s,
    ">": lambda s: s > 1,
    "%": lambda s: "%s" % s,  # noqa: UP031
    "sqrt": np.sqrt,
    "maximum": lambda s: np.maximum(s, 1),
    "abs": abs,
    "sum": lambda s: s.sum(),
    "index": lambda s: s[()],
    "T": lambda s: s.T,
    "copy": lambda s: s.copy(),
}


@pytest.mark.parametrize("number", [lambda x: x.max(), lambda x: x[3], lambda x: np.min(x, axis=0)])
@pytest.mark.parametrize("name", OF_A_NUMBER)
def test_operations_of_concrete_numbers_are_no_operations_of_the_trace(engine, name, number):
    of_a_number = OF_A_NUMBER[name]

    def body(x, model):
        model.kept = s = number(x)
        old = x * 2
        of_a_number(s)
        model.u[:] = 3
        return old

    check(body, with_x(Model))


def formatted(x, model):
    old, total = x * 2, x.sum()
    text = "%.3f" % x.max()  # noqa: UP031
    model.u[:] = 3
    return old, total, text


def test_a_formatted_number_is_no_operation_of_the_trace(engine):
    check(formatted, with_x(Model))


def by_built_in_functions(x, model):
    total = x.sum()
    positive = abs(x)
    model.u[:] = -3
    return total, positive


def test_calls_that_the_interpreter_has_specialized(engine):
    fused = pk.fuse(by_built_in_functions)
    for _ in range(20):
        wanted, got = [function(*with_x(Model)()) for function in (by_built_in_functions, fused)]
        for mine, numpys in zip(got, wanted, strict=True):
            np.testing.assert_allclose(mine, numpys, rtol=1e-10)


def test_arrays_that_are_kept_fuse_as_before(engine):
    def body(x, model):
        model.kept = s = x.max()
        e = np.exp(x - s)
        model.u[:] = 3
        return e

    check(body, with_x(Model))
    if engine == "cpu":
        plan = pk.fuse(body).explain(*with_x(Model)())
        assert [each.function for each in plan.passes] == ["max", "subtract, exp"]


def by_maximum(x, y):
    return np.max([x, y], axis=0)


def by_minimum(x, y):
    return np.min((x, y), 0)


def by_all(x, y):
    return np.all([x, y], axis=0)


def by_reduce(x, y):
    return np.logical_xor.reduce([x, y, x])


@pytest.mark.parametrize("reduced", [by_maximum, by_minimum, by_all, by_reduce])
def test_reductions_of_a_list_before_a_write(engine, reduced):
    def body(x, model):
        both = reduced(x, x[::-1])
        model.u[:] = 0
        return both

    check(body, with_x(Model))


def masked_operand(x, y):
    np.maximum(np.ma.array(x, copy=False), 1, out=y, where=x > 0)


def masked_mask(x, y):
    np.add(x, 1, out=y, where=np.ma.array(x > 0, copy=False))


@pytest.mark.parametrize("body", [masked_operand, masked_mask])
def test_where_and_out_with_masked_arrays(engine, body):
    check(body, lambda: (numbers(), np.full(SIZE, 5.0)))


def escaped(leave):
    def body(x):
        y = leave(x)
        total, old = x.sum(), x * 2
        y += 1
        later = x.max()
        y *= 2
        return total, old, later

    return body


def by_flat(x):
    flat = x.flat
    total, old = x.sum(), x * 2
    flat[3] = 9
    return total, old, x.max()


def by_memoryview(x):
    view = memoryview(np.asarray(x))
    total, old = x.sum(), x * 2
    view[3] = 9
    return total, old, x.max()


def by_data(x):
    view = x.data
    total, old = x.sum(), x * 2
    view[3] = 9
    return total, old, x.max()


def by_strides(x):
    y = np.lib.stride_tricks.as_strided(x, (5,), (8,))
    total, old = x.sum(), x * 2
    y[3] = 9
    return total, old, x.max()


def by_nditer(x):
    total, old = x.sum(), x * 2
    for item in np.nditer(x, op_flags=["readwrite"]):
        item[...] = 2
    return total, old


def by_masked_array(x):
    y = np.ma.array(x, copy=False)
    total, old = x.sum(), x * 2
    y[3] = 9
    return total, old, x.max()


def of_a_temporary(x):
    t = x + 1
    y = np.asarray(t)
    total, old = t.sum(), t * 2
    y += 1
    return total, old, t


def of_a_matrix_of_a_temporary(x):
    t = x[::-1] + 1
    y = np.asmatrix(t)
    total = t.sum()
    y[0, :] = 0
    return total, t


ESCAPES = [
    *[
        escaped(leave)
        for leave in (
            np.asarray,
            np.asanyarray,
            np.ascontiguousarray,
            lambda x: np.asarray(x)[::2],
            lambda x: np.array(x, copy=None),
            lambda x: x.view(np.complex128),
            lambda x: x.view(np.complex128).real,
            lambda x: np.asarray(x).reshape(100, -1),
        )
    ],
    *(
        by_flat,
        by_memoryview,
        by_data,
        by_strides,
        by_nditer,
        by_masked_array,
        of_a_temporary,
        of_a_matrix_of_a_temporary,
    ),
]


@pytest.mark.parametrize("body", ESCAPES)
def test_reads_before_a_write_to_an_array_that_left_the_trace(engine, body):
    with pk.engine(engine):
        check(body, lambda: (numbers(),))


def by_time(x):
    y = x.view("M8[s]")
    total, old = x.sum(), x * 2
    y[3] = np.datetime64("1970-01-02")
    return total, old, x.max()


def test_reads_before_a_write_to_a_view_of_another_type(engine):
    with pk.engine(engine):
        check(by_time, lambda: (np.arange(SIZE),))


def by_fields(x):
    y = x.view([("a", "f8"), ("b", "f8")])
    total, old = x.sum(), x * 2
    y["b"] = 4
    return total, old, x.max()


def by_a_matrix(x):
    y = np.asmatrix(x)
    total, old = x.sum(), x * 2
    y[0, 3] = 4
    return total, old, x.max()


def by_a_subclass(x):
    y = x.view(np.matrix)
    total, old = x.sum(), x * 2
    y[0, 3] = 4
    return total, old, x.max()


@pytest.mark.parametrize("body", [by_fields, by_a_matrix, by_a_subclass])
def test_reads_before_a_write_to_a_view_of_another_class(engine, body):
    with pk.engine(engine):
        check(body, lambda: (numbers(),))


# ---- Arguments that share memory ------------------------------------------------------------------------


def write_first(a, b):
    total, old = b.sum(), b * 2
    a[3] = 9
    return total, old, b.max()


def write_second(a, b):
    b += 1
    old = b * 2
    total = a[3]
    b *= 3
    return np.asarray(total).real, old, np.abs(a[4])


def a_complex_array():
    z = numbers() + 1j
    return z, z.real


def a_subclass():
    class Own(np.ndarray):
        pass

    x = numbers()
    return x.view(Own), x


def a_masked_array():
    x = numbers()
    return np.ma.array(x, copy=False), x


def a_view_of_itself():
    x = numbers()
    return x[:-1], x[1:]


def another_type():
    x = np.zeros(SIZE)
    return x, x.view(np.int64)


@pytest.mark.parametrize(
    "make", [a_complex_array, a_subclass, a_masked_array, a_view_of_itself, another_type]
)
@pytest.mark.parametrize("body", [write_first, write_second])
def test_arguments_that_share_memory(engine, body, make):
    with pk.engine(engine):
        check(body, make)


def write_fields(s, a):
    total, old = a.sum(), a * 2
    s["a"][3] = 9
    a *= 2
    return total, old, s["a"][3:5].copy()


def test_an_array_of_records_and_its_field(engine):
    def make():
        s = np.zeros(SIZE, [("a", "f8"), ("b", "f8")])
        s["a"] = numbers()
        return s, s["a"]

    def check_fields(body):
        wanted, got = make(), make()
        results = body(*wanted), pk.fuse(body)(*got)
        for one, other in zip(*map(arrays_in, results), strict=True):
            np.testing.assert_allclose(one, other)
        np.testing.assert_array_equal(wanted[1], got[1])

    with pk.engine(engine):
        check_fields(write_fields)


def write_bytes(b, x):
    total, old = x.sum(), x * 2
    b[:8] = b"\0" * 8
    return total, old


def test_a_bytearray_of_an_argument(engine):
    def make():
        b = bytearray(numbers().tobytes())
        return b, np.frombuffer(b)

    with pk.engine(engine):
        check(write_bytes, make)


# ---- Still fused -----------------------------------------------------------------------------------------


def chain(x):
    y = x * 2 + 1
    y = np.sqrt(np.abs(y)) - x
    y[1:-1] *= 0.5
    return y


def helper(x, k):
    return np.exp(-x) * k


def with_helpers(x):
    parts = [helper(x, k) for k in range(3)]
    return sum(parts) + helper(x, 2)


@pytest.mark.parametrize(
    ("body", "make"),
    [
        (chain, lambda: (numbers(),)),
        (with_helpers, lambda: (numbers(),)),
        (Model.plain_attributes, a_model),
    ],
)
def test_functions_without_risky_instructions_fuse_as_before(engine, body, make, monkeypatch):
    fused = pk.fuse(body)
    with pk.engine("cpu" if engine == "auto" else engine):
        passes = len(fused.explain(*make()).passes)
        assert fused._traced.analyses[0].is_pure
        monkeypatch.setattr(type(fused._traced), "_analysis_of", lambda *_: None)
        assert passes == len(fused.explain(*make()).passes)


def test_without_the_flush_numbers_are_wrong(monkeypatch):
    monkeypatch.setattr("pycudakit.fusing.trace.traced_values.TracedValues.flush", lambda _: None)
    with pk.engine("cpu"), pytest.raises(AssertionError):
        check(Model.through_attribute, a_model)


MAY_SHARE = """
data.a.astype(x.dtype, copy=False)     data.a.astype(x.dtype, 'K', 'unsafe', True, False)
np.array(data.a, copy=None)     np.asarray(data.a)     np.atleast_1d(data.a)     np.ravel(data.a)
np.reshape(data.a, -1)     np.squeeze(data.a)     np.nan_to_num(data.a, copy=False)
np.nan_to_num(data.a, False)     np.split(data.a, 1)[0]     np.array_split(data.a, 1)[0]
np.hsplit(data.a, 1)[0]     np.broadcast_arrays(data.a)[0]     np.astype(data.a, data.a.dtype, copy=False)
np.expand_dims(data.a, 0)[0]     np.flip(data.a)     np.moveaxis(data.a, 0, 0)
np.rot90(data.a[None])[:, 0]     np.trim_zeros(data.a)     np.transpose(data.a)     np.swapaxes(data.a, 0, 0)
np.rollaxis(data.a, 0)     np.lib.stride_tricks.sliding_window_view(data.a, 1, writeable=True)[:, 0]
data.a.ravel()     data.a.view()     data.a.reshape(-1)     data.a[:]     data.a.real     np.copy(data.a)
"""


@pytest.mark.parametrize("form", re.split(r"\s{2,}|\n", MAY_SHARE.strip()))
def test_reads_before_a_write_by_a_view_of_an_attribute(engine, form):
    """`data.a` is the argument that `options` has, and not an argument itself."""
    if "np.astype" in form and not hasattr(np, "astype"):
        pytest.skip("is newer than this NumPy")
    names = {"np": np}
    exec(
        f"""
def body(x, data, options):
    view = {form}
    before = options["k"].sum()
    chosen = x > 2
    view[chosen] = 0
    return before, chosen.sum()
""",
        names,
    )
    body = names["body"]

    def arguments():
        x = np.arange(1200) * 7 % 23 + 1
        return x, types.SimpleNamespace(a=x), {"k": x}

    for _ in range(3):
        result, expected = pk.fuse(body)(*arguments()), body(*arguments())
        assert [int(each) for each in result] == [int(each) for each in expected]


@pytest.mark.parametrize("operator", ["masked + y", "y + masked", "masked * y"])
def test_reads_before_an_operator_of_a_masked_array(engine, operator):
    """Its operators read `y`, and record nothing."""
    names = {"np": np}
    exec(
        f"""
def body(x, y, data):
    masked = np.ma.array(y * 2, copy=False)
    before = x + 1
    made = {operator}
    np.copyto(data.a, 4)
    return before, np.ma.getdata(made)
""",
        names,
    )
    body = names["body"]

    def arguments():
        x = np.arange(20_000.0)
        return x, np.ones(20_000), types.SimpleNamespace(a=x)

    for _ in range(2):
        for got, expected in zip(pk.fuse(body)(*arguments()), body(*arguments()), strict=True):
            np.testing.assert_array_equal(got, expected)


CONVERSIONS = {
    "array": lambda x: np.array(x),  # noqa: PLW0108
    "array of a list": lambda x: np.array([x, x + 1]),
    "asarray": lambda x: np.asarray(x, "f4"),
    "ascontiguousarray": lambda x: np.ascontiguousarray(x[::-1]),
    "asfortranarray": lambda x: np.asfortranarray(x.reshape(2, -1)),
    "require": lambda x: np.require(x[::2], None, "C"),
    "astype": lambda x: x.astype("f4"),
    "r_": lambda x: np.r_[x, 1.0],
    "maximum": lambda x: np.max([x, x * 2], axis=0),
}


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_conversions_before_a_write_by_another_way(engine, conversion):
    convert = CONVERSIONS[conversion]

    def body(x, model):
        old = convert(x)
        model.change()
        return old, x

    def make():
        x = numbers()
        return x, Model(x)

    check(body, make)
