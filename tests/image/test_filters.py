"""Image filters against SciPy in float64: types, windows, borders, channels, layouts, values and errors."""

import math
import subprocess
import sys

import numpy as np
import pytest
from helpers.strategies import assert_values, build, describe
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import abi, loader
from pycudakit._runtime.operands import fill_operand_row as describe_operand
from pycudakit.image._axes import split

DTYPES = ["uint8", "uint16", "float32"]
MODES = ["reflect", "nearest", "mirror", "wrap", "constant"]
SIZES = st.sampled_from([1, 2, 3, 4, 5, 7, 9, 16, 17])
ORDERED = ["median_filter", "minimum_filter", "maximum_filter"]
EPSILON = 2.0**-24

images = st.sampled_from(
    [
        *[(1, 1), (1, 7), (6, 1), (3, 5), (17, 33), (5, 64), (9, 257), (40, 300)],
        *[(4, 5, 3), (20, 90, 4), (2, 6, 8), (2, 3, 11, 3)],
        *[(0, 4), (4, 0), (3, 0, 5)],
    ]
)
layouts = st.lists(
    st.sampled_from(["C", "F", "step", "reversed", "swapped", "readonly", "misaligned", "transposed"]),
    max_size=2,
)


@st.composite
def pictures(draw, dtype=None):
    dtype = dtype or draw(st.sampled_from(DTYPES))
    kind = "ordinary" if dtype == "float32" else draw(st.sampled_from(["bits", "special", "small"]))
    return build(dtype, draw(images), kind, draw(st.integers(0, 9)), draw(layouts))


def plane(a):
    """Return the axis of an image's rows."""
    return a.ndim - 3 if a.ndim >= 3 and a.shape[-1] in (3, 4) else a.ndim - 2


def spread(a, rows, columns, other):
    """Return a value for each axis of an array."""
    at = plane(a)
    return (other,) * at + (rows, columns) + (other,) * (a.ndim - at - 2)


def correlated(a, weights, mode="reflect", cval=0.0, by=ndimage.correlate):
    """Return the sums in float64."""
    shape = spread(a, *weights.shape, 1)
    wide = np.ascontiguousarray(a, np.float64).reshape(a.shape)
    return by(wide, weights.reshape(shape), mode=mode, cval=cval) if a.size else wide


def as_type(exact, dtype):
    """Round to an integer type as the filters do."""
    dtype = np.dtype(dtype).newbyteorder("=")
    if dtype.kind == "f":
        return exact.astype(dtype)
    return np.clip(np.rint(exact), 0, np.iinfo(dtype).max).astype(dtype)


def assert_sums(got, exact, bound, dtype, context=""):
    """Compare sums of integers within 1, and of floats within a bound."""
    assert got.dtype == np.dtype(dtype).newbyteorder("="), context
    assert got.shape == exact.shape, context
    assert got.flags.c_contiguous, context
    if got.dtype.kind == "f":
        worst = np.max(np.abs(got - exact) - bound - EPSILON * np.abs(exact), initial=-1)
        assert worst <= 0, f"{context}: off by {worst} more than the bound"
    else:
        off = np.abs(got.astype(np.int64) - as_type(exact, got.dtype).astype(np.int64))
        assert np.max(off, initial=0) <= 1, f"{context}: off by {off.max()}"


@given(a=pictures(), rows=SIZES, columns=SIZES, mode=st.sampled_from(MODES))
def test_box_blur(engine, a, rows, columns, mode):
    got = pk.image.box_blur(a, (rows, columns), mode=mode, cval=7)
    context = f"{describe(a)} {rows, columns} {mode}"
    ones = np.ones((rows, columns))
    if a.dtype.kind == "u":  # sums are exact, and quotients correctly rounded
        exact = as_type(correlated(a, ones, mode, 7) / (rows * columns), a.dtype)
        assert_values(got, exact, context=context)
    else:
        exact = correlated(a, ones / (rows * columns), mode, 7)
        bound = (rows + columns + 2) * EPSILON * correlated(np.abs(a), ones / (rows * columns), mode, 7)
        assert_sums(got, exact, bound, a.dtype, context)


