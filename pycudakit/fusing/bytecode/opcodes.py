"""The opcodes of Python 3.10 to 3.14, each with the name of its rule in `step`.

An opcode that is not in the table, or whose rule is "unanalysed", makes a function unanalysed.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

_RULES = {
    "nothing": """NOP RESUME CACHE EXTENDED_ARG PRECALL GEN_START NOT_TAKEN COPY_FREE_VARS MAKE_CELL""",
    "constant": "LOAD_CONST LOAD_SMALL_INT LOAD_CONST_IMMORTAL LOAD_CONST_MORTAL",
    "plain_constant": "LOAD_ASSERTION_ERROR LOAD_COMMON_CONSTANT",
    "load_local": "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_BORROW",
    "load_local_and_clear": "LOAD_FAST_AND_CLEAR",
    "load_two_locals": "LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW_LOAD_FAST_BORROW",
    "store_local": "STORE_FAST STORE_FAST_MAYBE_NULL",
    "store_two_locals": "STORE_FAST_STORE_FAST",
    "store_load_local": "STORE_FAST_LOAD_FAST",
    "delete_local": "DELETE_FAST",
    "load_global": "LOAD_GLOBAL",
    "load_cell": "LOAD_CLOSURE",
    "load_cell_value": "LOAD_DEREF",
    "store_cell_value": "STORE_DEREF",
    "delete_cell_value": "DELETE_DEREF",
    "push_null": "PUSH_NULL",
    "load_build_class": "LOAD_BUILD_CLASS",
    "load_attribute": "LOAD_ATTR",
    "load_method": "LOAD_METHOD",
    "load_super_attribute": "LOAD_SUPER_ATTR",
    "load_special": "LOAD_SPECIAL",
    "store_attribute": "STORE_ATTR",
    "delete_attribute": "DELETE_ATTR",
    "import_name": "IMPORT_NAME",
    "import_from": "IMPORT_FROM",
    "binary": """BINARY_OP BINARY_ADD BINARY_AND BINARY_FLOOR_DIVIDE BINARY_LSHIFT BINARY_MATRIX_MULTIPLY
        BINARY_MODULO BINARY_MULTIPLY BINARY_OR BINARY_POWER BINARY_RSHIFT BINARY_SUBTRACT
        BINARY_TRUE_DIVIDE BINARY_XOR INPLACE_ADD INPLACE_AND INPLACE_FLOOR_DIVIDE INPLACE_LSHIFT
        INPLACE_MATRIX_MULTIPLY INPLACE_MODULO INPLACE_MULTIPLY INPLACE_OR INPLACE_POWER INPLACE_RSHIFT
        INPLACE_SUBTRACT INPLACE_TRUE_DIVIDE INPLACE_XOR""",
    "subscript": "BINARY_SUBSCR",
    "subscript_slice": "BINARY_SLICE",
    "store_subscript": "STORE_SUBSCR",
    "store_slice": "STORE_SLICE",
    "delete_subscript": "DELETE_SUBSCR",
    "compare": "COMPARE_OP",
    "identity": "IS_OP",
    "contains": "CONTAINS_OP",
    "unary": "UNARY_INVERT UNARY_NEGATIVE UNARY_POSITIVE",
    "truth": "UNARY_NOT TO_BOOL",
    "build_tuple": "BUILD_TUPLE",
    "build_list": "BUILD_LIST BUILD_SET",
    "build_map": "BUILD_MAP",
    "build_const_key_map": "BUILD_CONST_KEY_MAP",
    "build_slice": "BUILD_SLICE",
    "build_string": "BUILD_STRING",
    "add_item": "LIST_APPEND SET_ADD",
    "add_map_item": "MAP_ADD",
    "extend": "LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE",
    "list_to_tuple": "LIST_TO_TUPLE",
    "intrinsic_1": "CALL_INTRINSIC_1",
    "format": "FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE",
    "unpack": "UNPACK_SEQUENCE",
    "unpack_with_rest": "UNPACK_EX",
    "get_iterator": "GET_ITER GET_YIELD_FROM_ITER",
    "next_item": "FOR_ITER",
    "end_loop": "END_FOR",
    "pop": "POP_TOP POP_ITER",
    "jump": "JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_ABSOLUTE",
    "jump_if": """POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE
        POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_TRUE""",
    "jump_if_none": """POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE
        POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE""",
    "jump_or_pop": "JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP",
    "return": "RETURN_VALUE RETURN_CONST",
    "raise": "RAISE_VARARGS RERAISE",
    "jump_if_no_match": "JUMP_IF_NOT_EXC_MATCH",
    "push_exception": "PUSH_EXC_INFO",
    "pop_exception": "POP_EXCEPT",
    "match_exception": "CHECK_EXC_MATCH",
    "begin_try": "SETUP_FINALLY",
    "begin_with_block": "SETUP_WITH",
    "end_block": "POP_BLOCK",
    "begin_with": "BEFORE_WITH",
    "exit_with": "WITH_EXCEPT_START",
    "copy": "COPY",
    "swap": "SWAP",
    "rotate": "ROT_TWO ROT_THREE ROT_FOUR ROT_N",
    "duplicate": "DUP_TOP",
    "duplicate_two": "DUP_TOP_TWO",
    "keyword_names": "KW_NAMES",
    "call": "CALL CALL_METHOD",
    "call_with_names": "CALL_KW",
    "call_function": "CALL_FUNCTION",
    "call_function_with_names": "CALL_FUNCTION_KW",
    "call_unpacked": "CALL_FUNCTION_EX",
    "make_function": "MAKE_FUNCTION",
    "set_function_attribute": "SET_FUNCTION_ATTRIBUTE",
    "store_global": "STORE_GLOBAL",
    "delete_global": "DELETE_GLOBAL",
    "begin_generator": "RETURN_GENERATOR",
    "yield_value": "YIELD_VALUE",
    "send": "SEND",
    "end_send": "END_SEND",
    "yield_from": "YIELD_FROM",
    "end_throw": "CLEANUP_THROW",
    "match_type": "MATCH_MAPPING MATCH_SEQUENCE",
    "match_length": "GET_LEN",
    "match_keys": "MATCH_KEYS",
    "match_class": "MATCH_CLASS",
    "copy_dict_without_keys": "COPY_DICT_WITHOUT_KEYS",
    # Coroutines, the code of class bodies, groups of exceptions, and opcodes that the compiler replaces.
    "unanalysed": """ANNOTATIONS_PLACEHOLDER ASYNC_GEN_WRAP BEFORE_ASYNC_WITH BUILD_INTERPOLATION
        BUILD_TEMPLATE CALL_INTRINSIC_2 CHECK_EG_MATCH DELETE_NAME END_ASYNC_FOR ENTER_EXECUTOR
        EXIT_INIT_CHECK GET_AITER GET_ANEXT GET_AWAITABLE IMPORT_STAR INTERPRETER_EXIT JUMP
        JUMP_IF_FALSE JUMP_IF_TRUE JUMP_NO_INTERRUPT LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF
        LOAD_FROM_DICT_OR_GLOBALS LOAD_LOCALS LOAD_NAME LOAD_SUPER_METHOD LOAD_ZERO_SUPER_ATTR
        LOAD_ZERO_SUPER_METHOD PREP_RERAISE_STAR PRINT_EXPR RESERVED SETUP_ANNOTATIONS SETUP_ASYNC_WITH
        SETUP_CLEANUP STORE_NAME""",
}
RULE_OF = {name: rule for rule, names in _RULES.items() for name in names.split()}

IS_BLOCK_STACK = sys.version_info < (3, 11)  # handlers of exceptions are on a stack of blocks, not in a table


class Instruction(NamedTuple):
    """An instruction, with the range of byte offsets where a frame's `f_lasti` may be while it runs."""

    rule: str
    name: str
    arg: int
    value: object  # the resolved argument: a name, a constant, or the index of the jump's target
    begin: int
    end: int
    line: int
    symbol: str  # of a binary operator


