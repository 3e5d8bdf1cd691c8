"""Docstrings of ufuncs, from a template."""

from __future__ import annotations

_DOCSTRING = """{summary}

    Parameters
    ----------
    {parameters} : array_like
        {description}
    out : ndarray, optional
        Where to put the result.
    where : array_like of bool, optional
        Where it is False, `out` keeps its value; in a new array such elements are uninitialized.
    casting, order, dtype, subok, signature
        As for `numpy.{name}`, which defines the result.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.{name} : NumPy's function.
    {related}
{differs}
    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.{name}({example})
    {shown}
    """


_DIFFERS = """
    Differs from NumPy
    ------------------
    {}
"""
_WITHIN_ULPS = (
    "exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 sin cos tan arcsin asin arccos acos arctan "
    "atan arctan2 atan2 sinh cosh tanh arcsinh asinh arccosh acosh arctanh atanh power pow float_power hypot "
    "cbrt"
)
_OF_ZEROS = "maximum minimum fmax fmin"
_DIFFERENCES = {
    **dict.fromkeys(
        _WITHIN_ULPS.split(), "Results are within 4 units in the last place; their last bits can differ."
    ),
    **dict.fromkeys(_OF_ZEROS.split(), "Between zeros of both signs, either may be the result."),
}
_RELATED = (
    "add subtract multiply divide",
    "divide true_divide floor_divide reciprocal",
    "floor_divide remainder mod fmod divmod",
    "negative positive absolute sign",
    "absolute abs fabs sign copysign",
    "square sqrt cbrt power",
    "power float_power square exp",
    "gcd lcm",
    "exp exp2 expm1 log",
    "log log2 log10 log1p exp",
    "logaddexp logaddexp2 log exp",
    "sin cos tan arcsin",
    "arcsin arccos arctan sin",
    "arctan arctan2 tan",
    "hypot sqrt arctan2",
    "sinh cosh tanh arcsinh",
    "arcsinh arccosh arctanh sinh",
    "deg2rad rad2deg radians degrees",
    "floor ceil trunc rint round",
    "equal not_equal isclose array_equal",
    "less less_equal greater greater_equal equal",
    "maximum minimum fmax fmin max min",
    "logical_and logical_or logical_xor logical_not",
    "bitwise_and bitwise_or bitwise_xor invert",
    "invert bitwise_and logical_not",
    "left_shift right_shift ldexp",
    "isnan isinf isfinite signbit",
    "signbit copysign sign",
    "copysign nextafter ldexp frexp",
    "heaviside sign where",
)


def docstring(name: str, parameters: str, description: str, texts: tuple[str, str, str]) -> str:
    """Return the docstring of a ufunc; `texts` are its summary, and an example's arguments and result."""
    summary, example, shown = texts
    groups = [group.split() for group in _RELATED if name in group.split()]
    related = next((group for group in groups if group[0] == name), groups[0])
    return _DOCSTRING.format(
        name=name,
        summary=summary,
        parameters=parameters,
        description=description,
        related=", ".join(other for other in related if other != name),
        differs=_DIFFERS.format(_DIFFERENCES[name]) if name in _DIFFERENCES else "",
        example=example,
        shown=shown,
    )
