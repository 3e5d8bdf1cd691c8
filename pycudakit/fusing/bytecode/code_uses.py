"""How code uses names: read off its instructions once a code object, whatever the call.

A name that code only calls can stand for another callable, since the code cannot tell them apart.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, ClassVar, NamedTuple

from pycudakit.fusing.bytecode.interpreter import Interpreter
from pycudakit.fusing.bytecode.known_calls import Effect
from pycudakit.fusing.bytecode.opcodes import Instruction, UnanalysedError, inner_codes, read_code
from pycudakit.fusing.bytecode.step import Step
from pycudakit.fusing.bytecode.value_kinds import NULL, UNKNOWN, Container, Items

# The scope from which instructions load a name, by their rules.
_LOADS = {
    "load_global": "global",
    "load_cell_value": "free variable",
    "load_attribute": "attribute",
    "load_method": "attribute",
    "load_super_attribute": "attribute",
}
_GLOBAL_RULES = frozenset({"load_global", "store_global", "delete_global"})
# Instructions that assign globals, or read them without `__getitem__`, as class bodies do.
_PAST_LOOKUPS = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_BUILD_CLASS"})
_TAKE_GLOBALS = frozenset({"eval", "exec", "globals"})
_GENERATOR_RULES = frozenset({"begin_generator", "yield_value"})


class CodeUses(NamedTuple):
    """The uses of names by a function's code, and by the code of the functions in it.

    Attributes
    ----------
    global_names
        The globals that it reads or assigns.
    attributes
        The attributes that it reads.
    assigned_attributes
        The attributes that it assigns.
    called_globals, called_free_variables, called_attributes
        The names that it loads only to call their values.
    assigns_free_variables
        Whether it assigns variables of the functions around it.
    needs_real_globals
        Whether it uses its globals past their lookups by name.
    takes_globals
        Whether it may use globals by names that its code does not show, as by `eval`.
    unpacks_for_values
        Whether it calls other values than loaded names with unpacked arguments: `(f or g)(*arguments)`.
    rules
        The rules of its opcodes, but for those that make generator expressions generators.
    handles_exceptions
        Whether it has a `try`, or a `with` of another object than `errstate(...)`.
    """

    global_names: tuple[str, ...]
    attributes: frozenset[str]
    assigned_attributes: frozenset[str]
    called_globals: frozenset[str]
    called_free_variables: frozenset[str]
    called_attributes: frozenset[str]
    assigns_free_variables: bool
    needs_real_globals: bool
    takes_globals: bool
    unpacks_for_values: bool
    rules: frozenset[str]
    handles_exceptions: bool

    def names(self, name: str) -> bool:
        """Return True if the code uses a global or attribute of this name."""
        return name in self.global_names or name in self.attributes


@functools.lru_cache(1024)
def code_uses(code: CodeType) -> CodeUses:
    """Return the uses of names by code."""
    global_names, attributes, rules = dict[str, None](), set[str](), set[str]()
    assigned_attributes = set[str]()
    assigns_free_variables = needs_real_globals = takes_globals = unpacks_for_values = False
    called, loaded = set[tuple[str, str]](), set[tuple[str, str]]()
    counts = Counter[str]()
    for each in _codes(code):
        walk = _LoadWalk(each)
        calls = _called_loads(walk)
        unpacks_for_values |= any(
            walk.is_unpacked(call) for call, load in walk.called.items() if load is None
        )
        for index, (rule, opcode, value) in enumerate(_named(each)):
            if each.co_name != "<genexpr>" or rule not in _GENERATOR_RULES:
                rules.add(rule)
            counts[rule] += 1
            counts["errstate"] += rule in _LOADS and value == "errstate"
            if rule in _GLOBAL_RULES:
                global_names[value] = None
            if rule == "store_attribute":
                assigned_attributes.add(value)
            if rule in _LOADS:
                (called if index in calls else loaded).add((_LOADS[rule], value))
                if _LOADS[rule] == "attribute":
                    attributes.add(value)
            is_assignment = rule in ("store_cell_value", "delete_cell_value")
            assigns_free_variables |= is_assignment and value in each.co_freevars
            takes_globals |= rule == "load_global" and value in _TAKE_GLOBALS
            needs_real_globals |= opcode in _PAST_LOOKUPS or takes_globals
    return CodeUses(
        tuple(global_names),
        frozenset(attributes),
        frozenset(assigned_attributes),
        _names_of("global", called - loaded),
        _names_of("free variable", called - loaded),
        _names_of("attribute", called - loaded),
        assigns_free_variables,
        needs_real_globals,
        takes_globals,
        unpacks_for_values,
        frozenset(rules),
        counts["exit_with"] > counts["errstate"] or counts["push_exception"] > counts["exit_with"],
    )


def _names_of(kind: str, loads: set[tuple[str, str]]) -> frozenset[str]:
    return frozenset(name for each, name in loads if each == kind)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in inner_codes(code):
        yield from _codes(inner)


def _named(code: CodeType) -> Iterator[tuple[str, str, str]]:
    return ((each.rule, each.name, str(each.value)) for each in read_code(code)[0])


# ---- Which loads are called --------------------------------------------------------------------------


@dataclass(frozen=True)
class Loaded:
    """The value that the instruction at an index loads by a name."""

    place: int


@dataclass(frozen=True)
class PushedNull:
    """The null that the instruction at an index pushes, for a call."""

    place: int


def _called_loads(walk: _LoadWalk) -> set[int]:
    """Return the indices of the instructions that load a value only to call it, or that never run."""
    if not walk.run():
        return set()
    called = {each.place for each in walk.called.values() if each is not None} - walk.copied
    return called | walk.unreached()


def call_sites(code: CodeType) -> dict[int, int]:
    """Return, by the index of a call, that of the load of a method, or of the null for the call."""
    walk = _LoadWalk(code)
    sites = walk.sites if walk.run() else {}
    return {call: place for call, place in sites.items() if place is not None}


def unpacked_call_sites(code: CodeType) -> dict[int, int]:
    """Return, by the index of a call with unpacked arguments, that of the load of its callee by a name."""
    walk = _LoadWalk(code)
    called = walk.called if walk.run() else {}
    calls = {call: each.place for call, each in called.items() if each is not None}
    return {call: place for call, place in calls.items() if walk.is_unpacked(call)}


def callee_of(frame: FrameType) -> Any:
    """Return the object that a frame calls just now, if it is a variable's or a global; else None."""
    name = _callees(frame.f_code).get(frame.f_lasti)
    return None if name is None else frame.f_locals.get(name, frame.f_globals.get(name))


