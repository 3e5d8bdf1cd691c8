"""Comparison of a result with NumPy's, in units in the last place (ulps)."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _ordered(array: Array) -> Array:
    """Map floats to integers in the same order, neighbours differing by 1; both zeros are 0."""
    width = array.dtype.itemsize * 8
    bits = array.view(f"int{width}").astype(np.int64)
    least = np.iinfo(np.int64 if width == 64 else f"int{width}").min
    return np.where(bits < 0, least - bits, bits)


def ulps_between(mine: Array, theirs: Array) -> int:
    """Return the largest distance between two arrays of one float dtype, in ulps.

    The distance of two NaNs is 0; that of a NaN and a number is the largest int64.

    Examples
    --------
    >>> import numpy as np
    >>> from pycudakit._cli.ulp_compare import ulps_between
    >>> one = np.array([1.0, np.nan])
    >>> ulps_between(one, np.nextafter(one, 2.0))
    1
    """
    if mine.size == 0:
        return 0
    nans = np.isnan(mine), np.isnan(theirs)
    if (nans[0] != nans[1]).any():
        return int(np.iinfo(np.int64).max)
    a, b = (np.where(nans[0], 0, _ordered(np.ascontiguousarray(x))) for x in (mine, theirs))
    # In unsigned arithmetic, the difference does not overflow.
    return int((np.maximum(a, b).view(np.uint64) - np.minimum(a, b).view(np.uint64)).max())


def same_bits(mine: Array, theirs: Array, free_zero: bool = False) -> bool:
    """Return True if all bits are equal; any NaN equals any NaN, and with `free_zero` -0.0 equals 0.0."""
    if mine.dtype.kind != "f":
        return bool(np.array_equal(mine, theirs))
    same = (mine == theirs) if free_zero else (mine == theirs) & (np.signbit(mine) == np.signbit(theirs))
    return bool((same | (np.isnan(mine) & np.isnan(theirs))).all())


def verdict(mine: Any, theirs: Any, ulps: int = 0, free_zero: bool = False) -> tuple[bool, str]:
    """Return whether a result is close enough to NumPy's, and its distance as text."""
    if isinstance(theirs, tuple):
        each = [verdict(m, t, ulps, free_zero) for m, t in zip(mine, theirs, strict=True)]
        return next((v for v in each if not v[0]), each[0])
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    if mine.dtype != theirs.dtype:
        return False, f"WRONG: {mine.dtype}, not {theirs.dtype}"
    if mine.shape != theirs.shape:
        return False, f"WRONG: shape {mine.shape}, not {theirs.shape}"
    if same_bits(mine, theirs, free_zero):
        return True, "same bits"
    if mine.dtype.kind != "f":
        return False, f"WRONG at {int((mine != theirs).sum())} of {mine.size}"
    apart = ulps_between(mine, theirs)
    return apart <= ulps, f"{'within' if apart <= ulps else 'WRONG by'} {apart} ulp"
