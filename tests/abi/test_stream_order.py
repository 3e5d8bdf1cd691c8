"""Order between streams, with a kernel that is slow on purpose: work and reused memory wait for it."""

import itertools
import threading
import time

import numpy as np
import pytest
from helpers.residency import LARGE, Scope, numbers

import pycudakit as pk
from pycudakit.fusing.memory import background_jit
from pycudakit.kernels.compiling import cache

SLOW = r"""
extern "C" __global__ void slow(long long milliseconds) {
    long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < milliseconds * 1000000);
}
"""
MILLISECONDS = 300


class Streams:
    """Two streams of the caller, and a kernel that keeps one busy."""

    def __init__(self):
        self._cupy = pytest.importorskip("cupy")
        self._slow = self._cupy.RawKernel(SLOW, "slow")
        self.first, self.second = (self._cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        self.keep_busy(self.first, 0)  # compiles it
        self.first.synchronize()

    def keep_busy(self, stream, milliseconds=MILLISECONDS):
        with stream:
            self._slow((1,), (1,), (np.int64(milliseconds),))

    def wait(self):
        self.first.synchronize()
        self.second.synchronize()


@pytest.fixture
def streams(scope):
    if not scope.is_cuda:
        pytest.skip("it has no streams")
    streams = Streams()
    yield streams
    streams.wait()


def test_calls_return_before_the_slow_kernel(scope, streams):
    """Otherwise the other tests would test nothing."""
    x = numbers(LARGE)

    def body():
        scope.library.pk_residency_set_stream(streams.first.ptr)
        a, t = scope.keep(x), scope.temporary(LARGE)
        scope.evaluate("add", t, a, a)
        scope.evaluate("add", t, a, a)
        streams.first.synchronize()
        streams.keep_busy(streams.first)
        began = time.perf_counter()
        scope.evaluate("add", t, a, a)
        assert time.perf_counter() - began < MILLISECONDS / 2000
        assert not streams.first.done

    scope.run(body)


@pytest.mark.parametrize("outer", ["first", None])
def test_nested_plans_are_ordered(scope, streams, outer):
    """An inner scope, on another stream, reads results of the outer one, and the other way round."""
    x = numbers(LARGE)
    result = np.zeros(LARGE, np.float32)

    def body():
        a, t, u, v, w = scope.keep(x), *(scope.temporary(LARGE) for _ in range(4))
        for each in (t, u, v, w):
            scope.evaluate("add", each, a, a)
        if outer is not None:
            scope.library.pk_residency_set_stream(streams.first.ptr)
            streams.keep_busy(streams.first)
        scope.evaluate("add", t, u, a)  # 3 x

        def inner():
            scope.library.pk_residency_set_stream(streams.second.ptr)
            scope.evaluate("add", u, t, t)  # 6 x
            streams.keep_busy(streams.second)
            scope.evaluate("add", v, u, t)  # 9 x

        scope.run(inner)
        scope.evaluate("add", w, v, a)  # 10 x
        scope.library.pk_residency_set_stream(0)
        scope.fetch(w)
        result[:] = w

    scope.run(body)
    np.testing.assert_array_equal(result, 10 * x)


@pytest.mark.parametrize("other", ["second", None])
def test_memory_is_reused_in_order(scope, streams, other):
    """Memory that was dropped while its stream is busy is not written to by another thread's scope."""
    x, result = numbers(LARGE), np.zeros(LARGE, np.float32)

    def take_the_memory():
        other_scope = Scope("cuda")

        def body():
            if other is not None:
                other_scope.library.pk_residency_set_stream(streams.second.ptr)
            b, c = other_scope.keep(numbers(LARGE)), other_scope.temporary(LARGE)
            for _ in range(10):
                other_scope.evaluate("subtract", c, b, b)

        with pk.engine("cuda"):
            other_scope.run(body)

    def body():
        scope.library.pk_residency_set_stream(streams.first.ptr)
        a, t, u = scope.keep(x), scope.temporary(LARGE), scope.temporary(LARGE)
        scope.evaluate("add", t, a, a)
        scope.evaluate("add", u, a, a)
        streams.first.synchronize()
        streams.keep_busy(streams.first)
        scope.evaluate("add", t, a, a)
        scope.evaluate("add", u, t, a)  # 3 x, once the slow kernel has ended
        scope.drop(t)
        thread = threading.Thread(target=take_the_memory)
        thread.start()
        thread.join()
        scope.library.pk_residency_set_stream(0)
        scope.fetch(u)
        result[:] = u

    scope.run(body)
    np.testing.assert_array_equal(result, 3 * x)


def fill_the_kernel_cache():
    """Run more programs than the cache of compiled kernels holds, in a scope of this thread's own."""
    scope = Scope("cuda")

    def body():
        for kind in "bhilBHILfd":
            names = ["add", "multiply", "subtract", "maximum", "minimum"]
            names += [] if kind in "fd" else ["bitwise_and", "bitwise_or", "bitwise_xor"]
            arrays = [np.ones(10, kind)] * 16
            for name, count in itertools.product(names, range(1, 16)):
                scope.evaluate(name, np.empty(10, kind), *arrays[:count])

    with pk.engine("cuda"):
        scope.run(body)


def test_compiled_kernels_stay_while_launches_are_queued(scope, streams):
    """A kernel is unloaded only after the launches of it that are queued on a caller's stream."""
    if cache.why_not_cuda() is not None:
        pytest.skip("NVRTC is not installed")
    x, result = numbers(LARGE), np.zeros(LARGE, np.float32)

    def body():
        scope.library.pk_residency_set_stream(streams.first.ptr)
        a, t = scope.keep(x), scope.temporary(LARGE)
        with pk.tuned(worth_compiling=1):
            scope.evaluate("add", t, a, a)
        background_jit.compile_requested(scope.library)
        background_jit.wait()
        scope.evaluate("add", t, a, a)
        streams.first.synchronize()
        streams.keep_busy(streams.first, 10 * MILLISECONDS)
        scope.evaluate("add", t, a, a)
        thread = threading.Thread(target=fill_the_kernel_cache)
        thread.start()
        thread.join()
        assert streams.first.done  # the thread has waited for the launch
        scope.library.pk_residency_set_stream(0)
        scope.fetch(t)
        result[:] = t

    pk.release()
    scope.run(body)
    np.testing.assert_array_equal(result, 2 * x)
