"""Faults of kernels in this process, on the CPU engine: the call fails, and the process goes on."""

import platform
import signal
import sys

import numpy as np
import pytest
from helpers.processes import python
from helpers.sanitizers import SANITIZED
from helpers.threads import run_in_threads

import pycudakit as pk
from pycudakit import errors

pytestmark = [
    pytest.mark.cpu,
    pytest.mark.skipif(sys.platform != "linux" or SANITIZED, reason="kernels are not interrupted by signals"),
]
DIVIDES = pytest.mark.skipif(platform.machine() != "x86_64", reason="a division is no fault")

SOURCE = """
__global__ void twice(int *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
__global__ void reads(int *x, const int *from) { x[threadIdx.x] = from[threadIdx.x == 3 ? offset : 0]; }
__global__ void writes(long long address, int first) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == first) *(volatile int *)address = 1;
}
__global__ void waits(long long address, int first) {
    __shared__ int all[64];
    all[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (blockIdx.x == 2 && all[63 - threadIdx.x] == first) *(volatile int *)address = 1;
    __syncthreads();
}
__global__ void fills(long long address) { memset((void *)address, 0, 1 << 20); }
__global__ void calls(long long address) { ((void (*)(int))address)(3); }
__global__ void divides(int *x, const int *by) { x[threadIdx.x] /= by[threadIdx.x]; }
"""
WILD = {
    8: "a null pointer",
    1 << 46: "unmapped memory at 0x400000000000",
    1 << 60: "an invalid or misaligned address|a null pointer",
    -8: "unmapped memory at 0xfffffffffffffff8",
}


@pytest.fixture(scope="module")
def module():
    with pk.engine("cpu"):
        return pk.SourceModule(SOURCE.replace("offset", "1LL << 44"))


def is_right(module):
    x = np.arange(10_000, dtype=np.int32)
    module.get_function("twice")(pk.InOut(x), x.size, block=256, grid=40)
    return bool((x == 2 * np.arange(10_000)).all())


@pytest.mark.parametrize("address", WILD)
@pytest.mark.parametrize("name", ["writes", "waits"])
def test_wild_addresses(module, name, address):
    """A thread of some block, in a kernel with barriers and one without."""
    with pk.engine("cpu"):
        for _ in range(3):  # a kernel that was fast runs as a loop from the second call on
            module.get_function(name)(address, -1, block=64, grid=20)
            with pytest.raises(errors.DeviceError, match=f"kernel '{name}': .*({WILD[address]}).*debug=True"):
                module.get_function(name)(address, 37, block=64, grid=20)
            assert is_right(module)


def test_where_it_was(module):
    """The error names block and thread, unless the kernel runs as a loop over them."""
    source = pk.SourceModule("__global__ void f(int *x) { if (threadIdx.y == 2) x[1LL << 44] = 1; }")
    with (
        pk.engine("cpu"),
        pytest.raises(errors.DeviceError, match=r"in block \(0, 0, 0\), thread \(0, 2, 0\) accesses"),
    ):
        source.get_function("f")(pk.InOut(np.zeros(1, np.int32)), block=(4, 4))


def test_a_wild_index(module):
    x, values = np.zeros(32, np.int32), np.ones(1, np.int32)
    with pk.engine("cpu"), pytest.raises(errors.DeviceError, match="kernel 'reads'"):
        module.get_function("reads")(pk.InOut(x), pk.In(values), block=32)


@pytest.mark.parametrize("name", ["fills", "calls"])
def test_functions_that_are_called(module, name):
    """The fault is in a function of the C library, or at an address that has no code."""
    with pk.engine("cpu"), pytest.raises(errors.DeviceError, match=f"kernel '{name}': .*SIGSEGV"):
        module.get_function(name)(1 << 46, block=1)
    assert is_right(module)


@DIVIDES
@pytest.mark.parametrize(
    ("value", "by", "message"),
    [(7, 0, "divides an integer by zero"), (-(2**31), -1, "divides the least integer by -1")],
)
def test_divisions(module, value, by, message):
    x, divisors = np.full(32, value, np.int32), np.full(32, 1, np.int32)
    divisors[5] = by
    with pk.engine("cpu"):
        with pytest.raises(errors.DeviceError, match=f"kernel 'divides': .*{message}"):
            module.get_function("divides")(pk.InOut(x), pk.In(divisors), block=32)
        assert is_right(module)


def test_many_faults_on_threads(module):
    """Faults on several threads at once, beside kernels without: none disturbs another."""

    right = []

    def work(number):
        with pk.engine("cpu"):
            for _ in range(50):
                if number % 2:
                    right.append(is_right(module))
                    continue
                with pytest.raises(errors.DeviceError, match="kernel 'waits'"):
                    module.get_function("waits")(1 << 46, number, block=64, grid=20)
                right.append(True)

    run_in_threads(work, range(4))
    assert right == [True] * 200


START = """
import ctypes, signal
import pycudakit as pk
pk.set_engine("cpu")
source = "__global__ void f(long long address) { *(volatile int *)address = 1; }"
f = pk.SourceModule(source).get_function("f")
def fails():
    try:
        f(1 << 46, block=1)
    except pk.errors.DeviceError:
        return True
"""
OVERFLOWS = """
faulthandler.enable()
source = "__device__ int f(volatile int *x, int n) { return n < 0 ? 0 : f(x, n + 1) + x[0]; }"
source += "__global__ void deep(int *x) { x[0] = f(x, 0); }"
deep = pk.SourceModule(source).get_function("deep")
for _ in range(3):
    try:
        deep(pk.InOut(np.zeros(1, np.int32)), block=4)
    except pk.errors.DeviceError as error:
        print(error)
    assert fails()
"""
TOO_DEEP = "kernel 'deep': in block (0, 0, 0), thread (0, 0, 0) needs more stack than a thread has, 704 KiB\n"
HANDLES = """
signal.signal(signal.SIGFPE, lambda *_: print("handled"))
assert fails()
os.kill(os.getpid(), signal.SIGFPE)
"""
FORKS = """
assert fails()
child = os.fork()
if not child:
    os._exit(0 if fails() else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize(
    ("code", "ends", "stdout", "stderr"),
    [
        ("assert fails(); ctypes.string_at(8)", signal.SIGSEGV, "", ""),
        ("faulthandler.enable(); fails(); ctypes.string_at(8)", signal.SIGSEGV, "", "Segmentation fault"),
        ("assert fails(); os.kill(os.getpid(), signal.SIGSEGV)", signal.SIGSEGV, "", ""),
        (HANDLES, 0, "handled\n", ""),
        (OVERFLOWS, 0, 3 * TOO_DEEP, ""),
        (FORKS, 0, "", ""),
    ],
)
def test_other_faults(code, ends, stdout, stderr):
    """Faults that are no kernel's end the process as before, and handlers of the program are called."""
    done = python(START + code, check=False)
    assert done.returncode == -ends, done.stderr
    assert done.stdout == stdout
    assert stderr in done.stderr
