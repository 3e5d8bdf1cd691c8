"""Composites for polynomials: `polyval` by Horner's rule, and `vander` (Vandermonde matrices)."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit.fusing.composites.decorator import as_array


def polyval(p: Any, x: Any) -> Any:
    """Evaluate a polynomial at `x` by Horner's rule; the coefficient of the highest power comes first."""
    if isinstance(x, np.poly1d):
        raise errors.Unsupported("polyval of a np.poly1d")
    p, x = as_array(p), as_array(x)
    value = np.zeros_like(x)
    for coefficient in p:
        value = value * x + coefficient
    return value


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803
    """Return the Vandermonde matrix: a column for each power of `x`."""
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    columns = len(x) if N is None else N
    matrix = np.empty_like(x, np.promote_types(x.dtype, int), order="C", shape=(len(x), columns))
    rising = matrix if increasing else matrix[:, ::-1]
    if columns > 0:
        rising[:, 0] = 1
    if columns > 1:
        repeated = np.broadcast_to(x[:, None].astype(matrix.dtype), (len(x), columns - 1))
        rising[:, 1:] = np.multiply.accumulate(repeated, axis=1)
    return matrix
