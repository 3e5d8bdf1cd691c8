"""The body of a fused function, with globals in which `np` and `pk` record calls into the trace.

NumPy dispatches functions of tracers to the tracers (NEP 13 and NEP 18), but not functions that create
arrays, such as `zeros`; and functions of pycudakit return arrays. So the body runs with a copy of its globals
in which these modules and functions are replaced. Names are looked up at every use, and so never stale.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._runtime import context
from pycudakit._runtime.fp_errors import uncounted
from pycudakit._runtime.lazy_array import LazyPandas
from pycudakit.fusing.bytecode.code_uses import code_uses
from pycudakit.fusing.bytecode.dispatched_calls import dispatched_cells, with_dispatched_calls
from pycudakit.fusing.bytecode.sources import type_attribute
from pycudakit.fusing.bytecode.value_kinds import TRANSFERS, is_kernel
from pycudakit.fusing.memory.pytree import pandas_in
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.numpy_api.creation import REPLACEMENTS_BY_ID, empty_array
from pycudakit.fusing.numpy_api.library_calls import call_library_function
from pycudakit.fusing.numpy_api.registry import HANDLERS
from pycudakit.fusing.numpy_api.sequence_arguments import contains_tracer, reducing
from pycudakit.fusing.other_packages import call_with_arrays, is_compiled, is_own, needs_arrays, with_arrays
from pycudakit.fusing.trace.current_trace import current_trace
from pycudakit.fusing.trace.out_argument import accepts_result
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.traced_values import iter_tracers
from pycudakit.fusing.traced_generator import TracedGenerator, default_rng_of

_PACKAGE = __name__.partition(".")[0]
_LINALG = f"{_PACKAGE}.linalg"
_IMAGE = f"{_PACKAGE}.image"


# ---- Functions of pycudakit ------------------------------------------------------------------------


@functools.lru_cache(1024)
def traced_library_function(function: Any) -> Callable[..., Any]:
    """Return a wrapper of a pycudakit function that accepts tracers, and then returns tracers."""
    module = function.__module__
    numpy_function: Any = getattr(np.linalg if module == _LINALG else np, function.__name__, None)
    if module.startswith(_IMAGE):  # `image.flip` and others differ from NumPy's functions of the same names
        numpy_function = None
    is_numpys = numpy_function is not None and (
        numpy_function in HANDLERS or isinstance(numpy_function, np.ufunc)
    )

    def call_on_arrays(trace: Trace, arguments: Any, keywords: Any) -> Any:
        try:
            with context.without_fallback():  # or the call would not be noted as a graph break
                return function(*arguments, **keywords)
        except errors.Unsupported:
            if not is_numpys:
                raise
            return trace.by_numpy(numpy_function, arguments, keywords)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        trace = current_trace()
        if trace is None:
            return function(*arguments, **keywords)
        if trace.has_pandas and pandas_in((arguments, keywords)):
            if is_numpys:
                return numpy_function(*arguments, **keywords)
            return call_with_arrays(function, arguments, keywords)
        if not (contains_tracer(arguments) or contains_tracer(keywords)):
            return call_on_arrays(trace, arguments, keywords)
        if arguments and type(arguments[0]) is TracedGenerator:  # its methods may have ufuncs' names
            return getattr(arguments[0], function.__name__)(*arguments[1:], **keywords)
        if isinstance(numpy_function, np.ufunc) and is_numpys:
            return numpy_function(*arguments, **keywords)
        if is_numpys:  # NumPy would not dispatch on tracers in lists
            result = trace.call(numpy_function, arguments, keywords)
        else:
            result = call_library_function(trace, function, arguments, keywords)
        if trace.analysis is not None:
            result = trace.returned(result)
        if is_numpys:
            return result
        return keywords.get("out") if keywords.get("out") is not None else result

    return call


def _reads_globals(scopes: ChainMap[str, Any], names: Iterable[str]) -> bool:
    """Return True if a name in an expression is that of a global, which guards do not see."""
    return any(name not in scopes.maps[0] and not callable(scopes[name]) for name in names)


def _mark_not_replayable(trace: Trace) -> None:
    trace.mark_not_replayable()
    if (listener := trace.buffers.scope.listener) is not None:
        listener.mark_not_replayable()


def evaluate(expression: str, operands: Any = None, out: Any = None) -> Any:
    """Evaluate an expression of tracers."""
    trace = current_trace()
    library_evaluate = sys.modules[_PACKAGE].evaluate
    if trace is None:
        return library_evaluate(expression, operands, out)
    if operands is None:
        frame = sys._getframe(1)  # noqa: SLF001
        operands = ChainMap(frame.f_locals, frame.f_globals)
    names = [name for name in re.findall(r"[^\W\d]\w*", expression) if name in operands]
    if isinstance(operands, ChainMap) and _reads_globals(operands, names):
        _mark_not_replayable(trace)
    if trace.has_pandas and pandas_in([operands, *(operands[name] for name in names)]):
        values = operands if pandas_in(operands) else {name: operands[name] for name in names}
        return call_with_arrays(library_evaluate, (expression, values, out), {})
    reads = list(iter_tracers([operands[name] for name in names]))
    if type(out) is Tracer and trace.buffers.scope.is_open:
        value = library_evaluate(expression, operands)
        if accepts_result(out, value):
            trace.set(out, ..., value)
            return out
    result = trace.wrap(library_evaluate(expression, operands, trace.resolved(out)))
    if trace.analysis is not None:
        result = trace.returned(result)
    if type(result) is Tracer and result.node.array is None:
        return result
    arrays = [trace.materialize(tracer) for tracer in reads]
    writes = [trace.materialize(tracer) for tracer in iter_tracers(result)]
    trace.executor.record_kernel("evaluate", reads[0].shape if reads else (), arrays, writes)
    return result if out is None else out


# ---- Names ------------------------------------------------------------------------------------------


class _TypeOfTypes(type):
    """The metaclass of `TracedType`, as which calls and checks of instances are those of `type`."""

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        kind = type(*arguments, **keywords)
        if len(arguments) == 1 and not keywords:
            if kind in (Tracer, TracedGenerator) or issubclass(kind, LazyPandas):
                return arguments[0].__class__
            if kind is _TypeOfTypes or arguments[0] is type:
                return TracedType
        return kind

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, type)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return issubclass(subclass, type)


class TracedType(type, metaclass=_TypeOfTypes):
    """The built-in `type` as the body of a fused function sees it: a tracer's type is that of its array."""


