"""PyCUDA's kernel templates `ElementwiseKernel` and `ReductionKernel`, and their shared helpers.

The user gives C expressions. Reductions and scans are split into chunks by the number of elements only, so
that their bits are the same on each engine; operands keep their order, so that an operation need not be
commutative.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._interop import foreign_arrays
from pycudakit._native.dtypes import DType
from pycudakit.kernels.compiling.source import Parameter
from pycudakit.kernels.function import Function
from pycudakit.kernels.module import SourceModule
from pycudakit.kernels.program import Program
from pycudakit.kernels.running.device_arguments import device_argument, is_on_device
from pycudakit.kernels.running.transfers import In, Wrapper

_INDEX, _OF_A_RANGE = "PK_INDEX", "pk_first + pk_thread * pk_step"
CHUNK = 64  # consecutive elements of one thread of a reduction or a scan

_TYPES = {
    "?": "bool", "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short",
    "i": "int", "I": "unsigned int", "e": "__half", "f": "float", "d": "double",
}  # fmt: skip


def c_type(dtype: DType, argument: str) -> str:
    """Return the C name of a dtype."""
    if dtype.kind in "iu" and dtype.itemsize == 8:
        return "long long" if dtype.kind == "i" else "unsigned long long"
    name = _TYPES.get(dtype.char)
    if name is None:
        raise errors.Unsupported(f"{argument} is {dtype}; kernels compute bools, integers and floats of C")
    return name


def literal(value: Any) -> str:
    """Return a number as a C literal; a string is already a C expression."""
    if isinstance(value, str):
        return value
    if isinstance(value, float | np.floating) and not np.isfinite(value):
        return "NAN" if np.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    return str(int(value)) if isinstance(value, bool | np.bool_) else str(value)


def prelude(preamble: str, *dtypes: DType) -> str:
    """Return the first lines of a source: the header for float16 if needed, and the user's preamble."""
    half = "#include <cuda_fp16.h>\n" if any(dtype.char == "e" for dtype in dtypes) else ""
    return f"{half}{preamble}\n"


# A kernel.
FUNCTION = r"""__global__ void {name}({arguments})
{{
    const long long pk_thread = threadIdx.x + (long long)blockIdx.x * blockDim.x;
{body}
}}
"""


