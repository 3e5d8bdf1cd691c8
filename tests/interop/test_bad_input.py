"""Odd arguments for every function that NumPy has: the result and type are NumPy's, or the error is clear."""

import array
import atexit
import ctypes
import decimal
import fractions
import functools
import inspect
import shutil
import tempfile
import warnings

import numpy as np
import pytest

import pycudakit as pk

X = np.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
INDICES = np.array([2, 0, 1])


class Arrays:
    """An object whose `__array__` returns the next of several answers."""

    def __init__(self, *answers):
        self._answers = [*answers]

    def __array__(self, dtype=None, copy=None):
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Interface:
    def __init__(self, **changes):
        self.kept = X.copy()
        self.__array_interface__ = {**self.kept.__array_interface__, **changes}


class Sequence:
    """A sequence whose `__len__` is wrong."""

    def __init__(self, says, values):
        self._says, self._values = says, values

    def __len__(self):
        return self._says

    def __getitem__(self, index):
        return self._values[index]


class Number:
    def __float__(self):
        return 1.5

    def __index__(self):
        return 2


class Subclass(np.ndarray):
    pass


class Quantity(np.ndarray):
    """An array with a unit that ufuncs preserve."""

    def __array_finalize__(self, other):
        self.unit = getattr(other, "unit", "m")

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **keywords):
        plain = [np.asarray(x) for x in inputs]
        if out:
            keywords["out"] = tuple(np.asarray(x) for x in out)
        if "where" in keywords:  # NumPy passes it, too
            keywords["where"] = np.asarray(keywords["where"])
        result = getattr(ufunc, method)(*plain, **keywords)
        return result.view(Quantity) if isinstance(result, np.ndarray) else result


@functools.cache
def file():
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    X.tofile(f"{folder}/mapped")
    return f"{folder}/mapped"


def mapped(mode):
    return np.memmap(file(), np.float64, mode, shape=(2, 3))


def read_only():
    made = X.copy()
    made.flags.writeable = False
    return made


