"""NumPy's truth tests `any` and `all`, and `count_nonzero`."""

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
from pycudakit._native.dtypes import Array
from pycudakit._runtime.public_function import public_function


def _truth(
    name: str, lower: reduce_kernel.Lowering, a: Any, axis: Any, out: Any, keepdims: Any, where: Any
) -> Any:
    if axis is None and out is None and keepdims is where is NONE:
        result = reduce_whole(name, lower, a)
        if result is not None:
            return result
    numpy_keywords = passed_keywords(keepdims=keepdims, where=where)
    call = Reduction(
        name,
        lower,
        functools.partial(getattr(np, name), operand_of(a), axis=axis, out=out, **numpy_keywords),
        [a],
        axis,
        out=out,
        keepdims=or_default(keepdims, False),
        where=or_default(where, True),
        out_takes_part=False,
    )
    if call.uses_numpy:
        return call.by_numpy()
    return call.compute(call.finish)


@public_function(numpy=np.any, device_fast_path=device_fast_path.reduction("any", lowering.ANY))
def any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NONE, *, where: Any = NONE) -> Any:
    """Test whether any array element along a given axis evaluates to True.

    Parameters
    ----------
    a : array_like
        The argument; nonzero elements are true, NaN included.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    out, keepdims, where
        As for `numpy.any`.

    Returns
    -------
    ndarray or bool

    See Also
    --------
    numpy.any : NumPy's function.
    all, count_nonzero

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.any([[0, 0], [0, 4]], axis=1)
    array([False,  True])
    """
    return _truth("any", lowering.ANY, a, axis, out, keepdims, where)


@public_function(numpy=np.all, device_fast_path=device_fast_path.reduction("all", lowering.ALL))
def all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NONE, *, where: Any = NONE) -> Any:
    """Test whether all array elements along a given axis evaluate to True.

    Parameters
    ----------
    a : array_like
        The argument; nonzero elements are true, NaN included.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    out, keepdims, where
        As for `numpy.all`.

    Returns
    -------
    ndarray or bool

    See Also
    --------
    numpy.all : NumPy's function.
    any, count_nonzero

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.all([[1, 0], [3, 4]], axis=1)
    array([False,  True])
    """
    return _truth("all", lowering.ALL, a, axis, out, keepdims, where)


COUNTS_ARE_INTS = type(np.count_nonzero(0)) is int  # before NumPy 2.3; then NumPy integers


@public_function(numpy=np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Count the number of non-zero values along the given axis.

    Parameters
    ----------
    a : array_like
        The argument.
    axis : int or tuple of int, optional
        The axes to reduce; all of them by default.
    keepdims : bool, optional
        Whether the reduced axes stay, of length 1.

    Returns
    -------
    ndarray or int

    See Also
    --------
    numpy.count_nonzero : NumPy's function.
    nonzero, any

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.count_nonzero([[0, 1, 7], [3, 0, 0]], axis=1)
    array([2, 1])
    """
    numpy = functools.partial(np.count_nonzero, operand_of(a), axis, keepdims=keepdims)
    if axis is None and not keepdims:
        keepdims = False  # of any type, as in NumPy
    call = Reduction("count_nonzero", lowering.COUNT, numpy, [a], axis, keepdims=keepdims)
    if call.uses_numpy:
        return call.by_numpy()

    def finish(result: Array) -> Any:
        count = call.finish(result)
        is_number = axis is None and not keepdims and type(count) is not np.ndarray  # else device-resident
        return int(count) if COUNTS_ARE_INTS and is_number else count

    return call.compute(finish)
