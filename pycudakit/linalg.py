"""NumPy's `linalg` functions `norm` and `matrix_power`."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit import _lazy
from pycudakit._families.elementwise import ufuncs
from pycudakit._families.matmul.matmul import matmul
from pycudakit._families.matmul.matrix_power import power_by_squaring
from pycudakit._families.reduce import lowering, min_max
from pycudakit._families.reduce.reduction import Reduction
from pycudakit._families.reduce.sums import sum
from pycudakit._interop.dispatch import accept_foreign_arrays
from pycudakit._native import allocator
from pycudakit._native.dtypes import FLOAT64
from pycudakit._runtime import native_call, operands
from pycudakit._runtime.public_function import public_function

__all__ = ["matrix_power", "norm"]


@accept_foreign_arrays
@public_function(numpy=np.linalg.norm, one_call="norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Compute a vector norm or a matrix norm.

    The vector norms 2, 1, 0, inf and -inf, and the Frobenius norm (`ord` None or ``"fro"``), are sums in
    float64, added in the sequence of `sum`. For a vector norm of another order p, each ``abs(x)**p`` has the
    error of `power`. The matrix norms 1, -1, inf and -inf are the largest or smallest of such sums; norms by
    singular values are computed by NumPy.

    Parameters
    ----------
    x : array_like
        The argument.
    ord : {None, "fro", "nuc", inf, -inf, a number}, optional
        The order of the norm, as for `numpy.linalg.norm`.
    axis : int or a pair of int, optional
        The axis of the vectors, or the two axes of the matrices.
    keepdims : bool, optional
        Whether the reduced axes stay, of length 1.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.linalg.norm : NumPy's function.
    pycudakit.sum, pycudakit.vdot

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's, and only the
    result can overflow, not a partial sum.

    Examples
    --------
    >>> import pycudakit as pk
    >>> float(pk.linalg.norm([3.0, 4.0]))
    5.0
    >>> pk.linalg.norm([[3, 4], [6, 8]], axis=1)
    array([ 5., 10.])
    """
    call_numpy = functools.partial(np.linalg.norm, x, ord, axis, keepdims)
    array = operands.as_array(x)
    if array is None:
        return Reduction("norm", lowering.NORM, call_numpy, [x]).by_numpy()
    is_of_all = axis is None and (ord is None or (ord == 2 and array.ndim == 1) or ord in ("f", "fro"))
    if ord in ("f", "fro") and axis is None and array.ndim != 2:
        return call_numpy()  # raises
    try:
        axes = normalize_axis_tuple(range(array.ndim) if axis is None else axis, array.ndim)
    except (TypeError, ValueError):
        return call_numpy()  # NumPy raises, or accepts axis 0 of a scalar
    if is_of_all or (len(axes) == 1 and ord in (None, 2)) or (len(axes) == 2 and ord in (None, "f", "fro")):
        return _reduced_norm(lowering.NORM, call_numpy, array, axes, keepdims)
    if len(axes) == 1:
        return _vector_norm(call_numpy, array, ord, axes, keepdims)
    if len(axes) == 2 and ord in (1, -1, math.inf, -math.inf):
        return _matrix_norm(call_numpy, array, ord, axes, keepdims)
    if ord not in (2, -2, "nuc") or len(axes) != 2:
        return call_numpy()  # raises
    unsupported = f"a matrix norm of order {ord!r}"
    return Reduction("norm", lowering.NORM, call_numpy, [array], unsupported=unsupported).by_numpy()


@accept_foreign_arrays
@public_function(numpy=np.linalg.matrix_power, one_call="matrix_power")
def matrix_power(a: Any, n: int) -> Any:
    """Raise a square matrix to the (integer) power `n`, or each matrix of a stack.

    The result is computed by repeated squaring with `matmul`. Negative powers need NumPy's inverse, which a
    named engine refuses.

    Parameters
    ----------
    a : array_like
        The matrix.
    n : int
        The power.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.linalg.matrix_power : NumPy's function.
    pycudakit.matmul

    Differs from NumPy
    ------------------
    Sums of products are added in the order of the library that multiplies (NumPy's BLAS, cuBLAS or
    pycudakit's loops), so the last bits depend on the engine.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.linalg.matrix_power([[1, 1], [1, 0]], 10)
    array([[89, 55],
           [55, 34]])
    """
    call_numpy = functools.partial(np.linalg.matrix_power, a, n)
    array = operands.as_array(a)
    if array is None:
        return native_call.numpy_fallback("matrix_power", call_numpy)
    try:
        power = operator.index(n)
    except TypeError:
        return call_numpy()  # raises
    if array.ndim < 2 or array.shape[-1] != array.shape[-2] or power in (0, 1):
        return call_numpy()  # the power 1 of an array is that array
    if power < 0:
        inverse = functools.partial(np.linalg.inv, array)
        array = native_call.numpy_fallback("matrix_power", inverse, "pycudakit lacks linalg.inv")
        power = -power
    return power_by_squaring(array, power, matmul)


def _reduced_norm(lower: Any, call_numpy: Any, array: Any, axes: Any, keepdims: bool) -> Any:
    """Compute a norm that is one reduction."""
    call = Reduction("norm", lower, call_numpy, [array], axes, keepdims=keepdims)
    if call.uses_numpy:
        return call.by_numpy()
    result = call.reduce()
    call.warn(result, "dot")  # NumPy's warning names its own way to compute a norm
    return call.finish(result)


def _vector_norm(call_numpy: Any, array: Any, ord: Any, axes: Any, keepdims: bool) -> Any:
    if isinstance(ord, str):
        return call_numpy()  # raises
    if ord in (math.inf, -math.inf):
        lower = lowering.MAX_ABS if ord > 0 else lowering.MIN_ABS
        return _reduced_norm(lower, call_numpy, array, axes, keepdims)
    if ord in (0, 1):
        lower = lowering.NONZERO_NORM if ord == 0 else lowering.SUM_ABS
        return _reduced_norm(lower, call_numpy, array, axes, keepdims)
    if operands.as_array(ord) is None or np.ndim(ord) or not array.size:
        return call_numpy()  # raises, or there are no elements
    floats = array if array.dtype.kind == "f" else ufuncs.absolute(array, dtype=FLOAT64)
    magnitudes = ufuncs.absolute(floats)
    powers = ufuncs.reciprocal(magnitudes) if ord == -1 else ufuncs.power(magnitudes, ord)
    total = sum(powers, axes, keepdims=keepdims)
    if np.ndim(total) == 0:
        allocator.access_on_host(np.asarray(total))
    return ufuncs.power(total, np.asarray(total).dtype.type(1) / ord)


def _matrix_norm(call_numpy: Any, array: Any, ord: Any, axes: Any, keepdims: bool) -> Any:
    summed_axis = axes[0] if ord in (1, -1) else axes[1]
    call = Reduction("norm", lowering.SUM_ABS, call_numpy, [array], (summed_axis,), keepdims=True)
    if call.uses_numpy:
        return call.by_numpy()
    sums = call.reduce()
    call.warn(sums, "dot")
    sums = call.finish(sums)
    fold = min_max.max if ord > 0 else min_max.min
    return fold(sums, axis=axes, keepdims=keepdims)


_lazy.set_public_names(__name__, __all__)
