"""Reductions in one pass: a program computes values, which `pk_reduce` folds along axes."""

from __future__ import annotations

import ctypes
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.prepared_program import report_instruction_flags
from pycudakit._element_programs.program import ElementProgram
from pycudakit._element_programs.values import Value, WeakScalar
from pycudakit._native import abi, allocator
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import BOOL, CODES, FLOAT16, Array, DType
from pycudakit._runtime import cost_model, operands
from pycudakit._runtime.engine_choice import Cost, EngineChoice
from pycudakit._runtime.native_call import NativeCall, Pool


class Reducer(NamedTuple):
    """The folding of a program's values: a kind and a finalize step of the ABI, and the result's type."""

    kind: int
    finalize: int
    values: tuple[Value, ...]
    result: DType


# Lowers a function: called with the builder, the arguments, the mask and the requested `dtype`.
Lowering = Callable[[Builder, tuple[Any, ...], Value | None, DType | None], Reducer]


class ReduceKernel:
    """A reduction compiled for arguments of some types: its program, its folding, and prepared calls."""

    def __init__(self, program: ElementProgram, reducer: Reducer) -> None:
        self.program = program
        self.reducer = reducer
        self.is_order_independent = is_order_independent(reducer)
        # NumPy has vector loops for extremes and truth, but not for float16, with a mask, or without NaN.
        inputs = [operand.dtype for operand in program.operands if operand.source == "input"]
        finds_index = reducer.kind in _ARG_KINDS and not program.work
        self.numpy_is_vectorized = (
            len(inputs) == 1 and inputs[0] != FLOAT16 and (finds_index or reducer.kind in _EXTREMES)
        )
        self.pool: Pool[PreparedReduce] = Pool(functools.partial(PreparedReduce, program, reducer))


@functools.lru_cache(1024)
def reduce_kernel_for(
    name: str, lower: Lowering, types: tuple[Any, ...], masked: bool, dtype: DType | None
) -> ReduceKernel:
    """Compile a reduction for arguments of these types: dtypes, or `int` and `float`."""
    builder = Builder()
    arguments = tuple(
        WeakScalar(t, i) if isinstance(t, type) else builder.load("input", i, t) for i, t in enumerate(types)
    )
    mask = builder.load("input", len(types), BOOL) if masked else None
    with builder.naming(name):
        reducer = lower(builder, arguments, mask, dtype)
    for i, value in enumerate(reducer.values):
        builder.store(value, i)
    return ReduceKernel(builder.finish(), reducer)


