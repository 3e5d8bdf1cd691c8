"""Kernels with barriers that the CPU engine runs as loops over threads, with the answers of fibers."""

import os
import re
import signal
import threading

import numpy as np
import pytest
from helpers.user_kernels import RNG

import pycudakit as pk
from pycudakit import In, InOut, Out, SourceModule
from pycudakit.kernels.compiling import cuda_to_cpp, thread_loops
from pycudakit.kernels.compiling.source import Source
from pycudakit.kernels.reading import signatures

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _on_cpu():
    with pk.engine("cpu"):
        yield


def split(text, options=()):
    """Return the names of the kernels that become loops, and the reasons for the others."""
    kernels = signatures.parse(text, "kernel.cu", options, lambda _: None).plain
    source = Source(text, "kernel.cu", tuple(options), (), False, False, "", kernels)
    _, names, reasons = thread_loops.split(source, cuda_to_cpp.kernels_with_barriers(source))
    return set(names), {name: (reason.line, reason.text) for name, reason in reasons.items()}


def both_ways(text, arguments, monkeypatch, **options):
    """Run the kernel `k` as loops and on fibers; return both results."""
    assert split(text)[0] == {"k"}
    results = []
    for fibers in ("0", "1"):
        monkeypatch.setenv("PYCUDAKIT_FIBERS", fibers)
        bound = [InOut(each.copy()) if isinstance(each, np.ndarray) else each for each in arguments]
        SourceModule(text).get_function("k")(*bound, **options)
        results.append([each.array for each in bound if isinstance(each, InOut)])
    return results


KERNELS = {
    "a uniform loop": """
        __global__ void k(const int *x, int *out, int n) {
            __shared__ int s[128];
            int t = threadIdx.x;
            s[t] = x[blockIdx.x * blockDim.x + t];
            __syncthreads();
            for (int by = blockDim.x / 2; by > 0; by >>= 1) {
                if (t < by) s[t] += s[t + by];
                __syncthreads();
            }
            if (t == 0) out[blockIdx.x] = s[0] + n;
        }""",
    "a local that each thread changes": """
        __global__ void k(const int *x, int *out, int n) {
            __shared__ int s[128];
            const int t = threadIdx.x, width = blockDim.x;
            int sum = 0, i;
            for (i = 0; i < n; i += width) {
                s[t] = x[(i + t) % 256];
                __syncthreads();
                sum += s[width - 1 - t] * (i + 1);
                __syncthreads();
            }
            out[blockIdx.x * width + t] = sum;
        }""",
    "early returns": """
        __global__ void k(const int *x, int *out, int n) {
            __shared__ int s[128];
            const int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= n) return;
            s[threadIdx.x] = x[i];
            __syncthreads();
            if (threadIdx.x & 1) { out[i] = -1; return; }
            out[i] = s[threadIdx.x / 2];
            __syncthreads();
            if (i % 3) return;
            out[i] += s[threadIdx.x / 3];
        }""",
    "a branch, a while and blocks": """
        __global__ void k(const int *x, int *out, int n) {
            __shared__ int s[2][128];
            int t = threadIdx.x, from = 0, left = 5;
            s[0][t] = x[t];
            __syncthreads();
            while (left > 0) {
                s[1 - from][t] = s[from][(t + 1) % blockDim.x] + left;
                __syncthreads();
                from = 1 - from;
                left -= 2;
            }
            if (n > 100 && gridDim.x == 2) {
                s[from][t] *= 2;
                __syncthreads();
            } else if (n < 7) {
                s[from][t] *= 3;
                { __syncthreads(); s[from][t] += 1; }
            }
            __syncthreads();
            out[blockIdx.x * blockDim.x + t] = s[from][blockDim.x - 1 - t];
        }""",
    "pointers, vectors and macros": """
        #define W 4
        #define AT(i) ((i) * W)
        __device__ int twice(int v) { return 2 * v; }
        __global__ void k(const int *x, int *out, int n) {
            extern __shared__ int s[];
            const int t = threadIdx.x;
            const int *mine = x + t;
            int2 pair = make_int2(mine[0], t);
            int *target = out;
            target += blockIdx.x * blockDim.x;
            s[t] = twice(pair.x);
            __syncthreads();
            #pragma unroll
            for (int k = 0; k < W; ++k) pair.y += s[(AT(k) + t) % blockDim.x] - *mine;
            __syncthreads();
            target[t] = pair.x + pair.y;
        }""",
    "loops by the size of the block or the grid": """
        __global__ void k(const int *x, int *out, int n) {
            __shared__ int s[300];
            int t = threadIdx.x, width = blockDim.x, sum = 0, last = -1;
            for (int i = t; i < 300; i += width) s[i] = x[i % 256];
            __syncthreads();
            for (int i = blockIdx.x * width + t; i < n; i += width * gridDim.x) {
                if (s[i % 300] & 1) sum += i; else for (int j = 0; j < 3; ++j) sum -= j;
                last = i;
            }
            for (unsigned long i = t; i < 5; i += blockDim.x) sum ^= (int)i << 20;
            __syncthreads();
            const int step = blockDim.x;  // the index of a thread that has ended would wrap in the last round
            for (int i = 0x7fffffff - 2 * step + t; i < 0x7fffffff - step + 1; i += step) sum += 1 << 10;
            out[blockIdx.x * width + t] = sum + 7 * last;
        }""",
    "atomics": """
        __global__ void k(const int *x, int *out, int n) {
            __shared__ int bins[8];
            if (threadIdx.x < 8) bins[threadIdx.x] = 0;
            __syncthreads();
            for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&bins[x[i % 256] & 7], 1);
            __syncthreads();
            if (threadIdx.x < 8) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
        }""",
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    ("block", "n"), [((128, 1, 1), 256), ((33, 1, 1), 100), ((8, 4, 2), 5), ((1, 1, 1), 3)]
)
def test_loops_and_fibers_agree(name, block, n, monkeypatch):
    x = RNG.integers(-50, 50, 256).astype(np.int32)
    arguments = [x, np.zeros(256, np.int32), np.int32(n)]
    loops, fibers = both_ways(KERNELS[name], arguments, monkeypatch, block=block, grid=(2, 1), shared=512)
    for one, other in zip(loops, fibers, strict=True):
        np.testing.assert_array_equal(one, other)
    assert loops[1].any() or n == 3


