"""Images pixel by pixel against exact arithmetic: grey, thresholds, equalising, resizing, copies."""

import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import arrays, assert_values, build, lay_out

import pycudakit as pk
from pycudakit import _abi, _loader, errors
from pycudakit.image import _shape, intensity

TYPES = ["uint8", "uint16", "float32"]
types = st.sampled_from(TYPES)
kinds = st.sampled_from(["bits", "special", "small"])
WEIGHTS = {"BT.601": ((299, 587, 114), 1000), "BT.709": ((2126, 7152, 722), 10000)}
LAYOUTS = ["C", "F", "step", "reversed", "broadcast", "swapped", "readonly", "misaligned", "transposed"]


def grey(a, method="BT.601", rounding="nearest"):
    """Return the definition: integers by exact sums and a division whose ties and integers are exact."""
    weights, divisor = WEIGHTS[method]
    dtype = a.dtype.newbyteorder("=")
    if dtype.kind == "f":
        r, g, b = (a[..., i].astype(np.float64) * (w / divisor) for i, w in enumerate(weights))
        with np.errstate(invalid="ignore", over="ignore"):
            return (r + g + b).astype(dtype)
    total = sum(a[..., i].astype(np.int64) * w for i, w in enumerate(weights))
    return (np.rint if rounding == "nearest" else np.floor)(total / divisor).astype(dtype)


# ---- Grey -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", WEIGHTS)
@pytest.mark.parametrize("rounding", ["nearest", "truncate"])
def test_grey_of_all_colours(engine, method, rounding):
    """All of the 2^24, in integers; and the exact one rounded to nearest even is what the definition says."""
    values = np.arange(256, dtype=np.uint8)
    weights, divisor = WEIGHTS[method]
    for first in range(0, 256, 64):
        red = values[first : first + 64]
        colours = np.empty((len(red), 256, 256, 3), np.uint8)
        colours[..., 0], colours[..., 1], colours[..., 2] = red[:, None, None], values[:, None], values
        total = (
            weights[0] * red.astype(np.int32)[:, None, None] + weights[1] * values.astype(np.int32)[:, None]
        ) + (weights[2] * values.astype(np.int32))
        whole, rest = total // divisor, total % divisor
        if rounding == "nearest":
            whole += (2 * rest > divisor) | ((2 * rest == divisor) & (whole % 2 == 1))
        got = pk.image.rgb_to_gray(colours, method, rounding=rounding)
        assert got.dtype == np.uint8
        assert np.array_equal(got, whole)


@pytest.mark.smoke
def test_grey_of_every_type(engine):
    for dtype in TYPES:
        for channels in (3, 4):
            a = build(dtype, (5, 7, channels), "bits", 3)
            assert_values(pk.image.rgb_to_gray(a), grey(a))


@given(data=st.data())
def test_grey(engine, data):
    shape = (*data.draw(st.lists(st.integers(0, 5), max_size=3)), data.draw(st.integers(3, 4)))
    shape = data.draw(st.sampled_from([shape, (70, shape[-1]), (3, 1025, shape[-1]), (2, 4097, shape[-1])]))
    a = data.draw(arrays(dtype=types, shape=st.just(shape), kind=kinds))
    method, rounding = (
        data.draw(st.sampled_from([*WEIGHTS])),
        data.draw(st.sampled_from(["nearest", "truncate"])),
    )
    got = pk.image.rgb_to_gray(a, method, rounding=rounding)
    assert got.flags.c_contiguous or not isinstance(got, np.ndarray)
    assert_values(np.asarray(got), grey(a, method, rounding), context=f"{a.strides}")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TYPES)
def test_grey_of_layouts(engine, layout, dtype):
    a = build(dtype, (37, 61, 4), "bits", 5)
    for part in (a, a[..., :3], a[3:, 5:], a[..., 2::-1], a[..., ::-1], a[:, ::-2]):
        laid = lay_out(part, layout)
        assert_values(pk.image.rgb_to_gray(laid), grey(laid), context=layout)


