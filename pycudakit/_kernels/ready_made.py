"""PyCUDA's ready-made kernels: for each element, for a reduction, for a scan, written as expressions of C.

Reductions and scans are cut by the number of elements alone, so that their bits are the same on each engine;
they take their operands in order, so that an operation need not be commutative.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._kernels.arguments import In, InOut, Out
from pycudakit._kernels.function import Function
from pycudakit._kernels.module import SourceModule
from pycudakit._kernels.program import Program
from pycudakit._kernels.source import Parameter
from pycudakit._values import Array, DType

__all__ = ["ElementwiseKernel", "ExclusiveScanKernel", "InclusiveScanKernel", "ReductionKernel"]

_CHUNK = 64  # elements that a thread of a reduction or a scan takes, in their order

_TYPES = {
    "?": "bool", "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short",
    "i": "int", "I": "unsigned int", "e": "__half", "f": "float", "d": "double",
}  # fmt: skip


def _c_type(dtype: DType, argument: str) -> str:
    """Return the name that C has for a type."""
    if dtype.kind in "iu" and dtype.itemsize == 8:
        return "long long" if dtype.kind == "i" else "unsigned long long"
    name = _TYPES.get(dtype.char)
    if name is None:
        raise errors.Unsupported(f"{argument} is {dtype}; kernels compute bools, integers and floats of C")
    return name


def _head(preamble: str, *dtypes: DType) -> str:
    half = "#include <cuda_fp16.h>\n" if any(dtype.char == "e" for dtype in dtypes) else ""
    return f"{half}{preamble}\n"


_FUNCTION = r"""__global__ void {name}({arguments})
{{
    const long long pk_thread = threadIdx.x + (long long)blockIdx.x * blockDim.x;
{body}
}}
"""


class ElementwiseKernel:
    """A kernel that does the same to each element, as PyCUDA's.

    Parameters
    ----------
    arguments : str
        The parameters, as C declares them: ``"float *z, const float *x, float a"``.
    operation : str
        What is done, for the element of index `i` of `n`: ``"z[i] = a * x[i]"``.
    name : str
        The kernel's name, for messages.
    preamble : str
        Goes before the kernel: functions, constants, ``#include``.
    options : sequence of str
        For the compiler.
    loop_prep, after_loop : str
        What each thread does before and after its elements.

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
        preamble: str = "",
        options: Sequence[str] = (),
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
        const long long i = pk_first + pk_thread * pk_step;
        {operation};
    }} while (0);
    {after_loop};"""
        declared = f"{arguments}, long long n, long long pk_first, long long pk_step, long long pk_count"
        source = _head(preamble) + _FUNCTION.format(name=name, arguments=declared, body=body)
        self._module = SourceModule(source, options, name=name, **keywords)
        self._function: Function = self._module.get_function(name)
        self._parameters = self._function.parameters[:-4]

    @property
    def source(self) -> str:
        """The kernel, in CUDA C."""
        return self._module.source

    def __repr__(self) -> str:
        """Return how it was made."""
        return f"ElementwiseKernel({self.arguments!r}, {self.operation!r}, name={self.name!r})"

    def __call__(self, *args: Any, range: Any = None, slice: Any = None, **keywords: Any) -> Any:
        """Run it over arrays, whose elements are taken in C order.

        Parameters
        ----------
        *args
            An array for each pointer, all of one size, and a number for each other parameter. Arrays of
            parameters that are not ``const`` are written.
        range : slice, optional
            Which `i` there are, instead of those from 0 to the arrays' size, which then may differ.
        slice : slice, optional
            As `range`, where negative and absent limits are those of NumPy's indexing.
        **keywords
            As for a `SourceModule`'s function: `symbols`, `isolate`, `timeout`, `time_kernel`, `out_args`.
        """
        size = _common_size(self.name, self._parameters, args, range is None)
        chosen = builtins.range(size)
        if range is not None and slice is not None:
            raise TypeError(f"{self.name}: give range or slice, not both")
        if range is not None:
            if range.stop is None:
                raise ValueError(f"{self.name}: range={range}: it needs a stop")
            first = 0 if range.start is None else operator.index(range.start)
            step = 1 if range.step is None else operator.index(range.step)
            chosen = builtins.range(first, operator.index(range.stop), step)
        elif slice is not None:
            chosen = builtins.range(*slice.indices(size))
        count = len(chosen)
        return self._function.launch(count, *args, size, chosen.start, chosen.step, count, **keywords)


def _common_size(name: str, parameters: Sequence[Parameter], args: Sequence[Any], all_equal: bool) -> int:
    """Return the size of the arrays, of which there must be one."""
    if len(args) != len(parameters):
        names = ", ".join(parameter.name for parameter in parameters)
        raise TypeError(f"{name} takes {len(parameters)} arguments ({names}), and got {len(args)}")
    sizes = {}
    for parameter, value in zip(parameters, args, strict=True):
        if parameter.pointer and value is not None:
            sizes[parameter.name] = np.size(getattr(value, "array", value))
    if not sizes:
        raise TypeError(f"{name}: no argument is an array, so that nothing tells how many elements there are")
    if all_equal and len(set(sizes.values())) > 1:
        told = ", ".join(f"{parameter} has {size}" for parameter, size in sizes.items())
        raise ValueError(f"{name}: the arrays differ in size: {told}; give range= if they are to")
    return next(iter(sizes.values()))


class ReductionKernel:
    """A kernel that makes one number of arrays, as PyCUDA's.

    Parameters
    ----------
    dtype_out : dtype
        The result's type, in which it is computed.
    neutral : str or number
        What an empty array gives; combined with anything it must leave that: ``"0"`` of a sum.
    reduce_expr : str
        How `a` and `b`, which lie in this order, are combined: ``"a+b"``. It must be associative.
    map_expr : str, optional
        What is combined, for the element of index `i`: ``"x[i]*y[i]"``; else ``"in[i]"``.
    arguments : str, optional
        The parameters, as C declares them; else ``in`` alone.
    name : str
        The kernel's name, for messages.
    options : sequence of str
        For the compiler.
    preamble : str
        Goes before the kernel.

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
        options: Sequence[str] = (),
        preamble: str = "",
        **keywords: Any,
    ) -> None:
        self.dtype_out: DType = np.dtype(dtype_out)
        c_type = _c_type(self.dtype_out, "dtype_out")
        self.arguments = f"const {c_type} *in" if arguments is None else arguments
        self.name = name
        self._told = (self.dtype_out.name, neutral, reduce_expr, map_expr, arguments)
        source = _head(preamble, self.dtype_out)
        source += f"__device__ {c_type} {name}_combined({c_type} a, {c_type} b) {{ return {reduce_expr}; }}\n"
        for stage, value, declared in (
            (name, map_expr or "in[i]", self.arguments),
            (f"{name}_rest", "pk_in[i]", f"const {c_type} *pk_in"),
        ):
            body = f"""    const long long pk_first = pk_thread * {_CHUNK};
    const long long pk_end = pk_first + {_CHUNK} < n ? pk_first + {_CHUNK} : n;
    if (pk_thread != 0 && pk_first >= n) return;
    {c_type} pk_all = {neutral};
    for (long long i = pk_first; i < pk_end; ++i) pk_all = {name}_combined(pk_all, {value});
    pk_out[pk_thread] = pk_all;"""
            source += _FUNCTION.format(
                name=stage, arguments=f"{declared}, long long n, {c_type} *pk_out", body=body
            )
        self._module = SourceModule(source, options, name=name, **keywords)
        self._first: Function = self._module.get_function(name)
        self._rest: Function = self._module.get_function(f"{name}_rest")
        self._parameters = self._first.parameters[:-2]

    @property
    def source(self) -> str:
        """The kernels, in CUDA C."""
        return self._module.source

    def __repr__(self) -> str:
        """Return how it was made."""
        return f"ReductionKernel({', '.join(map(repr, self._told))}, name={self.name!r})"

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Return the result, a NumPy scalar.

        Parameters
        ----------
        *args
            An array for each pointer, all of one size, and a number for each other parameter. No array is
            written.
        **keywords
            As for a `Program`: `symbols`, `isolate`, `timeout`.
        """
        size = _common_size(self.name, self._parameters, args, True)
        p = Program(self.name)
        inputs, given = _inputs(p, self._parameters, args)
        function, count = self._first, size
        while True:
            chunks = max(1, -(-count // _CHUNK))
            last = chunks == 1
            made = (
                p.output("pk_out", (1,), self.dtype_out)
                if last
                else p.temp(f"pk_{chunks}", (chunks,), self.dtype_out)
            )
            p.launch(function, *given, count, made, threads=chunks)
            if last:
                return p(inputs, **keywords)["pk_out"][0]
            function, given, count = self._rest, [made], chunks


def _inputs(
    p: Program, parameters: Sequence[Parameter], args: Sequence[Any]
) -> tuple[dict[str, Array], list[Any]]:
    """Declare what is given for pointers as a program's inputs; return them, and what a launch is given."""
    arrays: dict[str, Array] = {}
    given: list[Any] = []
    for parameter, value in zip(parameters, args, strict=True):
        if parameter.pointer and value is not None:
            array = np.asarray(value.array if isinstance(value, (In, Out, InOut)) else value)
            arrays[parameter.name] = array
            given.append(p.input(parameter.name, array.shape, array.dtype))
        else:
            given.append(value)
    return arrays, given


