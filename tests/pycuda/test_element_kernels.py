"""The kernels of PyCUDA's arithmetic that programs launch themselves, with NumPy as the oracle."""

import numpy as np
import pytest
from helpers.thorough_cases import thorough

from pycudakit.pycuda import driver as drv
from pycudakit.pycuda import elementwise, gpuarray, reduction

SIZE = 1000


def sample(dtype, seed=0):
    numbers = np.random.default_rng(seed).integers(1, 20, (2, SIZE))
    return (numbers[0] + (1j * numbers[1] if np.dtype(dtype).kind == "c" else 0)).astype(dtype)


def results(kernel, dtypes, *arguments, count=SIZE):
    """Launch a kernel on the arguments; return its arrays of results, for which None stands."""
    dtypes, outs, passed = iter(dtypes), [], []
    for argument in arguments:
        if argument is None:
            outs.append(gpuarray.empty(SIZE, next(dtypes)))
            passed.append(outs[-1])
        else:
            passed.append(gpuarray.to_gpu(argument) if isinstance(argument, np.ndarray) else argument)
    grid, block = gpuarray.splay(count)
    kernel.prepared_call(grid, block, *(getattr(each, "gpudata", each) for each in passed), count)
    got = [out.get() for out in outs]
    return got[0] if len(got) == 1 else got


def test_values_and_copies(engine):
    f4, i4, c8 = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.complex64)
    x, z = sample(f4), sample(c8)
    same = np.testing.assert_array_equal
    same(results(elementwise.get_fill_kernel(f4), [f4], 2.5, None), np.full(SIZE, 2.5, f4))
    same(results(elementwise.get_arange_kernel(i4), [i4], None, 3, -2), 3 - 2 * np.arange(SIZE))
    same(results(elementwise.get_arange_kernel(c8), [c8], None, 1j, 2), 1j + 2 * np.arange(SIZE))
    same(results(elementwise.get_copy_kernel(i4, f4), [i4], None, x), x.astype(i4))
    same(results(elementwise.get_reverse_kernel(f4), [f4], x, None), x[::-1])
    same(results(elementwise.get_real_kernel(c8, f4), [f4], z, None), z.real)
    same(results(elementwise.get_imag_kernel(c8, f4), [f4], z, None), z.imag)
    same(results(elementwise.get_conj_kernel(c8, c8), [c8], z, None), z.conj())
    places = np.random.default_rng(1).permutation(SIZE).astype(i4)
    put = elementwise.get_put_kernel(f4, i4, vec_count=2)
    first, second = results(put, [f4, f4], places, None, None, x, 2 * x)
    same(first[places], x)
    same(second[places], 2 * x)


@pytest.mark.parametrize(
    "dtypes", [(np.float32, np.float32), (np.int32, np.float64), (np.float32, np.complex64)]
)
def test_axpbyz(engine, dtypes):
    dtypes = [np.dtype(dtype) for dtype in dtypes]
    out = np.result_type(*dtypes)
    x, y = sample(dtypes[0]), sample(dtypes[1], 1)
    kernel = elementwise.get_axpbyz_kernel(*dtypes, out)
    assert elementwise.get_axpbyz_kernel(*dtypes, out) is kernel
    np.testing.assert_array_equal(results(kernel, [out], 3, x, 2, y, None), (3 * x + 2 * y).astype(out))
    kernel = elementwise.get_axpbyz_kernel(*dtypes, out, x_is_scalar=True)
    np.testing.assert_array_equal(
        results(kernel, [out], 3, x[:1], 2, y, None), (3 * x[0] + 2 * y).astype(out)
    )
    kernel = elementwise.get_axpbz_kernel(dtypes[0], out)
    np.testing.assert_array_equal(results(kernel, [out], 3, x, 2, None), (3 * x + 2).astype(out))


