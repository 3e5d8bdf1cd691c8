"""Trace trees: the plans of a function's calls whose `if` and `while` depend on computed numbers.

A captured call is a path of segments. A segment is a plan without branches, which ends with a condition. The
paths of one signature share the segments up to their first different outcome (Gal and Franz, "Incremental
dynamic code generation with trace trees", 2006). A replay runs a segment, reads its condition, and goes on
with the segment for that outcome. A call without branches has a tree of one segment.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pycudakit._native import allocator
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit.fusing.execute.plan import NewArray, Plan, PlanRun
from pycudakit.fusing.graph_breaks import Break

_MAX_IDLE = 2  # runs of one plan
# Arrays, and bytes of each, that the next segments or calls reuse: fresh memory costs page faults.
_MAX_FREE, _MAX_FREE_BYTES = 4, allocator.MIN_BYTES


class Step(NamedTuple):
    """A segment on the path of one call.

    The arrays that segments share are numbered in the order in which the call allocates them.
    """

    plan: Plan
    reads: tuple[int, ...]  # the arrays of earlier segments that are the plan's last arguments
    makes: tuple[int, ...]  # the plan's new arrays
    identity: bytes  # a digest of the requests, in which memory has its number
    outcome: bool  # of the condition


class PlanRuns:
    """The runs of one plan that no thread is using."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._idle = [PlanRun(plan)]
        self._bytes = self._idle[0].bytes

    def take(self) -> PlanRun:
        """Return an idle run, or a new one."""
        try:
            return self._idle.pop()
        except IndexError:  # other threads are using all of them
            return PlanRun(self._plan)

    def give_back(self, run: PlanRun) -> None:
        """Keep a run for the next call, unless enough are idle."""
        if len(self._idle) < _MAX_IDLE:
            self._idle.append(run)

    @property
    def bytes(self) -> int:
        """The memory of the idle runs."""
        return self._bytes * len(self._idle)


class Segment(NamedTuple):
    """A node of a trace tree: a plan, and the segments that follow it, by the outcome of its condition."""

    step: Step
    runs: PlanRuns
    following: dict[bool, Segment]
    needs: frozenset[int]  # the arrays of earlier segments that this one or a later one reads


