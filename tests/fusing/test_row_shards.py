"""Rows sharded over several GPUs: each runs its own tiles at the same time, with the same results."""

import threading
import time

import numpy as np
import pytest
from helpers.row_tiles import BODIES, WRITTEN, cut, put_gpus, same, same_as_whole, softmax, two, whole
from helpers.strategies import build

import pycudakit as pk
from pycudakit._runtime import context
from pycudakit.fusing.schedule import row_shards, tile_rows


@pytest.fixture
def gpus(monkeypatch):
    """Install two fake GPUs that share all that can be tiled."""
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")
    made = put_gpus(monkeypatch, count=2)
    with pk.engine("cuda", devices=[0, 1]):
        yield made


@pytest.mark.parametrize("body", BODIES)
def test_bodies(gpus, body):
    x = build("float32", (203, 130), "small", 0, ["C"])
    want = whole(body, x)
    gpus.devices.clear()
    same(pk.fuse(body)(x), want)
    of_one = [each for each in gpus.devices if len(each) == 1]
    assert of_one.count([0]) > 3 < of_one.count([1])


@pytest.mark.parametrize("body", WRITTEN)
def test_writes(gpus, body):
    same_as_whole(body)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_fewer_rows_than_gpus(monkeypatch, count):
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")
    put_gpus(monkeypatch, count=5)
    x = build("float32", (count, 900), "small", 1, ["C"])
    with pk.engine("cuda", devices=[3, 0, 4, 2, 1]):
        same(pk.fuse(softmax)(x), whole(softmax, x))


def test_transfers_over_the_link(gpus):
    """Each tile is uploaded once, and its results downloaded, as on one GPU."""
    x, _ = two()
    plan = pk.fuse(softmax).explain(x)
    assert plan.device_bytes > 0
    assert min(each.blocks for each in plan.passes) >= 2
    pk.fuse(softmax)(x)
    assert pk.last_call().devices == (0, 1)


def test_a_gpu_that_is_chosen_within(gpus):
    """The devices chosen in the body run the calls; resident buffers move through the host."""
    x, _ = two()

    def body(x):
        with pk.engine(devices=[1]):
            return softmax(x)

    same(pk.fuse(body)(x), whole(softmax, x))
    with pk.engine(devices=[1]):
        same(pk.fuse(softmax)(x), whole(softmax, x))
        assert pk.last_call().devices == (1,)


@pytest.mark.parametrize("gpu", [0, 1])
def test_one_that_fails(gpus, monkeypatch, gpu):
    """Its error is raised after all other shards have ended, and the next call is right."""
    x, _ = two()
    run = row_shards.PreparedKernel.run

    def fail(self):
        if context.current_devices() == (gpu,):
            raise pk.errors.DeviceError("it fell off the bus")
        run(self)

    want, before = whole(softmax, x), set(threading.enumerate())
    with monkeypatch.context() as patched:
        patched.setattr(row_shards.PreparedKernel, "run", fail)
        with pytest.raises(pk.errors.DeviceError, match=r"bus$"):
            pk.fuse(softmax)(x)
        assert set(threading.enumerate()) <= before
    same(pk.fuse(softmax)(x), want)


def test_one_that_fails_ends_the_others(gpus, monkeypatch):
    x, began, run = (
        build("float32", (2030, 130), "small", 0, ["C"]),
        threading.Event(),
        row_shards.PreparedKernel.run,
    )
    of_other = []

    def run_or_fail(self):
        if context.current_devices() == (1,):
            of_other.append(self)
            began.set()
            time.sleep(0.01 if failing else 0)  # all tiles would take seconds
        elif failing:
            assert began.wait(120)
            raise KeyboardInterrupt
        run(self)

    monkeypatch.setattr(row_shards.PreparedKernel, "run", run_or_fail)
    failing = True
    with pytest.raises(KeyboardInterrupt):
        pk.fuse(softmax)(x)
    until_then, failing = len(of_other), False
    pk.fuse(softmax)(x)
    assert until_then < (len(of_other) - until_then) / 2


def test_warnings(gpus):
    """Each warning is given once for the whole."""
    x = np.full((203, 130), np.inf, np.float32)
    with pytest.warns(RuntimeWarning, match="invalid value encountered in subtract") as met:
        pk.fuse(softmax)(x)
    assert len(met) == 1
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError, match="subtract"):
        pk.fuse(softmax)(x)


# ---- One GPU, used as two ---------------------------------------------------------------------------------


@pytest.fixture
def twice(engine, monkeypatch):
    """Use one GPU as two; count the shards of each tiled group."""
    if engine != "cuda":
        pytest.skip("needs a GPU")
    cut(monkeypatch, 1 << 20)
    monkeypatch.setattr(context, "current_devices", lambda: context.current_context.get().devices or (0, 0))
    made, run = [], tile_rows.run_shards

    def counted(parts, gpus):
        made.append(len(parts))
        return run(parts, gpus)

    monkeypatch.setattr(tile_rows, "run_shards", counted)
    return made


@pytest.mark.parametrize("body", BODIES)
def test_bodies_on_a_gpu(twice, body):
    x = build("float32", (2030, 1300), "small", 0, ["C"])
    want = whole(body, x)
    for _ in range(3):
        same(pk.fuse(body)(x), want)
    assert set(twice) == {2}
    assert pk.fuse(body).explain(x).device_bytes > 0


@pytest.mark.parametrize("body", WRITTEN)
def test_writes_on_a_gpu(twice, body):
    same_as_whole(body)


def test_two_gpus(engine):
    if engine != "cuda" or len(pk.devices()) < 2:
        pytest.skip("needs two GPUs")
    x = build("float32", (8192, 8192), "small", 0, ["C"])
    want = whole(softmax, x)
    for devices in ([0, 1], [1, 0], [1], "all"):
        with pk.engine(devices=devices):
            same(pk.fuse(softmax)(x), want)
            assert set(pk.last_call().devices) == set(range(2) if devices == "all" else devices)


def test_a_plan_of_another_gpu(engine):
    """Buffers are resident on the GPU that runs the calls."""
    if engine != "cuda" or len(pk.devices()) < 2:
        pytest.skip("needs two GPUs")
    x = build("float32", (1000, 1000), "small", 0, ["C"])
    plans = []
    for device in (0, 1):
        with pk.engine(devices=[device]):
            plans.append(pk.fuse(softmax).explain(x))
    moved = [[(each.function, each.bytes_up, each.bytes_down) for each in plan.passes] for plan in plans]
    assert moved[0] == moved[1]
    assert plans[0].device_bytes == x.nbytes
    assert x.nbytes <= plans[0].bytes_up < 1.01 * x.nbytes
