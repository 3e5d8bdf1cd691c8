"""NumPy's functions that a fused function may call, and who takes them."""

from __future__ import annotations

import functools
import importlib
import operator
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._families.elementwise import compound, copies, pairs
from pycudakit._families.expression import close
from pycudakit.fusing.choices import CHOICES
from pycudakit.fusing.computing import stand_ins_in
from pycudakit.fusing.counting import COUNTING
from pycudakit.fusing.einsum import EINSUM, view_or
from pycudakit.fusing.ordering import ORDERING, topk
from pycudakit.fusing.products import PRODUCTS, matrix_power
from pycudakit.fusing.putting import PUTTING
from pycudakit.fusing.quantiles import QUANTILES
from pycudakit.fusing.recording import Recording
from pycudakit.fusing.sets import SETS
from pycudakit.fusing.shapes import SHAPES, Handler, captures
from pycudakit.fusing.stand_in import StandIn

CAPTURED: dict[Any, Handler] = {**SHAPES, **CHOICES, **PUTTING}
_captures = functools.partial(captures, CAPTURED)

_FAMILIES = "pycudakit._families"

# ---- The kit's own functions, called at once with arrays -----------------------------------------------

_AT_ONCE = {
    "select.quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "sort.distinct": "unique",
    "sort.functions": "lexsort",
    "sort.sets": "intersect1d isin setdiff1d setxor1d union1d unique_values",
    "histogram.functions": "histogram2d",
    "histogram.many": "histogramdd",
    "matmul.matmul": "matmul",
    "matmul.tensors": "einsum kron tensordot vecdot",
    "take": "argwhere compress flatnonzero nonzero",
}


# Those that leave what is on the device there: their first arguments are for the library's eyes alone.
_AT_HOME = {
    "scan": "cumprod cumsum cumulative_prod cumulative_sum nancumprod nancumsum",
    "histogram.functions": "bincount digitize histogram",
    "interp": "interp",
    "matmul.products": "dot vdot",
    "matmul.tensors": "inner",
    "reduce.nan": "nanargmax nanargmin",
    "sort.functions": "argpartition argsort partition searchsorted sort",
    "take": "take take_along_axis",
}
_OF_TWO = frozenset(("searchsorted", "take", "take_along_axis"))
# And how many these are, of functions of which NumPy has none, or none that asks stand-ins.
_OWN_AT_HOME = {"allclose": 2, "array_equal": 2, "cummax": 1, "cummin": 1, "exclusive_scan": 1}
# Those that are written for NumPy themselves, and run as a part of what calls them.
_COMPOSED = {
    "calculus": "cross diff gradient trapezoid",
    "padding": "pad",
    "signals": "convolve correlate",
    "statistics": "corrcoef cov",
}
_FILTERS = (
    "box_blur convolve correlate gaussian_blur laplace maximum_filter median_filter minimum_filter sobel"
)
_OF_IMAGES = frozenset([*_FILTERS.split(), "gray_to_rgb", "resize", "rgb_to_gray"])
_PRODUCTS = frozenset("matmul dot vdot inner outer kron tensordot einsum trace vecdot".split())  # noqa: SIM905


def kit_function(module: str, name: str) -> Any:
    """Return a function of the kit's; its module is imported when it is needed."""
    return getattr(importlib.import_module(module), name)


