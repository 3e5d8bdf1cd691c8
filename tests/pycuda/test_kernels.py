"""Kernels by PyCUDA's names: arguments, launches, prepared launches, variables and printed text."""

import gc
import platform
import sys
import threading
import weakref

import numpy as np
import pytest
from helpers.sanitizers import SANITIZED
from hypothesis import given
from hypothesis import strategies as st

from pycudakit import errors
from pycudakit.pycuda import _function, gpuarray
from pycudakit.pycuda import driver as drv
from pycudakit.pycuda.compiler import DynamicSourceModule, SourceModule

SOURCE = """
#include <stdio.h>
struct Pair { char tag; double value; };
__constant__ float offsets[4] = {1, 2, 3, 4};
__device__ int counter;
__global__ void scale(float *x, const float *by, float factor, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) x[i] = x[i] * by[i] * factor + offsets[0];
}
__global__ void keep(double *to, bool b, char c, short s, int i, long long l, unsigned char uc,
                     unsigned short us, unsigned u, size_t z, float f, double d) {
    double values[] = {(double)b, (double)c, (double)s, (double)i, (double)l, (double)uc,
                       (double)us, (double)u, (double)z, (double)f, d};
    for (int k = 0; k < 11; ++k) to[k] = values[k];
}
__global__ void of_pair(double *to, Pair pair, float3 v) {
    to[0] = pair.tag; to[1] = pair.value; to[2] = v.x; to[3] = v.y; to[4] = v.z;
}
__global__ void rotate(int *x) {
    extern __shared__ int copy[];
    copy[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = copy[(threadIdx.x + 1) % blockDim.x];
}
__global__ void count() { atomicAdd(&counter, 1); }
__global__ void where(int *x) {
    x[blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)] = threadIdx.y;
}
__global__ void say(int n) { printf("number %d\\n", n); }
__global__ void nothing() {}
"""
ONE = {"block": (1, 1, 1)}


@pytest.fixture
def module(engine):
    return SourceModule(SOURCE)


@pytest.fixture
def x():
    return np.arange(100, dtype=np.float32)


def keep(module, *values):
    to = drv.mem_alloc(88)
    module.get_function("keep")(to, *values, **ONE)
    return drv.from_device(to, 11, np.float64)


# ---- Launches ---------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_in_out_and_inout(module, x):
    y = x.copy()
    scale = module.get_function("scale")
    launch = {"block": (32, 1, 1), "grid": (4, 1)}
    assert scale(drv.InOut(y), drv.In(x), np.float32(2), np.int32(100), **launch) is None
    assert (y == x * x * 2 + 1).all()
    result = np.full_like(x, 7)
    scale(drv.Out(result), drv.In(x), np.float32(2), np.int32(100), **launch)
    assert (result == 1).all()  # the device's memory begins as zeros


def test_device_memory_and_addresses(module, x):
    scale, memory, by = module.get_function("scale"), drv.to_device(x), drv.to_device(np.ones_like(x))
    scale(memory, by, np.float32(1), np.int32(100), block=(100, 1, 1))
    scale(int(memory) + 200, np.intp(by), np.float32(1), np.int32(50), block=(50, 1, 1), grid=(1, 1, 1))
    scale(np.uint64(memory), by, 1, 1, block=[1, 1, 1], grid=1)
    expected = x + 1
    expected[50:] += 1
    expected[0] += 1
    assert (drv.from_device_like(memory, x) == expected).all()


def test_repeated_launches_are_the_same(module, x):
    """The second launch with the same types takes a shorter way."""
    scale, by = module.get_function("scale"), drv.to_device(np.ones_like(x))
    memory = drv.to_device(np.zeros_like(x))
    for _ in range(5):
        scale(memory, by, np.float32(1), np.int32(100), block=(100, 1, 1))
    for kind in (int, np.int64, np.uint8):
        scale(memory, by, 1.0, kind(100), block=(100, 1, 1))
    assert (drv.from_device_like(memory, x) == 8).all()


def test_arrays_on_the_device_take_the_shorter_way(module, x, monkeypatch):
    from pycudakit.pycuda import gpuarray

    scale, by, array = module.get_function("scale"), gpuarray.to_gpu(np.ones_like(x)), gpuarray.to_gpu(x)
    typed = np.float32(1), np.int32(100)
    scale(array, by, *typed, block=(100, 1, 1))
    scale.prepared_call((1, 1), (100, 1, 1), array.gpudata, by, *typed)
    monkeypatch.setattr(type(scale), "_run_checked", None)
    for _ in range(3):
        scale(array, by, *typed, block=(100, 1, 1))
        scale.prepared_call((1, 1), (100, 1, 1), array.gpudata, by, *typed)
    assert (array.get() == x + 8).all()


