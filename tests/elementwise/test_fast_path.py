"""The fast path of elementwise calls gives the results, warnings and errors of the general path."""

import gc
import inspect
import sys
import threading
import warnings
import weakref

import numpy as np
import pytest
from helpers.fake_library import forget_entries
from helpers.strategies import DTYPES
from helpers.threads import run_in_threads

import pycudakit as pk
from pycudakit import errors
from pycudakit._element_programs import element_function, prepared_program, program_cost
from pycudakit._element_programs.prepared_program import prepared_programs
from pycudakit._families.elementwise import general_path
from pycudakit._native import abi, loader
from pycudakit._runtime.engine_choice import EngineChoice


@pytest.fixture
def made(monkeypatch):
    """Empty the caches, and collect the prepared programs that are made from now on."""
    element_function.plain_program.cache_clear()
    element_function.compile_function.cache_clear()
    for taught in (pk.add, pk.multiply):
        inspect.getclosurevars(taught).nonlocals["below"].clear()
    prepared, real = [], prepared_program.PreparedProgram.__init__

    def init(self, *arguments):
        prepared.append(self)
        real(self, *arguments)

    monkeypatch.setattr(prepared_program.PreparedProgram, "__init__", init)
    return prepared


class Library:
    """Wrap an engine's library so that it runs other code before or after an entry."""

    def __init__(self, engine, monkeypatch, before=lambda: None, after=lambda: None):
        self.real, self.before, self.after = loader.library(engine), before, after
        monkeypatch.setattr(loader, "library", lambda _: self)

    def __getattr__(self, name):
        return getattr(self.real, name)

    def __getitem__(self, name):
        entry = self.real[name]
        entry.errcheck = abi._error_check(self.real)

        def run(*arguments):
            self.before()
            entry(*arguments)
            self.after()

        return run


def outcome_of(call, *arguments, **keywords):
    """Return the outcome of a call: the result and the warnings, or the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call(*arguments, **keywords)
        except Exception as error:  # noqa: BLE001
            return type(error), str(error)
    results = result if isinstance(result, tuple) else (result,)
    return (
        [(type(r), r.dtype, r.shape, r.tobytes()) for r in results],
        [(w.category, str(w.message), w.filename) for w in caught],
    )


def assert_alike(call, *arguments, **keywords):
    """Compare a call with the same call on the general path, which a progress callback forces."""
    with pk.engine(progress=lambda *_: None):
        want = outcome_of(call, *arguments, **keywords)
    for _ in range(2):
        assert outcome_of(call, *arguments, **keywords) == want


SHAPES = [(3,), (4, 5), (), (0,), (2, 0, 3), (7,), (1,), (1, 1), (3000,), (2, 3, 4)]
NUMBERS = [0, 2, -1, 300, 2**40, 10**400, 1.5, -0.0, 1e300, float("inf"), float("nan"), True, 2j]


@pytest.mark.parametrize("name", ["add", "divide", "less", "power", "left_shift", "arctan2"])
def test_alike_for_numbers(engine, name):
    """Numbers that a type can hold, alternating with others."""
    function = getattr(pk, name)
    for dtype in DTYPES:
        x = np.arange(5).astype(dtype)
        for number in NUMBERS:
            assert_alike(function, x, number)
            assert_alike(function, number, x)


def test_plain_calls(engine, monkeypatch):
    """The general path is disabled here."""

    def closed(*_):
        raise LookupError("the long way")

    a, b, out = np.ones((2, 3)), np.arange(6.0).reshape(2, 3), np.empty((2, 3))
    pk.add(a, b)
    monkeypatch.setattr(general_path, "_read", closed)
    assert (pk.add(a, b) == a + b).all()
    assert (pk.subtract(1, b) == 1 - b).all()
    assert pk.sqrt(b, out=b) is b
    assert pk.evaluate("a * b + 1", out=out) is out
    assert (pk.clip(a, 0.0, 0.5) == 0.5).all()
    assert pk.divmod(a, b + 1)[0].shape == (2, 3)
    assert (pk.add(a.T, b.T) == (a + b).T).all()
    with pk.engine(devices=[0]):
        assert pk.add(a[0, 0, ...], a[0, 0, ...]) == 2
    for arguments in ((a, a[0]), (a, a, out.T), (a[0, 0], a), ([1], 2), (1, 2), (a, True)):
        with pytest.raises(LookupError):
            pk.add(*arguments)
    for keywords in ({"where": a > 0}, {"dtype": float}, {"casting": "no"}):
        with pytest.raises(LookupError):
            pk.add(a, a, **keywords)
    for block in (pk.profile(), pk.engine(progress=lambda *_: None), pk.engine("auto")):
        with block, pytest.raises(LookupError):
            pk.add(a, a, out=out)


def test_shapes_change_between_calls(engine, made):
    rng = np.random.default_rng(0)
    pk.add(np.zeros(2, "f4"), np.zeros(2, "f4"))
    del made[:]
    for shape in SHAPES * 2:
        a, b = (rng.random(shape).astype("f4") for _ in range(2))
        got = pk.add(a, b)
        assert isinstance(got, np.ndarray if shape else np.float32)
        assert got.shape == shape
        assert (got == a + b).all()
        assert_alike(pk.divmod, a, b)
        assert_alike(pk.evaluate, "a * 2 - b", {"a": a, "b": b})
    assert len(made) <= 2  # one per function


def test_layouts_in_turn(engine):
    """Calls with strided, byte-swapped or broadcast arrays leave no state behind in the prepared program."""
    a = np.arange(24.0).reshape(4, 6)
    frozen = a.copy()
    frozen.flags.writeable = False
    others = [a[:, :1], a[1], a[0, 0], a[2:2], a[None], a.astype(">f8"), 2.0]
    many = [a, a[::-1], a.T, frozen, *others]
    for x in many:
        for y in many:
            assert_alike(pk.add, x, y)


def test_read_only_and_borrowed_inputs(engine):
    """Broadcast without NumPy's warning that an array from `broadcast_arrays` may become read-only."""
    wide, _ = np.broadcast_arrays(np.arange(3.0), np.ones((1, 3)))
    assert wide.flags.c_contiguous
    held = np.frombuffer(bytes(24))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pk.add(wide, held.reshape(1, 3)).tolist() == [[0, 1, 2]]
        for array in (
            wide,
            held,
            np.zeros(0),
            np.array(1.0),
            np.arange(6.0)[::-2],
            np.zeros(1, abi.OPTIONS),
        ):
            assert abi.address_of(array) == array.ctypes.data


