"""What the functions of sorting share: costs, and arrays as rows of keys."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._native import abi, allocator, calibration_file, engine_status
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, native_call, operands
from pycudakit._runtime.call_log import Call
from pycudakit._runtime.cost_model import (
    CALL,
    MEASURED_ELEMENTS,
    REASON_NUMPY_FASTER_FOR_SIZE,
    SHARED_WORK,
    measure_numpy,
    threads,
)
from pycudakit._runtime.engine_choice import NO_COST, Cost, EngineChoice, choose_engine

# Nanoseconds that we take on one thread for a byte.
SORTS, ARGSORTS = 3.5, 6.0
# NumPy's for an element and each doubling of its row, where they are not measured.
_NUMPY_SORTS, _NUMPY_ARGSORTS = 0.65, 2.5
# More threads than these sort no sooner: they wait for memory, and for each other at each digit.
SORTING_THREADS = 6
# For an element: NumPy's partition and its hashing, our pass that keeps a few, and a step of either's search.
NUMPY_PARTITIONS, NUMPY_HASHES, SELECTS, SEARCHES = 6.0, 12.0, 1.5, 2.0
# For an element of `isin`: NumPy's comparison with one other, its way by a table; and ours, beside searches.
NUMPY_COMPARES, NUMPY_TABLE_LOOKUP, FINDS = 0.3, 4.0, 10.0


def axis_length(array: Array, axis: Any) -> int:
    """Return the length of an axis; where there is no such axis, what follows will say so."""
    if axis is None or array.ndim == 0:
        return array.size
    try:
        return int(array.shape[operator.index(axis)])
    except (IndexError, TypeError):
        return array.size


@functools.cache
def numpy_sorts(dtype: np.dtype[Any], order: str | None = None) -> float:
    """Return NumPy's nanoseconds for an element and each doubling of its row, to sort, or to find the order.

    They are measured at a process's first call: processors that have the same vectors sort by them at speeds
    that are fourfold apart, and NumPy has neither vectors nor an order by digits for all types. `order` is a
    kind of `numpy.argsort`.
    """
    if not calibration_file.is_enabled():
        # Of numbers of 8 bytes, half as many are in a vector.
        return _NUMPY_ARGSORTS if order else _NUMPY_SORTS * (2 if dtype.itemsize == 8 else 1)
    compute = functools.partial(np.argsort, kind=order) if order else np.sort  # type: ignore[arg-type]
    return measure_numpy(compute, dtype) / math.log2(MEASURED_ELEMENTS)


def cost_of(
    array: Array, numpy: float | None, ours: float, down: int, most_threads: int = SORTING_THREADS
) -> Cost:
    """Return what a call costs: `numpy` and `ours` nanoseconds an element, and `down` bytes of its result."""
    size, item = array.size, array.itemsize
    work = ours * 1e-9 * size
    on_cpu = CALL + work / (min(threads(), most_threads) if work > SHARED_WORK else 1)
    if array.dtype.kind == "f" and item == 2:
        numpy = None  # NumPy 2.4 puts large arrays of float16 in a wrong order on some processors
    # What is sorted goes up before anything comes down.
    on_gpu = 0.05e-9 * item * size
    return Cost(None if numpy is None else numpy * 1e-9 * size, on_cpu, size * (item + down), 0, on_gpu)


def plan_sort(array: Array | None, axis: Any, order: str | None = None) -> EngineChoice:
    """Choose the engine for sorting along an axis, which NumPy does as it finds an `order`, if it is one."""
    return _planned("sort", array, _cost_of_sort, axis, order)


def plan_argsort(array: Array | None, axis: Any) -> EngineChoice:
    """Choose the engine for the stable order along an axis."""
    return _planned("argsort", array, _cost_of_argsort, axis)


def plan_lexsort(keys: Sequence[Array | None], axis: Any) -> EngineChoice:
    """Choose the engine for the order by several keys of one shape, the last of which decides first."""
    decides = context.current_engine() == "auto"
    return choose_engine("lexsort", keys, _cost_of_lexsort(keys, axis) if decides else NO_COST)


def _planned(name: str, array: Array | None, cost: Callable[..., Cost], *arguments: Any) -> EngineChoice:
    """Choose the engine of a call, whose cost is asked for only where that decides."""
    decides = array is not None and context.current_engine() == "auto"
    return choose_engine(name, [array], cost(array, *arguments) if decides else NO_COST)


def _cost_of_sort(array: Array, axis: Any, order: str | None = None) -> Cost:
    numpy = numpy_sorts(array.dtype, order) * _doublings(array, axis)
    return cost_of(array, numpy, SORTS * array.itemsize, array.itemsize)


def _cost_of_argsort(array: Array, axis: Any) -> Cost:
    numpy = numpy_sorts(array.dtype, "stable") * _doublings(array, axis)
    return cost_of(array, numpy, ARGSORTS * array.itemsize, 8)


def _cost_of_lexsort(keys: Sequence[Array | None], axis: Any) -> Cost:
    known = [key for key in keys if key is not None]
    numpy = sum(numpy_sorts(key.dtype, "stable") for key in known) * _doublings(known[0], axis)
    return cost_of(known[0], numpy, sum(ARGSORTS * key.itemsize for key in known), 8)


def _doublings(array: Array, axis: Any) -> float:
    return math.log2(axis_length(array, axis) + 1)


def as_keys(array: Array) -> tuple[str, Array]:
    """Return the name of a type in the ABI, and the array as that takes it."""
    native = array.dtype.newbyteorder("=")
    dense = np.require(array, native, ["C", "A"]).reshape(array.shape)
    if native.kind == "b":
        return "u8", dense.view(np.uint8)
    name = f"{native.kind}{8 * native.itemsize}"
    return name, dense.view(abi.SORTED[name])


def _in_rows(array: Array, axis: int) -> tuple[str, Array, int, int]:
    """Return the array's name and keys with an axis last, and how many rows of how many columns that is."""
    name, keys = as_keys(np.moveaxis(array, axis, -1))
    columns = keys.shape[-1]
    return name, keys, keys.size // columns if columns else 0, columns


