"""`Program`: several launches in one call."""

import functools
import pickle

import numpy as np
import pytest
from helpers.threads import run_in_threads

import pycudakit as pk
from pycudakit import Program, SourceModule, errors

RNG = np.random.default_rng(61)

SOURCE = r"""
struct Body { float x; int kind; };

__constant__ float scale;

__global__ void heat(const float *from, float *to, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i > 0 && i < n - 1) to[i] = (from[i - 1] + from[i] + from[i + 1]) / 3;
    else if (i < n) to[i] = from[i];
}
__global__ void add(double *to, const double *a, double b, long long n) {
    long long i = threadIdx.x + (long long)blockIdx.x * blockDim.x;
    if (i < n) to[i] += a[i] + b;
}
__global__ void count(int *to) { atomicAdd(to, 1); }
__global__ void scaled(float *to, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) to[i] *= scale;
}
__global__ void if_any(const int *from, int *to) { to[threadIdx.x] = from ? from[threadIdx.x] : -1; }
__global__ void move(Body *bodies, Body by, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) { bodies[i].x += by.x; bodies[i].kind += by.kind; }
}
__global__ void reversed(const int *from, int *to, int n) {
    extern __shared__ int kept[];
    kept[threadIdx.x] = from[threadIdx.x];
    __syncthreads();
    to[threadIdx.x] = kept[n - 1 - threadIdx.x];
}
"""


@functools.cache
def function(name):
    return module().get_function(name)


@functools.cache
def module():
    return SourceModule(SOURCE)