def test_operators(engine):
    i4, f4, f8, c8 = map(np.dtype, (np.int32, np.float32, np.float64, np.complex64))
    x, y, z = sample(i4), sample(f8, 1), sample(c8)
    same, close = np.testing.assert_array_equal, np.testing.assert_allclose
    kernel = elementwise.get_binary_op_kernel(i4, f8, f8, "*")
    same(results(kernel, [f8], x, y, None), x * y)
    kernel = elementwise.get_binary_op_kernel(i4, i4, np.dtype(bool), "<", y_is_scalar=True)
    assert kernel.name == "binary_op"
    kernel = elementwise.get_binary_op_kernel(f4, c8, c8, "-", y_is_scalar=True)
    same(results(kernel, [c8], x.astype(f4), z[:1], None), x.astype(f4) - z[0])
    same(results(elementwise.get_scalar_op_kernel(i4, i4, i4, ">="), [i4], x, 7, None), x >= 7)
    close(results(elementwise.get_rdivide_elwise_kernel(f8, f8), [f8], y, 3.0, None), 3 / y)
    small = sample(f4) / 20
    power = elementwise.get_pow_array_kernel(f4, f4, f4, True, True)
    close(results(power, [f4], small, small[::-1].copy(), None), small ** small[::-1], rtol=1e-6)
    power = elementwise.get_pow_array_kernel(f8, i4, f8, True, False)
    close(results(power, [f8], y, 2, None), y**2)
    power = elementwise.get_pow_array_kernel(f4, c8, c8, False, True)
    close(results(power, [c8], 2.0, z, None), 2**z, rtol=1e-4, atol=1e-3)
    with pytest.raises(ValueError, match="neither the base nor the exponent"):
        elementwise.get_pow_array_kernel(f4, f4, f4, False, False)


def test_functions(engine):
    i4, f4, f8 = map(np.dtype, (np.int32, np.float32, np.float64))
    x, y = sample(f4) + f4.type(0.25), sample(f4, 1)
    same = np.testing.assert_array_equal
    same(results(elementwise.get_unary_func_kernel("sqrtf", f4), [f4], x, None), np.sqrt(x))
    same(
        results(elementwise.get_unary_func_kernel("(int)floor", f8, i4), [i4], x.astype(f8), None),
        np.floor(x),
    )
    same(results(elementwise.get_binary_func_kernel("fmaxf", f4, f4, f4), [f4], x, y, None), np.maximum(x, y))
    same(
        results(elementwise.get_binary_func_scalar_kernel("fminf", f4, f4, f4), [f4], x, 9, None),
        x.clip(None, 9),
    )
    for dtype in (i4, f4, f8):
        a, b = x.astype(dtype), y.astype(dtype)
        kernel = elementwise.get_binary_minmax_kernel("max", dtype, dtype, dtype, False)
        same(results(kernel, [dtype], a, b, None), np.maximum(a, b))
        kernel = elementwise.get_binary_minmax_kernel("min", dtype, dtype, dtype, True)
        same(results(kernel, [dtype], a, 9, None), np.minimum(a, 9))
    same(results(elementwise.get_fmod_kernel(), [f4], x, y, None), np.fmod(x, y))
    whole, fraction = results(elementwise.get_modf_kernel(), [f4, f4], x, None, None)
    same((fraction, whole), np.modf(x))
    same(results(elementwise.get_frexp_kernel(), [f4, f4], x, None, None), np.frexp(x))
    same(results(elementwise.get_ldexp_kernel(), [f4], x, y, None), np.ldexp(x, y.astype(i4)))


def test_selections(engine):
    i4, f8 = np.dtype(np.int32), np.dtype(np.float64)
    x, y, chosen = sample(f8), sample(f8, 1), sample(i4, 2) % 3 - 1
    same = np.testing.assert_array_equal
    kernel = elementwise.get_if_positive_kernel(i4, f8)
    same(results(kernel, [f8], chosen, x, y, None), np.where(chosen > 0, x, y))
    same(results(elementwise.get_where_kernel(i4, f8), [f8], chosen, x, y, None), np.where(chosen, x, y))
    same(results(elementwise.get_logical_not_kernel(i4, i4), [i4], chosen, None), chosen == 0)


def test_linear_combination(engine):
    f4, f8 = np.dtype(np.float32), np.dtype(np.float64)
    x, y, z = sample(f4), sample(f4, 1), sample(f8, 2)
    kernel, textures = elementwise.get_linear_combination_kernel(
        ((False, f4, f4), (False, f4, f4), (False, f8, f8)), f8
    )
    assert textures == []
    got = results(kernel, [f8], 2, x, 3, y, 0.5, z, None)
    np.testing.assert_array_equal(got, 2 * x + 3 * y + 0.5 * z)
    with pytest.raises(drv.LogicError, match="factor 1 of a linear combination would be a texture"):
        elementwise.get_linear_combination_kernel(((False, f4, f4), (True, f4, f4)), f4)


