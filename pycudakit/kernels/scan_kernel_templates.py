"""PyCUDA's kernel templates `InclusiveScanKernel` and `ExclusiveScanKernel`.

The scan is reduce-then-scan: each thread reduces a chunk, the totals are scanned recursively, and a second
kernel scans each chunk from the total before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._native.dtypes import DType, masked_arrays
from pycudakit.kernels.function import Function
from pycudakit.kernels.kernel_templates import CHUNK, FUNCTION, c_type, literal, prelude
from pycudakit.kernels.module import SourceModule
from pycudakit.kernels.program import Program
from pycudakit.kernels.running.device_arguments import device_argument, empty_like_device, is_on_device


class _ScanKernel:
    """Base class of the two templates."""

    _exclusive: bool

    def __init__(
        self,
        dtype: Any,
        scan_expr: str,
        neutral: Any = None,
        name_prefix: str = "scan",
        options: Sequence[str] | None = (),
        preamble: str = "",
        **keywords: Any,
    ) -> None:
        self.dtype: DType = np.dtype(dtype)
        self.name = name_prefix
        if neutral is None and self._exclusive:
            raise TypeError(
                f"{name_prefix}: neutral is missing: it is the first element of an exclusive scan"
            )
        self._repr_arguments = (self.dtype.name, scan_expr, neutral)
        t = c_type(self.dtype, "dtype")
        limits = f"""    const long long pk_first = pk_thread * {CHUNK};
    const long long pk_end = pk_first + {CHUNK} < n ? pk_first + {CHUNK} : n;
    if (pk_first >= n) return;
"""
        totals = f"""{limits}    {t} pk_all = pk_in[pk_first];
    for (long long i = pk_first + 1; i < pk_end; ++i) pk_all = {name_prefix}_combined(pk_all, pk_in[i]);
    pk_out[pk_thread] = pk_all;"""
        spread = f"""{limits}    bool pk_any = pk_thread != 0;
    {t} pk_all = pk_any ? pk_before[pk_thread - 1] : ({t})({0 if neutral is None else literal(neutral)});
    for (long long i = pk_first; i < pk_end; ++i) {{
        const {t} pk_one = pk_in[i];
        if (pk_exclusive) pk_out[i] = pk_all;
        pk_all = pk_any ? {name_prefix}_combined(pk_all, pk_one) : pk_one;
        pk_any = true;
        if (!pk_exclusive) pk_out[i] = pk_all;
    }}"""
        source = prelude(preamble, self.dtype)
        source += f"__device__ {t} {name_prefix}_combined({t} a, {t} b) {{ return {scan_expr}; }}\n"
        source += FUNCTION.format(
            name=f"{name_prefix}_totals",
            arguments=f"const {t} *pk_in, {t} *pk_out, long long n",
            body=totals,
        )
        source += FUNCTION.format(
            name=f"{name_prefix}_spread",
            arguments=f"const {t} *pk_in, const {t} *pk_before, {t} *pk_out, long long n, bool pk_exclusive",
            body=spread,
        )
        self._module = SourceModule(source, options, name=name_prefix, **keywords)
        self._totals: Function = self._module.get_function(f"{name_prefix}_totals")
        self._spread: Function = self._module.get_function(f"{name_prefix}_spread")

    @property
    def source(self) -> str:
        """The source of the kernels in CUDA C."""
        return self._module.source

    def __repr__(self) -> str:
        """Return the constructor call."""
        listed = ", ".join(map(repr, self._repr_arguments))
        return f"{type(self).__name__}({listed}, name_prefix={self.name!r})"

    def __call__(self, input_ary: Any, output_ary: Any = None, **keywords: Any) -> Any:
        """Scan an array's elements in C order, and return the output.

        Parameters
        ----------
        input_ary : array
            An array of the kernel's dtype.
        output_ary : array or "new", optional
            The array for the results, with the input's shape; by default the input, as in PyCUDA.
        **keywords
            As for a `Program`: `symbols`, `isolate`, `timeout`.
        """
        on_device = is_on_device(input_ary)
        if not on_device and (
            not isinstance(input_ary, np.ndarray) or isinstance(input_ary, masked_arrays())
        ):
            raise TypeError(f"{self.name}: input_ary must be an array, and is a {type(input_ary).__name__}")
        shape = device_argument(input_ary, f"{self.name}: input_ary").shape if on_device else input_ary.shape
        if isinstance(output_ary, str) and output_ary == "new":
            output_ary = empty_like_device(input_ary, shape, self.dtype)
        elif output_ary is None:
            output_ary = input_ary
            if not on_device and not input_ary.flags.writeable:
                raise ValueError(f"{self.name}: input_ary is read-only; give output_ary, such as 'new'")
        p = Program(self.name)
        source = p.input("input_ary", shape, self.dtype)
        target = p.output("output_ary", shape, self.dtype)
        sizes, levels = [math.prod(shape)], [source]
        while sizes[-1] > CHUNK:
            count = -(-sizes[-1] // CHUNK)
            totals = p.temp(f"pk_{count}", (count,), self.dtype)
            p.launch(self._totals, levels[-1], totals, sizes[-1], threads=count)
            sizes.append(count)
            levels.append(totals)
        before = None
        for level in reversed(range(len(sizes))):
            into, exclusive = (levels[level], False) if level else (target, self._exclusive)
            threads = -(-sizes[level] // CHUNK)
            p.launch(self._spread, levels[level], before, into, sizes[level], exclusive, threads=threads)
            before = levels[level]
        p(input_ary=input_ary, out={"output_ary": output_ary}, **keywords)
        return output_ary


class InclusiveScanKernel(_ScanKernel):
    """An inclusive scan by an associative operation, as PyCUDA's `InclusiveScanKernel`.

    Parameters
    ----------
    dtype : dtype
        The type of the elements, and of the computation.
    scan_expr : str
        The combination of `a` and `b`, in this order: ``"a+b"``. It must be associative.
    neutral : str or number, optional
        For compatibility with PyCUDA; not used.
    name_prefix : str
        The prefix of the kernels' names.
    options : sequence of str
        Options for the compiler.
    preamble : str
        Source before the kernels.

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
    """An exclusive scan by an associative operation, as PyCUDA's `ExclusiveScanKernel`.

    Parameters
    ----------
    dtype : dtype
        The type of the elements, and of the computation.
    scan_expr : str
        The combination of `a` and `b`, in this order: ``"a+b"``. It must be associative.
    neutral : str or number
        The first element of the result.
    name_prefix : str
        The prefix of the kernels' names.
    options : sequence of str
        Options for the compiler.
    preamble : str
        Source before the kernels.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> before = pk.ExclusiveScanKernel(np.int32, "a+b", 0)
    >>> before(np.array([3, 1, 4], np.int32), "new")
    array([0, 3, 4], dtype=int32)
    """

    _exclusive = True
