"""The call log: every call of a public function is recorded once, also if it consists of other calls."""

import re
import time

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._native import abi
from pycudakit._runtime import call_log, native_call

X = np.linspace(0.5, 4.0, 24).reshape(4, 6)
SQUARE = X[:, :4]
COUNTS = np.array([3, 1, 2, 2, 5])
GRAY = (np.arange(300) % 251).astype(np.uint8).reshape(15, 20)
RGB = np.stack([GRAY, GRAY.T.reshape(15, 20), GRAY], -1)
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "gcd", "lcm", "ldexp")
BITS += ("bitwise_left_shift", "bitwise_right_shift")
NO_CALLS = {
    *("Fused", "fuse"),  # tests/fusing/test_explain.py is about their record
    *("Call", "Device", "EngineStatus", "Link", "Memory", "Profile", "Tuning", "__version__", "errors"),
    *("build_info", "devices", "engine", "engines", "last_call", "link_speed", "memory_info", "profile"),
    *("release", "set_engine", "tuned", "tunings", "empty_pinned", "pinned_copy", "grid_for", "wrap"),
    *("get_include", "get_library_dir"),
    *("In", "InOut", "Out", "Program", "SourceModule", "image", "linalg", "random"),
    *("ElementwiseKernel", "ExclusiveScanKernel", "InclusiveScanKernel", "ReductionKernel"),
}
CALLS = {
    **{name: lambda f: f(COUNTS, COUNTS) for name in BITS},
    **{name: lambda f: f(COUNTS) for name in ("bitwise_invert", "bitwise_not", "invert")},
    **{name: lambda f: f(X + 1) for name in ("acosh", "arccosh")},
    **{name: lambda f: f(X / 8) for name in ("acos", "arccos", "arcsin", "asin", "arctanh", "atanh")},
    **{name: lambda f: f((X, X)) for name in ("concat", "concatenate", "stack")},
    **{name: lambda f: f(X[0], X[1]) for name in ("convolve", "correlate")},
    **{name: lambda f: f(X, 2) for name in ("pad", "repeat", "tile")},
    **{name: lambda f: f(X, axis=1) for name in ("cumulative_prod", "cumulative_sum")},
    "compress": lambda f: f([True, False, True], X, axis=0),
    "cross": lambda f: f(X[:, :3], X[:, 3:]),
    "take": lambda f: f(X, [1, 0], axis=1),
    "take_along_axis": lambda f: f(X, np.argsort(X, axis=1), axis=1),
    "astype": lambda f: f(X, np.float32),
    "average": lambda f: f(X, weights=X),
    "bincount": lambda f: f(COUNTS),
    "clip": lambda f: f(X, 1, 2),
    "digitize": lambda f: f(X, [1, 2, 3]),
    "einsum": lambda f: f("ij,kj->ik", X, X),
    "evaluate": lambda f: f("sqrt(x) + 1", {"x": X}),
    "histogram2d": lambda f: f(X.ravel(), X.ravel(), 3),
    "interp": lambda f: f(X, [0, 1, 2], [0, 1, 4]),
    "lexsort": lambda f: f((COUNTS, COUNTS)),
    "matmul": lambda f: f(X, X.T),
    "dot": lambda f: f(X, X.T),
    "median": lambda f: f(X, axis=0),
    "nanmedian": lambda f: f(X, axis=0),
    **{f"{nan}{name}": lambda f: f(X, 30) for nan in ("", "nan") for name in ("percentile",)},
    **{f"{nan}{name}": lambda f: f(X, 0.3) for nan in ("", "nan") for name in ("quantile",)},
    **{name: lambda f: f(X, 2) for name in ("partition", "argpartition", "topk", "roll")},
    "searchsorted": lambda f: f(np.sort(X.ravel()), X),
    "swapaxes": lambda f: f(X, 0, 1),
    "tensordot": lambda f: f(X, X, 2),
    "unique": lambda f: f(X, return_counts=True),
    "where": lambda f: f(X > 1, X, 0),
    "linalg.matrix_power": lambda f: f(SQUARE, 3),
    "image.convolve": lambda f: f(GRAY, np.ones((3, 3))),
    "image.correlate": lambda f: f(GRAY, np.ones((3, 3))),
    "image.box_blur": lambda f: f(GRAY, 3),
    "image.crop": lambda f: f(GRAY, 1, 1, 5, 5),
    "image.gaussian_blur": lambda f: f(GRAY, 1.0),
    "image.maximum_filter": lambda f: f(GRAY, 3),
    "image.median_filter": lambda f: f(GRAY, 3),
    "image.minimum_filter": lambda f: f(GRAY, 3),
    "image.resize": lambda f: f(GRAY, (7, 9)),
    "image.rgb_to_gray": lambda f: f(RGB),
    "image.threshold": lambda f: f(GRAY, 100),
}


