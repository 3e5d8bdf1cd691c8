"""Functions of `pk.wrap` against ctypes with ndpointer by hand: calls, a sum, loading, and the package.

On the engine cuda the library made by hand is built by nvcc from the same file; on cpu, where that needs a
GPU, the sum is compared with NumPy's, between copies of the arrays as the file makes them.
"""

import ctypes
import functools
import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from harness import Harness

import pycudakit as pk
from pycudakit._cli.timing import Times
from pycudakit.kernels.wrapping import cuda_build, package

NOTHING = """
extern "C" int nothing(const float *a, const float *b, float *out, int n) { return n; }
"""
SUM = """
extern "C" {
#include <cuda_runtime.h>
__global__ void add_arrays(const float* a, const float* b, float* out, int n) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < n) out[idx] = a[idx] + b[idx];
}
void launch_sum_kernel(const float* a, const float* b, float* out, int n) {
    float *d_a, *d_b, *d_out; size_t size = n * sizeof(float);
    cudaMalloc(&d_a, size); cudaMalloc(&d_b, size); cudaMalloc(&d_out, size);
    cudaMemcpy(d_a, a, size, cudaMemcpyHostToDevice); cudaMemcpy(d_b, b, size, cudaMemcpyHostToDevice);
    int threads = 256; int blocks = (n + threads - 1) / threads;
    add_arrays<<<blocks, threads>>>(d_a, d_b, d_out, n);
    cudaMemcpy(out, d_out, size, cudaMemcpyDeviceToHost);
    cudaFree(d_a); cudaFree(d_b); cudaFree(d_out);
}
}
"""
LOAD = """
import sys, time
import pycudakit as pk
pk.kernels.Library
with pk.engine(sys.argv[2]):
    begin = time.perf_counter()
    pk.wrap(sys.argv[1])
    print(time.perf_counter() - begin)
"""


def by_hand(path, name, result, engine):
    """Return a function of a file, built and declared as tutorials do."""
    library = path.with_suffix(".so")
    if engine == "cuda":
        command = [cuda_build.nvcc(), "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC"]
    else:
        command = [shutil.which("c++"), "-O3", "-x", "c++", "-shared", "-fPIC"]
    subprocess.run([*command, path, "-o", library], check=True)
    function = ctypes.CDLL(str(library))[name]
    array = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
    function.argtypes = (array, array, array, ctypes.c_int)
    function.restype = result
    return function


def copied_and_added(a, b, out, _size):
    """Compute the sum in NumPy, with the copies of the file."""
    out[...] = np.add(a.copy(), b.copy())


def seconds(function, *arguments):
    """Return the time of one call."""
    begin = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begin


def limit(harness, work, times, most, right=True):
    """Print a row of times that have a limit of their own, in seconds."""
    bound = Times((most,) * len(times))
    harness.row(work, 1, harness.engine, Times(tuple(times)), f"{most * 1e3:g} ms", bound, 1.0, right)


def calls(harness, folder):
    """Time a function that does nothing: the overhead of a call."""
    work = "a call"
    if not harness.wanted(work):
        return
    path = folder / "nothing.cu"
    path.write_text(NOTHING)
    a, b, out = np.ones((3, 1024), np.float32)
    ours = functools.partial(pk.wrap(path).nothing, a, b, out, 1024)
    hand = functools.partial(by_hand(path, "nothing", ctypes.c_int, harness.engine), a, b, out, 1024)
    times = harness.time(ours, {"ctypes": hand})
    right = ours() == hand() == 1024
    harness.row(work, 1024, harness.engine, times["pycudakit"], "ctypes", times["ctypes"], 1 / 1.2, right)


def sums(harness, folder):
    """Time the function of a tutorial."""
    path = folder / "sum.cu"
    path.write_text(SUM)
    wrapped = pk.wrap(path).launch_sum_kernel
    size = harness.size(64_000_000)
    a, b, out, out_by_hand = np.random.default_rng(1).random((4, size), np.float32)
    if harness.engine == "cuda":
        hand = by_hand(path, "launch_sum_kernel", None, harness.engine)
        name, least = "ctypes", 0.97  # no slower, but for noise
    else:
        hand, name, least = copied_and_added, "NumPy, with copies", None

    def ours():
        wrapped(a, b, out, size)
        return out

    def theirs():
        hand(a, b, out_by_hand, size)
        return out_by_hand

    harness.compare("a sum", size, ours, {name: theirs}, at_least={name: least} if least else None)


def loading(harness, folder):
    """Time `pk.wrap` of a library that exists: in the process, and on disk."""
    path = folder / "sum.cu"
    path.write_text(SUM)
    pk.wrap(path)
    if harness.wanted("pk.wrap again"):
        harness.step("pk.wrap again")
        limit(harness, "pk.wrap again", [seconds(pk.wrap, path) for _ in range(harness.rounds)], 1e-3)
    if harness.wanted("pk.wrap from disk"):
        harness.step("pk.wrap from disk")
        command = [sys.executable, "-c", LOAD, path, harness.engine]
        times = [float(subprocess.check_output(command)) for _ in range(harness.rounds)]
        limit(harness, "pk.wrap from disk", times, 20e-3)


def packages(harness, folder):
    """Time the package of a new file, in this process, and as a command."""
    numbers = itertools.count(time.time_ns())

    def new_file():
        path = folder / "new.cu"
        path.write_text(f"// {next(numbers)}\n{SUM}")
        return path

    def command():
        return [
            sys.executable,
            "-m",
            "pycudakit",
            "wrap",
            new_file(),
            "--name",
            "new",
            "--to",
            folder / "new",
            "--force",
        ]

    if harness.wanted("a package"):
        harness.step("a package")
        times = [seconds(package.contents, new_file(), "new") for _ in range(harness.rounds)]
        limit(harness, "a package", times, 0.5)
    if harness.wanted("pycudakit wrap"):
        harness.step("pycudakit wrap")
        run = functools.partial(subprocess.run, stdout=subprocess.DEVNULL, check=True)
        ours = Times(tuple(seconds(run, command()) for _ in range(harness.rounds)))
        start = [sys.executable, "-c", "import pycudakit, pycudakit.__main__"]
        theirs = Times(tuple(seconds(run, start) for _ in range(harness.rounds)))
        harness.row("pycudakit wrap", 1, harness.engine, ours, "import of pycudakit", theirs)


def main():
    harness = Harness(__doc__.splitlines()[0], 6)
    with pk.engine(harness.engine), tempfile.TemporaryDirectory() as folder:
        calls(harness, Path(folder))
        sums(harness, Path(folder))
        loading(harness, Path(folder))
        packages(harness, Path(folder))
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
