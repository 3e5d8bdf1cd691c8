"""GPUArray: creation, copies, views, arithmetic and functions, with NumPy as the oracle."""

import copy
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import pycudakit as pk
from pycudakit.pycuda import cumath, gpuarray
from pycudakit.pycuda import driver as drv
from pycudakit.pycuda._array_math import _run_kernel, launch_arithmetic

DTYPES = [np.int32, np.int64, np.uint8, np.float32, np.float64, np.complex64, np.complex128]
REAL = [np.int32, np.float32, np.float64]


def sample(dtype, shape=(5, 7), seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 50, shape).astype(dtype)
    if np.dtype(dtype).kind == "c":
        values += 1j * rng.integers(1, 50, shape)
    return values


# ---- Creation and copies ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (100,), (3, 0, 2), (4, 5, 6)])
def test_round_trip(engine, dtype, shape):
    values = sample(dtype, shape)
    array = gpuarray.to_gpu(values)
    assert (array.shape, array.dtype, array.size, array.nbytes) == (
        values.shape,
        values.dtype,
        values.size,
        values.nbytes,
    )
    np.testing.assert_array_equal(array.get(), values, strict=True)
    np.testing.assert_array_equal(array.copy().get(), values, strict=True)


@given(st.data())
@settings(max_examples=50)
def test_layouts_and_indices(engine, data):
    """Copies keep the values of any layout, and basic indexing selects as NumPy's."""
    shape = data.draw(hnp.array_shapes(max_dims=4, max_side=5))
    values = sample(data.draw(st.sampled_from([np.uint8, np.float64, np.complex128])), shape)
    host = values.transpose(data.draw(st.permutations(range(values.ndim))))
    index = data.draw(hnp.basic_indices(host.shape, allow_newaxis=True))
    expected = host[index]
    array = gpuarray.to_gpu(host)
    np.testing.assert_array_equal(array[index].get(), expected)
    np.testing.assert_array_equal(gpuarray.to_gpu(expected).get(), expected)
    array[index] = 3
    wanted = host.copy()
    wanted[index] = 3
    np.testing.assert_array_equal(array.get(), wanted)
    array[index] = gpuarray.to_gpu(np.asarray(expected))
    np.testing.assert_array_equal(array.get(), host)


def test_set_and_get(engine):
    values = sample(np.float32)
    array = gpuarray.empty(values.shape, values.dtype)
    array.set(values)
    out = np.empty_like(values)
    assert array.get(out) is out
    np.testing.assert_array_equal(out, values)
    pinned = drv.pagelocked_empty(values.shape, values.dtype)
    stream = drv.Stream()
    array.get_async(stream, pinned)
    stream.synchronize()
    np.testing.assert_array_equal(pinned, values)
    pinned += 1
    array.set_async(pinned, stream)
    stream.synchronize()
    np.testing.assert_array_equal(array.get(pagelocked=True), values + 1)


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        (np.zeros(3, np.float32), ValueError, "same size: 3 and 35"),
        (np.zeros((5, 7), np.float64), ValueError, "same dtype: float64 and float32"),
    ],
)
def test_set_refuses(engine, other, error, message):
    values = sample(np.float32)
    array = gpuarray.to_gpu(values)
    with pytest.raises(error, match=message):
        array.set(other)
    np.testing.assert_array_equal(array.get(), values)


def test_set_with_another_shape_warns(engine):
    array = gpuarray.zeros((5, 7), np.float32)
    with pytest.warns(UserWarning, match="different shape"):
        array.set(np.arange(35, dtype=np.float32))
    np.testing.assert_array_equal(array.get().ravel(), np.arange(35))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64, np.complex128])
