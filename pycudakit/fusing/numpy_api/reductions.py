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
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.numpy_api.library_calls import (
    FAMILIES,
    call_library_function,
    call_with_arrays,
    has_elements,
    library_function,
)
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, implements

REDUCED: dict[Any, Handler] = {}
_implements = functools.partial(implements, REDUCED)

_SUMS = "sum prod mean std var any all count_nonzero"
_EXTREMES = "min max amin amax argmin argmax ptp"
_WITHOUT_NAN = "nanmax nanmean nanmin nanprod nanstd nansum nanvar"


def _reduction(module: str, name: str) -> Handler:
    def handle(trace: Trace, a: Any, *arguments: Any, **keywords: Any) -> Any:
        function = library_function(module, name)
        trace.costs.called(a.size if type(a) is Tracer else np.size(a))
        if type(a) is Tracer and len(arguments) <= 1 and keywords.keys() <= {"axis", "keepdims", "ddof"}:
            given = trace.resolved({**keywords, "axis": arguments[0]} if arguments else keywords)
            if not arguments or "axis" not in keywords:
                return trace.reduce(name, function, a, **given)
        out = keywords.get("out")
        if out is None and has_elements(a) and trace.buffers.scope.is_open:
            return _reduce_on_device(trace, function, (a, *arguments), keywords)
        result = trace.on_host(function, (a, *arguments), keywords, may_write=out is not None)
        return result if out is None else out

    return handle


def _reduce_on_device(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Call a reduction that finds its array, a mask and means on the device."""
    arrays = {key: value for key, value in keywords.items() if has_elements(value)}
    rest = {key: value for key, value in keywords.items() if key not in arrays}
    count = len(arrays)

    @functools.wraps(function)
    def reduce(a: Any, *given: Any, **named: Any) -> Any:
        return function(a, *given[count:], **dict(zip(arrays, given, strict=False)), **named)

    first, *others = arguments
    given = (first, *arrays.values(), *others)
    return trace.on_device(reduce, given, rest, num_device_args=1 + count, results_stay_on_device=True)


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

    def handle(trace: Trace, a: Any, *arguments: Any, **keywords: Any) -> Any:
        found = handler(trace, a, *arguments, **keywords)
        if not trace.buffers.scope.is_async or type(found) is not Tracer:
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


@_implements(np.trace)
def _trace(
    trace: Trace,
    a: Any,
    offset: Any = 0,
    axis1: Any = 0,
    axis2: Any = 1,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    if type(a) is not Tracer or out is not None:
        function = library_function(f"{FAMILIES}.matmul.tensor_products", "trace")
        given = {} if out is None else {"out": out}
        return call_with_arrays(trace, function, (a, offset, axis1, axis2, dtype), given)
    given = {} if dtype is None else {"dtype": dtype}
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, **given)


@_implements(np.average)
def _average(
    trace: Trace,
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: Any = False,
    **keywords: Any,
) -> Any:
    function = library_function(f"{FAMILIES}.matmul.dot", "average")
    if has_elements(a) and not returned and weights is None:
        return np.mean(a, axis=axis, **keywords)
    if has_elements(a) and weights is not None:

        @functools.wraps(function)
        def average(values: Any, own: Any, **named: Any) -> Any:
            return function(values, axis, own, **named)

        given = {"returned": returned, **keywords}
        return trace.on_device(average, (a, weights), given, num_device_args=2, results_stay_on_device=True)
    return call_with_arrays(trace, function, (a, axis, weights, returned), keywords)


def _reduce_by(name: str) -> Handler:
    function = getattr(np, name)

    def handle(trace: Trace, a: Any, axis: Any = 0, dtype: Any = None, **keywords: Any) -> Any:
        given = {"dtype": dtype} if dtype is not None else {}
        out = keywords.pop("out", None)
        (out,) = out if type(out) is tuple else (out,)
        if out is not None:
            given["out"] = out
        return trace.call(function, (a,), {"axis": axis, **given, **keywords})

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
        _: Trace, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False
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

    def handle(trace: Trace, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        (out,) = out if type(out) is tuple else (out,)
        return trace.call(function, (a, axis, dtype, out), {})

    return handle


REDUCED[np.add, "accumulate"] = _accumulate_by("cumsum")
REDUCED[np.multiply, "accumulate"] = _accumulate_by("cumprod")


def _running(name: str) -> Handler:
    def handle(trace: Trace, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        axis = operator.index(axis)
        if type(array) is not Tracer or out is not None or dtype is not None or not array.ndim:
            raise errors.Unsupported(name)
        return call_library_function(
            trace, library_function(f"{FAMILIES}.scan.cumulative", name), (array, axis), {}
        )

    return handle


REDUCED[np.maximum, "accumulate"] = _running("cummax")
REDUCED[np.minimum, "accumulate"] = _running("cummin")
