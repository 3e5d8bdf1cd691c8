"""The cases of `pycudakit bench` other than elementwise functions: one of each family."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pycudakit as pk

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Family:
    """A benchmark case: a function of float32 arrays of one size.

    Parameters
    ----------
    by
        Computes it with NumPy or a library with NumPy's API: ``by(np, *arrays)``.
    ours
        Computes it with pycudakit: ``ours(*arrays)``, also with ``out=``.
    text
        The expression for NumExpr.
    inputs
        The number of arrays.
    ulps
        The allowed distance of results.
    """

    by: Callable[..., Any]
    ours: Callable[..., Any]
    text: str
    inputs: int = 2
    ulps: int = 0


def _same(name: str, inputs: int = 1, ulps: int = 0, **keywords: Any) -> Family:
    """Return the case of a function with the same name in NumPy and pycudakit."""

    def by(xp: Any, *arrays: Array) -> Any:
        return getattr(xp, name)(*arrays, **keywords)

    return Family(by, lambda *arrays: by(pk, *arrays), "", inputs, ulps)


def _square(array: Array) -> Array:
    side = math.isqrt(array.size)
    return array[: side * side].reshape(side, side)


def _blurred(image: Array) -> Array:
    around = np.pad(image, 1, mode="symmetric")
    rows, columns = image.shape
    parts = [around[i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
    return sum(parts[1:], parts[0]) / np.float32(9)  # type: ignore[no-any-return]


def _of_squares(by: Callable[..., Any], ours: Callable[..., Any], inputs: int, ulps: int) -> Family:
    return Family(
        lambda _, *arrays: by(*map(_square, arrays)), lambda *a: ours(*map(_square, a)), "", inputs, ulps
    )


def _uniform(generator: Any, array: Array) -> Any:
    return generator(7).random(array.size, np.float32)


_POINTS = np.linspace(0, 1, 1000)

FAMILIES = {
    "sum": _same("sum", ulps=256),  # NumPy sums in float32
    "cumsum": _same("cumsum", ulps=1 << 20, dtype=np.float64),
    "sort": _same("sort"),
    "median": _same("median"),
    "histogram": Family(
        lambda xp, a: xp.histogram(a, 100, (0, 1))[0], lambda a: pk.histogram(a, 100, (0, 1))[0], "", 1
    ),
    "matmul": _of_squares(np.matmul, pk.matmul, 2, 1 << 12),
    "interp": Family(
        lambda xp, a: xp.interp(a, _POINTS, _POINTS), lambda a: pk.interp(a, _POINTS, _POINTS), "", 1, 16
    ),
    "box_blur": _of_squares(_blurred, lambda image: pk.image.box_blur(image, 3), 1, 64),
    "random": Family(
        lambda _, a: _uniform(lambda seed: np.random.Generator(np.random.Philox(seed)), a),
        lambda a: _uniform(pk.random.default_rng, a),
        "",
        1,
    ),
}

LARGEST = {"matmul": 4_000_000}  # elements: a product of squares of more takes long beside the other families

# Bytes an element that are uploaded and downloaded.
MOVED = {
    "add": (8, 4),
    "multiply": (8, 4),
    "exp": (4, 4),
    "evaluate": (8, 4),
    "sum": (4, 0),
    "cumsum": (4, 8),
    "sort": (4, 4),
    "median": (4, 0),
    "histogram": (4, 0),
    "matmul": (8, 4),
    "interp": (4, 8),
    "box_blur": (4, 4),
    "random": (0, 4),
}