def test_subclasses_are_others(engine):
    class Sub(np.ndarray):
        pass

    a = np.ones(5)
    assert (pk.add(a, a) == 2).all()
    for other in (a.view(Sub), np.ma.array(a, mask=a > 0)):
        for arguments in ((other, 1.0), (a, other), (a, a, other)):
            with pytest.raises(errors.Unsupported):
                pk.add(*arguments)


# ---- out= --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["out", "sqrt(out)", "out + b * out", "b - out"])
def test_out(engine, text):
    a, b = np.random.default_rng(0).random((2, 6, 50)).astype("f4")
    want = pk.evaluate(text, {"out": a.copy(), "b": b})
    out = a.copy()
    for _ in range(2):
        out[...] = a
        assert pk.evaluate(text, out=out) is out
        assert (out == want).all()
    for given in (np.empty((6, 50), "f8"), np.empty((50, 6), "f4").T, np.empty((6, 100), "f4")[:, ::2]):
        assert pk.evaluate(text, {"out": a, "b": b}, out=given) is given
        assert (given == want).all()


@pytest.mark.parametrize("shift", [-3, -1, 0, 1, 3])
def test_out_that_overlaps(engine, shift):
    whole = np.arange(5000.0)
    a, out = whole[10:-10], whole[10 + shift : len(whole) - 10 + shift]
    pk.add(a.copy(), 1.0, out=np.empty(len(a)))
    want = a + 1
    assert pk.add(a, 1.0, out=out) is out
    assert (out == want).all()


def test_outs_that_are_refused(engine):
    a = np.ones(5)
    frozen = np.zeros(5)
    frozen.flags.writeable = False
    pk.add(a, a, out=np.empty(5))
    for out in (frozen, np.empty(6), np.empty(5, int), np.empty((1, 5)), np.empty(5, complex), [1], (a, a)):
        assert_alike(pk.add, a, a, out=out)
    assert_alike(pk.divmod, a, a, out=a)
    assert not frozen.any()


def test_powers_write_nothing_when_refused(engine):
    base, exponent = np.arange(1, 6), np.array([1, 2, -1, 1, 1])
    for _ in range(2):
        with pytest.raises(ValueError, match="negative integer powers"):
            pk.power(base, exponent, out=base)
        assert base.tolist() == [1, 2, 3, 4, 5]


# ---- Errors and warnings -----------------------------------------------------------------------------


