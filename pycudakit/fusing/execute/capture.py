"""Capture: observes the library calls of a traced call on host arrays, of which `lowering` makes a plan.

The plan holds for all values of the arguments if each byte that its requests read is an argument's, was
written by an earlier request, or is a constant that depends on the signature alone. `Capture` checks that for
the memory of every operand. Where Python branches on a computed number, or makes a host call, a new segment
begins, which holds for that outcome. `Capture` gives up (`mark_not_replayable`) where Python reads another
computed value, since all that follows may depend on it, and where NumPy computes or writes in another way.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import math
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pycudakit._element_programs.program import ElementProgram
from pycudakit._native import abi
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import CODES, Array
from pycudakit._runtime.native_call import NativeCall
from pycudakit.fusing.errstate import newly_ignored
from pycudakit.fusing.execute.captured_memory import Memory, operand_bounds
from pycudakit.fusing.execute.host_call import GeneratorOperand, HostCall, layouts_of, operand_in
from pycudakit.fusing.execute.numpy_matmul import Product
from pycudakit.fusing.execute.plan import ALIGNMENT, CONSTANTS, ENTRIES, LOOP, Place, Request
from pycudakit.fusing.graph_breaks import Break
from pycudakit.fusing.memory.buffer import byte_bounds, owner_of

# Bytes of results and intermediate values, which a capture keeps: at most 64 MiB, and 256 KiB more for each
# request, but never more than 1 GiB. In longer calls Python's share of the time is small.
_MAX_BYTES, _MAX_BYTES_OF_REQUEST, _MAX_BYTES_KEPT = 64 << 20, 256 << 10, 1 << 30
SMALL_ARRAYS = 4096  # elements of all arguments: with no more, `auto` runs the function in NumPy
_SCALAR_TYPES = frozenset(dtype.type for dtype in CODES)
_AS_BYTES = struct.Struct("<d").pack  # unlike `hex`, with the sign of NaN
_BITS = struct.Struct("<Q").unpack
_MAX_REQUESTS, _MAX_SEGMENTS = 100_000, 10_000
# Under `auto`, a call of small arrays with so many segments needs so many requests for each, on average.
_MANY_SEGMENTS, _FEW_REQUESTS = 64, 3
MAX_SECONDS = 30.0  # that a captured call may take
_TRACED_SHARE = 0.05  # of the time limit: the rest of a call takes no more, once it cannot be replayed
# Reductions that need not warn if their result is finite.
_REDUCTIONS = frozenset(
    """all any argmax argmin count_nonzero dot max mean min nanmax nanmean nanmin nanprod nanstd nansum nanvar
    norm prod ptp std sum var""".split()  # noqa: SIM905
)


def key_of_constant(value: Any) -> Any:
    """Return a hashable key of a value that is immutable and has no identity of its own; else None."""
    kind = type(value)
    if kind in (bool, int, str, type(None)):
        return kind, value
    if kind is float:
        return kind, _AS_BYTES(value)
    if kind in _SCALAR_TYPES:
        return kind, value.tobytes()
    if isinstance(value, np.dtype):
        return (kind, value.char) if value in CODES and value.metadata is None else None
    if kind is type and (value in (bool, int, float, complex) or value in _SCALAR_TYPES):
        return kind, value
    return None


_ALL_FLAGS = abi.FPE_DIVIDE_BY_ZERO | abi.FPE_OVERFLOW | abi.FPE_INVALID
# Entries that take the addresses of arrays, of which the last is the result; and those of each type.
_OF_TYPES = frozenset({"pk_sort", "pk_argsort", "pk_searchsorted", "pk_matmul"})
_OF_POINTERS = _OF_TYPES | {"pk_take", "pk_interp"}
# Those that take an operand table, whose last row is the result, and then a shape.
_OF_TABLES = frozenset({"pk_scan", "pk_gray", "pk_resize", "pk_filter"})
_TYPE_BITS = 0xFFFFFFFF  # of the word that has the type and the flags of an operand
_TYPE_CODES = {
    suffix: CODES[np.dtype(np.float16 if suffix == "f16" else dtype)] for suffix, dtype in abi.SORTED.items()
} | {"bool": CODES[np.dtype(bool)]}
# The positions of two arguments of `pk_matmul` in host memory: pairs of matrices, and the method, a result.
_PAIRS_OF_MATRICES, _METHOD = 7, 11


class Scalar:
    """A number in the result of a captured call, in place of the scalar, which may be a singleton."""

    __slots__ = ("array", "is_float", "number")

    def __init__(self, array: Array, is_float: bool) -> None:
        self.array, self.is_float = array, is_float
        self.number: Any = array.item() if is_float else array[()]


class NotReplayableError(Exception):
    """The call has no plan."""


class Constants:
    """The constants of a segment, each at an offset."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self._offsets: dict[bytes, int] = {}

    def add(self, value: bytes) -> Place:
        """Return the place of a constant."""
        offset = self._offsets.get(value)
        if offset is None:
            self.bytes.extend(bytes(-len(self.bytes) % ALIGNMENT))
            offset = self._offsets[value] = len(self.bytes)
            self.bytes.extend(value)
        return Place(CONSTANTS, offset)