@pytest.mark.parametrize("n", [-70_000, -5, 0, 32_767, 32_768, 70_000, 2**31 - 1])
def test_products_of_indices_that_overflow(n, monkeypatch):
    source = """
    __global__ void k(const int *x, int *out, int n, unsigned m) {
        __shared__ int s[64];
        const int t = threadIdx.x, row = blockIdx.x * n + t;
        const long long wide = row * n;
        s[t] = x[(row * n + t) & 255] + (wide < 0 ? 3 : wide % 7);
        __syncthreads();
        out[(unsigned)(blockIdx.x * 64 + t) % 256] = s[63 - t] + (int)(m * threadIdx.x % 11);
    }"""
    x = RNG.integers(-50, 50, 256).astype(np.int32)
    arguments = [x, np.zeros(256, np.int32), np.int32(n), np.uint32(n % 2**32)]
    loops, fibers = both_ways(source, arguments, monkeypatch, block=64, grid=(3, 1))
    np.testing.assert_array_equal(loops[1], fibers[1])


HEAD = "__shared__ int s[64]; const int t = threadIdx.x; int v = x[t];\n"


@pytest.mark.parametrize(
    ("body", "line", "text"),
    [
        ("\nif (t < 7) __syncthreads();", 3, "depends on threadIdx"),
        ("for (int i = 0; i < v; ++i)\n__syncthreads();", 2, r"depends on 'x\[t\]'"),
        ("for (int i = 0; i < n; ++i) { __syncthreads();\nif (v) break; }", 3, "break leaves a loop"),
        (
            "for (int i = 0; i < n; ++i) { __syncthreads(); switch (v) {\ncase 1: continue; } }",
            2,
            "continue leaves",
        ),
        ("for (int i = 0; i < n; ++i) { __syncthreads(); if (v) return; }", 2, "has a return"),
        ("int w = n; if (t) w = 3;\nif (w) __syncthreads();", 2, "depends on w, which threads change"),
        ("do { __syncthreads(); } while (n > 100);", 2, "other than for, while and if"),
        (
            "int a[2] = {v, t};\n__syncthreads(); out[0] = a[1];",
            2,
            "a lives across a barrier, and is an array",
        ),
        ("int &r = v;\n__syncthreads(); out[t] = r;", 2, "r lives across a barrier, and is a reference"),
        ("auto f = [&](int i) { return i; };\n__syncthreads();", 2, "has a lambda|returns a value"),
        ("goto end; end:\n__syncthreads();", 2, "has a goto"),
        ("static int kept = 0;\n__syncthreads();", 2, "has a static variable"),
        ("__syncthreads();\n__syncwarp();", 3, "__syncwarp waits"),
        ("__syncthreads(); out[t] =\n__shfl_sync(~0u, v, 0);", 3, "__shfl_sync waits"),
        ("if (__syncthreads_or(v)) out[0] = 1;", 2, "__syncthreads_or waits"),
        ("HIDDEN;", 2, "HIDDEN waits"),
        ("STORE(v)\n__syncthreads();", 2, "the macro STORE is not an expression"),
        ("__syncthreads(); out[t] = LOCAL;", 2, "the macro LOCAL names a local"),
        ("helper(); __syncthreads();", 2, "helper waits"),
        ("\n#if 1\n__syncthreads();\n#endif", 3, "has a directive"),
        ("if (x[0]) __syncthreads();", 2, "may differ"),
        ("if (n++ > 3) __syncthreads();", 2, "may differ"),
        ("if (total) __syncthreads();", 2, "depends on total"),
    ],
)
def test_kernels_that_stay_on_fibers(body, line, text):
    source = (
        "#define HIDDEN __syncthreads();\n#define STORE(v) out[0] = (v);\n#define LOCAL (v + 1)\n"
        f"__global__ void k(const int *x, int *out, int n) {{ {HEAD}{body}\n}}\n"
        "__device__ void helper() { __syncthreads(); }\n__device__ int total;\n"
    )
    names, reasons = split(source)
    assert not names
    found_line, found = reasons["k"]
    assert re.search(text, found), found
    assert found_line == line + 3


