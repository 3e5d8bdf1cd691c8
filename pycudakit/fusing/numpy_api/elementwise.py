"""NumPy's elementwise functions that are no ufuncs, and `outer` of those that are, in a fused function."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._families.elementwise import manipulation, non_ufuncs, two_output_ufuncs
from pycudakit._families.expression import comparisons
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.numpy_api.library_calls import FAMILIES, at_once, has_elements, kit_function
from pycudakit.fusing.trace.out_argument import takes
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.trace.views_and_creation import Handler, captures, numbers

ELEMENTWISE: dict[Any, Handler] = {}
_captures = functools.partial(captures, ELEMENTWISE)


def _outer(ufunc: Any, recording: Recording, a: Any, b: Any, **keywords: Any) -> Any:
    a, b = recording.taken(a), recording.taken(b)
    beside = (..., *(None,) * b.ndim)
    return recording.ufunc(ufunc, "__call__", (a[beside], b), keywords)


for _of_two in {value for value in vars(np).values() if type(value) is np.ufunc and value.nin == 2}:
    if _of_two.signature is None:
        ELEMENTWISE[_of_two, "outer"] = functools.partial(_outer, _of_two)


def _elsewhere(recording: Recording, function: Any, *arguments: Any, **keywords: Any) -> Any:
    """Call the kit's function with arrays, for what is not worth more."""
    return recording.on_host(function, arguments, keywords, may_write="out" in keywords)


