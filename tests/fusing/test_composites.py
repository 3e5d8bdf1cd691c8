"""Composite NumPy functions give NumPy's results for many kinds of arrays, by the expected passes."""

import numpy as np
import pytest
from fusing.bodies import SIZES, flat, pool
from helpers.strategies import assert_values, outcome
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk


def int64s(draw, *shape):
    return np.array(
        draw(st.lists(st.integers(-9, 9), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))),
        np.int64,
    ).reshape(shape)


@st.composite
def arrays(draw, most=3):
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=most))
    array = int64s(draw, *shape)
    return array.transpose(draw(st.permutations(range(array.ndim))))[:: draw(st.sampled_from([1, -1, 2]))]


def places(length):
    one = st.integers(-length - 1, length + 1)
    ends = st.none() | one
    slices = st.builds(slice, ends, ends, st.sampled_from([None, 1, -1, 2, -3]))
    return one | slices | st.lists(one, max_size=5)


def same(function, *arguments):
    """Compare a function, fused and not: its results, their memory order, and its exceptions."""
    got = outcome(pk.fuse(function), *arguments)
    want = outcome(function, *arguments)
    assert got[0] == want[0], (got[1], want[1])
    if got[0] == "error":
        assert (type(got[1]), str(got[1])) == (type(want[1]), str(want[1]))
        return
    for mine, theirs in zip(flat([got[1]]), flat([want[1]]), strict=True):
        assert_values(mine, theirs)
        assert not mine.size or mine.strides == theirs.strides


@given(st.data())
def test_delete_and_insert(engine, data):
    a = data.draw(arrays())
    axis = data.draw(st.none() | st.integers(-a.ndim, a.ndim - 1))
    length = a.size if axis is None else a.shape[axis]
    at = data.draw(places(length))
    same(lambda a: np.delete(a, at, axis), a)
    values = data.draw(st.integers(-9, 9) | arrays(1) | st.just(a) | st.just(a[:1]))
    same(lambda a, values: np.insert(a, at, values, axis), a, values)


@given(st.data())
def test_blocks(engine, data):
    heights, widths = (data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)) for _ in range(2))
    order = st.sampled_from([np.ascontiguousarray, np.asfortranarray, lambda a: a, lambda a: a[::-1]])
    blocks = [[data.draw(order)(int64s(data.draw, n, m)) for m in widths] for n in heights]
    same(lambda blocks: np.block(blocks), blocks)  # noqa: PLW0108  (fused, it has other globals)
    same(lambda blocks: np.block(blocks[0]), blocks)
    same(lambda blocks: np.maximum.reduce([blocks[0][0], blocks[0][0][::-1] + 1, blocks[-1][-1]]), blocks)


@given(st.data())
def test_grids_and_rolls(engine, data):
    lines = data.draw(st.lists(arrays(1), max_size=3))
    keywords = {
        "copy": data.draw(st.booleans()),
        "sparse": data.draw(st.booleans()),
        "indexing": data.draw(st.sampled_from(["xy", "ij"])),
    }
    same(lambda *lines: np.meshgrid(*lines, **keywords), *lines)
    a = data.draw(arrays())
    axes = data.draw(st.lists(st.integers(-a.ndim, a.ndim - 1), min_size=1, max_size=3))
    by = data.draw(st.integers(-5, 5) | st.lists(st.integers(-5, 5), min_size=len(axes), max_size=len(axes)))
    same(lambda a: np.roll(a, by, axes), a)
    shape = data.draw(st.lists(st.integers(0, 5), max_size=3))
    same(lambda a: np.resize(a, shape), a)


@given(st.data())
def test_choices(engine, data):
    count = data.draw(st.integers(2, 5))
    shape = data.draw(st.sampled_from([(6,), (2, 3), (1, 6)]))
    which = int64s(data.draw, *shape)
    choices = [
        data.draw(st.just(3) | st.just(2.5) | st.just(int64s(data.draw, *shape))) for _ in range(count)
    ]
    mode = data.draw(st.sampled_from(["raise", "wrap", "clip"]))
    same(lambda which, choices: np.choose(which, choices, mode=mode), which, choices)


ONE_PASS = {
    "maximum": lambda x, y: np.maximum.reduce([x, y, x * y]),
    "max": lambda x, y: np.max([x, y + 1], axis=0),
    "choose": lambda x, y: np.choose(x > y, [x * 2, y]),
    "polyval": lambda x, y: np.polyval([1.0, 2.0, 3.0], x) + y,
}


@pytest.mark.parametrize("name", ONE_PASS)
def test_one_pass(engine, name):
    if engine == "auto":
        pytest.skip("passes are told of a named engine")
    x, y = pool(SIZES[1])["x"], pool(SIZES[1])["y"]
    plan = pk.fuse(ONE_PASS[name]).explain(x, y)
    assert (len(plan.passes), plan.breaks) == (1, ())


