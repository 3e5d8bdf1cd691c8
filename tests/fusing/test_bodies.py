"""Fused function bodies of many operators and functions give NumPy's results."""

import numpy as np
import pytest
from fusing.bodies import SIZES, check, flat, near, pool, split, written
from helpers.numpy_versions import has_numpy
from helpers.strategies import assert_values, outcome

import pycudakit as pk
from pycudakit.fusing.schedule.cost import Costs
from pycudakit.fusing.trace.traced_values import TracedValues

# Letters are arrays of `fusing.bodies.pool`. Three spaces separate bodies.

OPERATORS = """
x + y     x - y * z     x / p + f     -x + 1     abs(x) - 3     +x     ~m & q | m     ~i ^ i     i & 7 | j
i // j     i % j     i // 3 + i % 7     x // 2     x % 1.5     divmod(i, j)     i << 2     i >> 1     2 ** j
i ** 2     x ** 2     x ** -1     p ** 0.5     x ** 1     1 / p     7 - i     3 / j     x < y
(x <= 0) | (y >= 0.5)     (i == j) != m     u + 1     u * 2     u - u     v - 1     v * v     h + 1
h * 2.5     h + f     h * x     f + 1     f * 1.5     f + x     f + i     k + u     k * i     l + 1
l + l     u + v     w - 1     m + m     m * x     m + 1     m & True     m == 1     i + True     i + 1.5
f + np.float64(2)     f * np.float32(2)     u + np.uint8(250)     i + np.int8(1)     f + np.ones(1, "f8")
x + o     o + 1     o * f     oi + u     f + o     o + o     x + one     A + r     A * c - r     r + c
T + r     T - T[0]     b + x     b * 2     bi + bi     R - x     S + x     Z + Z     Z * x     F + A
F + F.T.T     e + 1     E * r     E + 1     s + s     s * 0     s == s     s < 1     d + 1
x * np.array(2.0)     x + [1.0]     x + x     i ** 2.0     v ** 2.0     m ** 2     u ** 1.0
"""

