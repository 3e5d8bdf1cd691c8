"""Single calls under `auto`: where estimates are close, some calls are measured."""

import time
import warnings

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._native import engine_status, hardware
from pycudakit._runtime import autotuner, context, dispatch_cache, native_call
from pycudakit._runtime.call_log import Estimates
from pycudakit._runtime.engine_choice import Cost, choose_engine
from pycudakit.random import prefetch

NO_GPU = engine_status.EngineStatus(False, "no GPU")
CALLS = 36  # after which the engine of a signature is chosen


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
        if slow == "numpy":
            time.sleep(seconds)
        return -x

    def function(x):
        choice = choose_engine(name, [], cost)
        if choice.engine == "numpy":
            return native_call.run_numpy(name, choice.reason, lambda: numpy(x))
        if slow == "cpu":
            time.sleep(seconds)
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


BINARY = {"allclose", "array_equal", "array_equiv", "isclose"}
INTEGERS, FLOATS = np.arange(5000), np.linspace(0, 1, 5000)


@pytest.mark.parametrize("slow", ["cpu", "numpy"])
@pytest.mark.parametrize("estimate", ["cpu", "numpy"])
def test_the_measured_engine_is_taken_whatever_was_estimated(slow, estimate):
    cost = Cost(1e-3, 2e-3, 0, 0) if estimate == "numpy" else Cost(2e-3, 1e-3, 0, 0)
    function = work("sort", cost, slow)
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
    assert (
        engines_of(work("argsort", cost, "cpu"), INTEGERS) == ["cpu"] * CALLS
    )  # of equal elements, any order


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


SAME = sorted(set(dispatch_cache._SAME_BITS) & set(dir(np)) & set(dir(pk)) - {"positive"})


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", SAME)
def test_numpy_has_the_same_bits(name, dtype, monkeypatch):
    monkeypatch.undo()
    rng = np.random.default_rng(len(name))
    x, y = (rng.normal(size=3000).astype(dtype) for _ in range(2))
    for array in (x, y):
        array[rng.integers(0, 3000, 400)] = rng.choice([0.0, -0.0, np.inf, -np.inf, 1.0, -1.0], 400)
    i, matrix = rng.integers(0, 3000, 500), x.reshape(50, 60)
    arguments = {
        "compress": (y > 0, x),
        "digitize": (x, np.sort(y[np.isfinite(y)])),
        "kron": (x[:30], y[:40]),
        "lexsort": ((x, y),),
        "outer": (x[:60], y[:50]),
        "searchsorted": (np.sort(x), y),
        "take": (x, i),
        "take_along_axis": (matrix, i.reshape(50, 10) % 60, 1),
        "tril": (matrix,),
        "triu": (matrix,),
        "transpose": (matrix,),
        "where": (x > y, x, y),
    }.get(name)
    function = getattr(np, name)
    if arguments is None:
        is_binary = isinstance(function, np.ufunc) and function.nin == 2
        arguments = (x, y) if is_binary or name in BINARY else (x,)
    with np.errstate(all="ignore"), pk.engine("cpu"):
        ours, numpys = getattr(pk, name)(*arguments), function(*arguments)
    ours, numpys = (each if isinstance(each, tuple) else (each,) for each in (ours, numpys))
    for one, other in zip(map(np.asarray, ours), map(np.asarray, numpys), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)  # NaN equals NaN
        is_number = one == one.copy()
        assert one[is_number].tobytes() == other[is_number].tobytes()


def test_sums_of_estimates():
    first = Estimates("cpu", 3.0, 1.0, None, NO_GPU)
    second = Estimates("numpy", 4.0, 9.0, 2.0, NO_GPU)
    whole = native_call.sum_of_estimates([first, second])
    assert (whole.engine, whole.numpy, whole.cpu, whole.cuda) == ("numpy", 7.0, 10.0, None)
    assert autotuner.autotuner_of("sort", None, True) is None
    assert autotuner.autotuner_of("sort", first._replace(measured=frozenset({"cpu"})), True) is None
