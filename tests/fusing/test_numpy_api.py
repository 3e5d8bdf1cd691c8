"""NumPy functions are traced without a graph break, with NumPy's results and memory order."""

import numpy as np
import pytest
from fusing.bodies import SIZES, flat, near, pool, split, written
from helpers.numpy_versions import has_numpy
from helpers.strategies import assert_values, outcome

import pycudakit as pk

# Letters are arrays of `fusing.bodies.pool`. Three spaces separate bodies.

LISTS = """
np.maximum.reduce([x, y])     np.minimum.reduce([x, y, z * 2])     np.maximum.reduce([f, x])
np.maximum.reduce([u, v])     np.maximum.reduce([x, y], axis=0)     np.maximum.reduce([A, B], axis=1)
np.maximum.reduce([A, B], axis=None)     np.maximum.reduce([s, x])     np.fmax.reduce([s, x])
np.minimum.reduce([F, F + 1])     np.logical_and.reduce([m, q])     np.logical_or.reduce((m, q, x > 1))
np.logical_and.reduce([i, x])     np.logical_xor.reduce([m, q, m])     np.bitwise_or.reduce([i, j])
np.bitwise_and.reduce([u, w])     np.gcd.reduce([i, j])     np.logical_and.reduce([m])
np.add.reduce([i, k])     np.add.reduce([m, q])     np.add.reduce([u, u, u])     np.multiply.reduce([j, j])
np.add.reduce([i, j], dtype="f4")     np.add.reduce([i, j], axis=0, keepdims=True)
np.add.reduce([[i, j], [j, j]], axis=(0, 1))     np.maximum.reduce([np.max(x), np.max(y), 3.0])
np.maximum.reduce([x, y], out=z)     np.add.reduce([1, 2]) + i     np.add.reduce(N, out=np.zeros(12, int))
np.add.reduce(i)     np.maximum.reduce(A)     np.max([x, y], axis=0)     np.min([f, x, i], axis=0)
np.any([m, x > 0], 0)     np.all([m, q], axis=0)     np.max([x, y], axis=0, keepdims=True)
np.max([np.min(x), np.min(y)])     np.amax((x, y), axis=0)     np.array([x, y])
np.array([x[0], y[1] + 1, 2])     np.array((x, i))     np.array([F, F])     np.array([x, i], dtype=int)
np.array([x, y], "f4")     np.asarray([x, y * 2])     np.array([[x, y], [y, x]])
np.asanyarray([np.sum(i), np.sum(j)], dtype=float)     np.array([[1, 2], [i[0], 3]])     np.lexsort([x, k])
np.array([x[:3], [1, 2, 3], (4, 5, 6)])     np.array(x)     np.array(F) + 1     np.array(x + 1, dtype="f4")
np.array(i, float)     np.array(np.sum(i))     np.array(x[0], "f4")     y = np.array(x); y[0] = 3; return y
np.array(b)     np.array(o)     np.array(E)     y = np.array(A[::2], "f8"); y += 1; return y
"""