class Handler(NamedTuple):
    """The handler of exceptions of an instruction."""

    target: int  # an index
    depth: int  # of the stack
    pushes_offset: bool


class UnanalysedError(Exception):
    """A function cannot be analysed; the message says why."""


@functools.lru_cache(1024)
def read_code(code: CodeType) -> tuple[list[Instruction], list[Handler | None]]:
    """Return the instructions of a code object, and the handler of each from the exception table."""
    listed = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "EXTENDED_ARG")]
    offsets = [each.offset for each in listed]
    index_at = {offset: index for index, offset in enumerate(offsets)}
    jumps = {*dis.hasjrel, *dis.hasjabs}
    ends = [*offsets[1:], len(code.co_code)]
    instructions: list[Instruction] = []
    line = code.co_firstlineno
    for each, after in zip(listed, ends, strict=True):
        rule = RULE_OF.get(each.opname, "unanalysed")
        value = each.argval
        if each.opcode in jumps:
            value = _index_of(index_at, offsets, each.argval)
        elif each.opname == "KW_NAMES":
            value = code.co_consts[each.arg or 0]
        begin, end = each.offset, after
        if each.opname == "PRECALL":  # specialized, it makes the call itself, with this offset
            end = begin
        elif instructions and instructions[-1].name == "PRECALL":
            begin = instructions[-1].begin
        line = _line_of(each, line)
        instructions.append(
            Instruction(rule, each.opname, each.arg or 0, value, begin, end, line, each.argrepr)
        )
    handlers: list[Handler | None] = [None] * len(instructions)
    for entry in () if IS_BLOCK_STACK else dis.Bytecode(code).exception_entries:  # type: ignore[attr-defined]
        for index, offset in enumerate(offsets):
            if entry.start <= offset < entry.end:
                handlers[index] = Handler(
                    _index_of(index_at, offsets, entry.target), entry.depth, entry.lasti
                )
    return instructions, handlers


