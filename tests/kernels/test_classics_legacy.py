"""Legacy and unusual CUDA C sources: declarations, includes, macros, and common mistakes."""

import numpy as np
import pytest
from helpers.user_kernels import module

import pycudakit as pk
from pycudakit import In, InOut, Out, SourceModule

RNG = np.random.default_rng(666)


# ---- Declarations -----------------------------------------------------------------------------------

DECLARED = r"""
/* __global__ void in_a_comment(int *x) { } */
// __global__ void in_another(int *x) { }
#define REAL float
#define KERNEL(name) __global__ void name
#if 0
__global__ void left_out(int *x) { }
#endif
typedef unsigned int u32;
using real = double;
enum { ROWS = 4, COLUMNS = ROWS * 2 };
#define TEXT "__global__ void in_a_string(int *x) {"

__global__ void declared_first(int *, int);

__global__ void
__launch_bounds__(256, 1)
bounded(float *__restrict__ out,   // where it goes, (in parentheses)
        const REAL * __restrict__ in,  /* {what} comes */
        unsigned n)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = in[i] + (TEXT[0] == '_' ? 1 : 0);
}

__global__ void declared_first(int *x, int by) { x[threadIdx.x] += by; }

static __device__ __forceinline__ real half_of(real x) { return x / 2; }
extern "C" __global__ void of_types(real x[], u32 const *counts, int const n, const size_t m, bool flag,
                                    char c, unsigned long long big, long last)
{
    int i = threadIdx.x;
    if (i < n && flag) x[i] = half_of(x[i]) + counts[i] + m + c + (double)(big >> 32) + last;
}

__device__ void fill(int (*matrix)[COLUMNS], int row, int value) {
    for (int c = 0; c != COLUMNS; c++) matrix[row][c] = value * 10 + c;
}
__global__ void of_rows(int (*matrix)[COLUMNS]) { fill(matrix, threadIdx.x, threadIdx.x); }
KERNEL(by_macro)(int *x) { x[threadIdx.x] = -1; }
"""


def test_which_functions_are_kernels():
    functions = module(DECLARED).functions
    assert {"declared_first", "bounded", "of_types"} <= set(functions)
    assert len(functions) == len(set(functions))
    assert not {"in_a_comment", "in_another", "left_out", "in_a_string"} & set(functions)


def test_declarations_of_many_forms(engine):
    mod = module(DECLARED)
    x = RNG.standard_normal(300).astype(np.float32)
    out = np.zeros_like(x)
    mod.get_function("bounded")(Out(out), In(x), 300, block=(256, 1, 1), grid=(2, 1))
    np.testing.assert_array_equal(out, x + np.float32(1))
    ints = np.arange(32, dtype=np.int32)
    mod.get_function("declared_first")(ints, 5, block=(32, 1, 1))
    np.testing.assert_array_equal(ints, np.arange(32) + 5)


def test_types_of_many_names(engine):
    x, counts = np.arange(8.0), np.arange(8, dtype=np.uint32)
    numbers = 6, np.uint64(1000), True, -3, 2**40, np.int64(7)
    module(DECLARED).get_function("of_types")(InOut(x), In(counts), *numbers, block=(8, 1, 1))
    expected = np.arange(8.0)
    expected[:6] = expected[:6] / 2 + counts[:6] + 1000 - 3 + 256 + 7
    np.testing.assert_array_equal(x, expected)


def test_a_pointer_to_rows(engine):
    matrix = np.zeros((4, 8), np.int32)
    module(DECLARED).get_function("of_rows")(InOut(matrix), block=(4, 1, 1))
    np.testing.assert_array_equal(matrix, np.arange(4)[:, None] * 10 + np.arange(8))


def test_a_kernel_named_by_a_macro(engine):
    x = np.zeros(4, np.int32)
    module(DECLARED).get_function("by_macro")(InOut(x), block=(4, 1, 1))
    np.testing.assert_array_equal(x, -1)


# ---- Includes and macros ----------------------------------------------------------------------------

SPEED_TEST = r"""
// Of PyCUDA's wiki: an array that is only read, as Python has it, is written here.
__global__ void gpusin(float *dest, float *a, int n_iter)
{
  const int i = blockDim.x*blockIdx.x + threadIdx.x;
  for(int n = 0; n < n_iter; n++) {
    a[i] = sin(a[i]);
  }
  dest[i] = a[i];
}

__global__ void some(int *out, int n) { if (threadIdx.x < n) out[threadIdx.x] = 7; }
__global__ void maybe(int *out, const int *in) { out[threadIdx.x] = in ? in[threadIdx.x] : -1; }
__global__ void reach(float *x) { x[0] = 1; }
"""


def test_inputs_are_not_downloaded(engine):
    a = RNG.random(256, np.float32)
    before, dest = a.copy(), np.zeros_like(a)
    module(SPEED_TEST).get_function("gpusin")(Out(dest), In(a), np.int32(3), block=(64, 1, 1), grid=(4, 1))
    np.testing.assert_array_equal(a, before)
    np.testing.assert_allclose(dest, np.sin(np.sin(np.sin(before))), rtol=1e-5)