def test_a_source_that_waits_elsewhere_stays_on_fibers():
    kernel = "__global__ void k(int *x) { __syncthreads(); x[threadIdx.x] = 1; }\n"
    assert split(kernel)[0] == {"k"}
    assert "volatile" in split(kernel + "__device__ volatile int flag;")[1]["k"][1]
    assert "headers of its own" in split('#include "mine.h"\n' + kernel)[1]["k"][1]
    assert "an option has a barrier" in split(kernel, ["-DWAIT=__syncthreads()"])[1]["k"][1]
    named = kernel.replace("= 1", "= N")
    assert split("#define N 1\n" + named)[0] == {"k"}
    assert "N is defined" in split(f"#define N 1\n{named}#undef N\n#define N 2\n")[1]["k"][1]
    assert "or several" in split(f"#if N\n{kernel}\n#else\n{kernel}\n#endif")[1]["k"][1]


@pytest.mark.parametrize(("value", "expected"), [("n", 4), ("t", range(1, 9)), ("w", 9)])
def test_loops_that_do_not_compile_leave_the_kernel_on_fibers(value, expected):
    """A function takes a value by reference, which the loops declare const."""
    source = f"""
    __device__ void raise(int &value) {{ value += 1; }}
    __global__ void k(int *x, int n) {{
        int t = threadIdx.x, w = blockDim.x;
        raise({value});
        __syncthreads();
        x[threadIdx.x] = {value};
        if (w > 3) __syncthreads();
        x[threadIdx.x] += t * 0;
    }}"""
    assert split(source)[0] == {"k"}
    x = np.zeros(8, np.int32)
    SourceModule(source).get_function("k")(InOut(x), np.int32(3), block=8)
    np.testing.assert_array_equal(x, expected)


