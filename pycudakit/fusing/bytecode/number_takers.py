"""Which known functions handle a deferred number as they handle NumPy's scalar."""

from __future__ import annotations

import builtins
import math
from enum import Enum
from types import FunctionType
from typing import Any

import numpy as np

from pycudakit.fusing.bytecode.known_calls import TO_VALUE, module_of
from pycudakit.fusing.bytecode.value_kinds import (
    GENERATOR,
    MANAGER,
    NUMBER,
    PLAIN,
    TRACER,
    TRANSFERS,
    VALUE,
    Container,
    Items,
    Known,
    LocalFunction,
    MethodOf,
    is_kernel,
)

_OURS = __name__.partition(".")[0]
# Python's functions that call a method of the number, which answers as the scalar's does.
_LOOKING = frozenset(
    """abs all any bool complex float int len round range repr format ascii print str bin hex oct chr hash
    bytes""".split()  # noqa: SIM905
)
_PASSING = frozenset("max min sum sorted enumerate zip reversed list tuple iter pow divmod slice".split())  # noqa: SIM905
_PASSING_METHODS = frozenset("pop get items values keys copy".split())  # noqa: SIM905
_NUMPY = TO_VALUE | frozenset("asarray asanyarray ascontiguousarray asfortranarray require".split())  # noqa: SIM905


class Handling(Enum):
    """The use that a function makes of a number."""

    TAKES = "it computes with it, or looks at it as at a scalar"
    PASSES_ON = "its result may be the number, or contain it"
    OTHER = "it may see that the number is a tracer"


def handling_of(function: Any, arguments: list[Any]) -> Handling:
    """Return how a function of a known kind handles a number among arguments of these kinds."""
    if type(function) is MethodOf:
        return _of_method(function.owner, function.name)
    if type(function) is not Known:
        return Handling.OTHER
    value = function.value
    if isinstance(value, np.ufunc) or is_kernel(value):
        return Handling.TAKES
    if isinstance(value, type):
        return _of_type(value)
    name, module = getattr(value, "__name__", ""), module_of(value)
    if getattr(builtins, name, None) is value:
        return _of_builtin(name, arguments)
    if getattr(math, name, None) is value:
        return Handling.PASSES_ON if name in ("prod", "sumprod") else Handling.TAKES
    package = module.partition(".")[0]
    if package == _OURS:
        takes = isinstance(value, FunctionType)
    else:
        is_from_numpy = package == "numpy" or (not module and getattr(np, name, None) is value)
        takes = is_from_numpy and (type(value) is type(np.sum) or name in _NUMPY)
    return Handling.TAKES if takes else Handling.OTHER


def makes_float(function: Any, count: int) -> bool:
    """Return True for a call that may make one of Python's floats of a number."""
    if type(function) is MethodOf:
        return function.owner in (TRACER, NUMBER, VALUE) and function.name == "item" and not count
    return type(function) is Known and function.value is float and count == 1


def _of_method(owner: Any, name: str) -> Handling:
    if owner in (TRACER, NUMBER, VALUE, GENERATOR) or type(owner) is Known:  # of a ufunc
        return Handling.PASSES_ON if name in ("conj", "conjugate") else Handling.TAKES
    if type(owner) is Container and name in _PASSING_METHODS:
        return Handling.PASSES_ON
    return Handling.TAKES if owner is MANAGER or (owner is PLAIN and name == "format") else Handling.OTHER


def _of_type(function: type) -> Handling:
    name = function.__name__
    if name in TRANSFERS and function.__module__.partition(".")[0] == _OURS:
        return Handling.PASSES_ON
    if issubclass(function, np.generic) or function is np.errstate:
        return Handling.TAKES
    return _of_builtin(name, []) if getattr(builtins, name, None) is function else Handling.OTHER


def _of_builtin(name: str, arguments: list[Any]) -> Handling:
    if name == "isinstance":
        types = arguments[-1].kinds if type(arguments[-1]) is Items else arguments[-1:]
        # An abstract class asks the tracer's own type for methods.
        are_plain = all(type(each) is Known and type(each.value) is type for each in types)
        return Handling.TAKES if are_plain else Handling.OTHER
    if name in _PASSING:
        return Handling.PASSES_ON
    return Handling.TAKES if name in _LOOKING else Handling.OTHER


def described(function: Any) -> str:
    """Return a text that names a function that gets a number."""
    if type(function) is MethodOf:
        return f"passes it to .{function.name}()"
    if type(function) is Known:
        return f"passes it to {getattr(function.value, '__name__', type(function.value).__name__)}()"
    is_local = type(function) is LocalFunction
    return f"passes it to a function that is not {'analysed' if is_local else 'known'}"
