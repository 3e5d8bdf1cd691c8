"""NumPy's cumulative sums and products, running maxima and minima, exclusive scans, and `diff`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._families.elementwise.ufuncs import not_equal, subtract
from pycudakit._families.scan import device_fast_path, prepared
from pycudakit._families.scan.prepared import ScanRequest
from pycudakit._interop.cuda_libraries import has_device_fast_path
from pycudakit._native import abi, allocator
from pycudakit._native.dtypes import BOOL, FLOAT64, Array, DType, code_of
from pycudakit._runtime import cost_model, dispatch_cache, fp_errors, native_call
from pycudakit._runtime.dispatch_cache import numpy_for_small
from pycudakit._runtime.engine_choice import NO_COST, Cost, choose_engine
from pycudakit._runtime.native_call import log_empty_call, logged_as_one_call, run
from pycudakit._runtime.operands import allocate, as_array, axis_index, fill_operand_row
from pycudakit._runtime.ufunc_arguments import needs_copy, refuse_byte_order

# Nanoseconds per element: of NumPy, of the CPU engine on one thread, and of its float64 sums and products.
_NUMPY_NS, _CPU_NS, _CPU_NS_FLOAT64 = 2.5, 1.5, 4.0
# An array of more bytes exceeds all caches.
_BEYOND_CACHES = 64e6
# Seconds per element of the scan of the blocks' totals, which one thread does.
_SERIAL_SECONDS_PER_ELEMENT = 80e-12


@dataclass(frozen=True, slots=True)
class _ScanFunction:
    """A scan: its name, NumPy's ufunc, the ABI's operation and flags, and NumPy's function if it has one."""

    name: str
    ufunc: Any
    operation: int
    numpy: Callable[..., Any] | None
    flags: int = 0