def test_templates():
    source = """
    template <class T, int BLOCK> __global__ void k(const T *x, T *out) {
        __shared__ T s[BLOCK];
        const int t = threadIdx.x;
        T mine = x[t];
        s[t] = mine;
        __syncthreads();
        if (BLOCK >= 32) { if (t < 16) s[t] += s[t + 16]; __syncthreads(); }
        out[t] = mine + s[0];
    }"""
    x = np.arange(32.0)
    for name, dtype, expected in (("double, 32", np.float64, x + 16), ("float, 16", np.float32, x[:16])):
        out = np.zeros(len(expected), dtype)
        function = SourceModule(source, no_extern_c=True).get_function(f"k<{name}>")
        function(In(x.astype(dtype)), Out(out), block=len(expected))
        np.testing.assert_array_equal(out, expected)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_loops_are_interrupted():
    source = """
    __global__ void k(int *x, long long n) {
        for (long long i = 0; i < n; ++i) {
            x[threadIdx.x] += 1;
            __syncthreads();
        }
    }"""
    assert split(source)[0] == {"k"}
    function = SourceModule(source).get_function("k")
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        function(InOut(np.zeros(64, np.int32)), np.int64(2**60), block=64)
    function(x := np.zeros(64, np.int32), np.int64(3), block=64)
    np.testing.assert_array_equal(x, 3)


def test_a_failed_assert_has_its_line():
    source = "\n__global__ void k(int *x) {\n__syncthreads();\nassert(x[threadIdx.x] == 0);\n}"
    with pytest.raises(pk.errors.DeviceError, match=r"failed assert\(x\[threadIdx.x\] == 0\) in line 4"):
        SourceModule(source).get_function("k")(In(np.arange(4, dtype=np.int32)), block=4)


SAXPY = """
__global__ void guarded(float a, const float *x, float *y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void returned(float a, const float *x, float *y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = a * x[i] + y[i];
}
__global__ void shifted(const float *x, float *y) {
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = 2 * s[threadIdx.x];
}
__global__ void exchanged(float *x) {
    x[threadIdx.x] = __shfl_sync(~0u, x[threadIdx.x], 1);
}
__global__ void scattered(const int *at, int *x) { x[at[threadIdx.x]] = at[0]; }
"""


def test_report():
    lines = SourceModule(SAXPY).report().splitlines()
    assert lines[0] == "guarded: a loop over threads; vectorised: the loops over threads"
    assert lines[1] == "returned: a loop over threads; vectorised: the loops over threads"
    assert lines[2].startswith(
        "shifted: loops over threads, from barrier to barrier; vectorised: the loops in line 1"
    )
    reason = "line 18: __shfl_sync waits, and is no __syncthreads()"
    assert lines[3] == f"exchanged: fibers ({reason}); not vectorised"
    assert lines[4] == "scattered: a loop over threads; not vectorised"


def test_report_of_kernels_on_fibers(monkeypatch):
    kernel = "__global__ void k(int *x) { x[0] = 1; __syncthreads(); x[threadIdx.x] = 2; }"
    assert SourceModule(kernel, debug=True).report().startswith("k: fibers (for debug=True)")
    by_reference = (
        "__device__ void raise(int &n) { ++n; }\n__global__ void k(int n) { raise(n); __syncthreads(); }"
    )
    assert SourceModule(by_reference).report().startswith("k: fibers (its loops do not compile)")
    monkeypatch.setenv("PYCUDAKIT_FIBERS", "1")
    assert SourceModule(kernel).report().startswith("k: fibers (for PYCUDAKIT_FIBERS)")


def test_report_of_templates():
    source = "template <class T> __global__ void k(T *x) { x[threadIdx.x] += 1; }"
    module = SourceModule(source, no_extern_c=True)
    assert module.report() == ""
    module.get_function("k<float>")
    assert module.report() == "k<float>: a loop over threads; vectorised: the loops over threads"
