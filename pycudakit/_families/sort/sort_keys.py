"""Shared parts of the sorting functions: engine choice by cost, arrays as rows of keys, and `pk_sort`."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._families.elementwise.manipulation import copy_to, in_c_order, is_copied_by_engine
from pycudakit._native import abi, allocator, calibration_file, engine_status
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.call_log import Call
from pycudakit._runtime.cost_model import (
    CALL,
    CUDA_CALL,
    MEASURED_ELEMENTS,
    MIN_SECONDS_FOR_THREADS,
    measure_numpy,
    numpy_partition_ns,
    threads,
)
from pycudakit._runtime.engine_choice import NO_COST, Cost, EngineChoice, choose_engine, numpys_estimates

# Nanoseconds per byte of the CPU engine's radix sort on one thread.
SORTS, ARGSORTS = 3.5, 6.0
# NumPy's nanoseconds per element and doubling of the row's length, if they are not measured.
_NUMPY_SORTS, _NUMPY_ARGSORTS = 0.65, 2.5
# More threads do not sort faster: they wait for memory, and for each other at each digit.
SORTING_THREADS = 6
# Nanoseconds per element: our selection of a few, and one search step of ours and of NumPy's.
SELECTS, SEARCH_STEP, NUMPY_SEARCH_STEP = 1.5, 1.0, 3.0
_GPU_SORT = 0.5e-3  # seconds of a sort of few elements, in addition to a call on the GPU
# The same of NumPy's hashing in `unique`: of few distinct numbers, of one byte each, and of distinct numbers.
_HASHES_FEW, _HASHES_BYTES, _HASHES_DISTINCT = 12.0, 4.0, 60.0
_HASHES = np.lib.NumpyVersion(np.__version__) >= "2.3.0"  # older ones sort
_SAMPLE = 64  # elements that are compared to tell whether most are distinct
# Nanoseconds per element of `isin`: NumPy per comparison, in a cache and in memory, and by table; ours, in
# addition to the search, and per comparison and byte.
NUMPY_COMPARES, NUMPY_COMPARES_IN_MEMORY, NUMPY_TABLE_LOOKUP, FINDS, COMPARES = 0.1, 0.3, 7.0, 10.0, 0.03
_CACHE_BYTES = 4 << 20
MAX_COMPARED = 64  # test elements with which `isin` compares each element; it searches in more


def axis_length(array: Array, axis: Any) -> int:
    """Return the length of an axis; an invalid axis is reported later."""
    if axis is None or array.ndim == 0:
        return array.size
    try:
        return int(array.shape[operator.index(axis)])
    except (IndexError, TypeError):
        return array.size


@functools.cache
def numpy_sorts(dtype: np.dtype[Any], order: str | None = None) -> float:
    """Return NumPy's nanoseconds per element and doubling of the row's length, to sort or to argsort.

    They are measured at the first call in a process: processors with the same vector instructions differ
    fourfold, and NumPy has vectorised or radix sorts only for some types. `order` is a kind of
    `numpy.argsort`, or None to sort.
    """
    if not calibration_file.is_enabled():
        # A vector holds half as many numbers of 8 bytes.
        return _NUMPY_ARGSORTS if order else _NUMPY_SORTS * (2 if dtype.itemsize == 8 else 1)
    compute = functools.partial(np.argsort, kind=order) if order else np.sort  # type: ignore[arg-type]
    return measure_numpy(compute, dtype) / math.log2(MEASURED_ELEMENTS)


def cost_of(
    array: Array,
    numpy: float | None,
    ours: float,
    down: int,
    most_threads: int = SORTING_THREADS,
    gpu: float = _GPU_SORT,
) -> Cost:
    """Estimate a cost from `numpy` and `ours` nanoseconds per element and `down` result bytes per element.

    `gpu` are the seconds that the GPU takes for few elements.
    """
    size, item = array.size, array.itemsize
    work = ours * 1e-9 * size
    on_cpu = CALL + work / (min(threads(), most_threads) if work > MIN_SECONDS_FOR_THREADS else 1)
    if array.dtype.kind == "f" and item == 2:
        numpy = None  # NumPy 2.4 sorts large float16 arrays wrongly on some processors
    # A sort uploads all before it downloads anything.
    on_gpu = gpu + 0.05e-9 * item * size
    return Cost(None if numpy is None else numpy * 1e-9 * size, on_cpu, size * (item + down), 0, on_gpu)


def plan_sort(array: Array | None, axis: Any, order: str | None = None) -> EngineChoice:
    """Choose the engine to sort along an axis; `order` is the kind of sort in NumPy, if not its default."""
    return _planned("sort", array, _cost_of_sort, axis, order)


def plan_argsort(array: Array | None, axis: Any) -> EngineChoice:
    """Choose the engine for a stable argsort along an axis."""
    return _planned("argsort", array, _cost_of_argsort, axis)


def plan_lexsort(keys: Sequence[Array | None], axis: Any) -> EngineChoice:
    """Choose the engine to sort by several keys of one shape, the last of which is the primary one."""
    decides = context.current_engine() == "auto"
    return choose_engine("lexsort", keys, _cost_of_lexsort(keys, axis) if decides else NO_COST)


def _planned(name: str, array: Array | None, cost: Callable[..., Cost], *arguments: Any) -> EngineChoice:
    """Choose the engine of a call; its cost is computed only if it matters, under `auto`."""
    decides = array is not None and context.current_engine() == "auto"
    return choose_engine(name, [array], cost(array, *arguments) if decides else NO_COST)


def _cost_of_sort(array: Array, axis: Any, order: str | None = None) -> Cost:
    numpy = numpy_sorts(array.dtype, order) * _doublings(array, axis)
    return cost_of(array, numpy, SORTS * array.itemsize, array.itemsize)


def _cost_of_argsort(array: Array, axis: Any) -> Cost:
    numpy = numpy_sorts(array.dtype, "stable") * _doublings(array, axis)
    return cost_of(array, numpy, ARGSORTS * array.itemsize, 8)


def _cost_of_lexsort(keys: Sequence[Array | None], axis: Any) -> Cost:
    ordinary = [key for key in keys if key is not None]
    numpy = sum(numpy_sorts(key.dtype, "stable") for key in ordinary) * _doublings(ordinary[0], axis)
    return cost_of(ordinary[0], numpy, sum(ARGSORTS * key.itemsize for key in ordinary), 8)


def _doublings(array: Array, axis: Any) -> float:
    return math.log2(axis_length(array, axis) + 1)


def as_keys(array: Array) -> tuple[str, Array]:
    """Return the ABI's name of a type, and the array as dense keys of it."""
    native = array.dtype.newbyteorder("=")
    dense = in_c_order(array, native)
    if native.kind == "b":
        return "u8", dense.view(np.uint8)
    name = f"{native.kind}{8 * native.itemsize}"
    return name, dense.view(abi.SORTED[name])


