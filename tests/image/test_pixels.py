"""Colour conversion and copies of images against exact arithmetic, and errors of all image functions."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.images import METHODS, TYPES, kinds, scene, types
from helpers.strategies import LAYOUTS, arrays, assert_values, build, lay_out
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import abi, loader
from pycudakit.image import _axes

WEIGHTS = {"BT.601": ((299, 587, 114), 1000), "BT.709": ((2126, 7152, 722), 10000)}


def grey(a, method="BT.601", rounding="nearest"):
    """Compute the definition: integers by exact sums, and a division that is exact for ties and integers."""
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
    """All 2^24 colours, in integers: the definition is the exact value rounded to nearest even."""
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
    """Any length, in an exactly sized allocation, so that AddressSanitizer sees reads past the last pixel."""
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
        (lambda: pk.image.resize(a[0, 0], (1, 2)), "rows and columns, but this array has 1 dimensions"),
        (lambda: pk.image.resize(a, (1, 2), channel_axis=1), "channel_axis must be 'auto', None or -1"),
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
    with pytest.raises(errors.Unsupported, match=r"MaskedArray"):
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
            with pytest.raises(errors.Unsupported, match="NumPy has no such function"):
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
    """A refused call does not change the result array."""
    library = loader.library(engine)
    a, out = np.zeros((4, 5, 3), np.uint8), np.full((4, 5, 3), 7, np.uint8)
    weights, table = np.array([299, 587, 114]), np.zeros(256, np.uint16)

    def refused(name, message, *more, shape=a.shape, types=(5, 5), **changes):
        operands = np.zeros(2, abi.OPERAND)
        for row, array, code in zip(operands, (a, out), types, strict=True):
            row["address"], row["type"] = array.ctypes.data, code
            row["strides"][:3] = array.strides
        for field, values in changes.items():
            operands[field] = values
        dims = np.array(shape, np.int64)
        call = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)
        with pytest.raises(errors.InvalidArgument, match=message):
            getattr(library, name)(operands, dims, len(dims), *more, *call)
        assert np.all(out == 7)

    gray, look, size = (weights, 1000, 0), (table, 256), (2, 2, 1)
    for name, more in (("pk_gray", gray), ("pk_lookup", look), ("pk_resize", size)):
        refused(name, "is of another type", *more, types=(5, 6))
        refused(name, "PK_UINT8", *more, types=(4, 4))
        refused(name, "PK_UINT8", *more, types=(99, 99))
        refused(name, "a dimension is negative", *more, shape=(4, -5, 3))
        refused(name, "more bytes than 63 bits", *more, shape=(2**31, 2**31, 3))
        refused(name, "null pointer", *more, address=[a.ctypes.data, 0])
        refused(name, "null pointer", *more, address=[0, out.ctypes.data])
        refused(name, "unknown flags|byte-swapped", *more, flags=[2, 0])
        refused(name, "unknown flags|byte-swapped", *more, flags=[0, 2])
        refused(name, "not a number that an image has", *more, shape=(1,) * 65)
    refused("pk_gray", "not of 3 or 4 channels", *gray, shape=(4, 5, 2))
    for bad in ([-1, 5, 5], [500, 500, 1], [2**62, 2**62, 2**62]):
        refused("pk_gray", "the sum of the weights is above the divisor", np.array(bad), 1000, 0)
    refused("pk_gray", "divisor is not from 1 to 16384", weights, 0, 0)
    refused("pk_gray", "divisor is not from 1 to 16384", weights, 16385, 0)
    refused("pk_gray", "truncates is neither", weights, 1000, 2)
    refused("pk_gray", "is not aligned", *gray, types=(6, 6), address=[a.ctypes.data, out.ctypes.data + 1])
    refused("pk_lookup", "for each value", table, 255)
    refused("pk_lookup", "for each value", *look, types=(6, 6))
    refused("pk_lookup", "the image's type is neither PK_UINT8 nor PK_UINT16", *look, types=(10, 10))
    refused("pk_lookup", "stride of 0", *look, strides=np.zeros((2, 64), np.int64))
    refused("pk_resize", "method is not one of", 2, 2, 3)
    refused("pk_resize", "negative or above", -1, 2, 0)
    refused("pk_resize", "negative or above", 2, 2**30 + 1, 0)
    refused("pk_resize", "no pixels to resize", 2, 2, 0, shape=(4, 0, 3))
    refused("pk_resize", "not a number that an image has", *size, shape=(4, 5))
    refused("pk_resize", "result has more bytes", 2**30, 2**30, 1, shape=(2**10, 1, 1, 3))


# ---- Both engines, instruction sets, threads --------------------------------------------------------


def _rounding_sensitive_results(engine):
    """Return results for floats whose last bit depends on the order of operations and on contraction."""
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
    for ours, theirs in zip(
        _rounding_sensitive_results("cpu"), _rounding_sensitive_results("cuda"), strict=True
    ):
        assert_values(ours, theirs)


_CHILD = """
import sys, hashlib
sys.path.insert(0, {tests!r})
import importlib.util
spec = importlib.util.spec_from_file_location("test_pixels", {file!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
digest = hashlib.sha256()
for array in module._rounding_sensitive_results("cpu"):
    digest.update(array.tobytes())
print(digest.hexdigest())
"""


def test_threads_and_instruction_sets_give_the_same_bits():
    code = _CHILD.format(tests=os.path.dirname(os.path.dirname(__file__)), file=__file__)
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
    assert _axes.split(np.empty(shape), axis) == want


def test_the_package():
    assert set(pk.image.__all__) <= set(dir(pk.image))
    for name in pk.image.__all__:
        assert ">>>" in getattr(pk.image, name).__doc__, name
    with pytest.raises(AttributeError, match=r"module 'pycudakit.image' has no attribute 'nothing'"):
        pk.image.nothing  # noqa: B018
