"""NumPy's comparisons of whole arrays: `isclose`, `allclose` and `array_equal`, each in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._element_programs.ufunc_lowering import write_ufunc
from pycudakit._element_programs.values import Value, WeakScalar
from pycudakit._families.elementwise.fast_path import call
from pycudakit._families.expression.reductions import reduce_program
from pycudakit._runtime import context, operands
from pycudakit._runtime.cost_model import REASON_NUMPY_FASTER_FOR_SIZE
from pycudakit._runtime.fp_errors import warn_or_raise
from pycudakit._runtime.native_call import numpy_fallback, run_numpy
from pycudakit._runtime.public_function import public_function

Number = Value | WeakScalar


def _write_close(
    builder: Builder, x: Number, y: Number, rtol: Number, atol: Number, **_: Any
) -> tuple[Value]:
    def apply(name: str, *values: Number) -> Value:
        return write_ufunc(builder, name, *values)[0]

    if isinstance(y, Value):
        y = builder.cast(y, np.result_type(y.dtype, 1.0))
    distance = apply("absolute", apply("subtract", x, y))
    tolerance = apply("multiply", rtol, apply("absolute", y))
    if isinstance(y, WeakScalar) and isinstance(
        rtol, WeakScalar
    ):  # a weakly typed Python number: it takes the other operand's type
        other = distance if isinstance(atol, WeakScalar) else atol
        tolerance = builder.cast(tolerance, np.result_type(other.dtype, 1.0))
    allowed = apply("add", atol, tolerance)
    is_near = apply("logical_and", apply("less_equal", distance, allowed), apply("isfinite", y))
    return (apply("logical_or", is_near, apply("equal", x, y)),)


def _or_both_nan(builder: Builder, result: Value, x: Number, y: Number) -> tuple[Value]:
    both = [write_ufunc(builder, "isnan", value)[0] for value in (x, y)]
    (are_nan,) = write_ufunc(builder, "logical_and", *both)
    return (write_ufunc(builder, "logical_or", result, are_nan)[0],)


def _write_close_or_nan(
    builder: Builder, x: Number, y: Number, *tolerances: Number, **_: Any
) -> tuple[Value]:
    return _or_both_nan(builder, _write_close(builder, x, y, *tolerances)[0], x, y)


def _write_equal(builder: Builder, x: Number, y: Number, **_: Any) -> tuple[Value]:
    return (write_ufunc(builder, "equal", x, y)[0],)


def _write_equal_or_nan(builder: Builder, x: Number, y: Number, **_: Any) -> tuple[Value]:
    return _or_both_nan(builder, _write_equal(builder, x, y)[0], x, y)


def _close_or_nan(a: Any, b: Any, rtol: Any, atol: Any) -> Any:
    return np.isclose(a, b, rtol, atol, equal_nan=True)


def _equal_or_nan(a: Any, b: Any) -> Any:
    return (a == b) | (np.isnan(a) & np.isnan(b))


# The functions, by `equal_nan`.
CLOSE = {
    False: ElementFunction("isclose", np.isclose, _write_close, types_python_scalars=False),
    True: ElementFunction("isclose", _close_or_nan, _write_close_or_nan, types_python_scalars=False),
}
_EQUAL = {
    False: ElementFunction("array_equal", np.equal, _write_equal),
    True: ElementFunction("array_equal", _equal_or_nan, _write_equal_or_nan),
}


def close_operands(a: Any, b: Any) -> tuple[Any, Any]:
    """Convert the operands as NumPy does: `b` to a float, and one of two bare numbers to an array."""
    if type(b) is int:
        b = float(b)
    if type(a) in (bool, float, int) and type(b) in (bool, float, int):
        a = np.asarray(a)
    return a, b


def _check_tolerances(rtol: Any, atol: Any) -> None:
    """Raise or warn as NumPy does for tolerances that are infinite or NaN."""
    rtol, atol = (x if isinstance(x, (float, int)) else np.asarray(x) for x in (rtol, atol))
    if not (np.isfinite(atol).all() and np.isfinite(rtol).all()):
        warn_or_raise("invalid", f"One of rtol or atol is not valid, atol: {atol}, rtol: {rtol}")


@public_function(numpy=np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Return a boolean array where two arrays are element-wise equal within a tolerance.

    Elements are equal where ``abs(a - b) <= atol + rtol * abs(b)``.

    Parameters
    ----------
    a, b : array_like
        The values to compare, broadcast together.
    rtol, atol : array_like
        The relative and the absolute tolerance.
    equal_nan : bool
        Whether NaN is close to NaN.

    Returns
    -------
    ndarray of bool, or bool

    See Also
    --------
    numpy.isclose : NumPy's function.
    allclose, array_equal

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.isclose([1.0, 1e10], [1.0000001, 1.1e10])
    array([ True, False])
    """
    function = CLOSE[bool(equal_nan)]
    a, b = close_operands(a, b)
    if function.is_small(a, b, rtol, atol):
        return np.isclose(a, b, rtol, atol, equal_nan)
    _check_tolerances(rtol, atol)
    with np.errstate(invalid="ignore"):
        return call(
            function, (a, b, rtol, atol), numpy_call=lambda *_: np.isclose(a, b, rtol, atol, equal_nan)
        )


