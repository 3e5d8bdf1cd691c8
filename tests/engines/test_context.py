"""The execution context: choice of the engine and GPUs, strictness, `last_call`, and threads."""

import asyncio
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import engine_status
from pycudakit._runtime import context

LARGE = np.linspace(1, 2, 200_000)


@pytest.fixture(autouse=True)
def _process_engine():
    """Restore the engine of the process."""
    before = context.process_engine
    yield
    pk.set_engine(before)


def ran(*arguments):
    pk.sqrt(*(arguments or (LARGE,)))
    return pk.last_call().engine


# ---- Choosing ---------------------------------------------------------------------------------------


def test_context_over_process():
    pk.set_engine("numpy")
    assert ran() == "numpy"
    with pk.engine("cpu"):
        assert ran() == "cpu"
        with pk.engine("numpy"):
            assert ran() == "numpy"
            pk.set_engine("cpu")
            assert ran() == "numpy"
        assert ran() == "cpu"
        pk.set_engine("numpy")
    assert ran() == "numpy"


def test_context_ends_with_an_exception():
    pk.set_engine("numpy")
    with pytest.raises(ZeroDivisionError), pk.engine("cpu"):
        raise ZeroDivisionError
    assert ran() == "numpy"


def test_auto_inside_a_forced_process():
    pk.set_engine("numpy")
    with pk.engine("auto"):
        assert ran(LARGE.repeat(20)) != "numpy"
        assert ran(np.ones(3)) == "numpy"
        assert pk.last_call().reason.startswith("auto")


def test_none_keeps_the_requested_engine():
    pk.set_engine("numpy")
    told = []
    with pk.engine():
        assert ran() == "numpy"
    with pk.engine("cpu", progress=print), pk.engine(devices="all"):
        assert context.current_context.get() == context.CallContext("cpu", "all", print)
        assert ran() == "cpu"
        with pk.engine(None, devices=None, progress=None):
            assert context.current_context.get() == context.CallContext("cpu", "all", print)
        with pk.engine("numpy", devices=[0], progress=False):
            assert context.current_context.get() == context.CallContext("numpy", (0,), None)
        with pk.profile(progress=told.append):
            assert context.current_context.get().progress == told.append
            assert ran() == "cpu"
    assert context.current_context.get() == context.CallContext()


@pytest.mark.parametrize("name", ["gpu", "", "CPU", "cpu ", None, 3, "numpy,cpu"])
def test_bad_names(name):
    for choose in (pk.set_engine, pk.engine)[: 1 if name is None else 2]:
        before = context.current_engine()
        with pytest.raises(
            errors.InvalidArgument, match="choose one of 'auto', 'cuda', 'cpu', 'numpy'"
        ) as caught:
            choose(name)
        assert repr(name) in str(caught.value)
        assert isinstance(caught.value, ValueError)
        assert context.current_engine() == before


def test_threads_do_not_inherit_a_context_but_the_process():
    seen = {}

    def work(key):
        seen[key] = ran()

    def in_thread(key):
        thread = threading.Thread(target=work, args=(key,))
        thread.start()
        thread.join()

    pk.set_engine("numpy")
    with pk.engine("cpu"):
        in_thread("inside")
    pk.set_engine("cpu")
    in_thread("after")
    assert seen == {"inside": "numpy", "after": "cpu"}


def test_contexts_of_threads_are_apart():
    barrier = threading.Barrier(8)

    def work(index):
        name = ("cpu", "numpy")[index % 2]
        for _ in range(50):
            with pk.engine(name):
                barrier.wait(60)
                if ran() != name:
                    return f"{index} ran elsewhere than on {name}"
        return None

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(8))) == {None}


def test_contexts_of_tasks_are_apart():
    async def task(name):
        for _ in range(20):
            with pk.engine(name):
                await asyncio.sleep(0)
                assert ran() == name
                await asyncio.sleep(0)
                assert context.current_engine() == name

    async def main():
        await asyncio.gather(*(task(("cpu", "numpy")[i % 2]) for i in range(6)))

    asyncio.run(main())


# ---- GPUs -------------------------------------------------------------------------------------------

BAD_DEVICES = [
    *("", "ALL", "0", "0,1", 0, 1, True, 0.5, {0}, {0: 1}, np.array([0]), range(1), [], (), [[0]]),
    *([-1], [0, 0], (0, 1, 0), [True], [np.True_], [0.0], ["0"], [None], ["all"], [0, -1], [2**63]),
]


