"""Arguments of kernels: arrays of every layout, numbers, structs, and the errors for wrong arguments."""

import sys

import numpy as np
import pytest
from helpers.user_kernels import module

import pycudakit as pk
from pycudakit import In, InOut, Out
from pycudakit.kernels.reading import signatures
from pycudakit.kernels.running import argument_binding

TEXT = """
#include <stdint.h>
struct Body { float x; double m; int n; };
__constant__ float coeffs[4];
__device__ int table[3];
__global__ void twice(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }
__global__ void add(const float *a, const float *b, float *out, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) out[i] = a[i] + b[i];
}
__global__ void count(int *out) { atomicAdd(out, 1); }
__global__ void first_only(int *out) { out[0] = 7; }
__global__ void put(int *x, int *y, int n) {
    int i = threadIdx.x;
    if (i < n) { if (i % 2) x[i] = 100 + i; else y[i] = 200 + i; }
}
__global__ void body(Body b, const Body *bs, double *out) {
    out[0] = b.x + b.m + b.n; out[1] = bs[1].x + bs[1].m + bs[1].n;
}
__global__ void bytes(const void *p, unsigned char *out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = ((const unsigned char *)p)[i];
}
__global__ void null(const float *p, int *out) { out[0] = p == nullptr; }
__global__ void numbers(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e, uint32_t f, int64_t g,
                        uint64_t h, float i, double j, bool k, char l, double *out) {
    out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f; out[6] = (double)g;
    out[7] = (double)h; out[8] = i; out[9] = j; out[10] = k; out[11] = l;
}
__global__ void vectors(float4 v, const float4 *p, const int2 *q, float *out) {
    out[0] = v.x + 10 * v.y + 100 * v.z + 1000 * v.w; out[1] = p[1].y; out[2] = q[1].x;
}
__global__ void scaled(float *out) { int i = threadIdx.x; out[i] = coeffs[i] * table[i % 3]; }
"""


@pytest.fixture
def get(engine):
    """Return a function that compiles the source above and gets a kernel."""
    return module(TEXT).get_function


def bound(declared, given, size=0):
    """Bind one argument to a parsed kernel with one parameter, without compiling."""
    signature = signatures.parse(f"__global__ void k({declared}) {{}}").signature("k")
    [slot] = argument_binding.slots_of(signature, [size] if size else [])
    return argument_binding.bind(signature, [slot], [given])


def value(declared, given, size=0):
    [raw] = bound(declared, given, size).arguments
    return raw


# ---- Arrays -----------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_in_out(get):
    a, b = np.arange(100, dtype=np.float32), np.full(100, 0.5, np.float32)
    c = np.full(100, 9, np.float32)
    assert get("add")(In(a), In(b), Out(c), np.int32(99), block=(64, 1, 1), grid=(2, 1)) is None
    np.testing.assert_array_equal(c, np.append(a[:99] + b[:99], 0))
    np.testing.assert_array_equal(a, np.arange(100))