@pytest.mark.parametrize("dtype", TYPES)
def test_grey_of_every_length(engine, dtype):
    """Around the vectors' lengths, with memory that ends where the pixels do."""
    a = build(dtype, (200, 3), "bits", 1)
    want = grey(a)
    for count in range(201):
        assert_values(pk.image.rgb_to_gray(a[200 - count :].copy()), want[200 - count :])


def test_grey_of_many(engine):
    a = np.random.default_rng(0).integers(0, 256, (1500, 1501, 3), np.uint8)
    assert np.array_equal(pk.image.rgb_to_gray(a), grey(a))
    assert np.array_equal(pk.image.rgb_to_gray(a[:, ::-1, ::-1]), grey(a[:, ::-1, ::-1]))
    assert pk.last_call().engine == engine
    assert pk.last_call().function == "rgb_to_gray"


def test_grey_of_special_floats(engine):
    a = np.array(
        [[0.0, 0.0, 0.0], [-0.0, -0.0, -0.0], [np.inf, 1, 1], [np.inf, -np.inf, 1], [np.nan, 0, 0]],
        np.float32,
    )
    a = np.concatenate([a, np.full((1, 3), np.finfo(np.float32).max), np.full((1, 3), 1e-45)]).astype(
        np.float32
    )
    assert_values(pk.image.rgb_to_gray(a), grey(a))
    hidden = np.concatenate([a, np.full((len(a), 1), np.nan, np.float32)], axis=1)
    assert_values(pk.image.rgb_to_gray(hidden), grey(a))


@given(data=st.data())
def test_gray_to_rgb(engine, data):
    a = data.draw(arrays(dtype=types, kind=kinds))
    got = pk.image.gray_to_rgb(a)
    assert_values(got, np.repeat(a[..., np.newaxis], 3, -1).astype(a.dtype.newbyteorder("=")))
    assert got.flags.c_contiguous


# ---- Resizing ---------------------------------------------------------------------------------------


def taps(method, old, new):
    """Return, for each new place, the old ones' weights: a dense matrix; and what to divide by."""
    matrix, unit = np.zeros((new, old)), math.gcd(old, new)
    for i in range(new):
        centre = Fraction((2 * i + 1) * old, 2 * new)
        if method == "nearest":
            matrix[i, math.floor(centre)] = 1
        elif method == "bilinear":
            at = min(max(centre - Fraction(1, 2), Fraction(0)), Fraction(old - 1))
            low = math.floor(at)
            share = float(at - low)
            matrix[i, low] = 1 - share
            if share:
                matrix[i, low + 1] = share
        else:
            for k in range(old):
                covered = min(Fraction((i + 1) * old, new), k + 1) - max(Fraction(i * old, new), k)
                matrix[i, k] = max(covered, 0) * new // unit
    return matrix, old // unit if method == "area" else 1


def resized(a, shape, method, own):
    """Return the definition, sum by sum; `own` is how many axes an image has."""
    dtype = a.dtype.newbyteorder("=")
    a = a if own == 3 else a[..., np.newaxis]
    a = a.astype(np.float64)
    (down, by), (across, over) = (
        taps(method, old, new) for old, new in zip(a.shape[-3:-1], shape, strict=True)
    )
    with np.errstate(invalid="ignore", over="ignore"):
        for matrix, axis in ((across, -2), (down, -3)):
            lines = np.moveaxis(a, axis, 0)
            sums = np.zeros((len(matrix), *lines.shape[1:]))
            for i, row in enumerate(matrix):
                for n, k in enumerate(np.flatnonzero(row)):
                    sums[i] = row[k] * lines[k] if n == 0 else sums[i] + row[k] * lines[k]
            a = np.moveaxis(sums, 0, axis)
        a = a / (by * over)
        a = np.rint(a).astype(dtype) if dtype.kind == "u" else a.astype(dtype)
    return a if own == 3 else a[..., 0]


METHODS = ["nearest", "bilinear", "area"]


@pytest.mark.smoke
@pytest.mark.parametrize("method", METHODS)
def test_resize_of_every_type(engine, method):
    for dtype in TYPES:
        a = build(dtype, (5, 7, 3), "bits", 3)
        for shape in ((3, 4), (9, 15), (5, 7), (10, 14)):
            assert_values(
                pk.image.resize(a, shape, method), resized(a, shape, method, 3), context=f"{dtype} {shape}"
            )


