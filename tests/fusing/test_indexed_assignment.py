"""Assignment to elements selected by indices or masks gives NumPy's results."""

import numpy as np
import pytest
from helpers import fake_gpu
from helpers.strategies import assert_values

import pycudakit as pk
from pycudakit.fusing.memory import residency


@pytest.fixture
def gpu(monkeypatch):
    """Install a fake GPU that makes even the smallest array resident."""
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")
    made = fake_gpu.put(monkeypatch)
    monkeypatch.setattr(residency, "MIN_RESIDENT_BYTES", 1)
    with pk.engine("cuda"):
        yield made


def rows(x, i, v):
    x[i] = v[: i.size]


def a_number(x, i, v):
    x[i] = 3


def a_row(x, i, v):
    x[i] = v[0]


def added(x, i, v):
    x[i] += 1


def of_two_dimensions(x, i, v):
    x[i.reshape(-1, 2)] = v[: i.size].reshape(-1, 2, *v.shape[1:])


def repeated(x, i, v):
    x[i.reshape(-1, 2)] = v[:2]


def listed(x, i, v):
    x[[3, -1, 3]] = v[:3]


def chosen(x, i, v):
    mask = x.reshape(len(x), -1)[:, 0] > 0
    x[mask] = x[mask] * 2 + 1


def elements_chosen(x, i, v):
    x[v > 0] = x[v > 0] + v[v > 0]


def none_chosen(x, i, v):
    x[v > 99] = v[v > 99]


def of_itself(x, i, v):
    x[i] = x[: i.size]


def by_itself(x, i, v):
    i[i] = np.arange(i.size)
    x[i] = 1


def of_another_type(x, i, v):
    x[i] = np.arange(i.size).reshape(-1, *(1,) * (x.ndim - 1))


def read_before(x, i, v):
    before = x * 2
    x[i] = 0
    v[...] = before - x


BODIES = [rows, a_number, a_row, added, of_two_dimensions, repeated, listed, chosen, elements_chosen]
BODIES += [none_chosen, of_itself, by_itself, of_another_type, read_before]


def arguments(shape, index_type):
    rng = np.random.default_rng(1)
    x, v = rng.standard_normal((2, *shape)).astype(np.float32)
    return x.copy(), rng.integers(0, 100, 300).astype(index_type) - index_type(7), v.copy()


def check(body, shape, index_type):
    def function(x, i, v):
        y = x * 2
        y -= x
        body(y, i, v)
        body(x, i, v)
        return y + 1, y

    ours, theirs = arguments(shape, index_type), arguments(shape, index_type)
    got, want = pk.fuse(function)(*ours), function(*theirs)
    for one, other in zip([*got, *ours], [*want, *theirs], strict=True):
        assert_values(one, other)


@pytest.mark.parametrize("shape", [(5000,), (5000, 3), (500, 4, 5)], ids=str)
@pytest.mark.parametrize("body", BODIES)
def test_puts(engine, body, shape):
    check(body, shape, np.int64)


@pytest.mark.parametrize("index_type", [np.int64, np.int16])
@pytest.mark.parametrize("shape", [(5000,), (500, 4, 5)], ids=str)
@pytest.mark.parametrize("body", BODIES)
def test_puts_on_a_device(gpu, body, shape, index_type):
    check(body, shape, index_type)


def test_arrays_that_are_assigned_to_stay(gpu):
    def function(x, i, v):
        y = np.sqrt(np.abs(x))
        y[i] = v[: i.size]
        return y.max(), y.min()

    x, i, v = arguments((5000,), np.int64)
    plan = pk.fuse(function).explain(x, i, v)
    assert "put" in [each.function for each in plan.passes]
    assert gpu.bytes_down == 0
    assert pk.fuse(function)(x, i, v) == function(x, i, v)


@pytest.mark.parametrize("at", [7, -1])
@pytest.mark.parametrize("wrong", [5000, -5001, 1 << 62])
def test_no_such_place(gpu, wrong, at):
    def function(x, i):
        y = x * 2
        try:
            y[i] = 1
        except IndexError as error:
            return str(error), y
        return "", y

    x, i, _ = arguments((5000,), np.int64)
    i[at] = wrong
    text, y = pk.fuse(function)(x, i)
    assert text == f"index {wrong} is out of bounds for axis 0 with size 5000"
    assert_values(y, x * 2)


@pytest.mark.parametrize("count", [0, 2, 299])
def test_values_that_do_not_fit(engine, count):
    def function(x, i, v):
        y = x * 2
        y[i] = v[:count]

    with pytest.raises(ValueError, match="shape mismatch"):
        pk.fuse(function)(*arguments((5000,), np.int64))
