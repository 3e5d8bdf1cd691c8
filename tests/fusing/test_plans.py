"""Calls on host arrays that are captured as plans and replayed: results, identities, warnings, limits."""

import gc
import math
import pickle
import signal
import threading
import time
import warnings
import weakref

import numpy as np
import pytest
from helpers.nested import assert_parts, copied
from helpers.processes import python
from helpers.replayed import assert_same
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit._runtime import autotuner as tuning
from pycudakit.fusing import autotuning, host_replay
from pycudakit.fusing.execute import capture, numpy_matmul
from pycudakit.fusing.execute.plan import PlanRun
from pycudakit.fusing.memory import residency

FACTOR = 3.0


@pytest.fixture(autouse=True)
def _is_really_replayed(request):
    """Skip the engines of fusing/conftest.py that trace each call."""
    parameters = request.node.callspec.params if "callspec" in vars(request.node) else {}
    if parameters.get("engine") in ("replayed", "device_impls"):
        pytest.skip("is traced each time")


def numbers(*shape, seed=0, dtype="f8"):
    return np.random.default_rng(seed).random(shape).astype(dtype)


def assert_close(one, other):
    if one is None:
        assert other is None
    else:
        np.testing.assert_allclose(one, other, rtol=1e-12)


def with_nan(array):
    array[array < 0.2] = np.nan
    return array


def step(u, n):
    for _ in range(n):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def standardise(x):
    return (x - x.mean()) / x.std()


def new_arrays(x, y):
    first = np.zeros_like(x)
    first[1:] = x[:-1]
    second = np.ones(x.shape) * y
    third = np.empty_like(x)
    third[:10], third[10:] = 1, first[10:] + second[10:]
    fourth = np.eye(4)
    fourth[1] = x[:4]
    return first, second, (third, x.sum(), fourth), 7, None, x


def boundaries(u):
    u[0] = u[1]
    u[-1] = 2 * u[-2] - u[-3]
    return u[3]


