"""The dispatch cache: cached small calls give the same bits, types and call log as the general path."""

import copy
import inspect
import itertools
import re
import warnings
import weakref

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._runtime import dispatch_cache, native_call
from pycudakit._runtime.cost_model import REASON_NUMPY_FASTER_FOR_LAYOUT

NO_CALLS = {*("engine", "evaluate", "fuse", "grid_for", "last_call", "profile", "set_engine")}
NAMES = [n for n in pk.__all__ if n.islower() and callable(getattr(pk, n)) and n not in NO_CALLS]
NAMES = [n for n in NAMES if hasattr(np, n)] + ["linalg.norm", "linalg.matrix_power", "cummax", "cummin"]

RNG = np.random.default_rng(3)
SQUARE = RNG.normal(size=(4, 4))
ARRAYS = [
    RNG.normal(size=10),
    RNG.integers(0, 9, 10),
    RNG.integers(0, 9, 10).astype(np.uint8),
    RNG.normal(size=10) > 0,
    RNG.normal(size=10).astype(np.float32),
    RNG.normal(size=10).astype(">f8"),
    SQUARE,
    SQUARE.T,
    SQUARE[::-1, ::2],
    np.asfortranarray(RNG.integers(-5, 5, (3, 4))),
    np.array([1.0, np.nan, -np.inf, 0.0, -0.0]),
    np.array([1e308, 1e308]),
    np.empty(0),
    np.array(2.5),
    np.float32(1.5),
    3,
    2.5,
    True,
    [3, 1, 2],
    [[1.5, 2.0], [0.5, 1.0]],
    np.array([1 + 2j, 3j]),
]
FURTHER = [(), (0,), (1,), (2,), (-1,), (0.5,), (np.float64(0.25),), (None,), ("x",), (ARRAYS[0],), ([0, 1],)]
KEYWORDS = [
    *({}, {"axis": 0}, {"axis": 1}, {"axis": (0, 1)}, {"axis": 0, "keepdims": True}, {"dtype": np.float32}),
    *(
        {"out": np.zeros(10)},
        {"out": np.zeros((4, 4))},
        {"axis": 0, "out": np.zeros(4)},
        {"out": np.zeros(())},
    ),
    *(
        {"axis": 0, "where": ARRAYS[3]},
        {"initial": 3.0},
        {"axis": 1, "initial": 5},
        {"ddof": 1},
        {"kind": "stable"},
    ),
]


def found(name):
    function = pk
    for part in name.split("."):
        function = getattr(function, part)
    return function


def outcome_of(function, args, kwargs):
    """Return the outcome of a call: its result or error, its warnings, and its record."""
    args, kwargs = copy.deepcopy((args, kwargs))  # one of them may be `out`
    native_call.thread_log.call = None
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        try:
            result = function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001
            return type(error), str(error)
        call = pk.last_call()
    # Cached calls have the estimates of the first call of a similar size.
    reason = call and re.sub(r"(under )?[\d,.]+ ms", "... ms", call.reason)
    return (
        described(result),
        [str(w.message) for w in met],
        call and (call.function, call.engine, reason),
    )


def described(result):
    if isinstance(result, (tuple, list)):
        return type(result), [described(part) for part in result]
    array = np.asarray(result)
    layout = array.flags.c_contiguous, array.flags.f_contiguous
    values = array.tolist() if array.dtype == object else array.tobytes()
    return type(result), array.dtype, array.shape, layout, values


def forms():
    for first, further, keywords in itertools.product(range(len(ARRAYS)), FURTHER, KEYWORDS):
        yield ARRAYS[first], further, keywords
    for a, b in itertools.product(ARRAYS, ARRAYS):
        yield a, (b,), {}


FORMS = list(forms())


@pytest.fixture
def long_way(monkeypatch):
    """Return a context manager in which every call takes the general path."""

    def begin():
        monkeypatch.setattr(dispatch_cache, "signature_of", lambda *_: None)

    yield begin
    monkeypatch.undo()


