"""NumPy's `flip`, `roll`, `transpose` and similar functions, which return new arrays in C order."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._families.elementwise.fast_path import call
from pycudakit._native import allocator
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.context import Preference
from pycudakit._runtime.dispatch_cache import run_preferring
from pycudakit._runtime.public_function import public_function


def _write_copy(_: Any, x: Any, **__: Any) -> tuple[Any, ...]:
    return (x,)


def copy_function(name: str, numpy: Callable[..., Any]) -> ElementFunction:
    """Return an elementwise function that copies, under NumPy's name."""
    return ElementFunction(name, numpy, _write_copy)


_PAGE = 4096  # bytes
# Bytes of a strided array from which an engine should copy it; and if the stride is a multiple of a page.
_MIN_BYTES, _MIN_BYTES_BY_PAGES = 32 << 20, 1 << 20
# Not by the estimates, which are of arrays in C order; and a GPU would take longer, for the transfers.
_PREFER_CPU = Preference("cpu", "auto: the CPU engine copies strided arrays fastest")

_FLIP, _ROLL, _TRANSPOSE, _SWAPAXES, _CONTIGUOUS = (
    copy_function(name, getattr(np, name))
    for name in ("flip", "roll", "transpose", "swapaxes", "ascontiguousarray")
)


def _write_triangle(
    lower: bool, builder: Builder, x: Any, row: Any, column: Any, **_: Any
) -> tuple[Any, ...]:
    """Keep the columns up to the row's limit (`lower`), or from it on; zero the others."""
    mask = builder.apply("less_equal", *((column, row) if lower else (row, column)))
    return (builder.select(mask, x, builder.constant(0, x.dtype)),)


_TRIL, _TRIU = (
    ElementFunction(name, getattr(np, name), functools.partial(_write_triangle, name == "tril"))
    for name in ("tril", "triu")
)
TRIANGLES = {"tril": _TRIL, "triu": _TRIU}


def triangle_limits(number: Any, columns: int, k: int) -> Any:
    """Return each row's limit: the last column that `tril` keeps, or the first that `triu` keeps."""
    return (number + max(-len(number) - 1, min(k, columns + 1)))[:, None]


def copy_into(function: ElementFunction, source: Array, out: Array) -> None:
    """Copy on the engine, under a function's name in the call log."""
    call(function, (source,), out, numpy_call=lambda values: np.copyto(out, values))


def dense(function: ElementFunction, view: Array) -> Array:
    """Return a copy in C order, made on the engine under a function's name."""
    out = allocator.empty(view.shape, view.dtype)
    copy_into(function, view, out)
    return out


def is_copied_by_engine(view: Array) -> bool:
    """Return True if an engine should copy an array to C order, since its last axis is strided.

    NumPy copies it with one thread, and reads a cache line for each element. Elements that are whole pages
    apart fall into few sets of the cache, so that each line is read again for its next element.
    """
    if view.nbytes < _MIN_BYTES_BY_PAGES or view.ndim < 2 or view.strides[-1] == view.itemsize:
        return False
    if view.nbytes < _MIN_BYTES and view.strides[-1] % _PAGE:
        return False
    return context.current_engine() != "numpy"


def _copy_strided(values: Array, target: Array, is_logged: bool) -> None:
    copy = functools.partial(run_preferring, _PREFER_CPU, copy_into, _CONTIGUOUS, values, target)
    if is_logged:
        copy()
    else:
        native_call.collect_calls(copy)


def in_c_order(view: Array, dtype: DType, is_logged: bool = False) -> Array:
    """Return an array as an aligned one in C order, of an equal dtype in native byte order.

    A copy by the engine may be a part of a call that logs its own parts.
    """
    if not is_copied_by_engine(view):
        copied: Array = np.require(view, dtype, ["C", "A"])
        return copied if copied.shape == view.shape else copied.reshape(view.shape)  # of no dimensions
    out = allocator.empty(view.shape, dtype)
    _copy_strided(view, out, is_logged)
    return out


def copy_to(target: Array, values: Array, is_logged: bool = False) -> Array:
    """Copy values to an array of their shape, which may have another order, and return it."""
    if is_copied_by_engine(values) and target.dtype.isnative:
        _copy_strided(values, target, is_logged)
    else:
        target[...] = values
    return target


