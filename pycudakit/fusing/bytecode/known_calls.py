"""Calls of known functions: of NumPy's and pycudakit's, of Python's built-ins, and of methods of arrays.

Each rule returns an `Effect`: the kind of the result, whether the call may run code that was not analysed or
reach memory past the trace, and whether it surely records an operation of a tracer.
"""

from __future__ import annotations

import builtins
import contextlib
import math
import operator
import warnings
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from pycudakit.fusing.bytecode.value_kinds import (
    ARRAY,
    GENERATOR,
    MANAGER,
    NUMBER,
    PLAIN,
    READS_ARRAY,
    SLICE,
    SUPPORTED_ARRAY,
    TRACER,
    TRANSFERS,
    UNKNOWN,
    VALUE,
    Container,
    Each,
    Items,
    Known,
    MethodOf,
    has_no_effects,
    is_kernel,
    is_named_tuple,
    item_of,
    join_all,
    reads_memory,
)

_OURS = __name__.partition(".")[0]


def member(*_: Any, **__: Any) -> None:
    """Stand for the function that `getattr(np, name)` returns for a name that is not known."""


class Effect(NamedTuple):
    """The effect of an instruction."""

    kind: Any
    risk: str = ""  # why it may reach memory past the trace; "" if it does not
    is_recorded: bool = False  # surely an operation of a tracer
    dispatches: bool = False  # a call of code that was not analysed, or that has such a call
    frame: int | None = None  # the number of the analysed frame that it calls


# NumPy's functions and methods whose result for a tracer is a tracer.
_TO_TRACER = frozenset(
    """abs absolute all amax amin any argmax argmin argsort around average broadcast_to clip copy cumprod
    cumsum diff dot empty_like expand_dims flip fliplr flipud full_like inner interp max maximum mean
    median min minimum moveaxis nanmax nanmean nanmin nanstd nansum nanvar ones_like outer percentile
    prod ptp quantile ravel repeat reshape roll rot90 round searchsorted sort square squeeze std sum
    swapaxes take tile trace transpose tril triu var where zeros_like flatten conj conjugate convolve
    correlate cross pad diagonal""".split()  # noqa: SIM905
)
# Functions whose result is fresh memory or a number, or a tuple or list of these or of tracers.
TO_VALUE = _TO_TRACER | frozenset(
    """allclose arange append argpartition argwhere array array_equal array_split atleast_1d atleast_2d
    atleast_3d bartlett bincount blackman block broadcast_arrays broadcast_shapes choose column_stack
    compress concatenate corrcoef count_nonzero cov delete diag digitize divmod dsplit dstack einsum
    empty extract eye fft flatnonzero frexp full geomspace gradient hamming hanning histogram
    histogram2d histogramdd hsplit hstack identity in1d indices insert intersect1d isclose isin isnan
    ix_ kaiser kron lexsort linspace logspace matmul meshgrid modf nan_to_num nanargmax nanargmin
    nanmedian nanpercentile nanprod nanquantile ndim nonzero norm ones partition polyfit polyval resize
    result_type rollaxis row_stack select setdiff1d setxor1d shape size split stack tensordot tri
    trapezoid trim_zeros union1d unique unravel_index unwrap vander vdot vsplit vstack zeros dtype finfo
    iinfo errstate topk evaluate ndindex shares_memory may_share_memory sliding_window_view item tolist
    astype sort_complex put copyto place putmask fill_diagonal fill put_along_axis
    take_along_axis""".split()  # noqa: SIM905
)
# Functions that may return a view of an argument, or an argument itself.
_MAY_SHARE = frozenset(
    """array_split astype atleast_1d atleast_2d atleast_3d block broadcast_arrays broadcast_to conj conjugate
    copy diagonal dsplit expand_dims flip fliplr flipud hsplit matrix_transpose meshgrid moveaxis nan_to_num
    permute_dims ravel reshape resize rollaxis rot90 sliding_window_view split squeeze swapaxes transpose
    trim_zeros unstack vsplit""".split()  # noqa: SIM905
)
_WRITES = frozenset("put copyto place putmask fill_diagonal put_along_axis".split())  # noqa: SIM905
# Functions that call a function of the caller's, change settings, or read or write files.
_WITH_OTHER_EFFECTS = frozenset(
    """apply_along_axis apply_over_axes fromfunction frompyfunc fromiter piecewise vectorize nditer
    set_printoptions seterrcall setbufsize seterr load loadtxt genfromtxt fromfile memmap save savez
    savez_compressed savetxt""".split()  # noqa: SIM905
)
_UFUNC_METHODS = frozenset({"reduce", "accumulate", "outer", "reduceat", "at"})
_FRESH_MODULES = tuple(
    [f"numpy.{name}" for name in ("linalg", "fft", "random", "polynomial")]
    + [f"{_OURS}.{name}" for name in ("linalg", "image")]
)

