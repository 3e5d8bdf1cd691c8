"""User kernels on other libraries' device arrays; test_on_device.py tests the functions of pycudakit."""

import ctypes
import threading

import numpy as np
import pytest
from helpers.device_arrays import Capsule, Held, numbers, on_a_gpu
from helpers.threads import run_in_threads
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit import In, InOut, Out, errors
from pycudakit._interop import foreign_arrays
from pycudakit._native import abi, loader
from pycudakit.kernels.running import argument_binding

MODULE = pk.SourceModule(
    """
    __global__ void axpy(double *y, const double *x, double a, int n) {
        int i = threadIdx.x + blockIdx.x * blockDim.x;
        if (i < n) y[i] += a * x[i];
    }
    __global__ void reverse_copy(double *y, const double *x, int n) {
        int i = threadIdx.x + blockIdx.x * blockDim.x;
        if (i < n) y[i] = x[n - 1 - i];
    }
    __global__ void add_and_overwrite(double *sums, double *x, int n) {
        int i = threadIdx.x + blockIdx.x * blockDim.x;
        if (i >= n) return;
        sums[i] += x[i];
        x[i] = -1;
    }
    __constant__ double factor;
    __global__ void scaled(double *y, int n) {
        int i = threadIdx.x + blockIdx.x * blockDim.x;
        if (i < n) y[i] *= factor;
    }
    """
)
KERNELS = ["axpy", "reverse_copy", "add_and_overwrite", "scaled"]
AXPY, REVERSE_COPY, ADD_AND_OVERWRITE, SCALED = map(MODULE.get_function, KERNELS)
# All launches of a module that contains printf are synchronized.
PRINTING = pk.SourceModule(
    """
    __global__ void print_first(const double *x) { printf("%g", x[0]); }
    __global__ void increment(double *x) { x[threadIdx.x] += 1; }
    """
)
PRINT_FIRST, INCREMENT = map(PRINTING.get_function, ["print_first", "increment"])
SIZE = 10_007
OUT = np.full(3, 7.0)


def program():
    p = pk.Program("tripled")
    x, half, y = p.input("x", 3, float), p.temp("half", 3, float), p.output("y", 3, float)
    p.launch(AXPY, half, x, 1.0, 3, threads=3)
    p.launch(AXPY, y, half, 3.0, 3, threads=3)
    return p


# ---- Refusals, which need no GPU ----------------------------------------------------------------------

ELEMENTS = pk.ElementwiseKernel("double *z, const double *x", "z[i] = x[i]")
TOTAL = pk.ReductionKernel(np.float64, "0", "a+b")
SCAN = pk.InclusiveScanKernel(np.float64, "a+b")
CALLS = {
    "bare": lambda x: AXPY.launch(3, OUT, x, 1.0, 3),
    "In": lambda x: AXPY.launch(3, OUT, In(x), 1.0, 3),
    "Out": lambda x: AXPY.launch(3, Out(x), OUT, 1.0, 3),
    "InOut": lambda x: AXPY.launch(3, InOut(x), OUT, 1.0, 3),
    "program": lambda x: program()(x=x),
    "elements": lambda x: ELEMENTS(OUT, x),
    "reduction": TOTAL,
}


@pytest.mark.parametrize("make", [Held, Capsule])
@pytest.mark.parametrize("name", CALLS)
def test_without_a_gpu(name, make):
    with pk.engine("cpu"), pytest.raises(errors.Unsupported, match=r"on a GPU.*to the host first") as caught:
        CALLS[name](make())
    assert make.__name__ in str(caught.value)
    assert (OUT == 7).all()


