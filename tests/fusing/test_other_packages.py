"""Functions and methods of other packages get arrays in a fused function, however the body reaches them."""

import functools
import hashlib
import inspect
import struct
import sys
import textwrap
import warnings

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit.fusing.schedule.cost import Costs

SIZE = 20_000
SOURCE = """
    import warnings
    import numpy as np

    def checked(x):
        if type(x) not in (np.ndarray, np.float64):
            raise TypeError(type(x).__name__)
        return x

    def shifted(x, *, by=1):
        return checked(x) + by

    def warned(x):
        warnings.warn("an old function", UserWarning, stacklevel=2)
        return checked(x)

    class Model:
        def __init__(self, factor=2.0):
            self.factor, self.kept, self.shifted = factor, None, shifted

        def predict(self, x):
            return checked(x) * self.factor

        def fit(self, x):
            self.kept = checked(x)
            return self

        def __call__(self, x):
            return checked(x) - self.factor
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A module that is installed beside the user's code."""
    folder = tmp_path_factory.mktemp("environment") / "site-packages"
    folder.mkdir()
    (folder / "other_of_pycudakit.py").write_text(textwrap.dedent(SOURCE))
    sys.path.insert(0, str(folder))
    try:
        yield __import__("other_of_pycudakit")
    finally:
        sys.path.remove(str(folder))
        del sys.modules["other_of_pycudakit"]


@pytest.fixture
def x():
    return np.linspace(-1, 1, SIZE)


class Own:
    """An object of the user's, with those of another package."""

    def __init__(self, other):
        self.model, self.models, self.callback = other.Model(), [other.Model(3.0)], other.shifted
        self.own = lambda x: x * 2 if isinstance(x, np.ndarray) else None

    def helper(self, x):
        return self.model(x) + np.ones(x.shape)


def by_argument(own, x):
    callback = own.callback
    return callback(x * 2), callback(x, by=3)


def by_attribute(own, x):
    y = x + 1
    return own.model.predict(y) + own.callback(y), own.model(y).sum()


def by_item(own, x):
    return [model.predict(x * 2) for model in own.models], own.models[0].predict(x)


def by_result(own, x):
    return type(own.model)().fit(x * 2).predict(x), type(own.model)(4.0).predict(x)


def by_partial(own, x):
    callback = functools.partial(own.callback, by=5)
    return callback(x * 2)


def by_own_method(own, x):
    return own.helper(x * 2)


def by_inner_function(own, x):
    def inner(y):
        return own.callback(y) * 2

    one_more = lambda y: own.model(y) + 1  # noqa: E731
    return inner(x * 2), one_more(x)


def by_generator(own, x):
    return sum(own.callback(x * n) for n in range(3))


def of_the_user(own, x):
    return own.own(x * 2) + 1


def with_numbers(own, x):
    return own.callback(x.max()), own.model.predict(x[3])


FUNCTIONS = [
    *(by_argument, by_attribute, by_item, by_result, by_partial, by_own_method, by_inner_function),
    *(by_generator, of_the_user, with_numbers),
]
needs_room = pytest.mark.skipif(sys.version_info < (3, 11), reason="calls of Python 3.10 have no room")


@needs_room
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_reached_by_values_get_arrays(engine, other, x, function):
    fused, want = pk.fuse(function), function(Own(other), x.copy())
    for _ in range(2):
        got = fused(Own(other), x)
        assert type(got) is type(want)
        for mine, numpys in zip(
            *([each] if type(each) is np.ndarray else each for each in (got, want)), strict=True
        ):
            assert type(mine) is type(numpys)
            np.testing.assert_allclose(mine, numpys, rtol=1e-12, atol=1e-12)


@needs_room
def test_callbacks_that_are_arguments(engine, other, x):
    body = pk.fuse(lambda x, callback: callback(x * 2) + x)
    np.testing.assert_array_equal(body(x, other.shifted), x * 2 + 1 + x)
    np.testing.assert_array_equal(body(x, lambda y: np.where(y > 0, y, 0)), np.where(x > 0, x * 2, 0) + x)
    np.testing.assert_array_equal(body(x, other.Model()), x * 2 - 2 + x)
    np.testing.assert_array_equal(body(x, np.negative), x * -2 + x)


@needs_room
def test_the_break_names_the_function(engine, other, x):
    own = Own(other)
    plan = pk.fuse(by_attribute).explain(own, x)
    names = [each.name for each in plan.breaks]
    assert names[:3] == [
        "other_of_pycudakit.Model.predict()",
        "other_of_pycudakit.shifted()",
        "other_of_pycudakit.Model()",
    ]
    with pytest.raises(pk.errors.Unsupported, match=r"other_of_pycudakit\.Model\.predict\(\)"):
        pk.fuse(by_attribute, strict=True)(own, x)


