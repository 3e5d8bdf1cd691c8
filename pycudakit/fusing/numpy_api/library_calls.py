"""The kit's own functions in a fused function, by NumPy's names: called with arrays, or where these lie."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from pycudakit.fusing.device_impls.sorting import topk
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.schedule.scheduler import stand_ins_in
from pycudakit.fusing.trace.out_argument import out_of
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.trace.views_and_creation import Handler, captures, is_laid_out_anew

KIT: dict[Any, Handler] = {}
_captures = functools.partial(captures, KIT)

FAMILIES = "pycudakit._families"

_AT_ONCE = {
    "select.quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "sort.unique": "unique",
    "sort.sorting": "lexsort",
    "sort.set_operations": "intersect1d isin setdiff1d setxor1d union1d unique_values",
    "histogram.histogram": "histogram2d",
    "histogram.histogramdd": "histogramdd",
    "matmul.matmul": "matmul",
    "matmul.tensor_products": "einsum kron tensordot vecdot",
    "take": "argwhere compress flatnonzero nonzero",
}


# Those that leave what is on the device there: their first arguments are for the library's eyes alone.
_AT_HOME = {
    "scan.cumulative": "cumprod cumsum cumulative_prod cumulative_sum nancumprod nancumsum",
    "histogram.histogram": "bincount digitize histogram",
    "interp": "interp",
    "matmul.dot": "dot vdot",
    "matmul.tensor_products": "inner",
    "reduce.nan_functions": "nanargmax nanargmin",
    "sort.sorting": "argpartition argsort partition searchsorted sort",
    "take": "take take_along_axis",
}
_LOOK_AT_NOTHING = frozenset(("dot", "inner", "nanargmax", "nanargmin", "vdot"))  # of what they return
_OF_TWO = frozenset(("searchsorted", "take", "take_along_axis"))
# And how many these are, of functions of which NumPy has none, or none that asks stand-ins.
_OWN_AT_HOME = {"allclose": 2, "array_equal": 2, "cummax": 1, "cummin": 1, "exclusive_scan": 1}
_IMAGE = f"{__name__.partition('.')[0]}.image"
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
    if function.__module__.startswith(_IMAGE):
        return recording.at_home(function, arguments, keywords)
    return recording.on_host(function, arguments, keywords, may_write="out" in keywords)


def _count(recording: Recording, function: Any, arguments: Any, keywords: dict[str, Any]) -> None:
    sizes = [stand_in.size for stand_in in stand_ins_in((arguments, keywords))]
    recording.costs.called(max(sizes, default=0), function.__name__ in _PRODUCTS)


def own_function(recording: Recording, function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Call a function that is the kit's own."""
    return recording.with_out(function, functools.partial(_own_function, function), arguments, keywords)


def _own_function(function: Any, recording: Recording, *arguments: Any, **keywords: Any) -> Any:
    places = _OWN_AT_HOME.get(function.__name__, 0)
    given = arguments[:places]
    if places and len(given) == places and all(map(has_elements, given)):
        return in_place(recording, function, arguments, keywords, places)
    return at_once(recording, function, arguments, keywords)


def in_place(
    recording: Recording, function: Any, arguments: Any, keywords: dict[str, Any], places: int = 1
) -> Any:
    """Call a function that finds arguments on the device."""
    if keywords.get("out") is not None:  # which could not be delivered
        return at_once(recording, function, arguments, keywords)
    _count(recording, function, arguments, keywords)
    are_unseen = function.__name__ in _LOOK_AT_NOTHING
    return recording.at_home(function, arguments, keywords, places, are_unseen)


def kit_handler(module: str, name: str, is_at_home: bool = False) -> Handler:
    """Return what takes NumPy's function of a name by the kit's; on the device, if that is where it works."""

    def handle(recording: Recording, *arguments: Any, **keywords: Any) -> Any:
        out, function = out_of(name, keywords.get("out")), kit_function(module, name)
        if out is not keywords.get("out"):
            keywords = {**keywords, "out": out}
        if name in _OF_TWO and recording.memory.scope.is_open:
            arguments = (*_converted(name, arguments[:2]), *arguments[2:])
        if is_at_home and _is_as_entries_take_it(name, arguments, keywords):
            places = 2 if name in _PRODUCTS or name in _OF_TWO else 1
            result = in_place(recording, function, arguments, keywords, places)
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
    if not has_elements(given):
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
        return len(arguments) == 2 and all(has_elements(a) and a.ndim == 1 for a in arguments)
    if name in ("sort", "argsort", "partition", "argpartition"):
        before = 1 + ("partition" in name)  # of the axis
        axis = arguments[before] if len(arguments) > before else keywords.get("axis", -1)
        is_last = axis in (None, -1, given.ndim - 1) and not keywords.get("descending")
        return is_last and given.dtype.isnative and is_laid_out_anew(given)
    return True


def has_elements(a: Any) -> bool:
    """Tell whether it stands for an array that is neither a number nor empty."""
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
            recording, kit_function(f"{FAMILIES}.expression.comparisons", name), arguments, keywords
        )

    return handle


for _name in ("allclose", "array_equal"):
    KIT[getattr(np, _name)] = _comparison(_name)

for _table in (_AT_ONCE, _AT_HOME):
    for _module, _names in _table.items():
        for _name in _names.split():
            if hasattr(np, _name):  # some are newer than NumPy 2.0
                KIT[getattr(np, _name)] = kit_handler(
                    f"{FAMILIES}.{_module}", _name, is_at_home=_table is _AT_HOME
                )


@_captures(np.linalg.norm)
def _norm(recording: Recording, x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    function, rest = kit_function("pycudakit.linalg", "norm"), {"axis": axis, "keepdims": keepdims}
    is_of_sums = ord in (None, "fro") or type(ord) in (int, float)
    if has_elements(x) and is_of_sums and not (ord in (2, -2) and _is_of_matrices(x, axis)):
        _count(recording, function, (x,), {})
        return recording.at_home(function, (x, ord), rest, are_unseen=True)
    return at_once(recording, function, (x, ord), rest)


def _is_of_matrices(x: StandIn, axis: Any) -> bool:
    return (x.ndim if axis is None else len(axis) if type(axis) is tuple else 1) == 2
