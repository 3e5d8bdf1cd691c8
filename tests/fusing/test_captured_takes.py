"""Elements at arrays of indices, `x[i]` and `np.take(x, i)`: requests of a plan, refused by value."""

import numpy as np
import pytest
from helpers.nested import assert_parts

import pycudakit as pk

pytestmark = pytest.mark.usefixtures("really_replayed")
SIZE = 3000


def elements(x, i):
    return x[i], x[i] * 2 + np.take(x, i) - x.take(i), x[i[::3]]


def of_computed(x, i):
    """Take from new values, at new indices."""
    y = x + x
    return y[(i + 1) % SIZE], y[i][np.abs(i) // 2], (x > 40)[i]


def rows(x, i):
    """Rows of matrices, columns, and indices of two dimensions."""
    a, j = x.reshape(60, 50), i % 50
    b = a * 2
    return b[j], np.take(b, j, axis=1), np.take(a, j), b[j[:8].reshape(2, 4)], b[3][j]


def sparse_product(x, i):
    columns, values = i.reshape(-1, 4), x.reshape(-1, 4) / 100
    y = x[: len(values)] + 1
    for _ in range(3):
        y = (values * y[columns % len(values)]).sum(axis=1)
        y = y / y.max()
    return y


def written_between(x, i):
    """Each take reads the values of its line."""
    before = x[i]
    x[1:-1] += x[i][1:-1] * 0.5
    x[2:-1] = 0.5 * (x[1:-2] + x[3:])
    return before, x[i], x


BODIES = (elements, of_computed, rows, sparse_product, written_between)


def arguments(seed, dtype="f8", index="i8"):
    generator = np.random.default_rng(seed)
    least = 0 if index in ("u2", "u8") else 1 - SIZE
    return generator.integers(0, 100, SIZE).astype(dtype), generator.integers(least, SIZE, SIZE).astype(index)


def assert_same(got, want):
    def are_same(one, other):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.dtype, one.shape, one.strides) == (other.dtype, other.shape, other.strides)
        np.testing.assert_allclose(one, other, rtol=1e-5 if one.dtype == "f4" else 1e-12)

    assert_parts(got, want, are_same)


@pytest.mark.parametrize(("dtype", "index"), [("f8", "i8"), ("f4", "i4"), ("i2", "u2"), ("f8", "i2")])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_replayed_takes(engine, body, dtype, index):
    if body in (written_between, sparse_product) and dtype == "i2":
        pytest.skip("NumPy refuses these writes, or the sum has another type")
    fused = pk.fuse(body)
    for seed in (0, 1, 2, 3, 4):
        ours, numpys = arguments(seed, dtype, index), arguments(seed, dtype, index)
        assert_same(fused(*ours), body(*numpys))
        assert_same(ours, numpys)
    if engine == "auto":
        return  # it may choose NumPy
    assert "replayed" in pk.last_call().reason
    (tree,) = fused._traced.plans.trees()
    assert not tree.has_host_calls


@pytest.mark.parametrize("wrong", [SIZE, -SIZE - 1, 2**62])
def test_an_index_out_of_bounds_raises_in_a_replay(engine, wrong):
    fused = pk.fuse(written_between)
    for seed in (0, 1, 2):
        fused(*arguments(seed))
    x, i = arguments(3)
    i[77] = wrong
    before, numpys = x.copy(), x.copy()
    with pytest.raises(IndexError) as raised:
        fused(x, i)
    with pytest.raises(IndexError) as expected:
        written_between(numpys, i)
    assert str(raised.value) == str(expected.value)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(numpys, before)
    i[77] = 5
    assert_same(fused(x, i), written_between(numpys, i))


def test_an_index_out_of_bounds_after_a_write(engine):
    """The write lands, as NumPy's does, and nothing after it."""

    def body(x, i):
        x += 1
        y = x[i]
        x += 1
        return y

    fused = pk.fuse(body)
    for seed in (0, 1, 2):
        fused(*arguments(seed))
    x, i = arguments(3)
    i[5] = SIZE
    before = x.copy()
    with pytest.raises(IndexError, match=f"index {SIZE} is out of bounds for axis 0 with size {SIZE}"):
        fused(x, i)
    np.testing.assert_array_equal(x, before + 1)


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_other_modes(engine, mode):
    fused = pk.fuse(lambda x, i: np.take(x, i * 2, mode=mode) + x[0])
    for seed in (0, 1, 2, 3):
        x, i = arguments(seed)
        assert_same(fused(x, i), np.take(x, i * 2, mode=mode) + x[0])


def test_other_indices(engine):
    """Lists, constants, tuples of arrays, strided arrays, and no elements."""

    def body(x, i):
        a = x.reshape(60, 50)
        j, k = i[:40] % 60, i[40:80] % 50
        return x[[3, 1, 2]], x[np.arange(5)], a[j, k], a.T[k], x[::2][j], x[i[:0]], a[:, k], a[2:9, 1][j % 7]

    fused = pk.fuse(body)
    for seed in (0, 1, 2, 3):
        assert_same(fused(*arguments(seed)), body(*arguments(seed)))
