"""Wrapped sources of ten kinds, against NumPy."""

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors
from pycudakit.__main__ import main

COPY_IN = """
template <class T> static T *on_device(const T *x, size_t n) {
    T *d = nullptr;
    cudaMalloc(&d, n * sizeof(T));
    cudaMemcpy(d, x, n * sizeof(T), cudaMemcpyHostToDevice);
    return d;
}
template <class T> static void to_host(T *x, T *d, size_t n) {
    cudaMemcpy(x, d, n * sizeof(T), cudaMemcpyDeviceToHost);
    cudaFree(d);
}
"""


def random(shape, dtype=np.float32):
    return np.random.default_rng(3).normal(size=shape).astype(dtype)


def test_a_reduction_with_shared_memory(engine):
    library = pk.wrap(
        COPY_IN
        + """
__global__ void block_sums(const int *x, int *sums, int n) {
    extern __shared__ int partial[];
    __shared__ int first;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    partial[threadIdx.x] = i < n ? x[i] : 0;
    if (threadIdx.x == 0) first = 0;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = partial[0] + first;
}
extern "C" long long total(const int *x, int n) {
    const int threads = 128, blocks = (n + threads - 1) / threads;
    int *d_x = on_device(x, n), *d_sums, *sums = new int[blocks];
    cudaMalloc(&d_sums, blocks * sizeof(int));
    block_sums<<<blocks, threads, threads * sizeof(int)>>>(d_x, d_sums, n);
    to_host(sums, d_sums, blocks);
    cudaFree(d_x);
    long long sum = 0;
    for (int i = 0; i < blocks; ++i) sum += sums[i];
    delete[] sums;
    return sum;
}
"""
    )
    x = np.random.default_rng(1).integers(-1000, 1000, 10_007, dtype=np.int32)
    assert library.total(x, x.size) == x.sum()


def test_a_transpose_of_two_dimensions(engine):
    library = pk.wrap(
        COPY_IN
        + """
#define TILE 16
__global__ void transpose(const float *x, float *y, int rows, int cols) {
    __shared__ float tile[TILE][TILE + 1];
    int c = blockIdx.x * TILE + threadIdx.x, r = blockIdx.y * TILE + threadIdx.y;
    if (r < rows && c < cols) tile[threadIdx.y][threadIdx.x] = x[r * cols + c];
    __syncthreads();
    int to_c = blockIdx.y * TILE + threadIdx.x, to_r = blockIdx.x * TILE + threadIdx.y;
    if (to_r < cols && to_c < rows) y[to_r * rows + to_c] = tile[threadIdx.x][threadIdx.y];
}
// Transposes a matrix.
// @size rows * cols of x
// @out y[rows * cols]
extern "C" void transposed(const float *x, float *y, int rows, int cols) {
    float *d_x = on_device(x, size_t(rows) * cols), *d_y;
    cudaMalloc(&d_y, size_t(rows) * cols * sizeof(float));
    dim3 block(TILE, TILE);
    dim3 grid((cols + TILE - 1) / TILE,
              (rows + TILE - 1) / TILE);
    transpose<<<grid,
                block>>>(d_x, d_y, rows, cols);
    to_host(y, d_y, size_t(rows) * cols);
    cudaFree(d_x);
}
"""
    )
    x = random((37, 50))
    np.testing.assert_array_equal(library.transposed(x, *x.shape).reshape(50, 37), x.T)
    with pytest.raises(ValueError, match=r"'x' .* at least rows \* cols elements, which is 1900"):
        library.transposed(x, 38, 50)
    with pytest.raises(ValueError, match=r"'y' .* at least rows \* cols elements"):
        library.transposed(x, np.empty(5, np.float32), 37, 50)


