"""The engine that `auto` chooses for a fused function, by estimated and by measured times."""

import re
import time

import numpy as np
import pytest
from fusing.bodies import SIZES, check, near, split
from fusing.test_bodies import CLOSE, FUNCTIONS, INDEXING, OPERATORS, SHAPES
from fusing.test_in_place_writes import WRITES
from helpers.thorough_cases import thorough

import pycudakit as pk
from pycudakit._native.engine_status import EngineStatus
from pycudakit._runtime import autotuner as tuning
from pycudakit.fusing import autotuning
from pycudakit.fusing.schedule import cost
from pycudakit.fusing.trace.current_trace import current_trace

SLOW = 0.2  # seconds: far more than these bodies take on any engine, even on a busy machine
CALLS = 6  # after which `auto` has settled


@pytest.fixture
def measured(monkeypatch):
    """Have every estimate that does not favour NumPy measured, without a GPU."""
    monkeypatch.setattr(autotuning, "_FIRST_IN_NUMPY", 0)
    monkeypatch.setattr(tuning, "_SHORT_SECONDS", 0.0)  # no warm-ups
    monkeypatch.setattr(tuning, "_CONCLUSIVE_RATIO", 1e9)
    monkeypatch.setattr(cost, "_TRACE_OP", 0)
    monkeypatch.setattr(cost, "_KERNEL", 0)
    monkeypatch.setattr(cost.engine_status, "status", lambda name: EngineStatus(name == "cpu", "no GPU"))


def engines_of(function, *arguments):
    found = []
    with pk.engine("auto"):
        for _ in range(CALLS):
            function(*arguments)
            found.append(pk.last_call().engine)
    return found


@pytest.mark.parametrize("slow", ["numpy", "cpu"])
def test_the_quicker_one_is_taken(measured, slow):
    @pk.fuse
    def body(x):
        if (current_trace() is None) == (slow == "numpy"):
            time.sleep(SLOW)
        return np.exp(x) * np.sin(x) + np.sqrt(np.abs(np.cos(x)))

    engines = engines_of(body, np.linspace(0, 1, 100_000))
    assert engines[:4] == ["cpu", "cpu", "numpy", "cpu"]  # they are measured in turn, after the first call
    if slow == "cpu":
        assert engines[4] == "numpy"  # for the second time, which one that is much slower is spared
    assert engines[5] == ("cpu" if slow == "numpy" else "numpy")


def test_reasons_of_measured_calls(measured):
    @pk.fuse
    def body(x):
        return np.exp(x) * np.sin(x) + np.sqrt(np.abs(np.cos(x)))

    reasons, of_passes = [], []
    with pk.engine("auto"):
        for _ in range(CALLS + 2):
            body(np.linspace(0, 1, 100_000))
            reasons.append(pk.last_call().reason)
            of_passes += [one.reason for one in pk.last_call().passes]
    assert of_passes
    assert [reason for reason in of_passes if not reason.startswith("auto: ")] == []
    assert [reason for reason in reasons if not reason.startswith("auto: ")] == []
    assert reasons[1] == "auto: the engines are compared"  # it is captured
    assert reasons[2] == "auto: the engines are compared; replayed"
    times = r"auto: (cpu [\d.]+ ms, numpy [\d.]+ ms|numpy [\d.]+ ms, cpu [\d.]+ ms) \(measured\)"
    assert re.fullmatch(times + "; cuda not available: no GPU(; replayed)?", reasons[-1])


def test_the_reason_of_a_fused_call_has_its_engines_time(measured):
    @pk.fuse
    def body(x):
        if current_trace() is None:
            time.sleep(SLOW)
        return np.exp(x) * np.sin(x) + np.sqrt(np.abs(np.cos(x)))

    assert engines_of(body, np.linspace(0, 1, 100_000))[-1] == "cpu"
    numpy_milliseconds = re.search(r", numpy ([\d.]+) ms", pk.last_call().reason)
    assert 1e3 * SLOW <= float(numpy_milliseconds[1]) < 10e3 * SLOW
    with pk.engine("auto"), pk.profile() as profile:  # calls in a profile are not replayed
        body(np.linspace(0, 1, 100_000))
    (call,) = profile.calls
    assert call.reason.startswith("auto: cpu ")
    assert "(measured)" in call.reason
    assert "the requested engine" not in str(profile)