def heat_program(n, rounds):
    p = Program("heat")
    u, v = p.inout("u", n, np.float32), p.temp("v", n, np.float32)
    shape = {"block": (64, 1, 1), "grid": ((n + 63) // 64, 1)}
    with p.repeat(rounds):
        p.launch(function("heat"), u, v, np.int32(n), **shape)
        p.launch(function("heat"), v, u, n, **shape)
    return p


def heat(u, rounds):
    u = u.copy()
    for _ in range(2 * rounds):
        u[1:-1] = (u[:-2] + u[1:-1] + u[2:]) / np.float32(3)
    return u


# ---- Results ----------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize(("n", "rounds"), [(3, 1), (1000, 20), (257, 0)])
def test_ping_pong(engine, n, rounds):
    p = heat_program(n, rounds)
    u = RNG.random(n, np.float32)
    before = u.copy()
    result = p(u=u)
    assert list(result) == ["u"]
    np.testing.assert_array_equal(result["u"], heat(u, rounds))
    np.testing.assert_array_equal(u, before)
    assert not np.shares_memory(result["u"], u)


def test_each_array_goes_up_and_comes_down_once(engine):
    p = Program()
    a, total = p.input("a", 1000, np.float64), p.output("total", 1000, np.float64)
    scratch = p.temp("scratch", 1000, np.float64)
    with p.repeat(50):
        p.launch(function("add"), scratch, a, 0.0, 1000, threads=1000)
        p.launch(function("add"), total, a, 1.0, 1000, threads=1000)
    x = RNG.integers(0, 100, 1000).astype(np.float64)
    np.testing.assert_array_equal(p(a=x)["total"], 50 * (x + 1))
    call = pk.last_call()
    assert (call.function, call.engine) == ("Program", engine)
    assert (call.bytes_up, call.bytes_down) == ((8000, 8000) if engine == "cuda" else (0, 0))


@pytest.mark.smoke
def test_nested_repeats(engine):
    p = Program()
    n = p.output("n", 1, np.int32)
    with p.repeat(3):
        p.launch(function("count"), n, block=(32, 1, 1))
        with p.repeat(5):
            p.launch(function("count"), n, block=(2, 1, 1), grid=(2, 2))
            with p.repeat(0):
                p.launch(function("count"), n, block=(1024, 1, 1))
        with p.repeat(2):
            pass
    p.launch(function("count"), n, block=(1, 1, 1))
    assert p()["n"] == 3 * (32 + 5 * 8) + 1


def test_memory_begins_as_zeros_or_poison(engine):
    p = Program()
    for name, poison in (("zeros", False), ("poison", True)):
        p.output(name, (2, 3), np.uint8, poison=poison)
    temp, copy = p.temp("temp", 4, np.int32), p.output("copy", 4, np.int32)
    p.launch(function("if_any"), temp, copy, block=(4, 1, 1))
    for _ in range(2):
        result = p()
        assert list(result) == ["zeros", "poison", "copy"]
        assert not result["zeros"].any()
        assert (result["poison"] == 0xA5).all()
        assert not result["copy"].any()


def test_parts_of_buffers(engine):
    p = Program()
    a, to = p.input("a", (4, 8), np.int32), p.output("to", (3, 8), np.int32)
    p.launch(function("if_any"), a[1:], to, block=(8, 1, 1))
    p.launch(function("if_any"), a[-1], to[1][2:], block=(4, 1, 1))
    p.launch(function("if_any"), a[2:3][0][5:], to[2], block=(3, 1, 1))
    x = RNG.integers(0, 100, (4, 8), np.int32)
    expected = np.zeros((3, 8), np.int32)
    expected[0], expected[1, 2:6], expected[2, :3] = x[1], x[3, :4], x[2, 5:]
    np.testing.assert_array_equal(p(a=x)["to"], expected)
    assert [part.shape for part in a] == [(8,)] * 4
    assert (a[1:3].shape, a[1].nbytes) == ((2, 8), 32)


def test_numbers_structs_and_null_pointers(engine):
    body = np.dtype([("x", np.float32), ("kind", np.int32)])
    p = Program()
    bodies, to = p.inout("bodies", 5, body), p.output("to", 2, np.int32)
    by = np.array((0.5, 2), body)
    p.launch(function("move"), bodies, by[()], 5, threads=5)
    p.launch(function("if_any"), None, to, block=(2, 1, 1))
    given = np.array([(i, i) for i in range(5)], body)
    result = p(bodies=given)
    np.testing.assert_array_equal(result["bodies"]["x"], np.arange(5) + 0.5)
    np.testing.assert_array_equal(result["bodies"]["kind"], np.arange(5) + 2)
    np.testing.assert_array_equal(result["to"], [-1, -1])


def test_shared_memory(engine):
    p = Program()
    a, to = p.input("a", 64, np.int32), p.output("to", 64, np.int32)
    p.launch(function("reversed"), a, to, 64, block=(64, 1, 1), shared=256)
    np.testing.assert_array_equal(p(a=np.arange(64, dtype=np.int32))["to"], np.arange(64)[::-1])


def test_an_input_that_a_kernel_writes_stays_as_it_was(engine):
    p = Program()
    a, to = p.input("a", 100, np.float64), p.output("to", 100, np.float64)
    p.launch(function("add"), a, a, 1.0, 100, threads=100)
    p.launch(function("add"), to, a, 0.0, 100, threads=100)
    x = RNG.integers(0, 100, 100).astype(np.float64)
    before = x.copy()
    np.testing.assert_array_equal(p(a=x)["to"], 2 * x + 1)
    np.testing.assert_array_equal(x, before)


def test_symbols(engine):
    p = Program()
    u = p.inout("u", 10, np.float32)
    p.launch(function("scaled"), u, 10, threads=10)
    x = np.arange(10, dtype=np.float32)
    for value in (2.0, 3.0):
        given = {"scale": np.array(value, np.float32)}
        np.testing.assert_array_equal(p(u=x, symbols=given)["u"], x * value)
        np.testing.assert_array_equal(p(u=x, symbols={module(): given})["u"], x * value)
    assert not p(u=x)["u"].any()  # the value in the source
    with pytest.raises((TypeError, ValueError), match="scala"):
        p(u=x, symbols={"scala": np.float32(1)})


@pytest.mark.parametrize("layout", ["strided", "reversed", "F", "swapped", "read-only"])
def test_layouts_of_inputs(engine, layout):
    x = RNG.integers(0, 100, (6, 5)).astype(np.float64)
    given = {
        "strided": lambda: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
        "reversed": lambda: x[::-1, ::-1].copy()[::-1, ::-1],
        "F": lambda: np.asfortranarray(x),
        "swapped": lambda: x.astype(">f8"),
        "read-only": lambda: np.frombuffer(x.tobytes(), np.float64).reshape(x.shape),
    }[layout]()
    p = Program()
    a, b = p.input("a", x.shape, np.float64), p.inout("b", x.shape, np.float64)
    p.launch(function("add"), b, a, 1.0, 30, threads=30)
    np.testing.assert_array_equal(p(a=given, b=given)["b"], 2 * x + 1)


def test_out(engine):
    p = Program()
    a, to, b = (p.input("a", 30, "f8"), p.output("to", 30, "f8"), p.inout("b", 30, "f8"))
    p.launch(function("add"), to, a, 1.0, 30, threads=30)
    p.launch(function("add"), b, a, 2.0, 30, threads=30)
    x = np.arange(30.0)
    for make in (lambda: np.empty(30), lambda: np.empty(60)[::2], lambda: np.empty(30, ">f8")):
        out = {"to": make(), "b": make()}
        result = p(a=x, b=x, out=out)
        assert result["to"] is out["to"]
        assert result["b"] is out["b"]
        np.testing.assert_array_equal(out["to"], x + 1)
        np.testing.assert_array_equal(out["b"], 2 * x + 2)
    both = np.full((2, 30), 5.0)
    result = p(a=both[0], b=both[1], out={"b": both[0], "to": both[1]})  # each output overlaps an input
    np.testing.assert_array_equal(both, [np.full(30, 12.0), np.full(30, 6.0)])
    place = x.copy()
    assert p(a=x, b=place, out={"b": place})["b"] is place
    np.testing.assert_array_equal(place, 2 * x + 2)
    result = p({"a": place}, b=place, out={"to": place, "b": np.empty(30)})
    np.testing.assert_array_equal(result["to"], 2 * x + 3)
    np.testing.assert_array_equal(result["b"], 4 * x + 6)


def test_empty_buffers_and_programs(engine):
    assert Program()() == {}
    p = Program()
    a, to = p.input("a", (0, 3), np.float64), p.output("to", 0, np.float64)
    p.launch(function("add"), to, a, 1.0, 0, threads=1)
    assert p(a=np.empty((0, 3)))["to"].shape == (0,)


def test_time_kernel(engine):
    result, milliseconds = heat_program(1000, 10)(u=np.zeros(1000, np.float32), time_kernel=True)
    assert result["u"].shape == (1000,)
    assert 0 < milliseconds < 10_000


def test_same_bits_again_and_from_threads(engine):
    p = heat_program(5000, 30)
    inputs = RNG.random((8, 5000), np.float32)
    expected = [heat(u, 30) for u in inputs]
    results = [None] * len(inputs)

    def work(index):
        with pk.engine(engine):
            results[index] = p(u=inputs[index])["u"]

    run_in_threads(work, range(len(inputs)))
    for result, right in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, right)


def test_launches_and_buffers_may_be_added_after_a_call(engine):
    p = Program()
    n = p.output("n", 1, np.int32)
    for times in (1, 2):
        p.launch(function("count"), n, block=(3, 1, 1))
        p.output(f"more{times}", 2, np.int64)
        result = p()
        assert result["n"] == 3 * times
        assert result[f"more{times}"].tolist() == [0, 0]


def test_pickle(engine):
    p = heat_program(100, 3)
    u = RNG.random(100, np.float32)
    expected = p(u=u)["u"]
    again = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(again(u=u)["u"], expected)
    assert repr(again) == repr(p)


def test_repr(engine):
    assert repr(heat_program(100, 3)) == (
        "heat:\n"
        "    inout u: float32, (100,)\n"
        "    temp v: float32, (100,)\n"
        "    repeat 3:\n"
        "        heat(u, v, 100) block=(64, 1, 1) grid=(2, 1, 1)\n"
        "        heat(v, u, 100) block=(64, 1, 1) grid=(2, 1, 1)"
    )


def test_a_fault_names_the_buffer():
    """In checked sources on the CPU engine."""
    source = "__global__ void put(int *a, const int *b) { a[threadIdx.x] = b[threadIdx.x]; }"
    with pk.engine("cpu"):
        put = SourceModule(source, debug=True).get_function("put")
        p = Program()
        first, second = p.input("first", 8, np.int32), p.output("second", 8, np.int32)
        p.launch(put, second, first[4:], block=(4, 1, 1))
        assert p(first=np.arange(8, dtype=np.int32))["second"].tolist() == [4, 5, 6, 7, 0, 0, 0, 0]
        p.launch(put, second, first[4:], block=(5, 1, 1))
        with pytest.raises(errors.DeviceError, match=r"put.*first"):
            p(first=np.arange(8, dtype=np.int32))


# ---- Errors -----------------------------------------------------------------------------------------


def declared():
    p = Program()
    return p, p.input("a", 30, np.float64), p.output("to", 30, np.float64)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({1: 1.0}, TypeError, r"'a'"),
        ({2: "a"}, TypeError, r"'b'"),
        ({3: 2**63}, (OverflowError, ValueError), r"'n'"),
        ({3: "30"}, TypeError, r"'n'"),
        ({1: np.zeros(30)}, TypeError, r"'a'.*input"),
        ({4: 1}, TypeError, "takes 4 arguments.*5 were given"),
    ],
)
def test_wrong_arguments_of_a_launch(engine, change, error, match):
    p, a, to = declared()
    args = {
        0: to,
        1: a,
        2: 1.0,
        3: 30,
        **{at: a if isinstance(value, str) and value == "a" else value for at, value in change.items()},
    }
    with pytest.raises(error, match=match):
        p.launch(function("add"), *args.values(), block=(30, 1, 1))
    assert "add" not in repr(p)
    with pytest.raises(TypeError, match="float64"):
        p.launch(function("heat"), a, to, 30, block=(30, 1, 1))
    with pytest.raises(ValueError, match="'a' is another program's"):
        p.launch(function("add"), to, declared()[1], 1.0, 30, block=(30, 1, 1))
    with pytest.raises(TypeError, match="SourceModule"):
        p.launch("add", to, a, 1.0, 30, block=(30, 1, 1))


