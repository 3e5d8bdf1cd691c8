"""Trees of plans: the calls of a function whose `if` and `while` depend on computed numbers.

A captured call is a path of segments. A segment is a plan without branches, which ends with a condition or
with a host call. The paths of one signature share the segments up to their first different outcome, so they
are a prefix tree by outcomes. A replay runs a segment, reads its condition or makes its host call, and goes
on with the segment for that outcome. Where no path has that outcome, a loop edge may lead from an iteration
of a loop to the code after the loop, or to another iteration. A call without branches and host calls has a
tree of one segment. The first segments of the longest call are run as a superblock.
"""

from __future__ import annotations

import copy
import enum
import functools
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit import errors
from pycudakit._native import allocator
from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context
from pycudakit._runtime.call_log import Reason
from pycudakit._runtime.interrupts import raised_by_a_handler
from pycudakit._runtime.native_call import Pool, last_record
from pycudakit.fusing.execute.host_call import HostCall, layouts_of, results_of
from pycudakit.fusing.execute.loops import Loop, Transition, loops_of
from pycudakit.fusing.execute.plan import LOOP, MAX_COPIED_BYTES, DeviceCopies, NewArray, Plan, PlanRun
from pycudakit.fusing.execute.segment import LoweredSegment
from pycudakit.fusing.execute.superblock import MIN_SEGMENTS, Superblock, is_joinable, join
from pycudakit.fusing.graph_breaks import Break
from pycudakit.fusing.memory.buffer import byte_bounds, owner_of
from pycudakit.random.philox import compare_exchange

_MAX_IDLE = 2  # runs of one plan: calls of two threads
# Arrays, and bytes of each, that the next segments or calls reuse: fresh memory costs page faults.
_MAX_FREE, _MAX_FREE_BYTES = 4, allocator.MIN_BYTES


class NotReplayed(enum.Enum):
    """Why a call must be traced."""

    UNKNOWN_PATH = enum.auto()
    FAILED = enum.auto()  # a request or a host call has failed, or an operation may have to warn
    GENERATOR_IN_USE = enum.auto()  # another thread has drawn from it


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
    written: Sequence[int]  # the arguments that this one writes to
    edges: dict[Any, LoopEdge]  # by outcome, for those without a following segment