def test_other_numbers_are_not_compared(measured):
    @pk.fuse
    def body(x, steps):
        for _ in range(steps):
            x = np.exp(-x) * np.sin(x)
        return x

    x = np.linspace(0, 1, 50_000)
    with pk.engine("auto"):
        for steps in (1, 2, 3, 2, 3, 2):
            body(x, steps)
            assert pk.last_call().engine == "cpu"
    assert engines_of(body, x, 1)[:4] == ["cpu", "cpu", "numpy", "cpu"]  # the first call is captured


def smoothed(x, weight, steps):
    for _ in range(steps):
        x[1:-1] = x[1:-1] + weight * (x[2:] - 2 * x[1:-1] + x[:-2])
    return x


def check_given_up_once(calls):
    """Check the results of so many calls, of which one capture is late, and the last one runs in NumPy."""
    function = pk.fuse(smoothed)
    want = smoothed(np.linspace(0, 1, 20_000), 0.1, 50)
    with pk.engine("auto"):
        for _ in range(calls):
            np.testing.assert_allclose(function(np.linspace(0, 1, 20_000), 0.1, 50), want, rtol=1e-12)
    assert function._traced.plans.late == 1
    assert pk.last_call().engine == "numpy"


def test_a_capture_that_lacked_time_is_tried_again(monkeypatch):
    """It may take twice as long then, and the calls in NumPy before it have taken as long together."""
    monkeypatch.setattr(autotuning, "_SLOW_SECONDS_OF_FIRST", 0.0)
    monkeypatch.setattr(tuning, "_MIN_CAPTURE_SECONDS", 0.0)
    monkeypatch.setattr(tuning, "_CAPTURE_RATIO", 1)
    function, x = pk.fuse(smoothed), np.linspace(0, 1, 20_000)
    want = smoothed(x.copy(), 0.1, 50)
    late = []
    with pk.engine("auto"):
        for _ in range(2000):
            np.testing.assert_allclose(function(x.copy(), 0.1, 50), want, rtol=1e-12)
            late.append(function._traced.plans.late)
            if function._traced.plans.captured:
                break
    assert function._traced.plans.captured == 1
    tried = [late.index(count) for count in range(1, late[-1] + 1)]
    assert len(tried) >= 2
    assert all(np.diff(tried)[1:] > 2)
    reasons = [reason_of(function, x.copy(), 0.1, 50) for _ in range(3)]
    assert any("replayed" in reason for reason in reasons)


def reason_of(function, *arguments):
    """Return the reason for the engine of a call under `auto`."""
    with pk.engine("auto"):
        function(*arguments)
    return pk.last_call().reason


def test_the_first_call_runs_in_numpy(monkeypatch):
    """It tells how long NumPy takes. If that is long, the next call is captured, and later ones replayed."""
    monkeypatch.setattr(autotuning, "_SLOW_SECONDS_OF_FIRST", 0.0)
    monkeypatch.setattr(tuning, "_CAPTURE_RATIO", 10_000)
    function, reasons = pk.fuse(smoothed), []
    x = np.random.default_rng(1).random(20_000)
    with pk.engine("auto"):
        for weight in (0.1, 0.2, 0.3, 0.2):
            want = smoothed(x.copy(), weight, 20)
            np.testing.assert_allclose(function(x.copy(), weight, 20), want, rtol=1e-12)
            reasons.append(pk.last_call().reason)
    assert reasons[0] == "auto: the first call runs in NumPy, which tells whether tracing pays"
    assert reasons[1:3] == ["auto: the engines are compared", "auto: the engines are compared; replayed"]
    assert function._traced.plans.captured == 1  # the weight is an operand of the plan