def test_two_dtypes_by_a_macro(engine):
    library = pk.wrap(
        COPY_IN
        + """
template <class T> __global__ void scale(T *x, T by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
#define OK float
#define SCALE(name, T)                                       \\
    extern "C" void name(T *x, T by, int n) { scaled<T>(x, by, n); }
template <class T> static void scaled(T *x, T by, int n) {
    T *d = on_device(x, n);
    scale<<<(n + 255) / 256, 256>>>(d, by, n);  // its argument is deduced
    scale<T><<<(n + 255) / 256, 256, 0, 0>>>(d, by, n);
    to_host(x, d, n);
}
SCALE(scale_floats, float)
SCALE(scale_doubles, double)
"""
    )
    for name, dtype in (("scale_floats", np.float32), ("scale_doubles", np.float64)):
        x = random(1000, dtype)
        scaled = x.copy()
        getattr(library, name)(scaled, 1.5, 1000)
        np.testing.assert_array_equal(scaled, x * dtype(1.5) * dtype(1.5))
    with pytest.raises(TypeError, match="takes float64 arrays, and the one given is of float32"):
        library.scale_doubles(np.ones(2, np.float32), 1.0, 2)


STRUCTS = (
    COPY_IN
    + """
struct Weights { float near, far; };
typedef struct { double scale; char kind; int offset[3]; Weights weights; } Settings;
__global__ void apply(const double *x, double *y, Settings s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * s.scale + s.offset[i % 3] + s.kind + s.weights.far;
}
extern "C" {
// @out y[n]
void adjusted(const double *x, double *y, Settings settings, int n) {
    double *d_x = on_device(x, n), *d_y;
    cudaMalloc(&d_y, n * sizeof(double));
    apply<<<(n + 63) / 64, 64>>>(d_x, d_y, settings, n);
    to_host(y, d_y, n);
    cudaFree(d_x);
}
void move_all(Settings *all, int n, float3 by) {
    for (int i = 0; i < n; ++i) all[i].offset[0] += (int)by.x, all[i].weights.near += by.z;
}
}
"""
)


def test_structs(engine):
    library = pk.wrap(STRUCTS)
    dtype = library.dtypes["Settings"]
    assert dtype.itemsize == 32
    assert dtype.names == ("scale", "kind", "offset", "weights")
    assert dtype["offset"] == np.dtype((np.int32, (3,)))
    assert dtype["weights"] == library.dtypes["Weights"]
    settings = np.zeros((), dtype)
    settings["scale"], settings["kind"], settings["offset"], settings["weights"] = 2, 5, (1, 2, 3), (0, 0.5)
    x = random(10, np.float64)
    expected = x * 2 + np.resize([1, 2, 3], 10) + 5 + 0.5
    np.testing.assert_allclose(library.adjusted(x, settings, 10), expected, rtol=1e-15)
    np.testing.assert_allclose(library.adjusted(x, settings[()], 10), expected, rtol=1e-15)
    np.testing.assert_allclose(library.adjusted(x, (2, 5, (1, 2, 3), (0, 0.5)), 10), expected, rtol=1e-15)
    rows = np.zeros(4, dtype)
    library.move_all(rows, 4, (7, 0, 0.25))
    assert rows["offset"].tolist() == [[7, 0, 0]] * 4
    assert rows["weights"]["near"].tolist() == [0.25] * 4
    with pytest.raises(TypeError, match=r"'all' .* takes arrays of the struct's dtype"):
        library.move_all(np.zeros(4, "f4, f4"), 4, (7, 0, 0))
    with pytest.raises(TypeError, match=r"'settings' .* a value of the struct's dtype"):
        library.adjusted(x, np.zeros(1, "f4, f4"), 10)
    with pytest.raises(ValueError, match=r"'by' .* takes 3 numbers"):
        library.move_all(rows, 4, (7, 0))


def test_arrays_that_are_read_and_written(engine):
    library = pk.wrap(
        """
// @inout x[n]
extern "C" void count_up(int64_t *x, unsigned char *flags, int n) {
    for (int i = 0; i < n; ++i) x[i] += i, flags[i] = x[i] > 3;
}
""".replace("// @inout", "#include <stdint.h>\n// @inout")
    )
    x, flags = np.zeros(8, np.int64), np.zeros(8, np.uint8)
    assert library.count_up(x, flags, 8) is None
    assert x.tolist() == list(range(8))
    assert flags.tolist() == [0] * 4 + [1] * 4


