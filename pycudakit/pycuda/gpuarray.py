"""`pycuda.gpuarray`: arrays on the device, and functions of them."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit.pycuda import _array_math, _engine
from pycudakit.pycuda._array_copy import copy_array, host_view
from pycudakit.pycuda._array_layout import compact_strides
from pycudakit.pycuda._array_operators import common_dtype
from pycudakit.pycuda._gpuarray import GPUArray
from pycudakit.pycuda._memory import mem_alloc
from pycudakit.pycuda._vector_types import vec
from pycudakit.pycuda.elementwise import splay

__all__ = [
    "GPUArray",
    "all",
    "any",
    "arange",
    "concatenate",
    "dot",
    "empty",
    "empty_like",
    "if_positive",
    "logical_and",
    "logical_not",
    "logical_or",
    "max",
    "maximum",
    "min",
    "minimum",
    "multi_put",
    "multi_take",
    "multi_take_put",
    "ones",
    "ones_like",
    "reshape",
    "splay",
    "stack",
    "subset_dot",
    "subset_max",
    "subset_min",
    "subset_sum",
    "sum",
    "take",
    "to_gpu",
    "to_gpu_async",
    "transpose",
    "vec",
    "where",
    "zeros",
    "zeros_like",
]

_get_common_dtype = common_dtype  # PyCUDA's name, which other libraries import

# ---- Creation -----------------------------------------------------------------------------------------

empty = GPUArray


def to_gpu(ary: Any, allocator: Any = mem_alloc) -> GPUArray:
    """Return a copy of an array of the host, in the same memory order.

    Parameters
    ----------
    ary
        The array.
    allocator
        The allocator of the copy.

    Examples
    --------
    >>> import numpy as np
    >>> from pycudakit.pycuda import gpuarray
    >>> x = gpuarray.to_gpu(np.array([1.0, 2.0], np.float32))
    >>> (2 * x).get()
    array([2., 4.], dtype=float32)
    """
    ary = np.asarray(ary)
    result = GPUArray(ary.shape, ary.dtype, allocator, strides=compact_strides(ary))
    result.set(ary)
    return result


def to_gpu_async(ary: Any, allocator: Any = mem_alloc, stream: Any = None) -> GPUArray:
    """Return a copy of an array of the host, which is complete when the stream is."""
    ary = np.asarray(ary)
    result = GPUArray(ary.shape, ary.dtype, allocator, strides=compact_strides(ary))
    result.set_async(ary, stream)
    return result


def zeros(shape: Any, dtype: Any = np.float64, allocator: Any = mem_alloc, order: str = "C") -> GPUArray:
    """Return an array of zeros."""
    result = GPUArray(shape, dtype, allocator, order=order)
    return result.fill(np.zeros((), result.dtype))


def ones(shape: Any, dtype: Any = np.float64, allocator: Any = mem_alloc, order: str = "C") -> GPUArray:
    """Return an array of ones."""
    result = GPUArray(shape, dtype, allocator, order=order)
    return result.fill(np.ones((), result.dtype))


def empty_like(other_ary: Any, dtype: Any = None, order: str = "K") -> GPUArray:
    """Return an array of another one's shape, whose values are unspecified.

    Parameters
    ----------
    other_ary
        The array.
    dtype
        The dtype; by default the array's.
    order
        "C" or "F"; "A" for "F" if the array is in Fortran's order alone; "K" for the array's own order.
    """
    flags = other_ary.flags
    wanted = np.dtype(other_ary.dtype if dtype is None else dtype)
    strides = None
    if order == "A":
        order = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
    elif order == "K":
        strides = compact_strides(other_ary, wanted.itemsize)
        order = "C"
    elif order not in ("C", "F"):
        raise ValueError(f"Unsupported order: {order!r}; it is C, F, A or K")
    allocator = getattr(other_ary, "allocator", mem_alloc)
    return GPUArray(other_ary.shape, wanted, allocator, strides=strides, order=order)


def zeros_like(other_ary: Any, dtype: Any = None, order: str = "K") -> GPUArray:
    """Return an array of zeros, of another one's shape."""
    result = empty_like(other_ary, dtype, order)
    return result.fill(np.zeros((), result.dtype))


def ones_like(other_ary: Any, dtype: Any = None, order: str = "K") -> GPUArray:
    """Return an array of ones, of another one's shape."""
    result = empty_like(other_ary, dtype, order)
    return result.fill(np.ones((), result.dtype))