def test_filled(engine, dtype):
    np.testing.assert_array_equal(gpuarray.zeros((3, 4), dtype).get(), np.zeros((3, 4), dtype), strict=True)
    np.testing.assert_array_equal(gpuarray.ones(5, dtype).get(), np.ones(5, dtype), strict=True)
    like = gpuarray.to_gpu(np.asfortranarray(sample(dtype)))
    for made, value in ((gpuarray.zeros_like(like), 0), (gpuarray.ones_like(like), 1)):
        np.testing.assert_array_equal(made.get(), np.full((5, 7), value, dtype), strict=True)
        assert made.flags.f_contiguous
    assert gpuarray.empty_like(like, order="C").flags.c_contiguous
    np.testing.assert_array_equal(like.fill(7).get(), np.full((5, 7), 7, dtype))


def test_arange(engine):
    for arguments in ((5,), (2, 7), (1.5, 4, 0.25)):
        np.testing.assert_array_equal(
            gpuarray.arange(*arguments, dtype=np.float32).get(), np.arange(*arguments, dtype=np.float32)
        )


def test_vector_types(engine):
    points = np.array([(1, 2, 3, 4), (5, 6, 7, 8)], gpuarray.vec.float4)
    np.testing.assert_array_equal(gpuarray.to_gpu(points).get(), points)
    assert gpuarray.vec.make_int3(1, 2, 3).dtype == gpuarray.vec.int3
    np.testing.assert_array_equal(gpuarray.zeros(3, gpuarray.vec.float4).get()["w"], np.zeros(3))
    with pytest.raises(TypeError, match="make_int3"):
        gpuarray.vec.make_int3(1)


def test_pickled_and_copied(engine):
    values = sample(np.float32)
    array = gpuarray.to_gpu(values)
    for copied in (pickle.loads(pickle.dumps(array)), copy.deepcopy(array), copy.copy(array)):
        copied.fill(1)
        np.testing.assert_array_equal(copied.get(), np.ones_like(values))
        np.testing.assert_array_equal(array.get(), values)


def test_objects_are_refused(engine):
    with pytest.raises(TypeError, match="Python objects"):
        gpuarray.empty(3, object)


# ---- Views ------------------------------------------------------------------------------------------


def test_views_share_memory(engine):
    values = sample(np.float32, (4, 6))
    array = gpuarray.to_gpu(values)
    for view, expected in (
        (array.reshape(3, 8), values.reshape(3, 8)),
        (array.reshape((-1, 2)), values.reshape(-1, 2)),
        (array.ravel(), values.ravel()),
        (array.T, values.T),
        (array[None].squeeze(), values),
        (array.view(np.int32), values.view(np.int32)),
        (array.view(np.uint16), values.view(np.uint16)),
        (array[1:3, ::-2], values[1:3, ::-2]),
    ):
        np.testing.assert_array_equal(view.get(), expected, strict=True)
    array.T[2].fill(0)
    values[:, 2] = 0
    np.testing.assert_array_equal(array.get(), values)
    assert array[1].base is array


def test_views_outlive_their_arrays(engine):
    view = gpuarray.to_gpu(np.arange(1000))[10:20]
    junk = [gpuarray.to_gpu(np.zeros(1000, np.int64)) for _ in range(5)]
    np.testing.assert_array_equal(view.get(), np.arange(10, 20))
    del junk


@pytest.mark.parametrize(
    ("index", "message"),
    [((0, 0, 0), "too many axes"), (9, "out of range"), ((..., ...), "ellipsis"), ("a", "invalid subindex")],
)
def test_wrong_indices(engine, index, message):
    with pytest.raises(IndexError, match=message):
        gpuarray.zeros((4, 5), np.float32)[index]


def test_wrong_shapes(engine):
    array = gpuarray.zeros((4, 6), np.float32)
    with pytest.raises(ValueError, match="unchanged"):
        array.reshape(5, 5)
    with pytest.raises(ValueError, match="one unknown"):
        array.reshape(-1, -1)
    with pytest.raises(ValueError, match="axes"):
        array.transpose((0, 0))
    with pytest.raises(RuntimeError, match="contiguous"):
        array[:, ::2].reshape(12)