LAYOUTS = {
    "dense": lambda a: a.copy(),
    "strided": lambda a: np.repeat(a, 3)[::3],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "two dimensions": lambda a: a.reshape(4, 8).copy(),
    "fortran": lambda a: np.asfortranarray(a.reshape(4, 8)),
    "transposed": lambda a: a.reshape(4, 8).T.copy().T,
    "unaligned": lambda a: np.frombuffer(bytearray(b"x" + a.tobytes()), a.dtype, offset=1),
    "memmap": lambda a: a.view(np.memmap),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wrapped", [True, False])
def test_layouts(get, layout, wrapped):
    values = np.arange(32, dtype=np.float32)
    x = LAYOUTS[layout](values)
    b = LAYOUTS[layout](values + 1)
    out = LAYOUTS[layout](np.zeros(32, np.float32))
    arrays = (In(x), In(b), Out(out)) if wrapped else (x, b, out)
    get("add")(*arrays, 32, block=32)
    np.testing.assert_array_equal(out.reshape(-1), 2 * values + 1)
    get("twice")(InOut(out) if wrapped else out, 32, block=32)
    np.testing.assert_array_equal(out.reshape(-1), 4 * values + 2)
    np.testing.assert_array_equal(x.reshape(-1), values)


def test_memory_around_a_view_stays(get):
    whole = np.arange(64, dtype=np.float32)
    get("twice")(whole[1:33:2], 16, block=16)
    expected = np.arange(64, dtype=np.float32)
    expected[1:33:2] *= 2
    np.testing.assert_array_equal(whole, expected)


def test_in_is_not_written(get):
    x = np.ones(8, np.float32)
    x.flags.writeable = False
    get("twice")(In(x), 8, block=8)
    get("add")(x, x, Out(np.empty(8, np.float32)), 8, block=8)
    np.testing.assert_array_equal(x, np.ones(8))


def test_an_out_begins_as_zeros(get):
    out = np.full(3, 41, np.int32)
    get("count")(Out(out), block=(32, 2), grid=(2, 2))
    assert out.tolist() == [256, 0, 0], "the whole of it is replaced"


def test_poison_shows_unwritten_elements(get):
    out = np.zeros(3, np.int32)
    get("first_only")(Out(out, poison=True), block=1)
    assert out.tolist() == [7, *np.frombuffer(b"\xa5" * 8, np.int32)]


def test_empty_arrays(get):
    empty = np.empty(0, np.float32)
    get("add")(empty, In(empty), Out(empty), 0, block=32)


@pytest.mark.parametrize("both", [lambda x: (InOut(x), InOut(x)), lambda x: (x, x), lambda x: (x[:], x)])
def test_one_array_twice_is_one_buffer(get, both):
    x = np.zeros(8, np.int32)
    get("put")(*both(x), 8, block=8)
    assert x.tolist() == [200, 101, 202, 103, 204, 105, 206, 107]


def test_strided_twice_is_one_buffer(get):
    x = np.zeros(16, np.int32)
    get("put")(x[::2], x[::2], 8, block=8)
    assert x[::2].tolist() == [200, 101, 202, 103, 204, 105, 206, 107]
    assert not x[1::2].any()


def test_the_cost_of_an_array_does_not_grow_with_their_number(engine):
    counts = []
    for count in (6, 12, 24):
        declared = ", ".join(f"float *x{i}" for i in range(count))
        signature = signatures.parse(f"__global__ void k({declared}) {{}}").signature("k")
        slots = argument_binding.slots_of(signature)
        arrays = [np.zeros(4, np.float32) for _ in range(count)]
        events = []
        sys.setprofile(lambda _frame, event, _argument, events=events: events.append(event))
        try:
            argument_binding.bind(signature, slots, arrays)
        finally:
            sys.setprofile(None)
        counts.append(len(events))
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0]) > 0


def test_of_overlapping_outputs_the_last_one_stays(get):
    x = np.zeros(9, np.int32)
    get("put")(InOut(x[:8]), InOut(x[1:]), 8, block=8)
    assert x.tolist() == [0, 200, 0, 202, 0, 204, 0, 206, 0]


def test_an_input_that_is_an_output_keeps_its_values(get):
    x = np.arange(8, dtype=np.float32)
    get("add")(In(x), In(x), Out(x), 8, block=8)
    np.testing.assert_array_equal(x, 2 * np.arange(8))
    get("add")(In(x[:-1]), In(x[:-1]), Out(x[1:]), 7, block=8)
    np.testing.assert_array_equal(x, [0, *4 * np.arange(7)])


def test_null(get):
    out = np.zeros(1, np.int32)
    get("null")(None, out, block=1)
    assert out[0] == 1
    get("null")(np.ones(1, np.float32), out, block=1)
    assert out[0] == 0


def test_void_takes_any_type(get):
    for given in (np.arange(5, dtype=np.int64), np.array([(1, 2.0)], "i4,f8"), np.array([1j])):
        out = np.zeros(given.nbytes, np.uint8)
        get("bytes")(given, out, given.nbytes, block=32)
        assert out.tobytes() == given.tobytes()


def test_in_takes_array_likes(get):
    out = np.empty(2, np.float32)
    get("add")(In(np.float32([1, 2]).tolist() and np.float32([1, 2])), In(_Like()), Out(out), 2, block=2)
    assert out.tolist() == [4, 6]
    get("add")(_Like(), _Like(), Out(out), 2, block=2)
    assert out.tolist() == [6, 8]


class _Like:
    def __array__(self, dtype=None, copy=None):
        return np.array([3, 4], np.float32)