def test_textures(engine):
    for function in (elementwise.get_take_kernel, elementwise.get_take_put_kernel):
        with pytest.raises(drv.LogicError, match=r"does not exist: .* call gpuarray\."):
            function(np.float32, np.int32)
    kernel = elementwise.ElementwiseKernel("float *z", "z[i] = 1")
    with pytest.raises(drv.LogicError, match="no texture references"):
        kernel.get_texref("tex")


@pytest.mark.parametrize("dtype", [np.int8, np.float32, *thorough(np.uint32, np.int64, np.float64)])
def test_reductions(engine, dtype):
    dtype = np.dtype(dtype)
    x = np.random.default_rng(3).integers(1, 100, 5000).astype(dtype)
    places = np.random.default_rng(4).integers(0, 5000, 300).astype(np.int32)
    x_gpu, places_gpu = gpuarray.to_gpu(x), gpuarray.to_gpu(places)
    for what in ("min", "max"):
        function = getattr(np, what)
        assert reduction.get_minmax_kernel(what, dtype)(x_gpu).get() == function(x)
        kernel = reduction.get_subset_minmax_kernel(what, dtype, np.dtype(np.int32))
        assert kernel(places_gpu, x_gpu).get() == function(x[places])
        neutral = reduction.ReductionKernel(
            dtype,
            reduction.get_minmax_neutral(what, dtype),
            "a",
            "in[i]",
            f"{reduction.dtype_to_ctype(dtype)} *in",
        )
        least = np.iinfo(dtype) if dtype.kind in "iu" else None
        expected = {"min": np.inf, "max": -np.inf} if least is None else {"min": least.max, "max": least.min}
        assert neutral(x_gpu).get() == expected[what]
    out = np.dtype(np.float64)
    int32 = np.dtype(np.int32)
    assert reduction.get_sum_kernel(out, dtype)(x_gpu).get() == x.sum(dtype=out)
    assert reduction.get_subset_sum_kernel(out, int32, dtype)(places_gpu, x_gpu).get() == x[places].sum(
        dtype=out
    )
    kernel = reduction.get_subset_dot_kernel(out, int32, dtype, dtype)
    assert kernel(places_gpu, x_gpu, x_gpu).get() == (x[places].astype(out) ** 2).sum()


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.float32, np.complex64])
def test_any_and_all(engine, dtype):
    dtype, boolean = np.dtype(dtype), np.dtype(np.bool_)
    for x in (np.zeros(5000, dtype), np.ones(5000, dtype), np.eye(50, 100, dtype=dtype).ravel()):
        x_gpu = gpuarray.to_gpu(x)
        assert reduction.get_any_kernel(boolean, dtype)(x_gpu).get() == x.any()
        assert reduction.get_all_kernel(boolean, dtype)(x_gpu).get() == x.all()
        assert reduction.get_any_kernel(None, dtype)(x_gpu).dtype == dtype


def test_neutral_elements_refuse():
    with pytest.raises(ValueError, match="'mean'; it is 'min' or 'max'"):
        reduction.get_minmax_neutral("mean", np.float32)
    with pytest.raises(TypeError, match="max takes integers and floats, not complex64"):
        reduction.get_minmax_kernel("max", np.complex64)


def test_modules_have_the_parameters_that_they_are_given(engine):
    size = elementwise.ScalarArg(np.uintp, "n")
    vector = elementwise.VectorArg(np.float32, "x")
    module = elementwise.get_elwise_module([vector, size], "x[i] = 2 * i")
    x = gpuarray.zeros(SIZE, np.float32)
    module.get_function("kernel")(x, np.uintp(SIZE), block=(64, 1, 1), grid=(2, 1))
    np.testing.assert_array_equal(x.get(), 2 * np.arange(SIZE, dtype=np.float32))
    _, kernel, arguments = elementwise.get_elwise_kernel_and_types("float *x", "x[i] = i", use_range=True)
    assert [each.name for each in arguments] == ["x", "start", "stop", "step"]
    kernel(x, np.intp(0), np.intp(SIZE), np.intp(1), block=(64, 1, 1), grid=(2, 1))
    np.testing.assert_array_equal(x.get(), np.arange(SIZE, dtype=np.float32))