class Scope:
    """How the names in the code of one function are resolved.

    Parameters
    ----------
    function
        The function.
    """

    def __init__(self, function: Any) -> None:
        self.uses = code_uses(function.__code__)
        self.reduces = self.uses.names("reduce")
        self.package = (function.__module__ or "").partition(".")[0]
        self._modules: dict[ModuleType, ModuleType] = {}

    def module(self, module: ModuleType) -> ModuleType:
        """Return a module as the function sees it."""
        found = self._modules.get(module)
        if found is None:
            found = self._modules[module] = TracedModule(module, self)
        return found

    def resolve(self, value: Any, is_called: bool) -> Any:
        """Return the object that replaces a global, or a module's attribute, in the function.

        A function of the user's is replaced only where it is just called, so that comparisons work elsewhere;
        a compiled one, too, where it may be called with unpacked arguments, which cannot be dispatched. The
        library's own helpers see tracers as they are.
        """
        if value is np.ndarray and is_called:
            return _new_array
        new = resolve_name(value, self)
        if new is not value or self.package == _PACKAGE:
            return new
        if not is_called:
            is_passed = self.uses.unpacks_for_values and is_compiled(value)
            return with_arrays(value) if is_passed and needs_arrays(value, self.package) else value
        if value is np.random.RandomState:
            return default_rng_of(value)
        if needs_arrays(value, self.package):
            return with_arrays(value)
        is_function = type(value) is FunctionType and is_own(value, self.package)
        return traced_function(value) if is_function else value


def traced_function(function: FunctionType) -> Any:
    """Return a function that the body of a fused function calls, with replaced names."""
    trace = current_trace()
    if trace is None:
        return TracedBody(function)
    body = trace.traced_functions.get(function)
    if body is None:
        body = trace.traced_functions[function] = TracedBody(function)
    return body


@functools.lru_cache(256)
def dispatcher(package: str) -> Callable[..., Any]:
    """Return a function that calls functions for code of `package`, with arrays or tracers as they need."""

    @uncounted
    def dispatch(function: Any, /, *arguments: Any, **keywords: Any) -> Any:
        trace = current_trace()
        if trace is None or trace.analysis is None:
            return function(*arguments, **keywords)
        while type(function) is functools.partial:
            arguments, keywords = (*function.args, *arguments), {**function.keywords, **keywords}
            function = function.func
        if needs_arrays(function, package):
            return call_with_arrays(function, arguments, keywords)
        if type(function) is MethodType and type(function.__func__) is FunctionType:
            function, arguments = function.__func__, (function.__self__, *arguments)
        elif type(function) is not FunctionType:
            method = type_attribute(type(function), "__call__")
            if type(method) is FunctionType and is_own(method, package):
                function, arguments = method, (function, *arguments)
        is_python = type(function) is FunctionType and type(function.__globals__) is dict
        if is_python and is_own(function, package) and trace.analysis.has_dispatched(function.__code__):
            function = traced_function(function)
        return function(*arguments, **keywords)

    return dispatch


