"""Rules of opcodes that only move values: the stack, variables, jumps, exceptions, context managers."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from pycudakit.fusing.bytecode.effects import Effects
from pycudakit.fusing.bytecode.known_calls import Effect
from pycudakit.fusing.bytecode.opcodes import Instruction, UnanalysedError
from pycudakit.fusing.bytecode.value_kinds import (
    MANAGER,
    NULL,
    NUMBER,
    PLAIN,
    TRACER,
    UNKNOWN,
    VALUE,
    Container,
    Each,
    Items,
    Known,
    LocalFunction,
    MethodOf,
    kind_of,
)

_PUSHES_NULL_FIRST = sys.version_info < (3, 13)
BINARY_BY_OPCODE = sys.version_info < (3, 11)  # one for each operator, and one for each kind of call


class State(NamedTuple):
    """The kinds before an instruction."""

    stack: tuple[Any, ...]
    names: dict[str, Any]  # local variables
    blocks: tuple[tuple[int, int], ...]  # of Python 3.10: the handler and the stack's depth of each `try`
    keyword_names: tuple[str, ...]


class StackRules:
    """Runs one instruction on a state; `Step` has the rules of the other opcodes.

    Parameters
    ----------
    effects
        The effects of operations in the frame that is analysed.
    """

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.stack: list[Any] = []
        self.names: dict[str, Any] = {}
        self.blocks: tuple[tuple[int, int], ...] = ()
        self.keyword_names: tuple[str, ...] = ()
        self.risk, self.is_recorded, self.dispatches = "", False, False
        self.floor = 0  # the stack's depth once the operands were popped
        self.frame: int | None = None  # the number of the analysed frame that it calls
        self.reduces_to_number = False  # whether it reduces an array to a number
        self.jump_target: int | None = None
        self.jump_stack: list[Any] | None = None  # the stack at the target, if it is another one
        self.falls_through = True
        self.returned: Any = None
        self.yielded: Any = None

    def run(self, instruction: Instruction, state: State) -> None:
        """Run an instruction."""
        self.stack, self.names = list(state.stack), state.names
        self.blocks, self.keyword_names = state.blocks, state.keyword_names
        self.risk, self.is_recorded, self.dispatches = "", False, False
        self.floor, self.frame, self.reduces_to_number = len(self.stack), None, False
        self.jump_target, self.jump_stack, self.falls_through = None, None, True
        self.returned = self.yielded = None
        try:
            getattr(self, f"_do_{instruction.rule}")(instruction)
        except IndexError:
            raise UnanalysedError(f"{instruction.name} finds too few values on the stack") from None

    def state(self) -> State:
        """Return the state after the instruction."""
        return State(tuple(self.stack), self.names, self.blocks, self.keyword_names)

    def take_concrete_numbers(self) -> None:
        """Let the tracers that the instruction has pushed be NumPy's scalars, if they are numbers."""
        kind = NUMBER if self.reduces_to_number else VALUE
        self.stack[self.floor :] = [kind if each is TRACER else each for each in self.stack[self.floor :]]

    # ---- The stack -----------------------------------------------------------------------------------

    def _push(self, *kinds: Any) -> None:
        self.stack.extend(kinds)

    def _pop(self) -> Any:
        kind = self.stack.pop()
        self.floor = min(self.floor, len(self.stack))
        return kind

    def _pop_many(self, count: int) -> list[Any]:
        if not count:
            return []
        kinds = self.stack[-count:]
        if len(kinds) < count:
            raise IndexError
        del self.stack[-count:]
        self.floor = min(self.floor, len(self.stack))
        return kinds

    def _do(self, effect: Effect) -> Any:
        self.risk = self.risk or effect.risk
        self.is_recorded = self.is_recorded or effect.is_recorded
        self.dispatches = self.dispatches or effect.dispatches
        self.frame = effect.frame
        return effect.kind

    def _set(self, name: str, kind: Any) -> None:
        self.names = {**self.names, name: kind}

    def _do_unanalysed(self, instruction: Instruction) -> None:
        raise UnanalysedError(f"it uses the instruction {instruction.name}")

    def _do_nothing(self, _: Instruction) -> None:
        pass

    def _do_pop(self, _: Instruction) -> None:
        self._pop()

    def _do_copy(self, instruction: Instruction) -> None:
        self._push(self.stack[-instruction.arg])

    def _do_swap(self, instruction: Instruction) -> None:
        stack, n = self.stack, instruction.arg
        stack[-1], stack[-n] = stack[-n], stack[-1]

    def _do_rotate(self, instruction: Instruction) -> None:
        n = {"ROT_TWO": 2, "ROT_THREE": 3, "ROT_FOUR": 4}.get(instruction.name, instruction.arg)
        value = self._pop()
        self.stack.insert(len(self.stack) - n + 1, value)

    def _do_duplicate(self, _: Instruction) -> None:
        self._push(self.stack[-1])

    def _do_duplicate_two(self, _: Instruction) -> None:
        self._push(self.stack[-2], self.stack[-1])

    # ---- Constants and variables ---------------------------------------------------------------------

    def _do_constant(self, instruction: Instruction) -> None:
        value = instruction.value
        is_names = type(value) is tuple and bool(value) and all(type(each) is str for each in value)
        self._push(Items((PLAIN,) * len(value), value) if is_names else kind_of(value))  # type: ignore[arg-type]

    def _do_plain_constant(self, instruction: Instruction) -> None:
        value = AssertionError if instruction.name == "LOAD_ASSERTION_ERROR" else instruction.value
        is_exception = isinstance(value, type) and issubclass(value, BaseException)
        self._push(Known(value) if is_exception else PLAIN)

    def _do_push_null(self, _: Instruction) -> None:
        self._push(NULL)

    def _do_load_local(self, instruction: Instruction) -> None:
        self._push(self._local(str(instruction.value)))

    def _do_load_local_and_clear(self, instruction: Instruction) -> None:
        self._push(self.names.get(str(instruction.value), PLAIN))

    def _do_load_two_locals(self, instruction: Instruction) -> None:
        for name in self._names_in(instruction):
            self._push(self._local(name))

    def _local(self, name: str) -> Any:
        """Return the kind of a local variable, or the cell, which code reads to make a closure.

        To read a variable that is not bound on any path so far raises.
        """
        if name in self.effects.cells:
            return self.effects.cell(name)
        if name not in self.names:
            self.falls_through = False
        return self.names.get(name, UNKNOWN)

    @staticmethod
    def _names_in(instruction: Instruction) -> tuple[str, ...]:
        assert isinstance(instruction.value, tuple)  # noqa: S101
        return instruction.value

    def _do_store_local(self, instruction: Instruction) -> None:
        self._set(str(instruction.value), self._pop())

    def _do_store_two_locals(self, instruction: Instruction) -> None:
        for name in self._names_in(instruction):
            self._set(name, self._pop())

    def _do_store_load_local(self, instruction: Instruction) -> None:
        stored, loaded = self._names_in(instruction)
        self._set(stored, self._pop())
        self._push(self._local(loaded))

    def _do_delete_local(self, instruction: Instruction) -> None:
        self.names = {name: kind for name, kind in self.names.items() if name != instruction.value}

    def _do_load_global(self, instruction: Instruction) -> None:
        kind = self.effects.global_kind(str(instruction.value))
        has_null = instruction.arg & 1 and not BINARY_BY_OPCODE
        if has_null and _PUSHES_NULL_FIRST:
            self._push(NULL, kind)
        elif has_null:
            self._push(kind, NULL)
        else:
            self._push(kind)

    def _do_store_global(self, instruction: Instruction) -> None:
        self.effects.store_global(str(instruction.value), self._pop())

    def _do_delete_global(self, _: Instruction) -> None:
        pass

    def _do_load_cell(self, instruction: Instruction) -> None:
        self._push(self.effects.cell(str(instruction.value)))

    def _do_load_cell_value(self, instruction: Instruction) -> None:
        self._push(self.effects.cell_value(str(instruction.value)))

    def _do_store_cell_value(self, instruction: Instruction) -> None:
        self.risk = self.effects.store_cell_value(str(instruction.value), self._pop())

    def _do_delete_cell_value(self, _: Instruction) -> None:
        pass

    def _do_import_name(self, instruction: Instruction) -> None:
        names, _ = self._pop(), self._pop()
        module = sys.modules.get(str(instruction.value)) if names is PLAIN else None
        self._push(UNKNOWN if module is None else Known(module))
        self.risk = "it imports a module"

    def _do_import_from(self, _: Instruction) -> None:
        self._push(UNKNOWN)

    # ---- Jumps ---------------------------------------------------------------------------------------

    def _do_jump(self, instruction: Instruction) -> None:
        self.jump_target, self.falls_through = instruction.value, False  # type: ignore[assignment]

    def _do_jump_if(self, instruction: Instruction) -> None:
        self._test(self._pop())
        self.jump_target = instruction.value  # type: ignore[assignment]

    def _do_jump_if_none(self, instruction: Instruction) -> None:
        self._pop()
        self.jump_target = instruction.value  # type: ignore[assignment]

    def _do_jump_or_pop(self, instruction: Instruction) -> None:
        self._test(self.stack[-1])
        self.jump_target, self.jump_stack = instruction.value, list(self.stack)  # type: ignore[assignment]
        self._pop()

    def _do_jump_if_no_match(self, instruction: Instruction) -> None:
        self._pop_many(2)
        self.jump_target = instruction.value  # type: ignore[assignment]

    def _do_return(self, instruction: Instruction) -> None:
        is_constant = instruction.name == "RETURN_CONST"
        self.returned = kind_of(instruction.value) if is_constant else self._pop()
        self.falls_through = False

    def _do_raise(self, _: Instruction) -> None:
        self.falls_through = False

    # ---- Generators ----------------------------------------------------------------------------------

    def _do_begin_generator(self, _: Instruction) -> None:
        self._push(PLAIN)

    def _do_yield_value(self, _: Instruction) -> None:
        self.yielded = self._pop()
        self._push(UNKNOWN)  # a value that is sent

    def _do_send(self, instruction: Instruction) -> None:
        self._pop()
        part = self._do(self.effects.iterate(self.stack[-1]))
        self.jump_target = instruction.value  # type: ignore[assignment]
        rest = self.stack[:-1] if sys.version_info < (3, 12) else self.stack
        self.jump_stack = [*rest, UNKNOWN]
        self._push(part)

    def _do_end_send(self, _: Instruction) -> None:
        result = self._pop()
        self._pop()
        self._push(result)

    def _do_yield_from(self, _: Instruction) -> None:
        self._pop_many(1)
        self.yielded = self._do(self.effects.iterate(self._pop()))
        self._push(UNKNOWN)

    def _do_end_throw(self, _: Instruction) -> None:
        self._pop_many(3)
        self._push(PLAIN, UNKNOWN)

    # ---- Exceptions and context managers -------------------------------------------------------------

    def _do_push_exception(self, _: Instruction) -> None:
        raised = self._pop()
        self._push(PLAIN, raised)

    def _do_pop_exception(self, _: Instruction) -> None:
        self._pop_many(3 if BINARY_BY_OPCODE else 1)
        if BINARY_BY_OPCODE and self.blocks:
            self.blocks = self.blocks[:-1]

    def _do_match_exception(self, _: Instruction) -> None:
        self._pop()
        self._push(PLAIN)

    def _do_begin_try(self, instruction: Instruction) -> None:
        self.blocks = (*self.blocks, (instruction.value, len(self.stack)))  # type: ignore[arg-type]

    def _do_begin_with_block(self, instruction: Instruction) -> None:
        self._enter(self._pop())
        self.blocks = (*self.blocks, (instruction.value, len(self.stack) - 1))  # type: ignore[arg-type]

    def _do_begin_with(self, _: Instruction) -> None:
        self._enter(self._pop())

    def _enter(self, manager: Any) -> None:
        if manager is not MANAGER:
            self.risk = "it enters a context manager"
        self._push(MethodOf(MANAGER, "__exit__") if manager is MANAGER else UNKNOWN, UNKNOWN)

    def _do_exit_with(self, _: Instruction) -> None:
        if MethodOf(MANAGER, "__exit__") not in self.stack:
            self.risk = "it leaves a context manager"
        self._push(PLAIN)

    def _do_end_block(self, _: Instruction) -> None:
        self.blocks = self.blocks[:-1]

    def _test(self, kind: Any) -> None:
        if type(kind) not in (LocalFunction, MethodOf, Items, Each, Container):
            self._do(self.effects.read_all([kind], "the truth value"))
