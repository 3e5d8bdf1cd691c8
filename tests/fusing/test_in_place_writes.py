"""Bodies that write to arrays in place: results and arguments are NumPy's."""

import re

import numpy as np
import pytest
from fusing.bodies import SIZES, check, split, written
from helpers.strategies import assert_values

import pycudakit as pk

WRITES = """
x += y; return x     x -= 1; x *= 2; x /= 4; return x * 2     x += x; return x
i += 1; i //= 2; i %= 7; i <<= 1; i ^= 3; i |= 8; i &= 15; return i     m |= q; m &= ~q; m ^= True; return m
u += 200; return u     f += 1.5; f *= x.astype("f4"); return f     f += x; return f     h *= 2; return h
x **= 2; return x     i **= 2; return i     o += 1; return o     b += x; return b     bi *= 2; return bi + 1
R += x; return R     S *= 2; return S[1:]     F += A; return F     A += r; return A
A -= c; A.T[1] = 0; return A     x[0] = 1; return x[0] + x     x[1:] = x[:-1]; return x
x[:-1] = x[1:]; return x     x[::-1] = x; return x     x[1:] += x[:-1]; return x
x[:-1] *= x[1:]; return x     x[::2] = 0; return x     x[1::2] = y[::2]; return x
x[:] = y; y += 1; return x, y     x[...] = 5; return x     y = x[2:9]; y[1] = 100; y *= 2; return x
y = x[::2]; z = y[::-1]; z[1] = -1; return y.sum() < 1e9, x, z
y = x + 1; z = y[3:]; z -= 2; y[4] = 0; return y, z     y = x + 1; z = y.reshape(-1, 12); z[1] = 7; return y
y = x + 1; z = y.reshape(-1, 12).T; z[1, 1:] = 7; y[0] = 3; return z     y = x.ravel(); y[0] = 3; return x
y = F.ravel(); y[0] = 3; return F, y     y = F.copy(); v = y.reshape(-1); v[0] = 9; return y
y = np.copy(F); v = y.reshape(-1); v[0] = 9; return y     y = F + 1; v = y.reshape(-1); v[0] = 9; return y
y = A.T + 1; v = y.ravel(); v[0] = 9; return y     y = F.astype('f4'); v = y.reshape(-1); v[0] = 9; return y
y = A.T * F.T; v = y.T.ravel(); v[0] = 9; return y
y = np.zeros_like(F); v = y.ravel(); v[0] = 9; return y
y = np.where(A.T > 0, A.T, 1); v = y.ravel(); v[0] = 9; return y
y = np.concatenate([F, F]); v = y.ravel(); v[0] = 9; return y     y = F.flatten(); y[0] = 9; return F, y
y = A.T.copy(); v = y.ravel(); v[0] = 9; return y     v = o * 2; w = v.reshape(-1); w[...] = 7; return v, w
v = np.sum(i); w = v.reshape(-1); w[0] = 7; return v, w     m[::-1] = m; return m
m[1:] = m[:-1]; return m     np.maximum(2, 2.5, out=x); return x     np.add(1, 2, out=i); return i
y = A.copy(); y[0] = 3; return A, y     y = x; y += 1; return x     y = x; y = y + 1; return x, y
y = x * 2; x += 1; return y     y = x[1:] * 2; x[3] = 1; return y, x
y = x + 1; z = y * 2; y[0] = 5; return y, z     y = x + z; x[:] = 0; z[5:] = y[:-5]; return y
A[1:-1, 1:-1] = 0.25 * (A[:-2, 1:-1] + A[2:, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:]); return A
A[0] = r; A[:, 1] = 2; A[2, 3] = 4; return A     A[:, 1:] += A[:, :-1]; return A
A[1:] -= A[:-1]; return A     A[:, ::-1] = A; return A     A[...] = A.T.copy().T; return A
C[:] = C.T; return C     C += C.T; return C     C.T[0] = C[0]; return C
T[:, 0] = r; T[..., 2] = T[..., 3]; return T     x[m] = 0; return x     x[x < 0] = 0; return x * 2
x[x > 1] = 1; x[~m] += 2; return x     x[m] = y[m]; return x     x[m] *= 2; return x
A[A > 3] = 3; return A     A[A[:, 0] > 0] = r; return A     i[i > 3] = 7.9; return i
f[m] = 2.5; return f     u[m] = 255; return u     m[i > 5] = True; return m     x[at] = 5; return x
x[[1, 2]] = [3, 4]; return x     A[:, [0, 2]] = 9; return A     x[oi] = 8; return x
x[i[0] % 5] = 8; return x     x[np.argmax(x)] = -1; return x     x[1:4] = [1, 2, 3]; return x
x[1:4] = i[1:4]; return x     i[1:4] = x[1:4]; return i     i[0] = 3.9; return i     u[:3] = i[:3]; return u
x[:5] = np.arange(5); return x     x[:5] = y[None, :5]; return x     b[1:5] = x[1:5]; b[0] = 3; return b
R[::2] = x[::2]; return R     x.fill(3); return x     x.sort(); return x     np.add(x, y, out=x); return x
np.add(x, y, out=x[::1]); return x     np.multiply(x[1:], 2, out=x[:-1]); return x
np.sqrt(p, out=x); return x     np.add(x, y, out=f, casting="same_kind"); return f
z = np.empty(x.shape); np.add(x, y, out=z); return z
z = np.zeros(x.shape); z[1:-1] = x[2:] - x[:-2]; return z
z = np.zeros_like(x); z[::2] = x[::2]; z[1::2] = 1; return z
z = np.empty_like(A); z[0] = 1; z[1:] = A[:-1]; return z
z = np.ones(A.shape, "i4"); z[:, 1] += 2; return z     z = np.empty(A.shape); z.fill(2); z -= A; return z
np.sum(N, axis=0, out=N[0]); return N     np.max(A, axis=1, out=x[:A.shape[0]]); return x
np.cumsum(i, out=i); return i     np.copyto(x, y); return x     np.copyto(x, y, where=m); return x
np.copyto(x, 3); return x     np.clip(x, 0, 1, out=x); return x     np.round(x, 1, out=x); return x
np.nan_to_num(s, copy=False); return s     np.put(x, [1, 2], 5); return x
np.place(x, m, [1, 2]); return x     np.putmask(x, m, y); return x     np.fill_diagonal(C, 0); return C
np.add.at(x, [1, 1, 2], 1); return x     np.add(x, y, where=m, out=x); return x     x.flat[3] = 8; return x
y = x.view(); y[1] = 3; return x     y = x.view("i8"); y[1] = 0; return x
y, z = np.split(x, 2); y += z; z[:] = 0; return x     y = np.diagonal(C); C[0, 0] = 9; return y
y = np.broadcast_to(x, (2, x.size)); x[1] = 4; return y
y = x.astype("f8", copy=False); y[0] = 2; return x     y = np.flip(x); y[0] = 2; return x
y = x[None]; y[0, 1] = 2; return x     y = x.swapaxes(0, 0); y[2] = 0; return x, y
y = np.squeeze(c); y[1] = 9; return c     e += 1; return e     e[:] = 3; return e
E += r; E[:, 1] = 2; return E     v = x[2]; x[2] = 0; return v, x     v = x[2:3]; x[2] = 0; return v, x
v = o[()]; o += 1; return v, o     v = np.sum(i); v += 1; w = v; w += 1; return v, w
x, y = y, x; x += 1; return x, y     x[1:], y[1:] = y[:-1], x[:-1]; return x, y     i -= i[0]; return i
x -= x[0]; return x     x /= np.max(x); return x     A -= A[0]; return A
y = np.einsum("ii->i", C); y[:] = 0; return C, y     y = np.einsum("ij->ji", A); y *= 2; return A, y
y = np.einsum("...j->j...", T); y[0] = 9; return T     y = np.einsum("ij->ji", A + 1); y[0] = 9; return y
A -= A.max(axis=0); A[A.min(axis=1) < -5] = 0; return A
"""

