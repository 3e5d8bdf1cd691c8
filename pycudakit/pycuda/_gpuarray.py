"""The class GPUArray."""

from __future__ import annotations

import copyreg
import functools
import math
import operator
import warnings
from typing import Any, cast

import numpy as np

from pycudakit._interop import cuda_libraries
from pycudakit.pycuda import _array_math, _engine
from pycudakit.pycuda._absent import gpuarray_to_array
from pycudakit.pycuda._array_copy import copy_array, owning_view
from pycudakit.pycuda._array_layout import (
    ArrayFlags,
    check_reach,
    compact_strides,
    contiguous_strides,
    flags_of,
    indexed,
    lengths_of,
    reshaped,
)
from pycudakit.pycuda._array_operators import Operators
from pycudakit.pycuda._host_memory import pagelocked_empty
from pycudakit.pycuda._memory import allocate, mem_alloc
from pycudakit.pycuda.elementwise import splay


class GPUArray(Operators):
    """An array on the device.

    Parameters
    ----------
    shape
        The shape.
    dtype
        The dtype.
    allocator
        A function of a number of bytes that returns device memory.
    base
        The object that owns the memory, if `gpudata` is given.
    gpudata
        The memory, or its address; by default new memory, whose contents are unspecified.
    strides
        The strides in bytes; by default those of an array without gaps.
    order
        The order of an array without gaps: "C" or "F".
    """

    # By which kernels get the address of an argument without a conversion.
    _device_address = operator.attrgetter("gpudata")
    __array_priority__ = 100

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cuda_libraries.register(cls, _LIBRARY)

    def __init__(
        self,
        shape: Any,
        dtype: Any,
        allocator: Any = mem_alloc,
        base: Any = None,
        gpudata: Any = None,
        strides: Any = None,
        order: str = "C",
    ) -> None:
        kind: np.dtype[Any] = np.dtype(dtype)
        lengths = lengths_of(shape)
        if strides is None:
            steps = contiguous_strides(kind.itemsize, lengths, order)
        else:
            steps = tuple(map(operator.index, strides))
            if gpudata is None:
                check_reach(kind.itemsize * math.prod(lengths), kind.itemsize, lengths, steps)
        self._create(kind, lengths, steps, allocator, base, gpudata)

    def _create(
        self,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        allocator: Any,
        base: Any = None,
        gpudata: Any = None,
    ) -> None:
        """Set the attributes, and allocate memory unless it is given."""
        if dtype.hasobject:
            raise TypeError(f"an array of {dtype} holds Python objects, which a device cannot access")
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.itemsize = dtype.itemsize
        self.size = self.mem_size = size = math.prod(shape)
        self.nbytes = size * dtype.itemsize
        self.allocator = mem_alloc if allocator is None else allocator
        self.base = base
        if gpudata is not None:
            self.gpudata = gpudata
        elif self.nbytes == 0:
            self.gpudata = None
        elif self.allocator is mem_alloc:
            self.gpudata = allocate(self.nbytes, zeros=False)
        else:
            self.gpudata = self.allocator(self.nbytes)

    # ---- Attributes --------------------------------------------------------------------------------

    @property
    def ptr(self) -> int:
        """The address of the first element."""
        return 0 if self.gpudata is None else int(self.gpudata)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @functools.cached_property
    def flags(self) -> ArrayFlags:
        """Whether the array is contiguous: `c_contiguous`, `f_contiguous`, `forc`."""
        return flags_of(self.shape, self.strides, self.itemsize)

    @property
    def _grid(self) -> tuple[int, int]:
        return self._splayed[0]

    @property
    def _block(self) -> tuple[int, int, int]:
        return self._splayed[1]

    @property
    def _splayed(self) -> tuple[tuple[int, int], tuple[int, int, int]]:
        return splay(self.mem_size)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """How other libraries access the array, on a GPU."""
        if _engine.current().is_cpu:
            raise AttributeError("__cuda_array_interface__: the memory is not on a GPU")
        return {
            "version": 3,
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "data": (self.ptr, False),
            "stream": None,
        }

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the array's memory as a NumPy array, on the engine `cpu`."""
        if not _engine.current().is_cpu:
            raise TypeError("a GPUArray is on a GPU: copy it to the host by get()")
        return np.array(owning_view(self), dtype, copy=copy)

    def __len__(self) -> int:
        """Return the length of the first axis."""
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __bool__(self) -> bool:
        """Return the truth of an array of one element."""
        if self.size != 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            )
        return bool(self.get())

    def __hash__(self) -> int:
        """Raise: arrays are mutable."""
        raise TypeError("GPUArrays are not hashable.")

    def __str__(self) -> str:
        """Return the text of the array's copy on the host."""
        return str(self.get())

    def __repr__(self) -> str:
        """Return the text of the array's copy on the host."""
        return repr(self.get())

    # ---- Copies ------------------------------------------------------------------------------------

    def set(self, ary: Any, async_: bool | None = False, stream: Any = None, **kwargs: Any) -> None:
        """Copy an array of the host into this one.

        Parameters
        ----------
        ary
            An array of the same size and dtype.
        async_
            Return before the copy is complete; `ary` is then page-locked memory.
        stream
            The stream of an asynchronous copy.
        """
        async_ = _async("set", async_, kwargs)
        ary = ary if isinstance(ary, GPUArray) else np.asarray(ary)
        if ary.size != self.size:
            raise ValueError(f"ary and self must be the same size: {ary.size} and {self.size} elements")
        if ary.dtype != self.dtype:
            raise ValueError(f"ary and self must have the same dtype: {ary.dtype} and {self.dtype}")
        if ary.shape != self.shape:
            _warn("Setting array from one with different shape.")
            ary = ary.reshape(self.shape)
        copy_array(self, ary, stream, async_=async_)

    def set_async(self, ary: Any, stream: Any = None) -> None:
        """Copy an array of the host into this one, in a stream."""
        self.set(ary, async_=True, stream=stream)

    def get(
        self,
        ary: Any = None,
        pagelocked: bool = False,
        async_: bool | None = False,
        stream: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return a copy of the array on the host.

        Parameters
        ----------
        ary
            The array that is written, of the same size and dtype; by default a new one.
        pagelocked
            Make the new array in page-locked memory.
        async_
            Return before the copy is complete.
        stream
            The stream of an asynchronous copy.
        """
        async_ = _async("get", async_, kwargs)
        if ary is None:
            flat = pagelocked_empty(self.size, self.dtype) if pagelocked else np.empty(self.size, self.dtype)
            ary = np.ndarray(self.shape, self.dtype, flat, strides=compact_strides(self))
        elif ary.size != self.size:
            raise ValueError(f"self and ary must be the same size: {self.size} and {ary.size} elements")
        elif ary.dtype != self.dtype:
            raise TypeError(f"self and ary must have the same dtype: {self.dtype} and {ary.dtype}")
        target = ary
        if ary.shape != self.shape:
            _warn("get() between arrays of different shape is deprecated", DeprecationWarning)
            target = ary.view()
            target.shape = self.shape
        copy_array(target, self, stream, async_=async_)
        return ary

    def get_async(self, stream: Any = None, ary: Any = None) -> Any:
        """Return a copy of the array on the host, which is complete when the stream is."""
        return self.get(ary=ary, async_=True, stream=stream)

    def copy(self) -> GPUArray:
        """Return a copy on the device."""
        return self.copy_like(self)

    def copy_like(self, other: GPUArray) -> GPUArray:
        """Return a copy in the memory order of another array of the shape."""
        new = GPUArray(self.shape, self.dtype, self.allocator, strides=compact_strides(other, self.itemsize))
        copy_array(new, self)
        return new

    def fill(self, value: Any, stream: Any = None) -> GPUArray:
        """Set all elements to a value; return the array."""
        return cast("GPUArray", _array_math.fill(self, value, stream))

    def astype(self, dtype: Any, stream: Any = None) -> GPUArray:
        """Return a copy of another dtype."""
        if self.dtype == dtype:
            return self.copy()
        return cast("GPUArray", _array_math.convert(self.new_like(np.dtype(dtype)), self, stream))

    # ---- New arrays --------------------------------------------------------------------------------

    def new_like(self, dtype: Any = None, order: str | None = None) -> GPUArray:
        """Return a new array of the shape, whose values are unspecified."""
        kind: np.dtype[Any] = self.dtype if dtype is None else np.dtype(dtype)
        flags = self.flags
        if order is None:
            order = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
        new = GPUArray.__new__(GPUArray)
        strides = contiguous_strides(kind.itemsize, self.shape, order)
        new._create(kind, self.shape, strides, self.allocator)  # noqa: SLF001
        if strides == self.strides and new.itemsize == self.itemsize:
            new.flags = flags
        return new

    _new_like_me = new_like  # PyCUDA's name, which other libraries use

    # ---- Complex numbers ---------------------------------------------------------------------------

    @property
    def _real_dtype(self) -> np.dtype[Any]:
        return np.empty(0, self.dtype).real.dtype

    @property
    def real(self) -> GPUArray:
        """The real parts."""
        if self.dtype.kind != "c":
            return self
        return cast("GPUArray", _array_math.part("real", self.new_like(self._real_dtype), self))

    @property
    def imag(self) -> GPUArray:
        """The imaginary parts."""
        if self.dtype.kind != "c":
            return self.new_like().fill(0)
        return cast("GPUArray", _array_math.part("imag", self.new_like(self._real_dtype), self))

    def conj(self, out: GPUArray | None = None) -> GPUArray:
        """Return the conjugates."""
        if self.dtype.kind != "c":
            return self
        result = self.new_like() if out is None else out
        return cast("GPUArray", _array_math.compute("conjugate", result, self))

    conjugate = conj

    # ---- Reductions --------------------------------------------------------------------------------

    def any(self, stream: Any = None, allocator: Any = None) -> GPUArray:
        """Return whether any element is true, as an array of no axes."""
        return cast("GPUArray", _array_math.reduce("any", self, np.bool_, stream, allocator))

    def all(self, stream: Any = None, allocator: Any = None) -> GPUArray:
        """Return whether all elements are true, as an array of no axes."""
        return cast("GPUArray", _array_math.reduce("all", self, np.bool_, stream, allocator))

    # ---- Views -------------------------------------------------------------------------------------

    def _view(self, shape: Any, strides: Any, dtype: Any = None, offset: int = 0) -> GPUArray:
        return GPUArray(
            shape,
            self.dtype if dtype is None else dtype,
            self.allocator,
            base=self,
            gpudata=None if self.gpudata is None else int(self.gpudata) + offset,
            strides=strides,
        )

    def reshape(self, *shape: Any, order: str = "C") -> GPUArray:
        """Return a view with another shape; one length may be -1."""
        if not self.flags.forc:
            raise RuntimeError("only contiguous arrays may be used as arguments to this operation")
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        lengths = reshaped(given, self.size)
        is_same = self.flags.c_contiguous if order == "C" else self.flags.f_contiguous
        if lengths == self.shape and is_same:
            return self
        return self._view(lengths, contiguous_strides(self.itemsize, lengths, order))

    def ravel(self) -> GPUArray:
        """Return a view with one axis."""
        return self.reshape(self.size)

    def view(self, dtype: Any = None) -> GPUArray:
        """Return a view, with another dtype if one is given."""
        wanted = self.dtype if dtype is None else np.dtype(dtype)
        if not self.shape:
            if wanted.itemsize != self.itemsize:
                raise ValueError("new type not compatible with array")
            return self._view((), (), wanted)
        axis = self.ndim - 1
        if self.size:
            axis = min(range(self.ndim), key=lambda axis: (self.shape[axis] == 1, abs(self.strides[axis])))
            has_gaps = self.shape[axis] > 1 and self.strides[axis] != self.itemsize
            if has_gaps and wanted.itemsize != self.itemsize:
                raise ValueError("a view with items of another size needs a contiguous axis: view a copy()")
        length = self.shape[axis] * self.itemsize
        if length % wanted.itemsize:
            raise ValueError("new type not compatible with array")
        shape, strides = list(self.shape), list(self.strides)
        shape[axis] = length // wanted.itemsize
        if wanted.itemsize != self.itemsize:
            strides[axis] = wanted.itemsize
        return self._view(shape, strides, wanted)

    def squeeze(self) -> GPUArray:
        """Return a view without the axes of length 1."""
        axes = [axis for axis, length in enumerate(self.shape) if length != 1]
        return self._view([self.shape[axis] for axis in axes], [self.strides[axis] for axis in axes])

    def transpose(self, axes: Any = None) -> GPUArray:
        """Return a view with its axes permuted, by default reversed."""
        order = list(range(self.ndim))[::-1] if axes is None else list(axes)
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"axes don't match array: {axes} for {self.ndim} axes")
        return self._view([self.shape[axis] for axis in order], [self.strides[axis] for axis in order])

    @property
    def T(self) -> GPUArray:  # noqa: N802
        """The view with its axes reversed."""
        return self.transpose()

    def __getitem__(self, index: Any) -> GPUArray:
        """Return the view that slices, integers, None and an ellipsis select."""
        shape, strides, offset = indexed(index, self.shape, self.strides)
        return self._view(shape, strides, offset=offset)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Set the elements that an index selects to a number, or to the values of an array of its shape."""
        selected = self[index]
        if isinstance(value, (GPUArray, np.ndarray)) and value.shape == selected.shape:
            copy_array(selected, value)
        elif isinstance(value, GPUArray):
            raise ValueError(f"an array of {value.shape} cannot be set to one of {selected.shape}")
        else:
            selected.fill(value) if np.ndim(value) == 0 else copy_array(
                selected, np.broadcast_to(np.asarray(value, self.dtype), selected.shape)
            )

    def reverse(self, stream: Any = None) -> GPUArray:
        """Return a copy whose elements are in reversed order."""
        flat = self.ravel()
        result = self.new_like()
        copy_array(result.ravel(), flat[::-1], stream)
        return result

    def bind_to_texref(self, texref: Any, allow_offset: bool = False) -> Any:
        """Raise LogicError: CUDA 12 has no texture references."""
        return gpuarray_to_array(self, texref, allow_offset)

    def bind_to_texref_ext(self, texref: Any, *options: Any, **keywords: Any) -> Any:
        """Raise LogicError: CUDA 12 has no texture references."""
        return gpuarray_to_array(self, texref, *options, **keywords)


def _async(function: str, async_: bool | None, keywords: dict[str, Any]) -> bool:
    older = keywords.pop("async", None)  # PyCUDA's first name
    if keywords:
        raise TypeError(f"{function}() got an unexpected keyword argument {next(iter(keywords))!r}")
    return bool(async_ if older is None else older)


def _warn(message: str, category: type[Warning] = UserWarning) -> None:
    warnings.warn(message, category, stacklevel=3)


def _from_host(array: Any) -> GPUArray:
    result = GPUArray(array.shape, array.dtype, strides=compact_strides(array))
    copy_array(result, array)
    return result


copyreg.pickle(GPUArray, lambda array: (_from_host, (array.get(),)))
_LIBRARY = _array_math.library_of(GPUArray)
cuda_libraries.register(GPUArray, _LIBRARY)
