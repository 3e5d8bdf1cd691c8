"""`pycuda.reduction`: kernels that reduce arrays to one value."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit.pycuda._device import cached_per_device
from pycudakit.pycuda._element_modules import arguments_of
from pycudakit.pycuda._memory import mem_alloc
from pycudakit.pycuda.compiler import SourceModule
from pycudakit.pycuda.elementwise import arrays_size, chosen_range
from pycudakit.pycuda.tools import VectorArg, dtype_to_ctype

_RUN = 64  # elements of one thread
_THREADS = 128
_MAX_BLOCKS = 512

_SOURCE = """#include <pycuda-complex.hpp>
{preamble}
typedef {out} out_type;
"""
# A thread reduces every `threads`-th element, so that neighbours read neighbours. The second stage has the
# parameters, too, as the combination may read them: that of two indices reads the elements.
_STAGE = """
extern "C" __global__ void {name}(
    out_type *pk_out, {arguments}, long long pk_start, long long pk_step, size_t n)
{{
    const size_t pk_thread = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const size_t pk_threads = size_t(gridDim.x) * blockDim.x;
    const auto pk_combined = [&](out_type a, out_type b) -> out_type {{ return {reduce}; }};
    out_type pk_all = {neutral};
    for (size_t pk_k = pk_thread; pk_k < n; pk_k += pk_threads) {{
        const long long i = pk_start + (long long)pk_k * pk_step;
        pk_all = pk_combined(pk_all, {value});
    }}
    pk_out[pk_thread] = pk_all;
}}
"""


class ReductionKernel:
    """A kernel that reduces arrays to one value, an array of no axes.

    Parameters
    ----------
    dtype_out
        The type of the result, and of the computation; a struct if it is registered.
    neutral
        The neutral element, as C writes it: ``"0"`` for a sum.
    reduce_expr
        The combination of `a` and `b`: ``"a+b"``. It must be associative and commutative. It may read the
        parameters.
    map_expr
        The value that is reduced, for the element with index `i`; by default that of the first array.
    arguments
        The parameters, as C declares them, or a list of VectorArg and ScalarArg; by default one array.
    name
        The kernel's name.
    keep
        Keep the files of the compiler.
    options
        Options for the compiler.
    preamble
        Source before the kernel.
    allocator
        The allocator of results; by default the first array's.

    Examples
    --------
    >>> import numpy as np
    >>> from pycudakit.pycuda import gpuarray
    >>> from pycudakit.pycuda.reduction import ReductionKernel
    >>> dot = ReductionKernel(np.float32, "0", "a+b", "x[i]*y[i]", "float *x, float *y")
    >>> x = gpuarray.to_gpu(np.arange(4, dtype=np.float32))
    >>> dot(x, x)
    array(14., dtype=float32)
    """

    def __init__(
        self,
        dtype_out: Any,
        neutral: Any,
        reduce_expr: str,
        map_expr: str | None = None,
        arguments: Any = None,
        name: str = "reduce_kernel",
        keep: bool = False,
        options: Sequence[str] | None = None,
        preamble: str = "",
        allocator: Any = None,
    ) -> None:
        self.dtype_out: np.dtype[Any] = np.dtype(dtype_out)
        self.name = name
        self.allocator = allocator
        out = dtype_to_ctype(self.dtype_out)
        self.arguments = arguments_of(f"{out} *in" if arguments is None else arguments)
        arrays = [argument.name for argument in self.arguments if isinstance(argument, VectorArg)]
        if not arrays:
            raise RuntimeError(f"{name}: a ReductionKernel has at least one array among its parameters")
        source = _SOURCE.format(preamble=preamble, out=out)
        declared = ", ".join(argument.declarator() for argument in self.arguments)
        for stage, value, parameters in (
            (f"{name}_stage1", map_expr or f"{arrays[0]}[i]", declared),
            (f"{name}_stage2", "pk_in[i]", f"const out_type *pk_in, {declared}"),
        ):
            source += _STAGE.format(
                name=stage, arguments=parameters, neutral=neutral, reduce=reduce_expr, value=value
            )
        self._module = cached_per_device(
            functools.partial(SourceModule, source, options=options, keep=keep, no_extern_c=True)
        )

    def __call__(
        self,
        *args: Any,
        range: Any = None,
        slice: Any = None,
        stream: Any = None,
        out: Any = None,
        allocator: Any = None,
        **keywords: Any,
    ) -> Any:
        """Run the reduction.

        Parameters
        ----------
        *args
            A GPUArray for each array, and a number for each other parameter.
        range, slice : slice, optional
            The values of `i`, instead of those of all elements.
        stream
            The stream.
        out
            An array of no axes, or of one element, for the result.
        allocator
            The allocator of the result.
        """
        if keywords:
            raise TypeError(f"{self.name}: unexpected keyword argument {next(iter(keywords))!r}")
        size = arrays_size(self.name, self.arguments, args)
        chosen = chosen_range(self.name, range, slice, size)
        first = next(a for a, kind in zip(args, self.arguments, strict=True) if isinstance(kind, VectorArg))
        allocate = allocator or self.allocator or getattr(first, "allocator", mem_alloc)
        array = type(first)
        if out is None:
            out = array((), self.dtype_out, allocate)
        elif out.dtype != self.dtype_out or out.size != 1:
            raise ValueError(
                f"{self.name}: out is one element of {self.dtype_out}, not {out.shape} {out.dtype}"
            )
        passed: list[Any] = [
            value.gpudata or 0 if isinstance(kind, VectorArg) else value
            for value, kind in zip(args, self.arguments, strict=True)
        ]
        partials: list[Any] = []  # the results of the stage before
        bounds, count, stage = [chosen.start, chosen.step], len(chosen), 1
        while True:
            threads = -(-count // _RUN) or 1
            block = min(threads, _THREADS)
            grid = min(-(-threads // block), _MAX_BLOCKS)
            is_last = grid * block == 1
            target = out if is_last else array((grid * block,), self.dtype_out, allocate)
            kernel = self._module().get_function(f"{self.name}_stage{stage}")
            kernel.prepared_async_call(
                *((grid, 1), (block, 1, 1), stream, target.gpudata, *partials, *passed, *bounds, count)
            )
            if is_last:
                return out
            partials, bounds, count, stage = [target.gpudata], [0, 1], grid * block, 2


def _kernel(dtype_out: Any, neutral: str, reduce_expr: str, map_expr: str, **arrays: Any) -> ReductionKernel:
    """Return a kernel of arrays, given by their names and dtypes."""
    arguments = [VectorArg(dtype, name) for name, dtype in arrays.items()]
    return ReductionKernel(dtype_out, neutral, reduce_expr, map_expr, arguments)


def _converted(dtype: Any, *elements: str) -> str:
    """Return the product of elements that are converted to a dtype."""
    return " * ".join(f"({dtype_to_ctype(dtype)}){element}" for element in elements)


@functools.lru_cache
def get_sum_kernel(dtype_out: Any, dtype_in: Any) -> ReductionKernel:
    """Return the kernel of sums of an array; by default the result has the array's dtype."""
    out = dtype_in if dtype_out is None else dtype_out
    return _kernel(out, "0", "a+b", "in[i]", **{"in": dtype_in})