def two_arrays(a, b, turns=6):
    for _ in range(turns):
        b[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3
        a[1:-1] = (b[:-2] + b[1:-1] + b[2:]) / 3


def ramps(x):
    return x * np.arange(x.size) + np.linspace(0, 1, x.size)


def extremes(x):
    return x.min(), x.max(), x.argmax(), np.all(x), x.sum() * 2


def views(x):
    y = x * 2
    return y[1:], y[::-1], y.reshape(-1, 1), y, y


def products(x, y):
    vector = np.ndarray(5, x.dtype)
    vector[:] = x[:5]
    return (
        x[:20].reshape(4, 5) @ vector,
        np.dot(x, y),
        x @ x,
        (x[:20].reshape(4, 5) @ y[:35].reshape(5, 7)).sum(),
    )


def scans(x):
    matrix = x[:80].reshape(8, 10)
    return np.cumsum(x * 2), np.cumsum(matrix, axis=0), (np.cumprod(matrix + 1, axis=1) - 1).max()


def kept(x, y):
    """Return values of Python that depend on the shapes alone."""
    return {"unused": 1}["unused"] + x.size, x.shape, x + y


def truth(x):
    return np.any(x > 0.5), np.all(x > 0.5), np.isfinite(1.0), x > 0.9


def repeated(x):
    view, total, pair = (x + 1)[1:], x.sum(), [x + 2]
    return view, view, total, total, pair, pair


def running(x):
    return np.maximum.accumulate(x), np.minimum.accumulate(x[:80].reshape(8, 10), axis=1)


def norms(x):
    matrix = x[:80].reshape(8, 10)
    norms = np.linalg.norm(x), np.linalg.norm(x, 1), np.linalg.norm(matrix, axis=0)
    return x / norms[0], norms, np.linalg.norm(matrix, np.inf, axis=1, keepdims=True)


def factored(x):
    """Factor a matrix: the first and the last slices are empty."""
    a = x[:81].reshape(9, 9) / 20 + 4 * np.eye(9)
    lower = np.zeros_like(a)
    for j in range(9):
        lower[j, j] = np.sqrt(a[j, j] - lower[j, :j] @ lower[j, :j])
        lower[j + 1 :, j] = (a[j + 1 :, j] - lower[j + 1 :, :j] @ lower[j, :j]) / lower[j, j]
    return lower


def weighted(x):
    """Use new arrays that NumPy makes of lists."""
    matrix, weights = x[:80].reshape(20, 4), [4.0, 3.0, 2.0, 1.0]
    return (matrix * np.array(weights)).sum(axis=1), matrix @ np.array(weights)


def joined(x):
    """Concatenate lists of numbers and arrays."""
    sums = np.cumsum(np.concatenate([[0.0], x]))
    return sums[5:] - sums[:-5], np.concatenate([[1, 2], x[:3] * 2, [x.size]])


def in_columns(x):
    """Make arrays in Fortran order, and by `np.ndarray`."""
    made = np.ndarray(shape=(2, 3), dtype=x.dtype, order="F")
    made[...] = x[:3]
    plain = np.ndarray((2, 2), dtype=np.int16)
    plain[...] = 7
    return made, plain, np.zeros((4, 5), order="F"), np.full((3, 2), 2, "i2", order="F") + x[:2]


def without_nan(x):
    return (
        np.nansum(x),
        np.nanmean(x * 2),
        np.nanmax(x, axis=0),
        np.nanmin(x, axis=1),
        np.nanstd(x),
        np.nanvar(x),
    )


def as_dict(x, y):
    sums = x + y
    return {"sum": sums, "parts": [x.max(), sums], 3: (x, None)}


def views_of_arguments(x, y):
    """Return views of an array that owns its memory, among them a read-only one, and of a column."""
    return (
        x * 2,
        x[1:],
        x[::-3],
        x.reshape(10, 5).T,
        x,
        x[1:],
        x.view(np.int64),
        np.diagonal(y.reshape(10, 5)),
    )


def comparisons(x, y):
    if np.allclose(x, x + 1e-9) and not np.allclose(x, y, atol=0.1) and np.array_equal(x, x.copy()):
        return x - y, np.array_equal(x, y[1:]), np.array_equal(x, y)
    return None


BODIES = {
    "factored": (factored, lambda seed: (numbers(90, seed=seed),)),
    "weighted": (weighted, lambda seed: (numbers(90, seed=seed),)),
    "running": (running, lambda seed: (numbers(90, seed=seed),)),
    "norms": (norms, lambda seed: (numbers(90, seed=seed),)),
    "joined": (joined, lambda seed: (numbers(90, seed=seed),)),
    "step": (step, lambda seed: (numbers(400, seed=seed), 30)),
    "softmax": (softmax, lambda seed: (numbers(30, 40, seed=seed),)),
    "standardise": (standardise, lambda seed: (numbers(3000, seed=seed),)),
    "new_arrays": (new_arrays, lambda seed: (numbers(100, seed=seed), numbers(100, seed=seed + 9))),
    "boundaries": (boundaries, lambda seed: (numbers(50, seed=seed),)),
    "two_arrays": (two_arrays, lambda seed: (numbers(60, seed=seed), numbers(60, seed=seed + 9))),
    "ramps": (ramps, lambda seed: (numbers(70, seed=seed),)),
    "extremes": (extremes, lambda seed: (numbers(5000, seed=seed),)),
    "without_nan": (without_nan, lambda seed: (with_nan(numbers(9, 10, seed=seed)),)),
    "as_dict": (as_dict, lambda seed: (numbers(9, seed=seed), numbers(9, seed=seed + 9))),
    "views_of_arguments": (
        views_of_arguments,
        lambda seed: (numbers(50, seed=seed), numbers(50, seed=seed + 9)),
    ),
    "comparisons": (comparisons, lambda seed: (numbers(60, seed=seed), numbers(60, seed=seed + 9))),
    "in_columns": (in_columns, lambda seed: (numbers(50, seed=seed),)),
    "views": (views, lambda seed: (numbers(50, seed=seed),)),
    "products": (products, lambda seed: (numbers(90, seed=seed), numbers(90, seed=seed + 9))),
    "truth": (truth, lambda seed: (numbers(9, seed=seed) + seed / 9,)),
    "repeated": (repeated, lambda seed: (numbers(9, seed=seed),)),
    "scans": (scans, lambda seed: (numbers(90, seed=seed),)),
    "kept": (kept, lambda seed: (numbers(90, seed=seed), numbers(90, seed=seed + 9))),
}


# Traced calls on `cuda` copy factors whose rows are apart, for cuBLAS; replays read them by reductions.
HAVE_OTHER_BITS_ON_GPU = {"factored", "products", "weighted"}


def is_replayed():
    return pk.last_call().reason.endswith("replayed")


@pytest.mark.parametrize("name", BODIES)
def test_replays_are_numpys(engine, name):
    body, arguments = BODIES[name]
    fused = pk.fuse(body)
    for turn in range(5):
        ours = arguments(turn)
        numpys, traced = copied(ours), copied(ours)
        result, expected = fused(*ours), body(*numpys)
        if engine != "auto":  # which replays where that is fastest
            assert is_replayed() == (turn >= 2)
        same_bits = pk.fuse(body)(*traced)  # its first call is traced
        same = {
            id(one): other for one, other in zip(traced, ours, strict=True) if isinstance(one, np.ndarray)
        }
        has_other_bits = engine == "cuda" and name in HAVE_OTHER_BITS_ON_GPU
        if engine != "auto" and not has_other_bits:  # under `auto`, NumPy may compute a call
            assert_same(same_bits, result, same)
        for one, other in zip(ours, numpys, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13)
        assert_parts(result, expected, assert_close)


@pytest.mark.parametrize("min_resident_bytes", [1, residency.MIN_RESIDENT_BYTES])
@pytest.mark.parametrize("name", BODIES)
def test_replays_on_a_fake_gpu_are_numpys(small_gpu, monkeypatch, name, min_resident_bytes):
    monkeypatch.setattr(residency, "MIN_RESIDENT_BYTES", min_resident_bytes)
    test_replays_are_numpys("cuda", name)


@given(st.data())
def test_any_signature(engine, data):
    """Dtypes, strides, read-only arrays and repeated arguments, in turn, each many times."""
    fused = pk.fuse(lambda x, y, c: (x * c + y, np.minimum(x, y).max(), x[::2] - c))
    signatures = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["f4", "f8", "i4", "i8"]),
                st.integers(1, 3),
                st.sampled_from(["own", "same", "overlapping"]),
                st.sampled_from([2, -1.5, True]),
            ),
            min_size=1,
            max_size=3,
        )
    )
    for turn in range(4):
        for dtype, stride, second, number in signatures:
            memory = (numbers(240, seed=turn) * 50).astype(dtype)
            x = memory[: 120 * stride : stride][:70]
            y = {"own": numbers(70).astype(dtype), "same": x, "overlapping": memory[3:73]}[second]
            result, expected = fused(x, y, number), fused.__wrapped__(x, y, number)
            for one, other in zip(result, expected, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)


