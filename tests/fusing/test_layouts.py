"""New arrays have NumPy's memory order, as views of them and `ravel("K")` show."""

import numpy as np
import pytest
from fusing.bodies import SIZES, pool, split, written

import pycudakit as pk

BODIES = """
F.astype("f4", order="C")     F.astype("f4", "C")     A.astype("f4", order="F")
F.astype("f8", "C", copy=False)
V.astype("f4", order="A")     F.astype("f4", order="A")     (F + 1).astype("f4", order="C")     V.copy("A")
F.copy("A")     np.copy(V, order="A")     (F * 2).copy("C")     np.zeros_like(V)     np.ones_like(V * 2)
np.zeros_like(F + 1)     np.zeros_like(F[:, ::2])     np.ones_like(A.T + F.T)
np.zeros_like(F, shape=(3, 4))
np.zeros_like(F, order="A")     np.zeros_like(V, order="A")     np.full_like(F, 3)
np.full_like(F, 3, "f4")
np.full_like(V, 3, order="C")     np.full_like(A, 3, order="F")     np.full_like(F, 3, shape=(2, 3))
np.stack([F, F])     np.stack([F, F], axis=1)     np.stack([F, F], axis=-1)     np.stack([V, V], axis=1)
np.concatenate([V, V])     np.concatenate([A, F])     np.concatenate([F, A], axis=1)     np.dstack([F, F])
np.concatenate([F[:1], F[:1]])     np.concatenate([A.T, A.T], axis=1)     np.concatenate([F[::-1], F])
np.concatenate([np.broadcast_to(r, A.shape), F])     np.stack([np.broadcast_to(r, A.shape), A])
np.roll(F, 1, axis=0)     np.roll(V, 1, axis=0)     np.roll(F + 1, -1, axis=1)     np.pad(F, 1)
np.pad(V, 1)
np.pad(F * 2, ((0, 1), (2, 0)))     np.select([F > 0], [F], 0)     np.select([A > 0], [A], 0)
np.pad(V, 1, mode="edge")     np.pad(F, 1, mode="reflect")     np.pad(F[:1], ((0, 2), (0, 0)), mode="minimum")
np.einsum("ij->ji", A)     np.einsum("ii->i", C)     np.einsum("kij->jki", T)
np.einsum("ij", F, optimize=True)     np.einsum("ij->ji", A, order="F")
np.einsum("ij,ij->ij", A, B, order="F")     np.einsum("ij,ij->ij", A, B, order="A")
np.einsum("ij,kj->ik", np.asfortranarray(N), np.asfortranarray(N[:9]))     np.einsum("ij,j->ji", A, r)
np.einsum("ij,ij->ij", F, F)     np.einsum("ijk->ki", V.astype(int))
np.einsum("kkj,j->kj", V[:5, :5], V[0, 0])
np.dot(F, 3)     np.dot(2.5, F)     np.inner(F, 2)     np.dot(V, 3)     np.dot(F.astype(int), 3)
np.take_along_axis(F, np.asfortranarray(np.argsort(A, 1)), 1)     np.take_along_axis(A, np.argsort(A, 0), 0)
np.take_along_axis(V, np.argsort(V, 1), 1)     np.median(V, 0)     np.median(V, 2)     np.median(V.T, 0)
np.median(V, 1, overwrite_input=True)     np.nanmedian(V, 0)     np.nanmedian(V, 2)     np.argmax(V, 0)
np.nanargmin(V, 1)     np.nanquantile(V, [0.3, 0.5], 1)     np.tile(V, (1, 1))     np.tile(F, 1)
np.conj(F)     np.conjugate(V * 2)
"""


# Results of one pass, each with the memory order of its operands.
TOGETHER = """
(F + 1, A + 1)     (A * 2, F * 2, A + F)     (A > 0, np.abs(F), F.T.T - 1)     (V * 2, T[:, :12, :5].T + 1)
np.where(F > 0, F, 1), A - 1     (F[::2] * 2, A[::2] * 2)     (F + r, A + r, r + F * 2)
"""
# Arrays that are not arguments, in an order that only NumPy makes.
OF_OTHERS = """
np.asfortranarray(A) + F     np.ascontiguousarray(F) + A     np.ascontiguousarray(A.T).T * 2
V.reshape(-1, 5)[:12].T + np.asfortranarray(np.ones((5, 12)))
"""


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", split(BODIES + OF_OTHERS))
def test_layouts(engine, body, n):
    function, names = written(body.replace("V", "T.transpose(1, 2, 0)"))
    arrays = pool(n)
    got, want = (each(*[arrays[name] for name in names]) for each in (pk.fuse(function), function))
    assert (got.dtype, got.shape, got.strides) == (want.dtype, want.shape, want.strides)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", split(TOGETHER))
def test_layouts_of_several(engine, body, n):
    function, names = written(body.replace("V", "T.transpose(1, 2, 0)"))
    arrays = pool(n)
    fused, plain = (each(*[arrays[name] for name in names]) for each in (pk.fuse(function), function))
    for got, want in zip(fused, plain, strict=True):
        assert (got.dtype, got.shape, got.strides) == (want.dtype, want.shape, want.strides)
        np.testing.assert_array_equal(got, want)


