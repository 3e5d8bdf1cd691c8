"""Loops in a captured call: transitions from one iteration to the code after the loop, or to an iteration.

A captured call has a loop if successive segments end at one branch, of which one outcome leaves the loop. Its
last iterations have equal plans. The trace state at the end of one of them corresponds to the state at the
end of the last one if Python's live variables hold equal numbers, and arrays that were made at the same place
the same number of iterations earlier. Then the segments that followed the last iteration may follow that one,
too. A transition renames the arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pycudakit.fusing.execute.loop_state import LoopState
from pycudakit.fusing.execute.segment import LoweredSegment

_MIN_ITERATIONS = 3  # the first one has another plan, and two are compared


class Iterations(NamedTuple):
    """Successive segments that end with one branch, which leaves a loop after the `last` one."""

    first: int
    last: int


def runs_of(states: Sequence[LoopState | None], outcomes: Sequence[Any]) -> list[Iterations]:
    """Return the runs of a call whose segments end with these states and outcomes."""
    runs: list[Iterations] = []
    first = 0
    for index, state in enumerate(states):
        before = states[index - 1] if index else None
        if state is None or before is None or state.site != before.site:
            first = index
        if state is not None and outcomes[index] == state.leaves_if:
            if index - first + 1 >= _MIN_ITERATIONS:
                runs.append(Iterations(first, index))
            first = index + 1
    return runs


class Transition(NamedTuple):
    """A transition to a segment that was captured after another iteration.

    `arrays` maps the arrays that it needs, by serial number, to those that it gets. `added` are the numbers
    to add to integers in the result, by their index paths in tuples.
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

    def __init__(self, path: Sequence[LoweredSegment], run: Iterations) -> None:
        self._path, self.last = path, run.last
        # The segment that makes an array, and its place among the arrays that leave that segment.
        self._places: dict[int, tuple[int, int]] = {
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

    def exit_after(self, index: int, needs: Iterable[int]) -> Transition | None:
        """Return the transition from an iteration to the code after the loop, which reads the arrays `needs`.

        None means that it may read other values than after the last iteration.
        """
        counted = self._paths_of_ints
        names = self._state(self.last).live_after - counted.keys()
        arrays = self._corresponding(self.last, index, names, needs)
        if arrays is None:
            return None
        added = {
            path: self._int(name, index) - self._int(name, self.last)
            for name, paths in counted.items()
            for path in paths
        }
        return Transition(arrays, {path: number for path, number in added.items() if number})

    def repetition(self, needs: Iterable[int]) -> Transition | None:
        """Return the transition from the last iteration to one like it, which reads the arrays `needs`.

        None means that it may compute something else.
        """
        state = self._state(self.last)
        if state.live_at_branch is None:
            return None
        states = self._states[-2:]
        paths = self._paths_of_ints
        counters = {name for name in state.counters if all(each.is_int(name) for each in states)}
        counters -= state.returned.keys() - paths.keys()  # if a number is returned, its path must be known
        names = state.live_at_branch - counters
        arrays = self._corresponding(self.last - 1, self.last, names, needs)
        if arrays is None:
            return None
        steps = {name: self._int(name, self.last) - self._int(name, self.last - 1) for name in counters}
        return Transition(arrays, {path: steps[name] for name in counters for path in paths.get(name, ())})

    @functools.cached_property
    def _paths_of_ints(self) -> dict[str, list[tuple[int, ...]]]:
        """The variables that are integers in all iterations, and only parts of the result; and where."""
        if self.last + 2 != len(self._path) or not self._path[-1].is_last:
            return {}
        returned = self._states[-1].returned
        return {name: returned[name] for name in returned if all(each.is_int(name) for each in self._states)}

    @functools.cached_property
    def _states(self) -> list[LoopState]:
        return [self._state(index) for index in range(self.first, self.last + 1)]

    def _int(self, name: str, index: int) -> int:
        value = self._state(index).variables[name]
        assert value is not None  # noqa: S101
        return int(value.form[1])

    def _state(self, index: int) -> LoopState:
        state = self._path[index].loop_state
        assert state is not None  # noqa: S101
        return state

    def _corresponding(
        self, index: int, other_index: int, names: Iterable[str], needs: Iterable[int]
    ) -> dict[int, int] | None:
        """Map each array in `needs` at the end of an iteration to its counterpart in another iteration.

        None means that one has no counterpart, or that a variable has another value.
        """
        needs = set(needs)
        found: dict[int, int] = {}
        for serial in needs:
            segment, place = self._places.get(serial, (-1, -1))
            if segment < self.first:  # it was made before these iterations
                found[serial] = serial
                continue
            segment += other_index - index
            if not self.first <= segment <= self.last:
                return None
            found[serial] = self._path[segment].live_out[place]
        # Each of these arrays must be a variable's, so that its counterpart is known to be the right one.
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
