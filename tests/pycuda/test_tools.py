"""tools and characterize: pools, names of dtypes, parameters, occupancy, memoization."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycudakit.pycuda import _driver, characterize, gpuarray, tools
from pycudakit.pycuda import driver as drv
from pycudakit.pycuda.compyte import dtypes


@given(st.integers(1, 1 << 40))
def test_bins(size):
    pool = tools.DeviceMemoryPool()
    bin = pool.bin_number(size)
    assert pool.alloc_size(bin) >= size
    assert pool.alloc_size(bin) <= size * (1 + 1 / 16) + 1
    assert pool.bin_number(pool.alloc_size(bin)) == bin


def test_device_pool(engine):
    pool = tools.DeviceMemoryPool()
    first = pool.allocate(1000)
    assert len(first) == 1000
    address = int(first)
    assert (pool.active_blocks, pool.held_blocks, pool.active_bytes) == (1, 0, 1000)
    drv.memset_d8(first, 7, 1000)
    assert (drv.from_device(first, 1000, np.uint8) == 7).all()
    first.free()
    with pytest.raises(drv.LogicError, match=r"1000 bytes .* freed already"):
        first.free()
    assert (pool.active_blocks, pool.held_blocks) == (0, 1)
    second = pool.allocate(995)
    assert int(second) == address
    del second
    array = gpuarray.to_gpu(np.arange(10.0), pool.allocate)
    np.testing.assert_array_equal((array + 1).get(), np.arange(1.0, 11))
    del array
    assert pool.active_blocks == 0
    assert pool.managed_bytes >= 1000
    pool.free_held()
    assert (pool.held_blocks, pool.managed_bytes) == (0, 0)
    pool.stop_holding()
    pool.allocate(100).free()
    assert (pool.held_blocks, pool.managed_bytes) == (0, 0)
    with pytest.raises(drv.LogicError, match="0 bytes"):
        pool.allocate(0)


def test_page_locked_pool(engine):
    pool = tools.PageLockedMemoryPool()
    array = pool.allocate((3, 4), np.float32, order="F")
    assert len(array.base) == array.nbytes
    assert array.flags.f_contiguous
    array[...] = 5
    view = array[1:]
    del array
    assert pool.active_blocks == 1
    assert (view == 5).all()
    del view
    assert (pool.active_blocks, pool.held_blocks) == (0, 1)
    pool.stop_holding()
    assert pool.held_blocks == 0


def test_bitlog2():
    assert [tools.bitlog2(value) for value in (1, 2, 3, 17, 1 << 40)] == [0, 1, 1, 4, 40]


@pytest.mark.parametrize(
    ("declared", "kind", "dtype", "name"),
    [
        ("float *x", tools.VectorArg, np.float32, "x"),
        ("const double *restrict y", tools.VectorArg, np.float64, "y"),
        ("unsigned int n", tools.ScalarArg, np.uint32, "n"),
        ("long long int *__restrict__ p", tools.VectorArg, np.int64, "p"),
        ("pycuda::complex<float> *z", tools.VectorArg, np.complex64, "z"),
        ("size_t n", tools.ScalarArg, np.uint64, "n"),
        ("uint8_t b", tools.ScalarArg, np.uint8, "b"),
        ("const float x[]", tools.VectorArg, np.float32, "x"),
        ("int sizes[ 3 ]", tools.VectorArg, np.int32, "sizes"),
    ],
)
def test_parsed(declared, kind, dtype, name):
    argument = tools.parse_c_arg(declared)
    assert (type(argument), argument.dtype, argument.name) == (kind, dtype, name)
    assert tools.parse_c_arg(argument.declarator()).dtype == dtype


@pytest.mark.parametrize(
    ("declared", "message"),
    [("float **x", "at most one"), ("what x", "unknown"), ("float", "not a parameter")],
)
def test_not_parsed(declared, message):
    with pytest.raises(ValueError, match=message):
        tools.parse_c_arg(declared)


def test_names_of_dtypes():
    assert tools.dtype_to_ctype(np.float32) == "float"
    assert tools.dtype_to_ctype(np.complex128) == "pycuda::complex<double>"
    pair = np.dtype([("a", np.int32), ("b", np.float32)])
    with pytest.raises(ValueError, match="register_dtype"):
        tools.dtype_to_ctype(pair)
    tools.register_dtype(pair, "my_pair")
    assert tools.dtype_to_ctype(pair) == "my_pair"
    assert tools.get_or_register_dtype("my_pair") == pair
    with pytest.raises(RuntimeError, match="my_pair is registered as"):
        tools.get_or_register_dtype("my_pair", np.float32)
    with pytest.raises(ValueError, match="no_such is not registered"):
        tools.get_or_register_dtype("no_such")
    assert dtypes.NAME_TO_DTYPE["my_pair"] == pair
    assert dtypes.DTYPE_TO_NAME[pair] == dtypes.dtype_to_ctype(pair) == "my_pair"


def test_names_of_the_driver():
    """Programs import PyCUDA's C++ module to find out whether it is there."""
    for name in _driver.__all__:
        assert getattr(_driver, name) is getattr(drv, name, getattr(tools, name, None))


def test_memoized(engine):
    calls = []

    @tools.context_dependent_memoize
    def double(x, *, plus=0):
        calls.append(x)
        return 2 * x + plus

    assert [double(1), double(1), double(1, plus=1)] == [2, 2, 3]
    assert calls == [1, 1]
    tools.clear_context_caches()
    assert double(1) == 2
    assert calls == [1, 1, 1]


def test_contexts(engine, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE", "0")
    context = tools.make_default_context()
    assert context.get_device() == drv.Device(0)
    context.pop()
    with pytest.warns(DeprecationWarning, match="make_default_context"):
        assert tools.get_default_device(7) == drv.Device(0)
    monkeypatch.setenv("CUDA_DEVICE", "first")
    with pytest.raises(TypeError, match="'first', not a device's number"):
        tools.make_default_context()
    ran = []
    monkeypatch.setenv("CUDA_DEVICE", "0")
    tools.mark_cuda_test(ran.append)(3)
    assert ran == [3]


def test_occupancy(engine):
    data = tools.DeviceData()
    assert data.warp_size == 32
    record = tools.OccupancyRecord(data, 256, registers=32)
    assert record.tb_per_mp == min(limit for limit, _ in record.tb_per_mp_limits)
    assert 0 < record.occupancy <= 1
    with pytest.raises(ValueError, match="too many threads"):
        tools.OccupancyRecord(data, 4096)
    for threads in (0, -1):
        with pytest.raises(ValueError, match=f"too few threads: {threads}; a block has at least one"):
            tools.OccupancyRecord(data, threads)
    assert data.align(100) == 128
    assert data.align_dtype(5, 8) == 16


def test_characterize(engine):
    assert characterize.sizeof("float4") == 16
    assert characterize.sizeof("odd", "struct odd { char a[3]; };") == 3
    assert characterize.platform_bits() == 64
    assert characterize.has_double_support()
    assert characterize.has_stack()
