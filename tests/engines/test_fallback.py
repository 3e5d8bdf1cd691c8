"""Fallback under `auto`: the CPU engine computes the rest after a failure of a fake CUDA library."""

import ctypes
import functools
import warnings

import numpy as np
import pytest
from helpers.fake_library import forget_entries, number_of

import pycudakit as pk
from pycudakit import errors
from pycudakit._element_programs import program_cost
from pycudakit._native import abi, driver_jit, engine_status, loader
from pycudakit._runtime import progress
from pycudakit._runtime.engine_choice import EngineChoice

pytestmark = pytest.mark.skipif(
    not pk.engines()["cpu"], reason="the CPU engine stands in for the CUDA engine"
)

FAILURES = [errors.DeviceError, errors.OutOfMemory, errors.NoDevice]


def at(address, dtype, count=1):
    """Return the array at an address."""
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype)


class FakeCuda:
    """A CUDA library that computes some ranges of a call, on the CPU, and fails; it may lose its device."""

    def __init__(self, failure, deliver=lambda _: []):
        self.failure, self.deliver = failure, deliver
        self.library = loader.library("cpu")
        self.calls, self.lost = 0, False

    def __getitem__(self, name):
        return functools.partial(getattr(self, name))

    def pk_device_count(self, count):
        if self.lost:
            raise errors.NoDevice("the device was lost; start a new process")
        ctypes.cast(count, ctypes.POINTER(ctypes.c_int64))[0] = 1

    def pk_evaluate(self, *arguments):
        self.calls += 1
        self.lost = self.failure is errors.DeviceError
        *work, options, met, report = arguments
        shape = at(number_of(arguments[4]), np.dtype(np.int64), number_of(arguments[5]))
        address = int(at(number_of(options), abi.OPTIONS)["rest"][0])
        if address:
            rest = at(address, abi.REST)
            size = int(np.prod(shape))
            delivered = self.deliver(size)
            if delivered:
                mine = np.zeros(1, abi.REST)
                mine["count"] = len(delivered)
                mine["ranges"][0, : len(delivered)] = delivered
                own = np.zeros(1, abi.OPTIONS)
                own["rest"] = mine.ctypes.data
                self.library["pk_evaluate"](*work, ctypes.c_void_p(own.ctypes.data), met, report)
                ends = [0, *(start + count for start, count in delivered)]
                starts = [*(start for start, _ in delivered), size]
                left = [(end, start - end) for end, start in zip(ends, starts, strict=True) if start > end]
                rest["count"] = len(left)
                rest["ranges"][0, : len(left)] = left
        at(number_of(report), abi.REPORT)[...] = 0
        raise self.failure("cudaErrorSome from a fake library")


@pytest.fixture
def fake_cuda(monkeypatch):
    """Replace the CUDA library by a fake one, which `auto` chooses."""

    def put(*arguments):
        library = FakeCuda(*arguments)
        real = loader.library
        monkeypatch.setattr(loader, "library", lambda name: library if name == "cuda" else real(name))
        monkeypatch.setattr(driver_jit, "has_native_code", lambda _device: True)
        monkeypatch.setattr(
            program_cost,
            "choose",
            lambda name, *_: EngineChoice(
                name, "cuda" if engine_status.status("cuda") else "cpu", "the test", automatic=True
            ),
        )
        engine_status.status.cache_clear()
        forget_entries()
        return library

    yield put
    monkeypatch.undo()
    forget_entries()
    engine_status.status.cache_clear()


def add(a, b, **keywords):
    """Add, without the dispatch cache under `auto`."""
    return pk.add(a, b, dtype=float, **keywords)


