"""Calls of other packages' functions in the body of a fused function: they get arrays, a graph break.

Such a function may look at the type of its arguments, be compiled, or keep its arguments. So tracers in the
arguments are replaced by their arrays for the call, and count as escaped from then on.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from pycudakit._runtime.fp_errors import uncounted
from pycudakit._runtime.lazy_array import LazyPandas
from pycudakit.fusing.memory.pytree import pandas_in, tree_map_in_place
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.current_trace import current_trace
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.traced_values import iter_tracers
from pycudakit.fusing.traced_generator import TracedGenerator

# Modules of Python's library whose functions take tracers as they take arrays.
_NAMES = """abc bisect builtins cmath collections contextlib contextvars copy dataclasses enum functools gc
heapq inspect itertools logging math operator queue random sys threading time types typing unittest warnings
weakref"""
_TAKE_TRACERS = frozenset((*_NAMES.split(), "numpy", __name__.partition(".")[0]))
# Functions of the modules above that read memory, or take arrays of seeds.
_NAMES = "MT19937 PCG64 PCG64DXSM Philox RandomState SFC64 SeedSequence"
_READERS = bytearray, memoryview, np.from_dlpack, np.frombuffer
_FUNCTIONS = (*_READERS, *(getattr(np.random, name) for name in _NAMES.split()))
# Types of functions, which each compiled module may have for itself.
_COMPILED = {"builtin_function_or_method", "cython_function_or_method", "fortran", "nb_func", "nb_method"}
_GENERATORS = np.random.RandomState, np.random.Generator
_NEED_ARRAYS = {id(function) for function in _FUNCTIONS}


def needs_arrays(function: Any, package: str) -> bool:
    """Return True if a function that code of `package` calls is compiled, or of another package."""
    if id(function) in _NEED_ARRAYS or isinstance(getattr(function, "__self__", None), _GENERATORS):
        return True
    if type(function) is MethodType:
        return needs_arrays(function.__func__, package)
    is_function = isinstance(function, (type, FunctionType, BuiltinFunctionType)) or is_compiled(function)
    module = getattr(function, "__module__", None) if is_function else type(function).__module__
    if module is None:  # a method of a compiled class, or a function of f2py
        owner = getattr(function, "__self__", None)
        if owner is None and is_compiled(function):
            return True
        module = type(owner).__module__
    top = str(module).partition(".")[0]
    if str(module).startswith("numpy.random."):  # a method, called by the class
        return is_compiled(function)
    if top.lstrip("_") in _TAKE_TRACERS:  # `_operator` is the compiled part of `operator`
        return False
    return is_compiled(function) or (top != package and _is_installed(top))


def is_compiled(function: Any) -> bool:
    """Return True for a built-in function, or one of Cython, f2py or nanobind."""
    return any(cls.__name__ in _COMPILED for cls in type(function).__mro__)


def is_own(function: Any, package: str) -> bool:
    """Return True if a function is of `package`, or of the user's other modules."""
    top = (function.__module__ or "").partition(".")[0]
    return top == package or not (top in _TAKE_TRACERS or _is_installed(top))


@functools.cache
def _is_installed(top: str) -> bool:
    """Return True for a package of Python's library, or one that is installed beside the user's code."""
    if top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    return any(part in ("site-packages", "dist-packages") for part in file.split(os.sep))


def with_arrays(function: Any) -> Callable[..., Any]:
    """Return a function that calls another with arrays in place of tracers."""

    @uncounted
    def call(*arguments: Any, **keywords: Any) -> Any:
        return call_with_arrays(function, arguments, keywords)

    return call


@uncounted
def call_with_arrays(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a function with arrays in place of tracers: a graph break."""
    trace = current_trace()
    if trace is None or not (_is_traced(arguments) or _is_traced(keywords)):
        return function(*arguments, **keywords)
    if not trace.has_stopped_deferring:
        trace.note_graph_break(f"{_name_of(function)}()", "call it outside of the function")
    return _call_with_arrays(trace, function, arguments, keywords)


def _name_of(function: Any) -> str:
    """Return a function's name with its package."""
    module, name = (getattr(function, key, None) for key in ("__module__", "__qualname__"))
    package = (module or "builtins").partition(".")[0]
    name = name or type(function).__qualname__
    return name if package == "builtins" else f"{package}.{name}"


@uncounted
def _call_with_arrays(
    trace: Trace, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    tracers: dict[int, tuple[Any, Any]] = {}  # with their arrays, by the ids of these

    def value_of(leaf: Any) -> Any:
        if type(leaf) is TracedGenerator:
            value = leaf.generator
        elif type(leaf) is Tracer:
            value = trace.escaped_array(leaf)
        elif issubclass(type(leaf), LazyPandas):
            value = leaf.resolved()
        else:
            return leaf
        tracers[id(value)] = leaf, value
        return value

    def tracer_of(leaf: Any) -> Any:
        return tracers[id(leaf)][0] if id(leaf) in tracers else leaf

    given = arguments, keywords
    if pandas_in(given):
        trace.flush()
    new_arguments, new_keywords = tree_map_in_place((arguments, dict(keywords)), value_of, _is_never)
    try:
        result = function(*new_arguments, **new_keywords)
    finally:  # the body's own lists and dicts have tracers again
        tree_map_in_place(given, tracer_of, _is_never)
    wrapped = trace.wrap(tree_map_in_place(result, tracer_of, _is_never))
    for tracer in iter_tracers(wrapped):  # the function may have kept the array
        if not (tracer.is_scalar or trace.has_stopped_deferring):
            trace.mark_escaped(tracer)
    return wrapped


def _is_traced(value: Any) -> bool:
    """Return True if nested tuples, lists and dicts contain a tracer or a traced generator."""
    kind = type(value)
    if kind in (Tracer, TracedGenerator) or issubclass(kind, LazyPandas):
        return True
    if kind is dict:
        value = value.values()
    elif kind is not list and not issubclass(kind, tuple):
        return False
    return any(map(_is_traced, value))


def _is_never(_: Any) -> bool:
    return False