def test_views_of_another_item_size(engine):
    values = sample(np.float32, (4, 6))
    array = gpuarray.to_gpu(values)
    np.testing.assert_array_equal(array[None].view(np.uint16).get(), values[None].view(np.uint16))
    assert gpuarray.zeros((3, 0), np.float32).view(np.float64).shape == (3, 0)
    for view in (array[:, ::2], array[0, ::-1]):
        for dtype in (np.uint8, np.float64):
            with pytest.raises(ValueError, match="contiguous axis"):
                view.view(dtype)


def test_copies_in_the_layout_of_another_dtype(engine):
    values = sample(np.float32, (4, 6))
    for like in (np.zeros((4, 6)), np.zeros((4, 6), np.uint8, order="F")):
        copied = gpuarray.to_gpu(values).copy_like(gpuarray.to_gpu(like))
        assert copied.flags.f_contiguous == like.flags.f_contiguous
        np.testing.assert_array_equal(copied.get(), values, strict=True)


@pytest.mark.parametrize("strides", [(8,), (-4,), (4, 4)])
def test_strides_that_leave_the_memory(engine, strides):
    with pytest.raises(ValueError, match="strides"):
        gpuarray.GPUArray((4,), np.float32, strides=strides)


# ---- Arithmetic -------------------------------------------------------------------------------------

