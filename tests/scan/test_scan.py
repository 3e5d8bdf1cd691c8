"""Scans and `diff` against NumPy: dtypes, shapes, layouts, values and errors; their accuracy and bits."""

import hashlib
import itertools
import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from helpers.sanitizers import SANITIZED
from helpers.strategies import (
    DTYPES,
    FLOATS,
    arrays,
    assert_same_outcome,
    assert_values,
    build,
    describe,
    dtypes,
    lay_out,
    outcome,
    seeds,
    shapes,
)
from helpers.thorough_cases import thorough
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors


def _exclusive(a, axis=None, dtype=None, out=None):
    """Compute exclusive_scan of integers."""
    a = np.asarray(a)
    whole = np.cumsum(a, axis, dtype)
    axis, size = (0, a.size) if axis is None else (axis, np.atleast_1d(a).shape[axis])
    shifted = np.roll(whole, 1, axis)
    if size:
        shifted[(slice(None),) * (axis % whole.ndim) + (0,)] = 0
    if out is None:
        return shifted
    out[...] = shifted
    return out


def _accumulate(ufunc):
    def accumulate(a, axis=None, dtype=None, out=None):
        a = np.atleast_1d(a)
        return ufunc.accumulate(a.ravel() if axis is None else a, 0 if axis is None else axis, dtype, out)

    return accumulate


ORACLES = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "nancumsum": np.nancumsum,
    "nancumprod": np.nancumprod,
    "cummax": _accumulate(np.maximum),
    "cummin": _accumulate(np.minimum),
    "exclusive_scan": _exclusive,
}
SUMS = ["cumsum", "nancumsum", "exclusive_scan"]
# Sizes around the edges of segments, blocks, and of one thread's work.
LENGTHS = [1, 2, 63, 64, 65, 511, 512, 513, 1023, 1024, 1025, 2047, 2049, 32768, 33001]


def compare(name, a, **keywords):
    """Compare with NumPy where the bits are NumPy's: integers, bools, maxima and minima."""
    context = f"{name}({describe(a)}, {keywords})"
    numpys = outcome(ORACLES[name], a, **keywords)
    assert_same_outcome(outcome(getattr(pk, name), a, **keywords), numpys, free_zero=True, context=context)


@st.composite
def with_axis(draw, dtype=dtypes):
    a = draw(
        arrays(dtype=dtype, shape=st.one_of(shapes, st.sampled_from([(1100, 3), (3, 1100), (2, 1030, 2)])))
    )
    return a, draw(st.sampled_from([None, *range(-max(1, a.ndim), max(1, a.ndim))]))


@pytest.mark.parametrize("name", ORACLES)
def test_every_type(engine, name):
    for dtype in DTYPES:
        if np.dtype(dtype).kind == "f" and name not in ("cummax", "cummin"):
            continue
        for length in (5, 1025):
            compare(name, build(dtype, (length,), "bits", 1))
        compare(name, build(dtype, (3, 1025, 2), "special", 1), axis=1)


@pytest.mark.parametrize("name", ORACLES)
@given(data=st.data())
def test_integers(engine, name, data):
    a, axis = data.draw(with_axis(st.sampled_from([d for d in DTYPES if np.dtype(d).kind != "f"])))
    compare(name, a, axis=axis)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@given(data=st.data())
def test_extremes_of_floats(engine, name, data):
    a, axis = data.draw(with_axis(st.sampled_from(FLOATS)))
    compare(name, a, axis=axis)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("inner", [1, 2, 17, 70])
def test_edges_of_blocks(engine, length, inner):
    a = np.random.default_rng(length).integers(-100, 100, (length, inner), np.int16)
    for name in ("cumsum", "cumprod", "cummax", "exclusive_scan"):
        compare(name, a, axis=0)
    compare("cumsum", a.T, axis=1)
    compare("cumsum", a, axis=1)
    compare("cumsum", a[::-1, ::2])


@pytest.mark.parametrize("length", [65_535, 65_536, 65_537, 66_561, 131_072, 200_001])
def test_edges_of_groups(engine, length):
    a = np.random.default_rng(length).integers(-100, 100, (length, 3), np.int16)
    for name in ("cumsum", "cumprod", "cummin", "exclusive_scan"):
        compare(name, a[:, 0])
        compare(name, a, axis=0)
        compare(name, a.T, axis=1)


