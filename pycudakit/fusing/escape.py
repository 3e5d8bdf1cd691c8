"""Escape and alias analysis of a fused function's tracers and arrays.

Tracers escape if they outlive the call: a method stores a result in an attribute, a closure appends one to a
list. After the call, the objects reachable from the function and its arguments are searched, and arrays
replace the escaped tracers. The search is limited and runs only if tracers are left; a tracer that it misses
still works as an array. Alias analysis finds arguments that the function also reaches by another path, as by
a global variable or an attribute.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MappingView
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from types import CellType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, TypeAlias

import numpy as np

from pycudakit._native.dtypes import Array
from pycudakit._runtime.lazy_array import LazyPandas
from pycudakit.fusing.bytecode.code_uses import code_uses
from pycudakit.fusing.memory.pytree import MAX_ITEMS, map_tuples
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.other_packages import is_own

_MAX_VISITED = 10_000  # objects
_MAX_VISITED_FOR_ALIASES = 1000  # objects; this search comes before each call that is traced
_SKIPPED_PACKAGES = (
    "numpy",
    __name__.partition(".")[0],
)  # packages whose functions hold no objects of a caller
_SEALED = frozenset((*_SKIPPED_PACKAGES, *sys.stdlib_module_names))  # whose classes and modules hold none
_FUNCTIONS = FunctionType, staticmethod, classmethod
_NUMBERS = (bool, int, float, complex, np.generic)
_Part: TypeAlias = tuple[Any, Callable[[Any], object] | None]  # an object, and a function that replaces it
_TYPES_WITHOUT_PARTS = (*_NUMBERS, type, ModuleType, Tracer, LazyPandas, np.ndarray, str, bytes, type(None))


def replace_escaped_tracers(
    roots: Iterable[Any],
    to_caller: Callable[[Any], Any],
    are_any_left: Callable[[], bool] = lambda: True,
    has_copies: bool = False,
) -> None:
    """Replace tracers, while any are left, in all that is reachable from these objects.

    `to_caller` returns the array of a tracer, the caller's list or dict in place of the body's copy of it,
    and other objects as they are. With `has_copies`, the objects are searched for such copies, too.
    """
    seen: set[int] = set()
    searched: list[Any] = []
    pending, long = deque(roots), deque[Any]()  # long containers come last
    while pending or long:
        while (pending or long) and len(seen) < _MAX_VISITED and (has_copies or are_any_left()):
            if pending:
                holder = pending.popleft()
                if type(holder) in (list, tuple, dict) and len(holder) > MAX_ITEMS:
                    long.append(holder)
                    continue
            else:
                holder = long.popleft()
            if id(holder) in seen:
                continue
            seen.add(id(holder))
            if _is_long_and_plain(holder):
                continue
            searched.append(holder)
            pending.extend(_replace_parts(_parts(holder), to_caller))
        if len(seen) >= _MAX_VISITED or not are_any_left():
            return
        found = _replace_parts(_shared_parts(searched), to_caller)
        pending.extend(each for each in found if id(each) not in seen)


def _replace_parts(parts: Iterable[_Part], to_caller: Callable[[Any], Any]) -> list[Any]:
    """Replace the tracers among the parts of an object; return the objects to search next."""
    found = []
    for value, replace in parts:
        new = value if replace is None else _replaced(value, to_caller)
        if new is not value and replace is not None:
            replace(new)
        if not _has_no_parts(new):
            found.append(new)
    return found


def _shared_parts(holders: list[Any]) -> Iterator[_Part]:
    """Yield the attributes of functions, and those of classes and modules that the functions name.

    Functions of packages that are installed are skipped, since they get arrays in place of tracers.
    """
    functions = [each for each in holders if isinstance(each, FunctionType)]
    package = _package_of(functions[0]) if functions else ""
    functions = [each for each in functions if is_own(each, package)]
    yield from ((each.__dict__, None) for each in functions)
    uses = [code_uses(each.__code__) for each in functions]
    names = set[str]().union(*(each.attributes | each.assigned_attributes for each in uses))
    for each, use in zip(functions, uses, strict=True):
        if "setattr" in use.global_names:
            names.update(constant for constant in each.__code__.co_consts if isinstance(constant, str))
    objects = [each for each in holders if not isinstance(each, FunctionType)]
    owners = [*map(type, objects), *(value for each in (*functions, *objects) for value, _ in _parts(each))]
    seen: set[int] = set()
    for owner in owners:  # which grows
        if id(owner) in seen or not isinstance(owner, (type, ModuleType)) or _package_of(owner) in _SEALED:
            continue
        seen.add(id(owner))
        kind = type if isinstance(owner, type) else ModuleType
        if isinstance(owner, type):
            owners.extend(owner.__bases__)
        has_own_methods = isinstance(owner, type) and is_own(owner, package)
        for name, value in list(vars(owner).items()):
            is_special = has_own_methods and name.startswith("__") and isinstance(value, _FUNCTIONS)
            if is_special or name in names:
                yield value, partial(kind.__setattr__, owner, name)
                owners.append(value)


def _package_of(value: Any) -> str:
    """Return the package of a function, a class or a module."""
    name = getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", None)
    return str(name).partition(".")[0]


def _is_long_and_plain(holder: Any) -> bool:
    """Return True for a container of more than `MAX_ITEMS` of numbers, strings and arrays alone."""
    kind = type(holder)
    if kind not in (list, tuple, dict) or len(holder) <= MAX_ITEMS:
        return False
    kinds = set(map(type, holder.values() if kind is dict else holder))
    return all(issubclass(each, _TYPES_WITHOUT_PARTS) and not _is_tracer(each) for each in kinds)


def aliased_arrays(function: Any, are_globals_traced: bool, arguments: Iterable[Any]) -> Iterator[Array]:
    """Yield the arrays that a function reaches by another path than its arguments, and reads untraced.

    If `are_globals_traced`, the function sees tracers for arrays that its variables name directly.
    """
    outer_values = [
        value for value in _outer_values(function) if not (are_globals_traced and type(value) is np.ndarray)
    ]
    return (each for each in _reachable([*_leaves(arguments, {}), *outer_values]) if type(each) is np.ndarray)


def aliased_containers(function: Any, arguments: Iterable[Any]) -> list[Any]:
    """Return the lists and dicts among the arguments that the function also reaches by another path."""
    nested: dict[int, Any] = {}
    leaves = _leaves(arguments, nested)
    if not nested:
        return []
    seen = {id(each) for each in _reachable([*leaves, *_outer_values(function)])}
    return [value for key, value in nested.items() if key in seen]


def _reachable(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the arrays and objects reachable from values, each object once, up to a limit."""
    pending, seen = deque(values), set[int]()
    while pending and len(seen) < _MAX_VISITED_FOR_ALIASES:
        holder = pending.popleft()
        if type(holder) is np.ndarray:
            yield holder
        elif id(holder) not in seen and not _has_no_parts(holder):
            seen.add(id(holder))
            yield holder
            pending.extend(value for value, _ in _parts(holder))


