"""Sources of objects: where a later call finds the object that an analysis has seen."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import MemberDescriptorType
from typing import Any

MISSING = object()


@dataclass(frozen=True)
class ArgumentSource:
    """An argument, by its position or name."""

    key: int | str

    def read(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Return the object of a call."""
        if type(self.key) is str:
            return keywords.get(self.key, MISSING)
        return arguments[self.key] if self.key < len(arguments) else MISSING  # type: ignore[operator, index]


class DictSource:
    """A value of a dict of names: a function's globals, or a module's attributes."""

    __slots__ = ("name", "names")

    def __init__(self, names: dict[str, Any], name: str) -> None:
        self.names, self.name = names, name

    def __eq__(self, other: object) -> bool:
        """Return True for the same object."""
        return type(other) is DictSource and other.names is self.names and other.name == self.name

    def __hash__(self) -> int:
        """Return a hash of the object."""
        return hash((id(self.names), self.name))

    def read(self, *_: Any) -> Any:
        """Return the present object."""
        return self.names.get(self.name, MISSING)


class ObjectSource:
    """An object that does not change from call to call: the one that a method is bound to."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        """Return True for the same object."""
        return type(other) is ObjectSource and other.value is self.value

    def __hash__(self) -> int:
        """Return a hash of the object."""
        return id(self.value)

    def read(self, *_: Any) -> Any:
        """Return the object."""
        return self.value


class CellSource:
    """The content of a cell of a function's closure."""

    __slots__ = ("cell",)

    def __init__(self, cell: Any) -> None:
        self.cell = cell

    def __eq__(self, other: object) -> bool:
        """Return True for the same object."""
        return type(other) is CellSource and other.cell is self.cell

    def __hash__(self) -> int:
        """Return a hash of the object."""
        return id(self.cell)

    def read(self, *_: Any) -> Any:
        """Return the present object."""
        try:
            return self.cell.cell_contents
        except ValueError:
            return MISSING


@dataclass(frozen=True)
class FunctionSource:
    """An attribute of a function: its code or defaults."""

    function: Any
    name: str

    def read(self, *_: Any) -> Any:
        """Return the present object."""
        return getattr(self.function, self.name)


@dataclass(frozen=True)
class ItemSource:
    """An item of a tuple."""

    parent: Any
    index: int

    def read(self, *call: Any) -> Any:
        """Return the object of a call."""
        parent = self.parent.read(*call)
        return parent[self.index] if isinstance(parent, tuple) and self.index < len(parent) else MISSING


@dataclass(frozen=True)
class PartialSource:
    """The function or the arguments of a `functools.partial`."""

    parent: Any
    name: str

    def read(self, *call: Any) -> Any:
        """Return the object of a call."""
        parent = self.parent.read(*call)
        return getattr(parent, self.name) if type(parent) is functools.partial else MISSING


@dataclass(frozen=True)
class AttributeSource:
    """A plain attribute, in an object's dict or in a slot."""

    parent: Any
    name: str

    def read(self, *call: Any) -> Any:
        """Return the object of a call."""
        return plain_attribute(self.parent.read(*call), self.name)


@dataclass(frozen=True)
class TypeSource:
    """An attribute of a type."""

    cls: type
    name: str

    def read(self, *_: Any) -> Any:
        """Return the present object."""
        return type_attribute(self.cls, self.name)


def type_attribute(cls: type, name: str) -> Any:
    """Return an attribute of a type or its bases, unbound."""
    for each in cls.__mro__:
        if name in each.__dict__:
            return each.__dict__[name]
    return MISSING


def has_plain_attributes(cls: type, hook: str = "__getattribute__") -> bool:
    """Return True if reading attributes of a type (`__setattr__`: setting) runs no code of its own."""
    if type(cls) is not type and type_attribute(type(cls), "__getattribute__") is not type.__getattribute__:
        return False
    return getattr(cls, hook) is getattr(object, hook) and type_attribute(cls, "__getattr__") is MISSING


def plain_attribute(value: Any, name: str) -> Any:
    """Return an attribute that is in an object's dict or in a slot; MISSING for any other one."""
    cls = type(value)
    on_type = type_attribute(cls, name)
    if type(on_type) is MemberDescriptorType:
        try:
            return on_type.__get__(value, cls)
        except AttributeError:
            return MISSING
    if on_type is not MISSING and (hasattr(type(on_type), "__set__") or hasattr(type(on_type), "__delete__")):
        return MISSING
    names = getattr(value, "__dict__", None) if has_plain_attributes(cls) else None
    return names.get(name, MISSING) if type(names) is dict else MISSING
