"""The accounts of fused calls: the wall time, in passes, NumPy and the rest, and the graph breaks."""

import pickle
import re
import time

import numpy as np
import pytest
from scipy import special

import pycudakit as pk
import pycudakit.numpy as pknp
from pycudakit.fusing import autotuning

X = np.random.default_rng(0).random((100, 60))
OUTSIDE = "Python and other libraries"


def sleepy(x):
    total = np.sqrt(x * 2).sum()
    time.sleep(0.05)
    return total


def decomposed(x):
    values = np.linalg.svd(x * 2)[1]
    if values.max() > 0:
        values = values / values.max()
    return values


@pytest.mark.parametrize("is_profiled", [False, True])
def test_the_seconds_are_wall_time(engine, is_profiled):
    fused = pk.fuse(sleepy)
    fused(X)
    began = time.perf_counter()
    if is_profiled:
        with pk.profile() as profile:
            fused(X)
        (call,) = profile.calls
    else:
        fused(X)
        call = pk.last_call()
    taken = time.perf_counter() - began
    assert call.function == "sleepy"
    assert 0.05 <= call.seconds <= taken
    if call.engine != "numpy":
        rest = {row.function: row.seconds for row in call.rest}
        assert set(rest) == {OUTSIDE}
        assert rest[OUTSIDE] >= 0.05
        rows = sum(one.seconds for one in (*call.passes, *call.rest))
        assert call.seconds == pytest.approx(rows)


def test_numpy_has_a_row(engine):
    if engine == "auto":
        pytest.skip("auto may run all of it in NumPy")
    pk.fuse(decomposed)(X)
    call = pk.last_call()
    numpys, _ = call.rest
    assert (numpys.function, numpys.engine) == ("NumPy", "numpy")
    assert numpys.reason == "pycudakit lacks numpy.linalg.svd()"
    assert 0 < numpys.seconds < call.seconds
    assert call.seconds == pytest.approx(sum(one.seconds for one in (*call.passes, *call.rest)))


def test_graph_breaks_are_named(engine):
    if engine == "auto":
        pytest.skip("auto may run all of it in NumPy")
    fused = pk.fuse(decomposed)
    fused(X)
    call, plan = pk.last_call(), fused.explain(X)
    assert [each.name for each in call.breaks] == ["numpy.linalg.svd()", "the truth value of an array"]
    assert [each.is_lacking for each in call.breaks] == [True, False]
    assert call.breaks == plan.breaks
    assert call.reason.endswith("graph breaks: numpy.linalg.svd(), the truth value of an array")
    again = pickle.loads(pickle.dumps(call))
    assert again.breaks == call.breaks
    assert again.rest == call.rest
    with pk.engine("numpy"):
        fused(X)
    assert pk.last_call().breaks == ()


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: np.spacing(x) + 1, "numpy.spacing()"),
        (lambda x: np.nextafter.accumulate(x) + 1, "numpy.nextafter.accumulate()"),
        (lambda x: np.fft.fft(x) + 1, "numpy.fft.fft()"),
        (lambda x: special.erf(x) + 1, "scipy.special.erf()"),
    ],
)
def test_graph_breaks_name_the_library(function, name, engine):
    if engine == "auto":
        pytest.skip("auto may run all of it in NumPy")
    plan = pk.fuse(function).explain(X)
    assert [each.name for each in plan.breaks] == [name]
    assert "__call__" not in str(plan)
    with pytest.raises(pk.errors.Unsupported, match=f"{re.escape(name)}, which pycudakit lacks"):
        pk.fuse(function, strict=True)(X)


def test_remedies_of_functions_that_pycudakit_lacks():
    with pk.engine("cpu"):
        for function, remedy in [
            (lambda x: special.erf(x) + 1, "call it outside of the function, or write its formula in NumPy"),
            (lambda x: np.fft.fft(x) + 1, "call it outside of the function"),
        ]:
            assert pk.fuse(function).explain(X).breaks[0].instead == remedy


def test_breaks_of_a_loop_are_named_once(engine):
    @pk.fuse
    def looped(x):
        for _ in range(20):
            x = x / float(x.max())
            x.tolist(), str(x[0, 0]), np.fft.fft(x[0])
        return x

    if engine == "auto":
        pytest.skip("auto may run all of it in NumPy")
    looped(X)
    call = pk.last_call()
    assert len(call.breaks) == 4
    assert call.reason.endswith("graph breaks: float(), .tolist(), str(), ...")


