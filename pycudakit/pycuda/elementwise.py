"""`pycuda.elementwise`: kernels that apply an operation to each element of arrays."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from pycudakit.pycuda._device import Device, cached_per_device, current_device
from pycudakit.pycuda._device_attributes import device_attribute
from pycudakit.pycuda._element_kernels import (
    get_arange_kernel,
    get_axpbyz_kernel,
    get_axpbz_kernel,
    get_binary_func_kernel,
    get_binary_func_scalar_kernel,
    get_binary_minmax_kernel,
    get_binary_op_kernel,
    get_conj_kernel,
    get_copy_kernel,
    get_fill_kernel,
    get_fmod_kernel,
    get_frexp_kernel,
    get_if_positive_kernel,
    get_imag_kernel,
    get_ldexp_kernel,
    get_linear_combination_kernel,
    get_logical_not_kernel,
    get_modf_kernel,
    get_pow_array_kernel,
    get_put_kernel,
    get_rdivide_elwise_kernel,
    get_real_kernel,
    get_reverse_kernel,
    get_scalar_op_kernel,
    get_take_kernel,
    get_take_put_kernel,
    get_unary_func_kernel,
    get_where_kernel,
)
from pycudakit.pycuda._element_modules import (
    arguments_of,
    get_elwise_kernel,
    get_elwise_kernel_and_types,
    get_elwise_module,
    get_elwise_range_kernel,
    get_elwise_range_module,
)
from pycudakit.pycuda._errors import absent
from pycudakit.pycuda.tools import Argument, ScalarArg, VectorArg

__all__ = [
    "ElementwiseKernel",
    "ScalarArg",
    "VectorArg",
    "get_arange_kernel",
    "get_axpbyz_kernel",
    "get_axpbz_kernel",
    "get_binary_func_kernel",
    "get_binary_func_scalar_kernel",
    "get_binary_minmax_kernel",
    "get_binary_op_kernel",
    "get_conj_kernel",
    "get_copy_kernel",
    "get_elwise_kernel",
    "get_elwise_kernel_and_types",
    "get_elwise_module",
    "get_elwise_range_kernel",
    "get_elwise_range_module",
    "get_fill_kernel",
    "get_fmod_kernel",
    "get_frexp_kernel",
    "get_if_positive_kernel",
    "get_imag_kernel",
    "get_ldexp_kernel",
    "get_linear_combination_kernel",
    "get_logical_not_kernel",
    "get_modf_kernel",
    "get_pow_array_kernel",
    "get_put_kernel",
    "get_rdivide_elwise_kernel",
    "get_real_kernel",
    "get_reverse_kernel",
    "get_scalar_op_kernel",
    "get_take_kernel",
    "get_take_put_kernel",
    "get_unary_func_kernel",
    "get_where_kernel",
    "splay",
]


@cached_per_device
def _multiprocessors(device: int) -> int:
    return int(Device(device).get_attribute(device_attribute.MULTIPROCESSOR_COUNT))


def splay(n: int, dev: Any = None) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """Return the grid and the block for a kernel that walks over `n` elements."""
    return _splayed(n, current_device() if dev is None else int(dev))


@functools.lru_cache(1024)
def _splayed(n: int, device: int) -> tuple[tuple[int, int], tuple[int, int, int]]:
    threads = 32 if n < 1 << 14 else 128
    blocks = min(-(-n // threads), 32 * _multiprocessors(device))
    return (blocks or 1, 1), (threads, 1, 1)


class ElementwiseKernel:
    """A kernel that applies an operation to each element.

    Parameters
    ----------
    arguments
        The parameters as C declares them, ``"float *z, float *x, float a"``, or a list of VectorArg and
        ScalarArg. Arrays are contiguous, and of one size.
    operation
        The statement for the element with index `i` of `n`: ``"z[i] = a * x[i]"``.
    name
        The kernel's name.
    keep
        Keep the files of the compiler.
    options
        Options for the compiler.
    **kwargs
        `preamble`: source before the kernel; `loop_prep`, `after_loop`: statements that each thread runs
        before and after its elements.

    Examples
    --------
    >>> import numpy as np
    >>> from pycudakit.pycuda import gpuarray
    >>> from pycudakit.pycuda.elementwise import ElementwiseKernel
    >>> scaled = ElementwiseKernel("float *z, float *x, float a", "z[i] = a * x[i]", "scaled")
    >>> x = gpuarray.to_gpu(np.arange(4, dtype=np.float32))
    >>> z = gpuarray.empty_like(x)
    >>> scaled(z, x, 2)
    >>> z
    array([0., 2., 4., 6.], dtype=float32)
    """

    def __init__(
        self,
        arguments: Any,
        operation: str,
        name: str = "kernel",
        keep: bool = False,
        options: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.name = name
        self.arguments = arguments_of(arguments)
        if not any(isinstance(argument, VectorArg) for argument in self.arguments):
            raise RuntimeError(f"{name}: an ElementwiseKernel has at least one array among its parameters")
        making = self.arguments, operation, name, keep, options
        self._kernel = cached_per_device(functools.partial(get_elwise_kernel, *making, **kwargs))
        self._range_kernel = cached_per_device(functools.partial(get_elwise_range_kernel, *making, **kwargs))

    get_texref = absent("ElementwiseKernel.get_texref", "CUDA 12 has no texture references: pass an array")

    def __call__(self, *args: Any, range: Any = None, slice: Any = None, stream: Any = None) -> None:
        """Run the kernel.

        Parameters
        ----------
        *args
            A GPUArray for each array, and a number for each other parameter.
        range : slice, optional
            The values of `i`, instead of those of all elements.
        slice : slice, optional
            As `range`, with negative and absent limits, as in indexing.
        stream
            The stream.
        """
        size = arrays_size(self.name, self.arguments, args)
        passed = [
            value.gpudata if isinstance(argument, VectorArg) else value
            for argument, value in zip(self.arguments, args, strict=True)
        ]
        if range is None and slice is None:
            if size:
                grid, block = splay(size)
                self._kernel().prepared_async_call(grid, block, stream, *passed, size)
            return
        chosen = chosen_range(self.name, range, slice, size)
        if chosen:
            grid, block = splay(len(chosen))
            self._range_kernel().prepared_async_call(
                grid, block, stream, *passed, chosen.start, chosen.stop, chosen.step
            )


def chosen_range(name: str, limits: Any, selected: Any, size: int) -> range:
    """Return the indices that the arguments `range` and `slice` of a kernel select."""
    if limits is not None and selected is not None:
        raise TypeError(f"{name}: give range or slice, not both")
    if limits is None:
        return range(*(selected or slice(None)).indices(size))
    if limits.stop is None:
        raise ValueError(f"{name}: range={limits}: it needs a stop")
    start = 0 if limits.start is None else operator.index(limits.start)
    step = 1 if limits.step is None else operator.index(limits.step)
    return range(start, operator.index(limits.stop), step)


def arrays_size(name: str, arguments: Sequence[Argument], args: Sequence[Any]) -> int:
    """Return the number of elements of the first array; raise unless all are contiguous arrays."""
    if len(args) != len(arguments):
        listed = ", ".join(argument.name for argument in arguments)
        raise TypeError(f"{name} takes {len(arguments)} arguments ({listed}), and got {len(args)}")
    size = None
    for argument, value in zip(arguments, args, strict=True):
        if not isinstance(argument, VectorArg):
            continue
        flags = getattr(value, "flags", None)
        if not hasattr(value, "gpudata") or flags is None:
            raise TypeError(f"{name}: {argument.name} is a GPUArray, not a {type(value).__name__}")
        if not flags.forc:
            raise RuntimeError(
                f"{name}: {argument.name}: only contiguous arrays may be used as arguments to this operation"
            )
        if size is None:
            size = int(value.size)
    return size or 0