# Attributes of arrays. A method that is in no list may return a view of the memory.
PLAIN_ATTRIBUTES = frozenset("shape dtype size ndim itemsize nbytes strides flags".split())  # noqa: SIM905
_VIEWS = frozenset({"T", "mT", "real"})
_METHODS = frozenset(name for name in dir(np.ndarray) if callable(getattr(np.ndarray, name)))
_PLAIN_METHODS = frozenset({"item", "tolist", "tobytes", "fill", "sort", "partition", "put"})

_BUILTINS = frozenset(
    """abs all any bool complex divmod enumerate float frozenset getattr hasattr hash id int isinstance
    issubclass iter len list max min next pow print range repr reversed round set slice sorted str sum
    tuple type zip dict callable bytes chr ord format ascii bin hex oct""".split()  # noqa: SIM905
)


def attribute_of_array(kind: Any, name: str) -> tuple[Effect, bool]:
    """Return the effect of reading an attribute of an array, and whether it is a method."""
    is_tracer = kind is TRACER
    if name in PLAIN_ATTRIBUTES:
        return Effect(
            Each(NUMBER) if name in ("shape", "strides") else NUMBER if name != "dtype" else PLAIN
        ), False
    if name in _VIEWS:
        return Effect(kind, "", is_tracer and name != "real"), False
    if name in _METHODS:
        return Effect(UNKNOWN), True
    if kind in (TRACER, VALUE, NUMBER):
        return Effect(ARRAY if name in ("imag", "base") else UNKNOWN), False
    return Effect(UNKNOWN, f"it reads .{name} of an array"), False


def call_method_of_array(
    owner: Any, name: str, arguments: list[Any], keywords: dict[str, Any], heap: dict[Any, Any]
) -> Effect:
    """Return the effect of calling a method of an array."""
    values = [*arguments, *keywords.values()]
    if not all(has_no_effects(value, heap) for value in values):
        return Effect(UNKNOWN, f".{name}() is called with an object that may run other code")
    if name == "view" and any(_is_users_subclass(value) for value in values):
        return Effect(UNKNOWN, ".view() makes an array of a class that may run other code")
    is_of_trace = owner in (TRACER, VALUE, NUMBER)
    risk = "" if is_of_trace else f".{name}() of an array that is not an argument"
    if any(reads_memory(value, heap) for value in values):
        risk = risk or f".{name}() is called with an array that is not an argument"
    out = keywords.get("out")
    if name in _PLAIN_METHODS:
        return Effect(PLAIN if name != "item" else NUMBER, risk)
    if out is not None and out is not PLAIN:
        return Effect(out, risk)
    if name == "astype":
        is_supported = all(_is_supported_dtype(value) for value in values) and len(values) == 1
        result = owner if is_supported else VALUE if is_of_trace else ARRAY
        return Effect(result, risk, owner is TRACER and is_supported)
    if name in _TO_TRACER and "dtype" not in keywords:
        result = TRACER if owner is TRACER else VALUE if is_of_trace else ARRAY
        return Effect(result, risk, owner is TRACER and not name.startswith("conj"))
    if name in TO_VALUE:
        return Effect(VALUE if is_of_trace else ARRAY, risk)
    return Effect(ARRAY, risk)


def is_whole_reduction(function: Any, arguments: list[Any]) -> bool:
    """Return True for a call that reduces a tracer along all axes, to a number."""
    if type(function) is MethodOf:
        return function.owner is TRACER and function.name in _REDUCTIONS and not arguments
    if type(function) is not Known or arguments != [TRACER]:
        return False
    name = getattr(function.value, "__name__", "")
    return name in _REDUCTIONS and getattr(np, name) is function.value


