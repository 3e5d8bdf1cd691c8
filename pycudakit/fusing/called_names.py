"""The names that code only calls: the code cannot tell another callable from them."""

from __future__ import annotations

import dis
import sys
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

_NEEDS_STACK = sys.version_info < (3, 11)  # later versions mark the loads of what is called
_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_NOT_IN_CODE = frozenset({"CACHE", "EXTENDED_ARG", "PRECALL", "NOP"})


class CalledNames(NamedTuple):
    """Names that a function, and the functions in it, load only to call what they name."""

    global_names: frozenset[str]
    free_variables: frozenset[str]
    attributes: frozenset[str]


@lru_cache(1024)
def called_names(code: CodeType) -> CalledNames:
    """Return the names that code only calls."""
    called: list[set[str]] = [set(), set(), set()]
    loaded: list[set[str]] = [set(), set(), set()]
    pending = [code]
    while pending:
        each = pending.pop()
        pending += [inner for inner in each.co_consts if isinstance(inner, CodeType)]
        _collect(each, called, loaded)
    return CalledNames(*(frozenset(a - b) for a, b in zip(called, loaded, strict=True)))


def _collect(code: CodeType, called: list[set[str]], loaded: list[set[str]]) -> None:
    """Add the names that code calls, and those that it loads for anything else."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in _NOT_IN_CODE]
    for index, step in enumerate(steps):
        kind = _kind_of(step)
        if kind is not None:
            (called if _is_called(steps, index) else loaded)[kind].add(step.argval)


def _kind_of(step: dis.Instruction) -> int | None:
    """Return 0 for a global, 1 for a free variable, 2 for an attribute."""
    if step.opname in _ATTRIBUTES:
        return 2
    return None if step.opname not in _LOADS else 0 if step.opname == "LOAD_GLOBAL" else 1


def _is_called(steps: Sequence[dis.Instruction], index: int) -> bool:
    """Return True if what an instruction loads is called."""
    step = steps[index]
    if step.opname == "LOAD_METHOD":
        return True
    if _NEEDS_STACK:
        return _is_called_by_stack(steps, index)
    after = steps[index + 1].opname if index + 1 < len(steps) else ""
    if after in _ATTRIBUTES:
        return False
    if after == "PUSH_NULL" and sys.version_info >= (3, 13):
        return True
    if step.opname == "LOAD_ATTR" and sys.version_info >= (3, 12) and (step.arg or 0) & 1:
        return True
    first = index
    while steps[first].opname == "LOAD_ATTR" and first:
        first -= 1
    if steps[first].opname == "LOAD_GLOBAL" and (steps[first].arg or 0) & 1:
        return True
    is_chain = steps[first].opname.startswith("LOAD_")
    return is_chain and first > 0 and steps[first - 1].opname == "PUSH_NULL" and sys.version_info < (3, 13)


def _is_called_by_stack(steps: Sequence[dis.Instruction], index: int) -> bool:
    """Return True if the value that an instruction pushes is called, as far as no jump is in between."""
    depth = 1  # of the stack from that value on
    for step in steps[index + 1 :]:
        count = _callee_depth(step)
        if count is not None and count >= depth:
            return count == depth
        if step.opcode in (*dis.hasjrel, *dis.hasjabs) or (depth == 1 and step.opname not in _ONLY_PUSH):
            return False
        depth += dis.stack_effect(step.opcode, step.arg if step.opcode >= dis.HAVE_ARGUMENT else None)
        if depth < 1:
            return False
    return False


_ONLY_PUSH = frozenset({"LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLOSURE", "BUILD_MAP"})


def _callee_depth(step: dis.Instruction) -> int | None:
    """Return how deep in the stack a call of Python 3.10 has what it calls, from 1 on; None for others."""
    argument = step.arg or 0
    return {
        "CALL_FUNCTION": argument + 1,
        "CALL_FUNCTION_KW": argument + 2,
        "CALL_FUNCTION_EX": 2 + (argument & 1),
    }.get(step.opname)