class PreparedReduce(NativeCall):
    """Prepared arguments of `pk_reduce` for a program and its folding, or of `pk_reduce_several`."""

    def __init__(self, program: ElementProgram, *reducer: Reducer) -> None:
        super().__init__()
        self.entry = "pk_reduce" if len(reducer) == 1 else "pk_reduce_several"
        self.program = program
        inputs = len(program.table)
        self.table = np.zeros(inputs + len(reducer), abi.OPERAND)
        self.table[:inputs] = program.table
        self.table["type"][inputs:] = [CODES[each.result] for each in reducer]
        self._results = range(inputs, inputs + len(reducer))
        self.inputs = [(i, o.position) for i, o in enumerate(program.operands) if o.source == "input"]
        self._rows = [*(index for index, _ in self.inputs), *self._results]
        self.numbers: list[tuple[Array, int]] = []
        for i, operand in enumerate(program.operands):
            if operand.source == "scalar":
                number = np.empty((), operand.dtype)
                self.table["address"][i] = address_of(number)
                self.numbers.append((number, operand.position))
        self.reduction = np.zeros(len(reducer), abi.REDUCTION)
        self.reduction["kind"] = [each.kind for each in reducer]
        self.reduction["finalize"] = [each.finalize for each in reducer]
        self.reduction["value_count"], self.reduction["reduced"] = len(reducer[0].values), 1
        self.addresses = self.table["address"]
        self._strides, self._flags = self.table["strides"], self.table["flags"]
        self._dense = self._strides.copy()
        self.shape = np.empty(abi.MAX_DIMS, np.int64)
        self.dimensions = ctypes.c_int64(1)
        self.fp_flags: Array = np.empty(len(program.instructions), np.uint8)  # per instruction, last call
        self.results: Sequence[Array] = ()  # of the call under way

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry, bound to its arguments."""
        instructions = self.program.instructions
        count = len(self.reduction)
        return abi.bound(
            *(library, self.entry),
            *((self.reduction,) if count == 1 else (self.reduction, count)),
            *(instructions, len(instructions), self.table, len(self.table)),
            *(self.shape, self.dimensions),
            *(self.fp_flags, self.options, self.report),
        )

    def bind_dense(self, result: Array, size: int, *values: Any) -> None:
        """Bind a reduction of whole dense arrays of one size, and numbers, to one element."""
        for number, position in self.numbers:
            number[()] = values[position]
        for index, position in self.inputs:
            self.addresses[index] = address_of(values[position])
        self.addresses[-1] = address_of(result)
        self.shape[0] = size

    def bind_broadcast(
        self, shape: tuple[int, ...], axes: Sequence[int], results: Sequence[Array], *values: Any
    ) -> None:
        """Bind a reduction of arrays, broadcast to a shape, along axes; results have the other dimensions."""
        for number, position in self.numbers:
            number[()] = values[position]
        inputs = [values[position] for _, position in self.inputs]
        layouts = tuple([(array.shape, array.strides) for array in inputs])
        layout = _compute_layout(shape, tuple(axes), layouts, tuple([result.strides for result in results]))
        self.dimensions.value = layout.sizes.size
        self.shape[: layout.sizes.size] = layout.sizes
        self._strides[self._rows, : layout.sizes.size] = layout.strides
        for (index, _), array in zip(self.inputs, inputs, strict=True):
            self.addresses[index] = address_of(array)
            if not array.dtype.isnative:
                self._flags[index] = abi.OPERAND_BYTE_SWAPPED
        for row, result in zip(self._results, results, strict=True):
            self.addresses[row] = address_of(result)
        self.reduction["outer"], self.reduction["reduced"] = layout.outer, len(axes)

    def operands_of(self, results: Sequence[Array], values: Sequence[Any]) -> list[tuple[int, Any]]:
        """Return the results and the values that are arrays, each with its index in the operand table."""
        bound = [(index, values[position]) for index, position in self.inputs]
        return [*bound, *zip(self._results, results, strict=True)]

    def configure_on_device(self, sizes: tuple[int, int, int]) -> PreparedReduce:
        """Configure for a C-contiguous device array viewed as (outer, reduced, inner)."""
        _, length, inner = sizes
        dtypes = self.table["type"][self.inputs[0][0]], self.table["type"][-1]
        item, result_item = (abi.TYPES[code].itemsize for code in dtypes)
        self.dimensions.value = 3
        self.shape[:3] = sizes
        for index, _ in self.inputs:
            self._strides[index, :3] = length * inner * item, inner * item, item
            self._flags[index] = abi.ON_DEVICE
        self._strides[-1, :3] = inner * result_item, 0, result_item
        self._flags[-1] = abi.ON_DEVICE
        self.reduction["outer"], self.reduction["reduced"] = 1, 1
        return self

    def bind_device(self, address: int, result: int) -> None:
        """Bind the addresses of the array and the result."""
        for index, _ in self.inputs:
            self.addresses[index] = address
        self.addresses[-1] = result

    def reset_layout(self) -> None:
        """Reset the layout to that of whole dense arrays."""
        self.dimensions.value = 1
        self._strides[...], self._flags[...] = self._dense, 0
        self.reduction["outer"], self.reduction["reduced"] = 0, 1
        self.reduction["has_initial"] = self.reduction["ddof"] = 0

    def report_fp_flags(self) -> None:
        """Raise or warn as NumPy does for the FP flags of the program."""
        report_instruction_flags(self.program, self.fp_flags)


class _Layout(NamedTuple):
    """Sizes and strides of the operands, in the order of a reduction's dimensions."""

    sizes: Array
    strides: Array  # of the inputs and the results, a row for each
    outer: int  # dimensions before those that are reduced