BINARY = [operator.add, operator.sub, operator.mul]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("other", DTYPES)
@pytest.mark.parametrize("function", BINARY)
def test_binary(engine, dtype, other, function):
    a, b = sample(dtype), sample(other, seed=1)
    result = function(gpuarray.to_gpu(a), gpuarray.to_gpu(b))
    np.testing.assert_allclose(result.get(), function(a, b), rtol=1e-6, strict=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_divide_and_power(engine, dtype):
    a, b = sample(dtype), sample(dtype, seed=1)
    one, other = gpuarray.to_gpu(a), gpuarray.to_gpu(b)
    np.testing.assert_allclose((one / other).get(), a / b, rtol=1e-5, strict=True)
    np.testing.assert_allclose((2 / one).get(), dtype(2) / a, rtol=1e-5, strict=True)
    np.testing.assert_allclose((one / 4).get(), a / dtype(4), rtol=1e-5, strict=True)
    np.testing.assert_allclose((one**2).get(), a**2, rtol=1e-4, strict=True)


def test_integers_are_divided_as_in_c(engine):
    a = np.array([7, -7, 7, -7, 6], np.int32)
    b = np.array([2, 2, -2, -2, 3], np.int32)
    np.testing.assert_array_equal(
        (gpuarray.to_gpu(a) / gpuarray.to_gpu(b)).get(), np.array([3, -3, -3, 3, 2], np.int32), strict=True
    )


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("number", [3, np.float32(2.5), np.float64(2.5), np.int64(4), np.array(2.5)])
def test_numbers(engine, dtype, number):
    a = sample(dtype)
    array = gpuarray.to_gpu(a)
    for function in BINARY:
        np.testing.assert_allclose(function(array, number).get(), function(a, number), strict=True)
        np.testing.assert_allclose(function(number, array).get(), function(number, a), strict=True)


def test_in_place(engine):
    a, b = sample(np.float32), sample(np.float32, seed=1)
    array, address = gpuarray.to_gpu(a), None
    address = array.ptr
    array += gpuarray.to_gpu(b)
    array -= 2
    array *= gpuarray.to_gpu(b)
    array /= 4
    np.testing.assert_allclose(array.get(), ((a + b) - 2) * b / 4, rtol=1e-6)
    assert array.ptr == address


def test_arrays_without_axes_are_numbers(engine):
    """A sum that `get` has returned scales an array, in place too."""
    a = sample(np.float32)
    array = gpuarray.to_gpu(a)
    same = array
    array /= gpuarray.sum(array).get()
    assert array is same
    np.testing.assert_allclose(array.get(), a / a.sum(), rtol=1e-6, strict=True)
    np.testing.assert_array_equal((array > np.array(0.02)).get(), (a / a.sum() > 0.02).astype(np.float32))


def test_in_place_casts_as_numpy(engine):
    array = gpuarray.to_gpu(np.arange(3))
    with pytest.raises(TypeError, match="same_kind"):
        array += 1.5
    np.testing.assert_array_equal(array.get(), np.arange(3))


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("dtype", REAL)
def test_compared(engine, name, dtype):
    """The results have the operands' dtype, as PyCUDA's."""
    function = getattr(operator, name)
    a, b = sample(dtype), sample(dtype, seed=1)
    result = function(gpuarray.to_gpu(a), gpuarray.to_gpu(b))
    np.testing.assert_array_equal(result.get(), function(a, b).astype(dtype), strict=True)
    np.testing.assert_array_equal(
        function(gpuarray.to_gpu(a), 20).get(), function(a, 20).astype(dtype), strict=True
    )


def test_unary(engine):
    a = sample(np.float32) - 20
    array = gpuarray.to_gpu(a)
    np.testing.assert_array_equal((-array).get(), -a)
    np.testing.assert_array_equal(abs(array).get(), abs(a))
    assert +array is array
    np.testing.assert_array_equal(array.reverse().get().ravel(), a.ravel()[::-1])
    np.testing.assert_array_equal(array.astype(np.int16).get(), a.astype(np.int16), strict=True)
    np.testing.assert_allclose(
        array.mul_add(2, array, 3).get(), (np.float32(2) * a + np.float32(3) * a), rtol=1e-6
    )


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.complex64])
def test_names_that_libraries_call(engine, dtype):
    a, b = sample(dtype, 100), sample(dtype, 100, seed=1)
    one, other, stream = gpuarray.to_gpu(a), gpuarray.to_gpu(b), drv.Stream()
    for name, arguments, expected in (
        ("_axpbyz", (2, other, 3), 2 * a + 3 * b),
        ("_axpbz", (2, 3), 2 * a + 3),
        ("_elwise_multiply", (other,), a * b),
        ("_div", (other,), a // b if dtype == np.int32 else a / b),
        ("_rdiv_scalar", (100,), 100 // a if dtype == np.int32 else 100 / a),
    ):
        out = gpuarray.empty_like(one)
        assert getattr(one, name)(*arguments, out, stream=stream) is out
        stream.synchronize()
        np.testing.assert_allclose(out.get(), expected.astype(dtype), rtol=1e-6)
    one._axpbyz(1, other, -1, one)
    np.testing.assert_array_equal(one.get(), a - b)
    assert gpuarray._get_common_dtype(one, gpuarray.zeros(1, np.float64)) == np.result_type(dtype, np.float64)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex(engine, dtype):
    a = sample(dtype)
    array = gpuarray.to_gpu(a)
    np.testing.assert_array_equal(array.real.get(), a.real, strict=True)
    np.testing.assert_array_equal(array.imag.get(), a.imag, strict=True)
    np.testing.assert_array_equal(array.conj().get(), a.conj(), strict=True)
    np.testing.assert_allclose(abs(array).get(), abs(a), rtol=1e-6, strict=True)
    np.testing.assert_allclose(gpuarray.sum(array).get(), a.sum(), rtol=1e-5)


def test_scalars_and_broadcasting(engine):
    a, b = sample(np.float32), np.float32(3) * np.ones((), np.float32)
    np.testing.assert_array_equal((gpuarray.to_gpu(a) + gpuarray.to_gpu(b)).get(), a + b)
    np.testing.assert_array_equal((gpuarray.to_gpu(b) + gpuarray.to_gpu(a)).get(), a + b)
    assert bool(gpuarray.to_gpu(np.ones(1)))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(gpuarray.to_gpu(a))
    with pytest.raises(TypeError, match="hashable"):
        hash(gpuarray.to_gpu(a))
    with pytest.raises(TypeError, match="unsized"):
        len(gpuarray.to_gpu(b))
    with pytest.raises(TypeError, match="unsupported operand"):
        gpuarray.to_gpu(a) + "a"


# ---- Functions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", REAL)
def test_reductions(engine, dtype):
    a, b = sample(dtype, 1000), sample(dtype, 1000, seed=1)
    one, other = gpuarray.to_gpu(a), gpuarray.to_gpu(b)
    assert gpuarray.sum(one).dtype == dtype
    np.testing.assert_allclose(gpuarray.sum(one).get(), a.sum(dtype=dtype), rtol=1e-5)
    np.testing.assert_allclose(gpuarray.sum(one, dtype=np.float64).get(), a.sum(dtype=np.float64))
    assert gpuarray.max(one).get() == a.max()
    assert gpuarray.min(one).get() == a.min()
    np.testing.assert_allclose(gpuarray.dot(one, other).get(), np.dot(a, b), rtol=1e-5)
    subset = np.arange(0, 1000, 3, dtype=np.int32)
    chosen = gpuarray.to_gpu(subset)
    np.testing.assert_allclose(gpuarray.subset_sum(chosen, one).get(), a[subset].sum(), rtol=1e-5)
    np.testing.assert_allclose(
        gpuarray.subset_dot(chosen, one, other).get(), np.dot(a[subset], b[subset]), rtol=1e-5
    )
    assert gpuarray.subset_max(chosen, one).get() == a[subset].max()
    assert gpuarray.subset_min(chosen, one).get() == a[subset].min()
    assert bool(gpuarray.any(one > 100)) == (a > 100).any()
    assert bool((one > 0).all())


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex128])
def test_take_and_put(engine, dtype):
    a = sample(dtype, 100)
    indices = np.array([3, 1, 99, 3], np.int32)
    array, chosen = gpuarray.to_gpu(a), gpuarray.to_gpu(indices)
    np.testing.assert_array_equal(gpuarray.take(array, chosen).get(), a[indices], strict=True)
    taken = gpuarray.multi_take([array, array], chosen)
    np.testing.assert_array_equal(taken[1].get(), a[indices])
    places = gpuarray.to_gpu(np.array([0, 2, 4, 6], np.int32))
    expected = np.zeros(8, dtype)
    expected[[0, 2, 4, 6]] = a[indices]
    np.testing.assert_array_equal(gpuarray.multi_put(taken, places, (8,))[0].get(), expected)
    np.testing.assert_array_equal(gpuarray.multi_take_put([array], places, chosen, (8,))[0].get(), expected)
    with pytest.raises(ValueError, match="one axis"):
        gpuarray.take(array, chosen.reshape(2, 2))


