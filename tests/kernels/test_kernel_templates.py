"""PyCUDA's kernel templates: elementwise, reduction, scans."""

import functools
import pickle

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import ElementwiseKernel, ExclusiveScanKernel, InclusiveScanKernel, ReductionKernel, errors

RNG = np.random.default_rng(62)
SIZES = [0, 1, 63, 64, 65, 4096, 4097, 300_001]


@functools.cache
def made(kind, *args, **keywords):
    """Return a kernel that is shared between tests and engines."""
    return kind(*args, **keywords)


# ---- ElementwiseKernel ------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("n", SIZES)
def test_elementwise(engine, n):
    lin = made(ElementwiseKernel, "float *z, const float *x, float a, const float *y", "z[i] = a*x[i] + y[i]")
    x, y = RNG.standard_normal((2, n), np.float32)
    z = np.full(n, np.nan, np.float32)
    assert lin(z, x, 3, y) is None
    np.testing.assert_array_equal(z, np.float32(3) * x + y)
    if n:
        assert (pk.last_call().function, pk.last_call().engine) == ("kernel", engine)


def test_elementwise_takes_arrays_in_c_order(engine):
    add = made(ElementwiseKernel, "double *z, const double *x", "z[i] += x[i] + i", "add")
    x, z = RNG.integers(0, 9, (2, 5, 6)).astype(float)
    expected = z + x + np.arange(30).reshape(5, 6)
    wide = np.zeros((5, 12))[:, ::2]
    wide[...] = z
    add(wide, np.asfortranarray(x))
    np.testing.assert_array_equal(wide, expected)
    add(pk.InOut(z), pk.In(x))
    np.testing.assert_array_equal(z, expected)


def test_elementwise_has_a_preamble_and_code_around_the_loop(engine):
    kernel = made(
        *(ElementwiseKernel, "int *z, int *total", "seen = z[i] = twice(i)", "kernel"),
        preamble="__device__ int twice(int x) { return 2 * x * FACTOR; }",
        options=("-DFACTOR=3",),
        loop_prep="int seen = 0",
        after_loop="atomicAdd(total, seen)",
    )
    z, total = np.zeros(100, np.int32), np.zeros(1, np.int32)
    kernel(z, total, range=slice(0, 100))
    np.testing.assert_array_equal(z, 6 * np.arange(100))
    assert total[0] == z.sum()


@pytest.mark.parametrize("chosen", [slice(3, 17), slice(2, 19, 5), slice(5), slice(18, 2, -3), slice(7, 7)])
def test_elementwise_of_a_range(engine, chosen):
    mark = made(ElementwiseKernel, "int *z", "z[i] += i + n", "mark")
    expected = np.zeros(20, np.int32)
    expected[chosen] += np.arange(20)[chosen] + 20
    for keyword in ("range", "slice"):
        z = np.zeros(20, np.int32)
        mark(z, **{keyword: chosen})
        np.testing.assert_array_equal(z, expected)
    z = np.zeros(20, np.int32)
    mark(z, slice=slice(-5, None))
    np.testing.assert_array_equal(z, [0] * 15 + [35, 36, 37, 38, 39])


def test_elementwise_refuses(engine):
    scale = made(ElementwiseKernel, "float *z, const float *x, float a", "z[i] = a * x[i]", "scale")
    z, x = np.full(10, 7, np.float32), np.ones(10, np.float32)
    for args, error, match in (
        ((z, x), TypeError, "3 arguments.*got 2"),
        ((z, x[:-1], 1), ValueError, "z has 10, x has 9"),
        ((z, x.astype(np.float64), 1), TypeError, "'x'"),
        ((z, x, "1"), TypeError, "'a'"),
        ((np.broadcast_to(np.float32(0), 10), x, 1), ValueError, "'z'.*read-only"),
        ((None, None, 1), TypeError, "no argument is an array"),
    ):
        with pytest.raises(error, match=match):
            scale(*args)
    for wrong, told in (
        ({"range": slice(0, 5), "slice": slice(0, 5)}, "both"),
        ({"range": slice(2, None)}, "stop"),
    ):
        with pytest.raises((TypeError, ValueError), match=told):
            scale(z, x, 1, **wrong)
    assert (z == 7).all()


