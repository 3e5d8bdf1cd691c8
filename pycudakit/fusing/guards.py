"""Purity analysis from bytecode, and guards on free variables.

A fused function can be replayed if its bytecode has no side effects and its globals, closure cells and
defaults are constants, small arrays, modules and functions that are known, or other pure functions. The
guards are the values of these free variables, and of the attributes of NumPy's modules that it reads, which a
test may replace: a replay is valid as long as they are unchanged, and so are the elements of the arrays.
"""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import attrgetter, is_
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from pycudakit._native.abi import address_of
from pycudakit._native.dtypes import CODES, Array
from pycudakit.fusing.bytecode.code_uses import code_uses
from pycudakit.fusing.bytecode.known_calls import module_of
from pycudakit.fusing.bytecode.sources import MISSING, has_plain_attributes, type_attribute
from pycudakit.fusing.bytecode.value_kinds import is_named_tuple
from pycudakit.fusing.execute.capture import key_of_constant
from pycudakit.fusing.memory.buffer import owner_of

MAX_ARRAY_BYTES = 32 << 10  # of an array, or of the base of a view; a trace copies such arrays
_MAX_FUNCTIONS = 64  # with the methods of objects among the arguments
MAX_DEPTH = 8  # of nested tuples in a key: other calls are traced
_OURS = __name__.partition(".")[0]
_NUMPY = ("numpy", "math")
_MODULES = ("math", "numpy", "numpy.linalg", _OURS, f"{_OURS}.image", f"{_OURS}.linalg", f"{_OURS}.numpy")
_NAMES = """abs bool divmod enumerate float int isinstance issubclass len max min pow range reversed round
slice sum tuple zip"""
_BUILTINS = tuple(getattr(builtins, name) for name in _NAMES.split())
_FUNCTIONS: tuple[Any, ...] = (BuiltinFunctionType, FunctionType, np.ufunc, type(np.sum))
# Rules of opcodes that have side effects past arrays and the function's own objects, or handle exceptions.
_IMPURE_RULES = frozenset(
    """begin_generator begin_try delete_attribute delete_cell_value delete_global delete_local
    delete_subscript end_send end_throw import_from import_name jump_if_no_match load_super_attribute
    match_exception send store_attribute store_global unanalysed yield_from yield_value""".split()  # noqa: SIM905
)
# Attributes, mostly of modules, that have side effects or depend on external state.
_NAMES = """__enter__ apply_along_axis apply_over_axes ctypes ctypeslib data dump dumps engine explain
fromfile fromfunction frompyfunc fuse genfromtxt get_printoptions geterr geterrcall getbufsize info lib load
loadtxt memmap memory_info nditer printoptions profile release save savetxt savez savez_compressed setflags
testing tofile vectorize"""
_IMPURE_NAMES = frozenset(_NAMES.split())
# Special names of a class whose objects behave as those of `object`.
_NAMES = """__annotate__ __annotate_func__ __annotations__ __annotations_cache__ __class_getitem__
__conditional_annotations__ __dataclass_fields__ __dataclass_params__ __dict__ __doc__ __eq__ __firstlineno__
__hash__ __init__ __init_subclass__ __match_args__ __module__ __orig_bases__ __parameters__ __post_init__
__qualname__ __replace__ __repr__ __slotnames__ __static_attributes__ __str__ __weakref__"""
_PLAIN_NAMES = frozenset(_NAMES.split())


class ImpureError(Exception):
    """A function may have side effects, or a free variable may change without a guard that sees it."""


class GuardedMemory(NamedTuple):
    """The memory of an array that is a free variable, or of the base of such a view."""

    number: int  # of the evaluation's arrays that are no views, in the order in which they occur
    begin: int
    end: int
    content: bytes  # with which the next evaluation compares
    digest: bytes  # of the content, for the key


class Evaluation:
    """The arrays that one evaluation of guards has read so far, and their memory, by the id of the base."""

    def __init__(self) -> None:
        self.memory: dict[int, GuardedMemory] = {}
        self.arrays: dict[int, int] = {}  # numbers, by the id of the array
        self.count = 0  # of arrays, each time that one occurs


