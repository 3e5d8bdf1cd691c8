"""NumPy's minima, maxima, their indices (argmin, argmax) and their range (ptp)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pycudakit._families.elementwise.ufuncs import subtract
from pycudakit._families.reduce import device_fast_path, lowering, reduce_kernel
from pycudakit._families.reduce.reduction import (
    NONE,
    Reduction,
    operand_of,
    or_default,
    passed_keywords,
    reduce_whole,
)
from pycudakit._families.reduce.sums import reduce_like_ufunc
from pycudakit._native.dtypes import Array
from pycudakit._runtime import operands
from pycudakit._runtime.public_function import public_function


@public_function(numpy=np.min, device_fast_path=device_fast_path.reduction("min", lowering.MIN))
def min(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = NONE,
    initial: Any = NONE,
    where: Any = NONE,
) -> Any:
    """Return the minimum of an array or minimum along an axis; NaN propagates.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    out, keepdims, initial, where
        As for `numpy.min`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.min : NumPy's function.
    max, argmin, minimum, nanmin

    Differs from NumPy
    ------------------
    Among zeros of both signs, either may be the result.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.min([[1, 2], [4, 3]], axis=1)
    array([1, 3])
    """
    return reduce_like_ufunc("min", lowering.MIN, a, axis, out, keepdims, initial, where)


@public_function(numpy=np.max, device_fast_path=device_fast_path.reduction("max", lowering.MAX))
def max(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = NONE,
    initial: Any = NONE,
    where: Any = NONE,
) -> Any:
    """Return the maximum of an array or maximum along an axis; NaN propagates.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    out, keepdims, initial, where
        As for `numpy.max`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.max : NumPy's function.
    min, argmax, maximum, nanmax

    Differs from NumPy
    ------------------
    Among zeros of both signs, either may be the result.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.max([[1, 2], [4, 3]], axis=0)
    array([4, 3])
    """
    return reduce_like_ufunc("max", lowering.MAX, a, axis, out, keepdims, initial, where)


amin, amax = min, max


def arg_extremum_like(
    name: str, lower: reduce_kernel.Lowering, a: Any, axis: Any, out: Any, keepdims: Any
) -> Any:
    """Compute the index of a minimum or a maximum."""
    if axis is None and out is None and keepdims is NONE and not name.startswith("nan"):
        result = reduce_whole(name, lower, a)
        if result is not None:
            return result
    numpy_keywords = passed_keywords(keepdims=keepdims)
    numpy = functools.partial(getattr(np, name), operand_of(a), axis=axis, out=out, **numpy_keywords)
    is_refused = isinstance(out, tuple) or (out is not None and not np.can_cast(np.asarray(out), np.intp))
    if isinstance(axis, tuple) or is_refused:
        return numpy()  # raises
    keeps = or_default(keepdims, False)
    call = Reduction(name, lower, numpy, [a], axis, out=out, keepdims=keeps, out_takes_part=False)
    if call.uses_numpy:
        return call.by_numpy()

    def finish(result: Array) -> Any:
        if name.startswith("nan") and call.arrays[0].dtype.kind == "f":
            call.raise_if_all_nan(result)
        return call.finish(result)

    return call.compute(finish)


@public_function(numpy=np.argmin, device_fast_path=device_fast_path.reduction("argmin", lowering.ARGMIN))
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NONE) -> Any:
    """Return the indices of the minimum values along an axis; the first one of equal values.

    Parameters
    ----------
    a : array_like
        The argument; the first NaN, if there is one, is the minimum.
    axis : int, optional
        The axis to reduce; by default, an index into the flattened array is returned.
    out, keepdims
        As for `numpy.argmin`.

    Returns
    -------
    ndarray or int

    See Also
    --------
    numpy.argmin : NumPy's function.
    argmax, min, nanargmin

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.argmin([[3, 1, 1], [5, 6, 4]], axis=1)
    array([1, 2])
    """
    return arg_extremum_like("argmin", lowering.ARGMIN, a, axis, out, keepdims)


@public_function(numpy=np.argmax, device_fast_path=device_fast_path.reduction("argmax", lowering.ARGMAX))
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NONE) -> Any:
    """Return the indices of the maximum values along an axis; the first one of equal values.

    Parameters
    ----------
    a : array_like
        The argument; the first NaN, if there is one, is the maximum.
    axis : int, optional
        The axis to reduce; by default, an index into the flattened array is returned.
    out, keepdims
        As for `numpy.argmax`.

    Returns
    -------
    ndarray or int

    See Also
    --------
    numpy.argmax : NumPy's function.
    argmin, max, nanargmax

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.argmax([[3, 7, 7], [5, 6, 4]], axis=1)
    array([1, 1])
    """
    return arg_extremum_like("argmax", lowering.ARGMAX, a, axis, out, keepdims)


@public_function(numpy=np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NONE) -> Any:
    """Return the range of values (maximum - minimum) along an axis.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    out, keepdims
        As for `numpy.ptp`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.ptp : NumPy's function.
    max, min

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.ptp([[4, 9], [2, 3]], axis=1)
    array([5, 1])
    """
    numpy_keywords = passed_keywords(keepdims=keepdims)
    numpy = functools.partial(np.ptp, operand_of(a), axis=axis, out=out, **numpy_keywords)
    array = operands.as_array(operand_of(a))
    if array is not None and array.dtype == bool:
        return numpy()  # raises

    keeps = or_default(keepdims, False)
    call = Reduction("ptp", lowering.PTP, numpy, [a], axis, out=out, keepdims=keeps, out_takes_part=False)
    if call.uses_numpy:
        return call.by_numpy()
    if call.out is not None and call.out.dtype != call.result_type:
        return _ptp_to(call.out, a, axis, keeps)

    def finish(result: Array) -> Any:
        call.warn(result, "subtract")
        return call.finish(result)

    return call.compute(finish)


@public_function(one_call="ptp")
def _ptp_to(out: Array, a: Any, axis: Any, keepdims: Any) -> Array:
    """Compute `ptp` to an output of another type, in NumPy's steps."""
    resolve: Any = np.subtract.resolve_dtypes
    resolve((out.dtype, np.asarray(a).dtype, out.dtype))  # raises NumPy's error before anything is written
    return subtract(max(a, axis, out, keepdims), min(a, axis, None, keepdims), out=out)  # type: ignore[no-any-return]
