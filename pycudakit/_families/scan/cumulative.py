"""NumPy's cumulative sums and products, running maxima and minima, and exclusive scans."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np

from pycudakit._families.scan.scan_call import (
    ScanFunction,
    check_out,
    device_fast_path_of,
    result_type,
    scan_along,
)
from pycudakit._native import abi, allocator
from pycudakit._runtime import native_call
from pycudakit._runtime.operands import as_array, axis_index
from pycudakit._runtime.public_function import public_function
from pycudakit._runtime.ufunc_arguments import refuse_byte_order


def _accumulate(ufunc: Any, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    if axis is None:
        a, axis = np.ravel(a), 0
    return ufunc.accumulate(np.atleast_1d(a), axis, dtype, out)


_numpy_cummax = functools.partial(_accumulate, np.maximum)
_numpy_cummin = functools.partial(_accumulate, np.minimum)

_CUMSUM = ScanFunction("cumsum", np.add, abi.SCAN_SUM, np.cumsum)
_CUMPROD = ScanFunction("cumprod", np.multiply, abi.SCAN_PROD, np.cumprod)
_NANCUMSUM = ScanFunction("nancumsum", np.add, abi.SCAN_SUM, np.nancumsum, abi.SCAN_SKIP_NAN)
_NANCUMPROD = ScanFunction("nancumprod", np.multiply, abi.SCAN_PROD, np.nancumprod, abi.SCAN_SKIP_NAN)
_CUMULATIVE_SUM = replace(_CUMSUM, name="cumulative_sum")
_CUMULATIVE_PROD = replace(_CUMPROD, name="cumulative_prod")
_EXCLUSIVE_SCAN = ScanFunction("exclusive_scan", np.add, abi.SCAN_SUM, None, abi.SCAN_EXCLUSIVE)
_CUMMAX = ScanFunction("cummax", np.maximum, abi.SCAN_MAX, _numpy_cummax)
_CUMMIN = ScanFunction("cummin", np.minimum, abi.SCAN_MIN, _numpy_cummin)


@public_function(numpy=np.cumsum, device_fast_path=device_fast_path_of(_CUMSUM))
def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative sum of the elements along a given axis.

    Parameters
    ----------
    a : array_like
        The array to sum.
    axis : int, optional
        The axis to scan along; by default all elements are scanned in C order.
    dtype : dtype, optional
        The result's type. Floats are summed in compensated float64, whatever it is; for an integer type,
        elements are cast to it first. By default, integers and bools shorter than int64 give int64 or
        uint64, as in NumPy.
    out : ndarray, optional
        Where to put the result.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.cumsum : NumPy's function.
    cumprod, sum, nancumsum, cumulative_sum, exclusive_scan

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cumsum([1, 2, 3])
    array([1, 3, 6])
    """
    return scan_along(_CUMSUM, a, axis, dtype, out)


@public_function(numpy=np.cumprod, device_fast_path=device_fast_path_of(_CUMPROD))
def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative product of the elements along a given axis.

    Parameters
    ----------
    a, axis, dtype, out
        As for `cumsum`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.cumprod : NumPy's function.
    cumsum, prod, nancumprod, cumulative_prod

    Differs from NumPy
    ------------------
    Products of floats are computed with a separate exponent, so the last bits can differ from NumPy's, and
    only the result can overflow or underflow.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cumprod([1, 2, 3, 4])
    array([ 1,  2,  6, 24])
    """
    return scan_along(_CUMPROD, a, axis, dtype, out)


@public_function(numpy=np.nancumsum, device_fast_path=device_fast_path_of(_NANCUMSUM))
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative sum of the elements along a given axis, treating NaNs as zero.

    Parameters
    ----------
    a, axis, dtype, out
        As for `cumsum`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.nancumsum : NumPy's function.
    cumsum, nansum

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nancumsum([1.0, float("nan"), 3.0])
    array([1., 1., 4.])
    """
    return scan_along(_NANCUMSUM, a, axis, dtype, out)