FUNCTIONS = """
np.sqrt(p)     np.add(x, y) - np.subtract(x, y)     np.add(f, x, dtype="f4", casting="same_kind")
np.multiply(i, j, dtype="f8")     np.maximum(x, y) - np.minimum(x, 0)     np.fmax(x, s)
np.where(x > 0, x, -y)     np.where(m, f, 0)     np.where(m, 1, u)     np.where(m, x, f)
np.where(m, 1000, i)
np.where(x > 0, 1.0, -1.0)     np.where(A > 0, A, r)     np.where(i, x, y)     np.clip(x, -1, 2)
np.clip(x, y, None)     np.clip(x, None, 1)     np.clip(u, 3, 100)     np.clip(i, j, 50)
np.clip(f, -1.5, 1.5)     x.clip(0, 1)     np.round(x)     np.round(x, 2)     x.round(1)     np.round(i)
np.rint(x)     np.floor(x) + np.ceil(x) - np.trunc(x)     np.nan_to_num(s)
np.nan_to_num(s, nan=1.0, posinf=2, neginf=-3)     np.nan_to_num(i)     x.astype("f4")
x.astype(np.int32)     i.astype(float)     i.astype("u1")     f.astype("f8") + x     m.astype(int)
x.astype(bool)     u.astype("i1")     b.astype("f8")     x.astype("f8", copy=False)
np.isnan(s) | np.isinf(s)     np.isfinite(s)     np.sign(x) + np.signbit(s)     np.copysign(x, y)
np.square(x) + np.absolute(y)     np.logical_and(x > 0, i)     np.logical_not(m)     np.bitwise_xor(i, 5)
np.left_shift(u, 1)     np.gcd(i, j)     np.fmod(x, 2.5)     np.floor_divide(x, 2)     np.modf(x)
np.frexp(x)     np.divmod(x, 3)     np.reciprocal(p)     np.greater(x, y)     np.equal(i, 3)
np.isclose(x, y)     np.allclose(x, x)     np.array_equal(x, y)     np.sum(i)     i.sum() + 1
np.sum(N, axis=0)     np.sum(N, axis=1, keepdims=True)     N.sum(axis=(0, 1))     np.sum(u)     np.sum(m)
np.sum(i, dtype="i4")     np.sum(i, initial=10)     np.sum(i, where=m)     np.sum(N * 2 + 1, axis=-1)
np.sum(N, axis=0, out=np.zeros(12, "i8"))     np.prod(j[:9])     np.prod(N[:4], axis=0)
np.max(x) - np.min(x)     A.max(axis=0) - A.min(axis=0)     np.max(A - r, axis=1)     np.max(s)
np.max(x, initial=1e9)     np.min(x, where=m, initial=5.0)     np.amax(A, axis=1, keepdims=True)
np.argmax(x) + np.argmin(y)     A.argmax(axis=0)     np.argmin(A * A, axis=1)     np.any(x > 3) | np.all(m)
np.any(A > 15, axis=0)     (A > 0).all(axis=1)     np.count_nonzero(m)     np.count_nonzero(N, axis=0)
np.ptp(x)     np.add.reduce(i)     np.add.reduce(N, axis=1)     np.maximum.reduce(A)
np.multiply.outer(i, k[:5])     np.add.outer(r, r)     np.add.accumulate(i)     np.maximum.accumulate(x)
np.minimum.accumulate(A, axis=1)     np.maximum.accumulate(N)
np.less.outer(x[:9], y[:5])     np.conj(x)     x.conj() + 1     np.conj(m)     x.compress(m)
np.select([x > 1, m], [i, f], 2.5)     np.select([A > 0, A > r], [1, r], A * 2)     np.gradient(x, a)
np.diag(r, 2)     np.diag(r, -1) + 1     np.diag(A, 1)     np.append(A, B, axis=0)     np.append(x, 3.0)
np.column_stack([A, A[:, 0]])     np.where(i > 3)
np.nanmax(x)     np.nansum(i)     np.cumsum(i)     i.cumsum() * 2     np.cumsum(N, axis=0)
np.cumsum(N, axis=1)[:, -1]     np.cumsum(u, dtype="i4")     np.cumprod(k[:5])     np.diff(x)
np.diff(A, axis=0)     np.diff(i, n=2)     np.sort(x)     np.sort(A, axis=0)     np.sort(-i)
np.argsort(i, kind="stable")     A.argsort(axis=1)     np.sort(s) + 0     np.searchsorted(a, x)
np.searchsorted(a, x, side="right")     a.searchsorted(0.5)     np.unique(i)
np.unique(k, return_counts=True)     np.bincount(j)     np.bincount(j, minlength=20)
np.bincount(j, weights=i)     np.histogram(x, bins=10, range=(-20, 20))     np.histogram(a, 7)
np.digitize(x, np.array([-5.0, 0, 5]))     np.median(i)     np.partition(x, 5)[5]     np.lexsort((i, j))
np.dot(i, j)     i @ j     N @ N[:12].T     np.outer(i[:30], j)     np.trace(N)     np.tril(A) + np.triu(A)
np.nonzero(m)     x.nonzero()     np.flatnonzero(x > 0)     np.argwhere(A > 10)     np.where(m)
np.compress(m, x)     np.extract(m, x)     np.select([x > 1, y > 1], [x, y], 0)     np.choose(k % 2, [x, y])
np.take_along_axis(A, np.argsort(A, axis=1), axis=1)     np.isin(i, [1, 2, 3])     np.transpose(np.sum(i))
np.sum(i).T     np.sum(i).reshape(-1)     np.sum(i)[...]     np.sum(i).ravel()     x[2].squeeze()
np.copy(np.sum(i)), np.copy(x[1])
(o * 2)[None]     np.flip(o)     o.squeeze()     o.T     np.sum(i).copy()     o.copy()     o.astype('f4')
x[1].astype('f4')     x[1].clip(0, 1)     np.round(x[1], 1)     np.where(x[0] > 0, 1, 2)
np.add(1, 2, out=x[:3])
"""