@needs_room
def test_a_method_keeps_and_writes_the_argument(engine, other, x):
    own, before = Own(other), x.copy()

    @pk.fuse
    def body(own, x):
        total = x.sum()
        own.model.fit(x)
        own.model.kept[:3] = 7
        return total, x * 2

    total, doubled = body(own, x)
    assert own.model.kept is x
    np.testing.assert_allclose(total, before.sum(), atol=1e-9)
    before[:3] = 7
    np.testing.assert_array_equal(doubled, before * 2)


@needs_room
def test_exceptions_and_missing_attributes_come_from_their_lines(engine, other, x):
    def body(own, x):
        y = x * 2
        return own.model.missing(y)

    with pytest.raises(AttributeError, match="'Model' object has no attribute 'missing'") as caught:
        pk.fuse(body)(Own(other), x)
    lines = [entry.lineno for entry in caught.traceback if entry.frame.code.raw.co_name == "body"]
    assert lines == [body.__code__.co_firstlineno + 1]


OTHER = None


def warned_by_name(own, x):
    del own
    return OTHER.warned(x * 2)


def warned_by_attribute(own, x):
    return own.callback(x * 2)


@pytest.mark.parametrize("function", [warned_by_name, pytest.param(warned_by_attribute, marks=needs_room)])
def test_warnings_name_the_line_that_calls(engine, other, x, function, monkeypatch):
    monkeypatch.setitem(globals(), "OTHER", other)
    own = Own(other)
    own.callback = other.warned
    met = []
    for run in (function, pk.fuse(function)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run(own, x)
        met.append([(each.filename, each.lineno, str(each.message)) for each in caught])
    line = inspect.getsourcelines(function)[1] + len(inspect.getsourcelines(function)[0]) - 1
    assert met == [[(__file__, line, "an old function")]] * 2


def reads_memory(x):
    y = x * 2
    digest = hashlib.sha256(y)
    digest.update(x)
    first = struct.unpack_from("d", y, 8)
    return digest.hexdigest(), first, bytes(memoryview(y[:2])), bytes(y[:3])


def reads_memory_by_values(x, read):
    y = x * 2
    return read(y), y[0]


@needs_room
def test_readers_of_memory(engine, x):
    assert pk.fuse(reads_memory)(x) == reads_memory(x)
    for read in (
        bytes,
        lambda y: hashlib.md5(y).digest(),
        lambda y: memoryview(y).nbytes,
    ):
        assert pk.fuse(reads_memory_by_values)(x, read) == reads_memory_by_values(x, read)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes have buffers from Python 3.12 on")
def test_tracers_have_their_arrays_buffer(engine, x):
    helper = {"memoryview": memoryview}  # which the body does not name

    @pk.fuse
    def body(x):
        total = x.sum()
        view = helper["memoryview"](x)
        view[0] = 7.0
        return total, x[0] * 2, type(view), b"".join([x[:2]])

    total, first, kind, joined = body(x)
    assert (first, x[0], kind, joined) == (14, 7, memoryview, x[:2].tobytes())
    np.testing.assert_allclose(total, 0, atol=1e-9)


TABLE = {}


def by_item_of_a_global(x):
    return TABLE["shifted"](x * 2, by=x[3] * 0 + 2) + TABLE["shifted"](x)


@needs_room
def test_items_of_a_global_are_called_with_arrays(engine, other, x, monkeypatch):
    monkeypatch.setitem(TABLE, "shifted", other.shifted)
    for _ in range(2):
        np.testing.assert_array_equal(pk.fuse(by_item_of_a_global)(x), by_item_of_a_global(x))


def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments, **keywords):
        assert function.__name__  # a use that is no call
        return function(*arguments, **keywords)

    return wrapper


@needs_room
def test_wrappers_with_any_arguments(engine, other, x):
    own = Own(other)

    @decorated
    def inner(own, x, by=1):
        return own.callback(x * 2) * by

    @decorated
    def outer(own, x):
        return inner(own, x, by=3) + 1

    for _ in range(2):
        np.testing.assert_array_equal(pk.fuse(outer)(own, x), outer(own, x))


class cython_function_or_method:  # the name of Cython's type, which each module has for itself
    def __call__(self, x):
        if type(x) is not np.ndarray:
            raise TypeError("No matching signature found")
        return x + 1


class fused_cython_function(cython_function_or_method):
    pass


compiled = fused_cython_function()


@pytest.mark.parametrize("module", [__name__, "_name_without_its_package"])
def test_compiled_functions_of_the_same_package(engine, x, module, monkeypatch):
    """Cython gives some functions a module's name without the package."""
    monkeypatch.setattr(cython_function_or_method, "__module__", module)
    monkeypatch.setattr(fused_cython_function, "__module__", module)
    body = pk.fuse(lambda x: compiled(x * 2) - x)
    np.testing.assert_array_equal(body(x), x * 2 + 1 - x)


class Interpolator:
    """An object like those of `scipy.interpolate`, which call functions of Cython."""

    def __init__(self, values):
        self.values = values

    def __call__(self, x):
        return compiled(x * self.values) + np.zeros(x.shape)