def test_prepared_calls(module, x):
    scale, by = module.get_function("scale"), drv.to_device(np.ones_like(x))
    assert scale.prepare("PPfi") is scale
    memory, stream = drv.to_device(np.zeros_like(x)), drv.Stream()
    for _ in range(3):
        scale.prepared_call((1, 1), (100, 1, 1), memory, by, 1, 100)
        scale.prepared_call(
            (1, 1), (100, 1, 1), memory, int(by), np.float32(1), np.int32(100), shared_size=20
        )
    drv.Context.synchronize()
    scale.prepared_async_call((1, 1), (100, 1, 1), stream, memory, by, 1, 100)
    stream.synchronize()
    seconds = scale.prepared_timed_call((1, 1), (100, 1, 1), memory, by, 1, 100)
    assert 0 <= seconds() < 60
    assert (drv.from_device_like(memory, x) == 8).all()
    scale.prepared_call((1, 1), (100, 1, 1), drv.InOut(x), by, 1, 100)
    assert (x == np.arange(100) + 1).all()


def test_times(module):
    rotate, memory = module.get_function("rotate"), drv.to_device(np.arange(64, dtype=np.int32))
    seconds = rotate(memory, block=(64, 1, 1), shared=256, time_kernel=True)
    assert 0 <= seconds < 60
    assert (drv.from_device(memory, 64, np.int32) == np.roll(np.arange(64), -1)).all()


@pytest.mark.parametrize("flags", [0, 1])
def test_streams_and_events(module, x, flags):
    stream, other = drv.Stream(flags), drv.Stream(flags)
    scale, by, memory = module.get_function("scale"), drv.to_device(x), drv.mem_alloc(400)
    begin, end = drv.Event(), drv.Event(drv.event_flags.BLOCKING_SYNC)
    begin.record(stream)
    scale(memory, by, np.float32(1), np.int32(100), block=(100, 1, 1), stream=stream)
    end.record(stream)
    other.wait_for_event(end)
    scale(memory, by, np.float32(1), np.int32(100), block=(100, 1, 1), stream=other)
    other.synchronize()
    assert end.query()
    assert stream.is_done()
    assert 0 <= end.time_since(begin) < 60_000
    assert end.time_since(begin) == begin.time_till(end)
    assert (drv.from_device_like(memory, x) == x + 1).all()
    y = np.zeros_like(x)
    scale(drv.Out(y), drv.In(x), np.float32(1), np.int32(100), block=(100, 1, 1), stream=stream)
    assert (y == 1).all()


def test_grids_of_programs_that_divide(module):
    where, memory = module.get_function("where"), drv.mem_alloc(12)
    drv.memset_d32(memory, 7, 3)
    where(memory, block=(1, 1, 1), grid=(np.ceil(1.5), 1.0))
    assert drv.from_device(memory, 3, np.int32).tolist() == [0, 0, 7]
    with pytest.warns(RuntimeWarning, match=r"grid is \(3.5, 1\), and becomes \(3, 1\): use //"):
        where(memory, block=(1, 1, 1), grid=(3.5, 1))
    assert not drv.from_device(memory, 3, np.int32).any()
    with pytest.raises(drv.LogicError, match="grid is"):
        where(memory, block=(1, 1, 1), grid=(float("nan"), 1))


def test_grids_of_three_dimensions(module):
    memory = drv.mem_alloc(4 * 24)
    module.get_function("where")(memory, block=(1, 3, 1), grid=(2, 3, 4))
    assert set(drv.from_device(memory, 24, np.int32)) <= {0, 1, 2}
    module.get_function("nothing")(block=(1, 1, 1))


# ---- Arguments --------------------------------------------------------------------------------------


def test_values_of_every_type(module):
    values = (True, -5, -300, -70_000, -(1 << 40), 200, 60_000, 1 << 31, 1 << 50, 1.5, 2.25)
    assert keep(module, *values).tolist() == list(map(float, values))
    kinds = "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"
    exact = [np.dtype(kind).type(value) for kind, value in zip(kinds, values, strict=True)]
    for _ in range(2):
        assert keep(module, *exact).tolist() == list(map(float, values))
    wide = [*map(np.int64, values[:8]), np.uint64(1 << 50), np.float64(0.1), np.float32(2.25)]
    assert keep(module, *wide).tolist()[9] == float(np.float32(0.1))  # rounded


