"""The effect of an instruction on the kinds of values on the stack and in variables: one rule an opcode."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from pycudakit.fusing.bytecode.known_calls import is_whole_reduction, items
from pycudakit.fusing.bytecode.opcodes import Instruction, UnanalysedError
from pycudakit.fusing.bytecode.stack_rules import BINARY_BY_OPCODE, StackRules
from pycudakit.fusing.bytecode.value_kinds import (
    MANAGER,
    NULL,
    NUMBER,
    PLAIN,
    SLICE,
    TRACER,
    UNKNOWN,
    VALUE,
    Container,
    Each,
    Items,
    Known,
    LocalFunction,
    MethodOf,
    has_no_effects,
    item_of,
)


class Step(StackRules):
    """Runs one instruction on a state: the rules of attributes, operators, collections and calls."""

    # ---- Attributes ----------------------------------------------------------------------------------

    def _do_load_attribute(self, instruction: Instruction) -> None:
        kind = self._do(self.effects.attribute(self._pop(), str(instruction.value)))
        if sys.version_info >= (3, 12) and instruction.arg & 1:
            self._push(kind, NULL)
        else:
            self._push(kind)

    def _do_load_method(self, instruction: Instruction) -> None:
        self._push(self._do(self.effects.attribute(self._pop(), str(instruction.value))), NULL)

    def _do_load_super_attribute(self, instruction: Instruction) -> None:
        self._pop_many(3)
        self.risk = "it uses super()"
        self._push(*(UNKNOWN, NULL)[: 1 + (instruction.arg & 1)])

    def _do_load_special(self, _: Instruction) -> None:
        owner = self._pop()
        if owner is not MANAGER:
            self.risk = "it enters a context manager"
        self._push(MethodOf(MANAGER, "__exit__") if owner is MANAGER else UNKNOWN, NULL)

    def _do_store_attribute(self, instruction: Instruction) -> None:
        owner, value = self._pop(), self._pop()
        self._do(self.effects.store_attribute(owner, str(instruction.value), value))

    def _do_delete_attribute(self, _: Instruction) -> None:
        self._pop()
        self.risk = "it deletes an attribute"

    def _do_load_build_class(self, _: Instruction) -> None:
        self._push(UNKNOWN)  # its call is one of unknown code: the class body, a function, is not analysed

    # ---- Operators -----------------------------------------------------------------------------------

    def _do_binary(self, instruction: Instruction) -> None:
        right, left = self._pop(), self._pop()
        if BINARY_BY_OPCODE:
            is_in_place = instruction.name.startswith("INPLACE")
            symbol = "**" if instruction.name.endswith("POWER") else ""
        else:
            symbol = instruction.symbol
            is_in_place = symbol.endswith("=")
            if symbol == "[]":
                self._push(self._do(self.effects.subscript(left, right)))
                return
        is_power = symbol.startswith("**")
        self._push(self._do(self.effects.binary(left, right, is_in_place, is_power)))

    def _do_subscript(self, _: Instruction) -> None:
        index, owner = self._pop(), self._pop()
        self._push(self._do(self.effects.subscript(owner, index)))

    def _do_subscript_slice(self, _: Instruction) -> None:
        stop, start, owner = self._pop(), self._pop(), self._pop()
        self._push(self._do(self.effects.subscript(owner, _slice_of([start, stop]))))

    def _do_store_subscript(self, _: Instruction) -> None:
        index, owner, value = self._pop(), self._pop(), self._pop()
        self._do(self.effects.store_subscript(owner, index, value))

    def _do_store_slice(self, _: Instruction) -> None:
        stop, start, owner, value = self._pop(), self._pop(), self._pop(), self._pop()
        self._do(self.effects.store_subscript(owner, _slice_of([start, stop]), value))

    def _do_delete_subscript(self, _: Instruction) -> None:
        index, owner = self._pop(), self._pop()
        self._do(self.effects.store_subscript(owner, index, PLAIN))

    def _do_compare(self, _: Instruction) -> None:
        right, left = self._pop(), self._pop()
        self._push(self._do(self.effects.compare(left, right)))

    def _do_identity(self, _: Instruction) -> None:
        self._pop_many(2)
        self._push(PLAIN)

    def _do_contains(self, _: Instruction) -> None:
        owner, value = self._pop(), self._pop()
        self._do(self.effects.read_all([owner, value], "`in`"))
        self._push(PLAIN)

    def _do_unary(self, _: Instruction) -> None:
        self._push(self._do(self.effects.unary(self._pop())))

    def _do_truth(self, _: Instruction) -> None:
        self._test(self._pop())
        self._push(NUMBER)

    # ---- Collections ---------------------------------------------------------------------------------

    def _do_build_tuple(self, instruction: Instruction) -> None:
        self._push(Items(tuple(self._pop_many(instruction.arg))))

    def _do_build_list(self, instruction: Instruction) -> None:
        parts = self._pop_many(instruction.arg)
        if instruction.name == "BUILD_SET":
            self._check_keys(parts)
        self._push(self.effects.container(instruction, parts))

    def _do_build_map(self, instruction: Instruction) -> None:
        parts = self._pop_many(2 * instruction.arg)
        self._check_keys(parts[::2])
        self._push(self.effects.container(instruction, parts[1::2]))

    def _do_build_const_key_map(self, instruction: Instruction) -> None:
        self._pop()
        self._push(self.effects.container(instruction, self._pop_many(instruction.arg)))

    def _check_keys(self, keys: list[Any]) -> None:
        if not all(has_no_effects(key, self.effects.heap) for key in keys):
            self.risk = "it hashes an object that may run other code"

    def _do_build_slice(self, instruction: Instruction) -> None:
        self._push(_slice_of(self._pop_many(instruction.arg)))

    def _do_build_string(self, instruction: Instruction) -> None:
        self._pop_many(instruction.arg)
        self._push(PLAIN)

    def _do_add_item(self, instruction: Instruction) -> None:
        value = self._pop()
        if instruction.name == "SET_ADD":
            self._check_keys([value])
        self._add_to(self.stack[-instruction.arg], value)

    def _do_add_map_item(self, instruction: Instruction) -> None:
        value, key = self._pop(), self._pop()
        self._check_keys([key])
        self._add_to(self.stack[-instruction.arg], value)

    def _add_to(self, owner: Any, value: Any) -> None:
        if type(owner) is not Container:
            raise UnanalysedError("it adds to a collection of an unknown kind")
        self.effects.add(owner, value)

    def _do_extend(self, instruction: Instruction) -> None:
        values = self._pop()
        part = items(values, self.effects.heap)
        if part is None:
            self.risk = "it iterates over an object that may run other code"
        elif instruction.name == "SET_UPDATE":
            self._check_keys([part])
        self._add_to(self.stack[-instruction.arg], UNKNOWN if part is None else part)

    def _do_list_to_tuple(self, _: Instruction) -> None:
        part = items(self._pop(), self.effects.heap)
        self._push(Each(UNKNOWN if part is None else part))

    def _do_intrinsic_1(self, instruction: Instruction) -> None:
        if instruction.arg == _LIST_TO_TUPLE:
            self._do_list_to_tuple(instruction)
        elif instruction.arg == _UNARY_POSITIVE:
            self._do_unary(instruction)
        elif instruction.arg == _STOP_ITERATION_ERROR:  # of an exception that leaves a generator
            pass
        else:
            raise UnanalysedError(f"it uses the instruction {instruction.name}({instruction.arg})")

    def _do_format(self, instruction: Instruction) -> None:
        kinds = [self._pop()]
        if instruction.name == "FORMAT_WITH_SPEC" or (
            instruction.name == "FORMAT_VALUE" and instruction.arg & 4
        ):
            kinds.append(self._pop())
        self._do(self.effects.read_all(kinds, "a format string"))
        self._push(PLAIN)

    def _do_unpack(self, instruction: Instruction) -> None:
        kind, count = self._pop(), instruction.arg
        if type(kind) is Items and len(kind.kinds) == count:
            self._push(*reversed(kind.kinds))
            return
        part = self._do(self.effects.iterate(kind))
        self._push(*[part] * count)

    def _do_unpack_with_rest(self, instruction: Instruction) -> None:
        part = self._do(self.effects.iterate(self._pop()))
        before, after = instruction.arg & 0xFF, instruction.arg >> 8
        self._push(*[part] * after)
        self._push(self.effects.container(instruction, [part]))
        self._push(*[part] * before)

    def _do_get_iterator(self, _: Instruction) -> None:
        kind = self._pop()
        if items(kind, self.effects.heap) is None:
            self.risk = "it iterates over an object that may run other code"
        self._push(kind if type(kind) is not Items else Each(item_of(kind)))

    def _do_next_item(self, instruction: Instruction) -> None:
        part = self._do(self.effects.iterate(self.stack[-1]))
        self.jump_target = instruction.value  # type: ignore[assignment]
        self.jump_stack = self.stack[:-1] if sys.version_info < (3, 12) else [*self.stack, PLAIN]
        self._push(part)

    def _do_end_loop(self, _: Instruction) -> None:
        self._pop_many(2 if sys.version_info < (3, 13) else 1)

    # ---- `match` -------------------------------------------------------------------------------------

    def _do_match_type(self, _: Instruction) -> None:
        self._push(NUMBER)

    def _do_match_length(self, _: Instruction) -> None:
        self._do(self.effects.read_all([self.stack[-1]], "len()"))
        self._push(NUMBER)

    def _do_match_keys(self, _: Instruction) -> None:
        keys, mapping = self.stack[-1], self.stack[-2]
        self._push(Each(self._do(self.effects.subscript(mapping, keys))))
        if BINARY_BY_OPCODE:
            self._push(NUMBER)

    def _do_match_class(self, instruction: Instruction) -> None:
        names, cls, value = self._pop(), self._pop(), self._pop()
        parts = self.effects.match_class(cls, value, instruction.arg, names.fields)
        self._push(Items(tuple(map(self._do, parts))))
        if BINARY_BY_OPCODE:
            self._push(NUMBER)

    def _do_copy_dict_without_keys(self, instruction: Instruction) -> None:
        self._pop()
        part = self._do(self.effects.iterate(self.stack[-1]))
        self._push(self.effects.container(instruction, [part]))

    # ---- Calls ---------------------------------------------------------------------------------------

    def _do_keyword_names(self, instruction: Instruction) -> None:
        self.keyword_names = instruction.value  # type: ignore[assignment]

    def _do_call(self, instruction: Instruction) -> None:
        values = self._pop_many(instruction.arg)
        names, self.keyword_names = self.keyword_names, ()
        self._call_two(values, names)

    def _call_two(self, values: list[Any], names: tuple[str, ...]) -> None:
        """Call a function in two slots of the stack: it and an object to bind, or NULL, in any order."""
        second, first = self._pop(), self._pop()
        if first is NULL:
            first = second
        elif second is not NULL:
            values = [second, *values]
        self._finish_call(first, values, names)

    def _finish_call(self, function: Any, values: list[Any], names: tuple[str, ...]) -> None:
        count = len(values) - len(names)
        self.reduces_to_number = not names and is_whole_reduction(function, values)
        keywords = dict(zip(names, values[count:], strict=True))
        self._push(self._do(self.effects.call(function, values[:count], keywords)))

    def _do_call_with_names(self, instruction: Instruction) -> None:
        names = self._pop().fields
        self._call_two(self._pop_many(instruction.arg), names)

    def _do_call_function(self, instruction: Instruction) -> None:
        values = self._pop_many(instruction.arg)
        self._finish_call(self._pop(), values, ())

    def _do_call_function_with_names(self, instruction: Instruction) -> None:
        names = self._pop().fields
        values = self._pop_many(instruction.arg)
        self._finish_call(self._pop(), values, names)

    def _do_call_unpacked(self, instruction: Instruction) -> None:
        if sys.version_info >= (3, 14):
            keywords, arguments = self._pop(), self._pop()
            has_keywords = keywords is not NULL
        else:
            has_keywords = bool(instruction.arg & 1)
            keywords = self._pop() if has_keywords else NULL
            arguments = self._pop()
        if BINARY_BY_OPCODE:
            function = self._pop()
        else:
            second, first = self._pop(), self._pop()
            function = second if first is NULL else first
        effect = self.effects.call_unpacked(function, arguments, keywords if has_keywords else None)
        self._push(self._do(effect))

    def _do_make_function(self, instruction: Instruction) -> None:
        if BINARY_BY_OPCODE:
            self._pop()  # the qualified name
        code = self._pop()
        flags = instruction.arg if sys.version_info < (3, 13) else 0
        cells = self._pop() if flags & 8 else Items(())
        self._pop() if flags & 4 else None
        named = self._pop() if flags & 2 else None
        defaults = self._pop() if flags & 1 else Items(())
        if (
            type(code) is not Known
            or named is not None
            or type(cells) is not Items
            or type(defaults) is not Items
        ):
            self._push(UNKNOWN)
            return
        self._push(self.effects.local_function(code.value, defaults.kinds, cells.kinds))

    def _do_set_function_attribute(self, instruction: Instruction) -> None:
        function, value = self._pop(), self._pop()
        if type(function) is LocalFunction and instruction.arg == 1 and type(value) is Items:
            function = replace(function, defaults=value.kinds)
        elif type(function) is LocalFunction and instruction.arg == 8 and type(value) is Items:
            function = replace(function, cells=value.kinds)
        elif instruction.arg in (1, 2, 8):
            function = UNKNOWN
        self._push(function)


_STOP_ITERATION_ERROR, _UNARY_POSITIVE, _LIST_TO_TUPLE = 3, 5, 6


def _slice_of(parts: list[Any]) -> Any:
    if all(part in (NUMBER, PLAIN) for part in parts):
        return SLICE
    return VALUE if all(part in (NUMBER, PLAIN, TRACER, VALUE) for part in parts) else UNKNOWN
