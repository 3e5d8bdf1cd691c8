"""Kinds of values that an instruction may see."""

from __future__ import annotations

import collections
import functools
from abc import ABCMeta
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, EnumMeta
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES
from pycudakit._runtime.lazy_array import LazyPandas
from pycudakit.fusing.bytecode.sources import MISSING, ItemSource, PartialSource
from pycudakit.fusing.memory.pytree import is_generator
from pycudakit.fusing.memory.tracer import Tracer

READS_ARRAY = "reads an array that is not an argument"  # the end of the reason of such a risk
_MAX_ITEMS = 64  # of a tuple, list or dict that is looked into
_FIELD = type(collections.namedtuple("_Field", "name").name)  # type: ignore[attr-defined]  # noqa: PYI024


class Basic(Enum):
    """Kinds without parts."""

    TRACER = "a tracer"
    NUMBER = "a bool, an int, a float, or a NumPy scalar that the engines take"
    PLAIN = "an immutable object of Python's or NumPy's, whose operators run no other code"
    SLICE = "a slice of numbers"
    VALUE = "a tracer, a number, an array of fresh memory, a collection of these, a slice, or a plain object"
    SUPPORTED_ARRAY = "a NumPy array of a dtype that the engines take, or a tracer"
    ARRAY = "a value, or an array whose memory other code may reach"
    GENERATOR = "a random generator"
    MANAGER = "a context manager that runs no other code"
    NULL = "no value, where a call expects an object to bind"
    UNKNOWN = "any object"


TRACER, NUMBER, PLAIN, SLICE, VALUE = Basic.TRACER, Basic.NUMBER, Basic.PLAIN, Basic.SLICE, Basic.VALUE
SUPPORTED_ARRAY, ARRAY, GENERATOR, MANAGER = (
    Basic.SUPPORTED_ARRAY,
    Basic.ARRAY,
    Basic.GENERATOR,
    Basic.MANAGER,
)
NULL, UNKNOWN = Basic.NULL, Basic.UNKNOWN


class Known:
    """An object that is known when a function is analysed: a module, a function, a type."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        """Return True for the same object."""
        return type(other) is Known and other.value is self.value

    def __hash__(self) -> int:
        """Return a hash of the object."""
        return id(self.value)


@dataclass(frozen=True)
class Items:
    """A tuple, or a named tuple with these fields."""

    kinds: tuple[Any, ...]
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Each:
    """An iterator or an immutable sequence of any number of items of one kind."""

    kind: Any


@dataclass(frozen=True)
class Listed:
    """A list, dict or set from outside of the analysed code, with values of one kind.

    Where the code reads it, it becomes a `Container` whose site is its `ContentsOf`. `inner` are the lists,
    dicts and sets among the values, of which `kind` does not tell.
    """

    kind: Any
    inner: tuple[Listed, ...] = ()


@dataclass(frozen=True)
class Container:
    """A list, set or dict that only the analysed code holds; `site` names where it was made."""

    site: Any


@dataclass(frozen=True)
class ContentsOf:
    """The site of the contents of a list, set or dict from outside, whose source is that of the variable.

    Of an argument, which the trace copies, it is the site of all containers within.
    """

    source: Any


@dataclass(frozen=True)
class ObjectOf:
    """An object of a class that has no kind of its own, by the source that it was read from."""

    source: Any
    cls: type


@dataclass(frozen=True)
class LocalFunction:
    """A function that the analysed code defines."""

    code: CodeType
    defaults: tuple[Any, ...]
    named_defaults: tuple[tuple[str, Any], ...]
    cells: tuple[Any, ...]
    frame: Any  # the function whose globals it reads


@dataclass(frozen=True)
class MethodOf:
    """A method, by name, of an array, a container or another object of Python's."""

    owner: Any
    name: str


@dataclass(frozen=True)
class BoundFunction:
    """A Python function, bound to an object."""

    owner: Any
    function: Known


@dataclass(frozen=True)
class Partial:
    """A function with its first arguments, and some by name: a `functools.partial`."""

    function: Any
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Generated:
    """A generator of analysed code, of which taking an item may reach memory past the trace (`risk`)."""

    kind: Any
    risk: str


@dataclass(frozen=True)
class Cell:
    """A cell of a closure: its content is in the heap, or is read from a source."""

    site: Any


# ---- Joins ------------------------------------------------------------------------------------------

VALUES = frozenset({TRACER, NUMBER, VALUE})
ARRAYS = VALUES | {SUPPORTED_ARRAY, ARRAY}
_PLAIN = frozenset({NUMBER, PLAIN, SLICE})