class Guards:
    """Guards of one pure function: the values of its free variables, as a hashable key.

    Parameters
    ----------
    function
        The function to analyse.

    Attributes
    ----------
    sets_errors
        Whether it sets NumPy's error handling: calls with other settings have other keys.
    has_arrays
        Whether arrays were among the free variables at the last evaluation.
    attributes
        The names of all attributes that the function reads, and the pure functions that it calls.

    Raises
    ------
    ImpureError
        If the function may have side effects, or depend on state that can change unseen.
    """

    def __init__(self, function: FunctionType) -> None:
        self._reads: list[Callable[[], Any]] = []  # each returns the current value of a free variable
        self._functions: list[Any] = []  # whose free variables are among them
        self._modules: dict[ModuleType, set[str]] = {}  # that are known, with the attributes that are read
        self._attribute_reads: list[Callable[[], tuple[Any, ...]]] = []  # those of one module each
        self._first_attributes: dict[int, Any] = {}  # of modules, by id, which is their key
        self.sets_errors = False  # by `np.errstate`
        self._last: tuple[list[Any], tuple[Any, ...]] = [], ()  # the last values, and their key
        self.has_arrays = False
        self._memory: dict[int, GuardedMemory] = {}  # of the last evaluation
        self._impure_methods: list[FunctionType] = []
        self.attributes: set[str] = set()
        self._add(function)
        self._read_attributes()
        self.evaluate()

    def _read_attributes(self) -> None:
        """Let each evaluation read the attributes of modules that were added."""
        self._attribute_reads = [
            partial(attrgetter("__name__", *sorted(names)), module)  # a tuple, also of one name
            for module, names in self._modules.items()
        ]

    def evaluate(self, evaluation: Evaluation | None = None) -> tuple[Any, ...]:
        """Return the key of the current values; raise ImpureError for a list or another mutable value.

        The `evaluation` may have arrays of `keys_of_objects`.
        """
        evaluation = evaluation or Evaluation()
        last_values, values_key = self._last
        try:
            values = [read() for read in self._reads]
            for read in self._attribute_reads:
                values += read()
        except (AttributeError, ValueError):  # it has been deleted: the body raises NumPy's or Python's error
            raise ImpureError from None
        # The same objects give the same key, but for arrays, whose elements may have changed.
        if self.has_arrays or len(values) != len(last_values) or not all(map(is_, values, last_values)):
            before = evaluation.count
            values_key = tuple([self._key_of(value, evaluation) for value in values])
            self._last = values, values_key
            self.has_arrays = evaluation.count > before
        self._memory = evaluation.memory
        return (*values_key, *np.geterr().values()) if self.sets_errors else values_key

    def _key_of(self, value: Any, evaluation: Evaluation, depth: int = 0) -> Any:
        """Return the part of the key for a value."""
        kind = type(value)
        if id(value) in self._first_attributes:
            return id(value)
        if kind is tuple and depth < MAX_DEPTH:
            return kind, tuple([self._key_of(part, evaluation, depth + 1) for part in value])
        if kind is np.ndarray:
            return self._key_of_array(value, evaluation)
        if (key := key_of_constant(value)) is not None:
            return key
        if kind is CodeType or _is_pure(value) or any(value is function for function in self._functions):
            return value
        raise ImpureError

    def _key_of_array(self, array: Array, evaluation: Evaluation) -> Any:
        owner, dtype = owner_of(array), array.dtype
        is_known = dtype in CODES and dtype.metadata is None and type(owner) is np.ndarray
        if not is_known or not owner.flags.forc or owner.nbytes > MAX_ARRAY_BYTES:
            raise ImpureError
        begin, content = address_of(owner), owner.tobytes("A")
        last = self._memory.get(id(owner))
        if last is None or last.content != content or last.begin != begin:
            digest = hashlib.blake2b(content, digest_size=16).digest()
            last = GuardedMemory(0, begin, begin + len(content), content, digest)
        memory, arrays = evaluation.memory, evaluation.arrays
        number = memory[id(owner)].number if id(owner) in memory else len(memory)
        memory[id(owner)] = last._replace(number=number)
        evaluation.count += 1
        # The body may test whether two variables are one array, or share memory.
        identity = arrays.setdefault(id(array), len(arrays)), number
        layout = dtype.char, array.shape, array.strides, array.flags.num, address_of(array) - begin
        return last.digest, identity, layout

    def keys_of_objects(self, objects: Sequence[Any], evaluation: Evaluation) -> tuple[Any, ...]:
        """Return the keys of objects of other classes, which `evaluate` is to follow.

        A key has the values of the attributes that the function may read. The free variables of methods are
        guarded from now on. Raises ImpureError for objects that may run other code, and other attributes.
        """
        return tuple([self._key_of_object(each, evaluation) for each in objects])

    def _key_of_object(self, value: Any, evaluation: Evaluation) -> tuple[Any, ...]:
        cls: Any = type(value)
        names = getattr(value, "__dict__", None)
        if not (_has_plain_objects(cls) and type(names) is dict):
            raise ImpureError
        parts: list[Any] = [cls]
        pending, seen = [*self.attributes], set(self.attributes)
        while pending:
            name = pending.pop()
            on_class = type_attribute(cls, name) if hasattr(cls, name) else MISSING
            if hasattr(type(on_class), "__set__"):  # a property, or a slot
                raise ImpureError
            found = names.get(name, on_class)
            if found is MISSING:
                continue
            if found is not on_class or type(found) is not FunctionType:
                parts += name, self._key_of(found, evaluation)
                continue
            self._add_method(found)
            parts += name, found
            pending += self.attributes - seen
            seen |= self.attributes
        return tuple(parts)

    def _add_method(self, method: FunctionType) -> None:
        """Add the free variables of a method; raise ImpureError if it may have side effects."""
        if any(method is function for function in self._functions):
            return
        if len(self._functions) >= _MAX_FUNCTIONS or any(method is each for each in self._impure_methods):
            raise ImpureError
        if guards_of(method) is None:
            self._impure_methods = [*self._impure_methods[1 - _MAX_FUNCTIONS :], method]
            raise ImpureError
        self._add(method)
        self._read_attributes()

    def _add(self, callee: Any) -> None:
        """Add the free variables of a function, and those of the pure functions that it calls."""
        if any(callee is each for each in self._functions):
            return
        self._functions.append(callee)
        function = callee.__wrapped__ if _is_fused(callee) else callee
        names = _globals_of(function.__code__) if type(function) is FunctionType else None
        if names is None:
            raise ImpureError
        self.attributes |= code_uses(function.__code__).attributes
        self.sets_errors |= "errstate" in self.attributes
        readers: list[Callable[[], Any]] = [partial(_global, function.__globals__, name) for name in names]
        readers += [partial(getattr, cell, "cell_contents") for cell in function.__closure__ or ()]
        readers += [partial(getattr, function, name) for name in ("__defaults__", "__code__")]
        self._reads += [*readers, partial(_named_defaults, function)]
        for read in readers:
            value = read()
            if isinstance(value, ModuleType):
                self._add_module(value, code_uses(function.__code__).attributes)
            elif _is_fused(value) or (type(value) is FunctionType and not _is_pure(value)):
                self._add(value)

    def _add_module(self, module: ModuleType, attributes: frozenset[str]) -> None:
        """Add the attributes of a known module that a function may read, and those of its modules."""
        if module.__name__.partition(".")[0] not in (*_NUMPY, _OURS):
            return
        known = self._modules.setdefault(module, set())
        for name in attributes - known:
            if name not in vars(module):
                continue
            known.add(name)
            value = vars(module)[name]
            if type(value) is not np.ndarray:
                self._first_attributes[id(value)] = value
            if isinstance(value, ModuleType):
                self._add_module(value, attributes)
            elif not _is_known(value):
                self._add(value)


