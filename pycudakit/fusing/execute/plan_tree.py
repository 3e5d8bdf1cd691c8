"""Trees of plans: the calls of a function whose `if` and `while` depend on computed numbers.

A captured call is a path of segments. A segment is a plan without branches, which ends with a condition or
with a host call. The paths of one signature share the segments up to their first different outcome, so they
are a prefix tree by outcomes. A replay runs a segment, reads its condition or makes its host call, and goes
on with the segment for that outcome. There are no loops in a tree: a `while` of other turns is another path.
A call without branches and host calls has a tree of one segment.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit import errors
from pycudakit._native import allocator
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context
from pycudakit._runtime.call_log import Reason
from pycudakit._runtime.native_call import Pool, last_record
from pycudakit.fusing.execute.host_call import HostCall, layouts_of, results_of
from pycudakit.fusing.execute.plan import DeviceCopies, NewArray, Plan, PlanRun
from pycudakit.fusing.graph_breaks import Break
from pycudakit.fusing.memory.buffer import owner_of

_MAX_IDLE = 2  # runs of one plan
# Arrays, and bytes of each, that the next segments or calls reuse: fresh memory costs page faults.
_MAX_FREE, _MAX_FREE_BYTES = 4, allocator.MIN_BYTES


class LoweredSegment(NamedTuple):
    """A segment on the path of one call.

    The arrays that enter and leave it have serial numbers, in the order in which the call allocates them.
    """

    plan: Plan
    live_in: tuple[int, ...]  # arrays of earlier segments: the plan's last arguments
    live_out: tuple[int, ...]  # arrays that later segments or the caller use: the plan's new arrays
    identity: bytes  # a digest of the requests, in which memory has its serial number
    outcome: Any  # of the condition, or the layouts of the host call's results
    host_call: HostCall | None = None

    @property
    def written(self) -> Sequence[int]:
        """The arguments that requests, or the host call, write to."""
        call = self.host_call
        return self.plan.written if call is None or call.written < 0 else [*self.plan.written, call.written]

    @property
    def is_last(self) -> bool:
        """Whether the call ends with this segment."""
        return self.plan.condition is None and self.host_call is None


class PlanRuns(Pool[PlanRun]):
    """The runs of one plan, of which few are kept."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(functools.partial(PlanRun, plan))
        self.plan = plan
        first = self.take()
        self._bytes = first.bytes
        self.give_back(first)

    def give_back(self, used: PlanRun) -> None:
        """Keep a run for the next call, unless enough are idle."""
        if len(self._idle) < _MAX_IDLE:
            super().give_back(used)

    @property
    def bytes(self) -> int:
        """The memory of the idle runs."""
        return self._bytes * len(self._idle)


class TreeNode(NamedTuple):
    """A node of a tree of plans: a plan, and the segments that follow it, by its outcome."""

    lowered: LoweredSegment
    runs: PlanRuns
    following: dict[Any, TreeNode]
    needs: frozenset[int]  # the arrays of earlier segments that this one or a later one reads


