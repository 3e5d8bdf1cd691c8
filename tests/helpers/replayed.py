"""Runs each call of a fused function on copies of its arrays: traced, captured, and by its plan."""

import contextlib
import copy
import warnings

import numpy as np

from pycudakit.fusing import host_replay
from pycudakit.fusing.execute.capture import Capture, Scalar
from pycudakit.fusing.execute.lowering import lower
from pycudakit.fusing.execute.plan_tree import NotReplayed, PlanTree
from pycudakit.fusing.memory.buffer import byte_bounds, owner_of
from pycudakit.fusing.memory.pytree import tree_map
from pycudakit.fusing.numpy_api.registry import HANDLERS
from pycudakit.fusing.trace.trace import Trace

counts = {"plans": 0, "replays": 0, "calls": 0}


def install(monkeypatch):
    """Check the plan of every call on the CPU engine whose signature allows one, before it is traced."""
    signature_of = host_replay.signature_of

    def check(function, engine, args, kwargs):
        signature = signature_of(function, engine, args, kwargs)
        if signature is not None and engine == "cpu":
            with warnings.catch_warnings(), _restored(function.guards):
                warnings.simplefilter("ignore")
                _check_plan(function, signature, args, kwargs)

    monkeypatch.setattr(host_replay, "signature_of", check)


@contextlib.contextmanager
def _restored(guards):
    """Restore the elements of global arrays in the end."""
    values = [part for each in guards._last[0] for part in (each if type(each) is tuple else (each,))]
    owners = [owner_of(each) for each in values if type(each) is np.ndarray]
    elements = [owner.copy() for owner in owners]
    try:
        yield
    finally:
        for owner, before in zip(owners, elements, strict=True):
            if owner.flags.writeable:
                owner[...] = before


def copy_with_layout(array):
    """Return an array with the values, strides, alignment and flags of another."""
    begin, end = byte_bounds(array)
    memory = np.zeros(end - begin + 128, np.uint8)
    first = (begin - memory.ctypes.data) % 64
    offset = first + array.__array_interface__["data"][0] - begin
    new = np.ndarray(array.shape, array.dtype, memory, offset, array.strides)
    new[...] = array
    new.flags.writeable = array.flags.writeable
    return new


class _Copies:
    """Copies of a call's arrays and generators, and its arguments with these."""

    def __init__(self, signature, args, kwargs):
        self.arrays = [copy_with_layout(array) for array in signature.arrays]
        self.generators = [copy.copy(generator) for generator in signature.operands.generators]
        originals = (*signature.arrays, *signature.operands.generators)
        copies = (*self.arrays, *self.generators)
        by_id = {id(one): other for one, other in zip(originals, copies, strict=True)}
        self.args, self.kwargs = tree_map((args, kwargs), lambda value: by_id.get(id(value), value))


def _check_plan(function, signature, args, kwargs):
    traced, captured = (_Copies(signature, args, kwargs) for _ in range(2))
    counts["calls"] += 1
    try:
        trace = Trace("traced", HANDLERS, strict=False)
        expected = function.run(trace, traced.arrays, traced.args, traced.kwargs)
    except Exception:  # noqa: BLE001  (which the call raises again)
        return
    if not host_replay.guards_hold(
        function, signature
    ):  # it writes to global arrays: no call is like another
        return
    capture = Capture(captured.arrays, generators=captured.generators)
    result = function.run_captured(captured.args, captured.kwargs, capture)
    path = lower(capture, "replayed", result)
    result = tree_map(result, lambda value: value.number if type(value) is Scalar else value)
    _assert_same_calls(expected, traced, result, captured)
    if path is None:
        return
    counts["plans"] += 1
    tree = PlanTree(path)
    for other_values in (False, True):
        traced, replayed = (_Copies(signature, args, kwargs) for _ in range(2))
        if other_values:
            for array in (*traced.arrays, *replayed.arrays):
                _change(array)
        addresses = [array.__array_interface__["data"][0] for array in replayed.arrays]
        result = tree.replay(replayed.arrays, addresses, "replayed", replayed.generators)
        if type(result) is not NotReplayed:
            counts["replays"] += 1
            trace = Trace("traced", HANDLERS, strict=False)
            expected = function.run(trace, traced.arrays, traced.args, traced.kwargs)
            _assert_same_calls(expected, traced, result, replayed)


def _change(array):
    """Change the values of an array, each to another one of the array."""
    if array.flags.writeable:
        array[...] = np.roll(array.reshape(-1), 1 + array.size // 3).reshape(array.shape)
        if array.dtype == np.bool_:
            array[...] = ~array


def _assert_same_calls(result, arrays, other, others):
    assert arrays.generators == others.generators
    same = {}
    for one, two in zip(arrays.arrays, others.arrays, strict=True):
        same[id(one)], same[id(owner_of(one))] = two, owner_of(two)  # a function may return a `base`
    assert_same(result, other, same)
    for one, two in zip(arrays.arrays, others.arrays, strict=True):
        assert one.tobytes() == two.tobytes(), "an argument differs"
        assert one.flags.num == two.flags.num


def assert_same(result, replayed, same):
    """Assert that two results have the same types, identities and bits."""
    assert type(result) is type(replayed), (result, replayed)
    if id(result) in same:
        assert replayed is same[id(result)]
        return
    if type(result) in (list, dict):  # which may contain themselves
        same[id(result)] = replayed
    if isinstance(result, (list, tuple)):
        assert len(result) == len(replayed)
        for one, other in zip(result, replayed, strict=True):
            assert_same(one, other, same)
        for i, one in enumerate(result):
            if not isinstance(one, (bool, int, float, np.bool_)):
                assert [one is other for other in result] == [replayed[i] is other for other in replayed]
    elif isinstance(result, dict):
        assert_same((*result.items(),), (*replayed.items(),), same)
    elif isinstance(result, np.ndarray):
        assert (result.dtype, result.shape, result.strides) == (
            replayed.dtype,
            replayed.shape,
            replayed.strides,
        )
        assert result.flags.num == replayed.flags.num
        assert (owner_of(result) is result) == (owner_of(replayed) is replayed)
        assert result.tobytes() == replayed.tobytes(), (result, replayed)
    elif isinstance(result, (bool, int, float, np.generic)):
        np.testing.assert_array_equal(result, replayed, strict=True)