STATUSES = """
enum Mode { OFF, ON = 3 };
extern "C" {
cudaError_t allocate(size_t bytes) {
    void *d = nullptr;
    cudaError_t error = cudaMalloc(&d, bytes);
    if (error != cudaSuccess) return error;
    return cudaFree(d);
}
// @status
int check(int value) { return value > 10 ? value : 0; }
int plain(int value) { return value > 10 ? value : 0; }
bool is_on(Mode mode) { return mode == ON; }
const char *title(bool is_known) { return is_known ? "Ada \\xc3\\xa9" : 0; }
unsigned long long large(void) { return 0xffffffffffffffffull; }
float half_of(float x) { return x / 2; }
}
"""


def test_results_and_statuses(engine):
    library = pk.wrap(STATUSES)
    assert library.allocate(100) is None
    with pytest.raises(MemoryError, match="allocate: out of memory"):
        library.allocate(2**60)
    assert library.check(3) is None
    with pytest.raises(errors.DeviceError, match="check returned the status 11"):
        library.check(11)
    assert library.plain(11) == 11
    assert library.is_on(3) is True
    assert library.is_on(0) is False
    assert library.title(True) == "Ada é"
    assert library.title(False) is None
    assert library.large() == 2**64 - 1
    assert library.half_of(3) == 1.5


def test_streams_and_events_inside(engine):
    library = pk.wrap(
        """
__global__ void fill(float *x, float value, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = value;
}
extern "C" float filled(float *x, float value, int n) {
    cudaStream_t stream;
    cudaEvent_t start, end;
    float *d_x, *pinned, milliseconds = -1;
    cudaStreamCreate(&stream);
    cudaEventCreate(&start);
    cudaEventCreate(&end);
    cudaMalloc((void **)&d_x, n * sizeof(float));
    cudaMallocHost((void **)&pinned, n * sizeof(float));
    cudaMemsetAsync(d_x, 0, n * sizeof(float), stream);
    cudaEventRecord(start, stream);
    fill<<<2, 64, 0, stream>>>(d_x, value, n);
    cudaEventRecord(end, stream);
    cudaMemcpyAsync(pinned, d_x, n * sizeof(float), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    cudaEventElapsedTime(&milliseconds, start, end);
    for (int i = 0; i < n; ++i) x[i] = pinned[i];
    cudaFreeHost(pinned);
    cudaFree(d_x);
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    cudaStreamDestroy(stream);
    return milliseconds;
}
"""
    )
    x = np.zeros(1000, np.float32)
    assert library.filled(x, 2.5, 1000) >= 0
    assert (x == 2.5).all()


def test_a_header_with_prototypes(engine, tmp_path):
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "api.h").write_text(
        '#pragma once\n#ifdef __cplusplus\nextern "C" {\n#endif\nint twice(int x);\nint elsewhere(int x);\n'
        "#ifdef __cplusplus\n}\n#endif\n"
    )
    (tmp_path / "api.cu").write_text('#include "api.h"\nint twice(int x) { return 2 * x; }\n')
    library = pk.wrap(tmp_path / "api.cu", include_dirs=[tmp_path / "include"])
    assert library.functions == ("twice",)
    assert library.twice(21) == 42


def test_namespaces(engine):
    library = pk.wrap(
        """
namespace inner {
__global__ void one(int *x) { *x += 1; }
template <int by> __global__ void several(int *x) { *x += by; }
extern "C" void raise_it(int *x) {
    int *d;
    cudaMalloc(&d, sizeof(int));
    cudaMemcpy(d, x, sizeof(int), cudaMemcpyDefault);
    one<<<1, 1>>>(d);
    inner::several<40><<<1, 1>>>(d);
    cudaMemcpy(x, d, sizeof(int), cudaMemcpyDefault);
    cudaFree(d);
}
}
"""
    )
    x = np.ones(1, np.int32)
    library.raise_it(x)
    assert x[0] == 42


