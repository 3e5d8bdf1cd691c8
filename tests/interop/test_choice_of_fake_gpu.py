"""`auto` with a fake GPU: calls that it runs there are captured and replayed as those of `cuda` are."""

import numpy as np
from numpy.testing import assert_array_equal

import pycudakit as pk
from pycudakit._native import hardware
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit.fusing.schedule import cost


def diffuse(u, steps):
    for _ in range(steps):
        u[1:-1] += 0.2 * (u[2:] + u[:-2] - 2.0 * u[1:-1])


def normalise(x):
    y = np.exp(x - x.max(axis=1, keepdims=True))
    return y / y.sum(axis=1, keepdims=True)


def requests_of(function, arguments, engine, calls):
    """Call a fused function on copies; return its last arguments and result, and the requests of its plan."""
    fused = pk.fuse(function)
    with pk.engine(engine):
        for _ in range(calls):
            copies = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
            result = fused(*copies)
        assert (pk.last_call().engine, pk.last_call().reason.endswith("replayed")) == ("cuda", True)
    (plan,) = fused._traced.plans.plans()
    return (copies, result), len(plan.order)


def test_plans_under_auto_are_those_of_cuda(gpu, monkeypatch):
    del gpu
    monkeypatch.setattr(cost.Costs, "cuda", 1e-9)
    monkeypatch.setattr(hardware, "link_speed", lambda _: hardware.Link(64e9, 64e9))
    rng = np.random.default_rng(0)
    for function, *arguments in ((diffuse, rng.random(300_000), 7), (normalise, rng.random((300, 1000)))):
        (want, wanted), count = requests_of(function, arguments, "cuda", 4)
        (got, result), automatic_count = requests_of(function, arguments, "auto", 4)
        assert automatic_count == count
        assert_array_equal(got[0], want[0])
        if wanted is not None:
            assert_array_equal(result, wanted)


def test_rows_of_profiles_have_the_reason_of_auto(gpu):
    del gpu
    fused, x = pk.fuse(normalise), np.random.default_rng(0).random((300, 1000))
    fused._autotuned.best[((x.shape, x.dtype),)] = EngineChoice("normalise", "cuda", "auto: cuda 1 ms")
    with pk.engine("auto"), pk.profile() as profile:
        fused(x)
    (call,) = profile.calls
    assert (call.engine, {one.engine for one in call.passes}) == ("cuda", {"cuda"})
    assert {call.reason, *(one.reason for one in call.passes)} == {"auto: cuda 1 ms"}


def test_the_reason_for_arrays_on_a_gpu(cupy_library):
    fused, x = pk.fuse(normalise), cupy_library.up(np.random.default_rng(0).random((300, 1000)))
    for engine, reason in (("auto", "auto: arrays on a GPU"), ("cuda", "the requested engine")):
        with pk.engine(engine), pk.profile() as profile:
            for _ in range(3):
                fused(x)
        for call in profile.calls:
            assert (call.reason, {one.reason for one in call.passes}) == (reason, {reason})
