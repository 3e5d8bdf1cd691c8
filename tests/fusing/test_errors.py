"""Errors and warnings of fused functions are NumPy's, reported at the same line."""

import contextlib
import operator
import warnings

import numpy as np
import pytest
from fusing.bodies import split

import pycudakit as pk

SIZES = [100, 20_000]


@pytest.fixture(params=SIZES)
def x(request):
    return np.linspace(-3, 3, request.param)


def test_exceptions_of_the_body(engine, x):
    was = x.copy()

    @pk.fuse
    def body(x, y):
        x += 1
        y[::2] = x[::2] * 2
        y *= 3
        raise KeyError("mine")

    y = np.ones_like(x)
    with pytest.raises(KeyError, match="mine"):
        body(x, y)
    np.testing.assert_array_equal(x, was + 1)
    np.testing.assert_array_equal(y[::2], (was + 1)[::2] * 6)
    np.testing.assert_array_equal(pk.fuse(lambda x: x * 2)(x), x * 2)  # later calls are not affected


ERRORS = {
    "shapes": lambda x: x + x[1:],
    "in place": lambda x: x[1:].__iadd__(x),
    "assignment": lambda x: x.__setitem__(slice(3), x),
    "assigned rows": lambda x: x.__setitem__(slice(3), np.ones((2, 3))),
    "bits of floats": lambda x: x & 1,
    "inverted": lambda x: ~x,
    "bool minus": lambda x: -(x > 0),
    "bools": lambda x: (x > 0) - (x > 1),
    "cast": lambda x: (x > 0).astype(int).__iadd__(x),
    "cast by out": lambda x: np.add(x, x, out=np.zeros(x.shape, "i4")),
    "shape of out": lambda x: np.add(x, x, out=np.zeros(3)),
    "division in place": lambda x: x.astype(int).__itruediv__(2),
    "number": lambda x: x.astype("u1") + 300,
    "number assigned": lambda x: x.astype("u1").__setitem__(0, 300),
    "index": lambda x: x[x.size],
    "indices": lambda x: x[1, 2],
    "written index": lambda x: x.__setitem__(x.size, 1),
    "float index": lambda x: x[1.5],
    "mask": lambda x: x[np.ones(3, bool)],
    "axis": lambda x: np.sum(x, axis=1),
    "axis of a sum": lambda x: np.sum(x + 1, axis=2),
    "of nothing": lambda x: np.max(x[:0]),
    "reshape": lambda x: (x + 1).reshape(7, -1),
    "transpose": lambda x: x.transpose(1, 0),
    "concatenate": lambda x: np.concatenate([x, x[None]]),
    "concatenate nothing": lambda _: np.concatenate([]),
    "stack": lambda x: np.stack([x, x[1:]]),
    "broadcast": lambda x: np.broadcast_to(x, (3, 3)),
    "squeeze": lambda x: np.squeeze(x, 0),
    "matmul": lambda x: x @ x[1:],
    "truth": lambda x: bool(x > 0),
    "float": float,
    "attribute": lambda x: x.nothing,
    "element of a number": lambda x: operator.setitem(x[0] * 2, ..., 1),
    "mask of a number": lambda x: operator.setitem(np.sum(x), x[0] < 0, 1),
    "repeated by a float": lambda x: [1, 2] * np.mean(x),
    "text by a float": lambda x: np.mean(x) * "text",
    "integer power": lambda x: np.arange(x.size) ** -1,
    "bincount": lambda x: np.bincount(x.astype(int) - 9),
    "unknown type": lambda x: x.astype("nonsense"),
    "text": lambda x: x + "text",
    "length": lambda x: len(x[0]),
    "iteration": lambda x: list(x[0]),
    "hash": lambda x: {x: 1},
    "keyword": lambda x: np.sum(x, nothing=1),
    "unpacked": lambda x: divmod(*x),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(engine, x, name):
    body = ERRORS[name]
    with pytest.raises(Exception) as wanted:  # noqa: PT011
        body(x.copy())
    for _ in range(2):
        with pytest.raises(Exception) as got:  # noqa: PT011
            pk.fuse(body)(x.copy())
        kind = next(base for base in wanted.type.__mro__ if base.__module__ == "builtins")
        assert issubclass(got.type, kind)
        assert str(got.value) == str(wanted.value)


REFUSED = [
    lambda y: y + 300,
    lambda y: y.__imul__(-1),
    lambda y: np.add(y, -1, out=y, where=y > 2),
    lambda y: np.where(y > 1, y, 300),
    lambda y: 2**70 - y.astype("i8"),
    lambda y: np.maximum(-1, y * 2),
]


@pytest.mark.parametrize("refused", REFUSED)
def test_numbers_that_a_type_lacks_are_refused_in_their_line(engine, x, refused):
    def body(x):
        y = np.abs(x).astype("u1")
        with contextlib.suppress(OverflowError):
            refused(y)
            y += 1
        return y

    np.testing.assert_array_equal(pk.fuse(body, strict=True)(x), body(x))


def test_read_only_arguments(engine, x):
    x.flags.writeable = False
    bodies = [lambda x: x.__iadd__(1), lambda x: x[1:].__imul__(2), lambda x: x.__setitem__(0, 1)]
    bodies += [lambda x: x.__setitem__(x > 0, 1), lambda x: np.add(x, 1, out=x), lambda x: x.fill(0)]
    bodies += [lambda x: x.sort(), lambda x: x.T.__setitem__(slice(2), 0)]
    bodies += [lambda x: np.broadcast_to(x + 1, (2, x.size)).__setitem__(0, 1)]
    for body in bodies:
        with pytest.raises(ValueError, match="read-only") as wanted:
            body(x)
        with pytest.raises(ValueError, match="read-only") as got:
            pk.fuse(body)(x)
        assert str(got.value) == str(wanted.value)


READ_ONLY = {
    "ufunc": lambda y: np.add(np.ones(7), 1, out=y),
    "clip": lambda y: np.clip(np.ones(7), 0, 1, out=y),
    "cast": lambda y: np.multiply(y, 1j, out=y),
    "in place": lambda y: operator.iadd(y, np.ones(7)),
    "slices": lambda y: operator.setitem(y, slice(None), np.ones(7)),
    "index": lambda y: operator.setitem(y, 10**6, 1),
    "scan": lambda y: np.cumsum(np.ones(7), out=y),
}


@pytest.mark.parametrize("name", READ_ONLY)
def test_a_read_only_array_is_refused_before_its_shape(engine, x, name):
    x.flags.writeable = False
    told = []
    for function in (READ_ONLY[name], pk.fuse(READ_ONLY[name])):
        with pytest.raises(ValueError, match="read-only") as error:
            function(x)
        told.append(str(error.value))
    assert told[1] == told[0]


def test_errstate_inside(engine, x):
    @pk.fuse
    def quiet(x):
        with np.errstate(all="ignore"):
            y = np.log(x) / (x - x)
        return np.where(x > 9, y, x * 2)

    @pk.fuse
    def strict(x, lines):
        y = x * 2
        with np.errstate(divide="raise", invalid="ignore"):
            lines.append("before")
            y /= x - x
            lines.append("after")
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(quiet(x), x * 2)
    with pytest.raises(FloatingPointError, match="divide by zero encountered in divide"):
        strict(x, [])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        np.testing.assert_array_equal(pk.fuse(lambda x: x / 0)(x), x / 0)


WRITTEN_THOUGH_IT_RAISES = {
    "operator": lambda x, y: x.__iadd__(y),
    "part": lambda x, y: x[::2].__imul__(y[::2]),
    "overlapping": lambda x, _: x[1:].__iadd__(x[:-1]),
    "out": lambda x, y: np.add(x, y, out=x),
    "where": lambda x, y: np.add(x, y, out=x, where=y > 2),
    "local": lambda x, y: x.__setitem__(..., _though_it_raises(x * 1, y)),
    "assigned": lambda x, y: x.__setitem__(..., x + y),
}


def _though_it_raises(x, y):
    with contextlib.suppress(FloatingPointError):
        x *= y
    return x


@pytest.mark.parametrize("name", WRITTEN_THOUGH_IT_RAISES)
def test_in_place_writes_that_raise(engine, x, name):
    body, y = WRITTEN_THOUGH_IT_RAISES[name], x + 1e308
    told, written = [], []
    for function in (body, pk.fuse(body, strict=True)):
        target = x + 1e308
        with np.errstate(all="raise"):
            try:
                function(target, y)
                told.append("")
            except FloatingPointError as error:
                told.append(str(error))
        written.append(target)
    assert told[1] == told[0]
    np.testing.assert_array_equal(written[1], written[0])


USES = """
np.sort(y)     np.nanargmax(y)     y.T     y[1:]     float(y[0])     y.tolist()     np.take(y, [0])     [y]
np.cumsum(y)     np.roll(y, 1)     np.concatenate([y, y])     np.unique(y)     np.nanmedian(y)     np.sum(y)
np.tile(y, 2)     np.fft.fft(y)     np.add.at(x, [0], y[:1])     x.sort()     np.broadcast_to(y, (2, y.size))
np.allclose(y, y)     y.strides
"""


@pytest.mark.parametrize("use", split(USES))
def test_errstate_holds_for_all_later_uses(engine, x, use):
    space = {"np": np}
    lines = (
        "    with np.errstate(divide='ignore', invalid='ignore'):\n        y = x / (x * 0)\n    found = {use}"
    )
    exec(f"def body(x):\n{lines.format(use=use)}\n    return found, y, np.abs(x) * 1e308", space)
    told = []
    for function in (pk.fuse(space["body"]), space["body"]):
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            function(np.abs(x) + 2)
        told.append({str(each.message) for each in met})
    assert told[0] == told[1]
    assert not any("divide" in message for message in told[0])


def test_warnings_caught_inside(engine, x):
    """A `catch_warnings` block in a function catches the warnings of its own lines only."""

    def body(x, told):
        before = np.sqrt(-np.abs(x) - 1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            inside = np.log(x * 0)
            told += [str(one.message) for one in caught]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                inside = inside + 1 / (x * 0)
            except RuntimeWarning as error:
                told.append(f"raised {error}")
        return before, inside, (np.abs(x) + 2) * 1e308

    def run(function):
        told = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = function(x, told)
        return results, told, [str(one.message) for one in caught]

    ours, numpys = run(pk.fuse(body)), run(body)
    assert ours[1:] == numpys[1:]
    for one, other in zip(ours[0], numpys[0], strict=True):
        np.testing.assert_allclose(one, other)


WARNING = {
    "divide": (lambda x: 1 / (x * 0), "divide by zero encountered in divide"),
    "log": (lambda x: np.log(x * 0) + 1, "divide by zero encountered in log"),
    "sqrt": (lambda x: np.sqrt(-np.abs(x) - 1) * 2, "invalid value encountered in sqrt"),
    "overflow": (lambda x: (np.abs(x) + 2) * 1e308, "overflow encountered in multiply"),
    "reduced": (lambda x: np.sum(np.log(x * 0 - 1)), "invalid value encountered in log"),
    "cast": (lambda x: (x * np.nan).astype(int), "invalid value encountered in cast"),
    "mean": (lambda x: np.mean(x[:0]), "Mean of empty slice"),
}


@pytest.mark.parametrize("name", WARNING)
def test_warnings_by_name(engine, x, name):
    body, message = WARNING[name]
    with pytest.warns(RuntimeWarning) as wanted:
        body(x)
    for _ in range(2):
        with pytest.warns(RuntimeWarning) as got:
            pk.fuse(body)(x)
        assert message in {str(w.message).rstrip(".") for w in got}
        assert {str(w.message) for w in got} == {str(w.message) for w in wanted}


UNUSED = {
    "quotient": lambda x: x / 0,
    "number": lambda x: x.min() / (x * 0).max(),
    "silent": lambda x: np.abs(x / 0),
    "reduction": lambda x: (x / 0).max(),
    "sum": lambda x: (np.abs(x) * 2e307).sum(),
    "composite": lambda x: np.sinc(x / 0),
    "rows": lambda x: x.reshape(10, -1) / x.reshape(10, -1).sum(axis=1, keepdims=True) / 0,
    "integers": lambda x: x.astype(int) // 0,
    "cast": lambda x: (x * np.nan).astype(int),
}


@pytest.mark.parametrize("name", UNUSED)
def test_operations_whose_results_are_not_used_warn(engine, x, name):
    def body(x):
        UNUSED[name](x)
        UNUSED[name](x + 1)
        x[:] = 5
        return x + 1

    fused = pk.fuse(body)
    for _ in range(3):
        told = []
        for function in (body, fused):
            with warnings.catch_warnings(record=True) as met:
                warnings.simplefilter("always")
                np.testing.assert_array_equal(function(x.copy()), np.full_like(x, 6))
            told.append({str(each.message).replace("scalar ", "") for each in met})
        assert told[1] == told[0] != set()


def test_an_operation_is_computed_once(engine, x):
    def body(x, out):
        ratio = x / 0.5
        del ratio
        out[:] = x * 2
        out += np.sqrt(x * x) + 1
        mask = x > 0
        out[mask] = x.max() - 1
        return np.maximum(out, x), out.sum()

    with pk.engine("cpu"):
        plan = pk.fuse(body).explain(np.linspace(-3, 3, 20_000), np.zeros(20_000))
    assert sum(each.function.count("divide") for each in plan.passes) == 1
    assert sum(each.function.count("sqrt") for each in plan.passes) == 1


def test_operations_before_an_exception_warn(engine, x):
    def body(x):
        found = np.isnan(np.sqrt(-np.abs(x) - 1)).sum()
        x += 1
        raise KeyError(found)

    for function in (body, pk.fuse(body), pk.fuse(body)):
        given = x.copy()
        with pytest.warns(RuntimeWarning, match="sqrt"), pytest.raises(KeyError, match=str(x.size)):
            function(given)
        np.testing.assert_array_equal(given, x + 1)

    def unused(x):
        np.log(x * 0)
        raise KeyError

    for function in (unused, pk.fuse(unused)):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in log"), pytest.raises(KeyError):
            function(x)


def writes_in_finally(x, y):
    try:
        y[:] = x // (x - 2)
    finally:
        x[0] = 3


def writes_in_except(x, y):
    try:
        y[:] = np.log(x - 2)
    except FloatingPointError:
        x[0] = 3
        y += x
    return x.sum()


@pytest.mark.parametrize("body", [writes_in_finally, writes_in_except])
@pytest.mark.parametrize("are_overlapping", [False, True])
def test_handlers_write_after_an_operation_has_raised(engine, body, are_overlapping):
    """The operation is not computed again by the write to an array that it reads."""
    outcomes = []
    for function in (body, pk.fuse(body)):
        both = np.arange(20_001.0)
        x, y = (both[:-1], both[1:]) if are_overlapping else (both[:-1].copy(), both[1:].copy())
        with np.errstate(all="raise"):
            try:
                outcome = function(x, y)
            except FloatingPointError as error:
                outcome = str(error)
        outcomes.append((outcome, x, y))
    (outcome, x, y), (got, *arrays) = outcomes
    assert got == outcome
    np.testing.assert_array_equal(arrays, [x, y])