class ElementwiseKernel:
    """A kernel that applies an operation to each element, as PyCUDA's `ElementwiseKernel`.

    Parameters
    ----------
    arguments : str
        The parameters, as C declares them: ``"float *z, const float *x, float a"``.
    operation : str
        The statement for the element with index `i` of `n`: ``"z[i] = a * x[i]"``.
    name : str
        The kernel's name, for messages.
    keep : bool
        For compatibility with PyCUDA; ignored.
    options : sequence of str
        Options for the compiler.
    preamble : str
        Source before the kernel: functions, constants, ``#include``.
    loop_prep, after_loop : str
        Statements that each thread runs before and after its elements.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> scaled = pk.ElementwiseKernel("float *z, const float *x, float a", "z[i] = a * x[i]")
    >>> x = np.arange(4, dtype=np.float32)
    >>> z = np.empty_like(x)
    >>> scaled(z, x, 2)
    >>> z
    array([0., 2., 4., 6.], dtype=float32)
    """

    def __init__(
        self,
        arguments: str,
        operation: str,
        name: str = "kernel",
        keep: bool = False,
        options: Sequence[str] | None = (),
        preamble: str = "",
        *,
        loop_prep: str = "",
        after_loop: str = "",
        **keywords: Any,
    ) -> None:
        self.arguments = arguments
        self.operation = operation
        self.name = name
        body = f"""    {loop_prep};
    if (pk_thread < pk_count) do {{
        const long long i = {_INDEX};
        {operation};
    }} while (0);
    {after_loop};"""
        declared = f"{arguments}, long long n, long long pk_count, long long pk_first, long long pk_step"
        self._text = prelude(preamble) + FUNCTION.format(name=name, arguments=declared, body=body)
        self._making: dict[str, Any] = {
            "options": tuple(options or ()),
            "name": name,
            "keep": keep,
            **keywords,
        }
        self._functions: dict[str, Function] = {}
        self._module = self._function("pk_thread").module
        self._parameters = self._function("pk_thread").parameters[:-4]

    def _function(self, index: str) -> Function:
        """Return the kernel for an index expression; the one for ranges is compiled at its first use."""
        kernel = self._functions.get(index)
        if kernel is None:
            module = SourceModule(self._text.replace(_INDEX, index), **self._making)
            kernel = self._functions[index] = module.get_function(self.name)
        return kernel

    @property
    def source(self) -> str:
        """The kernel's source in CUDA C."""
        return self._module.source

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"ElementwiseKernel({self.arguments!r}, {self.operation!r}, name={self.name!r})"

    def __call__(self, *args: Any, range: Any = None, slice: Any = None, **keywords: Any) -> Any:
        """Run the kernel over arrays, whose elements are taken in C order.

        Parameters
        ----------
        *args
            An array for each pointer, all of one size, and a number for each other parameter. Arrays of
            parameters that are not ``const`` are written.
        range : slice, optional
            The values of `i`, instead of those from 0 to the arrays' size; the sizes may then differ.
        slice : slice, optional
            As `range`, with negative and absent limits as in NumPy's indexing.
        **keywords
            As for a `SourceModule`'s function: `symbols`, `isolate`, `timeout`, `time_kernel`, `out_args`.
        """
        sizes = checked_sizes(self.name, self._parameters, args, range is None)
        size = sizes[0]
        chosen = builtins.range(size)
        if range is not None and slice is not None:
            raise TypeError(f"{self.name}: give range or slice, not both")
        if range is not None:
            if range.stop is None:
                raise ValueError(f"{self.name}: range={range}: it needs a stop")
            first = 0 if range.start is None else operator.index(range.start)
            step = 1 if range.step is None else operator.index(range.step)
            chosen = builtins.range(first, operator.index(range.stop), step)
            if chosen and not (min(chosen[0], chosen[-1]) >= 0 and max(chosen[0], chosen[-1]) < max(sizes)):
                raise ValueError(f"{self.name}: {range} is not inside arrays of up to {max(sizes)} elements")
        elif slice is not None:
            chosen = builtins.range(*slice.indices(size))
        count = len(chosen)
        function = self._function("pk_thread" if chosen == builtins.range(count) else _OF_A_RANGE)
        return function.launch(count, *args, size, count, chosen.start, chosen.step, **keywords)


def checked_sizes(
    name: str, parameters: Sequence[Parameter], args: Sequence[Any], all_equal: bool
) -> list[int]:
    """Return the sizes of the array arguments; raise if there is none, or if they must agree and differ."""
    if len(args) != len(parameters):
        names = ", ".join(parameter.name for parameter in parameters)
        raise TypeError(f"{name} takes {len(parameters)} arguments ({names}), and got {len(args)}")
    sizes = {}
    for parameter, value in zip(parameters, args, strict=True):
        if parameter.pointer and value is not None:
            array = value.array if isinstance(value, Wrapper) else value
            if is_on_device(array):
                sizes[parameter.name] = math.prod(device_argument(array, name).shape)
            else:
                sizes[parameter.name] = np.size(foreign_arrays.read(array, name, by_numpy=False))
    if not sizes:
        raise TypeError(f"{name}: no argument is an array, so the number of elements is unknown")
    if all_equal and len(set(sizes.values())) > 1:
        listed = ", ".join(f"{parameter} has {size}" for parameter, size in sizes.items())
        raise ValueError(f"{name}: the arrays differ in size: {listed}; give range= if they are to")
    return list(sizes.values())