def test_the_cpu_library_refuses_device_buffers():
    run = np.zeros(1, abi.RUN)
    buffers = np.zeros(1, abi.BUFFER)
    buffers["address"], buffers["bytes"], buffers["flags"] = OUT.ctypes.data, OUT.nbytes, abi.ON_DEVICE
    run["buffers"], run["buffer_count"] = buffers.ctypes.data, 1
    options, report, length = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT), ctypes.c_int64()
    with pytest.raises(
        errors.Unsupported, match="the CPU library has no devices: copy the array to the host"
    ):
        loader.library("cpu").pk_run_kernels(
            run, np.zeros(8, np.uint8), 8, ctypes.byref(length), options, report
        )
    buffers["address"] = 0
    with pytest.raises(errors.InvalidArgument, match="a buffer's address is a null pointer"):
        loader.library("cpu").pk_run_kernels(
            run, np.zeros(8, np.uint8), 8, ctypes.byref(length), options, report
        )


# ---- Binding of arguments, which needs no GPU either ---------------------------------------------------


@pytest.fixture
def accept_device_arrays(monkeypatch):
    """Accept device arrays without a GPU; binding does not access their memory."""
    monkeypatch.setattr(foreign_arrays, "can_use_device_arrays", lambda: True)


def bound(function, *args):
    return argument_binding.bind(function.signature, argument_binding.slots_of(function.signature), args)


def flags(found):
    return [flag - abi.ON_DEVICE for _, _, _, flag, *_ in found.buffers]


AT = 1 << 40
UP, DOWN, POISON, CONSTANT = abi.BUFFER_UPLOAD, abi.BUFFER_DOWNLOAD, abi.BUFFER_POISON, abi.BUFFER_CONSTANT


def test_buffers_of_device_arrays(accept_device_arrays):
    y, x = Held(stream=77), Held(data=(AT + 4096, False))
    found = bound(AXPY, y, x, 1.0, 3)
    assert [each[:3] for each in found.buffers] == [(AT, 77, 24), (AT + 4096, 1, 24)]
    assert flags(found) == [UP | DOWN, UP | CONSTANT]
    assert found.outputs == [y]
    assert found.has_device_arrays
    assert not bound(AXPY, OUT, OUT, 1.0, 3).has_device_arrays


def test_buffer_flags_of_in_out_and_inout(accept_device_arrays):
    y, x = Held(), Held(data=(AT + 4096, False))
    assert flags(bound(AXPY, Out(y), In(x), 1.0, 3)) == [DOWN, UP | CONSTANT]
    assert flags(bound(AXPY, Out(y, poison=True), x, 1.0, 3)) == [DOWN | POISON, UP | CONSTANT]
    assert flags(bound(AXPY, InOut(y), x, 1.0, 3)) == [UP | DOWN, UP | CONSTANT]
    assert flags(bound(AXPY, In(y), x, 1.0, 3)) == [UP, UP | CONSTANT]  # the kernel gets a copy


def test_input_that_overlaps_an_output_is_copied(accept_device_arrays):
    x = Held()
    assert flags(bound(REVERSE_COPY, Out(x), In(x), 3)) == [DOWN, UP]
    assert flags(bound(REVERSE_COPY, Out(x), Held(data=(AT + 16, False)), 3)) == [DOWN, UP]
    assert flags(bound(REVERSE_COPY, Out(x), Held(data=(AT + 24, False)), 3)) == [DOWN, UP | CONSTANT]