NOT_NOW = RuntimeError("not now")
RECORDS = np.zeros((2, 3), [("a", "<f8"), ("b", "<i4")])
INPUTS = {
    "a generator": lambda: (v for v in (3.0, 1.0, 2.0)),
    "a generator of arrays": lambda: (v for v in X),
    "an iterator": lambda: iter([3.0, 1.0, 2.0]),
    "a map": lambda: map(float, [3, 1, 2]),
    "a range": lambda: range(3),
    "a set": lambda: {1.0, 2.0},
    "a dict": lambda: {1.0: 2.0},
    "None": lambda: None,
    "a text": lambda: "12",
    "bytes": lambda: b"12",
    "a function": lambda: len,
    "a class": lambda: float,
    "Ellipsis": lambda: ...,
    "texts": lambda: np.array(["b", "a", "c"]),
    "bytes in an array": lambda: np.array([b"b", b"a", b"c"]),
    "integers of Python": lambda: np.array([3, 1, 2], object),
    "floats of Python": lambda: np.array([3.0, 1.0, 2.0], object),
    "a bit of all": lambda: np.array([1, "a", None], object),
    "arrays in an array": lambda: np.array([None, X, INDICES], object),
    "2**70": lambda: 2**70,
    "-2**70": lambda: -(2**70),
    "2**64 in a list": lambda: [2**64, 1, 2],
    "2**63": lambda: 2**63,
    "None in a list": lambda: [1.0, None, 2.0],
    "lists of several lengths": lambda: [[1.0], [2.0, 3.0]],
    "empty lists": lambda: [[], []],
    "nothing": list,
    "tuples": lambda: ((3.0, 1.0, 2.0), (6.0, 5.0, 4.0)),
    "complex": lambda: X + 1j,
    "long double": lambda: X.astype(np.longdouble),
    "times": lambda: np.array([3, 1, 2], "M8[s]"),
    "durations": lambda: np.array([3, 1, 2], "m8[ms]"),
    "no time": lambda: np.array(["NaT", "2020"], "M8[D]"),
    "records": RECORDS.copy,
    "a field of records": lambda: np.ones((2, 3), [("a", "<i2"), ("b", "<f8")])["b"],
    "void": lambda: np.zeros(3, "V8"),
    "float16": lambda: X.astype(np.float16),
    "bools": lambda: X > 2,
    "int8": lambda: X.astype(np.int8),
    "swapped bytes": lambda: X.astype(">f8"),
    "swapped integers": lambda: INDICES.astype(">u2"),
    "unaligned": lambda: np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float64).reshape(2, 3),
    "read-only": read_only,
    "of stride 0": lambda: np.broadcast_to(np.float32(2), (2, 3)),
    "windows": lambda: np.lib.stride_tricks.sliding_window_view(np.arange(4.0), 3),
    "reversed": lambda: X[::-1, ::-1],
    "a memory map": lambda: mapped("r+"),
    "a read-only memory map": lambda: mapped("r"),
    "masked": lambda: np.ma.array(X, mask=X > 4),
    "a matrix": lambda: np.matrix(X),
    "a subclass": lambda: X.view(Subclass),
    "a quantity": lambda: X.view(Quantity),
    "characters": lambda: np.char.array(["b", "a"]),
    "a record array": lambda: RECORDS.view(np.recarray),
    "a scalar": lambda: np.float32(2),
    "a scalar of a record": lambda: RECORDS[0, 0],
    "an integer": lambda: np.uint8(2),
    "of no dimension": lambda: np.array(2.0),
    "of no elements": lambda: np.zeros((0, 3)),
    "of no columns": lambda: np.zeros((2, 0)),
    "of many dimensions": lambda: np.ones((1,) * 64),
    "a list from __array__": lambda: Arrays([3.0, 1.0]),
    "None from __array__": lambda: Arrays(None),
    "an error from __array__": lambda: Arrays(NOT_NOW),
    "an array from __array__": lambda: Arrays(X),
    "another array each time": lambda: Arrays(X, X[:1], np.zeros(0), X),
    "objects from __array__": lambda: Arrays(np.array([1, 2, None], object)),
    "an interface": Interface,
    "an interface of no type": lambda: Interface(typestr="<q9"),
    "an interface without a shape": lambda: Interface(shape=None),
    "an interface with a negative shape": lambda: Interface(shape=(-1, 3)),
    "longer than it is": lambda: Sequence(5, [3.0, 1.0, 2.0]),
    "shorter than it is": lambda: Sequence(2, [3.0, 1.0, 2.0]),
    "of a negative length": lambda: Sequence(-1, [3.0]),
    "a number of one's own": Number,
    "numbers of one's own": lambda: [Number(), Number()],
    "a Decimal": lambda: decimal.Decimal("1.5"),
    "fractions": lambda: [fractions.Fraction(1, 3), fractions.Fraction(2, 3)],
    "ctypes": lambda: (ctypes.c_double * 3)(3.0, 1.0, 2.0),
    "a memoryview": lambda: memoryview(X),
    "an array of the standard library": lambda: array.array("d", [3.0, 1.0, 2.0]),
    "a bytearray": lambda: bytearray(b"312"),
    "nan": lambda: float("nan"),
    "a bool": lambda: True,
    "complex of Python": lambda: 1j,
}


# ---- The functions ----------------------------------------------------------------------------------