def _leaves(values: Iterable[Any], nested: dict[int, Any]) -> list[Any]:
    """Flatten tuples, lists and dicts; return the parts that may refer to others, and fill `nested`."""
    leaves, pending, seen = [], list(values), set()
    while pending:
        value = pending.pop()
        kind: Any = type(value)
        if kind not in (list, dict) and not issubclass(kind, tuple):
            if not issubclass(kind, _TYPES_WITHOUT_PARTS):
                leaves.append(value)
        elif id(value) not in seen and len(value) <= MAX_ITEMS:
            seen.add(id(value))
            if kind in (list, dict):
                nested[id(value)] = value
            pending.extend(value.values() if kind is dict else value)
    return leaves


def _outer_values(function: Any) -> list[Any]:
    """Return the values of a function's closure and globals that it names; another callable itself."""
    return (
        [value for value, _ in _outer_variables_of(function)]
        if type(function) is FunctionType
        else [function]
    )


def _has_no_parts(value: Any) -> bool:
    """Return True if a value refers to no other objects that are searched."""
    kind = type(value)
    return issubclass(kind, _TYPES_WITHOUT_PARTS) and not (
        issubclass(kind, np.ndarray) and (kind is not np.ndarray or value.dtype.hasobject)
    )


def _replace_key(holder: dict[Any, Any], old: Any, new: Any) -> None:
    """Replace a key of a dict, in its place."""
    items = [(new if key is old else key, value) for key, value in dict.items(holder)]
    dict.clear(holder)
    for key, value in items:
        dict.__setitem__(holder, key, value)