def _resolving(scope: Scope) -> Callable[..., Any]:
    """Return a function that makes the calls of code with its real globals: callees resolve as in `scope`."""
    dispatch = dispatcher(scope.package)

    @uncounted
    def call(function: Any, /, *arguments: Any, **keywords: Any) -> Any:
        function = scope.resolve(function, is_called=True)
        if function is evaluate and len(arguments) == 1 and keywords.get("operands") is None:
            frame = sys._getframe(1)  # noqa: SLF001
            keywords["operands"] = ChainMap(frame.f_locals, frame.f_globals)
        return dispatch(function, *arguments, **keywords)

    return call


class TracedModule(ModuleType):
    """A module as the body of a fused function sees it."""

    def __init__(self, module: ModuleType, scope: Scope) -> None:
        super().__init__(module.__name__, module.__doc__)
        object.__setattr__(self, "_module", module)
        object.__setattr__(self, "_scope", scope)

    def __getattribute__(self, name: str) -> Any:
        """Return the traced version of an attribute, without caching it."""
        module, scope = (object.__getattribute__(self, own) for own in ("_module", "_scope"))
        return scope.resolve(getattr(module, name), name in scope.uses.called_attributes)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set the attribute of the module itself."""
        setattr(object.__getattribute__(self, "_module"), name, value)


def _is_from_package(name: str) -> bool:
    return name == _PACKAGE or name.startswith(_PACKAGE + ".")


def _user_kernels() -> Any:
    return importlib.import_module("pycudakit.fusing.numpy_api.user_kernels")  # few functions need it


def resolve_name(value: Any, scope: Scope) -> Any:
    """Return the object that replaces a global, or a module's attribute, in the body of a fused function.

    A ufunc is replaced only if the body calls `reduce`, so that identity checks work elsewhere.
    """
    kind = type(value)
    if kind is np.ufunc:
        return reducing(value) if scope.reduces else value
    if kind is ModuleType:
        return scope.module(value)
    if kind is FunctionType:
        numpy_function = getattr(value, "numpy_function", None)  # which pycudakit lacks
        if numpy_function is not None:
            return numpy_function
        module = value.__module__ or ""
        if _is_from_package(module) and not value.__name__.startswith("_"):
            if value.__name__ == "evaluate":
                return evaluate
            if value.__name__ == "default_rng":
                return default_rng_of(value)
            return traced_library_function(value)
    if kind in (np.random.Generator, np.random.RandomState):
        return TracedGenerator(value, current_trace())
    if kind is np.ndarray:  # a global that is also an argument: the body sees the argument's tracer
        trace = current_trace()
        buffer = None if trace is None else trace.buffers.buffer_of(value)
        is_caller_owned = buffer is not None and buffer.is_caller_owned and buffer.contains(value)
        if trace is None or not is_caller_owned:
            return value
        of_argument = trace.argument_tracers.get(id(value))
        return trace.tracer_for(value) if of_argument is None else of_argument
    if kind is type:
        is_transfer = value.__name__ in TRANSFERS and _is_from_package(value.__module__)
        return _user_kernels().transfer(value) if is_transfer else value
    if is_kernel(value):
        return _user_kernels().TracedKernel(value, lambda each: resolve_name(each, scope))
    create = REPLACEMENTS_BY_ID.get(id(value))
    if create is not None:
        return create
    if value is np.random.default_rng:
        return default_rng_of(value)
    return value


def _has_attribute(value: Any, name: str, /) -> bool:
    """As `hasattr`."""
    return hasattr(value, name) or _is_attribute_of_array(value, name)


def _get_attribute(value: Any, name: str, /, *default: Any) -> Any:
    """As `getattr`."""
    if _is_attribute_of_array(value, name) and not hasattr(value, name):
        return value.owning_trace.attribute(value, name)
    return getattr(value, name, *default)


def _float(value: Any = 0.0, /) -> Any:
    """As `float`, but the float of a tracer may be one, too."""
    trace = current_trace()
    deferred = None
    if type(value) is Tracer and value.owning_trace is trace:
        deferred = trace.deferred_float(value, sys._getframe(1))  # noqa: SLF001
    return float(value) if deferred is None else deferred


def _new_array(*arguments: Any, **keywords: Any) -> Any:
    """Stand for `np.ndarray` where the body of a fused function calls it."""
    has_shape = len(arguments) in (1, 2) or (not arguments and "shape" in keywords)
    if not has_shape or not keywords.keys() <= {"shape", "dtype", "order"}:  # of a buffer
        return call_with_arrays(np.ndarray, arguments, keywords)
    return empty_array(*arguments, **{**keywords, "order": keywords.get("order") or "C"})


def _is_attribute_of_array(value: Any, name: str) -> bool:
    """Return True for an attribute of a tracer's array, which the tracer itself may lack."""
    return type(value) is Tracer and any(name in vars(cls) for cls in value.__class__.__mro__)