class TraceTree:
    """The paths of the calls of one signature.

    Parameters
    ----------
    steps
        The path of the first call.
    breaks
        Its graph breaks.
    """

    def __init__(self, steps: Sequence[Step], breaks: Iterable[Break] = ()) -> None:
        self._runs: weakref.WeakValueDictionary[Any, PlanRuns] = weakref.WeakValueDictionary()
        self._free: dict[NewArray, list[Array]] = {}
        self.root = self._path(steps, None)
        self.breaks = tuple(dict.fromkeys(breaks))
        self.paths = 1
        self.has_missed = False  # a call has taken a path that is not known

    @property
    def has_branches(self) -> bool:
        """Whether the calls branch on computed numbers."""
        return self.root.step.plan.condition is not None

    @property
    def function(self) -> str:
        """The function's name."""
        return self.root.step.plan.function

    def kept(self, outcomes: Sequence[bool]) -> list[tuple[int, ...]]:
        """Return the numbers of the arrays that known segments on a path make."""
        kept: list[tuple[int, ...]] = []
        segment: Segment | None = self.root
        for outcome in outcomes:
            if segment is None:
                break
            kept.append(segment.step.makes)
            segment = segment.following.get(outcome)
        return kept if segment is None else [*kept, segment.step.makes]

    def add(self, steps: Sequence[Step], breaks: Iterable[Break]) -> None:
        """Add the path of a call; it is the only one if it does not agree with the others."""
        self.has_missed = False
        self.breaks = tuple(dict.fromkeys([*self.breaks, *breaks]))
        known: Segment | None = self.root
        for step in steps:
            if known is None:
                break
            if known.step.identity != step.identity or not set(known.step.makes) <= set(step.makes):
                self.root, self.paths = self._path(steps, None), 1
                return
            known = known.following.get(step.outcome)
        self.root = self._path(steps, self.root)
        self.paths += 1

    def _path(self, steps: Sequence[Step], known: Segment | None) -> Segment:
        """Return the segments of a path, with those that follow known ones for other outcomes."""
        others: list[dict[bool, Segment]] = []
        for step in steps:
            others.append({} if known is None else known.following)
            known = None if known is None else known.following.get(step.outcome)
        following: Segment | None = None
        for step, other in zip(reversed(steps), reversed(others), strict=True):
            children = other if following is None else {**other, step.outcome: following}
            later: set[int] = set().union(*(each.needs for each in children.values()))
            needs = frozenset(step.reads) | (later - set(step.makes))
            following = Segment(step, self._runs_of(step.plan), children, needs)
        assert following is not None  # noqa: S101
        return following

    def _runs_of(self, plan: Plan) -> PlanRuns:
        """Return the runs of a plan, which equal plans share: those of a loop are few."""
        key = object() if plan.condition is None else plan.key()  # the ends of paths differ
        runs = self._runs.get(key)
        if runs is None:
            runs = self._runs[key] = PlanRuns(plan)
        return runs

    def segments(self) -> Iterator[Segment]:
        """Yield all segments."""
        pending = [self.root]
        while pending:
            segment = pending.pop()
            yield segment
            pending += segment.following.values()

    @property
    def bytes(self) -> int:
        """The memory of the idle runs, and of the arrays that no call uses."""
        free = sum([each.size() * len(arrays) for each, arrays in list(self._free.items())])
        alive = [ref() for ref in self._runs.valuerefs()]  # other threads may add some meanwhile
        return free + sum([runs.bytes for runs in alive if runs is not None])

    def _allocate(self, new: NewArray) -> Array:
        """Return an array for a segment."""
        free = self._free.get(new)
        try:
            return free.pop() if free else new.allocate()
        except IndexError:  # another thread was faster
            return new.allocate()

    def _recycle(self, array: Array) -> None:
        """Keep an array that no segment reads any more."""
        if array.nbytes < _MAX_FREE_BYTES:
            new = NewArray(array.shape, array.dtype, "C" if array.flags.c_contiguous else "F")
            free = self._free.setdefault(new, [])
            if len(free) < _MAX_FREE:
                free.append(array)

    def replay(self, arguments: Sequence[Array], addresses: Sequence[int], reason: str) -> Any:
        """Run the segments and return the call's result; NotImplemented if the call must be traced.

        That is the case if its path is not known, a request fails, or an operation may have to warn. The
        arguments are then as they were.
        """
        saved: dict[int, Array] = {}
        shared: dict[int, Array] = {}
        segment: Segment | None = self.root
        is_correct = False
        try:
            while segment is not None:
                plan, reads, makes, *_ = segment.step
                for index in plan.written:
                    if index not in saved:
                        saved[index] = arguments[index].copy("K")
                earlier = [shared[number] for number in reads]
                run = segment.runs.take()
                buffers = run.compute(
                    [*arguments, *earlier],
                    [*addresses, *map(address_of, earlier)],
                    reason,
                    NewArray.allocate if plan.condition is None else self._allocate,
                )
                if buffers is None:
                    return NotImplemented
                if plan.condition is None:
                    is_correct = True
                    result = run.result(buffers)
                    segment.runs.give_back(run)
                    return result
                outcome = run.outcome(buffers)
                segment.runs.give_back(run)
                shared.update(zip(makes, buffers[len(buffers) - len(makes) :], strict=True))
                segment = segment.following.get(outcome)
                for number in shared.keys() - (shared if segment is None else segment.needs):
                    self._recycle(shared.pop(number))
            self.has_missed = True
            return NotImplemented
        finally:
            if not is_correct:  # also after an interrupt
                for index, values in saved.items():
                    arguments[index][...] = values