def test_a_library_with_state(engine):
    library = pk.wrap(
        """
#include <vector>
#include <stdexcept>
static std::vector<double> kept;
__constant__ double factor;
__global__ void times(double *x) { x[threadIdx.x] *= factor; }
extern "C" {
void keep(const double *x, int n) { kept.assign(x, x + n); }
int count() { return int(kept.size()); }
// @out x[n]
void multiplied(double by, double *x, int n) {
    if (n > (int)kept.size()) throw std::out_of_range("only " + std::to_string(kept.size()) + " are kept");
    double *d;
    cudaMalloc(&d, n * sizeof(double));
    cudaMemcpy(d, kept.data(), n * sizeof(double), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(factor, &by, sizeof(by));
    times<<<1, n>>>(d);
    cudaMemcpy(x, d, n * sizeof(double), cudaMemcpyDeviceToHost);
    cudaFree(d);
}
}
""".replace("#include <vector>", "#include <string>\n#include <vector>")
    )
    library.keep(np.arange(5.0), 5)
    assert library.count() == 5
    np.testing.assert_array_equal(library.multiplied(3.0, 4), np.arange(4.0) * 3)
    with pytest.raises(errors.DeviceError, match="multiplied threw an exception: only 5 are kept"):
        library.multiplied(3.0, 6)


def test_half_precision_and_vectors(engine):
    library = pk.wrap(
        COPY_IN
        + """
#include <cuda_fp16.h>
__global__ void add(const __half *x, float4 *y, __half by, int n) {
    int i = threadIdx.x;
    if (i < n) y[i].w = __half2float(x[i]) + __half2float(by);
}
extern "C" void widened(const __half *x, float4 *y, __half by, int n) {
    __half *d_x = on_device(x, n);
    float4 *d_y = on_device(y, n);
    add<<<1, 32>>>(d_x, d_y, by, n);
    to_host(y, d_y, n);
    cudaFree(d_x);
}
"""
    )
    x, y = random(20, np.float16), np.zeros((20, 4), np.float32)
    library.widened(x, y, np.float16(0.5), 20)
    np.testing.assert_array_equal(y[:, 3], x.astype(np.float32) + np.float32(0.5))
    assert not y[:, :3].any()
    with pytest.raises(ValueError, match=r"'y' .* at least n elements, which is 21"):
        library.widened(np.zeros(21, np.float16), y, 0.5, 21)


def test_sizes_that_are_not_checked(engine):
    source = """
extern "C" void copy(const float *x, float *y, int rows, int cols) {
    for (int i = 0; i < rows * cols; ++i) y[i] = x[i];
}
"""
    library = pk.wrap(source)
    assert "its size is not checked" in library.copy.__doc__
    library.copy(np.ones(4, np.float32), np.ones(4, np.float32), 2, 2)
    one = source.replace(", int cols", "").replace(" * cols", " * 0")
    with pytest.raises(ValueError, match="at least rows elements"):
        pk.wrap(one).copy(np.ones(1, np.float32), np.ones(1, np.float32), 2)
    pk.wrap("// @size none" + one).copy(np.ones(1, np.float32), np.ones(1, np.float32), 2)


def test_sizes_that_divide(engine):
    library = pk.wrap(
        """
// @out y[n / by]
extern "C" void every(const float *x, float *y, int n, int by) {
    for (int i = 0; i < n / by; ++i) y[i] = x[i * by];
}
"""
    )
    x = random(10)
    np.testing.assert_array_equal(library.every(x, 10, 3), x[:9:3])
    for given in ((x, 10, 0), (x, x, 10, 0)):
        with pytest.raises(ValueError, match=r"n // by, divides by zero, with n = 10, by = 0"):
            library.every(*given)


def test_options_and_chosen_functions(engine, tmp_path):
    source = """
#include <cmath>
extern "C" int n() { return N; }
extern "C" double root(double x) { return std::sqrt(x); }
"""
    library = pk.wrap(source, functions=["n"], options=["-DN=3"], libraries=["m"], name="other.cu")
    assert library.functions == ("n",)
    assert library.n() == 3
    assert repr(library).startswith("<Library 'other.cu'")
    assert pk.wrap(source, options=["-DN=4"]).n() == 4


def test_texts(engine):
    library = pk.wrap(
        '\nextern "C" int length(const char *text) { int n = 0; while (text[n]) ++n; return n; }'
    )
    assert library.length("four") == 4
    assert library.length(b"three") == 5
    assert library.length(np.array([65, 66, 0], np.int8)) == 2


