"""The methods and attributes of NumPy's ufuncs: `add.reduce`, `add.at`, `add.nin` and so on."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any, Protocol, TypeVar

import numpy as np

from pycudakit import errors
from pycudakit._interop.dispatch import accept_foreign_arrays
from pycudakit._interop.foreign_arrays import (
    has_dask,
    is_dask,
    is_device_array,
    is_ordinary,
    read,
)
from pycudakit._native.dtypes import code_of
from pycudakit._runtime import native_call
from pycudakit._runtime.lazy_array import LazyArray
from pycudakit._runtime.operands import as_array
from pycudakit._runtime.ufunc_arguments import refuse_byte_order

F = TypeVar("F", bound=Callable[..., Any])

_MAX_DIMENSIONS = 64
NOT_GIVEN: Any = np._NoValue  # noqa: SLF001
_SUMS, _TRUTH_VALUES = "reduce.sums", "reduce.truth_values"
_EXTREMES, _SCANS = "reduce.min_max", "scan.cumulative"
# The families' modules are imported on first use: `import pycudakit` stays fast.
_REDUCTIONS = {
    "add": (_SUMS, "sum"),
    "multiply": (_SUMS, "prod"),
    "logical_and": (_TRUTH_VALUES, "all"),
    "logical_or": (_TRUTH_VALUES, "any"),
    "maximum": (_EXTREMES, "max"),
    "minimum": (_EXTREMES, "min"),
}
_SCANNED = {
    "add": (_SCANS, "cumsum"),
    "multiply": (_SCANS, "cumprod"),
    "maximum": (_SCANS, "cummax"),
    "minimum": (_SCANS, "cummin"),
}
_CONVERSION = ("elementwise.non_ufuncs", "astype")
# Keywords that only NumPy supports, by function.
_NUMPY_KEYWORDS = {
    **dict.fromkeys(("sum", "prod"), frozenset[str]()),
    **dict.fromkeys(("max", "min"), frozenset({"dtype"})),
    **dict.fromkeys(("all", "any"), frozenset({"dtype", "initial"})),
}
_NOT_SHOWN = ("out1", "out2", "sig")
_ATTRIBUTES = ("identity", "nargs", "nin", "nout", "ntypes", "resolve_dtypes", "signature", "types")


class UfuncAttributes(Protocol):
    """The attributes that the functions share with NumPy's ufuncs, as `numpy.ufunc` documents them."""

    identity: Any
    nargs: int
    nin: int
    nout: int
    ntypes: int
    resolve_dtypes: Callable[..., Any]
    signature: str | None
    types: list[str]
    accumulate: Callable[..., Any]
    at: Callable[..., Any]
    outer: Callable[..., Any]
    reduce: Callable[..., Any]
    reduceat: Callable[..., Any]


def as_ufunc(function: F, shown: inspect.Signature | None = None) -> F:
    """Give a function the attributes of NumPy's ufunc of its name, and the signature that NumPy shows."""
    ufunc = getattr(np, function.__name__)
    attributes = vars(function)
    attributes.update({name: getattr(ufunc, name) for name in _ATTRIBUTES})
    attributes.update({method.__name__: MethodType(method, function) for method in _METHODS})
    attributes["__signature__"] = shown_signature(function) if shown is None else shown
    return function


def shown_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature as NumPy shows it: fewer parameters, NumPy's defaults, no annotations."""
    instead = {("out", NOT_GIVEN): None, ("keepdims", np._NoValue): False}  # noqa: SLF001
    shown = [
        p.replace(default=instead.get((p.name, p.default), p.default), annotation=inspect.Parameter.empty)
        for p in inspect.signature(function).parameters.values()
        if p.name not in _NOT_SHOWN
    ]
    return inspect.Signature(shown)


def _counterpart(location: tuple[str, str]) -> Callable[..., Any]:
    module, name = location
    function = getattr(importlib.import_module(f"pycudakit._families.{module}"), name)
    return accept_foreign_arrays(function)


def _operand_of(function: Any, method: str, array: Any) -> Any:
    """Convert an argument that NumPy would take for an object, such as another library's array."""
    if is_ordinary(array) or is_device_array(array) or is_dask(array):
        return array
    return read(array, f"{function.__name__}.{method}, array")


def _is_supported(array: Any, out: Any) -> bool:
    """Return True if a function of this package supports an array of this type, and this output."""
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    is_out_supported = out is None or type(out) is np.ndarray or is_device_array(out)
    if not is_out_supported or isinstance(array, LazyArray):
        return False
    if is_ordinary(array):
        return as_array(array) is not None
    return is_device_array(array) or (is_dask(array) and out is None)


def _by_numpy(function: Any, method: str, unsupported: str | None, *args: Any, **kwargs: Any) -> Any:
    if any(map(has_dask, (*args, *kwargs.values()))):
        raise errors.Unsupported(
            f"{function.__name__}.{method} needs the whole Dask array at once: call .compute() on it first"
        )
    compute = functools.partial(getattr(getattr(np, function.__name__), method), *args, **kwargs)
    if any(isinstance(value, LazyArray) for value in args):  # the tracer records it
        return compute()
    if function.nin != 2 and method != "at":  # raises
        return compute()
    return native_call.numpy_fallback(f"{function.__name__}.{method}", compute, unsupported)


