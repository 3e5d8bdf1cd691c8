"""ElementwiseKernel, ReductionKernel, the scan kernels and cumath, with NumPy as the oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycudakit.pycuda import cumath, gpuarray
from pycudakit.pycuda import driver as drv
from pycudakit.pycuda.elementwise import ElementwiseKernel
from pycudakit.pycuda.reduction import ReductionKernel
from pycudakit.pycuda.scan import ExclusiveScanKernel, InclusiveScanKernel
from pycudakit.pycuda.tools import ScalarArg, VectorArg, get_or_register_dtype


def sample(size, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(1, 50, size).astype(dtype)


# ---- ElementwiseKernel ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 31, 1000, 100_000])
def test_elementwise(engine, size):
    x, y = sample(size), sample(size, seed=1)
    combined = ElementwiseKernel("float a, float *x, float b, float *y, float *z", "z[i] = a*x[i] + b*y[i]")
    z = gpuarray.empty(size, np.float32)
    combined(5, gpuarray.to_gpu(x), 6, gpuarray.to_gpu(y), z)
    np.testing.assert_array_equal(z.get(), np.float32(5) * x + np.float32(6) * y)


def test_elementwise_texts(engine):
    """A kernel has a preamble, statements around its loop, and parameters given as objects."""
    x = sample(1000, np.float64)
    kernel = ElementwiseKernel(
        [VectorArg(np.float64, "x"), ScalarArg(np.int32, "k"), VectorArg(np.complex64, "z")],
        "z[i] = pycuda::complex<float>(shifted(x[i], k) * two, n)",
        name="texts",
        preamble="__device__ double shifted(double x, int k) { return x + k; }",
        loop_prep="const double two = 2",
        after_loop="(void)two",
    )
    z = gpuarray.empty(1000, np.complex64)
    stream = drv.Stream()
    kernel(gpuarray.to_gpu(x), 3, z, stream=stream)
    stream.synchronize()
    np.testing.assert_allclose(z.get(), (x + 3) * 2 + 1000j)


@given(
    start=st.integers(0, 99),
    stop=st.integers(0, 100),
    step=st.integers(-7, 7).filter(bool),
    by_slice=st.booleans(),
)
@settings(max_examples=25)
def test_elementwise_ranges(engine, start, stop, step, by_slice):
    kernel = _set_to_index(engine)
    z = gpuarray.zeros(100, np.int32)
    keyword = "slice" if by_slice else "range"
    kernel(z, **{keyword: slice(start, stop, step)})
    expected = np.zeros(100, np.int32)
    chosen = range(start, stop, step)
    expected[list(chosen)] = chosen
    np.testing.assert_array_equal(z.get(), expected)


_kernels = {}


def _set_to_index(engine):
    if engine not in _kernels:
        _kernels[engine] = ElementwiseKernel("int *z", "z[i] = i")
    return _kernels[engine]


def test_elementwise_refuses(engine):
    kernel = ElementwiseKernel("float *z, float a", "z[i] = a")
    z = gpuarray.zeros((4, 4), np.float32)
    with pytest.raises(TypeError, match=r"takes 2 arguments \(z, a\), and got 1"):
        kernel(z)
    with pytest.raises(TypeError, match="z is a GPUArray, not a ndarray"):
        kernel(np.zeros(3, np.float32), 1)
    with pytest.raises(RuntimeError, match="contiguous"):
        kernel(z[:, ::2], 1)
    with pytest.raises(TypeError, match="not both"):
        kernel(z, 1, range=slice(3), slice=slice(3))
    with pytest.raises(ValueError, match="needs a stop"):
        kernel(z, 1, range=slice(None))
    with pytest.raises(RuntimeError, match="at least one array"):
        ElementwiseKernel("float a", "a")
    np.testing.assert_array_equal(z.get(), np.zeros((4, 4)))


# ---- ReductionKernel --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000, 8193, 1_000_000])
def test_reduction(engine, size):
    x, y = sample(size, np.float64), sample(size, np.float64, 1)
    dot = ReductionKernel(np.float64, "0", "a+b", "x[i]*y[i]", "double *x, double *y")
    result = dot(gpuarray.to_gpu(x), gpuarray.to_gpu(y))
    assert (result.shape, result.dtype) == ((), np.float64)
    assert result.get() == np.dot(x, y)


def test_reduction_to_a_struct(engine):
    extent = np.dtype([("low", np.int32), ("high", np.int32)])
    get_or_register_dtype("extent", extent)
    kernel = ReductionKernel(
        extent,
        neutral="extent{2147483647, -2147483647}",
        reduce_expr="extent{a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high}",
        map_expr="extent{x[i], x[i]}",
        arguments="int *x",
        preamble="struct extent { int low, high; };",
    )
    x = np.random.default_rng(0).integers(-1000, 1000, 10_000).astype(np.int32)
    result = kernel(gpuarray.to_gpu(x)).get()
    assert (result["low"], result["high"]) == (x.min(), x.max())


@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_reduction_whose_combination_reads_the_parameters(engine, size):
    x = np.random.default_rng(size).permutation(size).astype(np.float32)
    place = ReductionKernel(np.int32, "0", "x[a] > x[b] ? a : b", "i", "const float *x")
    assert place(gpuarray.to_gpu(x)).get() == x.argmax()
    clipped = ReductionKernel(np.float32, "0", "fminf(fmaxf(a, b), most)", arguments="float *in, float most")
    assert clipped(gpuarray.to_gpu(x), size / 4).get() == min(x.max(), size / 4)


def test_reduction_keywords(engine):
    x = sample(1000, np.int32)
    array = gpuarray.to_gpu(x)
    total = ReductionKernel(np.int32, "0", "a+b", arguments="int *x")
    out = gpuarray.empty((), np.int32)
    stream = drv.Stream()
    assert total(array, stream=stream, out=out) is out
    stream.synchronize()
    assert out.get() == x.sum()
    assert total(array, slice=slice(10, -10, 3)).get() == x[10:-10:3].sum()
    taken = []
    total(array, allocator=lambda size: taken.append(size) or drv.mem_alloc(size))
    assert 4 in taken
    with pytest.raises(ValueError, match="out is one element of int32"):
        total(array, out=gpuarray.empty(2, np.int32))
    with pytest.raises(TypeError, match="unexpected keyword argument 'queue'"):
        total(array, queue=None)


def test_reduction_without_a_map_reads_the_array(engine):
    x = sample(100)
    assert ReductionKernel(np.float32, "0", "a > b ? a : b")(gpuarray.to_gpu(x)).get() == x.max()


# ---- Scans ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 65, 5000])
def test_scans(engine, size):
    x = sample(size, np.int64)
    sums = np.cumsum(x)
    array = gpuarray.to_gpu(x)
    inclusive = InclusiveScanKernel(np.int64, "a+b")
    np.testing.assert_array_equal(inclusive(array, "new").get(), sums)
    np.testing.assert_array_equal(array.get(), x)
    np.testing.assert_array_equal(ExclusiveScanKernel(np.int64, "a+b", 0)(array, "new").get(), sums - x)
    assert inclusive(array) is array
    np.testing.assert_array_equal(array.get(), sums)


def test_scans_read_unsigned_integers_as_signed_ones(engine):
    x = np.array([2**32 - 1, 5, 2**31], np.uint32)
    array, out = gpuarray.to_gpu(x), gpuarray.zeros(3, np.uint32)
    scan = ExclusiveScanKernel(np.int32, "a > b ? a : b", -7)
    assert scan(array, out) is out
    np.testing.assert_array_equal(out.get(), np.array([-7, -1, 5], np.int32).view(np.uint32))
    with pytest.raises(TypeError, match="the kernel is for int32"):
        scan(gpuarray.to_gpu(x.astype(np.uint64)))


def test_scans_refuse(engine):
    scan = InclusiveScanKernel(np.int64, "a+b")
    array = gpuarray.zeros(10, np.int64)
    with pytest.raises(TypeError, match="the kernel is for int64"):
        scan(gpuarray.zeros(10, np.float32))
    with pytest.raises(RuntimeError, match="contiguous"):
        scan(array[::2])
    with pytest.raises(ValueError, match="output_ary has shape"):
        scan(array, gpuarray.zeros(5, np.int64))


# ---- cumath -----------------------------------------------------------------------------------------

FUNCTIONS = {
    "fabs": np.fabs, "ceil": np.ceil, "floor": np.floor, "exp": np.exp, "log": np.log, "log10": np.log10,
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [100, 100_000])
def test_cumath(engine, name, dtype, size):
    x = np.linspace(0.01, 0.99, size).astype(dtype)
    result = getattr(cumath, name)(gpuarray.to_gpu(x))
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(result.get(), FUNCTIONS[name](x), rtol=tolerance, atol=tolerance, strict=True)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt"])
def test_cumath_of_complex_numbers(engine, name):
    x = (sample(100) / 50 + 1j * sample(100, seed=1) / 50).astype(np.complex64)
    result = getattr(cumath, name)(gpuarray.to_gpu(x))
    np.testing.assert_allclose(result.get(), getattr(np, name)(x), rtol=1e-4, strict=True)


@pytest.mark.parametrize("name", ["sqrt", "exp", "floor", "fabs", "atan"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("size", [1, 100_000])
def test_cumath_of_integers_is_truncated(engine, name, dtype, size):
    x = (np.arange(size) % 5 + 1).astype(dtype)
    result = getattr(cumath, name)(gpuarray.to_gpu(x))
    assert result.dtype == dtype
    functions = {"atan": np.arctan, "fabs": np.abs}
    expected = functions.get(name) or getattr(np, name)
    np.testing.assert_array_equal(result.get(), expected(x.astype(np.float64)).astype(dtype))


def test_cumath_arguments(engine):
    x = gpuarray.to_gpu(sample(100))
    out = gpuarray.empty_like(x)
    stream = drv.Stream()
    assert cumath.exp(x, out=out, stream=stream) is out
    assert cumath.sqrt(x, out) is out
    cumath.sqrt(x, stream)
    stream.synchronize()
    np.testing.assert_allclose(out.get(), np.sqrt(x.get()), rtol=1e-6)
    with pytest.raises(ValueError, match="out is"):
        cumath.exp(x, out=gpuarray.empty(5, np.float32))


def test_pairs(engine):
    x = np.linspace(-20, 20, 101).astype(np.float32)
    array = gpuarray.to_gpu(x)
    for name in ("frexp", "modf"):
        for result, expected in zip(getattr(cumath, name)(array), getattr(np, name)(x), strict=True):
            np.testing.assert_array_equal(result.get(), expected.astype(np.float32), strict=True)
    exponents = gpuarray.to_gpu(np.full(101, 3, np.float32))
    np.testing.assert_array_equal(cumath.ldexp(array, exponents).get(), np.ldexp(x, 3))
    np.testing.assert_array_equal(
        cumath.fmod(array, gpuarray.to_gpu(np.full(101, 7, np.float32))).get(), np.fmod(x, np.float32(7))
    )


def test_complex_numbers_as_arguments(engine):
    """Any number is converted for a complex parameter."""
    kernel = ElementwiseKernel("pycuda::complex<float> a, pycuda::complex<float> *z", "z[i] = a")
    z = gpuarray.empty(3, np.complex64)
    for number in (
        2,
        2.5,
        True,
        1 + 2j,
        np.float64(2.5),
        np.complex64(3j),
        np.complex128(1 - 1j),
        np.int8(-3),
    ):
        kernel(number, z)
        np.testing.assert_array_equal(z.get(), np.full(3, number, np.complex64))
    kernel(np.array([4, 5], np.float32), z)  # the bytes of a struct
    np.testing.assert_array_equal(z.get(), np.full(3, 4 + 5j, np.complex64))
    with pytest.raises(OverflowError, match=r"parameter 'a' .* does not fit in complex64"):
        kernel(1e300, z)
    with pytest.raises(TypeError, match="parameter 'a'"):
        kernel("1", z)
    np.testing.assert_array_equal(z.get(), np.full(3, 4 + 5j, np.complex64))
