"""The abstract interpretation of one code object: its instructions run on kinds of values, on every path."""

from __future__ import annotations

from types import CodeType
from typing import Any

from pycudakit.fusing.bytecode.opcodes import IS_BLOCK_STACK, Handler, UnanalysedError, read_code
from pycudakit.fusing.bytecode.stack_rules import State
from pycudakit.fusing.bytecode.step import Step
from pycudakit.fusing.bytecode.value_kinds import PLAIN, UNKNOWN, join

_HANDLER_BLOCK = (-1, 0)


class Interpreter:
    """Runs the instructions of a code object until the kinds before each of them are stable.

    Parameters
    ----------
    code
        The code object.
    step
        The rules of its opcodes.
    names
        The kinds of its parameters.
    """

    def __init__(self, code: CodeType, step: Step, names: dict[str, Any]) -> None:
        self._code = code
        self._step = step
        self._instructions, self._handlers = read_code(code)
        count = len(self._instructions)
        self._states: list[State | None] = [None] * count
        self._states[0] = State((), names, (), ())
        self._pending = [0]
        self.index = 0  # of the instruction that runs
        self._successors: list[set[int]] = [set() for _ in range(count)]
        self._raises_to: list[set[int]] = [set() for _ in range(count)]
        # The handler of each instruction's exceptions: where it begins, and how many values the stack keeps
        # and gets.
        self._caught: list[tuple[int, int, int] | None] = [None] * count

    def _interpret(self) -> None:
        step = self._step
        while self._pending:
            index = self._pending.pop()
            state = self._states[index]
            assert state is not None  # noqa: S101
            self.index = index
            step.run(self._instructions[index], state)
            self._visit(index)
            self._raise_from(index, state)
            after = step.state()
            if step.falls_through:
                self._go(index, index + 1, after)
            if step.jump_target is not None:
                stack = after.stack if step.jump_stack is None else tuple(step.jump_stack)
                self._go(index, step.jump_target, after._replace(stack=stack))

    def _visit(self, index: int) -> None:
        """Note the effects of the instruction that has just run."""

    def _go(self, index: int, target: int, state: State) -> None:
        self._successors[index].add(target)
        self._join(target, state)

    def _join(self, target: int, state: State) -> None:
        before = self._states[target]
        if before is None:
            self._states[target] = state
            self._pending.append(target)
            return
        if len(before.stack) != len(state.stack) or before.blocks != state.blocks:
            raise UnanalysedError("its jumps leave stacks of different depths")
        stack, names, others = before.stack, before.names, state.names
        if stack != state.stack:
            stack = tuple([join(a, b) for a, b in zip(stack, state.stack, strict=True)])
        if names is not others and names != others:
            names = _join_variables(names, others)
        if stack != before.stack or names != before.names:
            self._states[target] = before._replace(stack=stack, names=names)
            self._pending.append(target)

    def _raise_from(self, index: int, state: State) -> None:
        """Continue in the handler of an exception that the instruction may raise."""
        handler = self._handlers[index]
        blocks, after = state.blocks, self._step.names
        if IS_BLOCK_STACK:
            while blocks and blocks[-1] == _HANDLER_BLOCK:
                blocks = blocks[:-1]
            handler = Handler(*blocks[-1], pushes_offset=False) if blocks else None
        if handler is None:
            return
        pushed: tuple[Any, ...] = (PLAIN, UNKNOWN) if handler.pushes_offset else (UNKNOWN,)
        if IS_BLOCK_STACK:
            pushed, blocks = (UNKNOWN,) * 6, (*blocks[:-1], _HANDLER_BLOCK)
        self._raises_to[index].add(handler.target)
        self._caught[index] = handler.target, handler.depth, len(pushed)
        names = state.names
        if names is not after:
            names = _join_variables(names, after)
        self._join(handler.target, State((*state.stack[: handler.depth], *pushed), names, blocks, ()))


def _join_variables(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Join the kinds of variables. One that is not bound on a path has no kind there: to read it raises."""
    return {**other, **{name: join(kind, other.get(name)) for name, kind in one.items()}}