def pair(recording: Recording, function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Write a function of two results down, as one for each."""
    arguments, given = arguments[: function.nin], arguments[function.nin :]
    outs = (*given, None)[:2] if given else keywords.get("out") or (None, None)
    rest = {key: value for key, value in keywords.items() if key != "out"}
    if not (rest.keys() <= {"dtype"} and len(arguments) == function.nin and len(given) < 3):
        return at_once(recording, function, (*arguments, *given), keywords)
    results = [
        recording.apply(part, arguments, **rest) for part in two_output_ufuncs.PARTS[function.__name__]
    ]
    wanted = [(out, result) for out, result in zip(outs, results, strict=True) if out is not None]
    if not all(takes(out, result) for out, result in wanted):
        return at_once(recording, function, (*arguments, *given), keywords)
    for out, result in wanted:
        recording.set(out, ..., result)
    return tuple(result if out is None else out for out, result in zip(outs, results, strict=True))


def _pair(function: Any) -> Handler:
    return lambda recording, *arguments, **keywords: pair(recording, function, arguments, keywords)


for _function in (two_output_ufuncs.divmod, two_output_ufuncs.frexp, two_output_ufuncs.modf):
    ELEMENTWISE[getattr(np, _function.__name__)] = _pair(_function)


@_captures(np.outer)
def _outer_product(recording: Recording, a: Any, b: Any, out: Any = None) -> Any:
    if type(a) is not StandIn or type(b) is not StandIn or out is not None:
        named = {} if out is None else {"out": out}
        return at_once(recording, kit_function(f"{FAMILIES}.matmul.tensor_products", "outer"), (a, b), named)
    return _outer(np.multiply, recording, np.ravel(a), np.ravel(b))


def _triangle(name: str) -> Handler:
    def handle(recording: Recording, m: Any, k: Any = 0) -> Any:
        array = m.node.array if type(m) is StandIn else None
        if type(m) is not StandIn or m.ndim < 2 or not (array is None or array.flags.c_contiguous):
            return at_once(recording, getattr(manipulation, name), (m, k), {})
        rows, columns = m.shape[-2:]
        by = recording.resolved(k)
        if np.asarray(by).dtype.kind not in "biu" or np.ndim(by):
            return at_once(recording, getattr(manipulation, name), (m, by), {})
        by = int(by)
        number = numbers(recording, max(rows, columns))
        row = manipulation.rows_of_triangle(number[:rows], columns, by)
        return recording.apply(_triangle_from(name, by), (m, row, number[:columns]))

    return handle


@functools.lru_cache(256)
def _triangle_from(name: str, k: int) -> Any:
    """Return the function with NumPy's own for a matrix and what tells its rows and columns."""
    function = manipulation.TRIANGLES[name]
    return type(function)(name, lambda m, *_, **__: getattr(np, name)(m, k), function.write)


for _name in ("tril", "triu"):
    ELEMENTWISE[getattr(np, _name)] = _triangle(_name)


@_captures(np.conjugate)
def _conjugate(_: Recording, x: Any, **keywords: Any) -> Any:
    if keywords or type(x) is not StandIn:
        raise errors.Unsupported("conjugate")
    return x.astype(np.int8) if x.dtype == np.bool_ else x.copy("K")


@_captures(np.sinc)
def _sinc(recording: Recording, x: Any) -> Any:
    return recording.apply(non_ufuncs.SINC, (x,))


@_captures(np.clip)
def _clip(
    recording: Recording,
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    **keywords: Any,
) -> Any:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    limits = [limit for limit in (low, high) if limit is not None]
    own = a.dtype if hasattr(a, "dtype") else np.asarray(a).dtype
    beyond = own.kind in "iu" and any(type(limit) is int and not _holds(own, limit) for limit in limits)
    if keywords or beyond or not limits or (out is not None and type(out) is not StandIn):
        named = {"out": out} if out is not None else {}
        return _elsewhere(recording, non_ufuncs.clip, a, low, high, **named, **keywords)
    function = non_ufuncs.CLIP[low is not None, high is not None]
    return recording.apply(_by_limits(function, low is None), (a, *limits), out=out)


def _holds(dtype: Any, limit: int) -> bool:
    return bool(np.iinfo(dtype).min <= limit <= np.iinfo(dtype).max)


@functools.cache
def _by_limits(function: Any, only_high: bool) -> Any:
    """Return the function with NumPy's own for arrays and the limits that it has."""

    def clip(a: Any, *limits: Any, **keywords: Any) -> Any:
        low, high = (None, *limits) if only_high else (*limits, None)[:2]
        return np.clip(a, low, high, **keywords)

    return type(function)("clip", clip, function.write)


@_captures(np.round, np.around)
def _round(recording: Recording, a: Any, decimals: Any = 0, out: Any = None) -> Any:
    if out is not None:
        return _elsewhere(recording, non_ufuncs.round, a, decimals, out=out)
    decimals = operator.index(decimals)
    return recording.apply(_rounding(decimals), (a, non_ufuncs.power_of_ten(abs(decimals))))


@functools.cache
def _rounding(decimals: int) -> Any:
    function = non_ufuncs.round_function(decimals)
    return type(function)("round", lambda a, _, **keywords: np.round(a, decimals, **keywords), function.write)


@_captures(np.isclose)
def _isclose(
    recording: Recording, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False
) -> Any:
    function = comparisons.CLOSE[bool(equal_nan)]
    with np.errstate(invalid="ignore"):
        return recording.apply(function, (*comparisons.as_compared(a, b), rtol, atol))


@_captures(np.nan_to_num)
def _nan_to_num(
    recording: Recording, x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    if has_elements(x) and x.dtype.kind in "biu" and copy:
        return recording.call(np.copy, (x,), {})
    if (
        type(x) is not StandIn
        or x.dtype.kind != "f"
        or not all(n is None or type(n) in (int, float) for n in (nan, posinf, neginf))
    ):
        return recording.on_host(
            non_ufuncs.nan_to_num, (x, copy), {"nan": nan, "posinf": posinf, "neginf": neginf}, not copy
        )
    limits = np.finfo(x.dtype)
    highest = float(limits.max) if posinf is None else float(posinf)
    lowest = float(limits.min) if neginf is None else float(neginf)
    numbers = (float(nan), highest, lowest)
    return recording.apply(_NAN_TO_NUM, (x, *numbers), out=None if copy else x)


_NAN_TO_NUM = type(non_ufuncs.NAN_TO_NUM)(
    "nan_to_num",
    lambda x, nan, high, low, **_: np.nan_to_num(x, nan=nan, posinf=high, neginf=low),
    non_ufuncs.write_nan_to_num,
)


# ---- What is one of the others for numbers that are real ------------------------------------------------


@_captures(np.fix)
def _fix(_: Recording, x: Any, out: Any = None) -> Any:
    return np.trunc(x) if out is None else np.trunc(x, out=out)


def _infinite(is_negative: bool) -> Handler:
    def handle(_: Recording, x: Any, out: Any = None) -> Any:
        signs = np.signbit(x) if is_negative else np.logical_not(np.signbit(x))
        given = {} if out is None else {"out": out}
        return np.logical_and(np.isinf(x), signs, **given)

    return handle


ELEMENTWISE[np.isneginf], ELEMENTWISE[np.isposinf] = _infinite(True), _infinite(False)


@_captures(np.angle)
def _angle(_: Recording, z: Any, deg: Any = False) -> Any:
    angles = np.arctan2(0, z)
    if deg:
        angles *= 180 / np.pi
    return angles


@_captures(np.real_if_close)
def _real_if_close(_: Recording, a: Any, tol: Any = 100) -> Any:
    del tol
    return a
