"""Images: NumPy arrays of uint8, uint16 or float32, grey or with channels, one or a batch."""

from typing import TYPE_CHECKING

from pycudakit import _lazy

if TYPE_CHECKING:
    from pycudakit.image.filters import (
        box_blur,
        convolve,
        correlate,
        gaussian_blur,
        laplace,
        maximum_filter,
        median_filter,
        minimum_filter,
        sobel,
    )
else:
    _lazy.families(
        __name__,
        {
            "filters": "box_blur convolve correlate gaussian_blur laplace maximum_filter median_filter "
            "minimum_filter sobel",
        },
    )

__all__ = [
    "box_blur",
    "convolve",
    "correlate",
    "gaussian_blur",
    "laplace",
    "maximum_filter",
    "median_filter",
    "minimum_filter",
    "sobel",
]
