"""Runs each call of a fused function twice: traced and captured, and by its plan, on copies of its arrays."""

import numpy as np

from pycudakit.fusing import host_replay
from pycudakit.fusing.execute.capture import Capture
from pycudakit.fusing.execute.plan import PlanRun
from pycudakit.fusing.host_replay import PlanCache
from pycudakit.fusing.memory.buffer import byte_bounds, owner_of

counts = {"plans": 0, "calls": 0}


def install(monkeypatch):
    """Let every call on the CPU engine whose signature allows it check its plan."""
    signature_of = host_replay.signature_of

    def signature_unless_strict(function, args, kwargs):  # a capture is not strict
        return None if function._strict else signature_of(function, args, kwargs)

    monkeypatch.setattr(host_replay, "signature_of", signature_unless_strict)
    monkeypatch.setattr(PlanCache, "replay", lambda *_: NotImplemented)
    monkeypatch.setattr(PlanCache, "may_capture", lambda *_, **__: True)
    monkeypatch.setattr(PlanCache, "capture", _check_plan)


def copy_with_layout(array):
    """Return a copy of an array with its strides, alignment and flags."""
    begin, end = byte_bounds(array)
    memory = np.empty(end - begin + 128, np.uint8)
    first = (begin - memory.ctypes.data) % 64
    offset = first + array.__array_interface__["data"][0] - begin
    copy = np.ndarray(array.shape, array.dtype, memory, offset, array.strides)
    copy[...] = array
    copy.flags.writeable = array.flags.writeable
    return copy


def _check_plan(_, signature, function, run, is_automatic):
    copies = [copy_with_layout(array) for array in signature.arrays]
    capture = Capture(signature.arrays, is_automatic)
    result = run(capture)
    counts["calls"] += 1
    plan = capture.finish(function, result)
    if plan is None:
        return result
    counts["plans"] += 1
    with np.errstate(all="raise"):  # a plan never reports
        replayed = PlanRun(plan).run_with(copies, [copy.ctypes.data for copy in copies], "replayed")
    if replayed is NotImplemented:
        return result
    same = {id(array): copy for array, copy in zip(signature.arrays, copies, strict=True)}
    assert_same(result, replayed, same)
    for array, copy in zip(signature.arrays, copies, strict=True):
        assert array.tobytes() == copy.tobytes(), "an argument differs"
    return result


def assert_same(result, replayed, same):
    """Assert that two results have the same types, identities and bits."""
    assert type(result) is type(replayed), (result, replayed)
    if id(result) in same:
        assert replayed is same[id(result)]
    elif isinstance(result, (list, tuple)):
        assert len(result) == len(replayed)
        for one, other in zip(result, replayed, strict=True):
            assert_same(one, other, same)
        for i, one in enumerate(result):
            if isinstance(one, np.ndarray):
                assert [one is other for other in result] == [replayed[i] is other for other in replayed]
    elif isinstance(result, np.ndarray):
        assert (result.dtype, result.shape, result.strides) == (
            replayed.dtype,
            replayed.shape,
            replayed.strides,
        )
        assert result.flags.num == replayed.flags.num
        assert (owner_of(result) is result) == (owner_of(replayed) is replayed)
        assert result.tobytes() == replayed.tobytes(), (result, replayed)
    else:
        np.testing.assert_array_equal(result, replayed, strict=True)