def code_size(code: CodeType) -> int:
    """Return the number of bytes of the code."""
    return len(code.co_code)


def with_instructions(code: CodeType, changes: dict[int, list[tuple[str, int]]], **fields: Any) -> CodeType:
    """Return code with instructions, by name and argument, in place of those at some indices.

    They are as long as the replaced ones, with their inline caches: the rest of those is filled with NOP.
    """
    units = bytearray(code.co_code)
    for index, new in changes.items():
        old = read_code(code)[0][index]
        written = b"".join(bytes((dis.opmap[name], arg)) + bytes(2 * _cache(name)) for name, arg in new)
        size = 2 + 2 * _cache(old.name)
        units[old.begin : old.begin + size] = written + bytes((dis.opmap["NOP"], 0)) * (
            (size - len(written)) // 2
        )
    assert len(units) == len(code.co_code)  # noqa: S101
    return code.replace(co_code=bytes(units), **fields)


def stack_effect(instruction: Instruction) -> int:
    """Return how many values an instruction pushes, less those that it pops."""
    opcode = dis.opmap[instruction.name]
    return dis.stack_effect(opcode, instruction.arg if opcode >= dis.HAVE_ARGUMENT else None)


def loads_attribute(frame: FrameType) -> bool:
    """Return True if a frame runs an instruction that loads an attribute, not one that calls C code."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in ("LOAD_ATTR", "LOAD_METHOD")


def _cache(name: str) -> int:
    """Return the number of units of an instruction's inline cache."""
    entries: Any = dis._inline_cache_entries  # type: ignore[attr-defined]  # noqa: SLF001
    return int(entries.get(name, 0) if isinstance(entries, dict) else entries[dis.opmap[name]])


def inner_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code objects of the functions that code defines."""
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield value


def _index_of(index_at: dict[int, int], offsets: list[int], target: int) -> int:
    """Return the index of the instruction at an offset, or of the next one behind prefixes."""
    if target in index_at:
        return index_at[target]
    return next(index for index, offset in enumerate(offsets) if offset > target)


def _line_of(instruction: dis.Instruction, before: int) -> int:
    line = getattr(instruction, "line_number", None) or instruction.starts_line
    return line if type(line) is int else before
