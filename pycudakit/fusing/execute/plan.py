"""Plan: the library calls of a fused function as data, which the C library runs without Python.

A plan is a list of requests over buffers: the arguments, new arrays for the results, an arena for
intermediate values, constants, and numbers that Python reads. `lowering` makes it from a captured call. A
`PlanRun` binds it to memory of its own and runs it by `pk_run_requests`, on either engine.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from pycudakit import errors
from pycudakit._native import abi, allocator, loader
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import CODES, Array, DType
from pycudakit._runtime.call_log import Noted, Reason
from pycudakit._runtime.engine_choice import EngineChoice
from pycudakit._runtime.native_call import NativeCall
from pycudakit.fusing.memory.background_jit import compile_requested
from pycudakit.fusing.memory.buffer import byte_bounds
from pycudakit.fusing.memory.residency import INPUT, TEMPORARY, ResidencyScope

ALIGNMENT = 64  # bytes
# A call with more bytes of arguments and results for each request is not replayed on a GPU: a replay computes
# nothing while it copies them.
MAX_COPIED_BYTES = 16 << 20
ARENA, CONSTANTS, NUMBERS = -1, -2, -3  # buffers of a run; from 0 up come the arguments, then the new arrays
LOOP = "loop"  # a ufunc's inner loop in NumPy, which is called by its address
ENTRIES = {
    "pk_evaluate": abi.REQUEST_EVALUATE,
    "pk_reduce": abi.REQUEST_REDUCE,
    "pk_reduce_several": abi.REQUEST_REDUCE_SEVERAL,
    "pk_scan": abi.REQUEST_SCAN,
    LOOP: abi.REQUEST_LOOP,
    "pk_take": abi.REQUEST_TAKE,
    "pk_sort": abi.REQUEST_SORT,
    "pk_argsort": abi.REQUEST_ARGSORT,
    "pk_searchsorted": abi.REQUEST_SEARCHSORTED,
    "pk_matmul": abi.REQUEST_MATMUL,
    "pk_interp": abi.REQUEST_INTERP,
    "pk_gray": abi.REQUEST_GRAY,
    "pk_resize": abi.REQUEST_RESIZE,
    "pk_filter": abi.REQUEST_FILTER,
}


class Place(NamedTuple):
    """A position in a buffer of a plan, in bytes."""

    buffer: int
    offset: int


class Request(NamedTuple):
    """A call of an entry: its arguments without options and report, and the places of its operands.

    Capture and lowering fill in the places.
    """

    entry: str
    arguments: tuple[Any, ...]  # arrays and integers
    table: Array  # of the operands; it is an argument, or `pointers` are
    places: dict[int, Place]  # by the row of the table
    function: str
    shape: tuple[int, ...]  # that the call iterates over
    arrays: dict[int, Place]  # by the row: the first byte of the array that the operand is in
    written: set[int]  # the rows of the results
    pointers: tuple[int, ...] = ()  # the arguments that are addresses of operands, by the row
    quiet: int = 0  # the floating-point flags that the function ignores by `np.errstate`

    def key(self) -> tuple[Any, ...]:
        """Return a key that equal requests share."""
        parts = tuple([each.tobytes() if type(each) is np.ndarray else each for each in self.arguments])
        return self.entry, parts, tuple(sorted(self.places.items())), self.quiet


class NewArray(NamedTuple):
    """An array that each run allocates, for a result."""

    shape: tuple[int, ...]
    dtype: DType
    order: Any  # "C" or "F"

    def size(self) -> int:
        """Return the size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def allocate(self) -> Array:
        """Return a new array."""
        if self.order == "C":
            return allocator.empty(self.shape, self.dtype)
        return np.empty(self.shape, self.dtype, self.order)


class Extent(NamedTuple):
    """The bytes of an argument, whose first element need not be the first of them."""

    begin: int  # bytes from the first element to the lowest one, at most 0
    size: int


class ArrayView(NamedTuple):
    """A result that is a view of an argument or of a new array."""

    buffer: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    is_writeable: bool = True