RANGES = [(-128, 127), (-(2**15), 2**15 - 1), (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)]
RANGES += [(0, 255), (0, 65_535), (0, 2**32 - 1), (0, 2**64 - 1)]


@given(which=st.integers(0, 7), number=st.integers(-(2**64), 2**65), is_numpys=st.booleans())
def test_an_integer_that_fits_is_converted_and_another_refused(engine, which, number, is_numpys):
    module = SourceModule(SOURCE)
    low, high = RANGES[which]
    values = [True, *[0] * 8, 0.0, 0.0]
    values[which + 1] = number
    if is_numpys and -(2**63) <= number < 2**63:
        values[which + 1] = np.int64(number)
    if low <= number <= high:
        assert keep(module, *values)[which + 1] == float(number)
    else:
        with pytest.raises(OverflowError, match=r"keep: parameter '\w+' .* does not fit"):
            keep(module, *values)


def test_structs_and_vectors(module):
    of_pair, to = module.get_function("of_pair"), drv.mem_alloc(40)
    pair = np.array((3, 0.5), np.dtype([("tag", "i1"), ("value", "f8")], align=True))
    vector = np.array([1, 2, 3], np.float32)
    for first in (pair, pair[()], pair.tobytes(), np.frombuffer(pair.tobytes(), np.uint8)):
        for second in (vector, vector.tobytes()):
            of_pair(to, first, second, **ONE)
            assert drv.from_device(to, 5, np.float64).tolist() == [3, 0.5, 1, 2, 3]
    with pytest.raises(TypeError, match=r"of_pair: parameter 'pair' .*16 bytes"):
        of_pair(to, b"short", vector, **ONE)


def test_managed_arrays(module):
    a = drv.managed_zeros(64, np.int32)
    a[:] = np.arange(64)
    module.get_function("rotate")(a, block=(64, 1, 1), shared=256)
    drv.Context.synchronize()
    assert (a == np.roll(np.arange(64), -1)).all()
    part = a[32:]
    module.get_function("rotate")(part, block=(2, 1, 1), shared=256)
    drv.Context.synchronize()
    assert a[32] == 34


def test_a_null_pointer(module):
    module.get_function("scale")(None, None, 1, 0, **ONE)
    module.get_function("scale")(0, 0, 1, 0, **ONE)


# ---- Variables and printed text ---------------------------------------------------------------------


def test_an_empty_array_is_a_null_pointer(engine):
    source = "__global__ void is_null(const float *x, int *out) { *out = x == nullptr; }"
    kernel, out = SourceModule(source).get_function("is_null"), np.zeros(1, np.int32)
    kernel(gpuarray.empty(0, np.float32), drv.Out(out), block=(1, 1, 1))
    assert out[0] == 1


def test_variables(module, x):
    address, size = module.get_global("offsets")
    assert size == 16
    drv.memcpy_htod(address, np.array([10, 0, 0, 0], np.float32))
    memory = drv.mem_alloc(400)
    module.get_function("scale")(memory, drv.to_device(x), 1, 100, block=(100, 1, 1))
    assert (drv.from_device_like(memory, x) == 10).all()
    for _ in range(3):
        module.get_function("count")(block=(5, 1, 1))
    assert drv.from_device(module.get_global("counter")[0], (), np.int32) == 15
    other = SourceModule(SOURCE)
    assert drv.from_device(other.get_global("counter")[0], (), np.int32) == 0
    assert drv.from_device(other.get_global("offsets")[0], 4, np.float32).tolist() == [1, 2, 3, 4]


def test_several_variables_of_a_declaration_after_a_namespace(engine):
    source = """
    namespace constants { enum { COUNT = 3 }; }
    struct Pair { int a, b; };
    __device__ int first[constants::COUNT] = {1, 2, 3}, second[] = {4, 5};
    __device__ Pair pair;
    __global__ void f() { second[0] += first[2]; pair.b = 9; }"""
    module = SourceModule(source)
    module.get_function("f")(block=(1, 1, 1))
    found = {name: module.get_global(name) for name in ("first", "second", "pair")}
    assert {name: size for name, (_, size) in found.items()} == {"first": 12, "second": 8, "pair": 8}
    assert drv.from_device(found["second"][0], 2, np.int32).tolist() == [7, 5]
    assert drv.from_device(found["pair"][0], 2, np.int32).tolist() == [0, 9]


