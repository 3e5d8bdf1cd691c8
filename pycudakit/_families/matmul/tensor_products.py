"""NumPy's products of arrays of any dimensions: `inner outer vecdot tensordot kron`, and `trace`.

Contractions are reshaped to matrix products or to sums of products along the last axis.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._families.elementwise.ufunc_methods import as_ufunc
from pycudakit._families.elementwise.ufuncs import multiply
from pycudakit._families.matmul import host_contraction
from pycudakit._families.matmul.contraction import contract_axes, kronecker
from pycudakit._families.matmul.dot import contract, dot, multiply_by_scalar, sum_of_products
from pycudakit._families.matmul.matmul import NONE, laid_out
from pycudakit._families.reduce import sums
from pycudakit._runtime import native_call
from pycudakit._runtime.operands import as_array
from pycudakit._runtime.public_function import public_function
from pycudakit._runtime.ufunc_arguments import as_order, as_out, broadcast_shapes, refuse_byte_order


def _numpy_inner(a: Any, b: Any, /) -> Any:
    return np.inner(a, b) if np.ndim(a) and np.ndim(b) else multiply_by_scalar(np.multiply, a, b)


def _numpy_kron(a: Any, b: Any) -> Any:
    if np.ndim(a) and np.ndim(b):
        return np.array(np.kron(a, b), order="C", copy=None)
    return np.multiply(np.asarray(a), np.asarray(b))


@public_function(numpy=_numpy_inner, one_call="inner")
def inner(a: Any, b: Any, /) -> Any:
    """Compute the inner product of two arrays: the sum of products over the last axes.

    Parameters
    ----------
    a, b : array_like
        Arrays whose last axes have the same length; or one of them a scalar.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.inner : NumPy's function.
    dot, tensordot

    Differs from NumPy
    ------------------
    Sums of products are added in the order of the library that multiplies (NumPy's BLAS, cuBLAS or
    pycudakit's loops), so the last bits depend on the engine.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.inner([[1, 2], [3, 4]], [10, 1])
    array([12, 34])
    """
    x, y = np.asarray(a), np.asarray(b)
    if x.ndim == 0 or y.ndim == 0:
        return multiply_by_scalar(multiply, x, y)
    numpy = functools.partial(np.inner, a, b)
    if x.shape[-1] != y.shape[-1]:
        return numpy()  # raises
    if x.ndim == y.ndim == 1:
        return dot(a, b)
    return contract("inner", numpy, a, b, y.ndim - 1)


@public_function(numpy=np.outer, one_call="outer")
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Compute the outer product of two vectors.

    Parameters
    ----------
    a, b : array_like
        Vectors; other arrays are flattened.
    out : ndarray, optional
        Where to put the result.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.outer : NumPy's function.
    multiply, kron

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.outer([1, 2], [3, 4, 5])
    array([[ 3,  4,  5],
           [ 6,  8, 10]])
    """
    if as_array(a) is None or as_array(b) is None:
        return native_call.numpy_fallback("outer", functools.partial(np.outer, a, b, out))
    return multiply(np.asarray(a).ravel()[:, None], np.asarray(b).ravel()[None, :], out=out)


@as_ufunc
@public_function(numpy=np.vecdot, one_call="vecdot")
def vecdot(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    axes: Any = NONE,
    axis: Any = NONE,
    keepdims: Any = False,
    casting: Any = "same_kind",
    order: Any = "K",
    dtype: Any = None,
    subok: bool = True,
    signature: Any = None,
    sig: Any = None,
) -> Any:
    """Compute the vector dot product of two arrays, along one axis.

    Products of floats are summed in float64 with compensation (double-double), in the same order on every
    engine.

    Parameters
    ----------
    x1, x2 : array_like
        Stacks of vectors, which broadcast together.
    out : ndarray, optional
        Where to put the result.
    axis : int, optional
        The axis of each, before they are broadcast; the last by default.
    axes : list, optional
        The axis of each, and of the result with `keepdims`.
    keepdims : bool, optional
        Whether the axis stays, of length 1.
    casting, dtype, order, subok, signature, sig
        As for `numpy.vecdot`. Calls with a signature are computed by NumPy.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.vecdot : NumPy's function.
    dot, vdot, matmul

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's, and only the
    result can overflow, not a partial sum.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.vecdot([[1, 2], [3, 4]], [10, 1])
    array([12, 34])
    """
    keywords = {"axes": axes, "axis": axis, "keepdims": keepdims, "casting": casting, "order": order}
    keywords |= {"dtype": dtype, "subok": subok, "signature": signature, "sig": sig}
    keywords = {name: value for name, value in keywords.items() if value is not _DEFAULTS[name]}
    out = as_out(out)
    if out is ...:
        return np.asarray(vecdot(x1, x2, **keywords))
    numpy = functools.partial(np.vecdot, x1, x2, out, **keywords)
    if not isinstance(keepdims, bool):
        return numpy()  # raises
    order = as_order(order)
    unsupported = next((f"the argument {name}" for name in ("signature", "sig") if name in keywords), None)
    x, y = as_array(x1), as_array(x2)
    if x is None or y is None or unsupported is not None or (out is not None and as_array(out) is None):
        return native_call.numpy_fallback("vecdot", numpy, unsupported)
    try:
        first, second, kept_axis = vecdot_axes(axes, axis, keepdims)
        x, y = np.moveaxis(x, first, -1), np.moveaxis(y, second, -1)
        moved = out if out is None or not keepdims else np.moveaxis(out, kept_axis, -1)[..., 0]
        shape = broadcast_shapes(x.shape[:-1], y.shape[:-1], () if moved is None else moved.shape)
    except (TypeError, ValueError):
        return numpy()  # raises
    if x.shape[-1] != y.shape[-1] or not (out is None or isinstance(out, np.ndarray)):
        return numpy()  # raises
    if dtype is not None:
        refuse_byte_order(dtype)
        if not all(np.can_cast(array.dtype, dtype, casting) for array in (x, y)):
            return numpy()  # raises
        x, y = (array.astype(dtype, copy=False) for array in (x, y))
    x = np.broadcast_to(x, (*shape, x.shape[-1]))
    by_numpy = functools.partial(np.vecdot, x, y, moved, casting=casting)
    result = sum_of_products("vecdot", by_numpy, x, y, -1, moved, casting=casting)
    if out is not None:
        return out
    result = np.moveaxis(np.expand_dims(result, -1), -1, kept_axis) if keepdims else result
    return laid_out(result, order)


_DEFAULTS = {"axes": NONE, "axis": NONE, "keepdims": False, "casting": "same_kind", "order": "K"}
_DEFAULTS |= {"dtype": None, "subok": True, "signature": None, "sig": None}


def vecdot_axes(axes: Any, axis: Any, keepdims: Any) -> tuple[int, int, int]:
    """Return the axes of the vectors in each operand, and the result's axis that `keepdims` keeps."""
    if axes is NONE:
        index = -1 if axis is NONE else _as_index(axis)
        return index, index, index
    if axis is not NONE or not isinstance(axes, list):
        raise TypeError("axes must be a list, and excludes axis")
    first, second, kept_axis = axes if len(axes) == 3 else (*axes, -1 if keepdims else ())
    if not keepdims and kept_axis != ():
        raise ValueError("axes: the result has no vector axis without keepdims")
    three = (first, second, kept_axis if keepdims else 0)
    first, second, kept_axis = (at[0] if type(at) is tuple and len(at) == 1 else at for at in three)
    return _as_index(first), _as_index(second), _as_index(kept_axis)


def _as_index(axis: Any) -> int:
    if isinstance(axis, bool):  # an integer to Python, and not to NumPy's ufuncs
        raise TypeError("an integer is required")
    return operator.index(axis)


@public_function(numpy=np.tensordot, one_call="tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Compute tensor dot product along specified axes.

    Parameters
    ----------
    a, b : array_like
        The arguments.
    axes : int, or a pair of ints or of lists of them, optional
        The number of last axes of `a` and first axes of `b` to sum over; or the axes of each.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.tensordot : NumPy's function.
    einsum, matmul, inner

    Differs from NumPy
    ------------------
    Sums of products are added in the order of the library that multiplies (NumPy's BLAS, cuBLAS or
    pycudakit's loops), so the last bits depend on the engine.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.tensordot([[1, 2], [3, 4]], [[1, 2], [3, 4]], axes=([0], [1]))
    array([[ 7, 15],
           [10, 22]])
    """
    numpy = functools.partial(np.tensordot, a, b, axes)
    x, y = as_array(a), as_array(b)
    if x is None or y is None:
        return native_call.numpy_fallback("tensordot", numpy)
    parsed = contracted_axes(axes, x.shape, y.shape)
    if parsed is None:
        return numpy()  # NumPy raises, or accepts unusual axes
    return contract_axes(host_contraction, "tensordot", x, y, parsed)


def contracted_axes(
    axes: Any, first: tuple[int, ...], second: tuple[int, ...]
) -> tuple[list[int], list[int]] | None:
    """Return the axes of two shapes that `tensordot` sums over; None if the axes do not match."""
    try:
        of_first, of_second = (
            [normalize_axis_index(axis, len(shape)) for axis in axes_of_one]
            for axes_of_one, shape in zip(_axes_of_each(axes), (first, second), strict=True)
        )
    except (TypeError, ValueError):
        return None
    fits = [first[i] for i in of_first] == [second[j] for j in of_second]
    is_twice = len({*of_first}) < len(of_first) or len({*of_second}) < len(of_second)
    return (of_first, of_second) if fits and not is_twice else None


def _axes_of_each(axes: Any) -> tuple[list[int], list[int]]:
    try:
        iter(axes)
    except TypeError:
        count = operator.index(axes)
        return list(range(-count, 0)), list(range(count))
    first, second = axes
    return ([*first] if np.iterable(first) else [first], [*second] if np.iterable(second) else [second])


@public_function(numpy=_numpy_kron, one_call="kron")
def kron(a: Any, b: Any) -> Any:
    """Compute the Kronecker product of two arrays: copies of `b`, scaled by the elements of `a`.

    Parameters
    ----------
    a, b : array_like
        The arguments.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.kron : NumPy's function.
    outer, multiply

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.kron([1, 10], [[1, 2]])
    array([[ 1,  2, 10, 20]])
    """
    x, y = as_array(a), as_array(b)
    if x is None or y is None:
        return native_call.numpy_fallback("kron", functools.partial(np.kron, a, b))
    if x.ndim == 0 or y.ndim == 0:
        return multiply(x, y)
    return kronecker(x, y, host_contraction.multiply)


@public_function(numpy=np.trace, one_call="trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """Return the sum along diagonals of the array, computed by `sum`.

    Parameters
    ----------
    a : array_like
        A matrix, or more dimensions.
    offset : int, optional
        The offset of the diagonal above the main one.
    axis1, axis2 : int, optional
        The axes of the matrices.
    dtype, out
        As for `numpy.trace`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.trace : NumPy's function.
    sum, einsum

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's, and only the
    result can overflow, not a partial sum.

    Examples
    --------
    >>> import pycudakit as pk
    >>> int(pk.trace([[1, 2], [3, 4]]))
    5
    """
    array = as_array(a)
    numpy = functools.partial(np.trace, a, offset, axis1, axis2, dtype, out)
    if array is None:
        return native_call.numpy_fallback("trace", numpy)
    try:
        diagonal = np.diagonal(array, offset, axis1, axis2)
    except (TypeError, ValueError):
        return numpy()  # raises
    result_dtype = (
        None if dtype is None else np.dtype(dtype).newbyteorder("=")
    )  # ndarray.trace accepts any byte order
    return sums.sum(diagonal, -1, result_dtype, out)