@given(a=pictures(), rows=SIZES, columns=SIZES)
def test_box_that_shrinks(engine, a, rows, columns):
    got = pk.image.box_blur(a, (rows, columns), edge="shrink")
    ones = np.ones((rows, columns))
    exact = correlated(a, ones, "constant") / np.maximum(1, correlated(np.ones_like(a), ones, "constant"))
    if a.dtype.kind == "u":
        assert_values(got, as_type(exact, a.dtype), context=describe(a))
    else:
        bound = (rows + columns + 2) * EPSILON * np.abs(a).max(initial=0)
        assert_sums(got, exact, bound, a.dtype, describe(a))


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("size", [3, 11, 12, 15, 16, 62, 63, (1, 63), (63, 2)])
def test_means_of_extremes(engine, dtype, size):
    """Every sum that a window of a few large values can have, including ties of the mean."""
    most = np.iinfo(dtype).max
    a = np.full((70, 150), most, dtype)
    a[:, ::2] = most - 1
    a[35:, 40:] = np.random.default_rng(1).choice([0, 1, most], (35, 110))
    rows, columns = (size, size) if isinstance(size, int) else size
    exact = np.rint(correlated(a, np.ones((rows, columns))) / (rows * columns))
    assert_values(pk.image.box_blur(a, size), exact.astype(dtype))


@given(a=pictures(), sigma=st.sampled_from([0.0, 0.4, 1.0, 2.0, (3.0, 0.5)]), mode=st.sampled_from(MODES))
def test_gaussian_blur(engine, a, sigma, mode):
    sigmas = sigma if isinstance(sigma, tuple) else (sigma, sigma)
    wide = np.array(a, np.float64)
    exact = ndimage.gaussian_filter(wide, spread(a, *sigmas, 0), mode=mode, cval=3) if a.size else wide
    got = pk.image.gaussian_blur(a, sigma, mode=mode, cval=3)
    largest = max(np.abs(wide).max(initial=0), 3)
    assert_sums(got, exact, 60 * EPSILON * largest, a.dtype, f"{describe(a)} {sigma} {mode}")


@pytest.mark.parametrize("name", ["correlate", "convolve"])
@given(data=st.data())
def test_any_weights(engine, name, data):
    a = data.draw(pictures())
    rows, columns = data.draw(SIZES), data.draw(SIZES)
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    weights = rng.standard_normal((rows, columns)) * data.draw(st.sampled_from([0.1, 1.0, 40.0]))
    if data.draw(st.booleans()):
        weights = np.rint(weights)
    mode = data.draw(st.sampled_from(MODES))
    dtype = data.draw(st.sampled_from([None, np.float32]))
    got = getattr(pk.image, name)(a, weights, mode=mode, cval=5, dtype=dtype)
    by = getattr(ndimage, name)
    exact = correlated(a, weights, mode, 5, by)
    bound = (rows + columns + 3) * EPSILON * correlated(np.abs(a.astype(float)), np.abs(weights), mode, 5, by)
    assert_sums(got, exact, bound, dtype or a.dtype, f"{describe(a)} {weights.shape} {mode}")


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize(
    "weights",
    [
        [[1, 2, 1], [0, 0, 0], [-1, -2, -1]],
        [[0, 1, 0], [1, -4, 1], [0, 1, 0]],
        [[-1, -1, -1], [-1, 9, -1], [-1, -1, -1]],
        [[3, 0, 5, -7]],
        [[60], [-70]],
        [[0, 0], [0, 0]],
        [[127, 1], [0, 0]],
    ],
)
@pytest.mark.parametrize("out", [None, np.float32])
def test_integer_weights_are_exact(engine, dtype, weights, out):
    a = build(dtype, (37, 131), "bits", 2)
    exact = correlated(a, np.array(weights, float))
    got = pk.image.correlate(a, weights, dtype=out)
    assert_values(got, as_type(exact, out or dtype))


@given(a=pictures(), mode=st.sampled_from(MODES), dtype=st.sampled_from([None, np.float32]))
def test_edges(engine, a, mode, dtype):
    smooth, slope = np.array([1.0, 2, 1]), np.array([-1.0, 0, 1])
    bound = 30 * EPSILON * max(np.abs(a.astype(float)).max(initial=0), 2)
    across = correlated(a, np.outer(smooth, slope), mode, 2)
    down = correlated(a, np.outer(slope, smooth), mode, 2)
    keywords = {"mode": mode, "cval": 2, "dtype": dtype}
    for axis, exact in [(-1, across), (1, across), (0, down), (-2, down), (None, np.hypot(across, down))]:
        assert_sums(pk.image.sobel(a, axis, **keywords), exact, 2 * bound, dtype or a.dtype, describe(a))
    exact = correlated(a, np.array([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]), mode, 2)
    assert_sums(pk.image.laplace(a, **keywords), exact, bound, dtype or a.dtype, describe(a))