class Number(NamedTuple):
    """A scalar that Python reads: NumPy's, or Python's float."""

    place: Place
    dtype: DType
    is_float: bool = False


class Stop(NamedTuple):
    """A test after a call of a request: the plan's run ends there if a number meets it."""

    call: int  # an index of the plan's order
    kind: int  # abi.STOP_...
    number: Number  # in the buffer NUMBERS, or in a new array


class Container(NamedTuple):
    """A result that is a list, a tuple or a dict, which `make` makes of its parts."""

    make: Callable[[list[Any]], Any]
    parts: list[Any]


class ConstantResult(NamedTuple):
    """A result that depends on the signature alone."""

    value: Any


class Plan(NamedTuple):
    """The calls of a function for one signature, or those up to a branch, as data."""

    function: str
    engine: str  # "cpu" or "cuda"
    requests: list[Request]
    order: list[int]  # the index of the request of each call
    arguments: list[Extent]
    new: list[NewArray]
    arena_bytes: int
    constants: bytes
    number_bytes: int
    written: list[int]  # the arguments of the plan that requests write to
    # Results of reductions, and their numbers of elements: unless all are finite, the call may have to warn.
    finite: list[tuple[Place, DType, int]]
    # The call's result: an index of a buffer; or an ArrayView, a Number, a Container, a ConstantResult.
    result: Any
    condition: Number | None = None  # of the branch that the plan ends with
    stops: Sequence[Stop] = ()  # of a superblock, in the order of their calls

    def key(self) -> tuple[Any, ...]:
        """Return a key that equal plans without a result share."""
        requests = [request.key() for request in self.requests]
        lists: list[list[Any]] = [requests, self.order, self.arguments, self.new, self.written, self.finite]
        sizes = self.arena_bytes, self.constants, self.number_bytes
        return *[tuple(each) for each in lists], *sizes, self.condition


_FIRST_RUNS = 8
_CUDA_LIBRARIES = ("torch", "cupy", "numba.cuda", "jaxlib", "tensorflow", "pycuda.driver")
_keys = itertools.count(1)
_key_space = np.empty(1)  # whose address makes keys of lists unique in the process


class DeviceCopies:
    """The arrays of one call that a GPU keeps from segment to segment, in a residency scope of the call.

    The key of an array is its lowest address on the host.

    Parameters
    ----------
    arguments
        The call's arguments.
    """

    def __init__(self, arguments: Iterable[Array]) -> None:
        self.scope = ResidencyScope()
        self._arguments = [byte_bounds(array)[0] for array in arguments]
        self._arrays: dict[int, Any] = {}  # kept alive, so that no new array has their addresses

    def add(self, address: int, size: int, intent: int, array: Any) -> None:
        """Keep the copy of an array on the device, if it is not small and there is room."""
        if address not in self._arrays and size and self.scope.make_resident(address, size, intent):
            self._arrays[address] = array

    def drop(self, address: int) -> None:
        """Forget an array that no segment reads any more."""
        if self._arrays.pop(address, None) is not None:
            self.scope.drop(address)

    def sync_to_host(self, address: int) -> None:
        """Download an array, if only the device has its values."""
        if address in self._arrays:
            self.scope.sync_to_host(address)

    def mark_host_dirty(self, address: int) -> None:
        """Note that the host has written to an array."""
        if address in self._arrays:
            self.scope.mark_host_dirty(address)

    def sync_arguments(self) -> None:
        """Download the arguments that were written to."""
        for address in self._arguments:
            self.sync_to_host(address)