def _accumulate(ufunc: Any, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    if axis is None:
        a, axis = np.ravel(a), 0
    return ufunc.accumulate(np.atleast_1d(a), axis, dtype, out)


_numpy_cummax = functools.partial(_accumulate, np.maximum)
_numpy_cummin = functools.partial(_accumulate, np.minimum)

_CUMSUM = _ScanFunction("cumsum", np.add, abi.SCAN_SUM, np.cumsum)
_CUMPROD = _ScanFunction("cumprod", np.multiply, abi.SCAN_PROD, np.cumprod)
_NANCUMSUM = _ScanFunction("nancumsum", np.add, abi.SCAN_SUM, np.nancumsum, abi.SCAN_SKIP_NAN)
_NANCUMPROD = _ScanFunction("nancumprod", np.multiply, abi.SCAN_PROD, np.nancumprod, abi.SCAN_SKIP_NAN)
_CUMULATIVE_SUM = replace(_CUMSUM, name="cumulative_sum")
_CUMULATIVE_PROD = replace(_CUMPROD, name="cumulative_prod")
_EXCLUSIVE_SCAN = _ScanFunction("exclusive_scan", np.add, abi.SCAN_SUM, None, abi.SCAN_EXCLUSIVE)
_CUMMAX = _ScanFunction("cummax", np.maximum, abi.SCAN_MAX, _numpy_cummax)
_CUMMIN = _ScanFunction("cummin", np.minimum, abi.SCAN_MIN, _numpy_cummin)


@functools.cache
def _result_type(ufunc: Any, operand: DType, dtype: DType | None, out: DType | None) -> DType:
    """Return the type in which NumPy computes a scan."""
    computed: Any = dtype
    if dtype is None and out is None:
        computed = ufunc.accumulate(np.empty(0, operand)).dtype
    elif dtype is None:
        computed = ufunc.resolve_dtypes((out, operand, None))[0]
    result: DType = np.dtype(computed).newbyteorder("=")
    return result


def _checked_out(out: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(out, np.ndarray):
        raise TypeError("output must be an array")
    if out.shape != shape:
        raise ValueError(f"the output array has shape {out.shape}, and the result {shape}")
    if not out.flags.writeable:
        raise ValueError("output array is read-only")


def _layout(array: Array, axis: int) -> tuple[int, ...]:
    """Return a permutation of the axes with larger strides first; the scan axis keeps its rank among them."""
    by_stride = [(-abs(stride), d) for d, stride in enumerate(array.strides)]
    before = sorted(at for at in by_stride if at < by_stride[axis])
    behind = sorted(at for at in by_stride if at > by_stride[axis])
    return (*(d for _, d in before), axis, *(d for _, d in behind))


def _allocate(dtype: DType, array: Array, flat: bool) -> Array:
    if flat:
        return allocator.empty(array.size, dtype)
    return allocate(dtype, array.shape, [array])


def _dense_strides(shape: tuple[int, ...], stride: int) -> tuple[int, ...]:
    """Return the strides of a flat array that is viewed in a shape."""
    strides = []
    for size in reversed(shape):
        strides.append(stride)
        stride *= size
    return tuple(reversed(strides))


def _scan_request(scan: _ScanFunction, array: Array, axis: int | None, target: Array) -> ScanRequest:
    """Describe a scan as `pk_scan` takes it."""
    operands = np.zeros(2, abi.OPERAND)
    if axis is None:
        shape, outer, rows = array.shape, 0, array.ndim
        fill_operand_row(operands[0], array, array.strides)
        fill_operand_row(operands[1], target, _dense_strides(shape, target.strides[0]))
    else:
        if target.ndim > 1:
            order = _layout(target, axis)
            array, target, axis = array.transpose(order), target.transpose(order), order.index(axis)
        shape, outer, rows = array.shape, axis, 1
        fill_operand_row(operands[0], array, array.strides)
        fill_operand_row(operands[1], target, target.strides)
    return scan.operation, scan.flags, operands, np.array(shape, np.int64), outer, rows


def _cost_of(scan: _ScanFunction, array: Array, result: DType) -> Cost:
    size = array.size
    is_float = result.kind == "f" and scan.operation in (abi.SCAN_SUM, abi.SCAN_PROD)
    each = _CPU_NS_FLOAT64 if is_float and FLOAT64 in (array.dtype, result) else _CPU_NS
    work = each * 1e-9 * size
    workers = cost_model.threads() if work > cost_model.SHARED_WORK else 1
    cpu = work / workers
    # The array is read twice; one thread scans the blocks' totals.
    moved = 2 * array.nbytes + size * result.itemsize
    if moved > _BEYOND_CACHES:
        cpu = (
            max(cpu, moved / min(workers * cost_model.THREAD_BANDWIDTH, cost_model.HOST_BANDWIDTH))
            + size * _SERIAL_SECONDS_PER_ELEMENT
        )
    # NumPy rounds float sums and products differently, and has no exclusive scan.
    numpy = None if is_float or scan.numpy is None else 2e-6 + _NUMPY_NS * 1e-9 * size
    return Cost(numpy, cost_model.CALL + cpu, array.nbytes, size * result.itemsize)


def _scan(scan: _ScanFunction, a: Any, axis: Any, dtype: Any, out: Any) -> Any:
    def by_numpy(reason: str) -> Any:
        if scan.numpy is None:
            raise errors.Unsupported(f"{scan.name}: NumPy has no such function; {reason}")
        return native_call.run_numpy(scan.name, reason, functools.partial(scan.numpy, a, axis, dtype, out))

    if isinstance(out, np.ndarray) and out.ndim == 0:  # NumPy crashes on it
        raise ValueError("provided out is the wrong size for the accumulation.")
    array = as_array(a)
    result_dtype = None if dtype is None else np.dtype(dtype)
    unsupported = array is None or (result_dtype is not None and code_of(result_dtype) is None)
    unsupported = unsupported or (isinstance(out, np.ndarray) and as_array(out) is None)
    if array is None or unsupported:
        choice = choose_engine(scan.name, [None], NO_COST)
        return by_numpy(choice.reason)

    if array.ndim == 0:
        array = array.reshape(1)
    flat, along = axis is None, axis
    if flat and (array.ndim == 1 or array.flags.c_contiguous):
        array, along = array.reshape(-1), 0
    result = _result_type(
        scan.ufunc, array.dtype, result_dtype, out.dtype if isinstance(out, np.ndarray) else None
    )
    choice = choose_engine(scan.name, [array], _cost_of(scan, array, result))
    if choice.engine == "numpy":
        return by_numpy(choice.reason)

    if along is not None:
        along = axis_index(along, array.ndim)
    shape = (array.size,) if flat else array.shape
    if out is not None:
        _checked_out(out, shape)
    target = out
    if (
        out is None
        or out.dtype.newbyteorder("=") != result
        or needs_copy(out, [array])
        # After a failure, the CPU engine can resume only if the input was not overwritten.
        or (choice.automatic and choice.engine == "cuda" and np.may_share_memory(out, array))
    ):
        target = _allocate(result, array, flat)
    if array.size == 0:
        log_empty_call(scan.name)
        return target if out is None else out
    described = _scan_request(scan, array, along, target)
    operation, flags, table, lengths, outer, rows = described
    request = (operation, flags, table, lengths, len(lengths), outer, rows)
    fp_flags = run(choice, "pk_scan", *request, size=array.size)
    fits = array.flags.c_contiguous and array.nbytes <= dispatch_cache.MAX_BYTES
    if out is None and not fp_flags and fits and choice.engine == "cpu" and dispatch_cache.is_filling_cache():
        dispatch_cache.offer_to_cache(target, prepared.fast_path_of(described, array, target))
    if fp_flags:
        is_cast = array.dtype.kind == "f" and result.kind != "f"
        fp_errors.report_fp_flags({"cast" if is_cast else "accumulate": fp_flags})
    if out is not None and target is not out:
        np.copyto(out, target, casting="unsafe")
    return target if out is None else out


def _device_fast_path(scan: _ScanFunction) -> Callable[..., Any]:
    """Make the device fast path of a scan."""
    result_type = functools.partial(_result_type, scan.ufunc, dtype=None, out=None)
    return device_fast_path.scan(scan.name, scan.operation, scan.flags, result_type)


@has_device_fast_path(_device_fast_path(_CUMSUM))
@numpy_for_small(np.cumsum)
def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative sum of the elements along a given axis.

    Parameters
    ----------
    a : array_like
        The array to sum.
    axis : int, optional
        The axis to scan along; by default all elements are scanned in C order.
    dtype : dtype, optional
        The result's type. Floats are summed in compensated float64, whatever it is; for an integer type,
        elements are cast to it first. By default, integers and bools shorter than int64 give int64 or
        uint64, as in NumPy.
    out : ndarray, optional
        Where to put the result.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.cumsum : NumPy's function.
    cumprod, sum, nancumsum, cumulative_sum, exclusive_scan

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cumsum([1, 2, 3])
    array([1, 3, 6])
    """
    return _scan(_CUMSUM, a, axis, dtype, out)


@has_device_fast_path(_device_fast_path(_CUMPROD))
@numpy_for_small(np.cumprod)
def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative product of the elements along a given axis.

    Parameters
    ----------
    a, axis, dtype, out
        As for `cumsum`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.cumprod : NumPy's function.
    cumsum, prod, nancumprod, cumulative_prod

    Differs from NumPy
    ------------------
    Products of floats are computed with a separate exponent, so the last bits can differ from NumPy's, and
    only the result can overflow or underflow.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cumprod([1, 2, 3, 4])
    array([ 1,  2,  6, 24])
    """
    return _scan(_CUMPROD, a, axis, dtype, out)


@has_device_fast_path(_device_fast_path(_NANCUMSUM))
@numpy_for_small(np.nancumsum)
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative sum of the elements along a given axis, treating NaNs as zero.

    Parameters
    ----------
    a, axis, dtype, out
        As for `cumsum`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.nancumsum : NumPy's function.
    cumsum, nansum

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nancumsum([1.0, float("nan"), 3.0])
    array([1., 1., 4.])
    """
    return _scan(_NANCUMSUM, a, axis, dtype, out)


@has_device_fast_path(_device_fast_path(_NANCUMPROD))
@numpy_for_small(np.nancumprod)
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative product of the elements along a given axis, treating NaNs as one.

    Parameters
    ----------
    a, axis, dtype, out
        As for `cumsum`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.nancumprod : NumPy's function.
    cumprod, nanprod

    Differs from NumPy
    ------------------
    Products of floats are computed with a separate exponent, so the last bits can differ from NumPy's, and
    only the result can overflow or underflow.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nancumprod([2.0, float("nan"), 3.0])
    array([2., 2., 6.])
    """
    return _scan(_NANCUMPROD, a, axis, dtype, out)


@has_device_fast_path(_device_fast_path(_CUMMAX))
@numpy_for_small(_numpy_cummax)
def cummax(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the running maximum along a given axis, as `numpy.maximum.accumulate`; NaN propagates.

    Parameters
    ----------
    a, axis, out
        As for `cumsum`.
    dtype : dtype, optional
        The result's type; elements are cast to it first.

    Returns
    -------
    ndarray

    See Also
    --------
    cummin, maximum, cumsum

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cummax([1, 3, 2, 5])
    array([1, 3, 3, 5])
    """
    return _scan(_CUMMAX, a, axis, dtype, out)


@has_device_fast_path(_device_fast_path(_CUMMIN))
@numpy_for_small(_numpy_cummin)
def cummin(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the running minimum along a given axis, as `numpy.minimum.accumulate`; NaN propagates.

    Parameters
    ----------
    a, axis, dtype, out
        As for `cummax`.

    Returns
    -------
    ndarray

    See Also
    --------
    cummax, minimum, cumsum

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cummin([4, 5, 2, 3])
    array([4, 4, 2, 2])
    """
    return _scan(_CUMMIN, a, axis, dtype, out)


@has_device_fast_path(_device_fast_path(_EXCLUSIVE_SCAN))
def exclusive_scan(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the exclusive cumulative sum, of the elements before each element: 0, x0, x0 + x1, ...

    NumPy has no such function, so the engine ``"numpy"`` raises `Unsupported`.

    Parameters
    ----------
    a, axis, dtype, out
        As for `cumsum`.

    Returns
    -------
    ndarray

    See Also
    --------
    cumsum

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.exclusive_scan([1, 2, 3])
    array([0, 1, 3])
    """
    return _scan(_EXCLUSIVE_SCAN, a, axis, dtype, out)


@numpy_for_small(getattr(np, "cumulative_sum", None))  # NumPy 2.0 has none
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Any:
    """Return the cumulative sum of the elements along a given axis, as the array API defines it.

    Parameters
    ----------
    x : array_like
        The array to sum.
    axis : int
        The axis to scan along; optional for an array of one dimension.
    dtype, out
        As for `cumsum`.
    include_initial : bool
        Whether the sum of no elements comes first.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.cumulative_sum : NumPy's function.
    cumsum, cumulative_prod

    Differs from NumPy
    ------------------
    Floats are added in float64 with compensation, so the last bits can differ from NumPy's.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cumulative_sum([1, 2, 3], include_initial=True)
    array([0, 1, 3, 6])
    """
    return _cumulative(_CUMULATIVE_SUM, x, axis, dtype, out, include_initial)


@numpy_for_small(getattr(np, "cumulative_prod", None))  # NumPy 2.0 has none
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False
) -> Any:
    """Return the cumulative product of the elements along a given axis, as the array API defines it.

    Parameters
    ----------
    x, axis, dtype, out, include_initial
        As for `cumulative_sum`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.cumulative_prod : NumPy's function.
    cumprod, cumulative_sum

    Differs from NumPy
    ------------------
    Products of floats are computed with a separate exponent, so the last bits can differ from NumPy's, and
    only the result can overflow or underflow.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.cumulative_prod([1, 2, 3, 4])
    array([ 1,  2,  6, 24])
    """
    return _cumulative(_CUMULATIVE_PROD, x, axis, dtype, out, include_initial)


def _cumulative(
    scan: _ScanFunction, x: Any, axis: int | None, dtype: Any, out: Any, include_initial: bool
) -> Any:
    array = as_array(x)
    if array is None:
        compute = getattr(np, scan.name)
        return native_call.numpy_fallback(
            scan.name, lambda: compute(x, axis=axis, dtype=dtype, out=out, include_initial=include_initial)
        )
    array = np.atleast_1d(array)
    if axis is None:
        if array.ndim > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    refuse_byte_order(dtype)
    axis = axis_index(axis, array.ndim)
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if not include_initial:
        return _scan(scan, array, axis, dtype, out)
    shape = tuple(n + (d == axis) for d, n in enumerate(array.shape))
    if out is None:
        result_dtype = None if dtype is None else np.dtype(dtype)
        out = allocator.empty(shape, _result_type(scan.ufunc, array.dtype, result_dtype, None))
    else:
        _checked_out(out, shape)
    first, rest = ((slice(None),) * axis + (part,) for part in (slice(0, 1), slice(1, None)))
    _scan(scan, array, axis, dtype, out[rest])
    out[first] = scan.ufunc.identity
    return out


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
