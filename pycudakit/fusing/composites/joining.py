"""Composites that join and repeat arrays: `concatenate`, `stack`, `tile`, `repeat`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit.fusing.composites.decorator import composite


@composite("arrays", first_is_sequence=True)
def concatenate(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Join arrays along an existing axis.

    Parameters
    ----------
    arrays : sequence of array_like
        The arrays.
    axis : int, optional
        The axis; all are flattened if None.
    out : ndarray, optional
        The array to write the result to.
    dtype, casting
        The dtype of the result, and the casting rule for it.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.concatenate : NumPy's function.
    stack, repeat, tile

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.concatenate(([1, 2], [3]))
    array([1, 2, 3])
    """
    options = {} if dtype is None and casting == "same_kind" else {"dtype": dtype, "casting": casting}
    return np.concatenate(arrays, axis=axis, out=out, **options)


concat = concatenate


@composite("arrays", first_is_sequence=True)
def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Join arrays of one shape along a new axis.

    Parameters
    ----------
    arrays : sequence of array_like
        The arrays.
    axis : int
        The position of the new axis in the result.
    out, dtype, casting
        As for `concatenate`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.stack : NumPy's function.
    concatenate

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.stack(([1, 2], [3, 4]), axis=1)
    array([[1, 3],
           [2, 4]])
    """
    options = {} if dtype is None and casting == "same_kind" else {"dtype": dtype, "casting": casting}
    return np.stack(arrays, axis=axis, out=out, **options)


@composite("A")
def tile(A: Any, reps: Any) -> Any:  # noqa: N803
    """Repeat an array along its axes.

    Parameters
    ----------
    A : array_like
        The array.
    reps : int or sequence of ints
        The number of repetitions along each axis.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.tile : NumPy's function.
    repeat

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
        The number of repetitions: one for all elements, or one for each.
    axis : int, optional
        The axis; the array is flattened if None.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.repeat : NumPy's function.
    tile

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.repeat([1, 2, 3], 2)
    array([1, 1, 2, 2, 3, 3])
    """
    return np.repeat(a, repeats, axis)