class PlanRun(NativeCall):
    """A plan with an arena and bound tables, prepared for `pk_run_requests`; it serves one call at a time."""

    entry = "pk_run_requests"

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan
        sizes = {ARENA: plan.arena_bytes, CONSTANTS: len(plan.constants), NUMBERS: plan.number_bytes}
        self._own = {buffer: _aligned(size) for buffer, size in sizes.items()}
        self._own[CONSTANTS][...] = np.frombuffer(plan.constants, np.uint8)
        self._begins = [extent.begin for extent in plan.arguments] + [0] * len(plan.new)
        self._sizes = [each.size for each in plan.arguments] + [new.size() for new in plan.new]
        self._buffers = self._new_buffers()
        # The table as words, since a write to an array of NumPy takes as long as a short request.
        words, table = abi.BUFFER.itemsize // 8, cast(Any, self._buffers)
        self._words = (ctypes.c_uint64 * (words * len(table))).from_buffer(table)
        self._address_words = [words * row for row in range(len(self._begins))]
        self._requests = np.zeros(len(plan.requests), abi.REQUEST)
        self._order = np.array(plan.order, np.int32)
        self._stops = self._table_of_stops()
        # Of the prepared requests and the CUDA graphs in the library's cache.
        self._own_key = next(_keys), address_of(_key_space)
        self._key = np.array(self._own_key, np.uint64)
        self._completed = ctypes.c_int64()
        self._reason: Reason = ""
        self._choice = EngineChoice(plan.function, plan.engine, "")
        own = self._own[NUMBERS]
        self._finite = [_Numbers(own, *each) for each in plan.finite]
        self._condition = (
            None if plan.condition is None else _Numbers(own, plan.condition.place, plan.condition.dtype)
        )
        read = {place.buffer for place, _, _ in plan.finite} | _buffers_in(plan.result)
        read |= _buffers_in(plan.condition)
        self._read = sorted(buffer for buffer in read if buffer >= 0)  # the arrays that the host reads
        self._runs = 0
        self._tables: list[Array] = []  # which the requests point to
        # If requests ignore flags: the flags of each instruction, and those that are ignored.
        self._flags: list[tuple[Array, int]] = []
        self._has_quiet_requests = any(request.quiet for request in plan.requests)
        bindings: list[tuple[int, int, int]] = []
        for row, request in zip(self._requests, plan.requests, strict=True):
            bindings += self._fill(row, request)
        self._bindings = np.array(bindings, abi.BINDING)
        self.bytes = sum(sizes.values()) + sum(table.nbytes for table in self._tables)

    def bind(self, library: ctypes.CDLL) -> Callable[[], int]:
        """Return the entry, bound to its arguments."""
        return abi.bound(
            *(library, self.entry),
            *(self._requests, len(self._requests), self._order, len(self._order)),
            *(self._bindings, len(self._bindings), self._buffers, len(self._buffers)),
            *(self._stops, len(self._stops), self._key),
            *(ctypes.byref(self._completed), self.options, self.report),
        )

    @property
    def completed(self) -> int:
        """The calls of the last run."""
        return self._completed.value

    def _new_buffers(self) -> Array:
        """Return the table of buffers, in which those that each call gives lack addresses and sizes."""
        plan = self._plan
        rows = [(0, extent.size, abi.BUFFER_UPLOAD) for extent in plan.arguments]
        rows += [(0, new.size(), abi.BUFFER_DOWNLOAD) for new in plan.new]
        own_flags = {ARENA: 0, CONSTANTS: abi.BUFFER_UPLOAD, NUMBERS: abi.BUFFER_DOWNLOAD}
        rows += [(address_of(self._own[each]), self._own[each].size, own_flags[each]) for each in own_flags]
        buffers = np.zeros(len(rows), abi.BUFFER)
        buffers["address"], buffers["bytes"], buffers["flags"] = zip(*rows, strict=True)
        buffers["flags"][plan.written] |= abi.BUFFER_DOWNLOAD
        return buffers

    def _table_of_stops(self) -> Array:
        numbers = len(self._buffers) - 1  # the buffer NUMBERS
        rows = []
        for call, kind, (place, dtype, _) in self._plan.stops:
            buffer = numbers if place.buffer == NUMBERS else place.buffer
            rows.append((call, buffer, place.offset, CODES[dtype], kind))
        return np.array(rows, abi.STOP)

    def _fill(self, row: Any, request: Request) -> list[tuple[int, int, int]]:
        """Fill an `abi.REQUEST`; return the bindings of its operands."""
        arguments = [each.copy() if type(each) is np.ndarray else each for each in request.arguments]
        arrays = [each for each in arguments if type(each) is np.ndarray]
        self._tables += arrays
        if self._has_quiet_requests:
            self._flags += [(each, request.quiet) for each in arrays if each.dtype == np.uint8]
        row["entry"] = ENTRIES[request.entry]
        row["arguments"][: len(arguments)] = [
            address_of(each) if type(each) is np.ndarray else each for each in arguments
        ]
        if request.pointers:
            words, indices = row["arguments"], request.pointers
        else:
            (table,) = (each for each in arrays if each.dtype == abi.OPERAND)
            words, indices = table["address"], tuple(range(len(table)))
        bindings = []
        for operand, (buffer, offset) in request.places.items():
            index = indices[operand]
            if buffer < 0:
                words[index] = address_of(self._own[buffer]) + offset
            else:
                word = address_of(words[index:])
                bindings.append((word, buffer, offset - self._begins[buffer]))
        return bindings

    def compute(
        self,
        arguments: Sequence[Array],
        addresses: Sequence[int],
        reason: Reason,
        allocate: Callable[[NewArray], Array] = NewArray.allocate,
        copies: DeviceCopies | None = None,
    ) -> list[Array] | None:
        """Run the requests; return the arguments and the new arrays.

        None means that the call must be traced, since a request failed, or an operation may have to warn.
        With `copies`, arrays that the host does not read stay on the device.
        """
        plan = self._plan
        new = [allocate(each) for each in plan.new]
        buffers = [*arguments, *new]
        if not plan.order and copies is None:
            return buffers
        given = [*addresses, *map(address_of, new)]
        lowest = [address + begin for address, begin in zip(given, self._begins, strict=True)]
        for word, address in zip(self._address_words, lowest, strict=True):
            self._words[word] = address
        if reason is not self._reason:
            self._choice = EngineChoice(plan.function, plan.engine, Noted(reason, "replayed"))
            self._reason = reason
        try:
            if copies is None:
                run = self.run_on_cpu if plan.engine == "cpu" else self._run_on_cuda
                flags = run(self._choice)
            else:
                flags = self._run_with_copies(copies, buffers, lowest)
        except errors.InternalError:
            raise
        except errors.Error:  # the traced call raises it, or falls back
            return None
        if flags and self._has_quiet_requests:
            flags = self._flags_that_count()
        needs_no_warning = (not flags and self._is_finite(buffers)) or _ignores_errors(flags)
        return buffers if needs_no_warning else None

    def outcome(self, buffers: Sequence[Array]) -> bool:
        """Return the truth value of the condition."""
        condition = self._condition
        return condition is not None and bool(condition.values(buffers).item())

    def value(self, number: Number, buffers: Sequence[Array]) -> Any:
        """Return a number that the last run has computed; `buffers` are its arguments and new arrays."""
        return _Numbers(self._own[NUMBERS], number.place, number.dtype).values(buffers)[0]

    def are_finite(self, numbers: Sequence[Number], buffers: Sequence[Array]) -> bool:
        """Return True if these numbers need no warning."""
        return all(math.isfinite(self.value(each, buffers)) for each in numbers) or _ignores_errors(0)

    def result(self, buffers: Sequence[Array]) -> Any:
        """Return the call's result."""
        return self._result(self._plan.result, buffers, {})

    def _run_on_cuda(self, choice: EngineChoice) -> int:
        may_capture = not _may_synchronize_elsewhere()
        if may_capture != bool(self._key[0]):
            self._key[:] = self._own_key if may_capture else 0
        flags = self.run_unobserved(choice)
        self._runs += 1
        # The first runs request most kernels; from then on after 16, 32, 64, ... runs.
        if self._runs <= _FIRST_RUNS or self._runs & (self._runs - 1) == 0:
            compile_requested(loader.library("cuda"))
        return flags

    def _run_with_copies(
        self, copies: DeviceCopies, arrays: Sequence[Array], addresses: Sequence[int]
    ) -> int:
        """Run on a GPU, and download the arrays that the host reads."""
        sizes, count = self._sizes, len(self._plan.arguments)
        for index, address in enumerate(addresses):
            copies.add(address, sizes[index], INPUT if index < count else TEMPORARY, arrays[index])
        for buffer, intent in ((ARENA, TEMPORARY), (CONSTANTS, INPUT)):
            own = self._own[buffer]
            copies.add(address_of(own), own.size, intent, own)
        flags = self._run_on_cuda(self._choice) if self._plan.order else 0
        for index in self._read:
            copies.sync_to_host(addresses[index])
        return flags

    def _flags_that_count(self) -> int:
        """Return the flags of the last run, without those that the function ignores."""
        found = 0
        for flags, quiet in self._flags:
            found |= int(np.bitwise_or.reduce(flags)) & ~quiet
        return found

    def _is_finite(self, buffers: Sequence[Array]) -> bool:
        for each in self._finite:
            values = each.values(buffers)
            if not (math.isfinite(values.item()) if each.count == 1 else np.isfinite(values).all()):
                return False
        return True

    def _result(self, part: Any, buffers: Sequence[Array], made: dict[int, Any]) -> Any:
        """Make a part of the result; a part that occurs twice is one object, which `made` has by its id."""
        kind = type(part)
        if kind is int:
            return buffers[part]
        if kind is ConstantResult:
            return part.value
        if id(part) not in made:
            if kind is Number:
                number = _Numbers(self._own[NUMBERS], part.place, part.dtype).values(buffers)[0]
                made[id(part)] = float(number) if part.is_float else number
            elif kind is ArrayView:
                view: Any = np.ndarray(
                    part.shape, part.dtype, buffers[part.buffer], part.offset, part.strides
                )
                view.flags.writeable &= part.is_writeable
                made[id(part)] = view
            else:
                parts = [self._result(each, buffers, made) for each in part.parts]
                made[id(part)] = part.make(parts)
        return made[id(part)]