def test_sobel_and_laplace_are_scipys(engine):
    a = build("float32", (30, 41), "ordinary", 4)
    for axis in (0, 1):
        np.testing.assert_allclose(pk.image.sobel(a, axis), ndimage.sobel(a, axis), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(pk.image.laplace(a), ndimage.laplace(a), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", ORDERED)
@given(data=st.data())
def test_order(engine, name, data):
    a = data.draw(pictures())
    size = data.draw(SIZES), data.draw(SIZES)
    mode = data.draw(st.sampled_from(MODES))
    got = getattr(pk.image, name)(a, size, mode=mode, cval=9)
    native = np.ascontiguousarray(a, a.dtype.newbyteorder("=")).reshape(a.shape)
    want = native
    if a.size:
        want = getattr(ndimage, name)(native, spread(a, *size, 1), mode=mode, cval=9)
    assert_values(got, want, free_zero=True, context=f"{describe(a)} {size} {mode}")


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_windows(engine, name, dtype):
    a = build(dtype, (70, 90), "ordinary", 5)
    for size in [(63, 63), (16, 16), (1, 63), (63, 1)]:
        assert_values(getattr(pk.image, name)(a, size), getattr(ndimage, name)(a, size), free_zero=True)


def test_order_of_special_floats(engine):
    """NaN sorts last in a median, and propagates in minima and maxima; also zeros and infinities."""
    a = build("float32", (60, 70), "special", 6)
    padded = np.pad(a, 2, mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5)).reshape(60, 70, 25)
    assert_values(pk.image.median_filter(a, 5), np.sort(windows, axis=-1)[..., 12], free_zero=True)
    assert_values(pk.image.minimum_filter(a, 5), windows.min(axis=-1), free_zero=True)
    assert_values(pk.image.maximum_filter(a, 5), windows.max(axis=-1), free_zero=True)
    inner = np.sort(windows[..., [6, 7, 8, 11, 12, 13, 16, 17, 18]], axis=-1)
    assert_values(pk.image.median_filter(a, 3), inner[..., 4], free_zero=True)


def test_nan_and_infinity_in_sums(engine):
    a = build("float32", (30, 40), "ordinary", 7)
    a[10, 12], a[20, 30] = np.nan, np.inf
    got = pk.image.box_blur(a, 3)
    assert np.isnan(got[9:12, 11:14]).all()
    assert np.isnan(got).sum() == 9
    assert np.isinf(got[19:22, 29:32]).all()
    assert np.isinf(got).sum() == 9
    got = pk.image.correlate(a, np.random.default_rng(0).standard_normal((3, 5)))
    assert np.isnan(got[9:12, 10:15]).all()
    assert np.isnan(got).sum() == 15


@pytest.mark.parametrize("dtype", DTYPES)
def test_channels_and_batches(engine, dtype):
    """Each channel of each image is filtered separately."""
    a = build(dtype, (3, 40, 50, 3), "ordinary", 8)
    weights = np.random.default_rng(0).standard_normal((5, 4))
    for function in (
        lambda x, **k: pk.image.correlate(x, weights, **k),
        lambda x, **k: pk.image.gaussian_blur(x, 1.5, **k),
        lambda x, **k: pk.image.median_filter(x, 3, **k),
        lambda x, **k: pk.image.maximum_filter(x, (4, 3), **k),
        lambda x, **k: pk.image.box_blur(x, 5, **k),
    ):
        whole = function(a)
        for image in range(3):
            for channel in range(3):
                alone = function(np.ascontiguousarray(a[image, :, :, channel]))
                assert_values(whole[image, :, :, channel], alone)
        assert_values(function(a, channel_axis=-1), whole)
        assert_values(function(a, channel_axis=None)[0, 0], function(a[0, 0], channel_axis=None))


def test_split():
    for shape, axis, want in [
        ((4, 5), "auto", (1, 4, 5, 1)),
        ((4, 3), "auto", (1, 4, 3, 1)),
        ((4, 5, 3), "auto", (1, 4, 5, 3)),
        ((4, 5, 6), "auto", (4, 5, 6, 1)),
        ((2, 7, 4, 5, 4), "auto", (14, 4, 5, 4)),
        ((4, 5, 3), None, (4, 5, 3, 1)),
        ((4, 5, 6), -1, (1, 4, 5, 6)),
        ((0, 5, 3), "auto", (1, 0, 5, 3)),
    ]:
        assert split(np.empty(shape), axis) == want


def test_many_bands(engine):
    """An image of many bands and strips, each of which needs its neighbours."""
    a = build("uint8", (700, 2100), "bits", 9)
    weights = np.random.default_rng(0).integers(-9, 9, (7, 9))
    want = as_type(correlated(a, weights.astype(float), "wrap"), "uint8")
    assert_values(pk.image.correlate(a, weights, mode="wrap"), want)
    assert_values(pk.image.box_blur(a, 7), np.rint(correlated(a, np.ones((7, 7))) / 49).astype(np.uint8))
    assert_values(pk.image.median_filter(a, 3), ndimage.median_filter(a, 3))
    assert_values(pk.image.minimum_filter(a, 31), ndimage.minimum_filter(a, 31))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(531, 300), (2, 400, 97, 3), (70, 1500, 4)])