class LoopEdge(NamedTuple):
    """An edge from an iteration of a loop to the code after it, or to itself."""

    target: TreeNode | None  # None: the node itself
    transition: Transition


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
        self.longest_path: Sequence[LoweredSegment] = path
        self._superblock: _SuperblockRuns | None = None

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
        depends on more than the signature; then the tree is replaced by this path.
        """
        self.breaks = tuple(dict.fromkeys([*self.breaks, *breaks]))
        node: TreeNode | None = self.root
        is_known = True
        for lowered in path:
            if node is None:
                is_known = False
                break
            is_same = node.lowered.identity == lowered.identity
            # A path of the tree may need an array that this one was not lowered to keep.
            if not is_same or not set(node.lowered.live_out) <= set(lowered.live_out):
                self.root, self.paths, self.longest_path = self._grown(None, path), 1, path
                return
            node = node.following.get(lowered.outcome)
        self.root = self._grown(self.root, path)
        self.paths += not is_known
        if len(path) > len(self.longest_path):
            self.longest_path = path

    def _grown(self, node: TreeNode | None, path: Sequence[LoweredSegment]) -> TreeNode:
        """Return a tree with a path. Nodes are immutable: other threads may be replaying the old tree."""
        self.has_host_calls |= any(lowered.host_call is not None for lowered in path)
        known: list[TreeNode | None] = []
        for lowered in path:
            known.append(node)
            node = None if node is None else node.following.get(lowered.outcome)
        loops = {index: loop for loop in loops_of(path) for index in range(loop.first, loop.last + 1)}
        grown: TreeNode | None = None
        behind_loop: TreeNode | None = None
        for index in reversed(range(len(path))):
            lowered, before, loop = path[index], known[index], loops.get(index)
            following = {} if before is None else {**before.following}
            edges = {} if before is None else {**before.edges}
            if grown is not None:
                following[lowered.outcome] = grown
                edges.pop(lowered.outcome, None)
            if loop is not None and index == loop.last:
                behind_loop = grown
            elif loop is not None and behind_loop is not None:
                transition = loop.exit_after(index, behind_loop.needs)
                if transition is not None:
                    edges[path[loop.last].outcome] = LoopEdge(behind_loop, transition)
            needs = _needs(lowered, following, edges)
            if (
                loop is not None
                and index == loop.last
                and (transition := _repetition(loop, needs)) is not None
            ):
                edges[not lowered.outcome] = LoopEdge(None, transition)
                needs = _needs(lowered, following, edges)
            runs = self._runs_of(lowered)
            lowered = lowered._replace(plan=runs.plan)
            grown = TreeNode(lowered, runs, following, needs, lowered.written, edges)
        assert grown is not None  # noqa: S101
        return grown

    def _runs_of(self, lowered: LoweredSegment) -> PlanRuns:
        """Return the runs of a plan. Equal plans, such as those of the iterations of a loop, share them."""
        # A plan with a result is not shared: its key lacks that.
        key = object() if lowered.is_last else lowered.plan.key()
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

    def for_engine(self, engine: str) -> PlanTree | None:
        """Return the tree with its plans for another engine; None if that needs plans of its own."""
        paths = self._paths_on(engine)
        if not all(map(_can_run_on_any_engine, paths)):
            return None
        tree = PlanTree(paths[0], self.breaks)
        for path in paths[1:]:
            tree.add(path, ())
        return tree

    def _paths_on(self, engine: str) -> list[list[LoweredSegment]]:
        """Return all paths, from the first segment to the last, with plans for an engine."""
        paths: list[list[LoweredSegment]] = []
        path: list[LoweredSegment] = []
        pending: list[tuple[int, Any, TreeNode]] = [(0, False, self.root)]  # with the outcome that led there
        while pending:
            depth, outcome, node = pending.pop()
            del path[depth:]
            if path:
                path[-1] = path[-1]._replace(outcome=outcome)
            lowered = node.lowered
            path.append(lowered._replace(plan=lowered.plan._replace(engine=engine)))
            pending += [(depth + 1, each, following) for each, following in node.following.items()]
            if not node.following:
                paths.append([*path])
        return paths

    @property
    def bytes(self) -> int:
        """The memory of the idle runs, and of the arrays that no call uses."""
        free = sum([each.size() * len(arrays) for each, arrays in list(self._free.items())])
        alive = [ref() for ref in self._runs.valuerefs()]  # other threads may add some meanwhile
        superblock = self._superblock
        of_superblock = 0 if superblock is None or superblock.runs is None else superblock.runs.bytes
        return free + of_superblock + sum([runs.bytes for runs in alive if runs is not None])

    def _superblock_of(self, root: TreeNode) -> _SuperblockRuns:
        """Return the superblock of the longest path, which is made when a tree is first replayed."""
        superblock = self._superblock
        if superblock is None or superblock.root is not root:
            superblock = self._superblock = self._new_superblock(root)
        return superblock

    def _new_superblock(self, root: TreeNode) -> _SuperblockRuns:
        nodes: list[TreeNode] = []
        node: TreeNode | None = root
        path = self.longest_path  # another thread may replace it
        for lowered in path:
            if node is None or not is_joinable(node.lowered):
                break
            nodes.append(node)
            node = node.following.get(lowered.outcome)
        joined = None
        if len(nodes) >= MIN_SEGMENTS:
            outcomes = [bool(lowered.outcome) for lowered in path[: len(nodes) - 1]]
            joined = join([each.lowered for each in nodes], outcomes, [each.needs for each in nodes])
        return _SuperblockRuns(root, nodes, joined, None if joined is None else PlanRuns(joined.plan))

    def allocate(self, new: NewArray) -> Array:
        """Return an array for a segment."""
        free = self._free.get(new)
        try:
            return free.pop() if free else new.allocate()
        except IndexError:  # another thread was faster
            return new.allocate()

    def recycle(self, array: Array) -> bool:
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
        generators: Sequence[Any] = (),
        numpy_seconds: list[float] | None = None,
    ) -> Any:
        """Run the segments and return the call's result, or why it must be traced.

        If it must be traced, the arguments are as they were. The times of host calls in NumPy are added to
        `numpy_seconds`.
        """
        if self.root.lowered.plan.engine == "cpu" or not self.has_several_segments:
            return self._replay(arguments, addresses, reason, generators, numpy_seconds)
        copies = DeviceCopies(arguments)
        run = functools.partial(self._replay, arguments, addresses, reason, generators, numpy_seconds, copies)
        try:
            return copies.scope.run("cuda", run, context.current_devices())
        except errors.InternalError:
            raise
        except errors.Error:  # the traced call raises it, or falls back
            return NotReplayed.FAILED

    def _replay(
        self,
        arguments: Sequence[Array],
        addresses: Sequence[int],
        reason: Reason,
        generators: Sequence[Any],
        numpy_seconds: list[float] | None,
        copies: DeviceCopies | None = None,
    ) -> Any:
        call = _Replay(self, arguments, addresses, reason, generators, copies)
        node: TreeNode | None = self.root
        has_succeeded = False
        try:
            if self.has_several_segments:
                node = call.run_superblock(self._superblock_of(self.root))
            while node is not None:
                outcome = call.run_segment(node)
                if outcome is NotReplayed.FAILED:
                    return outcome
                if node.lowered.is_last:
                    has_succeeded = call.advance_generators()
                    return outcome if has_succeeded else NotReplayed.GENERATOR_IN_USE
                if node.lowered.host_call is not None:
                    outcome = call.call_on_host(node.lowered.host_call, numpy_seconds)
                    if outcome is None:
                        return NotReplayed.FAILED
                node = call.next_node(node, outcome)
            return NotReplayed.FAILED if call.must_be_traced else NotReplayed.UNKNOWN_PATH
        finally:
            if not has_succeeded:  # also after an interrupt
                call.undo()


def _needs(
    lowered: LoweredSegment, following: Mapping[Any, TreeNode], edges: Mapping[Any, LoopEdge]
) -> frozenset[int]:
    """Return the arrays of earlier segments that a segment or a later one reads."""
    later: set[int] = set().union(*(each.needs for each in following.values()))
    later.update(*(edge.transition.arrays.values() for edge in edges.values()))
    if lowered.host_call is not None:
        later = (later - set(lowered.host_call.results)) | lowered.host_call.reads()
    return frozenset(lowered.live_in) | (later - set(lowered.live_out))


def _with_added(result: Any, added: Mapping[tuple[int, ...], int]) -> Any:
    """Return a result with numbers added to its integers, by their index paths in tuples."""
    if () in added:
        return result + added[()]
    parts = list(result)
    for index in {path[0] for path in added}:
        inner = {path[1:]: number for path, number in added.items() if path[0] == index}
        parts[index] = _with_added(parts[index], inner)
    return tuple(parts)


def _repetition(loop: Loop, needs: frozenset[int]) -> Transition | None:
    """Return the transition from a loop's last iteration to one more; it covers the needs of further ones."""
    while (transition := loop.repetition(needs)) is not None:
        more = needs | (set(transition.arrays.values()) - set(loop.arrays_made))
        if more == needs:
            break
        needs = more
    return transition


