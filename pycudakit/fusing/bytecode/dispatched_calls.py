"""Code in which some calls go through a function that gets the callee: `dispatch(callee, *arguments)`.

The instruction that loads a method, or the null below a function, is replaced by instructions of the same
length, so that jumps, lines, handlers of exceptions and offsets stay as they are. A load of a method or of a
global has room in its inline cache, from Python 3.11 on; on Python 3.10 the code stays as it is.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Mapping
from types import CellType, CodeType, FrameType
from typing import Any

from pycudakit.fusing.bytecode.code_uses import call_sites, unpacked_call_sites
from pycudakit.fusing.bytecode.opcodes import Instruction, read_code, with_instructions

_HAS_ROOM = sys.version_info >= (3, 11)
_METHODS_FROM_ATTRIBUTES = sys.version_info >= (3, 12)  # by a bit of the instruction's argument
_NULL_IS_ABOVE = sys.version_info >= (3, 13)  # the callee, on the stack


def with_dispatched_calls(
    code: CodeType,
    calls: Mapping[CodeType, set[int]] | None,
    dispatch: Callable[..., Any],
    is_outermost: bool = True,
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
    is_outermost
        Whether `dispatched_cells` makes its closure.
    """
    if not _HAS_ROOM:
        return code
    constants = [
        with_dispatched_calls(each, calls, dispatch, False) if isinstance(each, CodeType) else each
        for each in code.co_consts
    ]
    wanted = None if calls is None else calls.get(code, set())
    changes: dict[int, list[tuple[str, int]]] = {}
    for call, place in call_sites(code).items():
        if wanted is None or call in wanted:
            changes.update(_change(read_code(code)[0], place, constants, dispatch))
    names: dict[str, int] = {}  # of variables for dispatched callees, with their indices
    for call, place in unpacked_call_sites(code).items():
        if wanted is None or call in wanted:
            names_or_none = names if is_outermost else None
            changes.update(_change_unpacked(code, place, constants, dispatch, names_or_none))
    if not changes and all(new is old for new, old in zip(constants, code.co_consts, strict=True)):
        return code
    if names:
        changes[0] = [("COPY_FREE_VARS", len(code.co_freevars) + len(names))]
    free_variables = code.co_freevars + tuple(map(_CALLED.format, names))
    fields = {"co_consts": tuple(constants), "co_freevars": free_variables}
    return with_instructions(code, changes, **fields, co_stacksize=code.co_stacksize + 1)


def dispatched_cells(
    code: CodeType, names: tuple[str, ...], cells: tuple[CellType, ...], dispatch: Callable[..., Any]
) -> tuple[CellType, ...]:
    """Return the free variables of a function for code with dispatched calls: those of its callees, too."""
    callees = code.co_freevars[len(names) :]
    cell_of = {_CALLED.format(name): cell for name, cell in zip(names, cells, strict=True)}
    return (*cells, *(CellType(functools.partial(dispatch, cell_of[name].cell_contents)) for name in callees))


