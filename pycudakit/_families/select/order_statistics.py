"""Order statistics on the engines: the rows of a call, and the elements that its ranks have in them."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit._native import calibration_file, engine_status
from pycudakit._native.dtypes import Array, DType
from pycudakit._runtime import context, fp_errors, native_call
from pycudakit._runtime.cost_model import CALL, SHARED_WORK, measure_numpy, threads
from pycudakit._runtime.engine_choice import Cost, EngineChoice, choose_engine
from pycudakit._runtime.operands import allocate, as_array

# Nanoseconds an element, and a row, measured on two cores: NumPy, and the CPU engine's single thread.
_NUMPY_NS, _NUMPY_NS_ROW = 8.0, 150.0
_NUMPY_NS_NAN_ROW = (
    1500.0  # a row of a function that leaves NaN out is some calls in Python, or a masked array's
)
_CPU_NS, _CPU_NS_MANY_ROWS, _CPU_NS_ROW = 1.5, 8.0, 60.0  # of one long row, and of several
_COPY = 2.0  # to lay rows out one after the other, in NumPy
_PYTHON = 30e-6  # what a call takes beside that, more than NumPy's own

_NOT_GIVEN: Any = np._NoValue  # noqa: SLF001  (a default of NumPy's, which others hand on)


class OrderStatisticRequest:
    """A call's array and axes, its rows, and how NumPy shapes what is found of each."""

    def __init__(self, a: Array, axis: Any, out: Any, keepdims: Any) -> None:
        self.a = a
        self.out = out
        self.floating = a.dtype.kind == "f"
        self.axes = None if axis is None else normalize_axis_tuple(axis, a.ndim)
        self.kept_axes = [d for d in range(a.ndim) if self.axes is not None and d not in self.axes]
        self.outer_shape = tuple(a.shape[d] for d in self.kept_axes)  # the results' shape
        self.rows = math.prod(self.outer_shape)
        self.columns = a.size // self.rows if self.rows else 0
        self.keepdims = bool(keepdims) and keepdims is not _NOT_GIVEN
        self.view = out  # the part of `out` that is shaped as the results
        if self.keepdims and out is not None:
            self.view = out[self._index(0)]

    def _index(self, instead: Any) -> tuple[Any, ...]:
        return (..., *(slice(None) if d in self.kept_axes else instead for d in range(self.a.ndim)))

    def dense(self) -> Array:
        """Return the rows, one after the other."""
        if self.axes is None:
            flat = self.a.ravel(order="K")
        else:
            flat = np.moveaxis(self.a, self.kept_axes, range(len(self.kept_axes)))
        native = self.a.dtype.newbyteorder("=")
        return np.require(flat.reshape(self.rows, self.columns), native, ["C", "A"])

    def is_dense(self) -> bool:
        if not self.a.dtype.isnative or not self.a.flags.aligned:
            return False
        if self.axes is None:
            return bool(self.a.flags.forc)
        return bool(self.a.flags.c_contiguous) and self.kept_axes == list(range(len(self.kept_axes)))

    def laid_out_as_reduction(self, result: Any) -> Any:
        """Return results that lie in memory as those of NumPy's reductions along one axis."""
        if self.out is not None or self.axes is None or len(self.axes) > 1 or len(self.outer_shape) < 2:
            return result
        kept = self.a[tuple(slice(None) if d in self.kept_axes else 0 for d in range(self.a.ndim))]
        ordered = allocate(result.dtype, self.outer_shape, [kept])
        if ordered.strides == result.strides:
            return result
        ordered[...] = result
        return ordered

    def finish(self, result: Any) -> Any:
        if self.out is not None:
            return self.out
        if self.keepdims:
            result = result[self._index(np.newaxis)]
        return result


