"""Single calls under `auto`: where estimates are close, some calls are measured."""

import sys
import time
import warnings
from contextvars import ContextVar

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._native import engine_status, hardware
from pycudakit._runtime import autotuner, context, dispatch_cache, native_call
from pycudakit._runtime.call_log import Estimates
from pycudakit._runtime.context import Preference
from pycudakit._runtime.engine_choice import Cost, choose_engine
from pycudakit.random import prefetch

NO_GPU = engine_status.EngineStatus(False, "no GPU")
CALLS = 60  # after which the engine of a signature is chosen


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch):
    monkeypatch.setattr(
        engine_status, "status", lambda name: engine_status.EngineStatus(name == "cpu", "no GPU")
    )


@pytest.fixture
def with_gpu(monkeypatch):
    """Pretend that a GPU is awake."""
    monkeypatch.setattr(engine_status, "status", lambda _: engine_status.EngineStatus(True, ""))
    monkeypatch.setattr(hardware, "link_is_known", lambda: True)
    monkeypatch.setattr(hardware, "link_speed", lambda _: hardware.Link(25e9, 25e9))


def work(name, cost, slow=None, seconds=2e-3):
    """Return a cached function that negates on the engine of its choice, and takes long on one of them."""

    def numpy(x):
        time.sleep(seconds if slow == "numpy" else 1e-4)
        return -x

    def function(x):
        choice = choose_engine(name, [], cost)
        if choice.engine == "numpy":
            return native_call.run_numpy(name, choice.reason, lambda: numpy(x))
        time.sleep(seconds if slow == "cpu" else 1e-4)
        native_call.log_call((name, choice.engine, choice.reason, (), bytes(native_call.abi.REPORT.itemsize)))
        return -x

    return dispatch_cache.with_dispatch_cache(numpy, function)


def engines_of(function, x, calls=CALLS):
    found = []
    with pk.engine("auto"):
        for _ in range(calls):
            np.testing.assert_array_equal(function(x), -x)
            found.append(pk.last_call().engine)
    return found


INTEGERS, FLOATS = np.arange(5000), np.linspace(0, 1, 5000)


@pytest.mark.parametrize("slow", ["cpu", "numpy"])
@pytest.mark.parametrize("estimate", ["cpu", "numpy"])
def test_the_measured_engine_is_taken_whatever_was_estimated(slow, estimate):
    cost = Cost(1e-3, 2e-3, 0, 0) if estimate == "numpy" else Cost(2e-3, 1e-3, 0, 0)
    function = work("sort", cost, slow, seconds=8e-3)  # other processes may have the processors for 2 ms
    engines = engines_of(function, INTEGERS)
    assert engines[0] == estimate
    fast = "cpu" if slow == "numpy" else "numpy"
    assert engines[-5:] == [fast] * 5
    assert "(measured)" in pk.last_call().reason
    assert slow in engines


def test_results_of_floats_do_not_depend_on_measured_times():
    cost = Cost(2e-3, 1e-3, 0, 0)
    assert engines_of(work("a sum", cost, "cpu"), FLOATS) == ["cpu"] * CALLS
    assert "numpy" in engines_of(work("a sum", cost, "cpu"), INTEGERS)
    assert "numpy" in engines_of(work("isnan", cost, "cpu"), FLOATS)  # the same bits
    # NumPy orders equal elements as it likes, and its `round` to negative decimals overflows.
    assert engines_of(work("argsort", cost, "cpu"), INTEGERS) == ["cpu"] * CALLS
    assert engines_of(work("round", cost, "cpu"), INTEGERS) == ["cpu"] * CALLS


def test_short_calls_and_clear_estimates_are_not_measured():
    assert engines_of(work("sort", Cost(2e-5, 1e-5, 0, 0)), INTEGERS) == ["cpu"] * CALLS
    assert engines_of(work("sort", Cost(9e-2, 1e-3, 0, 0)), INTEGERS) == ["cpu"] * CALLS


def test_an_exception_ends_neither_the_measurement_nor_the_calls():
    failing = [False]

    def function(x):
        choice = choose_engine("sort", [], Cost(2e-3, 1e-3, 0, 0))
        if failing[0]:
            raise ValueError("a bad argument")
        native_call.log_call(("sort", "cpu", choice.reason, (), bytes(native_call.abi.REPORT.itemsize)))
        return -x

    cached = dispatch_cache.with_dispatch_cache(np.negative, function)
    with pk.engine("auto"):
        cached(INTEGERS)
        failing[0] = True
        with pytest.raises(ValueError, match="a bad argument"):
            cached(INTEGERS)
        failing[0] = False
        assert native_call._current_context.get().preference is None
    assert engines_of(cached, INTEGERS)[-1] in ("cpu", "numpy")
    with pk.engine("cpu"):
        choose_engine("sort", [], Cost(1.0, 2.0, 0, 0))
        assert choose_engine("sort", [], Cost(1.0, 2.0, 0, 0)).reason == "the requested engine"