@pytest.mark.parametrize("in_place", [0, 1 << 24])
def test_bands_on_their_way(engine, shape, mode, in_place):
    """Images that are uploaded in several chunks, each with the rows around it."""
    a = build("float32", shape, "small", 4)
    tuned = {"chunk_bytes": 256 << 10, "in_place_bytes": in_place, "smallest_chunk": 1, "threads": 3}
    weights = np.rint(np.random.default_rng(0).standard_normal((12, 3)) * 5)
    with pk.tuned(**(tuned if engine == "cuda" else {})):
        got = pk.image.convolve(a, weights, mode=mode, cval=3)
        assert_values(
            got, correlated(a, weights, mode, 3, ndimage.convolve).astype(np.float32), free_zero=True
        )
        if engine == "cuda":
            assert pk.last_call().chunks > 1
        got = pk.image.minimum_filter(a, (31, 2), mode=mode, cval=3)
        assert_values(got, ndimage.minimum_filter(a, spread(a, 31, 2, 1), mode=mode, cval=3))


def test_bands_of_tall_and_wide_images(engine):
    """Rows of one element, and windows that exceed the image on all sides."""
    tuned = {"chunk_bytes": 256 << 10, "in_place_bytes": 0}
    with pk.tuned(**(tuned if engine == "cuda" else {})):
        for shape in [(100_000, 1), (1, 100_000), (5, 40_000)]:
            a = build("float32", shape, "small", 5)
            for mode in MODES:
                got = pk.image.maximum_filter(a, (19, 7), mode=mode)
                assert_values(got, ndimage.maximum_filter(a, (19, 7), mode=mode))
        shrunk = pk.image.box_blur(a, (11, 3), edge="shrink")
        ones = np.ones((11, 3))
        exact = correlated(a, ones, "constant") / correlated(np.ones_like(a), ones, "constant")
        np.testing.assert_allclose(shrunk, exact, rtol=1e-6)


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_little_of_each(engine, dtype):
    a = build(dtype, (2, 21, 40, 3), "small", 1)
    weights = np.arange(15.0).reshape(3, 5) - 4
    options = {"in_place_bytes": 0, "chunk_bytes": 256 << 10} if engine == "cuda" else {}
    for tuned in ({}, options):
        with pk.tuned(**tuned):
            got = pk.image.correlate(a, weights**2, mode="wrap", dtype=np.float32)
            np.testing.assert_allclose(got, correlated(a, weights**2, "wrap"), rtol=1e-5)
            want = as_type(correlated(a, np.ones((3, 3))) / 9, dtype)
            np.testing.assert_allclose(pk.image.box_blur(a), want, rtol=1e-5)
            for name in ORDERED:
                for size in (3, 5):
                    want = getattr(ndimage, name)(a, (1, size, size, 1))
                    assert_values(getattr(pk.image, name)(a, size), want)