# NumPy sets attributes of the array itself; a fused function does so for the caller's array, too.
SET = """
A.shape = -1; A[3] = 1; return A     A.shape = (12, -1); A += 1; return A, A.shape
x.shape = 12, -1; return x[0]     y = A + 1; z = y * 2; y.shape = y.size; y[0] = 0; return y, z
y = x; y.shape = (-1, 12); return x, y[1:] + 1     y = A[1:]; y.shape = -1; y[0] = 9; return A, y
v = x[:1] * 2; v.shape = (); return v     x.shape = y.shape = z.shape = -1, 12; return x + y * z
x.dtype = "i8"; x &= 255; return x     y = f * 2; y.dtype = "i4"; return y     x.real = 3; return x
A.flat = 5; return A     A.flat = x[:7]; return A
"""

LOOPS = [
    "for n in range(5): x[1:-1] = 0.5 * (x[:-2] + x[2:])\nreturn x",
    "for n in range(40): x = x + n; y -= x\nreturn x, y",
    "for n in range(300): x = x * 0.5 + 1\nreturn x",
    "for n in range(70): z[n % 7] = n; z[1:] = z[:-1] + z[1:]\nreturn z",
    "z = []\nfor n in range(6): z.append(x * n); x += 1\nreturn z",
    "z = {}\nfor n in range(3): z[n] = x[n:][:10]; x[n] = 100\nreturn z[0], z[1], z[2], x",
]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", split(WRITES) + split(SET) + LOOPS)
def test_writes(engine, body, n):
    check(body, n, assert_values)


