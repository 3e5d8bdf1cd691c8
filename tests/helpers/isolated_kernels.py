"""Kernels that run in helper processes, and helpers to observe these processes."""

import functools
import os
import time
from pathlib import Path

from pycudakit import InOut, SourceModule
from pycudakit.kernels.running import worker_pool

SOURCE = r"""
#include <stdio.h>

__constant__ int scale = 1;

__global__ void twice(int *a, long long n) {
    long long i = threadIdx.x + (long long)blockIdx.x * blockDim.x;
    if (i < n) a[i] *= 2 * scale;
}
__global__ void copy(const double *from, double *to) { to[threadIdx.x] = from[threadIdx.x]; }
// A stack without an end: the fault that the CPU engine cannot catch, as a signal's handler has no stack.
__device__ int fall(volatile int *a, int depth) {
    volatile int kept[1024];
    kept[depth % 1024] = a[0];
    return depth < 0 ? 0 : fall(a, depth + 1) + kept[0];
}
__global__ void crash(int *a) { a[0] = 1; a[0] = fall(a, 0); }
__global__ void endless(volatile int *a) { while (a[1] == 0) a[0] += 1; }
__global__ void speak(int n) { printf("thread %d of %d\n", threadIdx.x, n); }
"""


@functools.cache
def module():
    return SourceModule(SOURCE)


def function(name):
    return module().get_function(name)


def doubled(x, **keywords):
    out = x.copy()
    shape = {"block": (128, 1, 1), "grid": ((x.size + 127) // 128 or 1, 1)}
    function("twice")(InOut(out), x.size, **shape, **keywords)
    return out


def processes():
    """Return the helper processes of this process."""
    return [helper._process.pid for helper in worker_pool._workers._all]


END = f"""
import pycudakit as pk
from pycudakit.kernels.running import worker_pool
source = {SOURCE!r}
module = pk.SourceModule(source)
a = np.arange(5, dtype=np.int32)
def twice():
    module.get_function("twice")(pk.InOut(a), 5, block=(5, 1, 1), isolate=True)
    return [helper._process.pid for helper in worker_pool._workers._all]
"""


def runs(process):
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except (OSError, IndexError):
        return False


def end(*pids):
    """Return True if all these processes end by themselves within a time that suits a busy machine."""
    deadline = time.monotonic() + 60
    while any(map(runs, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
