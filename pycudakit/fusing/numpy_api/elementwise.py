"""Handlers for elementwise NumPy functions other than ufuncs, and for `ufunc.outer`, in a fused function."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._families.elementwise import manipulation, non_ufuncs, two_output_ufuncs
from pycudakit._families.expression import comparisons
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.numpy_api.library_calls import (
    FAMILIES,
    call_with_arrays,
    has_elements,
    library_function,
)
from pycudakit.fusing.trace.out_argument import accepts_result
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import (
    Handler,
    implements,
    in_order_of_copy,
    layout_stub,
    numbers,
    set_order,
)

ELEMENTWISE: dict[Any, Handler] = {}
_implements = functools.partial(implements, ELEMENTWISE)


def _outer(ufunc: Any, trace: Trace, a: Any, b: Any, **keywords: Any) -> Any:
    a, b = trace.lift(a), trace.lift(b)
    index = (..., *(None,) * b.ndim)
    return trace.ufunc(ufunc, "__call__", (a[index], b), keywords)


for _of_two in {value for value in vars(np).values() if type(value) is np.ufunc and value.nin == 2}:
    if _of_two.signature is None:
        ELEMENTWISE[_of_two, "outer"] = functools.partial(_outer, _of_two)


def _call_on_host(trace: Trace, function: Any, *arguments: Any, **keywords: Any) -> Any:
    """Call a pycudakit function on host arrays: for rare cases that are not worth fusing."""
    return trace.on_host(function, arguments, keywords, may_write="out" in keywords)


def pair(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Record a function of two results, such as `divmod`, as two nodes."""
    arguments, positional_outs = arguments[: function.nin], arguments[function.nin :]
    outs = (*positional_outs, None)[:2] if positional_outs else keywords.get("out") or (None, None)
    rest = {key: value for key, value in keywords.items() if key != "out"}
    if not (rest.keys() <= {"dtype"} and len(arguments) == function.nin and len(positional_outs) < 3):
        return call_with_arrays(trace, function, (*arguments, *positional_outs), keywords)
    results = [trace.apply(part, arguments, **rest) for part in two_output_ufuncs.PARTS[function.__name__]]
    requested = [(out, result) for out, result in zip(outs, results, strict=True) if out is not None]
    if not all(accepts_result(out, result) for out, result in requested):
        return call_with_arrays(trace, function, (*arguments, *positional_outs), keywords)
    for out, result in requested:
        trace.set(out, ..., result)
    return tuple(result if out is None else out for out, result in zip(outs, results, strict=True))


def _pair(function: Any) -> Handler:
    return lambda trace, *arguments, **keywords: pair(trace, function, arguments, keywords)


for _function in (two_output_ufuncs.divmod, two_output_ufuncs.frexp, two_output_ufuncs.modf):
    ELEMENTWISE[getattr(np, _function.__name__)] = _pair(_function)


@_implements(np.outer)
def _outer_product(trace: Trace, a: Any, b: Any, out: Any = None) -> Any:
    if type(a) is not Tracer or type(b) is not Tracer or out is not None:
        out_keyword = {} if out is None else {"out": out}
        return call_with_arrays(
            trace, library_function(f"{FAMILIES}.matmul.tensor_products", "outer"), (a, b), out_keyword
        )
    return _outer(np.multiply, trace, np.ravel(a), np.ravel(b))


def _triangle(name: str) -> Handler:
    def handle(trace: Trace, m: Any, k: Any = 0) -> Any:
        array = m.node.array if type(m) is Tracer else None
        if type(m) is not Tracer or m.ndim < 2 or not (array is None or array.flags.c_contiguous):
            return call_with_arrays(trace, getattr(manipulation, name), (m, k), {})
        rows, columns = m.shape[-2:]
        diagonal = trace.resolved(k)
        if np.asarray(diagonal).dtype.kind not in "biu" or np.ndim(diagonal):
            return call_with_arrays(trace, getattr(manipulation, name), (m, diagonal), {})
        diagonal = int(diagonal)
        number = numbers(trace, max(rows, columns))
        row = manipulation.triangle_limits(number[:rows], columns, diagonal)
        return trace.apply(_triangle_from(name, diagonal), (m, row, number[:columns]))

    return handle


@functools.lru_cache(256)
def _triangle_from(name: str, k: int) -> Any:
    """Return the elementwise function, whose NumPy fallback takes the matrix and ignores the row operands."""
    function = manipulation.TRIANGLES[name]
    return type(function)(name, lambda m, *_, **__: getattr(np, name)(m, k), function.write)


for _name in ("tril", "triu"):
    ELEMENTWISE[getattr(np, _name)] = _triangle(_name)


@_implements(np.conjugate)
def _conjugate(_: Trace, x: Any, **keywords: Any) -> Any:
    if keywords or type(x) is not Tracer:
        raise errors.Unsupported("conjugate")
    return x.astype(np.int8) if x.dtype == np.bool_ else x.copy("K")


