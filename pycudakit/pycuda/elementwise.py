"""`pycuda.elementwise`: kernels that apply an operation to each element of arrays."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from pycudakit.pycuda._device import Device, cached_per_device, current_device
from pycudakit.pycuda._device_attributes import device_attribute
from pycudakit.pycuda._function import Function
from pycudakit.pycuda.compiler import SourceModule
from pycudakit.pycuda.tools import Argument, VectorArg, parse_c_arg

_SOURCE = """#include <pycuda-complex.hpp>
{preamble}
__global__ void {name}({arguments})
{{
    const long long tid = threadIdx.x;
    const long long total_threads = (long long)gridDim.x * blockDim.x;
    const long long cta_start = (long long)blockDim.x * blockIdx.x;
    {loop}
    {loop_prep};
    {statement}
    {{
        {operation};
    }}
    {after_loop};
}}
"""
# The parameters of the elements, the declaration of `i`, and the loop.
_WHOLE = ("size_t n", "size_t i;", "for (i = cta_start + tid; i < n; i += total_threads)")
_RANGE = (
    "long long start, long long stop, long long step",
    "long long i;",
    "for (i = start + (cta_start + tid) * step; step > 0 ? i < stop : i > stop; i += total_threads * step)",
)


def arguments_of(arguments: Any) -> list[Argument]:
    """Return the parameters that a declaration in C lists."""
    if isinstance(arguments, str):
        return [parse_c_arg(each) for each in arguments.split(",")]
    return list(arguments)


def _compiled(
    arguments: Any,
    operation: str,
    name: str,
    keep: bool,
    options: Sequence[str] | None,
    loop: tuple[str, str, str],
    **texts: str,
) -> Any:
    elements, index, statement = loop
    declared = [argument.declarator() for argument in arguments_of(arguments)]
    source = _SOURCE.format(
        arguments=", ".join([*declared, elements]),
        operation=operation,
        name=name,
        loop=index,
        statement=statement,
        **texts,
    )
    return SourceModule(source, options=options, keep=keep, no_extern_c=True)


def get_elwise_module(
    arguments: Any,
    operation: str,
    name: str = "kernel",
    keep: bool = False,
    options: Sequence[str] | None = None,
    preamble: str = "",
    loop_prep: str = "",
    after_loop: str = "",
) -> Any:
    """Return the module of a kernel whose last parameter, `n`, is the number of elements."""
    texts = {"preamble": preamble, "loop_prep": loop_prep, "after_loop": after_loop}
    return _compiled(arguments, operation, name, keep, options, _WHOLE, **texts)


def get_elwise_range_module(
    arguments: Any,
    operation: str,
    name: str = "kernel",
    keep: bool = False,
    options: Sequence[str] | None = None,
    preamble: str = "",
    loop_prep: str = "",
    after_loop: str = "",
) -> Any:
    """Return the module of a kernel whose last parameters, `start, stop, step`, are the range of `i`."""
    texts = {"preamble": preamble, "loop_prep": loop_prep, "after_loop": after_loop}
    return _compiled(arguments, operation, name, keep, options, _RANGE, **texts)


def get_elwise_kernel_and_types(
    arguments: Any,
    operation: str,
    name: str = "kernel",
    keep: bool = False,
    options: Sequence[str] | None = None,
    use_range: bool = False,
    **kwargs: Any,
) -> tuple[Any, Function, list[Argument]]:
    """Return the module, the kernel and its parameters, without those of the elements."""
    parsed = arguments_of(arguments)
    make = get_elwise_range_module if use_range else get_elwise_module
    module = make(parsed, operation, name, keep, options, **kwargs)
    return module, module.get_function(name), parsed


def get_elwise_kernel(
    arguments: Any,
    operation: str,
    name: str = "kernel",
    keep: bool = False,
    options: Sequence[str] | None = None,
    **kwargs: Any,
) -> Function:
    """Return a kernel of these parameters and the number of elements."""
    return get_elwise_kernel_and_types(arguments, operation, name, keep, options, **kwargs)[1]


def get_elwise_range_kernel(
    arguments: Any,
    operation: str,
    name: str = "kernel",
    keep: bool = False,
    options: Sequence[str] | None = None,
    **kwargs: Any,
) -> Function:
    """Return a kernel of these parameters and the range of `i`."""
    return get_elwise_kernel_and_types(arguments, operation, name, keep, options, use_range=True, **kwargs)[1]


@cached_per_device
def _multiprocessors(device: int) -> int:
    return int(Device(device).get_attribute(device_attribute.MULTIPROCESSOR_COUNT))


def splay(n: int, dev: Any = None) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """Return the grid and the block for a kernel that walks over `n` elements."""
    device = current_device() if dev is None else int(dev)
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
