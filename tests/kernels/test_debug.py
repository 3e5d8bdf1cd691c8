"""Kernels on the CPU engine only: debug mode, the host's compiler, and interruption."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from helpers.threads import run_in_threads
from helpers.user_kernels import RNG, run

import pycudakit as pk
from pycudakit import errors
from pycudakit.kernels import In, InOut, Out, SourceModule
from pycudakit.kernels.compiling import cuda_to_cpp, host_compiler
from pycudakit.kernels.compiling.source import Signature, Source

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _on_the_cpu():
    with pk.engine("cpu"):
        yield


def checked(source, name, *arguments, block=(32, 1, 1), **keywords):
    SourceModule(source, debug=True).get_function(name)(*arguments, block=block, **keywords)


# ---- Accesses ----

COPY = r"""
struct Pair { const float *from; float *to; };
__device__ float get(const float *x, int i) { return x[i]; }
__global__ void copy(const float *source, float *target, int from, int to) {
    const float *moved = source + from;
    target[threadIdx.x + to] = get(moved, threadIdx.x);
}
__global__ void together(float *sum, int at) { atomicAdd(&sum[at], 1.0f); }
__global__ void shared(float *out, int at) {
    __shared__ int tile[4][8], plain;
    extern __shared__ float own[];
    plain = 0;
    tile[0][threadIdx.x] = 1;
    __syncthreads();
    own[threadIdx.x] = tile[0][0];
    __syncthreads();
    if (at < 100) tile[3][threadIdx.x + at] = 3;
    else own[threadIdx.x + at - 100] = 5;
    out[threadIdx.x] = plain;
}
__global__ void wide(const char *x, double *out) { out[0] = *(const double *)(x + 4); }
"""


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        (
            "copy",
            (0, 1),
            r"block \(1, 0, 0\), thread \(3, 3, 0\) writes 4 bytes at 'target\[32\]', which has 32 e",
        ),
        ("copy", (-1, 0), r"block \(0, 0, 0\), thread \(0, 0, 0\) reads 4 bytes at 'source\[-1\]'"),
        (
            "copy",
            (2**31 - 40, 0),
            r"reads 4 bytes at 'source\[2147483608\]', which has 32 elements of 4 bytes",
        ),
        ("copy", (-(2**31), 0), r"reads 4 bytes at 'source\[-2147483648\]'"),
    ],
)
def test_an_access_outside(name, arguments, told):
    source = COPY.replace("threadIdx.x", "(threadIdx.x + 4 * threadIdx.y + 16 * blockIdx.x)")
    x, y = np.ones(32, np.float32), np.ones(32, np.float32)
    function = SourceModule(source, debug=True).get_function(name)
    if arguments == (0, 1):
        source_of_33 = In(np.ones(33, np.float32))
        with pytest.raises(errors.DeviceError, match=rf"kernel 'copy': in {told}"):
            function(source_of_33, Out(y), *arguments, block=(4, 4, 1), grid=(2, 1))
    else:
        with pytest.raises(errors.DeviceError, match=told):
            function(In(x), Out(y), *arguments, block=(4, 4, 1), grid=(2, 1))
    assert np.all(y == 1)
    function(In(x * 3), Out(y), 0, 0, block=(4, 4, 1), grid=(2, 1))
    assert np.all(y == 3)


def test_atomics_and_null_pointers():
    x = np.zeros(3, np.float32)
    with pytest.raises(errors.DeviceError, match=r"at 'sum\[3\]', which has 3 elements of 4 bytes"):
        checked(COPY, "together", InOut(x), 3, block=(1, 1, 1))
    with pytest.raises(
        errors.DeviceError, match=r"kernel 'together'.*thread \(0, 0, 0\).* at a null pointer"
    ):
        checked(COPY, "together", None, 0, block=(1, 1, 1))
    assert not x.any()


def test_shared_memory_is_checked():
    out = np.zeros(8, np.float32)
    run_shared = SourceModule(COPY, debug=True).get_function("shared")
    run_shared(Out(out), 0, block=(8, 1, 1), shared=32)
    for at, told in (
        (1, r"thread \(7, 0, 0\) writes 4 bytes at 'tile\[32\]', which has 32 elements"),
        (101, r"writes 4 bytes at 'the dynamic shared memory\[32\]', which has 32 elements of 1 bytes"),
    ):
        with pytest.raises(errors.DeviceError, match=told):
            run_shared(Out(out), at, block=(8, 1, 1), shared=32)


def test_an_address_that_is_not_aligned():
    x, out = np.zeros(64, np.int8), np.zeros(1)
    with pytest.raises(errors.DeviceError, match="reads 8 bytes of 'x' at byte 4, which is not a multiple"):
        checked(COPY, "wide", In(x), Out(out), block=(1, 1, 1))


# ---- Barriers and time ----

WAITING = r"""
__global__ void divergent(int n) {
    if (threadIdx.x < n) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}
