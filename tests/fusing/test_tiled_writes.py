"""Row tiles that are written to existing arrays."""

import numpy as np
import pytest
from helpers.processes import python
from helpers.row_tiles import (
    CUT,
    WRITTEN,
    into_another,
    into_itself,
    same,
    same_as_whole,
    softmax,
    two,
    whole,
)
from helpers.strategies import build

import pycudakit as pk
from pycudakit.fusing.schedule import row_shards


@pytest.mark.parametrize("layout", ["C", "F", "step", "reversed"])
@pytest.mark.parametrize("body", WRITTEN)
def test_writes(engine, small_blocks, body, layout):
    same_as_whole(body, layout)


@pytest.mark.parametrize("body", WRITTEN)
def test_writes_to_parts(small_blocks, body):
    with pk.engine("cpu"):
        plan = pk.fuse(body).explain(*two())
    last = [each for each in plan.passes if set(each.writes) & {"x", "y"}]
    assert (max(each.blocks for each in last) > 1) == (body in CUT), str(plan)


def test_a_view_of_two_arguments(engine, small_blocks):
    """Two views of one memory whose rows differ in layout."""
    base = build("float32", (300, 130), "small", 12, ["C"])
    for places in (
        (slice(0, 203), slice(1, 204)),
        (slice(0, 150), slice(150, None)),
        (slice(None), slice(None)),
    ):
        ours, theirs = base.copy(), base.copy()

        def body(x, y):
            y[...] = softmax(x)

        pk.fuse(body)(*(ours[place] for place in places))
        whole(body, *(theirs[place] for place in places))
        same(ours, theirs)


@pytest.mark.parametrize("body", WRITTEN)
def test_writes_on_a_device(small_gpu, body):
    same_as_whole(body)


@pytest.mark.parametrize("body", [into_itself, into_another])
def test_written_arrays_are_downloaded_once(small_gpu, body):
    """The written tiles are downloaded from their buffers if they are read, else by the kernel."""
    x, y = two()
    pk.fuse(body)(x, y)
    expected = x.nbytes if body is into_itself else 0
    assert small_gpu.bytes_down == pytest.approx(expected, abs=0.05 * x.nbytes)
    plan = pk.fuse(body).explain(x, y)
    assert max(each.blocks for each in plan.passes) > 1


def test_results_of_a_reduction_are_read_in_place(small_gpu):
    """The value is computed again with the old operands, and read from the written array."""

    def body(x):
        y = x + 1.0
        ones, total = np.exp(x - x), x + y.sum(axis=1)[:, None]
        most = x + np.max(y, axis=1, keepdims=True)
        x -= y
        return y, ones, total, most

    ours, theirs = (build("float64", (40, 30), "small", 13, ["C"]) for _ in range(2))
    same(pk.fuse(body)(ours), body(theirs))
    same(ours, theirs)


@pytest.mark.parametrize("body", [into_itself, into_another])
def test_a_failure_halfway(small_gpu, monkeypatch, body):
    """The error says that arguments were written to; only whole rows were."""
    ours, theirs, before = two(), two(), two()
    whole(body, *theirs)
    run, calls = row_shards.PreparedKernel.run, []

    def fail(self):
        calls.append(self)
        if len(calls) == 11:
            raise pk.errors.DeviceError("it fell off the bus")
        run(self)

    monkeypatch.setattr(row_shards.PreparedKernel, "run", fail)
    text = f"it fell off the bus; {body.__name__} had begun to write to its arguments"
    with pytest.raises(pk.errors.DeviceError, match=text):
        pk.fuse(body)(*ours)
    written = 0
    for mine, done, old in zip(ours, theirs, before, strict=True):
        for row, new_row, old_row in zip(mine, done, old, strict=True):
            assert np.array_equal(row, new_row) or np.array_equal(row, old_row)
            written += not np.array_equal(row, old_row)
    assert 0 < written < len(ours[0])


def test_a_failure_before_anything_is_written(small_gpu, monkeypatch):
    def fail(_):
        raise pk.errors.DeviceError("it fell off the bus")

    monkeypatch.setattr(row_shards.PreparedKernel, "run", fail)
    with pytest.raises(pk.errors.DeviceError, match=r"bus$"):
        pk.fuse(softmax)(two()[0])


WRITTEN_THERE = """
import numpy as np
import pycudakit as pk
def powers(x):
    return np.exp(x - x.max(axis=1, keepdims=True))
def into_itself(x, out):
    of_x = powers(x)
    x[...] = of_x / of_x.sum(axis=1, keepdims=True)
def into_another(x, out):
    of_x = powers(x)
    np.divide(of_x, of_x.sum(axis=1, keepdims=True), out=out)
pk.set_engine("cuda")
x = np.random.default_rng(0).standard_normal((6000, 5000)).astype(np.float32)
theirs = pk.exp(pk.subtract(x, pk.max(x, axis=1, keepdims=True)))
theirs = pk.divide(theirs, pk.sum(theirs, axis=1, keepdims=True))
for function in (into_itself, into_another):
    ours, out = x.copy(), np.zeros_like(x)
    pk.fuse(function)(ours, out)
    call = pk.last_call()
    print((ours if function is into_itself else out).tobytes() == theirs.tobytes())
    print(max(each.blocks for each in pk.fuse(function).explain(x, out).passes) > 1)
    print(call.bytes_up <= 1.2 * x.nbytes, pk.memory_info().plan_bytes <= 64 << 20)
"""


def test_writes_on_a_gpu_with_64_mib_for_plans(engine):
    if engine != "cuda":
        pytest.skip("nothing is kept")
    printed = python(WRITTEN_THERE, env={"PYCUDAKIT_PLAN_MEMORY": "64M"})
    assert printed.split() == ["True"] * 8
