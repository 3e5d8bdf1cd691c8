"""NumPy's elementwise functions that are not ufuncs: `where`, `clip`, `round`, `astype` and others."""

from __future__ import annotations

import builtins
import functools
import math
import operator
from typing import Any

import numpy as np

from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.element_function import ElementFunction, checked_output
from pycudakit._element_programs.ufunc_lowering import write_ufunc
from pycudakit._element_programs.values import Value, WeakScalar
from pycudakit._families.elementwise.fast_path import call
from pycudakit._families.elementwise.ufuncs import positive
from pycudakit._interop.dispatch import accept_foreign_arrays
from pycudakit._native import allocator
from pycudakit._native.dtypes import BOOL, FLOAT64, INT32, code_of
from pycudakit._runtime import native_call
from pycudakit._runtime.public_function import public_function
from pycudakit._runtime.ufunc_arguments import as_argument, broadcasts_to, refuse_byte_order


class _NotGiven:
    """The type of the default that marks an argument as not passed."""

    def __repr__(self) -> str:
        return "<no value>"


_NOT_GIVEN: Any = _NotGiven()


def _promoted(arguments: tuple[Value | WeakScalar, ...]) -> np.dtype[Any]:
    return np.result_type(*(a.type(1) if isinstance(a, WeakScalar) else a.dtype for a in arguments))


def write_where(builder: Builder, condition: Any, *branches: Any, **_: Any) -> tuple[Value, ...]:
    """Add `where` to a program."""
    dtype = _promoted(branches)
    yes, no = (builder.cast(branch, dtype) for branch in branches)
    mask = builder.cast(condition, BOOL)
    with builder.naming("where"):
        return (builder.select(mask, yes, no),)


WHERE = ElementFunction("where", np.where, write_where)


@accept_foreign_arrays
@public_function(numpy=np.where)
def where(condition: Any, x: Any = _NOT_GIVEN, y: Any = _NOT_GIVEN, /) -> Any:
    """Return elements chosen from `x` or `y` depending on `condition`.

    Parameters
    ----------
    condition : array_like
        Where it is nonzero, `x` is chosen, elsewhere `y`.
    x, y : array_like, optional
        The values to choose from; all three are broadcast together. Without them, the indices where the
        condition is nonzero are returned, as by `numpy.nonzero` (computed by NumPy on every engine).

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.where : NumPy's function.
    nonzero, clip

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.where([True, False, True], [1, 2, 3], 0)
    array([1, 0, 3])
    """
    if x is _NOT_GIVEN and y is _NOT_GIVEN:
        return np.nonzero(np.asarray(condition))
    if x is _NOT_GIVEN or y is _NOT_GIVEN:
        raise ValueError("either both or neither of x and y should be given")
    if WHERE.is_small(condition, x, y):
        return np.where(condition, x, y)
    result = call(WHERE, (condition, weak_integer(x, y), weak_integer(y, x)))
    return np.asarray(result)


def weak_integer(number: Any, other: Any) -> Any:
    """Convert an integer as NumPy does for another operand of a narrower type: modulo, or since 2.5 not."""
    if (
        type(number) is not int
        or not isinstance(other, (np.ndarray, np.generic))
        or other.dtype.kind not in "iu"
    ):
        return number
    limits = np.iinfo(other.dtype)
    if limits.min <= number <= limits.max or not -(2**63) <= number < 2**64:
        return number
    return np.where(True, number, other.dtype.type(0))[()]


def write_clip(
    bounds: tuple[str, ...], builder: Builder, *arguments: Any, out: Any, dtype: Any, casting: str
) -> tuple[Value, ...]:
    """Add `clip` to a program; `bounds` names the functions that apply each limit."""
    refuse_byte_order(dtype)
    common = dtype or _promoted(arguments)
    for argument in arguments:
        if isinstance(argument, Value) and not np.can_cast(argument.dtype, common, casting=casting):  # type: ignore[arg-type]
            raise TypeError(
                f"Cannot cast ufunc 'clip' input from {argument.dtype!r} to {common!r} "
                f"with casting rule '{casting}'"
            )
    value, *limits = (builder.cast(argument, common) for argument in arguments)
    with builder.naming("clip", whole=True):
        for bound, limit in zip(bounds, limits, strict=True):
            (value,) = write_ufunc(builder, bound, value, limit)
    return checked_output("clip", value, out, casting)