_BUILT_IN: dict[str, Any] = {"bytearray": bytearray, "memoryview": memoryview}
_BUILT_IN |= {"getattr": _get_attribute, "hasattr": _has_attribute, "float": _float}


class _Globals(dict[str, Any]):
    """A view of a function's globals that replaces `np`, `pk` and similar names."""

    def __init__(self, real: dict[str, Any], scope: Scope) -> None:
        # Python itself reads dunder names without `__getitem__`, for imports and warnings.
        super().__init__({name: value for name, value in real.items() if name.startswith("__")})
        self.setdefault("__builtins__", __builtins__)
        self._real = real
        self._scope = scope

    def __getitem__(self, name: str) -> Any:
        is_called = name in self._scope.uses.called_globals
        try:
            value = self._real[name]
        except KeyError:
            if name == "type":
                return TracedType
            if not is_called or name not in _BUILT_IN:
                raise
            value = _BUILT_IN[name]
        return self._scope.resolve(value, is_called)

    def __contains__(self, name: object) -> bool:
        return name in self._real

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._real else default


class TracedBody:
    """A function that runs with replaced globals and closure cells."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._read_code()

    def _read_code(self) -> None:
        """Analyse the function's code, which may be replaced later."""
        function = self._function
        self._code = getattr(function, "__code__", None)
        self._scope = Scope(function) if type(function) is FunctionType else None
        # One that needs its real globals has them: in it, only calls are replaced.
        self.is_rebound = self._scope is not None and not self._scope.uses.needs_real_globals
        self._globals = _Globals(function.__globals__, self._scope) if self._scope is not None else {}
        self._code_with_real_globals: CodeType | None = None

    @uncounted
    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function's current code with the replaced names."""
        function = self._function
        if getattr(function, "__code__", None) is not self._code:
            self._read_code()
        scope = self._scope
        if scope is None:
            return function(*arguments, **keywords)
        if not self.is_rebound:
            return self._call_with_real_globals(scope, arguments, keywords)
        cells = function.__closure__ or ()
        free_variables = function.__code__.co_freevars
        own = tuple([_cell(name, cell, scope) for name, cell in zip(free_variables, cells, strict=True)])
        rebound = [
            (cell, copy, copy.cell_contents)
            for cell, copy in zip(cells, own, strict=True)
            if copy is not cell
        ]
        trace = current_trace()
        code = function.__code__
        if trace is not None and trace.analysis is not None:
            dispatch = dispatcher(scope.package)
            code = trace.analysis.dispatching(code, dispatch)
            own = dispatched_cells(code, free_variables, own, dispatch)
        body = _with_code(function, code, self._globals, own)
        try:
            return body(*arguments, **keywords)
        finally:
            for cell, copy, bound_value in rebound:
                if copy.cell_contents is not bound_value:  # assigned by `nonlocal`
                    cell.cell_contents = copy.cell_contents

    def _call_with_real_globals(self, scope: Scope, arguments: Any, keywords: Any) -> Any:
        function, trace = self._function, current_trace()
        if trace is None:
            return function(*arguments, **keywords)
        dispatch = _resolving(scope)
        if trace.analysis is not None:
            code = trace.analysis.dispatching(function.__code__, dispatch, all_calls=True)
        else:
            if self._code_with_real_globals is None:
                self._code_with_real_globals = with_dispatched_calls(function.__code__, None, dispatch)
            code = self._code_with_real_globals
        names, cells = function.__code__.co_freevars, function.__closure__ or ()
        cells = dispatched_cells(code, names, cells, dispatch)
        body = _with_code(function, code, function.__globals__, cells)
        return body(*arguments, **keywords)


def _with_code(
    function: FunctionType, code: CodeType, names: dict[str, Any], cells: tuple[CellType, ...]
) -> FunctionType:
    """Return a copy of a function with other code, globals and closure."""
    body = FunctionType(code, names, function.__name__, function.__defaults__, cells or None)
    body.__kwdefaults__ = function.__kwdefaults__
    body.__module__ = function.__module__
    return body


def _cell(name: str, cell: CellType, scope: Scope) -> CellType:
    try:
        value = cell.cell_contents
    except ValueError:  # an empty cell
        return cell
    bound_value = scope.resolve(value, name in scope.uses.called_free_variables)
    return cell if bound_value is value else CellType(bound_value)
