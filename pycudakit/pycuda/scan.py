"""`pycuda.scan`: prefix sums, and scans by other associative operations."""

from __future__ import annotations

from typing import Any

import numpy as np

import pycudakit as pk
from pycudakit.pycuda import _engine
from pycudakit.pycuda._array_copy import host_view
from pycudakit.pycuda._array_math import with_stream
from pycudakit.pycuda._gpuarray import GPUArray


class _ScanKernel:
    """The base of the two kernels."""

    _kind: Any

    def __init__(
        self,
        dtype: Any,
        scan_expr: str,
        neutral: Any = None,
        name_prefix: str = "scan",
        options: Any = None,
        preamble: str = "",
        devices: Any = None,  # noqa: ARG002
    ) -> None:
        self._kernel = self._kind(dtype, scan_expr, neutral, name_prefix, tuple(options or ()), preamble)
        self.dtype = self._kernel.dtype
        self.name = name_prefix

    def __call__(
        self, input_ary: Any, output_ary: Any = None, allocator: Any = None, stream: Any = None
    ) -> GPUArray:
        """Scan a contiguous array, and return the output.

        Parameters
        ----------
        input_ary
            The array.
        output_ary
            The array of the results, or "new"; by default `input_ary`.
        allocator
            The allocator of a new array.
        stream
            The stream.
        """
        if isinstance(output_ary, str) and output_ary == "new":
            output_ary = GPUArray(input_ary.shape, input_ary.dtype, allocator or input_ary.allocator)
        elif output_ary is None:
            output_ary = input_ary
        for name, array in (("input_ary", input_ary), ("output_ary", output_ary)):
            if not _has_bits_of(array.dtype, self.dtype):
                raise TypeError(f"{self.name}: {name} is of {array.dtype}; the kernel is for {self.dtype}")
            if not array.flags.forc:
                raise RuntimeError("only contiguous arrays may be used as arguments to this operation")
        if input_ary.shape != output_ary.shape:
            raise ValueError(f"{self.name}: output_ary has shape {output_ary.shape}, not {input_ary.shape}")
        if not input_ary.size:
            return output_ary  # type: ignore[no-any-return]
        operand, result = input_ary.view(self.dtype), output_ary.view(self.dtype)
        if _engine.current().is_cpu:
            self._kernel(host_view(operand), host_view(result))
        else:
            with_stream(stream, self._kernel, operand, result)
        return output_ary  # type: ignore[no-any-return]


def _has_bits_of(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Return whether elements can be read as those of the kernel: PyCUDA reads uint32 as int32."""
    integers = given.kind in "iu" and wanted.kind in "iu"
    return given == wanted or (integers and given.itemsize == wanted.itemsize)


class InclusiveScanKernel(_ScanKernel):
    """A scan whose results include the element itself.

    Parameters
    ----------
    dtype
        The dtype of the elements.
    scan_expr
        The combination of `a` and `b`, which is associative: ``"a+b"``.
    neutral
        Not used.
    name_prefix
        The prefix of the kernels' names.
    options
        Options for the compiler.
    preamble
        Source before the kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from pycudakit.pycuda import gpuarray
    >>> from pycudakit.pycuda.scan import InclusiveScanKernel
    >>> InclusiveScanKernel(np.int32, "a+b")(gpuarray.to_gpu(np.array([3, 1, 4], np.int32)))
    array([3, 4, 8], dtype=int32)
    """

    _kind = pk.InclusiveScanKernel


class ExclusiveScanKernel(_ScanKernel):
    """A scan whose results are of the elements before: the first one is `neutral`.

    Parameters
    ----------
    dtype
        The dtype of the elements.
    scan_expr
        The combination of `a` and `b`, which is associative: ``"a+b"``.
    neutral
        The first result.
    name_prefix
        The prefix of the kernels' names.
    options
        Options for the compiler.
    preamble
        Source before the kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from pycudakit.pycuda import gpuarray
    >>> from pycudakit.pycuda.scan import ExclusiveScanKernel
    >>> ExclusiveScanKernel(np.int32, "a+b", 0)(gpuarray.to_gpu(np.array([3, 1, 4], np.int32)))
    array([0, 3, 4], dtype=int32)
    """

    _kind = pk.ExclusiveScanKernel