@functools.lru_cache(256)
def _callees(code: CodeType) -> dict[int, str]:
    """Return the names of the variables and globals that code calls, by the offsets of the calls."""
    walk = _LoadWalk(code, follows_locals=True)
    instructions, names = read_code(code)[0], dict[int, str]()
    for call, load in walk.called.items() if walk.run() else ():
        if load is not None and _LOADS.get(instructions[load.place].rule) != "attribute":
            offsets = range(instructions[call].begin, instructions[call].end)
            names.update(dict.fromkeys(offsets, str(instructions[load.place].value)))
    return names


class _LoadWalk(Interpreter):
    """An interpretation that follows loaded values to their calls; `follows_locals`, local variables, too."""

    def __init__(self, code: CodeType, follows_locals: bool = False) -> None:
        self.follows_locals = follows_locals
        self.copied: set[int] = set()
        self.called: dict[int, Loaded | None] = {}  # by the index of the call
        self.sites: dict[int, int | None] = {}
        effects = _LoadEffects(self, frozenset((*code.co_cellvars, *code.co_freevars)))
        super().__init__(code, _LoadStep(effects), {})  # type: ignore[arg-type]

    def run(self) -> bool:
        """Follow all paths of the code; return False if it has instructions that are not analysed."""
        try:
            self._interpret()
        except UnanalysedError:
            return False
        return True

    def is_unpacked(self, call: int) -> bool:
        """Return True for the index of a call with unpacked arguments."""
        return self._instructions[call].rule == "call_unpacked"

    def unreached(self) -> set[int]:
        """Return the indices of the instructions that never run."""
        return {index for index, state in enumerate(self._states) if state is None}

    def note_site(self, values: list[Any]) -> None:
        """Note the two values below the arguments of the present call: the called object, and a null."""
        nulls = [each.place for each in values if type(each) is PushedNull]
        if any(self._instructions[place].rule == "load_global" for place in nulls) and any(
            type(each) is Loaded for each in values
        ):
            nulls = []  # a global or a module's function, which is resolved by its name
        methods = [each.place for each in values if type(each) is Loaded and self._is_method(each.place)]
        self.sites[self.index] = next(iter(nulls or (methods if NULL in values else ())), None)

    def _is_method(self, place: int) -> bool:
        """Return True for an instruction that loads an attribute, and an object to bind or a null."""
        load = self._instructions[place]
        return load.name == "LOAD_METHOD" or (
            sys.version_info >= (3, 12) and load.name == "LOAD_ATTR" and bool(load.arg & 1)
        )


class _LoadEffects:
    """In place of `Effects`: only loads and calls matter."""

    heap: ClassVar[dict[Any, Any]] = {}

    def __init__(self, walk: _LoadWalk, cells: frozenset[str]) -> None:
        self._walk = walk
        self.cells = cells

    def copy(self, kind: Any) -> None:
        """Note that a value is used more than once."""
        if type(kind) is Loaded:
            self._walk.copied.add(kind.place)

    def pushed_null(self) -> PushedNull:
        """Return the null that the present instruction pushes."""
        return PushedNull(self._walk.index)

    def note_site(self, values: list[Any]) -> None:
        """Note the two values below the arguments of the present call."""
        self._walk.note_site(values)

    def local_value(self) -> Any:
        """Return the value that the present instruction loads from a variable."""
        return Loaded(self._walk.index) if self._walk.follows_locals else UNKNOWN

    def global_kind(self, _: str) -> Any:
        """Return the value that the present instruction loads."""
        return Loaded(self._walk.index)

    cell_value = global_kind

    def attribute(self, *_: Any) -> Effect:
        """Return the value that the present instruction loads."""
        return Effect(Loaded(self._walk.index))

    def call(self, function: Any, *_: Any) -> Effect:
        """Note the object that the present instruction calls."""
        self._walk.called[self._walk.index] = function if type(function) is Loaded else None
        return Effect(UNKNOWN)

    call_unpacked = call

    def container(self, *_: Any) -> Container:
        """Return a container with unknown items."""
        return Container(None)

    def store_cell_value(self, *_: Any) -> str:
        """Do nothing."""
        return ""

    def cell(self, _: str) -> Any:
        """Return an unknown value."""
        return UNKNOWN

    def local_function(self, *_: Any) -> Any:
        """Return an unknown value."""
        return UNKNOWN

    def add(self, *_: Any) -> None:
        """Do nothing."""

    leak = store_global = add

    def _unknown(self, *_: Any, **__: Any) -> Effect:
        return Effect(UNKNOWN)

    def match_class(self, _cls: Any, _value: Any, count: int, names: tuple[str, ...]) -> list[Effect]:
        """Return an unknown value for each attribute."""
        return [Effect(UNKNOWN)] * (count + len(names))

    store_attribute = binary = compare = unary = read_all = subscript = store_subscript = iterate = _unknown


class _LoadStep(Step):
    """The rules of opcodes for a loaded value: it is followed on the stack, and in no variable or tuple."""

    effects: _LoadEffects  # type: ignore[assignment]

    def _set(self, name: str, kind: Any) -> None:  # noqa: ARG002
        super()._set(name, UNKNOWN)

    def _local(self, name: str) -> Any:  # noqa: ARG002
        return UNKNOWN

    def _do_load_local(self, _: Instruction) -> None:
        self._push(self.effects.local_value())

    def _do_copy(self, instruction: Instruction) -> None:
        super()._do_copy(instruction)
        self.effects.copy(self.stack[-1])

    def _do_duplicate(self, instruction: Instruction) -> None:
        super()._do_duplicate(instruction)
        self.effects.copy(self.stack[-1])

    def _do_duplicate_two(self, instruction: Instruction) -> None:
        super()._do_duplicate_two(instruction)
        for kind in self.stack[-2:]:
            self.effects.copy(kind)

    def _do_build_tuple(self, instruction: Instruction) -> None:
        self._push(Items((UNKNOWN,) * len(self._pop_many(instruction.arg))))

    def _do_push_null(self, _: Instruction) -> None:
        self._push(self.effects.pushed_null())

    def _do_load_global(self, instruction: Instruction) -> None:
        floor = len(self.stack)
        super()._do_load_global(instruction)
        self.stack[floor:] = [
            self.effects.pushed_null() if each is NULL else each for each in self.stack[floor:]
        ]

    def _call_two(self, values: list[Any], names: tuple[str, ...]) -> None:
        self.effects.note_site(self.stack[-2:])
        self._forget_null(len(self.stack) - 2)
        super()._call_two(values, names)

    def _do_call_unpacked(self, instruction: Instruction) -> None:
        has_keywords = sys.version_info >= (3, 14) or instruction.arg & 1
        self._forget_null(len(self.stack) - (4 if has_keywords else 3))
        super()._do_call_unpacked(instruction)

    def _forget_null(self, floor: int) -> None:
        """Let the null of a call be as other code knows it."""
        floor = max(floor, 0)
        self.stack[floor:] = [NULL if type(each) is PushedNull else each for each in self.stack[floor:]]
