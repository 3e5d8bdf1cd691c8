"""Functions of `pk.image` in fused functions: requests of a plan."""

import numpy as np
import pytest

import pycudakit as pk

pytestmark = pytest.mark.usefixtures("really_replayed")
SHAPE = (40, 52)
EDGES = np.array([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]])
UNEVEN = np.array([[1.0, 3.0, -1.0], [2.0, 0.0, -2.0]])
image = pk.image

BODIES = {
    "box_blur": lambda a: image.box_blur(a, 3) + image.box_blur(a, (5, 1), edge="shrink"),
    "gaussian_blur": lambda a: image.gaussian_blur(a, 1.5, mode="nearest"),
    "gaussian_blur to float32": lambda a: image.gaussian_blur(a, (0.8, 2.0), dtype=np.float32) * 2,
    "correlate": lambda a: image.correlate(a, EDGES, mode="constant", cval=1.0),
    "convolve": lambda a: image.convolve(a, UNEVEN, mode="wrap"),
    "laplace": lambda a: image.laplace(a) + 1,
    "sobel": lambda a: image.sobel(a) + 1,
    "ranks": lambda a: (image.maximum_filter(a, 3) - image.minimum_filter(a, 3)) + image.median_filter(a, 3),
    "resize": lambda a: [image.resize(a, (30, 17), each) for each in ("nearest", "bilinear", "area")],
    "copies": lambda a: (image.crop(a, 3, 4, 20, 30), image.flip(a), image.rotate90(a)),
    "gray_to_rgb": lambda a: image.gray_to_rgb(a) // 2,
    "chain": lambda a: image.resize(image.gaussian_blur(image.median_filter(a, 3), 1.0), (20, 26)),
    "of views": lambda a: (image.box_blur(a[::2], 3), image.laplace(a.T), image.resize(a[3:, 5:], (9, 9))),
}


def pixels(seed, dtype, shape=SHAPE):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(dtype)


def assert_same(got, want):
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
@pytest.mark.parametrize("name", BODIES)
def test_replayed_images(engine, name, dtype):
    """The results have the bits of calls that are not fused, which tests/image compare with SciPy's."""
    body, fused = BODIES[name], pk.fuse(BODIES[name])
    for seed in range(5):
        with pk.engine("cpu"):
            want = body(pixels(seed, dtype))
        assert_same(fused(pixels(seed, dtype)), want)
    if engine != "auto" and name != "of views":
        assert "replayed" in pk.last_call().reason
        (tree,) = fused._traced.plans.trees()
        assert not tree.has_host_calls


def test_colours(engine):
    def body(a, brightness):
        gray = image.rgb_to_gray(a, "BT.709", rounding="truncate")
        return (
            image.rgb_to_gray(a) + gray,
            image.gaussian_blur(a, 1.0),
            image.resize(gray * brightness, (9, 9)),
        )

    fused = pk.fuse(body)
    for channels in (3, 4):
        for dtype in ("u1", "f4"):
            for seed in range(4):
                a = pixels(seed, dtype, (3, *SHAPE, channels))
                with pk.engine("cpu"):
                    want = body(a, a.dtype.type(2))
                assert_same(fused(a, a.dtype.type(2)), want)


def test_values_that_python_reads(engine):
    """These compute weights or tables from the values, in each call."""

    def body(a):
        return image.equalize_histogram(a), image.threshold(a), image.threshold(a, 100), image.normalize(a)

    fused = pk.fuse(body)
    for seed in range(5):
        a = pixels(seed, "u1") // (seed + 1)
        with pk.engine("cpu"):
            want = body(a)
        assert_same(fused(a), want)


def test_weights_that_are_computed(engine):
    fused = pk.fuse(lambda a, w: image.correlate(a, w * 2) + image.correlate(a, EDGES))
    for seed in range(5):
        a, weights = pixels(seed, "f4"), np.arange(9.0).reshape(3, 3) - seed
        with pk.engine("cpu"):
            want = image.correlate(a, weights * 2) + image.correlate(a, EDGES)
        assert_same(fused(a, weights), want)


def test_errors_of_arguments(engine):
    fused = pk.fuse(lambda a, size: image.box_blur(a * 2, size))
    for _ in range(3):
        fused(pixels(0, "u1"), 3)
    for _ in range(3):
        with pytest.raises(ValueError, match="from 1 to 63"):
            fused(pixels(0, "u1"), 65)
    for _ in range(3 * (engine != "auto")):  # where SciPy computes it
        with pytest.raises(pk.errors.Unsupported, match="uint8, uint16 and float32"):
            fused(pixels(0, "f8"), 3)
    assert_same(fused(pixels(1, "u1"), 3), image.box_blur(pixels(1, "u1") * 2, 3))