SPECIAL = {  # with the other arguments that they need
    "take": lambda xp, x: xp.take(x, [0, -1]),
    "take of": lambda xp, x: xp.take(X, x),
    "take_along_axis": lambda xp, x: xp.take_along_axis(X, x, 1),
    "compress": lambda xp, x: xp.compress(x, X, 0),
    "clip": lambda xp, x: xp.clip(x, 1, 2),
    "clip to": lambda xp, x: xp.clip(X, x, 5.0),
    "where": lambda xp, x: xp.where(x, X, 0),
    "where else": lambda xp, x: xp.where(X > 2, X, x),
    "sum of columns": lambda xp, x: xp.sum(x, axis=0),
    "sum as": lambda xp, x: xp.sum(X, dtype=x),
    "sum along": lambda xp, x: xp.sum(X, axis=x),
    "max at first": lambda xp, x: xp.max(X, initial=x),
    "sum where": lambda xp, x: xp.sum(X, where=x),
    "add into": lambda xp, x: xp.add(X, 1.0, out=x),
    "add where": lambda xp, x: xp.add(X, 1.0, where=x, out=X.copy()),
    "sort of columns": lambda xp, x: xp.sort(x, axis=0),
    "sort along": lambda xp, x: xp.sort(X, axis=x),
    "argpartition": lambda xp, x: xp.argpartition(x, 1),
    "partition": lambda xp, x: xp.partition(x, 1),
    "partition at": lambda xp, x: xp.partition(X, x),
    "percentile": lambda xp, x: xp.percentile(x, 30),
    "quantile": lambda xp, x: xp.quantile(x, 0.3),
    "quantile at": lambda xp, x: xp.quantile(X, x),
    "nanquantile": lambda xp, x: xp.nanquantile(x, [0.1, 0.9], axis=0),
    "histogram into": lambda xp, x: xp.histogram(X, x),
    "histogram from": lambda xp, x: xp.histogram(X, 5, x),
    "histogram by": lambda xp, x: xp.histogram(X, 5, weights=x),
    "bincount by": lambda xp, x: xp.bincount(INDICES, x),
    "digitize": lambda xp, x: xp.digitize(x, [1.0, 2.0]),
    "digitize into": lambda xp, x: xp.digitize(X, x),
    "interp": lambda xp, x: xp.interp(x, [1.0, 2.0], [3.0, 4.0]),
    "interp between": lambda xp, x: xp.interp(X, x, [3.0, 1.0, 2.0]),
    "interp of": lambda xp, x: xp.interp(X, [3.0, 4.0, 5.0], x),
    "einsum": lambda xp, x: xp.einsum("...i,...i", x, x),
    "tensordot": lambda xp, x: xp.tensordot(x, x, 1),
    "norm": lambda xp, x: xp.linalg.norm(x),
    "norm of rows": lambda xp, x: xp.linalg.norm(x, axis=-1),
    "roll": lambda xp, x: xp.roll(x, 1),
    "roll by": lambda xp, x: xp.roll(X, x),
    "repeat": lambda xp, x: xp.repeat(x, 2),
    "repeat so often": lambda xp, x: xp.repeat(X, x, 0),
    "tile": lambda xp, x: xp.tile(x, 2),
    "pad": lambda xp, x: xp.pad(x, 1),
    "concatenate": lambda xp, x: xp.concatenate([x, x]),
    "concatenate all": lambda xp, x: xp.concatenate(x),
    "stack": lambda xp, x: xp.stack([x, X]),
    "lexsort": lambda xp, x: xp.lexsort([x, x]),
    "median along": lambda xp, x: xp.median(x, axis=0),
    "average by": lambda xp, x: xp.average(X, weights=x),
    "astype": lambda xp, x: xp.astype(X, x),
    "round to": lambda xp, x: xp.round(X, x),
    "cumsum along": lambda xp, x: xp.cumsum(X, x),
    "gradient by": lambda xp, x: xp.gradient(X[0], x),
    "swapaxes": lambda xp, x: xp.swapaxes(x, 0, -1),
}
NOT_CALLED = {"get_include", "unique_values"}  # the order of its values is unspecified


def works(call):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(np)
    except Exception:  # noqa: BLE001
        return False
    return True


@functools.cache
def calls():
    """Return every function that NumPy has, too, with an odd argument at each array position."""
    found = {}
    for name in sorted(set(pk.__all__) - NOT_CALLED):
        if not callable(getattr(np, name, None)) or inspect.isclass(getattr(np, name)):
            continue

        def one(xp, x, name=name):
            return getattr(xp, name)(x)

        def first(xp, x, name=name):
            return getattr(xp, name)(x, X)

        def second(xp, x, name=name):
            return getattr(xp, name)(X, x)

        if works(lambda xp, one=one: one(xp, X)) or works(lambda xp, one=one: one(xp, INDICES)):
            found[name] = one
        elif works(lambda xp, first=first: first(xp, X)):
            found[f"{name} first"], found[f"{name} second"] = first, second
    return found | SPECIAL