def at_once(recording: Recording, function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Call a function of the kit's with arrays."""
    _count(recording, function, arguments, keywords)
    if function.__name__ == "topk" and recording.memory.scope.is_open:
        taken = topk(recording, *arguments, **keywords)
        if taken is not NotImplemented:
            return taken
    if function.__name__ in _OF_IMAGES:
        return recording.at_home(function, arguments, keywords)
    return recording.on_host(function, arguments, keywords, may_write="out" in keywords)


def _count(recording: Recording, function: Any, arguments: Any, keywords: dict[str, Any]) -> None:
    sizes = [stand_in.size for stand_in in stand_ins_in((arguments, keywords))]
    recording.costs.called(max(sizes, default=0), function.__name__ in _PRODUCTS)


def own_function(recording: Recording, function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Call a function that is the kit's own."""
    name = function.__name__
    places = _OWN_AT_HOME.get(name, 0)
    given = arguments[:places]
    if places and len(given) == places and all(map(_has_elements, given)):
        return _in_place(recording, function, arguments, keywords, places)
    return at_once(recording, function, arguments, keywords)


def _in_place(
    recording: Recording, function: Any, arguments: Any, keywords: dict[str, Any], places: int = 1
) -> Any:
    """Call a function that finds arguments on the device; its `out` gets a copy of its result."""
    _count(recording, function, arguments, keywords)
    out = keywords.get("out")
    if out is None:
        return recording.at_home(function, arguments, keywords, places)
    if recording.is_there(out):
        rest = {key: value for key, value in keywords.items() if key != "out"}
        result = recording.at_home(function, arguments, rest, places)
        if type(result) is StandIn and (result.shape, result.dtype) == (out.shape, out.dtype):
            recording.set(out, ..., result)
            return out
    return at_once(recording, function, arguments, keywords)


def _kit_handler(module: str, name: str, is_at_home: bool = False) -> Handler:
    def handle(recording: Recording, *arguments: Any, **keywords: Any) -> Any:
        out, function = keywords.get("out"), kit_function(module, name)
        if type(out) is tuple and len(out) == 1:  # as ufuncs have it
            (out,) = out
            keywords = {**keywords, "out": out}
        if name in _OF_TWO and recording.memory.scope.is_open:
            arguments = (*_converted(name, arguments[:2]), *arguments[2:])
        if is_at_home and _is_as_entries_take_it(name, arguments, keywords):
            places = 2 if name in _PRODUCTS or name in _OF_TWO else 1
            result = _in_place(recording, function, arguments, keywords, places)
        else:
            result = at_once(recording, function, arguments, keywords)
        return result if out is None else out

    return handle


def _converted(name: str, pair: Any) -> Any:
    """Return stand-ins in the types that entries take."""
    if len(pair) != 2:
        return pair
    first, second = pair
    if name == "searchsorted" and type(first) is type(second) is StandIn and first.dtype != second.dtype:
        dtype = np.result_type(first.dtype, second.dtype)
        return [each if each.dtype == dtype else each.astype(dtype) for each in pair]
    if name == "take" and type(second) in (list, tuple) and all(type(each) is int for each in second):
        return first, np.array(second, np.int64)
    is_narrow = type(second) is StandIn and second.dtype.kind in "iu" and second.dtype.itemsize < 8
    return (first, second.astype(np.int64)) if is_narrow and name != "searchsorted" else pair


def _is_as_entries_take_it(name: str, arguments: Any, keywords: dict[str, Any]) -> bool:
    """Tell whether nobody converts, lays out anew, or looks at the first arguments on the host."""
    if name in _OF_TWO:
        return len(arguments) >= 2 and _are_as_entries_take_them(name, arguments, keywords)
    given: Any = arguments[0] if arguments else None
    if not _has_elements(given):
        return False
    if name == "interp":  # with a period, places are taken round on the host
        has_period = len(arguments) > 5 or keywords.get("period") is not None
        return bool(given.dtype == np.float64) and not has_period
    if name == "histogram":  # rules take all elements
        rule = arguments[1] if len(arguments) > 1 else keywords.get("bins")
        weights = arguments[4] if len(arguments) > 4 else keywords.get("weights")
        return not isinstance(rule, str) and weights is None
    if name == "bincount":  # with weights, others take it
        weights = arguments[1] if len(arguments) > 1 else keywords.get("weights")
        return weights is None
    if name in ("cumulative_prod", "cumulative_sum"):
        return not keywords.get("include_initial", False)
    if name in _PRODUCTS:
        return len(arguments) == 2 and all(_has_elements(a) and a.ndim == 1 for a in arguments)
    if name in ("sort", "argsort", "partition", "argpartition"):
        before = 1 + ("partition" in name)  # of the axis
        axis = arguments[before] if len(arguments) > before else keywords.get("axis", -1)
        is_last = axis in (None, -1, given.ndim - 1) and not keywords.get("descending")
        # What is sorted of others is laid out as they are, on the host.
        return is_last and given.dtype.isnative and (given.ndim == 1 or given.flags.c_contiguous)
    return True


def _has_elements(a: Any) -> bool:
    return type(a) is StandIn and a.ndim > 0 and a.size > 0


def _are_as_entries_take_them(name: str, arguments: Any, keywords: dict[str, Any]) -> bool:
    """Tell the same of two, of which one may be an array of the host's."""
    first, second, *rest = arguments
    if not all(type(a) is StandIn or isinstance(a, np.ndarray) for a in (first, second)):
        return False
    if name == "searchsorted":
        are_plain = len(rest) <= 1 and keywords.keys() <= {"side"}
        return are_plain and first.dtype == second.dtype and first.ndim == 1 and second.ndim > 0
    if second.dtype != np.int64 or second.ndim == 0 or first.ndim == 0:
        return False
    if name == "take":
        return len(rest) <= 1 and keywords.keys() <= {"axis", "mode"}
    axis = rest[0] if rest else keywords.get("axis", -1)
    are_alike = first.ndim == second.ndim and first.shape[:-1] == second.shape[:-1]
    return are_alike and (first.ndim == 1 if axis is None else axis in (-1, first.ndim - 1))


def _comparison(name: str) -> Handler:
    def handle(recording: Recording, *arguments: Any, **keywords: Any) -> Any:
        return own_function(
            recording, kit_function(f"{_FAMILIES}.expression.close", name), arguments, keywords
        )

    return handle


for _name in ("allclose", "array_equal"):
    CAPTURED[getattr(np, _name)] = _comparison(_name)

for _table in (_AT_ONCE, _AT_HOME):
    for _module, _names in _table.items():
        for _name in _names.split():
            if hasattr(np, _name):  # some are newer than NumPy 2.0
                CAPTURED[getattr(np, _name)] = _kit_handler(
                    f"{_FAMILIES}.{_module}", _name, is_at_home=_table is _AT_HOME
                )


def _at_home_or(by_others: Handler, elsewhere: Handler) -> Handler:
    def handle(recording: Recording, *arguments: Any, **keywords: Any) -> Any:
        if recording.memory.scope.is_open:
            taken = by_others(recording, *arguments, **keywords)
            if taken is not NotImplemented:
                return taken
        return elsewhere(recording, *arguments, **keywords)

    return handle


for _function, _by_others in {**COUNTING, **EINSUM, **ORDERING, **PRODUCTS, **QUANTILES, **SETS}.items():
    CAPTURED[_function] = _at_home_or(_by_others, CAPTURED[_function])
CAPTURED[np.einsum] = view_or(CAPTURED[np.einsum])


def _composed_handler(module: str, name: str) -> Handler:
    return lambda _, *arguments, **keywords: kit_function(module, name)(*arguments, **keywords)


for _module, _names in _COMPOSED.items():
    for _name in _names.split():
        CAPTURED[getattr(np, _name)] = _composed_handler(f"pycudakit.fusing.composed.{_module}", _name)


@_captures(np.linalg.norm)
def _norm(recording: Recording, x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    function, rest = kit_function("pycudakit.linalg", "norm"), {"axis": axis, "keepdims": keepdims}
    is_of_sums = ord in (None, "fro") or type(ord) in (int, float)
    if _has_elements(x) and is_of_sums and not (ord in (2, -2) and _is_of_matrices(x, axis)):
        return _in_place(recording, function, (x, ord), rest)
    return at_once(recording, function, (x, ord), rest)


def _is_of_matrices(x: StandIn, axis: Any) -> bool:
    return (x.ndim if axis is None else len(axis) if type(axis) is tuple else 1) == 2


CAPTURED[np.linalg.matrix_power] = _at_home_or(matrix_power, _kit_handler("pycudakit.linalg", "matrix_power"))

# ---- Reductions: in one pass with what they reduce ------------------------------------------------------

_SUMS = "sum prod mean std var any all count_nonzero"
_EXTREMES = "min max amin amax argmin argmax ptp"
_WITHOUT_NAN = "nanmax nanmean nanmin nanprod nanstd nansum nanvar"


def _reduction(module: str, name: str) -> Handler:
    def handle(recording: Recording, a: Any, *arguments: Any, **keywords: Any) -> Any:
        function = kit_function(module, name)
        recording.costs.called(a.size if type(a) is StandIn else np.size(a))
        asked = recording.resolved(arguments), recording.resolved(keywords)
        if type(a) is StandIn and len(arguments) <= 1 and keywords.keys() <= {"axis", "keepdims", "ddof"}:
            given = {**keywords, "axis": arguments[0]} if arguments else asked[1]
            if not arguments or "axis" not in keywords:
                return recording.reduce(name, function, a, **given)
        out = keywords.get("out")
        result = recording.on_host(function, (a, *arguments), keywords, may_write=out is not None)
        return result if out is None else out

    return handle


for _names, _module in (
    (_SUMS, "reduce.sums"),
    (_EXTREMES, "reduce.extremes"),
    (_WITHOUT_NAN, "reduce.nan"),
):
    for _name in _names.split():
        CAPTURED[getattr(np, _name)] = _reduction(f"{_FAMILIES}.{_module}", _name)


@_captures(np.trace)
def _trace(
    recording: Recording, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, **keywords: Any
) -> Any:
    if type(a) is not StandIn or keywords:
        function = kit_function(f"{_FAMILIES}.matmul.tensors", "trace")
        return at_once(recording, function, (a, offset, axis1, axis2), keywords)
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1)


@_captures(np.average)
def _average(
    recording: Recording,
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: Any = False,
    **keywords: Any,
) -> Any:
    function = kit_function(f"{_FAMILIES}.matmul.products", "average")
    if _has_elements(a) and not returned and weights is None:
        return np.mean(a, axis=axis, **keywords)
    if _has_elements(a) and not returned and type(weights) is StandIn and weights.shape == a.shape:

        def average(values: Any, own: Any) -> Any:
            return function(values, axis, own, **keywords)

        return recording.at_home(average, (a, weights), {}, places=2)
    return at_once(recording, function, (a, axis, weights, returned), keywords)


def _reduce_by(name: str) -> Handler:
    handler = CAPTURED[getattr(np, name)]

    def handle(recording: Recording, a: Any, axis: Any = 0, dtype: Any = None, **keywords: Any) -> Any:
        given = {"dtype": dtype} if dtype is not None else {}
        out = keywords.pop("out", None)
        if out is not None and out != (None,):
            given["out"] = out[0] if isinstance(out, tuple) else out
        return handler(recording, a, axis=axis, **given, **keywords)

    return handle


for _ufunc, _name in {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "max",
    np.minimum: "min",
    np.logical_and: "all",
    np.logical_or: "any",
}.items():
    CAPTURED[_ufunc, "reduce"] = _reduce_by(_name)


def _accumulate_by(name: str) -> Handler:
    handler = CAPTURED[getattr(np, name)]

    def handle(recording: Recording, a: Any, axis: Any = 0, **keywords: Any) -> Any:
        return handler(recording, a, axis, **keywords)

    return handle


CAPTURED[np.add, "accumulate"] = _accumulate_by("cumsum")
CAPTURED[np.multiply, "accumulate"] = _accumulate_by("cumprod")


def _running(name: str) -> Handler:
    def handle(recording: Recording, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        axis = operator.index(axis)
        if type(array) is not StandIn or out is not None or dtype is not None or not array.ndim:
            raise errors.Unsupported(name)
        return own_function(recording, kit_function(f"{_FAMILIES}.scan", name), (array, axis), {})

    return handle


CAPTURED[np.maximum, "accumulate"] = _running("cummax")
CAPTURED[np.minimum, "accumulate"] = _running("cummin")


def _outer(ufunc: Any, recording: Recording, a: Any, b: Any, **keywords: Any) -> Any:
    a, b = (x if type(x) is StandIn else recording.wrap(np.asarray(x)) for x in (a, b))
    beside = (..., *(None,) * b.ndim)
    return recording.ufunc(ufunc, "__call__", (a[beside], b), keywords)


for _of_two in {value for value in vars(np).values() if type(value) is np.ufunc and value.nin == 2}:
    if _of_two.signature is None:
        CAPTURED[_of_two, "outer"] = functools.partial(_outer, _of_two)


# ---- Elementwise functions that are no ufuncs -----------------------------------------------------------


def _elsewhere(recording: Recording, function: Any, *arguments: Any, **keywords: Any) -> Any:
    """Call the kit's function with arrays, for what is not worth more."""
    return recording.on_host(function, arguments, keywords, may_write="out" in keywords)


def pair(recording: Recording, function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Write a function of two results down, as one for each."""
    if keywords.keys() <= {"dtype"} and len(arguments) == function.nin:
        first, second = pairs.PARTS[function.__name__]
        return tuple([recording.apply(part, arguments, **keywords) for part in (first, second)])
    return at_once(recording, function, arguments, keywords)


def _pair(function: Any) -> Handler:
    return lambda recording, *arguments, **keywords: pair(recording, function, arguments, keywords)


for _function in (pairs.divmod, pairs.frexp, pairs.modf):
    CAPTURED[getattr(np, _function.__name__)] = _pair(_function)


@_captures(np.outer)
def _outer_product(recording: Recording, a: Any, b: Any, out: Any = None) -> Any:
    if type(a) is not StandIn or type(b) is not StandIn or out is not None:
        named = {} if out is None else {"out": out}
        return at_once(recording, kit_function(f"{_FAMILIES}.matmul.tensors", "outer"), (a, b), named)
    return _outer(np.multiply, recording, np.ravel(a), np.ravel(b))


def _triangle(name: str) -> Handler:
    def handle(recording: Recording, m: Any, k: Any = 0) -> Any:
        array = m.node.array if type(m) is StandIn else None
        if type(m) is not StandIn or m.ndim < 2 or not (array is None or array.flags.c_contiguous):
            return at_once(recording, getattr(copies, name), (m, k), {})
        rows, columns = m.shape[-2:]
        by = recording.resolved(k)
        if not hasattr(by, "__index__"):
            return at_once(recording, getattr(copies, name), (m, by), {})
        by = operator.index(by)
        row = copies.rows_of_triangle(rows, columns, by)
        return recording.apply(_triangle_from(name, by), (m, row, np.arange(columns)))

    return handle


@functools.lru_cache(256)
def _triangle_from(name: str, k: int) -> Any:
    """Return the function with NumPy's own for a matrix and what tells its rows and columns."""
    function = copies.TRIANGLES[name]
    return type(function)(name, lambda m, *_, **__: getattr(np, name)(m, k), function.write)


for _name in ("tril", "triu"):
    CAPTURED[getattr(np, _name)] = _triangle(_name)


@_captures(np.conjugate)
def _conjugate(_: Recording, x: Any, **keywords: Any) -> Any:
    if keywords or type(x) is not StandIn:
        raise errors.Unsupported("conjugate")
    return x.astype(np.int8) if x.dtype == np.bool_ else x.copy()


@_captures(np.sinc)
def _sinc(recording: Recording, x: Any) -> Any:
    return recording.apply(compound.SINC, (x,))


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
        return _elsewhere(recording, compound.clip, a, low, high, **named, **keywords)
    function = compound.CLIP[low is not None, high is not None]
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
        return _elsewhere(recording, compound.round, a, decimals, out=out)
    decimals = operator.index(decimals)
    return recording.apply(_rounding(decimals), (a, 10.0 ** abs(decimals)))


@functools.cache
def _rounding(decimals: int) -> Any:
    function = compound.round_function(decimals)
    return type(function)("round", lambda a, _, **keywords: np.round(a, decimals, **keywords), function.write)


@_captures(np.isclose)
def _isclose(
    recording: Recording, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False
) -> Any:
    function = close.CLOSE[bool(equal_nan)]
    with np.errstate(invalid="ignore"):
        return recording.apply(function, (*close.as_compared(a, b), rtol, atol))


@_captures(np.nan_to_num)
def _nan_to_num(
    recording: Recording, x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    if (
        type(x) is not StandIn
        or x.dtype.kind != "f"
        or not all(n is None or type(n) in (int, float) for n in (nan, posinf, neginf))
    ):
        return recording.on_host(
            compound.nan_to_num, (x, copy), {"nan": nan, "posinf": posinf, "neginf": neginf}, not copy
        )
    limits = np.finfo(x.dtype)
    highest = float(limits.max) if posinf is None else float(posinf)
    lowest = float(limits.min) if neginf is None else float(neginf)
    numbers = (float(nan), highest, lowest)
    return recording.apply(_NAN_TO_NUM, (x, *numbers), out=None if copy else x)


_NAN_TO_NUM = type(compound.NAN_TO_NUM)(
    "nan_to_num",
    lambda x, nan, high, low, **_: np.nan_to_num(x, nan=nan, posinf=high, neginf=low),
    compound.write_nan_to_num,
)
