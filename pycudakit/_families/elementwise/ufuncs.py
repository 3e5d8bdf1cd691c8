"""NumPy's elementwise functions: NumPy's names, signatures, promotion, errors and warnings.

Each takes NumPy's keywords: ``out``, ``where``, ``dtype`` and ``casting``, as documented there.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._families.elementwise import fast_path
from pycudakit._families.elementwise.ufunc_methods import as_ufunc, shown_signature

_DOCSTRING = """{summary}

    Parameters
    ----------
    {parameters} : array_like
        {what}
    out : ndarray, optional
        Where to put the result.
    where : array_like of bool, optional
        Where it is False, `out` keeps its value; in a new array such elements mean nothing.
    casting, dtype
        As for `numpy.{name}`, whose answer this is.

    Returns
    -------
    ndarray or scalar

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.{name}({example})
    {shown}
    """


_SHOWN: dict[str, inspect.Signature] = {}  # of functions of such parameters


def _describe(function: Any, name: str, parameters: str, what: str, texts: tuple[str, str, str]) -> None:
    summary, example, shown = texts
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = _DOCSTRING.format(
        name=name, summary=summary, parameters=parameters, what=what, example=example, shown=shown
    )
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


negative = _unary("negative", "Change the sign.", "[1, -2]", "array([-1,  2])")
positive = _unary("positive", "Return a copy.", "[1, -2]", "array([ 1, -2])")
absolute = _unary("absolute", "Return the absolute value.", "[-1.5, 2.0]", "array([1.5, 2. ])")
abs = _unary(
    "abs", "Return the absolute value; the same function as `absolute`.", "[-1.5, 2.0]", "array([1.5, 2. ])"
)
fabs = _unary("fabs", "Return the absolute value as a float.", "[-1, 2]", "array([1., 2.])")
sign = _unary(
    "sign", "Return -1, 0 or 1 for the sign; NaN for NaN.", "[-2.5, 0.0, 3.0]", "array([-1.,  0.,  1.])"
)
square = _unary("square", "Multiply by itself.", "[1.5, -2.0]", "array([2.25, 4.  ])")
sqrt = _unary("sqrt", "Return the square root, rounded correctly.", "[4.0, 9.0]", "array([2., 3.])")
cbrt = _unary("cbrt", "Return the cube root.", "[8.0, -27.0]", "array([ 2., -3.])")
reciprocal = _unary("reciprocal", "Return 1 / x; integers truncate.", "[2.0, 4.0]", "array([0.5 , 0.25])")
exp = _unary("exp", "Return e to the power x.", "[0.0, 1.0]", "array([1.        , 2.71828183])")
exp2 = _unary("exp2", "Return 2 to the power x.", "[0.0, 3.0]", "array([1., 8.])")
expm1 = _unary("expm1", "Return exp(x) - 1, exact near 0.", "[0.0, 1e-10]", "array([0.e+00, 1.e-10])")
log = _unary("log", "Return the natural logarithm.", "[1.0, 10.0]", "array([0.        , 2.30258509])")
log2 = _unary("log2", "Return the logarithm to base 2.", "[1.0, 8.0]", "array([0., 3.])")
log10 = _unary("log10", "Return the logarithm to base 10.", "[1.0, 1000.0]", "array([0., 3.])")
log1p = _unary("log1p", "Return log(1 + x), exact near 0.", "[0.0, 1e-10]", "array([0.e+00, 1.e-10])")
sin = _unary("sin", "Return the sine of radians.", "[0.0, 1.0]", "array([0.        , 0.84147098])")
cos = _unary("cos", "Return the cosine of radians.", "[0.0, 1.0]", "array([1.        , 0.54030231])")
tan = _unary("tan", "Return the tangent of radians.", "[0.0, 1.0]", "array([0.        , 1.55740772])")
arcsin = _unary(
    "arcsin", "Return the inverse sine, in radians.", "[0.0, 1.0]", "array([0.        , 1.57079633])"
)
arccos = _unary(
    "arccos", "Return the inverse cosine, in radians.", "[1.0, 0.0]", "array([0.        , 1.57079633])"
)
arctan = _unary(
    "arctan", "Return the inverse tangent, in radians.", "[0.0, 1.0]", "array([0.        , 0.78539816])"
)
sinh = _unary("sinh", "Return the hyperbolic sine.", "[0.0, 1.0]", "array([0.        , 1.17520119])")
cosh = _unary("cosh", "Return the hyperbolic cosine.", "[0.0, 1.0]", "array([1.        , 1.54308063])")
tanh = _unary("tanh", "Return the hyperbolic tangent.", "[0.0, 1.0]", "array([0.        , 0.76159416])")
arcsinh = _unary(
    "arcsinh", "Return the inverse hyperbolic sine.", "[0.0, 1.0]", "array([0.        , 0.88137359])"
)
arccosh = _unary(
    "arccosh", "Return the inverse hyperbolic cosine.", "[1.0, 2.0]", "array([0.       , 1.3169579])"
)
arctanh = _unary(
    "arctanh", "Return the inverse hyperbolic tangent.", "[0.0, 0.5]", "array([0.        , 0.54930614])"
)
deg2rad = _unary("deg2rad", "Convert degrees to radians.", "[0.0, 180.0]", "array([0.        , 3.14159265])")
rad2deg = _unary("rad2deg", "Convert radians to degrees.", "[0.0, 1.0]", "array([ 0.        , 57.29577951])")
degrees = _unary(
    "degrees",
    "Convert radians to degrees; the same function as `rad2deg`.",
    "[0.0, 1.0]",
    "array([ 0.        , 57.29577951])",
)
radians = _unary(
    "radians",
    "Convert degrees to radians; the same function as `deg2rad`.",
    "[0.0, 180.0]",
    "array([0.        , 3.14159265])",
)
floor = _unary("floor", "Round down.", "[-1.5, 1.5]", "array([-2.,  1.])")
ceil = _unary("ceil", "Round up.", "[-1.5, 1.5]", "array([-1.,  2.])")
trunc = _unary("trunc", "Round towards zero.", "[-1.5, 1.5]", "array([-1.,  1.])")
rint = _unary("rint", "Round to the nearest integer, ties to even.", "[0.5, 1.5, 1.6]", "array([0., 2., 2.])")
logical_not = _unary("logical_not", "Tell which elements are zero.", "[0, 2]", "array([ True, False])")
invert = _unary("invert", "Flip every bit; of bools, the truth.", "[0, 5]", "array([-1, -6])")
isnan = _unary("isnan", "Tell which elements are NaN.", '[1.0, float("nan")]', "array([False,  True])")
isinf = _unary("isinf", "Tell which elements are infinite.", '[1.0, float("inf")]', "array([False,  True])")
isfinite = _unary(
    "isfinite",
    "Tell which elements are neither NaN nor infinite.",
    '[1.0, float("nan")]',
    "array([ True, False])",
)
signbit = _unary(
    "signbit", "Tell which elements have the sign bit set.", "[-0.0, 1.0]", "array([ True, False])"
)
add = _binary("add", "Add.", "[1, 2], [3, 4]", "array([4, 6])")
subtract = _binary("subtract", "Subtract.", "[5, 7], [3, 4]", "array([2, 3])")
multiply = _binary("multiply", "Multiply.", "[1, 2], [3, 4]", "array([3, 8])")
divide = _binary("divide", "Divide, as floats.", "[1, 2], 4", "array([0.25, 0.5 ])")
true_divide = _binary(
    "true_divide", "Divide, as floats; the same function as `divide`.", "[1, 2], 4", "array([0.25, 0.5 ])"
)
floor_divide = _binary("floor_divide", "Return the quotient rounded down.", "[7, -7], 2", "array([ 3, -4])")
remainder = _binary(
    "remainder", "Return the remainder with the divisor's sign, as Python's %.", "[7, -7], 4", "array([3, 1])"
)
mod = _binary("mod", "Return the remainder; the same function as `remainder`.", "[7, -7], 4", "array([3, 1])")
fmod = _binary(
    "fmod", "Return the remainder with the dividend's sign, as C's.", "[7, -7], 4", "array([ 3, -3])"
)
gcd = _binary("gcd", "Return the greatest common divisor.", "[12, -7], 18", "array([6, 1])")
lcm = _binary("lcm", "Return the lowest common multiple.", "[12, -7], 18", "array([ 36, 126])")
logaddexp = _binary(
    "logaddexp",
    "Return log(exp(x1) + exp(x2)) without overflow.",
    "[0.0, 1000.0], [0.0, 1000.0]",
    "array([6.93147181e-01, 1.00069315e+03])",
)
logaddexp2 = _binary(
    "logaddexp2",
    "Return log2(2**x1 + 2**x2) without overflow.",
    "[1.0, 3000.0], [1.0, 3000.0]",
    "array([2.000e+00, 3.001e+03])",
)
ldexp = _binary(
    "ldexp", "Return x1 * 2**x2, for integers x2.", "[0.75, -1.0], [3, -1]", "array([ 6. , -0.5])"
)
power = _binary("power", "Raise to a power.", "[2, 3], 3", "array([ 8, 27])")
float_power = _binary(
    "float_power", "Raise to a power, in float64.", "[2, 3], -1", "array([0.5       , 0.33333333])"
)
arctan2 = _binary(
    "arctan2",
    "Return the angle of the point (x2, x1), in radians.",
    "[1.0, -1.0], [1.0, 1.0]",
    "array([ 0.78539816, -0.78539816])",
)
hypot = _binary(
    "hypot", "Return sqrt(x1**2 + x2**2) without overflow.", "[3.0, 5.0], [4.0, 12.0]", "array([ 5., 13.])"
)
equal = _binary("equal", "Tell where x1 == x2.", "[1, 2], [1, 3]", "array([ True, False])")
not_equal = _binary("not_equal", "Tell where x1 != x2.", "[1, 2], [1, 3]", "array([False,  True])")
less = _binary("less", "Tell where x1 < x2.", "[1, 2], [1, 3]", "array([False,  True])")
less_equal = _binary("less_equal", "Tell where x1 <= x2.", "[1, 2], [1, 1]", "array([ True, False])")
greater = _binary("greater", "Tell where x1 > x2.", "[1, 2], [1, 1]", "array([False,  True])")
greater_equal = _binary("greater_equal", "Tell where x1 >= x2.", "[1, 2], [1, 3]", "array([ True, False])")
maximum = _binary(
    "maximum", "Return the larger; NaN if either is.", "[1.0, 5.0], [3.0, 4.0]", "array([3., 5.])"
)
minimum = _binary(
    "minimum", "Return the smaller; NaN if either is.", "[1.0, 5.0], [3.0, 4.0]", "array([1., 4.])"
)
fmax = _binary(
    "fmax",
    "Return the larger, of a number and a NaN the number.",
    '[1.0, float("nan")], [3.0, 4.0]',
    "array([3., 4.])",
)
fmin = _binary(
    "fmin",
    "Return the smaller, of a number and a NaN the number.",
    '[1.0, float("nan")], [3.0, 4.0]',
    "array([1., 4.])",
)
logical_and = _binary(
    "logical_and", "Tell where both are nonzero.", "[0, 1], [1, 2]", "array([False,  True])"
)
logical_or = _binary("logical_or", "Tell where either is nonzero.", "[0, 1], [0, 0]", "array([False,  True])")
logical_xor = _binary(
    "logical_xor", "Tell where exactly one is nonzero.", "[0, 1], [1, 2]", "array([ True, False])"
)
bitwise_and = _binary("bitwise_and", "Combine bits: set in both.", "[12, 10], 6", "array([4, 2])")
bitwise_or = _binary("bitwise_or", "Combine bits: set in either.", "[12, 10], 6", "array([14, 14])")
bitwise_xor = _binary("bitwise_xor", "Combine bits: set in exactly one.", "[12, 10], 6", "array([10, 12])")
left_shift = _binary("left_shift", "Shift bits to the left.", "[1, 3], 2", "array([ 4, 12])")
right_shift = _binary("right_shift", "Shift bits to the right.", "[8, -8], 2", "array([ 2, -2])")
copysign = _binary("copysign", "Return x1 with the sign of x2.", "[1.0, 2.0], -0.0", "array([-1., -2.])")
nextafter = _binary("nextafter", "Return the neighbour of x1 towards x2.", "[1.0], 2.0", "array([1.])")
heaviside = _binary(
    "heaviside",
    "Return 0 below zero, 1 above, and x2 at zero.",
    "[-1.0, 0.0, 1.0], 0.5",
    "array([0. , 0.5, 1. ])",
)

# NumPy's other names for the same functions, most of them those of the array API.
acos, acosh, asin, asinh, atan, atan2, atanh = arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh
bitwise_invert = bitwise_not = invert
bitwise_left_shift, bitwise_right_shift, pow = left_shift, right_shift, power