def public():
    for name in pk.__all__:
        if name not in NO_CALLS:
            yield name, getattr(pk, name)
    for room in ("linalg", "image"):
        module = getattr(pk, room)
        for name in module.__all__:
            yield f"{room}.{name}", getattr(module, name)


def usual(function, name):
    ufunc = getattr(np, name, None)
    if (isinstance(ufunc, np.ufunc) and ufunc.nin == 2) or name in (
        "inner",
        "outer",
        "kron",
        "vdot",
        "vecdot",
        "allclose",
        "array_equal",
        "isclose",
        *("intersect1d", "isin", "setdiff1d", "setxor1d", "union1d"),
    ):
        return function(X, X)
    return function(GRAY) if name.startswith("image.") else function(X)


FUNCTIONS = dict(public())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_is_recorded_once(engine, name):
    function = FUNCTIONS[name]
    before = pk.last_call()
    with pk.profile() as p:
        CALLS.get(name, lambda f: usual(f, name))(function)
    (call,) = p.calls
    assert call is not before
    assert call == pk.last_call()
    assert call.seconds is not None
    # Without a profile it is the same record.
    CALLS.get(name, lambda f: usual(f, name))(function)
    last = pk.last_call()
    assert (last.function, last.engine) == (call.function, call.engine)
    assert last.function.rpartition(".")[2] in (name.rpartition(".")[2], function.__name__)


