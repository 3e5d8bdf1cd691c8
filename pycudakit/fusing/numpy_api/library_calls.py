"""Handlers that call a whole library function, such as `np.sort`, inside a fused function.

Device-resident arguments are passed without a download if the residency scope is open, and if the function is
in `_ON_DEVICE` and needs no conversion of them, or is an image function, `topk`, `norm` or one of
`_OWN_ON_DEVICE`. All other calls download their arguments to the host first.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES, FLOAT64, Array, DType
from pycudakit._runtime import native_call
from pycudakit.fusing.device_impls.sorting import topk
from pycudakit.fusing.execute.numpy_matmul import product_of, result_shape
from pycudakit.fusing.memory.nodes import leaf
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.captured_call import captured_call, captured_reduction
from pycudakit.fusing.trace.out_argument import unwrap_out
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.traced_values import iter_tracers
from pycudakit.fusing.trace.views_and_creation import (
    Handler,
    full,
    implements,
    layout_stub,
    may_sort_in_c_order,
)

LIBRARY_CALLS: dict[Any, Handler] = {}
_implements = functools.partial(implements, LIBRARY_CALLS)

FAMILIES = "pycudakit._families"

# By module: functions that read their arguments on the host. `registry` tries the device implementations of
# some of them first (`matmul`, `unique`, quantiles, ...).
_ON_HOST = {
    "select.quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "sort.unique": "unique",
    "sort.sorting": "lexsort",
    "sort.set_operations": "intersect1d isin setdiff1d setxor1d union1d unique_values",
    "histogram.histogram": "histogram2d",
    "histogram.histogramdd": "histogramdd",
    "matmul.einsum": "einsum",
    "matmul.matmul": "matmul",
    "matmul.tensor_products": "kron tensordot vecdot",
    "take": "argwhere compress flatnonzero nonzero",
}

# By module: functions whose first arguments may be device-resident, since Python does not read their values.
_ON_DEVICE = {
    "scan.cumulative": "cumprod cumsum cumulative_prod cumulative_sum nancumprod nancumsum",
    "histogram.histogram": "bincount digitize histogram",
    "interp": "interp",
    "matmul.dot": "dot vdot",
    "matmul.tensor_products": "inner",
    "reduce.nan_functions": "nanargmax nanargmin",
    "sort.searching": "searchsorted",
    "sort.sorting": "argpartition argsort partition sort",
    "take": "take take_along_axis",
}
# Those whose Python code does not read the results of the C entries on the host.
_NO_HOST_READS = frozenset(("dot", "inner", "nanargmax", "nanargmin", "vdot"))
# Those whose first two arguments may be device-resident.
_OF_TWO = frozenset(("searchsorted", "take", "take_along_axis"))
# Functions that NumPy lacks, or that it does not dispatch to tracers: the number of device arguments of each.
_OWN_ON_DEVICE = {"allclose": 2, "array_equal": 2, "cummax": 1, "cummin": 1, "exclusive_scan": 1}
# Scans whose Python code reads no values.
_CAPTURED_SCANS = frozenset({"cummax", "cummin", "cumprod", "cumsum"})
_REASON_BLAS = "the CPU engine multiplies floats by NumPy's BLAS"
_IMAGE = f"{__name__.partition('.')[0]}.image"
_PRODUCTS = frozenset("matmul dot vdot inner outer kron tensordot einsum trace vecdot".split())  # noqa: SIM905


def library_function(module: str, name: str) -> Any:
    """Return a pycudakit function; its module is imported when it is needed."""
    return getattr(importlib.import_module(module), name)


def call_with_arrays(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Call a pycudakit function, with host arrays but for `topk` and image functions."""
    _count(trace, function, arguments, keywords)
    if function.__name__ == "topk" and trace.buffers.scope.is_open:
        result = topk(trace, *arguments, **keywords)
        if result is not NotImplemented:
            return result
    if function.__module__.startswith(_IMAGE):
        captured = _captured_image(trace, function, arguments, keywords)
        return trace.on_device(function, arguments, keywords) if captured is None else captured
    return trace.on_host(function, arguments, keywords, may_write="out" in keywords)