def test_a_slow_capture_is_given_up(monkeypatch):
    """NumPy runs the rest of the call, and later ones: tracing takes as long in each."""
    monkeypatch.setattr(autotuning, "_SLOW_SECONDS_OF_FIRST", 0.0)
    monkeypatch.setattr(tuning, "_MIN_CAPTURE_SECONDS", 0.0)
    monkeypatch.setattr(tuning, "_CAPTURE_RATIO", 1)
    monkeypatch.setattr(autotuning, "MAX_SECONDS", 0.0)  # it is not tried again
    check_given_up_once(CALLS)


def test_a_call_that_cannot_be_replayed_is_traced_for_a_short_time(monkeypatch):
    """Then NumPy runs the rest: a trace of single elements takes far longer."""
    monkeypatch.setattr(autotuning, "_SLOW_SECONDS_OF_FIRST", 0.0)
    monkeypatch.setattr(tuning, "_MIN_CAPTURE_SECONDS", 1e-3)

    @pk.fuse
    def body(x):
        total = 0.0
        for i in range(3000):
            total += x[i] * x[i + 1] if x[i] > 0.5 else 0.0
        return total

    x = np.random.default_rng(2).random(20_000)
    with pk.engine("auto"):
        assert [body(x) for _ in range(CALLS)] == [body.__wrapped__(x)] * CALLS
    assert body._traced.plans.late == 1
    assert pk.last_call().engine == "numpy"


@pytest.mark.parametrize(("size", "first"), [(5000, "numpy"), (1 << 19, "numpy"), (1 << 20, "cpu")])
def test_calls_of_large_arrays_are_traced_at_once(monkeypatch, size, first):
    monkeypatch.setattr(cost.engine_status, "status", lambda name: EngineStatus(name == "cpu", "no GPU"))
    function = pk.fuse(lambda x: np.exp(x) * np.sin(x) + np.sqrt(np.abs(np.cos(x))))
    assert engines_of(function, np.linspace(0, 1, size))[0] == first


@pytest.fixture
def given_up(monkeypatch):
    """Force the fallback to NumPy after the first operation, under `auto`."""
    monkeypatch.setattr(cost, "_GIVE_UP_SECONDS", -1)
    monkeypatch.setattr(cost, "_GIVE_UP_RATIO", -1)


BODIES = split(OPERATORS + FUNCTIONS + SHAPES + INDEXING + CLOSE + WRITES)


@pytest.mark.parametrize("body", [*BODIES[::4], *thorough(*BODIES[1::4], *BODIES[2::4], *BODIES[3::4])])
def test_values_that_numpy_continues_with(given_up, body):
    with pk.engine("auto"):
        check(body, SIZES[1], near)


def test_passes_are_given_up(engine):
    """A loop over single elements runs in NumPy from its first call on: tracing costs far more."""

    def body(A, b):
        y = A[0] + b
        for i in range(1, A.shape[0]):
            for j in range(i):
                A[i, j] -= np.dot(A[i, :j], A[j, :j])
            A[i, i] = y[i] + A[i, i]
            y[1:] += 0.5 * y[:-1]
        with np.errstate(divide="ignore"):
            return y / 0.0, A[1:, 0], A

    n = 90
    A, b = np.random.default_rng(1).random((n, n)) / n, np.ones(n)
    ours, numpys = A.copy(), A.copy()
    got, want = pk.fuse(body)(ours, b), body(numpys, b)
    assert got[2] is ours
    assert np.shares_memory(got[1], ours)
    for mine, theirs in zip((*got, ours), (*want, numpys), strict=True):
        near(mine, theirs)