class PlanTree:
    """The paths of the calls of one signature.

    Parameters
    ----------
    path
        The segments of the first call.
    breaks
        Its graph breaks.
    """

    def __init__(self, path: Sequence[LoweredSegment], breaks: Iterable[Break] = ()) -> None:
        self._runs: weakref.WeakValueDictionary[Any, PlanRuns] = weakref.WeakValueDictionary()
        self._free: dict[NewArray, list[Array]] = {}
        self.has_host_calls = False
        self.root = self._grown(None, path)
        self.breaks = tuple(dict.fromkeys(breaks))
        self.paths = 1
        self.has_missed = False  # the path of the last call is not in the tree

    @property
    def has_several_segments(self) -> bool:
        """Whether the calls have several segments."""
        return not self.root.lowered.is_last

    @property
    def function(self) -> str:
        """The function's name."""
        return self.root.lowered.plan.function

    def live_outs(self, outcomes: Sequence[Any]) -> list[tuple[int, ...]]:
        """Return the arrays that leave each segment on a path, as far as the tree has it."""
        found: list[tuple[int, ...]] = []
        node: TreeNode | None = self.root
        for outcome in (*outcomes, False):  # the last segment has no outcome
            if node is None:
                break
            found.append(node.lowered.live_out)
            node = node.following.get(outcome)
        return found

    def add(self, path: Sequence[LoweredSegment], breaks: Iterable[Break]) -> None:
        """Add the path of a call.

        If its segments have other requests than those of the tree with the same outcomes, the schedule
        depends on more than the signature; then it is the only path.
        """
        self.breaks = tuple(dict.fromkeys([*self.breaks, *breaks]))
        node: TreeNode | None = self.root
        for lowered in path:
            if node is None:
                break
            is_same = node.lowered.identity == lowered.identity
            # A path of the tree may need an array that this one was not lowered to keep.
            if not is_same or not set(node.lowered.live_out) <= set(lowered.live_out):
                self.root, self.paths = self._grown(None, path), 1
                return
            node = node.following.get(lowered.outcome)
        self.root = self._grown(self.root, path)
        self.paths += node is None

    def _grown(self, node: TreeNode | None, path: Sequence[LoweredSegment]) -> TreeNode:
        """Return a tree with a path. Nodes are immutable: other threads may be replaying the old tree."""
        self.has_host_calls |= any(lowered.host_call is not None for lowered in path)
        known: list[dict[Any, TreeNode]] = []
        for lowered in path:
            known.append({} if node is None else node.following)
            node = None if node is None else node.following.get(lowered.outcome)
        grown: TreeNode | None = None
        for lowered, following in zip(reversed(path), reversed(known), strict=True):
            if grown is not None:
                following = {**following, lowered.outcome: grown}  # noqa: PLW2901
            later: set[int] = set().union(*(each.needs for each in following.values()))
            if lowered.host_call is not None:
                later = (later - set(lowered.host_call.results)) | lowered.host_call.reads()
            needs = frozenset(lowered.live_in) | (later - set(lowered.live_out))
            runs = self._runs_of(lowered)
            grown = TreeNode(lowered._replace(plan=runs.plan), runs, following, needs)
        assert grown is not None  # noqa: S101
        return grown

    def _runs_of(self, lowered: LoweredSegment) -> PlanRuns:
        """Return the runs of a plan. Equal plans, such as those of the turns of a loop, share them."""
        key = object() if lowered.is_last else lowered.plan.key()  # the key of a plan lacks its result
        runs = self._runs.get(key)
        if runs is None:
            runs = self._runs[key] = PlanRuns(lowered.plan)
        return runs

    def nodes(self) -> Iterator[TreeNode]:
        """Yield all nodes."""
        pending = [self.root]
        while pending:
            node = pending.pop()
            yield node
            pending += node.following.values()

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

    def _recycle(self, array: Array) -> bool:
        """Keep an array that no segment reads any more, unless it is large or enough are kept."""
        if array.nbytes >= _MAX_FREE_BYTES:
            return False
        new = NewArray(array.shape, array.dtype, "C" if array.flags.c_contiguous else "F")
        free = self._free.setdefault(new, [])
        if len(free) >= _MAX_FREE:
            return False
        free.append(array)
        return True

    def replay(
        self,
        arguments: Sequence[Array],
        addresses: Sequence[int],
        reason: Reason,
        numpy_seconds: list[float] | None = None,
    ) -> Any:
        """Run the segments and return the call's result; NotImplemented if the call must be traced.

        That is the case if its path is not known, a request or a host call fails, or an operation may have to
        warn. The arguments are then as they were. The times of host calls in NumPy are added to
        `numpy_seconds`.
        """
        self.has_missed = False
        if self.root.lowered.plan.engine == "cpu" or not self.has_several_segments:
            return self._replay(arguments, addresses, reason, numpy_seconds)
        copies = DeviceCopies()
        run = functools.partial(self._replay, arguments, addresses, reason, numpy_seconds, copies)
        try:
            return copies.scope.run("cuda", run, context.current_devices())
        except errors.InternalError:
            raise
        except errors.Error:  # the traced call raises it, or falls back
            return NotImplemented

    def _replay(
        self,
        arguments: Sequence[Array],
        addresses: Sequence[int],
        reason: Reason,
        numpy_seconds: list[float] | None,
        copies: DeviceCopies | None = None,
    ) -> Any:
        saved: dict[int, Array] = {}
        live: dict[int, Array] = {}
        node: TreeNode | None = self.root
        has_succeeded = False
        try:
            while node is not None:
                lowered = node.lowered
                live_in, live_out = lowered.live_in, lowered.live_out
                for index in lowered.written:
                    if index not in saved:
                        saved[index] = arguments[index].copy("K")
                earlier = [live[serial] for serial in live_in]
                run = node.runs.take()
                buffers = run.compute(
                    [*arguments, *earlier],
                    [*addresses, *map(address_of, earlier)],
                    reason,
                    NewArray.allocate if lowered.is_last else self._allocate,
                    copies,
                )
                if buffers is None:
                    node.runs.give_back(run)
                    return NotImplemented
                if lowered.is_last:
                    has_succeeded = True
                    result = run.result(buffers)
                    node.runs.give_back(run)
                    return result
                outcome: Any = run.outcome(buffers)
                node.runs.give_back(run)
                live.update(zip(live_out, buffers[len(buffers) - len(live_out) :], strict=True))
                if lowered.host_call is not None:
                    outcome = _call_on_host(lowered.host_call, arguments, live, numpy_seconds)
                    if outcome is None:
                        return NotImplemented
                node = node.following.get(outcome)
                if node is not None:
                    for serial in live.keys() - node.needs:
                        array = live.pop(serial)
                        if not self._recycle(array) and copies is not None:
                            copies.drop(address_of(array))
            self.has_missed = True
            return NotImplemented
        finally:
            if not has_succeeded:  # also after an interrupt
                for index, values in saved.items():
                    arguments[index][...] = values


def _call_on_host(
    call: HostCall, arguments: Sequence[Array], live: dict[int, Array], numpy_seconds: list[float] | None
) -> tuple[Any, ...] | None:
    """Make a host call, and add its results to the live arrays; return their layouts.

    None means that the call must be traced, to raise or to warn.
    """
    before, began = last_record(), time.perf_counter()
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            result = call.compute(arguments, live)
    except Exception:  # noqa: BLE001  (any: the traced call raises it again)
        return None
    results = [] if call.writes else results_of(result)
    if results is None:
        return None
    if numpy_seconds is not None and last_record() is before:  # no function of pycudakit
        numpy_seconds.append(time.perf_counter() - began)
    live.update(zip(call.results, map(owner_of, results), strict=False))
    return layouts_of(results)
