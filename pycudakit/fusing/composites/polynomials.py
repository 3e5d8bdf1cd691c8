"""NumPy's polynomials by their coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit.fusing.composites.decorator import as_array


def polyval(p: Any, x: Any) -> Any:
    """Return the values of a polynomial, whose coefficient of the highest power comes first."""
    if isinstance(x, np.poly1d):
        raise errors.Unsupported("polyval, of a polynomial")
    p, x = as_array(p), as_array(x)
    value = np.zeros_like(x)
    for coefficient in p:
        value = value * x + coefficient
    return value


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803
    """Return a matrix of the powers of samples, a column for each."""
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    columns = len(x) if N is None else N
    made = np.empty_like(x, np.promote_types(x.dtype, int), order="C", shape=(len(x), columns))
    rising = made if increasing else made[:, ::-1]
    if columns > 0:
        rising[:, 0] = 1
    if columns > 1:
        repeated = np.broadcast_to(x[:, None].astype(made.dtype), (len(x), columns - 1))
        rising[:, 1:] = np.multiply.accumulate(repeated, axis=1)
    return made
