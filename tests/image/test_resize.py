"""Image resizing against exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.images import METHODS, TYPES, kinds, types
from helpers.strategies import LAYOUTS, arrays, assert_values, build, lay_out
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk

# ---- Resizing ---------------------------------------------------------------------------------------


def taps(method, old, new):
    """Return a dense matrix of the weights of old pixels for each new one, and the divisor."""
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
    """Compute the definition, sum by sum; `own` is the number of axes of one image."""
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
    """NaN and infinities with weight zero do not count, and others propagate."""
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
                continue  # OpenCV interpolates then
            got = pk.image.resize(a, shape, method).astype(int)
            want = cv2.resize(a, shape[::-1], interpolation=theirs).astype(int)
            assert np.abs(got - want).max() <= 1, (shape, method)


def test_nearest_is_pillows(engine):
    image = pytest.importorskip("PIL.Image")
    a = np.random.default_rng(0).integers(0, 256, (71, 103, 3), np.uint8)
    for shape in ((35, 51), (142, 206), (33, 77)):
        want = np.asarray(image.fromarray(a).resize(shape[::-1], image.Resampling.NEAREST))
        assert np.array_equal(pk.image.resize(a, shape, "nearest"), want)