def test_a_kernel_that_does_not_compile(engine):
    with pytest.raises(errors.CompileError, match="nonsense"):
        ElementwiseKernel("float *z", "z[i] = nonsense")


# ---- ReductionKernel --------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("n", SIZES)
def test_reduction(engine, n):
    dot = made(ReductionKernel, np.int64, "0", "a+b", "x[i]*y[i]", "const int *x, const int *y", name="dot")
    x, y = RNG.integers(-1000, 1000, (2, n), np.int32)
    result = dot(x, y)
    assert type(result) is np.int64
    assert result == np.dot(x.astype(np.int64), y.astype(np.int64))
    assert (pk.last_call().function, pk.last_call().engine) == ("dot", engine)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint16", "int32", "uint64"])
def test_reduction_of_types(engine, dtype):
    largest = made(ReductionKernel, dtype, 0, "a > b ? a : b", name="largest")
    x = RNG.integers(0, 100, 1000).astype(dtype)
    assert largest(x) == x.max()
    assert largest(x).dtype == dtype


def tree_sum(x):
    """Sum chunks of 64 elements in order, and then their sums recursively."""
    while True:
        padded = np.zeros(-(-max(x.size, 1) // 64) * 64, x.dtype)
        padded[: x.size] = x
        x = np.add.accumulate(padded.reshape(-1, 64), axis=1)[:, -1]
        if x.size == 1:
            return x[0]


@pytest.mark.parametrize("n", [100, 5000, 300_001])
def test_reduction_has_the_bits_of_its_tree(engine, n):
    total = made(ReductionKernel, np.float32, "0", "a+b", name="total")
    x = RNG.standard_normal(n, np.float32)
    assert total(x) == tree_sum(x)


def test_reduction_keeps_the_order(engine):
    """The composition of maps x -> m x + c modulo 2^32 is associative, but not commutative."""
    preamble = """
    __device__ unsigned long long after(unsigned long long a, unsigned long long b) {
        unsigned int am = a >> 32, ac = a, bm = b >> 32, bc = b;
        return (unsigned long long)(am * bm) << 32 | (unsigned int)(bm * ac + bc);
    }
    """
    x = RNG.integers(0, 2**63, 10_000, np.uint64) | np.uint64(1 << 32)
    m, c, composed = 1, 0, []
    for value in x.tolist():
        m, c = m * (value >> 32) % 2**32, (c * (value >> 32) + value) % 2**32
        composed.append(m << 32 | c)
    kernel = made(ReductionKernel, np.uint64, "1ull << 32", "after(a, b)", preamble=preamble)
    assert kernel(x) == composed[-1]
    scan = made(InclusiveScanKernel, np.uint64, "after(a, b)", preamble=preamble)
    np.testing.assert_array_equal(scan(x, "new"), np.array(composed, np.uint64))
    scan = made(ExclusiveScanKernel, np.uint64, "after(a, b)", "1ull << 32", preamble=preamble)
    np.testing.assert_array_equal(scan(x, "new"), np.array([1 << 32, *composed[:-1]], np.uint64))


def test_reduction_of_layouts_and_numbers(engine):
    within = made(
        ReductionKernel,
        np.int32,
        0,
        "a+b",
        "fabs(x[i] - at) < 1",
        "const double *x, double at",
        name="within",
    )
    x = RNG.uniform(0, 10, (40, 30))
    assert within(x[::3, ::-2], 5) == (np.abs(x[::3, ::-2] - 5) < 1).sum()


def test_reduction_refuses(engine):
    dot = made(ReductionKernel, np.int64, "0", "a+b", "x[i]*y[i]", "const int *x, const int *y", name="dot")
    x = np.zeros(10, np.int32)
    with pytest.raises(TypeError, match="2 arguments"):
        dot(x)
    with pytest.raises(ValueError, match="x has 10, y has 9"):
        dot(x, x[1:])
    with pytest.raises(TypeError, match="'x'"):
        dot(x.astype(float), x)
    with pytest.raises(errors.Unsupported, match="dtype_out is complex64"):
        ReductionKernel(np.complex64, "0", "a+b")


# ---- Scans ------------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("n", SIZES)
def test_scans(engine, n):
    x = RNG.integers(-1000, 1000, n)
    inclusive = made(InclusiveScanKernel, np.int64, "a+b")
    np.testing.assert_array_equal(inclusive(x, "new"), np.cumsum(x))
    exclusive = made(ExclusiveScanKernel, np.int64, "a+b", 0)
    np.testing.assert_array_equal(exclusive(x, "new"), np.cumsum(x) - x)
    assert (pk.last_call().function, pk.last_call().engine) == ("scan", engine)


def test_where_a_scan_writes(engine):
    scan = made(InclusiveScanKernel, np.int64, "a+b")
    x = RNG.integers(0, 9, (30, 20))
    expected = np.cumsum(x).reshape(x.shape)
    out = np.zeros((60, 20), np.int64)[::2]
    assert scan(x, out) is out
    np.testing.assert_array_equal(out, expected)
    assert scan(x) is x
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("n", [1, 100, 10_000])
def test_a_scan_of_floats(engine, n):
    x = RNG.standard_normal(n, np.float32)
    largest = made(InclusiveScanKernel, np.float32, "a > b ? a : b", name_prefix="largest")
    np.testing.assert_array_equal(largest(x, "new"), np.maximum.accumulate(x))
    total = made(InclusiveScanKernel, np.float64, "a+b", name_prefix="total")(x.astype(float), "new")
    np.testing.assert_allclose(total, np.cumsum(x.astype(float)), rtol=1e-12, atol=1e-12)


def test_scans_refuse(engine):
    scan = made(InclusiveScanKernel, np.int64, "a+b")
    x = np.arange(10)
    for args, error, match in (
        ((x.astype(float), "new"), TypeError, "input_ary"),
        ((x, np.zeros(9, np.int64)), ValueError, "output_ary"),
        ((x, np.zeros(10)), TypeError, "output_ary"),
        (([1, 2],), TypeError, "input_ary"),
        ((np.broadcast_to(np.int64(0), 10),), ValueError, "read-only"),
    ):
        with pytest.raises(error, match=match):
            scan(*args)
    np.testing.assert_array_equal(x, np.arange(10))
    with pytest.raises(TypeError, match="neutral"):
        ExclusiveScanKernel(np.int64, "a+b")


# ---- All of them ------------------------------------------------------------------------------------


def test_same_bits_on_both_engines(both_engines):
    x = RNG.standard_normal(300_001, np.float32)
    kernels = (
        made(ReductionKernel, np.float32, "0", "a+b", "x[i]*x[i] + 1/x[i]", "const float *x", name="mixed"),
        lambda x: made(InclusiveScanKernel, np.float32, "a+b", name_prefix="sums")(x, "new"),
        lambda x: (
            made(ElementwiseKernel, "float *z", "z[i] = z[i]*z[i]/3 + z[i]", "poly")(z := x.copy()) or z
        ),
    )
    for kernel in kernels:
        results = []
        for name in ("cpu", "cuda"):
            with pk.engine(name):
                results.append(kernel(x))
        assert np.asarray(results[0]).tobytes() == np.asarray(results[1]).tobytes()


def test_pickle_and_repr(engine):
    kernels = (
        made(ElementwiseKernel, "int *z", "z[i] = i"),
        made(ReductionKernel, np.int32, "0", "a+b"),
        made(InclusiveScanKernel, np.int32, "a+b"),
        made(ExclusiveScanKernel, np.int32, "a+b", 0),
    )
    assert list(map(repr, kernels)) == [
        "ElementwiseKernel('int *z', 'z[i] = i', name='kernel')",
        "ReductionKernel('int32', '0', 'a+b', None, None, name='reduce_kernel')",
        "InclusiveScanKernel('int32', 'a+b', None, name_prefix='scan')",
        "ExclusiveScanKernel('int32', 'a+b', 0, name_prefix='scan')",
    ]
    elementwise, total, inclusive, exclusive = (pickle.loads(pickle.dumps(kernel)) for kernel in kernels)
    z = np.zeros(5, np.int32)
    elementwise(z)
    np.testing.assert_array_equal(z, np.arange(5))
    assert total(z) == 10
    np.testing.assert_array_equal(inclusive(z, "new"), [0, 1, 3, 6, 10])
    np.testing.assert_array_equal(exclusive(z, "new"), [0, 0, 1, 3, 6])