@pytest.mark.parametrize("name", NAMES)
def test_the_fast_path_reports_as_the_general_path(name, long_way, monkeypatch):
    monkeypatch.setattr(dispatch_cache, "autotuner_of", lambda *_: None)  # its calls run on every engine
    for executables in dispatch_cache._of_all_functions:  # with autotuners of other tests
        executables.clear()
    function = found(name)
    picked = [FORMS[i] for i in np.random.default_rng(len(name)).permutation(len(FORMS))[:200]]
    with pk.engine("auto"):
        answers = []
        for first, further, keywords in picked:
            args = (first, *further)
            three = [outcome_of(function, args, keywords) for _ in range(3)]
            answers.append((args, keywords, three[-1]))
        long_way()
        for args, keywords, short in answers:
            assert short == outcome_of(function, args, keywords), (args, keywords)


@pytest.mark.parametrize("shape", [(4, 5), (300, 500)])
def test_other_values_of_a_form_are_not_the_ones_that_were_learned_from(shape):
    with pk.engine("auto"):
        for _ in range(3):
            x, y = RNG.normal(size=(2, *shape))
            for pick in (lambda a: a, lambda a: a[1:, ::2], lambda a: a.T, lambda a: a[::-1]):
                a, b = pick(x), pick(y)
                with pk.engine("cpu"):
                    cpu = [pk.sum(a, axis=0), pk.vecdot(a, b), pk.vdot(a, b), pk.trace(a), pk.cumsum(a, 1)]
                auto = [pk.sum(a, axis=0), pk.vecdot(a, b), pk.vdot(a, b), pk.trace(a), pk.cumsum(a, 1)]
                for one, other in zip(auto, cpu, strict=True):
                    np.testing.assert_array_equal(one, other, strict=True)
                assert pk.std(a, ddof=1.5) != pk.std(a, ddof=0.5)
                assert pk.sum(a, initial=1.5) != pk.sum(a, initial=2.5)


def test_cached_numpy_calls_with_any_layout():
    with pk.engine("auto"):
        for of in (float, int):
            for _ in range(3):
                x = RNG.normal(scale=9, size=(150, 200)).astype(of)
                for a in (x, x.T, x[::-1, ::2], np.asfortranarray(x)):
                    for axis in (0, 1):
                        np.testing.assert_array_equal(pk.max(a, axis=axis), np.max(a, axis=axis), strict=True)
                        np.testing.assert_array_equal(pk.argmin(a, axis), np.argmin(a, axis), strict=True)
                pk.max(x, axis=0, keepdims=True)
                assert (pk.last_call().function, pk.last_call().engine) == ("max", "numpy")
        with pk.profile() as profile:
            pk.max(x, axis=0, keepdims=True)
    assert [(call.function, call.reason) for call in profile.calls] == [
        ("max", REASON_NUMPY_FASTER_FOR_LAYOUT)
    ]


def test_numpys_results_for_lists_of_arrays():
    with pk.engine("auto"):
        for _ in range(3):
            arrays = [RNG.integers(0, 9, (100, 130), dtype=np.uint8) for _ in range(9)]
            for given in (arrays, tuple(arrays), [[0, 1]] * 8000):
                np.testing.assert_array_equal(pk.max(given, axis=0), np.max(given, axis=0), strict=True)
                np.testing.assert_array_equal(pk.sum(given, axis=0), np.sum(given, axis=0), strict=True)
                np.testing.assert_array_equal(pk.add.reduce(given), np.add.reduce(given), strict=True)


def test_zeros_of_either_sign_are_forms_of_their_own():
    x = np.full((2, 3), -0.0)
    with pk.engine("auto"):
        for initial in (0.0, -0.0, np.float64(-0.0), np.float64(0.0)) * 3:
            got = pk.sum(x, axis=1, initial=initial)
            np.testing.assert_array_equal(np.signbit(got), np.signbit([initial, initial]))


def test_numpy_takes_the_keywords_of_small_calls():
    """NumPy's function that replaces ours in small calls has all of its parameters."""
    lacking, looked_at = {}, 0
    for name in NAMES:
        ours = getattr(found(name), "__wrapped__", None)
        numpys = getattr(ours, "numpy_for_small", None)
        if numpys is None or isinstance(numpys, np.ufunc):  # a ufunc's parameters are NumPy's own
            continue
        known = inspect.signature(numpys).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in known):
            continue
        named = [p.name for p in inspect.signature(ours).parameters.values() if p.kind != p.POSITIONAL_ONLY]
        lacking |= {f"{name}({word}=)": numpys for word in named if word not in {p.name for p in known}}
        looked_at += 1
    assert looked_at > 50
    assert not lacking


