"""Images: NumPy arrays of uint8, uint16 or float32, grey or with channels, one or a batch."""

from typing import TYPE_CHECKING

from pycudakit import _lazy

if TYPE_CHECKING:
    from pycudakit.image.colour import gray_to_rgb, rgb_to_gray
    from pycudakit.image.geometry import crop, flip, resize, rotate90
    from pycudakit.image.intensity import equalize_histogram, normalize, threshold, threshold_otsu
else:
    _lazy.families(
        __name__,
        {
            "colour": "gray_to_rgb rgb_to_gray",
            "geometry": "crop flip resize rotate90",
            "intensity": "equalize_histogram normalize threshold threshold_otsu",
        },
    )

__all__ = [
    "crop",
    "equalize_histogram",
    "flip",
    "gray_to_rgb",
    "normalize",
    "resize",
    "rgb_to_gray",
    "rotate90",
    "threshold",
    "threshold_otsu",
]