def test_printed_text(module, capsys):
    say = module.get_function("say")
    say(np.int32(7), **ONE)
    say(8, **ONE)
    drv.Context.synchronize()
    assert capsys.readouterr().out == "number 7\nnumber 8\n"
    say(9, **ONE)
    drv.memcpy_dtoh(np.zeros(1), drv.mem_alloc(8))
    assert capsys.readouterr().out == "number 9\n"


@pytest.mark.parametrize("included", ["<say.h>", '"say.h"', "<outer.h>"])
def test_text_that_a_header_prints(engine, tmp_path, capsys, included):
    (tmp_path / "say.h").write_text('__device__ void say(int i) { printf("said %d\\n", i); }\n')
    (tmp_path / "outer.h").write_text("#include <say.h>\n")
    source = f"#include {included}\n__global__ void speak() {{ say(3); }}"
    SourceModule(source, include_dirs=[str(tmp_path)], no_extern_c=True).get_function("speak")(
        block=(1, 1, 1)
    )
    drv.Context.synchronize()
    assert capsys.readouterr().out == "said 3\n"


def test_templates_and_c_plus_plus_names(engine):
    module = SourceModule(
        """
template <class T> __device__ T twice(T x) { return x + x; }
extern "C" { __global__ void plain(int *x) { *x = twice(*x); } }
__global__ void mangled(int *x) { *x = twice(*x) + 1; }
""",
        no_extern_c=True,
    )
    memory = drv.to_device(np.array([5], np.int32))
    for name in ("plain", "mangled", "_Z7mangledPi"):
        module.get_function(name)(memory, **ONE)
    assert drv.from_device(memory, 1, np.int32)[0] == 43


def test_instances_of_templates(engine):
    """An explicit instantiation and a specialization are found by their symbols, as in a cubin of nvcc."""
    module = SourceModule(
        """
template <class T, int N> __global__ void scale(T *x, T a) { x[threadIdx.x] = x[threadIdx.x] * a + N; }
template __global__ void scale<float, 3>(float *, float);
template __global__ void scale<double, 4>(double *, double);
template <typename T> __global__ void name(T *x) { *x = 1; }
template <> __global__ void name<unsigned int>(unsigned int *x) { *x = 2; }
""",
        no_extern_c=True,
    )
    for symbol, dtype, number in (
        ("_Z5scaleIfLi3EEvPT_S0_", np.float32, 3),
        ("_Z5scaleIdLi4EEvPT_S0_", np.float64, 4),
    ):
        x = np.arange(4, dtype=dtype)
        module.get_function(symbol)(drv.InOut(x), 2, block=(4, 1, 1))
        np.testing.assert_array_equal(x, np.arange(4) * 2 + number)
    x = np.zeros(1, np.uint32)
    module.get_function("_Z4nameIjEvPT_")(drv.InOut(x), **ONE)
    assert x[0] == 2
    with pytest.raises(drv.LogicError, match=r"no kernel '_Z4nameIfEvPT_'; its kernels are: scale<float, 3>"):
        module.get_function("_Z4nameIfEvPT_")


def test_options(engine):
    module = SourceModule("__global__ void f(int *x) { *x = N; }", options=["-DN=17"], keep=True, nvcc="nvcc")
    memory = drv.mem_alloc(4)
    module.get_function("f")(memory, **ONE)
    assert drv.from_device(memory, 1, np.int32)[0] == 17
    assert DynamicSourceModule("__global__ void f() {}").get_function("f").name == "f"


def test_headers_of_the_user(engine, tmp_path):
    (tmp_path / "mine.h").write_text("#define VALUE 23\n")
    module = SourceModule(
        '#include "mine.h"\n__global__ void f(int *x) { *x = VALUE; }', include_dirs=[str(tmp_path)]
    )
    memory = drv.mem_alloc(4)
    module.get_function("f")(memory, **ONE)
    assert drv.from_device(memory, 1, np.int32)[0] == 23