def in_order(x):
    """Compute running sums of float32 in float64, in the order that docs/scan.md defines."""

    def before(totals):
        return np.cumsum([-0.0, *totals])[:-1]

    def total(parts):
        return np.cumsum([-0.0, *parts])[-1]

    groups = []
    for first in range(0, len(x), 65_536):
        group = x[first : first + 65_536].astype(np.float64)
        blocks = [group[at : at + 1024] for at in range(0, len(group), 1024)]
        segments = [[block[at : at + 64] for at in range(0, len(block), 64)] for block in blocks]
        totals = [[total(segment) for segment in block] for block in segments]
        groups.append((segments, totals, [total(of_block) for of_block in totals]))
    results = []
    for start, (segments, totals, blocks) in zip(before(total(g[2]) for g in groups), groups, strict=True):
        of_blocks = np.cumsum([start, *blocks])
        for begin, block, own in zip(of_blocks, segments, totals, strict=False):
            starts = np.cumsum([begin, *own])
            results += [np.cumsum([b, *s])[1:] for b, s in zip(starts, block, strict=False)]
    return np.concatenate(results).astype(np.float32)


@pytest.mark.parametrize("length", [3000, 65_536, 66_000, 200_001])
def test_the_order(engine, length):
    x = (np.random.default_rng(length).standard_normal((length, 3)) * 100).astype(np.float32)
    x[10], x[-10] = 2.0**56, -(2.0**56)  # the intermediate rounding depends on the order
    want = np.stack([in_order(column) for column in x.T], axis=1)
    assert_values(pk.cumsum(x, axis=0), want)
    assert_values(pk.cumsum(x[:, 1].copy()), want[:, 1])
    assert_values(pk.cumsum(x.T.copy(), axis=1), want.T)


@pytest.mark.parametrize("result", DTYPES)
@pytest.mark.parametrize("source", ["bool", "int8", "uint16", "int64", "uint64"])
def test_dtype_of_integers(engine, source, result):
    a = build(source, (1100,), "bits", 3)
    for name in ("cumsum", "cumprod", "nancumsum", "cummax"):
        if np.dtype(result).kind != "f":
            compare(name, a, dtype=result)
    if np.dtype(result).kind == "f":
        small = build(source, (100,), "small", 3)
        compare("cumsum", small, dtype=result)


def test_dtype_of_floats(engine):
    a = np.array([1.5, -2.5, 3.75, 0.0, 100.0], np.float32)
    for dtype in [d for d in DTYPES if d != "float16"]:
        for name in ("cumsum", "cumprod", "nancumsum", "nancumprod", "cummax"):
            if np.dtype(dtype).kind != "u":
                compare(name, a, dtype=dtype)
    compare("nancumsum", np.array([np.nan, 2.5, np.nan]), dtype=int)
    compare("nancumprod", np.array([np.nan, 2.5, np.nan]), dtype=bool)
    compare("cumsum", np.array([1.0, np.nan, 2.0]), dtype=bool)


@given(data=st.data())
@pytest.mark.parametrize("name", ["cumsum", "cummax", "exclusive_scan"])
def test_out(engine, name, data):
    a, axis = data.draw(with_axis(st.sampled_from(["bool", "int8", "uint16", "int64"])))
    shape = (a.size,) if axis is None else np.atleast_1d(a).shape
    result = ORACLES[name](a, axis).dtype
    outs = [
        lay_out(np.full(shape, 7, data.draw(st.sampled_from([result, "int16", "float64"]))), layout)
        for layout in [data.draw(st.sampled_from(["C", "F", "step", "reversed", "swapped", "misaligned"]))]
    ]
    if np.dtype(outs[0].dtype).kind == "f" and name != "cummax":
        return
    mine, numpys = outs[0], outs[0].copy()
    if name == "exclusive_scan":
        numpys[...] = _exclusive(
            a,
            axis,
            np.add.resolve_dtypes((numpys.dtype.newbyteorder("="), a.dtype.newbyteorder("="), None))[0],
        )
    else:
        ORACLES[name](a, axis, out=numpys)
    assert getattr(pk, name)(a, axis, out=mine) is mine
    assert_values(mine, numpys)


