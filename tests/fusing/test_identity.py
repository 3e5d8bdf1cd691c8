"""In the body of a fused function, arrays and numbers are the objects that NumPy has; so are the answers."""

import collections.abc
import functools
import importlib
import warnings

import numpy as np
import pytest
from helpers.nested import assert_parts

import pycudakit as pk
from pycudakit.fusing import escape

SIZE = 20_000


@pytest.fixture
def x():
    return np.linspace(-1, 1, SIZE).copy()  # which owns its memory


def outcome(function, x):
    """Return a function's result, or its error's type and message, and its warnings."""
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        try:
            result = function(x)
        except Exception as error:  # noqa: BLE001
            result = type(error), str(error)
    return result, [(one.category, str(one.message)) for one in met]


def assert_same(got, want):
    assert_parts(got, want, assert_same_part)


def assert_same_part(got, want):
    assert type(got) is type(want)
    if isinstance(want, (np.ndarray, np.generic)):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    else:
        assert got == want


def check(function, x):
    (want, warned), (got, warned_too) = outcome(function, x.copy()), outcome(pk.fuse(function), x.copy())
    assert_same(got, want)
    assert warned_too == warned


GLOBAL = np.linspace(-1, 1, SIZE).copy()


def is_the_global(x, kept):
    kept.append(GLOBAL)
    return x is GLOBAL, x[1:].base is GLOBAL


def test_a_global_that_is_also_an_argument_is_one_object(engine):
    kept = []
    assert pk.fuse(is_the_global)(GLOBAL, kept) == (True, True)
    assert kept[0] is GLOBAL


# ---- Which object it is ------------------------------------------------------------------------------


def are_themselves(x):
    y = x + 1
    return [
        *(x.squeeze() is x, np.squeeze(y) is y, x[None].squeeze() is x),
        *(np.atleast_1d(x) is x, np.atleast_2d(x) is x, np.atleast_3d(y) is y),
        *(x.real is x, x.conj() is x, np.broadcast_arrays(x, y)[0] is x),
        *(x.ravel() is x, x.T is x, x.view() is x, x.reshape(x.shape) is x),
    ]


def first_power(x):
    matrix = x.reshape(10, 20, 100)[:, :, :20]
    power = np.linalg.matrix_power(matrix, np.int8(1))
    power[0, 0, 0] = 7
    return power is matrix, power, np.linalg.matrix_power(matrix, 2) is matrix, x.sum()


def test_the_first_power_is_the_matrix(engine, x):
    function, ours = pk.fuse(first_power), x.copy()
    for _ in range(4):
        numpys = ours.copy()
        assert_same(function(ours), first_power(numpys))
        np.testing.assert_array_equal(ours, numpys)
    square = np.eye(3)
    assert pk.linalg.matrix_power(square, 1) is square
    assert pk.fuse(lambda a: np.linalg.matrix_power(a, 1))(square) is square


def bases(x):
    y = x + 1
    squares = y.reshape(100, -1)
    return [
        *(x.base is None, x[1:].base is x, x[1:][::2].base is x, x[:, None].base is x),
        *(y.base is None, y[1:].base is y, squares.base is y, squares[3].T.base is y),
        *(np.split(y, 2)[1].base is y, x.view(np.int64).base is x, (x[1:] + 1).base is None),
    ]


def shared_memory(x):
    y = x * 2
    return [
        *(np.shares_memory(x[::2], x[1::2]), np.shares_memory(x[::2], x[2::2])),
        *(np.may_share_memory(x[::2], x[1::2]), np.may_share_memory(x[:10], x[10:])),
        *(np.shares_memory(x, y), np.shares_memory(y[3:], y[:4]), np.shares_memory(y[3:], y[:3])),
    ]


def lengths(x):
    number = x.max()
    return [
        *(hasattr(number, "__len__"), hasattr(x, "__len__"), hasattr(x.reshape(2, -1), "__len__")),
        *(isinstance(x, collections.abc.Sized), np.iterable(number), len(x), len(x[:, None])),
    ]


def length_of_a_number(x):
    return len(x.max())


