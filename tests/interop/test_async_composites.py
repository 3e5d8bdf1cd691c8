"""Functions of several kernels on device arrays are asynchronous: they return once all are enqueued."""

import contextlib
import gc
import threading
import warnings

import numpy as np
import pytest
from helpers.calls_on_device import CALLS, LOOKS_AT, arrays_of, parts_of
from helpers.device_arrays import on_a_gpu
from helpers.threads import run_in_threads
from numpy.testing import assert_allclose, assert_array_equal

import pycudakit as pk
from pycudakit import errors

pytestmark = on_a_gpu

QUEUED = [name for name in CALLS if not LOOKS_AT.match(name)]


@pytest.fixture
def cupy():
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda"):
        pytest.skip("the fake GPU has no streams")
    with pk.engine("cuda"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield cupy


@contextlib.contextmanager
def held_up(stream):
    """Block a stream until the end of the `with`, or for 15 seconds; yield a check that it is blocked."""
    gate = threading.Event()
    stream.synchronize()
    stream.launch_host_func(lambda _: gate.wait(20), None)
    timer = threading.Timer(15, gate.set)
    timer.start()
    try:
        yield lambda: not gate.is_set() and not stream.done
    finally:
        gate.set()
        timer.cancel()


def check(cupy, got, want):
    for one, other in zip(parts_of(got), parts_of(want), strict=True):
        assert_array_equal(cupy.asnumpy(one), cupy.asnumpy(other), strict=True)


@pytest.mark.parametrize("name", QUEUED)
def test_nothing_waits_for_the_host(cupy, name):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        first, again = ({key: cupy.asarray(x) for key, x in arrays_of(CALLS[name]).items()} for _ in range(2))
        want = CALLS[name](**first)
        with held_up(stream) as is_held_up:
            got = CALLS[name](**again)
            assert is_held_up()
        check(cupy, got, want)
        check(cupy, tuple(again.values()), tuple(first.values()))


@pytest.mark.parametrize("name", ["sort", "median axis", "nanmax", "compress", "weighted average"])
def test_who_is_to_wait_does(cupy, name):
    stream = cupy.cuda.Stream(non_blocking=True)
    arrays = {key: cupy.asarray(x) for key, x in arrays_of(CALLS[name]).items()}
    with stream, pk.engine("cuda", wait=True):
        CALLS[name](**arrays)
        assert stream.done


def standardise(x):
    return (x - x.mean()) / x.std()


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("shape", [(1100, 1050, 1200), (1024, 5000, 1024)])
def test_infinities_are_multiplied_as_they_are(cupy, bad, shape):
    """Large float32 products are split into parts; infinities have no parts, and are not checked for."""
    rng, (m, k, n) = np.random.default_rng(8), shape
    a, b = (rng.standard_normal(each).astype(np.float32) for each in ((m, k), (k, n)))
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, np.errstate(invalid="ignore"):
        there = [cupy.asarray(each) for each in (a, b)]
        fine = pk.matmul(*there)
        a[3, 7] = bad
        there[0][3, 7] = bad
        with held_up(stream) as is_held_up:
            got = pk.matmul(*there)
            assert is_held_up()
        got, want = cupy.asnumpy(got), a @ b
    assert_allclose(got, want, rtol=1e-3, atol=1e-3)
    assert_array_equal(np.isfinite(got[3]), np.isfinite(want[3]))
    assert_allclose(cupy.asnumpy(fine)[4:], want[4:], rtol=1e-3, atol=1e-3)


def test_a_stream_does_not_wait_for_another(cupy):
    """Memory that one stream still uses is not reused in another."""
    held, free = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    function = pk.fuse(standardise)
    x, y = (np.random.default_rng(n).random(1_000_000) for n in range(2))
    wants = [function(each) for each in (x, y)]
    with held:
        a = cupy.asarray(x)
        function(a)
    with free:
        b = cupy.asarray(y)
    free.synchronize()
    with held_up(held) as is_held_up:
        with held:
            first = [function(a) for _ in range(3)]
        with free:
            others = [function(b) for _ in range(3)]
        free.synchronize()
        assert is_held_up()
        check(cupy, tuple(others), (wants[1],) * 3)
    held.synchronize()
    check(cupy, tuple(first), (wants[0],) * 3)


def test_steps_follow_earlier_work(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        a = cupy.zeros(500_000)
        pk.sort(a)
        with held_up(stream):
            a += cupy.arange(500_000)[::-1]
            got = pk.sort(a), pk.median(pk.sort(a)[::2])
        assert_array_equal(cupy.asnumpy(got[0]), np.arange(500_000.0))
        assert cupy.asnumpy(got[1]) == 249_999


def test_many_threads(cupy):
    function, wrong = pk.fuse(standardise), []
    values = np.random.default_rng(5).random((16, 100_000))
    wants = [function(x) for x in values]

    def work(number):
        with pk.engine("cuda"), cupy.cuda.Stream(non_blocking=True):
            a = cupy.asarray(values[number])
            for _ in range(20):
                got = function(a), pk.sort(a)
            if not (cupy.asnumpy(got[0]) == wants[number]).all():
                wrong.append(number)
            if not (cupy.asnumpy(got[1]) == np.sort(values[number])).all():
                wrong.append(number)

    run_in_threads(work, range(16))
    assert not wrong


def test_the_memory_goes_back(cupy):
    """However many calls are enqueued, plans take no more memory than a few calls need."""
    a, function = cupy.random.random(4_000_000), pk.fuse(standardise)
    function(a)
    cupy.cuda.runtime.deviceSynchronize()
    before = pk.memory_info()
    for _ in range(200):
        function(a), pk.sort(a)
    cupy.cuda.runtime.deviceSynchronize()
    after = pk.memory_info()
    assert after.plan_bytes <= before.plan_bytes + 5 * a.nbytes


def test_calls_in_a_graph():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU for PyTorch")
    passes, few = pk.fuse(lambda x: (x * 2 + 1, x - 1)), pk.sort
    with pk.engine("cuda"):
        a = torch.arange(1000.0, device="cuda").flip(0).contiguous()
        passes(a), few(a)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            doubled, less = passes(a)
            ordered = few(a)
        a.mul_(3)
        graph.replay()
        torch.cuda.synchronize()
        assert doubled[0].item() == 5995
        assert less[0].item() == 2996
        assert ordered[1].item() == 3


@pytest.mark.parametrize(
    "call", [pk.fuse(standardise), pk.median, pk.nanmax], ids=["steps", "median", "nanmax"]
)
def test_calls_that_a_graph_cannot_have(call):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU for PyTorch")
    with pk.engine("cuda"):
        a = torch.rand(100_000, device="cuda")
        want = call(a)
        gc.collect()  # the end of another test's graph would end the capture
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            b = a * 2
            with pytest.raises(errors.Unsupported, match="cannot be captured in a CUDA graph"):
                call(a)
        graph.replay()
        torch.cuda.synchronize()
        assert (b == a * 2).all()
        got = call(a)
        assert torch.equal(torch.nan_to_num(got), torch.nan_to_num(want))


def test_others_are_waited_for():
    """Calls synchronize for libraries that do not free memory in stream order."""
    jax, cupy = pytest.importorskip("jax"), pytest.importorskip("cupy")
    if jax.default_backend() != "gpu":
        pytest.skip("no GPU for JAX")
    with pk.engine("cuda"):
        x = jax.numpy.arange(100_000.0)
        out = cupy.empty(100_000, np.float32)
        pk.cumsum(x * 2, out=out)
        assert cupy.cuda.get_current_stream().done
        assert_array_equal(cupy.asnumpy(out)[:3], [0.0, 2.0, 6.0])