@functools.lru_cache(1024)
def _compute_layout(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    inputs: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...],
    results: tuple[tuple[int, ...], ...],
) -> _Layout:
    """Compute the layout of inputs, broadcast to a shape, and of results, which lack the axes."""
    strides = [operands.broadcast_strides(*each, shape) for each in inputs]
    first = max(strides, key=lambda each: sum(map(bool, each)), default=(0,) * len(shape))
    order, outer = _order(shape, axes, first)
    kept_axes = [d for d in range(len(shape)) if d not in axes]
    for result_strides in results:
        by_dimension = dict(zip(kept_axes, result_strides, strict=True))
        strides.append(tuple([by_dimension.get(d, 0) for d in range(len(shape))]))
    rows = np.array(strides, np.int64).reshape(len(strides), len(shape))
    return _Layout(np.array([shape[d] for d in order], np.int64), rows[:, order], outer)


def _order(shape: tuple[int, ...], axes: Sequence[int], strides: Sequence[int]) -> tuple[list[int], int]:
    """Order the dimensions: the outer ones, then those reduced, then the inner ones.

    Inner dimensions are those with smaller strides than any reduced one.
    """
    reach = min((abs(strides[d]) for d in axes if shape[d] != 1), default=0)
    kept_axes = sorted((d for d in range(len(shape)) if d not in axes), key=lambda d: -abs(strides[d]))
    inner = [d for d in kept_axes if shape[d] != 1 and 0 < abs(strides[d]) < reach]
    outer = [d for d in kept_axes if d not in inner]
    return [*outer, *axes, *inner], len(outer)


_SECONDS_A_BYTE = 1 / 12e9  # one thread reading memory


# Seconds in NumPy: of a call, of a row of adjacent elements, and of an element without a vector loop or that
# is copied first.
_NUMPY_CALL, _NUMPY_ROW, _NUMPY_EACH = 4e-6, 40e-9, 2e-9
_EXTREMES, _ARG_KINDS = (
    (abi.REDUCE_MIN, abi.REDUCE_MAX, abi.REDUCE_PTP),
    (abi.REDUCE_ARGMIN, abi.REDUCE_ARGMAX),
)


def cost_of(kernel: ReduceKernel, size: int, up: int, down: int, rows: int | None = None) -> Cost:
    """Estimate a call's cost; NumPy is a candidate only if its result has the same bits.

    `rows` is the number of rows that NumPy would read, or None if NumPy has no such function.
    """
    work = size * program_cost.estimate(kernel.program).cpu
    threads = cost_model.threads() if work + up * _SECONDS_A_BYTE > cost_model.MIN_SECONDS_FOR_THREADS else 1
    bandwidth = min(threads / _SECONDS_A_BYTE, cost_model.HOST_BANDWIDTH)
    call = cost_model.CALL if threads > 1 else cost_model.SINGLE_THREAD_CALL
    cpu = call + max(work / threads, up / bandwidth)
    numpy = (
        None if rows is None or not kernel.is_order_independent else _numpy_seconds(kernel, size, up, rows)
    )
    return Cost(numpy, cpu, up, down)


def _numpy_seconds(kernel: ReduceKernel, size: int, up: int, rows: int) -> float:
    if not kernel.numpy_is_vectorized:
        return _NUMPY_CALL + _NUMPY_EACH * size
    return _NUMPY_CALL + _NUMPY_ROW * rows + up / cost_model.SINGLE_THREAD_BANDWIDTH


def numpy_rows(kernel: ReduceKernel, array: Array, axes: tuple[int, ...]) -> int:
    """Return the number of rows of adjacent elements that NumPy reads to reduce an array along axes."""
    is_full = len(axes) >= array.ndim  # a mask may have more dimensions
    if is_full and (array.flags.c_contiguous or array.flags.f_contiguous):
        return 1
    inner = array.ndim - 1 if array.flags.c_contiguous else 0
    is_copied = kernel.reducer.kind in _ARG_KINDS and axes != (inner,)
    if is_copied or array.strides[inner] != array.itemsize:
        return array.size
    return array.size // (array.shape[inner] or 1)


def is_order_independent(reducer: Reducer) -> bool:
    """Return True if a result does not depend on the order of computing."""
    values = (reducer.result, *(value.dtype for value in reducer.values))
    return reducer.kind in (*_EXTREMES, *_ARG_KINDS) or all(dtype.kind in "biu" for dtype in values)