PAIRS = """
add allclose array_equal copysign divide equal fmax fmin greater greater_equal isclose less less_equal
fmod heaviside logical_and logical_or logical_xor maximum minimum multiply not_equal subtract
true_divide
"""


def arguments_of(name, x, y):
    """Return arguments of a function, made of two arrays of floats."""
    order, matrix = np.arange(x.size)[::-1], x.reshape(50, -1)
    others = {
        "clip": (x, x.dtype.type(-0.5), x.dtype.type(2)),
        "compress": (x > 0, y),
        "concatenate": ((x, y),),
        "digitize": (x, np.linspace(-9, 9, 40).astype(x.dtype)),
        "kron": (x[:50], y[:70]),
        "ldexp": (x, order % 40 - 20),
        "lexsort": ((x, y),),
        "outer": (x[:50], y[:70]),
        "repeat": (x, 3),
        "roll": (x, 3),
        "searchsorted": (np.sort(x.astype(float)).astype(x.dtype), y),
        "stack": ((x, y),),
        "swapaxes": (matrix, 0, 1),
        "take": (x, order),
        "take_along_axis": (x, order, 0),
        "tile": (x, 3),
        "tril": (matrix,),
        "triu": (matrix,),
        "where": (x > 0, x, y),
    }
    return others.get(name, (x, y) if name in PAIRS.split() else (x,))


def floats_of_all_kinds(dtype, seed, size=5000):
    """Return random bits, among them subnormals, with many NaN, infinities and zeros."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2 ** (8 * dtype.itemsize), size, f"u{dtype.itemsize}").view(dtype)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, np.finfo(dtype).smallest_subnormal], dtype)
    is_special = (rng.random(size) < 0.3) | np.isnan(values)
    return np.where(is_special, rng.choice(special, size), values)


@pytest.mark.parametrize("name", sorted(dispatch_cache._SAME_BITS))
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_numpy_computes_the_same_bits(name, dtype):
    """But for those of NaN, and for the signs of zeros that are extremes."""
    x, y = (floats_of_all_kinds(np.dtype(dtype), seed) for seed in range(2))
    arguments = arguments_of(name, x, y)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*arguments)
        with pk.engine("cpu"):
            got = getattr(pk, name)(*arguments)
    np.testing.assert_array_equal(got, expected, strict=True)
    if name in ("max", "min", "nanmax", "nanmin", "ptp"):
        return
    for one, other in zip(np.atleast_2d(got), np.atleast_2d(expected), strict=True):
        is_number = one == one.copy()
        assert one[is_number].tobytes() == other[is_number].tobytes()


def test_an_engine_that_is_gone_is_not_preferred():
    """As in a process that was forked after a GPU was measured to be fastest."""

    def choice():
        return choose_engine("sort", [], Cost(2e-3, 1e-3, 0, 0))

    for engine in ("cpu", "cuda"):
        chosen, _ = dispatch_cache.run_preferring(Preference(engine, "fastest"), choice)
        assert chosen.engine == "cpu"
        assert (chosen.reason == "fastest") == (engine == "cpu")


def test_calls_inside_of_a_measured_one_are_no_examples_for_others():
    x = np.ones((3, 1, 1, 1, 1, 100_003))  # of so many dimensions, there is no other call
    with pk.engine("auto"):
        dispatch_cache.run_preferring(Preference("cpu", "measured for another function"), pk.exp, x)
        assert pk.last_call().reason == "measured for another function"
        for _ in range(CALLS):
            pk.exp(x)
    assert pk.last_call().reason.startswith("auto: ")


def test_an_interrupt_leaves_no_preference():
    def interrupt(frame, event, arg):
        of_context = isinstance(getattr(arg, "__self__", None), ContextVar)
        if event == "c_return" and of_context and arg.__name__ == "set":
            raise KeyboardInterrupt

    outer = sys.getprofile()
    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            dispatch_cache.run_preferring(Preference("cpu", "fastest"), abs, -1)
    finally:
        sys.setprofile(outer)
    assert context.current_context.get().preference is None


def test_threads_that_count_a_warm_up_twice_end_the_measurement():
    tuner = autotuner.Autotuner({}, ["cpu", "numpy"])
    tuner._warm_ups["cpu"] = -1
    times = [tuner.record_time(tuner.next_engine({}) or "cpu", 1e-4) for _ in range(CALLS)]
    assert any(times)


def test_values_decide_whether_numpy_is_fastest(with_gpu):
    """`unique` of few values is NumPy's, even if the engines were measured on others."""
    estimates = Estimates("cpu", 9e-3, 1e-3, 2e-3, NO_GPU)
    measuring = autotuner.autotuner_of("unique", estimates, may_be_numpy=False)
    preference = dispatch_cache.preference_of(measuring, "cuda", "measured")
    current = native_call._current_context
    token = current.set(context.preferring(current.get(), preference))
    try:
        few, many = Cost(1e-4, 1e-3, 0, 0), Cost(9e-3, 1e-3, 0, 0)
        assert choose_engine("unique", [], few).engine == "numpy"
        chosen = choose_engine("unique", [], many)
        assert (chosen.engine, chosen.reason, chosen.automatic) == ("cuda", "measured", True)
    finally:
        current.reset(token)
    assert autotuner.autotuner_of("unique", estimates._replace(engine="numpy"), may_be_numpy=False) is None


