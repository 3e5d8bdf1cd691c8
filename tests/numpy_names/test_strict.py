"""Named engines are strict: they refuse functions that pycudakit lacks, unless NumPy is their fallback."""

import inspect
import pickle
import re

import numpy  # noqa: ICN001  (`np` is ours)
import pytest

import pycudakit as pk
import pycudakit.numpy as np
from pycudakit import errors
from pycudakit._runtime import context
from pycudakit.numpy import _numpy_only

# The functions that are NumPy's own on every engine: they compute no elements.
OTHERS = {
    "make arrays": """arange array asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray
        asmatrix bartlett blackman copy diag_indices diag_indices_from diagflat empty empty_like
        eye fft.fftfreq fft.rfftfreq from_dlpack frombuffer fromfunction fromiter fromstring
        full full_like geomspace hamming hanning identity indices ix_ kaiser linspace logspace
        mask_indices meshgrid ones ones_like require tri tril_indices tril_indices_from
        triu_indices triu_indices_from zeros zeros_like""",
    "make views": """array_split atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to diag diagonal
        dsplit expand_dims flip fliplr flipud hsplit imag linalg.diagonal linalg.matrix_transpose
        matrix_transpose moveaxis permute_dims ravel real real_if_close reshape rollaxis rot90 split squeeze
        swapaxes transpose trim_zeros unstack vsplit""",
    "write to arrays": "copyto fill_diagonal place put put_along_axis putmask",
    "describe": """broadcast_shapes can_cast common_type datetime_data einsum_path frompyfunc get_include
        get_printoptions getbufsize geterr geterrcall info iscomplexobj isdtype isfortran isrealobj isscalar
        issubdtype iterable may_share_memory min_scalar_type mintypecode ndim nested_iters promote_types
        result_type set_printoptions setbufsize seterr seterrcall shape shares_memory show_config
        show_runtime size test typename""",
    "print": """array2string array_repr array_str base_repr binary_repr datetime_as_string
        format_float_positional format_float_scientific printoptions""",
    "read or write files": "fromfile fromregex genfromtxt load loadtxt save savetxt savez savez_compressed",
}
LACKING = sorted(
    (module, name)
    for module, names in _numpy_only.NAMES.items()
    for name in names
    if hasattr(getattr(numpy, module) if module else numpy, name)  # some are newer than NumPy 2.0
)


def full_name(module, name):
    return f"{module}.{name}".lstrip(".")


def of(space, name):
    for part in name.split("."):
        space = getattr(space, part)
    return space


def test_the_table_is_complete():
    """Every function that is NumPy's own computes elements, or has a reason not to."""
    own = {
        name
        for name, owner in np.coverage().items()
        if owner == "numpy" and not name.startswith("random.") and callable(of(numpy, name))
    }
    functions = {name for name in own if not isinstance(of(numpy, name), type)}
    lacking = {full_name(module, name) for module, name in LACKING}
    listed = [name for names in OTHERS.values() for name in names.split()]
    assert len(listed) == len(set(listed))
    assert lacking.isdisjoint(listed)
    assert functions - lacking - set(listed) == set()
    assert lacking - functions == set()


@pytest.mark.parametrize(("module", "name"), LACKING, ids=lambda part: part)
def test_refused_by_name(engine, module, name):
    function, shown = (
        of(np, full_name(module, name)),
        full_name(module, of(numpy, full_name(module, name)).__name__),
    )
    if engine in ("auto", "numpy"):
        pytest.skip("NumPy may compute it")
    with pytest.raises(errors.Unsupported, match=rf"^{re.escape(shown)}: .*'auto' or fallback='numpy'$"):
        function()


X = numpy.arange(1.0, 13).reshape(3, 4)
S = X[:, :3] + numpy.eye(3) * 20
DAYS = numpy.array(["2024-02-27", "2024-03-02"], "M8[D]")
SAMPLES = {
    "angle": (X + 1j,),
    "append": (X, 3.0),
    "apply_along_axis": (numpy.sum, 0, X),
    "apply_over_axes": (numpy.sum, X, (0, 1)),
    "array_equiv": (X, X),
    "bitwise_count": (numpy.arange(9),),
    "block": ([X, X],),
    "busday_count": (DAYS[:1], DAYS[1:]),
    "choose": (numpy.array([0, 1, 0]), [X[0, :3], X[1, :3]]),
    "conj": (X + 1j,),
    "delete": (X, 1, 0),
    "fft.fft": (X,),
    "fft.fftshift": (X,),
    "fft.irfftn": (X + 1j,),
    "histogram_bin_edges": (X,),
    "linalg.cholesky": (S @ S.T,),
    "linalg.eigh": (S + S.T,),
    "linalg.inv": (S,),
    "linalg.lstsq": (X, X[:, 0]),
    "linalg.matmul": (S, S),
    "linalg.qr": (S,),
    "linalg.solve": (S, X[:, 0]),
    "linalg.svd": (X,),
    "piecewise": (X, [X < 3], [0.0, 1.0]),
    "polyfit": (X[0], X[1], 1),
    "polyval": (X[0], X),
    "roots": (X[0],),
    "select": ([X > 3], [X]),
    "sort_complex": (X,),
    "unique_all": (X,),
    "unravel_index": (numpy.arange(5), (2, 3)),
    "unwrap": (X,),
    "vander": (X[0],),
    "vstack": ([X, X],),
}


