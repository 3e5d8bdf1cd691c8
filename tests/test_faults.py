"""Each CUDA call of a streamed call fails in turn: it raises or is right, and the next call works."""

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import _cost, errors

pytestmark = pytest.mark.skipif(not pk.engines()["cuda"], reason="needs a GPU")

# Elements, and which CUDA calls fail: every one that a single chunk needs, and one in nine of many chunks'.
CASES = {
    "in place": (100, range(1, 30)),
    "one chunk": (50_000, range(1, 30)),
    "many chunks": (2_000_000, range(1, 700, 9)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_call_fails(monkeypatch, case):
    size, calls = CASES[case]
    a, b = np.random.default_rng(0).random((2, size), np.float32)
    right, messages = a + b, []
    with pk.engine("cuda"):
        for n in calls:
            pk.release()  # so that allocations are among the calls
            monkeypatch.setenv("PYCUDAKIT_FAIL_CUDA_CALL", str(n))
            try:
                # Right, without a slot that could not be made, or past the last call.
                assert np.array_equal(pk.add(a, b), right)
            except (errors.DeviceError, errors.OutOfMemory) as error:
                messages.append(str(error))
            monkeypatch.delenv("PYCUDAKIT_FAIL_CUDA_CALL")
            assert np.array_equal(pk.add(a, b), right)
        pk.release()
        assert pk.memory_info().device_bytes == 0  # every slot came back
    assert len(messages) >= 12
    out_of_memory = [message for message in messages if "cudaMalloc(" in message]
    assert out_of_memory or case == "many chunks"  # which does with fewer slots
    assert all("asked for" in message and "are free" in message for message in out_of_memory)
    assert all(" from cuda" in message and " at csrc/" in message for message in messages)


def test_auto_takes_over(monkeypatch):
    a, b = np.random.default_rng(0).random((2, 50_000), np.float32)
    monkeypatch.setattr(_cost, "choose", lambda *_: ("cuda", "the test"))
    monkeypatch.setenv("PYCUDAKIT_FAIL_CUDA_CALL", "3")
    with pk.engine("auto"):
        with pytest.warns(RuntimeWarning, match="the CPU engine took over: cudaError"):
            got = pk.add(a[::-1], b, out=np.empty_like(a))
        assert pk.last_call().engine == "cpu"
        assert np.array_equal(got, a[::-1] + b)
        into = a.copy()
        with pytest.raises((errors.DeviceError, errors.OutOfMemory)):
            pk.add(into, b, out=into)  # what was overwritten cannot be computed again