class CapturedSegment:
    """The requests up to a branch on a number, to a host call, or to the end of the call."""

    def __init__(self) -> None:
        self.requests: list[tuple[Request, dict[int, Memory]]] = []  # the memory by the row of the operand
        # Elementwise requests, by the key of the call. The program is kept alive, as the key has its id.
        self.known: dict[tuple[Any, ...], tuple[ElementProgram, Request, dict[int, Memory]]] = {}
        self.constants = Constants()
        self.finite: list[Memory] = []  # results of reductions, which may have to warn unless finite
        self.condition: Array | None = None
        self.host_call: HostCall | None = None
        self.outcome: Any = False  # of the condition, or the layouts of the host call's results
        self.loop_state: Any = None  # the `LoopState` at the branch, if that may leave a loop


class Capture:
    """The library calls of one traced call, and the memory of their operands.

    Parameters
    ----------
    arrays
        The arguments that are arrays. They do not overlap.
    engine
        The engine that runs the call: "cpu" or "cuda".
    max_seconds
        The seconds after which NumPy runs the rest of the call; None under a named engine.
    generators
        The arguments that are random generators.
    """

    def __init__(
        self,
        arrays: Sequence[Array],
        engine: str = "cpu",
        max_seconds: float | None = None,
        generators: Sequence[Any] = (),
    ) -> None:
        self.engine = engine
        self._generators = generators
        self.argument_bounds = sorted(
            (*byte_bounds(array), i, address_of(array)) for i, array in enumerate(arrays)
        )
        self.arguments = list(arrays)
        self.argument_indices = {id(array): index for index, array in enumerate(arrays)}
        self.memories: list[Memory] = []  # in the order of their addresses
        self._begins: list[int] = []
        self._by_owner: dict[int, Memory] = {}
        self._owners: dict[int, Array] = {}  # by serial number
        self.segments = [CapturedSegment()]
        self.breaks: list[Break] = []  # the graph breaks that replays have, too
        self._request_count = 0
        self._bytes = 0
        self.deferred_steps: dict[Any, int] = {}  # of variables, at the branches of loops
        self.is_valid = True
        self.is_late = False  # capturing takes too long: NumPy shall run the rest of the call
        self.timed_out = False  # the time limit was the reason: with a longer one, there might be a plan
        self._may_be_late = max_seconds is not None
        self._is_small = sum([array.size for array in arrays]) <= SMALL_ARRAYS
        self.max_seconds = MAX_SECONDS if max_seconds is None else max_seconds
        self._ends_at = time.perf_counter() + self.max_seconds
        self._is_in_host_call = False
        self.body_has_ended = False  # so that the host may read results
        self._errors: Any = np.geterr()
        self.sets_errors = False  # the function may use `np.errstate`
        # Arrays in place of numbers that the function only computes with, by the argument's index or name.
        self.scalars: dict[int | str, Array] = {}
        self.containers: set[int] = set()  # the ids of lists and dicts among the arguments
        self.has_guarded_arrays = False  # in free variables, or in attributes of arguments

    # ---- The traced call -------------------------------------------------------------------------------

    def mark_not_replayable(self) -> None:
        """Give up: the call did something that a list of requests cannot do."""
        self.is_valid = False
        self.is_late |= self._may_be_late and self._is_small  # tracing them is slower than NumPy
        self._ends_at = min(self._ends_at, time.perf_counter() + _TRACED_SHARE * self.max_seconds)
        for each in (self.memories, self._begins, self._by_owner, self._owners, self.segments):
            each.clear()

    def is_out_of_time(self) -> bool:
        """Return True if NumPy is to run the rest of the call."""
        if not self.is_valid and self._may_be_late and not self.is_late:
            self.is_late = time.perf_counter() > self._ends_at
        return self.is_late

    def on_host_read(self) -> None:
        """Note that Python or NumPy reads a computed value."""
        if not self.body_has_ended:
            self.mark_not_replayable()

    def add_branch(self, array: Array, state: Callable[[Capture], Any] | None = None) -> None:
        """Note that Python branches on a number: a new segment begins, unless it is a constant.

        `state` returns the `LoopState`, if the branch may leave a loop.
        """
        memory = self._by_owner.get(id(owner_of(array)))
        if memory is not None and memory.is_constant:
            return
        is_written = memory is not None and memory.has_written(address_of(array), (), (), array.itemsize)
        if memory is None or not is_written or not self._can_end_segment():
            self.mark_not_replayable()
            return
        memory.mark_used_in(len(self.segments) - 1)
        memory.is_read_by_python = True
        segment = self.segments[-1]
        segment.condition, segment.outcome = array, bool(array)
        segment.loop_state = None if state is None else state(self)
        self.segments.append(CapturedSegment())

    def _can_end_segment(self) -> bool:
        segments = len(self.segments)
        # A loop over single elements: NumPy computes them faster than segments are run.
        is_slow = self._may_be_late and self._is_small and segments >= _MANY_SEGMENTS
        is_slow = is_slow and self._request_count < _FEW_REQUESTS * segments
        return segments < _MAX_SEGMENTS and not is_slow

    # ---- Host calls ------------------------------------------------------------------------------------

    @property
    def takes_host_calls(self) -> bool:
        """Whether the next operation may be a host call."""
        return self.is_valid and not self.body_has_ended and self._can_end_segment()

    def operand_of(self, array: Array, *, is_scalar: bool, is_weak: bool) -> Any:
        """Return the operand of a host call for an array: an `ArrayOperand`, or a copy of a constant."""
        bounds = byte_bounds(array)
        argument = self.argument_at(*bounds)
        if argument is not None:
            index = argument[2]
            operand = operand_in(
                array, self.arguments[index], index, -1, is_scalar=is_scalar, is_weak=is_weak
            )
        else:
            memory = self._memory_containing(*bounds)
            if memory.is_constant:
                return array[()] if is_scalar else array.copy("K")
            if not memory.has_written(address_of(array), array.shape, array.strides, array.itemsize):
                raise NotReplayableError
            memory.mark_used_in(len(self.segments) - 1)
            memory.mark_used_in(len(self.segments))  # so that it leaves the segment, and is not in its arena
            operand = operand_in(array, memory.owner, -1, memory.serial, is_scalar=is_scalar, is_weak=is_weak)
        if operand is None:
            raise NotReplayableError
        return operand

    def operand_of_generator(self, generator: Any) -> GeneratorOperand:
        """Return the operand of a host call for a random generator."""
        for index, each in enumerate(self._generators):
            if each is generator and self.engine == "cpu":  # on a GPU, calls with draws are traced
                return GeneratorOperand(index)
        raise NotReplayableError

    def call_on_host(self, call: HostCall) -> Any:
        """Compute a host call, whose own library calls are no requests."""
        self._is_in_host_call = True
        try:
            return call.compute(self.arguments, self._generators, self._owners)
        finally:
            self._is_in_host_call = False

    def add_host_call(self, call: HostCall, results: Sequence[Array]) -> None:
        """Add a host call with these results: a new segment begins."""
        serials = []
        for array in results:
            owner = owner_of(array)
            is_new = id(owner) not in self._by_owner and not call.has_constant(owner)
            self._add(owner, is_constant=False)
            memory = self._by_owner.get(id(owner))
            if memory is None or not is_new:  # it is an argument's, or that of another array
                self.mark_not_replayable()
                return
            memory.is_from_host_call = True
            memory.mark_used_in(len(self.segments) - 1)
            memory.mark_written(memory.begin, (memory.end - memory.begin,), (1,), 1)
            serials.append(memory.serial)
        segment = self.segments[-1]
        segment.host_call, segment.outcome = call._replace(results=tuple(serials)), layouts_of(results)
        self.segments.append(CapturedSegment())

    # ---- Memory ----------------------------------------------------------------------------------------

    def add_constant(self, array: Array) -> None:
        """Note a new array whose elements depend on the signature alone, and stay as they are."""
        self._add(array, is_constant=True)

    def add_memory(self, arrays: Sequence[Array]) -> None:
        """Note arrays that the next request reads or writes."""
        for array in arrays:
            self._add(array, is_constant=False)

    def begin_reductions(self, names: Sequence[str]) -> int:
        """Note that reductions are computed next; return the number of requests before them."""
        if not self.is_valid or not _REDUCTIONS.issuperset(names):  # their operand may be too large
            self.mark_not_replayable()
            return 0
        return len(self.segments[-1].requests)

    def reduced_arrays(self, first: int, results: Sequence[Array]) -> list[Array]:
        """Return the arrays that the requests from `first` on wrote, which the results share or copy."""
        requests = self.segments[-1].requests[first:] if self.is_valid else []
        arrays = [memories[row].owner for request, memories in requests for row in _result_rows(request)]
        # Several requests may have another order than the results, which equal results would hide.
        is_in_order = len(requests) <= 1 or len({each.tobytes() for each in results}) == len(results)
        if is_in_order and len(arrays) == len(results) and all(map(_are_same, arrays, results)):
            return [
                array if array.shape == result.shape else array.reshape(result.shape)
                for array, result in zip(arrays, results, strict=True)
            ]
        self.mark_not_replayable()
        return list(results)

    def _add(self, array: Array, is_constant: bool) -> None:
        owner = owner_of(array)
        if not self.is_valid or id(owner) in self._by_owner or self.argument_at(*byte_bounds(array)):
            return
        memory = Memory(owner, is_constant, len(self._by_owner))
        self._bytes += memory.end - memory.begin
        most = _MAX_BYTES + _MAX_BYTES_OF_REQUEST * self._request_count
        if self._bytes > min(most, _MAX_BYTES_KEPT):
            self.mark_not_replayable()
            return
        self._by_owner[id(owner)] = memory
        self._owners[memory.serial] = owner
        index = bisect.bisect(self._begins, memory.begin)
        self._begins.insert(index, memory.begin)
        self.memories.insert(index, memory)

    def argument_at(self, begin: int, end: int) -> tuple[int, int, int, int] | None:
        """Return the argument that contains a range: its bounds, its index and its address."""
        at = bisect.bisect(self.argument_bounds, (begin, math.inf)) - 1
        found = self.argument_bounds[at] if at >= 0 else None
        return found if found is not None and end <= found[1] else None

    def memory_of(self, owner: Array) -> Memory | None:
        """Return the memory of an array that owns it, if a request has used it."""
        return self._by_owner.get(id(owner))

    def _memory_containing(self, begin: int, end: int) -> Memory:
        at = bisect.bisect(self._begins, begin) - 1
        if at < 0 or end > self.memories[at].end:
            raise NotReplayableError
        return self.memories[at]

    # ---- Requests --------------------------------------------------------------------------------------

    def on_native_call(self, entry: NativeCall, function: str) -> None:
        """Add a library call of a function to the list."""
        if not self.is_valid or self._is_in_host_call:
            return
        if time.perf_counter() > self._ends_at:
            self.mark_not_replayable()
            self.is_late = self.timed_out = self._may_be_late
            return
        if name_of_entry(entry.entry)[0] not in ENTRIES or self._request_count >= _MAX_REQUESTS:
            self.mark_not_replayable()
            return
        try:
            self._add_request(entry, function)
        except NotReplayableError:
            self.mark_not_replayable()

    def _add_request(self, entry: Any, function: str) -> None:
        if entry.entry != "pk_evaluate":
            request, memories = self._new_request(entry, function)
            self._append(request, memories)
            return
        # A step of a loop may repeat the requests of the step before, on the same memory.
        segment, quiet = self.segments[-1], self._quiet_flags()
        key = *entry.key(), quiet
        known = segment.known.get(key)
        if known is None:
            request, memories = self._new_request(entry, function)
            if 0 in request.shape:  # it reads and writes nothing
                return
            request = request._replace(quiet=quiet)
            segment.known[key] = entry.program, request, memories
        else:
            _, request, memories = known
            for memory in memories.values():
                memory.mark_used(self._request_count, len(self.segments) - 1)
        self._append(request, memories)

    def _new_request(self, entry: Any, function: str) -> tuple[Request, dict[int, Memory]]:
        """Return the request for a library call, and the memory of its operands."""
        name, given = entry.describe_entry()
        if name_of_entry(name)[0] in _OF_POINTERS:
            request, shapes = _request_of_pointers(name, given, function)
            return request, self._find_arrays(request, shapes)
        arguments = tuple(
            [
                value.copy() if type(value) is np.ndarray else int(getattr(value, "value", value))
                for value in given
                if type(value) is not np.ndarray or value.dtype not in (abi.OPTIONS, abi.REPORT)
            ]
        )
        (table,) = (each for each in arguments if type(each) is np.ndarray and each.dtype == abi.OPERAND)
        is_of_table = name in _OF_TABLES
        sizes: Any = shape_of(arguments) if is_of_table else entry.shape[: entry.dimensions.value]
        request = Request(name, arguments, table, {}, function, tuple(sizes.tolist()), {}, set())
        if 0 in request.shape:
            return request, {}
        if is_of_table:
            return request, self._find_arrays(request, self._shapes_of(request))
        return request, self._find_operands(request, entry)

    def _shapes_of(self, request: Request) -> list[tuple[int, ...]]:
        """Return the shapes of the operands of a table."""
        shapes = [request.shape] * len(request.table)
        if request.entry in ("pk_gray", "pk_resize"):
            begin = int(request.table["address"][-1])
            shapes[-1] = self._memory_containing(begin, begin + 1).owner.shape
        return shapes

    def add_product(self, product: Product, arrays: Sequence[Array]) -> None:
        """Add a call of a loop of `matmul`; the last array is the result."""
        if not self.is_valid:
            return
        self.add_memory(arrays)
        table = _table_of(arrays)
        sizes = product.sizes, product.strides
        arguments = product.loop, table, len(arrays), *sizes, product.data
        request = Request(LOOP, arguments, table, {}, "matmul", arrays[-1].shape, {}, set())
        try:
            memories = self._find_arrays(request, [array.shape for array in arrays])
        except NotReplayableError:
            self.mark_not_replayable()
            return
        self._append(request, memories)

    def _append(self, request: Request, memories: dict[int, Memory]) -> None:
        if request.quiet != (quiet := self._quiet_flags()):
            request = request._replace(quiet=quiet)
        self.segments[-1].requests.append((request, memories))
        self._request_count += 1

    def _quiet_flags(self) -> int:
        """Return the floating-point flags that are ignored here, by a `with np.errstate(...)` of the body."""
        if not self.sets_errors or np.geterr() == self._errors:
            return 0
        quiet = newly_ignored(self._errors)
        if quiet is None:
            raise NotReplayableError
        return quiet if self.engine == "cpu" else 0  # a GPU tells the flags of all requests together

    def _find_arrays(self, request: Request, shapes: Sequence[tuple[int, ...]]) -> dict[int, Memory]:
        """Find the memory of operands of these shapes, of which the last is the result."""
        last, words = len(shapes) - 1, _words_of(request.table)
        found = {
            row: self._operand(request, words, row, shape, row == last) for row, shape in enumerate(shapes)
        }
        return {row: memory for row, memory in found.items() if memory is not None}

    def _find_operands(self, request: Request, entry: Any) -> dict[int, Memory]:
        """Find the operands' memory; raise if a byte is neither an argument's nor written before."""
        loaded, numbers, stored = _operands_of(entry.program)
        shape = request.shape
        for row in numbers:
            operand = request.table[row]
            number = ctypes.string_at(int(operand["address"]), abi.TYPES[operand["type"]].itemsize)
            request.places[row] = self.segments[-1].constants.add(number)
        words = _words_of(request.table)
        memories = {
            row: memory for row in loaded if (memory := self._operand(request, words, row, shape, False))
        }
        is_reduction = request.entry != "pk_evaluate"
        self.add_memory(entry.results if is_reduction else ())
        for row in _result_rows(request) if is_reduction else stored:
            memory = self._operand(request, words, row, shape, True)
            if memory is not None:
                memories[row] = memory
            if is_reduction and memory is None:
                raise NotReplayableError
            is_float = memory is not None and memory.owner.dtype.kind == "f"
            if is_reduction and is_float and self._quiet_flags() != _ALL_FLAGS:
                assert memory is not None  # noqa: S101
                self.segments[-1].finite.append(memory)
                memory.is_read_by_python = True
        return memories

    def _operand(
        self, request: Request, words: Array, row: int, shape: tuple[int, ...], is_result: bool
    ) -> Memory | None:
        """Check an operand and note its use; set its place if it is an argument's, else return its memory."""
        address, type_and_flags, *strides = words[row, : len(shape) + 2].tolist()
        item = abi.TYPES[type_and_flags & _TYPE_BITS].itemsize
        if 0 in strides:  # such axes do not matter to the bytes
            axes = [(n, stride) for n, stride in zip(shape, strides, strict=True) if stride or not n]
            shape, strides = tuple([n for n, _ in axes]), [stride for _, stride in axes]
        bounds = operand_bounds(address, shape, strides, item)
        argument = self.argument_at(*bounds)
        if is_result:
            request.written.add(row)
        if argument is not None:
            request.arrays[row] = Place(argument[2], 0)
            request.places[row] = Place(argument[2], address - argument[3])
            return None
        memory = self._memory_containing(*bounds)
        memory.mark_used(self._request_count, len(self.segments) - 1)
        if is_result and memory.is_constant:
            raise NotReplayableError
        if is_result:
            memory.mark_written(address, shape, strides, item)
        elif not memory.has_written(address, shape, strides, item):
            raise NotReplayableError
        return memory

    # ---- The result ------------------------------------------------------------------------------------

    def computed_memory(self, array: Array) -> Memory:
        """Return the memory of an array that is neither an argument nor a constant."""
        memory = self._by_owner.get(id(owner_of(array)))
        if memory is None or memory.is_constant:
            raise NotReplayableError
        return memory