def _change(
    instructions: list[Instruction], place: int, constants: list[Any], dispatch: Callable[..., Any]
) -> dict[int, list[tuple[str, int]]]:
    """Return the instructions that make one call dispatch; nothing if they have no room."""
    load, before = instructions[place], instructions[place - 1]
    last = len(constants) + 1
    if last > _MAX_ARGUMENT:
        return {}
    if load.name == "LOAD_GLOBAL":  # with a null for the call
        get = _GlobalNamed(str(load.value))
        under = _index_of(dispatch, constants)
        return {
            place: [("LOAD_CONST", under), ("LOAD_CONST", _index_of(get, constants)), ("UNARY_INVERT", 0)]
        }
    if load.name == "PUSH_NULL" and not _NULL_IS_ABOVE:
        return {place: [("LOAD_CONST", _index_of(dispatch, constants))]}
    if load.name == "PUSH_NULL" and _is_item_of_global(instructions[place - 3 : place]):
        get = _GlobalNamed(str(instructions[place - 3].value))
        under = _index_of(dispatch, constants)
        loads = [("LOAD_CONST", under), ("LOAD_CONST", _index_of(get, constants)), ("UNARY_INVERT", 0)]
        return {place - 3: loads, place: [("NOP", 0)]}  # `dispatch` is on the stack in place of the null
    if load.name == "PUSH_NULL":  # of a variable, which is loaded behind the function that dispatches
        if before.rule not in ("load_local", "load_cell_value") or before.arg > _MAX_ARGUMENT:
            return {}
        new = ("LOAD_CONST", _index_of(dispatch, constants))
        return {place - 1: [new], place: [(before.name, before.arg)]}
    swapped = [("LOAD_CONST", _index_of(dispatch, constants)), ("SWAP", 2)]
    if not _METHODS_FROM_ATTRIBUTES:
        return {place: [("LOAD_ATTR", load.arg & 0xFF), *swapped]}
    if load.name != "LOAD_ATTR" or load.arg > _MAX_ARGUMENT:
        return {}
    getter = operator.attrgetter(str(load.value))  # called with the object as its only argument
    return {place: [("LOAD_CONST", _index_of(getter, constants)), ("SWAP", 2), ("CALL", 0), *swapped]}


def _is_item_of_global(instructions: list[Instruction]) -> bool:
    """Return True for the loads of a global and a key, and a subscript."""
    if len(instructions) != 3:
        return False
    table, key, item = instructions
    is_item = item.rule == "subscript" or item.symbol == "[]"
    return table.rule == "load_global" and key.rule in ("constant", "load_local") and is_item


def _change_unpacked(
    code: CodeType,
    place: int,
    constants: list[Any],
    dispatch: Callable[..., Any],
    names: dict[str, int] | None,
) -> dict[int, list[tuple[str, int]]]:
    """Return the instructions that make a call with `*arguments` dispatch; nothing if they have no room."""
    instructions = read_code(code)[0]
    load, name = instructions[place], str(instructions[place].value)
    if len(constants) >= _MAX_ARGUMENT:
        return {}
    if load.rule == "load_global" and load.arg & 1:
        get = _GlobalNamed(name, dispatch)
        new = [("LOAD_CONST", _index_of(get, constants)), ("UNARY_INVERT", 0)]
        return {place: [*new, ("PUSH_NULL", 0)] if _NULL_IS_ABOVE else [("PUSH_NULL", 0), *new]}
    is_first = instructions[0].name == "COPY_FREE_VARS"
    if names is None or load.name != "LOAD_DEREF" or name not in code.co_freevars or not is_first:
        return {}
    first = load.arg - code.co_freevars.index(name) + len(code.co_freevars)  # behind the free variables
    index = names.setdefault(name, first + len(names))
    return {place: [("LOAD_DEREF", index)]} if index <= _MAX_ARGUMENT else {}


class _GlobalNamed:
    """Loads a global by an operator, whose instruction is short enough."""

    def __init__(self, name: str, dispatch: Callable[..., Any] | None = None) -> None:
        self._name = name
        self._dispatch = dispatch

    def __invert__(self) -> Any:
        """Return the global of the code that applies the operator, or a function that dispatches it."""
        value = self._value_in(sys._getframe(1))  # noqa: SLF001
        looks_at_caller = getattr(value, "__module__", None) in ("builtins", "_warnings")
        if self._dispatch is None or looks_at_caller:
            return value
        return functools.partial(self._dispatch, value)

    def _value_in(self, frame: FrameType) -> Any:
        for names in (frame.f_globals, frame.f_builtins):
            try:
                return names[self._name]
            except KeyError:
                pass
        raise NameError(f"name {self._name!r} is not defined", name=self._name)


def _index_of(value: Any, constants: list[Any]) -> int:
    """Return the index of a constant, which is added if it is none yet."""
    for index, each in enumerate(constants):
        if each is value:
            return index
    constants.append(value)
    return len(constants) - 1


_CALLED = "{}()"
_MAX_ARGUMENT = 255  # of an instruction without a prefix