def test_warnings_name_the_line(engine):
    a = np.zeros(4)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pk.divide(1.0, a)
            pk.evaluate("1 / a")
            pk.log(a, out=np.empty(4))
        here = sys._getframe().f_lineno
        assert [w.filename for w in caught] == [__file__] * 3
        assert [here - w.lineno for w in caught] == [3, 2, 1]
        assert str(caught[0].message) == "divide by zero encountered in divide"


def test_errors_leave_the_next_call_right(engine, made):
    a, zeros, small = np.ones(4), np.zeros(4), np.ones(4, np.int8)
    assert (pk.divide(a, 2.0) == 0.5).all()
    with np.errstate(all="raise"):
        for _ in range(3):
            with pytest.raises(FloatingPointError, match="divide by zero"):
                pk.divide(a, 0.0)
            assert (pk.divide(a, 2.0) == 0.5).all()
            with pytest.raises(FloatingPointError, match="invalid value"):
                pk.divide(zeros, 0.0)
            with pytest.raises(OverflowError):
                pk.add(small, 1000)
            assert (pk.add(small, 100) == 101).all()
            assert pk.less(small, 1000).all()
            assert pk.less(small, 2).all()
    with pytest.raises(TypeError):
        pk.left_shift(a, 1)
    assert len(made) <= 4


def test_an_error_of_a_handler(engine):
    """A user's exception may be of a class that the library handles elsewhere: it propagates."""

    def handler(*_):
        raise OverflowError("the handler's")

    for _ in range(2):
        with np.errstate(divide="call", call=handler), pytest.raises(OverflowError, match="the handler's"):
            pk.divide(np.ones(3), 0.0)


@pytest.mark.parametrize("failure", [errors.DeviceError, errors.OutOfMemory, errors.NoDevice])
def test_a_library_that_fails(engine, monkeypatch, failure):
    def fail():
        raise failure("for a test")

    a = np.ones(4)
    assert (pk.add(a, a) == 2).all()
    before = pk.last_call()
    forget_entries()
    library = Library(engine, monkeypatch, before=fail)
    with pytest.raises(failure, match="for a test"):
        pk.add(a, a)
    assert pk.last_call() is before
    library.before = lambda: None
    assert (pk.add(a, a) == 2).all()


# ---- More than one at a time -------------------------------------------------------------------------


def test_a_call_inside_a_call(engine, monkeypatch, made):
    """A signal handler may make the same call as the one that it interrupts."""
    depth = []

    def again():
        if len(depth) < 3:
            depth.append(pk.last_call())
            n = 10 * len(depth)
            assert (pk.subtract(np.full(n, 5.0), 3) == 2).all()
            assert_alike(pk.subtract, np.arange(6.0)[::2], 1)

    library = Library(engine, monkeypatch, before=again)
    for when in ("before", "after"):
        library.before = library.after = lambda: None
        setattr(library, when, again)
        for _ in range(2):
            del depth[:]
            got = pk.subtract(np.arange(1000.0), 7)
            assert (got == np.arange(1000.0) - 7).all()
            assert len(depth) == 3
    assert len(made) <= 4  # as many as ran at the same time


def test_a_call_inside_a_report(engine):
    """A handler of np.errstate may call functions, too; that doesn't change the outer call's flags."""
    seen = []

    def handler(kind, flag):
        seen.append(kind)
        with np.errstate(all="ignore"):
            assert np.isinf(pk.divide(np.ones(3), np.zeros(3))).all()
        assert (pk.divide(np.ones(5), np.full(5, 2.0)) == 0.5).all()

    with np.errstate(all="call", call=handler):
        for _ in range(2):
            got = pk.divide(np.array([1.0, 0.0, 6.0]), np.array([0.0, 0.0, 2.0]))
            assert got[0] == np.inf
            assert np.isnan(got[1])
            assert got[2] == 3
    assert seen == ["divide by zero", "invalid value"] * 2


def test_threads(engine):
    """Each thread has its own results, exceptions and last call."""
    wrong = []
    start = threading.Barrier(6)

    def work(seed):
        rng = np.random.default_rng(seed)
        start.wait()
        with pk.engine(engine), np.errstate(all="raise"):
            for _ in range(300):
                a = rng.random(int(rng.integers(1, 3000)))
                zero = seed % 2
                try:
                    right = bool((pk.divide(a, 4.0 * (not zero)) == a / 4).all()) and not zero
                except FloatingPointError:
                    right = bool(zero)
                mine = pk.add(a, seed)
                last = pk.last_call()
                right &= bool((mine == a + seed).all()) and last.function == "add" and last is pk.last_call()
                if not right:
                    wrong.append(seed)

    run_in_threads(work, range(6))
    assert not wrong