class _ScanKernel:
    _exclusive: bool

    def __init__(
        self,
        dtype: Any,
        scan_expr: str,
        neutral: Any = None,
        name_prefix: str = "scan",
        options: Sequence[str] = (),
        preamble: str = "",
        **keywords: Any,
    ) -> None:
        self.dtype: DType = np.dtype(dtype)
        self.name = name_prefix
        if neutral is None and self._exclusive:
            raise TypeError(f"{name_prefix}: neutral is missing: it is what an exclusive scan begins with")
        self._told = (self.dtype.name, scan_expr, neutral)
        t = _c_type(self.dtype, "dtype")
        limits = f"""    const long long pk_first = pk_thread * {_CHUNK};
    const long long pk_end = pk_first + {_CHUNK} < n ? pk_first + {_CHUNK} : n;
    if (pk_first >= n) return;
"""
        totals = f"""{limits}    {t} pk_all = pk_in[pk_first];
    for (long long i = pk_first + 1; i < pk_end; ++i) pk_all = {name_prefix}_combined(pk_all, pk_in[i]);
    pk_out[pk_thread] = pk_all;"""
        spread = f"""{limits}    bool pk_any = pk_thread != 0;
    {t} pk_all = pk_any ? pk_before[pk_thread - 1] : {t}({0 if neutral is None else neutral});
    for (long long i = pk_first; i < pk_end; ++i) {{
        const {t} pk_one = pk_in[i];
        if (pk_exclusive) pk_out[i] = pk_all;
        pk_all = pk_any ? {name_prefix}_combined(pk_all, pk_one) : pk_one;
        pk_any = true;
        if (!pk_exclusive) pk_out[i] = pk_all;
    }}"""
        source = _head(preamble, self.dtype)
        source += f"__device__ {t} {name_prefix}_combined({t} a, {t} b) {{ return {scan_expr}; }}\n"
        source += _FUNCTION.format(
            name=f"{name_prefix}_totals",
            arguments=f"const {t} *pk_in, {t} *pk_out, long long n",
            body=totals,
        )
        source += _FUNCTION.format(
            name=f"{name_prefix}_spread",
            arguments=f"const {t} *pk_in, const {t} *pk_before, {t} *pk_out, long long n, bool pk_exclusive",
            body=spread,
        )
        self._module = SourceModule(source, options, name=name_prefix, **keywords)
        self._totals: Function = self._module.get_function(f"{name_prefix}_totals")
        self._spread: Function = self._module.get_function(f"{name_prefix}_spread")

    @property
    def source(self) -> str:
        """The kernels, in CUDA C."""
        return self._module.source

    def __repr__(self) -> str:
        """Return how it was made."""
        told = ", ".join(map(repr, self._told))
        return f"{type(self).__name__}({told}, name_prefix={self.name!r})"

    def __call__(self, input_ary: Any, output_ary: Any = None, **keywords: Any) -> Array:
        """Scan an array's elements in C order, and return the output.

        Parameters
        ----------
        input_ary : array
            Of the kernel's type.
        output_ary : array or "new", optional
            Where the results go, of the input's shape; without it, into the input, as PyCUDA has it.
        **keywords
            As for a `Program`: `symbols`, `isolate`, `timeout`.
        """
        if not isinstance(input_ary, np.ndarray):
            raise TypeError(f"{self.name}: input_ary must be an array, and is a {type(input_ary).__name__}")
        if isinstance(output_ary, str) and output_ary == "new":
            output_ary = np.empty(input_ary.shape, self.dtype)
        elif output_ary is None:
            output_ary = input_ary
            if not input_ary.flags.writeable:
                raise ValueError(f"{self.name}: input_ary is read-only; give output_ary, such as 'new'")
        p = Program(self.name)
        source = p.input("input_ary", input_ary.shape, self.dtype)
        target = p.output("output_ary", input_ary.shape, self.dtype)
        sizes, levels = [input_ary.size], [source]
        while sizes[-1] > _CHUNK:
            count = -(-sizes[-1] // _CHUNK)
            made = p.temp(f"pk_{count}", (count,), self.dtype)
            p.launch(self._totals, levels[-1], made, sizes[-1], threads=count)
            sizes.append(count)
            levels.append(made)
        before = None
        for level in reversed(range(len(sizes))):
            into, exclusive = (levels[level], False) if level else (target, self._exclusive)
            threads = -(-sizes[level] // _CHUNK)
            p.launch(self._spread, levels[level], before, into, sizes[level], exclusive, threads=threads)
            before = levels[level]
        p(input_ary=input_ary, out={"output_ary": output_ary}, **keywords)
        result: Array = output_ary
        return result


class InclusiveScanKernel(_ScanKernel):
    """A kernel that combines each element with all before it, as PyCUDA's.

    Parameters
    ----------
    dtype : dtype
        The elements' type, in which it is computed.
    scan_expr : str
        How `a` and `b`, which lie in this order, are combined: ``"a+b"``. It must be associative.
    neutral : str or number, optional
        Not needed, and taken as PyCUDA takes it.
    name_prefix : str
        What the kernels' names begin with.
    options : sequence of str
        For the compiler.
    preamble : str
        Goes before the kernels.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> running_max = pk.InclusiveScanKernel(np.int32, "a > b ? a : b")
    >>> running_max(np.array([3, 1, 4, 1, 5], np.int32), "new")
    array([3, 3, 4, 4, 5], dtype=int32)
    """

    _exclusive = False


class ExclusiveScanKernel(_ScanKernel):
    """A kernel that combines all before each element, as PyCUDA's.

    Parameters
    ----------
    dtype : dtype
        The elements' type, in which it is computed.
    scan_expr : str
        How `a` and `b`, which lie in this order, are combined: ``"a+b"``. It must be associative.
    neutral : str or number
        What there is before the first element.
    name_prefix : str
        What the kernels' names begin with.
    options : sequence of str
        For the compiler.
    preamble : str
        Goes before the kernels.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> before = pk.ExclusiveScanKernel(np.int32, "a+b", 0)
    >>> before(np.array([3, 1, 4], np.int32), "new")
    array([0, 3, 4], dtype=int32)
    """

    _exclusive = True
