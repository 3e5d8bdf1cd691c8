"""Arrays on a GPU that kernels work in, where they lie."""

from __future__ import annotations

from typing import Any, NamedTuple

from pycudakit import errors
from pycudakit._interop import foreign_arrays
from pycudakit._interop.cuda_libraries import ALLOCATORS, LEGACY_STREAM
from pycudakit._interop.device_view import as_device_view, contiguous_strides
from pycudakit._native import allocator
from pycudakit._native.dtypes import DType, code_of

_DENSE = {
    "cupy": "cupy.ascontiguousarray(x)",
    "torch": "x.contiguous()",
}


class DeviceArgument(NamedTuple):
    """A dense array on a GPU.

    Parameters
    ----------
    owner
        The other library's array.
    stream
        The address of the stream that its values come in, and what is computed of them goes to.
    keeps
        What must live as long as the call.
    """

    owner: Any
    address: int
    stream: int
    shape: tuple[int, ...]
    dtype: DType
    nbytes: int
    is_readonly: bool
    keep_alive: Any


def is_on_device(value: Any) -> bool:
    """Tell whether a value lies on a GPU, and kernels may work in it there."""
    return (
        foreign_arrays.can_use_device_arrays()
        and not foreign_arrays.is_ordinary(value)
        and foreign_arrays.is_device_array(value)
    )


def device_argument(value: Any, title: str) -> DeviceArgument:
    """Return where a value lies on a GPU, or refuse what no kernel takes.

    Parameters
    ----------
    title
        What errors call it.
    """
    try:
        found = as_device_view(value)
    except errors.Error as error:
        raise type(error)(f"{title}: {error}") from None
    if found is None:
        raise TypeError(f"{title}: a {type(value).__name__} lies on no GPU")
    dense = contiguous_strides(found.shape, found.dtype)
    used = [(n, own, want) for n, own, want in zip(found.shape, found.strides, dense, strict=True) if n > 1]
    if found.size and any(own != want for _, own, want in used):
        way = _DENSE.get(foreign_arrays.library_of(value), "a copy in C order")
        raise errors.Unsupported(
            f"{title}: a kernel takes the elements of an array on a GPU where they lie, in C order one after "
            f"the other, and those given have the strides {found.strides}: give {way}"
        )
    if not found.dtype.isnative:
        raise errors.Unsupported(
            f"{title}: the bytes of an array on a GPU are swapped, of {found.dtype.str!r}: convert it first"
        )
    return DeviceArgument(
        value,
        found.address,
        found.stream or LEGACY_STREAM,
        found.shape,
        found.dtype,
        found.size * found.dtype.itemsize,
        found.is_readonly,
        found.keep_alive,
    )


def empty_like_device(value: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Return a new array of the library that a value is of; NumPy's, if others may not write that one's."""
    make = ALLOCATORS.get(foreign_arrays.library_of(value))
    if make is None or code_of(dtype) is None:
        return allocator.empty(shape, dtype)
    return make(shape, dtype, value)


def may_overlap(a: DeviceArgument, b: DeviceArgument) -> bool:
    """Tell whether two arrays have memory in common."""
    return a.address < b.address + b.nbytes and b.address < a.address + a.nbytes


def refuse_isolated_device_arrays(name: str, isolates: bool) -> None:
    """Refuse a helper process for arrays on a GPU."""
    if isolates:
        raise errors.Unsupported(
            f"{name}: an array lies on a GPU, where a helper process does not reach it: leave isolate and "
            "timeout out, or bring the array home first"
        )