def test_chosen(engine):
    a, b = sample(np.float32), sample(np.float32, seed=1)
    one, other = gpuarray.to_gpu(a), gpuarray.to_gpu(b)
    mask = (a > b).astype(np.int32)
    np.testing.assert_array_equal(
        gpuarray.where(gpuarray.to_gpu(mask), one, other).get(), np.where(mask, a, b)
    )
    np.testing.assert_array_equal(
        gpuarray.if_positive(one - other, one, other).get(), np.where(a - b > 0, a, b)
    )
    np.testing.assert_array_equal(gpuarray.maximum(one, other).get(), np.maximum(a, b))
    np.testing.assert_array_equal(gpuarray.minimum(one, 20).get(), np.minimum(a, 20))
    np.testing.assert_array_equal(gpuarray.logical_and(one, 0).get(), np.zeros(a.shape, bool), strict=True)
    np.testing.assert_array_equal(gpuarray.logical_not(one).get(), np.logical_not(a), strict=True)
    with pytest.raises(ValueError, match="shapes do not match"):
        gpuarray.where(one, one.T, other.T)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_joined(engine, axis):
    a, b = sample(np.float32), sample(np.float32, seed=1)
    arrays = [gpuarray.to_gpu(a), gpuarray.to_gpu(b)]
    np.testing.assert_array_equal(gpuarray.concatenate(arrays, axis).get(), np.concatenate([a, b], axis))
    np.testing.assert_array_equal(gpuarray.stack(arrays, axis).get(), np.stack([a, b], axis))
    with pytest.raises(ValueError, match="does not fit"):
        gpuarray.concatenate([arrays[0], arrays[1][1:, 1:]], axis)
    with pytest.raises(ValueError, match="invalid axis"):
        gpuarray.concatenate(arrays, axis + 4)