@functools.lru_cache
def get_any_kernel(dtype_out: Any, dtype_in: Any) -> ReductionKernel:
    """Return the kernel that tells whether an element is true; by default of the array's dtype."""
    out, zero = dtype_in if dtype_out is None else dtype_out, f"({dtype_to_ctype(dtype_in)})0"
    return _kernel(out, "0", "a != out_type(0) || b != out_type(0)", f"in[i] != {zero}", **{"in": dtype_in})


@functools.lru_cache
def get_all_kernel(dtype_out: Any, dtype_in: Any) -> ReductionKernel:
    """Return the kernel that tells whether all elements are true; by default of the array's dtype."""
    out, zero = dtype_in if dtype_out is None else dtype_out, f"({dtype_to_ctype(dtype_in)})0"
    return _kernel(out, "1", "a != out_type(0) && b != out_type(0)", f"in[i] != {zero}", **{"in": dtype_in})


@functools.lru_cache
def get_subset_sum_kernel(dtype_out: Any, dtype_subset: Any, dtype_in: Any) -> ReductionKernel:
    """Return the kernel of sums of the elements with these indices: ``kernel(indices, array)``."""
    out = dtype_in if dtype_out is None else dtype_out
    return _kernel(out, "0", "a+b", "in[lookup_tbl[i]]", **{"lookup_tbl": dtype_subset, "in": dtype_in})


