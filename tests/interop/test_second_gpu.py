"""Calls on arrays of the second GPU, whichever GPU is the current one."""

import warnings

import numpy as np
import pytest
from helpers.calls_on_device import CALLS, arrays_of, parts_of
from helpers.device_arrays import on_a_gpu
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit.fusing.device_replay import CapturedCall

pytestmark = on_a_gpu


@pytest.fixture
def cupy():
    cupy = pytest.importorskip("cupy")
    if len(pk.devices()) < 2 or not hasattr(cupy, "cuda"):
        pytest.skip("needs two GPUs")
    with pk.engine("cuda"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield cupy


def arguments_on(cupy, device, call):
    """Return the arrays that a call names, on the given GPU."""
    with cupy.cuda.Device(device):
        return {key: cupy.asarray(x) for key, x in arrays_of(call).items()}


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_on_the_gpu_of_the_arguments(cupy, name, current):
    call = CALLS[name]
    wanted = call(**arguments_on(cupy, 0, call))
    for _ in range(2):
        arguments = arguments_on(cupy, 1, call)
        with cupy.cuda.Device(current):
            got = call(**arguments)
        for one, other in zip(parts_of(got), parts_of(wanted), strict=True):
            if isinstance(other, cupy.ndarray):
                assert one.device.id == 1
            assert_array_equal(cupy.asnumpy(one), cupy.asnumpy(other), strict=True)


@pytest.fixture
def replayed(monkeypatch):
    """Return a list of the GPU of each replay, and whether it succeeded."""
    replayed = []

    def play(self, kind, real=CapturedCall.replay):
        result = real(self, kind)
        replayed.append((kind.device, result is not NotImplemented))
        return result

    monkeypatch.setattr(CapturedCall, "replay", play)
    return replayed


@pytest.mark.parametrize("name", ["matmul", "median", "histogram", "gradient", "fuse"])
def test_calls_are_replayed_on_each(cupy, replayed, name):
    """A call captured on one GPU is not replayed on the other."""
    fused = pk.fuse(lambda a, b: (np.sqrt(a) * b, np.cumsum(a - b)[::-1]))
    call = fused if name == "fuse" else CALLS[name]
    wanted = call(**arrays_of(call))
    for turn in range(12):
        device = turn % 2
        got = call(**arguments_on(cupy, device, call))
        for one, other in zip(parts_of(got), parts_of(wanted), strict=True):
            assert one.device.id == device
            assert_array_equal(cupy.asnumpy(one), other, strict=True)
    assert replayed.count((0, True)) >= 3
    assert replayed.count((1, True)) >= 3
    assert all(was_played for _, was_played in replayed)
