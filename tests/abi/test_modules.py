"""pk_module_*: modules as instances of their own, launches on raw pointers, and refused calls."""

import ctypes
import functools

import numpy as np
import pytest

from pycudakit import errors
from pycudakit._native import abi, abi_objects, loader
from pycudakit.kernels.compiling import cache
from pycudakit.kernels.compiling.source import Signature, Source

TEXT = """
__constant__ float step[4] = {1, 2, 3, 4};
__device__ int counter;
struct Pair { char tag; double value; };
__global__ void add(float *x, float y, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) x[i] += y + step[0];
}
__global__ void sum(double *result, Pair pair, short a, unsigned char b, long long c) {
    *result = pair.tag + pair.value + a + b + c;
}
__global__ void count(const int *) { atomicAdd(&counter, 1); }
__global__ void say(int n) { printf("number %d\\n", n); }
__global__ void shift(int *x, int n) {
    extern __shared__ int copy[];
    copy[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = copy[(threadIdx.x + 1) % n];
}
"""
KERNELS = {"add": 3, "sum": 5, "count": 1, "say": 1, "shift": 2}


@functools.cache
def image(engine):
    names = tuple(Signature(name, (), 1) for name in KERNELS)
    arch = cache.arch(0) if engine == "cuda" else "sm_90"
    source = Source(TEXT, "objects.cu", (), (), no_extern_c=False, debug=False, arch=arch, kernels=names)
    return cache.get(source, engine)


def text(name):
    return np.frombuffer(name.encode(), np.uint8)


class Loaded:
    """A module of the source above."""

    def __init__(self, engine):
        self.library = loader.library(engine)
        self.binary = image(engine)
        data = np.frombuffer(self.binary.binary.data, np.uint8)
        table = np.zeros(1, abi.IMAGE)
        table["address"], table["bytes"] = data.ctypes.data, len(data)
        table["key"] = np.frombuffer(self.binary.binary.key, np.uint64)
        handle = ctypes.c_uint64()
        self.library.pk_module_load(table, 0, ctypes.byref(handle))
        self.handle = handle.value
        self.limits = np.zeros(1, abi.LIMITS)

    def function(self, name, parameters=()):
        table = np.zeros(len(parameters), abi_objects.PARAMETER)
        for row, (label, itemsize) in zip(table, parameters, strict=True):
            row["label"], row["itemsize"] = label.encode(), itemsize
        handle, symbol = ctypes.c_uint64(), text(self.binary.symbols.get(name, name))
        self.library.pk_module_function(
            self.handle, symbol, len(symbol), table, len(table), self.limits, ctypes.byref(handle)
        )
        return handle.value

    def variable(self, name):
        address, size, encoded = ctypes.c_uint64(), ctypes.c_int64(), text(name)
        self.library.pk_module_variable(
            self.handle, encoded, len(encoded), ctypes.byref(address), ctypes.byref(size)
        )
        return address.value, size.value

    def launch(self, function, *values, grid=(1, 1, 1), block=(1, 1, 1), shared=0, stream=0):
        table = np.zeros(1, abi_objects.LAUNCH)
        table["function"], table["stream"], table["shared"] = function, stream, shared
        table["grid"], table["block"] = grid, block
        packed = b"".join(
            raw + bytes(-len(raw) % 16) for raw in (np.asarray(value).tobytes() for value in values)
        )
        parameters = np.frombuffer(packed, np.uint8)
        self.library.pk_module_launch(table, parameters, len(parameters))

    def printed(self, capacity=1000):
        written, length = np.full(1000, ord("~"), np.uint8), ctypes.c_int64()
        self.library.pk_module_printed(self.handle, written, capacity, ctypes.byref(length))
        return written[: min(length.value, capacity)].tobytes().decode(), length.value

    def unload(self):
        self.library.pk_module_unload(self.handle)