__global__ void returned(int n) {
    if (threadIdx.x >= n) return;
    __syncthreads();
}
__global__ void lanes(int n) {
    if (threadIdx.x < n) __shfl_sync(0xffffffffu, n, 0);
}
__global__ void mixed(int n) {
    if (threadIdx.x < n) __syncthreads();
    else __syncwarp();
}
__global__ void endless(int *go) {
    while (*go) {}
}
__global__ void rounds(int *go) {
    for (;;) __syncthreads();
}
__global__ void long_ones(int *x) {
    volatile int rounds = 0;
    for (int i = 0; i < 5000000 * x[0]; ++i) rounds = rounds + i;
}
__global__ void claims(int n) { assert(threadIdx.x < n && "few"); }
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "divergent",
            r"thread \(0, 0, 0\) waits at the barrier in line 4; thread \(8, 0, 0\) waits .* line 6",
        ),
        ("returned", r"thread \(0, 0, 0\) waits at the barrier in line 11; thread \(8, 0, 0\) has returned"),
        ("lanes", r"kernel 'lanes': in block \(0, 0, 0\).*has returned"),
        (
            "mixed",
            r"waits at the barrier in line 17; thread \(8, 0, 0\) waits for lanes of its warp in line 18",
        ),
        ("claims", r"thread \(8, 0, 0\) failed assert\(threadIdx.x < n && \"few\"\) in line 30"),
    ],
)
def test_divergent_code(name, told):
    with pytest.raises(errors.DeviceError, match=told):
        checked(WAITING, name, 8)
    checked(WAITING, name, 32)


def test_unchecked_kernels_do_not_hang():
    """A barrier ignores threads that have returned, as on a GPU; a deadlock is an error."""
    get = SourceModule(WAITING).get_function
    for name in ("divergent", "returned", "lanes"):
        get(name)(8, block=(32, 1, 1))
    with pytest.raises(errors.DeviceError, match="kernel 'mixed': its threads wait for each other"):
        get("mixed")(8, block=(32, 1, 1))


@pytest.mark.parametrize("name", ["rounds", "long_ones"])
def test_long_kernels_are_interrupted(name):
    """A signal interrupts a kernel that waits for ever, and one without barriers that runs long."""
    function = SourceModule(WAITING).get_function(name)

    def call():
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        function(InOut(np.ones(1, np.int32)), block=(1024, 1, 1), grid=(100, 1))

    # Background jobs of a shell ignore SIGINT.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        begun = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            call()
        assert time.perf_counter() - begun < 30  # without the interruption: minutes
    finally:
        signal.signal(signal.SIGINT, usual)


@pytest.mark.parametrize("name", ["endless", "rounds"])
def test_a_block_that_never_ends(name, monkeypatch):
    monkeypatch.setenv("PYCUDAKIT_BLOCK_LIMIT", "0.2")
    told = rf"kernel '{name}': in block \(0, 0, 0\), thread .* is still running: a block may take 200 ms"
    with pytest.raises(errors.DeviceError, match=told):
        checked(WAITING, name, InOut(np.ones(1, np.int32)), block=(8, 1, 1))


# ---- The compiler ----