SET_WRONGLY = [
    lambda x: setattr(x.reshape(-1, 12).T, "shape", -1),
    lambda x: setattr(x, "shape", 7),
    lambda x: setattr(x.sum(), "shape", 1),
    lambda x: setattr(x[::2], "dtype", "i4"),
    lambda x: setattr(x, "imag", 3),
    lambda x: setattr(x, "flat", "a"),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("place", range(len(SET_WRONGLY)))
def test_attributes_that_cannot_be_set(engine, place, n):
    body = SET_WRONGLY[place]
    with pytest.raises((AttributeError, TypeError, ValueError)) as numpys:
        body(np.ones(n))
    with pytest.raises(numpys.type, match=re.escape(str(numpys.value))):
        pk.fuse(body)(np.ones(n))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_array_becomes_nothing_that_is_not_written_down(engine):
    with pytest.raises(pk.errors.Unsupported, match="cannot become complex128"):
        pk.fuse(lambda x: setattr(x, "dtype", complex), strict=True)(np.ones(12_000))


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


def test_a_large_array_that_is_no_argument_is_read_at_once(engine):
    """A global array may change at any time: it is read at once, also for a deferred `out=`."""
    weights = np.arange(20_000.0)

    @pk.fuse
    def body(x):
        y = x + 1
        np.add(x, weights, out=y)
        z = x * 2
        z += weights
        weights[...] = 0
        return y, z

    x = np.ones(20_000)
    expected = x + weights, x * 2 + weights
    for mine, theirs in zip(body(x), expected, strict=True):
        assert_values(mine, theirs)


LATER = {
    "meshgrid": lambda x, w: np.meshgrid(w[:5], x[:5])[0] + 1,
    "broadcast": lambda x, w: np.broadcast_arrays(x, w)[1] * 2,
    "outer": lambda x, w: np.multiply.outer(x[:5], w[:5]),
    "put together, and again": lambda x, w: np.concatenate([x, w])[: x.size] * w,
}


@pytest.mark.parametrize("size", [7, 20_000])
@pytest.mark.parametrize("name", LATER)
def test_an_array_that_is_no_argument_is_read_before_it_changes(engine, name, size):
    def body(x):
        y = LATER[name](x, others)
        others[...] += 1  # a plain NumPy array: the trace does not see the write
        return y

    x, others = np.linspace(0, 1, size), np.arange(float(size))
    want = LATER[name](x, others.copy())
    np.testing.assert_array_equal(pk.fuse(body)(x), want)
    np.testing.assert_array_equal(others, np.arange(1.0, size + 1))


def test_a_known_mask_of_rows_and_columns_that_chooses_nothing(engine):
    mask = np.zeros((3, 5000), bool)

    def body(x):
        x[mask] = x[mask] - 1
        return x[mask], x

    for got, want in zip(pk.fuse(body)(np.ones(mask.shape)), body(np.ones(mask.shape)), strict=True):
        np.testing.assert_array_equal(got, want)
