"""Composites `cov` and `corrcoef`: covariances and correlation coefficients, as matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._runtime.fp_errors import warn_caller
from pycudakit.fusing.composites.decorator import NumPyOnly, composite


@composite("m", "y", "fweights", "aweights")
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """Return the covariances of variables.

    Parameters
    ----------
    m : array_like
        The observations, of two dimensions at most: a row for each variable.
    y : array_like, optional
        More variables.
    rowvar : bool
        False if columns are variables.
    bias : bool
        Whether to divide by the number of observations instead of one less.
    ddof : int, optional
        The delta degrees of freedom, which overrides `bias`.
    fweights : array_like of int, optional
        The number of times that each observation is repeated.
    aweights : array_like, optional
        The weight of each observation.
    dtype : dtype, optional
        The type of the result; float64 if None.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.cov : NumPy's function.
    corrcoef, var

    Differs from NumPy
    ------------------
    Sums of products are added in the order of the library that multiplies (NumPy's BLAS, cuBLAS or
    pycudakit's loops), so the last bits depend on the engine.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cov([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    for name, part in (("m", m), ("y", y)):
        if part is not None and part.ndim > 2:
            raise ValueError(f"{name} has more than 2 dimensions")
    _check_type(dtype)
    if dtype is None:
        dtype = np.result_type(m, *(() if y is None else (y,)), np.float64)
    dtype = np.dtype(dtype).newbyteorder("=")
    x = _as_rows(m, rowvar or m.ndim == 1).astype(dtype)
    if x.shape[0] == 0:
        return np.empty_like(x, shape=(0, 0))
    if y is not None:
        rows = np.atleast_2d(y)
        x = np.concatenate((x, _as_rows(y, rowvar or rows.shape[0] == 1).astype(dtype)), axis=0)
    if ddof is None:
        ddof = 1 if bias == 0 else 0
    weights = _weights(x.shape[1], fweights, aweights)
    if weights is None:
        mean, total = np.mean(x, axis=1), x.shape[1]
        degrees: Any = total - ddof
    else:
        mean, totals = np.average(x, axis=1, weights=weights, returned=True)
        total = totals[0]
        degrees = total - ddof if aweights is None else total - ddof * np.sum(weights * aweights) / total
        degrees = total if ddof == 0 else degrees
    if degrees <= 0:
        warn_caller("Degrees of freedom <= 0 for slice", RuntimeWarning)
        degrees = 0.0
    x = x - mean[:, None]
    weighted = x if weights is None else x * weights
    return np.squeeze(np.dot(x, weighted.T) * np.true_divide(1, degrees)).astype(dtype)


def _check_type(dtype: Any) -> None:
    if dtype is not None and np.dtype(dtype).kind != "f":
        raise NumPyOnly(f"a dtype of {np.dtype(dtype)}")


def _as_rows(array: Any, are_rows: bool) -> Any:
    rows = np.atleast_2d(array)
    return rows if are_rows else rows.T


def _weights(count: int, fweights: Any, aweights: Any) -> Any:
    """Return the weight of each observation, or None if all weights are 1."""
    weights = None
    for name, values in (("fweights", fweights), ("aweights", aweights)):
        if values is None:
            continue
        each = values.astype(np.float64)
        if name == "fweights" and not np.all(each == np.round(each)):
            raise TypeError("fweights must be integer")
        if each.ndim > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if each.shape[0] != count:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if np.any(each < 0):
            raise ValueError(f"{name} cannot be negative")
        weights = each if weights is None else weights * each
    return weights


@composite("x", "y")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """Return the correlation coefficients of variables.

    Parameters
    ----------
    x : array_like
        The observations, of two dimensions at most: a row for each variable.
    y, rowvar, dtype
        As for `cov`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.corrcoef : NumPy's function.
    cov

    Differs from NumPy
    ------------------
    Sums of products are added in the order of the library that multiplies (NumPy's BLAS, cuBLAS or
    pycudakit's loops), so the last bits depend on the engine.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.corrcoef([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    _check_type(dtype)
    covariances = cov(x, y, rowvar, dtype=dtype)
    if covariances.ndim == 0:
        return covariances / covariances
    deviations = np.sqrt(np.diagonal(covariances))
    return np.clip(covariances / deviations[:, None] / deviations[None, :], -1, 1)
