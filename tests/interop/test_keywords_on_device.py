"""Keywords of calls on device arrays: `where`, `dtype`, `initial`, and `out` in any layout."""

import warnings

import numpy as np
import pytest
from helpers.calls_on_device import arrays_of, parts_of
from helpers.keywords_on_device import EXACT, FORMS, INTO, KEYWORDS, OTHER_TYPES
from numpy.testing import assert_array_equal

import pycudakit as pk

FEW = 20_000  # bytes: the arrays have 50 times as many


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords(cupy_library, name):
    call = KEYWORDS[name]
    on_host = arrays_of(call)
    with pk.engine("cpu"):
        want = call(**on_host)
    on_device = {key: cupy_library.up(x) for key, x in on_host.items()}
    got = call(**on_device)
    assert cupy_library.moved() < FEW
    for one, other in zip(parts_of(got), parts_of(want), strict=True):
        assert_array_equal(cupy_library.down(one), other)
        assert cupy_library.down(one).dtype == other.dtype


def both_with_out(cupy_library, name, form, dtype):
    """Return `out` and its base after a call, on the host and on the device."""
    call, shape, _ = INTO[name]
    on_host = arrays_of(call)
    longer, part = FORMS[form]
    wide = np.full((*shape[:-1], longer * shape[-1]) if shape else (), 7, dtype)
    wide_on_device = cupy_library.up(wide)
    on_host["out"], out_on_device = (x[..., part] if shape else x for x in (wide, wide_on_device))
    with pk.engine("cpu"):
        assert call(**on_host) is on_host["out"]
    on_device = {key: cupy_library.up(x) for key, x in on_host.items() if key != "out"}
    assert call(**on_device, out=out_on_device) is out_on_device
    assert cupy_library.moved() < FEW
    return wide, cupy_library.down(wide_on_device)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", INTO)
def test_out(cupy_library, name, form):
    _, shape, dtype = INTO[name]
    if not shape and form != "dense":
        pytest.skip("it has one element")
    wide, wide_on_device = both_with_out(cupy_library, name, form, dtype)
    assert_array_equal(wide_on_device, wide)


@pytest.mark.parametrize("name", [name for name, (_, _, dtype) in INTO.items() if dtype in OTHER_TYPES])
def test_out_of_another_type(cupy_library, name):
    other = OTHER_TYPES[INTO[name][2]]
    if name in EXACT:
        pytest.skip("it has no other type, or goes by the host")
    wide, wide_on_device = both_with_out(
        cupy_library, name, "every third" if INTO[name][1] else "dense", other
    )
    assert_array_equal(wide_on_device, wide)


@pytest.mark.parametrize(
    ("call", "shape", "dtype"),
    [
        (lambda w, out: pk.sum(w, 1, out=out), (299,), np.float64),
        (lambda w, out: pk.ptp(pk.less(w, 0.5), 1, out=out), (300,), np.bool_),
        (lambda w, out: pk.cumsum(w, 1, out=out), (300, 399), np.float64),
        (lambda w, out: pk.argmax(w, 1, out=out), (300,), np.float32),
        (lambda w, out: pk.dot(w, w[:, :300], out=out), (300, 300), np.float64),
        (lambda w, out: pk.matmul(w[:, :300], w[:300, :300], out=out), (300, 300), np.int64),
    ],
)
def test_refused_outs(cupy_library, call, shape, dtype):
    on_host = arrays_of(call)
    with pytest.raises(Exception) as host_error, pk.engine("cpu"):  # noqa: PT011
        call(**on_host, out=np.full(shape, 7, dtype))
    on_device = {key: cupy_library.up(x) for key, x in on_host.items()}
    out = cupy_library.up(np.full(shape, 7, dtype))
    with pytest.raises(host_error.type) as error:
        call(**on_device, out=out)
    assert str(error.value) == str(host_error.value)
    assert (cupy_library.down(out) == dtype(7)).all()


def test_out_that_is_an_argument(cupy_library):
    w = np.random.default_rng(0).random((300, 400))
    a = cupy_library.up(w)
    assert pk.cumsum(a, 0, out=a) is a
    with pk.engine("cpu"):
        assert_array_equal(cupy_library.down(a), pk.cumsum(w, 0))
    assert pk.sum(a, 1, out=a[:, 0]) is not None
    with pk.engine("cpu"):
        assert_array_equal(cupy_library.down(a)[:, 0], pk.sum(pk.cumsum(w, 0), 1))


@pytest.mark.parametrize("name", ["nanmin", "nanmax", "nanmean", "nanargmax"])
def test_rows_of_nan(cupy_library, name):
    """Values that the host writes into a result are in the device result, too."""
    x = np.random.default_rng(0).random((20_000, 9))
    x[5] = np.nan
    if name == "nanargmax":
        with pytest.raises(ValueError, match="All-NaN slice"):
            pk.nanargmax(cupy_library.up(x), axis=1)
        return
    got = getattr(pk, name)(cupy_library.up(x), axis=1)
    with pk.engine("cpu"):
        assert_array_equal(cupy_library.down(got), getattr(pk, name)(x, axis=1))
    assert np.isnan(cupy_library.down(got)).sum() == 1


@pytest.mark.parametrize("name", ["min", "sum", "argmax"])
def test_the_axis_0_of_a_number(cupy_library, name):
    x = np.array(7.5)
    assert cupy_library.down(getattr(pk, name)(cupy_library.up(x), axis=0)) == getattr(np, name)(x, axis=0)


OUT_BY_ITS_PLACE = {
    "sum": lambda x, out: pk.sum(x, 1, None, out),
    "cumsum": lambda x, out: pk.cumsum(x, 1, None, out),
    "cummax": lambda x, out: pk.cummax(x, 1, None, out),
    "median": lambda x, out: pk.median(x, 1, out),
    "argmax": lambda x, out: pk.argmax(x, 1, out),
    "take": lambda x, out: pk.take(x, np.arange(300), 1, out),
    "percentile": lambda x, out: pk.percentile(x, 30, 1, out),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in OUT_BY_ITS_PLACE
        for dtype in (np.int32, np.int64, np.float32)
        if (name, dtype is np.float32) not in (("argmax", True), ("percentile", False))  # which NumPy refuses
    ],
)
def test_out_by_its_place(cupy_library, name, dtype):
    """Also if it has a dtype to which the device does not cast."""
    call = OUT_BY_ITS_PLACE[name]
    x = np.random.default_rng(0).random((300, 300)) * 99
    out = np.full(x.shape if name in ("cumsum", "cummax", "take") else 300, 7, dtype)
    out_on_device = cupy_library.up(out)
    with pk.engine("cpu"):
        assert call(x, out) is out
    assert call(cupy_library.up(x), out_on_device) is out_on_device
    assert_array_equal(cupy_library.down(out_on_device), out)


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_trace_into_another_type(cupy_library, dtype):
    x, out = np.random.default_rng(0).random((30, 40, 50)) * 99, np.full(50, 7, dtype)
    out_on_device = cupy_library.up(out)
    with pk.engine("cpu"):
        pk.trace(x, out=out)
    assert pk.trace(cupy_library.up(x), out=out_on_device) is out_on_device
    assert_array_equal(cupy_library.down(out_on_device), out)