_COUNTING = ("mean", "std", "var")  # NumPy counts the elements along the axes before it adds


def axes_of(name: str, axis: Any, dimensions: int) -> tuple[int, ...]:
    """Return the axes that a function reduces, sorted; raise NumPy's errors."""
    if axis is None:
        return tuple(range(dimensions))
    if type(axis) is int and -dimensions <= axis < dimensions:
        return (axis % dimensions,)
    given = axis if isinstance(axis, tuple) else (axis,)
    if any(isinstance(each, (bool, np.bool_)) for each in given):  # NumPy's helper would accept it
        for each in given if name in _COUNTING else ():
            normalize_axis_index(each, dimensions)
        raise TypeError("an integer is required" + " for the axis" * name.startswith("arg"))
    listed = [operator.index(each) for each in given]
    axes = normalize_axis_tuple(listed, dimensions, allow_duplicate=True)
    if len(set(axes)) < len(axes):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(axes))


def as_keepdims(keepdims: Any, name: str) -> bool:
    """Return `keepdims` as a bool; raise NumPy's error if it must be an integer, and is none."""
    if not (keepdims is True or keepdims is False or name.startswith(("arg", "nanarg"))):
        np.add.reduce((), keepdims=keepdims)
    return bool(keepdims)


def reduced_shape(shape: tuple[int, ...], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """Return the shape of a result."""
    if keepdims:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in axes)


class ReduceRequest(NamedTuple):
    """A reduction to compute: kernel, engine, operands and axes."""

    kernel: ReduceKernel
    choice: EngineChoice
    values: tuple[Any, ...]
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    initial: Any = None
    ddof: float = 0
    reports_flags: bool = True  # of the floating-point exceptions of the program
    # Arrays from whose layouts the result's follows; None: the values.
    layouts: Sequence[Array] | None = None


def reduce(request: ReduceRequest) -> Array:
    """Compute a reduction of arrays, broadcast to a shape, into a new array without the axes."""
    return run([request], request.kernel.pool)[0]


def _allocate(request: ReduceRequest, arrays: Sequence[Array]) -> Array:
    """Allocate a result in the layout of the remaining dimensions; indices in C order."""
    shape, dtype = reduced_shape(request.shape, request.axes, False), request.kernel.reducer.result
    is_index = request.kernel.reducer.kind in _ARG_KINDS
    if is_index or len(shape) < 2 or all(array.flags.c_contiguous for array in arrays):
        return allocator.empty(shape, dtype, scalar_may_stay=True)
    remaining = tuple(0 if d in request.axes else slice(None) for d in range(len(request.shape)))
    return operands.allocate(
        dtype, shape, [np.broadcast_to(array, request.shape)[remaining] for array in arrays]
    )


def run(requests: Sequence[ReduceRequest], pool: Pool[PreparedReduce]) -> list[Array]:
    """Compute reductions of the same values in one pass."""
    first = requests[0]
    arrays = [value for value in first.values if isinstance(value, np.ndarray)]
    results = [
        _allocate(request, arrays if request.layouts is None else request.layouts) for request in requests
    ]
    work = pool.take()
    try:
        work.bind_broadcast(first.shape, first.axes, results, *first.values)
        work.results = results
        for i, request in enumerate(requests):
            set_initial_and_ddof(work.reduction[i : i + 1], request.initial, request.ddof)
        if work.run(first.choice, math.prod(first.shape)) and first.reports_flags:
            work.report_fp_flags()
    finally:
        work.results = ()
        work.reset_layout()
        pool.give_back(work)
    return results


def set_initial_and_ddof(reduction: Array, initial: Any, ddof: float) -> None:
    """Set the initial value and the degrees of freedom of a reduction."""
    reduction["has_initial"], reduction["ddof"] = initial is not None, ddof
    if initial is not None:
        number = np.asarray(initial)
        exact = number.dtype.kind in "biu"
        reduction["initial"] = float(number)
        reduction["initial_integer"] = np.asarray(int(number) & (2**64 - 1) if exact else 0, np.uint64).view(
            np.int64
        )
