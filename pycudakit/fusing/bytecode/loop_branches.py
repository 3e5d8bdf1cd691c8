"""Branches that leave a loop: which outcome leaves it, and which variables the code behind them reads."""

from __future__ import annotations

import functools
from collections.abc import Container, Iterable, Iterator
from types import CodeType
from typing import Any, NamedTuple

from pycudakit.fusing.bytecode.opcodes import IS_BLOCK_STACK, Handler, Instruction, read_code, stack_effect

_ENDS = frozenset({"return", "raise"})
_JUMPS_IF = frozenset({"jump_if", "jump_if_none", "jump_or_pop", "next_item"})
_BEFORE_JUMPS = frozenset({"truth", "nothing"})  # they keep the value that the jump tests, or negate it
# Rules without other effects than on the stack, where they replace values by one that they compute.
_COMPUTES = frozenset(
    """nothing keyword_names constant plain_constant load_global load_cell_value push_null load_attribute
    load_method binary subscript compare identity contains unary call call_with_names call_function
    call_function_with_names""".split()  # noqa: SIM905
)
_ADDING = frozenset({"+", "-", "+=", "-="})
_CELLS = frozenset({"load_cell", "load_cell_value"})
_LOADS = frozenset({"load_local", "load_local_and_clear", "load_two_locals", *_CELLS})
_KILLS = frozenset({"store_local", "store_two_locals", "delete_local"})


class LoopBranch(NamedTuple):
    """A branch of which one outcome leaves a loop for good.

    `live_after` are the variables that are live after the loop, and `live_at_branch` those that are live at
    the branch; None in a `for` loop, since the state of its iterator is not known. `returned` are those of
    `live_after` that are read only to build the returned tuple, with their index paths in it. `counters` are
    variables to which the loop only adds constants, and that are read for nothing else but that tuple.

    An inner loop has no such branch: the outer loop reaches it again.
    """

    leaves_if: bool
    live_after: frozenset[str]
    live_at_branch: frozenset[str] | None
    returned: dict[str, list[tuple[int, ...]]]
    counters: frozenset[str]


@functools.lru_cache(1024)
def loop_branch(code: CodeType, offset: int) -> LoopBranch | None:
    """Return the branch that tests a value at a byte offset of code; None if it does not leave a loop."""
    flow = _Flow(code)
    instructions = flow.instructions
    tested = next((i for i, each in enumerate(instructions) if each.begin <= offset < each.end), None)
    if tested is None:
        return None
    at, is_negated = tested + (instructions[tested].rule == "compare"), False
    while at < len(instructions) and instructions[at].rule in _BEFORE_JUMPS:
        is_negated ^= instructions[at].name == "UNARY_NOT"
        at += 1
    if at == len(instructions):
        return None
    jump = instructions[at]
    if jump.rule != "jump_if" or type(jump.value) is not int:
        return None
    jumps_if = ("TRUE" in jump.name) ^ is_negated
    behind = {jumps_if: jump.value, not jumps_if: at + 1}
    leaving = [outcome for outcome, successor in behind.items() if at not in flow.reachable([successor])]
    if len(leaving) != 1:
        return None
    (leaves_if,) = leaving
    live = flow.live_variables()
    after, inside = behind[leaves_if], behind[not leaves_if]
    live_at_branch = None if flow.has_iterators_around(at) else frozenset(live[inside] | live[after])
    returned, loads = flow.returned_variables(after)
    used = flow.live_variables(ignores_counting=True, ignored=loads)
    counters = frozenset(live[inside] | live[after]) - used[inside] - used[after]
    return LoopBranch(leaves_if, frozenset(live[after]), live_at_branch, returned, counters)


