"""Plans of the engine `cpu` that a GPU, here a fake one, adopts under `auto`."""

import sys
import threading

import numpy as np
import pytest

import pycudakit as pk
from pycudakit.fusing import host_replay

pytestmark = pytest.mark.usefixtures("really_replayed")


def loop(x, y):
    for _ in range(5):
        y[1:-1] = 0.25 * (x[:-2] + x[2:]) + y[1:-1]
        x = x + y.mean()
    return x, np.sort(y), x.max()


def branch(x, y):
    if x[0] > y[0]:
        return x - y
    if x.sum() > y.sum():
        x += 1
        return y - x
    return x * y


def arguments(seed, shift=0.0):
    x, y = np.random.default_rng(seed).random((2, 3000))
    x[0], y[0] = (1, 0) if shift < 0 else (0, 1)
    return x + shift, y


def adopted(fused, *args):
    """Replay a call on the GPU by a plan that was captured on the CPU."""
    plans, signature = fused._traced.plans, host_replay.signature_of(fused._traced, "cuda", args, {})
    plans.adopt(signature)  # once
    assert plans._entries[signature.key].tree is not None
    return plans.replay(signature, "")


def captured(body, *shifts):
    fused = pk.fuse(body)
    with pk.engine("cpu"):
        for shift in shifts * 3:
            fused(*arguments(0, shift))
    assert fused._traced.plans.captured
    return fused


def test_a_loop(small_gpu):
    fused = captured(loop, 0)
    for seed in (1, 2, 3):
        ours, numpys = arguments(seed), arguments(seed)
        got, want = adopted(fused, *ours), loop(*numpys)
        assert pk.last_call().engine == "cuda"
        for mine, theirs in zip((*got, *ours), (*want, *numpys), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-13)


def test_paths(small_gpu):
    """All paths that were captured come along, and no other one is known."""
    fused = captured(branch, -0.5, 0.5)
    for shift in (0.5, -0.5):
        ours, numpys = arguments(4, shift), arguments(4, shift)
        np.testing.assert_array_equal(adopted(fused, *ours), branch(*numpys))
        np.testing.assert_array_equal(ours, numpys)
    x, y = arguments(4, 0)
    before = x.copy()
    assert adopted(fused, x - 0.9, y) is NotImplemented
    np.testing.assert_array_equal(x, before)


def test_a_path_that_ends_without_requests(small_gpu):
    def halved(x, y):
        while y.max() > 0.1:
            y = y * 0.5
        return y

    fused = captured(halved, 0)
    ours = arguments(0)
    np.testing.assert_array_equal(adopted(fused, *ours), halved(*arguments(0)))


@pytest.mark.parametrize(
    "body",
    [lambda x, y: x[:50].reshape(5, 10) @ y[:10], lambda x, y: np.median(x) + y],
    ids=["a loop of NumPy's", "a host call"],
)
def test_plans_of_the_cpu_alone(small_gpu, body):
    fused = captured(body, 0)
    signature = host_replay.signature_of(fused._traced, "cuda", arguments(1), {})
    assert not fused._traced.plans.adopt(signature)


def test_plans_of_a_gpus_own_are_kept(small_gpu):
    fused = captured(loop, 0)
    for _ in range(3):
        fused(*arguments(1))
    signature = host_replay.signature_of(fused._traced, "cuda", arguments(1), {})
    tree = fused._traced.plans.tree_of(signature)
    assert tree.root.lowered.plan.engine == "cuda"
    assert not fused._traced.plans.adopt(signature)
    assert fused._traced.plans.tree_of(signature) is tree


def test_auto_tries_a_gpu_for_small_arrays_of_long_calls(small_gpu, monkeypatch):
    """It replays the plan of the engine `cpu`; a function without such a plan is not tried there."""
    from pycudakit._native import engine_status
    from pycudakit._runtime import autotuner
    from pycudakit.fusing import autotuning

    available = engine_status.EngineStatus(True, "")  # the status that is cached need not be the fake one's
    monkeypatch.setattr(engine_status, "status", lambda _: available)
    monkeypatch.setattr(autotuner, "_MIN_CAPTURE_SECONDS", 1.0)  # other processes may have the processors
    monkeypatch.setattr(autotuning, "_SLOW_SECONDS", 0.0)
    monkeypatch.setattr(autotuning, "choice_is_final", lambda: True)

    def body(x):
        for _ in range(40):
            x = x * 0.5 + 1
        return x

    def without(x):
        return np.median(body(x)) + x

    for function, is_tried in ((body, True), (without, False)):
        fused, x = pk.fuse(function), np.linspace(0, 1, 500)
        engines = set()
        with pk.engine("auto"):
            for _ in range(60):
                np.testing.assert_allclose(fused(x), function(x), rtol=1e-14)
                engines.add(pk.last_call().engine)
        assert ("cuda" in engines) == is_tried
        assert {"cpu", "numpy"} <= engines


def test_no_graphs_beside_threads_of_other_cuda_libraries(small_gpu, monkeypatch):
    """One of them may synchronize the GPU, which CUDA forbids during a capture: the list then has no key."""
    from pycudakit.fusing.execute import plan

    keys = []

    def run_unobserved(run, choice):
        keys.append(run._key.tolist())
        return original(run, choice)

    original = plan.PlanRun.run_unobserved
    monkeypatch.setattr(plan.PlanRun, "run_unobserved", run_unobserved)
    fused = captured(loop, 0)
    monkeypatch.setitem(sys.modules, "torch", None)
    for threads in (1, 2, 1):
        monkeypatch.setattr(threading, "active_count", lambda threads=threads: threads)
        adopted(fused, *arguments(1))
    assert keys[0] == keys[2] != [0, 0]
    assert keys[1] == [0, 0]