def test_a_function_without_a_pass(engine):
    if engine == "auto":
        pytest.skip("auto may run all of it in NumPy")
    fused = pk.fuse(lambda x: pknp.linalg.svd(x)[1])
    for _ in range(2):  # the first call also imports modules and analyses the function
        fused(X)
    call = pk.last_call()
    assert (call.engine, call.passes) == ("numpy", ())
    assert call.reason == "graph breaks: numpy.linalg.svd()"
    assert call.rest[0].seconds == pytest.approx(call.seconds, rel=0.9)
    pk.fuse(lambda x: x[:3])(X)
    assert pk.last_call().reason == "nothing to compute"


def test_a_function_of_few_elements(engine):
    fused = pk.fuse(lambda x: x[0] * 2 + 1, strict=True)
    fused(X)
    call = pk.last_call()
    assert (call.function, call.engine) == ("<lambda>", "numpy")
    assert call.reason == "NumPy computes operations of few elements"
    assert call.seconds > 0


def test_a_function_of_other_objects(engine):
    if engine == "auto":
        pytest.skip("auto runs small calls in NumPy")
    pd = pytest.importorskip("pandas")
    column = pd.Index(X[:, 0])
    got = pk.fuse(lambda x: np.sqrt(x) + 1)(column)
    np.testing.assert_array_equal(got.to_numpy(), np.sqrt(X[:, 0]) + 1)
    assert pk.last_call().reason.endswith("pass the values: .to_numpy()")


def test_the_rows_of_a_table(engine):
    if engine == "auto":
        pytest.skip("auto may run all of it in NumPy")
    fused = pk.fuse(decomposed)
    with pk.profile() as profile:
        fused(X)
    names = [line.split("  ")[1] for line in str(profile).splitlines()[1:] if line.startswith("  ")]
    assert names[-2:] == ["NumPy", OUTSIDE]
    lines = str(fused.explain(X)).splitlines()
    starts = [line.strip().partition(":")[0] for line in lines]
    assert starts[-5:] == ["NumPy", OUTSIDE, "together", "break", "break"]


def test_explain_tells_the_time(engine):
    if engine == "auto":
        pytest.skip("auto may hand passes to NumPy")
    plan = pk.fuse(sleepy).explain(X)
    assert 0.05 <= plan.rest[OUTSIDE] <= plan.seconds
    assert plan.seconds == pytest.approx(
        sum(one.seconds for one in plan.passes if one.engine != "numpy") + sum(plan.rest.values())
    )
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_an_indexed_write_is_numpys(engine):
    @pk.fuse
    def put(x, i):
        x[i] += 1.0
        return x * 2

    if engine != "cpu":
        pytest.skip("auto may choose NumPy, and a GPU has its own")
    put(X[:, 0].copy(), np.arange(50))
    assert [row.function for row in pk.last_call().rest] == ["NumPy", OUTSIDE]
    assert pk.last_call().rest[0].reason == ""


def test_a_body_that_numpy_takes_over(monkeypatch):
    """Under `auto`, a slow trace hands the rest of the body to NumPy, and the time is NumPy's."""
    monkeypatch.setattr(autotuning, "_FIRST_IN_NUMPY", 0)

    @pk.fuse
    def looped(x):
        for i in range(len(x) - 1):
            x[i + 1] = x[i] * 0.5 + x[i + 1]
        return x

    with pk.engine("auto"):
        looped(np.ones(6000))
        call = pk.last_call()
    rest = {row.function: row.seconds for row in call.rest}
    assert rest["NumPy"] > rest[OUTSIDE] / 10
    assert call.seconds >= rest["NumPy"]


def test_calls_of_a_body_in_numpy_are_a_part_of_it():
    def body(x):
        return pk.add(pk.sqrt(x), 1)

    with pk.engine("numpy"), pk.profile() as profile:
        pk.fuse(body)(X)
    assert [call.function for call in profile.calls] == ["body"]
    assert profile.calls[0].seconds > 0


def test_composite_calls_have_wall_time(engine):
    began = time.perf_counter()
    pk.linalg.norm(X, 3, axis=1)
    taken = time.perf_counter() - began
    assert 0 < pk.last_call().seconds <= taken