class ReductionKernel:
    """A kernel that reduces arrays to one number, as PyCUDA's `ReductionKernel`.

    Parameters
    ----------
    dtype_out : dtype
        The type of the result, and of the computation.
    neutral : str or number
        The neutral element, which is the result for empty arrays: ``"0"`` for a sum.
    reduce_expr : str
        The combination of `a` and `b`, in this order: ``"a+b"``. It must be associative.
    map_expr : str, optional
        The value that is reduced, for the element with index `i`: ``"x[i]*y[i]"``; by default ``"in[i]"``.
    arguments : str, optional
        The parameters, as C declares them; by default ``in`` alone.
    name : str
        The kernel's name, for messages.
    keep : bool
        For compatibility with PyCUDA; ignored.
    options : sequence of str
        Options for the compiler.
    preamble : str
        Source before the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> dot = pk.ReductionKernel(np.float32, "0", "a+b", "x[i]*y[i]", "const float *x, const float *y")
    >>> x = np.arange(4, dtype=np.float32)
    >>> dot(x, x)
    np.float32(14.0)
    """

    def __init__(
        self,
        dtype_out: Any,
        neutral: Any,
        reduce_expr: str,
        map_expr: str | None = None,
        arguments: str | None = None,
        name: str = "reduce_kernel",
        keep: bool = False,
        options: Sequence[str] | None = (),
        preamble: str = "",
        **keywords: Any,
    ) -> None:
        self.dtype_out: DType = np.dtype(dtype_out)
        t = c_type(self.dtype_out, "dtype_out")
        self.arguments = f"const {t} *in" if arguments is None else arguments
        self.name = name
        self._repr_arguments = (self.dtype_out.name, neutral, reduce_expr, map_expr, arguments)
        source = prelude(preamble, self.dtype_out)
        source += f"__device__ {t} {name}_combined({t} a, {t} b) {{ return {reduce_expr}; }}\n"
        for stage, value, declared in (
            (name, map_expr or "in[i]", self.arguments),
            (f"{name}_rest", "pk_in[i]", f"const {t} *pk_in"),
        ):
            body = f"""    const long long pk_first = pk_thread * {CHUNK};
    const long long pk_end = pk_first + {CHUNK} < n ? pk_first + {CHUNK} : n;
    if (pk_thread != 0 && pk_first >= n) return;
    {t} pk_all = {literal(neutral)};
    for (long long i = pk_first; i < pk_end; ++i) pk_all = {name}_combined(pk_all, {value});
    pk_out[pk_thread] = pk_all;"""
            source += FUNCTION.format(
                name=stage, arguments=f"{declared}, long long n, {t} *pk_out", body=body
            )
        self._module = SourceModule(source, options, name=name, keep=keep, **keywords)
        self._first: Function = self._module.get_function(name)
        self._rest: Function = self._module.get_function(f"{name}_rest")
        self._parameters = self._first.parameters[:-2]

    @property
    def source(self) -> str:
        """The source of the kernels in CUDA C."""
        return self._module.source

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"ReductionKernel({', '.join(map(repr, self._repr_arguments))}, name={self.name!r})"

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run the reduction, and return the result as a NumPy scalar.

        Parameters
        ----------
        *args
            An array for each pointer, all of one size, and a number for each other parameter. No array is
            written.
        **keywords
            As for a `Program`: `symbols`, `isolate`, `timeout`.
        """
        size = checked_sizes(self.name, self._parameters, args, True)[0]
        p = Program(self.name)
        inputs, launch_args = _inputs(p, self._parameters, args)
        function, count = self._first, size
        while True:
            chunks = max(1, -(-count // CHUNK))
            last = chunks == 1
            made = (
                p.output("pk_out", (1,), self.dtype_out)
                if last
                else p.temp(f"pk_{chunks}", (chunks,), self.dtype_out)
            )
            p.launch(function, *launch_args, count, made, threads=chunks)
            if last:
                return p(inputs, out={"pk_out": np.empty(1, self.dtype_out)}, **keywords)["pk_out"][0]
            function, launch_args, count = self._rest, [made], chunks


def _inputs(
    p: Program, parameters: Sequence[Parameter], args: Sequence[Any]
) -> tuple[dict[str, Any], list[Any]]:
    """Declare the arrays among the arguments as inputs of a program; return them and a launch's arguments."""
    arrays: dict[str, Any] = {}
    launch_args: list[Any] = []
    for parameter, value in zip(parameters, args, strict=True):
        if parameter.pointer and value is not None:
            array = value.array if isinstance(value, Wrapper) else In(value).array
            arrays[parameter.name] = array
            declared = device_argument(array, parameter.name) if is_on_device(array) else array
            launch_args.append(p.input(parameter.name, declared.shape, declared.dtype))
        else:
            launch_args.append(value)
    return arrays, launch_args