def test_the_last_call_is_the_threads(engine):
    """Another thread may reuse a prepared program; the log of this thread's call does not change."""

    def small():
        with pk.engine(engine):
            pk.add(np.ones(9), 1.0)

    pk.add(np.ones(4_000_000), 1.0)
    thread = threading.Thread(target=small)
    thread.start()
    thread.join()
    call = pk.last_call()
    assert (call.function, call.engine, call.reason) == ("add", engine, "the requested engine")
    assert call.devices == ((0,) if engine == "cuda" else ())
    assert call.seconds > 200e-6


def test_a_profile_sees_all(engine, made):
    a = np.ones(100)
    with pk.profile() as p:
        for _ in range(3):
            pk.hypot(a, a)
    assert [(call.function, len(call.spans) > 0) for call in p.calls] == [("hypot", True)] * 3
    pk.hypot(a, a)
    assert len(p.calls) == 3
    assert pk.last_call().spans is None
    assert [work.options["spans"].tolist() for work in made] == [[0]]  # which have been freed


def test_auto_takes_the_short_way_to_the_cpu(monkeypatch, made):
    monkeypatch.setattr(program_cost, "choose", lambda name, *_: EngineChoice(name, "cpu", "auto: the test"))
    a = np.linspace(0, 1, 5000)
    with pk.engine("auto"):
        for _ in range(3):
            assert np.array_equal(pk.add(a, a), a + a)
        assert (pk.last_call().engine, pk.last_call().reason) == ("cpu", "auto: the test")
        out = a.copy()
        assert pk.multiply(out, 2.0, out=out) is out
        assert np.array_equal(out, a * 2)
    assert len(made) == 2


# ---- Kept objects -------------------------------------------------------------------------------------


def test_arrays_are_not_kept(engine, made):
    names = {"a": np.full(50, 4.0), "b": np.full(50, 2.0), "out": np.empty(50)}
    counts = {name: sys.getrefcount(array) for name, array in names.items()}
    alive = [weakref.ref(array) for array in names.values()]
    a, b, out = names.values()
    results = []
    for _ in range(2):
        results += [pk.add(a, b), pk.evaluate("a * b", names), pk.clip(a, 1.0, 3.0)]
        pk.subtract(a, b, out=out)
        pk.add(a[::2], b[::2])
        with np.errstate(all="raise"), pytest.raises(FloatingPointError):
            pk.divide(a, 0.0)
    gc.collect()
    del a, b, out
    alive += [weakref.ref(result) for result in results]
    assert {name: sys.getrefcount(array) for name, array in names.items()} == counts
    del names, results
    gc.collect()
    assert [ref() for ref in alive] == [None] * len(alive)
    assert all(work in prepared_programs(work.program)._idle for work in made)


def test_work_is_few(engine, made):
    """The caches are bounded for any number of calls with any arrays."""
    a = np.ones(64)
    for n in range(1, 40):
        pk.heaviside(a[:n], 0.5)
        pk.heaviside(a[:n:2], 0.5)
        pk.heaviside(a[:n], 0.5, where=a[:n] > 0)
    assert len(made) <= 2  # with a mask, and without


@pytest.mark.cpu
def test_cached_calls_under_auto():
    """A warm call whose signature was seen runs on the CPU engine with no other choice, for any shape."""
    rng = np.random.default_rng(3)
    with pk.engine("auto"):
        for _ in range(4):
            for shape in ((3000,), (30, 100), (2999,)):
                x, y = rng.random((2, *shape))
                for pick in (lambda a: a, lambda a: a[::-1], lambda a: a.T):
                    a, b = pick(x), pick(y)
                    assert_same(pk.floor_divide(a, b), np.floor_divide(a, b))
                    assert_same(pk.remainder(a, 0.25), np.remainder(a, 0.25))
                assert_same(pk.floor_divide(x, y[:1]), np.floor_divide(x, y[:1]))
        x = np.ones(3000, np.int16)
        for _ in range(4):
            assert_same(pk.floor_divide(x, 7), np.floor_divide(x, 7))
        with pytest.raises(OverflowError, match="out of bounds"):
            pk.floor_divide(x, 2**20)
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in floor_divide"):
            pk.floor_divide(np.ones(3000), np.zeros(3000))
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            pk.floor_divide(np.ones(3000), np.zeros(3000))


def assert_same(actual, expected):
    np.testing.assert_array_equal(actual, expected, strict=True)
    assert actual.flags.c_contiguous == expected.flags.c_contiguous
