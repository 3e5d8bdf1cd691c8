"""NumPy's elementwise functions: NumPy's names, signatures, promotion, errors and warnings.

Each takes NumPy's keywords: ``out``, ``where``, ``dtype`` and ``casting``, as documented there.
"""

from __future__ import annotations

import builtins
import operator
from typing import Any, Protocol

import numpy as np

from pycudakit import _engine
from pycudakit._dispatch import Function, as_argument, call, checked_output
from pycudakit._program import BOOL, FLOAT64, Builder, Scalar, Value, code_of


class Unary(Protocol):
    """A function of one array."""

    def __call__(
        self, x: Any, /, out: Any = None, *, where: Any = True, casting: str = "same_kind", dtype: Any = None
    ) -> Any:
        """Compute element by element."""
        ...


class Binary(Protocol):
    """A function of two arrays."""

    def __call__(
        self,
        x1: Any,
        x2: Any,
        /,
        out: Any = None,
        *,
        where: Any = True,
        casting: str = "same_kind",
        dtype: Any = None,
    ) -> Any:
        """Compute element by element."""
        ...


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


def _describe(function: Any, name: str, parameters: str, what: str, texts: tuple[str, str, str]) -> None:
    summary, example, shown = texts
    function.__name__ = function.__qualname__ = name
    function.__doc__ = _DOCSTRING.format(
        name=name, summary=summary, parameters=parameters, what=what, example=example, shown=shown
    )


# Small calls go straight to NumPy: the two closures below are all that pycudakit adds to them.


def _unary(name: str, summary: str, example: str, shown: str) -> Unary:
    ufunc = getattr(np, name)
    function = Function(name, ufunc)
    below = function.numpy_below
    small = function.small
    context, local = _engine.context, _engine.local

    def unary(
        x: Any, /, out: Any = None, *, where: Any = True, casting: str = "same_kind", dtype: Any = None
    ) -> Any:
        if (
            type(x) is np.ndarray
            and x.size < below.get((x.dtype,), 0)
            and out is None
            and where is True
            and dtype is None
            and (context.get() or _engine.process) == "auto"
        ):
            local.call = small
            return ufunc(x, casting=casting)
        return call(function, (x,), out, where, dtype, casting)

    _describe(unary, name, "x", "The argument.", (summary, example, shown))
    return unary


def _binary(name: str, summary: str, example: str, shown: str) -> Binary:
    ufunc = getattr(np, name)
    function = Function(name, ufunc)
    below = function.numpy_below
    small = function.small
    context, local = _engine.context, _engine.local

    def binary(
        x1: Any,
        x2: Any,
        /,
        out: Any = None,
        *,
        where: Any = True,
        casting: str = "same_kind",
        dtype: Any = None,
    ) -> Any:
        if (
            type(x1) is np.ndarray
            and x1.size
            < below.get(
                (x1.dtype, x2.dtype if type(x2) is np.ndarray and x2.shape == x1.shape else type(x2)), 0
            )
            and out is None
            and where is True
            and dtype is None
            and (context.get() or _engine.process) == "auto"
        ):
            local.call = small
            return ufunc(x1, x2, casting=casting)
        return call(function, (x1, x2), out, where, dtype, casting)

    _describe(binary, name, "x1, x2", "The arguments, broadcast together.", (summary, example, shown))
    return binary


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


# ---- Functions of another signature ----------------------------------------------------------------

_DIVMOD = Function("divmod", np.divmod, outputs=2)


