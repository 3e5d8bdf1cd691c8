"""NumPy's `diff`: differences of neighbours along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._families.elementwise.ufuncs import not_equal, subtract
from pycudakit._native.dtypes import BOOL
from pycudakit._runtime.dispatch_cache import numpy_for_small
from pycudakit._runtime.native_call import logged_as_one_call

_NOT_GIVEN: Any = np._NoValue  # noqa: SLF001


@numpy_for_small(np.diff)
@logged_as_one_call("diff")
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
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    a = np.asanyarray(a)
    if a.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = int(np.lib.array_utils.normalize_axis_index(axis, a.ndim))
    parts = [a]
    for index, edge in ((0, prepend), (2, append)):
        if edge is _NOT_GIVEN:
            continue
        part = np.asanyarray(edge)
        if part.ndim == 0:
            part = np.broadcast_to(part, (*a.shape[:axis], 1, *a.shape[axis + 1 :]))
        parts.insert(index, part)
    if len(parts) > 1:
        a = np.concatenate(parts, axis)
    late, early = ((slice(None),) * axis + (s,) for s in (slice(1, None), slice(None, -1)))
    differ = not_equal if a.dtype == BOOL else subtract
    for _ in range(n):
        a = differ(a[late], a[early])
    return a
