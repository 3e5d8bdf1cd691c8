"""Sums of products: `dot` and `vdot` of vectors, tensor contractions by matrix products, and `average`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit._families.elementwise.ufuncs import divide, multiply
from pycudakit._families.matmul.matmul import product
from pycudakit._families.reduce import lowering
from pycudakit._families.reduce.means import mean
from pycudakit._families.reduce.reduction import NONE, Reduction, or_default, passed_keywords
from pycudakit._families.reduce.sums import sum
from pycudakit._families.reduce.truth_values import all
from pycudakit._native import allocator
from pycudakit._native.dtypes import FLOAT32, FLOAT64
from pycudakit._runtime import native_call, operands
from pycudakit._runtime.public_function import public_function


def multiply_by_scalar(
    multiply: Callable[..., Any],
    a: Any,
    b: Any,
    out: Any = None,
) -> Any:
    """Multiply by a scalar as `dot` and `inner` do: as an array of its own type, into C order."""
    x, y = np.asarray(a), np.asarray(b)
    dtype = np.result_type(x, y)
    if out is None and x.ndim + y.ndim == 2 and dtype in (FLOAT32, FLOAT64):  # types of NumPy's BLAS
        out = allocator.empty((*x.shape, *y.shape), dtype)
    return multiply(x, y, out=out)


def _numpy_dot(a: Any, b: Any, out: Any = None) -> Any:
    return np.dot(a, b, out) if np.ndim(a) and np.ndim(b) else multiply_by_scalar(np.multiply, a, b, out)


@public_function(numpy=_numpy_dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Return the dot product of two arrays: of two vectors, or the matrix product.

    For two vectors of floats, products are summed in float64 with compensation (double-double); for more
    dimensions, the result is that of `matmul`.

    Parameters
    ----------
    a, b : array_like
        Arrays such that the last axis of `a` is as long as the second-to-last axis of `b`, or its only one.
        Either may be a scalar, which multiplies the other.
    out : ndarray, optional
        Where to put the result.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.dot : NumPy's function.
    matmul, vdot, vecdot, inner

    Differs from NumPy
    ------------------
    Sums of products are added in the order of the library that multiplies (NumPy's BLAS, cuBLAS or
    pycudakit's loops), so the last bits depend on the engine.

    Examples
    --------
    >>> import pycudakit as pk
    >>> int(pk.dot([1, 2, 3], [4, 5, 6]))
    32
    """
    x, y = np.asarray(a), np.asarray(b)
    if x.ndim == 0 or y.ndim == 0:
        return multiply_by_scalar(multiply, x, y, out)
    axis = max(y.ndim - 2, 0)
    if x.shape[-1] != y.shape[axis]:
        shapes = " and ".join(str(v.shape).replace(" ", "") for v in (x, y))
        raise ValueError(
            f"shapes {shapes} not aligned: {x.shape[-1]} (dim {x.ndim - 1}) != {y.shape[axis]} (dim {axis})"
        )
    numpy = functools.partial(np.dot, a, b, out)
    if out is not None:
        shape = (*x.shape[:-1], *y.shape[:axis], *y.shape[axis + 1 :])
        if out.dtype != np.result_type(x, y) or out.shape != shape or not out.flags.c_contiguous:
            return numpy()  # raises
    if max(x.ndim, y.ndim) > 1:
        return contract("dot", functools.partial(np.dot, a, b), a, b, axis, out)
    return sum_of_products("dot", numpy, a, b, out=out)


def contract(name: str, numpy: Any, a: Any, b: Any, axis: int, out: Any = None) -> Any:
    """Contract the last axis of `a` with an axis of `b`; the other axes keep their order.

    `numpy` computes the same, without `out`.
    """
    x, y = operands.as_array(a), operands.as_array(b)
    if x is None or y is None:
        result = product(name, numpy, a, b)
    else:
        left = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        moved = np.moveaxis(y, axis, 0)
        right = moved.reshape(moved.shape[0], math.prod(moved.shape[1:]))
        flat = left.shape[0], right.shape[1]
        target = out
        if out is not None:
            overlaps = np.may_share_memory(out, x) or np.may_share_memory(out, y)
            target = None if overlaps or not isinstance(out, np.ndarray) else out.reshape(flat)
        result = product(
            name,
            lambda: operands.with_shape(np.asarray(numpy()), flat),
            left,
            right,
            target,
            warns="dot",
        )
        if target is not None and result is target:
            return out
        result = operands.with_shape(result, (*x.shape[:-1], *moved.shape[1:]))
    if out is None:
        return result
    np.copyto(out, result)
    return out