def divmod(
    x1: Any,
    x2: Any,
    out1: Any = None,
    out2: Any = None,
    /,
    *,
    out: Any = None,
    where: Any = True,
    casting: str = "same_kind",
    dtype: Any = None,
) -> tuple[Any, Any]:
    """Return the quotient rounded down, and the remainder that goes with it.

    Parameters
    ----------
    x1, x2 : array_like
        The arguments, broadcast together.
    out1, out2, out : ndarrays, or a tuple of two ndarrays or None, optional
        Where to put the results.
    where, casting, dtype
        As for `add`.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.divmod([7, -7], 4)
    (array([ 1, -2]), array([3, 1]))
    """
    if out1 is not None or out2 is not None:
        if out is not None:
            raise TypeError("cannot specify 'out' as both a positional and keyword argument")
        out = (out1, out2)
    quotient, remainder = call(_DIVMOD, (x1, x2), out, where, dtype, casting)
    return quotient, remainder


def _promoted(arguments: tuple[Value | Scalar, ...]) -> np.dtype[Any]:
    return np.result_type(*(a.type(1) if isinstance(a, Scalar) else a.dtype for a in arguments))


def write_where(builder: Builder, condition: Any, *branches: Any, **_: Any) -> tuple[Value, ...]:
    """Add `where` to a program."""
    dtype = _promoted(branches)
    yes, no = (builder.cast(branch, dtype) for branch in branches)
    return (builder.select(builder.cast(condition, BOOL), yes, no),)


_WHERE = Function("where", np.where, write_where)


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """Choose elements from `x` where the condition holds, and from `y` elsewhere.

    Parameters
    ----------
    condition : array_like
        What to choose by: nonzero chooses `x`.
    x, y : array_like, optional
        What to choose from; all three are broadcast together. Without them, the indices where the
        condition holds, as `numpy.nonzero` has them (from NumPy, on every engine).

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.where([True, False, True], [1, 2, 3], 0)
    array([1, 0, 3])
    """
    if x is None and y is None:
        return np.nonzero(np.asarray(condition))
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    if _WHERE.is_small(condition, x, y):
        return np.where(condition, x, y)
    result = call(_WHERE, (condition, x, y))
    return np.asarray(result)


def write_clip(
    bounds: tuple[str, ...], builder: Builder, *arguments: Any, out: Any, dtype: Any, casting: str
) -> tuple[Value, ...]:
    """Add `clip` to a program; `bounds` names the functions that apply each limit."""
    common = dtype or _promoted(arguments)
    for argument in arguments:
        if isinstance(argument, Value) and not np.can_cast(argument.dtype, common, casting=casting):  # type: ignore[arg-type]
            raise TypeError(
                f"Cannot cast ufunc 'clip' input from {argument.dtype!r} to {common!r} "
                f"with casting rule '{casting}'"
            )
    value, *limits = (builder.cast(argument, common) for argument in arguments)
    for bound, limit in zip(bounds, limits, strict=True):
        (value,) = builder.call(bound, value, limit)
    return checked_output("clip", value, out, casting)


def _clip_function(*bounds: str) -> Function:
    def write(builder: Builder, *arguments: Any, **keywords: Any) -> tuple[Value, ...]:
        return write_clip(bounds, builder, *arguments, **keywords)

    return Function("clip", np.clip, write)


_CLIP = {
    (True, True): _clip_function("maximum", "minimum"),
    (True, False): _clip_function("maximum"),
    (False, True): _clip_function("minimum"),
}
_NOT_GIVEN: Any = object()


