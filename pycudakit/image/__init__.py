"""Pictures as arrays: height x width, with channels last if there are any, and batches of those."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pycudakit.image.colour import gray_to_rgb, rgb_to_gray
    from pycudakit.image.geometry import crop, flip, resize, rotate90
    from pycudakit.image.intensity import equalize_histogram, normalize, threshold, threshold_otsu

_MODULES = {
    "colour": "gray_to_rgb rgb_to_gray",
    "geometry": "crop flip resize rotate90",
    "intensity": "equalize_histogram normalize threshold threshold_otsu",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