def test_dot_of_arrays_of_other_shapes(engine):
    a, b = sample(np.float32, (4, 6)), sample(np.float32, 24, seed=1)
    one, other = gpuarray.to_gpu(a), gpuarray.to_gpu(b)
    for dtype in (None, np.float64):
        assert gpuarray.dot(one, other, dtype).get() == np.dot(a.ravel(), b)
    with pytest.raises(RuntimeError, match="contiguous"):
        gpuarray.dot(one[:, ::2], other[:12])


def test_put_needs_a_shape(engine):
    places = gpuarray.to_gpu(np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="dest_shape or out"):
        gpuarray.multi_put([gpuarray.zeros(1, np.float32)], places)


def test_put_into_a_view(engine):
    target = gpuarray.zeros((4, 6), np.float32)
    places = gpuarray.to_gpu(np.arange(12, dtype=np.int32))
    values = sample(np.float32, (3, 8))
    gpuarray.multi_put([gpuarray.to_gpu(values)[:, ::2]], places, out=[target.T[::2]])
    np.testing.assert_array_equal(target.T[::2].get().ravel(), values[:, ::2].ravel())
    assert not target.T[1::2].get().any()


@pytest.mark.parametrize("name", ["positive", "real", "negative"])
def test_kernels_of_every_layout(engine, name):
    """Operands and results of other sizes of items, in other layouts than each other's."""
    a = sample(np.complex64, (4, 6))
    expected = a.real if name == "real" else getattr(np, name)(a)
    dtype = np.float64 if name == "real" else np.complex128
    whole = gpuarray.to_gpu(a)
    for operand, of in ((whole, expected), (whole.T, expected.T), (whole[:, ::-2], expected[:, ::-2])):
        shape = operand.shape
        doubled = gpuarray.zeros((shape[0], 2 * shape[1]), dtype)
        for out in (
            gpuarray.empty(shape, dtype),
            gpuarray.empty(shape, dtype, order="F"),
            doubled[:, ::2],
        ):
            _run_kernel(name, out, (operand,), None)
            np.testing.assert_array_equal(out.get(), of)
        assert not doubled[:, 1::2].get().any()


@pytest.mark.parametrize(
    "dtypes", [(np.float32, np.complex64), (np.float64, np.complex64), (np.int64, np.complex64)]
)
def test_comparisons_of_complex_numbers(engine, dtypes):
    """Real and complex arrays can be equal; complex ones have no order, on either engine."""
    real, z = sample(dtypes[0]), sample(dtypes[1])
    z.imag[::2] = 0
    z.real[::2] = real[::2]
    one, other = gpuarray.to_gpu(real), gpuarray.to_gpu(z)
    for compare in (operator.eq, operator.ne):
        equal = compare(real, z).astype(np.result_type(real, z))
        for left, right in ((one, other), (other, one)):
            np.testing.assert_array_equal(compare(left, right).get(), equal, strict=True)
            out = gpuarray.empty(left.shape, equal.dtype)
            _run_kernel({operator.eq: "equal", operator.ne: "not_equal"}[compare], out, (left, right), None)
            np.testing.assert_array_equal(out.get(), equal)
        for number in (2, 1j, np.complex64(3)):
            np.testing.assert_array_equal(compare(one, number).get(), compare(real, number))
            np.testing.assert_array_equal(compare(other, number).get(), compare(z, number))
    for order in (operator.lt, operator.le, operator.gt, operator.ge):
        for operands in ((one, other), (other, one), (other, 2), (one, 1j)):
            with pytest.raises(TypeError, match="takes bools, integers and floats, not complex"):
                order(*operands)
    for function in (gpuarray.max, gpuarray.min, cumath.asin, cumath.floor):
        with pytest.raises(TypeError, match="takes bools, integers and floats, not complex64"):
            function(other)
    with pytest.raises(TypeError, match="maximum takes bools"):
        gpuarray.maximum(one, other)


