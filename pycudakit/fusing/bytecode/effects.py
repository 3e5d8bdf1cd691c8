"""Effects of operations on values of known kinds, in one frame that is analysed."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from pycudakit.fusing.bytecode.collection_effects import OTHER_CODE
from pycudakit.fusing.bytecode.facts import Facts
from pycudakit.fusing.bytecode.known_calls import (
    Effect,
    attribute_of_array,
    attribute_of_module,
    call_kernel,
    call_known,
    call_method_of_array,
    member,
    module_of,
)
from pycudakit.fusing.bytecode.operator_effects import OperatorEffects
from pycudakit.fusing.bytecode.sources import (
    MISSING,
    AttributeSource,
    CellSource,
    DictSource,
    TypeSource,
    has_plain_attributes,
    plain_attribute,
    type_attribute,
)
from pycudakit.fusing.bytecode.value_kinds import (
    ARRAY,
    ARRAYS,
    GENERATOR,
    KERNEL_METHODS,
    MANAGER,
    NUMBER,
    PLAIN,
    SLICE,
    SUPPORTED_ARRAY,
    TRACER,
    UNKNOWN,
    VALUE,
    BoundFunction,
    Cell,
    Container,
    ContentsOf,
    Each,
    Items,
    Known,
    Listed,
    LocalFunction,
    MethodOf,
    ObjectOf,
    Partial,
    is_kernel,
    is_launched,
    join,
    kind_of,
)

# Methods of dicts, with the kinds of their items.
_OF_DICTS = {"items": Items((PLAIN, VALUE)), "keys": PLAIN, "values": VALUE}


class Effects(OperatorEffects):
    """The effects of operations in one frame.

    Parameters
    ----------
    facts
        The facts about the call.
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
        super().__init__(facts, code)
        self._function = function
        self._call_function = call_function
        if cells is None:
            cells = tuple([Cell(CellSource(cell)) for cell in function.__closure__ or ()])
        self._free = dict(zip(code.co_freevars, cells, strict=False))
        self.cells = frozenset((*code.co_cellvars, *code.co_freevars))  # names of variables in cells

    # ---- Variables -----------------------------------------------------------------------------------

    def global_kind(self, name: str) -> Any:
        """Return the kind of a global or built-in."""
        names = self._function.__globals__
        if name not in names and hasattr(builtins, name):
            self._facts.kinds[DictSource(names, name)] = UNKNOWN  # a global of this name may come
            return join(self.heap.get(DictSource(names, name)), kind_of(getattr(builtins, name)))
        source = DictSource(names, name)
        stored = self.heap.get(source)
        if stored is not None and self._facts.read(source) is MISSING:
            self._facts.kinds[source] = UNKNOWN
            return stored
        return join(stored, self._kind_at(source))

    def store_global(self, name: str, kind: Any) -> None:
        """Assign a global."""
        self.leak([kind])
        self._facts.store(DictSource(self._function.__globals__, name), self._leaked(kind))

    def _kind_at(self, source: Any) -> Any:
        """Return the kind of an object that other code may reach, too."""
        kind = self._facts.kind_at(source)
        if type(kind) is Listed:
            site = ContentsOf(source)
            self._facts.store(site, UNKNOWN)
            return Container(site)
        # Code that is not analysed may assign another number or array to the variable or attribute.
        may_be_replaced = self._facts.runs_other_code and kind in (NUMBER, SUPPORTED_ARRAY)
        return ARRAY if may_be_replaced else kind

    def cell(self, name: str) -> Any:
        """Return the cell of a variable."""
        return self._free.get(name) or Cell((id(self._code), name))

    def cell_value(self, name: str) -> Any:
        """Return the kind of a cell's value."""
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
        if owner is VALUE and name in _OF_DICTS:
            return Effect(MethodOf(owner, name))
        if owner in ARRAYS:
            effect, is_method = attribute_of_array(owner, name)
            return Effect(MethodOf(owner, name)) if is_method else effect
        if type(owner) is Known:
            return self._attribute_of_known(owner.value, name)
        if type(owner) is ObjectOf:
            return self._attribute_of_object(owner, name)
        if type(owner) is MethodOf and type(owner.owner) is Known and is_kernel(owner.owner.value):
            return Effect(MethodOf(owner.owner, name))
        if type(owner) is Items and name in owner.fields:
            return Effect(owner.kinds[owner.fields.index(name)])
        if owner in (PLAIN, SLICE, GENERATOR) or type(owner) in (Container, Items, Each):
            return Effect(MethodOf(owner, name))
        return Effect(UNKNOWN, f"reading .{name} {OTHER_CODE}")

    def _attribute_of_known(self, value: Any, name: str) -> Effect:
        if isinstance(value, ModuleType):
            known = attribute_of_module(value, name)
            if known is not None:
                return Effect(kind_of(known))
            if type(value) is ModuleType:
                source = DictSource(vars(value), name)
                is_missing = self._facts.read(source) is MISSING
                return Effect(self._kind_at(source), f"reading .{name} {OTHER_CODE}" if is_missing else "")
        if isinstance(value, np.ufunc) or value is member or (is_kernel(value) and name in KERNEL_METHODS):
            return Effect(MethodOf(Known(value), name))
        if isinstance(value, type) and type(value) is type:
            found = type_attribute(value, name)
            if isinstance(found, (int, float, str)):
                return Effect(self._facts.kind_at(TypeSource(value, name)))
        return Effect(UNKNOWN, f"reading .{name} {OTHER_CODE}")

    def _attribute_of_object(self, owner: ObjectOf, name: str) -> Effect:
        if not has_plain_attributes(owner.cls):
            return Effect(UNKNOWN, f"reading .{name} {OTHER_CODE}: its class has __getattr__")
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
        return Effect(UNKNOWN, f"reading .{name} {OTHER_CODE}: it is a property")

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
        return Effect(None, f"setting .{name} {OTHER_CODE}")

    def match_class(self, cls: Any, value: Any, count: int, names: tuple[str, ...]) -> list[Effect]:
        """Return the effects of reading the attributes of a value that a class pattern names."""
        if type(cls) is not Known or type(cls.value) is not type:
            return [Effect(UNKNOWN, f"it matches a class that {OTHER_CODE}")] * max(count + len(names), 1)
        by_place = type_attribute(cls.value, "__match_args__")
        if by_place is MISSING:
            own = [Effect(value)] * count  # of `int(n)` and its like
        elif type(by_place) is tuple and len(by_place) >= count:
            own = [self.attribute(value, name) for name in by_place[:count]]
        else:
            own = [Effect(UNKNOWN)] * count  # it raises
        return [*own, *(self.attribute(value, name) for name in names)]

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
            return Effect(UNKNOWN, f"it calls {_name_of(function)}", dispatches=True)
        return effect

    def _known_call(self, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Effect | None:
        if type(function) is LocalFunction or (type(function) is Known and _is_python(function.value)):
            return self._call_function(function, arguments, keywords)
        if type(function) is BoundFunction:
            return self._call_function(function.function, [function.owner, *arguments], keywords)
        if type(function) is Known and function.value is functools.partial and arguments:
            return Effect(Partial(arguments[0], tuple(arguments[1:]), tuple(keywords.items())))
        if type(function) is Known:
            effect = call_known(function.value, arguments, keywords, self.heap)
            return (
                effect._replace(kind=self.container_of_call())
                if (effect is not None and type(effect.kind) is Container)
                else effect
            )
        if type(function) is MethodOf:
            return self._call_method(function, arguments, keywords)
        if type(function) is Partial:
            given = [*function.arguments, *arguments]
            return self._known_call(function.function, given, {**dict(function.keywords), **keywords})
        return None

    def call_unpacked(self, function: Any, arguments: Any, keywords: Any) -> Effect:
        """Return the effect of a call with `*arguments`, and `**keywords` if these are not None."""
        # The keywords of a kernel's launch, `block` and its like, are no arrays.
        is_launch = type(function) is Known and is_launched(function.value)
        if type(arguments) is Items and (is_launch or keywords is None):
            return self.call(function, list(arguments.kinds), {})
        self.leak([arguments, keywords])
        return Effect(UNKNOWN, "it calls a function with unpacked arguments", dispatches=True)

    def _call_method(self, method: MethodOf, arguments: list[Any], keywords: dict[str, Any]) -> Effect | None:
        owner, name = method.owner, method.name
        if owner is VALUE and name in _OF_DICTS and not (arguments or keywords):
            return Effect(Each(_OF_DICTS[name]))
        if owner in ARRAYS:
            return call_method_of_array(owner, name, arguments, keywords, self.heap)
        values = [*arguments, *keywords.values()]
        if owner is MANAGER:
            return Effect(PLAIN)
        if type(owner) is Known and is_kernel(owner.value):
            effect = call_kernel(name, values, self.heap)
            return effect._replace(kind=method) if name.startswith(("get_function", "prepare")) else effect
        if type(owner) is Known:  # a ufunc's method
            first = arguments[0] if arguments else UNKNOWN
            effect = self.read_all(values, f"{owner.value.__name__}.{name}()")
            return Effect(effect.kind, effect.risk) if first is not UNKNOWN else None
        if owner in (PLAIN, SLICE, GENERATOR):
            effect = self.read_all(values, f".{name}()")
            return Effect(effect.kind if owner is GENERATOR else PLAIN, effect.risk)
        if type(owner) is Container:
            return self.call_container(owner, name, arguments, keywords)
        if type(owner) is Items and owner.fields and name == "_replace" and not arguments:
            parts = dict(zip(owner.fields, owner.kinds, strict=True)) | keywords
            are_known = len(parts) == len(owner.kinds)
            return Effect(Items(tuple(parts.values()), owner.fields)) if are_known else None
        if type(owner) in (Items, Each) and name in ("index", "count"):
            return self.read_all([owner, *arguments], f".{name}()")._replace(kind=NUMBER)
        return None


def _is_python(value: Any) -> bool:
    """Return True for a function whose body is analysed: not NumPy's or pycudakit's own."""
    function = value.__wrapped__ if getattr(type(value), "is_fused_function", False) else value
    if type(function) is not FunctionType:
        return False
    return module_of(function).partition(".")[0] not in ("numpy", __name__.partition(".")[0])


def _name_of(function: Any) -> str:
    if type(function) in (Known, BoundFunction):
        value = function.value if type(function) is Known else function.function.value
        return f"{getattr(value, '__name__', type(value).__name__)}()"
    if type(function) is Partial:
        return _name_of(function.function)
    return f".{function.name}()" if type(function) is MethodOf else "an object that is not known"