def _in_rows(array: Array, axis: int) -> tuple[str, Array, int, int]:
    """Return the type's name, and the keys with an axis last, with the numbers of rows and columns."""
    name, keys = as_keys(np.moveaxis(array, axis, -1))
    columns = keys.shape[-1]
    return name, keys, keys.size // columns if columns else 0, columns


def _flattened(array: Array, axis: Any) -> tuple[Array, int]:
    """Return the array and axis to sort: flattened if the axis is None."""
    if axis is None:
        return array.ravel(), 0
    return array, normalize_axis_index(axis, array.ndim)


def has_strided_rows(array: Array | None, axis: Any) -> bool:
    """Return True if an engine should copy an array so that its rows along an axis are contiguous.

    That is faster than any sort along a strided axis. An invalid axis is reported later.
    """
    if array is None or array.ndim < 2 or axis is None or isinstance(axis, bool):
        return False
    try:
        rows = np.moveaxis(array, operator.index(axis), -1)
    except (TypeError, ValueError):
        return False
    return is_copied_by_engine(rows)


def by_rows(
    name: str, array: Array, axis: Any, compute: Callable[[Array], Array], returns_indices: bool = False
) -> Array:
    """Compute a function along an axis on contiguous rows.

    The result has the memory layout of the array, or C order if it is one of indices.
    """

    def call() -> Array:
        rows = in_c_order(np.moveaxis(array, axis, -1), array.dtype.newbyteorder("="), is_logged=True)
        result = np.moveaxis(compute(rows), -1, axis)
        if returns_indices or (array.dtype.isnative and array.flags.c_contiguous):
            return copy_to(allocator.empty(result.shape, result.dtype), result, is_logged=True)
        return copy_to(np.empty_like(array), result, is_logged=True)

    return native_call.as_one_call(name, call)