def test_read_only_arrays_are_not_written(engine):
    a = np.ones(64, np.float32)
    a.flags.writeable = False
    dest = np.zeros_like(a)
    with pytest.raises((TypeError, ValueError), match=r"\ba\b"):
        module(SPEED_TEST).get_function("gpusin")(Out(dest), a, np.int32(1), block=(64, 1, 1))
    assert (a == 1).all()
    assert (dest == 0).all()
    module(SPEED_TEST).get_function("gpusin")(Out(dest), In(a), np.int32(1), block=(64, 1, 1))
    assert (a == 1).all()


def test_all_of_an_out_comes_back(engine):
    some = module(SPEED_TEST).get_function("some")
    out = np.full(8, 99, np.int32)
    some(Out(out), 3, block=(8, 1, 1))
    np.testing.assert_array_equal(out, [7, 7, 7, 0, 0, 0, 0, 0])
    some(Out(out, poison=True), 3, block=(8, 1, 1))
    np.testing.assert_array_equal(out.view(np.uint8)[12:], 0xA5)
    some(InOut(out), 8, block=(8, 1, 1))
    np.testing.assert_array_equal(out, 7)


def test_null_pointers(engine):
    out = np.zeros(4, np.int32)
    maybe = module(SPEED_TEST).get_function("maybe")
    maybe(Out(out), None, block=(4, 1, 1))
    np.testing.assert_array_equal(out, -1)
    maybe(Out(out), In(np.arange(4, dtype=np.int32)), block=(4, 1, 1))
    np.testing.assert_array_equal(out, np.arange(4))


@pytest.mark.parametrize("way", ["reversed", "step", "fortran", "swapped", "zero stride"])
def test_layouts(engine, way):
    base = np.arange(64, dtype=np.float32).reshape(8, 8)
    x = {
        "reversed": base[::-1, ::-1],
        "step": np.arange(256, dtype=np.float32).reshape(16, 16)[::2, 1::2],
        "fortran": np.asfortranarray(base),
        "swapped": base.astype(">f4"),
        "zero stride": np.broadcast_to(base[:1], (8, 8)),
    }[way]
    before, dest = x.copy(), np.zeros((8, 8), np.float32)
    function = module(SPEED_TEST).get_function("gpusin")
    if way == "swapped":
        try:
            function(Out(dest), In(x), 0, block=(64, 1, 1))
        except (TypeError, ValueError):
            return  # an error is allowed, a wrong result is not
    else:
        function(Out(dest), In(x), 0, block=(64, 1, 1))
    np.testing.assert_array_equal(dest, before)
    np.testing.assert_array_equal(x, before)


# ---- Mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "line", "word"),
    [
        ("\n\n__global__ void f(int *x) { y[0] = 1; }\n", 3, "y"),
        ("// é\n__global__ void f(int *x) {\n  x[0] = 1 }\n", 3, ";"),
        ("#include <stdio.h>\n\n\n__global__ void f() { no_such_thing(); }", 4, "no_such_thing"),
        ("#error not today\n__global__ void f() { }", 1, "not today"),
        ("#include <no_such_header.h>\n__global__ void f() { }", 1, "no_such_header"),
    ],
)
def test_compile_errors_have_their_lines(engine, source, line, word):
    with pytest.raises(pk.errors.CompileError) as caught:
        SourceModule(source, name="mine.cu").get_function("f")(block=(1, 1, 1))
    told = str(caught.value)
    assert word in told
    assert f"mine.cu:{line}" in told or f"mine.cu({line})" in told


@pytest.mark.parametrize(
    ("arguments", "error", "word"),
    [
        ((), TypeError, "dest"),
        ((Out, In, 1, 2), TypeError, "3"),
        ((np.zeros(4), In, 1), TypeError, "dest"),
        ((Out, In, 1.5), TypeError, "n_iter"),
        ((Out, In, 2**31), (TypeError, ValueError, OverflowError), "n_iter"),
        ((Out, 5, 1), TypeError, r"\ba\b"),
        ((Out, In, In), TypeError, "n_iter"),
        ((Out, In, "1"), TypeError, "n_iter"),
        ((Out, [1.0, 2.0], 1), TypeError, r"\ba\b"),
    ],
)
def test_arguments_that_do_not_fit(engine, arguments, error, word):
    x, out = np.ones(4, np.float32), np.full(4, 9, np.float32)
    given = [Out(out) if a is Out else In(x) if a is In else a for a in arguments]
    with pytest.raises(error, match=word):
        module(SPEED_TEST).get_function("gpusin")(*given, block=(4, 1, 1))
    assert (out == 9).all()


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"block": (1025, 1, 1)}, ["1025", "1024"]),
        ({"block": (32, 32, 2)}, ["2048", "1024"]),
        ({"block": (1, 1, 65)}, ["65", "64"]),
        ({"block": (0, 1, 1)}, ["0"]),
        ({"block": (4, 1, 1), "grid": (1, 65536)}, ["65536", "65535"]),
        ({"block": (4, 1, 1), "grid": (0, 1)}, ["0"]),
        ({"block": (4, 1, 1), "shared": 10**7}, ["10000000"]),
        ({"block": (4, 1, 1), "shared": -1}, ["-1"]),
    ],
)
def test_blocks_that_do_not_fit(engine, shape, words):
    out = np.full(4, 9, np.float32)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        module(SPEED_TEST).get_function("reach")(Out(out), **shape)
    for word in words:
        assert word in str(caught.value).replace(",", "").replace("_", "")
    assert (out == 9).all()
