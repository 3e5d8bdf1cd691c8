"""Effects of operations on values of known kinds, in one frame that is analysed."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from pycudakit.fusing.bytecode.known_calls import (
    Effect,
    attribute_of_array,
    attribute_of_module,
    call_known,
    call_method_of_array,
    items,
    member,
    module_of,
)
from pycudakit.fusing.bytecode.opcodes import Instruction
from pycudakit.fusing.bytecode.value_kinds import (
    ARRAY,
    CAPTURED_ARRAY,
    GENERATOR,
    MANAGER,
    MISSING,
    NUMBER,
    PLAIN,
    SLICE,
    TRACER,
    UNKNOWN,
    VALUE,
    AttributeSource,
    BoundFunction,
    Cell,
    CellSource,
    Container,
    DictSource,
    Each,
    Items,
    Known,
    Listed,
    LocalFunction,
    MethodOf,
    ObjectOf,
    TypeSource,
    has_no_effects,
    has_plain_attributes,
    item_of,
    join,
    join_all,
    kind_of,
    plain_attribute,
    reads_memory,
    type_attribute,
)

_VALUES = frozenset({TRACER, NUMBER, VALUE})
_ARRAYS = _VALUES | {CAPTURED_ARRAY, ARRAY}
_OTHER_CODE = "may run other code"
_CONTAINER_METHODS = {
    "append",
    "extend",
    "insert",
    "pop",
    "copy",
    "clear",
    "get",
    "items",
    "keys",
    "values",
    "index",
    "count",
    "reverse",
    "add",
    "discard",
    "setdefault",
    "popitem",
    "update",
}


class Facts:
    """What the analysis of a call has read and found, shared by its frames.

    Parameters
    ----------
    read
        Returns the object of a source.
    """

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self.read = read
        self.kinds: dict[Any, Any] = {}  # by source: what a later call must have, too
        self.heap: dict[Any, Any] = {}  # kinds in containers, cells and attributes, joined over the call
        self.has_changed = False  # the heap, since the analysis began
        self.runs_other_code = False  # then numbers and arrays in attributes may have been replaced

    def kind_at(self, source: Any) -> Any:
        """Return the kind of a source's object, and remember it."""
        kind = self.kinds.get(source)
        if kind is None:
            kind = self.kinds[source] = kind_of(self.read(source), source)
        return kind

    def store(self, site: Any, kind: Any) -> None:
        """Join a kind to those at a site of the heap."""
        before = self.heap.get(site)
        after = join(before, kind)
        if after != before:
            self.heap[site] = after
            self.has_changed = True