def _words_of(table: Array) -> Array:
    """Return the rows of an operand table as integers: address, type and flags, strides.

    They are read in a fraction of the time of the fields.
    """
    return table.view(np.int64).reshape(len(table), -1)


def shape_of(arguments: Sequence[Any]) -> Array | None:
    """Return an entry's shape argument: it follows the operand table and, in some entries, its length."""
    arrays = [value if isinstance(value, np.ndarray) else None for value in arguments]
    for index, table in enumerate(arrays):
        if table is not None and table.dtype == abi.OPERAND:
            following = (each for each in arrays[index + 1 : index + 3] if each is not None)
            return next((each for each in following if each.dtype == np.int64), None)
    return None


def _table_of(arrays: Sequence[Array]) -> Array:
    """Return the operand table of arrays."""
    table = np.zeros(len(arrays), abi.OPERAND)
    for row, array in zip(table, arrays, strict=True):
        row["address"], row["type"] = address_of(array), CODES[array.dtype]
        row["strides"][: array.ndim] = array.strides
    return table


@functools.cache
def name_of_entry(name: str) -> tuple[str, int | None]:
    """Return the name of an entry without the type of its elements, and that type."""
    base, _, suffix = name.rpartition("_")
    return (base, _TYPE_CODES[suffix]) if base in _OF_TYPES else (name, None)