def test_empty_results(engine):
    def body(x):
        return x[:0] + 1, x * 2, np.zeros((0, 3)), x[:0] @ x[:0], x[5:5].copy()

    fused = pk.fuse(body)
    for seed in range(4):
        x = numbers(50, seed=seed)
        for one, other in zip(fused(x), body(x), strict=True):
            np.testing.assert_array_equal(one, other, strict=True)


def test_results_are_new_in_each_call(engine):
    fused = pk.fuse(lambda x: (x + 1, x.sum()))
    arrays = [numbers(50, seed=seed) for seed in range(6)]
    results = [fused(x) for x in arrays]
    for x, (one, total) in zip(arrays, results, strict=True):
        np.testing.assert_array_equal(one, x + 1)
        np.testing.assert_allclose(total, x.sum(), rtol=1e-14)
        assert one.base is None
        assert one.flags.owndata
        assert type(total) is np.float64


def test_a_global_number_that_changes(engine, monkeypatch):
    fused = pk.fuse(lambda x: x * FACTOR)
    x = numbers(20)
    for factor in (3.0, 4.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for _ in range(4):
            np.testing.assert_array_equal(fused(x), x * factor)


def test_an_attribute_of_numpy_that_changes(engine, monkeypatch):
    fused = pk.fuse(lambda x: np.maximum(x, math.pi))
    x = numbers(20) * 5
    for function, number in ((np.maximum, math.pi), (np.minimum, math.pi), (np.maximum, 2.0)):
        with monkeypatch.context() as patch:
            patch.setattr(np, "maximum", function)
            patch.setattr(math, "pi", number)
            for _ in range(4):
                np.testing.assert_array_equal(fused(x), function(x, number))


def test_a_function_that_replaces_numpys(engine, monkeypatch):
    fused, maximum, calls = pk.fuse(lambda x: np.maximum(x, 0.5)), np.maximum, []

    def replacement(x, y):
        calls.append(y)
        return maximum(x, y) + len(calls)

    x = numbers(20)
    for _ in range(4):
        fused(x)
    monkeypatch.setattr(np, "maximum", replacement)
    for turn in range(1, 5):
        np.testing.assert_array_equal(fused(x), maximum(x, 0.5) + turn)
    fused = pk.fuse(lambda x: np.maximum(x, 0.5))
    for turn in range(5, 9):
        np.testing.assert_array_equal(fused(x), maximum(x, 0.5) + turn)


def test_variables_and_attributes_that_are_deleted(engine, monkeypatch):
    factor = 3.0

    def body(x):
        return np.maximum(x, 0.5) * factor

    fused, x = pk.fuse(body), numbers(20)
    for _ in range(4):
        fused(x)
    with monkeypatch.context() as patch:
        patch.delattr(np, "maximum")
        with pytest.raises(AttributeError, match="module 'numpy' has no attribute 'maximum'"):
            fused(x)
    np.testing.assert_array_equal(fused(x), np.maximum(x, 0.5) * 3.0)
    (cell,) = body.__closure__
    del cell.cell_contents
    with pytest.raises(NameError, match="factor"):
        fused(x)


def test_values_that_python_looks_at(engine):
    fused = pk.fuse(lambda x: x + 1 if x.sum() > 10 else x - 1)
    for _ in range(3):
        for x in (np.ones(5), np.ones(50)):
            np.testing.assert_array_equal(fused(x), fused.__wrapped__(x))
            assert not is_replayed()
    for _ in range(3):
        for x in (np.full(50, 0.01), np.ones(50)):
            np.testing.assert_array_equal(fused(x), fused.__wrapped__(x))


def test_a_read_of_one_element(engine):
    fused = pk.fuse(lambda x: (x * x[2], float(x[1])))
    for seed in range(4):
        x = numbers(30, seed=seed)
        result, number = fused(x)
        np.testing.assert_array_equal(result, x * x[2])
        assert number == x[1]


def test_what_numpy_writes(engine):
    def body(x, order):
        y = x + 1
        y[order] = 0
        np.put(y, [1], 5)
        return y * 2

    fused = pk.fuse(body)
    for seed in range(4):
        x, order = numbers(30, seed=seed), np.random.default_rng(seed).permutation(30)[:4]
        np.testing.assert_array_equal(fused(x, order), body(x, order))


def test_warnings_are_numpys(engine):
    def body(x, out):
        out += 1
        y = np.sqrt(x)
        out[...] = np.log(y)
        return y.sum()

    fused = pk.fuse(body)
    for turn in range(6):
        x, out = numbers(40, seed=turn) + 1, np.zeros(40)
        if turn >= 4:
            x[3] = -1.0
            with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt"):
                total = fused(x, out)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                total = fused(x, out)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(total, np.sqrt(x).sum(), rtol=1e-14)
            np.testing.assert_allclose(out, np.log(np.sqrt(x)), rtol=1e-14)


def test_an_overflow_in_a_reduction_warns(engine):
    fused = pk.fuse(lambda x: x.sum())
    for value in (1.0, 2.0, 3.0):
        assert fused(np.full(4000, value)) == 4000 * value
    with pytest.warns(RuntimeWarning, match="overflow"):
        assert fused(np.full(4000, 1e308)) == np.inf


def test_errors_that_are_ignored_are_replayed(engine):
    fused = pk.fuse(lambda x: np.log(x) + 0)
    x = np.zeros(2000)
    with np.errstate(all="ignore"):
        for turn in range(4):
            assert (fused(x) == -np.inf).all()
            assert engine == "auto" or is_replayed() == (turn >= 2)


def test_errors_that_raise_leave_the_arguments(engine):
    def body(x, out):
        out[...] = 1 / x

    fused = pk.fuse(body)
    for _ in range(3):
        fused(np.ones(30), np.zeros(30))
    x, out = np.ones(30), np.zeros(30)
    x[5] = 0
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        fused(x, out)


def test_arrays_that_overlap_are_not_replayed(engine):
    def body(x, y):
        x[1:] += y[1:]

    fused = pk.fuse(body)
    for turn in range(4):
        memory = numbers(50, seed=turn)
        expected = memory.copy()
        body(expected[:40], expected[5:45])
        fused(memory[:40], memory[5:45])
        np.testing.assert_array_equal(memory, expected)
        assert not is_replayed()


def test_a_read_only_argument(engine):
    fused = pk.fuse(lambda x: x.__setitem__(0, 1.0))
    for _ in range(3):
        fused(np.zeros(5))
    x = np.zeros(5)
    x.flags.writeable = False
    for _ in range(3):
        with pytest.raises(ValueError, match="read-only"):
            fused(x)


def test_an_argument_with_a_new_shape(engine):
    def body(x):
        x.shape = (2, x.size // 2)
        return x + 1

    fused = pk.fuse(body)
    for _ in range(4):
        x = numbers(6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            np.testing.assert_array_equal(fused(x), numbers(6).reshape(2, 3) + 1)
        assert x.shape == (2, 3)


def test_threads(engine):
    fused = pk.fuse(step)
    wrong = []

    def work(seed):
        for turn in range(30):
            u = numbers(300, seed=seed * 100 + turn)
            expected = step(u.copy(), 8)
            fused(u, 8)
            if not np.allclose(u, expected, rtol=1e-13):
                wrong.append((seed, turn))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    context = pk.engine(engine)
    with context:
        pk.set_engine(engine)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            pk.set_engine("auto")
    assert wrong == []


def repeat(fused, u, delay):
    signal.setitimer(signal.ITIMER_REAL, delay)
    while True:
        fused(u, 2000)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="sends a signal")
def test_an_interrupt_ends_a_replay(engine):
    if engine == "auto":
        pytest.skip("NumPy may run it")
    fused = pk.fuse(step)
    for _ in range(3):
        fused(numbers(4096), 2000)
    assert is_replayed()

    class Stopped(Exception):
        pass

    def stop(*_):
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for delay in (1e-4, 1e-3, 3e-3):
            u = numbers(4096)
            with pytest.raises(Stopped):
                repeat(fused, u, delay)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    u = numbers(4096)
    expected = step(u.copy(), 2000)
    fused(u, 2000)
    np.testing.assert_allclose(u, expected, rtol=1e-12)


def test_explain_tells_the_plan_that_is_kept(engine):
    fused = pk.fuse(step)
    u = numbers(4000)
    for _ in range(3):
        fused(u, 100)
    before, runs = u.copy(), is_replayed()
    plan = fused.explain(u, 100)
    np.testing.assert_array_equal(u, before)
    if engine == "auto":  # which may run it in NumPy
        return
    assert runs
    assert (plan.name, plan.engine, plan.breaks, plan.seconds) == ("step", engine, (), None)
    assert sum(each.repeats for each in plan.passes) >= 100 > len(plan.passes)
    assert plan.passes[-1].writes == ("u",)
    assert {each.shape for each in plan.passes} <= {(3998,), (4000,)}
    assert " times)" in str(plan)
    assert "<svg" in plan.svg()
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert fused.explain(numbers(3000), 2).seconds is not None  # other arguments have no plan yet


def test_explain_runs_nothing_where_calls_branch(engine, monkeypatch):
    """The passes are those of the longest call that was captured, with its host calls and graph breaks."""
    if engine in ("auto", "replayed", "device_impls"):
        pytest.skip("its calls may be traced")

    def body(x, a):
        while np.max(x) > 0.01:
            x = x * 0.5
        return np.median(x) + np.linalg.solve(a, x[:3])

    fused, a = pk.fuse(body), np.eye(3) * 2
    for seed in range(4):
        fused(numbers(500, seed=seed), a)
    monkeypatch.setattr(fused._traced, "run", None)
    plan = fused.explain(numbers(500), a)
    functions = [each.function for each in plan.passes]
    assert functions[:3] == ["max", "greater", "multiply"]
    assert functions[-3:] == ["median", "numpy.linalg.solve", "add"]
    assert max(each.repeats for each in plan.passes) > 1
    solved = next(each for each in plan.passes if each.function == "numpy.linalg.solve")
    assert (solved.engine, solved.shape, solved.reads[0]) == ("numpy", (3,), "a")
    made = {name for each in plan.passes for name in each.writes}
    assert {name for each in plan.passes for name in each.reads} <= made | {"x", "a"}
    assert plan.breaks[0].text == "while np.max(x) > 0.01:"
    assert "times" in str(plan)
    assert plan.svg().startswith("<svg")


def levinson(r):
    """The recurrence of Levinson and Durbin, in which each number depends on all before."""
    numbers, variance, reflection = np.empty_like(r), r[0] + 1, -r[0]
    for k in range(1, len(r)):
        variance = variance * (1 - reflection * reflection)
        reflection = -(r[k] + reflection) / variance
        numbers[k] = reflection * variance
    numbers[0] = variance
    return numbers


def test_a_recurrence_is_not_computed_from_its_begin_at_each_step(engine):
    fused = pk.fuse(levinson)
    for seed in range(5):
        r = numbers(120, seed=seed) / 120
        np.testing.assert_array_equal(fused(r), levinson(r))
    plans = fused._traced.plans.plans()
    if engine == "auto":  # which may run it in NumPy
        return
    (plan,) = plans
    instructions = [len(request.arguments[0]) for request in plan.requests]
    assert max(instructions) < 60
    assert sum(instructions) < 40 * len(r)


def test_release_forgets_plans(engine):
    fused = pk.fuse(standardise)
    x = numbers(2000)
    for _ in range(3):
        fused(x)
    pk.release()
    fused(x)
    assert not is_replayed()


def test_functions_that_a_function_calls_are_freed(engine):
    def make():
        constant = np.ones(20)

        def helper(x):
            return x + constant

        return pk.fuse(lambda x: helper(x) * 2), weakref.ref(helper), weakref.ref(constant)

    fused, *refs = make()
    for _ in range(3):
        fused(numbers(20))
    del fused
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_a_function_and_its_plans_are_freed(engine):
    fused = pk.fuse(lambda x: x + 1)
    for _ in range(3):
        fused(numbers(20))
    ref = weakref.ref(fused)
    del fused
    gc.collect()
    assert ref() is None


def test_few_signatures_are_kept(engine, monkeypatch):
    monkeypatch.setattr(host_replay, "_MAX_SIGNATURES", 3)
    fused = pk.fuse(lambda x: x + 1)
    for _ in range(3):
        for size in range(1, 9):
            np.testing.assert_array_equal(fused(np.ones(size)), np.full(size, 2.0))
    assert len(fused._traced.plans.plans()) <= 3


def test_little_memory_is_kept(engine, monkeypatch):
    monkeypatch.setattr(host_replay, "_MAX_BYTES", 1 << 20)
    functions = [pk.fuse(step) for _ in range(3)]
    for _ in range(3):
        for fused in functions:
            u = numbers(100_000)
            expected = step(u.copy(), 3)
            np.testing.assert_allclose(fused(u, 3), expected, rtol=1e-13)


def test_plans_used_least_recently_are_dropped(engine, monkeypatch):
    def make():
        return pk.fuse(lambda x: np.exp(x) * (x + 1) + np.flip(x))

    def call(fused):
        x = numbers(50_000)
        np.testing.assert_allclose(fused(x), np.exp(x) * (x + 1) + np.flip(x), rtol=1e-13)

    first, second, third = make(), make(), make()
    for fused in (first, second):
        for _ in range(3):
            call(fused)
    if not (plans_of(first).trees() and plans_of(second).trees()):
        pytest.skip("this engine does not replay the function")  # `auto`, which may run it in NumPy
    size = plans_of(first).trees()[0].bytes
    monkeypatch.setattr(host_replay, "_caches", weakref.WeakSet([*map(plans_of, (first, second, third))]))
    monkeypatch.setattr(host_replay, "_MAX_BYTES", 2 * size + size // 2)
    call(first)
    for _ in range(3):
        call(third)
    assert plans_of(first).trees()
    assert plans_of(third).trees()
    assert not plans_of(second).trees()
    call(second)  # captured again
    call(second)
    assert plans_of(second).trees()
    assert not plans_of(first).trees()


def plans_of(fused):
    return fused._traced.plans


def test_a_long_capture_gives_up(engine, monkeypatch):
    monkeypatch.setattr(capture, "MAX_SECONDS", 0.0)
    fused = pk.fuse(step)
    for _ in range(4):
        u = numbers(300)
        expected = step(u.copy(), 20)
        np.testing.assert_allclose(fused(u, 20), expected, rtol=1e-13)
        assert not is_replayed()


def test_auto_replays_loops_of_small_arrays(monkeypatch):
    """`auto` measures replays, and NumPy, and takes the faster one; a first slow call runs in NumPy."""
    monkeypatch.setattr(tuning, "MAX_CAPTURE_SECONDS", 20.0)  # other processes may have the processors
    monkeypatch.setattr(tuning, "_CAPTURE_RATIO", 10_000)

    def body(u, n):
        for _ in range(n):
            u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]) + 0.2 * u[1:-1] * u[1:-1] - 0.1 * u[2:]
        return u

    fused = pk.fuse(body)
    with pk.engine("auto"):
        for turn in range(9):
            u = numbers(2000, seed=turn) / 9
            expected = body(u.copy(), 600)
            began = time.perf_counter()
            fused(u, 600)
            assert time.perf_counter() - began < 20
            np.testing.assert_allclose(u, expected, rtol=1e-9)
        plans = fused._traced.plans.plans()
    if pk.engines()["cpu"]:
        assert plans


def calls_under_auto(fused, count):
    """Yield the results of calls under `auto`, each with NumPy's."""
    with pk.engine("auto"):
        for turn in range(count):
            u = numbers(4000, seed=turn)
            expected = fused.__wrapped__(u.copy(), 4000)
            yield fused(u, 4000), expected


def test_auto_gives_up_a_long_capture(monkeypatch):
    monkeypatch.setattr(tuning, "MAX_CAPTURE_SECONDS", 0)

    def body(u, n):
        for i in range(1, n):
            u[i] = u[i - 1] * 0.5 + u[i]
        return u

    fused = pk.fuse(body)
    for got, expected in calls_under_auto(fused, 6):
        np.testing.assert_allclose(got, expected, rtol=1e-13)
    if not pk.engines()["cpu"]:
        return
    with pk.engine("cpu"):  # which is more patient
        for _ in range(3):
            fused(np.ones(4000), 4000)
    assert is_replayed()


def test_auto_leaves_small_arrays_to_numpy_from_a_graph_break_on(monkeypatch):
    monkeypatch.setattr(tuning, "_CAPTURE_RATIO", 10_000)
    monkeypatch.setattr(autotuning, "_SLOW_SECONDS", 0.0)
    captures = []
    begin = capture.Capture.__init__

    def beginning(self, *arguments):
        begin(self, *arguments)
        captures.append(self)

    monkeypatch.setattr(capture.Capture, "__init__", beginning)

    def body(u, n):
        for i in range(1, n):
            u[i] = u[i - 1] * 0.5 if u[i] > 0.5 else u[i]
        return u

    fused = pk.fuse(body)
    for got, expected in calls_under_auto(fused, 5):
        np.testing.assert_array_equal(got, expected)
    if pk.engines()["cpu"]:
        assert [each.is_late for each in captures] == [True]


def test_replays_can_be_turned_off():
    code = """
import pycudakit as pk
pk.set_engine("cpu")
fused = pk.fuse(lambda x: x + 1)
for _ in range(4):
    fused(np.ones(5))
print(pk.last_call().reason.endswith("replayed"))
"""
    assert python(code, env={"PYCUDAKIT_REPLAY": "0"}) == "False"
    assert python(code) == "True"


@pytest.mark.parametrize("name", BODIES)
def test_calls_without_replays_are_numpys(engine, name, monkeypatch):
    """As PYCUDAKIT_REPLAY=0 has it."""
    monkeypatch.setattr(host_replay, "IS_ON", False)
    body, arguments = BODIES[name]
    fused = pk.fuse(body)
    for turn in range(4):
        ours = arguments(turn)
        numpys = copied(ours)
        result, expected = fused(*ours), body(*numpys)
        assert not is_replayed()
        assert_parts(result, expected, assert_close)
        assert_parts(ours, numpys, assert_close)


def test_a_plan_is_data():
    fused = pk.fuse(softmax)
    with pk.engine("cpu"):
        for _ in range(2):
            fused(numbers(9, 40))
        (plan,) = fused._traced.plans.plans()
        x = numbers(9, 40, seed=5)
        run = PlanRun(pickle.loads(pickle.dumps(plan)))
        result = run.result(run.compute([x], [x.ctypes.data], "replayed"))
        np.testing.assert_array_equal(result, fused(x))


SHAPES = [
    *(((5,), (5,)), ((3, 5), (5,)), ((5,), (5, 4)), ((3, 5), (5, 4)), ((40, 50), (50, 60)), ((1, 5), (5, 1))),
    *(((5, 1), (1, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4,))),
    *(((3, 0), (0, 4)), ((0,), (0,)), ((0, 3), (3, 2))),
]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_products_have_numpys_bits(engine, shapes, dtype):
    bodies = (lambda a, b: a @ b, lambda a, b: (a * 2) @ b, lambda a, b: a[::-1] @ b, np.dot)
    for body in bodies:
        fused, other = (
            pk.fuse(lambda a, b, body=body: body(a, b)),
            pk.fuse(lambda a, b, body=body: body(a, b)),
        )
        for seed in range(4):
            a, b = (numbers(*shape, seed=seed, dtype=dtype) for shape in shapes)
            try:
                expected = body(a, b)
            except ValueError:
                continue
            result = fused(a, b)
            assert type(result) is type(expected)
            np.testing.assert_allclose(result, expected, rtol=1e-5)
            if seed:
                continue
            for _ in range(3):  # as a replay has them
                assert np.asarray(result).tobytes() == np.asarray(other(a, b)).tobytes()
            if engine == "cpu" and body is not np.dot:
                assert np.asarray(result).tobytes() == np.asarray(expected).tobytes()


def solve_triangular(a, b):
    """Solve a triangular system; the first product is one of nothing."""
    for i in range(len(b)):
        b[i] = (b[i] - np.dot(a[i, :i], b[:i])) / a[i, i]
    return b


def test_a_product_of_empty_vectors_is_replayed(engine):
    fused = pk.fuse(solve_triangular)
    for seed in range(4):
        a, b = numbers(70, 70, seed=seed) + 70 * np.eye(70), numbers(70, seed=seed)
        np.testing.assert_allclose(fused(a, b.copy()), solve_triangular(a, b.copy()), rtol=1e-12)
    assert engine != "cpu" or is_replayed()  # on a GPU each element that is looked at ends the plan


FACTOR = 1.0


def test_a_global_that_an_expression_names(engine, monkeypatch):
    """No guard sees it, as it is no global of the bytecode."""
    fused = pk.fuse(lambda x: pk.evaluate("x * FACTOR + 1"))  # noqa: ARG005
    for seed in range(5):
        x = numbers(100, seed=seed)
        monkeypatch.setitem(globals(), "FACTOR", 1.0 + seed)
        np.testing.assert_allclose(fused(x), x * FACTOR + 1, rtol=1e-14)


def test_locals_that_an_expression_names(engine):
    def body(x, t):
        u = t * 2  # noqa: F841
        return pk.evaluate("sin(x) * u + 1")

    fused = pk.fuse(body)
    for seed in range(5):
        x = numbers(100, seed=seed)
        np.testing.assert_allclose(fused(x, 1.5 + seed), np.sin(x) * (3 + 2 * seed) + 1, rtol=1e-14)
    assert is_replayed() or engine == "auto"  # NumPy may be faster


def test_without_numpys_loops(engine, monkeypatch):
    """On the CPU, the product is then a host call of the replay."""
    monkeypatch.setattr(numpy_matmul, "_loop_of", lambda _: None)
    fused = pk.fuse(lambda a, b: a @ b)
    for seed in range(4):
        a, b = numbers(7, 8, seed=seed), numbers(8, 3, seed=seed)
        np.testing.assert_allclose(fused(a, b), a @ b, rtol=1e-14)
    requests = [plan.requests for plan in fused._traced.plans.plans()]
    assert any(requests) == (engine == "cuda")
    assert is_replayed() == (engine != "auto")


def test_a_long_argument_that_is_written_once_is_not_copied(engine):
    fused = pk.fuse(lambda x: x.__imul__(2))
    x = numbers(100_000)
    for _ in range(4):
        fused(x)
        assert not is_replayed()
    np.testing.assert_array_equal(x, numbers(100_000) * 16)


class Doubled:
    factor = 2.0


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        (lambda x, t: x * (t / np.timedelta64(1, "s")), [np.timedelta64(5, "s"), np.timedelta64(5, "m")]),
        (lambda x, v: np.copysign(x + 0, v), [np.nan, -np.nan]),
        (lambda x, v: np.copysign(x + 0, v), [0.0, -0.0]),
        (lambda x, kind: x.astype(kind), [np.float32, np.int64, np.dtype("f4"), bool]),
        (lambda x, n: x + n, [1, True, np.int8(1), 1.0]),
    ],
    ids=["units", "nan", "zero", "types", "ones"],
)
def test_other_arguments_have_other_plans(engine, body, calls):
    fused = pk.fuse(body)
    for value in [each for each in calls for _ in range(4)]:
        result, expected = fused(np.ones(3), value), body(np.ones(3), value)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