# ---- Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda a: pk.image.box_blur(a, 0), ValueError, "from 1 to 63 rows and columns, not 0"),
        (lambda a: pk.image.box_blur(a, 64), ValueError, "from 1 to 63 rows and columns, not 64"),
        (lambda a: pk.image.median_filter(a, (3, -1)), ValueError, "not -1"),
        (lambda a: pk.image.median_filter(a, (3, 3, 3)), RuntimeError, "one for rows and one for columns"),
        (lambda a: pk.image.median_filter(a, 2.5), TypeError, "float"),
        (lambda a: pk.image.box_blur(a, mode="mirrored"), RuntimeError, "boundary mode not supported"),
        (lambda a: pk.image.box_blur(a, mode=None), RuntimeError, "boundary mode not supported"),
        (lambda a: pk.image.box_blur(a, edge="grow"), ValueError, "edge is None or 'shrink'"),
        (lambda a: pk.image.box_blur(a, mode="constant", cval=0.5), ValueError, "uint8 cannot hold"),
        (lambda a: pk.image.box_blur(a, mode="constant", cval=256), ValueError, "uint8 cannot hold"),
        (lambda a: pk.image.box_blur(a, mode="constant", cval=np.nan), ValueError, "uint8 cannot hold"),
        (lambda a: pk.image.box_blur(a, channel_axis=0), ValueError, "channel_axis"),
        (lambda a: pk.image.box_blur(a, channel_axis=-1), ValueError, "rows, columns and channels"),
        (lambda a: pk.image.box_blur(a[0]), ValueError, "rows and columns"),
        (lambda a: pk.image.box_blur(a[0, 0]), ValueError, "rows and columns"),
        (lambda a: pk.image.gaussian_blur(a, -1.0), ValueError, "sigma is -1.0"),
        (lambda a: pk.image.gaussian_blur(a, np.nan), ValueError, "sigma is nan"),
        (lambda a: pk.image.gaussian_blur(a, 10), ValueError, "reach 40 elements"),
        (lambda a: pk.image.gaussian_blur(a, 1, radius=32), ValueError, "reach 32 elements"),
        (lambda a: pk.image.gaussian_blur(a, 1, dtype="float64"), ValueError, "dtype must be the image's"),
        (lambda a: pk.image.correlate(a, [1, 2, 1]), RuntimeError, "rows and columns"),
        (lambda a: pk.image.convolve(a, [1, 2, 1]), RuntimeError, "rows and columns"),
        (lambda a: pk.image.correlate(a, np.zeros((0, 3))), RuntimeError, "rows and columns"),
        (lambda a: pk.image.correlate(a, np.ones((3, 65))), ValueError, "not 65"),
        (lambda a: pk.image.correlate(a, [[1, np.inf]]), ValueError, "not finite"),
        (lambda a: pk.image.correlate(a, [[1j]]), TypeError, "real numbers"),
        (lambda a: pk.image.sobel(a, 2), ValueError, "axis 2 is out of bounds"),
    ],
)
def test_refusals(engine, call, error, words):
    with pytest.raises(error, match=words):
        call(np.ones((6, 7), np.uint8))


@pytest.mark.parametrize("dtype", ["float64", "int8", "int32", "bool", "float16", "complex64", "object"])
def test_other_types(engine, dtype):
    a = np.ones((5, 6), dtype)
    with pytest.raises(errors.Unsupported, match="uint8, uint16 and float32"):
        pk.image.median_filter(a)
    if dtype in ("float64", "int32"):
        with pk.engine("auto"):
            assert_values(pk.image.box_blur(a, 3), ndimage.uniform_filter(a, 3))
            assert pk.last_call().engine == "numpy"


def test_the_engine_numpy_is_scipy():
    a = build("uint8", (20, 30, 3), "bits", 3)
    weights = np.ones((2, 3)) / 6
    with pk.engine("numpy"):
        got = pk.image.box_blur(a, (3, 5), mode="nearest")
        assert_values(got, ndimage.uniform_filter(a, (3, 5, 1), mode="nearest"))
        assert_values(pk.image.median_filter(a, 5), ndimage.median_filter(a, (5, 5, 1)))
        assert_values(pk.image.gaussian_blur(a, 2), ndimage.gaussian_filter(a, (2, 2, 0)))
        assert_values(pk.image.convolve(a, weights), ndimage.convolve(a, weights[:, :, None]))
        assert_values(pk.image.correlate(a, weights), ndimage.correlate(a, weights[:, :, None]))
        for axis in (0, 1):
            grey = a[:, :, 0].astype(np.float32)
            assert_values(pk.image.sobel(grey, axis), ndimage.sobel(grey, axis))
        assert_values(pk.image.laplace(grey), ndimage.laplace(grey))
        with pytest.raises(errors.Unsupported, match="neither NumPy nor SciPy"):
            pk.image.box_blur(a, edge="shrink")


def test_without_scipy():
    code = """if True:
        import sys
        sys.modules["scipy"] = sys.modules["scipy.ndimage"] = None
        import numpy as np, pycudakit as pk
        with pk.engine("numpy"):
            try:
                pk.image.laplace(np.ones((3, 3), np.float32))
            except pk.errors.Unsupported as error:
                print(error)
    """
    text = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "SciPy is not installed" in text