def test_copies_of_freed_memory(engine):
    array = gpuarray.to_gpu(np.arange(4.0))
    array.gpudata.free()
    with pytest.raises(drv.LogicError, match="freed"):
        array.get()
    with pytest.raises(drv.LogicError, match="freed"):
        array.set(np.zeros(4))


def test_a_difference_below_complex64(engine):
    """A float64 and a complex64 are compared as complex128."""
    x = np.array([1 + 1e-12, 1.0])
    one, other = gpuarray.to_gpu(x), gpuarray.to_gpu(np.ones(2, np.complex64))
    np.testing.assert_array_equal((one == other).get(), [0, 1])
    out = gpuarray.empty(2, np.complex128)
    _run_kernel("equal", out, (one, other), None)
    np.testing.assert_array_equal(out.get(), [0, 1])


def test_truth_of_complex_numbers(engine):
    a = np.array([0, 1, 1j, 0, 2], np.complex64)
    array = gpuarray.to_gpu(a)
    assert (bool(array.any()), bool(array.all()), bool(array[1:3].all())) == (True, False, True)
    assert bool((array == gpuarray.to_gpu(a)).all())
    b = np.array([0, 0, 1, 1, 1], np.float32)
    other = gpuarray.to_gpu(b)
    for name in ("logical_and", "logical_or"):
        expected = getattr(np, name)(a, b)
        np.testing.assert_array_equal(getattr(gpuarray, name)(array, other).get(), expected, strict=True)
        out = gpuarray.empty(5, np.bool_)
        _run_kernel(name, out, (array, other), None)
        np.testing.assert_array_equal(out.get(), expected)


@pytest.mark.parametrize("shapes", [((4, 6), ()), ((), (4, 6)), ((4, 1), (1, 6)), ((6,), (4, 6))])
def test_kernels_broadcast(engine, shapes):
    a, b = sample(np.complex64, shapes[0]), sample(np.float32, shapes[1], seed=1)
    out = gpuarray.empty((4, 6), np.complex64)
    _run_kernel("add", out, (gpuarray.to_gpu(a), gpuarray.to_gpu(b)), None)
    np.testing.assert_array_equal(out.get(), a + b)
    with pytest.raises(ValueError, match="do not match"):
        _run_kernel("add", gpuarray.empty(5, np.complex64), (gpuarray.to_gpu(a), gpuarray.to_gpu(b)), None)


def test_kernels_in_place_of_functions(engine):
    """The kernels by which a GPU computes complex numbers give NumPy's values."""
    a, b = sample(np.complex64), sample(np.complex64, seed=1)
    one, other = gpuarray.to_gpu(a), gpuarray.to_gpu(b)
    for name, operands, expected in (
        ("add", (one, other), a + b),
        ("multiply", (one, 2), a * 2),
        ("true_divide", (one, other), a / b),
        ("conjugate", (one,), a.conj()),
        ("sqrt", (one,), np.sqrt(a)),
        ("negative", (one,), -a),
    ):
        out = gpuarray.empty_like(one)
        _run_kernel(name, out, operands, None)
        np.testing.assert_allclose(out.get(), expected, rtol=1e-5)


# ---- Other libraries --------------------------------------------------------------------------------


