"""Effects of operations on lists, dicts, sets, tuples and iterators."""

from __future__ import annotations

from types import CodeType
from typing import Any

from pycudakit.fusing.bytecode.facts import Facts
from pycudakit.fusing.bytecode.known_calls import Effect, items
from pycudakit.fusing.bytecode.opcodes import Instruction
from pycudakit.fusing.bytecode.value_kinds import (
    ARRAY,
    NUMBER,
    PLAIN,
    READS_ARRAY,
    SUPPORTED_ARRAY,
    UNKNOWN,
    VALUE,
    Cell,
    Container,
    Each,
    Generated,
    Items,
    LocalFunction,
    Partial,
    has_no_effects,
    join,
    join_all,
    reads_memory,
)

OTHER_CODE = "may run other code"
_METHODS = frozenset(
    """append extend insert pop copy clear get items keys values index count reverse add discard setdefault
    popitem update""".split()  # noqa: SIM905
)


class CollectionEffects:
    """The effects of operations on collections in one frame.

    Parameters
    ----------
    facts
        The facts about the call.
    code
        The frame's code.
    """

    def __init__(self, facts: Facts, code: CodeType) -> None:
        self._facts = facts
        self._code = code

    @property
    def heap(self) -> dict[Any, Any]:
        """The kinds in containers and cells."""
        return self._facts.heap

    def container(self, instruction: Instruction, kinds: list[Any]) -> Container:
        """Return the container that an instruction makes."""
        made = Container((id(self._code), instruction.begin))
        for kind in kinds:
            self.add(made, kind)
        return made

    def add(self, owner: Container, kind: Any) -> None:
        """Add a value to a container."""
        self._facts.store(owner.site, kind)

    def iterate(self, kind: Any) -> Effect:
        """Return the effect of taking the next item."""
        if type(kind) is Generated:
            return Effect(kind.kind, kind.risk)
        part = items(kind, self.heap)
        if part is None:
            return Effect(UNKNOWN, f"it iterates over an object that {OTHER_CODE}")
        if kind in (ARRAY, SUPPORTED_ARRAY):
            return Effect(part, "it iterates over an array that is not an argument")
        return Effect(part)

    def leak(self, kinds: list[Any]) -> None:
        """Note that other code may change these containers, and those that functions hold."""
        pending, seen = list(kinds), set()
        while pending:
            kind = pending.pop()
            if type(kind) is Container:
                content = self.heap.get(kind.site)
                if content is not UNKNOWN:
                    self._facts.store(kind.site, UNKNOWN)
                    pending.append(content)
            elif type(kind) in (Each, Generated):
                pending.append(kind.kind)
            elif type(kind) is Items:
                pending += kind.kinds
            elif type(kind) is Partial:
                pending += [kind.function, *kind.arguments, *dict(kind.keywords).values()]
            elif type(kind) is LocalFunction and kind not in seen:
                seen.add(kind)
                pending += kind.defaults
                pending += [self.heap.get(cell.site) for cell in kind.cells if type(cell) is Cell]

    @staticmethod
    def _leaked(kind: Any) -> Any:
        """Return the kind of a value that other code may change."""
        return UNKNOWN if type(kind) is Container else kind

    def read_all(self, kinds: list[Any], operation: str) -> Effect:
        """Return the effect of an operation that reads values."""
        if not all(has_no_effects(kind, self.heap) for kind in kinds):
            return Effect(UNKNOWN, f"{operation} of an object that {OTHER_CODE}")
        if any(reads_memory(kind, self.heap) for kind in kinds):
            return Effect(VALUE, f"{operation} {READS_ARRAY}")
        return Effect(VALUE)

    def container_of_call(self) -> Any:
        """Return the kind of a new, empty dict."""
        return Container((id(self._code), "dict"))

    def call_container(
        self, owner: Container, name: str, arguments: list[Any], keywords: dict[str, Any]
    ) -> Effect | None:
        """Return the effect of calling a method; None for an unknown one."""
        if name not in _METHODS or keywords:
            return None
        content = self.heap.get(owner.site)
        content = PLAIN if content is None else content
        if name in ("append", "add", "discard"):
            self.add(owner, arguments[-1] if arguments else PLAIN)
            is_hashed = name != "append" and not has_no_effects(
                arguments[-1] if arguments else PLAIN, self.heap
            )
            return None if is_hashed else Effect(PLAIN)
        is_keyed = name in ("insert", "pop", "get", "setdefault") and bool(arguments)
        if is_keyed and not has_no_effects(arguments[0], self.heap):
            return None
        if name == "insert":
            self.add(owner, arguments[-1])
            return Effect(PLAIN)
        if name in ("extend", "update"):
            part = items(arguments[0], self.heap) if len(arguments) == 1 else None
            if part is None or (name == "update" and type(arguments[0]) is not Container):
                return None
            self.add(owner, part)
            return Effect(PLAIN)
        if name in ("pop", "get", "setdefault", "popitem"):
            for value in arguments[1:]:
                self.add(owner, value)
            return Effect(
                Items((PLAIN, content))
                if name == "popitem"
                else join(content, PLAIN)
                if name == "get"
                else join_all([content, *arguments[1:]])
            )
        if name in ("items", "values", "keys"):
            return Effect(
                Each(Items((PLAIN, content)) if name == "items" else content if name == "values" else PLAIN)
            )
        if name == "copy":
            return Effect(owner)
        if name in ("index", "count"):
            return self.read_all([content, *arguments], f".{name}()")._replace(kind=NUMBER)
        return Effect(PLAIN)
