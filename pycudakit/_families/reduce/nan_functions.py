"""NumPy's reductions that ignore NaN: `nansum`, `nanmean`, `nanmax` and others."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._families.reduce import lowering
from pycudakit._families.reduce.means import ddof_or_correction, mean_or_variance
from pycudakit._families.reduce.min_max import arg_extremum_like
from pycudakit._families.reduce.reduction import NONE
from pycudakit._families.reduce.sums import reduce_like_ufunc
from pycudakit._runtime.public_function import public_function


@public_function(numpy=np.nansum)
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NONE,
    initial: Any = NONE,
    where: Any = NONE,
) -> Any:
    """Return the sum of array elements over a given axis, treating NaNs as zero.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    dtype, out, keepdims, initial, where
        As for `numpy.nansum`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.nansum : NumPy's function.
    sum, nanmean

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's, and only the
    result can overflow, not a partial sum.

    Examples
    --------
    >>> from math import nan
    >>> import pycudakit as pk
    >>> pk.nansum([[1, nan], [3, 4]], axis=0)
    array([4., 4.])
    """
    return reduce_like_ufunc("nansum", lowering.NANSUM, a, axis, out, keepdims, initial, where, dtype)


@public_function(numpy=np.nanprod)
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NONE,
    initial: Any = NONE,
    where: Any = NONE,
) -> Any:
    """Return the product of array elements over a given axis, treating NaNs as ones.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    dtype, out, keepdims, initial, where
        As for `numpy.nanprod`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.nanprod : NumPy's function.
    prod, nansum

    Differs from NumPy
    ------------------
    Products of floats are computed with a separate exponent, so the last bits can differ from NumPy's, and
    only the result can overflow or underflow.

    Examples
    --------
    >>> from math import nan
    >>> import pycudakit as pk
    >>> pk.nanprod([[1, nan], [3, 4]], axis=0)
    array([3., 4.])
    """
    return reduce_like_ufunc("nanprod", lowering.NANPROD, a, axis, out, keepdims, initial, where, dtype)


@public_function(numpy=np.nanmin)
def nanmin(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = NONE,
    initial: Any = NONE,
    where: Any = NONE,
) -> Any:
    """Return the minimum of an array or minimum along an axis, ignoring NaNs.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    out, keepdims, initial, where
        As for `numpy.nanmin`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.nanmin : NumPy's function.
    min, nanmax, fmin

    Differs from NumPy
    ------------------
    Among zeros of both signs, either may be the result.

    Examples
    --------
    >>> from math import nan
    >>> import pycudakit as pk
    >>> pk.nanmin([[1, nan], [3, 4]], axis=0)
    array([1., 4.])
    """
    return reduce_like_ufunc("nanmin", lowering.NANMIN, a, axis, out, keepdims, initial, where)


@public_function(numpy=np.nanmax)
def nanmax(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = NONE,
    initial: Any = NONE,
    where: Any = NONE,
) -> Any:
    """Return the maximum of an array or maximum along an axis, ignoring NaNs.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    out, keepdims, initial, where
        As for `numpy.nanmax`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.nanmax : NumPy's function.
    max, nanmin, fmax

    Differs from NumPy
    ------------------
    Among zeros of both signs, either may be the result.

    Examples
    --------
    >>> from math import nan
    >>> import pycudakit as pk
    >>> pk.nanmax([[1, nan], [3, 4]], axis=1)
    array([1., 4.])
    """
    return reduce_like_ufunc("nanmax", lowering.NANMAX, a, axis, out, keepdims, initial, where)


@public_function(numpy=np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NONE, *, where: Any = NONE
) -> Any:
    """Compute the arithmetic mean along the specified axis, ignoring NaNs.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    dtype, out, keepdims, where
        As for `numpy.nanmean`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.nanmean : NumPy's function.
    mean, nanstd

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's, and only the
    result can overflow, not a partial sum.

    Examples
    --------
    >>> from math import nan
    >>> import pycudakit as pk
    >>> pk.nanmean([[1, nan], [3, 4]], axis=1)
    array([1. , 3.5])
    """
    return mean_or_variance("nanmean", lowering.NANMEAN, a, axis, dtype, out, keepdims, where)


@public_function(numpy=np.nanvar)
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = NONE,
    *,
    where: Any = NONE,
    mean: Any = NONE,
    correction: Any = NONE,
) -> Any:
    """Compute the variance along the specified axis, ignoring NaNs.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    ddof, correction : float, optional
        The number subtracted from the number of elements in the divisor; the two are the same.
    dtype, out, keepdims, where, mean
        As for `numpy.nanvar`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.nanvar : NumPy's function.
    var, nanstd

    Differs from NumPy
    ------------------
    Floats take one pass with compensated sums, so the last bits can differ from NumPy's.

    Examples
    --------
    >>> from math import nan
    >>> import pycudakit as pk
    >>> pk.nanvar([[1, nan], [3, 5]], axis=1)
    array([0., 1.])
    """
    freedom = ddof_or_correction(ddof, correction)
    return mean_or_variance("nanvar", lowering.NANVAR, a, axis, dtype, out, keepdims, where, freedom, mean)


@public_function(numpy=np.nanstd)
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = NONE,
    *,
    where: Any = NONE,
    mean: Any = NONE,
    correction: Any = NONE,
) -> Any:
    """Compute the standard deviation along the specified axis, ignoring NaNs.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    ddof, correction : float, optional
        The number subtracted from the number of elements in the divisor; the two are the same.
    dtype, out, keepdims, where, mean
        As for `numpy.nanstd`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.nanstd : NumPy's function.
    std, nanvar

    Differs from NumPy
    ------------------
    Floats take one pass with compensated sums, so the last bits can differ from NumPy's.

    Examples
    --------
    >>> from math import nan
    >>> import pycudakit as pk
    >>> pk.nanstd([[1, nan], [3, 5]], axis=1)
    array([0., 1.])
    """
    freedom = ddof_or_correction(ddof, correction)
    return mean_or_variance("nanstd", lowering.NANSTD, a, axis, dtype, out, keepdims, where, freedom, mean)


@public_function(numpy=np.nanargmin)
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NONE) -> Any:
    """Return the indices of the minimum values along an axis, ignoring NaNs.

    Parameters
    ----------
    a : array_like
        The argument; a slice of only NaN raises `ValueError`.
    axis : int, optional
        The axis to reduce; by default, an index into the flattened array is returned.
    out, keepdims
        As for `numpy.nanargmin`.

    Returns
    -------
    ndarray or int

    See Also
    --------
    numpy.nanargmin : NumPy's function.
    argmin, nanmin

    Examples
    --------
    >>> from math import nan
    >>> import pycudakit as pk
    >>> pk.nanargmin([[nan, 1], [5, 4]], axis=1)
    array([1, 1])
    """
    return arg_extremum_like("nanargmin", lowering.NANARGMIN, a, axis, out, keepdims)


@public_function(numpy=np.nanargmax)
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NONE) -> Any:
    """Return the indices of the maximum values along an axis, ignoring NaNs.

    Parameters
    ----------
    a : array_like
        The argument; a slice of only NaN raises `ValueError`.
    axis : int, optional
        The axis to reduce; by default, an index into the flattened array is returned.
    out, keepdims
        As for `numpy.nanargmax`.

    Returns
    -------
    ndarray or int

    See Also
    --------
    numpy.nanargmax : NumPy's function.
    argmax, nanmax

    Examples
    --------
    >>> from math import nan
    >>> import pycudakit as pk
    >>> pk.nanargmax([[nan, 1], [5, 4]], axis=1)
    array([1, 0])
    """
    return arg_extremum_like("nanargmax", lowering.NANARGMAX, a, axis, out, keepdims)
