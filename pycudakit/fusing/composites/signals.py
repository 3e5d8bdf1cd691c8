"""Composites `convolve` and `correlate`: a sum of shifted products, one per element of the shorter array."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._native import engine_status
from pycudakit._native.dtypes import Array
from pycudakit._runtime.cost_model import CALL, CUDA_CALL, cuda_seconds, may_pay_on_gpu, threads
from pycudakit.fusing.composites.decorator import composite
from pycudakit.fusing.memory.tracer import Tracer

MODES = {"valid": 0, "same": 1, "full": 2, 0: 0, 1: 1, 2: 2}

# Costs in nanoseconds for floats. NumPy: for each pair of elements; up to 11 elements have special loops.
# The CPU engine, on one thread: for each element of the longer array, and for each pair.
_NUMPY_FEW, _NUMPY_MANY = 0.2, 0.4
_OURS, _OURS_EACH = 2.0, 0.5
_STEP = 10e-6  # seconds of Python for each element of the shorter array
_FEW = 11


def _numpy_is_faster(arrays: list[Array]) -> bool:
    """Return True if NumPy's estimate is below those of the engines."""
    shorter, longer = sorted(array.size for array in arrays)
    are_floats = all(array.dtype.kind == "f" and array.itemsize > 2 for array in arrays)
    if not are_floats or not engine_status.status("cpu"):
        return False
    in_numpy = 1e-9 * longer * shorter * (_NUMPY_FEW if shorter <= _FEW else _NUMPY_MANY)
    cpu_engine = CALL + _STEP * shorter + 1e-9 * longer * (_OURS + _OURS_EACH * shorter) / threads()
    if in_numpy >= cpu_engine:
        return False
    up, down = sum(array.nbytes for array in arrays), max(array.nbytes for array in arrays)
    has_gpu = engine_status.status("cuda").available and in_numpy > CUDA_CALL
    return not (has_gpu and may_pay_on_gpu(in_numpy, up, down)) or in_numpy < cuda_seconds(up, down)


@composite("a", "v", numpy_is_faster=_numpy_is_faster)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Return the convolution of two sequences.

    Parameters
    ----------
    a, v : array_like
        The sequences.
    mode : {"full", "same", "valid"}
        The part of the result: all overlaps, as many elements as the longer sequence, or full overlaps only.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.convolve : NumPy's function.
    correlate, image.convolve

    Differs from NumPy
    ------------------
    Floats are added in the dtype of the result, one product after the other, so the last bits can differ
    from NumPy's, whose order depends on the machine.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.convolve([1, 2, 3], [0, 1, 0.5])
    array([0. , 1. , 2.5, 4. , 1.5])
    """
    a, v = _sequence(a, "a"), _sequence(v, "v")
    if v.size > a.size:
        a, v = v, a
    return _correlated(a, v[::-1], mode)


@composite("a", "v", numpy_is_faster=_numpy_is_faster)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Return the correlation of two sequences: the sum of ``a[n + k] * v[n]`` for each k.

    Parameters
    ----------
    a, v : array_like
        The sequences.
    mode : {"valid", "same", "full"}
        As for `convolve`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.correlate : NumPy's function.
    convolve, image.correlate

    Differs from NumPy
    ------------------
    Floats are added in the dtype of the result, one product after the other, so the last bits can differ
    from NumPy's, whose order depends on the machine.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.correlate([1, 2, 3], [0, 1, 0.5], "same")
    array([2. , 3.5, 3. ])
    """
    if np.ndim(a) == 0 or np.ndim(v) == 0:
        raise ValueError("object of too small depth for desired array")
    a, v = _sequence(a, "first"), _sequence(v, "second")
    if v.size > a.size:
        return np.flip(_correlated(v, a, mode))
    return _correlated(a, v, mode)


def _sequence(array: Any, name: str) -> Any:
    array = np.atleast_1d(array)
    if array.ndim > 1:
        raise ValueError("object too deep for desired array")
    if array.size == 0:
        text = f"{name} array argument cannot be empty" if len(name) > 1 else f"{name} cannot be empty"
        raise ValueError(text)
    return array


def _correlated(a: Any, v: Any, mode: str) -> Any:
    """Compute the correlation of `a` with `v`, which is not longer."""
    if mode not in MODES:
        np.correlate([0.0], [0.0], mode)  # type: ignore[call-overload]  # raises
    middle = a.size - v.size + 1
    length = (middle, a.size, a.size + v.size - 1)[MODES[mode]]
    left = (0, v.size // 2, v.size - 1)[MODES[mode]]
    dtype = np.result_type(a, v)
    work = np.dtype(np.float32) if dtype == np.float16 else dtype
    is_finite = _is_known_to_be_finite(v)
    a, v = (each if each.dtype == work else each.astype(work) for each in (a, v))
    sides = left, length - left - middle
    with np.errstate(all="ignore"):
        if not any(sides):
            total = _sums(a, v, middle)
        elif is_finite:
            total = _sums_of_padded(a, v, middle, sides)
        else:
            total = _sums_masked(a, v, middle, sides)
        return total.astype(dtype)


def _is_known_to_be_finite(v: Any) -> bool:
    """Return True if the elements are known to be finite without a graph break for their values."""
    if v.dtype.kind != "f" or type(v) is not Tracer:
        return v.dtype.kind != "f" or bool(np.isfinite(v).all())
    if v.owning_trace.capture is not None:
        return bool(v.owning_trace.branches_on(np.all(np.isfinite(v))))
    values = v.owning_trace.array_if_on_host(v)
    return values is not None and bool(np.isfinite(values).all())


def _sums_of_padded(a: Any, v: Any, middle: int, sides: tuple[int, int]) -> Any:
    """Compute the sums over an array padded with zeros; `v` is finite, so the padding adds zeros."""
    left, right = (np.zeros_like(a, shape=length) for length in sides)
    total = _sums(np.concatenate((left, a, right)), v, sides[0] + middle + sides[1])
    if a.dtype.kind == "f":  # turns -0.0 into 0.0 at the ends, as in `_sums_masked`, which adds 0.0 there
        total[: sides[0]] += 0.0
        total[sides[0] + middle :] += 0.0
    return total


def _sums_masked(a: Any, v: Any, middle: int, sides: tuple[int, int]) -> Any:
    """Compute the sums with the padding masked out: 0 * inf would be NaN where `v` is not finite."""
    m = v.size - 1
    left, right = (np.zeros_like(a, shape=length) for length in sides)
    ends = np.concatenate((left, a[:m], a[a.size - m :], right))
    is_inside = np.repeat([False, True, False], (sides[0], 2 * m, sides[1]))
    around = _sums(ends, v, sides[0] + m + sides[1], is_inside)
    return np.concatenate((around[: sides[0]], _sums(a, v, middle), around[sides[0] + m :]))


def _sums(a: Any, v: Any, length: int, is_inside: Array | None = None) -> Any:
    """Compute the first `length` sums; elements of `a` outside the mask `is_inside` add zeros."""
    total = None
    for k in range(v.size):
        products = a[k : k + length] * v[k]
        if is_inside is not None:
            products = np.where(is_inside[k : k + length], products, products.dtype.type(0))
        total = products if total is None else total + products
    return total
