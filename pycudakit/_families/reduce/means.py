"""NumPy's means, variances and standard deviations, with one order of computing, as sums have."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pycudakit._families.reduce import device_fast_path, lowering, reduce_kernel
from pycudakit._families.reduce.reduction import (
    NONE,
    Reduction,
    operand_of,
    or_default,
    passed_keywords,
    reduce_whole,
)
from pycudakit._native import allocator
from pycudakit._native.dtypes import FLOAT64, Array
from pycudakit._runtime.native_call import extending_last_call
from pycudakit._runtime.operands import as_array
from pycudakit._runtime.public_function import public_function
from pycudakit._runtime.ufunc_arguments import refuse_byte_order


def mean_or_variance(
    name: str,
    lower: reduce_kernel.Lowering,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    keepdims: Any,
    where: Any,
    ddof: float = 0,
    mean: Any = NONE,
) -> Any:
    """Compute a mean, a variance or a standard deviation."""
    if axis is None and dtype is None and out is None and keepdims is where is mean is NONE and ddof == 0:
        result = reduce_whole(name, lower, a)
        if result is not None:
            return result
    _check_ddof(name, ddof)
    numpy_keywords = passed_keywords(keepdims=keepdims, where=where, mean=mean)
    if not name.endswith("mean"):
        numpy_keywords["ddof"] = ddof
    _refuse_dtype(name, a, dtype)
    operand = operand_of(a)
    numpy = functools.partial(getattr(np, name), operand, axis=axis, dtype=dtype, out=out, **numpy_keywords)
    unsupported = None if name.startswith("nan") else _why_numpy_mask(or_default(where, True))
    if dtype is None and isinstance(out, np.ndarray) and out.dtype.kind == "f":
        dtype = out.dtype  # so that the result is rounded only once
    if dtype is not None and np.dtype(dtype).kind != "f":
        unsupported = f"a dtype of {np.dtype(dtype)} for a mean"
    if mean is not NONE and np.broadcast_shapes(np.shape(a), np.shape(mean)) != np.shape(a):
        unsupported = "a mean that is larger than the array"
    if mean is not NONE and dtype is None and not name.startswith("nan"):
        off = np.result_type(np.asarray(a), mean if isinstance(mean, (int, float)) else np.asarray(mean))
        is_float = off.kind == "f" and np.asarray(a).dtype.kind == "f"
        if off.kind != "f":
            unsupported = "integers about a mean that is an integer"  # their differences may wrap around
        dtype = off if is_float else None  # the type of the differences, as in NumPy
    call = Reduction(
        name,
        lower,
        numpy,
        [a],
        axis,
        dtype=dtype,
        out=out,
        keepdims=or_default(keepdims, False),
        where=or_default(where, True),
        out_takes_part=False,
        unsupported=unsupported,
    )
    if not call.uses_numpy and not call.skips_nan and where is NONE and ddof >= call.length > 0:
        return call.by_numpy("there are no degrees of freedom")  # NumPy raises its own warnings
    if call.uses_numpy:
        return call.by_numpy()
    if call.skips_nan and call.out is not None and call.out.dtype.kind != "f":
        raise TypeError("If a is inexact, then out must be inexact")

    def finish(result: Array) -> Any:
        may_be_few = name.startswith("nan") or where is not NONE
        expected = call.warn_few_degrees_of_freedom(result, ddof, mean is not NONE) if may_be_few else None
        if mean is NONE or call.skips_nan:
            if name.endswith("mean"):
                call.warn(result, "reduce", expected)
            else:
                _warn_variance(call, result, expected)
        is_root = name.endswith("std")
        return call.finish(result, "same_kind" if is_root else "unsafe", saturates=not is_root)

    if mean is not NONE:
        return finish(_variance_about_mean(call, a, mean, or_default(where, True), ddof, name))
    return call.compute(finish, ddof=ddof)


def _check_ddof(name: str, ddof: Any) -> None:
    """Raise NumPy's error for degrees of freedom that are no number."""
    if type(ddof) not in (int, float):
        _ = np.ones(1, int) - ddof if name.startswith("nan") else np.intp(1) <= ddof


def _refuse_dtype(name: str, a: Any, dtype: Any) -> None:
    """Raise NumPy's error where a mean, a variance or a standard deviation cannot be of a type."""
    refuse_byte_order(dtype)
    if dtype is None or not name.startswith("nan") or issubclass(np.dtype(dtype).type, np.inexact):
        return
    array = as_array(a)
    if array is not None and array.dtype.kind == "f":
        raise TypeError("If a is inexact, then dtype must be inexact")


def _why_numpy_mask(where: Any) -> str | None:
    """Return why only NumPy supports a mask (it sums the mask to count it), or None; raise NumPy's error."""
    if where is True or isinstance(where, np.ndarray):
        return None
    values = np.asarray(where)
    if values.dtype == bool:
        return None
    np.add.reduce(values, axis=None, dtype=np.intp)
    if np.array_equal(values.astype(np.intp), values.astype(bool)):
        return None
    return "a where with other numbers than 0 and 1"


