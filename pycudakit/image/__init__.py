"""Image functions on NumPy arrays of uint8, uint16 or float32: grey or with channels, one or a batch."""

from typing import TYPE_CHECKING

from pycudakit import _lazy
from pycudakit._interop.dispatch import accept_foreign_arrays

if TYPE_CHECKING:
    from pycudakit.image.colour import gray_to_rgb, rgb_to_gray
    from pycudakit.image.filters import (
        box_blur,
        convolve,
        correlate,
        gaussian_blur,
        laplace,
        sobel,
    )
    from pycudakit.image.geometry import crop, flip, resize, rotate90
    from pycudakit.image.intensity import equalize_histogram, normalize, threshold, threshold_otsu
    from pycudakit.image.rank_filters import maximum_filter, median_filter, minimum_filter
else:
    _lazy.attach(
        __name__,
        {
            "colour": "gray_to_rgb rgb_to_gray",
            "geometry": "crop flip resize rotate90",
            "intensity": "equalize_histogram normalize threshold threshold_otsu",
            "filters": "box_blur convolve correlate gaussian_blur laplace sobel",
            "rank_filters": "maximum_filter median_filter minimum_filter",
        },
        accept_foreign_arrays,
    )

__all__ = [
    "box_blur",
    "convolve",
    "correlate",
    "crop",
    "equalize_histogram",
    "flip",
    "gaussian_blur",
    "gray_to_rgb",
    "laplace",
    "maximum_filter",
    "median_filter",
    "minimum_filter",
    "normalize",
    "resize",
    "rgb_to_gray",
    "rotate90",
    "sobel",
    "threshold",
    "threshold_otsu",
]

_lazy.set_public_names(__name__, __all__)