def test_engines_with_close_estimates_are_measured(monkeypatch):
    monkeypatch.setattr(cost.Costs, "cuda", 2e-3)
    costs = cost.Costs(numpy=3.5e-3, cpu=1.5e-3, replayed=1e-3)
    assert costs.best().engine == "cpu"
    assert tuning.candidates(costs.estimates(may_replay=False)) == ["cpu", "cuda", "numpy"]
    assert tuning.candidates(costs.estimates(may_replay=True)) == ["cpu", "cuda"]
    autotuner = tuning.Autotuner({"n": 3}, ["cpu", "cuda"])
    assert autotuner.next_engine({"n": 4}) is None  # which may be other work
    chosen = []
    for seconds in (50e-3, 900e-3, 30e-3, 20e-3):  # the first call on an engine may compile
        engine = autotuner.next_engine({"n": 3})
        best = autotuner.record_time(engine, seconds)
        chosen.append((engine, best and best.engine))
    assert chosen == [("cpu", None), ("cuda", None), ("cpu", None), ("cuda", "cuda")]
    assert str(best).startswith("auto: cuda 20 ms, cpu 30 ms (measured)")


def test_an_engine_is_measured_if_the_others_take_longer_than_its_estimate():
    estimates = {"cpu": 200e-3, "cuda": 20e-3, "numpy": 100e-3}
    assert tuning.candidates(estimates) == ["cuda"]
    times = {"cpu": 50e-3, "numpy": 70e-3}
    for cuda_seconds, order in (
        (90e-3, ["cuda"]),
        (150e-3, ["cuda", "numpy"]),
        (500e-3, ["cuda", "cpu", "numpy"]),
    ):
        autotuner = tuning.Autotuner({}, ["cuda"], estimates=estimates)
        times["cuda"] = cuda_seconds
        measured, best = [], None
        while best is None:
            measured.append(autotuner.next_engine({}))
            best = autotuner.record_time(measured[-1], times[measured[-1]])
        assert list(dict.fromkeys(measured)) == order
        assert best.engine == min(order, key=times.get)
        is_estimated = len(order) < 3
        assert ("(estimated)" in str(best)) == is_estimated


def test_numpy_is_measured_again_only_if_it_is_close():
    for numpy_seconds, order in (
        (50e-3, ["cpu", "numpy", "cpu", "numpy"]),
        (500e-3, ["cpu", "numpy", "cpu"]),
    ):
        autotuner = tuning.Autotuner({}, ["cpu", "numpy"])
        chosen, best = [], None
        while best is None:
            engine = autotuner.next_engine({})
            chosen.append(engine)
            best = autotuner.record_time(engine, 40e-3 if engine == "cpu" else numpy_seconds)
        assert (chosen, best.engine) == (order, "cpu")


def test_a_call_without_arrays_says_nothing_about_arrays_in_a_container():
    function = pk.fuse(
        lambda value: np.sin(value["x"]) * np.cos(value["x"]) if type(value) is dict else value
    )
    many = {"x": np.linspace(0, 1, 2_000_000)}
    with pk.engine("auto"):
        assert function("no array") == "no array"
        np.testing.assert_allclose(function(many), function.__wrapped__(many))
        assert pk.last_call().engine != "numpy"


def test_engines_of_calls_used_lately_are_kept():
    function = pk.fuse(lambda x, n: x + n)
    x = np.ones(10)
    with pk.engine("auto"):
        for number in range(2000):
            function(x, number)
            function(x, 7)
    assert type(function._autotuned.best[(x.shape, x.dtype), 7]) is autotuning.NumPyCallsLeft
    assert len(list(function._autotuned.best.live_values())) <= 256


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), {}),
        ((3,), {}),
        ((2.5,), {}),
        ((), {"number": 3}),
        ((), {"sign": True}),
        ((2.5,), {"mode": "abs"}),
    ],
)
def test_functions_of_small_arrays_are_measured_once_they_have_taken_long(monkeypatch, arguments, named):
    monkeypatch.setattr(autotuning, "_REPLAY_SECONDS", 0.0)
    monkeypatch.setattr(autotuning, "_TRIAL_SECONDS", 1e-3)
    monkeypatch.setattr(tuning, "_SHORT_SECONDS", 0.0)  # no warm-ups

    @pk.fuse
    def body(x, number=2, sign=False, mode=None):
        for _ in range(5):
            x = x * number + np.abs(x) - number
        return -x if sign or mode else x

    x = np.linspace(0, 1, 1000)
    want, engines = body.__wrapped__(x, *arguments, **named), []
    with pk.engine("auto"):
        for _ in range(200):
            np.testing.assert_array_equal(body(x, *arguments, **named), want)
            engines.append(pk.last_call().engine)
    assert engines[0] == "numpy"
    assert "cpu" in engines
    assert body._autotuned.best[((x.shape, x.dtype),)].engine == engines[-1]