@_implements(np.sinc)
def _sinc(trace: Trace, x: Any) -> Any:
    return trace.apply(non_ufuncs.SINC, (x,))


@_implements(np.clip)
def _clip(
    trace: Trace,
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
    dtype = a.dtype if hasattr(a, "dtype") else np.asarray(a).dtype
    exceeds_dtype = dtype.kind in "iu" and any(
        type(limit) is int and not _holds(dtype, limit) for limit in limits
    )
    if keywords or exceeds_dtype or not limits or (out is not None and type(out) is not Tracer):
        out_keyword = {"out": out} if out is not None else {}
        return _call_on_host(trace, non_ufuncs.clip, a, low, high, **out_keyword, **keywords)
    function = non_ufuncs.CLIP[low is not None, high is not None]
    return trace.apply(_by_limits(function, low is None), (a, *limits), out=out)


def _holds(dtype: Any, limit: int) -> bool:
    return bool(np.iinfo(dtype).min <= limit <= np.iinfo(dtype).max)


@functools.cache
def _by_limits(function: Any, only_high: bool) -> Any:
    """Return the elementwise function, whose NumPy fallback takes the array and the limits that are set."""

    def clip(a: Any, *limits: Any, **keywords: Any) -> Any:
        low, high = (None, *limits) if only_high else (*limits, None)[:2]
        return np.clip(a, low, high, **keywords)

    return type(function)("clip", clip, function.write)


@_implements(np.round, np.around)
def _round(trace: Trace, a: Any, decimals: Any = 0, out: Any = None) -> Any:
    if out is not None:
        return _call_on_host(trace, non_ufuncs.round, a, decimals, out=out)
    decimals = operator.index(decimals)
    result = trace.apply(_rounding(decimals), (a, non_ufuncs.power_of_ten(abs(decimals))))
    if decimals and type(a) is type(result) is Tracer and a.ndim > 1 and a.dtype.kind == "f":
        stub = layout_stub(a)
        if not stub.flags.f_contiguous:  # NumPy's result is in C order then
            set_order(result, np.empty(a.shape, np.uint8))
    return result


@functools.cache
def _rounding(decimals: int) -> Any:
    function = non_ufuncs.round_function(decimals)
    return type(function)("round", lambda a, _, **keywords: np.round(a, decimals, **keywords), function.write)


@_implements(np.isclose)
def _isclose(trace: Trace, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> Any:
    function = comparisons.CLOSE[bool(equal_nan)]
    with np.errstate(invalid="ignore"):
        return trace.apply(function, (*comparisons.close_operands(a, b), rtol, atol))


@_implements(np.nan_to_num)
def _nan_to_num(
    trace: Trace, x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    if has_elements(x) and x.dtype.kind in "biu" and copy:
        return trace.call(np.copy, (x,), {})
    if (
        type(x) is not Tracer
        or x.dtype.kind != "f"
        or not all(n is None or type(n) in (int, float) for n in (nan, posinf, neginf))
    ):
        return trace.on_host(
            non_ufuncs.nan_to_num, (x, copy), {"nan": nan, "posinf": posinf, "neginf": neginf}, not copy
        )
    limits = np.finfo(x.dtype)
    highest = float(limits.max) if posinf is None else float(posinf)
    lowest = float(limits.min) if neginf is None else float(neginf)
    numbers = (float(nan), highest, lowest)
    result = trace.apply(_NAN_TO_NUM, (x, *numbers), out=None if copy else x)
    return in_order_of_copy(trace, result, x) if copy else result


_NAN_TO_NUM = type(non_ufuncs.NAN_TO_NUM)(
    "nan_to_num",
    lambda x, nan, high, low, **_: np.nan_to_num(x, nan=nan, posinf=high, neginf=low),
    non_ufuncs.write_nan_to_num,
)


# ---- Functions that reduce to others for real numbers -----------------------------------------------------


@_implements(np.fix)
def _fix(_: Trace, x: Any, out: Any = None) -> Any:
    return np.trunc(x) if out is None else np.trunc(x, out=out)


def _infinite(is_negative: bool) -> Handler:
    def handle(_: Trace, x: Any, out: Any = None) -> Any:
        signs = np.signbit(x) if is_negative else np.logical_not(np.signbit(x))
        out_keyword = {} if out is None else {"out": out}
        return np.logical_and(np.isinf(x), signs, **out_keyword)

    return handle


ELEMENTWISE[np.isneginf], ELEMENTWISE[np.isposinf] = _infinite(True), _infinite(False)


@_implements(np.angle)
def _angle(_: Trace, z: Any, deg: Any = False) -> Any:
    angles = np.arctan2(0, z)
    if deg:
        angles *= 180 / np.pi
    return angles


@_implements(np.real_if_close)
def _real_if_close(_: Trace, a: Any, tol: Any = 100) -> Any:
    del tol
    return a