def test_out_args(get):
    a, out = np.ones(4, np.float32), np.empty(4, np.float32)
    [same] = get("add")(In(a), a, Out(out), 4, block=4, out_args=True)
    assert same is out
    x, y = np.zeros(8, np.int32), np.zeros(8, np.int32)
    outputs, milliseconds = get("put")(x, InOut(y), 8, block=8, out_args=True, time_kernel=True)
    assert outputs[0] is x
    assert outputs[1] is y
    assert 0 <= milliseconds < 1e5
    assert get("put")(x, y, 8, block=8, time_kernel=True) >= 0


# ---- Values -----------------------------------------------------------------------------------------

NUMBERS = [-128, 255, -32768, 65535, -(2**31), 2**32 - 1, -(2**53), 2**53, 0.25, 0.1, True, -3]
TYPES = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64 bool int8".split()  # noqa: SIM905


def test_numbers(get):
    out = np.zeros(12)
    get("numbers")(*NUMBERS, out, block=1)
    assert out.tolist() == NUMBERS
    out[:] = 0
    get("numbers")(*(np.dtype(t).type(n) for t, n in zip(TYPES, NUMBERS, strict=True)), Out(out), block=1)
    assert out.tolist() == NUMBERS
    out[:] = 0
    get("numbers")(*(np.array(n, t) for t, n in zip(TYPES, NUMBERS, strict=True)), Out(out), block=1)
    assert out.tolist() == NUMBERS


@pytest.mark.parametrize(
    ("declared", "given", "dtype"),
    [
        ("int n", 5, "int32"),
        ("int n", True, "int32"),
        ("unsigned char n", 255, "uint8"),
        ("float a", 3, "float32"),
        ("float a", 0.1, "float32"),
        ("float a", float("inf"), "float32"),
        ("float a", float("nan"), "float32"),
        ("float a", 1e-60, "float32"),
        ("__half a", 0.5, "float16"),
        ("bool b", 1, "bool"),
        ("char c", np.uint8(200), "uint8"),
        ("long long n", np.longlong(3), "int64"),
        ("cuFloatComplex z", 1 + 2j, "complex64"),
        ("cuDoubleComplex z", 1, "complex128"),
        ("int n", np.array(5, ">i4"), "int32"),
    ],
)
def test_values(declared, given, dtype):
    assert value(declared, given) == np.array(given).astype(dtype).tobytes()


@pytest.mark.parametrize(
    ("declared", "given", "error", "words"),
    [
        ("int n", 2**31, OverflowError, "2147483648 does not fit in int32"),
        ("int n", -(2**31) - 1, OverflowError, "does not fit in int32"),
        ("unsigned n", -1, OverflowError, "-1 does not fit in uint32"),
        ("unsigned char n", 256, OverflowError, "256 does not fit"),
        ("long long n", 2**63, OverflowError, "does not fit"),
        ("long long n", 10**4000, OverflowError, "more than 50 digits"),
        ("bool n", 2, OverflowError, "does not fit in bool"),
        ("float n", 1e39, OverflowError, "1e\\+39 does not fit in float32"),
        ("float n", 10**400, OverflowError, "does not fit in float32"),
        ("__half n", 70000, OverflowError, "70000"),
        ("cuFloatComplex n", 1e39j, OverflowError, "does not fit in complex64"),
        ("int n", 1.0, TypeError, "takes a number, int32, not 1.0, of type float"),
        ("float n", 1j, TypeError, "takes a number, float32"),
        ("int n", "3", TypeError, "of type str"),
        ("int n", None, TypeError, "not a NoneType"),
        ("int n", [3], TypeError, "not a list"),
        (
            "int n",
            np.int64(3),
            TypeError,
            r"takes int32, and is given int64: convert it, as with np.int32\(...\)",
        ),
        ("int n", np.uint32(3), TypeError, "is given uint32"),
        ("int n", np.float32(3), TypeError, "is given float32"),
        ("float n", np.float64(3), TypeError, "takes float32, and is given float64"),
        ("float n", np.int32(3), TypeError, "is given int32"),
        ("size_t n", np.int64(3), TypeError, "takes uint64"),
        ("int n", np.ones(3, np.int32), TypeError, r"is a value, and takes no array of shape \(3,\)"),
        ("int n", np.ones(1, np.int32), TypeError, "takes no array of shape"),
        ("int n", In(np.ones(1, np.int32)), TypeError, "not a In"),
        ("Body n", 3, TypeError, "takes a NumPy scalar, or a structured one"),
        ("Body n", (3,), TypeError, "not a tuple"),
        ("Body n", np.array(None), TypeError, "takes no object"),
        ("float4 n", (1, 2, 3), ValueError, "takes 4 numbers"),
        ("float4 n", (1, 2, 3, "4"), TypeError, "of type str"),
        ("int2 n", (1, 2**40), OverflowError, "does not fit in int32"),
        ("float4 n", np.ones(4), TypeError, "takes 4 of float32, and is given float64"),
    ],
)
def test_values_that_are_refused(declared, given, error, words):
    with pytest.raises(error, match=rf"^k: parameter 'n' \(.*{words}"):
        value(declared, given)