def test_attributes(module, engine):
    scale = module.get_function("scale")
    for name in ("num_regs", "local_size_bytes", "shared_size_bytes", "const_size_bytes"):
        assert getattr(scale, name) >= 0
    assert scale.max_threads_per_block == scale.get_attribute(drv.function_attribute.MAX_THREADS_PER_BLOCK)
    assert scale.max_threads_per_block >= 32
    if engine == "cuda":
        assert scale.num_regs > 0
    scale.set_attribute(drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024)
    scale.set_cache_config(drv.func_cache.PREFER_L1)
    with pytest.raises(AttributeError, match="no_such_thing"):
        scale.no_such_thing  # noqa: B018
    assert repr(scale) == "<Function scale(float *x, const float *by, float factor, int n)>"
    assert module.get_function("scale") is scale


def test_more_shared_memory_needs_an_attribute(engine):
    source = """
    __global__ void ends(int n, int *out) {
        extern __shared__ int memory[];
        memory[n - 1] = n;
        *out = memory[n - 1];
    }"""
    ends, out, limit = SourceModule(source).get_function("ends"), drv.mem_alloc(4), 48 << 10
    ends(limit // 4, out, shared=limit, **ONE)
    assert drv.from_device(out, (), np.int32) == limit // 4
    for size in (limit + 4, 96 << 10):
        with pytest.raises(drv.LogicError, match=rf"ends: shared is {size}, .* {limit} bytes"):
            ends(size // 4, out, shared=size, **ONE)
    ends.set_attribute(drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10)
    ends((64 << 10) // 4, out, shared=64 << 10, **ONE)
    assert drv.from_device(out, (), np.int32) == (64 << 10) // 4
    with pytest.raises(drv.LogicError, match=rf"{65 << 10}, .* {64 << 10} bytes"):
        ends.prepared_call((1, 1), (1, 1, 1), 1, out, shared_size=65 << 10)


# ---- Bad input --------------------------------------------------------------------------------------


def bad_calls():
    memory = lambda: drv.mem_alloc(400)  # noqa: E731
    launch = {"block": (1, 1, 1)}
    return [
        (lambda f: f(memory(), memory(), 1, **launch), TypeError, "takes 4 arguments, and 3 were given"),
        (
            lambda f: f(memory(), np.zeros(1), 1, 1, **launch),
            TypeError,
            r"'by' .*In\(array\).*InOut\(array\)",
        ),
        (lambda f: f(memory(), memory(), 1, 1 << 31, **launch), OverflowError, "'n' .int.: 2147483648"),
        (lambda f: f(memory(), memory(), 1e39, 1, **launch), OverflowError, "'factor' .float.: 1e"),
        (lambda f: f(memory(), memory(), 1, 1.5, **launch), TypeError, "'n' .int. takes a number"),
        (lambda f: f(memory(), memory(), 1, np.float32(2), **launch), TypeError, "'n' .int."),
        (
            lambda f: f(memory(), memory(), memory(), 1, **launch),
            TypeError,
            "'factor' .* no DeviceAllocation",
        ),
        (lambda f: f(1.5, memory(), 1, 1, **launch), TypeError, "'x' .* takes no float"),
        (lambda f: f("text", memory(), 1, 1, **launch), TypeError, "'x' .* not a str"),
        (lambda f: f(-8, memory(), 1, 1, **launch), OverflowError, "'x' .* -8 is no address"),
        (lambda f: f(memory(), memory(), "text", 1, **launch), TypeError, "'factor'"),
        (lambda f: f(memory(), memory(), 1, 1), ValueError, "give block"),
        (lambda f: f(memory(), memory(), 1, 1, block=(0, 1, 1)), drv.LogicError, "from 1 to 1024, not 0"),
        (lambda f: f(memory(), memory(), 1, 1, block=(2000, 1, 1)), drv.LogicError, "1024, not 2000"),
        (lambda f: f(memory(), memory(), 1, 1, block=(1, 1, 1), grid=(1, 1 << 20)), drv.LogicError, "65535"),
        (lambda f: f(memory(), memory(), 1, 1, block=(1.0, 1, 1)), TypeError, "give integers"),
        (lambda f: f(memory(), memory(), 1, 1, block=(1, 1, 1, 1)), drv.LogicError, "up to three"),
        (lambda f: f(memory(), memory(), 1, 1, shared=1 << 20, **launch), drv.LogicError, f"{1 << 20}"),
        (lambda f: f(memory(), memory(), 1, 1, shared=-1, **launch), drv.LogicError, "shared=-1"),
        (lambda f: f(memory(), memory(), 1, 1, shared="x", **launch), TypeError, "shared is 'x'"),
        (lambda f: f(memory(), memory(), 1, 1, stream=3, **launch), TypeError, "stream is a int"),
        (lambda f: f(memory(), memory(), 1, 1, texrefs=[1], **launch), drv.LogicError, "texture"),
        (lambda f: f.prepared_call((1, 1), (1, 1, 1), memory(), 1, 1), TypeError, "4 arguments, and 3"),
        (lambda f: f.param_set_texref(None), drv.LogicError, "texture"),
    ]


@pytest.mark.parametrize("index", range(24))
def test_bad_calls(module, index):
    call, error, message = bad_calls()[index]
    with pytest.raises(error, match=message):
        call(module.get_function("scale"))


def test_addresses_that_no_allocation_has(module, engine):
    if engine != "cpu":
        pytest.skip("on a GPU the driver's word counts")
    scale, x = module.get_function("scale"), np.zeros(4, np.float32)
    with pytest.raises(drv.LogicError, match=r"kernel 'scale': parameter 'x' is 0x"):
        scale(x.ctypes.data, drv.mem_alloc(16), 1, 4, **ONE)
    assert not x.any()


def test_unknown_names(module):
    with pytest.raises(drv.LogicError, match=r"no kernel 'absent'; its kernels are: scale, keep"):
        module.get_function("absent")
    with pytest.raises(drv.LogicError, match="'absent'"):
        module.get_global("absent")
    for call in (module.get_texref, module.get_surfref):
        with pytest.raises(drv.LogicError, match="texture"):
            call("absent")


def test_events_without_a_time(module):
    begin, end = drv.Event(), drv.Event()
    end.record()
    end.synchronize()
    with pytest.raises(drv.LogicError, match="not recorded"):
        end.time_since(begin)
    with pytest.raises(TypeError, match="int"):
        end.time_since(5)
    with pytest.raises(TypeError, match="Event"):
        drv.Stream().wait_for_event(5)
    with pytest.raises(drv.LogicError, match="flags are 2"):
        drv.Stream(2)


# ---- Faults -----------------------------------------------------------------------------------------

FAULTS = """
__global__ void far(int *x, long long index) { x[index + threadIdx.x] = 1; }
__global__ void divided(int *x, int by) { x[threadIdx.x] = (x[threadIdx.x] + 7) / by; }
"""


@pytest.mark.skipif(sys.platform != "linux" or SANITIZED, reason="kernels are not interrupted by signals")
def test_faults_on_the_cpu(engine):
    """A wild address and a division by zero fail the launch; memory and kernels stay usable."""
    if engine != "cpu":
        pytest.skip("test_processes.py has the faults of a GPU")
    module = SourceModule(FAULTS)
    far, divided = module.get_function("far"), module.get_function("divided")
    x = gpuarray.to_gpu(np.arange(32, dtype=np.int32))
    for index in (1 << 36, -(1 << 34), 1 << 58):
        with pytest.raises(drv.LaunchError, match=r"kernel 'far': .*accesses .*memory at .*SIG") as caught:
            far(x, index, block=(32, 1, 1))
        assert isinstance(caught.value, errors.DeviceError)
        np.testing.assert_array_equal(x.get(), np.arange(32))
    with pytest.raises(drv.LaunchError, match="kernel 'far'"):
        far.prepared_call((20, 1), (32, 1, 1), x.gpudata, 1 << 36)
    if platform.machine() == "x86_64":
        with pytest.raises(drv.LaunchError, match=r"kernel 'divided': .*divides an integer by zero"):
            divided(x, 0, block=(32, 1, 1))
    divided(x, 7, block=(32, 1, 1))
    np.testing.assert_array_equal(x.get(), (np.arange(32) + 7) // 7)


def test_a_thread_that_ends_leaves_its_watcher_to_the_launches_that_call_it(module):
    """The next thread may have the number of one that has ended."""
    scale, x, watchers = module.get_function("scale"), drv.mem_alloc(4), []

    def launch():
        watchers.append(weakref.ref(_function._local.watcher))
        scale(x, x, 1.0, 1, block=(1, 1, 1))

    for _ in range(2):
        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
        gc.collect()
    assert None not in [watcher() for watcher in watchers]
    scale.forget()
    gc.collect()
    assert [watcher() for watcher in watchers] == [None, None]