def source_of(text, **given):
    about = {"name": "mine.cu", "options": (), "include_dirs": (), "no_extern_c": False, "debug": False}
    kernels = tuple(Signature(name, (), 1) for name in given.pop("kernels", ("k",)))
    return Source(text, arch="", kernels=kernels, **{**about, **given})


def test_a_source_that_is_wrong():
    with pytest.raises(errors.CompileError, match=r"(?s)mine\.cu:3:.*undeclared_name"):
        host_compiler.compile(source_of("\n__global__ void k(int *x) {\n  *x = undeclared_name;\n}\n"))
    text = "#include <math.h>\n__global__ void k(int *x) {\n  extern __shared__\n  int a[];\n  *x = wrong;\n}"
    with pytest.raises(errors.CompileError, match=r"mine\.cu:5:"):
        host_compiler.compile(source_of(text))


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(
        errors.CompileError, match=r"CXX=no-such-compiler is missing: install g\+\+.*or set CXX"
    ):
        host_compiler.compile(source_of("__global__ void k() {}"))
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(errors.CompileError, match=r"c\+\+ is missing"):
        host_compiler.compile(source_of("__global__ void k() {}"))


def test_a_compiler_with_words_of_its_own(monkeypatch):
    monkeypatch.setenv("CXX", "c++ -DVALUE=7")
    host_compiler.compile(source_of("__global__ void k(int *x) { *x = VALUE; }"))


