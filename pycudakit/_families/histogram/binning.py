"""Bins in the ABI's format, and the calls that count with them: `pk_histogram` and its relatives."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._families.reduce import min_max
from pycudakit._native import abi, allocator
from pycudakit._native.dtypes import FLOAT32, FLOAT64, INT64, UINT64, Array, DType
from pycudakit._runtime import native_call
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.native_call import last_call, run
from pycudakit._runtime.operands import code_for, fill_operand_row

MAX_BINS = 2**31 - 256


class Bins:
    """Bins along one axis: a row in the ABI's format, and the array of edges that it points to."""

    def __init__(self, row: Array, edges: Array | None) -> None:
        self.row = row
        self.edges = edges

    @property
    def count(self) -> int:
        """The number of bins."""
        return int(self.row["count"][0])


def _bins(how: int, count: int, edges: Array | None = None, **fields: Any) -> Bins:
    row = np.zeros(1, abi.BINS)
    row["kind"], row["count"] = how, count
    if edges is not None:
        row["edges"] = edges.ctypes.data
        row["type"] = code_for(edges.dtype)
    for name, value in fields.items():
        row[name] = value
    return Bins(row, edges)


def integer_bins(count: int) -> Bins:
    """Return one bin for each integer from 0 to `count` - 1."""
    return _bins(abi.BINS_INDEX, count)


def edge_bins(edges: Array, values: DType) -> Bins:
    """Return the bins between edges, in the type in which NumPy compares values with them."""
    common = np.promote_types(values, edges.dtype)
    if common.kind in "biu":
        type_ = INT64 if common.kind == "i" else UINT64
    else:
        type_ = FLOAT64 if common.itemsize == 8 else FLOAT32
    with np.errstate(over="ignore"):
        return _bins(abi.BINS_EDGES, len(edges) - 1, np.ascontiguousarray(edges.astype(common), type_))


def with_edges_at(bins: Bins, edges: Array) -> Bins:
    """Return a copy of the bins with their edges in another array."""
    row = bins.row.copy()
    row["edges"] = edges.ctypes.data
    return Bins(row, edges)


def uniform_bins(edges: Array, first: Any, last: Any, values: DType) -> Bins | None:
    """Return the uniform bins that `np.histogram` makes between two numbers; None if only NumPy can."""
    count = len(edges) - 1
    if edges.dtype not in (np.float16, FLOAT32, FLOAT64):
        return None
    with np.errstate(all="ignore"):
        width = _difference(last, first)
        # The type of NumPy's expression, found with an empty array.
        quotient = (np.empty(0, edges.dtype) / width * count).dtype
        if not (np.isfinite(width) and np.isfinite(edges).all()):
            return None
        low, high = _limit(values, first, greatest=False), _limit(values, last, greatest=True)
    if low is None or high is None:
        low, high = values.type(1), values.type(0)  # an empty range: no element is inside
    stored = np.require(edges, FLOAT32 if edges.dtype == np.float16 else edges.dtype, ["C", "A"])
    return _bins(
        *(abi.BINS_UNIFORM, count, stored),
        type=code_for(edges.dtype),
        compute_type=code_for(quotient),
        low=_bits(low),
        high=_bits(high),
        first=np.asarray(first).astype(edges.dtype),
        width=np.asarray(width).astype(quotient),
    )


def _difference(last: Any, first: Any) -> Any:
    """Return the difference that `np.histogram` divides by; that of signed integers is unsigned."""
    common = np.result_type(last, first)
    if common.kind != "i":
        return np.subtract(last, first, dtype=common)
    unsigned = np.dtype(f"u{common.itemsize}")
    return np.subtract(np.asarray(last, common), np.asarray(first, common), casting="unsafe", dtype=unsigned)


def _limit(dtype: Any, edge: Any, greatest: bool) -> Any:
    """Return the least (or greatest) element that NumPy finds inside an edge; None if there is none."""
    compare = np.less_equal if greatest else np.greater_equal

    def is_inside(value: Any) -> bool:
        return bool(compare(np.array([value], dtype), edge)[0])

    if dtype.kind == "f":
        nearest = np.asarray(edge).astype(dtype)[()]
        return (
            nearest
            if is_inside(nearest)
            else np.nextafter(nearest, dtype.type(-np.inf if greatest else np.inf))
        )
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    whole: Any = (
        operator.index if isinstance(edge, (int, np.integer)) else math.floor if greatest else math.ceil
    )
    inside: int = min(max(whole(edge), least), most)
    if not is_inside(inside):
        return None
    if abs(inside) > 2**53 and not isinstance(edge, (int, np.integer)):
        # Rounded to floats, more integers are inside: find the last one by bisection.
        outside = most if greatest else least
        if is_inside(outside):
            return dtype.type(outside)
        while abs(outside - inside) > 1:
            middle = (inside + outside) // 2
            inside, outside = (middle, outside) if is_inside(middle) else (inside, middle)
    return dtype.type(inside)


def _bits(element: Any) -> int:
    return int.from_bytes(np.asarray(element).tobytes().ljust(8, b"\0"), "little")