class Selector:
    """The rows of a request on the engine that a plan names."""

    def __init__(self, choice: EngineChoice, request: OrderStatisticRequest) -> None:
        self.choice = choice
        self.request = request
        self.rows = request.dense()
        dtype = self.rows.dtype
        name = "u8" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"
        self._entry = f"pk_select_{name}"
        self._stored = np.dtype(f"u{dtype.itemsize}") if dtype.kind == "b" or name == "f16" else dtype

    def select(self, ranks: Array) -> tuple[Array, Array]:
        """Return the elements of these ranks, which are for each row, or for each its own, and counts of NaN.

        The elements' first axis is the ranks', and the others are the results'.
        """
        count, columns = self.rows.shape
        ranks = np.atleast_2d(ranks)
        elements = np.empty((count, ranks.shape[1]), self._stored)
        nans = np.empty(count, np.int64)
        native_call.run(
            self.choice,
            self._entry,
            *(self.rows.view(self._stored), count, columns),
            *(np.ascontiguousarray(ranks).ravel(), len(ranks), ranks.shape[1]),
            *(elements, nans),
            size=self.rows.size,
        )
        by_rank = np.ascontiguousarray(elements.T).view(self.rows.dtype)
        return by_rank.astype(self.request.a.dtype, copy=False), nans

    def valid_counts(self) -> Array:
        """Return how many of each row's elements are not NaN."""
        columns = self.request.columns
        if not self.request.floating:
            return np.full(len(self.rows), columns)
        return columns - self.select(np.empty((1, 0), np.int64))[1]


def _numpys(name: str, request: OrderStatisticRequest) -> float:
    """Return NumPy's nanoseconds for an element of a row."""
    is_of_one = name == "median" and request.columns % 2 == 1 and request.a.dtype.kind in "biu"
    if not (is_of_one and calibration_file.is_enabled() and context.current_engine() == "auto"):
        return _NUMPY_NS
    return _numpy_partition(request.a.dtype.newbyteorder("="))


@functools.cache
def _numpy_partition(dtype: DType) -> float:
    """Return NumPy's nanoseconds for an element to find one place in order, for which it may have vectors."""
    return measure_numpy(lambda keys: np.partition(keys, keys.size // 2), dtype)


def plan_selection(
    name: str, a: Any, q: Any, request_of: tuple[Any, Any, Any], unsupported: str | None = None
) -> tuple[EngineChoice, OrderStatisticRequest | None]:
    """Return where a call runs and, if that may be an engine, what is asked of it."""
    array, quantiles = as_array(a), as_array(q)
    if array is None or quantiles is None or unsupported is not None:
        return choose_engine(name, (array, quantiles), Cost(0.0, 1.0, 0, 0), unsupported), None
    request = OrderStatisticRequest(array, *request_of)
    size, rows = array.size + quantiles.size, request.rows
    in_numpy = size * _numpys(name, request) + rows * (
        _NUMPY_NS_NAN_ROW if name.startswith("nan") else _NUMPY_NS_ROW
    )
    work = (size * (_CPU_NS if rows == 1 else _CPU_NS_MANY_ROWS) + rows * _CPU_NS_ROW) * 1e-9
    workers = threads() if work > SHARED_WORK and engine_status.status("cpu") else 1
    copy = 0.0 if request.is_dense() else size * _COPY * 1e-9
    in_ours = _PYTHON + CALL + copy + work / workers
    # On a GPU the rows go up, are read some times from its memory, and next to nothing comes back.
    cost = Cost(in_numpy * 1e-9, in_ours, array.nbytes, 0, copy + 2e-3 + rows * 1e-6)
    return choose_engine(name, (array, quantiles), cost), request


def by_numpy(choice: EngineChoice, compute: Callable[[], Any]) -> Any:
    """Have NumPy answer: because the plan says so, or because there are no elements to select from."""
    reason = choice.reason if choice.engine == "numpy" else "there are no elements to select from"
    return native_call.run_numpy(choice.function, reason, compute)


def warn_all_nan_slice() -> None:
    """Say, as NumPy does, that a row has nothing else."""
    warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=fp_errors.caller_stacklevel())