@pytest.mark.parametrize("devices", BAD_DEVICES, ids=str)
@pytest.mark.parametrize("name", ["cpu", "numpy", "auto", "cuda", None])
def test_devices_that_cannot_be(name, devices):
    """Invalid devices are refused at once, on every engine."""
    with pytest.raises(errors.InvalidArgument, match="; choose 'all', or a list of") as caught:
        pk.engine(name, devices=devices)
    assert str(caught.value).startswith(f"devices is {devices!r};")


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_devices_out_of_range(name, monkeypatch):
    monkeypatch.setattr(engine_status, "status", lambda _: engine_status.EngineStatus(True, ""))
    for count in (1, 2):
        monkeypatch.setattr(engine_status, "device_count", lambda count=count: count)
        with pytest.raises(errors.InvalidArgument, match=f"indices of GPUs, from 0 to {count - 1}$"):
            pk.engine(name, devices=[0, count])
        pk.engine("cpu", devices=[0, count])
        with pk.engine(name, devices=[count - 1]):
            assert context.current_devices() == (count - 1,)
        with pk.engine(name, devices="all"):
            assert context.current_devices() == tuple(range(count))
    with pk.engine(name, devices=(np.int16(1), np.uint8(0))):
        assert context.current_devices() == (1, 0)
        assert [type(index) for index in context.current_devices()] == [int, int]
    assert context.current_devices() == (0,)


@pytest.mark.parametrize("devices", ["all", [0], (3, 1)])
def test_devices_without_a_gpu(devices):
    if pk.devices():
        pytest.skip("there is a GPU")
    for name in ("auto", "cpu", "numpy"):
        with pk.engine(name, devices=devices):
            assert ran() == {"auto": "numpy"}.get(name, name) or name == "auto"
            assert (pk.add(LARGE, 1) == LARGE + 1).all()
            assert pk.last_call().devices == ()
    with pk.engine("cuda", devices=devices), pytest.raises(errors.NoDevice) as caught:
        pk.add(LARGE, 1.0)
    assert str(caught.value) == pk.engines()["cuda"].reason


@pytest.mark.skipif(not pk.devices(), reason="needs a GPU")
def test_devices_share_calls():
    count = len(pk.devices())
    a, b = np.random.default_rng(0).random((2, 10_000_000))
    with np.errstate(all="ignore"), pk.engine("cuda"):
        right = pk.evaluate("exp(a) * b + sin(b)")
        assert pk.last_call().devices == (0,)
        for devices in ("all", [0], list(range(count))[::-1], [count - 1]):
            with pk.engine(devices=devices):
                assert (pk.evaluate("exp(a) * b + sin(b)") == right).all()
                wanted = range(count) if devices == "all" else devices
                assert pk.last_call().devices == tuple(wanted)
                assert (pk.add(a[:7], b[:7]) == a[:7] + b[:7]).all()


def test_link_speed():
    for device in range(len(pk.devices())):
        link = pk.link_speed(device)
        assert 1e8 < link.up < 1e12
        assert 1e8 < link.down < 1e12
        assert pk.link_speed(np.int32(device)) is link
    for device in (True, 1.0, "0", None):
        with pytest.raises(TypeError):
            pk.link_speed(device)
    if pk.devices():
        for device in (-1, len(pk.devices())):
            with pytest.raises(errors.InvalidArgument, match="no device of that index"):
                pk.link_speed(device)
    else:
        with pytest.raises(errors.NoDevice) as caught:
            pk.link_speed()
        assert str(caught.value) == pk.engines()["cuda"].reason


# ---- Constants --------------------------------------------------------------------------------------


def test_tunings():
    tunings = pk.tunings()
    assert bool(tunings) == ("cuda" in pk.build_info())
    for name, tuning in tunings.items():
        assert tuning.name == name
        assert tuning.text
        assert tuning.min <= tuning.value <= tuning.max
        assert tuning.min <= tuning.default <= tuning.max
        for value in (tuning.min, tuning.max, np.int64(tuning.default)):
            with pk.tuned(**{name: value}):
                assert pk.tunings()[name] == tuning._replace(value=value)
            assert pk.tunings() == tunings
        for value in (tuning.min - 1, tuning.max + 1, 0.5, "1", None, True):
            with pytest.raises(errors.InvalidArgument, match=f"^{name} is .*; choose an integer from"):
                pk.tuned(**{name: value})
    with pytest.raises(ZeroDivisionError), pk.tuned(**{name: t.min for name, t in tunings.items()}):
        1 / sum(t.value != t.min for t in pk.tunings().values())
    assert pk.tunings() == tunings