def with_layout_of(function: ElementFunction, array: Array, target: Array) -> Array:
    """Return an array in the memory layout of `target`: itself if it has it, else `target`, filled."""
    if array.strides == target.strides:
        return array
    copy_into(function, array, target)
    return target


# NumPy's counterparts, which return views or other orders, as C-contiguous copies.


def _numpy_flip(m: Any, axis: Any = None) -> Any:
    return np.flip(m, axis).copy()


def _numpy_roll(a: Any, shift: Any, axis: Any = None) -> Any:
    return np.array(np.roll(a, shift, axis), order="C", copy=None)


def _numpy_transpose(a: Any, axes: Any = None) -> Any:
    return np.transpose(a, axes).copy()


def _numpy_swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    return np.swapaxes(a, axis1, axis2).copy()


def _numpy_contiguous(a: Any, dtype: Any = None) -> Any:
    return np.array(a, dtype, order="C", ndmin=1)


@public_function(numpy=_numpy_flip)
def flip(m: Any, axis: Any = None) -> Any:
    """Reverse the order of elements in an array along the given axis.

    Parameters
    ----------
    m : array_like
        The array to reverse.
    axis : int or tuple of ints, optional
        The axes; all of them if None.

    Returns
    -------
    ndarray
        A copy in C order.

    See Also
    --------
    numpy.flip : NumPy's function.
    roll

    Differs from NumPy
    ------------------
    The result is a copy in C order, where NumPy returns a view.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.flip([[1, 2], [3, 4]], axis=1)
    array([[2, 1],
           [4, 3]])
    """
    array = operands.as_array(m)
    if array is None:

        def by_numpy() -> Any:
            flipped = np.flip(m, axis)  # a scalar or an object, if there are no dimensions
            return (
                np.array(flipped, order="C", copy=True, subok=True)
                if isinstance(flipped, np.ndarray)
                else flipped
            )

        return native_call.numpy_fallback("flip", by_numpy)
    out = dense(_FLIP, np.asarray(np.flip(array, axis)))
    return out if out.ndim else out[()]  # as NumPy does


@public_function(  # earlier versions accept floats as shifts
    numpy=_numpy_roll if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else None, one_call="roll"
)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Roll array elements along a given axis.

    Elements that roll beyond the last position are re-introduced at the first. The result is a
    C-contiguous copy.

    Parameters
    ----------
    a : array_like
        The array to roll.
    shift : int or tuple of ints
        The number of places to shift by; for several axes, one for each or one for all.
    axis : int or tuple of ints, optional
        The axes; the flattened array is rolled if None.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.roll : NumPy's function.
    flip

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.roll([1, 2, 3, 4, 5], 2)
    array([4, 5, 1, 2, 3])
    """
    array = operands.as_array(a)
    if array is None:
        return native_call.numpy_fallback(
            "roll", lambda: np.array(np.roll(a, shift, axis), order="C", copy=True, subok=True)
        )
    out = allocator.empty(array.shape, array.dtype)
    source, target = array, out
    if axis is None:
        source, target, axis = array.ravel(), out.reshape(-1), 0
    axes = normalize_axis_tuple(axis, source.ndim, allow_duplicate=True)
    shifts = dict.fromkeys(range(source.ndim), 0)
    pairs = np.broadcast(shift, axes)
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    for by, along in pairs:
        shifts[int(along)] += int(by)
    blocks = []  # along each axis, pairs of target and source slices
    for along, by in shifts.items():
        size = source.shape[along]
        first = by % size if size else 0  # the new index of the first element
        parts = [(slice(first, None), slice(0, size - first)), (slice(0, first), slice(size - first, None))]
        blocks.append(parts if first else parts[:1])
    for block in itertools.product(*blocks):
        to: Any = (..., *(part[0] for part in block))
        origin: Any = (..., *(part[1] for part in block))
        copy_into(_ROLL, source[origin], target[to])
    return out


def contiguous_copy(function: ElementFunction, a: Any, view_of: Callable[[Any], Any]) -> Any:
    """Return a C-contiguous copy of a view of an array."""
    array = operands.as_array(a)
    if array is None:
        return native_call.numpy_fallback(
            function.name, lambda: np.array(view_of(a), order="C", copy=True, subok=True)
        )
    return dense(function, np.asarray(view_of(array)))


def contiguous(array: Array) -> Array:
    """Return an array itself if it or its transpose is C-contiguous, as products need, else a copy."""
    turned = array.swapaxes(-1, -2) if array.ndim > 1 else array
    if array.flags.c_contiguous or turned.flags.c_contiguous:
        return array
    return dense(_CONTIGUOUS, array)


@public_function(numpy=_numpy_transpose)
def transpose(a: Any, axes: Any = None) -> Any:
    """Return an array with axes transposed.

    Parameters
    ----------
    a : array_like
        The argument.
    axes : tuple of ints, optional
        The axes in their new order; reversed if None.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.transpose : NumPy's function.
    swapaxes, ascontiguousarray

    Differs from NumPy
    ------------------
    The result is a copy in C order, where NumPy returns a view.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.transpose([[1, 2, 3], [4, 5, 6]])
    array([[1, 4],
           [2, 5],
           [3, 6]])
    """
    return contiguous_copy(_TRANSPOSE, a, lambda array: np.transpose(array, axes))


@public_function(numpy=_numpy_swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Interchange two axes of an array.

    Parameters
    ----------
    a : array_like
        The argument.
    axis1, axis2 : int
        The axes.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.swapaxes : NumPy's function.
    transpose

    Differs from NumPy
    ------------------
    The result is a copy in C order, where NumPy returns a view.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.swapaxes([[1, 2, 3]], 0, 1)
    array([[1],
           [2],
           [3]])
    """
    return contiguous_copy(_SWAPAXES, a, lambda array: np.swapaxes(array, axis1, axis2))


