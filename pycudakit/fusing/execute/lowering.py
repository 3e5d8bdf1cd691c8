"""Lowering: makes the plans of a captured call, one for each segment.

Each array that an earlier segment made and a later one uses is an argument of the later plan. Other
intermediate values have places in an arena, by their lifetimes.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import heapq
import marshal
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit.fusing.execute.capture import (
    Capture,
    CapturedSegment,
    NotReplayableError,
    Scalar,
    key_of_constant,
)
from pycudakit.fusing.execute.captured_memory import Memory
from pycudakit.fusing.execute.loops import runs_of
from pycudakit.fusing.execute.plan import (
    ALIGNMENT,
    ARENA,
    MAX_COPIED_BYTES,
    NUMBERS,
    ArrayView,
    ConstantResult,
    Container,
    Extent,
    NewArray,
    Number,
    Place,
    Plan,
    Request,
)
from pycudakit.fusing.execute.segment import LoweredSegment
from pycudakit.fusing.memory.buffer import byte_bounds

# Entries that report the flags of each instruction.
_OF_FLAGS = frozenset({"pk_evaluate", "pk_reduce", "pk_reduce_several"})
# A call that writes more bytes of arguments for each request is not replayed: a replay copies them, so that
# it can be undone.
_MAX_SAVED_BYTES = 256 << 10


def lower(
    capture: Capture, function: str, result: Any, live_outs: Sequence[Collection[int]] = ()
) -> list[LoweredSegment] | None:
    """Return the path of a captured call through its tree of plans; None if the call cannot be replayed.

    `live_outs` are the arrays, by serial number, that leave each segment on paths of earlier calls.
    """
    if not capture.is_valid or not any(each.requests or each.host_call for each in capture.segments):
        return None
    try:
        return _Lowering(capture, function, result, live_outs).segments()
    except (NotReplayableError, RecursionError):  # a list may contain itself
        return None


class _Lowering:
    """The memory that the segments of a call share, and the call's limits."""

    def __init__(
        self, capture: Capture, function: str, result: Any, live_outs: Sequence[Collection[int]]
    ) -> None:
        self.capture, self.function, self.result = capture, function, result
        self._live_outs = live_outs
        self.extents = [Extent(0, 0)] * len(capture.argument_bounds)
        for begin, end, index, address in capture.argument_bounds:
            self.extents[index] = Extent(begin - address, end - begin)
        self.result_memories: dict[int, Memory] = {}  # of the result's arrays and scalars, by serial number
        self._result_arrays: set[int] = set()
        self._add_results(result)

    def _add_results(self, result: Any) -> None:
        """Find the memory of a result's arrays and scalars."""
        if id(result) in self.capture.containers:
            raise NotReplayableError
        if type(result) is Scalar:
            self._add_result(result.array).is_read_by_python = True
        elif type(result) is np.ndarray and id(result) not in self.capture.argument_indices:
            if _is_broadcast(result):
                raise NotReplayableError
            if self.view_of_argument(result) is None:
                if not result.flags.writeable:
                    raise NotReplayableError
                self._result_arrays.add(self._add_result(result).serial)
        elif isinstance(result, (list, tuple)):
            for part in result:
                self._add_results(part)
        elif type(result) is dict:
            for part in result.values():
                self._add_results(part)

    def view_of_argument(self, array: Array) -> ArrayView | None:
        """Return the description of a view of an argument; None for another array."""
        found = self.capture.argument_at(*byte_bounds(array))
        if found is None:
            return None
        index, address = found[2], found[3]
        flags = self.capture.arguments[index].flags
        if not (flags.owndata and flags.c_contiguous):  # the view's base is not the argument
            raise NotReplayableError
        layout = array.shape, array.strides, array.dtype
        return ArrayView(index, address_of(array) - address, *layout, array.flags.writeable)

    def _add_result(self, array: Array) -> Memory:
        memory = self.capture.computed_memory(array)
        if not memory.is_written:
            raise NotReplayableError
        memory.mark_used_in(len(self.capture.segments) - 1)
        self.result_memories[memory.serial] = memory
        return memory

    def segments(self) -> list[LoweredSegment]:
        """Lower all segments."""
        segments = self.capture.segments
        computed = [each for each in self.capture.memories if not each.is_constant and each.last_segment >= 0]
        made: list[list[Memory]] = [[] for _ in segments]
        for memory in sorted(computed, key=lambda each: each.serial):
            if not memory.is_from_host_call:  # the host call allocates it, not the plan
                made[memory.first_segment].append(memory)
        live = self._live_arrays(made)
        live_out = [[each for each in memories if each.serial in live] for memories in made]
        local = [[each for each in memories if each.serial not in live] for memories in made]
        lowered = [
            _SegmentLowering(self, index, live_out[index], local[index]) for index in range(len(segments))
        ]
        written = {index for each in lowered for index in each.written if index < len(self.extents)}
        calls = [segment.host_call for segment in segments if segment.host_call is not None]
        written |= {call.written for call in calls} - {-1}
        count = len(calls) + sum(len(segment.requests) for segment in segments)
        if sum(self.extents[index].size for index in written) > _MAX_SAVED_BYTES * count:
            raise NotReplayableError
        copied = sum(extent.size for extent in self.extents) + sum(new.size() for new in lowered[-1].new)
        if self.capture.engine == "cuda" and copied > MAX_COPIED_BYTES * count:
            raise NotReplayableError
        return [each.lowered() for each in lowered]

    def _live_arrays(self, made: Sequence[Sequence[Memory]]) -> set[int]:
        """Return the arrays, by serial number, that leave the segments that made them."""
        live = set(self._result_arrays).union(*self._live_outs)
        for index, memories in enumerate(made):
            live.update([each.serial for each in memories if each.last_segment > index])
        # An array that leaves one iteration of a loop leaves all of them, so that their plans are equal.
        segments = self.capture.segments
        states, outcomes = [each.loop_state for each in segments], [each.outcome for each in segments]
        for first, last in runs_of(states, outcomes):
            count = len(made[last])
            iterations = [made[i] for i in range(first, last + 1) if len(made[i]) == count]
            places = {i for each in iterations for i, memory in enumerate(each) if memory.serial in live}
            live.update([each[i].serial for each in iterations for i in places])
        return live