def clip(
    a: Any,
    a_min: Any = _NOT_GIVEN,
    a_max: Any = _NOT_GIVEN,
    out: Any = None,
    *,
    min: Any = _NOT_GIVEN,
    max: Any = _NOT_GIVEN,
    where: Any = True,
    casting: str = "same_kind",
    dtype: Any = None,
) -> Any:
    """Limit values to the range from `a_min` to `a_max`.

    Parameters
    ----------
    a : array_like
        The values.
    a_min, a_max : array_like or None
        The limits; None for no limit. `min` and `max` are other names for them.
    out, where, casting, dtype
        As for `add`.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.clip([1, 5, 9], 2, 6)
    array([2, 5, 6])
    """
    if (a_min is _NOT_GIVEN) != (a_max is _NOT_GIVEN):
        missing = "a_min" if a_min is _NOT_GIVEN else "a_max"
        raise TypeError(f"clip() missing 1 required positional argument: '{missing}'")
    if a_min is not _NOT_GIVEN and not (min is _NOT_GIVEN and max is _NOT_GIVEN):
        raise ValueError(
            "Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden."
        )
    low = next((v for v in (a_min, min) if v is not _NOT_GIVEN), None)
    high = next((v for v in (a_max, max) if v is not _NOT_GIVEN), None)
    if type(low) is int or type(high) is int:  # limits beyond those of an integer type limit nothing
        own = (a if isinstance(a, np.ndarray) else np.asarray(a)).dtype
        if own.kind in "iu":
            low = None if type(low) is int and low <= np.iinfo(own).min else low
            high = None if type(high) is int and high >= np.iinfo(own).max else high
    if low is None and high is None:
        return positive(a, out=out, where=where, casting=casting, dtype=dtype)
    limits = [limit for limit in (low, high) if limit is not None]
    keywords: dict[str, Any] = {"where": where, "casting": casting, "dtype": dtype, "out": out}

    def by_numpy(*arguments: Any) -> Any:
        bounds = iter(arguments[1:])
        least, most = (None if limit is None else next(bounds) for limit in (low, high))
        return np.clip(arguments[0], least, most, **keywords)

    function = _CLIP[low is not None, high is not None]
    plain = out is None and where is True and dtype is None and casting == "same_kind"
    if plain and function.is_small(a, *limits):
        return np.clip(a, low, high)
    return call(function, (a, *limits), out, where, dtype, casting, numpy_call=by_numpy)


def write_nan_to_num(builder: Builder, x: Value, *replacements: Scalar, **_: Any) -> tuple[Value, ...]:
    """Add `nan_to_num` to a program."""
    if x.dtype.kind != "f":
        return (x,)
    nan, highest, lowest = (builder.cast(replacement, x.dtype) for replacement in replacements)
    negative = builder.apply("signbit", x)
    (infinite,) = builder.call("isinf", x)
    finite = builder.select(infinite, builder.select(negative, lowest, highest), x)
    (is_nan,) = builder.call("isnan", x)
    return (builder.select(is_nan, nan, finite),)