def _has_plain_objects(cls: Any) -> bool:
    """Return True for a class in Python whose objects have attributes and methods, but no operators."""
    return type(cls) is type and has_plain_attributes(cls) and _has_plain_names(cls)


@lru_cache(256)
def _has_plain_names(cls: Any) -> bool:
    names = {name for base in cls.__mro__[:-1] for name in vars(base)}
    return all(name in _PLAIN_NAMES or not name.startswith("__") for name in names)


def guards_of(function: Any) -> Guards | None:
    """Return the guards of a function; None if it may have side effects, or its state can change unseen."""
    if type(function) is MethodType:
        function = function.__func__
    if type(function) is not FunctionType:
        return None
    try:
        return Guards(function)
    except (ImpureError, ValueError):  # a cell may be empty
        return None


def _is_fused(value: Any) -> bool:
    """Return True for an instance of `fusing.api.Fused`, which this module cannot import."""
    return getattr(type(value), "is_fused_function", False) is True


def _is_pure(value: Any) -> bool:
    """Return True for a known module, built-in or function that has no side effects."""
    if isinstance(value, ModuleType):
        return value.__name__ in _MODULES
    if isinstance(value, type):
        is_exception = issubclass(value, BaseException) and value.__module__ == "builtins"
        is_number = issubclass(value, np.generic) and value.__module__ == "numpy"
        return value in _BUILTINS or is_exception or is_number or is_named_tuple(value)
    if not isinstance(value, _FUNCTIONS):
        return False
    if isinstance(value, np.ufunc) or value in _BUILTINS:
        return True
    module = module_of(value)
    is_in_known_module = module.partition(".")[0] in ("math", "numpy", _OURS) and ".random" not in module
    return is_in_known_module and not _is_impure(value.__name__)


def _is_known(value: Any) -> bool:
    """Return True if an attribute of a known module is NumPy's, Python's or ours: no test has replaced it."""
    owner = value if isinstance(value, (type, FunctionType, BuiltinFunctionType)) else type(value)
    return module_of(owner).partition(".")[0] in ("", "builtins", *_NUMPY, _OURS)


def _is_impure(name: str) -> bool:
    return name in _IMPURE_NAMES or name.startswith(("set_", "seterr", "setbuf", "last_"))


def _named_defaults(function: FunctionType) -> tuple[Any, ...]:
    return tuple((function.__kwdefaults__ or {}).items())


def _global(names: dict[str, Any], name: str) -> Any:
    return names[name] if name in names else getattr(builtins, name, ...)


@lru_cache(1024)
def _globals_of(code: CodeType) -> tuple[str, ...] | None:
    """Return the names of the globals that code reads; None if it may have side effects."""
    uses = code_uses(code)
    if uses.assigns_free_variables or uses.rules & _IMPURE_RULES or any(map(_is_impure, uses.attributes)):
        return None
    if uses.handles_exceptions:
        return None
    if "random" in uses.attributes - uses.called_attributes:  # the module; generators have a method `random`
        return None
    return uses.global_names