_REDUCTIONS = frozenset("all any argmax argmin max mean min prod std sum var".split())  # noqa: SIM905


def _is_users_subclass(kind: Any) -> bool:
    """Return True for a class of arrays that is not NumPy's."""
    cls = kind.value if type(kind) is Known else None
    return (
        isinstance(cls, type)
        and issubclass(cls, np.ndarray)
        and cls.__module__.partition(".")[0] not in ("numpy", _OURS)
    )


def _is_supported_dtype(kind: Any) -> bool:
    if kind is NUMBER:
        return True
    return type(kind) is Known and (
        kind.value in (float, int, bool)
        or (
            isinstance(kind.value, type)
            and issubclass(kind.value, (np.floating, np.integer, np.bool_))
            and kind.value is not np.longdouble
        )
    )


def call_known(
    function: Any, arguments: list[Any], keywords: dict[str, Any], heap: dict[Any, Any]
) -> Effect | None:
    """Return the effect of calling a known object; None if that is not known."""
    values = [*arguments, *keywords.values()]
    if isinstance(function, np.ufunc):
        if getattr(np, function.__name__, None) is not function and any(
            "O" in each for each in function.types
        ):
            return None  # of a Python function
        return _call_ufunc(function, values, arguments, keywords, heap)
    if function is np.ndarray and len(arguments) <= 2 and keywords.keys() <= {"shape", "dtype", "order"}:
        function = np.empty
    if isinstance(function, type) and is_named_tuple(function):
        return _call_named_tuple(function, arguments, keywords)
    if isinstance(function, type):
        return _call_type(function, values, arguments, heap)
    name = getattr(function, "__name__", "")
    module = module_of(function)
    if function is member:
        return _call_numpy(name, module, values, arguments, keywords, heap, is_dispatched=False)
    if type(function) is BuiltinFunctionType and getattr(builtins, name, None) is function:
        return _call_builtin(name, values, arguments, heap)
    if module == "math" or (type(function) is BuiltinFunctionType and getattr(math, name, None) is function):
        return _result(NUMBER, values, heap, name)
    if module == "_operator" or getattr(operator, name, None) is function:
        return None
    package = module.partition(".")[0]
    if package == "numpy" or (not module and isinstance(function, BuiltinFunctionType)):
        return _call_numpy(name, module, values, arguments, keywords, heap, type(function) is type(np.sum))
    if package == _OURS and isinstance(function, FunctionType):
        if name in ("engine", "set_engine", "profile", "fuse"):
            return None
        module = function.__module__  # that of the function inside a decorator's
        return _call_numpy(name, module, values, arguments, keywords, heap, is_dispatched=False)
    if is_kernel(function):  # the trace sees its arguments
        return _result(VALUE, values, heap, name or "a kernel")
    return None


def module_of(function: Any) -> str:
    """Return the name of the module that defines a function."""
    if type(function) is FunctionType:  # `__module__` may be a copy of another function's
        return str(function.__globals__.get("__name__") or "")
    return getattr(function, "__module__", None) or ""


def call_kernel(name: str, values: list[Any], heap: dict[Any, Any]) -> Effect:
    """Return the effect of calling a kernel of the user's, or a method that runs one."""
    return _result(VALUE, values, heap, name)


def _result(kind: Any, values: list[Any], heap: dict[Any, Any], name: str, recorded: bool = False) -> Effect:
    """Return the effect of a function that only reads its arguments."""
    if not all(has_no_effects(value, heap) for value in values):
        return Effect(
            UNKNOWN if kind is not NUMBER else kind, f"{name}() of an object that may run other code"
        )
    if any(reads_memory(value, heap) for value in values):
        return Effect(kind, f"{name}() {READS_ARRAY}", recorded)
    return Effect(kind, "", recorded)


