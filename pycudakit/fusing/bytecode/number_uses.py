"""The uses of numbers in analysed code, from which `NumberFlow` finds those that must be NumPy's scalars.

A number that an operation of a tracer makes, such as `x.max()`, may stay deferred only while its uses take
tracers: arithmetic, NumPy's functions, an index, `return`. Anything else, such as a function that was not
analysed, would see a tracer in place of a scalar. So a second pass follows the numbers from the instructions
that make them, through the stack, variables, cells, containers, arguments and results, to their uses.

Python's floats that are made of such numbers, as by `float(x.max())` or `x.max().item()`, may stay deferred
while they are only compared, tested, kept in containers, returned, and computed with by `+ - * /` and
`abs`. Their nodes are of their own: an escaping float leaves the numbers deferred.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import CO_GENERATOR
from types import CodeType
from typing import Any, NamedTuple

from pycudakit.fusing.bytecode.known_calls import PLAIN_ATTRIBUTES
from pycudakit.fusing.bytecode.number_flow import NONE, Node, NumberFlow, Origins, arguments_of, result_of
from pycudakit.fusing.bytecode.number_takers import Handling, described, handling_of, makes_float
from pycudakit.fusing.bytecode.opcodes import Instruction
from pycudakit.fusing.bytecode.sources import CellSource
from pycudakit.fusing.bytecode.stack_rules import StackRules, State
from pycudakit.fusing.bytecode.value_kinds import (
    ARRAY,
    NULL,
    NUMBER,
    PLAIN,
    SLICE,
    SUPPORTED_ARRAY,
    TRACER,
    UNKNOWN,
    VALUE,
    Cell,
    Container,
    Each,
    Items,
    Known,
    MethodOf,
)

_OF_TRACE = frozenset({TRACER, NUMBER, VALUE})
_ARRAYS = _OF_TRACE | {ARRAY, SUPPORTED_ARRAY}
_OPERANDS = _ARRAYS | {PLAIN, SLICE}
Operands = list[tuple[Any, Origins]]  # of an instruction: their kinds, and their origins

# Rules that only move values.
_MOVES = frozenset(
    """nothing constant plain_constant push_null load_global pop copy swap rotate duplicate duplicate_two
    load_local load_local_and_clear load_two_locals store_local store_two_locals store_load_local delete_local
    jump end_block begin_try delete_cell_value""".split()  # noqa: SIM905
)
# Rules whose operands are only looked at, by methods of tracers that answer as scalars do.
_LOOKS = frozenset(
    """keyword_names truth jump_if jump_if_none jump_or_pop format build_string pop_exception match_exception
    jump_if_no_match push_exception end_loop import_name import_from""".split()  # noqa: SIM905
)
_PASS_ON = frozenset(
    """build_tuple build_slice list_to_tuple intrinsic_1 get_iterator make_function set_function_attribute
    load_cell""".split()  # noqa: SIM905
)
_ADDING = frozenset({"append", "insert", "extend"})


class Done(NamedTuple):
    """An instruction as it was interpreted, with the kinds before and after it."""

    instruction: Instruction
    before: State
    after: State
    floor: int  # the stack's depth after its operands were popped
    risk: str
    frame: int | None  # the number of the analysed frame that it calls
    jump_target: int | None
    jump_depth: int | None  # of the stack at the target, if it is another one
    falls_through: bool

    @classmethod
    def of(cls, step: StackRules, instruction: Instruction, before: State) -> Done:
        """Return an instruction that a step has just run."""
        depth = None if step.jump_stack is None else len(step.jump_stack)
        ways = step.jump_target, depth, step.falls_through
        return cls(instruction, before, step.state(), step.floor, step.risk, step.frame, *ways)


class FrameFlow(StackRules):
    """Follows the numbers through one frame whose kinds are known.

    Parameters
    ----------
    flow
        The graph.
    frame
        The frame's number.
    code
        Its code.
    done
        Its instructions; None for those that are not reached.
    caught
        For each, where the handler of its exceptions begins, and the values that the stack keeps and gets.
    effects
        The effects of operations in the frame.
    """

    def __init__(
        self,
        flow: NumberFlow,
        frame: int,
        code: CodeType,
        done: list[Done | None],
        caught: list[tuple[int, int, int] | None],
        effects: Any,
    ) -> None:
        super().__init__(effects)
        self._flow = flow
        self._frame = frame
        self._code = code
        self._done = done
        self._caught = caught
        self._states: list[State | None] = [None] * len(done)

    def follow(self) -> None:
        """Follow the numbers until nothing changes."""
        first = self._done[0]
        assert first is not None  # noqa: S101
        self._states[0] = State((), self._first_names(first.before.names), (), ())
        pending = [0]
        while pending:
            index = pending.pop()
            done, state = self._done[index], self._states[index]
            if done is None or state is None:
                continue
            self._run(done, state)
            after = self.state()
            if done.falls_through:
                self._join(index + 1, after, pending)
            if done.jump_target is not None:
                depth = len(after.stack) if done.jump_depth is None else done.jump_depth
                stack = (
                    (*state.stack, *(NONE,) * depth)[:depth] if done.jump_depth is not None else after.stack
                )
                self._join(done.jump_target, after._replace(stack=stack), pending)
            caught = self._caught[index]
            if caught is not None:
                target, kept, pushed = caught
                names, after_names = state.names, self.names
                if names is not after_names:
                    names = {name: origins | after_names.get(name, NONE) for name, origins in names.items()}
                self._join(target, State((*state.stack[:kept], *(NONE,) * pushed), names, (), ()), pending)

    def _first_names(self, names: Iterable[str]) -> dict[str, Origins]:
        """Return the numbers that the variables may have at the begin."""
        arguments = frozenset({arguments_of(self._frame)})
        for name in self._code.co_cellvars:
            if name in names:
                self._flow.add(arguments, self._cell_nodes(self.effects.cell(name)))
        return dict.fromkeys(names, arguments)

    def _join(self, target: int, state: State, pending: list[int]) -> None:
        before = self._states[target] if target < len(self._states) else state
        if before is None:
            self._states[target] = state
            pending.append(target)
            return
        stack = before.stack
        if stack != state.stack:
            stack = tuple([one | other for one, other in zip(stack, state.stack, strict=True)])
        names = before.names
        added = {
            name: origins | names.get(name, NONE)
            for name, origins in state.names.items()
            if not origins <= names.get(name, NONE)
        }
        if stack != before.stack or added:
            self._states[target] = before._replace(stack=stack, names={**names, **added})
            pending.append(target)

    # ---- One instruction -----------------------------------------------------------------------------

    def _run(self, done: Done, state: State) -> None:
        rule = done.instruction.rule
        self.stack, self.names = list(state.stack), state.names
        self.blocks, self.keyword_names = (), ()
        if rule in _MOVES:
            getattr(self, f"_do_{rule}")(done.instruction)
            self.blocks, self.keyword_names = (), ()
            self.stack = [each if type(each) is frozenset else self._of_kind(each) for each in self.stack]
            self.stack += [NONE] * (len(done.after.stack) - len(self.stack))
            return
        self._use(done)

    def _use(self, done: Done) -> None:
        """Run an instruction that does more than move values."""
        rule = done.instruction.rule
        operands = [
            (kind, origins.union(_container_nodes(kind)))
            for kind, origins in zip(done.before.stack[done.floor :], self.stack[done.floor :], strict=True)
        ]
        del self.stack[done.floor :]
        site = "site", id(self._code), done.instruction.begin
        self._flow.ends[site[1:]] = done.instruction.end
        pushed = done.after.stack[done.floor :]
        self._escape_floats(done, operands)
        if done.risk and done.frame is None and not (pushed and set(map(id, pushed)) & _IDS_OF_ARRAYS):
            self._flow.force(site, f"line {done.instruction.line} runs other code")
        if rule in _LOOKS:
            made = NONE if rule != "jump_or_pop" else operands[0][1] if operands else NONE
        elif rule in _PASS_ON:
            made = self._pass_on(rule, done, operands)
        else:
            method = getattr(self, f"_flow_{rule}", None)
            made = self._other(done, operands, site) if method is None else method(done, operands, site)
        self.stack += [made] * len(pushed)

    def _escape_floats(self, done: Done, operands: Operands) -> None:
        """Note a use in which a deferred float would not be as Python's is."""
        rule = done.instruction.rule
        if rule in _TAKE_FLOATS or (rule in ("binary", "unary") and is_arithmetic(done.instruction)):
            return
        if rule in ("subscript", "subscript_slice") or done.instruction.symbol == "[]":
            operands = operands[1:]
        elif rule in ("store_subscript", "store_slice") and type(operands[1][0]) is Container:
            operands = operands[2:]
        elif rule in ("load_method", "load_attribute") and type(operands[0][0]) is Container:
            return  # the method's call decides
        elif rule.startswith("call") and self._takes_floats(done, operands):
            return
        self._flow.escape_floats(_union(each for each in operands if each[0] not in _NO_FLOATS))

    @staticmethod
    def _takes_floats(done: Done, operands: Operands) -> bool:
        function = operands[1][0] if operands[0][0] is NULL else operands[0][0]
        if done.frame is not None:
            return True
        if type(function) is MethodOf:
            return type(function.owner) is Container and function.name in _ADDING
        return type(function) is Known and any(function.value is each for each in _FUNCTIONS_OF_FLOATS)

    def _pass_on(self, rule: str, done: Done, operands: Operands) -> Origins:
        made = _union(operands)
        if rule == "load_cell":
            made |= frozenset(self._cell_nodes(done.after.stack[-1]))
        elif rule in ("get_iterator", "intrinsic_1", "list_to_tuple"):
            made |= {("site", id(self._code), done.instruction.begin)}
        return made

    def _other(self, done: Done, operands: Operands, site: Node) -> Origins:
        """Let the operands of any other instruction escape, and objects on the stack that it looks into."""
        rule = done.instruction.rule
        if rule in _LOOK_INTO:
            operands = [*operands, *zip(done.before.stack[-2:], self.stack[-2:], strict=False)]
        self._escape(operands, done, _DESCRIPTIONS.get(rule, "uses it otherwise"))
        return frozenset({site})

    def _escape(self, operands: Iterable[tuple[Any, Origins]], done: Done, use: str) -> None:
        self._flow.escape(_union(operands), f"line {done.instruction.line} {use}")

    # ---- Variables and attributes --------------------------------------------------------------------

    def _of_kind(self, kind: Any) -> Origins:
        return frozenset(self._cell_nodes(kind))

    @staticmethod
    def _cell_nodes(cell: Any) -> list[Node]:
        return [("cell", cell.site)] if type(cell) is Cell else []

    def _flow_load_cell_value(self, done: Done, _operands: Operands, _site: Node) -> Origins:
        return frozenset(self._cell_nodes(self.effects.cell(str(done.instruction.value))))

    def _flow_store_cell_value(self, done: Done, operands: Operands, _site: Node) -> Origins:
        cell = self.effects.cell(str(done.instruction.value))
        if type(cell) is not Cell or type(cell.site) is CellSource:
            self._escape(operands, done, "assigns it to a variable of an outer function")
        else:
            self._flow.add(_union(operands), self._cell_nodes(cell))
        return NONE

    def _flow_load_attribute(self, done: Done, operands: Operands, site: Node) -> Origins:
        kind, origins = operands[0]
        if kind in _ARRAYS:
            is_plain = str(done.instruction.value) in PLAIN_ATTRIBUTES
            return NONE if is_plain else origins | {site}
        if kind is UNKNOWN:
            self._escape(operands, done, "reads an attribute of it")
        return origins

    _flow_load_method = _flow_load_attribute

    # ---- Operators -----------------------------------------------------------------------------------

    def _flow_binary(self, done: Done, operands: Operands, site: Node) -> Origins:
        if done.instruction.symbol == "[]":
            return self._flow_subscript(done, operands, site)
        kinds = {id(kind): kind for kind, _ in operands}.values()
        made = frozenset({site})
        if done.instruction.rule == "binary" and not any(kind in _NO_FLOATS for kind in kinds):
            made |= self._arithmetic(done, operands)
        if all(kind in _OPERANDS for kind in kinds):
            return made | _union(each for each in operands if each[0] in (VALUE, ARRAY))
        if all(kind in _OPERANDS or type(kind) in _COLLECTIONS for kind in kinds):
            (left, _), (_, origins) = operands
            self._flow.add(origins, _container_nodes(left))
            return made | _union(operands)
        # A tracer on the left computes pending operations, and leaves the operator to the other object.
        given = operands[1:] if operands[0][0] is TRACER else operands
        self._escape(given, done, "has it as an operand of an object that is not known")
        return made

    _flow_compare = _flow_binary

    def _flow_unary(self, done: Done, operands: Operands, site: Node) -> Origins:
        if operands[0][0] not in _OPERANDS:
            return self._other(done, operands, site)
        return frozenset({site}) | self._arithmetic(done, operands)

    def _arithmetic(self, done: Done, operands: Operands) -> Origins:
        node = "arithmetic", id(self._code), done.instruction.begin
        self._flow.add_arithmetic(node, _union(operands))
        return frozenset({node})

    def _flow_identity(self, done: Done, operands: Operands, _site: Node) -> Origins:
        if all(kind is not PLAIN for kind, _ in operands):  # with None, it is False
            self._escape(operands, done, "tests its identity")
        return NONE

    def _flow_contains(self, done: Done, operands: Operands, _site: Node) -> Origins:
        if operands[1][0] not in _OF_TRACE:
            self._escape(operands[:1], done, "looks for it in an object that is no array")
        return NONE

    def _flow_subscript(self, done: Done, operands: Operands, site: Node) -> Origins:
        (owner, origins), *index = operands
        if owner in _OF_TRACE:
            return frozenset({site}) | (origins if owner is not TRACER else NONE)
        if not _is_index_trick(owner):
            self._escape(index, done, "has it as an index of an object that is no argument's array")
        return origins | {site}

    _flow_subscript_slice = _flow_subscript

    def _flow_store_subscript(self, done: Done, operands: Operands, _site: Node) -> Origins:
        value, (owner, origins), *index = operands
        if owner in _OF_TRACE:
            self._flow.add(value[1], origins if owner is not TRACER else NONE)
        elif type(owner) is Container:
            self._store(done, value[1], owner, origins)
            self._escape(index, done, "has it as a key")
        else:
            self._escape([value, *index], done, "stores it in an object that other code may reach")
        return NONE

    _flow_store_slice = _flow_store_subscript

    def _flow_delete_subscript(self, done: Done, operands: Operands, site: Node) -> Origins:
        return self._flow_store_subscript(done, [(PLAIN, NONE), *operands], site)

    # ---- Collections ---------------------------------------------------------------------------------

    def _flow_build_list(self, done: Done, operands: Operands, _site: Node) -> Origins:
        if done.instruction.name == "BUILD_SET":
            self._escape(operands, done, "has it in a set")
        nodes = frozenset(_container_nodes(done.after.stack[-1]))
        self._flow.add(_union(operands), nodes)
        return nodes

    def _flow_build_map(self, done: Done, operands: Operands, _site: Node) -> Origins:
        self._escape(operands[::2], done, "has it as a key")
        nodes = frozenset(_container_nodes(done.after.stack[-1]))
        self._flow.add(_union(operands[1::2]), nodes)
        return nodes

    def _flow_build_const_key_map(self, done: Done, operands: Operands, _site: Node) -> Origins:
        nodes = frozenset(_container_nodes(done.after.stack[-1]))
        self._flow.add(_union(operands), nodes)
        return nodes

    def _flow_add_item(self, done: Done, operands: Operands, _site: Node) -> Origins:
        return self._add_to(done, operands, "SET" in done.instruction.name)

    def _flow_add_map_item(self, done: Done, operands: Operands, _site: Node) -> Origins:
        key, value = operands
        self._escape([key], done, "has it as a key")
        return self._add_to(done, [value], is_hashed=False)

    def _flow_extend(self, done: Done, operands: Operands, site: Node) -> Origins:
        return self._add_to(done, [*operands, (UNKNOWN, frozenset({site}))], "SET" in done.instruction.name)

    def _add_to(self, done: Done, operands: Operands, is_hashed: bool) -> Origins:
        if is_hashed:
            self._escape(operands, done, "has it in a set")
        place = -done.instruction.arg
        self._store(done, _union(operands), done.after.stack[place], self.stack[place])
        return NONE

    def _store(self, done: Done, origins: Origins, owner: Container, owners: Origins) -> None:
        """Store numbers in a container, which may come from outside of the analysed code."""
        self._flow.add(origins, {*_container_nodes(owner), *owners})
        if type(owner.site) is not tuple:
            self._escape([(UNKNOWN, origins)], done, "stores it in a list or dict that other code may reach")

    def _flow_unpack(self, done: Done, operands: Operands, site: Node) -> Origins:
        made = _union(operands) | {site}
        for kind in done.after.stack[done.floor :]:  # a list of the rest
            self._flow.add(made, _container_nodes(kind))
        return made

    _flow_unpack_with_rest = _flow_unpack

    def _flow_next_item(self, done: Done, _operands: Operands, site: Node) -> Origins:
        return frozenset((*self.stack[-1], *_container_nodes(done.before.stack[-1]), site))

    def _flow_yield_from(self, done: Done, operands: Operands, site: Node) -> Origins:
        return self._other(done, [*operands, (UNKNOWN, frozenset({site}))], site)

    # ---- Calls ---------------------------------------------------------------------------------------

    def _flow_return(self, done: Done, operands: Operands, site: Node) -> Origins:
        if self._code.co_flags & CO_GENERATOR:
            return self._other(done, operands, site)
        return self._flow_yield_value(done, operands, site)

    def _flow_yield_value(self, _done: Done, operands: Operands, _site: Node) -> Origins:
        self._flow.add(_union(operands), [result_of(self._frame)])
        return NONE

    def _flow_call(self, done: Done, operands: Operands, site: Node) -> Origins:
        function = operands[1][0] if operands[0][0] is NULL else operands[0][0]
        arguments = [each for each in operands if each[0] is not function and each[0] is not NULL]
        if done.frame is not None:
            defaults = frozenset(node for node in _union(operands) if node[0] != "cell")
            self._flow.add(_union(arguments) | defaults, [arguments_of(done.frame)])
            return frozenset({result_of(done.frame)})
        if type(function) is MethodOf and type(function.owner) is Container and function.name in _ADDING:
            self._store(done, _union(operands[1:]), function.owner, operands[0][1])
            return NONE
        handling = handling_of(function, [kind for kind, _ in arguments])
        made = frozenset({site})
        if makes_float(function, len(arguments)):
            node = "float", *site[1:]
            self._flow.add_float(node)
            self._flow.add_arithmetic(node, _union(operands))  # the float of a float is the same
            made |= {node}
        elif type(function) is Known and function.value is abs:
            made |= self._arithmetic(done, arguments)
        if handling is Handling.OTHER:
            is_own = type(function) is MethodOf and function.owner in _ARRAYS  # a method of the number itself
            self._escape(arguments if is_own else operands, done, described(function))
        return made | (_union(operands) if handling is Handling.PASSES_ON else NONE)

    _flow_call_with_names = _flow_call_function = _flow_call_function_with_names = _flow_call
    _flow_call_unpacked = _flow_call


