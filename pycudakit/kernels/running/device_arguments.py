"""Device arrays of other libraries as kernel arguments, passed by device pointer, without a copy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pycudakit import errors
from pycudakit._interop import foreign_arrays
from pycudakit._interop.cuda_libraries import LEGACY_STREAM, allocator_for
from pycudakit._interop.device_view import DeviceView, as_device_view
from pycudakit._interop.memory_layout import contiguous_strides
from pycudakit._native import allocator
from pycudakit._native.dtypes import DType, code_of

_DENSE = {
    "cupy": "cupy.ascontiguousarray(x)",
    "torch": "x.contiguous()",
}


def is_on_device(value: Any) -> bool:
    """Return True if a value is a device array and the engine in force can use it."""
    return (
        foreign_arrays.can_use_device_arrays()
        and not foreign_arrays.is_ordinary(value)
        and foreign_arrays.is_device_array(value)
    )


def device_argument(value: Any, title: str) -> DeviceView:
    """Return the view of a device array, with a stream; raise if kernels cannot use it.

    Parameters
    ----------
    title
        The argument's name in error messages.
    """
    try:
        view = as_device_view(value)
    except errors.Error as error:
        raise type(error)(f"{title}: {error}") from None
    if view is None:
        raise TypeError(f"{title}: a {type(value).__name__} is not on a GPU")
    dense = contiguous_strides(view.shape, view.dtype.itemsize)
    used = [
        (n, stride, dense_stride)
        for n, stride, dense_stride in zip(view.shape, view.strides, dense, strict=True)
        if n > 1
    ]
    if view.size and any(stride != dense_stride for _, stride, dense_stride in used):
        way = _DENSE.get(foreign_arrays.library_of(value), "a copy in C order")
        raise errors.Unsupported(
            f"{title}: a kernel uses a device array in place, which must be C-contiguous, and this one has "
            f"the strides {view.strides}: give {way}"
        )
    if not view.dtype.isnative:
        raise errors.Unsupported(
            f"{title}: the device array is byte-swapped, of {view.dtype.str!r}: convert it first"
        )
    return replace(view, stream=view.stream or LEGACY_STREAM)


def empty_like_device(value: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Return a new array of a value's library; a NumPy array if that library's arrays are immutable."""
    make = allocator_for(value)
    if make is None or code_of(dtype) is None:
        return allocator.empty(shape, dtype)
    return make(shape, dtype, value)


def refuse_isolated_device_arrays(name: str, isolates: bool) -> None:
    """Raise if a call on device arrays is to run in a helper process."""
    if isolates:
        raise errors.Unsupported(
            f"{name}: an array is on a GPU, and a helper process cannot access it: leave isolate and "
            "timeout out, or copy the array to the host first"
        )