def test_unknown_tuning():
    known = ", ".join(pk.tunings())
    known = f"choose one of {known}" if known else "without the CUDA library there are none"
    with pytest.raises(errors.InvalidArgument) as caught:
        pk.tuned(speed=11)
    assert str(caught.value) == f"there is no constant 'speed'; {known}"


# ---- Strictness -------------------------------------------------------------------------------------


class Foreign(np.ndarray):
    pass


_FOREIGN = {
    "complex": np.ones(3, complex),
    "object": np.array([1, 2, 3], object),
    "longdouble": np.ones(3, np.longdouble),
    "subclass": np.ones(3).view(Foreign),
    "masked": np.ma.masked_array([1.0, 2.0, 3.0], [True, False, False]),
    "complex number": 1j,
}
if np.dtype(np.longdouble).itemsize == 8:
    del _FOREIGN["longdouble"]


@pytest.mark.parametrize("kind", _FOREIGN)
def test_unsupported_arguments(engine, kind):
    value = _FOREIGN[kind]
    out = np.full(3, 7.0)
    for call in (
        lambda: pk.add(value, np.ones(3)),
        lambda: pk.multiply(np.ones(3), value),
        lambda: pk.add(np.ones(3), value, out=out),
        lambda: pk.square(value),
        lambda: pk.clip(np.ones(3), 0, value),
        lambda: pk.where([True, False, True], value, 0.0),
        lambda: pk.round(value),
    ):
        told = (
            f"the {engine} engine takes bool, integers and floats|{engine} engine: .* (has a mask|overrides)"
        )
        with pytest.raises(errors.Unsupported, match=told):
            call()
    assert (out == 7.0).all()


@pytest.mark.parametrize("kind", _FOREIGN)
def test_auto_gives_numpys_answer(kind):
    value = _FOREIGN[kind]
    with pk.engine("auto"):
        for name in ("add", "multiply", "equal"):
            got, want = getattr(pk, name)(value, np.ones(3)), getattr(np, name)(value, np.ones(3))
            assert type(got) is type(want)
            assert got.dtype == want.dtype
            assert np.ma.allequal(got, want)
            assert pk.last_call().engine == "numpy"
        assert type(pk.square(value)) is type(np.square(value))
        assert pk.add(np.ones(3), 1, out=np.ones(3, complex)).dtype == complex
        assert pk.add(np.ones(3), 1, dtype=complex).dtype == complex
        if kind == "masked":
            assert pk.add(value, 1).mask.tolist() == [True, False, False]


def test_foreign_out_and_dtype(engine):
    for keywords in ({"out": np.zeros(3, complex)}, {"dtype": complex}, {"out": np.zeros(3).view(Foreign)}):
        with pytest.raises(errors.Unsupported):
            pk.add(np.ones(3), 1.0, **keywords)


def test_numpy_engine_is_numpy_as_it_is():
    with pk.engine("numpy"):
        assert (pk.add(np.ones(3, complex), 1) == 2).all()
        call = pk.last_call()
        assert (call.function, call.engine, call.reason) == ("add", "numpy", "the requested engine")
        assert call.seconds > 0
        assert (pk.divmod(7, 2)) == (3, 1)
        out = np.zeros(3)
        assert pk.sqrt(np.full(3, 4.0), out=out, where=[True, False, True]) is out
        assert out.tolist() == [2, 0, 2]
        assert pk.clip(5, 1, 3) == 3
        assert pk.where([True, False], 1, 2).tolist() == [1, 2]


def test_cuda_without_a_library_or_device():
    status = pk.engines()["cuda"]
    if status.available:
        pytest.skip("there is a GPU")
    with pk.engine("cuda"), pytest.raises(errors.NoDevice) as caught:
        pk.add(LARGE, 1.0)
    assert str(caught.value) == status.reason
    with pk.engine("cuda"), pytest.raises(errors.NoDevice):
        pk.add(1.0, 1.0)
    assert pk.devices() == []


# ---- The call log -----------------------------------------------------------------------------------


def test_engines():
    engines = pk.engines()
    assert list(engines) == ["cuda", "cpu", "numpy"]
    for status in engines.values():
        assert isinstance(status, pk.EngineStatus)
        assert bool(status) is status.available
        assert status.reason
    assert engines["numpy"] == (True, f"NumPy {np.__version__}")
    assert engines["cpu"].available
    assert re.fullmatch(r"\d+ threads?, (baseline|avx2|avx512)", engines["cpu"].reason)