def _call_ufunc(
    function: Any, values: list[Any], arguments: list[Any], keywords: dict[str, Any], heap: dict[Any, Any]
) -> Effect:
    name = function.__name__
    if not all(has_no_effects(value, heap) for value in values):
        return Effect(UNKNOWN, f"{name}() of an object that may run other code")
    out = keywords.get("out")
    if len(arguments) > function.nin:
        out = arguments[function.nin]
    has_tracer = TRACER in arguments[: function.nin]
    if out is not None and out is not PLAIN:
        risk = f"{name}(out=) of an array that is not an argument" if reads_memory(out, heap) else ""
        return Effect(VALUE if type(out) is Items else out, risk, has_tracer and not risk and out is TRACER)
    inputs = arguments[: function.nin]
    reads = any(reads_memory(value, heap) for value in values)
    if has_tracer and len(inputs) == function.nin and not (keywords.keys() - {"dtype"}):
        is_tracer = function.nout == 1 and set(inputs) <= {TRACER, NUMBER, SUPPORTED_ARRAY} and not keywords
        is_numpys = name in _NUMPY_UFUNCS
        return Effect(TRACER if is_tracer and is_numpys else VALUE, "", is_recorded=True)
    return Effect(VALUE, f"{name}() {READS_ARRAY}" if reads else "", False)


_NUMPY_UFUNCS = frozenset(name for name, value in vars(np).items() if isinstance(value, np.ufunc))


def _call_named_tuple(cls: Any, arguments: list[Any], keywords: dict[str, Any]) -> Effect | None:
    """Return the effect of making a named tuple; None for other arguments than one for each field."""
    given = dict(zip(cls._fields, arguments, strict=False)) | keywords
    if len(arguments) + len(keywords) != len(cls._fields) or given.keys() != set(cls._fields):
        return None
    return Effect(Items(tuple([given[name] for name in cls._fields]), cls._fields))


def _call_type(
    function: type, values: list[Any], arguments: list[Any], heap: dict[Any, Any]
) -> Effect | None:
    name = function.__name__
    if name in TRANSFERS and function.__module__.partition(".")[0] == _OURS:
        return Effect(Items(tuple(arguments))) if all(has_no_effects(v, heap) for v in values) else None
    if function in (float, int, bool, complex) or issubclass(function, np.generic):
        kind = PLAIN if function is complex or function is np.longdouble else NUMBER
        return _result(kind, values, heap, name)
    if function in (np.errstate, warnings.catch_warnings, contextlib.suppress):
        return Effect(MANAGER) if all(has_no_effects(v, heap) for v in values) else None
    if issubclass(function, BaseException) and function.__module__ == "builtins":
        return Effect(UNKNOWN) if all(has_no_effects(v, heap) for v in values) else None
    if function is np.dtype or function in (str, bytes):
        return _result(PLAIN, values, heap, name)
    if function is slice:
        return _result(SLICE, values, heap, name)
    if getattr(builtins, name, None) is function and name in _BUILTINS:
        return _call_builtin(name, values, arguments, heap)
    return None


def items(kind: Any, heap: dict[Any, Any]) -> Any:
    """Return the kind of a value's items; None if iterating over it may run other code."""
    if kind in (TRACER, VALUE, ARRAY, SUPPORTED_ARRAY):
        return kind if kind is not SUPPORTED_ARRAY else ARRAY
    if kind in (PLAIN, NUMBER):
        return PLAIN
    if type(kind) in (Items, Each):
        return item_of(kind)
    if type(kind) is Container:
        content = heap.get(kind.site)
        return PLAIN if content is None else content
    return None