PARTS = """
np.block([[A, A], [B, B]])     np.block([x, y])     np.block([[A], [B]])     np.block([[A, c]])
np.block([[F, F]])     np.block([[F], [F]])     np.block([[F, A], [A, F]])     np.block(x)
np.block([x, 1.0])     np.block([[C, r[:, None]], [r, 1.0]])     np.block([[i, i], [f, f]])
np.block([[T, T], [T, T]])     np.block([[[T]], [[T]]])     np.block([[F[::2], F[::2]]])     np.block([[x]])
np.block([r, C[0]])     np.delete(x, 3)     np.delete(x, -1)     np.delete(A, 1, axis=0)
np.delete(A, slice(1, 5, 2), axis=1)     np.delete(x, [1, 3, 3])     np.delete(A, [0, 2], 1)
np.delete(A, 5)     np.delete(x, slice(None, None, -2))     np.delete(x, np.array([1, 2]))
np.delete(x, [])     np.delete(F, 1, axis=0)     np.delete(F, 1, axis=1)
np.delete(F, slice(2, 4), axis=-1)     np.delete(F, [2, 4], axis=0)     np.delete(F, slice(0, 0), 0)
np.delete(x + 1, [4])     np.delete(b, 2)     np.delete(b, [2, 3])     np.delete(x, slice(7, 2))
np.delete(r, [True, False] * 6)     np.delete(x, slice(None))     np.delete(x, np.arange(5) * 2)
np.delete(T, 0, 1)     np.delete(x, np.argmax(x))     np.delete(x, j[:3])     np.delete(x, slice(9, 3, -1))
np.insert(x, 3, 1.5)     np.insert(x, 3, y[:4])     np.insert(A, 1, r, axis=0)
np.insert(A, 1, 0, axis=1)     np.insert(x, [1, 3], [7, 8])     np.insert(x, [3, 1], y[:2])
np.insert(x, slice(0, 4), 5)     np.insert(i, 2, 3.7)     np.insert(i, 2, x[:3])     np.insert(A, 2, 1.0)
np.insert(F, 1, 0, axis=0)     np.insert(A, [1], c, axis=1)     np.insert(A, [1, 4], c, axis=1)
np.insert(x, -1, 2)     np.insert(x, x.size, 2)     np.insert(x, [2, 2, 0, -1], y[:4])
np.insert(x, [], 2.0)     np.insert(A, [0, 12], r[:2], axis=1)     np.insert(F, [1, 1], 0, axis=1)
np.insert([1.0, 2], 1, x[:3])     np.insert(i, 1, np.argmax(x))     np.insert(x, 0, np.sum(y * 0))
np.insert(A * 2, 0, A[:, 0] + 1, axis=1)     np.insert(A, 1, c.T, axis=1)     np.resize(x, (3, 5))
np.resize(A, 7)     np.resize(x[:5], (4, 4))     np.resize(F, 5)     np.resize(x, (2, 0))
np.resize(e, 3)     np.resize(i + 1, i.size * 2 + 1)     np.diagflat(r)     np.diagflat(A[:3], -2)
np.roll(A, (1, 2), axis=(0, 1))     np.roll(A, (1, 2))     np.roll(F, (1, -2), (1, 0))
np.roll(x, [1, 2], 0)     np.roll(A, 1, axis=(0, 1))     np.roll(T, -1, axis=(2, 0))     np.roll(E, 1)
np.roll(x, 0)     np.roll(o, 1)     np.roll(A, 5)     np.fft.fftshift(x)     np.fft.ifftshift(A, axes=0)
np.fft.fftshift(A)     np.fft.fftshift(T, (0, 2))     np.tile(x, np.int64(2))
np.tile(A, np.array([2, 3]))     np.repeat(x, True)     np.tile(x[:3], ())
"""

GRIDS = """
np.meshgrid(x[:50], y[:40])     np.meshgrid(x[:50], y[:40], indexing="ij")
np.meshgrid(x[:50], y[:40], sparse=True)     np.meshgrid(x[:50], y[:40], copy=False)
np.meshgrid(x[:5], y[:4], i[:3])     np.meshgrid(x)     np.meshgrid(x[:5] + 1, [1, 2])
np.meshgrid(x[:5], y[:4], i[:3], sparse=True, copy=False, indexing="ij")     np.meshgrid(o, x[:3])
X, Y = np.meshgrid(x[:50], y[:40]); return X * X + Y     np.meshgrid(np.sum(i), j[:2])
np.meshgrid(np.arange(4), np.arange(3))     np.meshgrid(C[:2], r)     np.broadcast_arrays(x, 1.0)
np.broadcast_arrays(A, r)     np.broadcast_arrays(A, r, c)     np.broadcast_arrays(A, B)
np.broadcast_arrays(r + 1, c)     np.broadcast_arrays(np.sum(i), j)     np.ix_(i[:3], j[:2])
np.ix_([0, 2], j[:2])     A[np.ix_(at[:5] % 3, [1, 2])]     np.ix_(m[:10], [1, 2])     np.ix_(x[:3], [])
np.unravel_index(np.argmax(A), A.shape)     A[np.unravel_index(np.argmax(A), A.shape)]
np.unravel_index(j[0], (3, 4), order="F")     np.unravel_index(u[3], (16, 16))
np.ravel_multi_index((i[:5] % 3, j[:5]), (10, 12))
np.ravel_multi_index([j[:9], j[:9]], (9, 9), order="F")
np.ravel_multi_index((i, j), (3, 4), mode="wrap")
np.ravel_multi_index((i, j), (3, 4), mode=("clip", "wrap"))     np.diag_indices_from(C)
np.tril_indices_from(C, -1)     np.triu_indices_from(C, 1)     C[np.triu_indices_from(C)]     np.unstack(A)
np.unstack(T, axis=-1)     np.indices((3, 12))[1] * A[:3]
"""