def _warn_variance(call: Reduction, result: Array, expected: Array | None) -> None:
    """Warn where NumPy's steps give infinities or NaN: the mean, the differences from it, their squares."""
    if call.is_finite(result):
        return
    mean = call.also_reduce(lowering.NANMEAN if call.skips_nan else lowering.MEAN)
    expected = np.zeros(result.shape, bool) if expected is None else expected
    call.warn(result, "reduce", expected | ~np.isnan(mean))
    if expected.any() and call.has_floats:  # differences of infinities from their mean are invalid, too
        expected = expected & (call.also_reduce(lowering.COUNT_INF) == 0)
    call.warn(
        result, "subtract", expected | np.isnan(mean), over="square" if np.isfinite(mean).all() else "reduce"
    )


def _variance_about_mean(call: Reduction, a: Any, mean: Any, where: Any, ddof: float, name: str) -> Array:
    """Compute a variance or a standard deviation about a given mean m.

    The sum of the squared differences from m is that of the squared differences from the mean, and
    n (mean - m)^2. So the result has the bits of a call without `mean` where m is the mean.
    """
    skips, is_root = call.skips_nan, name.endswith("std")
    if is_root:
        lower = lowering.NANSTD if skips else lowering.STD
    else:
        lower = lowering.NANVAR if skips else lowering.VAR
    own = Reduction(name, lower, call.numpy, [a], call.axes, dtype=FLOAT64, where=where)
    lower = lowering.NANMEAN_DIFFERENCE if skips else lowering.MEAN_DIFFERENCE
    differences = Reduction(name, lower, call.numpy, [a, mean], call.axes, where=where)
    if own.uses_numpy or differences.uses_numpy:
        return np.asarray(call.by_numpy())
    spread, off = own.reduce(ddof=ddof), extending_last_call(differences.reduce)
    allocator.access_on_host(spread, off)

    def freedom() -> Any:
        count = call.also_reduce(lowering.COUNT_NOT_NAN if skips else lowering.COUNT_ELEMENTS)
        return count, np.maximum(count - ddof, 0)

    with np.errstate(all="ignore"):
        count, free = freedom() if ddof else (1, 1)
        if is_root:
            result = spread * np.sqrt(1 + (off / spread) ** 2 * (count / free))
        else:
            result = spread + off * off * (count / free)
        if not np.isfinite(result).all():  # infinities, constant values, or no degrees of freedom
            sums = differences.also_reduce(
                lowering.NANSUM_SQUARED_DEVIATIONS if skips else lowering.SUM_SQUARED_DEVIATIONS
            )
            variance = sums / freedom()[1]
            result = np.where(np.isfinite(result), result, np.sqrt(variance) if is_root else variance)
    return np.asarray(result, call.result_type)


@public_function(numpy=np.mean, device_fast_path=device_fast_path.reduction("mean", lowering.MEAN))
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NONE, *, where: Any = NONE
) -> Any:
    """Compute the arithmetic mean along the specified axis.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    dtype, out, keepdims, where
        As for `numpy.mean`; `dtype` is the result's type, and the sum is in float64.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.mean : NumPy's function.
    average, std, nanmean

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's, and only the
    result can overflow, not a partial sum.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.mean([[1, 2], [3, 4]], axis=1)
    array([1.5, 3.5])
    """
    return mean_or_variance("mean", lowering.MEAN, a, axis, dtype, out, keepdims, where)


@public_function(numpy=np.var, device_fast_path=device_fast_path.reduction("var", lowering.VAR))
def var(
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
    """Compute the variance along the specified axis, in one pass.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    ddof, correction : float, optional
        The number subtracted from the number of elements in the divisor; the two are the same.
    dtype, out, keepdims, where, mean
        As for `numpy.var`; `dtype` is the result's type.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.var : NumPy's function.
    std, mean, nanvar

    Differs from NumPy
    ------------------
    Floats take one pass with compensated sums, so the last bits can differ from NumPy's.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.var([[1, 2], [3, 5]], axis=1)
    array([0.25, 1.  ])
    """
    freedom = ddof_or_correction(ddof, correction)
    return mean_or_variance("var", lowering.VAR, a, axis, dtype, out, keepdims, where, freedom, mean)


@public_function(numpy=np.std, device_fast_path=device_fast_path.reduction("std", lowering.STD))
def std(
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
    """Compute the standard deviation along the specified axis, in one pass.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    ddof, correction : float, optional
        The number subtracted from the number of elements in the divisor; the two are the same.
    dtype, out, keepdims, where, mean
        As for `numpy.std`; `dtype` is the result's type.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.std : NumPy's function.
    var, mean, nanstd

    Differs from NumPy
    ------------------
    Floats take one pass with compensated sums, so the last bits can differ from NumPy's.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.std([[1, 2], [3, 5]], axis=1)
    array([0.5, 1. ])
    """
    freedom = ddof_or_correction(ddof, correction)
    return mean_or_variance("std", lowering.STD, a, axis, dtype, out, keepdims, where, freedom, mean)


def ddof_or_correction(ddof: Any, correction: Any) -> Any:
    """Return `ddof` or its alias `correction`, whichever was passed."""
    if correction is NONE:
        return ddof
    if ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction
