"""Digest cases of `pycudakit.image`."""

import numpy as np

import pycudakit as pk
from helpers.hashed import whole
from helpers.results.common import attempt

_FILTERS = {
    "box_blur": lambda x, mode: pk.image.box_blur(x, (3, 5), mode=mode),
    "correlate": lambda x, mode: pk.image.correlate(x, [[1, 2, 0], [0, -1, 3]], mode=mode),
    "convolve": lambda x, mode: pk.image.convolve(x, np.ones((3, 3)) / 8, mode=mode, cval=3),
    "sobel": lambda x, mode: pk.image.sobel(x, 0, mode=mode, dtype=np.float32),
    "sobel length": lambda x, mode: pk.image.sobel(x, None, mode=mode),
    "laplace": lambda x, mode: pk.image.laplace(x, mode=mode),
    "median_filter": lambda x, mode: pk.image.median_filter(x, (3, 5) if mode == "wrap" else 3, mode=mode),
    "minimum_filter": lambda x, mode: pk.image.minimum_filter(x, (4, 3), mode=mode),
    "maximum_filter": lambda x, mode: pk.image.maximum_filter(x, 5, mode=mode),
}


def image():
    grey = {name: whole((45, 61), 0, 256, 1, name) for name in ("uint8", "uint16", "float32")}
    grey["float32"] /= 16
    colour = {name: whole((2, 33, 41, 3), 0, 256, 2, name) for name in grey}
    for name, function in _FILTERS.items():
        for dtype, picture in grey.items():
            modes = ("reflect", "nearest", "mirror", "wrap", "constant")
            yield f"{name} {dtype}", [function(x, m) for x in (picture, colour[dtype]) for m in modes]
    for dtype, picture in grey.items():
        batch = colour[dtype]
        yield (
            f"resize {dtype}",
            [
                pk.image.resize(x, shape, method)
                for x in (picture, batch)
                for shape in ((20, 80), (90, 30))
                for method in ("nearest", "bilinear", "area")
            ],
        )
        yield (
            f"colour {dtype}",
            [
                pk.image.rgb_to_gray(batch),
                pk.image.rgb_to_gray(batch, "BT.709", rounding="truncate"),
                pk.image.gray_to_rgb(picture),
            ],
        )
        yield (
            f"geometry {dtype}",
            [
                pk.image.flip(batch),
                pk.image.rotate90(batch, 3),
                pk.image.crop(picture, 3, 5, 20, 30),
            ],
        )
        yield (
            f"intensity {dtype}",
            [
                pk.image.threshold(picture, 9),
                pk.image.threshold(picture, "otsu")
                if dtype != "float32"
                else pk.image.threshold(picture, 2.5),
                pk.image.threshold_otsu(batch),
                attempt(pk.image.equalize_histogram, batch),
                pk.image.normalize(picture),
            ],
        )
    large = whole((1100, 1300), 0, 256, 3, "uint8")
    yield (
        "large",
        [
            pk.image.box_blur(large, 5),
            pk.image.median_filter(large),
            pk.image.sobel(large, dtype=np.float32),
            pk.image.resize(large, (700, 900), "area"),
        ],
    )
    yield "gaussian_blur", [pk.image.gaussian_blur(grey[name], 1.5) for name in ("uint8", "uint16")]
