"""The schedule of a traced graph: a pure function from the graph to the passes that compute it.

Wanted values of one shape are computed by one kernel, with the operations that they need fused into it.
Reductions, and broadcasts and views of their results, are fusion barriers: they are computed before the
kernels that read them. Reductions of one operand along the same axes are one pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pycudakit._element_programs.program_cost import FUSED_FACTOR, measured
from pycudakit._native.dtypes import CODES
from pycudakit._runtime.ufunc_arguments import broadcast_shapes
from pycudakit.fusing.schedule.graph import (
    BROADCAST,
    REDUCTION,
    VIEW,
    Extent,
    Graph,
    Operation,
    names_of,
)

MAX_OUTPUTS = 32  # of a kernel
# A kernel of so many operations on few elements also stores the live values that it computes on the way.
_MIN_STEPS_TO_STORE, _MAX_SIZE_TO_STORE = 16, 1 << 15
MIN_STEPS_COMPUTED_AGAIN = 8  # operations that cost more than a pass over the stored values
# Seconds for an element on one thread: a reduction's operand that takes longer is stored, not computed twice.
_MIN_SECONDS_TO_MATERIALIZE = 1.5e-9
MIN_REDUCED_BYTES = 1 << 20  # bytes of a reduction's operand: row tiles of smaller ones gain nothing


class Kernel(NamedTuple):
    """A fused kernel.

    Attributes
    ----------
    outputs
        The indices of the values that it stores.
    operations
        The operations that it computes, in order.
    arguments
        Of each operation: from 0 up the kernel's operations, from -1 down its inputs.
    inputs
        The indices of the graph's inputs, and of results of earlier passes, that it reads.
    results
        The outputs, numbered as `arguments` are.
    """

    outputs: tuple[int, ...]
    operations: tuple[int, ...]
    arguments: tuple[tuple[int, ...], ...]
    inputs: tuple[int, ...]
    results: tuple[int, ...]

    def __str__(self) -> str:
        """Return the pass as a line."""
        return (
            f"{names_of(self.outputs)} = kernel({names_of(self.operations)}; reads {names_of(self.inputs)})"
        )


class Reductions(NamedTuple):
    """Reductions of one operand along the same axes; of a deferred operand, fused with its kernel."""

    outputs: tuple[int, ...]
    operand: int
    producer: Kernel | None

    def __str__(self) -> str:
        """Return the pass as a line."""
        fused = "" if self.producer is None else f"; fused {names_of(self.producer.operations)}"
        return f"{names_of(self.outputs)} = reductions({names_of([self.operand])}{fused})"


class Tiles(NamedTuple):
    """Values to compute by row tiles, if that pays. The passes after it are those if it does not pay."""

    outputs: tuple[int, ...]

    def __str__(self) -> str:
        """Return the pass as a line."""
        return f"{names_of(self.outputs)} = row tiles, if they pay"


Pass = Kernel | Reductions | Tiles


class Schedule(NamedTuple):
    """The passes that compute a graph's wanted values.

    Attributes
    ----------
    passes
        In order. Views are computed with their operands.
    recomputed
        Of each pass, the operations that it computes without storing them.
    released
        Of each pass, the values that no later pass uses.
    needs
        The extent of the graph that a schedule needs; if the graph has less, there are no passes.
    """

    passes: tuple[Pass, ...]
    recomputed: tuple[tuple[int, ...], ...] = ()
    released: tuple[tuple[int, ...], ...] = ()
    needs: Extent = Extent.NEEDED

    def __str__(self) -> str:
        """Return a line for each pass."""
        return "\n".join(map(str, self.passes))


def schedule(graph: Graph, engine: str = "cpu", min_reduced_bytes: int = MIN_REDUCED_BYTES) -> Schedule:
    """Return the passes that compute a graph.

    Parameters
    ----------
    graph
        The graph.
    engine
        The engine that runs the passes.
    min_reduced_bytes
        The bytes of a reduction's operand from which row tiles are tried.
    """
    planner = _Planner(graph, engine, min_reduced_bytes)
    try:
        planner.plan()
    except _NeedsMoreError as more:
        return Schedule((), needs=more.extent)
    return Schedule(tuple(planner.passes), tuple(planner.recomputed), planner.released())


def is_long_kernel(steps: int, shape: tuple[int, ...]) -> bool:
    """Return True if a kernel of so many operations also stores the live values on the way."""
    return steps >= _MIN_STEPS_TO_STORE and math.prod(shape) <= _MAX_SIZE_TO_STORE


def pattern_of(shapes: Iterable[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Return the properties of shapes that decide a schedule: which sizes are equal, 0 or 1; small or not.

    The bytes of reductions' operands decide it, too.
    """
    names = {0: 0, 1: 1}
    return tuple(
        [
            (math.prod(shape) <= _MAX_SIZE_TO_STORE, *[names.setdefault(size, len(names)) for size in shape])
            for shape in shapes
        ]
    )