@given(data=st.data())
def test_resize(engine, data):
    axis = data.draw(st.sampled_from(["auto", None, -1]))
    shape = data.draw(st.lists(st.integers(1, 3), max_size=2)) + data.draw(
        st.tuples(st.integers(1, 24), st.integers(1, 24)).map(list)
    )
    if axis != "auto" or data.draw(st.booleans()):
        shape.append(data.draw(st.integers(1, 5)))
    a = data.draw(arrays(dtype=types, shape=st.just(tuple(shape)), kind=kinds))
    new = data.draw(st.tuples(st.integers(0, 30), st.integers(0, 30)))
    method = data.draw(st.sampled_from(METHODS))
    has_channels = axis == -1 or (axis == "auto" and a.ndim >= 3 and a.shape[-1] in (3, 4))
    got = pk.image.resize(a, new, method, channel_axis=axis)
    assert got.flags.c_contiguous
    assert_values(got, resized(a, new, method, 3 if has_channels else 2), context=f"{a.shape} {new} {method}")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_resize_of_layouts(engine, method, layout):
    for dtype in TYPES:
        a = lay_out(build(dtype, (2, 13, 11, 3), "bits", 5), layout)
        for shape in ((7, 19), (26, 4)):
            assert_values(pk.image.resize(a, shape, method), resized(a, shape, method, 3))


@pytest.mark.parametrize("method", METHODS)
def test_resize_of_long_sides(engine, method):
    rng = np.random.default_rng(0)
    for old, new in (((3000, 2), (7, 3)), ((2, 3000), (3, 7)), ((1, 1), (70, 2000)), ((700, 500), (1, 1))):
        a = rng.integers(0, 65536, old, np.uint16)
        assert_values(pk.image.resize(a, new, method), resized(a, new, method, 2), context=f"{old} {new}")
    many = rng.integers(0, 256, (300, 5, 4), np.uint8)
    assert_values(pk.image.resize(many, (3, 9), method, channel_axis=None), resized(many, (3, 9), method, 2))