class Effects:
    """The effects of operations in one frame.

    Parameters
    ----------
    facts
        What is known about the call.
    code
        The frame's code.
    function
        The function whose globals the frame reads, and whose closure it has.
    cells
        The closure of a function that analysed code defines, else None.
    call_function
        Analyses the call of a Python function.
    """

    def __init__(
        self,
        facts: Facts,
        code: CodeType,
        function: FunctionType,
        cells: tuple[Any, ...] | None,
        call_function: Callable[..., Effect | None],
    ) -> None:
        self._facts = facts
        self._code = code
        self._function = function
        self._call_function = call_function
        if cells is None:
            cells = tuple([Cell(CellSource(cell)) for cell in function.__closure__ or ()])
        self._free = dict(zip(code.co_freevars, cells, strict=False))
        self.cells = frozenset((*code.co_cellvars, *code.co_freevars))  # names of variables in cells

    @property
    def heap(self) -> dict[Any, Any]:
        """The kinds in containers and cells."""
        return self._facts.heap

    # ---- Variables -----------------------------------------------------------------------------------

    def global_kind(self, name: str) -> Any:
        """Return the kind of a global or built-in."""
        names = self._function.__globals__
        if name not in names and hasattr(builtins, name):
            self._facts.kinds[DictSource(names, name)] = UNKNOWN  # a global of this name may come
            return kind_of(getattr(builtins, name))
        return self._kind_at(DictSource(names, name))

    def _kind_at(self, source: Any) -> Any:
        """Return the kind of an object that other code may reach, too."""
        kind = self._facts.kind_at(source)
        if type(kind) is Listed:
            self._facts.store(source, UNKNOWN)
            return Container(source)
        may_be_replaced = self._facts.runs_other_code and kind in (NUMBER, CAPTURED_ARRAY)
        return ARRAY if may_be_replaced else kind

    def cell(self, name: str) -> Any:
        """Return the cell of a variable."""
        return self._free.get(name) or Cell((id(self._code), name))

    def cell_value(self, name: str) -> Any:
        """Return the kind of what a cell holds."""
        cell = self.cell(name)
        if type(cell) is not Cell:
            return UNKNOWN
        stored = self.heap.get(cell.site)
        if type(cell.site) is CellSource:
            return join(stored, self._kind_at(cell.site))
        return PLAIN if stored is None else stored

    def store_cell_value(self, name: str, kind: Any) -> str:
        """Store a kind in a cell; return the risk."""
        cell = self.cell(name)
        if type(cell) is Cell:
            self._facts.store(cell.site, kind)
            if type(cell.site) is CellSource:
                self.leak([kind])
        return ""

    # ---- Attributes ----------------------------------------------------------------------------------

    def attribute(self, owner: Any, name: str) -> Effect:
        """Return the effect of reading an attribute."""
        if owner in _ARRAYS:
            effect, is_method = attribute_of_array(owner, name)
            return Effect(MethodOf(owner, name)) if is_method else effect
        if type(owner) is Known:
            return self._attribute_of_known(owner.value, name)
        if type(owner) is ObjectOf:
            return self._attribute_of_object(owner, name)
        if type(owner) is Items and name in owner.fields:
            return Effect(owner.kinds[owner.fields.index(name)])
        if owner in (PLAIN, SLICE, GENERATOR) or type(owner) in (Container, Items, Each):
            return Effect(MethodOf(owner, name))
        return Effect(UNKNOWN, f"reading .{name} {_OTHER_CODE}")

    def _attribute_of_known(self, value: Any, name: str) -> Effect:
        if isinstance(value, ModuleType):
            known = attribute_of_module(value, name)
            if known is not None:
                return Effect(kind_of(known))
            if type(value) is ModuleType:
                source = DictSource(vars(value), name)
                is_missing = self._facts.read(source) is MISSING
                return Effect(self._kind_at(source), f"reading .{name} {_OTHER_CODE}" if is_missing else "")
        if isinstance(value, np.ufunc) or value is member:
            return Effect(MethodOf(Known(value), name))
        if isinstance(value, type) and type(value) is type:
            found = type_attribute(value, name)
            if isinstance(found, (int, float, str)):
                return Effect(self._facts.kind_at(TypeSource(value, name)))
        return Effect(UNKNOWN, f"reading .{name} {_OTHER_CODE}")

    def _attribute_of_object(self, owner: ObjectOf, name: str) -> Effect:
        if not has_plain_attributes(owner.cls):
            return Effect(UNKNOWN, f"reading .{name} {_OTHER_CODE}: its class has __getattr__")
        stored = self.heap.get(("attribute", name))
        on_type = type_attribute(owner.cls, name)
        source = AttributeSource(owner.source, name)
        if plain_attribute(self._facts.read(owner.source), name) is not MISSING:
            return Effect(join(stored, self._kind_at(source)))
        self._facts.kinds[source] = UNKNOWN  # the object itself has none
        if type(on_type) is FunctionType or getattr(type(on_type), "is_fused_function", False):
            self._facts.kind_at(TypeSource(owner.cls, name))
            return Effect(BoundFunction(owner, Known(on_type)))
        if on_type is MISSING:
            return Effect(UNKNOWN if stored is None else stored)
        if not hasattr(type(on_type), "__get__"):
            return Effect(join(stored, self._kind_at(TypeSource(owner.cls, name))))
        return Effect(UNKNOWN, f"reading .{name} {_OTHER_CODE}: it is a property")

    def store_attribute(self, owner: Any, name: str, value: Any) -> Effect:
        """Return the effect of setting an attribute."""
        self.leak([value])
        if owner is TRACER and name in ("shape", "dtype", "strides", "real", "imag", "flat"):
            return Effect(None)
        self._facts.store(("attribute", name), self._leaked(value))
        if type(owner) is ObjectOf and has_plain_attributes(owner.cls, "__setattr__"):
            on_type = type_attribute(owner.cls, name)
            is_slot = type(on_type).__name__ == "member_descriptor"
            if on_type is MISSING or is_slot or not hasattr(type(on_type), "__set__"):
                return Effect(None)
        return Effect(None, f"setting .{name} {_OTHER_CODE}")

    # ---- Operators -----------------------------------------------------------------------------------

    def binary(self, left: Any, right: Any, is_in_place: bool, is_power: bool) -> Effect:
        """Return the effect of a binary operator."""
        is_outside = is_in_place and left in (ARRAY, CAPTURED_ARRAY)
        if left is TRACER or (right is TRACER and left in _ARRAYS | {PLAIN} and not is_outside):
            # The tracer computes what is pending before it leaves the operator to another object.
            if not has_no_effects(right, self.heap):
                return Effect(UNKNOWN, "", is_recorded=True)
            is_real = {left, right} <= {TRACER, NUMBER, CAPTURED_ARRAY}
            return Effect(TRACER if is_real else VALUE, "", is_recorded=True)
        if not (has_no_effects(left, self.heap) and has_no_effects(right, self.heap)):
            return Effect(UNKNOWN, f"an operator of an object that {_OTHER_CODE}")
        if type(left) is Known or type(right) is Known:
            return Effect(UNKNOWN, f"an operator of an object that {_OTHER_CODE}")
        if is_outside:
            return Effect(ARRAY, "an in-place operator of an array that is not an argument")
        if left is NUMBER and right is NUMBER:
            return Effect(PLAIN if is_power else NUMBER)
        if left in (NUMBER, PLAIN, SLICE) and right in (NUMBER, PLAIN, SLICE):
            return Effect(PLAIN)
        if type(left) in (Items, Each) and type(right) in (Items, Each):
            if type(left) is type(right) is Items:
                return Effect(Items((*left.kinds, *right.kinds)))
            return Effect(Each(join(item_of(left), item_of(right))))
        if type(left) in (Items, Each) and right in (NUMBER, PLAIN):
            return Effect(Each(item_of(left)))
        if type(left) is Container:
            part = items(right, self.heap) if type(right) in (Container, Items, Each) else None
            if part is not None:
                self.add(left, part)
            if is_in_place or part is not None or right in (NUMBER, PLAIN):
                return Effect(left)
        if reads_memory(left, self.heap) or reads_memory(right, self.heap):
            return Effect(VALUE, "an operator reads an array that is not an argument")
        return Effect(VALUE)

    def compare(self, left: Any, right: Any) -> Effect:
        """Return the effect of a comparison."""
        if all(kind in (NUMBER, PLAIN, SLICE) or type(kind) is Known for kind in (left, right)):
            return Effect(NUMBER)
        effect = self.binary(left, right, is_in_place=False, is_power=False)
        return effect if effect.kind in (TRACER, UNKNOWN) else effect._replace(kind=VALUE)

    def unary(self, kind: Any) -> Effect:
        """Return the effect of a sign or `~`."""
        if kind is TRACER or kind in (NUMBER, PLAIN, VALUE):
            return Effect(kind, "", kind is TRACER)
        return self.read_all([kind], "an operator")._replace(kind=VALUE if kind in _ARRAYS else UNKNOWN)

    def read_all(self, kinds: list[Any], operation: str) -> Effect:
        """Return the effect of an operation that reads values."""
        if not all(has_no_effects(kind, self.heap) for kind in kinds):
            return Effect(UNKNOWN, f"{operation} of an object that {_OTHER_CODE}")
        if any(reads_memory(kind, self.heap) for kind in kinds):
            return Effect(VALUE, f"{operation} reads an array that is not an argument")
        return Effect(VALUE)

    def subscript(self, owner: Any, index: Any) -> Effect:
        """Return the effect of indexing."""
        if not has_no_effects(index, self.heap):
            return Effect(UNKNOWN, f"an index that {_OTHER_CODE}")
        if owner in (ARRAY, CAPTURED_ARRAY):
            parts = index.kinds if type(index) is Items else (index,)
            is_view = SLICE in parts and all(part in (SLICE, NUMBER, PLAIN) for part in parts)
            return Effect(owner, "" if is_view else "an index reads an array that is not an argument")
        if owner is TRACER:
            risk = "an index reads an array that is not an argument" if reads_memory(index, self.heap) else ""
            return Effect(TRACER, risk, is_recorded=True)
        if owner in (VALUE, NUMBER, PLAIN):
            return Effect(owner)
        if type(owner) is Items:
            return Effect(Each(item_of(owner)) if index is SLICE else item_of(owner))
        if type(owner) is Each:
            return Effect(owner if index is SLICE else owner.kind)
        if type(owner) is Container:
            content = self.heap.get(owner.site)
            return Effect(owner if index is SLICE else PLAIN if content is None else content)
        if type(owner) is Known and type(owner.value).__module__ == "numpy.lib._index_tricks_impl":
            return self.read_all([index], "an index")
        return Effect(UNKNOWN, f"an index of an object that {_OTHER_CODE}")

    def store_subscript(self, owner: Any, index: Any, value: Any) -> Effect:
        """Return the effect of an assignment to an index."""
        if type(owner) is Container and has_no_effects(index, self.heap):
            self.add(owner, value)
            return Effect(None)
        if owner in _VALUES:
            if not (has_no_effects(index, self.heap) and has_no_effects(value, self.heap)):
                self.leak([value])
                return Effect(None, f"it stores an object that {_OTHER_CODE} in an array")
            is_read = reads_memory(index, self.heap) or (
                value is ARRAY or (type(value) in (Items, Each, Container) and reads_memory(value, self.heap))
            )
            return Effect(
                None, "it reads an array that is not an argument" if is_read else "", owner is TRACER
            )
        self.leak([value])
        if owner in _ARRAYS:
            return Effect(None, "it writes to an array that is not an argument")
        return Effect(None, f"an assignment to an item of an object that {_OTHER_CODE}")

    # ---- Collections ---------------------------------------------------------------------------------

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
        part = items(kind, self.heap)
        if part is None:
            return Effect(UNKNOWN, f"it iterates over an object that {_OTHER_CODE}")
        if kind in (ARRAY, CAPTURED_ARRAY):
            return Effect(part, "it iterates over an array that is not an argument")
        return Effect(part)

    def leak(self, kinds: list[Any]) -> None:
        """Note that other code may change what these containers hold."""
        for kind in kinds:
            if type(kind) is Container and self.heap.get(kind.site) is not UNKNOWN:
                content = self.heap.get(kind.site)
                self._facts.store(kind.site, UNKNOWN)
                self.leak([content])
            elif type(kind) in (Items, Each):
                self.leak([item_of(kind)] if type(kind) is Each else list(kind.kinds))

    @staticmethod
    def _leaked(kind: Any) -> Any:
        return UNKNOWN if type(kind) is Container else kind

    # ---- Calls ---------------------------------------------------------------------------------------

    def local_function(
        self, code: CodeType, defaults: tuple[Any, ...], cells: tuple[Any, ...]
    ) -> LocalFunction:
        """Return a function that the frame defines."""
        return LocalFunction(code, defaults, (), cells, self._function)

    def call(self, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Effect:
        """Return the effect of a call."""
        effect = self._known_call(function, arguments, keywords)
        if effect is None:
            self.leak([*arguments, *keywords.values()])
            if type(function) is MethodOf:
                self.leak([function.owner])
            self._facts.has_changed |= not self._facts.runs_other_code
            self._facts.runs_other_code = True
            return Effect(UNKNOWN, f"it calls {_name_of(function)}")
        return effect

    def _known_call(self, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Effect | None:
        if type(function) is LocalFunction or (type(function) is Known and _is_python(function.value)):
            return self._call_function(function, arguments, keywords)
        if type(function) is BoundFunction:
            return self._call_function(function.function, [function.owner, *arguments], keywords)
        if type(function) is Known:
            effect = call_known(function.value, arguments, keywords, self.heap)
            return (
                effect._replace(kind=self.container_of_call())
                if (effect is not None and type(effect.kind) is Container)
                else effect
            )
        if type(function) is MethodOf:
            return self._call_method(function, arguments, keywords)
        return None

    def container_of_call(self) -> Any:
        """Return the kind of a new, empty dict."""
        return Container((id(self._code), "dict"))

    def _call_method(self, method: MethodOf, arguments: list[Any], keywords: dict[str, Any]) -> Effect | None:
        owner, name = method.owner, method.name
        if owner in _ARRAYS:
            return call_method_of_array(owner, name, arguments, keywords, self.heap)
        values = [*arguments, *keywords.values()]
        if owner is MANAGER:
            return Effect(PLAIN)
        if type(owner) is Known:  # a ufunc's method
            first = arguments[0] if arguments else UNKNOWN
            effect = self.read_all(values, f"{owner.value.__name__}.{name}()")
            return Effect(effect.kind, effect.risk) if first is not UNKNOWN else None
        if owner in (PLAIN, SLICE, GENERATOR):
            effect = self.read_all(values, f".{name}()")
            return Effect(effect.kind if owner is GENERATOR else PLAIN, effect.risk)
        if type(owner) is Container and name in _CONTAINER_METHODS and not keywords:
            return self._call_container(owner, name, arguments)
        if type(owner) in (Items, Each) and name in ("index", "count"):
            return self.read_all([owner, *arguments], f".{name}()")._replace(kind=NUMBER)
        return None

    def _call_container(self, owner: Container, name: str, arguments: list[Any]) -> Effect | None:
        content = self.heap.get(owner.site)
        content = PLAIN if content is None else content
        if name in ("append", "add", "discard"):
            self.add(owner, arguments[-1] if arguments else PLAIN)
            is_hashed = name != "append" and not has_no_effects(
                arguments[-1] if arguments else PLAIN, self.heap
            )
            return None if is_hashed else Effect(PLAIN)
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


def _is_python(value: Any) -> bool:
    """Return True for a function whose body is analysed: not NumPy's or pycudakit's own."""
    function = value.__wrapped__ if getattr(type(value), "is_fused_function", False) else value
    if type(function) is not FunctionType or inspect.isgeneratorfunction(function):
        return False
    return module_of(function).partition(".")[0] not in ("numpy", __name__.partition(".")[0])


def _name_of(function: Any) -> str:
    if type(function) in (Known, BoundFunction):
        value = function.value if type(function) is Known else function.function.value
        return f"{getattr(value, '__name__', type(value).__name__)}()"
    return f".{function.name}()" if type(function) is MethodOf else "an object that is not known"