@public_function(numpy=np.nancumprod, device_fast_path=device_fast_path_of(_NANCUMPROD))
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative product of the elements along a given axis, treating NaNs as one.

    Parameters
    ----------
    a, axis, dtype, out
        As for `cumsum`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.nancumprod : NumPy's function.
    cumprod, nanprod

    Differs from NumPy
    ------------------
    Products of floats are computed with a separate exponent, so the last bits can differ from NumPy's, and
    only the result can overflow or underflow.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nancumprod([2.0, float("nan"), 3.0])
    array([2., 2., 6.])
    """
    return scan_along(_NANCUMPROD, a, axis, dtype, out)


@public_function(numpy=_numpy_cummax, device_fast_path=device_fast_path_of(_CUMMAX))
def cummax(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the running maximum along a given axis, as `numpy.maximum.accumulate`; NaN propagates.

    Parameters
    ----------
    a, axis, out
        As for `cumsum`.
    dtype : dtype, optional
        The result's type; elements are cast to it first.

    Returns
    -------
    ndarray

    See Also
    --------
    cummin, maximum, cumsum

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cummax([1, 3, 2, 5])
    array([1, 3, 3, 5])
    """
    return scan_along(_CUMMAX, a, axis, dtype, out)


@public_function(numpy=_numpy_cummin, device_fast_path=device_fast_path_of(_CUMMIN))
def cummin(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the running minimum along a given axis, as `numpy.minimum.accumulate`; NaN propagates.

    Parameters
    ----------
    a, axis, dtype, out
        As for `cummax`.

    Returns
    -------
    ndarray

    See Also
    --------
    cummax, minimum, cumsum

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cummin([4, 5, 2, 3])
    array([4, 4, 2, 2])
    """
    return scan_along(_CUMMIN, a, axis, dtype, out)


@public_function(device_fast_path=device_fast_path_of(_EXCLUSIVE_SCAN))
def exclusive_scan(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the exclusive cumulative sum, of the elements before each element: 0, x0, x0 + x1, ...

    NumPy has no such function, so the engine ``"numpy"`` raises `Unsupported`.

    Parameters
    ----------
    a, axis, dtype, out
        As for `cumsum`.

    Returns
    -------
    ndarray

    See Also
    --------
    cumsum

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.exclusive_scan([1, 2, 3])
    array([0, 1, 3])
    """
    return scan_along(_EXCLUSIVE_SCAN, a, axis, dtype, out)


@public_function(numpy=getattr(np, "cumulative_sum", None))  # NumPy 2.0 has none
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Any:
    """Return the cumulative sum of the elements along a given axis, as the array API defines it.

    Parameters
    ----------
    x : array_like
        The array to sum.
    axis : int
        The axis to scan along; optional for an array of one dimension.
    dtype, out
        As for `cumsum`.
    include_initial : bool
        Whether the sum of no elements comes first.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.cumulative_sum : NumPy's function.
    cumsum, cumulative_prod

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cumulative_sum([1, 2, 3], include_initial=True)
    array([0, 1, 3, 6])
    """
    return _cumulative(_CUMULATIVE_SUM, x, axis, dtype, out, include_initial)


@public_function(numpy=getattr(np, "cumulative_prod", None))  # NumPy 2.0 has none
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Any:
    """Return the cumulative product of the elements along a given axis, as the array API defines it.

    Parameters
    ----------
    x, axis, dtype, out, include_initial
        As for `cumulative_sum`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.cumulative_prod : NumPy's function.
    cumprod, cumulative_sum

    Differs from NumPy
    ------------------
    Products of floats are computed with a separate exponent, so the last bits can differ from NumPy's, and
    only the result can overflow or underflow.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cumulative_prod([1, 2, 3, 4])
    array([ 1,  2,  6, 24])
    """
    return _cumulative(_CUMULATIVE_PROD, x, axis, dtype, out, include_initial)


def _cumulative(
    scan: ScanFunction, x: Any, axis: int | None, dtype: Any, out: Any, include_initial: bool
) -> Any:
    array = as_array(x)
    if array is None:
        compute = getattr(np, scan.name)
        return native_call.numpy_fallback(
            scan.name, lambda: compute(x, axis=axis, dtype=dtype, out=out, include_initial=include_initial)
        )
    array = np.atleast_1d(array)
    if axis is None:
        if array.ndim > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    refuse_byte_order(dtype)
    axis = axis_index(axis, array.ndim)
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if not include_initial:
        return scan_along(scan, array, axis, dtype, out)
    shape = tuple(n + (d == axis) for d, n in enumerate(array.shape))
    if out is None:
        result_dtype = None if dtype is None else np.dtype(dtype)
        out = allocator.empty(shape, result_type(scan.ufunc, array.dtype, result_dtype, None))
    else:
        check_out(out, shape)
    first, rest = ((slice(None),) * axis + (part,) for part in (slice(0, 1), slice(1, None)))
    scan_along(scan, array, axis, dtype, out[rest])
    out[first] = scan.ufunc.identity
    return out
