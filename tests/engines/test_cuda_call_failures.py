"""Fault injection: the n-th CUDA call of a streamed call fails, for each n.

The streamed call then raises an error or returns the right result, and the next one works.
"""

import operator
import warnings

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors
from pycudakit._element_programs import program_cost
from pycudakit._native import engine_status
from pycudakit._runtime.engine_choice import EngineChoice

pytestmark = pytest.mark.skipif(not pk.engines()["cuda"], reason="needs a GPU")

SIZE = 60_000
RNG = np.random.default_rng(0)
A, B = RNG.random((2, SIZE), np.float32)
LONG_ROW = np.resize(A, 150_000)
COUNTS = RNG.integers(0, 100, SIZE // 2)
SORTED = np.sort(B)
PICTURE = RNG.integers(0, 256, (300, 200, 3), np.uint8)
PLANE = PICTURE[..., 0]
GRID = A.reshape(300, 200)
LONG = "a" + " + b" * 60  # more instructions than fit in the kernel's parameters


def copied(**constants):
    return {
        "threads": 1,
        "in_place_bytes": 0,
        "chunk_bytes": 256 << 10,
        "device_bytes": 512 << 10,
        **constants,
    }


def pk_on_cpu(name, *arguments, **keywords):
    with pk.engine("cpu"):
        return operator.attrgetter(name)(pk)(*arguments, **keywords)


# A call, its expected result, tuning constants, and an upper bound on the number of its CUDA calls.
CASES = {
    "zero-copy": (lambda: pk.add(A, B), A + B, {"threads": 1}, 40),
    "zero-copy, several chunks": (
        lambda: pk.sum(LONG_ROW),
        pk_on_cpu("sum", LONG_ROW),
        {"threads": 1, "walk_bytes": 64 << 10, "smallest_chunk": 1},
        160,
    ),
    "copied": (lambda: pk.add(A, B), A + B, copied(), 120),
    "several threads": (lambda: pk.add(A, B), A + B, copied(threads=3, worth_a_thread=1), 120),
    "strided": (lambda: pk.add(A[::-2], B[::2]), A[::-2] + B[::2], copied(), 100),
    "broadcast": (
        lambda: pk.add(A.reshape(300, 200), B[:200]),
        A.reshape(300, 200) + B[:200],
        copied(),
        130,
    ),
    "sum": (lambda: pk.sum(A), pk_on_cpu("sum", A), copied(), 120),
    "sum along an axis": (
        lambda: pk.sum(GRID[:, ::-1], axis=0),
        pk_on_cpu("sum", GRID[:, ::-1], axis=0),
        copied(),
        120,
    ),
    "median": (lambda: pk.median(A), np.median(A), copied(), 120),
    "median of a long row": (lambda: pk.median(LONG_ROW), np.median(LONG_ROW), copied(), 160),
    "scan": (lambda: pk.cumsum(COUNTS), np.cumsum(COUNTS), copied(), 160),
    "scan of several threads": (
        lambda: pk.cumsum(COUNTS),
        np.cumsum(COUNTS),
        copied(threads=3, worth_a_thread=1, smallest_chunk=32 << 10),
        400,
    ),
    "long program": (
        lambda: pk.evaluate(LONG, {"a": A, "b": B}),
        eval(LONG, {"a": A, "b": B}),
        copied(),
        130,
    ),
    "histogram": (
        lambda: pk.histogram(A, 50, (0, 1))[0],
        np.histogram(A, 50, (0, 1))[0],
        copied(),
        140,
    ),
    "histogram between extremes": (
        lambda: pk.histogram(A, 50)[0],
        np.histogram(A, 50)[0],
        copied(),
        180,
    ),
    "bytes": (lambda: pk.bincount(PLANE.ravel()), np.bincount(PLANE.ravel()), copied(), 140),
    "digitize": (lambda: pk.digitize(A, [0.1, 0.5]), np.digitize(A, [0.1, 0.5]), copied(), 140),
    "sort": (lambda: pk.sort(A), np.sort(A), copied(), 100),
    "sort of rows": (
        lambda: pk.argsort(A.reshape(300, 200)),
        np.argsort(A.reshape(300, 200), kind="stable"),
        copied(threads=3, worth_a_thread=1),
        120,
    ),
    "grey": (lambda: pk.image.rgb_to_gray(PICTURE), pk_on_cpu("image.rgb_to_gray", PICTURE), copied(), 140),
    "equalised": (
        lambda: pk.image.equalize_histogram(PLANE),
        pk_on_cpu("image.equalize_histogram", PLANE),
        copied(),
        280,
    ),
    "resized": (
        lambda: pk.image.resize(PICTURE, (250, 210), "area"),
        pk_on_cpu("image.resize", PICTURE, (250, 210), "area"),
        copied(),
        180,
    ),
    "search": (lambda: pk.searchsorted(SORTED, A), np.searchsorted(SORTED, A), copied(), 120),
}


@pytest.fixture(autouse=True)
def _disarmed(monkeypatch):
    """Disarm fault injection, and drop cached state that a fault may have affected."""
    yield
    monkeypatch.delenv("PYCUDAKIT_FAIL_CUDA_CALL", raising=False)
    with pk.engine("cuda"):
        pk.add(A, B)
    engine_status.status.cache_clear()


@pytest.mark.parametrize("case", CASES)
def test_a_call_fails(monkeypatch, case):
    call, right, constants, calls = CASES[case]
    messages = []
    with pk.engine("cuda"), pk.tuned(**constants):
        for n in range(1, calls):
            pk.release()  # so that allocations are among the calls
            monkeypatch.setenv("PYCUDAKIT_FAIL_CUDA_CALL", str(n))
            try:
                # Right: with fewer or smaller slots, or because the fault came after the last call.
                assert np.array_equal(call(), right)
            except (errors.DeviceError, errors.OutOfMemory) as error:
                messages.append(str(error))
            monkeypatch.delenv("PYCUDAKIT_FAIL_CUDA_CALL")
            assert np.array_equal(call(), right)
        pk.release()
        assert pk.memory_info().device_bytes == pk.memory_info().pinned_bytes == 0  # every slot came back
        monkeypatch.setenv("PYCUDAKIT_FAIL_CUDA_CALL", str(calls))
        assert np.array_equal(call(), right), "there are more calls than were tried"
    assert len(messages) >= 8
    assert all(" at csrc/" in message for message in messages)
    assert all(" from cuda" in message or " from cub::" in message for message in messages)


def test_pinned_operands(monkeypatch):
    a, b, out = (pk.pinned_copy(np.resize(A, 1 << 20)) for _ in range(3))
    with pk.engine("cuda"):
        for n in range(1, 60):
            pk.release()
            out[:] = 0
            monkeypatch.setenv("PYCUDAKIT_FAIL_CUDA_CALL", str(n))
            try:
                pk.add(a, b, out=out)
                assert np.array_equal(out, a + b)
            except (errors.DeviceError, errors.OutOfMemory):
                pass
            monkeypatch.delenv("PYCUDAKIT_FAIL_CUDA_CALL")


def test_out_of_memory_says_how_much(monkeypatch):
    messages = set()
    with pk.engine("cuda"), pk.tuned(**copied(device_bytes=512 << 10)):
        for n in range(1, 30):
            pk.release()
            monkeypatch.setenv("PYCUDAKIT_FAIL_CUDA_CALL", str(n))
            try:
                pk.add(A, B)
            except (errors.DeviceError, errors.OutOfMemory) as error:
                messages.add(str(error))
            monkeypatch.delenv("PYCUDAKIT_FAIL_CUDA_CALL")
    assert any("cudaMalloc(" in m and "asked for 524288 bytes" in m and "are free" in m for m in messages)


def test_auto_computes_the_rest(monkeypatch):
    plan = EngineChoice("add", "cuda", "the test", automatic=True)
    monkeypatch.setattr(program_cost, "choose", lambda *_: plan)
    taken_over, raised = 0, 0
    with pk.engine("auto"), pk.tuned(**copied()):
        for n in range(1, 110, 3):
            pk.release()
            monkeypatch.setenv("PYCUDAKIT_FAIL_CUDA_CALL", str(n))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                got = pk.add(A[::-1], B, out=np.full_like(A, np.nan))
            assert np.array_equal(got, A[::-1] + B)
            if caught:
                assert len(caught) == 1
                assert "the CPU engine took over: cuda" in str(caught[0].message)
                assert pk.last_call().engine == "cpu"
                taken_over += 1
            into = A.copy()
            monkeypatch.setenv("PYCUDAKIT_FAIL_CUDA_CALL", str(n))
            try:
                pk.add(into, B, out=into)  # an overwritten operand cannot be computed again
                assert np.array_equal(into, A + B)
            except (errors.DeviceError, errors.OutOfMemory):
                raised += 1
            monkeypatch.delenv("PYCUDAKIT_FAIL_CUDA_CALL")
    assert taken_over > 5
    assert raised > 5