def is_arithmetic(instruction: Instruction) -> bool:
    """Return True for an operator of floats that NumPy computes as Python does.

    A power is computed by its exponent's value.
    """
    name = instruction.name
    return instruction.symbol in _SYMBOLS or name in _ARITHMETIC or name == "UNARY_NEGATIVE"


_COLLECTIONS = (Items, Each, Container)
_NO_FLOATS = frozenset({TRACER, SUPPORTED_ARRAY})
_SYMBOLS = frozenset("+ - * / += -= *= /=".split())  # noqa: SIM905
_ARITHMETIC = frozenset(
    f"{prefix}_{name}"  # of Python 3.10
    for prefix in ("BINARY", "INPLACE")
    for name in ("ADD", "SUBTRACT", "MULTIPLY", "TRUE_DIVIDE")
)
# Rules of uses in which a deferred float is as Python's: comparisons and containers, beside arithmetic.
_TAKE_FLOATS = (_LOOKS - {"format", "build_string"}) | frozenset(
    """compare identity return build_tuple list_to_tuple build_list build_map build_const_key_map add_item
    add_map_item extend unpack unpack_with_rest get_iterator next_item load_cell load_cell_value
    store_cell_value""".split()  # noqa: SIM905
)
# Functions that compute with floats, look at them as at numbers, or pass them on.
_FUNCTIONS_OF_FLOATS = abs, bool, enumerate, float, iter, len, list, max, min, reversed, tuple, zip
_LOOK_INTO = frozenset({"copy_dict_without_keys", "match_keys", "send"})
_IDS_OF_ARRAYS = frozenset(map(id, _ARRAYS - {NUMBER}))
_DESCRIPTIONS = {
    "store_attribute": "stores it in an attribute",
    "raise": "raises it",
}


def _union(operands: Iterable[tuple[Any, Origins]]) -> Origins:
    return NONE.union(*[origins for _, origins in operands])


def _container_nodes(kind: Any) -> list[Node]:
    return [("container", kind.site)] if type(kind) is Container else []


def _is_index_trick(kind: Any) -> bool:
    return type(kind) is Known and type(kind.value).__module__ == "numpy.lib._index_tricks_impl"
