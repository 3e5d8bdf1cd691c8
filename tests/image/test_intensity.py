"""Thresholds, histogram equalization and normalization against their definitions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.images import TYPES, kinds, scene, types
from helpers.strategies import arrays, assert_values, lay_out
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit.image import intensity

# ---- Thresholds, histograms, ranges -----------------------------------------------------------------


def skimages_otsu(image, nbins=256):
    """Compute scikit-image's threshold_otsu, with sums in float64."""
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
    """Compute the definition with fractions."""
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