def test_short_functions_of_small_arrays_stay_in_numpy(monkeypatch):
    monkeypatch.setattr(autotuning, "_REPLAY_SECONDS", 1.0)
    monkeypatch.setattr(autotuning, "_TRIAL_SECONDS", 0.0)
    function = pk.fuse(lambda x: x + 1)
    assert {*engines_of(function, np.ones(10)), *engines_of(function, np.ones(10))} == {"numpy"}


def test_a_short_first_call_does_not_decide_for_all(monkeypatch):
    """One in 64 short calls of small arrays is timed: with another number, they may take far longer."""
    monkeypatch.setattr(autotuning, "_REPLAY_SECONDS", 1e-3)

    @pk.fuse
    def body(x, weight):
        if weight <= 0:
            return x
        for _ in range(3000):
            x = x * 0.999 + weight
        return x

    x = np.ones(10)
    with pk.engine("auto"):
        body(x, 0.0)
        for _ in range(400):
            body(x, 1.0)
            if type(body._autotuned.best[((x.shape, x.dtype), float)]) is not autotuning.NumPyCallsLeft:
                break
        else:
            pytest.fail("the engines are never tried")


def test_the_first_long_replays_on_a_gpu_are_not_counted():
    """They are not yet launches of a CUDA graph; nor are calls while kernels are compiled."""
    for has_graph, is_compiling, not_counted in ((False, [], 0), (True, [], 2), (True, [3, 4], 4)):
        autotuner = tuning.Autotuner({}, ["cpu", "cuda"], has_graph=has_graph)
        calls, best = 0, None
        while best is None:
            engine = autotuner.next_engine({})
            calls += engine == "cuda"
            seconds = 50e-3 if engine == "cpu" else 40e-3
            best = autotuner.record_time(engine, seconds, is_compiling=calls in is_compiling)
        assert (best.engine, calls) == ("cuda", 2 + not_counted)


def test_numpy_is_left_if_no_engine_is():
    autotuner = tuning.Autotuner({}, ["cpu"])
    assert autotuner.exclude("cpu") is None
    best = None
    while best is None:
        assert autotuner.next_engine({}) == "numpy"
        best = autotuner.record_time("numpy", 50e-3)
    assert best.engine == "numpy"


def test_a_late_capture_of_the_only_engine(measured, monkeypatch):
    """`auto` had estimated that the CPU engine is fastest by far."""
    monkeypatch.setattr(tuning, "_CONCLUSIVE_RATIO", 0)
    monkeypatch.setattr(tuning, "_MIN_CAPTURE_SECONDS", 0.0)
    monkeypatch.setattr(tuning, "_CAPTURE_RATIO", 0)
    check_given_up_once(2 * CALLS)


def test_a_slow_gpu_is_not_waited_for():
    autotuner = tuning.Autotuner({}, ["cpu", "cuda"], has_graph=True)
    chosen, best = [], None
    while best is None:
        chosen.append(autotuner.next_engine({}))
        best = autotuner.record_time(chosen[-1], 50e-3 if chosen[-1] == "cpu" else 400e-3)
    assert (best.engine, chosen.count("cuda")) == ("cpu", 2)