def test_the_abi_refuses(engine):
    """Each bad argument has its message, and nothing is written."""
    a, out = np.ones((1, 4, 5, 3), np.uint8), np.full((1, 4, 5, 3), 77, np.uint8)
    library = loader.library(engine)

    def call(window=(abi.FILTER_BOX, 0, 3, 3, 1, 1, 0.0), weights=(), shape=a.shape, **fields):
        asked, operands = np.zeros(1, abi.WINDOW), np.zeros(2, abi.OPERAND)
        asked[0] = window
        for row, one in zip(operands, (a, out), strict=True):
            describe_operand(row, one, one.strides)
        for name, value in fields.items():
            end, _, field = name.partition("_")
            operands[field][0 if end == "from" else 1] = value
        library.pk_filter(
            *(asked, np.array(weights, np.float64), len(weights), operands, np.array(shape, np.int64)),
            *(np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)),
        )

    box, sums = (abi.FILTER_BOX, 0, 3, 3, 1, 1, 0.0), (abi.FILTER_CORRELATE, 0, 1, 2, 0, 0, 0.0)
    for keywords, words in [
        ({"window": (6, *box[1:])}, "window.kind"),
        ({"window": (-1, *box[1:])}, "window.kind"),
        ({"window": (abi.FILTER_BOX, 6, *box[2:])}, "window.border"),
        ({"window": (abi.FILTER_MEDIAN, abi.BORDER_SHRINK, *box[2:])}, "only PK_FILTER_BOX"),
        ({"window": (abi.FILTER_BOX, 0, 0, 3, 0, 1, 0.0)}, "from 1 to 63"),
        ({"window": (abi.FILTER_BOX, 0, 3, 64, 1, 1, 0.0)}, "from 1 to 63"),
        ({"window": (abi.FILTER_BOX, 0, 3, 3, 3, 1, 0.0)}, "window.left is not inside the window"),
        ({"window": (abi.FILTER_BOX, 0, 3, 3, 1, -1, 0.0)}, "window.left is not inside the window"),
        ({"window": (abi.FILTER_BOX, abi.BORDER_CONSTANT, 3, 3, 1, 1, 0.5)}, "window.border_value"),
        ({"window": (abi.FILTER_BOX, abi.BORDER_CONSTANT, 3, 3, 1, 1, math.nan)}, "window.border_value"),
        ({"window": sums, "weights": (1.0,)}, "weight_count does not match the window"),
        ({"window": sums, "weights": (1.0, math.inf)}, "not finite"),
        ({"weights": (1.0,)}, "weight_count does not match the window"),
        ({"shape": (1, 4, -5, 3)}, "negative"),
        ({"shape": (2**31, 2**31, 5, 3)}, "too large"),
        ({"shape": (1, 4, 5, 4)}, "C-contiguous"),
        ({"from_type": 4}, "PK_UINT8, PK_UINT16 or PK_FLOAT32"),
        ({"to_type": 6}, "neither the image's"),
        ({"from_flags": 1}, "byte order"),
        ({"from_address": 0}, "null"),
        ({"to_address": 0}, "null"),
    ]:
        with pytest.raises(errors.InvalidArgument, match=words):
            call(**keywords)
        assert (out == 77).all()
    call()
    assert (out == 1).all()


def test_same_bits(both_engines):
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((9, 6))
    for dtype in DTYPES:
        for shape in [(200, 333), (3, 61, 70, 3), (1, 900), (900, 1)]:
            a = build(dtype, shape, "ordinary", 3)
            for call in (
                lambda a=a: pk.image.correlate(a, weights, mode="wrap"),
                lambda a=a: pk.image.correlate(a, weights, dtype=np.float32),
                lambda a=a: pk.image.gaussian_blur(a, 1.7, mode="constant", cval=3),
                lambda a=a: pk.image.box_blur(a, (4, 9), edge="shrink"),
                lambda a=a: pk.image.box_blur(a, 21),
                lambda a=a: pk.image.median_filter(a, (4, 5), mode="mirror"),
                lambda a=a: pk.image.maximum_filter(a, (7, 2)),
            ):
                results = []
                for name in ("cpu", "cuda"):
                    with pk.engine(name):
                        results.append(call())
                assert_values(results[1], results[0])