def parts(result):
    return list(result) if isinstance(result, tuple) else [result]


def assert_same(got, want):
    assert len(parts(got)) == len(parts(want))
    for ours, theirs in zip(parts(got), parts(want), strict=True):
        assert type(ours) is type(theirs)
        numpy.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", SAMPLES)
def test_allowed_with_a_fallback(engine, name):
    function, numpys, arguments = of(np, name), of(numpy, name), SAMPLES[name]
    with pytest.raises(errors.Unsupported):
        function(*arguments)
    pk.add(1.0, 2.0)
    with pk.engine(engine, fallback="numpy"):
        assert_same(function(*arguments), numpys(*arguments))
        call = pk.last_call()
    assert (call.function.rpartition(".")[2], call.engine) == (numpys.__name__, "numpy")
    assert call.reason == f"fallback from the {engine} engine: pycudakit lacks it"


@pytest.mark.parametrize("name", SAMPLES)
def test_auto_and_numpy_record_it(name):
    for engine, reason in (("auto", "auto: pycudakit lacks it"), ("numpy", "the requested engine")):
        with pk.engine(engine):
            pk.add(1.0, 2.0)
            assert_same(of(np, name)(*SAMPLES[name]), of(numpy, name)(*SAMPLES[name]))
            assert pk.last_call().engine == "numpy"
            assert pk.last_call().reason == reason
            with pk.profile() as profile:
                of(np, name)(*SAMPLES[name])
            assert [call.reason for call in profile.calls] == [reason]
            assert profile.calls[0].seconds > 0


def test_nothing_is_written_by_a_refused_call(engine):
    out = numpy.zeros(3, complex)
    for call in (
        lambda: np.conj(numpy.ones(3) * 1j, out=out),
        lambda: np.add(numpy.ones(3) * 1j, 1, out=out),
        lambda: np.choose([0, 0, 0], [numpy.ones(3)], out=out),
        lambda: np.fft.fft(numpy.ones(3), out=out),
        lambda: np.conj.at(out, [0]),
    ):
        with pytest.raises(errors.Unsupported):
            call()
    assert not out.any()


# ---- The fallback ------------------------------------------------------------------------------------


def test_the_fallback_of_functions_that_pycudakit_has(engine):
    calls = {
        "add": lambda: np.add(numpy.ones(3) * 1j, 1),
        "sort": lambda: np.sort(X + 1j),
        "cov": lambda: np.cov(X + 1j),
        "sum": lambda: np.sum(X + 1j),
        "add.at": lambda: np.add.at(numpy.zeros(3), [0], 1),
        "norm": lambda: np.linalg.norm(X, "nuc"),
        "divide": lambda: np.divide(numpy.ma.array([1.0, 2.0], mask=[True, False]), 2),
    }
    for name, call in calls.items():
        with pytest.raises(errors.Unsupported, match=f"^{re.escape(name)}[:,]"):
            call()
        with pk.engine(engine, fallback="numpy"):
            result = call()
            assert pk.last_call().function == name
            assert pk.last_call().engine == "numpy"
            assert pk.last_call().reason.startswith(f"fallback from the {engine} engine: ")
            with pk.engine("numpy"):
                numpy.testing.assert_array_equal(result, call())
    with pk.engine(engine, fallback="numpy"):
        np.add(X, 1)
        assert pk.last_call().engine == engine


class Rows(numpy.ndarray):
    """A subclass of ndarray."""


def test_the_fallback_keeps_subclasses(engine):
    rows = X.view(Rows)
    with pytest.raises(errors.Unsupported, match="Rows overrides"):
        np.sqrt(rows)
    with pk.engine(engine, fallback="numpy"):
        assert type(np.sqrt(rows)) is Rows
        assert pk.last_call().engine == "numpy"
        assert type(np.add(rows, 1, signature="dd->d")) is Rows


