"""Reductions: a program whose values are folded along axes, on the engine that is asked for."""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from pycudakit._element_programs import program_cost
from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.prepared_program import report_of
from pycudakit._element_programs.program import ElementProgram
from pycudakit._element_programs.values import Scalar, Value
from pycudakit._native import abi, allocator
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import BOOL, CODES, FLOAT16, Array, DType
from pycudakit._runtime import cost_model, operands
from pycudakit._runtime.engine_choice import Cost, Plan
from pycudakit._runtime.native_call import Invocation, Pool


class Folded(NamedTuple):
    """What a program's values become: a kind and a finish of the ABI, and the result's type."""

    kind: int
    finish: int
    values: tuple[Value, ...]
    result: DType


# Adds a function to a program: called with the builder, the arguments, the mask and the `dtype` asked for.
Write = Callable[[Builder, tuple[Any, ...], Value | None, DType | None], Folded]


class Recipe:
    """A function for arguments of some types: its program, and how its values are folded."""

    def __init__(self, program: ElementProgram, folded: Folded) -> None:
        self.program = program
        self.folded = folded
        self.is_exact = is_exact(folded)
        # For extremes and truth, but not for float16, with a mask, nor for indices without NaN.
        inputs = [operand.dtype for operand in program.operands if operand.source == "input"]
        finds = folded.kind in _PLACES and not program.work
        self.has_numpys_vectors = (
            len(inputs) == 1 and inputs[0] != FLOAT16 and (finds or folded.kind in _EXTREMES)
        )
        self.works: Pool[ReduceWork] = Pool(functools.partial(ReduceWork, program, folded))


@functools.lru_cache(1024)
def recipe_for(name: str, write: Write, types: tuple[Any, ...], masked: bool, dtype: DType | None) -> Recipe:
    """Return the recipe of a function for arguments of these types: dtypes, or `int` and `float`."""
    builder = Builder()
    arguments = tuple(
        Scalar(t, i) if isinstance(t, type) else builder.load("input", i, t) for i, t in enumerate(types)
    )
    mask = builder.load("input", len(types), BOOL) if masked else None
    with builder.naming(name):
        folded = write(builder, arguments, mask, dtype)
    for i, value in enumerate(folded.values):
        builder.store(value, i)
    return Recipe(builder.finish(), folded)


class ReduceWork(Invocation):
    """What `pk_reduce` takes for a program and how its values are folded, or `pk_reduce_several`."""

    def __init__(self, program: ElementProgram, *folded: Folded) -> None:
        super().__init__()
        self.entry = "pk_reduce" if len(folded) == 1 else "pk_reduce_several"
        self.program = program
        inputs = len(program.table)
        self.table = np.zeros(inputs + len(folded), abi.OPERAND)
        self.table[:inputs] = program.table
        self.table["type"][inputs:] = [CODES[each.result] for each in folded]
        self._results = range(inputs, inputs + len(folded))
        self.inputs = [(i, o.position) for i, o in enumerate(program.operands) if o.source == "input"]
        self._rows = [*(index for index, _ in self.inputs), *self._results]
        self.numbers: list[tuple[Array, int]] = []
        for i, operand in enumerate(program.operands):
            if operand.source == "scalar":
                number = np.empty((), operand.dtype)
                self.table["address"][i] = address_of(number)
                self.numbers.append((number, operand.position))
        self.reduction = np.zeros(len(folded), abi.REDUCTION)
        self.reduction["kind"] = [each.kind for each in folded]
        self.reduction["finish"] = [each.finish for each in folded]
        self.reduction["values"], self.reduction["reduced"] = len(folded[0].values), 1
        self.addresses = self.table["address"]
        self._strides, self._flags = self.table["strides"], self.table["flags"]
        self._dense = self._strides.copy()
        self.shape = np.empty(abi.MAX_DIMS, np.int64)
        self.dimensions = ctypes.c_int64(1)
        self.met: Array = np.empty(len(program.instructions), np.uint8)  # by each in the last call

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry with its arguments."""
        instructions = self.program.instructions
        count = len(self.reduction)
        return abi.bound(
            *(library, self.entry),
            *((self.reduction,) if count == 1 else (self.reduction, count)),
            *(instructions, len(instructions), self.table, len(self.table)),
            *(self.shape, self.dimensions),
            *(self.met, self.options, self.report),
        )

    def aim(self, result: Array, *arrays: Array) -> None:
        """Reduce the whole of dense arrays of one size to one element."""
        for index, position in self.inputs:
            self.addresses[index] = address_of(arrays[position])
        self.addresses[-1] = address_of(result)
        self.shape[0] = arrays[0].size

    def spread(
        self, shape: tuple[int, ...], axes: Sequence[int], results: Sequence[Array], *values: Any
    ) -> None:
        """Reduce arrays, broadcast to a shape, along axes; the results have the other dimensions."""
        for number, position in self.numbers:
            number[()] = values[position]
        inputs = [values[position] for _, position in self.inputs]
        lie = tuple([(array.shape, array.strides) for array in inputs])
        laid = _laid_out(shape, tuple(axes), lie, tuple([result.strides for result in results]))
        self.dimensions.value = laid.sizes.size
        self.shape[: laid.sizes.size] = laid.sizes
        self._strides[self._rows, : laid.sizes.size] = laid.strides
        for (index, _), array in zip(self.inputs, inputs, strict=True):
            self.addresses[index] = address_of(array)
            if not array.dtype.isnative:
                self._flags[index] = abi.BYTE_SWAPPED
        for row, result in zip(self._results, results, strict=True):
            self.addresses[row] = address_of(result)
        self.reduction["outer"], self.reduction["reduced"] = laid.outer, len(axes)

    def operands_of(self, results: Sequence[Array], values: Sequence[Any]) -> list[tuple[int, Any]]:
        """Return the places in its table of results and of those values that are arrays."""
        own = [(index, values[position]) for index, position in self.inputs]
        return [*own, *zip(self._results, results, strict=True)]

    def lie_there(self, sizes: tuple[int, int, int]) -> ReduceWork:
        """Be for dense arrays on a GPU, reduced along the second of three dimensions, into memory there."""
        _, length, inner = sizes
        dtypes = self.table["type"][self.inputs[0][0]], self.table["type"][-1]
        item, own = (abi.TYPES[code].itemsize for code in dtypes)
        self.dimensions.value = 3
        self.shape[:3] = sizes
        for index, _ in self.inputs:
            self._strides[index, :3] = length * inner * item, inner * item, item
            self._flags[index] = abi.ON_DEVICE
        self._strides[-1, :3] = inner * own, 0, own
        self._flags[-1] = abi.ON_DEVICE
        self.reduction["outer"], self.reduction["reduced"] = 1, 1
        return self

    def aim_there(self, address: int, result: int) -> None:
        """Say where the array and the result are."""
        for index, _ in self.inputs:
            self.addresses[index] = address
        self.addresses[-1] = result

    def restore(self) -> None:
        """Make it what it was before a call along axes."""
        self.dimensions.value = 1
        self._strides[...], self._flags[...] = self._dense, 0
        self.reduction["outer"], self.reduction["reduced"] = 0, 1
        self.reduction["has_initial"] = self.reduction["ddof"] = 0

    def report_met(self) -> None:
        """Raise or warn as NumPy would for what the program met."""
        report_of(self.program, self.met)


class _Layout(NamedTuple):
    """How operands lie along a reduction's dimensions."""

    sizes: Array
    strides: Array  # of the inputs and the results, a row for each
    outer: int  # dimensions before those that are reduced


@functools.lru_cache(1024)
def _laid_out(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    inputs: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...],
    results: tuple[tuple[int, ...], ...],
) -> _Layout:
    """Return how arrays of shapes and strides lie, broadcast to a shape, and results without the axes."""
    strides = [operands.broadcast_strides(*each, shape) for each in inputs]
    first = max(strides, key=lambda each: sum(map(bool, each)), default=(0,) * len(shape))
    order, outer = _order(shape, axes, first)
    kept = [d for d in range(len(shape)) if d not in axes]
    for own in results:
        by_dimension = dict(zip(kept, own, strict=True))
        strides.append(tuple([by_dimension.get(d, 0) for d in range(len(shape))]))
    rows = np.array(strides, np.int64).reshape(len(strides), len(shape))
    return _Layout(np.array([shape[d] for d in order], np.int64), rows[:, order], outer)


def _order(shape: tuple[int, ...], axes: Sequence[int], strides: Sequence[int]) -> tuple[list[int], int]:
    """Return the dimensions with those that stay outside, then those reduced, then those that stay inside.

    Inside are those that are faster in memory than any that is reduced.
    """
    reach = min((abs(strides[d]) for d in axes if shape[d] != 1), default=0)
    kept = sorted((d for d in range(len(shape)) if d not in axes), key=lambda d: -abs(strides[d]))
    inner = [d for d in kept if shape[d] != 1 and 0 < abs(strides[d]) < reach]
    outer = [d for d in kept if d not in inner]
    return [*outer, *axes, *inner], len(outer)


_SECONDS_A_BYTE = 1 / 12e9  # of one thread's reading


# Seconds of NumPy's: of a call, of a row of elements that lie side by side, and of an element for which it
# has no vectors, or that it copies first.
_NUMPYS_CALL, _NUMPYS_ROW, _NUMPYS_EACH = 4e-6, 40e-9, 2e-9
_EXTREMES, _PLACES = (abi.LEAST, abi.LARGEST, abi.SPREAD), (abi.WHERE_LEAST, abi.WHERE_LARGEST)