_NUMPY_ONLY = "only NumPy has this method"
_DEFAULTS = {"axis": 0, "dtype": None, "out": None, "keepdims": False, "initial": NOT_GIVEN, "where": True}


def reduce(
    function: Any,
    array: Any,
    /,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NOT_GIVEN,
    where: Any = True,
) -> Any:
    """Reduce an array along axes by applying the function, as `numpy.ufunc.reduce`.

    The reductions of `add`, `multiply`, `maximum`, `minimum`, `logical_and` and `logical_or` are `sum`,
    `prod`, `max`, `min`, `all` and `any`; the others are computed by NumPy.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.add.reduce([[1, 2], [3, 4]])
    array([4, 6])
    """
    passed = {
        "axis": axis,
        "dtype": dtype,
        "out": out,
        "keepdims": keepdims,
        "initial": initial,
        "where": where,
    }
    passed = {name: value for name, value in passed.items() if value is not _DEFAULTS[name]}
    if isinstance(out, tuple) and len(out) == 1:
        passed["out"] = out[0]
    array = _operand_of(function, "reduce", array)
    ours = _REDUCTIONS.get(function.__name__)
    if ours is None:
        return _by_numpy(function, "reduce", _NUMPY_ONLY, array, **passed)
    if ours[0] == _EXTREMES and "dtype" in passed and is_ordinary(array) and _is_supported(array, out):
        refuse_byte_order(dtype)
        if code_of(np.dtype(dtype)) is not None:
            array = _counterpart(_CONVERSION)(array, passed.pop("dtype"))
    unsupported = passed.keys() & _NUMPY_KEYWORDS[ours[1]]
    if initial is None:
        unsupported |= {"initial"}
    if unsupported or not _is_supported(array, out):
        reason = f"a reduction with {min(unsupported)}={passed[min(unsupported)]}" if unsupported else None
        return _by_numpy(function, "reduce", reason, array, **passed)
    return _counterpart(ours)(array, **{"axis": axis, **passed})


def accumulate(function: Any, array: Any, /, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    """Accumulate the results of applying the function along an axis, as `numpy.ufunc.accumulate`.

    Those of `add`, `multiply`, `maximum` and `minimum` are `cumsum`, `cumprod`, `cummax` and `cummin`; the
    others are computed by NumPy.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.maximum.accumulate([1, 3, 2])
    array([1, 3, 3])
    """
    passed = {"axis": axis, "dtype": dtype, "out": out}
    passed = {name: value for name, value in passed.items() if value is not _DEFAULTS[name]}
    array = _operand_of(function, "accumulate", array)
    ours = _SCANNED.get(function.__name__)
    if ours is None:
        return _by_numpy(function, "accumulate", _NUMPY_ONLY, array, **passed)
    unsupported = "an axis that is not an int" if type(axis) is not int else None
    if unsupported or not _is_supported(array, out):
        return _by_numpy(function, "accumulate", unsupported, array, **passed)
    refuse_byte_order(dtype)
    if np.ndim(array) == 0:
        return getattr(np, function.__name__).accumulate(array)  # raises
    return _counterpart(ours)(array, axis, dtype, out[0] if isinstance(out, tuple) else out)


def outer(function: Any, a: Any, b: Any, /, **kwargs: Any) -> Any:
    """Apply the function to all pairs of an element of `a` and one of `b`, as `numpy.ufunc.outer`.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.multiply.outer([1, 2], [3, 4])
    array([[3, 4],
           [6, 8]])
    """
    a, b = (_operand_of(function, "outer", value) for value in (a, b))
    if (
        function.nin != 2
        or function.signature is not None
        or not (_is_supported(a, None) and _is_supported(b, None))
    ):
        return _by_numpy(function, "outer", None, a, b, **kwargs)
    if np.ndim(a) + np.ndim(b) > _MAX_DIMENSIONS:
        return _by_numpy(function, "outer", f"more than {_MAX_DIMENSIONS} dimensions", a, b, **kwargs)
    # NumPy's method takes a number as an array of its own type.
    a, b = (value if is_device_array(value) or is_dask(value) else np.asarray(value) for value in (a, b))
    expanded = (..., *(None,) * np.ndim(b))
    return function(a[expanded], b, **kwargs)


def at(function: Any, a: Any, indices: Any, b: Any = NOT_GIVEN, /) -> None:
    """Apply the function in place at indices, repeated ones repeatedly, by `numpy.ufunc.at`.

    Examples
    --------
    >>> import numpy as np
    >>> import pycudakit as pk
    >>> x = np.array([1, 2, 3])
    >>> pk.add.at(x, [0, 0, 2], 10)
    >>> x
    array([21,  2, 13])
    """
    _by_numpy(function, "at", _NUMPY_ONLY, a, indices, *(() if b is NOT_GIVEN else (b,)))


def reduceat(
    function: Any, array: Any, /, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None
) -> Any:
    """Reduce slices along an axis, by `numpy.ufunc.reduceat`.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.add.reduceat([1, 2, 3, 4], [0, 2])
    array([3, 7])
    """
    passed = {"axis": axis, "dtype": dtype, "out": out}
    passed = {name: value for name, value in passed.items() if value is not _DEFAULTS[name]}
    array = _operand_of(function, "reduceat", array)
    return _by_numpy(function, "reduceat", _NUMPY_ONLY, array, indices, **passed)


_METHODS = (accumulate, at, outer, reduce, reduceat)