CHOICES = """
np.choose(j % 2, [x, y])     np.choose(m.astype(int), [x, 0.0])     np.choose(m, (x, y))
np.choose(k, [x, y], mode="clip")     np.choose(k, [x, y, z], mode="wrap")     np.choose(N % 3, [A, r, 1.0])
(j % 2).choose([x, y])     np.choose(j % 2, [i, f])     np.choose(m, [f, 2.5])     np.choose(m, [-1, k])
np.choose(m, [np.int64(1), k])     np.choose(N % 2, (F, 0))     np.choose(np.argmax(x) * 0, [x, y])
np.choose(j % 12, list(C) + [0]) if j.size == 12 else 0     np.piecewise(x, [x < 0, x >= 0], [-1, 1])
np.piecewise(x, [x < 0], [1, 2])     np.piecewise(i, [i < 0], [1.5, 2.7])     np.piecewise(x, x < 0, [1, 2])
np.piecewise(F, [F < 0, F < 3], [1, 2, 3])     np.piecewise(s, [s > 0, m], [1, 2])
np.piecewise(x, [x < 0, x > 9], [lambda v: v * 2, np.sqrt, -1])
np.piecewise(i, [i < 0], [np.abs, lambda v: v / 2])
np.piecewise(F, [F < 0], [lambda v, k=0: v * k, lambda v, k=0: np.sort(v)], k=3)
np.piecewise(x, [m, q], [len, 1, np.max])
np.piecewise(x, [x > 1e9, m], [1.5, lambda v, by: v[::-1] * by], 2)     np.fmax.reduce(s)
np.fmin.reduce(A, 1)
np.fmin.reduce(np.where(A > 9, A, np.nan), axis=1)     np.fmax.reduce(f, axis=None)
np.fmax.reduce(F * np.nan)
np.piecewise(f * 2, [m, q], [1, True, 0.5])     np.extract(m, x)     np.extract(A > 0, A)
np.extract(i, x)
"""

OTHERS = """
np.polyval([1, 2, 3], x)     np.polyval(r[:3], x)     np.polyval(np.array([1.0, 2]), A)
np.polyval([2, 1], i)     np.polyval([1, 2, 3], f)     np.polyval(x[:3], 2.0)     np.polyval([], x)
np.polyval([1.5], F)     np.polyval([1, 2], np.sum(i))     np.polyval(C[:, :3], r[:3])
np.vander(i[:20], 4)     np.vander(j[:20], 3, increasing=True)     np.vander(r, 1)     np.vander(r, 0)
np.vander(k[:5])     np.vander(m[:5], 3)     np.ediff1d(x)     np.ediff1d(x, to_begin=0)
np.ediff1d(x, to_end=[1, 2.0])     np.ediff1d(A)     np.ediff1d(i, to_end=99, to_begin=i[:2])
np.ediff1d(f, x[:2], [1])     np.ediff1d(x[:1])     np.unwrap(i, period=10)     np.unwrap(i, period=7)
np.unwrap(N, axis=0, period=5)     np.unwrap(i, 9, period=12)     np.diff([1.0, 2.0], prepend=x[:1])
np.diff([[1, 2]], append=A[:1, :1])     np.fix(x)     np.fix(i)     np.fix(x, out=y)     np.isneginf(s)
np.isposinf(s)     np.isneginf(i)     np.isposinf(f)     np.isposinf(s, out=m)     np.angle(x)
np.real_if_close(x) + 1     np.array_equiv(x, x)     np.array_equiv(A, r)     np.array_equiv(A, x)
np.array_equiv(Z, 1.5)     np.common_type(x, f)     np.einsum_path("ij,jk", A, C)[0]
np.histogram_bin_edges(x, 10)     np.histogram_bin_edges(i, 7)     np.histogram_bin_edges(x, 5, (-1, 1))
np.histogram_bin_edges(u, 4, (-10, 300))     np.histogram_bin_edges(f)     np.histogram_bin_edges(u)
np.unique_all(k)     np.unique_counts(k)     np.unique_inverse(N)     np.linalg.matrix_transpose(A)
np.linalg.diagonal(C, offset=1)     np.linalg.diagonal(T)     np.linalg.trace(N[:12])
np.linalg.outer(i[:9], j[:5])     np.linalg.matmul(N.T, N)     np.linalg.tensordot(N.T, N, axes=1)
np.linalg.vecdot(N, N)     np.tril(C, np.array(1))     np.triu(C, 1.5)     np.diag(np.diag(C), 1)
x.view()     x.view("i8") & 7     f.view(np.int32) >> 23     (x + 1).view("u8")     A.view("u1")
x.conjugate() + 1     v = x.view("i8"); v[3:5] = 0; return x + 1
v = x.view(); v[2] = 1; x[3] = 2; return v     np.full(3, -0.0) + x[:3] * 0     np.full(x.shape, -0.0, "f4")
np.full_like(x, -0.0)     np.full(3, 0.0)     np.zeros_like(F, dtype=complex)
np.full_like(F, 1j, dtype=complex)     np.full_like(x, y[0], dtype=complex)     np.hanning(12) * r
np.kaiser(12, 2.0) + r
"""
NEWER = {"unstack": "2.1", "matvec": "2.2", "vecmat": "2.2"}

