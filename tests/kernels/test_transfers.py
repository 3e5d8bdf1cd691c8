"""Transfers of kernel runs, concurrent runs, and failures."""

import subprocess
import sys
import time

import numpy as np
import pytest
from helpers.threads import run_in_threads
from helpers.user_kernels import module

import pycudakit as pk
from pycudakit import In, InOut, Out, SourceModule, errors

needs_cuda = pytest.mark.skipif(not pk.engines()["cuda"], reason="needs a GPU")

TEXT = """
__constant__ float more[2];
__global__ void add(const float *a, const float *b, float *out, long long n) {
    for (long long i = threadIdx.x + (long long)blockIdx.x * blockDim.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = a[i] + b[i] + more[0];
}
__global__ void count(int *x, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) x[i] += 1;
}
"""
SPEAK = '__global__ void speak(int *x, int n) { printf("%d\\n", n); *x = n; }'
RNG = np.random.default_rng(0)


def add(a, b, out, **given):
    module(TEXT).get_function("add")(In(a), In(b), Out(out), len(a), block=(128, 1, 1), grid=(64, 1), **given)


# ---- Arrays -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 1000, 87_000, 87_500, 300_000, 1_000_003, 3_000_000])
def test_arrays_of_all_sizes(engine, n):
    """On a GPU, arrays up to about a MiB are transferred by one copy each, larger ones in pieces."""
    a, b, out = *RNG.random((2, n), np.float32), np.full(n, -1, np.float32)
    for _ in range(2):
        add(a, b, out)
        np.testing.assert_array_equal(out, a + b)
    if engine == "cuda":
        assert (pk.last_call().bytes_up, pk.last_call().bytes_down) == (8 * n, 4 * n)


@pytest.mark.parametrize("n", [1000, 1_000_000])
def test_pinned_arrays(engine, n):
    a, b, out = (pk.empty_pinned(n, np.float32) for _ in range(3))
    a[:], b[:], out[:] = np.arange(n), 0.5, -1
    add(a, b, out)
    np.testing.assert_array_equal(out, np.arange(n, dtype=np.float32) + np.float32(0.5))