@public_function(numpy=_numpy_contiguous)
def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """Return a contiguous array (ndim >= 1) in memory (C order).

    Parameters
    ----------
    a : array_like
        The argument.
    dtype : dtype, optional
        The type of the result.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.ascontiguousarray : NumPy's function.
    transpose

    Differs from NumPy
    ------------------
    The result is always a new array, where NumPy returns an array itself that is contiguous.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.ascontiguousarray([[1, 2], [3, 4]])[:, ::-1].flags.c_contiguous
    False
    """
    if dtype is not None and np.dtype(dtype) != getattr(a, "dtype", None):
        a = np.asarray(a, dtype)
    return contiguous_copy(_CONTIGUOUS, a, np.atleast_1d)


@public_function(numpy=np.tril)
def tril(m: Any, k: int = 0) -> Any:
    """Return the lower triangle of an array: a copy with the elements above the k-th diagonal zeroed.

    Parameters
    ----------
    m : array_like
        A matrix, or a stack of them.
    k : int, optional
        The diagonal, counted upwards from the main one.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.tril : NumPy's function.
    triu

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.tril([[1, 2], [3, 4]])
    array([[1, 0],
           [3, 4]])
    """
    return _triangle(_TRIL, m, k)


@public_function(numpy=np.triu)
def triu(m: Any, k: int = 0) -> Any:
    """Return the upper triangle of an array: a copy with the elements below the k-th diagonal zeroed.

    Parameters
    ----------
    m, k
        As for `tril`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.triu : NumPy's function.
    tril

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.triu([[1, 2], [3, 4]])
    array([[1, 2],
           [0, 4]])
    """
    return _triangle(_TRIU, m, k)


def _triangle(function: ElementFunction, m: Any, k: Any) -> Any:
    array = operands.as_array(m)
    if array is None:
        return native_call.numpy_fallback(function.name, lambda: function.numpy(m, k))
    try:
        by = operator.index(k)
    except TypeError:
        return function.numpy(m, k)
    if array.ndim < 2:
        if array.ndim == 0:
            return function.numpy(m, k)  # raises
        array = np.broadcast_to(array, (array.size, array.size))
    rows, columns = array.shape[-2:]
    row = triangle_limits(np.arange(rows), columns, by)
    mask = np.empty((rows, columns), bool)  # NumPy's mask takes part in choosing the result's layout
    out = operands.allocate(array.dtype.newbyteorder("="), array.shape, [mask, array])
    call(
        function,
        (array, row, np.arange(columns)),
        out,
        numpy_call=lambda values, _, __: np.copyto(out, function.numpy(values, k)),
    )
    return out