def arange(*args: Any, **kwargs: Any) -> GPUArray:
    """Return numbers from `start` on, `step` apart, before `stop`; the arguments are NumPy's, and `stream`.

    Examples
    --------
    >>> import numpy as np
    >>> from pycudakit.pycuda import gpuarray
    >>> gpuarray.arange(1, 7, 2, dtype=np.float32)
    array([1., 3., 5.], dtype=float32)
    """
    stream = kwargs.pop("stream", None)
    if args and isinstance(args[-1], np.dtype):
        args, kwargs["dtype"] = args[:-1], args[-1]
    numbers = np.arange(*args, **kwargs)
    result = GPUArray(numbers.shape, numbers.dtype)
    copy_array(result, numbers, stream)
    return result


# ---- Selection ----------------------------------------------------------------------------------------


def _require_indices(indices: GPUArray) -> None:
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise ValueError(f"indices are integers of one axis, not {indices.shape} of {indices.dtype}")


def take(a: GPUArray, indices: GPUArray, out: GPUArray | None = None, stream: Any = None) -> GPUArray:
    """Return ``a[indices]``, for an array of one axis.

    Parameters
    ----------
    a
        The array.
    indices
        Integers, on the device.
    out
        The array of the results.
    stream
        The stream.
    """
    _require_indices(indices)
    if out is None:
        out = GPUArray(indices.shape, a.dtype, a.allocator)
    _array_math.take(out, a, indices, stream)
    return out


def multi_take(
    arrays: Sequence[GPUArray], indices: GPUArray, out: Any = None, stream: Any = None
) -> list[GPUArray]:
    """Return `take` of several arrays."""
    outputs = [None] * len(arrays) if out is None else out
    if len(outputs) != len(arrays):
        raise ValueError("out and arrays must have the same length")
    return [take(array, indices, each, stream) for array, each in zip(arrays, outputs, strict=True)]


def multi_put(
    arrays: Sequence[GPUArray],
    dest_indices: GPUArray,
    dest_shape: Any = None,
    out: Any = None,
    stream: Any = None,
) -> list[GPUArray]:
    """Write each array's elements to the places `dest_indices` of an output.

    Parameters
    ----------
    arrays
        The arrays.
    dest_indices
        The places, as many as the arrays have elements.
    dest_shape
        The shape of new outputs.
    out
        The outputs.
    stream
        The stream.
    """
    _require_indices(dest_indices)
    if out is None and dest_shape is None:
        raise ValueError("multi_put: give dest_shape or out")
    if out is None:
        out = [zeros(dest_shape, array.dtype, array.allocator) for array in arrays]
    if len(out) != len(arrays):
        raise ValueError("out and arrays must have the same length")
    for target, array in zip(out, arrays, strict=True):
        if target.dtype != array.dtype:
            raise TypeError("arrays and out must have the same dtype")
        _array_math.put(target, dest_indices, array, stream)
    return list(out)


def multi_take_put(
    arrays: Sequence[GPUArray],
    dest_indices: GPUArray,
    src_indices: GPUArray,
    dest_shape: Any = None,
    out: Any = None,
    stream: Any = None,
    src_offsets: Sequence[int] | None = None,
) -> list[GPUArray]:
    """Write ``array[src_indices]`` of each array to the places `dest_indices` of an output."""
    if src_indices.shape != dest_indices.shape:
        raise ValueError("src_indices and dest_indices must have the same shape")
    if src_indices.dtype != dest_indices.dtype:
        raise TypeError("src_indices and dest_indices must have the same dtype")
    offsets = [0] * len(arrays) if src_offsets is None else src_offsets
    if len(offsets) != len(arrays):
        raise ValueError("src_offsets and arrays must have the same length")
    taken = [
        take(array, src_indices + int(offset) if offset else src_indices, None, stream)
        for array, offset in zip(arrays, offsets, strict=True)
    ]
    return multi_put(taken, dest_indices, dest_shape, out, stream)


def where(
    criterion: GPUArray, then_: Any, else_: Any, out: GPUArray | None = None, stream: Any = None
) -> GPUArray:
    """Return elements of `then_` where `criterion` is true, else of `else_`."""
    return _choose("where", criterion, criterion, then_, else_, out, stream)


