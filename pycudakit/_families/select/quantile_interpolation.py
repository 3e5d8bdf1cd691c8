"""NumPy's quantile arithmetic: the ranks that each level needs, and the interpolation between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pycudakit._native.dtypes import Array

# The formulas are those of numpy/lib/_function_base_impl.py, operation by operation, for the same bits.


def _by_boundaries(index: Any, takes_lower: Any) -> Any:
    lower = np.floor(index)
    indexes = np.where(takes_lower(index - lower, index), lower, lower + 1).astype(np.intp)
    return np.maximum(indexes, 0)


def _continuous(alpha: float, beta: float) -> Callable[[int, Any], Any]:
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _unchanged(gamma: Any, _: Any) -> Any:
    return gamma


class _Method(NamedTuple):
    """One of NumPy's quantile methods."""

    virtual_index: Callable[[int, Any], Any]  # the fractional index of levels in a sorted row of n
    gamma: Callable[[Any, Any], Any] | None  # the interpolation weight; None: the index is an integer


METHODS = {
    "inverted_cdf": _Method(lambda n, q: _by_boundaries(n * q - 1, lambda gamma, _: gamma == 0), None),
    "averaged_inverted_cdf": _Method(lambda n, q: n * q - 1, lambda gamma, _: np.where(gamma == 0, 0.5, 1.0)),
    "closest_observation": _Method(
        lambda n, q: _by_boundaries(
            n * q - 1 - 0.5, lambda gamma, index: (gamma == 0) & (np.floor(index) % 2 == 1)
        ),
        None,
    ),
    "interpolated_inverted_cdf": _Method(_continuous(0, 1), _unchanged),
    "hazen": _Method(_continuous(0.5, 0.5), _unchanged),
    "weibull": _Method(_continuous(0, 0), _unchanged),
    "linear": _Method(lambda n, q: (n - 1) * q, _unchanged),
    "median_unbiased": _Method(_continuous(1 / 3.0, 1 / 3.0), _unchanged),
    "normal_unbiased": _Method(_continuous(3 / 8.0, 3 / 8.0), _unchanged),
    "lower": _Method(lambda n, q: np.floor((n - 1) * q).astype(np.intp), None),
    "higher": _Method(lambda n, q: np.ceil((n - 1) * q).astype(np.intp), None),
    "midpoint": _Method(
        lambda n, q: 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q)),
        lambda _, index: np.where(index % 1 == 0, 0.0, 0.5),
    ),
    "nearest": _Method(lambda n, q: np.around((n - 1) * q).astype(np.intp), None),
}


_PIECE = 1 << 16  # elements


def quantile_is_valid(q: Array) -> bool:
    """Return True if all levels are from 0 to 1, by NumPy's test."""
    if q.ndim == 1 and q.size < 10:
        return all(0.0 <= value <= 1.0 for value in q)
    if q.size <= _PIECE:
        return bool(q.min() >= 0 and q.max() <= 1)
    pieces: Any = np.nditer(q, flags=["external_loop", "buffered"], buffersize=_PIECE)
    return all(piece.min() >= 0 and piece.max() <= 1 for piece in pieces)  # Ctrl-C is handled in between


def neighbour_indexes(n: Any, q: Any, method: str, floating: bool) -> tuple[list[Any], Any]:
    """Return the neighbouring indices of levels in rows of `n`, negative from the end, and the weights."""
    rule = METHODS[method]
    index = rule.virtual_index(n, q)
    if rule.gamma is None or (method == "linear" and np.issubdtype(index.dtype, np.integer)):
        return [index], None
    lower = np.floor(index)
    last = index >= n - 1
    if floating:
        last = last | np.isnan(index)
    indexes = [
        np.where(last, -1, np.where(index < 0, 0, neighbour)).astype(np.intp)
        for neighbour in (lower, lower + 1)
    ]
    return indexes, rule.gamma(index - indexes[0], index).astype(index.dtype)


class QuantileInterpolation:
    """The ranks and interpolation weights of the quantiles `q` of sorted rows of `n` elements.

    Attributes
    ----------
    indexes
        The lower and the upper neighbour of each quantile, or just one.
    gamma
        The interpolation weights between them, or None.
    ranks
        The ranks of the elements that are needed, ascending.
    """

    def __init__(self, n: int, q: Array, method: str, floating: bool) -> None:
        if method not in METHODS:
            raise ValueError(f"{method!r} is not a valid method. Use one of: {METHODS.keys()}")
        indexes, gamma = neighbour_indexes(n, q, method, floating)
        indexes = [np.asanyarray(neighbour) for neighbour in indexes]
        self.gamma: Array | None = None if gamma is None else np.asanyarray(gamma)
        for neighbour in indexes:
            if neighbour.size and not (-n <= neighbour.min() and neighbour.max() < n):
                raise ValueError(f"kth(={neighbour.max()}) out of bounds ({n})")
        self.indexes = [np.where(neighbour < 0, neighbour + n, neighbour) for neighbour in indexes]
        self.ranks = np.unique(np.concatenate([neighbour.ravel() for neighbour in self.indexes])).astype(
            np.int64
        )
        self._at = [np.searchsorted(self.ranks, neighbour) for neighbour in self.indexes]

    def interpolate(self, elements: Array, weak: bool, out: Array | None = None) -> Any:
        """Compute the quantiles; `elements` has the elements of the ranks along its first axis.

        `weak` says that `q` was a Python number, which does not change a float's type.
        """
        if self.gamma is None:
            return np.take(elements, self._at[0], axis=0, out=out)
        gamma: Any = self.gamma
        gamma = float(gamma) if weak else gamma.reshape(gamma.shape + (1,) * (elements.ndim - 1))
        return _interpolate(elements[self._at[0]], elements[self._at[1]], gamma, out)


def _interpolate(a: Any, b: Any, t: Any, out: Array | None) -> Any:
    difference = b - a
    result: Any = np.asanyarray(np.add(a, difference * t, out=out))
    np.subtract(
        b, difference * (1 - t), out=result, where=t >= 0.5, casting="unsafe", dtype=type(result.dtype)
    )
    return result[()] if result.ndim == 0 and out is None else result
