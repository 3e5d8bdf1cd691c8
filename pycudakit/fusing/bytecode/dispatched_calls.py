"""Code in which some calls go through a function that gets the callee: `dispatch(callee, *arguments)`.

The instruction that loads a method, or the null below a function, is replaced by instructions of the same
length, so that jumps, lines, handlers of exceptions and offsets stay as they are. A load of a method has
room in its inline cache, from Python 3.11 on; on Python 3.10 the code stays as it is.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from pycudakit.fusing.bytecode.code_uses import call_sites
from pycudakit.fusing.bytecode.opcodes import Instruction, read_code, with_instructions

_HAS_ROOM = sys.version_info >= (3, 11)
_METHODS_FROM_ATTRIBUTES = sys.version_info >= (3, 12)  # by a bit of the instruction's argument
_NULL_IS_ABOVE = sys.version_info >= (3, 13)  # the callee, on the stack


def with_dispatched_calls(
    code: CodeType, calls: Mapping[CodeType, set[int]] | None, dispatch: Callable[..., Any]
) -> CodeType:
    """Return code in which calls dispatch.

    Parameters
    ----------
    code
        The code.
    calls
        The indices of the calls, by the code of each function; None for all of them.
    dispatch
        A function of the callee and its arguments.
    """
    if not _HAS_ROOM:
        return code
    constants = [
        with_dispatched_calls(each, calls, dispatch) if isinstance(each, CodeType) else each
        for each in code.co_consts
    ]
    wanted = None if calls is None else calls.get(code, set())
    changes: dict[int, list[tuple[str, int]]] = {}
    for call, place in call_sites(code).items():
        if wanted is None or call in wanted:
            changes.update(_change(read_code(code)[0], place, constants, dispatch))
    if not changes and all(new is old for new, old in zip(constants, code.co_consts, strict=True)):
        return code
    return with_instructions(code, changes, co_consts=tuple(constants))


def _change(
    instructions: list[Instruction], place: int, constants: list[Any], dispatch: Callable[..., Any]
) -> dict[int, list[tuple[str, int]]]:
    """Return the instructions that make one call dispatch; nothing if they have no room."""
    load, before = instructions[place], instructions[place - 1]
    last = len(constants) + 1
    if last > _MAX_ARGUMENT:
        return {}
    if load.name == "PUSH_NULL" and not _NULL_IS_ABOVE:
        return {place: [("LOAD_CONST", _index_of(dispatch, constants))]}
    if load.name == "PUSH_NULL":  # of a variable, which is loaded behind the function that dispatches
        if before.rule not in ("load_local", "load_cell_value") or before.arg > _MAX_ARGUMENT:
            return {}
        new = ("LOAD_CONST", _index_of(dispatch, constants))
        return {place - 1: [new], place: [(before.name, before.arg)]}
    under = [("LOAD_CONST", _index_of(dispatch, constants)), ("SWAP", 2)]
    if not _METHODS_FROM_ATTRIBUTES:
        return {place: [("LOAD_ATTR", load.arg & 0xFF), *under]}
    if load.name != "LOAD_ATTR" or load.arg > _MAX_ARGUMENT:
        return {}
    get = operator.attrgetter(str(load.value))  # called with the object as its only argument
    return {place: [("LOAD_CONST", _index_of(get, constants)), ("SWAP", 2), ("CALL", 0), *under]}


def _index_of(value: Any, constants: list[Any]) -> int:
    """Return the index of a constant, which is added if it is none yet."""
    for index, each in enumerate(constants):
        if each is value:
            return index
    constants.append(value)
    return len(constants) - 1


_MAX_ARGUMENT = 255  # of an instruction without a prefix
