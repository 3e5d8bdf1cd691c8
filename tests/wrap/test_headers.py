"""Headers of the user that have kernels, launches and shared memory."""

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors
from pycudakit.__main__ import main

# Reverses each block; `launch.cuh` includes the kernel by a path relative to itself.
FILES = {
    "reverse.cu": """\
#include <cstdio>
#include "detail/launch.cuh"
#include <signs.h>
extern "C" void reversed(const int *x, int *y, int n) { reverse(x, y, n); }
""",
    "detail/launch.cuh": """\
#pragma once
#include "kernel.cuh"
#include "plain.h"
static void reverse(const int *x, int *y, int n) {
    int *d_x, *d_y;
    cudaMalloc(&d_x, n * sizeof(int));
    cudaMalloc(&d_y, n * sizeof(int));
    cudaMemcpy(d_x, x, n * sizeof(int), cudaMemcpyHostToDevice);
    reverse_blocks<<<n / BLOCK,
                     BLOCK, BLOCK * sizeof(int)>>>(d_x, d_y);
    cudaMemcpy(y, d_y, n * sizeof(int), cudaMemcpyDeviceToHost);
    cudaFree(d_x);
    cudaFree(d_y);
}
""",
    "detail/kernel.cuh": """\
#ifndef KERNEL_CUH
#define KERNEL_CUH
#include "../include/signs.h"
#include "plain.h"
__global__ void reverse_blocks(const int *x, int *y) {
    extern __shared__ int part[];
    part[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = SIGN part[blockDim.x - 1 - threadIdx.x];
}
#endif
""",
    "detail/plain.h": "#pragma once\n#define BLOCK 8\nstatic int plain() { return 1; }\n",
    "include/signs.h": "#pragma once\n#define SIGN +\n",
}


def written(folder, files=FILES):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / next(iter(files))


def reversed_blocks(x):
    return x.reshape(-1, 8)[:, ::-1].ravel()


def test_kernels_and_launches_in_headers(engine, tmp_path):
    path = written(tmp_path)
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    pk.wrap(path, include_dirs=[tmp_path / "include"]).reversed(x, y, 64)
    np.testing.assert_array_equal(y, reversed_blocks(x))
    # A header that changes, of which there is a translated copy on the CPU, and one that has none.
    kernel = tmp_path / "detail" / "kernel.cuh"
    kernel.write_text(kernel.read_text().replace("SIGN part", "SIGN 2 * part"))
    pk.wrap(path, include_dirs=[tmp_path / "include"]).reversed(x, y, 64)
    np.testing.assert_array_equal(y, 2 * reversed_blocks(x))
    (tmp_path / "include" / "signs.h").write_text("#pragma once\n#define SIGN -\n")
    pk.wrap(path, include_dirs=[tmp_path / "include"]).reversed(x, y, 64)
    np.testing.assert_array_equal(y, -2 * reversed_blocks(x))


def test_lines_of_messages_of_headers(engine, tmp_path):
    files = FILES | {
        "detail/launch.cuh": FILES["detail/launch.cuh"].replace("cudaFree(d_y);", "undeclared();")
    }
    path = written(tmp_path, files)
    with pytest.raises(errors.CompileError, match=r"detail/launch\.cuh[:(]13\b.*undeclared"):
        pk.wrap(path, include_dirs=[tmp_path / "include"])


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ("#define GO k<<<1, 1>>>()\n", r"k\.cuh:2: a launch in a #define is not translated for the CPU"),
        ("inline void go(void (*g)()) { g<<<1, 1>>>(); }\n", r"k\.cuh:2: 'g' is launched, and is no kernel"),
    ],
)
def test_launches_in_headers_that_are_refused(tmp_path, launch, message):
    path = written(
        tmp_path,
        {
            "x.cu": '#include "k.cuh"\nextern "C" void f() {}\n',
            "k.cuh": f"__global__ void k() {{}}\n{launch}",
        },
    )
    with pk.engine("cpu"), pytest.raises(errors.CompileError, match=message):
        pk.wrap(path)


def test_a_header_that_a_macro_includes(tmp_path):
    """Its kernels may reach barriers that are not seen."""
    files = {
        "x.cu": """\
#define SYNCHRONIZED "barrier.h"
#include SYNCHRONIZED
__global__ void k(int *x) {
    x[threadIdx.x] = threadIdx.x;
    BARRIER;
    if (threadIdx.x == 0) x[0] = x[63];
}
extern "C" void run(int *x) {
    int *d_x;
    cudaMalloc(&d_x, 64 * sizeof(int));
    k<<<1, 64>>>(d_x);
    cudaMemcpy(x, d_x, 64 * sizeof(int), cudaMemcpyDeviceToHost);
    cudaFree(d_x);
}
""",
        "barrier.h": "#define BARRIER __syncthreads()\n",
    }
    x = np.zeros(64, np.int32)
    with pk.engine("cpu"):
        pk.wrap(written(tmp_path, files)).run(x)
    assert x[0] == 63


def test_headers_that_include_each_other(engine, tmp_path):
    files = {
        "x.cu": '#include "a.cuh"\nextern "C" int f() { return a() + b(); }\n',
        "a.cuh": '#pragma once\n#include "b.cuh"\n__global__ void k() {}\n'
        "inline int a() { k<<<1, 1>>>(); return 1; }\n",
        "b.cuh": '#pragma once\n#include "a.cuh"\ninline int b() { return 2; }\n',
    }
    assert pk.wrap(written(tmp_path, files)).f() == 3


def test_the_headers_of_a_toolkit(tmp_path):
    """They are for nvcc: the CPU engine has its own."""
    files = {
        "x.cu": '#include <cuda_runtime.h>\n#include <answer.h>\nextern "C" int f() { return ANSWER; }\n',
        "cuda/crt/host_config.h": "",
        "cuda/cuda_runtime.h": "#error of another compiler\n",
        "cuda/answer.h": "#define ANSWER 42\n",
    }
    with pk.engine("cpu"):
        assert pk.wrap(written(tmp_path, files), include_dirs=[tmp_path / "cuda"]).f() == 42


def test_headers_of_a_package(tmp_path, capsys):
    files = dict(FILES, **{"reverse.cu": FILES["reverse.cu"].replace("<signs.h>", '"include/signs.h"')})
    path = written(tmp_path / "source", files)
    to = tmp_path / "package"
    assert main(["wrap", str(path), "--name", "reversing", "--to", str(to)]) == 0
    for name, text in files.items():
        assert (to / "csrc" / name).read_text() == text
    path.write_text('#include "../common.h"\nextern "C" void f() {}\n')
    (tmp_path / "common.h").write_bytes(b"// \xe9\n")
    capsys.readouterr()
    assert main(["wrap", str(path), "--name", "reversing", "--to", str(to), "--force"]) == 1
    assert "includes '../common.h', which is outside of its folder" in capsys.readouterr().err
    path.write_text('#include "common.h"\nextern "C" void f() {}\n')
    (tmp_path / "common.h").rename(path.parent / "common.h")
    assert main(["wrap", str(path), "--name", "reversing", "--to", str(to), "--force"]) == 0
    assert (to / "csrc" / "common.h").read_bytes() == b"// \xe9\n"
