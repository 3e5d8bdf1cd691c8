"""Small calls under `auto`: the short way has the long way's results to the bit, its types and record."""

import copy
import itertools
import warnings

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._calls import small

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
KEYWORDS = [{}, {"axis": 0}, {"axis": 1}, {"axis": (0, 1)}, {"keepdims": True}, {"dtype": np.float32}]


def found(name):
    function = pk
    for part in name.split("."):
        function = getattr(function, part)
    return function


def told(function, args, kwargs):
    """Return all that a call tells: its result, its errors, its warnings, and its record."""
    args = copy.deepcopy(args)  # of which one may be `out`
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        try:
            result = function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001
            return type(error), str(error)
        call = pk.last_call()
    return described(result), [str(w.message) for w in met], (call.function, call.engine, call.reason)


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
    """Have every call go the long way, inside the context that this returns."""

    def begin():
        monkeypatch.setattr(small, "form_of", lambda *_: None)

    yield begin
    monkeypatch.undo()


@pytest.mark.parametrize("name", NAMES)
def test_the_short_way_tells_what_the_long_way_tells(name, long_way):
    function = found(name)
    picked = [FORMS[i] for i in np.random.default_rng(len(name)).permutation(len(FORMS))[:150]]
    with pk.engine("auto"):
        answers = []
        for first, further, keywords in picked:
            args = (first, *further)
            three = [told(function, args, keywords) for _ in range(3)]
            answers.append((args, keywords, three[-1]))
        long_way()
        for args, keywords, short in answers:
            assert short == told(function, args, keywords), (args, keywords)
