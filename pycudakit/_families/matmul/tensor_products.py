"""NumPy's products of arrays of any dimensions: `inner outer vecdot tensordot einsum kron`, and `trace`.

Contractions are reshaped to matrix products or to sums of products along the last axis.
"""

from __future__ import annotations

import functools
import math
import operator
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._families.elementwise.manipulation import (
    ascontiguousarray,
    contiguous,
    copy_function,
    with_layout_of,
)
from pycudakit._families.elementwise.ufunc_methods import as_ufunc
from pycudakit._families.elementwise.ufuncs import multiply
from pycudakit._families.matmul.dot import contract, dot, multiply_by_scalar, sum_of_products
from pycudakit._families.matmul.matmul import NONE, laid_out, product
from pycudakit._families.reduce import sums_and_means
from pycudakit._native import allocator
from pycudakit._native.dtypes import Array
from pycudakit._runtime import native_call
from pycudakit._runtime.dispatch_cache import numpy_for_small
from pycudakit._runtime.engine_choice import Cost, choose_engine
from pycudakit._runtime.native_call import logged_as_one_call
from pycudakit._runtime.operands import as_array
from pycudakit._runtime.ufunc_arguments import as_order, as_out, broadcast_shapes, refuse_byte_order


def _numpy_inner(a: Any, b: Any, /) -> Any:
    return np.inner(a, b) if np.ndim(a) and np.ndim(b) else multiply_by_scalar(np.multiply, a, b)


def _numpy_kron(a: Any, b: Any) -> Any:
    if np.ndim(a) and np.ndim(b):
        return np.array(np.kron(a, b), order="C", copy=None)
    return np.multiply(np.asarray(a), np.asarray(b))


@numpy_for_small(_numpy_inner)
@logged_as_one_call("inner")
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


@numpy_for_small(np.outer)
@logged_as_one_call("outer")
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
@numpy_for_small(np.vecdot)
@logged_as_one_call("vecdot")
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


@numpy_for_small(np.tensordot)
@logged_as_one_call("tensordot")
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
    of_x, of_y = parsed
    kept_of_x = [d for d in range(x.ndim) if d not in of_x]
    kept_of_y = [d for d in range(y.ndim) if d not in of_y]
    depth = math.prod(x.shape[d] for d in of_x)
    shape = (*(x.shape[d] for d in kept_of_x), *(y.shape[d] for d in kept_of_y))
    left = _as_matrix(x, [*kept_of_x, *of_x], math.prod(x.shape[d] for d in kept_of_x), depth)
    right = _as_matrix(y, [*of_y, *kept_of_y], depth, math.prod(y.shape[d] for d in kept_of_y))
    flat = left.shape[0], right.shape[1]
    result = product("tensordot", lambda: numpy().reshape(flat), left, right, warns="dot")
    return result.reshape(shape)


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


def _as_matrix(array: Array, order: list[int], *shape: int) -> Array:
    """Return an array with its axes in an order and grouped to a matrix: a view if possible."""
    matrix: Array = contiguous(array.transpose(order)).reshape(shape)
    return matrix


@numpy_for_small(_numpy_kron)
@logged_as_one_call("kron")
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
    count = max(x.ndim, y.ndim)
    x = x.reshape((1,) * (count - x.ndim) + x.shape)
    y = y.reshape((1,) * (count - y.ndim) + y.shape)
    sizes = list(zip(x.shape, y.shape, strict=True))
    of_x = tuple(size for n, _ in sizes for size in (n, 1))
    of_y = tuple(size for _, n in sizes for size in (1, n))
    out = allocator.empty(tuple(size for pair in sizes for size in pair), np.result_type(x, y))
    multiply(x.reshape(of_x), y.reshape(of_y), out=out)
    return out.reshape([n * m for n, m in sizes])


@numpy_for_small(np.trace)
@logged_as_one_call("trace")
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
    return sums_and_means.sum(diagonal, -1, result_dtype, out)


_EINSUM = copy_function("einsum", np.copy)

# ---- einsum ------------------------------------------------------------------------------------------