CLOSE = """
np.unwrap(x)     np.unwrap(A, axis=0)     np.unwrap(x, period=5.0)     np.unwrap(x, discont=4)
np.angle(x, deg=True)     np.vander(r, 3)     np.vander(r[:5], increasing=True)     np.add.reduce([x, y, z])
np.multiply.reduce([x, y])     np.add.reduce([f, g])     np.sum([x, y, z], axis=0)
np.linalg.matrix_norm(C)     np.linalg.vector_norm(A, axis=1)
np.linalg.vector_norm(T, axis=(0, 2), keepdims=True)     np.linalg.vector_norm(x)
np.linalg.vector_norm(x, ord=1)     np.linalg.cross(A[:, :3], A[:, 3:6])     np.linalg.matmul(A, C)
np.linalg.vecdot(A, B)     np.matvec(C, r)     np.vecmat(r, C)     np.matvec(C, A)     np.linalg.trace(C)
np.linalg.matrix_norm(T, keepdims=True)     np.linalg.multi_dot([A, C])
np.linalg.multi_dot([A, C, B.T, A])     np.linalg.multi_dot([r, C, C, r])     np.linalg.multi_dot([r, C, A.T])
np.linalg.multi_dot([A, C, r])     np.linalg.multi_dot((A, A.T[:, :9], B[:9], C, r))
np.linalg.multi_dot([r, r])     np.linalg.multi_dot([F, C])
np.lib.stride_tricks.sliding_window_view(x, 4).mean(axis=-1)
np.lib.stride_tricks.sliding_window_view(A, (3, 3)).sum((-1, -2))
"""


def available(text):
    """Return the bodies whose functions this NumPy version has."""
    missing = [f"np.{name}(" for name, version in NEWER.items() if not has_numpy(version)]
    return [body for body in split(text) if not any(name in body for name in missing)]


def compared(body, n, compare):
    """Run a body, fused and not; no graph break may occur."""
    function, names = written(body)
    ours, numpys = pool(n), pool(n)
    got = outcome(pk.fuse(function, strict=True), *(ours[name] for name in names))
    want = outcome(function, *(numpys[name] for name in names))
    assert (got[0], want[0]) == ("ok", "ok"), (got[1], want[1])
    assert got[2] == want[2]
    assert type(got[1]) is type(want[1])
    mine, theirs = flat([got[1]]), flat([want[1]])
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert type(one) is type(other)
        if not isinstance(other, (np.ndarray, np.generic)):
            assert one == other
            continue
        compare(np.asarray(one), np.asarray(other))
        if isinstance(other, np.ndarray) and other.size:
            assert (one.strides, one.flags.writeable) == (other.strides, other.flags.writeable)
            for name in names:
                assert np.shares_memory(one, ours[name]) == np.shares_memory(other, numpys[name])
    for name in names:
        compare(ours[name], numpys[name])


@pytest.mark.filterwarnings("ignore:future versions will not create a writeable array")
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", available(LISTS + PARTS + GRIDS + CHOICES + OTHERS))
def test_exact(engine, body, n):
    compared(body, n, assert_values)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", available(CLOSE))
def test_close(engine, body, n):
    compared(body, n, near)