class _Numbers:
    """Numbers at a place, which Python reads after a run; those in the run's own buffer share one array."""

    __slots__ = ("_array", "_dtype", "_place", "count")

    def __init__(self, own: Array, place: Place, dtype: DType, count: int = 1) -> None:
        self._place, self._dtype, self.count = place, dtype, count
        self._array = self._view(own) if place.buffer == NUMBERS else None

    def values(self, buffers: Sequence[Array]) -> Array:
        """Return the numbers; `buffers` are the arguments and the new arrays."""
        return self._view(buffers[self._place.buffer]) if self._array is None else self._array

    def _view(self, memory: Any) -> Array:
        view: Array = np.ndarray(self.count, self._dtype, memory, self._place.offset)
        return view


def _may_synchronize_elsewhere() -> bool:
    """Return True if another library may synchronize the GPU in another thread.

    CUDA forbids that while a graph is captured.
    """
    return threading.active_count() > 1 and any(name in sys.modules for name in _CUDA_LIBRARIES)


def _buffers_in(result: Any) -> set[int]:
    """Return the arrays in the description of a result, by their index."""
    if isinstance(result, int):
        return {result}
    if isinstance(result, ArrayView):
        return {result.buffer}
    if isinstance(result, Number):
        return {result.place.buffer}
    return set().union(*map(_buffers_in, result.parts)) if isinstance(result, Container) else set()


def _ignores_errors(flags: int) -> bool:
    """Return True if `np.errstate` ignores all errors that the flags, or non-finite results, stand for.

    NumPy raises for negative integer powers under any `np.errstate`.
    """
    state = np.geterr()
    is_quiet = state["divide"] == state["over"] == state["invalid"] == "ignore"
    return is_quiet and not flags & abi.FPE_NEGATIVE_POWER


def _aligned(size: int) -> Array:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    first = -address_of(memory) % ALIGNMENT
    return memory[first : first + size]
