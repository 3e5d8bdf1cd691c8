"""Single calls on device arrays are asynchronous: they return once they are enqueued."""

import threading

import numpy as np
import pytest
from helpers.device_arrays import on_a_gpu
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit.fusing.memory import background_jit

ROW, COLUMN = np.arange(1.0, 71), np.arange(60.0)[:, None]

QUEUED = {
    "broadcast": lambda up: pk.multiply(up(ROW), up(COLUMN)),
    "a number first": lambda up: pk.subtract(2, up(ROW)),
    "integers and a float": lambda up: pk.add(up(np.arange(70)), 0.5),
    "of two types": lambda up: pk.power(up(ROW.astype(np.float32)), up(np.arange(70, dtype=np.int16) % 3)),
    "float16": lambda up: pk.sqrt(up(ROW.astype(np.float16))),
    "one element": lambda up: pk.add(up(np.array(2.0)), up(ROW)),
    "where": lambda up: pk.where(up(ROW > 9), up(ROW), 0.0),
    "into another type": lambda up: pk.add(up(ROW), 1.0, out=up(np.zeros(70, np.float32))),
    "into a broadcast result": lambda up: pk.add(up(ROW), up(COLUMN), out=up(np.zeros((60, 70)))),
    "expression": lambda up: pk.evaluate("(a - b)**2 / 3 + sin(a)", {"a": up(ROW), "b": up(COLUMN)}),
    "expression with numbers": lambda up: pk.evaluate("x if x > k else -x", {"x": up(ROW), "k": 30}),
}


@on_a_gpu
@pytest.mark.parametrize("name", QUEUED)
def test_queued(library, name):
    want = QUEUED[name](np.array)
    for _ in range(2):  # the second call uses the prepared call
        got = QUEUED[name](library.up)
        assert_array_equal(library.down(got), want, strict=True)
    assert (pk.last_call().engine, pk.last_call().bytes_up, pk.last_call().bytes_down) == ("cuda", 0, 0)


@on_a_gpu
def test_reductions_and_scans_are_captured():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU for PyTorch")
    with pk.engine("cuda"):
        a = torch.ones(20_000_000, device="cuda")
        pk.sum(a), pk.cumsum(a)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            total, running = pk.sum(a), pk.cumsum(a)
        a.fill_(2.0)
        graph.replay()
        torch.cuda.synchronize()
        assert total.item() == 40_000_000
        assert running[-1].item() == 40_000_000
        assert running[9].item() == 20


@on_a_gpu
@pytest.mark.parametrize("name", ["sum", "cumsum", "fuse"])
def test_other_enqueued_calls(name):
    """Calls do not synchronize: they return although the stream is blocked."""
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda"):
        pytest.skip("the fake GPU has no streams")
    stream, gate = cupy.cuda.Stream(non_blocking=True), threading.Event()
    call = {"sum": pk.sum, "cumsum": pk.cumsum, "fuse": pk.fuse(lambda x: x * 2 + 1)}[name]
    with pk.engine("cuda"), stream:
        a = cupy.ones(100_000)
        want = cupy.asnumpy(call(a))
        stream.synchronize()
        stream.launch_host_func(lambda _: gate.wait(20), None)  # the stream is blocked until the gate opens
        got = call(a)
        assert not stream.done
        gate.set()
        assert (cupy.asnumpy(got) == want).all()


@on_a_gpu
def test_queued_passes_are_compiled(library):
    """The bits stay the same when the compiled kernel replaces the interpreter."""
    x = np.random.default_rng(0).standard_normal(1 << 22).astype(np.float32)
    a = library.up(x)
    want = pk.evaluate("tanh(a) * a + exp(-a*a)", {"a": x})
    for _ in range(40):
        got = pk.evaluate("tanh(a) * a + exp(-a*a)", {"a": a})
    background_jit.wait()
    again = pk.evaluate("tanh(a) * a + exp(-a*a)", {"a": a})
    assert_array_equal(library.down(got), want)
    assert_array_equal(library.down(again), want)


@on_a_gpu
@pytest.mark.parametrize("call", [lambda a: pk.add(a, 1.0), pk.sum, pk.cumsum], ids=["add", "sum", "cumsum"])
@pytest.mark.parametrize("waits", [False, True])
def test_nothing_waits_for_the_host(waits, call):
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda"):
        pytest.skip("the fake GPU has no streams")
    stream, gate = cupy.cuda.Stream(non_blocking=True), threading.Event()
    with pk.engine("cuda", wait=waits), stream:
        a = cupy.ones(1000)
        want = cupy.asnumpy(call(a))
        stream.synchronize()
        stream.launch_host_func(lambda _: gate.wait(20), None)  # the stream is blocked until the gate opens
        if waits:
            threading.Timer(0.2, gate.set).start()
        got = call(a)
        assert gate.is_set() == waits
        assert waits or not stream.done
        gate.set()
        assert (cupy.asnumpy(got) == want).all()


@on_a_gpu
def test_the_order_in_pytorchs_streams():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU for PyTorch")
    with pk.engine("cuda"):
        for function in (pk.add, pk.cumsum):  # one is asynchronous, the other synchronizes
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                a = torch.zeros(1 << 24, device="cuda")
                for _ in range(300):
                    a += 1
                got = function(a, 1.0) if function is pk.add else function(a)
                a -= 300
            stream.synchronize()
            assert got[0].item() == (301 if function is pk.add else 300)
            assert got[-1].item() == (301 if function is pk.add else 300 * 2.0**24)


@on_a_gpu
def test_captured_in_a_graph():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU for PyTorch")
    with pk.engine("cuda"):
        a, b = torch.ones(1000, device="cuda"), torch.ones(1000, device="cuda")
        pk.add(a, b)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            c = pk.multiply(pk.add(a, b), 3.0)
        a.fill_(4.0)
        graph.replay()
        torch.cuda.synchronize()
        assert (c == 15).all()
