"""NumPy's reductions, and the methods of ufuncs that are such, in a fused function.

They go in one pass with what they reduce.
"""

from __future__ import annotations

import functools
import inspect
import operator
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.numpy_api.library_calls import (
    FAMILIES,
    at_once,
    has_elements,
    kit_function,
    own_function,
)
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.trace.views_and_creation import Handler, captures

REDUCED: dict[Any, Handler] = {}
_captures = functools.partial(captures, REDUCED)

_SUMS = "sum prod mean std var any all count_nonzero"
_EXTREMES = "min max amin amax argmin argmax ptp"
_WITHOUT_NAN = "nanmax nanmean nanmin nanprod nanstd nansum nanvar"


def _reduction(module: str, name: str) -> Handler:
    def handle(recording: Recording, a: Any, *arguments: Any, **keywords: Any) -> Any:
        function = kit_function(module, name)
        recording.costs.called(a.size if type(a) is StandIn else np.size(a))
        if type(a) is StandIn and len(arguments) <= 1 and keywords.keys() <= {"axis", "keepdims", "ddof"}:
            given = recording.resolved({**keywords, "axis": arguments[0]} if arguments else keywords)
            if not arguments or "axis" not in keywords:
                return recording.reduce(name, function, a, **given)
        out = keywords.get("out")
        if out is None and has_elements(a) and recording.memory.scope.is_open:
            return _where_they_lie(recording, function, (a, *arguments), keywords)
        result = recording.on_host(function, (a, *arguments), keywords, may_write=out is not None)
        return result if out is None else out

    return handle


def _where_they_lie(recording: Recording, function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Call a reduction that finds its array, a mask and means on the device."""
    arrays = {key: value for key, value in keywords.items() if has_elements(value)}
    rest = {key: value for key, value in keywords.items() if key not in arrays}
    count = len(arrays)

    @functools.wraps(function)
    def reduce(a: Any, *given: Any, **named: Any) -> Any:
        return function(a, *given[count:], **dict(zip(arrays, given, strict=False)), **named)

    first, *others = arguments
    given = (first, *arrays.values(), *others)
    return recording.at_home(reduce, given, rest, places=1 + count, are_unseen=True)


for _names, _module in (
    (_SUMS, "reduce.sums_and_means"),
    (_EXTREMES, "reduce.min_max"),
    (_WITHOUT_NAN, "reduce.nan_functions"),
):
    for _name in _names.split():
        REDUCED[getattr(np, _name)] = _reduction(f"{FAMILIES}.{_module}", _name)


def _or_nan(name: str) -> Handler:
    """Return a handler that makes NaN itself of what has too few numbers, where nobody looks for such."""
    handler, signature = REDUCED[getattr(np, name)], inspect.signature(getattr(np, name))

    def handle(recording: Recording, a: Any, *arguments: Any, **keywords: Any) -> Any:
        found = handler(recording, a, *arguments, **keywords)
        if not recording.memory.scope.queues or type(found) is not StandIn:
            return found
        if not a.dtype.kind == found.dtype.kind == "f":
            return found
        given = signature.bind(a, *arguments, **keywords).arguments
        initial = given.get("initial")
        if initial is not None and not np.isnan(initial):  # which is left then
            return found
        shaped = {key: given[key] for key in ("axis", "keepdims", "where") if key in given}
        freedom = given.get("correction", given.get("ddof", 0))
        is_left = np.sum(~np.isnan(a), **shaped) > freedom
        return np.where(is_left, found, found.dtype.type(np.nan))[()]

    return handle


for _name in ("nanmax", "nanmin", "nanstd", "nanvar"):
    REDUCED[getattr(np, _name)] = _or_nan(_name)


@_captures(np.trace)
def _trace(
    recording: Recording,
    a: Any,
    offset: Any = 0,
    axis1: Any = 0,
    axis2: Any = 1,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    if type(a) is not StandIn or out is not None:
        function = kit_function(f"{FAMILIES}.matmul.tensor_products", "trace")
        given = {} if out is None else {"out": out}
        return at_once(recording, function, (a, offset, axis1, axis2, dtype), given)
    given = {} if dtype is None else {"dtype": dtype}
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, **given)


@_captures(np.average)
def _average(
    recording: Recording,
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: Any = False,
    **keywords: Any,
) -> Any:
    function = kit_function(f"{FAMILIES}.matmul.dot", "average")
    if has_elements(a) and not returned and weights is None:
        return np.mean(a, axis=axis, **keywords)
    if has_elements(a) and weights is not None:

        @functools.wraps(function)
        def average(values: Any, own: Any, **named: Any) -> Any:
            return function(values, axis, own, **named)

        given = {"returned": returned, **keywords}
        return recording.at_home(average, (a, weights), given, places=2, are_unseen=True)
    return at_once(recording, function, (a, axis, weights, returned), keywords)


def _reduce_by(name: str) -> Handler:
    function = getattr(np, name)

    def handle(recording: Recording, a: Any, axis: Any = 0, dtype: Any = None, **keywords: Any) -> Any:
        given = {"dtype": dtype} if dtype is not None else {}
        out = keywords.pop("out", None)
        (out,) = out if type(out) is tuple else (out,)
        if out is not None:
            given["out"] = out
        return recording.call(function, (a,), {"axis": axis, **given, **keywords})

    return handle


for _ufunc, _name in {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "max",
    np.minimum: "min",
    np.logical_and: "all",
    np.logical_or: "any",
}.items():
    REDUCED[_ufunc, "reduce"] = _reduce_by(_name)


def _reduce_known(by: Any, least: float) -> Handler:
    """Reduce what is not NaN by a ufunc, to which the `least` adds nothing; NaN alone stays NaN."""

    def handle(
        _: Recording, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False
    ) -> Any:
        if not has_elements(array) or dtype is not None or out is not None:
            raise errors.Unsupported("reduce")
        if array.dtype.kind != "f":
            return by.reduce(array, axis, keepdims=keepdims)
        is_missing = np.isnan(array)
        found = by.reduce(np.where(is_missing, least, array), axis, keepdims=keepdims)
        return np.where(np.all(is_missing, axis, keepdims=keepdims), np.nan, found)[()]

    return handle


REDUCED[np.fmax, "reduce"] = _reduce_known(np.maximum, -np.inf)
REDUCED[np.fmin, "reduce"] = _reduce_known(np.minimum, np.inf)


def _accumulate_by(name: str) -> Handler:
    function = getattr(np, name)

    def handle(recording: Recording, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        (out,) = out if type(out) is tuple else (out,)
        return recording.call(function, (a, axis, dtype, out), {})

    return handle


REDUCED[np.add, "accumulate"] = _accumulate_by("cumsum")
REDUCED[np.multiply, "accumulate"] = _accumulate_by("cumprod")


def _running(name: str) -> Handler:
    def handle(recording: Recording, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        axis = operator.index(axis)
        if type(array) is not StandIn or out is not None or dtype is not None or not array.ndim:
            raise errors.Unsupported(name)
        return own_function(recording, kit_function(f"{FAMILIES}.scan.cumulative", name), (array, axis), {})

    return handle


REDUCED[np.maximum, "accumulate"] = _running("cummax")
REDUCED[np.minimum, "accumulate"] = _running("cummin")