def _flattened(array: Array, axis: Any) -> tuple[Array, int]:
    """Return what NumPy would sort, and along which axis."""
    if axis is None:
        return array.ravel(), 0
    return array, normalize_axis_index(axis, array.ndim)


def check_kind(function: Any, array: Array, kind: Any, order: Any, stable: Any) -> None:
    """Have NumPy check what it knows best."""
    if not (kind is None and order is None and stable is None):
        function(np.empty(0, array.dtype), kind=kind, order=order, stable=stable)


def sorted_along(choice: EngineChoice, array: Array, axis: Any) -> Array:
    """Return the array sorted along an axis, laid out as its copy would be."""
    array, axis = _flattened(array, axis)
    name, keys, rows, columns = _in_rows(array, axis)
    out = allocator.empty(keys.shape, keys.dtype)
    native_call.run(choice, f"pk_sort_{name}", keys, out, rows, columns, size=keys.size)
    result: Array = np.moveaxis(out.view(array.dtype.newbyteorder("=")), -1, axis)
    are_alike = array.strides == result.strides or (array.flags.c_contiguous and result.flags.c_contiguous)
    if array.dtype.isnative and (are_alike or array.ndim == 1):
        return result
    copy = np.empty_like(array)
    copy[...] = result
    return copy


def argsort_along(
    choice: EngineChoice, array: Array, axis: Any, kept: int | None = None, descending: bool = False
) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return the first `kept` indices of the stable order along an axis, C-contiguous."""
    array, axis = _flattened(array, axis)
    name, keys, rows, columns = _in_rows(array, axis)
    kept = columns if kept is None else kept
    order = allocator.empty((*keys.shape[:-1], kept), np.int64)
    arguments = keys, order, rows, columns, kept, int(descending)
    native_call.run(choice, f"pk_argsort_{name}", *arguments, size=keys.size)
    return np.ascontiguousarray(np.moveaxis(order, -1, axis)).astype(np.intp, copy=False)


def plan_partition(name: str, array: Array | None, down: int | None = None) -> EngineChoice:
    """Choose the engine of a partition, for which NumPy need not sort."""
    if array is None:
        return choose_engine(name, [None], NO_COST)
    ours = SORTS if down is None else ARGSORTS
    cost = cost_of(array, NUMPY_PARTITIONS, ours * array.itemsize, down or array.itemsize)
    return choose_engine(name, [array], cost)


def plan_search(array: Array, values: Array) -> EngineChoice:
    """Choose the engine of a search."""
    steps = SEARCHES * math.log2(array.size + 2)
    cost = cost_of(values, steps, steps, 8, most_threads=threads())
    return choose_engine("searchsorted", [array, values], cost._replace(up=cost.up + array.nbytes))


def plan_isin(array: Array, known: Array, may_have_table: bool) -> EngineChoice:
    """Choose the engine of `isin`, for which NumPy has two ways that need no order."""
    return _planned("isin", array, _cost_of_isin, known, may_have_table)


def _cost_of_isin(array: Array, known: Array, may_have_table: bool) -> Cost:
    numpy = None
    if may_have_table and np.result_type(array, known).kind in "biu":
        span = int(known.max()) - int(known.min()) if known.size else 0
        if span <= 6 * (array.size + known.size):  # as NumPy has it
            numpy = NUMPY_TABLE_LOOKUP * (1 + known.size / (array.size or 1))
    if numpy is None and known.size < 10 * array.size**0.145:  # and this, too
        numpy = NUMPY_COMPARES * known.size
    ours = SEARCHES * math.log2(known.size + 2) + FINDS
    return cost_of(array, numpy, ours, 1, most_threads=threads())


def plan_unique(array: Array | None, order: str | None, counted: bool) -> EngineChoice:
    """Choose the engine of `unique`, for which NumPy may look for an order, of a kind of `numpy.argsort`."""
    return _planned("unique", array, _cost_of_unique, order, counted)


def _cost_of_unique(array: Array, order: str | None, counted: bool) -> Cost:
    if order or counted or array.dtype.kind == "f":
        numpy = numpy_sorts(array.dtype, order) * _doublings(array, None) + 1
    else:
        numpy = NUMPY_HASHES
    ours, down = (ARGSORTS, 8) if order else (SORTS, array.itemsize)
    return cost_of(array, numpy, ours * array.itemsize + 1, down)


def plan_topk(array: Array, axis: Any, k: int) -> EngineChoice:
    """Choose the engine of `topk`."""
    few = k < axis_length(array, axis) // 8
    ours = SELECTS if few else ARGSORTS * array.itemsize
    return choose_engine("topk", [array], cost_of(array, None, ours, 0 if few else 8))


# ---- Small calls ------------------------------------------------------------------------------------

# With so few elements, NumPy is asked at once, whatever is wanted of them; and at most.
FEW, _MAX_ELEMENTS = 2048, 1 << 22

# What a plain call of one dimension costs.
_PLAIN: dict[str, Callable[[Array], Cost]] = {
    "sort": lambda array: _cost_of_sort(array, 0),
    "argsort": lambda array: _cost_of_argsort(array, 0),
    "unique": lambda array: _cost_of_unique(array, None, False),
}


class NumpyFirst:
    """Up to how many elements NumPy answers a plain call first, by type.

    Parameters
    ----------
    name
        The function.
    """

    def __init__(self, name: str) -> None:
        self.record = native_call.call_logger(Call(name, "numpy", REASON_NUMPY_FASTER_FOR_SIZE))
        self.most: dict[np.dtype[Any], int] = {}  # once known
        self._cost = _PLAIN[name]

    def add_dtype(self, array: Any) -> None:
        """Find the number for an array's type, for the calls to come."""
        if type(array) is not np.ndarray or array.dtype in self.most or context.current_engine() != "auto":
            return
        if operands.as_array(array) is None:
            return
        one, size = np.zeros((), array.dtype), FEW
        if engine_status.status("cpu"):
            while size < _MAX_ELEMENTS and self._is_numpys(np.broadcast_to(one, size * 9 // 8)):
                size = size * 9 // 8
        self.most[array.dtype] = size

    def _is_numpys(self, array: Array) -> bool:
        cost = self._cost(array)
        return cost.numpy is not None and cost.numpy <= cost.cpu


SMALL_SORT, SMALL_ARGSORT, SMALL_UNIQUE = NumpyFirst("sort"), NumpyFirst("argsort"), NumpyFirst("unique")
