"""The dispatcher: which implementation computes a call with arguments of other libraries.

Calls whose arguments are all NumPy's or Python's skip it. For the others there is one order: the device fast
path, a replay, Dask, device arrays, pandas' objects by their values, a type that overrides NumPy's functions.
If none of them applies, the arguments are read as NumPy arrays. `accept_foreign_arrays` wraps each
public function.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pycudakit import errors
from pycudakit._interop.foreign_arrays import (
    can_use_device_arrays,
    check_device_arguments,
    check_nulls,
    delegate_to_override,
    has_dask,
    is_on_device,
    is_ordinary,
    library_of,
    ordinary_types,
    overriding_argument,
    read_all,
    with_pandas_index,
)
from pycudakit._runtime import context, late_bound
from pycudakit._runtime.dispatch_cache import with_dispatch_cache

P = ParamSpec("P")
R = TypeVar("R")
Implementation = Callable[[Sequence[Any], Mapping[str, Any]], Any]  # takes arguments and keywords

# Functions that respect a mask in NumPy, beside elementwise ones.
_NAMES = """all allclose amax amin any argmax argmin argsort argwhere astype clip count_nonzero cumprod cumsum
diff flatnonzero flip isclose kron max mean min nan_to_num nancumprod nancumsum nanmax nanmean nanmin nanprod
nanstd nansum nanvar nonzero prod ptp roll round sort std sum swapaxes trace transpose unique unique_values
var"""
_MASK_AWARE: dict[str, str | bool] = dict.fromkeys(_NAMES.split(), True)
_MASK_AWARE |= {"compress": "a", "take": "a", "take_along_axis": "arr"}  # of this parameter only
# Functions whose result has pandas' index.
_KEEPS_PANDAS_INDEX = frozenset({"clip", "cumprod", "cumsum", "round"})
# Functions whose result has other labels of pandas', which no engine can give it.
_NAMES = "all any argsort flip matmul max mean min prod ptp std sum transpose var"
_LOSES_PANDAS_LABELS = frozenset(_NAMES.split())


class Dispatcher:
    """The implementations of one function for arrays of other libraries.

    Parameters
    ----------
    name
        The function's name, for messages and the call log.
    function
        The function whose calls on device arrays are captured and replayed.
    parameters
        The parameters' names, or a function that has them, for messages.
    on_dask
        Computes a call on Dask arrays from its arguments and keywords. NotImplemented as a result means that
        NumPy dispatches to Dask.
    on_device
        Computes a call on device arrays from its arguments, its keywords, and its signature for captures.
    device_fast_path
        Computes a call on device arrays, or returns None.
    accepts_nulls
        Whether pandas' objects may have nulls.
    on_pandas
        Computes a call under `auto` on pandas' objects by their values, or returns NotImplemented.
    has_device_array
        Returns True if an argument is a device array, or contains one.
    """

    def __init__(
        self,
        name: str,
        function: Any,
        parameters: Callable[..., Any] | Sequence[str],
        on_dask: Implementation,
        on_device: Callable[[Sequence[Any], Mapping[str, Any], Any], Any],
        device_fast_path: Callable[..., Any] | None = None,
        accepts_nulls: bool = False,
        on_pandas: Implementation | None = None,
        has_device_array: Callable[[Any], bool] = is_on_device,
    ) -> None:
        self._name, self._function, self._parameters = name, function, parameters
        self._on_dask, self._on_device, self._device_fast_path = on_dask, on_device, device_fast_path
        self._accepts_nulls, self._on_pandas = accepts_nulls, on_pandas
        self._has_device_array = has_device_array

    def dispatch(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], by_numpy: Callable[[], Any] | None
    ) -> Any:
        """Compute a call; return NotImplemented if its arguments must be read as NumPy arrays.

        `by_numpy` calls NumPy's function, which dispatches to the types that override it.
        """
        if self._device_fast_path is not None:
            try:
                result = self._device_fast_path(*args, **kwargs)
            except errors.OutOfMemory:  # the general path needs less device memory
                result = None
            if result is not None:
                return result
        result, signature = late_bound.try_replay(self._function, args, kwargs)
        if result is not NotImplemented:
            return result
        values = (*args, *kwargs.values())
        if any(map(has_dask, values)):
            return self._on_dask(args, kwargs)
        if can_use_device_arrays() and any(map(self._has_device_array, values)):
            if signature is None:  # which only valid arrays have
                check_device_arguments(self._name, self._parameters, args, kwargs)
            return self._on_device(args, kwargs, signature)
        value = None if by_numpy is None else overriding_argument(values)
        if value is None or by_numpy is None:
            return NotImplemented
        if (
            self._on_pandas is not None
            and library_of(value) == "pandas"
            and context.current_engine() == "auto"
        ):
            result = self._on_pandas(args, kwargs)
            if result is not NotImplemented:
                return result
        if not self._accepts_nulls:
            check_nulls(self._name, self._parameters, args, kwargs)
        return delegate_to_override(self._name, value, by_numpy)


@functools.cache
def accept_foreign_arrays(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that it takes arrays of other libraries; add the dispatch cache for small calls."""
    numpy = getattr(function, "numpy_for_small", None)
    name = function.__name__
    mask_aware = _MASK_AWARE.get(name, False)
    by_numpy = None if hasattr(np, name) and ".image." not in function.__module__ else False
    numpy_function = _numpy_equivalent(function)
    dispatch = Dispatcher(
        name,
        function,
        function,
        on_dask=lambda args, kwargs: late_bound.call_on_dask(name, args, kwargs, call.__module__),
        on_device=functools.partial(late_bound.call_on_device, function),
        device_fast_path=getattr(function, "device_fast_path", None),
        on_pandas=lambda args, kwargs: _on_pandas(name, public, args, kwargs),
    ).dispatch

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for value in (*args, *kwargs.values()):
            if type(value) not in ordinary_types and not is_ordinary(value):
                break
        else:
            return function(*args, **kwargs)
        compute = None if numpy_function is None else functools.partial(numpy_function, *args, **kwargs)
        result: Any = dispatch(args, kwargs, compute)
        if result is not NotImplemented:
            return result  # type: ignore[no-any-return]
        read_args, read_kwargs = read_all(name, function, args, kwargs, by_numpy, mask_aware)
        result = function(*read_args, **read_kwargs)
        inputs = (*args, *kwargs.values())
        labelled = [each for each in inputs if library_of(each) == "pandas" and hasattr(each, "index")]
        if labelled:
            _check_labels(name, result, labelled[0])
        return with_pandas_index(result, inputs) if name in _KEEPS_PANDAS_INDEX else result  # type: ignore[no-any-return]

    public: Callable[P, R] = (
        call if numpy is None else functools.wraps(function)(with_dispatch_cache(numpy, call))
    )
    return public


def _on_pandas(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    # Few programs need it.
    pandas_functions: Any = importlib.import_module("pycudakit._interop.pandas_functions")
    return pandas_functions.call_by_values(name, function, args, kwargs)


def _numpy_equivalent(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the NumPy function of the same name, or None."""
    if function.__module__.startswith(("pycudakit.image.", "pycudakit.random.")):
        return None
    namespace = np.linalg if function.__module__ == "pycudakit.linalg" else np
    equivalent = getattr(namespace, function.__name__, None)
    return equivalent if callable(equivalent) else None


def _check_labels(function: str, result: Any, operand: Any) -> None:
    """Raise if a result would lose labels that pandas would give it."""
    has_fewer_axes = function in _KEEPS_PANDAS_INDEX and np.ndim(result) < np.ndim(operand)
    if has_fewer_axes or (function in _LOSES_PANDAS_LABELS and np.ndim(result)):
        raise errors.Unsupported(
            f"{function}: {type(operand).__name__} has labels, which the result would lose: "
            ".to_numpy() first, or use the engine 'auto'"
        )