@functools.lru_cache
def get_dot_kernel(dtype_out: Any, dtype_a: Any, dtype_b: Any = None) -> ReductionKernel:
    """Return the kernel of sums of products of two arrays."""
    product = _converted(dtype_out, "a_in[i]", "b_in[i]")
    return _kernel(dtype_out, "0", "a+b", product, a_in=dtype_a, b_in=dtype_a if dtype_b is None else dtype_b)


@functools.lru_cache
def get_subset_dot_kernel(
    dtype_out: Any, dtype_subset: Any, dtype_a: Any = None, dtype_b: Any = None
) -> ReductionKernel:
    """Return the kernel of sums of products at these indices: ``kernel(indices, a, b)``."""
    out = dtype_a if dtype_out is None else dtype_out
    first = out if dtype_a is None else dtype_a
    product = _converted(out, "a_in[lookup_tbl[i]]", "b_in[lookup_tbl[i]]")
    arrays = {"lookup_tbl": dtype_subset, "a_in": first, "b_in": first if dtype_b is None else dtype_b}
    return _kernel(out, "0", "a+b", product, **arrays)


def get_minmax_neutral(function: str, dtype: Any) -> str:
    """Return the neutral element of ``"min"`` or ``"max"``, as C writes it."""
    if function not in ("min", "max"):
        raise ValueError(f"function is {function!r}; it is 'min' or 'max'")
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind.kind == "f":
        return "(1.0 / 0.0)" if function == "min" else "(-1.0 / 0.0)"
    if kind.kind not in "iu":
        raise TypeError(f"{function} takes integers and floats, not {kind}")
    limits = np.iinfo(kind)
    if function == "max":
        return f"({limits.min + 1} - 1)" if limits.min else "0"  # C has no literal of the least integer
    return f"{limits.max}{'u' if kind.kind == 'u' else ''}"


def _minmax_arguments(function: str, dtype: Any) -> tuple[Any, str, str]:
    kind: np.dtype[Any] = np.dtype(dtype)
    names = {"f4": f"f{function}f", "f8": f"f{function}"}
    neutral = get_minmax_neutral(function, kind)
    return kind, neutral, f"{names.get(kind.str[1:], function)}(a, b)"


@functools.lru_cache
def get_minmax_kernel(function: str, dtype: Any) -> ReductionKernel:
    """Return the kernel of ``"min"`` or ``"max"`` of an array; that of floats skips NaN."""
    return _kernel(*_minmax_arguments(function, dtype), "in[i]", **{"in": dtype})


@functools.lru_cache
def get_subset_minmax_kernel(function: str, dtype: Any, dtype_subset: Any) -> ReductionKernel:
    """Return the kernel of ``"min"`` or ``"max"`` at these indices: ``kernel(indices, array)``."""
    arrays = {"lookup_tbl": dtype_subset, "in": dtype}
    return _kernel(*_minmax_arguments(function, dtype), "in[lookup_tbl[i]]", **arrays)