READONLY = {"data": (AT, True)}
REFUSED = {
    "type": ({"typestr": "<f4"}, TypeError, r"'y' \(double \*\) takes float64 arrays.*is of float32"),
    "swapped": ({"typestr": ">f8"}, errors.Unsupported, r"'y'.*swapped, of '>f8': convert it first"),
    "strided": (
        {"strides": (16,)},
        errors.Unsupported,
        r"'y'.*must be C-contiguous.*strides \(16,\): give a copy in C order",
    ),
    "transposed": (
        {"shape": (2, 3), "strides": (8, 16)},
        errors.Unsupported,
        r"'y'.*strides \(8, 16\): give a copy in C order",
    ),
    "read-only": (READONLY, ValueError, r"'y'.*is written by the kernel, and the array given is read-only"),
    "freed": ({"data": (0, False)}, errors.InvalidArgument, r"'y'.*at a null pointer"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_device_arrays(accept_device_arrays, case):
    changes, kind, text = REFUSED[case]
    with pytest.raises(kind, match=text):
        bound(AXPY, Held(**changes), OUT, 1.0, 3)


def test_accepted_device_arrays(accept_device_arrays):
    assert flags(bound(AXPY, Held(), Held(data=(AT + 4096, True)), 1.0, 3)) == [UP | DOWN, UP | CONSTANT]
    one = Held(shape=(1, 3, 1), strides=(1, 8, 5))  # strides of axes of length 1 do not matter
    assert flags(bound(AXPY, one, OUT, 1.0, 3))[0] == UP | DOWN
    assert bound(AXPY, Held(shape=(0,), data=(0, False)), OUT, 1.0, 0).has_device_arrays


def test_device_array_for_a_scalar_parameter(accept_device_arrays):
    with pytest.raises(TypeError, match="parameter 'n'"):
        bound(AXPY, OUT, OUT, 1.0, Held())


def test_isolated_calls_refuse_device_arrays(engine, accept_device_arrays):
    for how in ({"isolate": True}, {"timeout": 9}):
        with pytest.raises(errors.Unsupported, match="axpy: an array is on a GPU, and a helper process"):
            AXPY.launch(3, Held(), OUT, 1.0, 3, **how)
        with pytest.raises(errors.Unsupported, match="tripled: an array is on a GPU, and a helper"):
            program()(x=Held(), **how)


def test_programs_check_device_arrays(engine, accept_device_arrays):
    p = program()
    with pytest.raises(TypeError, match="the input 'x' is declared as float64, and the array is float32"):
        p(x=Held(typestr="<f4"))
    with pytest.raises(ValueError, match=r"the output 'y' is declared with the shape \(3,\)"):
        p(x=OUT, out={"y": Held(shape=(4,))})
    with pytest.raises(ValueError, match=r"tripled: out\['y'\] is read-only"):
        p(x=OUT, out={"y": Held(**READONLY)})
    q = pk.Program("changed")
    q.launch(AXPY, q.inout("x", 3, float), None, 1.0, 0, threads=3)
    for given, out in ((Held(), None), (Held(), {"x": OUT}), (OUT, {"x": Held()})):
        with pytest.raises(errors.Unsupported, match="changed: kernels update the inout 'x' in place"):
            q(x=given, out=out)


# ---- On a GPU -------------------------------------------------------------------------------------------


def moved():
    return pk.last_call().bytes_up, pk.last_call().bytes_down


@on_a_gpu
def test_kernel_without_transfers(library):
    x, y = numbers(SIZE), numbers(SIZE)[::-1].copy()
    a, b = library.up(x), library.up(y)
    assert AXPY.launch(SIZE, b, a, 2.0, SIZE) is None
    assert moved() == (0, 0)
    assert (pk.last_call().function, pk.last_call().engine) == ("axpy", "cuda")
    assert_array_equal(library.down(b), y + 2 * x)
    assert_array_equal(library.down(a), x)
    assert AXPY(b, a, -2.0, SIZE, block=(128, 1, 1), grid=(79, 1), out_args=True) == (b,)
    assert_array_equal(library.down(b), (y + 2 * x) - 2 * x)


@on_a_gpu
def test_outs_begin_as_zeros(library):
    x = numbers(SIZE)
    a, b = library.up(x), library.up(np.full(SIZE, 9.0))
    AXPY.launch(SIZE, Out(b), a, 1.0, SIZE)
    assert moved() == (0, 0)
    assert_array_equal(library.down(b), x)
    AXPY.launch(SIZE, Out(b, poison=True), a, 0.0, SIZE)
    assert_array_equal(library.down(b), np.frombuffer(b"\xa5" * 8, np.float64)[0] + np.zeros(SIZE))


@on_a_gpu
def test_ins_are_not_changed(library):
    x = numbers(SIZE)
    a, seen = library.up(x), library.up(np.zeros(SIZE))
    for _ in range(2):
        ADD_AND_OVERWRITE.launch(SIZE, seen, In(a), SIZE)
    assert moved() == (0, 0)
    assert_array_equal(library.down(a), x)
    assert_array_equal(library.down(seen), 2 * x)


@on_a_gpu
def test_one_array_as_input_and_output(library):
    x = numbers(SIZE)
    a = library.up(x)
    REVERSE_COPY.launch(SIZE, Out(a), In(a), SIZE)
    assert_array_equal(library.down(a), x[::-1])
    REVERSE_COPY.launch(SIZE, a, a, SIZE)
    assert_array_equal(library.down(a), x)


@on_a_gpu
def test_device_and_host_arrays_together(library):
    x, y = numbers(SIZE), np.zeros(SIZE)
    a = library.up(x)
    AXPY.launch(SIZE, y, a, 1.0, SIZE)
    assert_array_equal(y, x)
    AXPY.launch(SIZE, a, y, 1.0, SIZE)
    assert pk.last_call().bytes_down == 0
    assert_array_equal(library.down(a), 2 * x)
    large = np.ones(3_000_000)
    b = library.up(large)
    AXPY.launch(large.size, b, large, 1.0, large.size)
    assert_array_equal(library.down(b), 2 * large)


@on_a_gpu
def test_symbols_timing_and_printf(library, capsys):
    x = numbers(SIZE)
    a = library.up(x)
    AXPY.launch(SIZE, a, library.up(x), 1.0, SIZE)  # enqueued before the symbol is set
    SCALED.launch(SIZE, a, SIZE, symbols={"factor": 0.5})
    assert_array_equal(library.down(a), x)
    assert AXPY.launch(SIZE, a, a, 1.0, SIZE, time_kernel=True) > 0
    with pk.engine("cuda", wait=True):
        AXPY.launch(SIZE, a, a, 0.0, SIZE)
    PRINT_FIRST(a, block=1)
    assert capsys.readouterr().out == f"{2 * x[0]:g}"


@on_a_gpu
def test_empty_arrays(library):
    a = library.up(np.zeros(0))
    AXPY(a, a, 1.0, 0, block=32)
    AXPY.launch(0, a, a, 1.0, 0)


@on_a_gpu
def test_programs(library):
    x = np.arange(3.0)
    a = library.up(x)
    kind = type(a)
    got = program()(x=a)["y"]
    assert type(got) is kind
    assert moved() == (0, 0)
    assert_array_equal(library.down(got), 3 * x)
    out = library.up(np.full(3, 9.0))
    assert program()(x=x, out={"y": out})["y"] is out
    assert_array_equal(library.down(out), 3 * x)
    host = np.zeros(3)
    assert program()(x=a, out={"y": host})["y"] is host
    assert_array_equal(host, 3 * x)
    q = pk.Program()
    u, n = q.inout("u", 3, float), 3
    with q.repeat(100):
        q.launch(ADD_AND_OVERWRITE, u, q.temp("t", 3, float), n, threads=n)
    assert q(u=a, out={"u": a})["u"] is a
    assert_array_equal(library.down(a), x - 99)


@on_a_gpu
def test_program_with_one_array_as_input_and_output(library):
    p = pk.Program()
    p.launch(REVERSE_COPY, p.output("y", SIZE, float), p.input("x", SIZE, float), SIZE, threads=SIZE)
    x = numbers(SIZE)
    a = library.up(x)
    p(x=a, out={"y": a})
    assert_array_equal(library.down(a), x[::-1])


@on_a_gpu
def test_kernel_generators(library):
    x = numbers(SIZE)
    a, b = library.up(x), library.up(np.zeros(SIZE))
    ELEMENTS(b, a)
    assert moved() == (0, 0)
    assert_array_equal(library.down(b), x)
    total = TOTAL(a)
    assert pk.last_call().bytes_up == 0
    assert total == TOTAL(x)
    got = SCAN(a, "new")
    assert type(got) is type(a)
    assert_array_equal(library.down(got), SCAN(x, "new"))
    assert SCAN(a) is a
    assert_array_equal(library.down(a), SCAN(x, "new"))


@on_a_gpu
def test_host_address_in_a_device_array():
    with pk.engine("cuda"), pytest.raises(errors.InvalidArgument, match="not in memory of a device"):
        AXPY.launch(3, Held(data=(OUT.ctypes.data, False)), OUT, 1.0, 3)
    assert (OUT == 7).all()


@on_a_gpu
@pytest.mark.parametrize("waits", [False, True])
def test_launches_synchronize_only_with_wait(waits):
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda"):
        pytest.skip("the fake GPU has no streams")
    stream, gate = cupy.cuda.Stream(non_blocking=True), threading.Event()
    with pk.engine("cuda", wait=waits), stream:
        a, b = cupy.ones(1000), cupy.ones(1000)
        AXPY.launch(1000, a, b, 1.0, 1000)
        stream.synchronize()
        stream.launch_host_func(lambda _: gate.wait(20), None)  # the stream is blocked until the gate opens
        if waits:
            threading.Timer(0.2, gate.set).start()
        AXPY.launch(1000, a, b, 1.0, 1000)
        assert gate.is_set() == waits
        gate.set()
        assert (cupy.asnumpy(a) == 3).all()


@on_a_gpu
def test_stream_order():
    """Work enqueued before a call is done before its kernel reads, whether the call synchronizes or not."""
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda"):
        pytest.skip("the fake GPU has no streams")
    size, host = 1 << 22, np.zeros(1 << 22)
    with pk.engine("cuda"):
        for target in (None, host):
            stream = cupy.cuda.Stream(non_blocking=True)
            with stream:
                a = cupy.zeros(size)
                for _ in range(200):
                    a += 1
                got = cupy.zeros(size) if target is None else target
                AXPY.launch(size, got, a, 1.0, size)
                a -= 200
                stream.synchronize()
            assert (cupy.asnumpy(got) == 200).all()


@on_a_gpu
def test_two_streams():
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda"):
        pytest.skip("the fake GPU has no streams")
    size = 1 << 22
    torch = pytest.importorskip("torch")
    with pk.engine("cuda"):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            a = torch.zeros(size, dtype=torch.float64, device="cuda")
            for _ in range(200):
                a += 1
            b = cupy.ones(size)
            AXPY.launch(size, b, a, 1.0, size)
        assert (cupy.asnumpy(b) == 201).all()


@on_a_gpu
def test_threads(library):
    x, wrong = numbers(SIZE), []
    a = library.up(x)

    def work(k):
        with pk.engine("cuda"):
            for _ in range(20):
                b = library.up(x)
                AXPY.launch(SIZE, b, a, float(k), SIZE)
                if not (library.down(b) == x + k * x).all():
                    wrong.append(k)

    run_in_threads(work, range(16))
    assert not wrong


@on_a_gpu
def test_captured_in_a_graph():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU for PyTorch")
    with pk.engine("cuda"):
        a, b = (torch.ones(1000, dtype=torch.float64, device="cuda") for _ in range(2))
        AXPY.launch(1000, a, b, 1.0, 1000)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            AXPY.launch(1000, a, b, 1.0, 1000)
        b.fill_(4.0)
        graph.replay()
        torch.cuda.synchronize()
        assert (a == 6).all()


@on_a_gpu
def test_refused_captures():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU for PyTorch")
    with pk.engine("cuda"):
        a, b = (torch.full((4,), x, dtype=torch.float64, device="cuda") for x in (1.0, 2.0))
        INCREMENT(a, block=4)
        AXPY(torch.zeros_like(a), b, 1.0, 4, block=4)  # loads it
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            with pytest.raises(errors.Unsupported, match=r"cannot be captured .*kernels that do not print"):
                INCREMENT(a, block=4)
            with pytest.raises(errors.Unsupported, match=r"cannot be captured .*without time_kernel"):
                AXPY(a, b, 1.0, 4, block=4, time_kernel=True)
            with pytest.raises(
                errors.Unsupported, match=r"captured .*none of them written through another parameter"
            ):
                AXPY(a, a, 1.0, 4, block=4)  # it would read a copy
            AXPY(a, b, 1.0, 4, block=4)
        graph.replay()
        torch.cuda.synchronize()
        assert (a == 4).all()