def test_out_overlaps(engine):
    for dtype in ("int64", "float32", "float64"):
        for shift in (0, 1, 700):
            memory = build(dtype, (5000,), "small", 1)
            a, out = memory[: 5000 - shift], memory[shift:]
            want = pk.cumsum(a.copy())
            if dtype == "int64":
                assert_values(want, np.cumsum(a))
            if dtype != "float32" or shift == 0:
                pk.cumsum(a, out=out)
                assert_values(out, want)
        memory = build(dtype, (70, 70), "small", 1)
        want = pk.exclusive_scan(memory, 0, dtype=dtype)
        pk.exclusive_scan(memory, 0, dtype=dtype, out=memory.T)
        assert_values(memory.T.copy(), want)


# ---- Floats -----------------------------------------------------------------------------------------


def prefixes(a):
    """Return all prefix sums, each rounded once, by exact integer arithmetic."""
    scale = 1 << 1074
    exact = itertools.accumulate(int(n * (scale // d)) for n, d in (float(x).as_integer_ratio() for x in a))
    return np.array([_nearest(total, scale) for total in exact])


def _nearest(total, scale):
    return total / scale  # Python's division of integers is correctly rounded


def distribution(kind, size, dtype):
    rng = np.random.default_rng(1)
    a = rng.random(size)
    if kind == "alternating":
        a = np.where(np.arange(size) % 2 == 0, a, -a)
    elif kind == "wide":
        a = rng.standard_normal(size) * 10.0 ** rng.integers(-10, 11, size)
    elif kind == "sorted":
        a = np.sort(rng.standard_normal(size) * 100)
    elif kind == "cancelling":
        a = np.concatenate([a[: size // 2] * 1e8, -a[size // 2 - 1 :: -1] * 1e8])
    return a.astype(dtype)


KINDS = ["uniform", "alternating", "wide", "sorted", "cancelling"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("result", [None, "float64"])
def test_error_is_never_above_numpys(engine, kind, dtype, result):
    a = distribution(kind, 20_000, dtype)
    exact = prefixes(a)
    assert exact[777] == math.fsum(a[:778].tolist())
    ours = pk.cumsum(a, dtype=result)
    numpys = np.cumsum(a, dtype=result)
    our_error = np.abs(ours.astype(np.float64) - exact)
    error = np.abs(numpys.astype(np.float64) - exact)
    assert np.all(our_error <= error)
    # And hardly any differs from the correctly rounded sum.
    nearest = exact.astype(ours.dtype)
    assert np.mean(ours != nearest) < (0.001 if kind != "cancelling" else 0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_error_of_float16(engine, kind):
    with np.errstate(over="ignore"):
        a = distribution(kind, 5000, np.float16)
    a = np.where(np.isfinite(a), a, np.float16(1)) / np.float16(64)
    exact = prefixes(a)
    with np.errstate(over="ignore", invalid="ignore"):
        got = pk.cumsum(a).astype(np.float64)
        assert_values(got, exact.astype(np.float16).astype(np.float64), ulp=0, free_zero=True)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes_of_floats_have_the_same_bits(engine, axis):
    a = distribution("wide", 3 * 2100 * 5, np.float64).reshape(3, 2100, 5)
    for name in ("cumsum", "cumprod", "exclusive_scan", "nancumsum"):
        with np.errstate(over="ignore", under="ignore"):
            whole = getattr(pk, name)(a, axis)
            for layout in ("F", "transposed", "reversed", "swapped", "misaligned", "step"):
                assert_values(getattr(pk, name)(lay_out(a, layout), axis), whole, context=layout)
            lines = np.moveaxis(a, axis, -1).reshape(-1, a.shape[axis])
            wholes = np.moveaxis(whole, axis, -1).reshape(-1, a.shape[axis])
            for i in range(0, len(lines), 991):
                assert_values(getattr(pk, name)(lines[i].copy()), wholes[i])


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_floats(engine, dtype):
    rng = np.random.default_rng(0)
    for _ in range(60):
        a = rng.choice(
            np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], dtype),
            300,
            p=[0.2, 0.3, 0.3, 0.17, 0.01, 0.01, 0.01],
        )
        for name in ("cumsum", "nancumsum", "cumprod", "nancumprod"):
            ours, numpys = outcome(getattr(pk, name), a), outcome(ORACLES[name], a)
            assert_same_outcome(ours, numpys, context=f"{name} {a.tolist()}")
    for length in (1, 70, 1100, 5000):
        zeros = np.full(length, -0.0, dtype)
        compare("cumsum", zeros)
        assert np.signbit(pk.cumsum(zeros)).all()
        got = pk.exclusive_scan(zeros)
        assert not np.signbit(got[0])
        for at in (0, 1, 63, 64, 1030):
            if at < length:
                for value in (np.inf, -np.inf, np.nan):
                    a = np.ones(length, dtype)
                    a[at] = value
                    assert_same_outcome(outcome(pk.cumsum, a), outcome(np.cumsum, a), ulp=2048)


def test_infinities_that_meet_far_apart(engine):
    for dtype in ("float32", "float64"):
        a = np.ones((4000, 3), dtype)
        a[100, 0], a[3000, 0] = np.inf, -np.inf
        a[1500, 1] = np.inf
        ours, numpys = outcome(pk.cumsum, a, axis=0), outcome(np.cumsum, a, axis=0)
        assert_same_outcome(ours, numpys, context=dtype)
        assert "invalid value encountered in accumulate" in ours[2]


def test_sums_near_the_largest(engine):
    largest = np.finfo(np.float64).max
    # Segments, blocks and groups whose sums overflow, though no running sum does.
    for length in (64, 1024, 3000, 65_536, 70_000):
        a = np.zeros(3 * length)
        a[:length:7] = -largest / (length / 7 + 1)
        a[length : 2 * length : 5] = largest / (length / 5 + 1) * 1.9
        assert np.isfinite(np.cumsum(a)).all()
        np.testing.assert_allclose(pk.cumsum(a), np.cumsum(a), rtol=1e-9, atol=1e-11 * largest)
        steep = np.zeros(length + 4096)
        steep[0], steep[length : length + 2] = -largest, largest
        np.testing.assert_allclose(pk.cumsum(steep), np.cumsum(steep))
        two_columns = np.stack([a, -a], axis=1)
        np.testing.assert_allclose(
            pk.cumsum(two_columns, 0), np.cumsum(two_columns, 0), rtol=1e-9, atol=1e-11 * largest
        )


@pytest.mark.parametrize(("dtype", "large"), [("float16", 6e4), ("float32", 3e38), ("float64", 1.5e308)])
def test_overflow_is_reported(engine, dtype, large):
    a = np.array([large, large, 1], dtype)
    assert_same_outcome(outcome(pk.cumsum, a), outcome(np.cumsum, a))
    product = np.array([large, 3, 1], dtype)
    assert_same_outcome(outcome(pk.cumprod, product), outcome(np.cumprod, product))
    with (
        np.errstate(over="raise"),
        pytest.raises(FloatingPointError, match="overflow encountered in accumulate"),
    ):
        pk.cumsum(a)
    with np.errstate(over="ignore"):
        assert outcome(pk.exclusive_scan, a[:2])[2] == set()  # the last sum is not computed
    in_place = np.tile(a, 1000)
    assert outcome(pk.cumsum, in_place, out=in_place)[2] == {"overflow encountered in accumulate"}
    at_the_end = np.zeros(2000, dtype)
    at_the_end[1022:1024] = large
    assert outcome(pk.exclusive_scan, at_the_end)[2] == {"overflow encountered in accumulate"}


@pytest.mark.parametrize("dtype", FLOATS)
def test_products(engine, dtype):
    rng = np.random.default_rng(0)
    a = rng.uniform(0.5, 1.9, 3000).astype(dtype)
    with np.errstate(over="ignore", under="ignore"):
        exact = np.cumprod(a.astype(np.longdouble))
        kept = np.abs(exact) < np.finfo(dtype).max
        assert_values(pk.cumprod(a)[kept], exact[kept].astype(dtype), ulp=0 if dtype != "float64" else 1)
    if dtype == "float64":
        # No intermediate overflow: the product goes up to 2^900 and down to 2^-900, five times.
        steps = np.repeat(np.tile([2.0, 0.5, 0.5, 2.0], 5), 900)
        assert np.array_equal(pk.cumprod(steps), np.cumprod(steps))
        small = np.array([5e-324, 2.0**1000, 2.0**74, 3.0])
        assert np.array_equal(pk.cumprod(small), np.cumprod(small))
        assert np.array_equal(pk.cumprod(np.full(2000, 0.5)), np.cumprod(np.full(2000, 0.5)))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@given(seed=seeds, length=st.integers(1, 3000), inner=st.integers(1, 20))
def test_floats_are_close_to_numpys(engine, name, seed, length, inner):
    a = np.random.default_rng(seed).uniform(-1.5, 1.5, (length, inner))
    with np.errstate(all="ignore"):
        want = getattr(np, name)(a, 0)
        kept = (np.abs(want) > 1e-300) | (name == "cumsum")
        np.testing.assert_allclose(
            getattr(pk, name)(a, 0)[kept], want[kept], rtol=1e-11, atol=1e-11 * (name == "cumsum")
        )


# ---- Differences ------------------------------------------------------------------------------------


@given(data=st.data())
def test_diff(engine, data):
    a = data.draw(arrays())
    axis = data.draw(st.integers(-max(1, a.ndim), max(1, a.ndim) - 1))
    keywords = {"n": data.draw(st.integers(0, 3)), "axis": axis}
    for name in ("prepend", "append"):
        given_one = data.draw(st.sampled_from(["no", "number", "array"]))
        if given_one == "number":
            keywords[name] = a.dtype.type(1)
        elif given_one == "array" and a.ndim:
            keywords[name] = np.take(a, [0], axis) if a.shape[axis] else a
    if any(name in keywords for name in ("prepend", "append")) and a.ndim == 0:
        return
    ours, numpys = outcome(pk.diff, a, **keywords), outcome(np.diff, a, **keywords)
    assert_same_outcome(ours, numpys, strides=False, context=f"diff({describe(a)}, {keywords})")


def test_diff_errors(engine):
    with pytest.raises(ValueError, match="order must be non-negative but got -1"):
        pk.diff([1, 2], n=-1)
    with pytest.raises(ValueError, match="diff requires input that is at least one dimensional"):
        pk.diff(3)
    with pytest.raises(np.exceptions.AxisError, match="axis 1 is out of bounds"):
        pk.diff([1, 2], axis=1)


# ---- Errors and engines -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ORACLES)
def test_errors(engine, name):
    function = getattr(pk, name)
    a = np.ones((2, 3), np.int32)
    with pytest.raises(np.exceptions.AxisError, match="axis 2 is out of bounds for array of dimension 2"):
        function(a, 2)
    for axis in ((0, 1), 1.0):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            function(a, axis)
    with pytest.raises(TypeError, match="an integer is required for the axis"):
        function(a, True)
    for out in (np.full((3, 2), 7), np.full(6, 7)):
        with pytest.raises(ValueError, match=r"the output array has shape .*, and the result \(2, 3\)"):
            function(a, 0, out=out)
        assert np.all(out == 7)
    with pytest.raises(TypeError, match="output must be an array"):
        function(a, 0, out=[1])
    fixed = np.full((2, 3), 7)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="output array is read-only"):
        function(a, 0, out=fixed)
    with pytest.raises(errors.Unsupported, match=f"{name}: not on the {engine} engine"):
        function(np.ones(3, complex))
    with pytest.raises(errors.Unsupported):
        function([1], dtype=complex)
    with pytest.raises(errors.Unsupported):
        function([1], out=np.zeros(1, complex))


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_auto_leaves_other_types_to_numpy():
    with pk.engine("auto"):
        assert_values(pk.cumsum(np.array([1j, 2])), np.array([1j, 2 + 1j]))
        assert pk.last_call().engine == "numpy"
        assert isinstance(pk.cumsum(np.matrix([1, 2])), np.matrix)
        assert pk.cummax(np.array(["a"], object)).tolist() == ["a"]
        with pytest.raises(errors.Unsupported, match="exclusive_scan: NumPy has no such function"):
            pk.exclusive_scan(np.array([1j]))


def test_numpys_engine():
    with pk.engine("numpy"):
        assert_values(pk.cumsum([1, 2]), np.array([1, 3]))
        assert_values(pk.cummin([[3, 1], [2, 5]]), np.array([3, 1, 1, 1]))
        assert_values(pk.cummax(4), np.array([4]))
        assert_values(pk.nancumprod([2, np.nan]), np.array([2.0, 2.0]))
        with pytest.raises(errors.Unsupported, match="exclusive_scan: NumPy has no such function"):
            pk.exclusive_scan([1, 2])


def test_auto_never_sends_floats_to_numpy():
    with pk.engine("auto"):
        pk.cumsum(np.ones(10, np.float32))
        assert pk.last_call().engine != "numpy"
        pk.exclusive_scan(np.ones(10, int))
        assert pk.last_call().engine != "numpy"
        pk.cumsum(np.ones(10, int))
        assert pk.last_call().engine == "numpy"


# ---- The same bits ----------------------------------------------------------------------------------


def digest():
    """Print a hash of scans of every type, on the current engine."""
    for name in ORACLES:
        for dtype in DTYPES:
            whole = hashlib.sha256()
            for kind, shape, axis in (
                ("ordinary", (200_003,), 0),
                ("bits", (70_000,), 0),
                ("special", (2500, 40), 0),
                ("ordinary", (40, 2500), 1),
                ("ordinary", (30, 1100, 7), 1),
                ("ordinary", (5000, 9), 1),
            ):
                with np.errstate(all="ignore"):
                    got = getattr(pk, name)(build(dtype, shape, kind, 1), axis)
                if got.dtype.kind == "f":
                    got = np.where(np.isnan(got), got.dtype.type(np.nan), got)
                    if name in ("cummax", "cummin"):
                        got = np.where(got == 0, got.dtype.type(0), got)
                whole.update(got.tobytes())
            sys.stdout.write(f"{name} {dtype} {whole.hexdigest()}\n")


def printed(**environment):
    code = "import test_scan; test_scan.digest()"
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def reference():
    return printed(PYCUDAKIT_ENGINE="cpu", PYCUDAKIT_THREADS="1")


@pytest.mark.parametrize("threads", ["2"] if SANITIZED else [*thorough("2"), "7"])
def test_threads_have_the_same_bits(reference, threads):
    assert printed(PYCUDAKIT_ENGINE="cpu", PYCUDAKIT_THREADS=threads) == reference


@pytest.mark.parametrize("isa", [*thorough("baseline", "avx2"), "avx512"])
def test_instruction_sets_have_the_same_bits(reference, isa):
    try:
        assert printed(PYCUDAKIT_ENGINE="cpu", PYCUDAKIT_ISA=isa) == reference
    except subprocess.CalledProcessError as error:
        if "this machine and build have" not in error.stderr:
            raise
        pytest.skip(f"this machine has no {isa}")


@pytest.mark.parametrize("chunk", ["256K", "3M"])
def test_engines_have_the_same_bits(both_engines, reference, chunk):
    bytes_of = {"256K": str(256 << 10), "3M": str(3 << 20)}[chunk]
    environment = {"PYCUDAKIT_STREAM_CHUNK_BYTES": bytes_of, "PYCUDAKIT_STREAM_IN_PLACE_BYTES": "0"}
    assert printed(PYCUDAKIT_ENGINE="cuda", **environment) == reference
    assert printed(PYCUDAKIT_ENGINE="cuda") == reference


@pytest.mark.skipif(not pk.engines()["cuda"], reason="needs a GPU")
def test_chunks_and_threads_of_the_gpu_have_the_same_bits(both_engines):
    a = distribution("wide", 300_000, np.float64)
    tall = a.reshape(-1, 6)
    constants = {"in_place_bytes": 0, "worth_a_thread": 1, "smallest_chunk": 4 << 10}
    with np.errstate(over="ignore", under="ignore"):
        for name in ("cumsum", "cumprod", "exclusive_scan"):
            with pk.engine("cpu"):
                want = getattr(pk, name)(a), getattr(pk, name)(tall, 0), getattr(pk, name)(tall, 1)
            for threads in (1, 3, 8):
                for chunk in (256 << 10, 1 << 20):
                    with pk.engine("cuda"), pk.tuned(threads=threads, chunk_bytes=chunk, **constants):
                        got = getattr(pk, name)(a), getattr(pk, name)(tall, 0), getattr(pk, name)(tall, 1)
                    for mine, other in zip(got, want, strict=True):
                        assert_values(mine, other)


@pytest.mark.skipif(not pk.engines()["cuda"], reason="needs a GPU")
def test_calls_of_several_threads_share_the_slots():
    a = np.random.default_rng(0).integers(0, 100, 500_000)
    want = np.cumsum(a)
    constants = {"in_place_bytes": 0, "worth_a_thread": 1, "smallest_chunk": 4 << 10, "threads": 4}
    wrong = []

    def work():
        with pk.engine("cuda"):
            wrong.extend(i for i in range(10) if not np.array_equal(pk.cumsum(a), want))

    with pk.tuned(**constants):
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