@pytest.mark.parametrize(
    ("shape", "error", "match"),
    [
        ({}, TypeError, "block"),
        ({"block": (30, 1, 1), "threads": 30}, TypeError, "threads"),
        ({"block": (2048, 1, 1)}, ValueError, "1,?024"),
        ({"block": (0, 1, 1)}, ValueError, "block"),
        ({"block": (1, 1, 1), "grid": (0, 1)}, ValueError, "grid"),
        ({"block": (1, 1, 1), "shared": -1}, ValueError, "shared"),
        ({"threads": -1}, ValueError, "threads"),
    ],
)
def test_wrong_shapes_of_a_launch(engine, shape, error, match):
    p, a, _ = declared()
    to = p.inout("sum", 30, np.float64)
    out = np.full(30, 7.0)
    with pytest.raises(error, match=match):  # noqa: PT012  (some limits are the device's)
        p.launch(function("add"), to, a, 1.0, 30, **shape)
        p(a=np.zeros(30), sum=np.zeros(30), out={"sum": out})
    assert (out == 7).all()


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({}, TypeError, "'a' is missing"),
        ({"a": np.zeros(30), "c": 1}, TypeError, "no input 'c'"),
        ({"a": np.zeros(30), "to": np.zeros(30)}, TypeError, "no input 'to'"),
        ({"a": np.zeros(31)}, ValueError, r"'a'.*\(30,\).*\(31,\)"),
        ({"a": np.zeros(30, np.float32)}, TypeError, "'a'.*float64.*float32"),
        ({"a": np.ma.zeros(30)}, TypeError, "masked"),
        ({"a": np.zeros(30), "out": {"a": np.zeros(30)}}, TypeError, "no output 'a'"),
        ({"a": np.zeros(30), "out": {"to": [0.0] * 30}}, TypeError, "to.*list"),
        ({"a": np.zeros(30), "out": {"to": np.zeros((5, 6))}}, ValueError, "to"),
        ({"a": np.zeros(30), "out": {"to": np.broadcast_to(0.0, 30)}}, ValueError, "read-only"),
    ],
)
def test_wrong_arrays_of_a_call(engine, given, error, match):
    p, a, to = declared()
    p.launch(function("add"), to, a, 1.0, 30, block=(30, 1, 1))
    with pytest.raises(error, match=match):
        p(**given)


def test_wrong_buffers():
    p, a, _ = declared()
    for name, error in (("a", ValueError), ("a b", ValueError), ("out", ValueError), (1, TypeError)):
        with pytest.raises(error, match="buffer"):
            p.temp(name, 3, np.float32)
    for shape, dtype, error in ((-1, "f4", ValueError), (3, object, TypeError), (1.5, "f4", TypeError)):
        with pytest.raises(error):
            p.temp("b", shape, dtype)
    for at in (slice(None, None, 2), 30, -31):
        with pytest.raises(IndexError, match="'a'"):
            a[at]


def test_repeat_is_checked(engine):
    p, a, to = declared()
    with pytest.raises(ValueError, match="-1"), p.repeat(-1):
        pass
    with pytest.raises(TypeError), p.repeat(1.5):
        pass
    with p.repeat(2):
        p.launch(function("add"), to, a, 1.0, 30, block=(30, 1, 1))
        with pytest.raises(ValueError, match="repeat"):
            p(a=np.zeros(30))
    assert (p(a=np.zeros(30))["to"] == 2).all()


def test_numpy_runs_no_kernels():
    p = Program()
    with pk.engine("numpy"), pytest.raises(errors.Unsupported, match="numpy"):
        p()
