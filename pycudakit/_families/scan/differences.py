"""NumPy's `diff`: differences of neighbours along an axis."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._families.elementwise.ufuncs import not_equal, subtract
from pycudakit._runtime.public_function import public_function

_NOT_GIVEN: Any = np._NoValue  # noqa: SLF001


@public_function(numpy=np.diff, one_call="diff")
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _NOT_GIVEN, append: Any = _NOT_GIVEN) -> Any:
    """Calculate the n-th discrete difference along the given axis.

    Parameters
    ----------
    a : array_like
        The array to take differences of.
    n : int, optional
        The number of times that differences are taken.
    axis : int, optional
        The axis along which differences are taken.
    prepend, append : array_like, optional
        Values before and after `a` along the axis; a scalar is broadcast to length 1 along it.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.diff : NumPy's function.
    gradient, cumsum, subtract

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.diff([1, 4, 9, 16])
    array([3, 5, 7])
    >>> pk.diff([1, 4, 9, 16], n=2)
    array([2, 2])
    """
    return a if n == 0 else differences(ON_HOST, np.asanyarray(a), n, axis, prepend, append)


def differences(
    xp: Any, a: Any, n: int, axis: int, prepend: Any = _NOT_GIVEN, append: Any = _NOT_GIVEN
) -> Any:
    """Take differences of a host array, a tracer or a Dask array with the functions of `xp`."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    if a.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = normalize_axis_index(axis, a.ndim)
    parts = [a]
    for position, edge in ((0, prepend), (2, append)):
        if edge is not _NOT_GIVEN:
            shape = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
            parts.insert(position, np.broadcast_to(edge, shape) if np.ndim(edge) == 0 else edge)
    if len(parts) > 1:
        a = np.concatenate(parts, axis)
    late, early = ((slice(None),) * axis + (s,) for s in (slice(1, None), slice(None, -1)))
    differ = xp.not_equal if a.dtype == np.bool_ else xp.subtract
    for _ in range(n):
        a = differ(a[late], a[early])
    return a


ON_HOST = SimpleNamespace(not_equal=not_equal, subtract=subtract)
