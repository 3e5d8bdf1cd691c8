"""Bodies of functions: fused, each gives what it gives by plain NumPy, and does to its arguments what that does."""

import ast

import numpy as np
import pytest
from helpers.strategies import assert_values, outcome

import pycudakit as pk

SIZES = [120, 12_000]  # elements: as NumPy does them at once under `auto`, and as they are put off


def pool(n):
    """Return the arrays that bodies name."""
    rng = np.random.default_rng(n)
    whole = lambda low, high, dtype: rng.integers(low, high, n).astype(dtype)  # noqa: E731
    tens = lambda dtype=float: (rng.standard_normal(n) * 10).astype(dtype)  # noqa: E731
    rows = n // 12
    arrays = {
        "x": tens(),
        "y": tens(),
        "z": tens(),
        "p": rng.random(n) + 0.5,
        "f": tens("f4"),
        "g": tens("f4"),
    }
    arrays |= {"h": tens("f2"), "i": whole(-100, 100, "i8"), "j": whole(1, 9, "i8"), "k": whole(-9, 9, "i4")}
    arrays |= {"u": whole(0, 256, "u1"), "v": whole(-128, 128, "i1"), "w": whole(0, 9, "u2")}
    arrays |= {"l": whole(0, 2**63, "u8"), "m": tens() > 0, "q": tens() > 3, "a": np.sort(tens())}
    arrays |= {"s": rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -2.5, 1e308], n)}
    arrays |= {
        "A": tens().reshape(rows, 12),
        "B": tens().reshape(rows, 12),
        "N": whole(-9, 9, "i8").reshape(rows, 12),
    }
    arrays |= {"G": tens("f4").reshape(rows, 12), "F": np.asfortranarray(tens().reshape(rows, 12))}
    arrays |= {
        "T": tens().reshape(-1, 5, 12),
        "C": rng.standard_normal((12, 12)),
        "r": rng.standard_normal(12),
    }
    arrays |= {"c": rng.standard_normal((rows, 1)), "o": np.array(2.5), "oi": np.array(3), "e": np.zeros(0)}
    arrays |= {"E": np.zeros((0, 12)), "b": tens(">f8"), "bi": whole(-9, 9, ">i4"), "d": tens()}
    arrays |= {"R": tens()[::-1], "S": np.repeat(tens(), 2)[::2], "at": rng.integers(-n, n, n // 2)}
    arrays |= {"Z": np.broadcast_to(np.array(1.5), (n,)), "one": np.array([2.0]), "D": np.ones((3, 4, 5))}
    arrays["d"].flags.writeable = False
    return arrays


def written(body):
    """Return the function that a text is the body of; its parameters are the arrays that it names."""
    names = {
        node.id for node in ast.walk(ast.parse(body.replace("return ", ""))) if isinstance(node, ast.Name)
    }
    found = sorted(names & pool(SIZES[0]).keys())
    body = body if "return" in body else f"return {body}"
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    space = {"np": np, "pk": pk}
    exec(f"def body({', '.join(found)}):\n{lines}", space)
    return space["body"], found


def flat(value):
    """Return the parts of nested tuples and lists."""
    return [part for each in value for part in flat(each)] if isinstance(value, (tuple, list)) else [value]


def check(engine, body, n, compare):
    function, names = written(body)
    ours, numpys = pool(n), pool(n)
    status, got, warned = outcome(pk.fuse(function), *(ours[name] for name in names))
    wanted_status, want, wanted_warnings = outcome(function, *(numpys[name] for name in names))
    assert (status, wanted_status) == ("ok", "ok"), (got, want)
    for mine, theirs in zip(flat(got), flat(want), strict=True):
        assert type(mine) is type(theirs), f"a {type(mine)}, not a {type(theirs)}"
        if isinstance(theirs, (np.ndarray, np.generic)):
            compare(np.asarray(mine), np.asarray(theirs))
        else:
            assert mine == theirs
    for name in names:
        compare(ours[name], numpys[name])
    assert warned == wanted_warnings


def near(got, want):
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    eps = 4 * {2: 1e-3, 4: 1e-6, 8: 1e-12}[want.itemsize]
    np.testing.assert_allclose(got, want, rtol=eps, atol=eps * max(1, np.max(np.abs(want), initial=0)))


OPERATORS = """
x + y
x - y * z
x / p + f
-x + 1
abs(x) - 3
+x
~m & q | m
~i ^ i
i & 7 | j
i // j
i % j
i // 3 + i % 7
x // 2
x % 1.5
divmod(i, j)
i << 2
i >> 1
2 ** j
i ** 2
x ** 2
x ** -1
p ** 0.5
x ** 1
1 / p
7 - i
3 / j
x < y
(x <= 0) | (y >= 0.5)
(i == j) != m
u + 1
u * 2
u - u
v - 1
v * v
h + 1
h * 2.5
h + f
h * x
f + 1
f * 1.5
f + x
f + i
k + u
k * i
l + 1
l + l
u + v
w - 1
m + m
m * x
m + 1
m & True
m == 1
i + True
i + 1.5
f + np.float64(2)
f * np.float32(2)
u + np.uint8(250)
i + np.int8(1)
f + np.ones(1, "f8")
x + o
o + 1
o * f
oi + u
f + o
o + o
x + one
A + r
A * c - r
r + c
T + r
T - T[0]
b + x
b * 2
bi + bi
R - x
S + x
Z + Z
Z * x
F + A
F + F.T.T
e + 1
E * r
E + 1
s + s
s * 0
s == s
s < 1
d + 1
x * np.array(2.0)
x + [1.0]
x + x
"""

FUNCTIONS = """
np.sqrt(p)
np.add(x, y) - np.subtract(x, y)
np.add(f, x, dtype="f4", casting="same_kind")
np.multiply(i, j, dtype="f8")
np.maximum(x, y) - np.minimum(x, 0)
np.fmax(x, s)
np.where(x > 0, x, -y)
np.where(m, f, 0)
np.where(m, 1, u)
np.where(m, x, f)
np.where(x > 0, 1.0, -1.0)
np.where(A > 0, A, r)
np.where(i, x, y)
np.clip(x, -1, 2)
np.clip(x, y, None)
np.clip(x, None, 1)
np.clip(u, 3, 100)
np.clip(i, j, 50)
np.clip(f, -1.5, 1.5)
x.clip(0, 1)
np.round(x)
np.round(x, 2)
x.round(1)
np.round(i)
np.rint(x)
np.floor(x) + np.ceil(x) - np.trunc(x)
np.nan_to_num(s)
np.nan_to_num(s, nan=1.0, posinf=2, neginf=-3)
np.nan_to_num(i)
x.astype("f4")
x.astype(np.int32)
i.astype(float)
i.astype("u1")
f.astype("f8") + x
m.astype(int)
x.astype(bool)
u.astype("i1")
b.astype("f8")
x.astype("f8", copy=False)
np.isnan(s) | np.isinf(s)
np.isfinite(s)
np.sign(x) + np.signbit(s)
np.copysign(x, y)
np.square(x) + np.absolute(y)
np.logical_and(x > 0, i)
np.logical_not(m)
np.bitwise_xor(i, 5)
np.left_shift(u, 1)
np.gcd(i, j)
np.fmod(x, 2.5)
np.floor_divide(x, 2)
np.modf(x)
np.frexp(x)
np.divmod(x, 3)
np.reciprocal(p)
np.greater(x, y)
np.equal(i, 3)
np.isclose(x, y)
np.allclose(x, x)
np.array_equal(x, y)
np.sum(i)
i.sum() + 1
np.sum(N, axis=0)
np.sum(N, axis=1, keepdims=True)
N.sum(axis=(0, 1))
np.sum(u)
np.sum(m)
np.sum(i, dtype="i4")
np.sum(i, initial=10)
np.sum(i, where=m)
np.sum(N * 2 + 1, axis=-1)
np.sum(N, axis=0, out=np.zeros(12, "i8"))
np.prod(j[:9])
np.prod(N[:4], axis=0)
np.max(x) - np.min(x)
A.max(axis=0) - A.min(axis=0)
np.max(A - r, axis=1)
np.max(s)
np.max(x, initial=1e9)
np.min(x, where=m, initial=5.0)
np.amax(A, axis=1, keepdims=True)
np.argmax(x) + np.argmin(y)
A.argmax(axis=0)
np.argmin(A * A, axis=1)
np.any(x > 3) | np.all(m)
np.any(A > 15, axis=0)
(A > 0).all(axis=1)
np.count_nonzero(m)
np.count_nonzero(N, axis=0)
np.ptp(x)
np.add.reduce(i)
np.add.reduce(N, axis=1)
np.maximum.reduce(A)
np.multiply.outer(i, k[:5])
np.add.outer(r, r)
np.add.accumulate(i)
np.maximum.accumulate(x)
np.nanmax(x)
np.nansum(i)
np.cumsum(i)
i.cumsum() * 2
np.cumsum(N, axis=0)
np.cumsum(N, axis=1)[:, -1]
np.cumsum(u, dtype="i4")
np.cumprod(k[:5])
np.diff(x)
np.diff(A, axis=0)
np.diff(i, n=2)
np.sort(x)
np.sort(A, axis=0)
np.sort(-i)
np.argsort(i, kind="stable")
A.argsort(axis=1)
np.sort(s) + 0
np.searchsorted(a, x)
np.searchsorted(a, x, side="right")
a.searchsorted(0.5)
np.unique(i)
np.unique(k, return_counts=True)
np.bincount(j)
np.bincount(j, minlength=20)
np.bincount(j, weights=i)
np.histogram(x, bins=10, range=(-20, 20))
np.histogram(a, 7)
np.digitize(x, np.array([-5.0, 0, 5]))
np.median(i)
np.partition(x, 5)[5]
np.lexsort((i, j))
np.dot(i, j)
i @ j
N @ N[:12].T
np.outer(i[:30], j)
np.trace(N)
np.tril(A) + np.triu(A)
np.nonzero(m)
x.nonzero()
np.flatnonzero(x > 0)
np.argwhere(A > 10)
np.where(m)
np.compress(m, x)
np.extract(m, x)
np.select([x > 1, y > 1], [x, y], 0)
np.choose(k % 2, [x, y])
np.take_along_axis(A, np.argsort(A, axis=1), axis=1)
np.isin(i, [1, 2, 3])
"""

CLOSE = """
np.exp(-x * x) * np.sin(y)
np.log(p) / (1 + np.sqrt(p))
np.tanh(f) + np.cos(g)
np.exp(h / 10)
np.hypot(x, y) - np.arctan2(y, x)
np.log1p(p) + np.expm1(-p)
np.power(p, 1.7) + p ** y * 0
np.sin(i)
np.exp(m)
1 / (1 + np.exp(-x))
np.sum(x)
x.sum() / x.size
np.mean(A, axis=0)
np.mean(i)
f.mean()
h.mean()
np.std(A, axis=1)
np.std(x, ddof=1)
x.var(ddof=2)
np.var(A, axis=0, keepdims=True)
np.mean(x, where=m)
np.sum(x, where=m, initial=3)
np.sum(f)
np.sum(G, axis=0)
np.sum(f, dtype="f8")
(A - A.mean(axis=0)) / A.std(axis=0)
np.exp(A - A.max(axis=1, keepdims=True)) / np.sum(np.exp(A - A.max(axis=1, keepdims=True)), axis=1, keepdims=True)
np.prod(p[:20])
np.nanmean(x) + np.nanstd(x)
np.average(A, axis=1, weights=np.arange(12))
np.linalg.norm(x)
np.linalg.norm(A, axis=1)
np.cumsum(x)
np.cumsum(A, axis=0)
np.cumsum(f)
np.cumprod(p[:20])
np.percentile(x, [5, 50, 95])
np.percentile(A, 30, axis=0)
np.quantile(x, 0.25)
np.median(A, axis=1)
np.median(f)
A @ C
C @ r
r @ C
np.matmul(T, C)
np.dot(A, C)
np.dot(x, y)
np.vdot(x, y)
np.inner(A, r)
np.outer(r, r)
np.tensordot(T, C, axes=1)
np.tensordot(T, T, axes=([1, 2], [1, 2]))
np.einsum("ij,jk->ik", A, C)
np.einsum("ij,ij->i", A, B)
np.einsum("ij->j", A)
np.kron(r, r)
np.interp(x, a, np.arange(a.size))
np.interp(x, np.linspace(-30, 30, 7), np.linspace(0, 1, 7) ** 2)
np.histogram(x, bins=10, range=(-20, 20), density=True)
np.bincount(j, weights=x)
np.gradient(x)
np.convolve(x, [0.25, 0.5, 0.25], "same")
np.cov(C)
np.linalg.solve(C, r)
np.trapezoid(x)
np.cross(x[:3], y[:3])
"""

SHAPES = """
x.reshape(4, -1) + 1
np.reshape(x + 1, (-1, 6))
A.reshape(-1)
F.reshape(-1)
(A + 1).ravel()
F.ravel("K")
A.flatten() * 2
A.T
(A * 2).T @ np.ones(A.shape[0], int) * 0
A.T + A.T
np.transpose(T, (2, 0, 1))
T.transpose(1, 2, 0) - 1
T.transpose() + T.transpose()
T.swapaxes(0, 1) * 2
np.moveaxis(T, 0, -1) + 1
np.rollaxis(T, 2)
np.broadcast_to(r, A.shape) + A
np.broadcast_to(r + 1, (3, 12))
np.expand_dims(x + 1, 0)
np.squeeze(c * 2)
A[:, :1].squeeze(1)
np.atleast_2d(x + 1)
np.atleast_1d(o + 1)
np.concatenate([x + 1, y])
np.concatenate((A, B), axis=1) * 2
np.concatenate([A, B * 2, A], axis=0)
np.concatenate([f, x])
np.concatenate([i, f])
np.concatenate([A, N], axis=None)
np.concatenate([x, [1, 2]])
np.stack([x, y + 1])
np.stack([x, y], axis=-1)
np.stack([x, i])
np.hstack([x, y])
np.hstack([A, B])
np.vstack([x, y])
np.dstack([x, y])
np.column_stack([x, y])
np.append(x, y)
np.array([x, y])
np.array([x[0], y[1] + 1])
np.block([[A, A], [B, B]])
np.pad(x, 3)
np.pad(A, ((1, 2), (0, 3)))
np.pad(A + 1, 1, constant_values=7)
np.pad(i, (2, 1), mode="edge")
np.pad(A, 2, mode="reflect")
x.copy() + 1
np.copy(F)
np.repeat(x, 3)
np.repeat(A, 2, axis=1)
A.repeat(2, axis=0)
np.repeat(x[:3], [1, 2, 3])
np.tile(x, 2)
np.tile(A, (2, 3))
np.tile(r, (4, 1))
np.take(x, [0, 3, -1])
x.take(at)
np.take(A, [1, 1], axis=1)
np.roll(x, 2)
np.roll(x + 1, -7)
np.roll(A, 1, axis=0)
np.roll(A, 3, axis=1)
np.roll(A, 5)
np.roll(A, (1, 2), axis=(0, 1))
np.flip(x) + x
np.flip(A, 1)
np.fliplr(A) - np.flipud(A)
np.rot90(A + 1)
np.split(x + 1, 4)
np.array_split(x, 7)
np.hsplit(A, 3)
np.diagonal(A) + 1
np.diag(C)
np.diag(r)
np.meshgrid(r, r + 1)
list(np.broadcast_arrays(A, r))
x.size, x.ndim, A.shape, len(A), x.dtype, x.nbytes, A.itemsize
np.shape(A), np.ndim(A), np.size(A, 1)
[row.sum() for row in N[:3]]
[v * 2 for v in x[:3]]
np.zeros(5) + r[:5]
np.zeros((3, 12), "f4") + G[:3]
np.ones(x.shape) * x
np.ones(4, int)
np.full(x.shape, 2.5) - x
np.full((2, 12), r)
np.full(3, 7)
np.full(x.size, x[0])
np.arange(x.size) * x
np.arange(3)
np.linspace(0, 1, x.size) + x
np.eye(12) - C
np.identity(3)
np.zeros_like(x) + y
np.zeros_like(A, dtype="i4")
np.ones_like(f)
np.full_like(i, 3)
np.full_like(f, 3.7) * f
np.full_like(u, 3)
np.full_like(x, y)
np.zeros_like(F)
np.empty_like(x).shape
"""

INDEXING = """
x[1:] - x[:-1]
x[::-1] + x
x[::3]
x[5:-5:2]
x[-1:4:-3]
x[100:5]
x[3] + 1
x[-1]
A[2, 3]
A[1]
A[:, 2] + 1
A[..., 1]
A[None, :, None].shape, A[:, None, :] + A[0]
A[1:-1, 1:-1] + A[:-2, 1:-1] + A[2:, 1:-1] - 4 * A[1:-1, :-2]
(A + 1)[2:, ::2]
A[::-1, ::-1] - A
T[0, ..., 1]
T[:, -1, ::-2]
x[()]
o[()] + 1
o[...]
x[[0, 2, 4]]
x[at]
x[j]
(x + y)[at] * 2
A[[0, 1], [2, 3]]
A[:, [3, 1]]
A[at[:4] % 5]
A[np.arange(5)[:, None], [1, 2]]
x[m]
x[x > 0].sum() > 0
A[A > 0]
A[A[:, 0] > 0]
x[np.array(3)]
x[oi]
x[oi:]
x[np.argmax(x)] == np.max(x)
R[2:7] + R[-1]
b[1:5]
x[:0]
E[:, 1]
x[np.newaxis, 1:3]
np.ix_([0, 2], [1, 3])
A[np.ix_([0, 2], [1, 3])]
"""

WRITES = """
x += y; return x
x -= 1; x *= 2; x /= 4; return x * 2
x += x; return x
i += 1; i //= 2; i %= 7; i <<= 1; i ^= 3; i |= 8; i &= 15; return i
m |= q; m &= ~q; m ^= True; return m
u += 200; return u
f += 1.5; f *= x.astype("f4"); return f
f += x; return f
h *= 2; return h
x **= 2; return x
i **= 2; return i
o += 1; return o
b += x; return b
bi *= 2; return bi + 1
R += x; return R
S *= 2; return S[1:]
F += A; return F
A += r; return A
A -= c; A.T[1] = 0; return A
x[0] = 1; return x[0] + x
x[1:] = x[:-1]; return x
x[:-1] = x[1:]; return x
x[::-1] = x; return x
x[1:] += x[:-1]; return x
x[:-1] *= x[1:]; return x
x[::2] = 0; return x
x[1::2] = y[::2]; return x
x[:] = y; y += 1; return x, y
x[...] = 5; return x
y = x[2:9]; y[1] = 100; y *= 2; return x
y = x[::2]; z = y[::-1]; z[1] = -1; return y.sum() < 1e9, x, z
y = x + 1; z = y[3:]; z -= 2; y[4] = 0; return y, z
y = x + 1; z = y.reshape(-1, 12); z[1] = 7; return y
y = x + 1; z = y.reshape(-1, 12).T; z[1, 1:] = 7; y[0] = 3; return z
y = x.ravel(); y[0] = 3; return x
y = F.ravel(); y[0] = 3; return F, y
y = A.copy(); y[0] = 3; return A, y
y = x; y += 1; return x
y = x; y = y + 1; return x, y
y = x * 2; x += 1; return y
y = x[1:] * 2; x[3] = 1; return y, x
y = x + 1; z = y * 2; y[0] = 5; return y, z
y = x + z; x[:] = 0; z[5:] = y[:-5]; return y
A[1:-1, 1:-1] = 0.25 * (A[:-2, 1:-1] + A[2:, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:]); return A
A[0] = r; A[:, 1] = 2; A[2, 3] = 4; return A
A[:, 1:] += A[:, :-1]; return A
A[1:] -= A[:-1]; return A
A[:, ::-1] = A; return A
A[...] = A.T.copy().T; return A
C[:] = C.T; return C
C += C.T; return C
C.T[0] = C[0]; return C
T[:, 0] = r; T[..., 2] = T[..., 3]; return T
x[m] = 0; return x
x[x < 0] = 0; return x * 2
x[x > 1] = 1; x[~m] += 2; return x
x[m] = y[m]; return x
x[m] *= 2; return x
A[A > 3] = 3; return A
A[A[:, 0] > 0] = r; return A
i[i > 3] = 7.9; return i
f[m] = 2.5; return f
u[m] = 255; return u
m[i > 5] = True; return m
x[at] = 5; return x
x[[1, 2]] = [3, 4]; return x
A[:, [0, 2]] = 9; return A
x[oi] = 8; return x
x[i[0] % 5] = 8; return x
x[np.argmax(x)] = -1; return x
x[1:4] = [1, 2, 3]; return x
x[1:4] = i[1:4]; return x
i[1:4] = x[1:4]; return i
i[0] = 3.9; return i
u[:3] = i[:3]; return u
x[:5] = np.arange(5); return x
x[:5] = y[None, :5]; return x
b[1:5] = x[1:5]; b[0] = 3; return b
R[::2] = x[::2]; return R
x.fill(3); return x
x.sort(); return x
np.add(x, y, out=x); return x
np.add(x, y, out=x[::1]); return x
np.multiply(x[1:], 2, out=x[:-1]); return x
np.sqrt(p, out=x); return x
np.add(x, y, out=f, casting="same_kind"); return f
z = np.empty(x.shape); np.add(x, y, out=z); return z
z = np.zeros(x.shape); z[1:-1] = x[2:] - x[:-2]; return z
z = np.zeros_like(x); z[::2] = x[::2]; z[1::2] = 1; return z
z = np.empty_like(A); z[0] = 1; z[1:] = A[:-1]; return z
z = np.ones(A.shape, "i4"); z[:, 1] += 2; return z
z = np.empty(A.shape); z.fill(2); z -= A; return z
np.sum(N, axis=0, out=N[0]); return N
np.max(A, axis=1, out=x[:A.shape[0]]); return x
np.cumsum(i, out=i); return i
np.copyto(x, y); return x
np.copyto(x, y, where=m); return x
np.copyto(x, 3); return x
np.clip(x, 0, 1, out=x); return x
np.round(x, 1, out=x); return x
np.nan_to_num(s, copy=False); return s
np.put(x, [1, 2], 5); return x
np.place(x, m, [1, 2]); return x
np.putmask(x, m, y); return x
np.fill_diagonal(C, 0); return C
np.add.at(x, [1, 1, 2], 1); return x
np.add(x, y, where=m, out=x); return x
x.flat[3] = 8; return x
y = x.view(); y[1] = 3; return x
y = x.view("i8"); y[1] = 0; return x
y, z = np.split(x, 2); y += z; z[:] = 0; return x
y = np.diagonal(C); C[0, 0] = 9; return y
y = np.broadcast_to(x, (2, x.size)); x[1] = 4; return y
y = x.astype("f8", copy=False); y[0] = 2; return x
y = np.flip(x); y[0] = 2; return x
y = x[None]; y[0, 1] = 2; return x
y = x.swapaxes(0, 0); y[2] = 0; return x, y
y = np.squeeze(c); y[1] = 9; return c
e += 1; return e
e[:] = 3; return e
E += r; E[:, 1] = 2; return E
v = x[2]; x[2] = 0; return v, x
v = x[2:3]; x[2] = 0; return v, x
v = o[()]; o += 1; return v, o
v = np.sum(i); v += 1; w = v; w += 1; return v, w
x, y = y, x; x += 1; return x, y
x[1:], y[1:] = y[:-1], x[:-1]; return x, y
i -= i[0]; return i
x -= x[0]; return x
x /= np.max(x); return x
A -= A[0]; return A
A -= A.max(axis=0); A[A.min(axis=1) < -5] = 0; return A
for n in range(5): x[1:-1] = 0.5 * (x[:-2] + x[2:])
return x
for n in range(40): x = x + n; y -= x
return x, y
for n in range(300): x = x * 0.5 + 1
return x
for n in range(70): z[n % 7] = n; z[1:] = z[:-1] + z[1:]
return z
z = []
for n in range(6): z.append(x * n); x += 1
return z
z = {}
for n in range(3): z[n] = x[n:][:10]; x[n] = 100
return z[0], z[1], z[2], x
"""


def blocks(text):
    """Return the bodies: a line each, but for loops, which end with `return`."""
    found, lines = [], []
    for line in text.strip().splitlines():
        lines.append(line)
        is_open = line.startswith("for ") or (line.endswith(("= []", "= {}")))
        if not is_open:
            found.append("\n".join(lines))
            lines = []
    return found


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", blocks(OPERATORS + FUNCTIONS + SHAPES + INDEXING + WRITES))
def test_exact(engine, body, n):
    check(engine, body, n, assert_values)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", blocks(CLOSE))
def test_close(engine, body, n):
    check(engine, body, n, near)


# ---- Arguments that share memory ------------------------------------------------------------------------

SHARING = {
    "one twice": lambda n: [(w := np.arange(n * 1.0)), w],
    "ahead": lambda n: [(w := np.arange(n + 1.0))[1:], w[:-1]],
    "behind": lambda n: [(w := np.arange(n + 1.0))[:-1], w[1:]],
    "against": lambda n: [(w := np.arange(n * 1.0)), w[::-1]],
    "between": lambda n: [(w := np.arange(2.0 * n))[::2], w[1::2]],
    "turned": lambda n: [(w := np.arange(n * n / 100)[: (n // 120) ** 2].reshape(n // 120, -1)), w.T],
    "the rest": lambda n: [(w := np.arange(2.0 * n))[:n], w[n:]],
    "through a buffer": lambda n: [(w := np.arange(n * 1.0)), np.frombuffer(w.data)],
    "in part through a buffer": lambda n: [(w := np.arange(n + 3.0))[:-3], np.frombuffer(w.data, offset=24)],
}
WRITE_SHARED = [
    "x += y",
    "x += 1; x *= y",
    "y *= 2; x -= y",
    "x[1:] = y[:-1]; y[::2] = 3",
    "x[:] = y; x += y",
]
WRITE_SHARED += [
    "t = x * 2; y += 1; x[1:] += t[:-1]",
    "t = x + y; x[...] = 0; y += t",
    "x[y > 3] = 1; y -= x",
]
WRITE_SHARED += ["t = y[2:]; x += 1; t *= 2; y[:2] = x[-2:]", "x[::-1] = y; y /= 2; x += 1"]
WRITE_SHARED += ["t = np.max(x, axis=0); y += 1; x[1:] = t", "y[1:] = np.cumsum(x, axis=0)[:-1]; x += 1"]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", WRITE_SHARED)
@pytest.mark.parametrize("sharing", SHARING)
def test_arguments_that_share_memory(engine, sharing, body, n):
    function, _ = written(f"{body}; return x + y")
    ours, numpys = SHARING[sharing](n), SHARING[sharing](n)
    assert_values(pk.fuse(function)(*ours), function(*numpys))
    for mine, theirs in zip(ours, numpys, strict=True):
        assert_values(mine, theirs)
