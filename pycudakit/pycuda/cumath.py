"""`pycuda.cumath`: mathematical functions of arrays on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit.pycuda import _array_math, _engine
from pycudakit.pycuda._array_copy import host_view
from pycudakit.pycuda._gpuarray import GPUArray

_NAMES = {
    "fabs": "fabs", "ceil": "ceil", "floor": "floor",
    "exp": "exp", "log": "log", "log10": "log10", "sqrt": "sqrt",
    "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
}  # fmt: skip


def _function(name: str, numpy_name: str) -> Any:
    def function(array: GPUArray, stream_or_out: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        if isinstance(stream_or_out, GPUArray):
            out = stream_or_out
        elif stream_or_out is not None:
            stream = stream_or_out
        if out is None:
            out = array.new_like()
        elif out.shape != array.shape or out.dtype != array.dtype:
            raise ValueError(
                f"{name}: out is {out.shape} {out.dtype}; it must be {array.shape} {array.dtype}"
            )
        if array.dtype.kind in "biu":  # C computes them as double
            values = array.astype(np.float64, stream)
            _array_math.compute(numpy_name, values, values, stream=stream)
            return _array_math.convert(out, values, stream)
        return _array_math.compute(numpy_name, out, array, stream=stream)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return NumPy's `{numpy_name}` of each element.

    Parameters
    ----------
    array
        The array.
    stream_or_out
        The stream, or the array of the results.
    out
        The array of the results.
    stream
        The stream.
    """
    return function


fabs, ceil, floor, exp, log, log10, sqrt, sin, cos, tan, asin, acos, atan, sinh, cosh, tanh = (
    _function(name, numpy_name) for name, numpy_name in _NAMES.items()
)


def fmod(arg: GPUArray, mod: GPUArray, stream: Any = None) -> Any:
    """Return the remainders of the quotients, of the dividends' sign, as C's `fmod`."""
    return _array_math.compute("fmod", arg.new_like(), arg, mod, stream=stream)


def _pair(name: str, array: GPUArray, stream: Any) -> tuple[Any, Any]:
    first, second = array.new_like(), array.new_like()
    if _engine.current().is_cpu:
        getattr(np, name)(host_view(array), out=(host_view(first), host_view(second)), casting="unsafe")
        return first, second
    one, other = _array_math.with_stream(stream, _array_math.function_of(name), array)
    return one, other.astype(array.dtype, stream) if other.dtype != array.dtype else other


def frexp(arg: GPUArray, stream: Any = None) -> tuple[Any, Any]:
    """Return significands of [0.5, 1) and exponents, both of the array's dtype."""
    return _pair("frexp", arg, stream)


def modf(arg: GPUArray, stream: Any = None) -> tuple[Any, Any]:
    """Return the fractional and the integral parts."""
    return _pair("modf", arg, stream)


def ldexp(significand: GPUArray, exponent: GPUArray, stream: Any = None) -> Any:
    """Return ``significand * 2**exponent``."""
    out = significand.new_like()
    return _array_math.compute("ldexp", out, significand, exponent.astype(np.int32, stream), stream=stream)