def test_attributes_of_a_class(engine, monkeypatch):
    fused = pk.fuse(lambda x, kind: x * kind.factor)
    for factor in (2.0, 3.0):
        monkeypatch.setattr(Doubled, "factor", factor)
        for _ in range(3):
            np.testing.assert_array_equal(fused(np.ones(3), Doubled), np.full(3, factor))


@pytest.mark.parametrize("name", ["underflow", "scalars"])
def test_every_call_warns(engine, name):
    """Of underflow, which the libraries do not report, and of NumPy's arithmetic of numbers in the body."""
    body, arguments, state = {
        "underflow": (lambda x: x * x, (np.full(3, 1e-200),), {"under": "warn"}),
        "scalars": (lambda x, s: x + s * s, (np.ones(3), np.int32(2**31 - 1)), {}),
    }[name]
    if name == "underflow" and engine == "cuda":
        pytest.skip("the libraries do not report underflow")
    fused = pk.fuse(body)
    with warnings.catch_warnings(record=True) as met, np.errstate(**state):
        warnings.simplefilter("always")
        for _ in range(5):
            fused(*arguments)
    assert len(met) == 5


def test_flags_that_the_body_sets(engine):
    def body(x):
        x.flags["WRITEABLE"] = False
        return x + 1

    fused = pk.fuse(body)
    for _ in range(4):
        x = np.ones(3)
        fused(x)
        assert not x.flags.writeable


