"""Handlers for NumPy's reductions, and for `ufunc.reduce` and `ufunc.accumulate`, in a fused function.

A reduction is fused into the kernel that computes its operand.
"""

from __future__ import annotations

import functools
import inspect
import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit import errors
from pycudakit._families.reduce.truth_values import COUNTS_ARE_INTS
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.numpy_api.library_calls import (
    FAMILIES,
    call_library_function,
    call_with_arrays,
    has_elements,
    library_function,
)
from pycudakit.fusing.trace.reductions import reduce
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, implements

REDUCED: dict[Any, Handler] = {}
_implements = functools.partial(implements, REDUCED)

_SUMS, _MEANS, _TRUTH_VALUES = "sum prod", "mean std var", "any all count_nonzero"
_EXTREMES = "min max amin amax argmin argmax ptp"
_WITHOUT_NAN = "nanmax nanmean nanmin nanprod nanstd nansum nanvar"


def _reduction(module: str, name: str) -> Handler:
    def handle(trace: Trace, a: Any, *arguments: Any, **keywords: Any) -> Any:
        function = library_function(module, name)
        trace.costs.called(a.size if type(a) is Tracer else np.size(a), is_reduction=True)
        if type(a) is Tracer and len(arguments) <= 1 and keywords.keys() <= {"axis", "keepdims", "ddof"}:
            options = trace.resolved({**keywords, "axis": arguments[0]} if arguments else keywords)
            if not arguments or "axis" not in keywords:
                result = reduce(trace, name, function, a, **options)
                is_int = name == "count_nonzero" and COUNTS_ARE_INTS and options.get("axis") is None
                return int(trace.resolved(result)) if is_int and not options.get("keepdims") else result
        out = keywords.get("out")
        if out is None and has_elements(a) and trace.buffers.scope.is_open:
            return _reduce_on_device(trace, function, (a, *arguments), keywords)
        result = trace.on_host(function, (a, *arguments), keywords, may_write=out is not None)
        return result if out is None else out

    return handle


def _reduce_on_device(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Call a reduction whose array, `where=` mask and `mean=` are on the device."""
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
    (_SUMS, "reduce.sums"),
    (_MEANS, "reduce.means"),
    (_TRUTH_VALUES, "reduce.truth_values"),
    (_EXTREMES, "reduce.min_max"),
    (_WITHOUT_NAN, "reduce.nan_functions"),
):
    for _name in _names.split():
        REDUCED[getattr(np, _name)] = _reduction(f"{FAMILIES}.{_module}", _name)


def _or_nan(name: str) -> Handler:
    """Return a handler that writes NaN itself where too few values are not NaN.

    In an asynchronous call the host does not read the result, so it cannot do that afterwards.
    """
    handler, signature = REDUCED[getattr(np, name)], inspect.signature(getattr(np, name))

    def handle(trace: Trace, a: Any, *arguments: Any, **keywords: Any) -> Any:
        result = handler(trace, a, *arguments, **keywords)
        if not trace.buffers.scope.is_async or type(result) is not Tracer:
            return result
        if not a.dtype.kind == result.dtype.kind == "f":
            return result
        given = signature.bind(a, *arguments, **keywords).arguments
        initial = given.get("initial")
        if initial is not None and not np.isnan(initial):  # `initial` is the result then
            return result
        options = {key: given[key] for key in ("axis", "keepdims", "where") if key in given}
        ddof = given.get("correction", given.get("ddof", 0))
        is_left = np.sum(~np.isnan(a), **options) > ddof
        return np.where(is_left, result, result.dtype.type(np.nan))[()]

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
        options = {} if out is None else {"out": out}
        return call_with_arrays(trace, function, (a, offset, axis1, axis2, dtype), options)
    options = {} if dtype is None else {"dtype": dtype}
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, **options)


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
        axes = None if axis is None else normalize_axis_tuple(axis, np.ndim(a), argname="axis")  # True is 1
        return np.mean(a, axis=axes, **keywords)
    if has_elements(a) and weights is not None:

        @functools.wraps(function)
        def average(values: Any, weighting: Any, **named: Any) -> Any:
            return function(values, axis, weighting, **named)

        options = {"returned": returned, **keywords}
        return trace.on_device(average, (a, weights), options, num_device_args=2, results_stay_on_device=True)
    return call_with_arrays(trace, function, (a, axis, weights, returned), keywords)


def _reduce_by(name: str) -> Handler:
    function = getattr(np, name)

    def handle(trace: Trace, a: Any, axis: Any = 0, dtype: Any = None, **keywords: Any) -> Any:
        options = {"dtype": dtype} if dtype is not None else {}
        out = keywords.pop("out", None)
        (out,) = out if type(out) is tuple else (out,)
        if out is not None:
            options["out"] = out
        return trace.call(function, (a,), {"axis": axis, **options, **keywords})

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


def _reduce_ignoring_nan(by: Any, identity: float) -> Handler:
    """Return a reduction that ignores NaN: NaN becomes the identity of `by`; slices of only NaN stay NaN."""

    def handle(
        _: Trace, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False
    ) -> Any:
        if not has_elements(array) or dtype is not None or out is not None:
            raise errors.Unsupported("reduce")
        if array.dtype.kind != "f":
            return by.reduce(array, axis, keepdims=keepdims)
        is_missing = np.isnan(array)
        result = by.reduce(np.where(is_missing, identity, array), axis, keepdims=keepdims)
        return np.where(np.all(is_missing, axis, keepdims=keepdims), np.nan, result)[()]

    return handle


REDUCED[np.fmax, "reduce"] = _reduce_ignoring_nan(np.maximum, -np.inf)
REDUCED[np.fmin, "reduce"] = _reduce_ignoring_nan(np.minimum, np.inf)


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