def if_positive(
    criterion: GPUArray, then_: GPUArray, else_: GPUArray, out: GPUArray | None = None, stream: Any = None
) -> GPUArray:
    """Return elements of `then_` where `criterion` is positive, else of `else_`."""
    positive = _array_math.compute("greater", criterion.new_like(np.bool_), criterion, 0, stream=stream)
    return _choose("if_positive", criterion, positive, then_, else_, out, stream)


def _choose(
    name: str, criterion: GPUArray, mask: GPUArray, then_: Any, else_: Any, out: GPUArray | None, stream: Any
) -> GPUArray:
    arrays = [each for each in (then_, else_) if isinstance(each, GPUArray)]
    if builtins.any(each.shape != criterion.shape for each in arrays):
        raise ValueError(f"{name}: shapes do not match: {[each.shape for each in (criterion, *arrays)]}")
    if len({each.dtype for each in arrays}) > 1:
        raise ValueError(f"{name}: dtypes do not match: {then_.dtype} and {else_.dtype}")
    if out is None:
        out = empty_like(arrays[0]) if arrays else GPUArray(criterion.shape, common_dtype(then_, else_))
    return _array_math.where(out, mask, then_, else_, stream)  # type: ignore[no-any-return]


def maximum(a: Any, b: Any, out: GPUArray | None = None, stream: Any = None) -> GPUArray:
    """Return the larger of the elements of two arrays, or of an array and a number."""
    return _array_math.compute("maximum", _out_of(a, b, out), a, b, stream=stream)  # type: ignore[no-any-return]


def minimum(a: Any, b: Any, out: GPUArray | None = None, stream: Any = None) -> GPUArray:
    """Return the smaller of the elements of two arrays, or of an array and a number."""
    return _array_math.compute("minimum", _out_of(a, b, out), a, b, stream=stream)  # type: ignore[no-any-return]


def _out_of(a: Any, b: Any, out: GPUArray | None) -> GPUArray:
    return empty_like(a if isinstance(a, GPUArray) else b) if out is None else out


# ---- Shapes -------------------------------------------------------------------------------------------


def _axis(axis: int, count: int) -> int:
    if not -count <= axis < count:
        raise ValueError(f"invalid axis {axis}: there are {count}")
    return axis % count


def concatenate(arrays: Sequence[GPUArray], axis: int = 0, allocator: Any = None) -> GPUArray:
    """Return arrays joined along an axis."""
    if not arrays:
        raise ValueError("need at least one array to concatenate")
    shape = list(arrays[0].shape)
    axis = _axis(axis, len(shape))
    for number, array in enumerate(arrays[1:], 1):
        rest = array.shape[:axis] + array.shape[axis + 1 :]
        if array.ndim != len(shape) or rest != (*shape[:axis], *shape[axis + 1 :]):
            raise ValueError(f"array {number} has shape {array.shape}, which does not fit {arrays[0].shape}")
        shape[axis] += array.shape[axis]
    dtype = np.result_type(*(array.dtype for array in arrays))
    result = GPUArray(shape, dtype, allocator or arrays[0].allocator)
    begin, before = 0, (slice(None),) * axis
    for array in arrays:
        end = begin + array.shape[axis]
        place = (*before, slice(begin, end))
        result[place] = array.astype(dtype) if array.dtype != dtype else array
        begin = end
    return result


def stack(arrays: Sequence[GPUArray], axis: int = 0, allocator: Any = None) -> GPUArray:
    """Return arrays of one shape joined along a new axis."""
    if not arrays:
        raise ValueError("need at least one array to stack")
    if builtins.any(array.shape != arrays[0].shape for array in arrays):
        raise ValueError("arrays must have the same shape")
    axis = _axis(axis, arrays[0].ndim + 1)
    place = (*(slice(None),) * axis, None)
    return concatenate([array[place] for array in arrays], axis, allocator)


def transpose(a: GPUArray, axes: Any = None) -> GPUArray:
    """Return a view with its axes permuted, by default reversed."""
    return a.transpose(axes)


def reshape(a: GPUArray, *shape: Any, **kwargs: Any) -> GPUArray:
    """Return a view with another shape."""
    return a.reshape(*shape, **kwargs)


# ---- Reductions ---------------------------------------------------------------------------------------


def sum(a: GPUArray, dtype: Any = None, stream: Any = None, allocator: Any = None) -> GPUArray:
    """Return the sum of all elements, by default of the array's dtype, as an array of no axes.

    Examples
    --------
    >>> import numpy as np
    >>> from pycudakit.pycuda import gpuarray
    >>> gpuarray.sum(gpuarray.to_gpu(np.arange(5, dtype=np.int32)))
    array(10, dtype=int32)
    """
    return _reduce("sum", a, a.dtype if dtype is None else dtype, stream, allocator)


