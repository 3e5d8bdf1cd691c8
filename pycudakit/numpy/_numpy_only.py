"""NumPy's functions that compute or copy elements and that pycudakit lacks: `cpu` and `cuda` refuse them.

Under `auto` and `numpy` they run in NumPy. The other functions that are NumPy's own only create arrays or
views, describe, print, read or write arrays, or draw random numbers. They are NumPy's on every engine.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._families.elementwise.ufunc_methods import as_ufunc
from pycudakit._runtime import context, native_call
from pycudakit._runtime.call_log import Call
from pycudakit._runtime.engine_choice import LACKING, OTHER_ENGINE, fallback_to_numpy, requested_engine

# By module. Aliases of a function are listed, too.
FUNCTIONS = {
    "": """angle append apply_along_axis apply_over_axes array_equiv bitwise_count block bmat busday_count
        busday_offset choose column_stack conj conjugate delete dstack ediff1d extract fix
        histogram_bin_edges hstack i0 insert is_busday iscomplex isnat isneginf isposinf isreal matvec
        packbits piecewise poly polyadd polyder polydiv polyfit polyint polymul polysub polyval
        ravel_multi_index resize roots row_stack select sort_complex spacing unique_all unique_counts
        unique_inverse unpackbits unravel_index unwrap vander vecmat vstack""",
    "linalg": """cholesky cond cross det eig eigh eigvals eigvalsh inv lstsq matmul matrix_norm matrix_rank
        multi_dot outer pinv qr slogdet solve svd svdvals tensordot tensorinv tensorsolve trace vecdot
        vector_norm""",
    "fft": """fft fft2 fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2
        rfftn""",
}
NAMES = {module: frozenset(names.split()) for module, names in FUNCTIONS.items()}
_REASON = f"auto: {LACKING}"
_TRACE = "pycudakit.fusing.trace.current_trace"

_current_context = context.current_context


def _is_tracing() -> bool:
    """Return True in a fused function, where the trace intercepts NumPy's own function."""
    module = sys.modules.get(_TRACE)
    return module is not None and module.current_trace() is not None


@functools.cache  # aliases are one object, as in NumPy
def guarded(numpy_function: Callable[..., Any], package: str, module: str) -> Callable[..., Any]:
    """Return a NumPy function that runs under `auto` and `numpy`, and that other engines refuse.

    Parameters
    ----------
    numpy_function
        The function.
    package
        The module by which pickles refer to the function.
    module
        The submodule of NumPy, for messages: ``""`` or ``"linalg"``, for example.
    """
    name = f"{module}.{numpy_function.__name__}".lstrip(".")
    log = native_call.call_logger(Call(name, "numpy", _REASON))

    def call(*args: Any, **kwargs: Any) -> Any:
        if _is_tracing():
            return numpy_function(*args, **kwargs)
        if (_current_context.get().fast_path_engine or context.process_engine) == "auto":
            result = numpy_function(*args, **kwargs)
            log()
            return result
        return _compute(name, functools.partial(numpy_function, *args, **kwargs))

    vars(call)["numpy_function"] = numpy_function  # for the bodies of fused functions
    if isinstance(numpy_function, np.ufunc):
        call.__name__, call.__doc__ = numpy_function.__name__, numpy_function.__doc__
        as_ufunc(call, inspect.signature(call))
    else:
        functools.update_wrapper(call, numpy_function)
    call.__module__, call.__qualname__ = package, call.__name__
    return call


def _compute(name: str, compute: Callable[[], Any]) -> Any:
    """Compute a call in NumPy, and record it, if the engine in force allows NumPy."""
    engine = context.checked_current_engine()
    if engine == "numpy":
        return native_call.run_numpy(name, context.REASON_ENGINE_REQUESTED, compute)
    if engine == "auto":
        return native_call.run_numpy(name, _REASON, compute)
    requested_engine(name, engine)  # raises NoDevice if the engine is not available
    refusal = f"{name}: pycudakit lacks it, and so the {engine} engine refuses it; {OTHER_ENGINE}"
    return native_call.run_numpy(name, fallback_to_numpy(name, refusal, LACKING).reason, compute)
