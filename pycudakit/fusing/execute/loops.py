"""Loops in a captured call: iterations with the same plan, and how one may be left, or repeated.

A loop ends where a number that it computes says so, and each call may have another number of iterations.
Iterations of a captured call whose plans are equal, and at whose ends Python's variables hold corresponding
values, may be followed by the segments that followed the last one of them, or by one more iteration. Only the
arrays have other serial numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pycudakit.fusing.execute.loop_state import LoopState
from pycudakit.fusing.execute.segment import LoweredSegment

_MIN_ITERATIONS = 3


class Run(NamedTuple):
    """Successive segments that end with one branch, which leaves a loop after the `last` one."""

    first: int
    last: int


def runs_of(states: Sequence[LoopState | None], outcomes: Sequence[Any]) -> list[Run]:
    """Return the runs of a call whose segments end with these states and outcomes."""
    runs: list[Run] = []
    first = 0
    for index, state in enumerate(states):
        if index and (state is None or states[index - 1] is None or state.site != states[index - 1].site):  # type: ignore[union-attr]
            first = index
        if state is not None and outcomes[index] == state.branch.leaves_if:
            if index - first + 1 >= _MIN_ITERATIONS:
                runs.append(Run(first, index))
            first = index + 1
    return runs


class Step(NamedTuple):
    """A step to a segment that was captured behind another iteration.

    `arrays` maps the arrays that it needs, by serial number, to those that it gets. `added` are differences
    of the numbers in the result, by their paths of indices in tuples.
    """

    arrays: dict[int, int]
    added: dict[tuple[int, ...], int]


class Loop:
    """The last iterations of a loop, whose plans are equal.

    Parameters
    ----------
    path
        The segments of the call.
    run
        The loop's segments.
    """

    def __init__(self, path: Sequence[LoweredSegment], run: Run) -> None:
        self._path, self.last = path, run.last
        self._places: dict[
            int, tuple[int, int]
        ] = {  # of arrays: the segment that makes it, and its index there
            serial: (index, place)
            for index in range(run.first, run.last + 1)
            for place, serial in enumerate(path[index].live_out)
        }
        key, reads = path[run.last].plan.key(), self._reads_of(run.last)
        self.first = run.last
        while self.first > run.first and (
            self._reads_of(self.first - 1) == reads and path[self.first - 1].plan.key() == key
        ):
            self.first -= 1

    @property
    def arrays_made(self) -> Sequence[int]:
        """The arrays, by serial number, that the last iteration makes for later segments."""
        return self._path[self.last].live_out

    def _reads_of(self, index: int) -> list[Any]:
        """Return the arrays that a segment reads: how many segments before they were made, and where."""
        return [
            (index - self._places[serial][0], self._places[serial][1]) if serial in self._places else serial
            for serial in self._path[index].live_in
        ]

    def exit_after(self, index: int, needs: Iterable[int]) -> Step | None:
        """Return the step from an iteration to the code behind the loop, which reads the arrays `needs`.

        None means that it may read other values than after the last iteration.
        """
        branch = self._state(self.last).branch
        is_result = self.last + 2 == len(self._path) and self._path[-1].is_last
        counted = branch.returned if is_result else {}
        arrays = self._corresponding(self.last, index, branch.live_after - {*self._numbers(counted)}, needs)
        if arrays is None:
            return None
        numbers, last = self._numbers_at(index), self._numbers_at(self.last)
        added = {
            path: numbers[name] - last[name] for name in self._numbers(counted) for path in counted[name]
        }
        return Step(arrays, {path: number for path, number in added.items() if number})

    def repetition(self, needs: Iterable[int]) -> Step | None:
        """Return the step from the last iteration to one like it, which reads the arrays `needs`.

        None means that it may compute something else.
        """
        branch = self._state(self.last).branch
        if branch.live_in_loop is None:
            return None
        is_result = self.last + 2 == len(self._path) and self._path[-1].is_last
        counters = {
            name for name in self._numbers(branch.counters) if is_result and self._step_of(name) is not None
        }
        arrays = self._corresponding(self.last - 1, self.last, branch.live_in_loop - counters, needs)
        if arrays is None:
            return None
        return Step(
            arrays, {path: self._step_of(name) or 0 for name in counters for path in branch.returned[name]}
        )

    def _numbers_at(self, index: int) -> dict[str, int]:
        """Return the variables that are Python's integers at the end of an iteration."""
        values = self._state(index).variables.items()
        return {name: value.form[1] for name, value in values if value is not None and value.form[0] is int}

    def _numbers(self, names: Iterable[str]) -> list[str]:
        """Return those of the variables that are Python's integers in all iterations."""
        numbers = [self._numbers_at(index) for index in range(self.first, self.last + 1)]
        return [name for name in names if all(name in each for each in numbers)]

    def _step_of(self, name: str) -> int | None:
        """Return the number that each iteration adds to a variable."""
        values = [self._numbers_at(index)[name] for index in range(self.first, self.last + 1)]
        steps = {after - before for before, after in itertools.pairwise(values)}
        return steps.pop() if len(steps) == 1 else None

    def _state(self, index: int) -> LoopState:
        state = self._path[index].loop_state
        assert state is not None  # noqa: S101
        return state

    def _corresponding(
        self, index: int, other_index: int, names: Iterable[str], needs: Iterable[int]
    ) -> dict[int, int] | None:
        """Return the arrays at the end of another iteration that correspond to those at the end of one.

        None means that they are not known, or that one of the variables has another value.
        """
        needs = set(needs)
        found: dict[int, int] = {}
        for serial in needs:
            segment, place = self._places.get(serial, (-1, -1))
            if segment < self.first:  # the same array in all iterations
                found[serial] = serial
                continue
            segment += other_index - index
            if not self.first <= segment <= self.last:
                return None
            found[serial] = self._path[segment].live_out[place]
        state = self._state(index)
        names = {*names, *state.names_of(needs)}
        if not needs <= state.arrays(names) or not state.corresponds(self._state(other_index), names, found):
            return None
        return found


def loops_of(path: Sequence[LoweredSegment]) -> list[Loop]:
    """Return the loops of a captured call."""
    states = [segment.loop_state for segment in path]
    loops = [Loop(path, run) for run in runs_of(states, [segment.outcome for segment in path])]
    return [loop for loop in loops if loop.first < loop.last]