_NAN_TO_NUM = Function("nan_to_num", np.nan_to_num, write_nan_to_num)


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Replace NaN and infinities by numbers.

    Parameters
    ----------
    x : array_like
        The values.
    copy : bool
        False replaces in `x` itself, which then must be an array.
    nan, posinf, neginf : float
        The replacements; by default 0, and the largest and least numbers of the type.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nan_to_num([1.5, float("nan")])
    array([1.5, 0. ])
    """
    if copy and _NAN_TO_NUM.is_small(x, 0.0, 0.0, 0.0):
        return np.nan_to_num(x, copy, nan, posinf, neginf)
    array = as_argument(x if isinstance(x, np.ndarray) else np.asarray(x))
    floating = isinstance(array, np.ndarray) and array.dtype.kind == "f"
    limits = np.finfo(array.dtype) if floating else np.finfo(FLOAT64)
    numbers = (nan, limits.max if posinf is None else posinf, limits.min if neginf is None else neginf)

    def by_numpy(*_: Any) -> Any:
        return np.nan_to_num(x, copy=copy, nan=nan, posinf=posinf, neginf=neginf)

    if any(np.ndim(number) for number in numbers):
        array = None  # arrays of replacements are NumPy's alone
    out = None
    if isinstance(x, np.ndarray) and (not copy or not x.dtype.isnative):
        out = np.empty_like(x) if copy else x  # NumPy's copy keeps the byte order
    result = call(
        _NAN_TO_NUM,
        (x if array is None else array, *(float(n) if np.ndim(n) == 0 else n for n in numbers)),
        out=out,
        numpy_call=by_numpy,
    )
    return result[()] if np.ndim(result) == 0 else result


def round_function(decimals: int) -> Function:
    """Return `round` to a number of decimals; its second argument is the power of ten."""

    def write(
        builder: Builder, x: Value, power: Value | Scalar, out: Any, casting: str, **_: Any
    ) -> tuple[Value, ...]:
        if decimals == 0 and x.dtype.kind in "fb":
            return builder.call("rint", x, out=out, casting=casting)
        if decimals >= 0 and x.dtype.kind in "iu":
            return checked_output("round", x, out, casting)
        before, after = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
        if x.dtype == BOOL:
            builder.call(before, x, power, out=(BOOL,))  # which NumPy refuses
        work = builder.cast(x, FLOAT64) if x.dtype.kind in "iub" else x
        (scaled,) = builder.call(before, work, power)
        (whole,) = builder.call("rint", scaled)
        (result,) = builder.call(after, whole, power)
        return checked_output(
            "round", result if x.dtype.kind == "f" else builder.cast(result, x.dtype), out, casting
        )

    # A negative number of decimals can take an integer out of its type, where NumPy's casts are not ours.
    return Function("round", np.round, write, numpy_agrees=decimals >= 0)


_ROUND: dict[int, Function] = {}


def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Round to a number of decimals, ties to even.

    Parameters
    ----------
    a : array_like
        The values.
    decimals : int
        How many decimals to keep; negative counts to the left of the point.
    out : ndarray, optional
        Where to put the result.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.round([0.125, 2.5, 17.625], 2)
    array([ 0.12,  2.5 , 17.62])
    """
    decimals = operator.index(decimals)
    function = _ROUND.setdefault(decimals, round_function(decimals))
    power = 10.0 ** builtins.abs(decimals)
    if out is None and function.is_small(a, power):
        return np.round(a, decimals)
    swapped = isinstance(a, np.ndarray) and a.ndim > 0 and not a.dtype.isnative
    if out is None and swapped and (decimals or a.dtype.kind in "iu"):
        out = np.empty_like(a)  # NumPy keeps the byte order here
    return call(function, (a, power), out, numpy_call=lambda *_: np.round(a, decimals, out=out))


def _astype_function(own: np.dtype[Any], wanted: np.dtype[Any]) -> Function:
    def write(builder: Builder, x: Value, **_: Any) -> tuple[Value, ...]:
        return (builder.cast(x, wanted.newbyteorder("=")),)

    agrees = not (own.kind == "f" and wanted.kind in "iu")  # where NumPy disagrees with itself
    return Function("astype", np.astype, write, numpy_agrees=agrees)


_ASTYPE: dict[tuple[np.dtype[Any], np.dtype[Any]], Function] = {}


def astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Any:
    """Convert to a type.

    Floats become integers by truncation; out of range they become the nearest integer that the type has,
    and NaN becomes 0, on every engine but ``"numpy"``.

    Parameters
    ----------
    x : array_like
        The values.
    dtype : dtype
        The type.
    copy : bool
        False returns `x` itself if it has that type already.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> pk.astype(np.array([1.7, -1.7, 300.0]), np.int8)
    array([  1,  -1, 127], dtype=int8)
    """
    wanted = np.dtype(dtype)
    array = x if isinstance(x, np.ndarray) else np.asarray(x)
    known = _ASTYPE.get((array.dtype, wanted))
    if known is not None and copy and known.is_small(x):
        return array.astype(wanted)
    if not copy and array.dtype == wanted:
        return array
    if code_of(wanted) is None:
        function = Function("astype", np.astype)
        return call(function, (array,), dtype=wanted, numpy_call=lambda _: array.astype(wanted))
    function = _ASTYPE.setdefault((array.dtype, wanted), _astype_function(array.dtype, wanted))
    out = None if wanted.isnative else np.empty(array.shape, wanted)
    result = call(function, (array,), out, numpy_call=lambda _: array.astype(wanted))
    return result if isinstance(x, np.generic) else np.asarray(result)