def _can_run_on_any_engine(path: Sequence[LoweredSegment]) -> bool:
    """Return True if a path has no host call, no request for a NumPy loop, and no too large arrays."""
    plans = [segment.plan for segment in path]
    sizes = [each.size for each in plans[0].arguments] + [new.size() for new in plans[-1].new]
    return (
        all(segment.host_call is None for segment in path)
        and sum(sizes) <= MAX_COPIED_BYTES * sum(len(plan.order) for plan in plans)
        and not any(request.entry == LOOP or request.quiet for plan in plans for request in plan.requests)
    )


class _SuperblockRuns(NamedTuple):
    """The superblock of a tree, if it has one, the nodes of its segments, and its runs."""

    root: TreeNode
    nodes: Sequence[TreeNode]
    superblock: Superblock | None
    runs: PlanRuns | None


class _Replay:
    """The arrays of one call, as it runs from segment to segment."""

    def __init__(
        self,
        tree: PlanTree,
        arguments: Sequence[Array],
        addresses: Sequence[int],
        reason: Reason,
        generators: Sequence[Any],
        copies: DeviceCopies | None,
    ) -> None:
        self._tree, self._arguments, self._addresses = tree, arguments, addresses
        self._reason, self._copies = reason, copies
        self._saved: dict[int, Array] = {}
        # It draws from copies, so that a call that is traced after all draws the same numbers.
        self._drawn = [(each, copy.copy(each)) for each in generators]
        self._states = [own.__getstate__() for _, own in self._drawn]
        self._may_have_advanced = False
        self.live: dict[int, Array] = {}  # of earlier segments, by serial number
        self._added: dict[tuple[int, ...], int] = {}  # to integers in the result, by index path
        self.must_be_traced = False

    def run_segment(self, node: TreeNode) -> Any:
        """Run a segment; return its outcome or, if it is the last one, the call's result; or `FAILED`."""
        lowered, live = node.lowered, self.live
        self._save(node.written)
        earlier = [live[serial] for serial in lowered.live_in]
        run = node.runs.take()
        buffers = run.compute(
            [*self._arguments, *earlier],
            [*self._addresses, *map(address_of, earlier)],
            self._reason,
            NewArray.allocate if lowered.is_last else self._tree.allocate,
            self._copies,
        )
        if buffers is None:
            outcome: Any = NotReplayed.FAILED
        elif lowered.is_last:
            if self._copies is not None:
                self._copies.sync_arguments()
            outcome = _with_added(run.result(buffers), self._added) if self._added else run.result(buffers)
        else:
            outcome = run.outcome(buffers)
            live_out = lowered.live_out
            live.update(zip(live_out, buffers[len(buffers) - len(live_out) :], strict=True))
        node.runs.give_back(run)
        return outcome

    def run_superblock(self, superblock: _SuperblockRuns) -> TreeNode | None:
        """Run the segments of a superblock; return the next one."""
        root, nodes, joined, runs = superblock
        if joined is None or runs is None:
            return root
        self._save(joined.plan.written)
        run = runs.take()
        allocate = self._tree.allocate
        buffers = run.compute(self._arguments, self._addresses, self._reason, allocate, self._copies)
        following = None
        if buffers is None:
            self.must_be_traced = True
        else:
            at = joined.exit_of(run)
            left, new = joined.exits[at], buffers[len(self._arguments) :]
            self.live.update({serial: new[index] for serial, index in left.live.items()})
            for index in set(range(len(new))).difference(left.live.values()):
                self._recycle(new[index])
            self.must_be_traced = not run.are_finite(left.finite, buffers)
            if not self.must_be_traced:
                following = self.next_node(nodes[at], bool(run.value(left.condition, buffers)))
        runs.give_back(run)
        return following

    def next_node(self, node: TreeNode, outcome: Any) -> TreeNode | None:
        """Return the segment that follows an outcome, and drop the arrays that it needs no more."""
        following = node.following.get(outcome)
        if following is not None:
            for serial in self.live.keys() - following.needs:
                self._recycle(self.live.pop(serial))
            return following
        edge = node.edges.get(outcome)
        if edge is None:
            return None
        arrays, added = edge.transition
        live = {serial: self.live[source] for serial, source in arrays.items()}
        for source in self.live.keys() - arrays.values():
            self._recycle(self.live[source])
        self.live = live
        for path, number in added.items():
            self._added[path] = self._added.get(path, 0) + number
        return node if edge.target is None else edge.target

    def call_on_host(self, call: HostCall, numpy_seconds: list[float] | None) -> tuple[Any, ...] | None:
        """Make a host call, and add its results to the live arrays; return their layouts.

        None means that the call must be traced, to raise or to warn.
        """
        copies = self._copies
        addresses: list[int] = []  # of the operands' arrays, of which a GPU may have newer values
        if copies is not None:
            owners = call.operand_owners(self._arguments, self.live)
            addresses = [byte_bounds(owner)[0] for owner in owners]
            for address in addresses:
                copies.sync_to_host(address)
        before, began = last_record(), time.perf_counter()
        state = np.geterr()
        raising: Any = {name: "raise" for name in ("divide", "over", "invalid") if state[name] != "ignore"}
        try:
            with np.errstate(**raising):
                result = call.compute(self._arguments, [own for _, own in self._drawn], self.live)
        except Exception as error:
            if raised_by_a_handler(error):
                raise
            return None  # the traced call raises it again
        results = [] if call.writes else results_of(result)
        if results is None:
            return None
        if numpy_seconds is not None and last_record() is before:  # no function of pycudakit
            numpy_seconds.append(time.perf_counter() - began)
        if call.writes and copies is not None:
            copies.mark_host_dirty(addresses[0])
        self.live.update(zip(call.results, map(owner_of, results), strict=False))
        return layouts_of(results)

    def undo(self) -> None:
        """Undo all writes to arguments, and the advance of generators, if an interrupt came during that."""
        for index, values in self._saved.items():
            self._arguments[index][...] = values
        for drawn, state in zip(self._drawn, self._states, strict=True) if self._may_have_advanced else ():
            each, own = drawn
            compare_exchange([each._stream], [own.__getstate__()], [state])  # noqa: SLF001

    def advance_generators(self) -> bool:
        """Advance the generators as the copies; return False if another thread has drawn meanwhile."""
        if not self._drawn:
            return True
        streams = [each._stream for each, _ in self._drawn]  # noqa: SLF001
        states = [own.__getstate__() for _, own in self._drawn]
        self._may_have_advanced = True
        self._may_have_advanced = compare_exchange(streams, self._states, states)
        return self._may_have_advanced

    def _save(self, written: Iterable[int]) -> None:
        for index in written:
            if index not in self._saved:
                self._saved[index] = self._arguments[index].copy("K")

    def _recycle(self, array: Array) -> None:
        if not self._tree.recycle(array) and self._copies is not None:
            self._copies.drop(address_of(array))
