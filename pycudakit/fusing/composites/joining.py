"""NumPy's arrays made of others: put together, repeated and padded."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit.fusing.composites.decorator import composite


@composite("arrays", first_is_sequence=True)
def concatenate(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Put arrays together along an axis.

    Parameters
    ----------
    arrays : sequence of array_like
        The arrays.
    axis : int, optional
        The axis; all are flattened if None.
    out : ndarray, optional
        Where to put the result.
    dtype, casting
        The type of the result, and how far it may be from the arrays'.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.concatenate(([1, 2], [3]))
    array([1, 2, 3])
    """
    wanted = {} if dtype is None and casting == "same_kind" else {"dtype": dtype, "casting": casting}
    return np.concatenate(arrays, axis=axis, out=out, **wanted)


concat = concatenate


@composite("arrays", first_is_sequence=True)
def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Put arrays of one shape together along a new axis.

    Parameters
    ----------
    arrays : sequence of array_like
        The arrays.
    axis : int
        Where the new axis is in the result.
    out, dtype, casting
        As for `concatenate`.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.stack(([1, 2], [3, 4]), axis=1)
    array([[1, 3],
           [2, 4]])
    """
    wanted = {} if dtype is None and casting == "same_kind" else {"dtype": dtype, "casting": casting}
    return np.stack(arrays, axis=axis, out=out, **wanted)


@composite("A")
def tile(A: Any, reps: Any) -> Any:  # noqa: N803
    """Repeat an array along its axes.

    Parameters
    ----------
    A : array_like
        The array.
    reps : int or sequence of ints
        How often, along each axis.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.tile([1, 2], (2, 2))
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]])
    """
    return np.tile(A, reps)


@composite("a")
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Repeat each element of an array.

    Parameters
    ----------
    a : array_like
        The array.
    repeats : int or array of ints
        How often: one number for all elements, or one for each.
    axis : int, optional
        The axis; the array is flattened if None.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.repeat([1, 2, 3], 2)
    array([1, 1, 2, 2, 3, 3])
    """
    return np.repeat(a, repeats, axis)