def test_interfaces(engine):
    """NumPy sees the memory on `cpu`, other libraries see it on `cuda`, and neither sees the other's."""
    values = sample(np.float32)
    array = gpuarray.to_gpu(values)
    if engine == "cpu":
        assert not hasattr(array, "__cuda_array_interface__")
        np.asarray(array)[0, 0] = 77
        assert array.get()[0, 0] == 77
        values[0, 0] = 77
        view = np.asarray(array[::-1, ::2])
        del array
        others = [gpuarray.zeros_like(gpuarray.to_gpu(values)) for _ in range(4)]
        np.testing.assert_array_equal(view, values[::-1, ::2])
        assert not others[0].get().any()
    else:
        with pytest.raises(TypeError, match="copy it to the host by get"):
            np.asarray(array)
        interface = array.__cuda_array_interface__
        assert interface["data"] == (array.ptr, False)
        assert interface["shape"] == values.shape
        assert interface["stream"] is None


class Image(gpuarray.GPUArray):
    """A class of a user's, of which pycudakit's functions take arrays, too."""


@pytest.mark.parametrize("kind", [gpuarray.GPUArray, Image])
@pytest.mark.parametrize("name", ["sort", "sqrt", "frexp", "modf", "flip", "cumsum", "unique", "sum"])
def test_functions_of_pycudakit(engine, name, kind):
    values = sample(np.float32, 1000)
    array = kind(values.shape, values.dtype)
    array.set(values)
    results, wanted = getattr(pk, name)(array), getattr(np, name)(values)
    if not isinstance(wanted, tuple):
        results, wanted = (results,), (wanted,)
    for result, expected in zip(results, wanted, strict=True):
        assert engine == "cpu" or isinstance(result, gpuarray.GPUArray)
        np.testing.assert_allclose(result.get() if engine == "cuda" else result, expected, rtol=1e-6)


def test_arithmetic_of_a_subclass(engine):
    values = sample(np.float32)
    array = Image(values.shape, values.dtype)
    array.set(values)
    np.testing.assert_array_equal((array * 2 + array).get(), values * 2 + values)


def test_allocators(engine):
    taken = []

    def allocator(size):
        taken.append(size)
        return drv.mem_alloc(size)

    array = gpuarray.to_gpu(np.zeros(10, np.float32), allocator)
    result = array + 1
    assert taken == [40, 40]
    assert result.allocator is allocator


def launched(name, out, *operands):
    """Return whether a kernel computes an operation, once it was called often enough to be compiled."""
    return [launch_arithmetic(name, out, operands, None) for _ in range(9)][-1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "true_divide"])
def test_kernels_of_frequent_operations_have_numpys_values(engine, name, dtype):
    random, limits = np.random.default_rng(0), np.finfo(dtype)
    special = [0, -0.0, np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal]
    x = np.concatenate([random.standard_normal(1001), np.repeat(special, 7)]).astype(dtype).reshape(-1, 7)
    y = np.concatenate([random.standard_normal(1001), np.tile(special, 7)]).astype(dtype).reshape(-1, 7)
    out, x_gpu, y_gpu = gpuarray.empty(x.shape, dtype), gpuarray.to_gpu(x), gpuarray.to_gpu(y)
    for operands, on_device in (((x, y), (x_gpu, y_gpu)), ((x, 0.1), (x_gpu, 0.1)), ((3, y), (3, y_gpu))):
        assert launched(name, out, *on_device)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(out.get(), getattr(np, name)(*operands))


def test_operations_that_no_kernel_is_launched_for(engine):
    x = gpuarray.to_gpu(np.ones(100, np.float32))
    out, integers = x.new_like(), x.astype(np.int32)
    assert launched("add", x, x, x)
    for name, target, *operands in (
        ("power", out, x, x),
        ("add", integers, integers, integers),
        ("add", out, x, integers),
        ("add", out, x, 1e300),
        ("add", out, x, np.float64(1)),
        ("add", out, x, np.nan),
        ("add", out, x, x[:1]),
        ("add", out[::2], x[:50], 1),
        ("add", out[:50], x[::2], 1),
        ("add", x[1:], x[:-1], 1),
    ):
        assert not launched(name, target, *operands)
