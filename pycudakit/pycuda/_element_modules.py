"""`get_elwise_kernel` and its kin: the source around an operation on element `i`, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit.pycuda._function import Function
from pycudakit.pycuda.compiler import SourceModule
from pycudakit.pycuda.tools import Argument, ScalarArg, parse_c_arg

_SOURCE = """#include <pycuda-complex.hpp>
{preamble}
__global__ void {name}({arguments})
{{
    const long long tid = threadIdx.x;
    const long long total_threads = (long long)gridDim.x * blockDim.x;
    const long long cta_start = (long long)blockDim.x * blockIdx.x;
    {index}
    {loop_prep};
    {loop}
    {{
        {operation};
    }}
    {after_loop};
}}
"""
# The declaration of `i`, and the loop.
_WHOLE = ("size_t i;", "for (i = cta_start + tid; i < n; i += total_threads)")
_RANGE = (
    "long long i;",
    "for (i = start + (cta_start + tid) * step; step < 0 ? i > stop : i < stop; i += total_threads * step)",
)
# The parameters that the loops read.
_SIZE = [ScalarArg(np.uintp, "n")]
_BOUNDS = [ScalarArg(np.intp, name) for name in ("start", "stop", "step")]


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
    loop: tuple[str, str],
    **texts: str,
) -> Any:
    declared = ", ".join([argument.declarator() for argument in arguments_of(arguments)])
    source = _SOURCE.format(
        arguments=declared, operation=operation, name=name, index=loop[0], loop=loop[1], **texts
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
    """Return the module of a kernel; among its parameters is `n`, the number of elements."""
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
    """Return the module of a kernel; among its parameters are `start`, `stop`, `step`, the range of `i`."""
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
    """Return the module, the kernel and its parameters; `n`, or the range of `i`, comes last."""
    parsed = [*arguments_of(arguments), *(_BOUNDS if use_range else _SIZE)]
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