# An in-place write keeps the array's memory order: so `ravel` returns a view, or a copy, as in NumPy.
IN_PLACE = """
v = r * c; v += F     v = F * 2; v += A     v = F * 2; v *= A; v -= F     v = np.where(r > 3, c, r); v += F
v = r + c; np.multiply(v, F, out=v)     v = F + 1; np.add(v, A, out=v, where=A > 3)
v = np.zeros(A.shape); v += F     v = A * F + A; F[...] = v     v = A * F; F += v     v = A * 2; v += F.T.T
v = F * 2; F[...] = A * 3; v += F     v = np.zeros(A.shape); v = v * F     v = (r * c) * F
v = F * 2 + (r + c)     v = np.ones_like(A) * F; v -= F
v = np.zeros_like(F); v += A     v = np.maximum(F, 0); v **= A > 0     v = np.full(A.shape, 2.0); v *= F
v = F.sum(axis=1, keepdims=True) * F; v += A     v = T.transpose(2, 0, 1).max(2) * 1; v += v.T.copy().T
"""


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("body", split(IN_PLACE))
def test_layouts_of_arrays_written_in_place(engine, body, n):
    function, names = written(f"{body}\nflat = v.ravel(); flat[0] = 77\nreturn v, flat".replace("; ", "\n"))
    (mine, flat), (theirs, numpys) = (
        each(*[arrays[name] for name in names])
        for each, arrays in ((pk.fuse(function), pool(n)), (function, pool(n)))
    )
    assert mine.strides == theirs.strides
    np.testing.assert_allclose(mine, theirs)
    np.testing.assert_allclose(flat, numpys)


# ---- Views of results, which depend on their memory order -----------------------------------------------

ROW = np.broadcast_to(np.arange(1.0, 7.0), (5, 6))
PERMUTED = np.arange(90.0).reshape(5, 6, 3).transpose(2, 0, 1)
FORTRAN = np.asfortranarray(np.arange(90.0).reshape(3, 5, 6))
MIDDLE = np.arange(90.0).reshape(5, 3, 6).transpose(1, 0, 2)
HALF = np.asfortranarray(np.arange(80.0).reshape(5, 16))[:, ::2]
ONES = np.ones((3, 5, 1))

NEW_RESULTS = {
    "sum of product": (lambda x: (x * ONES).sum(axis=1), PERMUTED),
    "max of sum": (lambda x: (x + x[:1]).max(axis=0), PERMUTED),
    "std of difference": (lambda x: (x - ONES).std(axis=1, keepdims=True), PERMUTED),
    "mean of masked": (lambda x: (x * ONES).mean(axis=2, where=x > 3), PERMUTED),
    "sum of Fortran": (lambda x: (x * 2).sum(axis=0), FORTRAN),
    "broadcast views": (lambda x: x[:, :1] + x[:1], FORTRAN),
    "broadcast views of middle": (lambda x: x[:, :1] * x[:1] - x[..., 1:2], MIDDLE),
    "copy": (np.copy, ROW),
    "array": (np.array, ROW),
    "astype": (lambda x: x.astype(np.float32), ROW),
    "copy of broadcast": (lambda x: np.broadcast_to(x * 2, (4, *x.shape)).copy(), HALF),
    "nan_to_num": (np.nan_to_num, ROW),
    "round": (lambda x: np.round(x, 1), HALF),
    "round of Fortran": (lambda x: np.round(x, 1), FORTRAN),
    "round to integers": (lambda x: np.round(x / 2), HALF),
    "round of computed": (lambda x: (x * 2).round(-1), HALF),
    "cross": (lambda x: np.cross(x[..., :3], x[..., 3:]), MIDDLE),
    "cross along an axis": (lambda x: np.cross(x, x + 1, axis=0), PERMUTED),
    "cross of Fortran": (lambda x: np.cross(x, x[::-1], axisa=0, axisb=0, axisc=1), FORTRAN),
}


@pytest.mark.parametrize("grow", [1, 300])
@pytest.mark.parametrize("name", NEW_RESULTS)
def test_memory_order_of_results(engine, name, grow):
    """A reshaped result is a view or a copy of it, as in NumPy."""
    make, x = NEW_RESULTS[name]
    if grow > 1 and "cross" not in name and x is not PERMUTED and x is not FORTRAN:
        x = (
            np.broadcast_to(x[:1], (grow * 5, x.shape[1]))
            if x is ROW
            else np.asfortranarray(np.tile(x, (grow, 1)))
        )

    def body(x):
        y = make(x)
        flat = y.reshape(-1)
        transposed = y.T.reshape(-1)
        flat += 1000
        transposed *= 2
        return y, y.ravel("K"), flat

    fused = pk.fuse(body)
    want = body(x)
    for _ in range(4):
        for got, each in zip(fused(x), want, strict=True):
            assert got.strides == each.strides
            np.testing.assert_allclose(got, each, rtol=1e-6)
