"""The multivariate normal distribution: argument checks, factor of the covariance, and results."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from pycudakit._native.dtypes import FLOAT64, Array
from pycudakit._runtime.fp_errors import caller_stacklevel
from pycudakit.random.generator_base import shape_of

_METHODS = {"eigh", "svd", "cholesky"}
_NOT_VALID = "covariance is not symmetric positive-semidefinite."


def checked_arguments(mean: Any, cov: Any, size: Any, method: str) -> tuple[Array, Array, tuple[int, ...]]:
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
    outer_shape = () if size is None else shape_of(size)
    return centre, covariance.astype(FLOAT64), (*outer_shape, len(centre))


def factor_of(cov: Array, check_valid: str, tol: float, method: str) -> Array:
    """Compute a factor F of the covariance, F F^T = cov, as NumPy does."""
    if method == "cholesky":
        return np.linalg.cholesky(cov)
    if method == "svd":
        vectors, values, right = np.linalg.svd(cov)
    else:
        values, vectors = np.linalg.eigh(cov)
    if check_valid != "ignore":
        if check_valid not in ("warn", "raise"):
            raise ValueError("check_valid must equal 'warn', 'raise', or 'ignore'")
        if method == "svd":
            is_valid = np.allclose(np.dot(right.T * values, right), cov, rtol=tol, atol=tol)
        else:
            is_valid = not np.any(values < -tol)
        if not is_valid and check_valid == "raise":
            raise ValueError(_NOT_VALID)
        if not is_valid:
            warnings.warn(_NOT_VALID, RuntimeWarning, stacklevel=caller_stacklevel())
    factor: Array = vectors * np.sqrt(abs(values))
    return factor


def from_normals(normals: Array, factor: Array, mean: Array) -> Array:
    """Multiply rows of standard normal numbers by the transposed factor, and add the mean.

    `numpy.einsum` adds the products in order, so a row's bits do not depend on the number of rows. With a
    BLAS they would.
    """
    result: Array = np.einsum("ik,kj->ij", normals, np.ascontiguousarray(factor.T))
    result += mean
    return result
