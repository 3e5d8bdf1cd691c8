"""NumPy's sums and products, with one order of computing.

Floats are summed in float64 with compensation (double-double), in an order that depends on their number
alone: the bits of a result don't depend on the engine, threads, chunks, GPUs or the memory's layout.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pycudakit._families.elementwise.ufuncs import signbit
from pycudakit._families.reduce import device_fast_path, lowering, reduce_kernel
from pycudakit._families.reduce.reduction import (
    NONE,
    Reduction,
    operand_of,
    or_default,
    passed_keywords,
    reduce_whole,
)
from pycudakit._families.reduce.truth_values import all, any
from pycudakit._native import allocator
from pycudakit._native.dtypes import Array
from pycudakit._runtime.lazy_array import FusedProducer
from pycudakit._runtime.native_call import extending_last_call
from pycudakit._runtime.operands import as_array
from pycudakit._runtime.public_function import public_function
from pycudakit._runtime.ufunc_arguments import refuse_byte_order


def reduce_like_ufunc(
    name: str,
    lower: reduce_kernel.Lowering,
    a: Any,
    axis: Any,
    out: Any,
    keepdims: Any,
    initial: Any,
    where: Any,
    dtype: Any = None,
) -> Any:
    """Compute one of the functions that NumPy has as a ufunc's `reduce`."""
    extreme = "min" in name or "max" in name
    if name in ("nanmax", "nanmin") and isinstance(out, tuple) and len(out) == 1:  # NumPy's take tuples, too
        (out,) = out
    if axis is None and dtype is None and out is None and keepdims is initial is where is NONE:
        result = reduce_whole(name, lower, a)
        if result is not None:
            return result
    numpy_keywords = passed_keywords(keepdims=keepdims, initial=initial, where=where)
    if dtype is not None:
        refuse_byte_order(dtype)
        numpy_keywords["dtype"] = dtype
    unsupported = None
    if initial is None and where is not NONE and where is not True:
        unsupported = "initial=None together with where"
    elif initial is not NONE and np.ndim(initial):
        unsupported = f"an initial value of type {type(initial).__name__}"
    numpy = functools.partial(getattr(np, name), operand_of(a), axis=axis, out=out, **numpy_keywords)
    if extreme and where is not NONE and where is not True and initial is NONE:
        return numpy()  # raises
    if extreme and initial is not NONE and isinstance(out, np.ndarray):
        a = _in_common_type(a, out)
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
        out_takes_part=not extreme,
        unsupported=unsupported,
    )
    if call.uses_numpy:
        return call.by_numpy()
    if initial is None:  # no initial value: the elements alone
        initial = NONE
    elif initial is not NONE:
        initial = np.array(initial, call.result_type)[()]  # with NumPy's conversion and errors
        if extreme and call.skips_nan and np.isnan(initial):  # a NaN initial value is skipped, too
            initial = NONE

    def finish(result: Array) -> Any:
        if name.endswith("sum") and initial is not NONE and initial == 0 and np.signbit(initial):
            _keep_negative_zero(call, result, or_default(where, True))
        if not extreme:
            has_plain_initial = initial is NONE or call.is_finite(result)
            call.warn(result, expected=None if has_plain_initial else _expected_from(initial, result))
        elif name.startswith("nan") and initial is NONE:
            place = "slice" if type(operand_of(a)) in (np.ndarray, FusedProducer) else "axis"
            call.warn_all_nan(result, f"All-NaN {place} encountered")
        return call.finish(result)

    return call.compute(finish, initial=or_default(initial, None))


def _in_common_type(a: Any, out: Array) -> Any:
    """Convert an array to the common type of it and an output, in which the initial value takes part."""
    array = as_array(a)
    if array is None or as_array(out) is None:
        return a
    common = np.result_type(array.dtype, out.dtype)
    return a if common == array.dtype else array.astype(common)


def _keep_negative_zero(call: Reduction, result: Array, where: Any) -> None:
    """Set sums to -0.0 that began with it and had nothing but -0.0 to add."""
    call.mark_modified()
    array = call.arrays[0]
    allocator.access_on_host(result)
    if (result == 0).any():
        something, negative = extending_last_call(
            lambda: (
                np.asarray(any(array, call.axes, where=where)),
                np.asarray(all(signbit(array), call.axes, where=where)),
            )
        )
        allocator.access_on_host(something, negative)
        allocator.access_on_host(result, will_change=True)
        result[negative & ~something] = -0.0


def _expected_from(initial: Any, result: Array) -> Array:
    """Return a mask of results that are NaN or infinite because the initial value is."""
    expected: Array = np.isnan(initial) | (np.isinf(initial) & np.isinf(result))
    return expected


@public_function(numpy=np.sum, device_fast_path=device_fast_path.reduction("sum", lowering.SUM))
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NONE,
    initial: Any = NONE,
    where: Any = NONE,
) -> Any:
    """Return the sum of array elements over a given axis.

    Floats are summed in float64 with compensation (double-double); integers wrap around, as NumPy's do.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    dtype, out, keepdims, initial, where
        As for `numpy.sum`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.sum : NumPy's function.
    mean, cumsum, nansum

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's, and only the
    result can overflow, not a partial sum.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.sum([[1, 2], [3, 4]], axis=0)
    array([4, 6])
    >>> float(pk.sum([1e16, 1.0, -1e16]))
    1.0
    """
    return reduce_like_ufunc("sum", lowering.SUM, a, axis, out, keepdims, initial, where, dtype)


@public_function(numpy=np.prod, device_fast_path=device_fast_path.reduction("prod", lowering.PROD))
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NONE,
    initial: Any = NONE,
    where: Any = NONE,
) -> Any:
    """Return the product of array elements over a given axis.

    Floats are multiplied in float64 with a separate exponent, so that only the result can overflow.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    dtype, out, keepdims, initial, where
        As for `numpy.prod`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.prod : NumPy's function.
    sum, cumprod, nanprod

    Differs from NumPy
    ------------------
    Products of floats are computed with a separate exponent, so the last bits can differ from NumPy's, and
    only the result can overflow or underflow.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.prod([[1, 2], [3, 4]], axis=1)
    array([ 2, 12])
    """
    return reduce_like_ufunc("prod", lowering.PROD, a, axis, out, keepdims, initial, where, dtype)