@numpy_for_small(np.einsum)
@logged_as_one_call("einsum")
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    """Evaluate the Einstein summation convention on the operands.

    With one operand: sums, diagonals and transpositions; with two: products of matrices, of vectors or of
    elements, and sums of those. Calls with more operands, ellipses, lists of axes or keywords are computed by
    NumPy.

    Parameters
    ----------
    *operands : str and array_like
        The subscripts and the arguments, as for `numpy.einsum`.
    out : ndarray, optional
        Where to put the result.
    optimize, **kwargs
        As for `numpy.einsum`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.einsum : NumPy's function.
    tensordot, matmul, inner, trace

    Differs from NumPy
    ------------------
    Sums of products are added in the order of the library that multiplies (NumPy's BLAS, cuBLAS or
    pycudakit's loops), so the last bits depend on the engine. NumPy computes three operands or more,
    ellipses and keywords other than `out`, under `auto` only.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.einsum("ij,jk->ik", [[1, 2], [3, 4]], [[1, 0], [1, 1]])
    array([[3, 2],
           [7, 4]])
    """
    keywords = kwargs if out is None else {**kwargs, "out": out}
    numpy = functools.partial(np.einsum, *operands, optimize=optimize, **keywords)
    if not operands:
        return numpy()  # raises
    subscripts, operands = operands[0], operands[1:]
    arrays = [as_array(value) for value in operands]
    parsed = None if kwargs or optimize or len(arrays) > 2 else parse_subscripts(subscripts, arrays)
    ordinary = [array for array in arrays if array is not None]
    if parsed is None or "." in subscripts:
        if isinstance(subscripts, str) and not operands:
            return numpy()  # raises
        return native_call.numpy_fallback(
            "einsum", numpy, "einsum with such subscripts, operands or keywords"
        )
    sizes: dict[str, int] = {}
    for labels, array in zip(parsed[:-1], ordinary, strict=True):
        for label, size in zip(labels, array.shape, strict=True):
            if sizes.setdefault(label, size) != size:
                if 1 in (size, sizes[label]):  # NumPy broadcasts them
                    return native_call.numpy_fallback("einsum", numpy, "einsum of axes that broadcast")
                return numpy()  # raises
    choice = choose_engine("einsum", arrays, Cost(0.0 if _is_small(sizes) else None, 0.0, 0, 0))
    if choice.engine == "numpy":
        return native_call.run_numpy("einsum", choice.reason, numpy)
    dtype = np.result_type(*ordinary).newbyteorder("=")
    result = np.asarray(_einsum(parsed, ordinary, dtype, sizes))
    if out is None:
        return (
            with_layout_of(_EINSUM, result, _empty_in_nditer_order(parsed, ordinary, result.dtype))
            if parsed[-1]
            else result[()]
        )
    if not isinstance(out, np.ndarray) or out.shape != result.shape:
        return numpy()  # raises
    if not np.can_cast(dtype, out.dtype, "safe"):
        return numpy()  # raises
    np.copyto(out, result)
    return out


def _empty_in_nditer_order(parsed: list[str], arrays: list[Array], dtype: Any) -> Array:
    """Allocate a result in the memory layout that NumPy's iterator over the operands gives it."""
    *labels, result = parsed
    parts = [_with_diagonals(subscript, array) for subscript, array in zip(labels, arrays, strict=True)]
    axes = result + "".join(sorted({*"".join(labels)} - {*result}))
    nditer: Any = np.nditer
    iterator = nditer(
        [*(view for _, view in parts), None],
        flags=["zerosize_ok", "reduce_ok", "multi_index"],
        op_flags=[["readonly"]] * len(parts) + [["readwrite", "allocate"]],
        op_dtypes=[None] * len(parts) + [dtype],
        op_axes=[
            [subscript.find(c) for c in axes]
            for subscript in (*(subscript for subscript, _ in parts), result)
        ],
    )
    new: Array = iterator.operands[-1]
    return new


def _with_diagonals(labels: str, array: Array) -> tuple[str, Array]:
    """Take diagonals of an operand for repeated labels; return the distinct labels and the view."""
    distinct = "".join(dict.fromkeys(labels))
    return distinct, array if distinct == labels else np.einsum(f"{labels}->{distinct}", array)


def _is_small(sizes: dict[str, int]) -> bool:
    return math.prod(sizes.values()) < 100_000