def check_kind(function: Any, array: Array, kind: Any, order: Any, stable: Any) -> None:
    """Raise NumPy's error for an invalid `kind`, `order` or `stable`."""
    if not (kind is None and order is None and stable is None):
        function(np.empty(0, array.dtype), kind=kind, order=order, stable=stable)


def sorted_along(choice: EngineChoice, array: Array, axis: Any) -> Array:
    """Sort an array along an axis into a new one of the same memory layout."""
    array, axis = _flattened(array, axis)
    name, keys, rows, columns = _in_rows(array, axis)
    out = allocator.empty(keys.shape, array.dtype.newbyteorder("="))
    native_call.run(choice, f"pk_sort_{name}", keys, out.view(keys.dtype), rows, columns, size=keys.size)
    result = operands.last_axis_to(out, axis)
    same_layout = array.strides == result.strides or (array.flags.c_contiguous and result.flags.c_contiguous)
    if array.dtype.isnative and (same_layout or array.ndim == 1):
        return result
    return copy_to(np.empty_like(array), result)


def argsort_along(
    choice: EngineChoice, array: Array, axis: Any, kept: int | None = None, descending: bool = False
) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return the first `kept` indices of a stable argsort along an axis, C-contiguous."""
    array, axis = _flattened(array, None if axis is None else operands.axis_index(axis, array.ndim))
    name, keys, rows, columns = _in_rows(array, axis)
    kept = columns if kept is None else kept
    order = allocator.empty((*keys.shape[:-1], kept), np.int64)
    arguments = keys, order, rows, columns, kept, int(descending)
    native_call.run(choice, f"pk_argsort_{name}", *arguments, size=keys.size)
    indices = operands.last_axis_to(order, axis)
    return in_c_order(indices, indices.dtype).astype(np.intp, copy=False)


def plan_partition(name: str, array: Array | None, down: int | None = None) -> EngineChoice:
    """Choose the engine of a partition, for which NumPy does not sort."""
    if array is None:
        return choose_engine(name, [None], NO_COST)
    if context.current_engine() != "auto":
        return choose_engine(name, [array], NO_COST)
    numpys = numpy_partition_ns(array.dtype.newbyteorder("="), down is not None)
    cost = cost_of(
        array, numpys, (SORTS if down is None else ARGSORTS) * array.itemsize, down or array.itemsize
    )
    return choose_engine(name, [array], cost)


def plan_search(array: Array, values: Array) -> EngineChoice:
    """Choose the engine of a binary search of values in a sorted array."""
    steps = math.log2(array.size + 2)
    ours, numpys = SEARCH_STEP * steps, NUMPY_SEARCH_STEP * steps
    cost = cost_of(values, None, ours, 8, most_threads=threads(), gpu=0.0)
    cost = cost._replace(numpy=numpys * 1e-9 * values.size, up=cost.up + array.nbytes)
    return choose_engine("searchsorted", [array, values], cost)


def plan_isin(array: Array, test_elements: Array, may_have_table: bool) -> EngineChoice:
    """Choose the engine of `isin`, for which NumPy may use a table or comparisons instead of sorting."""
    return _planned("isin", array, _cost_of_isin, test_elements, may_have_table)


def _cost_of_isin(array: Array, test_elements: Array, may_have_table: bool) -> Cost:
    numpy = None
    if may_have_table and np.result_type(array, test_elements).kind in "biu":
        span = int(test_elements.max()) - int(test_elements.min()) if test_elements.size else 0
        if span <= 6 * (array.size + test_elements.size):  # NumPy's rule
            numpy = NUMPY_TABLE_LOOKUP * (1 + test_elements.size / (array.size or 1))
    if numpy is None and test_elements.size < 10 * array.size**0.145:  # NumPy's rule
        is_in_cache = array.nbytes <= _CACHE_BYTES
        numpy = (NUMPY_COMPARES if is_in_cache else NUMPY_COMPARES_IN_MEMORY) * test_elements.size
    ours = SEARCH_STEP * math.log2(test_elements.size + 2) + FINDS
    if test_elements.size <= MAX_COMPARED:
        ours = min(ours, COMPARES * array.itemsize * test_elements.size + 1)
    return cost_of(array, numpy, ours, 1, most_threads=threads())


def plan_unique(array: Array | None, order: str | None, counted: bool) -> EngineChoice:
    """Choose the engine of `unique`, for which NumPy may argsort by the kind `order`, sort or hash."""
    return _planned("unique", array, _cost_of_unique, order, counted)


def _cost_of_unique(array: Array, order: str | None, counted: bool, has_distinct: bool | None = None) -> Cost:
    of_values = False
    if order or counted or array.dtype.kind == "f" or not _HASHES:
        numpy = numpy_sorts(array.dtype, order) * _doublings(array, None) + 1
    elif array.itemsize == 1:
        numpy = _HASHES_BYTES
    else:
        of_values = has_distinct is None
        has_distinct = _has_distinct(array) if has_distinct is None else has_distinct
        numpy = _HASHES_DISTINCT if has_distinct else _HASHES_FEW
    ours, down = (ARGSORTS, 8) if order else (SORTS, array.itemsize)
    return cost_of(array, numpy, ours * array.itemsize + 1, down)._replace(of_values=of_values)


def _has_distinct(array: Array) -> bool:
    """Return True if most elements of a sample of an array are distinct."""
    sample = array.flat[:: array.size // _SAMPLE + 1].tolist()
    return 2 * len(set(sample)) > len(sample)


def plan_topk(array: Array, axis: Any, k: int) -> EngineChoice:
    """Choose the engine of `topk`."""
    few = k < axis_length(array, axis) // 8
    ours = SELECTS if few else ARGSORTS * array.itemsize
    return choose_engine("topk", [array], cost_of(array, None, ours, 0 if few else 8))


# ---- Small calls ------------------------------------------------------------------------------------

# Elements below which NumPy is called without an estimate; and the largest size that is estimated.
FEW, _MAX_ELEMENTS = 2048, 1 << 22

# The cost of a plain call of one dimension.
_PLAIN: dict[str, Callable[[Array], Cost]] = {
    "sort": lambda array: _cost_of_sort(array, 0),
    "argsort": lambda array: _cost_of_argsort(array, 0),
    # Of distinct numbers, for which NumPy takes longest.
    "unique": lambda array: _cost_of_unique(array, None, False, has_distinct=True),
}


class NumpyFirst:
    """The number of elements, by type, up to which NumPy is fastest for plain calls of a function.

    Parameters
    ----------
    name
        The function.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.most: dict[np.dtype[Any], int] = {}  # filled lazily by `add_dtype`
        self._cost = _PLAIN[name]

    def add_dtype(self, array: Any) -> None:
        """Compute the limit for an array's type, for later calls."""
        if type(array) is not np.ndarray or array.dtype in self.most or context.current_engine() != "auto":
            return
        if operands.as_array(array) is None:
            return
        one, size = np.zeros((), array.dtype), FEW
        if engine_status.status("cpu"):
            while size < _MAX_ELEMENTS and self._numpy_is_fastest(np.broadcast_to(one, size * 9 // 8)):
                size = size * 9 // 8
        self.most[array.dtype] = size

    def record(self, array: Array) -> None:
        """Record a call that `most` left to NumPy."""
        native_call.thread_log.call = self._describe, array.size, array.dtype

    def _describe(self, size: int, dtype: np.dtype[Any]) -> Call:
        cost = self._cost(np.broadcast_to(np.zeros((), dtype), size))
        return Call(self.name, "numpy", str(numpys_estimates(cost)))

    def _numpy_is_fastest(self, array: Array) -> bool:
        cost = self._cost(array)
        least = CUDA_CALL if engine_status.status("cuda") else math.inf  # a GPU may be faster than both
        return cost.numpy is not None and cost.numpy <= min(cost.cpu, least)


SMALL_SORT, SMALL_ARGSORT, SMALL_UNIQUE = NumpyFirst("sort"), NumpyFirst("argsort"), NumpyFirst("unique")