KEEP_SUBCLASS = {"cov", "corrcoef", "cross first", "cross second", "pad", "transpose"}
PLAIN = (
    TypeError,
    ValueError,
    IndexError,
    OverflowError,
    ArithmeticError,
    NotImplementedError,
    pk.errors.Error,
)


def outcome(call, xp, make):
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return call(xp, make())
    except Exception as error:  # noqa: BLE001  (compared below)
        return error


def shown(result):
    plain = np.asarray(result) if isinstance(result, np.ndarray) else result
    return f"{plain!r}, of {type(result).__name__}"


def differs(ours, numpys):
    """Return a description of the difference, or None."""
    description = f"{shown(ours)}, where NumPy has {shown(numpys)}"
    if isinstance(ours, Exception):
        plain = isinstance(ours, PLAIN) or type(ours) is type(numpys) or ours.args == NOT_NOW.args
        return None if plain and str(ours) else description
    if isinstance(numpys, (tuple, list)) and type(ours) is type(numpys) and len(ours) == len(numpys):
        return next(filter(None, map(differs, ours, numpys)), None)
    if type(ours) is not type(numpys) and not isinstance(numpys, np.memmap):  # ours owns its memory
        return description
    if not isinstance(numpys, (np.ndarray, np.generic)):
        is_number = isinstance(numpys, (int, float, complex, str, bytes))
        return (
            description
            if is_number and ours != numpys and not (isinstance(numpys, float) and np.isnan(numpys))
            else None
        )
    if (ours.dtype, ours.shape) != (numpys.dtype, numpys.shape):
        return description
    if numpys.dtype.hasobject:
        pairs = zip(np.asarray(ours).flat, np.asarray(numpys).flat, strict=True)
        return next((description for pair in pairs if differs(*pair)), None)
    if numpys.dtype.kind in "biufc":
        ours, numpys = np.asarray(ours), np.asarray(numpys)
        tolerance = {"float16": 1e-3, "float32": 1e-6}.get(numpys.dtype.name, 1e-12)
        is_same = np.isclose(ours, numpys, tolerance, tolerance, True).all()
    else:
        is_same = np.asarray(ours).tobytes() == np.asarray(numpys).tobytes()
    return None if is_same else description


# Intended differences: these calls return where NumPy raises, or keep the type of a subclass.
INTENDED_DIFFERENCES = {
    "another array each time": None,  # `__array__` may be called any number of times
    "an error from __array__": {"array_equal first", "array_equal second"},
    "a memoryview": {"flip", "sum along"},
    "nothing": {"sum along"},  # of no axes, as of ()
    "of no elements": {"sum along"},
    "a bool": {"sum along"},
    **dict.fromkeys(("masked", "a matrix", "a subclass", "a quantity"), KEEP_SUBCLASS),
    **dict.fromkeys(("characters", "a record array"), KEEP_SUBCLASS),
    **{name: {"transpose"} for name in ("a scalar", "an integer", "a scalar of a record")},  # arrays
}


@pytest.fixture(autouse=True)
def _files(tmp_path, monkeypatch):
    """Run in an empty directory: some functions take strings for file names."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", calls())
def test_answers_are_numpys_or_plain_errors(name):
    call, wrong = calls()[name], {}
    for given, make in INPUTS.items():
        if given in INTENDED_DIFFERENCES and (
            INTENDED_DIFFERENCES[given] is None or name in INTENDED_DIFFERENCES[given]
        ):
            outcome(call, pk, make)
            continue
        difference = differs(outcome(call, pk, make), outcome(call, np, make))
        if difference and not (
            name == "sum where" and "Cannot cast" in difference
        ):  # any truth value is accepted here
            wrong[given] = difference
    assert not wrong


@pytest.mark.parametrize("name", calls())
def test_named_engines_answer_or_raise(engine, name):
    """Each call returns, or raises a clear error."""
    call, wrong = calls()[name], {}
    for given, make in INPUTS.items():
        ours = outcome(call, pk, make)
        if isinstance(ours, Exception):
            wrong |= {given: ours} if differs(ours, outcome(call, np, make)) else {}
    assert not wrong


def test_number_of_combinations():
    assert len(calls()) * len(INPUTS) > 18_400