def test_draws_are_the_same_while_they_are_measured(with_gpu, monkeypatch):
    """Here the GPU's engine is missing, and the draws on it fall back to the CPU engine."""
    ours, on_cpu = pk.random.default_rng(3), pk.random.default_rng(3)
    prefetch._tuned.clear()
    with pk.engine("auto"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        drawn = [ours.normal(size=5000) for _ in range(CALLS)]
    found = list(prefetch._tuned.live_values())
    assert len(found) == 1
    assert "(measured)" in str(found[0].reason)
    with pk.engine("cpu"):
        for values in drawn:
            np.testing.assert_array_equal(values, on_cpu.normal(size=5000))


def test_an_engine_that_fails_is_not_chosen(with_gpu):
    """`choose_engine` prefers CUDA in its turn, but the call runs on the CPU engine."""

    def function(x):
        choice = choose_engine("sort", [], Cost(None, 2e-3, 0, 0))
        if choice.engine == "cuda":
            failures.append(choice)
        native_call.log_call(("sort", "cpu", choice.reason, (), bytes(native_call.abi.REPORT.itemsize)))
        return -x

    failures = []
    cached = dispatch_cache.with_dispatch_cache(np.negative, function)
    engines_of(cached, FLOATS)
    assert 1 <= len(failures) <= 3
    assert "(measured)" in pk.last_call().reason


def test_a_lost_engine_is_not_preferred(with_gpu, monkeypatch):
    current = native_call._current_context
    token = current.set(context.preferring(current.get(), context.Preference("cuda", "measured")))
    try:
        assert choose_engine("sort", [], Cost(9e-3, 1e-3, 0, 0)).engine == "cuda"
        monkeypatch.setattr(
            engine_status, "status", lambda name: engine_status.EngineStatus(name == "cpu", "")
        )
        assert choose_engine("sort", [], Cost(9e-3, 1e-3, 0, 0)).engine == "cpu"
    finally:
        current.reset(token)


@pytest.mark.usefixtures("with_gpu")
@pytest.mark.parametrize("call", [pk.linalg.norm, pk.sum, pk.max, pk.cumsum])
def test_calls_that_wake_no_threads_are_not_measured(call):
    x = np.arange(1000.0)
    with pk.engine("auto"):
        call(x)
    estimates = native_call.estimates_of(native_call.last_record())
    assert estimates is None or min(estimates.seconds().values()) < autotuner.MIN_MEASURED_SECONDS
    assert estimates is None or autotuner.autotuner_of("norm", estimates, may_be_numpy=False) is None


def test_engines_without_a_time_keep_their_estimates(monkeypatch):
    """A call that turns out to be short ends the measurement before the other engines have run."""
    monkeypatch.setattr(autotuner, "MIN_MEASURED_SECONDS", 1.0)
    measuring = autotuner.Autotuner({}, ["cpu", "numpy"], estimates={"cpu": 3e-5, "numpy": 4e-5}, name="sum")
    with pk.engine("cpu"):
        _, times = measuring.measure(lambda _: pk.sum(np.arange(10.0)))
    assert times.engine == "cpu"
    assert times.numpy == 4e-5
    assert times.measured == {"cpu"}
    assert 0 < times.cpu < 1


def test_sums_of_estimates():
    first = Estimates("cpu", 3.0, 1.0, None, NO_GPU)
    second = Estimates("numpy", 4.0, 9.0, 2.0, NO_GPU)
    whole = native_call.sum_of_estimates([first, second])
    assert (whole.engine, whole.numpy, whole.cpu, whole.cuda) == ("numpy", 7.0, 10.0, None)
    assert autotuner.autotuner_of("sort", None, True) is None
    assert autotuner.autotuner_of("sort", first._replace(measured=frozenset({"cpu"})), True) is None
