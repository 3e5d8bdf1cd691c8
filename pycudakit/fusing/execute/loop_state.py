"""The state of a captured call at a branch of a loop: the values of Python's variables, to be compared."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType
from typing import Any, NamedTuple


class Value(NamedTuple):
    """The value of a variable: a form that equal values have in common, and its arrays, by serial number."""

    form: Any
    arrays: tuple[int, ...]


class LoopState(NamedTuple):
    """The variables at a branch that leaves a loop; None for values that cannot be compared."""

    site: tuple[CodeType, int]
    # Those that are live, and all that are arrays: deferred operations that may warn are computed, even if
    # their results are dead.
    variables: dict[str, Value | None]
    containers: Value | None  # all lists and dicts among the variables, since they may have changed
    # As for the `LoopBranch` of the site.
    leaves_if: bool
    live_after: frozenset[str]
    live_at_branch: frozenset[str] | None
    returned: dict[str, list[tuple[int, ...]]]
    counters: frozenset[str]

    def arrays(self, names: Iterable[str]) -> set[int]:
        """Return the serial numbers of the arrays of these variables."""
        values = [self.containers, *(self.variables.get(name) for name in names)]
        return {serial for value in values if value is not None for serial in value.arrays}

    def is_int(self, name: str) -> bool:
        """Return True if a variable is an `int`."""
        value = self.variables.get(name)
        return value is not None and value.form[0] is int

    def names_of(self, serials: set[int]) -> set[str]:
        """Return the variables of some arrays."""
        variables = self.variables.items()
        return {
            name for name, value in variables if value is not None and not serials.isdisjoint(value.arrays)
        }

    def corresponds(self, other: LoopState, names: Iterable[str], serials: dict[int, int]) -> bool:
        """Return True if these variables have the values of another iteration.

        `serials` maps the arrays of this state to those of the other one. An array that it lacks is not used
        later, and corresponds to any.
        """
        pairs = [(self.containers, other.containers)]
        pairs += [
            (self.variables.get(name), other.variables.get(name))
            for name in names
            if name in self.variables or name in other.variables
        ]
        for mine, its in pairs:
            if mine is None or its is None or mine.form != its.form:
                return False
            if any(
                serials.get(one, another) != another
                for one, another in zip(mine.arrays, its.arrays, strict=True)
            ):
                return False
        return True