def slices_and_numbers(x):
    number = x.max()
    results = x[1:], x[1:], number, number, x.max()
    return results[0] is results[1], results[2] is results[3], results


@pytest.mark.parametrize("function", [are_themselves, bases, shared_memory, lengths, slices_and_numbers])
def test_objects(engine, x, function):
    check(function, x)


def test_length_of_a_number(engine, x):
    with pytest.raises(TypeError, match=r"object of type 'numpy.float64' has no len\(\)"):
        pk.fuse(length_of_a_number)(x)


def test_results_are_the_objects_of_the_body(engine, x):
    @pk.fuse
    def body(u):
        for _ in range(5):  # from the third write on, with a second buffer
            u[1:-1] += u[2:] - u[:-2]
        number = u.max()
        return u[1:], u[1:], number, number, u

    first, second, number, same_number, u = body(x)
    assert u is x
    assert first is not second
    assert first.base is second.base is x
    assert number is same_number


def test_base_of_arguments(engine, x):
    def body(whole, part):
        return part.base is whole, part[1:].base is whole, whole.base is None

    assert pk.fuse(body)(x, x[1:]) == body(x, x[1:]) == (True, True, True)
    assert pk.fuse(lambda part: part.base)(x[1:]) is x


OWNERS = {
    "sum": lambda x: x.sum(axis=0),
    "keepdims": lambda x: x.mean(axis=1, keepdims=True),
    "argmax": lambda x: (x + 1).argmax(axis=1),
    "several": lambda x: (x.min(axis=0), x.max(axis=0)),
    "sum and its slice": lambda x: [s := x.sum(axis=0), s[1:]],
    "concatenate": lambda x: np.concatenate([x, x]),
    "stack in Fortran order": lambda x: np.stack([x.T, x.T]),
    "elementwise": lambda x: x * 2,
    "scan": lambda x: np.cumsum(x, axis=1),
    "copy": lambda x: (x.copy(), x.T.copy("K"), x.flatten()),
    "astype": lambda x: x.astype("f4"),
    "repeat": lambda x: (np.repeat(x, 2), np.repeat(x, 2, axis=1)),
    "dot": lambda x: np.dot(x, x.T),
    "pycudakit's functions": lambda x: (pk.dot(x, x.T), pk.repeat(x, 2)),
}


@pytest.mark.parametrize("name", OWNERS)
def test_results_own_their_memory(engine, x, name):
    def owners(function):
        results = function(x.reshape(100, -1))
        results = results if isinstance(results, (list, tuple)) else [results]
        return [each.flags.owndata for each in results]

    expected = owners(OWNERS[name])
    fused = pk.fuse(OWNERS[name])
    assert [owners(fused) for _ in range(4)] == [expected] * 4
    with pk.engine("auto"):
        fused = pk.fuse(OWNERS[name])
        assert [owners(fused) for _ in range(4)] == [expected] * 4


@pytest.mark.parametrize("name", OWNERS)
def test_results_from_a_fake_gpu_own_their_memory(small_gpu, x, name):
    results = pk.fuse(OWNERS[name])(x.reshape(100, -1))
    expected = OWNERS[name](x.reshape(100, -1))
    are_many = isinstance(expected, (list, tuple))
    pairs = zip(results, expected, strict=True) if are_many else [(results, expected)]
    assert all(one.flags.owndata == other.flags.owndata for one, other in pairs)


# ---- Answers, and NumPy's errors and warnings --------------------------------------------------------