def join(one: Any, other: Any) -> Any:
    """Return the kind of a value that is of one of two kinds; None is the kind of no value."""
    if one is None or one == other:
        return other
    if other is None:
        return one
    if {one, other} <= {NUMBER, PLAIN}:
        return PLAIN
    if {one, other} <= {TRACER, SUPPORTED_ARRAY}:
        return SUPPORTED_ARRAY
    if {one, other} <= VALUES | _PLAIN:
        return VALUE
    if {one, other} <= ARRAYS | _PLAIN:
        return ARRAY
    if type(one) is Items and type(other) is Items:
        if len(one.kinds) == len(other.kinds):
            return Items(
                tuple(join(a, b) for a, b in zip(one.kinds, other.kinds, strict=True)),
                one.fields if one.fields == other.fields else (),
            )
        return Each(join_all((*one.kinds, *other.kinds)))
    if type(one) in (Items, Each) and type(other) in (Items, Each):
        return Each(join(item_of(one), item_of(other)))
    if type(one) is MethodOf and type(other) is MethodOf and one.name == other.name:
        owner = join(one.owner, other.owner)
        return MethodOf(owner, one.name) if owner in ARRAYS else UNKNOWN
    return UNKNOWN


def join_all(kinds: Iterable[Any]) -> Any:
    """Return the kind of a value that is of one of these kinds."""
    joined = None
    for kind in kinds:
        joined = join(joined, kind)
    return PLAIN if joined is None else joined


def item_of(kind: Any) -> Any:
    """Return the kind of the items of a tuple or an iterator."""
    return join_all(kind.kinds) if type(kind) is Items else kind.kind


# ---- Kinds of objects -------------------------------------------------------------------------------

# Attributes of each class that `namedtuple` or `NamedTuple` makes.
_NAMES = """_asdict _field_defaults _fields _make _replace __annotate__ __annotate_func__ __annotations__
__annotations_cache__ __conditional_annotations__ __doc__ __firstlineno__ __getnewargs__ __match_args__
__module__ __new__ __orig_bases__ __replace__ __repr__ __slots__ __static_attributes__"""
_OF_NAMED_TUPLES = frozenset(_NAMES.split())
_PLAIN_TYPES = frozenset({str, bytes, complex, type(None), type(...), range})
_KNOWN_TYPES = (ModuleType, FunctionType, BuiltinFunctionType, np.ufunc, type, type(np.sum))


def _is_of_plain_metaclass(cls: type) -> bool:
    """Return True for a class of which `isinstance`, `len`, an index and the like run no other code."""
    metaclass = type(cls)
    package = metaclass.__module__.partition(".")[0]
    return metaclass in (type, ABCMeta, EnumMeta) or package in ("numpy", __name__.partition(".")[0])


# The names of the classes of kernels, and of those around their arguments.
TRANSFERS = frozenset({"In", "InOut", "Out"})
KERNEL_TYPES = frozenset(
    {
        "ElementwiseKernel",
        "ExclusiveScanKernel",
        "Function",
        "InclusiveScanKernel",
        "Program",
        "ReductionKernel",
        "SourceModule",
    }
)


# Their methods, which run a kernel or return an object that does.
KERNEL_METHODS = frozenset({"launch", "get_function", "prepare", "prepared", "prepared_call"})


def is_kernel(value: Any) -> bool:
    """Return True for a kernel of the user's, or an object that makes such."""
    cls = type(value)
    return cls.__name__ in KERNEL_TYPES and cls.__module__.partition(".")[0] == __name__.partition(".")[0]


def is_launched(value: Any) -> bool:
    """Return True for a function of a `SourceModule`."""
    return type(value).__name__ == "Function" and is_kernel(value)