def test_structs(get):
    layout = np.dtype([("x", "f4"), ("m", "f8"), ("n", "i4")], align=True)
    bodies = np.array([(1, 2, 3), (4, 5, 6)], layout)
    out = np.zeros(2)
    get("body")(bodies[0], bodies, out, block=1)
    assert out.tolist() == [6, 15]
    for given in (bodies[1:], np.array((4, 5, 6), layout), bodies[1].astype(layout.newbyteorder())):
        get("body")(given, bodies.astype(layout.newbyteorder()), out, block=1)
        assert out.tolist() == [15, 15]
    out[:] = -1
    packed = np.array((1, 2, 3), "f4,f8,i4")
    with pytest.raises(
        TypeError, match=r"parameter 'b' \(Body\) has 24 bytes, and the argument has 16: .*align=True"
    ):
        get("body")(packed, bodies, out, block=1)
    with pytest.raises(TypeError, match="has 24 bytes"):
        get("body")(np.float32(1), bodies, out, block=1)
    with pytest.raises(TypeError, match="no array of shape"):
        get("body")(bodies, bodies, out, block=1)
    assert out.tolist() == [-1, -1]


def test_vectors(get):
    out = np.zeros(3, np.float32)
    p, q = np.arange(8, dtype=np.float32).reshape(2, 4), np.arange(4, dtype=np.int32).reshape(2, 2)
    fields = np.dtype([(name, "f4") for name in "xyzw"])
    for v in ((1, 2, 3, 4), np.float32([1, 2, 3, 4]), np.array((1, 2, 3, 4), fields)):
        for given in (p, p.view(fields)[:, 0], In(p)):
            out[:] = 0
            get("vectors")(v, given, q, out, block=1)
            assert out.tolist() == [4321, 5, 2]
    with pytest.raises(
        TypeError, match=r"'p' \(const float4 \*\) takes float32 arrays whose last dimension is 4"
    ):
        get("vectors")((1, 2, 3, 4), p.reshape(-1), q, out, block=1)
    with pytest.raises(TypeError, match=r"'q' \(const int2 \*\) takes int32"):
        get("vectors")((1, 2, 3, 4), p, p, out, block=1)


# ---- Errors -----------------------------------------------------------------------------------------

F32, F64, I32 = (np.ones(4, t) for t in ("f4", "f8", "i4"))
READ_ONLY = np.ones(4, "f4")
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("declared", "make", "error", "words"),
    [
        (
            "float *n",
            lambda: F64,
            TypeError,
            r"takes float32 arrays, and the one given is of float64: convert",
        ),
        ("float *n", lambda: In(F64), TypeError, "takes float32 arrays"),
        ("float *n", lambda: Out(I32), TypeError, "of int32"),
        ("const float *n", lambda: I32, TypeError, "of int32"),
        ("int *n", lambda: np.ones(4, "u4"), TypeError, "of uint32"),
        ("float *n", lambda: READ_ONLY, ValueError, r"read-only: give a copy, or In\(array\)"),
        ("float *n", lambda: Out(READ_ONLY), ValueError, "read-only"),
        ("float *n", lambda: InOut(READ_ONLY), ValueError, "read-only"),
        ("const float *n", lambda: Out(F32), TypeError, "cannot be written by the kernel"),
        ("float *n", lambda: 3, TypeError, "is a pointer, and takes a NumPy array.*not 3, of type int"),
        ("float *n", lambda: np.float32(3), TypeError, "is a pointer"),
        ("float *n", lambda: [1.0], TypeError, "not a list"),
        ("float *n", _Like, TypeError, "not a _Like"),
        ("float *n", lambda: "text", TypeError, "of type str"),
        ("float *n", lambda: np.ma.ones(3, "f4"), TypeError, "masked"),
        ("void *n", lambda: np.array([None]), TypeError, "takes no array of object"),
        ("float **n", lambda: F32, TypeError, "points to device pointers"),
        ("Body *n", lambda: np.array(["a"], object), TypeError, "takes no array of object"),
    ],
)
def test_arrays_that_are_refused(declared, make, error, words):
    with pytest.raises(error, match=words) as caught:
        bound(declared, make())
    if "masked" not in words:
        assert str(caught.value).startswith("k: parameter 'n' (")