ANSWERS = {
    "full_like of nan": lambda x: np.full_like(x.astype(int), np.nan),
    "full_like of floats": lambda x: (np.full_like(x.astype(int), 2.7), np.full_like(x.astype(int), x * 9)),
    "full_like of too much": lambda x: np.full_like(x.astype("i1"), 300),
    "full_like of text": lambda x: np.full_like(x, "3"),
    "full of nan": lambda x: np.full(x.shape, np.nan, int),
    "dtype object": lambda x: np.add(x.astype(int)[:50], 1, dtype=object).tolist(),
    "dtype complex": lambda x: np.add(x, 1, dtype=complex),
    "axes with a bool": lambda x: x.reshape(2, -1).sum(axis=(0, True)),
    "axes with NumPy's bool": lambda x: np.max(x.reshape(2, -1), axis=(0, np.True_)),
    "zeros_like elsewhere": lambda x: np.zeros_like(x, device="gpu"),
    "full_like elsewhere": lambda x: np.full_like(x, 3, device="gpu"),
    "zeros elsewhere": lambda _: np.zeros(3, device="gpu"),
    "ones_like here": lambda x: np.ones_like(x, device="cpu"),
    "sum of large numbers": lambda x: x.astype(int).max() + np.iinfo(int).max,
    "product of small numbers": lambda x: (x.astype("i1").max() + 126) * np.int8(2),
    "negative of nothing": lambda x: -((x > 2).astype("u1")[0] + 1),
    "difference": lambda x: (x > 2).astype("u1")[3] - np.uint8(1),
    "power": lambda x: (x.astype("i2").max() * 200) ** 3,
    "numbers in place": lambda x: functools.reduce(lambda a, b: a * b, [x.astype("i8").max() + 9] * 50),
    "keepdims of text": lambda x: x.reshape(2, -1).sum(axis=0, keepdims="a"),
    "keepdims of an integer": lambda x: x.reshape(2, -1).max(axis=0, keepdims=3),
    "no degrees of freedom": lambda x: x.var(ddof=None),
    "take to complex numbers": lambda x: np.take(x, [1], out=np.zeros(1, complex)),
    "compared beyond 64 bits": lambda x: [
        np.equal(x.astype(int), 2**70, casting=casting) for casting in ("no", "equiv", "safe", "unsafe")
    ],
    "no overflow": lambda x: [x.astype(int).max() + 1, x.astype(int).max() * 2.5, x.astype("i1").sum() // 2],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(engine, x, name):
    check(ANSWERS[name], x)


def test_errstate_of_numbers(engine, x):
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="scalar add"):
        pk.fuse(lambda x: x.astype(int).max() + np.iinfo(int).max)(x)


# ---- Containers --------------------------------------------------------------------------------------


class Result(tuple):
    """A result of which one part is an attribute, as SciPy's are."""

    _fields = ("first", "second")

    def __new__(cls, first, second, *, error):
        self = super().__new__(cls, (first, second))
        self.error = error
        return self


def test_tuples_with_another_constructor(engine, x):
    result = pk.fuse(lambda x: Result(x * 2, x.max(), error=3))(x)
    assert type(result) is Result
    np.testing.assert_array_equal(result[0], x * 2)
    assert (type(result[1]), result[1], result.error) == (np.float64, 1, 3)
    given = Result(x, 2, error=4)
    doubled, error, is_same = pk.fuse(lambda pair: (pair[0] * 2, pair.error, type(pair) is Result))(given)
    np.testing.assert_array_equal(doubled, x * 2)
    assert (error, is_same) == (4, True)
    assert pk.fuse(lambda pair: pair)(given)[0] is x


@pytest.mark.parametrize("name", ["ttest_ind", "pearsonr", "linregress", "ks_2samp"])
def test_results_of_scipy(engine, x, name):
    test = getattr(pytest.importorskip("scipy.stats"), name)
    got = pk.fuse(lambda x: test(x, x * x))(x)
    want = test(x, x * x)
    assert type(got) is type(want)
    np.testing.assert_allclose(got, want)
    assert vars(got).keys() == vars(want).keys()


def test_containers_that_contain_themselves(engine, x):
    def body(x, parts, table):
        parts.append(x * 2)
        table["new"] = parts
        return parts, table, ([parts], x)

    given, table = [x], {"x": x}
    given.append(given)
    table["table"] = (table, given)
    parts, same_table, ([inner], same_x) = pk.fuse(body)(x, given, table)
    assert parts is given is inner
    assert same_table is table
    assert same_x is x
    assert [type(each) for each in given] == [np.ndarray, list, np.ndarray]
    assert given[0] is x
    assert given[1] is given
    np.testing.assert_array_equal(given[2], x * 2)
    assert table["table"] == (table, given)
    assert table["new"] is given


def test_new_containers_that_contain_themselves(engine, x):
    @pk.fuse
    def body(x):
        parts = [x * 2]
        table = {x.max(): parts, "pair": (parts, x + 1)}
        parts.append(table)
        return table

    table = body(x)
    parts = table[1.0]
    assert [type(key) for key in table] == [np.float64, str]
    assert parts[1] is table
    assert table["pair"][0] is parts
    np.testing.assert_array_equal(parts[0], x * 2)
    np.testing.assert_array_equal(table["pair"][1], x + 1)


def test_deeply_nested_tuples(engine, x):
    def nested(value):
        for _ in range(2000):
            value = (value,)
        return value

    def inner(value):
        while type(value) is tuple:
            (value,) = value
        return value

    got = pk.fuse(lambda deep: nested(inner(deep) * 2))(nested(x))
    np.testing.assert_array_equal(inner(got), x * 2)

    nothing, pair = nested(()), (1,)
    for _ in range(60):
        pair = pair, pair
    for _ in range(3):  # of a function that is replayed
        np.testing.assert_array_equal(doubled(x, nothing), x * 2)
        np.testing.assert_array_equal(doubled(x, pair), x * 2)


@pk.fuse
def doubled(x, _):
    return x * 2


class Visited:
    """A number that counts how often it is looked at."""

    looks = 0

    def __getattribute__(self, name):
        Visited.looks += 1
        return super().__getattribute__(name)


@pytest.mark.parametrize("kind", [list, tuple, dict.fromkeys])
def test_long_containers_are_not_walked(engine, x, kind):
    long = kind([Visited() for _ in range(1500)])
    fused = pk.fuse(lambda x, long: (x * len(long), long))
    fused(x, long)
    Visited.looks = 0
    result, same = fused(x, long)
    np.testing.assert_array_equal(result, x * 1500)
    assert same is long
    assert Visited.looks == 0


def test_arrays_in_long_containers(engine, x):
    def body(x, long):
        long[0] += x
        long.append(x * 2)
        return long[1] * 2, long

    arrays, numpys = ([x + i for i in range(1500)] for _ in range(2))
    twice, same = pk.fuse(body)(x, arrays)
    want, _ = body(x, numpys)
    assert same is arrays
    np.testing.assert_array_equal(twice, want)
    for index in (0, 1, -1):
        assert type(arrays[index]) is np.ndarray
        np.testing.assert_array_equal(arrays[index], numpys[index])


class Node:
    reads = 0

    @property
    def __dict__(self):
        Node.reads += 1
        return {}


class Holder:
    pass


def test_the_search_for_tracers_ends_with_the_last(engine, x):
    holder = Holder()
    holder.others = [Node() for _ in range(900)]

    def step(holder, x):
        holder.result = x * 2
        return x + 1

    fused = pk.fuse(step)
    fused(holder, x)
    Node.reads = 0
    fused(holder, x)
    assert type(holder.result) is np.ndarray
    np.testing.assert_array_equal(holder.result, x * 2)
    assert Node.reads == 0


def test_the_search_for_tracers_leaves_long_containers_to_the_end(engine, x, monkeypatch):
    holder = Holder()
    holder.others, holder.history = [Holder() for _ in range(3000)], []

    def step(holder, x):
        holder.history.append(x * 2)
        holder.result = x * 3
        return x + 1

    parts, searched = escape._parts, []
    monkeypatch.setattr(escape, "_parts", lambda each: searched.append(each) or parts(each))
    pk.fuse(step)(holder, x)
    assert_same([holder.history, holder.result], [[x * 2], x * 3])
    assert not any(each is holder.others for each in searched)


def test_what_is_kept_in_long_containers(engine, x):
    def step(nested, names, x):
        nested[0][1700] = x * 2
        nested[1]["kept"] = (x - 1, [x + 3])
        nested[0].append(names)
        return x + 1

    long, table, names = [None] * 2500, dict.fromkeys(range(1500)), [x]
    pk.fuse(step)([long, table], names, x)
    assert_same([long[1700], table["kept"]], [x * 2, (x - 1, [x + 3])])
    assert long[-1] is names


# ---- Types, and functions of others ------------------------------------------------------------------


def is_array(value):
    return type(value) is np.ndarray


def named(value, others):
    return [type(each).__name__ for each in (value, *others)]


def types(x):
    def inner(value):
        return type(value)

    number = x.max()
    return [
        *(type(x) is np.ndarray, type(x + 1) is np.ndarray, type(number) is np.float64),
        *(type(type) is type, isinstance(np.ndarray, type), isinstance(x, type), issubclass(type(int), type)),
        *(
            inner(x) is np.ndarray,
            [type(each) for each in (x, number, None, "")] == [np.ndarray, np.float64, type(None), str],
        ),
        *(is_array(x), is_array(x[1:]), is_array(number), named(x, others=[number, (x,)])),
    ]


def conversions(x):
    y = x + 1
    return [
        *(np.asarray(x) is x, np.asanyarray(y) is y, np.ascontiguousarray(x) is x, np.require(x) is x),
        *(np.require(x, requirements="W") is x, np.require(y, None, ["A", "C_CONTIGUOUS"]) is y),
        *(np.require(y[::2], "f8", "C").flags.owndata, np.require(y[::2], requirements="A").flags.owndata),
        *(
            np.array(x, copy=False) is x,
            np.asarray(x, float) is x,
            np.asarray(x, "f4") is x,
            np.array(x) is x,
        ),
        *(np.asarray(x[::2]), np.ascontiguousarray(x[::2]), np.asarray(x.max()), np.asarray(x, "f4")),
        *(np.asfortranarray(x.reshape(2, -1)).strides, np.array(x.reshape(2, -1).T, order="C").strides),
    ]


def through_memory(x):
    y = np.asarray(x)
    total = y.sum()
    memoryview(y)[0] = 7
    part = np.frombuffer(x[:3])
    every_second = np.ndarray(3, x.dtype, buffer=x[1:], strides=(16,))
    every_second += 1
    return total, x.sum(), y[:2] * 2, part, bytes(memoryview(x[:2])), len(bytearray(y)), every_second


KEPT = []


def keeps(value):
    KEPT.append(value)
    return value


def is_kept(x):
    y = x * 2
    same = keeps(y)
    y += 1
    return same is y, KEPT.pop()[:3]


@pytest.mark.parametrize("function", [types, conversions, through_memory, is_kept])
def test_types(engine, x, function):
    check(function, x)


def test_a_replaced_code(engine, x):
    def body(x):
        return np.zeros(3) + 1, x * 2

    def other(x):
        return type(x) is np.ndarray, x.sum()

    fused = pk.fuse(body)
    fused(x)
    body.__code__ = other.__code__
    for _ in range(2):
        assert_same(fused(x), other(x))


GENERATOR = np.random.default_rng(3)


def restart():
    GENERATOR.bit_generator.state = np.random.default_rng(3).bit_generator.state
    np.random.seed(3)  # noqa: NPY002


def fills(x):
    GENERATOR.random(out=x)
    return x


def shuffles(x):
    rows, more = x.reshape(100, -1) + 1, x.reshape(10, -1) * 2
    GENERATOR.shuffle(rows, axis=1)
    GENERATOR.shuffle(rows)
    np.random.shuffle(more)  # noqa: NPY002
    return rows, more, GENERATOR.permutation(x)


def seeds(x):
    k = np.abs(x[:3] * 100).astype(int)
    return np.random.default_rng(k).random(3), np.random.Generator(np.random.PCG64(k)).random(3)


@pytest.mark.parametrize("function", [fills, shuffles, seeds])
def test_generators_that_are_no_arguments(engine, x, function):
    restart()
    want = function(x.copy())
    restart()
    got = pk.fuse(function)(x.copy())
    assert_same(got, want)


@pytest.mark.parametrize("name", ["label", "interpolated", "cut", "listed", "of_generators"])
def test_other_packages_get_arrays(engine, x, name):
    scipy = pytest.importorskip("scipy")
    pandas = pytest.importorskip("pandas") if name == "cut" else None
    importlib.import_module("scipy.ndimage")
    interpolate = importlib.import_module("scipy.interpolate").RegularGridInterpolator

    def label(x):
        regions, count = scipy.ndimage.label(np.sin(x * 20) > 0)
        return regions * 2, count, x.sum()

    def interpolated(x):
        return interpolate((x,), x * x)(np.asarray(x[3:9, None]))

    def cut(x):
        return np.asarray(pandas.cut(x[:100], 3).codes) + 1

    def listed(x):
        parts = [x, x * 2]
        smooth = scipy.ndimage.gaussian_filter1d(parts, 2)
        return smooth * x, parts[0] is x, parts[1] + 1

    def of_generators(x):
        draws = scipy.stats.norm.rvs(size=x.size, random_state=0)
        return draws * x

    importlib.import_module("scipy.stats")
    check(locals()[name], x)


def test_calls_of_other_packages_are_breaks(engine, x):
    ndimage = pytest.importorskip("scipy.ndimage")
    plan = pk.fuse(lambda x: ndimage.label(x > 0)[1] * x).explain(x)
    assert [one.operation for one in plan.breaks] == ["scipy.label()"]


def test_memmaps_are_memmaps(engine, x, tmp_path):
    def body(m):
        part = m[1:]
        plain = np.asarray(m)
        part += 1
        m.flush()
        types = [type(each) for each in (m, part, plain, m + 1, m.sum(axis=0), m[:, None].T)]
        names = (
            m.filename,
            m.mode,
            part.offset,
            isinstance(part, np.memmap),
            np.asanyarray(m) is m,
            plain is m,
        )
        return m, part, plain, m * 2, types, names

    outcomes = []
    for name, function in (("ours", pk.fuse(body)), ("numpys", body)):
        path = tmp_path / name
        x.tofile(path)
        given = np.memmap(path, dtype=x.dtype, mode="r+")
        result = function(given)
        assert result[0] is given
        np.testing.assert_array_equal(np.fromfile(path), np.append(x[:1], x[1:] + 1))
        assert result[5][0] == given.filename
        outcomes.append((*result[1:5], result[5][1:], result[1].filename == given.filename, result[1].mode))
    assert_same(*outcomes)
    part = pk.fuse(lambda m: m[2:])(given)
    part[0] = 5
    part.flush()
    assert np.fromfile(path)[2] == 5


# ---- Subclasses beside traced arrays -----------------------------------------------------------------


def joined_with_masked_arrays(x):
    y = np.ma.masked_greater(x + 1, 1.5)
    return [np.concatenate([x, y]), np.stack([y, x]), np.append(x, y), np.hstack([x, y]), np.block([x, y])]


def operators_with_masked_arrays(x):
    y = np.ma.masked_greater(np.round(x), 0.5)
    return [x + y, y - x, x * y, x / y, x // y, x == y, y < x, x.sum() * y]


def operators_with_matrices(x):
    matrix = np.asmatrix(x[:16].reshape(4, 4))
    return [x[:16].reshape(4, 4) * matrix, matrix + x[:4], x[:4] @ matrix, x.max() * matrix]


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize(
    "body", [joined_with_masked_arrays, operators_with_masked_arrays, operators_with_matrices]
)
def test_operators_and_joins_with_subclasses(engine, x, body):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        wanted, got = body(x.copy()), pk.fuse(body)(x.copy())
    for one, other in zip(got, wanted, strict=True):
        assert type(one) is type(other)
        np.testing.assert_allclose(np.ma.getdata(one), np.ma.getdata(other), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(np.ma.getmaskarray(one), np.ma.getmaskarray(other))


def numbers_beside_others(x):
    return [np.array([x.max(), "a"]), np.array([x.max(), None]), np.array([x.size, x.min()], dtype=object)]


def test_arrays_of_numbers_and_other_objects(engine, x):
    for mine, numpys in zip(
        pk.fuse(numbers_beside_others)(x.copy()), numbers_beside_others(x.copy()), strict=True
    ):
        assert mine.dtype == numpys.dtype
        assert mine.tolist() == numpys.tolist()
        assert list(map(type, mine)) == list(map(type, numpys))


def test_take_of_a_masked_array(engine):
    def body(x):
        return np.take(np.ma.array(x, copy=False), np.arange(5))

    x = np.arange(9.0)
    assert type(pk.fuse(body)(x)) is type(body(x)) is np.ma.MaskedArray
