"""Selection of order statistics on the engines: a call's rows, its ranks, and `pk_select`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit._families.elementwise.manipulation import in_c_order
from pycudakit._native import calibration_file, engine_status
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, fp_errors, native_call
from pycudakit._runtime.cost_model import CALL, MIN_SECONDS_FOR_THREADS, numpy_partition_ns, threads
from pycudakit._runtime.engine_choice import Cost, EngineChoice, choose_engine
from pycudakit._runtime.operands import allocate, as_array

# Nanoseconds per element, and per row, measured on two cores: NumPy, and the CPU engine on one thread.
_NUMPY_NS, _NUMPY_NS_ROW = 8.0, 150.0
_NUMPY_NS_NAN_ROW = 1500.0  # NumPy's nan functions handle a row by several Python calls, or by a masked array
_CPU_NS, _CPU_NS_MANY_ROWS, _CPU_NS_ROW = 1.5, 8.0, 60.0  # one long row, and several rows
_COPY = 2.0  # to make rows contiguous, in NumPy
_GPU_CALL, _GPU_NS = 0.35e-3, 0.65  # seconds, and nanoseconds per element, on an H200
_PYTHON = 30e-6  # seconds of further Python overhead per call, beyond NumPy's own

_NOT_GIVEN: Any = np._NoValue  # noqa: SLF001  (NumPy's default, which some callers pass on)


class OrderStatisticRequest:
    """A call's array viewed as rows along the reduced axes, and the shape of its results."""

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

    def _index(self, replacement: Any) -> tuple[Any, ...]:
        return (..., *(slice(None) if d in self.kept_axes else replacement for d in range(self.a.ndim)))

    def dense(self) -> Array:
        """Return the rows as a C-contiguous array."""
        if self.axes is None:
            flat = self.a.ravel(order="K")
        else:
            flat = np.moveaxis(self.a, self.kept_axes, range(len(self.kept_axes)))
        native = self.a.dtype.newbyteorder("=")
        return in_c_order(flat, native).reshape(self.rows, self.columns)

    def is_dense(self) -> bool:
        """Return True if `dense` needs no copy."""
        if not self.a.dtype.isnative or not self.a.flags.aligned:
            return False
        if self.axes is None:
            return bool(self.a.flags.forc)
        return bool(self.a.flags.c_contiguous) and self.kept_axes == list(range(len(self.kept_axes)))

    def laid_out_as_reduction(self, result: Any) -> Any:
        """Return results in the memory layout of NumPy's reductions along one axis."""
        if self.out is not None or self.axes is None or len(self.axes) > 1 or len(self.outer_shape) < 2:
            return result
        kept = self.a[tuple(slice(None) if d in self.kept_axes else 0 for d in range(self.a.ndim))]
        ordered = allocate(result.dtype, self.outer_shape, [kept])
        if ordered.strides == result.strides:
            return result
        ordered[...] = result
        return ordered

    def finish(self, result: Any) -> Any:
        """Return the result with `out` and `keepdims` applied."""
        if self.out is not None:
            return self.out
        if self.keepdims:
            result = result[self._index(np.newaxis)]
        return result


class Selector:
    """Selects elements by rank from the rows of a request, on the chosen engine."""

    def __init__(self, choice: EngineChoice, request: OrderStatisticRequest) -> None:
        self.choice = choice
        self.request = request
        self.rows = request.dense()
        dtype = self.rows.dtype
        name = "u8" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"
        self._entry = f"pk_select_{name}"
        self._stored = np.dtype(f"u{dtype.itemsize}") if dtype.kind == "b" or name == "f16" else dtype

    def select(self, ranks: Array) -> tuple[Array, Array]:
        """Return the elements of ranks, and each row's number of NaN; ranks are common, or a list per row.

        The elements' first axis is that of the ranks; the others are those of the results.
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
        """Return each row's number of elements that are not NaN."""
        columns = self.request.columns
        if not self.request.floating:
            return np.full(len(self.rows), columns)
        return columns - self.select(np.empty((1, 0), np.int64))[1]


def _numpy_ns(name: str, request: OrderStatisticRequest) -> float:
    """Return NumPy's nanoseconds per element of a row."""
    is_partition = name == "median" and request.columns % 2 == 1 and request.a.dtype.kind in "biu"
    if not (is_partition and calibration_file.is_enabled() and context.current_engine() == "auto"):
        return _NUMPY_NS
    return numpy_partition_ns(request.a.dtype.newbyteorder("="))


def plan_selection(
    name: str, a: Any, q: Any, request_of: tuple[Any, Any, Any], unsupported: str | None = None
) -> tuple[EngineChoice, OrderStatisticRequest | None]:
    """Choose the engine of a call, and make its request if an engine may compute it."""
    array, quantiles = as_array(a), as_array(q)
    if array is None or quantiles is None or unsupported is not None:
        return choose_engine(name, (array, quantiles), Cost(0.0, 1.0, 0, 0), unsupported), None
    request = OrderStatisticRequest(array, *request_of)
    size, rows = array.size + quantiles.size, request.rows
    in_numpy = size * _numpy_ns(name, request) + rows * (
        _NUMPY_NS_NAN_ROW if name.startswith("nan") else _NUMPY_NS_ROW
    )
    work = (size * (_CPU_NS if rows == 1 else _CPU_NS_MANY_ROWS) + rows * _CPU_NS_ROW) * 1e-9
    workers = threads() if work > MIN_SECONDS_FOR_THREADS and engine_status.status("cpu") else 1
    copy = 0.0 if request.is_dense() else size * _COPY * 1e-9
    on_cpu = _PYTHON + CALL + copy + work / workers
    # On a GPU the rows are uploaded and read several times; the download is negligible.
    on_gpu = copy + _GPU_CALL + _GPU_NS * 1e-9 * size + rows * 1e-6
    cost = Cost(in_numpy * 1e-9, on_cpu, array.nbytes, 0, on_gpu)
    return choose_engine(name, (array, quantiles), cost), request


def by_numpy(choice: EngineChoice, compute: Callable[[], Any]) -> Any:
    """Compute with NumPy: by the engine choice, or because there are no elements to select from."""
    reason = choice.reason if choice.engine == "numpy" else "there are no elements to select from"
    return native_call.run_numpy(choice.function, reason, compute)


def warn_all_nan_slice() -> None:
    """Warn, as NumPy does, that a row has only NaN."""
    warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=fp_errors.caller_stacklevel())