@pytest.mark.parametrize(
    ("seconds", "warm_ups", "calls"),
    [
        ({"cpu": 0.1e-3, "numpy": 0.2e-3}, 8, {"cpu": 8, "numpy": 8}),
        ({"cpu": 2e-3, "numpy": 3e-3}, 2, {"cpu": 8, "numpy": 7}),  # until two or more have taken 20 ms
        ({"cpu": 6e-3, "numpy": 7e-3}, 1, {"cpu": 4, "numpy": 3}),
        ({"cpu": 1e-3, "numpy": 3e-3}, 4, {"cpu": 8, "numpy": 2}),  # it is not the fastest
        ({"cpu": 30e-3, "numpy": 40e-3}, 0, {"cpu": 2, "numpy": 2}),
    ],
)
def test_short_calls_are_measured_more_often(seconds, warm_ups, calls):
    autotuner = tuning.Autotuner({}, ["cpu", "numpy"])
    chosen, best = [], None
    while best is None:
        chosen.append(autotuner.next_engine({}))
        best = autotuner.record_time(chosen[-1], seconds[chosen[-1]])
    assert {name: len(times) for name, times in autotuner._seconds.items()} == calls
    assert (best.engine, chosen.count("cpu")) == ("cpu", warm_ups + calls["cpu"])


@pytest.mark.parametrize(("known", "times"), [(None, [150e-3]), (80e-3, [150e-3]), (1e-3, [150e-3, 15e-3])])
def test_a_long_call_in_numpy_is_measured_again_if_it_is_known_to_be_short(known, times):
    """The machine may have been busy."""
    for keywords in ({"numpy_seconds": known}, {"estimates": {} if known is None else {"numpy": known}}):
        autotuner = tuning.Autotuner({}, ["cpu", "numpy"], **keywords)
        left, best = list(times), None
        while best is None:
            engine = autotuner.next_engine({})
            best = autotuner.record_time(engine, left.pop(0) if engine == "numpy" else 20e-3)
        assert not left
        assert best.engine == ("numpy" if min(times) < 20e-3 else "cpu")


def test_an_engine_that_is_excluded_is_not_measured():
    autotuner = tuning.Autotuner({}, ["cpu", "numpy", "cuda"])
    for _ in range(2):  # by two threads
        assert autotuner.exclude("cuda") is None
    assert autotuner.record_time("cuda", 1e-3) is None
    chosen = []
    while (engine := autotuner.next_engine({})) is not None:
        chosen.append(engine)
        autotuner.record_time(engine, 50e-3)
    assert chosen == ["cpu", "numpy", "cpu", "numpy"]


def test_an_engine_may_be_excluded_last():
    autotuner = tuning.Autotuner({}, ["cpu", "numpy", "cuda"])
    for engine, seconds in (("cpu", 50e-3), ("numpy", 60e-3)) * 2:
        assert autotuner.record_time(engine, seconds) is None
    assert autotuner.next_engine({}) == "cuda"
    assert autotuner.exclude("cuda").engine == "cpu"


def test_a_function_whose_calls_a_gpu_cannot_replay_has_no_graph():
    costs = cost.Costs()
    for _ in range(9):
        costs.evaluated(1e-6)
    assert costs.has_graph
    costs.up = 64 << 20
    assert not costs.has_graph
    costs.up = 0
    costs.called(1000)
    assert not costs.has_graph


def test_the_cost_of_a_product():
    """Of a matrix and a vector it is that of reading the matrix; of matrices, of computing."""
    matrix, vector = np.empty((4000, 4000), np.float32), np.empty(4000, np.float32)
    short, long = cost.Costs(), cost.Costs()
    short.multiplied(matrix, vector)
    long.multiplied(matrix, matrix)
    assert 0.2e-3 < short.numpy < 10e-3
    assert long.numpy > 10 * short.numpy


def test_auto_measures_a_gpu_for_series(small_gpu, monkeypatch):
    """Their values are no arguments that are arrays, but they are not small for that."""
    pandas = pytest.importorskip("pandas")
    from pycudakit._native import engine_status
    from pycudakit.fusing import autotuning

    available = engine_status.EngineStatus(True, "")
    monkeypatch.setattr(engine_status, "status", lambda _: available)
    monkeypatch.setattr(autotuning, "candidates", lambda _: ["cpu", "cuda"])
    fused, series = pk.fuse(lambda s: s * 2 + 1), pandas.Series(np.linspace(0, 1, 200_000))
    engines = set()
    with pk.engine("auto"):
        for _ in range(40):
            np.testing.assert_array_equal(fused(series), series * 2 + 1)
            engines.add(pk.last_call().engine)
    assert "cuda" in engines
