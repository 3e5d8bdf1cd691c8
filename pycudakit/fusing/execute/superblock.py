"""Superblocks: the segments on a path of a tree of plans, as one plan that may be left after each of them.

In a superblock (Hwu et al., 1993) a program is entered at the beginning and left at any of several exits.
Here the requests of the segments are one list, and stops end it after a segment whose condition has another
outcome than on the path. So all iterations of a `while` loop take one call of the C library.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit._native import abi
from pycudakit._native.dtypes import DType
from pycudakit.fusing.execute.plan import (
    ALIGNMENT,
    ARENA,
    CONSTANTS,
    NUMBERS,
    NewArray,
    Number,
    Place,
    Plan,
    PlanRun,
    Request,
    Stop,
)
from pycudakit.fusing.execute.segment import LoweredSegment

MIN_SEGMENTS = 2
_MAX_REQUESTS = 4096
_MAX_FINITE = 8  # numbers of a segment that must be finite
_BOOL = np.dtype(np.bool_)


class Exit(NamedTuple):
    """The end of a segment, at which a run may end."""

    calls: int  # from the beginning up to here
    condition: Number
    finite: list[Number]  # that must be finite, or the call is traced to warn
    # The arrays that later segments may read: by serial number, their indices among the plan's new arrays.
    live: dict[int, int]

    def stops(self, outcome: bool) -> list[Stop]:
        """Return the stops that end the run here unless the condition has this outcome."""
        kind = abi.STOP_IF_FALSE if outcome else abi.STOP_IF_TRUE
        last = self.calls - 1
        not_finite = [Stop(last, abi.STOP_IF_NOT_FINITE, each) for each in self.finite]
        return [Stop(last, kind, self.condition), *not_finite]


class Superblock(NamedTuple):
    """A plan of several segments, and the exits at their ends."""

    plan: Plan
    exits: list[Exit]

    def exit_of(self, run: PlanRun) -> int:
        """Return the index of the exit at which a run has ended."""
        return bisect.bisect_left(self.exits, run.completed, key=lambda each: each.calls)


def is_joinable(segment: LoweredSegment) -> bool:
    """Return True if a superblock can have a segment."""
    plan, condition = segment.plan, segment.plan.condition
    has_bool = condition is not None and condition.dtype == _BOOL and condition.place.buffer == NUMBERS
    read = len(plan.arguments)  # the arguments, and the arrays of earlier segments
    are_numbers = all(place.buffer == NUMBERS or place.buffer >= read for place, _, _ in plan.finite)
    return (
        segment.host_call is None
        and not any(request.quiet for request in plan.requests)
        and has_bool
        and are_numbers
        and bool(plan.order)
        and sum(count for _, _, count in plan.finite) <= _MAX_FINITE
    )


def join(
    path: Sequence[LoweredSegment], outcomes: Sequence[bool], needs: Sequence[frozenset[int]]
) -> Superblock | None:
    """Return the superblock of joinable segments; None if it has too many requests.

    The outcomes are those of all segments but the last. `needs` are, for each segment, the arrays of earlier
    ones that it or a later one reads.
    """
    joined = _SuperblockPlan(path[0].plan)
    exits: list[Exit] = []
    stops: list[Stop] = []
    for segment, needed in zip(path, needs, strict=True):
        if exits:
            stops += exits[-1].stops(outcomes[len(exits) - 1])
        joined.free_all_but(needed)
        joined.add(segment)
        exits.append(joined.exit_after(segment))
        if len(joined.requests) > _MAX_REQUESTS:
            return None
    return Superblock(joined.plan(stops), exits)


class _SuperblockPlan:
    """The parts of a superblock's plan, to which segments are added."""

    def __init__(self, first: Plan) -> None:
        self._first = first
        self.requests: list[Request] = []
        self._order: list[int] = []
        self._indices: dict[tuple[int, tuple[tuple[int, Place], ...]], int] = {}
        self._new: list[NewArray] = []
        self._free: dict[NewArray, list[int]] = {}
        self._live: dict[int, int] = {}  # new arrays by serial number
        self._constants = bytearray()
        self._number_bytes = self._arena_bytes = 0
        self._offsets: dict[int, dict[int, int]] = {}  # of constants and numbers, by the id of the plan
        self._written: set[int] = set()

    def free_all_but(self, needed: frozenset[int]) -> None:
        """Give the memory of arrays that no later segment reads to later new arrays."""
        for serial in self._live.keys() - needed:
            index = self._live.pop(serial)
            self._free.setdefault(self._new[index], []).append(index)

    def add(self, segment: LoweredSegment) -> None:
        """Add the calls of a segment."""
        plan = segment.plan
        live_in = [self._live[serial] for serial in segment.live_in]
        live_out = [self._new_array(new) for new in plan.new]
        self._live.update(zip(segment.live_out, live_out, strict=True))
        count = len(self._first.arguments)
        buffers = [*range(count), *(count + index for index in (*live_in, *live_out))]
        offsets = self._offsets_of(plan)

        def moved(place: Place) -> Place:
            buffer, offset = place
            if buffer >= 0:
                return Place(buffers[buffer], offset)
            return Place(buffer, offset + offsets[buffer])

        calls: list[int] = []
        for request in plan.requests:
            places = {row: moved(place) for row, place in request.places.items()}
            # A tree has one plan for the iterations of a loop, and it keeps the requests, so that ids differ.
            key = id(request), tuple(places.items())
            index = self._indices.setdefault(key, len(self.requests))
            if index == len(self.requests):
                self.requests.append(request._replace(places=places))
            calls.append(index)
        self._order += [calls[index] for index in plan.order]
        self._arena_bytes = max(self._arena_bytes, plan.arena_bytes)
        self._written.update(segment.written)

    def _new_array(self, new: NewArray) -> int:
        free = self._free.get(new)
        if free:
            return free.pop()
        self._new.append(new)
        return len(self._new) - 1

    def _offsets_of(self, plan: Plan) -> dict[int, int]:
        """Return where a plan's constants and numbers begin; the iterations of a loop have one plan."""
        offsets = self._offsets.get(id(plan))
        if offsets is None:
            self._constants.extend(bytes(-len(self._constants) % ALIGNMENT))
            offsets = {CONSTANTS: len(self._constants), NUMBERS: self._number_bytes, ARENA: 0}
            self._offsets[id(plan)] = offsets
            self._constants.extend(plan.constants)
            self._number_bytes += -(-plan.number_bytes // ALIGNMENT) * ALIGNMENT
        return offsets

    def exit_after(self, segment: LoweredSegment) -> Exit:
        """Return the exit after the calls so far, the last of them of a segment."""
        plan, count = segment.plan, len(self._first.arguments)
        begin, read = self._offsets[id(plan)][NUMBERS], len(plan.arguments)
        # Numbers that later segments read, too, or the result has, are new arrays.
        new = [count + self._live[serial] for serial in segment.live_out]

        def number(place: Place, dtype: DType, index: int = 0) -> Number:
            offset = place.offset + index * dtype.itemsize
            if place.buffer == NUMBERS:
                return Number(Place(NUMBERS, begin + offset), dtype)
            return Number(Place(new[place.buffer - read], offset), dtype)

        finite = [number(place, dtype, i) for place, dtype, size in plan.finite for i in range(size)]
        assert plan.condition is not None  # noqa: S101
        condition = number(plan.condition.place, plan.condition.dtype)
        return Exit(len(self._order), condition, finite, dict(self._live))

    def plan(self, stops: Sequence[Stop]) -> Plan:
        """Return the plan of all segments."""
        first, order = self._first, self._order
        memory = first.arguments, self._new, self._arena_bytes, bytes(self._constants), self._number_bytes
        written, finite, result, condition = sorted(self._written), list[Any](), None, None
        results = written, finite, result, condition, stops
        return Plan(first.function, first.engine, self.requests, order, *memory, *results)