def kind_of(value: Any, source: Any = None, depth: int = 0) -> Any:
    """Return the kind of an object; an object of another class is known by its `source`."""
    cls = type(value)
    if cls is Tracer or issubclass(cls, LazyPandas):
        return TRACER
    if cls is float or cls is int or cls is bool:
        return NUMBER
    if value is MISSING:
        return UNKNOWN
    # Unlike `isinstance`, `issubclass` does not read the object's `__class__`, which may be a property.
    if issubclass(cls, type) and not _is_of_plain_metaclass(value):
        return UNKNOWN
    if issubclass(cls, _KNOWN_TYPES) or _is_fused(cls) or is_kernel(value):
        return Known(value)
    if issubclass(cls, (np.generic, np.dtype)):
        is_number = issubclass(cls, np.generic) and value.dtype in CODES
        has_object = issubclass(cls, np.void) and value.dtype.hasobject
        return NUMBER if is_number else UNKNOWN if has_object else PLAIN
    if cls in _PLAIN_TYPES:
        return PLAIN
    if cls is slice:
        return (
            SLICE
            if all(kind_of(each) in _PLAIN for each in (value.start, value.stop, value.step))
            else UNKNOWN
        )
    if cls is np.ndarray:
        return SUPPORTED_ARRAY if value.dtype in CODES else UNKNOWN if value.dtype.hasobject else ARRAY
    if cls is CodeType:
        return Known(value)
    if issubclass(cls, tuple) and len(value) <= _MAX_ITEMS and depth < 4:
        is_named = is_named_tuple(cls)
        if cls is tuple or is_named:
            kinds = [
                kind_of(each, None if source is None else ItemSource(source, index), depth + 1)
                for index, each in enumerate(value)
            ]
            return Items(tuple(kinds), getattr(cls, "_fields", ()))
        return UNKNOWN
    if cls in (list, dict, set, frozenset) and source is not None:
        parts = value.values() if cls is dict else value
        if len(value) > _MAX_ITEMS or depth > 2:
            return UNKNOWN
        if cls is dict and not all(type(key) in (str, int, float, bool) for key in value):
            return UNKNOWN
        kinds = [_nested(kind_of(part, source, depth + 1)) for part in parts]
        inner = tuple([kind for kind in kinds if type(kind) is Listed])
        return Listed(join_all([kind for kind in kinds if type(kind) is not Listed]), inner)
    if cls is functools.partial and depth < 4:
        return _kind_of_partial(value, source, depth)
    if is_generator(value) or cls.__name__ == "TracedGenerator":
        return GENERATOR
    if getattr(cls, "__module__", "") == "numpy.lib._index_tricks_impl":
        return Known(value)
    return UNKNOWN if source is None else ObjectOf(source, cls)


def is_named_tuple(cls: type) -> bool:
    """Return True for a class of `typing.NamedTuple` or `collections.namedtuple` with fields alone."""
    if cls.__bases__ != (tuple,) or type(cls) is not type:
        return False
    names = vars(cls)
    fields = names.get("_fields", ())
    are_fields = bool(fields) and all(type(names.get(name)) is _FIELD for name in fields)
    own = names.keys() - _OF_NAMED_TUPLES - set(fields)
    made_in = getattr(cls.__new__, "__globals__", {}).get("__name__")
    return are_fields and not own and made_in == f"namedtuple_{cls.__name__}"


def _is_fused(cls: type) -> bool:
    return any("is_fused_function" in vars(base) for base in cls.__mro__)


def _kind_of_partial(value: Any, source: Any, depth: int) -> Any:
    function, given = (None if source is None else PartialSource(source, name) for name in ("func", "args"))
    arguments = [
        kind_of(each, None if given is None else ItemSource(given, index), depth + 1)
        for index, each in enumerate(value.args)
    ]
    keywords = [(name, kind_of(each, None, depth + 1)) for name, each in value.keywords.items()]
    return Partial(kind_of(value.func, function, depth + 1), tuple(arguments), tuple(keywords))


def _nested(kind: Any) -> Any:
    """Return the kind of an item of a list: objects in it have no source."""
    return UNKNOWN if type(kind) is ObjectOf else kind


def has_no_effects(kind: Any, heap: dict[Any, Any], depth: int = 0) -> bool:
    """Return True if operators and NumPy functions of a value run no code that was not analysed."""
    if type(kind) in (Basic, Known):
        return kind not in (UNKNOWN, MANAGER)
    if depth > 5:
        return False
    if type(kind) is Items:
        return all(has_no_effects(each, heap, depth + 1) for each in kind.kinds)
    if type(kind) in (Each, Listed):
        return has_no_effects(kind.kind, heap, depth + 1)
    if type(kind) is Container:
        content = heap.get(kind.site)
        return content is None or has_no_effects(content, heap, depth + 1)
    return False


def reads_memory(kind: Any, heap: dict[Any, Any], depth: int = 0) -> bool:
    """Return True if a value may be or contain an array whose memory other code may reach."""
    if kind in (ARRAY, SUPPORTED_ARRAY):
        return True
    if depth > 5:
        return True
    if type(kind) is Items:
        return any(reads_memory(each, heap, depth + 1) for each in kind.kinds)
    if type(kind) in (Each, Listed):
        return reads_memory(kind.kind, heap, depth + 1)
    if type(kind) is Container:
        content = heap.get(kind.site)
        return content is not None and reads_memory(content, heap, depth + 1)
    return False