def parts(size):
    return [(size // 10, size // 10), (size // 2, size // 4), (size - 5, 5)]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("deliver", [lambda _: [], parts, lambda size: [(0, size - 1)], lambda _: [(0, 7)]])
def test_the_rest_is_computed(fake_cuda, failure, deliver):
    library = fake_cuda(failure, deliver)
    a, b = np.random.default_rng(0).random((2, 300, 1000))
    with warnings.catch_warnings(record=True) as caught, pk.engine("auto"):
        warnings.simplefilter("always")
        got = add(a, b)
    assert (got == a + b).all()
    assert [(w.category, w.filename) for w in caught] == [(RuntimeWarning, __file__)]
    text = "the CUDA engine failed, and the CPU engine took over: cudaErrorSome from a fake library"
    assert str(caught[0].message) == text
    left = a.size - sum(count for _, count in deliver(a.size)) if deliver(a.size) else 0
    detail = f", with {left:,} of 300,000 elements left" if left else ""
    call = pk.last_call()
    assert (call.engine, call.reason) == ("cpu", f"auto: the CUDA engine failed{detail}")
    assert library.calls == 1


def test_delivered_elements_are_left_alone(fake_cuda):
    """The CPU engine does not compute delivered elements again."""
    library = fake_cuda(errors.OutOfMemory, lambda size: [(0, size // 2)])
    real = library.pk_evaluate

    def evaluate(*arguments):
        try:
            real(*arguments)
        finally:
            out[:10] = -1.0

    library.pk_evaluate = evaluate
    a, out = np.random.default_rng(0).random(100_000), np.zeros(100_000)
    with pk.engine("auto"), pytest.warns(RuntimeWarning, match="took over"):
        assert add(a, 1, out=out) is out
    assert (out[:10] == -1).all()
    assert (out[10:] == a[10:] + 1).all()


@pytest.mark.parametrize("place", [0, 31_000, 99_999])
def test_exceptions_of_both(fake_cuda, place):
    """A division by zero is reported, in the part of either engine."""
    fake_cuda(errors.OutOfMemory, parts)
    a = np.ones(100_000)
    a[place] = 0
    with pk.engine("auto"):
        with pytest.warns(RuntimeWarning) as caught:
            got = pk.divide(1.0, a, dtype=float)
        assert [str(w.message).split(",")[0] for w in caught] == [
            *("the CUDA engine failed", "divide by zero encountered in divide"),
        ]
        assert np.isinf(got).sum() == 1
        with (
            np.errstate(divide="raise"),
            pytest.raises(FloatingPointError),
            pytest.warns(RuntimeWarning, match="took over"),
        ):
            pk.divide(1.0, a, dtype=float)
        with pytest.warns(RuntimeWarning) as caught:
            pk.divide(1.0, np.ones(100_000), dtype=float)
        assert len(caught) == 1


@pytest.mark.parametrize("layout", ["dense", "strided", "masked", "broadcast", "swapped"])
def test_layouts(fake_cuda, layout):
    fake_cuda(errors.OutOfMemory, parts)
    a, b = np.random.default_rng(0).integers(1, 100, (2, 200, 300)).astype("f4")
    keywords, want = {}, a + b
    if layout == "strided":
        a, b, want = a.T, b[::-1].T, a.T + b[::-1].T
    elif layout == "masked":
        keywords = {"out": np.full_like(a, -3), "where": a > b}
        want = np.where(a > b, want, -3)
    elif layout == "swapped":
        a, keywords = a.astype(">f4"), {"out": np.zeros_like(a, ">f4")}
    elif layout == "broadcast":
        b, want = b[:, :1], a + b[:, :1]
    with pk.engine("auto"), pytest.warns(RuntimeWarning, match="took over"):
        got = pk.add(a, b, dtype="f4", **keywords)
    assert (got == want).all()


def test_two_outputs_and_expressions(fake_cuda):
    fake_cuda(errors.OutOfMemory, parts)
    a, b = np.random.default_rng(0).integers(1, 100, (2, 200, 300)).astype("f4")
    with pk.engine("auto"):
        with pytest.warns(RuntimeWarning, match="took over"):
            quotient, remainder = pk.divmod(a, b, dtype="f4")
        assert (quotient == a // b).all()
        assert (remainder == a % b).all()
        with pytest.warns(RuntimeWarning, match="took over"):
            got = pk.evaluate("a * b + 1 if a > b else -a", out=np.empty_like(a))
        assert (got == np.where(a > b, a * b + 1, -a)).all()


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("step", [1, -1])
def test_overwritten_operands_cannot_be_computed_again(fake_cuda, failure, step):
    fake_cuda(failure, parts)
    a = np.ones(100_000)
    with pk.engine("auto"), pytest.raises(failure, match="from a fake library"):
        add(a, 1, out=a[::step])


@pytest.mark.parametrize("failure", FAILURES)
def test_a_named_engine_raises(fake_cuda, failure):
    library = fake_cuda(failure, parts)
    before = pk.last_call()
    with pk.engine("cuda"), pytest.raises(failure, match="from a fake library"):
        add(np.ones(100_000), 1)
    assert library.calls == 1
    assert pk.last_call() is before


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_a_lost_device_is_not_asked_again(fake_cuda, name):
    library = fake_cuda(errors.DeviceError)
    a = np.ones(100_000)
    assert pk.engines()["cuda"] == (True, "1 device")
    with pk.engine(name):
        if name == "auto":
            with pytest.warns(RuntimeWarning, match="took over"):
                add(a, 1)
        else:
            with pytest.raises(errors.DeviceError):
                add(a, 1)
    assert pk.engines()["cuda"] == (False, "the device was lost; start a new process")
    with warnings.catch_warnings(), pk.engine("auto"):
        warnings.simplefilter("error")
        assert (add(a, 1) == 2).all()
    assert pk.last_call().engine == "cpu"
    assert library.calls == 1


def test_a_failure_that_passes_is(fake_cuda):
    """After a failure that may be temporary (out of memory), CUDA is used again."""
    library = fake_cuda(errors.OutOfMemory)
    for calls in (1, 2):
        with pk.engine("auto"), pytest.warns(RuntimeWarning, match="took over"):
            add(np.ones(100_000), 1)
        assert library.calls == calls
    assert pk.engines()["cuda"]


def test_a_profile_has_the_call_that_answered(fake_cuda):
    fake_cuda(errors.OutOfMemory, parts)
    with pk.engine("auto"), pk.profile() as p, pytest.warns(RuntimeWarning, match="took over"):
        add(np.ones(100_000), 1)
    assert [(call.function, call.engine) for call in p.calls] == [("add", "cpu")]
    assert p.calls[0].spans["elements"].sum() == 100_000 - sum(count for _, count in parts(100_000))


def test_progress_goes_on(fake_cuda, monkeypatch):
    fake_cuda(errors.OutOfMemory, lambda size: [(0, size // 2)])
    monkeypatch.setattr(progress, "FIRST_REPORT_SECONDS", 0.0)
    told = []
    with pk.engine("auto", progress=lambda *at: told.append(at)), pytest.warns(RuntimeWarning):
        add(np.ones(100_000), 1)
    assert told[-1] == (100_000, 100_000)
    call = progress.CallProgress(lambda *at: told.append(at), "add", 100)
    with call as tell:
        told.clear()
        tell(10, 50)  # of the fifty that are left
    assert told == [(60, 100), (100, 100)]
