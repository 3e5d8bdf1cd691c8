"""NumPy's ufuncs of one result, with NumPy's names, signatures, promotion, errors and warnings.

Each takes NumPy's keywords: ``out``, ``where``, ``dtype`` and ``casting``, as documented there.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._families.elementwise import fast_path, ufunc_docstrings
from pycudakit._families.elementwise.ufunc_methods import as_ufunc, shown_signature

_SHOWN: dict[str, inspect.Signature] = {}  # the signature to show, by parameter names


def _describe(
    function: Any, name: str, parameters: str, description: str, texts: tuple[str, str, str]
) -> None:
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = ufunc_docstrings.docstring(name, parameters, description, texts)
    if parameters not in _SHOWN:
        _SHOWN[parameters] = shown_signature(function)
    as_ufunc(function, _SHOWN[parameters])


def _unary(name: str, summary: str, example: str, shown: str) -> fast_path.Unary:
    ufunc = getattr(np, name)
    function = fast_path.unary(ElementFunction(name, ufunc), ufunc)
    _describe(function, name, "x", "The argument.", (summary, example, shown))
    return function


def _binary(name: str, summary: str, example: str, shown: str) -> fast_path.Binary:
    ufunc = getattr(np, name)
    function = fast_path.binary(ElementFunction(name, ufunc), ufunc)
    _describe(function, name, "x1, x2", "The arguments, broadcast together.", (summary, example, shown))
    return function


negative = _unary("negative", "Return the numerical negative, element-wise.", "[1, -2]", "array([-1,  2])")
positive = _unary(
    "positive", "Return the numerical positive, element-wise: a copy.", "[1, -2]", "array([ 1, -2])"
)
absolute = _unary(
    "absolute", "Calculate the absolute value element-wise.", "[-1.5, 2.0]", "array([1.5, 2. ])"
)
abs = _unary(
    "abs",
    "Calculate the absolute value element-wise; an alias of `absolute`.",
    "[-1.5, 2.0]",
    "array([1.5, 2. ])",
)
fabs = _unary("fabs", "Compute the absolute values element-wise, as floats.", "[-1, 2]", "array([1., 2.])")
sign = _unary(
    "sign",
    "Return an element-wise indication of the sign of a number: -1, 0 or 1; NaN for NaN.",
    "[-2.5, 0.0, 3.0]",
    "array([-1.,  0.,  1.])",
)
square = _unary(
    "square", "Return the element-wise square of the input.", "[1.5, -2.0]", "array([2.25, 4.  ])"
)
sqrt = _unary(
    "sqrt",
    "Return the non-negative square-root of an array, element-wise, correctly rounded.",
    "[4.0, 9.0]",
    "array([2., 3.])",
)
cbrt = _unary("cbrt", "Return the cube-root of an array, element-wise.", "[8.0, -27.0]", "array([ 2., -3.])")
reciprocal = _unary(
    "reciprocal",
    "Return the reciprocal of the argument, element-wise; integers truncate.",
    "[2.0, 4.0]",
    "array([0.5 , 0.25])",
)
exp = _unary(
    "exp",
    "Calculate the exponential of all elements in the input array.",
    "[0.0, 1.0]",
    "array([1.        , 2.71828183])",
)
exp2 = _unary("exp2", "Calculate 2**p for all p in the input array.", "[0.0, 3.0]", "array([1., 8.])")
expm1 = _unary(
    "expm1",
    "Calculate exp(x) - 1 for all elements in the array, accurate near 0.",
    "[0.0, 1e-10]",
    "array([0.e+00, 1.e-10])",
)
log = _unary(
    "log", "Return the natural logarithm, element-wise.", "[1.0, 10.0]", "array([0.        , 2.30258509])"
)
log2 = _unary("log2", "Return the base 2 logarithm of x, element-wise.", "[1.0, 8.0]", "array([0., 3.])")
log10 = _unary(
    "log10",
    "Return the base 10 logarithm of the input array, element-wise.",
    "[1.0, 1000.0]",
    "array([0., 3.])",
)
log1p = _unary(
    "log1p",
    "Return the natural logarithm of one plus the input array, element-wise, accurate near 0.",
    "[0.0, 1e-10]",
    "array([0.e+00, 1.e-10])",
)
sin = _unary("sin", "Compute sine element-wise, of radians.", "[0.0, 1.0]", "array([0.        , 0.84147098])")
cos = _unary(
    "cos", "Compute cosine element-wise, of radians.", "[0.0, 1.0]", "array([1.        , 0.54030231])"
)
tan = _unary(
    "tan", "Compute tangent element-wise, of radians.", "[0.0, 1.0]", "array([0.        , 1.55740772])"
)
arcsin = _unary(
    "arcsin",
    "Compute the inverse sine element-wise, in radians.",
    "[0.0, 1.0]",
    "array([0.        , 1.57079633])",
)
arccos = _unary(
    "arccos",
    "Compute the inverse cosine element-wise, in radians.",
    "[1.0, 0.0]",
    "array([0.        , 1.57079633])",
)
arctan = _unary(
    "arctan",
    "Compute the inverse tangent element-wise, in radians.",
    "[0.0, 1.0]",
    "array([0.        , 0.78539816])",
)
sinh = _unary(
    "sinh", "Compute hyperbolic sine element-wise.", "[0.0, 1.0]", "array([0.        , 1.17520119])"
)
cosh = _unary(
    "cosh", "Compute hyperbolic cosine element-wise.", "[0.0, 1.0]", "array([1.        , 1.54308063])"
)
tanh = _unary(
    "tanh", "Compute hyperbolic tangent element-wise.", "[0.0, 1.0]", "array([0.        , 0.76159416])"
)
arcsinh = _unary(
    "arcsinh",
    "Compute inverse hyperbolic sine element-wise.",
    "[0.0, 1.0]",
    "array([0.        , 0.88137359])",
)
arccosh = _unary(
    "arccosh",
    "Compute inverse hyperbolic cosine element-wise.",
    "[1.0, 2.0]",
    "array([0.       , 1.3169579])",
)
arctanh = _unary(
    "arctanh",
    "Compute inverse hyperbolic tangent element-wise.",
    "[0.0, 0.5]",
    "array([0.        , 0.54930614])",
)
deg2rad = _unary(
    "deg2rad", "Convert angles from degrees to radians.", "[0.0, 180.0]", "array([0.        , 3.14159265])"
)
rad2deg = _unary(
    "rad2deg", "Convert angles from radians to degrees.", "[0.0, 1.0]", "array([ 0.        , 57.29577951])"
)
degrees = _unary(
    "degrees",
    "Convert angles from radians to degrees; the same function as `rad2deg`.",
    "[0.0, 1.0]",
    "array([ 0.        , 57.29577951])",
)
radians = _unary(
    "radians",
    "Convert angles from degrees to radians; the same function as `deg2rad`.",
    "[0.0, 180.0]",
    "array([0.        , 3.14159265])",
)
floor = _unary("floor", "Return the floor of the input, element-wise.", "[-1.5, 1.5]", "array([-2.,  1.])")
ceil = _unary("ceil", "Return the ceiling of the input, element-wise.", "[-1.5, 1.5]", "array([-1.,  2.])")
trunc = _unary(
    "trunc", "Return the truncated value of the input, element-wise.", "[-1.5, 1.5]", "array([-1.,  1.])"
)
rint = _unary(
    "rint",
    "Round elements of the array to the nearest integer, ties to even.",
    "[0.5, 1.5, 1.6]",
    "array([0., 2., 2.])",
)
logical_not = _unary(
    "logical_not", "Compute the truth value of NOT x element-wise.", "[0, 2]", "array([ True, False])"
)
invert = _unary(
    "invert",
    "Compute bit-wise inversion, or bit-wise NOT, element-wise; logical NOT of bools.",
    "[0, 5]",
    "array([-1, -6])",
)
isnan = _unary("isnan", "Test element-wise for NaN.", '[1.0, float("nan")]', "array([False,  True])")
isinf = _unary(
    "isinf",
    "Test element-wise for positive or negative infinity.",
    '[1.0, float("inf")]',
    "array([False,  True])",
)
isfinite = _unary(
    "isfinite",
    "Test element-wise for finiteness (neither infinity nor NaN).",
    '[1.0, float("nan")]',
    "array([ True, False])",
)
signbit = _unary(
    "signbit",
    "Return element-wise True where signbit is set (less than zero, or -0.0).",
    "[-0.0, 1.0]",
    "array([ True, False])",
)
add = _binary("add", "Add arguments element-wise.", "[1, 2], [3, 4]", "array([4, 6])")
subtract = _binary("subtract", "Subtract arguments, element-wise.", "[5, 7], [3, 4]", "array([2, 3])")
multiply = _binary("multiply", "Multiply arguments element-wise.", "[1, 2], [3, 4]", "array([3, 8])")
divide = _binary("divide", "Divide arguments element-wise, as floats.", "[1, 2], 4", "array([0.25, 0.5 ])")
true_divide = _binary(
    "true_divide",
    "Divide arguments element-wise, as floats; the same function as `divide`.",
    "[1, 2], 4",
    "array([0.25, 0.5 ])",
)
floor_divide = _binary(
    "floor_divide",
    "Return the largest integer smaller or equal to the division of the inputs.",
    "[7, -7], 2",
    "array([ 3, -4])",
)
remainder = _binary(
    "remainder",
    "Return the element-wise remainder of division, with the divisor's sign, as Python's %.",
    "[7, -7], 4",
    "array([3, 1])",
)
mod = _binary(
    "mod",
    "Return the element-wise remainder of division; the same function as `remainder`.",
    "[7, -7], 4",
    "array([3, 1])",
)
fmod = _binary(
    "fmod",
    "Return the element-wise remainder of division, with the dividend's sign, as C's fmod.",
    "[7, -7], 4",
    "array([ 3, -3])",
)
gcd = _binary(
    "gcd", "Return the greatest common divisor of abs(x1) and abs(x2).", "[12, -7], 18", "array([6, 1])"
)
lcm = _binary(
    "lcm", "Return the lowest common multiple of abs(x1) and abs(x2).", "[12, -7], 18", "array([ 36, 126])"
)
logaddexp = _binary(
    "logaddexp",
    "Compute the logarithm of the sum of exponentiations of the inputs, without overflow.",
    "[0.0, 1000.0], [0.0, 1000.0]",
    "array([6.93147181e-01, 1.00069315e+03])",
)
logaddexp2 = _binary(
    "logaddexp2",
    "Compute the base-2 logarithm of the sum of exponentiations in base 2, without overflow.",
    "[1.0, 3000.0], [1.0, 3000.0]",
    "array([2.000e+00, 3.001e+03])",
)
ldexp = _binary(
    "ldexp",
    "Return x1 * 2**x2, element-wise, for integers x2.",
    "[0.75, -1.0], [3, -1]",
    "array([ 6. , -0.5])",
)
power = _binary(
    "power",
    "Raise elements of the first array to powers from the second, element-wise.",
    "[2, 3], 3",
    "array([ 8, 27])",
)
float_power = _binary(
    "float_power",
    "Raise elements of the first array to powers from the second, in float64.",
    "[2, 3], -1",
    "array([0.5       , 0.33333333])",
)
arctan2 = _binary(
    "arctan2",
    "Compute the element-wise arc tangent of x1/x2, choosing the quadrant correctly.",
    "[1.0, -1.0], [1.0, 1.0]",
    "array([ 0.78539816, -0.78539816])",
)
hypot = _binary(
    "hypot",
    "Return the hypotenuse of a right triangle with legs x1 and x2, without overflow.",
    "[3.0, 5.0], [4.0, 12.0]",
    "array([ 5., 13.])",
)
equal = _binary("equal", "Return (x1 == x2) element-wise.", "[1, 2], [1, 3]", "array([ True, False])")
not_equal = _binary("not_equal", "Return (x1 != x2) element-wise.", "[1, 2], [1, 3]", "array([False,  True])")
less = _binary(
    "less", "Return the truth value of (x1 < x2) element-wise.", "[1, 2], [1, 3]", "array([False,  True])"
)
less_equal = _binary(
    "less_equal",
    "Return the truth value of (x1 <= x2) element-wise.",
    "[1, 2], [1, 1]",
    "array([ True, False])",
)
greater = _binary(
    "greater", "Return the truth value of (x1 > x2) element-wise.", "[1, 2], [1, 1]", "array([False,  True])"
)
greater_equal = _binary(
    "greater_equal",
    "Return the truth value of (x1 >= x2) element-wise.",
    "[1, 2], [1, 3]",
    "array([ True, False])",
)
maximum = _binary(
    "maximum",
    "Return the element-wise maximum of array elements; NaN propagates.",
    "[1.0, 5.0], [3.0, 4.0]",
    "array([3., 5.])",
)
minimum = _binary(
    "minimum",
    "Return the element-wise minimum of array elements; NaN propagates.",
    "[1.0, 5.0], [3.0, 4.0]",
    "array([1., 4.])",
)
fmax = _binary(
    "fmax",
    "Return the element-wise maximum of array elements, ignoring NaNs.",
    '[1.0, float("nan")], [3.0, 4.0]',
    "array([3., 4.])",
)
fmin = _binary(
    "fmin",
    "Return the element-wise minimum of array elements, ignoring NaNs.",
    '[1.0, float("nan")], [3.0, 4.0]',
    "array([1., 4.])",
)
logical_and = _binary(
    "logical_and",
    "Compute the truth value of x1 AND x2 element-wise.",
    "[0, 1], [1, 2]",
    "array([False,  True])",
)
logical_or = _binary(
    "logical_or",
    "Compute the truth value of x1 OR x2 element-wise.",
    "[0, 1], [0, 0]",
    "array([False,  True])",
)
logical_xor = _binary(
    "logical_xor",
    "Compute the truth value of x1 XOR x2 element-wise.",
    "[0, 1], [1, 2]",
    "array([ True, False])",
)
bitwise_and = _binary(
    "bitwise_and", "Compute the bit-wise AND of two arrays element-wise.", "[12, 10], 6", "array([4, 2])"
)
bitwise_or = _binary(
    "bitwise_or", "Compute the bit-wise OR of two arrays element-wise.", "[12, 10], 6", "array([14, 14])"
)
bitwise_xor = _binary(
    "bitwise_xor", "Compute the bit-wise XOR of two arrays element-wise.", "[12, 10], 6", "array([10, 12])"
)
left_shift = _binary(
    "left_shift", "Shift the bits of an integer to the left.", "[1, 3], 2", "array([ 4, 12])"
)
right_shift = _binary(
    "right_shift", "Shift the bits of an integer to the right.", "[8, -8], 2", "array([ 2, -2])"
)
copysign = _binary(
    "copysign", "Change the sign of x1 to that of x2, element-wise.", "[1.0, 2.0], -0.0", "array([-1., -2.])"
)
nextafter = _binary(
    "nextafter",
    "Return the next floating-point value after x1 towards x2, element-wise.",
    "[1.0], 2.0",
    "array([1.])",
)
heaviside = _binary(
    "heaviside",
    "Compute the Heaviside step function: 0 below zero, 1 above, and x2 at zero.",
    "[-1.0, 0.0, 1.0], 0.5",
    "array([0. , 0.5, 1. ])",
)

# Aliases, as in NumPy; most are the array API's names.
acos, acosh, asin, asinh, atan, atan2, atanh = arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh
bitwise_invert = bitwise_not = invert
bitwise_left_shift, bitwise_right_shift, pow = left_shift, right_shift, power