CLOSE = """
np.exp(-x * x) * np.sin(y)     np.log(p) / (1 + np.sqrt(p))     np.tanh(f) + np.cos(g)     np.exp(h / 10)
np.hypot(x, y) - np.arctan2(y, x)     np.log1p(p) + np.expm1(-p)     np.power(p, 1.7) + p ** y * 0
np.sin(i)     np.exp(m)     1 / (1 + np.exp(-x))     np.sum(x)     x.sum() / x.size     np.mean(A, axis=0)
np.mean(i)     f.mean()     h.mean()     np.std(A, axis=1)     np.std(x, ddof=1)     x.var(ddof=2)
np.var(A, axis=0, keepdims=True)     np.mean(x, where=m)     np.sum(x, where=m, initial=3)     np.sum(f)
np.sum(G, axis=0)     np.sum(f, dtype="f8")     (A - A.mean(axis=0)) / A.std(axis=0)
e = np.exp(A - A.max(axis=1, keepdims=True)); return e / np.sum(e, axis=1, keepdims=True)
np.prod(p[:20])     np.nanmean(x) + np.nanstd(x)     np.nanvar(A, axis=0, ddof=1) / np.nanstd(x, ddof=2)
np.average(A, axis=1, weights=np.arange(12))
np.linalg.norm(x)     np.linalg.norm(A, axis=1)     np.cumsum(x)     np.cumsum(A, axis=0)     np.cumsum(f)
np.cumprod(p[:20])     np.percentile(x, [5, 50, 95])     np.percentile(A, 30, axis=0)
np.quantile(x, 0.25)     np.median(A, axis=1)     np.median(f)     A @ C     C @ r     r @ C
np.matmul(T, C)     np.dot(A, C)     np.dot(x, y)     np.vdot(x, y)     np.inner(A, r)     np.outer(r, r)
np.tensordot(T, C, axes=1)     np.tensordot(T, T, axes=([1, 2], [1, 2]))     np.einsum("ij,jk->ik", A, C)
np.einsum("ij,ij->i", A, B)     np.einsum("ij->j", A)     np.kron(r, r)
np.interp(x, a, np.arange(a.size))     np.interp(x, np.linspace(-30, 30, 7), np.linspace(0, 1, 7) ** 2)
np.histogram(x, bins=10, range=(-20, 20), density=True)     np.bincount(j, weights=x)     np.gradient(x)
np.convolve(x, [0.25, 0.5, 0.25], "same")     np.cov(C)     np.linalg.solve(C, r)     np.trapezoid(x)
np.cross(x[:3], y[:3])
A.astype(dtype="f4", order="F")     A.astype("f4", "F", copy=False)     np.asarray(A, "f4", order="F")
np.array(A, dtype="f4", order="F")     np.asfortranarray(A, "f4")     np.require(A, "f4", "F")
np.asarray(A, float, copy=False) + 1     np.asanyarray(F, order="C")
"""

SHAPES = """
x.reshape(4, -1) + 1     np.reshape(x + 1, (-1, 6))     A.reshape(-1)     F.reshape(-1)     (A + 1).ravel()
F.ravel("K")     A.flatten() * 2     A.T     (A * 2).T @ np.ones(A.shape[0], int) * 0     A.T + A.T
np.transpose(T, (2, 0, 1))     T.transpose(1, 2, 0) - 1     T.transpose() + T.transpose()
T.swapaxes(0, 1) * 2     np.moveaxis(T, 0, -1) + 1     np.rollaxis(T, 2)     np.broadcast_to(r, A.shape) + A
np.broadcast_to(r + 1, (3, 12))     np.expand_dims(x + 1, 0)     np.squeeze(c * 2)     A[:, :1].squeeze(1)
np.atleast_2d(x + 1)     np.atleast_1d(o + 1)     np.concatenate([x + 1, y])
np.concatenate((A, B), axis=1) * 2     np.concatenate([A, B * 2, A], axis=0)     np.concatenate([f, x])
np.concatenate([i, f])     np.concatenate([A, N], axis=None)     np.concatenate([x, [1, 2]])
np.stack([x, y + 1])     np.stack([x, y], axis=-1)     np.stack([x, i])     np.hstack([x, y])
np.hstack([A, B])     np.vstack([x, y])     np.dstack([x, y])     np.column_stack([x, y])
np.append(x, y)     np.array([x, y])     np.array([x[0], y[1] + 1])     np.block([[A, A], [B, B]])
np.pad(x, 3)     np.pad(A, ((1, 2), (0, 3)))     np.pad(A + 1, 1, constant_values=7)
np.pad(i, (2, 1), mode="edge")     np.pad(A, 2, mode="reflect")     x.copy() + 1     np.copy(F)
np.repeat(x, 3)     np.repeat(A, 2, axis=1)     A.repeat(2, axis=0)     np.repeat(x[:3], [1, 2, 3])
np.tile(x, 2)     np.tile(A, (2, 3))     np.tile(r, (4, 1))     np.take(x, [0, 3, -1])     x.take(at)
np.take(A, [1, 1], axis=1)     np.roll(x, 2)     np.roll(x + 1, -7)     np.roll(A, 1, axis=0)
np.roll(A, 3, axis=1)     np.roll(A, 5)     np.roll(A, (1, 2), axis=(0, 1))     np.flip(x) + x
np.flip(A, 1)     np.fliplr(A) - np.flipud(A)     np.rot90(A + 1)     np.split(x + 1, 4)
np.array_split(x, 7)     np.hsplit(A, 3)     np.diagonal(A) + 1     np.diag(C)     np.diag(r)
np.meshgrid(r, r + 1)     list(np.broadcast_arrays(A, r))
x.size, x.ndim, A.shape, len(A), x.dtype, x.nbytes, A.itemsize     np.shape(A), np.ndim(A), np.size(A, 1)
[row.sum() for row in N[:3]]     [v * 2 for v in x[:3]]     np.zeros(5) + r[:5]
np.zeros((3, 12), "f4") + G[:3]     np.ones(x.shape) * x     np.ones(4, int)     np.full(x.shape, 2.5) - x
np.full((2, 12), r)     np.full(3, 7)     np.full(x.size, x[0])     np.arange(x.size) * x     np.arange(3)
np.linspace(0, 1, x.size) + x     np.eye(12) - C     np.identity(3)     np.zeros_like(x) + y
np.zeros_like(A, dtype="i4")     np.ones_like(f)     np.full_like(i, 3)     np.full_like(f, 3.7) * f
np.full_like(u, 3)     np.full_like(x, y)     np.zeros_like(F)     np.empty_like(x).shape
F.copy().reshape(-1) + 1
"""