def test_wrapping_other_objects():
    for wrapper in (Out, InOut):
        with pytest.raises(TypeError, match=f"{wrapper.__name__} takes a NumPy array, .* not list"):
            wrapper([1, 2])
    with pytest.raises(TypeError, match="masked"):
        In(np.ma.ones(3))
    assert repr(In(np.zeros(1))) == "In(array([0.]))"


def test_nothing_is_written_where_an_argument_is_refused(get):
    x, y = np.zeros(8, np.int32), np.zeros(8, np.int32)
    for args, error, words in [
        ((x, y), TypeError, r"put takes 3 arguments \(int \*x, int \*y, int n\), and 2 were given"),
        ((x, y, 8, 9), TypeError, "and 4 were given"),
        ((x, y, 8.0), TypeError, r"put: parameter 'n' \(int\)"),
        ((InOut(x), y.astype(float), 8), TypeError, "put: parameter 'y'"),
        ((Out(x), y[:0].view("f4"), 8), TypeError, "put: parameter 'y'"),
    ]:
        with pytest.raises(error, match=words):
            get("put")(*args, block=8)
    assert not x.any()
    assert not y.any()


# ---- Variables --------------------------------------------------------------------------------------


def test_symbols(get):
    out = np.zeros(4, np.float32)
    symbols = {"coeffs": np.arange(1, 5, dtype=np.float32), "table": [1, 2, 3]}
    get("scaled")(out, block=4, symbols=symbols)
    assert out.tolist() == [1, 4, 9, 4]
    get("scaled")(out, block=4)
    assert not out.any(), "they are unchanged"
    get("scaled")(
        out, block=4, symbols={"coeffs": In(np.ones(8, "f4")[::2]), "table": np.array([1, 1], "i4")}
    )
    assert out.tolist() == [1, 1, 0, 1]


def test_symbols_that_are_refused(get):
    out = np.zeros(4, np.float32)
    for symbols, error, words in [
        (
            {"coeffs": np.ones(4)},
            TypeError,
            r"scaled: symbols\['coeffs'\] is a float variable, and the value is",
        ),
        ({"coeffs": np.ones(5, "f4")}, ValueError, "coeffs"),
        ({"table": [1.5]}, TypeError, r"symbols\['table'\] \(int\) takes a number, int32"),
        ({"table": [2**40]}, OverflowError, "does not fit"),
        ({"table": "abc"}, TypeError, "takes numbers"),
        ({"nothing": np.ones(3, "f4")}, ValueError, "nothing"),
        ({"coeffs": np.ones(0, "f4")}, TypeError, "of 0 elements"),
    ]:
        with pytest.raises(error, match=words):
            get("scaled")(out, block=4, symbols={"table": [1, 1, 1], **symbols})
    assert not out.any()


def test_isolated_calls_take_the_same(get):
    x = np.arange(8, dtype=np.float32)[::2]
    get("twice")(x, 4, block=4, isolate=True)
    assert x.tolist() == [0, 4, 8, 12]


def test_pickled_wrappers():
    import pickle

    for wrapper in (In(F32), InOut(F32), Out(F32, poison=True)):
        again = pickle.loads(pickle.dumps(wrapper))
        assert type(again) is type(wrapper)
        np.testing.assert_array_equal(again.array, F32)
    assert pk.kernels.In is In
