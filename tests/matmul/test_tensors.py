"""`tensordot`, `einsum`, `kron`, `inner`, `outer`, `vecdot` and `trace` against NumPy."""

import helpers.strategies as gen
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors

TYPES = ["bool", "int8", "int64", "uint16", "float16", "float32", "float64", ">f4", ">i2"]


def compare(name, *arguments, messages=True, **keywords):
    """Compare a function with NumPy's in everything except the last bits of floats."""
    ours, numpys = (gen.outcome(getattr(kit, name), *arguments, **keywords) for kit in (pk, np))
    context = f"{name}({gen.describe(*arguments)}, {keywords})"
    assert ours[0] == numpys[0], f"{context}: {ours[1]!r}, not {numpys[1]!r}"
    if numpys[0] == "error":
        gen.assert_same_outcome(ours, numpys, context=context)
        assert not messages or str(ours[1]) == str(numpys[1]), context
        return
    got, want = ours[1], numpys[1]
    assert type(got) is type(want), f"{context}: {type(got)}, not {type(want)}"
    assert got.dtype == want.dtype, f"{context}: {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, context
    if want.dtype.kind == "f":
        rtol = {2: 2e-2, 4: 1e-4, 8: 1e-11}[want.dtype.itemsize]
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol, 100 * rtol, err_msg=context)
    else:
        assert np.array_equal(got, want), context