class _Flow:
    """The control flow of code, and the liveness of its variables."""

    def __init__(self, code: CodeType) -> None:
        self.instructions, handlers = read_code(code)
        count = len(self.instructions)
        self._successors = [
            [i for i in _successors(index, each, handler) if i < count]
            for index, (each, handler) in enumerate(zip(self.instructions, handlers, strict=True))
        ]
        # Inner functions may read them at any time.
        self._cells = {*code.co_cellvars, *code.co_freevars}

    def reachable(self, first: Iterable[int], without: int = -1) -> set[int]:
        """Return the instructions that are reachable from the `first` ones on paths that avoid `without`."""
        pending = [*first]
        found: set[int] = set()
        while pending:
            index = pending.pop()
            if index not in found and index != without:
                found.add(index)
                pending += self._successors[index]
        return found

    def has_iterators_around(self, branch: int) -> bool:
        """Return True if the branch is in a `for` loop, which goes on with the same iterator."""
        return any(
            each.rule == "next_item"
            and index in self.reachable(self._successors[branch], without=index - 1)  # but by `GET_ITER`
            and branch in self.reachable([index])
            for index, each in enumerate(self.instructions)
        )

    def returned_variables(self, first: int) -> tuple[dict[str, list[tuple[int, ...]]], frozenset[int]]:
        """Return the variables that are read only to build a returned tuple, with paths, and their loads.

        There are none unless the code from `first` on is straight-line code up to a `return`; unconditional
        forward jumps are followed.
        """
        stack: list[Any] = []
        computed_with: set[str] = set()
        loads: dict[str, list[int]] = {}
        index = first
        while (each := self.instructions[index]).rule != "return" or each.name != "RETURN_VALUE":
            names = _names(each)
            if each.rule == "jump" and type(each.value) is int and each.value > index:
                index = each.value
                continue
            if each.rule in ("load_local", "load_two_locals"):
                stack += names
                for name in names:
                    loads.setdefault(name, []).append(index)
            elif each.rule == "build_tuple":
                at = len(stack) - each.arg
                if at < 0:
                    return {}, frozenset()
                stack[at:] = [tuple(stack[at:])]
            elif each.rule == "pop":
                del stack[-1:]
            elif each.rule not in _COMPUTES:
                return {}, frozenset()
            elif (effect := stack_effect(each)) or each.rule != "nothing":
                kept = max(len(stack) - max(1 - effect, 0), 0)
                computed_with.update(_variables(stack[kept:]))
                stack[kept:] = [None] * max(effect, 1)
            index += 1
        found: dict[str, list[tuple[int, ...]]] = {}
        for path, name in _parts(stack[-1] if stack else None):
            if name not in computed_with and name not in self._cells:
                found.setdefault(name, []).append(path)
        return found, frozenset(i for name in found for i in loads[name])

    def live_variables(self, ignores_counting: bool = False, ignored: Container[int] = ()) -> list[set[str]]:
        """Return the variables that are live before each instruction, without the loads in `ignored`."""
        live = [set(self._cells) for _ in self.instructions]
        changed = True
        while changed:
            changed = False
            for index in reversed(range(len(live))):
                new = self._live_before(index, live, ignores_counting, ignored)
                if new != live[index]:
                    live[index], changed = new, True
        return live

    def _live_before(
        self, index: int, live: list[set[str]], ignores_counting: bool, ignored: Container[int]
    ) -> set[str]:
        each = self.instructions[index]
        after: set[str] = set().union(*(live[i] for i in self._successors[index]))
        names = _names(each)
        if each.rule == "store_load_local":
            return ((after - {names[0]}) | {names[1]}) | self._cells
        if each.rule in _KILLS:
            return (after - {*names}) | self._cells
        is_ignored = index in ignored or (ignores_counting and self._only_counts(index, live))
        return after | {*names} if each.rule in _LOADS and not is_ignored else after

    def _only_counts(self, index: int, live: list[set[str]]) -> bool:
        """Return True if an instruction loads a counter to add to it, and nothing else reads it later."""
        instructions = self.instructions[index : index + 4]
        if [each.rule for each in instructions] != ["load_local", "constant", "binary", "store_local"]:
            return False
        loaded, (_, constant, operator, store) = _names(instructions[0]), instructions
        adds = operator.symbol in _ADDING or operator.name.endswith(("_ADD", "_SUBTRACT"))
        is_same = loaded == _names(store) and loaded[0] not in self._cells
        is_same = is_same and adds and type(constant.value) is int
        return is_same and not any(loaded[0] in live[i] for i in self._successors[index + 3])


def _successors(index: int, instruction: Instruction, handler: Handler | None) -> list[int]:
    found = [] if handler is None else [handler.target]
    if type(instruction.value) is int and instruction.rule in ("jump", *_JUMPS_IF):
        found.append(instruction.value)
    if IS_BLOCK_STACK and instruction.rule in ("begin_try", "begin_with_block"):
        found.append(int(str(instruction.value)))
    if instruction.rule not in _ENDS and instruction.rule != "jump":
        found.append(index + 1)
    return found


def _parts(value: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield the variables in a value, with their paths."""
    if type(value) is str:
        yield path, value
    elif type(value) is tuple:
        for index, part in enumerate(value):
            yield from _parts(part, (*path, index))


def _variables(values: list[Any]) -> list[str]:
    return [name for _, name in _parts(tuple(values))]


def _names(instruction: Instruction) -> tuple[str, ...]:
    value = instruction.value
    return tuple(map(str, value)) if type(value) is tuple else (str(value),)