def test_failures_of_copies_and_kernels(engine):
    library = pk.wrap(
        """
#include <assert.h>
__global__ void fails(int *x) { assert(x == nullptr); }
extern "C" {
void wrong_kind(float *x, int n) {
    float *d;
    cudaMalloc(&d, n * sizeof(float));
    cudaMemcpy(d, x, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d);
}
void too_long(float *x, int n) {
    float *d;
    cudaMalloc(&d, n * sizeof(float));
    cudaMemcpy(d, x, 2 * n * sizeof(float), cudaMemcpyHostToDevice);
    cudaFree(d);
}
void too_many_threads() { fails<<<1, 2048>>>(nullptr); }
void twice_freed() {
    float *d;
    cudaMalloc(&d, 4);
    cudaFree(d);
    cudaFree(d);
}
}
"""
    )
    x = np.zeros(4000, np.float32)
    for call in (
        lambda: library.wrong_kind(x, 10),
        lambda: library.too_long(x, 1000),
        library.too_many_threads,
        library.twice_freed,
    ):
        with pytest.raises(errors.DeviceError, match=r": invalid (argument|configuration)"):
            call()


def test_a_failed_assertion_of_a_kernel():
    with pk.engine("cpu"):  # on a GPU it would end CUDA for the process
        library = pk.wrap(
            """
#include <cassert>
__global__ void fails(int n) { assert(threadIdx.x < n); }
extern "C" void run(int n) {
    fails<<<1, 32>>>(n);
    if (cudaDeviceSynchronize() != cudaSuccess) return;
}
extern "C" void run_alone(int n) { fails<<<1, 32>>>(n); }
"""
        )
    library.run(32)
    for call in (library.run, library.run_alone):
        with pytest.raises(
            errors.DeviceError, match=r"device-side assert triggered .*failed assert\(threadIdx"
        ):
            call(31)
        call(32)


def test_a_launch_with_a_comparison_among_template_arguments(engine):
    library = pk.wrap(
        COPY_IN
        + """
template <class T, int by> __global__ void scale(T *x) { x[threadIdx.x] *= by; }
extern "C" void scaled(double *x, int n) {
    double *d = on_device(x, n);
    scale<double, 1 + (3 > 2)><<<dim3(1), dim3(n, 1, 1)>>>(d);
    to_host(x, d, n);
}
"""
    )
    x = np.ones(8)
    library.scaled(x, 8)
    assert (x == 2).all()


def test_kernels_of_functions(engine):
    library = pk.wrap(
        COPY_IN
        + """
struct Add { int by; __device__ int operator()(int x) const { return x + by; } };
template <class F> __global__ void apply(F f, int *x) { x[threadIdx.x] = f(x[threadIdx.x]); }
extern "C" void applied(int *x, int n, int by) {
    int *d = on_device(x, n);
    apply<Add><<<1, n>>>(Add{by}, d);
    apply<<<1, n>>>([=] __device__ (int x) { return 10 * x + by; }, d);
    to_host(x, d, n);
}
""",
        options=["--extended-lambda"],
    )
    x = np.arange(4, dtype=np.int32)
    library.applied(x, 4, 2)
    assert x.tolist() == [22, 32, 42, 52]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_files_of_windows(engine, tmp_path, ending):
    source = (
        COPY_IN
        + """
__global__ void twice(int *x) {
    x[threadIdx.x] *= 2;
}
// @inout x[n]
extern "C" void doubled(int *x, int n) {
    int *d = on_device(x, n);
    twice<<<1,
            n>>>(d);
    to_host(x, d, n);
}
"""
    )
    path = tmp_path / "twice.cu"
    path.write_bytes(b"\xef\xbb\xbf" + source.replace("\n", ending).encode())
    x = np.arange(4, dtype=np.int32)
    pk.wrap(path).doubled(x, 4)
    assert x.tolist() == [0, 2, 4, 6]
    assert main(["wrap", str(path), "--name", "twice", "--to", str(tmp_path / "package")]) == 0
    assert (tmp_path / "package" / "csrc" / "twice.cu").read_bytes() == path.read_bytes()