# Elements below which NumPy is fastest under `auto`: in general, and for arrays of one type.
_NUMPY_BELOW, _NUMPY_BELOW_SAME_TYPE = 10_000, 200_000


def _numpy_is_fastest(a: Any, b: Any, numpy_below: int = _NUMPY_BELOW) -> bool:
    return context.current_engine() == "auto" and max(np.size(a), np.size(b)) < numpy_below


@public_function(numpy=np.allclose, one_call="allclose")
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> bool:
    """Return True if two arrays are element-wise equal within a tolerance; computed in one pass.

    Parameters
    ----------
    a, b, rtol, atol, equal_nan
        As for `isclose`.

    Returns
    -------
    bool

    See Also
    --------
    numpy.allclose : NumPy's function.
    isclose, array_equal

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.allclose([1.0, 1e10], [1.0000001, 1.00001e10])
    True
    """
    function = CLOSE[bool(equal_nan)]
    a, b = close_operands(a, b)
    if any(operands.as_array(value) is None for value in (a, b, rtol, atol)):
        return bool(numpy_fallback("allclose", lambda: np.allclose(a, b, rtol, atol, equal_nan)))
    if _numpy_is_fastest(a, b):
        return run_numpy(
            "allclose", REASON_NUMPY_FASTER_FOR_SIZE, lambda: np.allclose(a, b, rtol, atol, equal_nan)
        )
    _check_tolerances(rtol, atol)
    with np.errstate(invalid="ignore"):
        return bool(reduce_program("all", function, (a, b, rtol, atol), None))


@public_function(numpy=np.array_equal, one_call="array_equal")
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return True if two arrays have the same shape and elements; computed in one pass.

    Parameters
    ----------
    a1, a2 : array_like
        The arrays to compare.
    equal_nan : bool
        Whether NaN equals NaN.

    Returns
    -------
    bool

    See Also
    --------
    numpy.array_equal : NumPy's function.
    allclose, equal

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.array_equal([1, 2], [1.0, 2.0]), pk.array_equal([1, 2], [1, 2, 3])
    (True, False)
    """
    one, other = operands.as_array(a1), operands.as_array(a2)
    function = _EQUAL[bool(equal_nan)]
    if one is None or other is None:
        return bool(numpy_fallback("array_equal", lambda: np.array_equal(a1, a2, equal_nan)))
    if one.shape != other.shape:
        return False
    if _numpy_is_fastest(
        one, other, _NUMPY_BELOW_SAME_TYPE if one.dtype == other.dtype and not equal_nan else _NUMPY_BELOW
    ):
        return run_numpy(
            "array_equal", REASON_NUMPY_FASTER_FOR_SIZE, lambda: np.array_equal(a1, a2, equal_nan)
        )
    return bool(reduce_program("all", function, (one, other), None))