DRAWS = {
    **dict.fromkeys(("random", "standard_normal"), ()),
    "uniform": (0.0, 1.0),
    **dict.fromkeys(("exponential", "poisson"), (1.0,)),
    "normal": (0.0, 1.0),
    "binomial": (9, 0.5),
    **dict.fromkeys(("standard_gamma", "chisquare", "geometric"), (0.5,)),
    **dict.fromkeys(("lognormal", "gamma", "beta"), (1.0, 2.0)),
    "standard_exponential": (),
    **dict.fromkeys(("laplace", "logistic", "gumbel"), (1.0, 2.0)),
    **dict.fromkeys(("rayleigh", "weibull", "pareto", "power"), (2.0,)),
    "standard_cauchy": (),
    "standard_t": (2.0,),
    **dict.fromkeys(("f", "wald"), (1.0, 2.0)),
    "negative_binomial": (1.0, 0.5),
    "triangular": (0.0, 1.0, 2.0),
    "noncentral_chisquare": (1.0, 2.0),
    "noncentral_f": (1.0, 2.0, 3.0),
    "logseries": (0.5,),
    "dirichlet": ([1.0, 2.0],),
    "multinomial": (5, [0.5, 0.5]),
    "multivariate_normal": ([0, 0], np.eye(2)),
    "permuted": None,
    "integers": (100,),
    "bytes": (),
    "permutation": None,
    "shuffle": None,
    "choice": (100,),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_is_recorded_once(engine, name):
    method = getattr(pk.random.default_rng(1), name)
    with pk.profile() as p:
        if DRAWS[name] is None:
            method(np.arange(300))
        else:
            method(*DRAWS[name], 300)
    assert [call.function for call in p.calls] == [name]


MADE = {
    "ElementwiseKernel": lambda: pk.ElementwiseKernel("double *x", "x[i] *= 2", "mine")(X.copy()),
    "ReductionKernel": lambda: pk.ReductionKernel(np.float64, "0", "a+b", "x[i]", "double *x", name="mine")(
        X.ravel()
    ),
    "InclusiveScanKernel": lambda: pk.InclusiveScanKernel(np.int32, "a+b", name_prefix="mine")(
        np.arange(100, dtype=np.int32)
    ),
    "ExclusiveScanKernel": lambda: pk.ExclusiveScanKernel(np.int32, "a+b", 0, name_prefix="mine")(
        np.arange(100, dtype=np.int32)
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_ready_made_kernel_is_recorded_once(engine, name):
    with pk.profile() as p:
        MADE[name]()
    assert [call.function for call in p.calls] == ["mine"]


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "nansum", "std"])
def test_overflowing_calls_are_one_call(engine, name):
    x = np.full(1000, 1e38, np.float32)
    with pk.profile() as p, np.errstate(all="ignore"):
        getattr(pk, name)(x * np.float32(3))
    assert [call.function for call in p.calls] == [name]


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_calls_without_elements_are_numpys(engine, name):
    with pk.profile() as p, pytest.warns(RuntimeWarning):
        getattr(pk, name)(np.empty(0))
    assert [(call.function, call.engine) for call in p.calls] == [(name, "numpy")]


def test_selections_that_numpy_refuses_are_not_recorded(engine):
    with pk.profile() as p, pytest.raises(IndexError):
        pk.quantile(np.empty(0), 0.5)
    assert p.calls == []


NOTHING = np.empty((0, 3))
OF_NOTHING = {
    **dict.fromkeys(("sqrt", "sum", "cumsum", "cummax", "sort", "unique", "diff", "prod"), (NOTHING,)),
    "add": (NOTHING, 1.0),
    "digitize": (NOTHING, [1.0, 2.0]),
    "dot": (NOTHING, np.empty((3, 0))),
    "histogram": (NOTHING,),
    "interp": (NOTHING, [0.0, 1.0], [0.0, 1.0]),
    "matmul": (NOTHING, np.empty((3, 0))),
    "searchsorted": ([1.0, 2.0], NOTHING),
}


def test_no_numbers_and_no_pixels_are_calls_too(engine):
    with pk.profile() as p:
        pk.random.default_rng(1).normal(size=0)
        pk.image.box_blur(np.empty((0, 5), np.uint8), 3)
    assert [call.function for call in p.calls] == ["normal", "box_blur"]


def test_a_small_part_counts_among_large_ones(engine):
    """A call that NumPy computed from the dispatch cache is a part like any other."""
    log_small_call = native_call.call_logger(pk.Call("small", "numpy", ""))

    def compute():
        log_small_call()
        with pk.engine(engine):
            pk.cumsum(X)
        log_small_call()
        native_call.add_reason("more")

    _, parts = native_call.collect_calls(compute)
    functions = [part.function if isinstance(part, pk.Call) else part[0] for part in parts]
    assert functions == ["small", "cumsum", "small"]
    assert parts[2].reason == "; more"


def test_a_call_that_numpy_refuses_is_not_recorded():
    with pk.engine("auto"):
        x = np.ones(3)
        pk.add(x, x)
        before = pk.last_call()
        for call in (lambda: pk.add(x, x, casting="never"), lambda: pk.sort(x, axis=7)):
            with pytest.raises((ValueError, np.exceptions.AxisError)):
                call()
            assert pk.last_call() == before


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_nan_are_found_once(engine, name, monkeypatch):
    runs = []
    real = native_call.NativeCall._run
    monkeypatch.setattr(
        native_call.NativeCall, "_run", lambda self, *given: (runs.append(self), real(self, *given))[1]
    )
    assert np.isnan(getattr(pk, name)(np.array([1.0, np.nan, 3.0])))
    assert len(runs) == 1


@pytest.mark.parametrize("name", OF_NOTHING)
def test_a_call_with_nothing_to_compute_is_recorded_once(engine, name):
    with pk.profile() as p:
        getattr(pk, name)(*OF_NOTHING[name])
    assert [call.function for call in p.calls] == [name]


def test_nothing_to_multiply_is_a_call_too(engine):
    pk.add(X, X)
    pk.linalg.matrix_power(SQUARE, 0)
    assert pk.last_call().function == "matrix_power"


def test_a_call_tells_how_its_parts_were_computed():
    first = pk.Call("extent", "cuda", "the requested engine", 2.0)
    second = pk.Call("weigh", "cuda", "the requested engine; weights are added on the host", 1.0)
    whole = call_log.combine_calls("bincount", [first, second])
    assert whole.reason == "the requested engine; weights are added on the host"
    assert (whole.function, whole.engine, whole.seconds) == ("bincount", "cuda", 3.0)


def test_spans_of_parts_are_on_one_clock():
    spans = np.zeros(1, abi.SPAN)
    spans["end"] = 0.5
    parts = [pk.Call("matmul", "cpu", "", 0.5, began=began, spans=spans) for began in (10.0, 12.0)]
    whole = call_log.combine_calls("matrix_power", parts)
    assert whole.began == 10.0
    assert whole.spans["begin"].tolist() == [0.0, 2.0]
    assert whole.spans["end"].tolist() == [0.5, 2.5]
    assert spans["begin"] == 0  # and the parts are as they were


def test_parts_are_added_up(engine):
    x = np.arange(64, dtype=np.int64).reshape(8, 8)
    with pk.profile() as p:
        pk.linalg.matrix_power(x, 5)
        pk.matmul(x, x)
    power, product = p.calls
    assert power.chunks == 3 * product.chunks
    assert len(power.spans) == 3 * len(product.spans)


def test_a_reason_that_is_added_is_in_the_profile_too(engine):
    for collects in (True, False):
        with pk.profile() if collects else pk.engine() as p:
            pk.add(X, X)
            before = pk.last_call().reason
            native_call.add_reason("and more")
        assert pk.last_call().reason == f"{before}; and more"
        if collects:
            assert [call.reason for call in p.calls] == [f"{before}; and more"]


def test_a_part_whose_record_was_read_counts_once(engine):
    seen = []

    @native_call.logged_as_one_call("twice")
    def twice():
        for _ in range(2):
            pk.sqrt(X)
            seen.append(pk.last_call())

    began = time.perf_counter()
    twice()
    taken = time.perf_counter() - began
    assert sum(call.seconds for call in seen) < pk.last_call().seconds < taken
    assert pk.last_call().chunks == sum(call.chunks for call in seen)


ESTIMATED = {
    "exp": (X,),
    "add": (X, X),
    "multiply": (X, 2.0),
    "clip": (X, 1.0, 2.0),
    "sort": (X.ravel(),),
    "argsort": (X.ravel(),),
    "unique": (X.ravel(),),
    "median": (X,),
    "take": (X, [1, 0]),
    "cumsum": (X,),
    "interp": (X, X.ravel(), X.ravel()),
    "bincount": (COUNTS,),
    "histogram": (X,),
    "searchsorted": (X.ravel(), X),
}


@pytest.mark.parametrize("name", ESTIMATED)
def test_reasons_of_small_calls_have_the_estimates(name):
    """Also those of calls whose engine an earlier call has chosen."""
    reasons = []
    with pk.engine("auto"):
        for _ in range(4):
            getattr(pk, name)(*ESTIMATED[name])
            with pk.engine("numpy"):
                call = pk.last_call()
            assert call.function == name
            reasons.append(call.reason)
            assert re.match(rf"auto: {call.engine} (under )?[\d.e-]+ ms", call.reason)
            assert call.engine == "cpu" or re.search(r", cpu [\d.e-]+ ms", call.reason)
            assert pk.engines()["cuda"] or "; cuda not available: " in call.reason
    assert len(set(reasons)) == 1


def test_the_reason_of_a_small_elementwise_call_has_the_estimates_of_its_size():
    """The reason is made when it is read."""
    times = []
    for size in (200, 1000):
        x = np.linspace(0, 1, size)
        with pk.engine("auto"):
            for _ in range(3):
                pk.hypot(x, x)
        found = re.match(r"auto: numpy ([\d.]+) ms, cpu ", pk.last_call().reason)
        assert found, pk.last_call().reason
        times.append(float(found[1]))
    assert times[1] == pytest.approx(5 * times[0], rel=0.2)


def test_notes_are_added_to_the_reason_of_a_small_call():
    x = np.ones(10)
    with pk.engine("auto"):
        for _ in range(3):
            pk.hypot(x, x)
        native_call.add_reason("more")
    assert re.fullmatch(r"auto: numpy .*; more", pk.last_call().reason)
    _, parts = native_call.collect_calls(
        lambda: (pk.hypot(x, x), pk.hypot(x, x), native_call.add_reason("more"))
    )
    assert [native_call.as_call(part).reason.endswith("; more") for part in parts] == [True]