def test_devices():
    devices = pk.devices()
    assert bool(devices) == pk.engines()["cuda"].available
    for index, device in enumerate(devices):
        assert device.index == index
        assert device.name
        assert device.memory > 2**30
        assert device.multiprocessors > 0
        assert device.compute_capability >= (5, 0)
        assert device.pcie_generation is None or 1 <= device.pcie_generation <= 7
        assert device.pcie_width is None or 1 <= device.pcie_width <= 32


def test_build_info():
    info = pk.build_info()
    assert "cpu" in info
    for name, facts in info.items():
        assert name in ("cpu", "cuda")
        assert facts["version"] == pk.__version__
        assert facts["compiler"]
        assert facts["path"].endswith((".so", ".dylib"))
    assert "baseline" in info["cpu"]["instruction sets"].split()


def test_last_call(engine):
    out = np.empty_like(LARGE)
    pk.multiply(LARGE, 2.0, out=out)
    call = pk.last_call()
    assert (call.function, call.engine, call.reason) == ("multiply", engine, "the requested engine")
    assert call.seconds > 0
    assert call.threads >= 1
    assert call.chunks >= 1
    assert call.stages
    assert all(seconds >= 0 for seconds in call.stages.values())
    if engine == "cuda":
        assert call.bytes_up >= LARGE.nbytes
        assert call.bytes_down >= out.nbytes
    else:
        assert call.bytes_up == call.bytes_down == 0
    seen = []
    thread = threading.Thread(target=lambda: seen.append(pk.last_call()))
    thread.start()
    thread.join()
    assert seen == [None]
    assert pk.last_call() is call


def test_last_call_after_an_error_is_the_one_before(engine):
    pk.sqrt(LARGE)
    before = pk.last_call()
    with pytest.raises(ValueError, match="broadcast"):
        pk.add(np.ones(2), np.ones(3))
    assert pk.last_call() is before


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(engine, protocol):
    def again(thing):
        return pickle.loads(pickle.dumps(thing, protocol))

    pk.sqrt(LARGE)
    device = pk.Device(0, "a GPU", (9, 0), 2**37, 132, None, 16)
    data = [pk.Link(1e9, 2e9), pk.Tuning("threads", "how many", 3, 12, 1, 99), pk.memory_info()]
    for thing in (pk.last_call(), device, pk.engines(), pk.devices(), pk.build_info(), *data):
        assert again(thing) == thing
        assert type(again(thing)) is type(thing)
    for name in pk.__all__:
        thing = getattr(pk, name)
        if callable(thing):
            assert again(thing) is thing, name
    for error in errors.BY_STATUS.values():
        copy = again(error("it happened"))
        assert type(copy) is error
        assert str(copy) == "it happened"


# ---- Many threads at once ---------------------------------------------------------------------------


def test_thirty_two_threads(engine):
    """Concurrent calls with different programs, sizes and warnings; every element is exact."""
    functions = ["add", "multiply", "divide", "floor_divide", "maximum", "less", "subtract", "remainder"]
    barrier = threading.Barrier(32)

    def work(index):
        rng = np.random.default_rng(index)
        barrier.wait(120)
        for turn in range(12):
            name = functions[(index + turn) % len(functions)]
            size = int(rng.choice([10, 1000, 20_000, 300_000]))
            a, b = rng.integers(-50, 50, (2, size)).astype(("int32", "float64", "float32")[turn % 3])
            with np.errstate(all="ignore"), pk.engine(engine):
                got, want = getattr(pk, name)(a, b), getattr(np, name)(a, b)
            if not np.array_equal(got, want, equal_nan=want.dtype.kind == "f"):
                return f"{name} of {size} {a.dtype}"
            call = pk.last_call()
            if (call.function, call.engine) != (name, engine):
                return f"last_call() is another's: {call}"
        return None

    with ThreadPoolExecutor(32) as pool:
        assert set(pool.map(work, range(32))) == {None}


def test_errors_in_threads_are_their_own(engine):
    def work(index):
        with pk.engine(engine), np.errstate(all="raise"):
            for _ in range(30):
                if index % 2:
                    with pytest.raises(FloatingPointError, match="divide by zero"):
                        pk.divide(LARGE, 0.0)
                elif not (pk.divide(LARGE, 2.0) == LARGE / 2).all():
                    return "wrong"
        return None

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(8))) == {None}