def _replace_member(holder: set[Any], old: Any, new: Any) -> None:
    """Replace a member of a set."""
    set.discard(holder, old)
    set.add(holder, new)


def _replace_call(holder: partial[Any], call: tuple[Any, tuple[Any, ...]]) -> None:
    """Replace the function and the arguments of a `functools.partial`."""
    holder.__setstate__((*call, holder.keywords, vars(holder)))  # type: ignore[attr-defined]


def _replaced(value: Any, to_caller: Callable[[Any], Any]) -> Any:
    """Return the replacement of a tracer, of a method of one, or of a tuple of such; else the value."""

    def replaced(part: Any) -> Any:
        if type(part) is MethodType and type(part.__self__) is Tracer:
            return getattr(to_caller(part.__self__), part.__name__)
        return to_caller(part)

    return map_tuples(value, replaced)


def _is_tracer(kind: type) -> bool:
    return kind is Tracer or issubclass(kind, LazyPandas)


def _parts(holder: Any) -> Iterator[_Part]:
    """Yield each object that `holder` refers to, with a function that replaces it, or None.

    No code of the user's classes runs.
    """
    if isinstance(holder, dict):
        for key, value in list(dict.items(holder)):
            yield value, partial(dict.__setitem__, holder, key)
            if type(key) is Tracer or isinstance(key, tuple):
                yield key, partial(_replace_key, holder, key)
    elif isinstance(holder, set):
        for value in list(set.__iter__(holder)):
            yield value, partial(_replace_member, holder, value)
    elif isinstance(holder, np.ndarray):
        for place, value in enumerate(holder.flat) if holder.dtype == object else ():
            yield value, partial(holder.flat.__setitem__, place)
        if type(holder) is not np.ndarray:
            yield getattr(holder, "__dict__", None), None
    elif isinstance(holder, (list, deque)):
        base: Any = list if isinstance(holder, list) else deque
        for place, value in enumerate(list(base.__iter__(holder))):
            yield value, partial(base.__setitem__, holder, place)
    elif isinstance(holder, tuple):
        for value in tuple.__iter__(holder):
            yield value, None
    elif isinstance(holder, CellType):
        try:
            yield holder.cell_contents, partial(setattr, holder, "cell_contents")
        except ValueError:  # an empty cell
            return
    elif isinstance(holder, FunctionType):
        yield holder.__defaults__, partial(setattr, holder, "__defaults__")
        yield holder.__kwdefaults__, None
        yield from _outer_variables_of(holder)
    elif isinstance(holder, (staticmethod, classmethod)):
        yield holder.__func__, None
    elif isinstance(holder, property):
        yield (holder.fget, holder.fset, holder.fdel), None
    elif isinstance(holder, threading.local):
        yield threading.local.__getattribute__(holder, "__dict__"), None
    elif isinstance(holder, ContextVar):
        with suppress(LookupError):
            yield holder.get(), holder.set
    elif isinstance(holder, MethodType):
        yield from ((holder.__self__, None), (holder.__func__, None))
    elif isinstance(holder, partial):
        yield holder.keywords, None
        yield (holder.func, holder.args), partial(_replace_call, holder)
    else:
        if isinstance(holder, BaseException):
            for name in ("args", "__cause__", "__context__"):
                yield getattr(holder, name), partial(setattr, holder, name)
        elif isinstance(holder, (Iterator, MappingView)):  # only the garbage collector lists their contents
            yield from ((part, None) for part in gc.get_referents(holder))
        with suppress(AttributeError):
            yield object.__getattribute__(holder, "__dict__"), None
        for kind in type(holder).__mro__:
            if "__slots__" in vars(kind):
                for slot in [each for each in vars(kind).values() if type(each) is MemberDescriptorType]:
                    with suppress(AttributeError):  # an empty slot
                        yield slot.__get__(holder), partial(slot.__set__, holder)


def _outer_variables_of(function: FunctionType) -> Iterator[_Part]:
    """Yield the values of a function's closure and globals that it names, each with its replacer."""
    if (function.__module__ or "").partition(".")[0] in _SKIPPED_PACKAGES:
        return
    for cell in function.__closure__ or ():
        yield from _parts(cell)
    global_values = function.__globals__
    uses = code_uses(function.__code__)
    for name in list(global_values) if uses.takes_globals else uses.global_names:
        if name in global_values:
            yield global_values[name], partial(dict.__setitem__, global_values, name)