def cost_of(recipe: Recipe, size: int, up: int, down: int, rows: int | None = None) -> Cost:
    """Return what a call is guessed to take; it goes to NumPy only where that has the same bits.

    `rows` is how many rows NumPy would read, and is None where the function is not one of NumPy's.
    """
    work = size * program_cost.estimate(recipe.program).ours
    threads = cost_model.threads() if work + up * _SECONDS_A_BYTE > cost_model.SHARED_WORK else 1
    bandwidth = min(threads / _SECONDS_A_BYTE, cost_model.HOST_BANDWIDTH)
    cpu = cost_model.CALL + max(work / threads, up / bandwidth)
    numpy = None if rows is None or not recipe.is_exact else _numpys(recipe, size, up, rows)
    return Cost(numpy, cpu, up, down)


def _numpys(recipe: Recipe, size: int, up: int, rows: int) -> float:
    if not recipe.has_numpys_vectors:
        return _NUMPYS_CALL + _NUMPYS_EACH * size
    return _NUMPYS_CALL + _NUMPYS_ROW * rows + up / cost_model.ALONE_BANDWIDTH


def rows_of(recipe: Recipe, array: Array, axes: tuple[int, ...]) -> int:
    """Return how many rows of elements that lie side by side NumPy reads to reduce an array along axes."""
    is_whole = len(axes) >= array.ndim  # a mask may have more dimensions
    if is_whole and (array.flags.c_contiguous or array.flags.f_contiguous):
        return 1
    inner = array.ndim - 1 if array.flags.c_contiguous else 0
    is_copied = recipe.folded.kind in _PLACES and axes != (inner,)
    if is_copied or array.strides[inner] != array.itemsize:
        return array.size
    return array.size // (array.shape[inner] or 1)


def is_exact(folded: Folded) -> bool:
    """Tell whether a result does not depend on the order of computing."""
    values = (folded.result, *(value.dtype for value in folded.values))
    return folded.kind in (*_EXTREMES, *_PLACES) or all(dtype.kind in "biu" for dtype in values)


def axes_of(axis: Any, dimensions: int) -> tuple[int, ...]:
    """Return the axes that are reduced, in order, with NumPy's errors."""
    if axis is None:
        return tuple(range(dimensions))
    if type(axis) is int and -dimensions <= axis < dimensions:
        return (axis % dimensions,)
    if isinstance(axis, bool):  # which NumPy's helper would take
        raise TypeError("an integer is required for the axis")
    given = [operator.index(each) for each in (axis if isinstance(axis, tuple) else (axis,))]
    axes = normalize_axis_tuple(given, dimensions, allow_duplicate=True)
    if len(set(axes)) < len(axes):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(axes))


def shape_without(shape: tuple[int, ...], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """Return the shape of a result."""
    if keepdims:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in axes)


class Request(NamedTuple):
    """A reduction that is asked for."""

    recipe: Recipe
    plan: Plan
    values: tuple[Any, ...]
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    initial: Any = None
    ddof: float = 0


def reduce(request: Request) -> Array:
    """Return the reduction of arrays, broadcast to a shape, as a new array without the axes."""
    together = _local.together
    return run([request], request.recipe.works)[0] if together is None else together.result_of(request)


class _Local(threading.local):
    together: Any = None  # what stands in for reductions: see `together`


_local = _Local()


def is_together() -> bool:
    """Tell whether something stands in for the thread's reductions."""
    return _local.together is not None


def exchange(together: Any) -> Any:
    """Have something else stand in for the thread's reductions; return what did."""
    before, _local.together = _local.together, together
    return before


def _allocate(request: Request, arrays: Sequence[Array]) -> Array:
    """Return a new array for a result, laid out as what the reduction keeps; of places, in C order."""
    shape, dtype = shape_without(request.shape, request.axes, False), request.recipe.folded.result
    is_place = request.recipe.folded.kind in _PLACES
    if is_place or len(shape) < 2 or all(array.flags.c_contiguous for array in arrays):
        return allocator.empty(shape, dtype, number_may_stay=True)
    kept = tuple(0 if d in request.axes else slice(None) for d in range(len(request.shape)))
    return operands.allocate(dtype, shape, [np.broadcast_to(array, request.shape)[kept] for array in arrays])


def run(requests: Sequence[Request], works: Pool[ReduceWork]) -> list[Array]:
    """Return the results of reductions of the same values."""
    first = requests[0]
    arrays = [value for value in first.values if isinstance(value, np.ndarray)]
    results = [_allocate(request, arrays) for request in requests]
    work = works.take()
    try:
        work.spread(first.shape, first.axes, results, *first.values)
        for i, request in enumerate(requests):
            set_numbers(work.reduction[i : i + 1], request.initial, request.ddof)
        if work.run(first.plan, math.prod(first.shape)):
            work.report_met()
    finally:
        work.restore()
        works.give_back(work)
    return results


def set_numbers(reduction: Array, initial: Any, ddof: float) -> None:
    """Give a reduction its numbers."""
    reduction["has_initial"], reduction["ddof"] = initial is not None, ddof
    if initial is not None:
        number = np.asarray(initial)
        exact = number.dtype.kind in "biu"
        reduction["initial"] = float(number)
        reduction["initial_integer"] = np.asarray(int(number) & (2**64 - 1) if exact else 0, np.uint64).view(
            np.int64
        )
