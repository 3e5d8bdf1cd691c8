"""The multivariate normal distribution: argument checks, factor of the covariance, and product."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from pycudakit._native.dtypes import FLOAT64, Array
from pycudakit._runtime.fp_errors import caller_stacklevel
from pycudakit.random.generator_base import shape_of

_METHODS = {"eigh", "svd", "cholesky"}
_NOT_VALID = "covariance is not symmetric positive-semidefinite."


def checked(mean: Any, cov: Any, size: Any, method: str) -> tuple[Array, Array, tuple[int, ...]]:
    """Return the mean, the covariance and the shape of the result; raise NumPy's errors."""
    if method not in _METHODS:
        raise ValueError("method must be one of {'eigh', 'svd', 'cholesky'}")
    centre, covariance = np.array(mean), np.array(cov)
    if any(np.issubdtype(array.dtype, np.complexfloating) for array in (centre, covariance)):
        raise TypeError("mean and cov must not be complex")
    if centre.ndim != 1:
        raise ValueError("mean must be 1 dimensional")
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise ValueError("cov must be 2 dimensional and square")
    if len(centre) != len(covariance):
        raise ValueError("mean and cov must have same length")
    vectors = () if size is None else shape_of(size)
    return centre, covariance.astype(FLOAT64), (*vectors, len(centre))


def factor_of(cov: Array, check_valid: str, tol: float, method: str) -> Array:
    """Compute a factor F of the covariance, F F^T = cov, as NumPy does."""
    if method == "cholesky":
        return np.linalg.cholesky(cov)
    if method == "svd":
        vectors, spreads, right = np.linalg.svd(cov)
    else:
        spreads, vectors = np.linalg.eigh(cov)
    if check_valid != "ignore":
        if check_valid not in ("warn", "raise"):
            raise ValueError("check_valid must equal 'warn', 'raise', or 'ignore'")
        if method == "svd":
            is_valid = np.allclose(np.dot(right.T * spreads, right), cov, rtol=tol, atol=tol)
        else:
            is_valid = not np.any(spreads < -tol)
        if not is_valid and check_valid == "raise":
            raise ValueError(_NOT_VALID)
        if not is_valid:
            warnings.warn(_NOT_VALID, RuntimeWarning, stacklevel=caller_stacklevel())
    factor: Array = vectors * np.sqrt(abs(spreads))
    return factor


def combined(normals: Array, factor: Array, mean: Array) -> Array:
    """Multiply rows by the factor, and add the mean.

    `numpy.einsum` adds the products in order, so that a row's bits do not depend on the number of rows, as
    they would with a BLAS.
    """
    result: Array = np.einsum("ik,kj->ij", normals, np.ascontiguousarray(factor.T))
    result += mean
    return result