class Memory:
    """Device memory with the bytes of an array."""

    def __init__(self, library, array):
        address = ctypes.c_uint64()
        library.pk_device_memory_allocate(0, array.nbytes, 1, ctypes.byref(address))
        self.library, self.address, self.array = library, np.uint64(address.value), array
        self.copy(abi_objects.COPY_TO_DEVICE)

    def copy(self, flags, address=None):
        table = np.zeros(1, abi_objects.COPY)
        host, device = self.array.ctypes.data, self.address if address is None else address
        goes_up = flags == abi_objects.COPY_TO_DEVICE
        table["destination"], table["source"] = (device, host) if goes_up else (host, device)
        table["width"], table["rows"], table["layers"], table["flags"] = self.array.nbytes, 1, 1, flags
        self.library.pk_device_memory_copy(table, 1, 0, 0, 1)
        return self.array

    def get(self, address=None):
        return self.copy(abi_objects.COPY_FROM_DEVICE, address)

    def free(self):
        self.library.pk_device_memory_free(int(self.address))


@pytest.fixture
def module(engine):
    loaded = Loaded(engine)
    yield loaded
    loaded.unload()


@pytest.mark.smoke
def test_launches_on_raw_pointers(module):
    x = np.arange(100, dtype=np.float32)
    memory = Memory(module.library, x.copy())
    add = module.function("add", [("x", 4), ("y", 0), ("n", 0)])
    for _ in range(3):
        module.launch(add, memory.address, np.float32(2), np.int32(100), grid=(4, 1, 1), block=(32, 1, 1))
    assert (memory.get() == x + 9).all()
    # an address inside of the memory
    module.launch(add, memory.address + np.uint64(200), np.float32(1), np.int32(1))
    assert memory.get()[50] == x[50] + 11
    memory.free()


def test_parameters_of_every_size(module):
    pair = np.zeros(1, np.dtype([("tag", "i1"), ("value", "f8")], align=True))
    pair["tag"], pair["value"] = 7, 0.5
    result = Memory(module.library, np.zeros(1))
    values = (pair, np.int16(-3), np.uint8(200), np.int64(1 << 40))
    module.launch(module.function("sum"), result.address, *values)
    assert result.get()[0] == 7 + 0.5 - 3 + 200 + (1 << 40)
    result.free()


def test_shared_memory_and_barriers(module):
    x = Memory(module.library, np.arange(64, dtype=np.int32))
    module.launch(module.function("shift"), x.address, np.int32(64), block=(64, 1, 1), shared=256)
    assert (x.get() == np.roll(np.arange(64), -1)).all()
    x.free()


def test_variables_belong_to_one_instance(engine):
    first, second = Loaded(engine), Loaded(engine)
    (address, size), (other, _) = first.variable("step"), second.variable("step")
    assert size == 16
    assert address != other
    value = np.array([10, 20, 30, 40], np.float32)
    memory = Memory(first.library, value)
    memory.copy(abi_objects.COPY_TO_DEVICE, address)
    results = []
    for each in (first, second):
        x = Memory(first.library, np.zeros(1, np.float32))
        each.launch(each.function("add"), x.address, np.float32(0), np.int32(1))
        results.append(x.get()[0])
        x.free()
    assert results == [10, 1]
    assert (memory.get(address) == [10, 20, 30, 40]).all()
    memory.free()
    first.unload()
    second.unload()


def test_a_variable_keeps_its_value_between_launches(module):
    count = module.function("count")
    for _ in range(3):
        module.launch(count, np.uint64(0), block=(10, 1, 1))
    counter = Memory(module.library, np.zeros(1, np.int32))
    assert counter.get(module.variable("counter")[0])[0] == 30
    counter.free()


def test_printed_text(module):
    say = module.function("say")
    for number in (1, 22):
        module.launch(say, np.int32(number))
    assert module.printed() == ("number 1\nnumber 22\n", 19)
    assert module.printed() == ("", 0)
    module.launch(say, np.int32(3))
    assert module.printed(capacity=3) == ("num", 9)


def test_limits_of_a_kernel(module):
    module.function("sum")
    assert module.limits["parameters"][0] == 5
    assert module.limits["parameter_bytes"][0][:5].tolist() == [8, 16, 2, 1, 8]
    assert module.limits["threads"][0] >= 32