def _call_builtin(name: str, values: list[Any], arguments: list[Any], heap: dict[Any, Any]) -> Effect | None:
    if name in ("isinstance", "issubclass"):
        is_plain = len(arguments) == 2 and has_no_effects(arguments[1], heap)
        return Effect(PLAIN, "" if is_plain else f"{name}() of a class that may run other code")
    if name in ("type", "id", "callable"):
        return Effect(PLAIN if name != "type" else UNKNOWN) if len(arguments) == 1 else None
    if name not in _BUILTINS:
        return None
    if name in ("range", "len", "int", "hash", "ord"):
        return _result(Each(NUMBER) if name == "range" else NUMBER, values, heap, name)
    if name in ("enumerate", "zip", "reversed", "list", "tuple", "iter", "sorted", "set", "frozenset"):
        if any(type(value) is Known for value in values):
            return None
        parts = [items(value, heap) for value in arguments]
        if None in parts or not all(has_no_effects(value, heap) for value in values):
            return None
        reads = any(value is ARRAY or value is SUPPORTED_ARRAY for value in arguments)
        kinds = {"enumerate": lambda: Items((NUMBER, parts[0])), "zip": lambda: Items(tuple(parts))}
        part = kinds[name]() if name in kinds else join_all(parts)
        return Effect(Each(part), "it iterates over an array that is not an argument" if reads else "")
    if name in ("min", "max", "sum", "pow", "divmod", "round", "abs"):
        if any(type(value) is Known for value in values):
            return None
        is_tracer = name == "abs" and arguments == [TRACER]
        is_number = name != "pow" and all(value is NUMBER or value == Each(NUMBER) for value in arguments)
        kind = TRACER if is_tracer else NUMBER if is_number else VALUE
        effect = _result(kind, values, heap, name, is_tracer)
        return effect if effect.kind is not UNKNOWN else None
    if name in ("getattr", "hasattr") and type(arguments[0]) is Known:
        is_of_module = isinstance(arguments[0].value, ModuleType)
        package = arguments[0].value.__name__.partition(".")[0] if is_of_module else ""
        return Effect(Known(member) if name == "getattr" else PLAIN) if package in ("numpy", _OURS) else None
    if name in ("getattr", "hasattr", "next", "dict"):
        return Effect(Container(None)) if name == "dict" and not values else None
    return _result(PLAIN, values, heap, name)


def _call_numpy(
    name: str,
    module: str,
    values: list[Any],
    arguments: list[Any],
    keywords: dict[str, Any],
    heap: dict[Any, Any],
    is_dispatched: bool,
) -> Effect | None:
    """Return the effect of calling a function of NumPy's or pycudakit's.

    `is_dispatched` if NumPy hands a call with tracers to these (NEP 18).
    """
    if name in _WITH_OTHER_EFFECTS or not name:
        return None
    if not all(has_no_effects(value, heap) for value in values):
        return Effect(UNKNOWN, f"{name}() of an object that may run other code")
    if any(
        type(value) is Known and callable(value.value) and not isinstance(value.value, (type, np.ufunc))
        for value in values
    ):
        return None
    first = arguments[0] if arguments else None
    out = keywords.get("out")
    is_recorded = is_dispatched and first is TRACER
    reads = any(reads_memory(value, heap) for value in values)
    risk = f"{name}() {READS_ARRAY}" if reads else ""
    if out is not None and out is not PLAIN:
        return Effect(VALUE if type(out) is Items else out, risk)
    if name in _WRITES:
        return Effect(PLAIN, risk)
    if name == "array":
        copies = "copy" not in keywords
        return Effect(VALUE if copies else ARRAY, risk)
    if reads and name in _MAY_SHARE:
        return Effect(ARRAY, risk)
    if is_recorded and name in _TO_TRACER and "dtype" not in keywords:
        are_plain = all(
            value in (TRACER, NUMBER, PLAIN, SUPPORTED_ARRAY) or _is_shape(value) for value in values
        )
        return Effect(TRACER if are_plain else VALUE, risk, is_recorded)
    if name in TO_VALUE or module.startswith(_FRESH_MODULES):
        return Effect(VALUE, risk, is_recorded)
    if name == "default_rng":
        return Effect(GENERATOR, risk)
    if not any(
        value in (TRACER, VALUE, ARRAY, SUPPORTED_ARRAY) or type(value) in (Items, Container, Each)
        for value in values
    ):
        return Effect(VALUE, risk)
    return Effect(ARRAY, risk)


def _is_shape(kind: Any) -> bool:
    return (type(kind) is Items and all(each in (NUMBER, PLAIN) for each in kind.kinds)) or kind == Each(
        NUMBER
    )


def attribute_of_module(module: ModuleType, name: str) -> Any:
    """Return an attribute of a module of NumPy's, pycudakit's or `math`; None for other modules."""
    package = module.__name__.partition(".")[0]
    return getattr(module, name, None) if package in ("numpy", "math", "operator", _OURS) else None