def _clip_function(*bounds: str) -> ElementFunction:
    def write(builder: Builder, *arguments: Any, **keywords: Any) -> tuple[Value, ...]:
        return write_clip(bounds, builder, *arguments, **keywords)

    return ElementFunction("clip", np.clip, write)


CLIP = {
    (True, True): _clip_function("maximum", "minimum"),
    (True, False): _clip_function("maximum"),
    (False, True): _clip_function("minimum"),
}


@accept_foreign_arrays
@public_function(  # earlier versions require both limits
    numpy=np.clip if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else None
)
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
    """Clip (limit) the values in an array to the range from `a_min` to `a_max`.

    Parameters
    ----------
    a : array_like
        The values.
    a_min, a_max : array_like or None
        The limits; None for no limit.
    min, max : array_like or None
        Other names of `a_min` and `a_max`.
    out, where, casting, dtype
        As for `add`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.clip : NumPy's function.
    maximum, minimum

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
    if out is ...:
        return np.asarray(clip(a, a_min, a_max, min=min, max=max, where=where, casting=casting, dtype=dtype))
    low = next((v for v in (a_min, min) if v is not _NOT_GIVEN), None)
    high = next((v for v in (a_max, max) if v is not _NOT_GIVEN), None)
    if type(low) is int or type(high) is int:  # limits out of an integer type's range limit nothing
        own_dtype = (a if isinstance(a, np.ndarray) else np.asarray(a)).dtype
        if own_dtype.kind in "iu":
            low = None if type(low) is int and low <= np.iinfo(own_dtype).min else low
            high = None if type(high) is int and high >= np.iinfo(own_dtype).max else high
    if low is None and high is None:
        return positive(a, out=out, where=where, casting=casting, dtype=dtype)
    if type(a) in (bool, float, int):
        a = np.asarray(a)
    limits = [limit for limit in (low, high) if limit is not None]
    keywords: dict[str, Any] = {"where": where, "casting": casting, "dtype": dtype, "out": out}

    def by_numpy(*arguments: Any) -> Any:
        bounds = iter(arguments[1:])
        least, most = (None if limit is None else next(bounds) for limit in (low, high))
        return np.clip(arguments[0], least, most, **keywords)

    function = CLIP[low is not None, high is not None]
    plain = out is None and where is True and dtype is None and casting == "same_kind"
    if plain and function.is_small(a, *limits):
        return np.clip(a, low, high)
    return call(function, (a, *limits), out, where, dtype, casting, numpy_call=by_numpy)


def write_nan_to_num(builder: Builder, x: Value, *replacements: WeakScalar, **_: Any) -> tuple[Value, ...]:
    """Add `nan_to_num` to a program."""
    if x.dtype.kind != "f":
        return (x,)
    nan, highest, lowest = (builder.cast(replacement, x.dtype) for replacement in replacements)
    negative = builder.apply("signbit", x)
    (infinite,) = write_ufunc(builder, "isinf", x)
    finite = builder.select(infinite, builder.select(negative, lowest, highest), x)
    (is_nan,) = write_ufunc(builder, "isnan", x)
    return (builder.select(is_nan, nan, finite),)


_REAL = (int, float, np.integer, np.floating, np.bool_)

NAN_TO_NUM = ElementFunction("nan_to_num", np.nan_to_num, write_nan_to_num)


@accept_foreign_arrays
@public_function(numpy=np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Replace NaN by zero, and infinities by large finite numbers or by the given ones.

    Parameters
    ----------
    x : array_like
        The values.
    copy : bool
        False replaces in `x` itself, which then must be an array.
    nan, posinf, neginf : float
        The replacements; by default 0, and the largest and least numbers of the type.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.nan_to_num : NumPy's function.
    isnan, isinf

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.nan_to_num([1.5, float("nan")])
    array([1.5, 0. ])
    """
    if not copy and not isinstance(x, np.ndarray):
        return np.nan_to_num(x, copy=False)  # raises: there is no array to write to
    if copy and NAN_TO_NUM.is_small(x, 0.0, 0.0, 0.0):
        return np.nan_to_num(x, copy, nan, posinf, neginf)
    array = as_argument(x if isinstance(x, np.ndarray) else np.asarray(x))
    floating = isinstance(array, np.ndarray) and array.dtype.kind == "f"
    limits = np.finfo(array.dtype) if floating else np.finfo(FLOAT64)
    if isinstance(array, np.ndarray) and not floating:
        nan = posinf = neginf = 0.0  # NumPy ignores them for integers
        if not copy:
            native_call.log_empty_call("nan_to_num")
            return x[()] if x.ndim == 0 else x
    numbers = (nan, limits.max if posinf is None else posinf, limits.min if neginf is None else neginf)

    def by_numpy(*_: Any) -> Any:
        return np.nan_to_num(x, copy=copy, nan=nan, posinf=posinf, neginf=neginf)

    if not all(broadcasts_to(np.shape(number), np.shape(x)) for number in numbers):
        return by_numpy()  # which raises
    out = None
    if isinstance(x, np.ndarray) and (not copy or not x.dtype.isnative):
        out = np.empty_like(x) if copy else x  # NumPy's copy keeps the byte order
    result = call(
        NAN_TO_NUM,
        (x if array is None else array, *(float(n) if isinstance(n, _REAL) else n for n in numbers)),
        out=out,
        numpy_call=by_numpy,
    )
    return result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result