# Bodies for which NumPy raises.
WRONG = """
np.delete(x, x.size)     np.delete(A, -13, axis=1)     np.delete(x, [0, 50_000])
np.delete(x, [True, False])     np.delete(A, 1, axis=2)     np.delete(x, 1.5)     np.delete(x, [0.5, 1])
np.insert(x, 50_000, 1)     np.insert(A, 1, r[:5], axis=0)     np.insert(x, [1, 2], y[:3])
np.insert(x, [[1, 2]], 0)     np.insert(x, [1, 50_000], 0)     np.insert(A, 0, 1, axis=-3)
np.insert(i, 0, 2**70)     np.block([[A, A], [A]])     np.block([[A, r[:3]]])     np.block([A, [B]])
np.block([])     np.block((x, y))     np.meshgrid(x, y, indexing="no")     np.broadcast_arrays(A, r[:5])
np.ix_(A, r)     np.unravel_index(j, (2, 2))     np.unravel_index(x, (3, 4))
np.unravel_index(-j, (30, 30))     np.ravel_multi_index((i, j), (3, 4))
np.ravel_multi_index((j, j), (30, 30, 30))     np.choose(j, [x, y])     np.choose(x, [x, y])
np.choose(j % 2, [x, y[:5]])     np.choose(-j, [x, y])     np.piecewise(x, [x < 0], [1, 2, 3])
np.piecewise(u, [u < 3], [300])     np.piecewise(A, A < 0, [1, 2])     np.fmax.reduce(e)
np.maximum.reduce([x, y[1:]])     np.add.reduce([x, y], axis=3)
np.array([x, y[1:]])     np.max([A, r], axis=0)     np.vander(A)     np.ediff1d(i, to_end=0.5)
np.ediff1d(m)     np.resize(x, (-1, 2))     np.roll(A, 1, axis=2)     np.roll(A, [[1], [2]], axis=(0, 1))
np.unwrap(o)     np.linalg.cross(A, A)     np.linalg.outer(A, r)     np.array_equiv(x)
np.histogram_bin_edges(s)     np.linalg.vector_norm(A, axis=4)     np.fft.fftshift(x, 1)     np.diag(T)
np.tile(x, o)     np.tile(x, -1)     x.view("i3")     x[::2].view("f4")
"""


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", split(WRONG))
def test_errors(engine, body, n):
    function, names = written(body)
    ours, numpys = pool(n), pool(n)
    got = outcome(pk.fuse(function), *(ours[name] for name in names))
    want = outcome(function, *(numpys[name] for name in names))
    assert (got[0], want[0]) == ("error", "error"), (got[1], want[1])
    assert (type(got[1]), str(got[1])) == (type(want[1]), str(want[1]))
    for name in names:
        assert_values(ours[name], numpys[name])


@pytest.mark.parametrize("axis", [True, False, (True,), np.True_, 1, (0, 1), None])
def test_axis_of_average(engine, axis):
    x = np.arange(12.0).reshape(3, 4)
    for weights in (None, x):

        def average(x, weights=weights):
            return np.average(x, axis=axis, weights=weights)

        try:
            want = average(x)
        except TypeError as error:  # a NumPy bool is no index
            with pytest.raises(type(error), match=str(error)):
                pk.fuse(average)(x)
        else:
            np.testing.assert_allclose(pk.fuse(average)(x), want)


class Replies:
    """An object beside arrays that answers for NumPy's functions, by NEP 18."""

    def __init__(self):
        self.asked = []

    def __array_function__(self, function, types, arguments, keywords):
        self.asked.append(function.__name__)
        assert {type(each) for each in arguments} <= {np.ndarray, Replies, list, tuple, int}
        return "reply"

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("read as an array")


@pytest.mark.parametrize(
    "function",
    [
        lambda x, other: np.concatenate([x, other]),
        lambda x, other: np.stack([x * 2, other]),
        lambda x, other: np.where(x > 0, x, other),
        lambda x, other: np.dot(x + 1, other),
        lambda x, other: np.append(x + 1, other),
        lambda x, other: np.searchsorted(x + 1, other),
        lambda x, other: np.copyto(x[1:], other),
        lambda x, other: np.average(x, 0, other),
    ],
)
def test_other_classes_answer_for_functions(engine, function):
    x, ours, numpys = np.linspace(-1, 1, 5000), Replies(), Replies()
    fused = pk.fuse(function)
    for _ in range(3):
        assert fused(x, ours) == function(x, numpys) == "reply"
    assert ours.asked == numpys.asked