def parse_subscripts(subscripts: Any, arrays: Sequence[Any]) -> list[str] | None:
    """Parse subscripts to labels of each operand and of the result; None if only NumPy supports them.

    The axes of an ellipsis get letters that are not used elsewhere.
    """
    if not isinstance(subscripts, str) or any(array is None for array in arrays):
        return None
    before, arrow, after = subscripts.replace(" ", "").partition("->")
    labels = before.split(",")
    if len(labels) != len(arrays):
        return None
    more = [
        a.ndim - len(subscript) + 3 if "..." in subscript else 0
        for subscript, a in zip(labels, arrays, strict=True)
    ]
    letters = [c for c in string.ascii_letters if c not in subscripts]
    most = max(more)
    if min(more) < 0 or most > len(letters) or (arrow and most and "..." not in after):
        return None
    if not arrow:
        after = "..." + "".join(sorted(c for c in {*before} - {*".,"} if before.count(c) == 1))
    further = "".join(letters[:most])
    labels = [
        subscript.replace("...", further[most - n :], 1) for subscript, n in zip(labels, more, strict=True)
    ]
    after, joined = after.replace("...", further, 1), "".join(labels)
    if not all(c.isascii() and c.isalpha() for c in joined + after):
        return None
    fits = all(a.ndim == len(subscript) for subscript, a in zip(labels, arrays, strict=True))
    return [*labels, after] if fits and len({*after}) == len(after) and {*after} <= {*joined} else None


def _einsum(parsed: list[str], arrays: list[Array], dtype: Any, sizes: dict[str, int]) -> Any:
    *labels, result = parsed
    views = []
    for number, (subscript, array) in enumerate(zip(labels, arrays, strict=True)):
        distinct, view = _with_diagonals(subscript, array)
        others = {*result}.union(*(other for i, other in enumerate(labels) if i != number))
        alone = tuple(i for i, label in enumerate(distinct) if label not in others)
        if alone and (len(arrays) > 1 or len(alone) <= len(distinct)):
            view = _sum(view, alone, dtype)
            distinct = "".join(label for label in distinct if label in others)
        moved_only = len(arrays) == 1 and not alone  # NumPy keeps even the byte order
        views.append((distinct, np.asarray(view, None if moved_only else dtype)))
    if len(views) == 1:
        distinct, view = views[0]
        return ascontiguousarray(view.transpose([distinct.index(c) for c in result])).reshape(
            [sizes[c] for c in result]
        )
    return _contract_two(views[0], views[1], result, sizes)


def _sum(view: Array, axes: tuple[int, ...], dtype: Any) -> Any:
    if dtype.kind == "b":
        return sums_and_means.any(view, axes)
    return sums_and_means.sum(view, axes, dtype=dtype)


def _contract_two(
    first: tuple[str, Array], second: tuple[str, Array], result: str, sizes: dict[str, int]
) -> Any:
    (left, x), (right, y) = first, second
    both = [c for c in left if c in right]
    depth, stack = [c for c in both if c not in result], [c for c in result if c in both]
    rows, columns = [c for c in result if c not in right], [c for c in result if c not in left]

    def arranged(labels: str, array: Array, *groups: list[str]) -> Array:
        order = [labels.index(c) for group in groups for c in group]
        shape = [math.prod(sizes[c] for c in group) for group in groups]
        return _as_matrix(array, order, *shape)

    def of_elements(labels: str, array: Array) -> Array:
        order = [labels.index(c) for c in result if c in labels]
        shape = [sizes[c] if c in labels else 1 for c in result]
        return np.asarray(array.transpose(order)).reshape(shape)

    shape = [sizes[c] for c in (*stack, *rows, *columns)]
    if not depth:
        with np.errstate(all="ignore"):
            out = allocator.empty([sizes[c] for c in result], x.dtype)
            return multiply(of_elements(left, x), of_elements(right, y), out=out)
    if not rows and not columns:
        a, b = arranged(left, x, stack, depth), arranged(right, y, stack, depth)
        contracted = sum_of_products("einsum", lambda: np.vecdot(a, b), a, b, -1, warns=False)
    else:
        a, b = arranged(left, x, stack, rows, depth), arranged(right, y, stack, depth, columns)
        if not stack:
            a, b = a[0], b[0]
        contracted = product("einsum", lambda: np.matmul(a, b), a, b, warns=None)
    order = [(*stack, *rows, *columns).index(c) for c in result]
    return contiguous(np.asarray(contracted).reshape(shape).transpose(order))