def power_of_ten(exponent: int) -> float:
    """Return a power of ten as NumPy's `round` computes it: by repeated multiplication, at last infinite."""
    return math.prod([10.0] * min(exponent, 309), start=1.0)


@functools.lru_cache(1024)
def round_function(decimals: int) -> ElementFunction:
    """Return `round` to a number of decimals; its second argument is the power of ten."""

    def write(
        builder: Builder, x: Value, power: Value | WeakScalar, out: Any, casting: str, **_: Any
    ) -> tuple[Value, ...]:
        if decimals == 0 and x.dtype.kind in "fb":
            return write_ufunc(builder, "rint", x, out=out, casting=casting)
        if decimals >= 0 and x.dtype.kind in "iu":
            if out[0] is not None and not np.can_cast(x.dtype, out[0], "same_kind"):
                raise TypeError(
                    f"Cannot cast array data from {x.dtype!r} to {out[0]!r} according to the rule 'same_kind'"
                )
            return (x,)
        before, after = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
        steps = out if out[0] is not None or x.dtype.kind == "f" else (BOOL if x.dtype == BOOL else FLOAT64,)
        (scaled,) = write_ufunc(builder, before, x, power, out=steps, casting=casting)
        if out[0] is not None:  # NumPy writes each step to it
            scaled = builder.cast(scaled, out[0])
        (rounded,) = write_ufunc(builder, "rint", scaled)
        (result,) = write_ufunc(builder, after, rounded, power)
        if out[0] is not None or x.dtype.kind == "f":
            return (result,)
        if x.dtype.itemsize <= 2:
            result = builder.cast(result, INT32)  # short integers wrap, as NumPy's do
        return (builder.cast(result, x.dtype),)

    return ElementFunction("round", np.round, write)