def _request_of_pointers(
    name: str, given: Sequence[Any], function: str
) -> tuple[Request, list[tuple[int, ...]]]:
    """Return the request for an entry that takes addresses, and the shapes of the arrays there."""
    base, type_code = name_of_entry(name)
    arguments = [*given[:-2]] if type_code is None else [type_code, *given[:-2]]
    tables = {}
    if base == "pk_matmul":
        tables = {_PAIRS_OF_MATRICES: arguments[_PAIRS_OF_MATRICES].copy(), _METHOD: np.zeros(1, np.int64)}
    pointers = tuple([i for i, each in enumerate(arguments) if type(each) is np.ndarray and i not in tables])
    arrays = [arguments[i] for i in pointers]
    words = [
        0 if i in pointers else tables[i] if i in tables else _word(getattr(each, "value", each))
        for i, each in enumerate(arguments)
    ]
    request = Request(
        base, tuple(words), _table_of(arrays), {}, function, arrays[-1].shape, {}, set(), pointers
    )
    return request, [array.shape for array in arrays]


def _word(value: Any) -> int:
    """Return an integer, or the bits of a float."""
    return _BITS(_AS_BYTES(value))[0] if type(value) is float else int(value)


def _result_rows(request: Request) -> range:
    """Return the rows of the results of a request that reduces."""
    first = (
        request.arguments[1] if request.entry == "pk_reduce_several" else int(request.entry == "pk_reduce")
    )
    return range(len(request.table) - first, len(request.table))


@functools.lru_cache(1024)
def _operands_of(program: ElementProgram) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the operands of a program: arrays that it loads, numbers, and arrays that it stores."""
    instructions = program.instructions
    loaded = set(instructions["a"][instructions["op"] == abi.OP_LOAD].tolist())
    stored = instructions["b"][instructions["op"] == abi.OP_STORE].tolist()
    numbers = {i for i, each in enumerate(program.operands) if each.source in ("scalar", "constant")}
    return tuple(loaded - numbers), tuple(numbers), tuple(stored)


def _are_same(one: Array, other: Array) -> bool:
    """Return True if two arrays share their elements, which may be on a GPU, or have equal ones."""
    if (one.dtype, one.size) != (other.dtype, other.size):
        return False
    return address_of(one) == address_of(other) or one.tobytes() == other.tobytes()
