"""The cases of `pycudakit selftest` for functions that are not elementwise.

Sums and products have small integers as operands, so that they are exact in any order and dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import pycudakit as pk

Array = np.ndarray[Any, Any]
Case = tuple[str, Callable[[Any], Any]]

# Functions of any values, including NaN.
IN_ORDER: dict[str, Callable[[Any, Array], Any]] = {
    "sort": lambda xp, x: xp.sort(x),
    "argsort": lambda xp, x: xp.argsort(x, kind="stable"),
    "unique": lambda xp, x: xp.unique(x),
    "max": lambda xp, x: xp.max(x),
    "argmin": lambda xp, x: xp.argmin(x),
    "count_nonzero": lambda xp, x: xp.count_nonzero(x),
    "flip": lambda xp, x: xp.flip(x),
}
# Functions of 20,000 integers from 0 to 7.
OF_WHOLE: dict[str, Callable[[Any, Array], Any]] = {
    "sum": lambda xp, x: xp.sum(x.reshape(100, 200), axis=0),
    "any": lambda xp, x: xp.any(x.reshape(100, 200), axis=1),
    "cumsum": lambda xp, x: xp.cumsum(x.reshape(100, 200), axis=1),
    "median": lambda xp, x: xp.median(x.reshape(100, 200), axis=1),
    "searchsorted": lambda xp, x: xp.searchsorted(np.sort(x[:999]), x),
    "dot": lambda xp, x: xp.dot(x[:40], x[40:80]),
    "matmul": lambda xp, x: xp.matmul(x[:800].reshape(20, 40), x[800:2000].reshape(40, 30)),
    "transpose": lambda xp, x: xp.transpose(x.reshape(100, 200)),
}
OF_INTEGERS: dict[str, Callable[[Any, Array], Any]] = {
    "bincount": lambda xp, x: xp.bincount(x.astype(np.uint8)),
    "histogram": lambda xp, x: xp.histogram(x, 8)[0],
    "digitize": lambda xp, x: xp.digitize(x, np.array([1, 3, 6])),
}


def _windows(image: Array) -> Array:
    """Return the 3 x 3 window of each pixel, with a reflected border."""
    around = np.pad(image, 1, mode="symmetric").astype(np.float64)
    windows: Array = np.lib.stride_tricks.sliding_window_view(around, (3, 3))
    return windows


OF_IMAGES: dict[str, tuple[Callable[[Array], Any], Callable[[Array], Any]]] = {
    "rgb_to_gray": (
        lambda image: pk.image.rgb_to_gray(image.reshape(50, 100, -1)[..., :3]),
        lambda image: np.rint(image.reshape(50, 100, -1)[..., :3] @ np.array([299, 587, 114]) / 1000),
    ),
    "box_blur": (
        lambda image: pk.image.box_blur(image, 3),
        lambda image: np.rint(_windows(image).mean((2, 3))),
    ),
    "maximum_filter": (
        lambda image: pk.image.maximum_filter(image, 3),
        lambda image: _windows(image).max((2, 3)),
    ),
}


def _drawn(xp: Any, dtype: np.dtype[Any]) -> Any:
    rng = pk.random.default_rng(7) if xp is pk else np.random.Generator(np.random.Philox(7))
    return rng.random(10_001, dtype)


def cases(dtype: np.dtype[Any], values: Array, rng: np.random.Generator) -> Iterator[Case]:
    """Yield named calls for pycudakit and NumPy, on values and on small integers of a dtype."""
    whole = rng.integers(0, 2 if dtype.kind == "b" else 8, 20_000).astype(dtype)
    for name, call in IN_ORDER.items():
        yield name, lambda xp, call=call: call(xp, values)  # type: ignore[misc]
    for name, call in (OF_WHOLE | (OF_INTEGERS if dtype.kind in "iu" else {})).items():
        yield name, lambda xp, call=call: call(xp, whole)  # type: ignore[misc]
    if dtype in (np.uint8, np.uint16):
        image = values[:20_000].reshape(100, 200)
        for name, (ours, numpys) in OF_IMAGES.items():
            yield (
                name,
                lambda xp, pair=(ours, numpys): pair[0](image) if xp is pk else pair[1](image).astype(dtype),  # type: ignore[misc]
            )
    if dtype.kind == "f" and dtype.itemsize > 2:
        yield "random", lambda xp: _drawn(xp, dtype)