def test_meshgrid_is_read_where_it_is(engine):
    if engine == "auto":
        pytest.skip("passes are told of a named engine")

    @pk.fuse
    def body(x, y):
        columns, rows = np.meshgrid(x, y)
        return columns * columns + rows * rows

    plan = body.explain(np.arange(300.0), np.arange(200.0))
    assert [one.shape for one in plan.passes] == [(200, 300)]


def test_meshgrid_is_a_copy(engine):
    @pk.fuse(strict=True)
    def body(x, y):
        columns, rows = np.meshgrid(x, y)
        x[0] = 7
        rows[0, 0] = 3
        y[1] = columns[0, 0]
        return columns, rows, columns + rows

    given = [(np.arange(300.0), np.arange(200.0)) for _ in range(2)]
    for mine, theirs in zip(body(*given[0]), body.__wrapped__(*given[1]), strict=True):
        assert_values(mine, theirs)
        assert mine.flags.c_contiguous
    for mine, theirs in zip(*given, strict=True):
        assert_values(mine, theirs)


def test_views_share_memory(engine):
    @pk.fuse
    def body(x):
        whole = x.view("i8")
        for _ in range(8):  # an argument that is written to often is double-buffered
            x[1:-1] += 0.25 * (x[2:] - 2 * x[1:-1] + x[:-2])
        whole[::2] = 0
        return x, whole

    x = np.random.default_rng(0).random(30_000)
    wanted = body.__wrapped__(x.copy())
    got = body(x)
    assert got[0] is x
    assert np.shares_memory(got[1], x)
    for mine, theirs in zip(got, wanted, strict=True):
        assert_values(mine, theirs)


def by_horner(x):
    value = np.zeros_like(x)
    for coefficient in (0.5, -1.25, 3.0):
        value = pk.add(pk.multiply(value, x), np.float64(coefficient))
    return value


def by_steps(x):
    steps = pk.diff(x)
    wrapped = pk.subtract(pk.remainder(pk.add(steps, np.pi), 2 * np.pi), np.pi)
    wrapped = pk.where(pk.logical_and(pk.equal(wrapped, -np.pi), pk.greater(steps, 0)), np.pi, wrapped)
    turns = pk.where(pk.less(pk.absolute(steps), np.pi), 0, pk.subtract(wrapped, steps))
    return np.concatenate([x[:1], pk.add(x[1:], pk.cumsum(turns))])


# Functions, and their definitions by calls of other functions.
ONE_BY_ONE = {
    "sum of a list": (
        lambda x: np.add.reduce([x, x[::-1], np.sqrt(np.abs(x))]),
        lambda x: pk.sum(np.array([x, x[::-1], pk.sqrt(pk.absolute(x))]), axis=0),
    ),
    "product of a list": (
        lambda x: np.multiply.reduce([x, x[::-1], x * 2]),
        lambda x: pk.prod(np.array([x, x[::-1], pk.multiply(x, 2)]), axis=0),
    ),
    "mean of an array of numbers": (
        lambda x: np.array([np.mean(x), np.std(x), np.sum(np.exp(x / 10))]),
        lambda x: np.array([pk.mean(x), pk.std(x), pk.sum(pk.exp(pk.divide(x, 10)))]),
    ),
    "polyval": (lambda x: np.polyval([0.5, -1.25, 3.0], x), by_horner),
    "unwrap": (lambda x: np.unwrap(x / 2), lambda x: by_steps(pk.divide(x, 2))),
    "vander": (
        lambda x: np.vander(x, 5, increasing=True)[:, 1:],
        lambda x: pk.cumprod(np.repeat(x[:, None].astype(float), 4, axis=1), axis=1),
    ),
    "angle": (
        lambda x: np.angle(x, deg=True),
        lambda x: pk.multiply(pk.arctan2(0, x), 180 / np.pi),
    ),
    "vector norm": (
        lambda x: np.linalg.vector_norm(x[:6000].reshape(20, 300), axis=1),
        lambda x: pk.linalg.norm(x[:6000].reshape(20, 300), axis=1),
    ),
    "grid": (
        lambda x: np.exp(np.add(*np.meshgrid(x[:90], x[:80]))),
        lambda x: pk.exp(pk.add(*np.meshgrid(x[:90], x[:80]))),
    ),
    "chosen": (
        lambda x: np.choose(x > 0, [np.sin(x), np.exp(x)]),
        lambda x: np.choose(x > 0, [pk.sin(x), pk.exp(x)]),
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_bits_are_those_of_calls(engine, name, dtype):
    if engine == "auto":
        pytest.skip("`auto` may choose another engine for a function alone")
    fused, singly = ONE_BY_ONE[name]
    x = (np.random.default_rng(5).standard_normal(20_003) * 9).astype(dtype)
    assert_values(pk.fuse(fused, strict=True)(x), singly(x))