def test_cached_calls_warn_of_overflow():
    with pk.engine("auto"):
        for shape in ((2, 3), (200, 300)):
            for _ in range(3):
                assert pk.sum(np.ones(shape), axis=0).tolist() == [shape[0]] * shape[1]
            with pytest.warns(RuntimeWarning, match="overflow"):
                pk.sum(np.full(shape, 1e308), axis=0)
            with np.errstate(over="raise"), pytest.raises(FloatingPointError):
                pk.sum(np.full(shape, 1e308), axis=0)


def test_a_profile_sees_small_calls():
    x = np.ones(10)
    calls = (pk.exp, pk.sort, pk.sum, pk.cumsum, pk.flip, pk.max, pk.linalg.norm)
    with pk.engine("auto"):
        for call in calls * 3:
            call(x)
        with pk.profile() as profile:
            for call in calls:
                call(x)
    assert [call.function for call in profile.calls] == [call.__name__ for call in calls]
    assert all(call.seconds is not None for call in profile.calls)


def test_others_decide_of_small_calls():
    plain, masked = np.ones(10), np.ma.masked_array(np.ones(10), [True] * 5 + [False] * 5)
    with pk.engine("auto"):
        for _ in range(3):
            assert pk.sum(plain) == 10
            assert pk.max(plain) == 1
        assert pk.sum(masked) == 5
        assert isinstance(pk.sort(masked), np.ma.MaskedArray)


def test_a_named_engine_is_not_taken_for_auto():
    x = np.ones(10)
    with pk.engine("auto"):
        for _ in range(3):
            pk.max(x)
    assert pk.last_call().engine == "numpy"
    with pk.engine("cpu"):
        pk.max(x)
    assert pk.last_call().engine == "cpu"


def test_cached_decisions_keep_no_arrays():
    x = np.ones((3, 4))
    kept = weakref.ref(x)
    with pk.engine("auto"):
        for _ in range(3):
            pk.sum(x, axis=0), pk.cumsum(x, 1), pk.max(x), pk.vdot(x, x)
    del x
    assert kept() is None


LONG = [1.5, 2.0, 0.25] * 100


@pytest.mark.parametrize(
    "values", [LONG, [1, 2, 3] * 100, [True, 2] * 100, [1, 2.5] * 100, [*LONG, np.float32(1)]]
)
def test_long_lists(values, long_way, monkeypatch):
    monkeypatch.setattr(dispatch_cache, "autotuner_of", lambda *_: None)  # for a slow machine
    calls = (pk.exp, pk.sum, pk.max, pk.sort, pk.cumsum, pk.unique)
    with pk.engine("auto"):
        short = [[outcome_of(call, (values,), {}) for _ in range(3)][-1] for call in calls]
        short += [[outcome_of(pk.add, (values, values), {}) for _ in range(3)][-1]]
        long_way()
        assert short == [
            *(outcome_of(call, (values,), {}) for call in calls),
            outcome_of(pk.add, (values, values), {}),
        ]


def test_long_lists_of_other_things(long_way):
    with pk.engine("auto"):
        for other in ("x", None, [1.0], 1j, 2**70):
            values = [*LONG, other]
            short = [outcome_of(pk.maximum, (values, values), {}) for _ in range(3)]
            long_way()
            assert short[-1] == outcome_of(pk.maximum, (values, values), {})


def test_decisions_for_dense_arrays_hold_for_similar_sizes():
    with pk.engine("auto"):
        for _ in range(3):
            for size in (9, 10, 15):
                x, y = RNG.normal(size=(2, size))
                for function, args in ((pk.dot, (x, y)), (pk.linalg.norm, (x,)), (pk.cumsum, (x,))):
                    with pk.engine("cpu"):
                        want = function(*args)
                    np.testing.assert_array_equal(function(*args), want, strict=True)
                assert pk.last_call().engine == "cpu"
        with pytest.raises(ValueError, match="not aligned"):
            pk.dot(np.ones(9), np.ones(10))
        swapped = np.arange(10.0).astype(">f8")
        assert pk.dot(swapped, swapped) == 285
        readonly = np.arange(10.0)
        readonly.flags.writeable = False
        assert pk.dot(readonly, readonly) == 285
        assert pk.dot(readonly, np.arange(20.0)[::2]) == 570