def _reduce(name: str, a: GPUArray, dtype: Any, stream: Any = None, allocator: Any = None) -> GPUArray:
    return _array_math.reduce(name, a, dtype, stream, allocator)  # type: ignore[no-any-return]


def max(a: GPUArray, stream: Any = None) -> GPUArray:
    """Return the largest element, as an array of no axes."""
    return _reduce("max", a, a.dtype, stream)


def min(a: GPUArray, stream: Any = None) -> GPUArray:
    """Return the smallest element, as an array of no axes."""
    return _reduce("min", a, a.dtype, stream)


def any(a: GPUArray, stream: Any = None, allocator: Any = None) -> GPUArray:
    """Return whether any element is true, as an array of no axes."""
    return a.any(stream, allocator)


def all(a: GPUArray, stream: Any = None, allocator: Any = None) -> GPUArray:
    """Return whether all elements are true, as an array of no axes."""
    return a.all(stream, allocator)


def dot(a: GPUArray, b: GPUArray, dtype: Any = None, stream: Any = None, allocator: Any = None) -> GPUArray:
    """Return the sum of the products of all elements, as an array of no axes."""
    if a.size != b.size:
        raise ValueError(f"dot: arrays of {a.size} and {b.size} elements")
    if a.shape != b.shape:
        a, b = a.ravel(), b.ravel()
    wanted = np.dtype(common_dtype(a, b) if dtype is None else dtype)
    if _engine.current().is_cpu and a.dtype == b.dtype == wanted:
        out = GPUArray((), wanted, allocator or a.allocator)
        host_view(out)[...] = np.dot(host_view(a).ravel(), host_view(b).ravel())
        return out
    products = _array_math.compute("multiply", a.new_like(wanted), a, b, stream=stream)
    return _reduce("sum", products, wanted, stream, allocator)


def subset_sum(
    subset: GPUArray, a: GPUArray, dtype: Any = None, stream: Any = None, allocator: Any = None
) -> GPUArray:
    """Return the sum of the elements with the indices `subset`."""
    return sum(take(a, subset, None, stream), dtype, stream, allocator)


def subset_dot(
    subset: GPUArray, a: GPUArray, b: GPUArray, dtype: Any = None, stream: Any = None, allocator: Any = None
) -> GPUArray:
    """Return the sum of the products of the elements with the indices `subset`."""
    return dot(take(a, subset, None, stream), take(b, subset, None, stream), dtype, stream, allocator)


def subset_min(subset: GPUArray, a: GPUArray, stream: Any = None) -> GPUArray:
    """Return the smallest of the elements with the indices `subset`."""
    return min(take(a, subset, None, stream), stream)


def subset_max(subset: GPUArray, a: GPUArray, stream: Any = None) -> GPUArray:
    """Return the largest of the elements with the indices `subset`."""
    return max(take(a, subset, None, stream), stream)


# ---- Logic --------------------------------------------------------------------------------------------


def _logical(name: str, operands: tuple[Any, ...], out: GPUArray | None, allocator: Any) -> GPUArray:
    arrays = [each for each in operands if isinstance(each, GPUArray)]
    if len({each.shape for each in arrays}) > 1:
        raise ValueError(f"{name}: shapes do not match: {[each.shape for each in arrays]}")
    if out is None:
        shape = arrays[0].shape if arrays else ()
        out = GPUArray(shape, np.bool_, allocator or (arrays[0].allocator if arrays else mem_alloc))
    if not arrays:
        return out.fill(getattr(np, name)(*operands))
    return _array_math.compute(name, out, *operands)  # type: ignore[no-any-return]


def logical_and(x1: Any, x2: Any, /, out: GPUArray | None = None, *, allocator: Any = None) -> GPUArray:
    """Return whether both elements are true."""
    return _logical("logical_and", (x1, x2), out, allocator)


def logical_or(x1: Any, x2: Any, /, out: GPUArray | None = None, *, allocator: Any = None) -> GPUArray:
    """Return whether an element of the two is true."""
    return _logical("logical_or", (x1, x2), out, allocator)


def logical_not(x: Any, /, out: GPUArray | None = None, *, allocator: Any = None) -> GPUArray:
    """Return whether each element is false."""
    return _logical("logical_not", (x,), out, allocator)