def test_printing_options(engine):
    fused = pk.fuse(lambda x: x * np.get_printoptions()["precision"])
    for precision in (8, 8, 8, 3):
        with np.printoptions(precision=precision):
            np.testing.assert_array_equal(fused(np.ones(3)), np.full(3, precision))


def layers(parameters, x):
    hidden = np.maximum(x @ parameters["first"] + parameters["bias"], 0)
    return hidden @ parameters["second"]


def totals(arrays, x):
    return sum(arrays) * len(arrays), arrays[-1] + x[0]


def test_lists_and_dicts_of_arrays(engine):
    for body in (layers, totals):
        fused = pk.fuse(body)
        for turn in range(5):
            given = [numbers(3, seed=turn + each) for each in range(4)]
            if body is layers:
                given = {"first": numbers(3, 6, seed=turn), "bias": numbers(6), "second": numbers(6, 2)}
            x = numbers(4, 3, seed=turn)
            np.testing.assert_allclose(fused(given, x)[0], body(given, x)[0], rtol=1e-12)
            fused(given, x)
            assert is_replayed() or turn < 2 or engine != "cpu"


def test_containers_that_change_are_traced(engine):
    def appends(items, settings, x):
        items.append(x * 2)
        settings["calls"] += 1
        return items, settings, x + settings["calls"]

    fused, ours, numpys = pk.fuse(appends), ([], {"calls": 0}), ([], {"calls": 0})
    for turn in range(6):
        x = numbers(9, seed=turn)
        result, expected = fused(*ours, x), appends(*numpys, x)
        assert result[0] is ours[0]
        assert result[1] is ours[1]
        assert_parts(result, expected, assert_close)
    kept = pk.fuse(lambda items, settings, x: (items, settings, items is settings, x * 2))
    for _ in range(4):
        items, settings = [numbers(3)], {"a": numbers(4)}
        result = kept(items, settings, numbers(5))
        assert (result[0] is items, result[1] is settings, result[2]) == (True, True, False)
        assert kept(items, items, numbers(5))[2]


def test_a_view_in_a_result_is_the_arguments(engine):
    fused = pk.fuse(lambda x: (x[1:], x * 2))
    base = np.arange(40.0)
    for x in (*[np.arange(30.0) for _ in range(4)], *[base[5:35] for _ in range(4)], np.arange(60.0)[::2]):
        view, doubled = fused(x)
        np.testing.assert_array_equal(doubled, x * 2)
        np.testing.assert_array_equal(view, x[1:])
        assert view.base is x[1:].base
        view[0] = -7
        assert x[1] == -7