def test_area_is_exact(engine):
    """In integers: the mean, rounded to nearest even."""
    a = build("uint16", (24, 36), "bits", 9)
    for height, width in ((12, 12), (8, 9), (1, 1), (24, 4)):
        blocks = a.reshape(height, 24 // height, width, 36 // width).astype(object).sum((1, 3))
        size = 24 // height * 36 // width
        want = [[round(Fraction(int(s), size)) for s in row] for row in blocks]
        assert np.array_equal(pk.image.resize(a, (height, width), "area"), want)


def test_resize_of_special_floats(engine):
    """What has no weight is not seen, and nothing is lost of what stays."""
    a = np.array([[-0.0, np.inf, 1.0, np.nan, 5e-45, -np.inf]], np.float32)
    for method in METHODS:
        assert_values(pk.image.resize(a, a.shape, method), a)
        for width in (2, 3, 12, 18):
            assert_values(pk.image.resize(a, (1, width), method), resized(a, (1, width), method, 2))


def test_resize_is_near_opencvs(engine):
    cv2 = pytest.importorskip("cv2")
    a = np.random.default_rng(0).integers(0, 256, (70, 101, 3), np.uint8)
    for shape in ((35, 50), (140, 202), (33, 77), (100, 40)):
        for method, theirs in (("bilinear", cv2.INTER_LINEAR), ("area", cv2.INTER_AREA)):
            if method == "area" and (shape[0] > 70 or shape[1] > 101):
                continue  # they interpolate then
            got = pk.image.resize(a, shape, method).astype(int)
            want = cv2.resize(a, shape[::-1], interpolation=theirs).astype(int)
            assert np.abs(got - want).max() <= 1, (shape, method)


def test_nearest_is_pillows(engine):
    image = pytest.importorskip("PIL.Image")
    a = np.random.default_rng(0).integers(0, 256, (71, 103, 3), np.uint8)
    for shape in ((35, 51), (142, 206), (33, 77)):
        want = np.asarray(image.fromarray(a).resize(shape[::-1], image.Resampling.NEAREST))
        assert np.array_equal(pk.image.resize(a, shape, "nearest"), want)


# ---- Thresholds, histograms, ranges -----------------------------------------------------------------


def skimages_otsu(image, nbins=256):
    """Return what scikit-image's threshold_otsu does, with its sums in float64."""
    if np.all(image == image.flat[0]):
        return image.flat[0]
    if image.dtype.kind == "u":
        least = int(image.min())
        counts = np.bincount(image.ravel() - image.min()).astype(np.float64)
        centres = np.arange(least, least + len(counts))
    else:
        counts, edges = np.histogram(image, nbins)
        counts, centres = counts.astype(np.float64), (edges[:-1] + edges[1:]) / 2
    weight1, weight2 = np.cumsum(counts), np.cumsum(counts[::-1])[::-1]
    mean1 = np.cumsum(counts * centres) / weight1
    mean2 = (np.cumsum((counts * centres)[::-1]) / weight2[::-1])[::-1]
    variance12 = weight1[:-1] * weight2[1:] * (mean1[:-1] - mean2[1:]) ** 2
    return centres[np.argmax(variance12)]


def scene(dtype, shape, seed=0):
    """Return a dark and a bright part with noise."""
    rng = np.random.default_rng(seed)
    a = np.where(rng.random(shape) < 0.3, 0.7, 0.2) + rng.normal(0, 0.06, shape)
    most = 1 if dtype == "float32" else np.iinfo(dtype).max
    return (np.clip(a, 0, 1) * most).astype(dtype)


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", TYPES)
def test_otsu(engine, dtype):
    for seed in range(6):
        a = scene(dtype, (20, 31), seed)
        want = skimages_otsu(a)
        assert pk.image.threshold_otsu(a) == want
        got = pk.image.threshold(a)
        high = np.iinfo(dtype).max if dtype != "float32" else 1
        assert_values(got, np.where(a > want, high, 0).astype(dtype))
    batch = np.stack([scene(dtype, (9, 8), seed) for seed in range(3)])
    wants = [skimages_otsu(a) for a in batch]
    assert pk.image.threshold_otsu(batch).tolist() == wants
    assert pk.image.threshold_otsu(np.moveaxis(batch, 0, -1)) == skimages_otsu(batch)  # an image in colour
    assert_values(pk.image.threshold(batch), np.stack([pk.image.threshold(a) for a in batch]))
    assert pk.image.threshold_otsu(np.full((3, 3), 7, dtype)) == 7


@given(data=st.data())
def test_otsu_of_anything(engine, data):
    shape = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    a = data.draw(arrays(dtype=st.sampled_from(["uint8", "uint16"]), shape=st.just(shape), kind=kinds))
    assert pk.image.threshold_otsu(a) == skimages_otsu(a.astype(a.dtype.newbyteorder("=")))


@given(data=st.data())
def test_threshold(engine, data):
    shape = (*data.draw(st.lists(st.integers(0, 4), max_size=2)), 3, 5)
    a = data.draw(arrays(dtype=types, shape=st.just(shape), kind=kinds))
    value = data.draw(
        st.sampled_from([0, 1, 100, 100.5, 255, 254.99, -1, -0.5, 7e4, math.inf, -math.inf, math.nan])
    )
    high = data.draw(st.sampled_from([None, 1, 200]))
    got = pk.image.threshold(a, value, high=high, channel_axis=None)
    limit = np.float32(value) if a.dtype.kind == "f" else np.float64(value)
    most = high if high is not None else 1 if a.dtype.kind == "f" else np.iinfo(a.dtype).max
    assert_values(got, np.where(a > limit, most, 0).astype(a.dtype.newbyteorder("=")))
    assert got.flags.c_contiguous


def equalized(plane):
    """Return the definition, by fractions."""
    most, values = int(np.iinfo(plane.dtype).max), plane.ravel().tolist()
    least, n = min(values), len(values)
    c0 = values.count(least)
    if c0 == n:
        return plane
    return np.array(
        [
            [round(Fraction((int(np.sum(plane <= v)) - c0) * most, n - c0)) for v in row]
            for row in plane.tolist()
        ],
        plane.dtype,
    )


@given(data=st.data())
def test_equalize_histogram(engine, data):
    shape = data.draw(st.sampled_from([(1, 1), (5, 6), (6, 5, 3), (2, 4, 3), (2, 3, 4, 4), (9, 13)]))
    dtype = st.sampled_from(["uint8", "uint16"])
    a = data.draw(arrays(dtype=dtype, shape=st.just(shape), kind=kinds))
    got = pk.image.equalize_histogram(a)
    native = a.astype(a.dtype.newbyteorder("="))
    has_channels = a.ndim >= 3 and a.shape[-1] in (3, 4)
    planes = np.moveaxis(native, -1, 0) if has_channels else native
    want = np.stack([equalized(p) for p in planes.reshape(-1, *planes.shape[-2:])]).reshape(planes.shape)
    assert_values(got, np.ascontiguousarray(np.moveaxis(want, 0, -1)) if has_channels else want)
    assert got.flags.c_contiguous


def test_equalize_is_near_opencvs(engine):
    cv2 = pytest.importorskip("cv2")
    a = scene("uint8", (300, 401))
    got, want = pk.image.equalize_histogram(a).astype(int), cv2.equalizeHist(a).astype(int)
    assert np.abs(got - want).max() <= 1
    assert pk.last_call().engine == engine


@given(data=st.data())
def test_lookup(engine, data):
    """Any table, into any layout."""
    dtype = data.draw(st.sampled_from(["uint8", "uint16"]))
    a = data.draw(arrays(dtype=st.just(dtype), kind=kinds))
    table = (
        np.random.default_rng(0)
        .integers(0, np.iinfo(dtype).max + 1, np.iinfo(dtype).max + 1)
        .astype(np.uint16)
    )
    for layout in ("C", "F", "step", "reversed", "swapped", "misaligned"):
        out = lay_out(np.zeros(a.shape, dtype), layout)
        intensity._look_up("lookup", a, table, out)
        assert np.array_equal(out, table[a])


def test_lookup_of_many(engine):
    for dtype in ("uint8", "uint16"):
        a = scene(dtype, (1200, 1101))
        out = pk.image.equalize_histogram(a)
        first, where = np.unique(a, return_index=True)
        assert np.array_equal(out, out.ravel()[where][np.searchsorted(first, a)])
        assert np.all(np.diff(out.ravel()[where].astype(int)) >= 0)
        assert (out.min(), out.max()) == (0, np.iinfo(dtype).max)


@given(data=st.data())
def test_normalize(engine, data):
    shape = data.draw(st.sampled_from([(1, 1), (5, 6), (6, 5, 3), (2, 3, 4, 4), (9, 70), (0, 4, 4)]))
    a = data.draw(arrays(dtype=types, shape=st.just(shape), kind=st.sampled_from(["ordinary", "small"])))
    low, high = data.draw(st.sampled_from([(0, 1), (-1, 1), (0.1, 255)]))
    has_channels = a.ndim >= 3 and a.shape[-1] in (3, 4)
    axes = (-3, -2, -1) if has_channels else (-2, -1)
    d = a.astype(np.float64)
    if a.size:
        least, greatest = d.min(axes, keepdims=True), d.max(axes, keepdims=True)
        span = np.where(greatest == least, 1, greatest - least)
        want = ((d - least) / span * (high - low) + low).astype(np.float32)
        assert_values(pk.image.normalize(a, low, high), want)
    else:
        assert pk.image.normalize(a, low, high).shape == a.shape
    mean, std = data.draw(st.sampled_from([(5, None), (None, 3), (0.5, 0.25)]))
    want = ((d - (mean or 0)) / (std or 1)).astype(np.float32)
    assert_values(pk.image.normalize(a, mean=mean, std=std), want)
    if has_channels:
        mean, std = np.arange(1, a.shape[-1] + 1), np.linspace(0.5, 2, a.shape[-1])
        assert_values(pk.image.normalize(a, mean=mean, std=std), ((d - mean) / std).astype(np.float32))


# ---- Copies -----------------------------------------------------------------------------------------


@given(data=st.data())
def test_copies(engine, data):
    a = data.draw(arrays(shape=st.sampled_from([(4, 5), (3, 4, 3), (2, 3, 4, 4), (2, 5, 3, 2), (7, 1)])))
    axis = data.draw(st.sampled_from(["auto", None]))
    has_channels = axis == "auto" and a.ndim >= 3 and a.shape[-1] in (3, 4)
    rows = a.ndim - (3 if has_channels else 2)
    k = data.draw(st.integers(-5, 5))
    cut = (slice(None),) * rows + (slice(1, 3), slice(0, 1))
    for got, want in (
        (pk.image.flip(a, channel_axis=axis), np.flip(a, rows + 1)),
        (pk.image.flip(a, 0, channel_axis=axis), np.flip(a, rows)),
        (pk.image.flip(a, None, channel_axis=axis), np.flip(a, (rows, rows + 1))),
        (pk.image.rotate90(a, k, channel_axis=axis), np.rot90(a, k, (rows, rows + 1))),
        (pk.image.crop(a, 1, 0, 2, 1, channel_axis=axis), a[cut]),
    ):
        assert_values(got, want)
        assert got.dtype == want.dtype
        assert got.flags.c_contiguous
        assert not np.shares_memory(got, a)


# ---- Errors -----------------------------------------------------------------------------------------


def test_errors(engine):
    a = np.zeros((4, 5, 3), np.uint8)
    for call, message in (
        (lambda: pk.image.rgb_to_gray(a, "BT.2020"), "choose 'BT.601' or 'BT.709'"),
        (lambda: pk.image.rgb_to_gray(a, rounding="up"), "choose 'nearest' or 'truncate'"),
        (lambda: pk.image.rgb_to_gray(a[..., :2]), r"3 or 4 channels along its last axis, not \(2,\)"),
        (lambda: pk.image.rgb_to_gray(np.uint8(3)), r"3 or 4 channels along its last axis, not \(\)"),
        (lambda: pk.image.resize(a, (2, 2), "cubic"), "choose 'nearest', 'bilinear' or 'area'"),
        (lambda: pk.image.resize(a, (-1, 2)), "an image cannot be -1 x 2"),
        (lambda: pk.image.resize(a[:0], (1, 2)), "an image of 0 x 5 has no pixels to resize"),
        (lambda: pk.image.resize(a[0, 0], (1, 2)), "rows and columns, and this array 1 dimensions"),
        (lambda: pk.image.resize(a, (1, 2), channel_axis=1), "channel_axis is 'auto', None or -1"),
        (lambda: pk.image.resize(a[0], (1, 2), channel_axis=-1), "rows, columns and channels"),
        (lambda: pk.image.flip(a, 2), "axis is 2; choose 1"),
        (lambda: pk.image.crop(a, 3, 0, 2, 1), r"2 x 1 at \(3, 0\) is not inside the image of 4 x 5"),
        (lambda: pk.image.crop(a, 0, -1, 2, 1), "is not inside the image"),
        (lambda: pk.image.threshold(a, "li"), "choose a number or 'otsu'"),
        (lambda: pk.image.threshold_otsu(a[:0]), "without pixels"),
        (lambda: pk.image.normalize(a, mean=[1, 2]), "mean is not a number, or one for each of 3 channels"),
        (lambda: pk.image.normalize(a, std=[1, 2, 0]), "std has a 0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        pk.image.resize(a, (1.5, 2))
    with pytest.raises(OverflowError):
        pk.image.threshold(a, 1, high=256)


@pytest.mark.parametrize(
    "name",
    [
        "rgb_to_gray",
        "gray_to_rgb",
        "resize",
        "threshold",
        "threshold_otsu",
        "equalize_histogram",
        "normalize",
    ],
)
def test_types_that_are_no_image(engine, name):
    more = ((2, 2),) if name == "resize" else ()
    function = getattr(pk.image, name)
    for dtype in ("int32", "float64", "bool", "complex64", "object"):
        for chosen in (engine, "auto"):
            with (
                pk.engine(chosen),
                pytest.raises(errors.Unsupported, match=f"{name} takes arrays of .*, not {dtype}"),
            ):
                function(np.zeros((3, 3, 3), dtype), *more)
    with pytest.raises(errors.Unsupported, match=r"not MaskedArray"):
        function(np.ma.zeros((3, 3, 3), np.uint8), *more)
    if name == "equalize_histogram":
        with pytest.raises(errors.Unsupported, match="takes arrays of uint8 and uint16, not float32"):
            function(np.zeros((3, 3), np.float32))


def test_copies_of_other_types(engine):
    a = np.arange(12).reshape(3, 4).astype(complex)
    with pytest.raises(errors.Unsupported, match="rotate90"):
        pk.image.rotate90(a)
    with pk.engine("auto"):
        assert np.array_equal(pk.image.rotate90(a), np.rot90(a))
        assert np.array_equal(pk.image.crop(a, 1, 1, 2, 2), a[1:, 1:3])
        assert pk.last_call().engine == "numpy"


def test_numpy():
    a = scene("uint8", (6, 7, 3))
    with pk.engine("numpy"):
        for function in (pk.image.rgb_to_gray, lambda a: pk.image.resize(a, (2, 2))):
            with pytest.raises(errors.Unsupported, match="NumPy has none"):
                function(a)
        results = [pk.image.equalize_histogram(a), pk.image.threshold(a), pk.image.gray_to_rgb(a[..., 0])]
        results += [
            pk.image.normalize(a),
            pk.image.flip(a),
            pk.image.rotate90(a),
            pk.image.crop(a, 1, 1, 2, 2),
        ]
        assert pk.last_call().engine == "numpy"
    again = [pk.image.equalize_histogram(a), pk.image.threshold(a), pk.image.gray_to_rgb(a[..., 0])]
    again += [pk.image.normalize(a), pk.image.flip(a), pk.image.rotate90(a), pk.image.crop(a, 1, 1, 2, 2)]
    for got, want in zip(results, again, strict=True):
        assert_values(got, want)


def test_the_abi_refuses(engine):
    """Each refusal leaves the result as it was."""
    library = _loader.library(engine)
    a, out = np.zeros((4, 5, 3), np.uint8), np.full((4, 5, 3), 7, np.uint8)
    weights, table = np.array([299, 587, 114]), np.zeros(256, np.uint16)

    def refused(name, message, *more, shape=a.shape, types=(5, 5), **changes):
        operands = np.zeros(2, _abi.OPERAND)
        for row, array, code in zip(operands, (a, out), types, strict=True):
            row["address"], row["type"] = array.ctypes.data, code
            row["strides"][:3] = array.strides
        for field, values in changes.items():
            operands[field] = values
        dims = np.array(shape, np.int64)
        call = np.zeros(1, _abi.OPTIONS), np.zeros(1, _abi.REPORT)
        with pytest.raises(errors.InvalidArgument, match=message):
            getattr(library, name)(operands, dims, len(dims), *more, *call)
        assert np.all(out == 7)

    gray, look, size = (weights, 1000, 0), (table, 256), (2, 2, 1)
    for name, more in (("pk_gray", gray), ("pk_lookup", look), ("pk_resize", size)):
        refused(name, "is of another type", *more, types=(5, 6))
        refused(name, "uint8", *more, types=(4, 4))
        refused(name, "uint8", *more, types=(99, 99))
        refused(name, "a dimension is negative", *more, shape=(4, -5, 3))
        refused(name, "more bytes than 63 bits", *more, shape=(2**31, 2**31, 3))
        refused(name, "null pointer", *more, address=[a.ctypes.data, 0])
        refused(name, "null pointer", *more, address=[0, out.ctypes.data])
        refused(name, "unknown flags|byte-swapped", *more, flags=[2, 0])
        refused(name, "unknown flags|byte-swapped", *more, flags=[0, 2])
        refused(name, "not a number that an image has", *more, shape=(1,) * 65)
    refused("pk_gray", "not of 3 or 4 channels", *gray, shape=(4, 5, 2))
    for bad in ([-1, 5, 5], [500, 500, 1], [2**62, 2**62, 2**62]):
        refused("pk_gray", "together above the divisor", np.array(bad), 1000, 0)
    refused("pk_gray", "divisor is not from 1 to 16384", weights, 0, 0)
    refused("pk_gray", "divisor is not from 1 to 16384", weights, 16385, 0)
    refused("pk_gray", "truncates is neither", weights, 1000, 2)
    refused("pk_gray", "is not aligned", *gray, types=(6, 6), address=[a.ctypes.data, out.ctypes.data + 1])
    refused("pk_lookup", "for each value", table, 255)
    refused("pk_lookup", "for each value", *look, types=(6, 6))
    refused("pk_lookup", "a table is for uint8 or uint16", *look, types=(10, 10))
    refused("pk_lookup", "stride of 0", *look, strides=np.zeros((2, 64), np.int64))
    refused("pk_resize", "method is not one of", 2, 2, 3)
    refused("pk_resize", "negative or above", -1, 2, 0)
    refused("pk_resize", "negative or above", 2, 2**30 + 1, 0)
    refused("pk_resize", "no pixels to resize", 2, 2, 0, shape=(4, 0, 3))
    refused("pk_resize", "not a number that an image has", *size, shape=(4, 5))
    refused("pk_resize", "result has more bytes", 2**30, 2**30, 1, shape=(2**10, 1, 1, 3))


# ---- Both engines, instruction sets, threads --------------------------------------------------------


def _digest(engine):
    """Return what these calls give, of floats whose last bit an order or a contraction would change."""
    rng = np.random.default_rng(5)
    found = []
    with pk.engine(engine):
        for dtype in TYPES:
            a = rng.random((2, 233, 377, 3)) * (1 if dtype == "float32" else np.iinfo(dtype).max)
            a = a.astype(dtype)
            found += [pk.image.rgb_to_gray(a, method) for method in WEIGHTS]
            found += [pk.image.rgb_to_gray(a[..., ::-1])]
            found += [pk.image.resize(a, shape, m) for m in METHODS for shape in ((100, 99), (401, 500))]
            found += [pk.image.threshold(a, float(a[0, 0, 0, 0])), pk.image.normalize(a)]
    return found


def test_both_engines_give_the_same_bits(both_engines):
    for ours, theirs in zip(_digest("cpu"), _digest("cuda"), strict=True):
        assert_values(ours, theirs)


_CHILD = """
import sys, hashlib
sys.path.insert(0, {tests!r})
import importlib.util
spec = importlib.util.spec_from_file_location("test_image_pixels", {file!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
digest = hashlib.sha256()
for array in module._digest("cpu"):
    digest.update(array.tobytes())
print(digest.hexdigest())
"""


def test_threads_and_instruction_sets_give_the_same_bits():
    code = _CHILD.format(tests=os.path.dirname(__file__), file=__file__)
    seen = set()
    for variables in ({"PYCUDAKIT_ISA": "baseline"}, {"PYCUDAKIT_THREADS": "1"}, {"PYCUDAKIT_THREADS": "7"}):
        run = [sys.executable, "-c", code]
        done = subprocess.run(
            run, capture_output=True, text=True, check=True, env={**os.environ, **variables}
        )
        seen.add(done.stdout)
    assert len(seen) == 1


# ---- Shapes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axis", "want"),
    [
        ((4, 5), "auto", (1, 4, 5, 1)),
        ((4, 3), "auto", (1, 4, 3, 1)),
        ((4, 5, 3), "auto", (1, 4, 5, 3)),
        ((4, 5, 4), "auto", (1, 4, 5, 4)),
        ((4, 5, 6), "auto", (4, 5, 6, 1)),
        ((2, 4, 5, 6), "auto", (8, 5, 6, 1)),
        ((2, 7, 5, 6, 3), "auto", (14, 5, 6, 3)),
        ((4, 5, 3), None, (4, 5, 3, 1)),
        ((4, 5, 7), -1, (1, 4, 5, 7)),
        ((0, 5, 7), None, (0, 5, 7, 1)),
    ],
)
def test_shapes(shape, axis, want):
    assert _shape.split(np.empty(shape), axis) == want


def test_the_package():
    assert set(pk.image.__all__) <= set(dir(pk.image))
    for name in pk.image.__all__:
        assert ">>>" in getattr(pk.image, name).__doc__, name
    with pytest.raises(AttributeError, match=r"module 'pycudakit.image' has no attribute 'nothing'"):
        pk.image.nothing  # noqa: B018