def test_where_a_fallback_holds():
    before = context.process_engine
    try:
        pk.set_engine("cpu", fallback="numpy")
        np.fft.fft(X[0])
        with pk.engine("cpu"), pytest.raises(errors.Unsupported, match=r"^fft\.fft: "):
            np.fft.fft(X[0])  # naming an engine is strict
        with pk.engine(progress=False):
            np.fft.fft(X[0])
        pk.set_engine("cpu")
        with pytest.raises(errors.Unsupported):
            np.fft.fft(X[0])
        with pk.engine(fallback="numpy"):
            np.fft.fft(X[0])
            with pk.engine(wait=True):
                np.fft.fft(X[0])
        with pytest.raises(errors.Unsupported):
            np.fft.fft(X[0])
    finally:
        pk.set_engine(before)


@pytest.mark.parametrize("fallback", ["cpu", "auto", True, 0, ""])
def test_an_invalid_fallback(fallback):
    message = "fallback is .*; choose 'numpy', or None for no fallback"
    with pytest.raises(errors.InvalidArgument, match=message):
        pk.engine("cpu", fallback=fallback)
    before = context.process_engine, context.process_fallback
    with pytest.raises(errors.InvalidArgument, match=message):
        pk.set_engine("cpu", fallback=fallback)
    with pytest.raises(errors.InvalidArgument, match="name is 'gpu'"):
        pk.set_engine("gpu", fallback="numpy")
    assert (context.process_engine, context.process_fallback) == before


def test_a_missing_engine_comes_first(monkeypatch):
    from pycudakit._runtime import engine_choice

    def missing(engine):
        raise errors.NoDevice(f"no {engine}")

    monkeypatch.setattr(engine_choice.loader, "library", missing)
    engine_choice.requested_engine.cache_clear()
    try:
        for fallback in (None, "numpy"):
            with pk.engine("cpu", fallback=fallback), pytest.raises(errors.NoDevice, match="no cpu"):
                np.linalg.svd(X)
    finally:
        engine_choice.requested_engine.cache_clear()


# ---- Fused functions ---------------------------------------------------------------------------------


def decompose(x):
    return np.linalg.svd(x * 2)[1], np.fft.fft(numpy.ones(3)), np.vstack([x, x])


@pytest.mark.parametrize("fallback", [None, "numpy"])
def test_graph_breaks_in_fused_functions(engine, fallback):
    with pk.engine(engine, fallback=fallback):
        got = pk.fuse(decompose)(X)
        with pk.engine("numpy"):
            assert_same(got[1:], decompose(X)[1:])
            numpy.testing.assert_allclose(got[0], decompose(X)[0])
        breaks = pk.fuse(decompose).explain(X).breaks
        assert breaks[0].operation == "numpy.linalg.svd(), which pycudakit lacks,"
        with pytest.raises(errors.Unsupported, match=r"numpy\.linalg\.svd\(\), which pycudakit lacks"):
            pk.fuse(decompose, strict=True)(X)


def test_a_fallback_hides_no_graph_break(engine):
    def totals(x, z):
        return np.linalg.norm(x, "nuc"), np.sort(z), pk.median(z)

    arguments = X, numpy.arange(50) * 1j
    for fallback in (None, "numpy"):
        with pk.engine(engine, fallback=fallback):
            breaks = pk.fuse(totals).explain(*arguments).breaks
            assert [each.operation.partition("(")[0] for each in breaks] == [
                "numpy.linalg.norm",
                "numpy.sort",
                "numpy.median",
            ]
            got = pk.fuse(totals)(*arguments)
        with pk.engine("numpy"):
            assert_same(got, totals(*arguments))


# ---- The functions as objects ------------------------------------------------------------------------


@pytest.mark.parametrize(("module", "name"), LACKING, ids=lambda part: part)
def test_they_look_like_numpys(module, name):
    ours, theirs = of(np, full_name(module, name)), of(numpy, full_name(module, name))
    assert ours.__name__ == theirs.__name__
    assert ours.__doc__ == theirs.__doc__
    assert pickle.loads(pickle.dumps(ours)) is ours
    if not isinstance(theirs, numpy.ufunc):
        assert inspect.signature(ours) == inspect.signature(theirs)
    else:
        assert (ours.nin, ours.nout, ours.types) == (theirs.nin, theirs.nout, theirs.types)


def test_aliases_are_one_object():
    assert np.conj is np.conjugate