def build(dtype, shape, seed):
    return gen.build(np.dtype(dtype).newbyteorder("="), shape, "ordinary", seed).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_dot_and_inner(engine, dtype):
    for s, t in (
        *[((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (5, 4, 6)), ((4,), (4, 5)), ((3, 4), (4,))],
        *[
            ((4,), (2, 4, 3)),
            ((3, 4), ()),
            ((3, 4), (5, 5)),
            ((3, 0), (0, 4)),
            ((2, 1, 4), (3,)),
            ((0, 2), (2,)),
        ],
    ):
        compare("dot", build(dtype, s, 1), build(dtype, t, 2))
    for s, t in (
        ((3, 4), (5, 4)),
        ((2, 3, 4), (4,)),
        ((2, 3, 4), (5, 6, 4)),
        ((4,), (4,)),
        ((3,), (4,)),
        ((), (3,)),
    ):
        compare("inner", build(dtype, s, 1), build(dtype, t, 2))


def test_dot_out(engine):
    a, b = build("float64", (3, 4), 1), build("float64", (4, 3), 2)
    out = np.empty((3, 3))
    assert pk.dot(a, b, out) is out
    np.testing.assert_allclose(out, a @ b)
    square = a[:, :3].copy()
    want = square @ square
    assert pk.dot(square, square, square) is square
    np.testing.assert_allclose(square, want)
    kept = np.zeros((3, 2))
    for wrong in (kept, np.zeros((3, 3), np.float32), np.zeros((3, 3)).T[::-1]):
        with pytest.raises(ValueError, match="output array"):
            pk.dot(a, b, wrong)
    assert not kept.any()
    three = build("float64", (2, 3, 4), 3)
    out = np.empty((2, 3, 3))
    assert pk.dot(three, b, out) is out
    np.testing.assert_allclose(out, three @ b)


@pytest.mark.parametrize("dtype", TYPES)
def test_outer_and_kron(engine, dtype):
    for s, t in (
        ((3,), (4,)),
        ((2, 3), (4, 2)),
        ((), (3,)),
        ((0,), (3,)),
        ((2, 3), (4,)),
        ((2, 3, 2), (4, 5)),
    ):
        for name in ("outer", "kron"):
            compare(name, build(dtype, s, 1), build(dtype, t, 2))
    out = np.empty((3, 4))
    assert pk.outer([1, 2, 3], [1, 2, 3, 4], out) is out
    assert np.array_equal(out, np.outer([1, 2, 3], [1, 2, 3, 4]))


@pytest.mark.parametrize("dtype", TYPES)
def test_vecdot(engine, dtype):
    for s, t in (
        ((3, 4), (3, 4)),
        ((2, 3, 4), (4,)),
        ((2, 1, 4), (3, 4)),
        ((4,), (4,)),
        ((3,), (4,)),
        ((), (4,)),
        ((0, 4), (4,)),
        ((2, 0), (0,)),
        ((2, 3), (3, 3)),
    ):
        compare("vecdot", build(dtype, s, 1), build(dtype, t, 2), messages=False)
    compare("vecdot", build(dtype, (3, 4), 1), build(dtype, (3, 4), 2), axis=0)
    for keepdims in (True, "true", 1, None):
        compare("vecdot", build(dtype, (3, 4), 1), build(dtype, (4,), 2), keepdims=keepdims)


@pytest.mark.parametrize("dtype", TYPES)
def test_tensordot(engine, dtype):
    x, y = build(dtype, (3, 4, 5), 1), build(dtype, (4, 3, 2), 2)
    for axes in (
        ([1, 0], [0, 1]),
        ([0, 1], [1, 0]),
        (0, 1),
        (1, 0),
        ([-2], [0]),
        0,
        2,
        5,
        ([0, 0], [1, 1]),
        ([0], [0, 1]),
    ):
        compare("tensordot", x, y, axes, messages=False)
    compare("tensordot", x, build(dtype, (4, 5, 6), 3), 2)
    compare("tensordot", x, build(dtype, (5,), 3), 1)


@pytest.mark.parametrize("dtype", TYPES)
def test_trace(engine, dtype):
    compare("trace", build(dtype, (4, 5), 1))
    compare("trace", build(dtype, (2, 4, 5), 1), 1, 1, 2)
    compare("trace", build(dtype, (3, 3), 1), -2)
    compare("trace", build(dtype, (3, 3), 1), dtype="float64")
    compare("trace", build(dtype, (4,), 1))
    compare("trace", build(dtype, (3, 3), 1), 0, 1, 1)


FORMS = [
    *["ij,jk->ik", "ij,jk", "ij,kj->ik", "ij,jk->ki", "bij,bjk->bik", "bij,jk->bik", "ij,ij->", "ij,ij->i"],
    *["i,j->ij", "ij,j->i", "ij->ji", "ij->", "ii->i", "ii", "ij->j", "ij,ij->ij", "ijk,jil->kl", "ij,kl->"],
    *["ii,ij->j", "abc,cd->dab", "i,i", ",", ",i", "", "bhid,bhjd->bhij", "iij->j", "a b, b c -> c a", "ba"],
    *["ijk->kij", "ij,ji", "ijj,jk->ik", "ibj,kbj->bki"],
]


@pytest.mark.parametrize("form", FORMS)
def test_einsum(engine, form):
    lengths = {label: 2 + i for i, label in enumerate(sorted({*form} - set(" ,->")))}
    before = form.replace(" ", "").split("->")[0]
    for dtype in TYPES:
        operands = [build(dtype, tuple(lengths[c] for c in s), i) for i, s in enumerate(before.split(","))]
        compare("einsum", form, *operands)
    wanted = np.einsum(form, *operands)
    out = np.empty(wanted.shape, wanted.dtype)
    assert pk.einsum(form, *operands, out=out) is out
    assert np.allclose(out, wanted)


@given(data=st.data())
def test_any_einsum(engine, data):
    labels = st.text("abcd", max_size=3)
    terms = data.draw(st.lists(labels, min_size=1, max_size=2))
    used = sorted({*"".join(terms)})
    result = data.draw(st.permutations(used))[: data.draw(st.integers(0, len(used)))]
    form = f"{','.join(terms)}->{''.join(result)}"
    lengths = {"a": 2, "b": 3, "c": 4, "d": 1}
    dtype = data.draw(st.sampled_from(["int32", "float64"]))
    operands = [build(dtype, tuple(lengths[c] for c in term), i) for i, term in enumerate(terms)]
    compare("einsum", form, *operands)


def test_einsum_of_nothing(engine):
    for operands in ((), ("",), ("i",)):
        compare("einsum", *operands)
    with pytest.raises(ValueError, match="No input operands"):
        pk.einsum(optimize=True)


def test_einsum_without_optimizing(engine):
    x, y = build("float64", (30, 40), 0), build("float64", (40, 50), 1)
    compare("einsum", "ij,jk", x, y, optimize=False)
    assert pk.last_call().engine == engine


def test_einsum_that_numpy_alone_takes(engine):
    a = build("float64", (3, 3), 1)
    for arguments in (
        ("...i,i", a, a[0]),
        ("ij,jk,kl", a, a, a),
        (a, [0, 1]),
        ("ij,jk", a, 1j * a),
        ("ij,jk->", a[:1], a[:1]),
    ):
        with pytest.raises(errors.Unsupported, match="einsum: not on the"):
            pk.einsum(*arguments)
        with pk.engine("auto"):
            compare("einsum", *arguments)
            assert pk.last_call().engine == "numpy"
    with pk.engine("auto"):
        for arguments in (
            ("ij,jk->iz", a, a),
            ("ij,jk->ii", a, a),
            ("i", a),
            ("ij,jk", a, a[:2]),
            ("ij",),
            ("i?", a),
        ):
            compare("einsum", *arguments)


def test_warnings(engine):
    big = np.full((3, 3), 1e200)
    infinite, zero = np.full((3, 3), np.inf), np.zeros((3, 3))
    for name in ("dot", "inner", "tensordot", "outer", "vecdot"):
        for a, b in ((big, big), (infinite, zero)):
            ours, numpys = (
                gen.outcome(getattr(kit, name), a, b, *([1] if name == "tensordot" else []))
                for kit in (pk, np)
            )
            gen.assert_same_outcome(ours, numpys, strides=False, context=name)
    for a, b in ((big, big), (infinite, zero)):
        for form in ("ij,jk->ik", "ij,ij->i", "i,j->ij"):
            operands = (a[0], b[0]) if form == "i,j->ij" else (a, b)
            gen.assert_same_outcome(*(gen.outcome(kit.einsum, form, *operands) for kit in (pk, np)))


def test_numpys_alone(engine):
    for name, arguments in (
        ("dot", ([[1j]], [[1]])),
        ("inner", ([[1j]], [[1]])),
        ("outer", ([1j], [1])),
        ("vecdot", ([1j], [1])),
        ("tensordot", ([[1j]], [[1]])),
        ("kron", ([1j], [1])),
        ("trace", ([[1j]],)),
        ("tril", ([[1j]],)),
        ("transpose", ([[1j]],)),
    ):
        with pytest.raises(errors.Unsupported):
            getattr(pk, name)(*arguments)
        with pk.engine("auto"):
            assert np.array_equal(getattr(pk, name)(*arguments), getattr(np, name)(*arguments))


def test_engine_numpy():
    a, b = build("float64", (3, 4), 1), build("float64", (4, 3), 2)
    with pk.engine("numpy"):
        for name in ("dot", "tensordot", "inner", "kron", "outer", "matmul"):
            second = b.T if name == "inner" else b
            arguments = (a, second, 1) if name == "tensordot" else (a, second)
            assert np.array_equal(getattr(pk, name)(*arguments), getattr(np, name)(*arguments))
            assert pk.last_call().engine == "numpy"
        assert np.array_equal(pk.einsum("ij,jk", a, b), np.einsum("ij,jk", a, b))
        assert pk.last_call().engine == "numpy"
        for name in ("transpose", "ascontiguousarray", "tril", "triu", "trace"):
            assert np.array_equal(getattr(pk, name)(a), getattr(np, name)(a))


# ---- Copies -------------------------------------------------------------------------------------------


@given(data=st.data())
def test_transpose(engine, data):
    a = data.draw(gen.arrays())
    axes = data.draw(st.one_of(st.none(), st.permutations(range(a.ndim)).map(tuple)))
    got = pk.transpose(a, axes)
    want = np.transpose(a, axes)
    assert got.flags.c_contiguous
    assert not np.shares_memory(got, a)
    assert got.dtype == want.dtype
    gen.assert_values(np.asarray(got), np.ascontiguousarray(want).reshape(want.shape))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", ">f4", ">i8", "bool", "float16"])
def test_planes(engine, dtype):
    for shape in (
        (70, 130),
        (129, 65),
        (64, 64),
        (2, 300, 7),
        (33, 2, 65),
        (5, 6, 7, 8),
        (1000, 3),
        (3, 1000),
    ):
        a = np.random.default_rng(0).integers(0, 256, shape).astype(dtype)
        for view in (a, a[::-1], a[:, ::-1], a[:, ::2], a[..., None]):
            for axes in (
                range(view.ndim)[::-1],
                (*range(1, view.ndim), 0),
                (view.ndim - 1, *range(view.ndim - 1)),
            ):
                got = pk.transpose(view, tuple(axes))
                assert got.dtype == view.dtype
                assert np.array_equal(got, view.transpose(tuple(axes)))


def test_copies_keep_bits(engine):
    signalling = np.array([[0x7D01, 0x7C00], [0x8001, 0xFE00]], np.uint16)
    assert (
        np.array_equal(pk.transpose(signalling.view(np.float16)).view(np.uint16), signalling.T)
        or engine == "cuda"
    )


def test_others_that_copy(engine):
    a = build("float32", (3, 4, 5), 1)
    for name, arguments in (
        ("swapaxes", (a, 0, 2)),
        ("swapaxes", (a, -1, 1)),
        ("swapaxes", (a, 0, 3)),
        ("transpose", (a, (0, 0, 1))),
        ("transpose", (a, (0, 1))),
        ("ascontiguousarray", (a.T,)),
        ("ascontiguousarray", (a.T, "float64")),
        ("ascontiguousarray", (np.float32(3),)),
        ("ascontiguousarray", ([[1, 2]],)),
    ):
        compare(name, *arguments)
    assert pk.ascontiguousarray(a) is not a
    assert pk.swapaxes(a, 0, 1).flags.c_contiguous


@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles(engine, name):
    for dtype in TYPES:
        for shape in ((4, 5), (2, 3, 3), (4,), (0, 3), (), (70, 33)):
            for k in (-7, -1, 0, 1, 3, 99):
                compare(name, build(dtype, shape, 1), k)
    a = np.full((3, 3), np.nan)
    assert np.array_equal(getattr(pk, name)(a), getattr(np, name)(a), equal_nan=True)
    compare(name, np.ones((3, 3)), 1.5, messages=False)
    assert getattr(pk, name)(a.T).flags.c_contiguous