def test_options(tmp_path):
    (tmp_path / "own.h").write_text("#define FROM_OWN 5\n")
    text = '#include "own.h"\n__global__ void k(int *x) { *x = A + B + FROM_OWN + C; }'
    options = (
        "-lineinfo",
        "--use_fast_math",
        "-arch=sm_90",
        "-DA=1",
        "-D",
        "B=2",
        "--define-macro=C=3",
        "-G",
    )
    made = host_compiler.compile(source_of(text, options=options, include_dirs=(str(tmp_path),)))
    assert made.symbols == {"k": "k"}
    assert made.data[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe")


def test_the_fingerprint_is_of_the_compiler(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    first = host_compiler.fingerprint()
    assert host_compiler.fingerprint() == first
    monkeypatch.setenv("CXX", "c++ -g")
    assert host_compiler.fingerprint() != first


def test_names_that_c_has_taken():
    source = "__global__ void div(int *x) { *x = 7; }\n__global__ void index(int *x) { *x = 8; }"
    assert run(source, "div", (1, np.int32), block=(1, 1, 1))[0] == 7
    assert run(source, "index", (1, np.int32), block=(1, 1, 1))[0] == 8


def test_which_kernels_wait():
    text = r"""
    #define SYNC __syncthreads()
    struct Sum { __device__ int operator()(int x) const { return __shfl_sync(~0u, x, 0); } };
    template <class F> __device__ void apply(F f) { f(1); }
    __device__ void deep() { if (threadIdx.x) { SYNC; } }
    __global__ void a() { deep(); }
    __global__ void b() { /* __syncthreads(); */ int deeper = 0; (void)"__syncthreads"; }
    __global__ void c() { apply(Sum()); }
    template <class F> __global__ void d() { apply(F()); }
    __global__ void e() { if (blockIdx.x) return; }
    """
    names = ("a", "b", "c", "d<Sum>", "d<Other>", "e")
    assert cuda_to_cpp.kernels_with_barriers(source_of(text, kernels=names)) == {"a", "c", "d<Sum>"}
    assert cuda_to_cpp.kernels_with_barriers(source_of('#include "mine.h"\n' + text, kernels=names)) == set(
        names
    )
    assert cuda_to_cpp.kernels_with_barriers(
        source_of("namespace g = cooperative_groups;", kernels=names)
    ) == set(names)


def test_names_of_device_variables():
    text = r"""
    __constant__ float a[3], unused = 1;
    static __device__ int b;
    __device__ float f(int x) { __shared__ int not_me; return x; }
    // __constant__ int comment;
    extern __device__ int elsewhere;
    #if 0
    __constant__ int conditional;
    #endif
    __device__ unsigned long long d = 5;
    namespace n { __device__ int inside; }
    namespace { __device__ int unnamed; }
    __device__ int list[] = {1, 2}, *e = list, grid[N * (M + 1)];
    __device__ struct Pair { int x, y; } pair;
    __device__ Pair make(int x, int y) { return {x, y}; }
    __constant__ Box<int, 3> box;
    template <class T> __device__ T templated;
    __device__ int last;
    struct Late { int x; };
    """
    names = "a unused b d unnamed list e grid pair box last"
    assert cuda_to_cpp.variables(text) == names.split()


def test_lines_stay():
    text = "void f() {\n  extern __shared__ __align__(8)\n  float x[];\n"
    text += "  __shared__ int a[3],\n  b;\n  int last; }\n"
    for is_checked in (False, True):
        made = cuda_to_cpp.translated(text, checked=is_checked)
        assert made.count("\n") == text.count("\n")
        assert made.split("\n")[5] == text.split("\n")[5]
        assert "extern" not in made
    assert "pk_shared_variable<int[3]>" in made


# ---- The engine ----


def test_many_threads_at_once():
    source = r"""
    __constant__ float factor;
    __global__ void scaled(float *x) {
        __shared__ float own[64];
        own[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
        __syncthreads();
        x[blockIdx.x * 64 + threadIdx.x] = factor * own[63 - threadIdx.x];
    }
    """
    function = SourceModule(source).get_function("scaled")
    data = [RNG.integers(-9, 9, 6400).astype(np.float32) for _ in range(6)]
    failures = []

    def work(number):
        try:
            with pk.engine("cpu"):
                for _ in range(10):
                    out = data[number].copy()
                    symbols = {"factor": np.float32(number)}
                    function(InOut(out), block=(64, 1, 1), grid=(100, 1), symbols=symbols)
                    expected = number * data[number].reshape(100, 64)[:, ::-1].ravel()
                    np.testing.assert_array_equal(out, expected)
        except BaseException as error:  # noqa: BLE001  (told below)
            failures.append(error)

    run_in_threads(work, range(6))
    assert not failures


def test_arrays_that_overlap():
    """An output may overlap an input: every thread reads the original input."""
    source = "__global__ void turned(const int *x, int *y, int n) { int i = blockIdx.x * 64 + threadIdx.x; "
    source += "y[i] = x[n - 1 - i]; }"
    x = np.arange(6400, dtype=np.int32)
    y = x.copy()
    SourceModule(source).get_function("turned")(In(y), Out(y), 6400, block=(64, 1, 1), grid=(100, 1))
    np.testing.assert_array_equal(y, x[::-1])


def test_kept_memory_is_released():
    source = "__global__ void k(int *x) { *x = __syncthreads_count(1); }"
    function = SourceModule(source).get_function("k")
    for _ in range(2):
        x = np.zeros(1, np.int32)
        function(Out(x), block=(200, 1, 1))
        assert x[0] == 200
        pk.release()


@pytest.mark.parametrize("is_checked", [False, True])
def test_an_integer_divided_by_zero(is_checked):
    source = "__global__ void divided(int *x, unsigned y) {\n  x[0] = 7 / (int)y;\n  x[1] = 7u % y; }"
    function = SourceModule(source, debug=is_checked).get_function("divided")
    x = np.zeros(2, np.int32)
    function(Out(x), 2, block=(1, 1, 1))
    assert x.tolist() == [3, 1]
    with pytest.raises(
        errors.DeviceError, match=r"kernel 'divided': .*divides an integer by zero in line [23]"
    ):
        function(Out(x), 0, block=(1, 1, 1))


def test_memory_of_a_threads_own():
    source = r"""
    __global__ void deep(int *out, int n) {
        int own[100000];
        for (int i = 0; i < n; ++i) own[i] = i;
        __syncthreads();
        for (int i = 1; i < n; ++i) own[i] += own[i - 1] & 1;
        out[threadIdx.x] = own[n - 1 - threadIdx.x];
    }
    """
    own = np.arange(100000)
    for i in range(1, own.size):
        own[i] += own[i - 1] & 1
    out = run(source, "deep", (4, np.int32), 100000, block=(4, 1, 1))
    np.testing.assert_array_equal(out, own[:-5:-1])