class _SegmentLowering:
    """One segment, and the places of its memory.

    Parameters
    ----------
    call
        The call.
    index
        The segment's index.
    live_out
        The memory that this segment is the first to use, and later segments or the caller use, too.
    local
        The memory that this segment alone uses.
    """

    def __init__(
        self, call: _Lowering, index: int, live_out: Sequence[Memory], local: Sequence[Memory]
    ) -> None:
        self._call = call
        self._segment: CapturedSegment = call.capture.segments[index]
        self._is_last = index == len(call.capture.segments) - 1
        self._live_out = live_out
        used = {
            memory.serial: memory for _, memories in self._segment.requests for memory in memories.values()
        }
        if self._is_last:
            used.update(call.result_memories)
        self._condition = -1  # its serial number
        if self._segment.condition is not None:
            condition = call.capture.computed_memory(self._segment.condition)
            self._condition = condition.serial
            used[condition.serial] = condition
        self._live_in = [
            used[serial]
            for serial in sorted(used)
            if not used[serial].is_constant and used[serial].first_segment < index
        ]
        self._places = {
            memory: Place(buffer, 0)
            for buffer, memory in enumerate([*self._live_in, *live_out], len(call.extents))
        }
        self.new = [_new_array(memory.owner) for memory in live_out]
        self._number_bytes = self._lay_out_numbers(local)
        self._arena_bytes = self._lay_out_arena([each for each in local if each not in self._places])
        live_in = set(self._live_in)
        self.written = sorted(
            {
                self._places[memories[row]].buffer if row in memories else request.arrays[row].buffer
                for request, memories in self._segment.requests
                for row in request.written
                if row not in memories or memories[row] in live_in
            }
        )

    def _lay_out_numbers(self, local: Sequence[Memory]) -> int:
        """Give the memory that Python reads, other than new arrays, its places; return the size of all."""
        end = 0
        for memory in local:
            if memory.is_read_by_python:
                self._places[memory] = Place(NUMBERS, end)
                end += _aligned_size(memory)
        return end

    def _lay_out_arena(self, local: Sequence[Memory]) -> int:
        """Give the other memory places in the arena, by its lifetime; return the arena's size."""
        end = 0
        free: dict[int, list[int]] = {}  # offsets that are free again, by size
        busy: list[tuple[int, int, int]] = []  # a heap of last uses, with offsets and sizes
        for memory in sorted(local, key=lambda each: each.first_use):
            while busy and busy[0][0] < memory.first_use:
                _, offset, size = heapq.heappop(busy)
                free.setdefault(size, []).append(offset)
            size = _aligned_size(memory)
            if free.get(size):
                offset = free[size].pop()
            else:
                offset, end = end, end + size
            self._places[memory] = Place(ARENA, offset)
            heapq.heappush(busy, (memory.last_use, offset, size))
        return end

    def _place_of(self, memory: Memory, address: int) -> Place:
        """Return the place of an address in memory."""
        if memory.is_constant and memory not in self._places:
            value = ctypes.string_at(memory.begin, memory.end - memory.begin)
            self._places[memory] = self._segment.constants.add(value)
        place = self._places.get(memory)
        if place is None:
            raise NotReplayableError
        return Place(place.buffer, place.offset + address - memory.begin)

    def _lowered_request(
        self, request: Request, memories: dict[int, Memory], has_quiet_requests: bool
    ) -> tuple[Request, tuple[Any, ...], Any]:
        """Set the places of a captured request, once; return it with its key and its identity.

        Requests with one key are one request of the plan. The identity is that of the segment's part.
        """
        if not has_quiet_requests and request.quiet:
            request = request._replace(quiet=0)
        operands = []
        for row, memory in memories.items():
            address = int(request.table[row]["address"])
            operands.append((row, memory.serial, address - memory.begin))
            request.places[row] = self._place_of(memory, address)
            request.arrays[row] = self._place_of(memory, memory.begin)
        request.table["address"][list(request.places)] = 0
        key = request.key()
        others = [(row, *place) for row, place in request.places.items() if row not in memories]
        return request, key, (key[0], key[1], tuple(operands), tuple(others))

    def lowered(self) -> LoweredSegment:
        """Return the segment's plan, and the arrays that enter and leave it."""
        call, segment = self._call, self._segment
        requests: list[Request] = []
        identities: list[Any] = []
        indices: dict[Any, int] = {}
        lowered: dict[int, tuple[Request, tuple[Any, ...], Any]] = {}  # with the key and the identity, by id
        order: list[int] = []
        # Of other requests, the flags are known of all together: then those that are ignored count, too.
        are_of_flags = _OF_FLAGS.issuperset([request.entry for request, _ in segment.requests])
        has_quiet_requests = are_of_flags and any(request.quiet for request, _ in segment.requests)
        for captured, memories in segment.requests:
            if id(captured) not in lowered:
                lowered[id(captured)] = self._lowered_request(captured, memories, has_quiet_requests)
            request, key, identity = lowered[id(captured)]
            # A request that is called again reports the flags of its last call alone.
            if has_quiet_requests:
                key = (*key, len(order))
            index = indices.setdefault(key, len(requests))
            if index == len(requests):
                requests.append(request)
            order.append(index)
            identities.append(identity)
        finite = [
            (self._place_of(each, each.begin), each.owner.dtype, each.owner.size) for each in segment.finite
        ]
        condition = None if segment.condition is None else self._number(segment.condition)
        template = self._template_of(call.result, {}) if self._is_last else None
        extents = [*call.extents, *(Extent(0, memory.end - memory.begin) for memory in self._live_in)]
        # All constants are placed by now.
        constants = bytes(segment.constants.bytes)
        sizes = extents, self.new, self._arena_bytes, constants, self._number_bytes
        plan = Plan(
            *(call.function, call.capture.engine, requests, order, *sizes),
            *(self.written, finite, template, condition),
        )
        live_in, live_out = [tuple([m.serial for m in each]) for each in (self._live_in, self._live_out)]
        call_identity = "" if segment.host_call is None else segment.host_call.identity()
        identity = _digest([identities, constants, self._condition, call_identity])
        ends = segment.outcome, segment.host_call, segment.loop_state
        return LoweredSegment(plan, live_in, live_out, identity, *ends)

    def _number(self, array: Array, is_float: bool = False) -> Number:
        memory = self._call.capture.computed_memory(array)
        return Number(self._place_of(memory, address_of(array)), array.dtype, is_float)

    def _template_of(self, result: Any, made: dict[int, Any]) -> Any:
        """Return the result with descriptions in place of arrays and numbers; `made` has the parts, by id."""
        if id(result) not in made:
            made[id(result)] = self._new_template(result, made)
        return made[id(result)]

    def _new_template(self, result: Any, made: dict[int, Any]) -> Any:
        indices = self._call.capture.argument_indices
        if id(result) in indices:
            return indices[id(result)]
        kind: Any = type(result)
        if kind is Scalar:
            return self._number(result.array, result.is_float)
        if kind is np.ndarray and (view := self._call.view_of_argument(result)) is not None:
            return view
        if kind is np.ndarray:
            memory = self._call.capture.computed_memory(result)
            place = self._place_of(memory, address_of(result))
            if result is memory.owner:
                return place.buffer
            return ArrayView(place.buffer, place.offset, result.shape, result.strides, result.dtype)
        is_named = issubclass(kind, tuple) and hasattr(kind, "_fields")
        if kind in (list, tuple) or is_named:
            make = kind._make if is_named else kind
            return Container(make, [self._template_of(part, made) for part in result])
        if kind is dict:
            if any(key_of_constant(key) is None for key in result):
                raise NotReplayableError
            make = functools.partial(_with_keys, tuple(result))
            return Container(make, [self._template_of(part, made) for part in result.values()])
        # A text may be that of a number, which depends on printing options.
        if kind is str or key_of_constant(result) is None:
            raise NotReplayableError
        return ConstantResult(result)


def _with_keys(keys: tuple[Any, ...], values: list[Any]) -> dict[Any, Any]:
    return dict(zip(keys, values, strict=True))


def _new_array(owner: Array) -> NewArray:
    flags = owner.flags
    if not flags.forc or owner.base is not None:
        raise NotReplayableError
    return NewArray(owner.shape, owner.dtype, "C" if flags.c_contiguous else "F")


def _aligned_size(memory: Memory) -> int:
    return -(-(memory.end - memory.begin) // ALIGNMENT) * ALIGNMENT


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(marshal.dumps(value, 2), digest_size=16).digest()


def _is_broadcast(array: Array) -> bool:
    return any(stride == 0 and length > 1 for stride, length in zip(array.strides, array.shape, strict=True))