class _NeedsMoreError(Exception):
    """The schedule depends on operations that are not in the graph."""

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent)
        self.extent = extent


class _Planner:
    """Plans the passes of a graph, one after the other."""

    def __init__(self, graph: Graph, engine: str, min_reduced_bytes: int) -> None:
        self._graph, self._engine, self._min_reduced_bytes = graph, engine, min_reduced_bytes
        self._operations = operations = graph.operations
        self._arguments = [each.arguments for each in operations]
        self._is_barrier = [each.is_barrier for each in operations]
        self._is_stored = [False] * len(operations) + [True] * len(graph.inputs)
        self._recomputations = [each.recomputations for each in operations]
        self._views: dict[int, list[int]] = {}
        for index, each in enumerate(operations):
            if each.kind == VIEW:
                self._views.setdefault(each.arguments[0], []).append(index)
        self._barriers_left = sum(self._is_barrier)
        self._row_reductions = {index for index in graph.reductions if self._reduces_rows(index)}
        self._tried: set[tuple[int, ...]] = set()  # by row tiles
        self.passes: list[Pass] = []
        self.recomputed: list[tuple[int, ...]] = []

    def plan(self) -> None:
        """Plan all passes."""
        graph = self._graph
        if graph.is_looked_at:
            self._store_reduced(graph.wanted)
        if graph.is_written:
            self._plan_write(graph.wanted)
        else:
            self._compute_all(graph.wanted)

    def released(self) -> tuple[tuple[int, ...], ...]:
        """Return, for each pass, the values that no later pass uses."""
        if len(self.passes) == 1:
            return ((),)
        seen: set[int] = set()
        released: list[tuple[int, ...]] = []
        for each in reversed(self.passes):
            used: set[int] = {*each.outputs}
            for kernel in (each, each.producer) if isinstance(each, Reductions) else (each,):
                if isinstance(kernel, Kernel):
                    used.update(kernel.operations, kernel.inputs)
            if isinstance(each, Reductions):
                used.add(each.operand)
            released.append(tuple(sorted(used - seen)))
            seen |= used
        return tuple(reversed(released))

    # ---- Values, and their order ------------------------------------------------------------------------

    def _compute_all(self, wanted: Sequence[int]) -> None:
        """Compute values, one kernel for each shape."""
        by_rows: dict[tuple[int, ...], list[int]] = {}
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for index in wanted if self._graph.reductions else ():
            by_rows.setdefault(self._operations[index].shape[:1], []).append(index)
        for indices in by_rows.values():
            self._try_tiles(indices)
        for index in wanted:
            operation = self._operations[index]
            if operation.kind in (REDUCTION, VIEW):
                self._compute(index)
            elif not self._is_stored[index]:
                by_shape.setdefault(operation.shape, []).append(index)
        for indices in by_shape.values():
            for first in range(0, len(indices), MAX_OUTPUTS):
                self._run_kernel(indices[first : first + MAX_OUTPUTS])

    def _compute(self, index: int) -> None:
        """Compute one value by the pass for its kind."""
        if self._is_stored[index]:
            return
        operation = self._operations[index]
        self._try_tiles([index])
        if operation.kind == REDUCTION:
            self._reduce(index)
        elif operation.kind == VIEW:
            self._compute(operation.arguments[0])
        else:
            self._run_kernel([index])

    def _plan_write(self, wanted: Sequence[int]) -> None:
        """Compute all that the kernel that writes the wanted values does not compute itself, and add it."""
        left = [index for index in wanted if not self._is_stored[index]]
        if on_the_way := self._live_intermediates(left):
            self._run_kernel(on_the_way)
        self._resolve_barriers(wanted)
        self._add(self._kernel_of(wanted))

    def _resolve_barriers(self, indices: Sequence[int]) -> None:
        """Compute the fusion barriers that values depend on, so that the rest can be fused."""
        while self._barriers_left:
            barrier = self._last_barrier(indices)
            if barrier is None:
                return
            self._compute(barrier)  # the others may depend on it

    def _last_barrier(self, indices: Sequence[int]) -> int | None:
        kept = {index for index in indices if index >= 0 and self._operations[index].kind == BROADCAST}
        for index in reversed(indices):
            needed = [
                each for each in self._ancestors([index]) if self._is_barrier[each] and each not in kept
            ]
            if needed:
                return needed[-1]
        return None

    def _store_reduced(self, wanted: Iterable[int]) -> None:
        """Store the live operands of a value's reductions.

        In `while x.max() > 1: x = f(x)`, the next maximum would compute them again. Live values on the way
        are stored, too, if any was computed before.
        """
        for index in self._ancestors(wanted):
            if self._operations[index].kind != REDUCTION or self._is_stored[index]:
                continue
            operands = self._ancestors(self._arguments[index])  # the operand, and all that it needs
            if not operands:
                continue
            is_again = any(self._recomputations[each] for each in operands[1:])
            stored = set(operands if is_again else operands[:1])
            self._need(Extent.LIVE)
            self._compute_all([each for each in self._graph.live if each in stored])

    # ---- Passes ----------------------------------------------------------------------------------------

    def _try_tiles(self, indices: Sequence[int]) -> None:
        """Try row tiles, for values that need a reduction within their rows of a large operand."""
        if not self._row_reductions:
            return
        left = tuple([index for index in indices if not self._is_stored[index]])
        if not left or left in self._tried:
            return
        self._tried.add(left)
        rows = self._operations[left[0]].shape[:1]
        needed = self._row_reductions.intersection(self._ancestors(left)) if rows > (1,) else ()
        if any(self._shape_of(self._arguments[each][0])[:1] == rows for each in needed):
            self._add(Tiles(left))

    def _reduces_rows(self, index: int) -> bool:
        """Return True if a reduction is along other axes than the first, and its operand is large."""
        (at,) = self._arguments[index]
        operand = self._operations[at] if at >= 0 else self._graph.inputs[~at]
        size = np.dtype(operand.dtype).itemsize * math.prod(operand.shape or ())
        return 0 not in self._operations[index].options and size >= self._min_reduced_bytes

    def _reduce(self, index: int) -> None:
        """Compute a reduction, with the others of its operand along the same axes."""
        operations, arguments, axes = self._operations, self._arguments, self._operations[index].options
        (operand,) = arguments[index]
        alike = [
            each
            for each in self._graph.reductions
            if not self._is_stored[each]
            and arguments[each] == arguments[index]
            and operations[each].options == axes
        ] or [index]
        self._resolve_barriers([operand])
        producer = None
        if not self._is_stored[operand]:
            kernel = self._kernel_of([operand])
            again = sum(self._recomputations[each] > 0 for each in kernel.operations)
            is_stored = again >= MIN_STEPS_COMPUTED_AGAIN
            is_stored |= self._recomputations[operand] > 0 and self._should_store(kernel)
            shapes = map(self._shape_of, kernel.inputs)  # of numbers, too
            if not is_stored and broadcast_shapes(*shapes) == self._operations[operand].shape:
                producer = kernel
            else:
                self._run_kernel([operand])
        self._add(
            Reductions(tuple(alike), operand, producer), () if producer is None else producer.operations
        )

    def _run_kernel(self, indices: Sequence[int]) -> None:
        """Compute values of one shape by one kernel."""
        self._resolve_barriers(indices)
        outputs = [index for index in indices if not self._is_stored[index]]
        if not outputs:
            return
        outputs += self._live_intermediates(outputs)
        kernel = self._kernel_of(outputs)
        stored = set(outputs)
        on_the_way = [index for index in kernel.operations if index not in stored]
        later = self._needed_later(outputs, on_the_way)
        if later:
            outputs += later
            kernel = self._kernel_of(outputs)
        self._add(kernel, on_the_way)

    def _live_intermediates(self, indices: Sequence[int]) -> list[int]:
        """Return live operations that a long kernel of few elements computes on the way to others.

        In a recurrence such as `b = b * (1 - a * a)`, each kernel would compute all steps up to there again.
        """
        steps = max((self._operations[index].steps for index in indices), default=0)
        if not indices or not is_long_kernel(steps, self._operations[indices[0]].shape):
            return []
        self._need(Extent.LIVE)
        live = set(self._live_like(indices[0])).difference(indices)
        on_the_way = [each for index in indices for each in self._ancestors([index]) if each in live]
        unique = dict.fromkeys(each for each in on_the_way if not self._is_barrier[each])
        return list(unique)[: MAX_OUTPUTS - len(indices)]

    def _needed_later(self, outputs: Sequence[int], on_the_way: Iterable[int]) -> list[int]:
        """Return live operations that need many operations which a kernel computes, and an earlier one did.

        In `while np.any(f(x)): x = g(x)`, each kernel would compute all iterations up to there again.
        """
        again = {
            index
            for index in on_the_way
            if self._recomputations[index] and self._operations[index].steps >= MIN_STEPS_COMPUTED_AGAIN
        }
        if not again:
            return []
        self._need(Extent.LATER)
        later = [
            index
            for index in self._live_like(outputs[0])
            if index not in outputs and self._needs_any(index, again)
        ]
        return later[: MAX_OUTPUTS - len(outputs)]

    def _live_like(self, index: int) -> list[int]:
        shape = self._operations[index].shape
        return [
            each
            for each in self._graph.live
            if self._operations[each].shape == shape and not self._is_stored[each]
        ]

    def _needs_any(self, index: int, others: set[int]) -> bool:
        """Return True if a value can be computed by a kernel that computes one of the others on the way."""
        before = self._ancestors([index])
        is_fused = not any(self._is_barrier[each] for each in before)
        return is_fused and any(each in others for each in before)

    def _should_store(self, kernel: Kernel) -> bool:
        """Return True if storing a kernel's value is cheaper than computing it again."""
        if self._engine == "cuda":
            return True
        nanoseconds = [self._nanoseconds(self._operations[index]) for index in kernel.operations]
        factor = FUSED_FACTOR if len(nanoseconds) > 1 else 1
        return 1e-9 * sum(nanoseconds) * factor > _MIN_SECONDS_TO_MATERIALIZE

    def _nanoseconds(self, operation: Operation) -> float:
        """Estimate the time of one element on one thread."""
        operands = [self._operations[i] if i >= 0 else self._graph.inputs[~i] for i in operation.arguments]
        dtypes = [np.dtype(each.dtype) for each in operands if each.shape is not None]
        dtype, name = operation.dtype, operation.function
        if name == "astype":
            name = f"cast {dtype}"
        if dtypes and (operation.function == "astype" or dtype.kind == "b"):
            dtype = np.result_type(*dtypes)
        return measured(name, CODES[dtype])[1]

    # ---- The state -------------------------------------------------------------------------------------

    def _add(self, one: Pass, on_the_way: Iterable[int] = ()) -> None:
        """Add a pass, which computes some operations without storing them."""
        self.recomputed.append(tuple(on_the_way))
        for index in self.recomputed[-1]:
            self._recomputations[index] += 1
        self.passes.append(one)
        if not isinstance(one, Tiles):
            for index in one.outputs:
                self._store(index)

    def _store(self, index: int) -> None:
        if not self._is_stored[index]:
            self._is_stored[index] = True
            self._barriers_left -= self._is_barrier[index]
            for view in self._views.get(index, ()):
                self._store(view)

    def _need(self, extent: Extent) -> None:
        if self._graph.extent < extent:
            raise _NeedsMoreError(extent)

    def _shape_of(self, index: int) -> tuple[int, ...]:
        return self._operations[index].shape if index >= 0 else self._graph.inputs[~index].shape or ()

    def _ancestors(self, indices: Iterable[int]) -> list[int]:
        """Return these operations and all that they depend on, but none that are stored."""
        arguments, is_stored = self._arguments, self._is_stored
        found, seen, pending = [], set(indices), [*indices]
        while pending:
            index = pending.pop()
            if is_stored[index]:
                continue
            found.append(index)
            for argument in arguments[index]:
                if argument not in seen:
                    seen.add(argument)
                    pending.append(argument)
        return found

    def _kernel_of(self, outputs: Sequence[int]) -> Kernel:
        """Return the kernel of values whose barriers are stored."""
        is_stored, graph = self._is_stored, self._graph
        if tuple(outputs[: len(graph.wanted)]) == graph.wanted and self._is_whole(outputs):
            inputs_in_order = tuple(range(-1, ~len(graph.inputs), -1))
            in_order = tuple(range(len(self._operations)))
            return Kernel(tuple(outputs), in_order, tuple(self._arguments), inputs_in_order, tuple(outputs))
        slots: dict[int, int] = {}
        operations: list[int] = []
        arguments: list[tuple[int, ...]] = []
        inputs: dict[int, int] = {}
        for output in outputs:
            pending = [output]
            while pending:
                index = pending[-1]
                if is_stored[index]:
                    slots[index] = inputs.setdefault(self._same_memory(index), ~len(inputs))
                elif index not in slots:
                    own = []
                    for argument in self._arguments[index]:
                        slot = slots.get(argument)
                        if slot is None:
                            if not is_stored[argument]:
                                pending.append(argument)
                                break
                            slot = inputs.setdefault(self._same_memory(argument), ~len(inputs))
                            slots[argument] = slot
                        own.append(slot)
                    else:
                        slots[index] = len(operations)
                        operations.append(index)
                        arguments.append(tuple(own))
                        pending.pop()
                    continue
                pending.pop()
        results = tuple([slots[output] for output in outputs])
        return Kernel(tuple(outputs), tuple(operations), tuple(arguments), tuple(inputs), results)

    def _is_whole(self, outputs: Sequence[int]) -> bool:
        """Return True if values need all operations of the graph, and no barrier."""
        if self.passes or any(self._is_barrier):
            return False
        needed = set(outputs)
        for index in range(len(self._arguments) - 1, -1, -1):
            if index not in needed:
                return False
            needed.update(self._arguments[index])
        return len(needed) == len(self._is_stored)

    def _same_memory(self, index: int) -> int:
        """Return the first of equal views of one value."""
        if index < 0 or self._operations[index].kind != VIEW:
            return index
        (viewed,), shape = self._operations[index].arguments, self._operations[index].shape
        return next(view for view in self._views[viewed] if self._operations[view].shape == shape)