@pytest.mark.parametrize("n", [5, 10_000, 2_000_000])
def test_initial_values_of_outputs(engine, n):
    count = module(TEXT).get_function("count")
    out = np.full(n, 7, np.int32)
    count(Out(out), n // 2, block=(256, 1, 1), grid=(n // 256 + 1, 1))
    assert (out[: n // 2] == 1).all()
    assert (out[n // 2 :] == 0).all()
    count(Out(out, poison=True), 0, block=(1, 1, 1))
    assert (out.view(np.uint8) == 165).all()


def test_large_and_small_together(engine):
    count = module(TEXT).get_function("count")
    p = pk.Program()
    small, large = p.inout("small", 3, np.int32), p.inout("large", 10**6, np.int32)
    unused = p.temp("unused", 10**6, np.int32)
    with p.repeat(10):
        for buffer, n in ((small, 3), (large, 10**6), (unused, 10**6)):
            p.launch(count, buffer, np.int32(n), block=(256, 1, 1), grid=(n // 256 + 1, 1))
    made = p(small=np.arange(3, dtype=np.int32), large=np.arange(10**6, dtype=np.int32))
    np.testing.assert_array_equal(made["small"], np.arange(3) + 10)
    np.testing.assert_array_equal(made["large"], np.arange(10**6) + 10)
    if engine == "cuda":
        assert pk.last_call().bytes_up == pk.last_call().bytes_down == 4 * (10**6 + 3)


def test_many_launches_in_a_call(engine):
    count = module(TEXT).get_function("count")
    p = pk.Program()
    x = p.inout("x", 64, np.int32)
    with p.repeat(700), p.repeat(3):
        p.launch(count, x, np.int32(64), block=(64, 1, 1))
    np.testing.assert_array_equal(p(x=np.zeros(64, np.int32))["x"], 2100)


def test_kernels_without_buffers(engine):
    module("__global__ void nothing() { }").get_function("nothing")(block=(32, 1, 1), grid=(100, 1))


# ---- Several at once --------------------------------------------------------------------------------


def test_threads_do_not_disturb_each_other(engine, capsys):
    """Concurrent calls of the same modules that set variables, that print, and that do neither."""
    speak, wrong = module(SPEAK).get_function("speak"), []

    def work(k):
        with pk.engine(engine):
            for n in (100, 2000, 200_000):
                a, b, out = *RNG.random((2, n), np.float32), np.empty(n, np.float32)
                more = np.float32([k, 0]) if k % 2 else np.zeros(2, np.float32)
                add(a, b, out, **({"symbols": {"more": more}} if k % 2 else {}))
                if not np.array_equal(out, a + b + more[0]):
                    wrong.append((k, n))
                said = np.zeros(1, np.int32)
                speak(InOut(said), np.int32(k * 10**6 + n), block=(1, 1, 1))
                if said[0] != k * 10**6 + n:
                    wrong.append((k, n, said[0]))

    add(*np.zeros((3, 1), np.float32))
    run_in_threads(work, range(6))
    assert not wrong
    said = sorted(int(line) for line in capsys.readouterr().out.split())
    assert said == sorted(k * 10**6 + n for k in range(6) for n in (100, 2000, 200_000))


@needs_cuda
def test_more_modules_than_stay_loaded():
    with pk.engine("cuda"):
        texts = [f"__global__ void f(int *x) {{ *x = {i}; }}" for i in range(80)]
        modules = [SourceModule(text, cache_dir=False) for text in texts]
        out = np.zeros(1, np.int32)
        for i in [*range(80), 0, 79, 1]:
            modules[i].get_function("f")(Out(out), block=(1, 1, 1))
            assert out[0] == i


# ---- Failures ---------------------------------------------------------------------------------------


@needs_cuda
@pytest.mark.parametrize("n", [1000, 500_000])
def test_a_cuda_call_fails(monkeypatch, capsys, n):
    """Each CUDA call fails in turn: the run raises or is right, and the next one works."""
    a, b, out = *RNG.random((2, n), np.float32), np.empty(n, np.float32)
    speak, said, messages, tries = module(SPEAK).get_function("speak"), np.zeros(1, np.int32), [], 150
    symbols = {"symbols": {"more": np.float32([1, 2])}}
    with pk.engine("cuda"), pk.tuned(threads=2):
        for k in range(1, tries):
            pk.release()
            monkeypatch.setenv("PYCUDAKIT_FAIL_CUDA_CALL", str(k))
            try:
                add(a, b, out, **symbols)
                np.testing.assert_array_equal(out, a + b + 1)
                speak(InOut(said), np.int32(k), block=(1, 1, 1))
                assert said[0] == k
            except (errors.DeviceError, errors.OutOfMemory) as error:
                messages.append(str(error))
            monkeypatch.delenv("PYCUDAKIT_FAIL_CUDA_CALL")
            add(a, b, out)
            np.testing.assert_array_equal(out, a + b)
    assert len(messages) > 20
    assert all(" at csrc/" in message for message in messages)


@needs_cuda
def test_more_memory_than_a_gpu_has():
    p = pk.Program()
    x = p.temp("x", 2**42, np.int32)
    p.launch(module(TEXT).get_function("count"), x, np.int32(0), block=(1, 1, 1))
    with (
        pk.engine("cuda"),
        pytest.raises(errors.OutOfMemory, match=r"asked for 17592186044416 bytes; .* are free"),
    ):
        p()


WAIT = """
import os, signal, threading, time
wait = pk.SourceModule('''
__global__ void wait(int *x, long long n) {
    const long long began = clock64();
    while (clock64() - began < n) continue;
    *x = 1;
}''').get_function("wait")
"""


def python(code):
    command = [sys.executable, "-c", f"import numpy as np, pycudakit as pk\n{WAIT}\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_cuda
def test_an_illegal_address_names_the_kernel():
    said = python("""
text = "__global__ void astray(int *x) { x[1ll << 40] = 1; } __global__ void fine(int *x) { *x = 5; }"
module, x = pk.SourceModule(text), np.zeros(1, np.int32)
with pk.engine("cuda"):
    try:
        module.get_function("astray")(x, block=(1, 1, 1))
    except pk.errors.DeviceError as error:
        print(error)
module.get_function("fine")(x, block=(1, 1, 1))
print(x[0], pk.last_call().engine, pk.last_call().reason)
""")
    first, second = said.strip().splitlines()
    assert first.startswith("kernel 'astray' (block (1, 1, 1), grid (1, 1, 1)): cudaErrorIllegalAddress")
    assert "isolate=True" in first
    assert second.startswith("5 cpu auto: ")


@needs_cuda
def test_a_kernel_that_runs_on_is_left_alone():
    """Ctrl-C ends the call, not the kernel; after the kernel's end, calls work again."""
    said = python("""
x = np.zeros(1, np.int32)
pk.set_engine("cuda")
wait(x, 1000, block=(1, 1, 1))
x[0] = 7
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.perf_counter()
try:
    wait(x, 4 * 10**9, block=(1, 1, 1))
except KeyboardInterrupt:
    print(time.perf_counter() - began < 1.5, x[0])  # the kernel runs for two seconds
time.sleep(4)
wait(x, 1000, block=(1, 1, 1))
print(x[0])
""")
    assert said.split() == ["True", "7", "1"]


@pytest.mark.alone
@needs_cuda
def test_loops_of_launches_stop_soon():
    began = time.perf_counter()
    said = python("""
p = pk.Program()
x = p.inout("x", 1, np.int32)
with p.repeat(10**9):
    p.launch(wait, x, 2_000_000, block=(1, 1, 1))
pk.set_engine("cuda")
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.perf_counter()
try:
    p(x=np.zeros(1, np.int32))
except KeyboardInterrupt:
    print(time.perf_counter() - began < 2.5)  # where others use the GPU, a launch waits for its turn
""")
    assert said.split() == ["True"]
    assert time.perf_counter() - began < 60