@needs_room
def test_objects_that_are_called_are_traced_as_methods(engine, x):
    def body(x):
        interpolate = Interpolator(x)
        return interpolate(x + 1) - x, interpolate(interpolate(x))

    for _ in range(3):
        for got, want in zip(pk.fuse(body)(x), body(x), strict=True):
            np.testing.assert_array_equal(got, want)


INTERFACES = ["__array_interface__", "__array_struct__", "__dlpack__", "__array_namespace__"]


def looks_at_interfaces(x):
    y = x * 2
    has = [(hasattr(y, name), hasattr(y.max(), name)) for name in INTERFACES]
    rest = hasattr(y, "__len__"), hasattr(y.max(), "__len__"), hasattr(y, "nothing")
    shape = y.__array_interface__["shape"], getattr(y, "__array_interface__")["typestr"]  # noqa: B009
    return has, rest, shape, x.__array_interface__["data"], np.from_dlpack(y)[3], y + 1


def test_interfaces_of_arrays(engine, x):
    *got, result = pk.fuse(looks_at_interfaces)(x)
    *want, expected = looks_at_interfaces(x)
    assert got == want
    np.testing.assert_array_equal(result, expected)


@needs_room
def test_arrays_after_the_fall_back_to_numpy(other, x, monkeypatch):
    """Where NumPy runs the rest of a call, values that were traced before are arrays for others, too."""
    monkeypatch.setattr(Costs, "is_far_slower_than_numpy", property(lambda costs: costs.passes > 0))

    @pk.fuse
    def body(own, x):
        y = x * 2
        total = y.sum()
        if total > 0:
            y += 1
        return own.callback(y), own.helper(y), y

    own, want = Own(other), np.where(x.sum() > 0, x * 2 + 1, x * 2)
    body._autotuned.best[((x.shape, x.dtype),)] = EngineChoice("body", "cpu", "auto: cpu 1 ms")
    with pk.engine("auto"):
        got = body(own, x)
    for mine, numpys in zip(got, (want + 1, want - 2 + np.ones(x.shape), want), strict=True):
        np.testing.assert_allclose(mine, numpys, rtol=1e-12, atol=1e-12)


def test_compiled_functions_by_a_variable_with_unpacked_arguments(engine, x):
    def body(x, is_long, **keywords):
        function = hashlib.sha256 if is_long else hashlib.md5
        return function(x, **keywords).hexdigest()

    for is_long in (True, False):
        want = body(x, is_long, usedforsecurity=False)
        assert pk.fuse(body)(x, is_long, usedforsecurity=False) == want


def test_lapack_does_not_write_to_arguments(engine):
    """SciPy looks whether an array is the caller's; f2py takes the memory of other objects for its own."""
    linalg = pytest.importorskip("scipy.linalg")
    rng = np.random.default_rng(3)
    square = np.asfortranarray(rng.standard_normal((40, 40)))
    square = np.asfortranarray(square @ square.T + 40 * np.eye(40))
    right = rng.standard_normal(40)
    upper = np.triu(square)
    calls = {
        linalg.det: (square.copy("C"),),
        linalg.cholesky: (square,),
        linalg.lu_factor: (square,),
        linalg.svd: (square,),
        linalg.inv: (square,),
        linalg.qr: (square,),
        linalg.rq: (square,),
        linalg.eigh: (square,),
        linalg.eigvalsh: (square,),
        linalg.solve_triangular: (upper, right),
        linalg.lstsq: (square, right),
    }
    for function, arguments in calls.items():
        before, want = [each.copy() for each in arguments], function(*arguments)
        fused = pk.fuse(function)
        for _ in range(3):
            got = fused(*arguments)
            for mine, numpys in zip(arguments, before, strict=True):
                np.testing.assert_array_equal(mine, numpys, err_msg=function.__name__)
            mine, numpys = ((each if type(each) is tuple else (each,))[0] for each in (got, want))
            np.testing.assert_allclose(mine, numpys, rtol=1e-9, atol=1e-12)


def test_functions_with_compiled_parts_that_wrappers_call(engine):
    """A wrapper calls `shapiro` by a variable with unpacked arguments, and it calls a function of Cython."""
    shapiro = pytest.importorskip("scipy.stats").shapiro
    direct, called = pk.fuse(shapiro), pk.fuse(lambda x: shapiro(x * 2))
    for seed in range(3):
        x = np.random.default_rng(seed).random(50)
        assert called(x) == shapiro(x * 2)
        if sys.version_info >= (3, 12):  # classes have buffers
            assert direct(x) == shapiro(x)


def test_asarray_chkfinite_is_the_array(engine, x):
    def body(x):
        convert = np.asarray_chkfinite if x.size else np.asarray
        return np.asarray_chkfinite(x) is x, convert(x) is x, np.asarray_chkfinite(x, "f4").dtype

    assert pk.fuse(body)(x) == body(x) == (True, True, np.float32)
    x[7] = np.nan
    for function in (body, pk.fuse(body)):
        with pytest.raises(ValueError, match="array must not contain infs or NaNs"):
            function(x)
