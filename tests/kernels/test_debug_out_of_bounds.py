"""With `debug=True` an invalid pointer gives an error, and does not end the process."""

import functools
import sys

import numpy as np
import pytest
from helpers.sanitizers import SANITIZED

import pycudakit as pk
from pycudakit import errors

SOURCE = r"""
struct node { int value; node *next; };
__global__ void get(int *a, int *b, long long i) { b[threadIdx.x] = a[i]; }
__global__ void put(int *a, long long i) { a[i] = 1; }
__global__ void wild(long long *a) { *(int *)a[0] = 1; }
__global__ void null(int *a, int *b, int n) { b[0] = (n ? a : nullptr)[2]; }
__global__ void chase(int *b) { node n = {1, nullptr}; b[0] = n.next->value; }
__device__ int table[1000];
__global__ void own(int *b) {
    int mine[64];
    for (int i = 0; i < 64; ++i) mine[i] = i;
    int *found = (int *)malloc(40000);
    for (int i = 0; i < 10000; ++i) found[i] = i;
    table[999] = 5;
    b[0] = mine[b[0] & 63] + found[9999] + table[999];
    free(found);
}
"""
pytestmark = pytest.mark.cpu
linux = pytest.mark.skipif(
    sys.platform != "linux" or SANITIZED,
    reason="the system does not tell where memory is, or a sanitizer has some mapped everywhere",
)


@functools.cache
def module():
    return pk.SourceModule(SOURCE, debug=True)


def error_of(name, *arguments, block=1):
    with pk.engine("cpu"), pytest.raises(errors.DeviceError, match=f"kernel '{name}'.*thread") as caught:
        module().get_function(name)(*arguments, block=block)
    return str(caught.value)


@linux
@pytest.mark.parametrize("index", [2**40, -(2**40), 2**45, 2**60, -(2**61) + 7])
def test_far_beyond(index):
    a, b = np.zeros(8, np.int32), np.zeros(8, np.int32)
    read = error_of("get", pk.In(a), pk.Out(b), np.int64(index), block=2)
    assert "thread (0, 0, 0) reads 4 bytes at 0x" in read
    assert "which is not mapped memory; the nearest is '" in read
    written = error_of("put", pk.InOut(a), np.int64(index), block=2)
    assert "thread (0, 0, 0) writes 4 bytes at 0x" in written
    assert f"the nearest is 'a', of which that would be element {index}" in written
    assert not a.any()


@linux
@pytest.mark.parametrize("address", [0x123456789A0, 0x7F00DEAD0000BEEF, 1 << 16])
def test_a_wild_pointer(address):
    message = error_of("wild", pk.InOut(np.array([address])))
    assert f"writes 4 bytes at {address:#x}, which is not mapped memory; the nearest is 'a'" in message


def test_null_pointers():
    a, b = np.zeros(8, np.int32), np.zeros(8, np.int32)
    for message in (
        error_of("get", None, pk.Out(b), np.int64(3)),
        error_of("null", pk.In(a), pk.Out(b), np.int32(0)),
        error_of("chase", pk.Out(b)),
    ):
        assert "thread (0, 0, 0) reads 4 bytes at a null pointer" in message


def test_memory_of_a_threads_own():
    b = np.full(1, 7, np.int32)
    with pk.engine("cpu"):
        module().get_function("own")(pk.InOut(b), block=1)
    assert b[0] == 7 + 9999 + 5


@linux
def test_a_goto_loop(monkeypatch):
    """A goto loop has no instrumented iteration, but ends by the time limit of its block."""
    monkeypatch.setenv("PYCUDAKIT_BLOCK_LIMIT", "0.3")
    source = "__global__ void around(volatile int *a) { again: a[0] = 1; goto again; }"
    with pk.engine("cpu"):
        kernel = pk.SourceModule(source, debug=True).get_function("around")
        with pytest.raises(errors.DeviceError, match=r"around.*still running: a block may take 300 ms"):
            kernel(pk.InOut(np.zeros(1, np.int32)), block=1)