def table(arrays: Sequence[Array]) -> Array:
    """Make the operand table of arrays of one shape."""
    rows = np.zeros(len(arrays), abi.OPERAND)
    for row, array in zip(rows, arrays, strict=True):
        fill_operand_row(row, array, array.strides)
    return rows


def _shape(array: Array) -> tuple[Array, int]:
    return np.array(array.shape or (1,), np.int64), array.ndim


def value_range(chosen: EngineChoice, values: Array) -> Array:
    """Return the least and the greatest element, or NaN for both if any is NaN."""
    if allocator.may_be_on_device():  # pk_extent would download the array
        return np.array([min_max.min(values), min_max.max(values)], values.dtype.newbyteorder("="))
    bits = np.zeros(2, np.uint64)
    run(chosen, "pk_extent", table([values]), *_shape(values), bits, size=values.size)
    return _elements(bits, values)


def _elements(bits: Array, values: Array) -> Array:
    elements: Array = bits.view(values.dtype.newbyteorder("="))[:: 8 // values.itemsize]
    return elements


_FIND = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64), ctypes.c_void_p)


def count_over_min_max(
    chosen: EngineChoice, values: Array, count: int, find: Callable[[Array], Bins]
) -> Array:
    """Count elements in bins that `find` makes from the least and the greatest element, in one call.

    The library calls `find` back between its two passes. The result is that of `count`.
    """
    raised: list[BaseException] = []
    kept_alive: list[Bins] = []

    def write_bins(value_range: Any, row: int) -> int:
        try:
            bins = find(_elements(np.array(value_range[:2], np.uint64), values))
            kept_alive.append(bins)
            ctypes.memmove(row, bins.row.ctypes.data, bins.row.nbytes)
        except BaseException as error:  # noqa: BLE001
            raised.append(error)
            return 1
        return 0

    callback = _FIND(write_bins)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    counts = np.empty(count + 2, np.int64)
    arguments = (table([values]), *_shape(values), address, count, counts)
    try:
        run(chosen, "pk_histogram_of_extent", *arguments, size=values.size)
    except errors.Interrupted:
        if raised:
            raise raised[0] from None
        raise
    _report_host_fallback(chosen, values.size)
    return counts


def arguments(values: Sequence[Array], bins: Sequence[Bins], weights: Sequence[Array]) -> tuple[Any, ...]:
    """Return the leading arguments of the counting entries, before their results."""
    operands, rows = [*values, *weights], np.concatenate([axis.row for axis in bins])
    return (table(operands), len(operands), *_shape(values[0]), rows, len(bins))


def total_bins(bins: Sequence[Bins]) -> int:
    """Return the number of bins over all axes."""
    return math.prod(axis.count for axis in bins)


def count(chosen: EngineChoice, values: Sequence[Array], bins: Sequence[Bins]) -> Array:
    """Return the counts of all bins, and the two further counts of `pk_histogram`."""
    counts = np.empty(total_bins(bins) + 2, np.int64)
    size = values[0].size
    run(chosen, "pk_histogram", *arguments(values, bins, ()), counts, size=size)
    _report_host_fallback(chosen, size)
    return counts


_NO_ROOM = "counted on the host: the bins exceed the GPU's memory budget"


def _report_host_fallback(chosen: EngineChoice, size: int, why: str = _NO_ROOM) -> None:
    """Add to the call log why the GPU did not count, if it did not."""
    call = last_call() if chosen.engine == "cuda" and size else None
    if call is not None and call.engine == "cuda" and not call.stages.get("kernel"):
        native_call.add_reason(why)


def weighted_count(
    chosen: EngineChoice,
    values: Sequence[Array],
    bins: Sequence[Bins],
    weights: Array,
    as_integers: bool = False,
) -> tuple[Array, bool]:
    """Return the sum of weights in each bin, as float64 or integers, and whether an element was in no bin."""
    leading = arguments(values, bins, (weights,))
    total, size = total_bins(bins), values[0].size
    if as_integers:
        counts = np.empty(total + 2, np.int64)
        run(chosen, "pk_histogram", *leading, counts, size=size)
        _report_host_fallback(chosen, size, "weights are added on the host")
        lost = bool(counts[-1])
        return first(counts, total), lost
    sums, outside = np.empty(total), np.empty(2, np.int64)
    run(chosen, "pk_weighted_histogram", *leading, sums, outside, size=size)
    _report_host_fallback(chosen, size, "weights are added on the host")
    return sums, bool(outside[1])


def first(counts: Array, count: int) -> Array:
    """Return the first counts: the array itself, which owns its memory, without the others."""
    counts.resize(count, refcheck=False)
    return counts


def bin_indices(chosen: EngineChoice, values: Array, bins: Bins, right: bool, decreasing: bool) -> Array:
    """Return, for each element, the number of edges before it."""
    result = allocator.empty(values.shape, np.int64)
    operands = table([values, result])
    run(chosen, "pk_digitize", operands, *_shape(values), bins.row, right, decreasing, size=values.size)
    return result