def _count(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> None:
    name = function.__name__
    if name in ("matmul", "dot") and _are_matrices(arguments):
        trace.costs.multiplied(*arguments)
        return
    sizes = [tracer.size for tracer in iter_tracers((arguments, keywords))]
    is_planned = name in _CAPTURED or name in _CAPTURED_SCANS or name in _PRODUCTS
    is_planned |= name in _CAPTURED_IMAGES and function.__module__.startswith(_IMAGE)
    trace.costs.called(max(sizes, default=0), runs_in_numpy=name in _PRODUCTS, has_plans_on_gpu=is_planned)


def _are_matrices(arguments: Any) -> bool:
    """Return True for two factors of which one is a matrix, and the other one, too, or a vector."""
    are_arrays = len(arguments) == 2 and all(type(each) in (Tracer, np.ndarray) for each in arguments)
    return are_arrays and sorted([each.ndim for each in arguments]) in ([1, 2], [2, 2])


def call_library_function(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Call a function of pycudakit in a fused function, with `out=` handled by the trace."""
    return trace.run_with_out(function, functools.partial(_own_function, function), arguments, keywords)


def _own_function(function: Any, trace: Trace, *arguments: Any, **keywords: Any) -> Any:
    num_device_args = _OWN_ON_DEVICE.get(function.__name__, 0)
    device_args = arguments[:num_device_args]
    if num_device_args and len(device_args) == num_device_args and all(map(has_elements, device_args)):
        return call_on_device(trace, function, arguments, keywords, num_device_args)
    return call_with_arrays(trace, function, arguments, keywords)


def call_on_device(
    trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any], num_device_args: int = 1
) -> Any:
    """Call a function whose first `num_device_args` arguments may be device-resident."""
    if function.__name__ in _CAPTURED_SCANS and trace.capture is not None:
        scanned = _captured_scan(trace, function, arguments, keywords)
        if scanned is not None:
            return scanned
    if keywords.get("out") is not None:  # a result on the device cannot be written to it
        return call_with_arrays(trace, function, arguments, keywords)
    _count(trace, function, arguments, keywords)
    results_stay_on_device = function.__name__ in _NO_HOST_READS
    return trace.on_device(function, arguments, keywords, num_device_args, results_stay_on_device)


def library_handler(module: str, name: str, is_on_device: bool = False) -> Handler:
    """Return a handler that calls the pycudakit function of this name; on the device if `is_on_device`."""

    def handle(trace: Trace, *arguments: Any, **keywords: Any) -> Any:
        out, function = unwrap_out(name, keywords.get("out")), library_function(module, name)
        if out is not keywords.get("out"):
            keywords = {**keywords, "out": out}
        if name in ("matmul", "dot") and trace.capture is not None:
            product = _captured_product(trace, function, arguments, keywords)
            if product is not None:
                return product
        if name in _CAPTURED and arguments and trace.capture is not None:
            captured = _CAPTURED[name](trace, function, arguments, keywords)
            if captured is not None:
                return captured
        if name in _OF_TWO and trace.buffers.scope.is_open:
            arguments = (*_converted(name, arguments[:2]), *arguments[2:])
        if is_on_device and _needs_no_conversion(name, arguments, keywords):
            num_device_args = 2 if name in _PRODUCTS or name in _OF_TWO else 1
            result = call_on_device(trace, function, arguments, keywords, num_device_args)
        else:
            result = call_with_arrays(trace, function, arguments, keywords)
        return result if out is None else out

    return handle


def _captured_product(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Compute `matmul` or `dot` in a call that is to be replayed; return None if it cannot be."""
    factors = [_as_tracer(trace, each) for each in arguments]
    if len(factors) != 2 or keywords or any(each is None for each in factors):
        return None
    a, b = map(trace.materialize, factors)
    if function.__name__ == "dot":
        return _captured_dot(trace, function, a, b) if a.ndim == b.ndim == 1 else None
    shape = result_shape(a, b)
    if shape is not None and a.dtype == b.dtype and not a.shape[-1] and math.prod(shape):
        return _sums_of_nothing(trace, shape, a.dtype)
    result = np.empty(() if shape is None else shape, a.dtype)
    if a.dtype == b.dtype and not result.size:
        return Tracer(trace, leaf(result, trace.executor.buffer_of_result(result)))
    product = None if shape is None or trace.engine == "cuda" else product_of(a, b, result)
    capture = trace.capture
    if product is None or capture is None:
        return None
    native_call.run_numpy("matmul", _REASON_BLAS, lambda: np.matmul(a, b, out=result))
    capture.add_product(product, [a, b, result])
    return Tracer(trace, leaf(result, trace.executor.buffer_of_result(result)), result.ndim == 0)


def _as_tracer(trace: Trace, value: Any) -> Any:
    """Return a tracer for an array; None for other values, and for large arrays that are not arguments."""
    if type(value) is not np.ndarray:
        return value if type(value) is Tracer and not value.is_scalar else None
    return trace.tracer_of_leaf(value)


def _captured_scan(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> Tracer | None:
    """Scan an array in a call that is to be replayed; return None if it cannot be."""
    capture = trace.capture
    array, rest = arguments[0], (*arguments[1:], *keywords.values())
    if capture is None or array.is_scalar or not array.size or keywords.get("out") is not None:
        return None
    if any(type(each) is Tracer for each in rest):
        return None
    return captured_call(trace, capture, function, [trace.materialize(array)], arguments[1:], keywords)


def _captured_dot(trace: Trace, function: Any, a: Array, b: Array) -> Any:
    """Compute the sum of products of two vectors, which is a reduction."""
    capture = trace.capture
    if capture is None or a.dtype != b.dtype or a.shape != b.shape:
        return None
    if not a.size:
        return _sums_of_nothing(trace, (), a.dtype)
    return captured_reduction(trace, capture, "dot", [a, b], lambda: function(a, b))


def _captured_take(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> Tracer | None:
    """Take elements by an array of indices in a call that is to be replayed; return None if it cannot be."""
    capture = trace.capture
    pair, axis = [_as_tracer(trace, each) for each in _converted("take", arguments[:2])], arguments[2:]
    if capture is None or len(pair) != 2 or not all(map(has_elements, pair)):
        return None
    if pair[1].ndim == 1 and not layout_stub(pair[1]).flags.c_contiguous:
        pair[1] = pair[1].copy()
    if not _needs_no_conversion("take", (*pair, *axis), keywords) or keywords.get("mode", "raise") != "raise":
        return None
    array, indices = map(trace.materialize, pair)
    if not (array.flags.c_contiguous and array.dtype.isnative):
        return None
    return captured_call(trace, capture, function, [array, indices], axis, keywords)


def _captured_sort(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> Tracer | None:
    """Sort or argsort along the last axis in a call that is to be replayed; return None if it cannot be."""
    capture, (first, *rest) = trace.capture, arguments
    if capture is None or not _needs_no_conversion(function.__name__, arguments, keywords):
        return None
    if not set(keywords) <= {"axis", "kind", "stable"} or keywords.get("axis", 0) is None or len(rest) > 2:
        return None
    if (rest and rest[0] is None) or any(type(each) is Tracer for each in (*rest, *keywords.values())):
        return None
    array = trace.materialize(first)
    return (
        captured_call(trace, capture, function, [array], rest, keywords) if array.flags.c_contiguous else None
    )


def _captured_search(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> Tracer | None:
    """Search a sorted array in a call that is to be replayed; return None if it cannot be."""
    capture, rest = trace.capture, arguments[2:]
    pair = _converted("searchsorted", [_as_tracer(trace, each) for each in arguments[:2]])
    if capture is None or len(pair) != 2 or not all(map(has_elements, pair)):
        return None
    if not _needs_no_conversion("searchsorted", (*pair, *rest), keywords):
        return None
    arrays = [trace.materialize(each) for each in pair]
    if not all(array.flags.c_contiguous and array.dtype.isnative for array in arrays):
        return None
    return captured_call(trace, capture, function, arrays, rest, keywords)


def _captured_interp(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> Tracer | None:
    """Interpolate between points that are no tracers in a call that is to be replayed; None if impossible."""
    capture, (x, *rest) = trace.capture, arguments
    if capture is None or len(rest) < 2 or not _needs_no_conversion("interp", arguments, keywords):
        return None
    if any(type(each) is Tracer for each in (*rest, *keywords.values())):  # Python reads the points
        return None
    points = [np.asarray(each) for each in rest[:2]]
    if any(each.dtype not in CODES for each in points):  # such as complex numbers
        return None
    arrays = [_as_tracer(trace, np.ascontiguousarray(each, FLOAT64)) for each in points]
    if any(each is None for each in arrays):
        return None
    at = trace.materialize(x)
    if not at.flags.c_contiguous:
        return None
    return captured_call(trace, capture, function, [at, *map(trace.materialize, arrays)], rest[2:], keywords)


def _captured_digitize(
    trace: Trace, _function: Any, arguments: Any, keywords: dict[str, Any]
) -> Tracer | None:
    """Search increasing edges that are no tracer, as `numpy.digitize` does; None if that is impossible."""
    if trace.capture is None or len(arguments) != 2 or not keywords.keys() <= {"right"}:
        return None
    x, edges = arguments
    is_right = keywords.get("right", False)
    if type(is_right) is not bool or not has_elements(x) or type(edges) not in (np.ndarray, list, tuple):
        return None
    edges = np.asarray(edges)
    if edges.ndim != 1 or edges.dtype not in CODES or not edges.size or not np.all(edges[1:] >= edges[:-1]):
        return None
    return trace.call(np.searchsorted, (edges, x), {"side": "left" if is_right else "right"})  # type: ignore[no-any-return]


def _captured_image(trace: Trace, function: Any, arguments: Any, keywords: dict[str, Any]) -> Tracer | None:
    """Call a function of `image` in a call that is to be replayed; return None if it cannot be."""
    capture = trace.capture
    if capture is None or function.__name__ not in _CAPTURED_IMAGES or not arguments:
        return None
    image, *rest = arguments
    if not has_elements(image) or any(type(each) is Tracer for each in (*rest, *keywords.values())):
        return None
    array = trace.materialize(image)
    if not (array.flags.c_contiguous and array.dtype.isnative):
        return None
    return captured_call(trace, capture, function, [array], rest, keywords)


# Functions whose calls are requests of a plan.
_CAPTURED: dict[str, Callable[..., Tracer | None]] = {
    "take": _captured_take,
    "sort": _captured_sort,
    "argsort": _captured_sort,
    "searchsorted": _captured_search,
    "interp": _captured_interp,
    "digitize": _captured_digitize,
}
# Functions of `image` whose Python code reads no values, and whose calls are requests of a plan, too.
_IMAGE_NAMES = """box_blur convolve correlate crop flip gaussian_blur gray_to_rgb laplace maximum_filter
median_filter minimum_filter resize rgb_to_gray rotate90 sobel"""
_CAPTURED_IMAGES = frozenset(_IMAGE_NAMES.split())


def _sums_of_nothing(trace: Trace, shape: tuple[int, ...], dtype: DType) -> Tracer:
    zeros = full(trace, shape, 0, dtype)
    zeros.is_scalar = not shape
    return zeros


def _converted(name: str, pair: Any) -> Any:
    """Cast two operands to the dtypes that the C entries take."""
    if len(pair) != 2:
        return pair
    first, second = pair
    if name == "searchsorted" and type(first) is type(second) is Tracer and first.dtype != second.dtype:
        dtype = np.result_type(first.dtype, second.dtype)
        return [each if each.dtype == dtype else each.astype(dtype) for each in pair]
    if name == "take" and type(second) in (list, tuple) and all(type(each) is int for each in second):
        return first, np.array(second, np.int64)
    is_narrow = type(second) is Tracer and second.dtype.kind in "iu" and second.dtype.itemsize < 8
    return (first, second.astype(np.int64)) if is_narrow and name != "searchsorted" else pair


def _needs_no_conversion(name: str, arguments: Any, keywords: dict[str, Any]) -> bool:
    """Return True if the first arguments need no cast, copy or host read before the call."""
    if name in _OF_TWO:
        return len(arguments) >= 2 and _pair_needs_no_conversion(name, arguments, keywords)
    first: Any = arguments[0] if arguments else None
    if not has_elements(first):
        return False
    if name == "interp":  # a period reduces `x` on the host
        has_period = len(arguments) > 5 or keywords.get("period") is not None
        return bool(first.dtype == np.float64) and not has_period
    if name == "histogram":  # bin estimators read all elements
        rule = arguments[1] if len(arguments) > 1 else keywords.get("bins")
        weights = arguments[4] if len(arguments) > 4 else keywords.get("weights")
        return not isinstance(rule, str) and weights is None
    if name == "bincount":  # weights have a device implementation of their own
        weights = arguments[1] if len(arguments) > 1 else keywords.get("weights")
        return weights is None
    if name in ("cumulative_prod", "cumulative_sum"):
        return not keywords.get("include_initial", False)
    if name in _PRODUCTS:
        return len(arguments) == 2 and all(has_elements(a) and a.ndim == 1 for a in arguments)
    if name in ("sort", "argsort", "partition", "argpartition"):
        before = 1 + ("partition" in name)  # arguments before the axis
        axis = arguments[before] if len(arguments) > before else keywords.get("axis", -1)
        is_last = axis in (None, -1, first.ndim - 1) and not keywords.get("descending")
        return is_last and first.dtype.isnative and may_sort_in_c_order(first)
    return True


def has_elements(a: Any) -> bool:
    """Return True for the tracer of an array that is neither 0-d nor empty."""
    return type(a) is Tracer and a.ndim > 0 and a.size > 0


def _pair_needs_no_conversion(name: str, arguments: Any, keywords: dict[str, Any]) -> bool:
    """Do the same as `_needs_no_conversion` for a function of `_OF_TWO`; one array may be on the host."""
    first, second, *rest = arguments
    if not all(type(a) is Tracer or isinstance(a, np.ndarray) for a in (first, second)):
        return False
    if name == "searchsorted":
        are_plain = len(rest) <= 1 and keywords.keys() <= {"side"}
        return are_plain and first.dtype == second.dtype and first.ndim == 1 and second.ndim > 0
    if second.dtype != np.int64 or second.ndim == 0 or first.ndim == 0:
        return False
    if type(second) is Tracer and not layout_stub(second).flags.c_contiguous:
        return False  # NumPy's result has that layout, too
    if name == "take":
        return len(rest) <= 1 and keywords.keys() <= {"axis", "mode"}
    axis = rest[0] if rest else keywords.get("axis", -1)
    are_alike = first.ndim == second.ndim and first.shape[:-1] == second.shape[:-1]
    return are_alike and (first.ndim == 1 if axis is None else axis in (-1, first.ndim - 1))


def _comparison(name: str) -> Handler:
    numpy_function = getattr(np, name)
    signature = inspect.signature(numpy_function)

    def handle(trace: Trace, *arguments: Any, **keywords: Any) -> Any:
        if trace.capture is not None:
            a, b, *rest = signature.bind(*arguments, **keywords).args
            are_equal = _captured_comparison(trace, numpy_function, a, b, rest)
            if are_equal is not None:
                return are_equal
        return call_library_function(
            trace, library_function(f"{FAMILIES}.expression.comparisons", name), arguments, keywords
        )

    return handle


def _captured_comparison(trace: Trace, function: Any, a: Any, b: Any, rest: list[Any]) -> bool | None:
    """Compare two arrays in a call that is to be replayed, which branches on the result.

    Return None if that is impossible.
    """
    are_numbers = all(type(each) in (bool, int, float) and math.isfinite(each) for each in rest)
    if not (has_elements(a) and has_elements(b) and are_numbers):
        return None
    if function is np.allclose:
        are_close = np.isclose(a, b, *rest)
    elif any(rest):  # NaN may equal NaN
        return None
    elif a.shape != b.shape:
        return False
    else:
        are_close = a == b
    result: Any = np.all(are_close)
    return trace.branches_on(result) if type(result) is Tracer else None


for _name in ("allclose", "array_equal"):
    LIBRARY_CALLS[getattr(np, _name)] = _comparison(_name)

for _table in (_ON_HOST, _ON_DEVICE):
    for _module, _names in _table.items():
        for _name in _names.split():
            if hasattr(np, _name):  # some are newer than NumPy 2.0
                LIBRARY_CALLS[getattr(np, _name)] = library_handler(
                    f"{FAMILIES}.{_module}", _name, is_on_device=_table is _ON_DEVICE
                )


@_implements(np.linalg.norm)
def _norm(trace: Trace, x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    function, rest = library_function("pycudakit.linalg", "norm"), {"axis": axis, "keepdims": keepdims}
    is_of_sums = ord in (None, "fro") or type(ord) in (int, float)
    if has_elements(x) and is_of_sums and not (ord in (2, -2) and _is_of_matrices(x, axis)):
        if (capture := trace.capture) is not None:
            array = trace.materialize(x)
            return captured_reduction(trace, capture, "norm", [array], lambda: function(array, ord, **rest))
        _count(trace, function, (x,), {})
        return trace.on_device(function, (x, ord), rest, results_stay_on_device=True)
    return call_with_arrays(trace, function, (x, ord), rest)


def _is_of_matrices(x: Tracer, axis: Any) -> bool:
    return (x.ndim if axis is None else len(axis) if type(axis) is tuple else 1) == 2