# ---- Refused calls -----------------------------------------------------------------------------------


def test_unknown_names(module):
    with pytest.raises(errors.InvalidArgument, match="no kernel 'nothing'"):
        module.function("nothing")
    with pytest.raises(errors.InvalidArgument, match="'nothing'"):
        module.variable("nothing")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"block": (0, 1, 1)}, "block .0, 1, 1.: x is from 1"),
        ({"block": (2048, 1, 1)}, "1024, not 2048"),
        ({"block": (1024, 2, 1)}, "2048 threads"),
        ({"grid": (0, 1, 1)}, "grid .0, 1, 1.: x is from 1"),
        ({"grid": (1, 70_000, 1)}, "70000"),
        ({"shared": -1}, "shared=-1"),
        ({"shared": 1 << 30}, f"shared={1 << 30}"),
    ],
)
def test_shapes_that_do_not_fit(module, keywords, message):
    x = Memory(module.library, np.zeros(4, np.float32))
    with pytest.raises(errors.InvalidArgument, match=f"kernel 'add': .*{message}"):
        module.launch(module.function("add"), x.address, np.float32(1), np.int32(4), **keywords)
    assert not x.get().any()
    x.free()


def test_a_wrong_number_of_parameters(module):
    add = module.function("add")
    for values in ((), (np.uint64(0),), (np.uint64(0), np.float32(0), np.int32(0), np.int32(0))):
        with pytest.raises(errors.InvalidArgument, match="its 3 parameters take 48 bytes"):
            module.launch(add, *values)


def test_pointers_to_no_memory_of_the_device(module, engine):
    if engine != "cpu":
        pytest.skip("on a GPU the driver's word counts")
    add = module.function("add", [("x", 4), ("y", 0), ("n", 0)])
    x, freed = np.zeros(4, np.float32), Memory(module.library, np.zeros(4, np.float32))
    freed.free()
    for address in (x.ctypes.data, 0xDEAD0000, freed.address):
        with pytest.raises(errors.InvalidArgument, match=f"kernel 'add': parameter 'x' is {int(address):#x}"):
            module.launch(add, np.uint64(address), np.float32(1), np.int32(4))
    assert not x.any()
    module.launch(add, np.uint64(0), np.float32(1), np.int32(0))


def test_stale_handles(engine):
    module = Loaded(engine)
    add = module.function("add")
    module.unload()
    for call in (
        module.unload,
        lambda: module.function("add"),
        lambda: module.variable("step"),
        module.printed,
        lambda: module.launch(add, np.uint64(0), np.float32(0), np.int32(0)),
        lambda: module.library.pk_function_attribute(add, 0, ctypes.byref(ctypes.c_int64())),
        lambda: module.library.pk_function_set_attribute(add, 8, 0),
    ):
        with pytest.raises(errors.InvalidArgument, match=r"no (module|function) "):
            call()


def test_images_that_do_not_load(engine):
    library = loader.library(engine)
    handle, table = ctypes.c_uint64(7), np.zeros(1, abi.IMAGE)
    with pytest.raises(errors.InvalidArgument, match="no bytes"):
        library.pk_module_load(table, 0, ctypes.byref(handle))
    data = text("/nowhere/at/all.so")
    table["address"], table["bytes"] = data.ctypes.data, len(data)
    with pytest.raises(errors.Error):
        library.pk_module_load(table, 0, ctypes.byref(handle))
    assert handle.value == 7


def test_attributes_of_a_kernel(module):
    add, value = module.function("add"), ctypes.c_int64()
    module.library.pk_function_attribute(add, 0, ctypes.byref(value))
    assert value.value == module.limits["threads"][0]
    module.library.pk_function_set_attribute(add, 8, 1024)
    for attribute in (-1, 99):
        with pytest.raises(errors.InvalidArgument, match=f"attribute {attribute}"):
            module.library.pk_function_attribute(add, attribute, ctypes.byref(value))
    with pytest.raises(errors.InvalidArgument, match="attribute 4"):
        module.library.pk_function_set_attribute(add, 4, 1)