def sum_of_products(
    name: str,
    numpy: Any,
    a: Any,
    b: Any,
    axis: Any = None,
    out: Any = None,
    *,
    casting: Any = "unsafe",
    warns: bool = True,
) -> Any:
    """Compute sums of products along an axis, or along all axes."""
    call = Reduction(name, lowering.DOT, numpy, [a, b], axis, out=out, out_takes_part=False)
    if call.uses_numpy:
        return call.by_numpy()
    result = call.reduce()
    if warns:
        call.warn(result, name)
    return call.finish(result, casting)


@public_function(numpy=np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """Return the dot product of two arrays of one size, each flattened to a vector.

    Parameters
    ----------
    a, b : array_like
        The arguments, of any shapes.

    Returns
    -------
    scalar

    See Also
    --------
    numpy.vdot : NumPy's function.
    dot, vecdot

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's, and only the
    result can overflow, not a partial sum.

    Examples
    --------
    >>> import pycudakit as pk
    >>> int(pk.vdot([[1, 2], [3, 4]], [[1, 1], [1, 1]]))
    10
    """
    x, y = np.asarray(a), np.asarray(b)
    numpy = functools.partial(np.vdot, a, b)
    if x.size != y.size:
        return numpy()  # raises
    if operands.as_array(a) is None or operands.as_array(b) is None:
        unsupported = "it takes bool, integers and floats of up to 64 bits"
        return Reduction("vdot", lowering.DOT, numpy, [a], unsupported=unsupported).by_numpy()
    if x.shape != y.shape:
        x, y = x.reshape(-1), y.reshape(-1)
    return sum_of_products("vdot", numpy, x, y, warns=False)  # np.vdot does not warn


@public_function(numpy=np.average, one_call="average")
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = NONE
) -> Any:
    """Compute the weighted average along the specified axis.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    weights : array_like, optional
        The weights, of the shape of `a`, or of its shape along `axis`.
    returned : bool, optional
        Whether to return the sum of the weights, too.
    keepdims : bool, optional
        Whether the reduced axes stay, of length 1.

    Returns
    -------
    ndarray or scalar, or a tuple of two

    See Also
    --------
    numpy.average : NumPy's function.
    mean, sum

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's, and only the
    result can overflow, not a partial sum.

    Examples
    --------
    >>> import pycudakit as pk
    >>> float(pk.average([1, 2, 6], weights=[2, 1, 1]))
    2.5
    """
    passed = passed_keywords(keepdims=keepdims)
    numpy = functools.partial(np.average, a, axis, weights, returned, **passed)
    if operands.as_array(a) is None or (weights is not None and operands.as_array(weights) is None):
        return native_call.numpy_fallback("average", numpy)
    array = np.asarray(a)
    if axis is not None:
        axis = normalize_axis_tuple(axis, array.ndim, argname="axis")
    if weights is None:
        result = mean(a, axis, keepdims=or_default(keepdims, False))
        total = result.dtype.type(array.size / max(1, np.size(result)))
    else:
        weight_array = _weights_of(array, axis, np.asarray(weights))
        least = (FLOAT64,) if array.dtype.kind in "biu" else ()
        try:
            dtype = np.result_type(array.dtype, weight_array.dtype, *least)
        except TypeError:
            return numpy()  # raises
        unsupported = None if dtype.kind == "f" else f"weights of {weight_array.dtype}"
        call = Reduction(
            *("average", lowering.DOT, numpy, [array, weight_array], axis),
            dtype=FLOAT64,
            keepdims=or_default(keepdims, False),
            unsupported=unsupported,
        )
        if call.uses_numpy:
            return call.by_numpy()
        sums = call.finish(call.reduce())
        total = sum(weight_array, axis, FLOAT64, keepdims=or_default(keepdims, False))
        on_device = np.ndim(sums) > 0 and any(map(allocator.stays_on_device, (sums, total)))
        if not on_device:
            allocator.access_on_host(np.asarray(sums), np.asarray(total))
        all_nonzero = np.asarray(all(total) if on_device else np.all(total))
        allocator.access_on_host(all_nonzero)
        if not all_nonzero:
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        if on_device:
            result = divide(sums, total, out=allocator.empty(sums.shape, dtype))
        else:
            result = np.asarray(sums / total).astype(dtype)[()]
        if returned:
            allocator.access_on_host(np.asarray(total))
            total = np.asarray(total).astype(dtype)[()]
    if not returned:
        return result
    if np.shape(total) != np.shape(result):
        total = np.broadcast_to(total, np.shape(result)).copy()
    return result, total


def _weights_of(array: Any, axis: Any, weights: Any) -> Any:
    """Return weights in a shape that broadcasts along the axes; raise NumPy's errors."""
    if weights.shape == array.shape:
        return weights
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    if weights.shape != tuple(array.shape[d] for d in axis):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    weights = weights.transpose(np.argsort(axis))
    return weights.reshape(tuple(n if d in axis else 1 for d, n in enumerate(array.shape)))