INDEXING = """
x[1:] - x[:-1]     x[::-1] + x     x[::3]     x[5:-5:2]     x[-1:4:-3]     x[100:5]     x[3] + 1     x[-1]
A[2, 3]     A[1]     A[:, 2] + 1     A[..., 1]     A[None, :, None].shape, A[:, None, :] + A[0]
A[1:-1, 1:-1] + A[:-2, 1:-1] + A[2:, 1:-1] - 4 * A[1:-1, :-2]     (A + 1)[2:, ::2]     A[::-1, ::-1] - A
T[0, ..., 1]     T[:, -1, ::-2]     x[()]     o[()] + 1     o[...]     x[[0, 2, 4]]     x[at]     x[j]
(x + y)[at] * 2     A[[0, 1], [2, 3]]     A[:, [3, 1]]     A[at[:4] % 5]
A[np.arange(5)[:, None], [1, 2]]     x[m]     x[x > 0].sum() > 0     A[A > 0]     A[A[:, 0] > 0]
x[np.array(3)]     x[oi]     x[oi:]     x[np.argmax(x)] == np.max(x)     R[2:7] + R[-1]     b[1:5]     x[:0]
E[:, 1]     x[np.newaxis, 1:3]     np.ix_([0, 2], [1, 3])     A[np.ix_([0, 2], [1, 3])]
"""

# Numbers out of range for the array's dtype: NumPy widens the dtype, or raises since 2.5.
TOO_GREAT = """
np.where(m, u, 300)     np.where(m, -1, u) + w     np.where(v > 3, 2**40, v)
"""


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", split(OPERATORS + FUNCTIONS + SHAPES + INDEXING))
def test_exact(engine, body, n):
    check(body, n, assert_values)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", split(CLOSE))
def test_close(engine, body, n):
    check(body, n, near)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", split(TOO_GREAT))
def test_numbers_that_a_type_does_not_hold(engine, body, n):
    if not has_numpy("2.5"):
        check(body, n, assert_values)
        return
    function, names = written(body)
    given = [pool(n)[name] for name in names]
    (status, got, _), (_, want, _) = (outcome(each, *given) for each in (pk.fuse(function), function))
    assert (status, type(got), str(got)) == ("error", OverflowError, str(want))


@pytest.mark.parametrize("body", split(OPERATORS + FUNCTIONS + SHAPES + INDEXING + CLOSE))
def test_arrays_in_defaults(engine, body):
    """All arrays but one are defaults of the function, whose elements are constants of its plan."""
    function, names = written(body)
    if not names:
        pytest.skip("it names no arrays")
    arrays = pool(SIZES[0])
    function.__defaults__ = tuple([arrays[name] for name in names[1:]])
    fused = pk.fuse(function)
    for _ in range(3):
        status, got, warned = outcome(fused, arrays[names[0]])
        wanted_status, want, wanted_warnings = outcome(function, arrays[names[0]])
        assert (status, wanted_status) == ("ok", "ok"), (got, want)
        for mine, theirs in zip(flat(got), flat(want), strict=True):
            if isinstance(theirs, (np.ndarray, np.generic)):
                near(np.asarray(mine), np.asarray(theirs))
        assert warned == wanted_warnings
        if names[0] not in ("a", "d", "Z"):  # sorted, or read-only
            arrays[names[0]][...] = arrays[names[0]][::-1].copy() if arrays[names[0]].ndim else 3


@pytest.mark.parametrize("body", split(OPERATORS + FUNCTIONS + SHAPES + INDEXING + CLOSE))
def test_numpy_runs_the_rest_from_any_operation_on(body, monkeypatch):
    """As `auto` lets it, where tracing is far slower than NumPy."""
    left, fall_back_if_slow = 0, TracedValues.fall_back_if_slow

    def fall_back(trace):
        nonlocal left
        left -= 1
        with monkeypatch.context() as patch:
            patch.setattr(Costs, "is_far_slower_than_numpy", left < 0)
            patch.setattr(trace, "engine", "auto")
            return fall_back_if_slow(trace)

    monkeypatch.setattr(TracedValues, "fall_back_if_slow", fall_back)
    for operations in range(20):
        left = operations
        with pk.engine("cpu"):
            check(body, SIZES[0], near)
        if left >= 0:
            break