@accept_foreign_arrays
@public_function(numpy=np.round)
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Evenly round to the given number of decimals: ties go to the even digit.

    Parameters
    ----------
    a : array_like
        The values.
    decimals : int
        The number of decimals to keep; negative numbers count to the left of the point.
    out : ndarray, optional
        Where to put the result.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.round : NumPy's function.
    rint, floor, ceil

    Differs from NumPy
    ------------------
    Integers of 32 and 64 bits saturate, for negative `decimals`.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.round([0.125, 2.5, 17.625], 2)
    array([ 0.12,  2.5 , 17.62])
    """
    decimals = operator.index(decimals)
    function = round_function(decimals)
    power = power_of_ten(builtins.abs(decimals))
    if out is None and function.is_small(a, power):
        return np.round(a, decimals)
    if out is not None and not isinstance(out, np.ndarray):
        raise TypeError("output must be an array")
    if out is not None and out.shape != np.shape(a):
        if np.ndim(a) or out.size != 1:
            return np.round(a, decimals, out=out)  # raises
        a = np.reshape(a, out.shape)  # NumPy writes a number to an array of one element
    result = call(function, (a, power), out, numpy_call=lambda *_: np.round(a, decimals, out=out))
    if out is None and isinstance(a, np.ndarray) and a.ndim and (decimals or a.dtype.kind in "iu"):
        return result.astype(a.dtype, copy=False)  # NumPy keeps the byte order here
    # For a NumPy scalar the result is a scalar, even with `out`.
    return result[()] if out is not None and out.ndim == 0 and isinstance(a, np.generic) else result


around = round


def _write_sinc(builder: Builder, x: Value, **_: Any) -> tuple[Value, ...]:
    (angle,) = write_ufunc(builder, "multiply", WeakScalar(float, None, np.pi), x)
    least = builder.constant(np.finfo(angle.dtype).eps, angle.dtype)
    divisor = builder.select(builder.cast(angle, BOOL), angle, least)
    (sine,) = write_ufunc(builder, "sin", divisor)
    return write_ufunc(builder, "divide", sine, divisor)


SINC = ElementFunction("sinc", np.sinc, _write_sinc)


@accept_foreign_arrays
@public_function(numpy=np.sinc)
def sinc(x: Any) -> Any:
    """Return the normalized sinc function, ``sin(pi * x) / (pi * x)``, which is 1 at 0.

    Parameters
    ----------
    x : array_like
        The argument.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.sinc : NumPy's function.
    sin

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.sinc([0.0, 0.5])
    array([1.        , 0.63661977])
    """
    return np.sinc(x) if SINC.is_small(x) else call(SINC, (x,))


@functools.cache
def astype_function(target_dtype: np.dtype[Any]) -> ElementFunction:
    def write(builder: Builder, x: Value, **_: Any) -> tuple[Value, ...]:
        return (builder.cast(x, target_dtype.newbyteorder("=")),)

    return ElementFunction("astype", np.astype, write)


def _numpy_astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:  # noqa: ARG001
    return (x if isinstance(x, (np.ndarray, np.generic)) else np.asarray(x)).astype(dtype, copy=copy)


@accept_foreign_arrays
@public_function(numpy=_numpy_astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """Copy an array to a specified data type.

    Floats become integers by truncation.

    Parameters
    ----------
    x : array_like
        The values.
    dtype : dtype
        The type.
    copy : bool
        False returns `x` itself if it has that type already.
    device : {None, "cpu"}
        As for `numpy.astype`.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.astype : NumPy's function.
    clip

    Differs from NumPy
    ------------------
    A float that is out of an integer type's range becomes its nearest value, and NaN becomes 0; NumPy's
    results depend on the machine.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> with np.errstate(invalid="ignore"):
    ...     pk.astype(np.array([1.7, -1.7, 300.0]), np.int8)
    array([  1,  -1, 127], dtype=int8)
    """
    target_dtype = np.dtype(dtype)
    array = x if isinstance(x, np.ndarray) else np.asarray(x)
    if device not in (None, "cpu"):
        return np.astype(array, target_dtype, device=device)  # raises
    if not copy and array.dtype == target_dtype:
        return array
    if code_of(target_dtype) is None:
        function = ElementFunction("astype", np.astype)
        return call(function, (array,), dtype=target_dtype, numpy_call=lambda _: array.astype(target_dtype))
    function = astype_function(target_dtype)
    if function.is_small(x):
        return array.astype(target_dtype)
    out = None if target_dtype.isnative else allocator.empty(array.shape, target_dtype)
    original = x if isinstance(x, np.generic) else array  # its astype keeps scalars and subclasses
    result = call(function, (array,), out, numpy_call=lambda _: original.astype(target_dtype))
    return result if isinstance(x, np.generic) or isinstance(result, np.ndarray) else np.asarray(result)
