"""The `composite` decorator: a public function made from a body that is written in NumPy and fused.

The wrapper picks the path of a call: inline in the current trace, Dask, NumPy alone, replay on device arrays,
another library's override, or the fused body.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from pycudakit._interop.dispatch import Dispatcher
from pycudakit._interop.foreign_arrays import has_dask, is_ordinary, read_all
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, late_bound, native_call, operands
from pycudakit._runtime.cost_model import REASON_NUMPY_FASTER_FOR_SIZE
from pycudakit._runtime.dispatch_cache import with_dispatch_cache
from pycudakit._runtime.lazy_array import LazyArray
from pycudakit.fusing import device_replay
from pycudakit.fusing.api import fuse
from pycudakit.fusing.execute.capture import SMALL_ARRAYS
from pycudakit.fusing.trace.current_trace import current_trace

F = TypeVar("F", bound=Callable[..., Any])


def composite(
    *arrays: str,
    first_is_sequence: bool = False,
    numpy_is_faster: Callable[[list[Array]], bool] | None = None,
) -> Callable[[F], F]:
    """Make a public function from a body with the name, arguments and errors of a NumPy function.

    Parameters
    ----------
    arrays
        The arguments that the body takes as arrays; None stays None.
    first_is_sequence
        Whether the first of them is a sequence of arrays.
    numpy_is_faster
        A predicate of the arrays' sizes and dtypes that "auto" evaluates; True means that NumPy's function
        is faster.
    """

    def decorate(body: F) -> F:
        name = body.__name__
        numpy_function = getattr(np, name)
        fused = fuse(body)
        parameters = inspect.signature(body).parameters
        positions = {key: position for position, key in enumerate(parameters) if key in arrays}
        needed = [
            (key, position)
            for key, position in positions.items()
            if parameters[key].default is inspect.Parameter.empty
        ]

        def on_dask(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            call_args, call_kwargs = _replaced(args, kwargs, positions, first_is_sequence, as_array)
            return late_bound.call_on_dask(name, call_args, call_kwargs)

        def on_device(args: Sequence[Any], kwargs: Mapping[str, Any], signature: Any) -> Any:
            return device_replay.call(signature, fused, args, kwargs)

        dispatch = Dispatcher(name, body, body, on_dask, on_device).dispatch

        def call(*args: Any, **kwargs: Any) -> Any:
            trace = current_trace()
            if trace is not None:
                call_args, call_kwargs = _replaced(args, kwargs, positions, first_is_sequence, as_array)
                try:
                    result = trace.run_handler(body, *call_args, **call_kwargs)
                except NumPyOnly:
                    return trace.by_numpy(numpy_function, args, kwargs)
                return result if trace.analysis is None else trace.returned(result)
            compute = functools.partial(numpy_function, *args, **kwargs)
            engine = context.checked_current_engine()
            values = (*args, *kwargs.values())
            are_ordinary = all(map(is_ordinary, values))
            if not are_ordinary:
                result = dispatch(args, kwargs, compute)
                if result is not NotImplemented:
                    return result
            if context.is_only_numpy(engine):
                return native_call.numpy_fallback(name, compute)
            if not are_ordinary:
                args, kwargs = read_all(name, body, args, kwargs)
                compute = functools.partial(numpy_function, *args, **kwargs)
                if not all(map(is_ordinary, (*args, *kwargs.values()))):  # a masked array
                    return native_call.numpy_fallback(name, compute, "an array's class overrides NumPy")
            arrays_read: list[Array] = []

            def read(value: Any) -> Any:
                array = operands.as_array(value)
                if array is None:
                    raise NumPyOnly
                arrays_read.append(array)
                return array

            if any(
                (args[index] if index < len(args) else kwargs.get(key, ...)) is None for key, index in needed
            ):
                return native_call.numpy_fallback(name, compute)
            try:
                call_args, call_kwargs = _replaced(args, kwargs, positions, first_is_sequence, read)
                if engine == "auto" and sum(array.size for array in arrays_read) <= SMALL_ARRAYS:
                    return native_call.run_numpy(name, REASON_NUMPY_FASTER_FOR_SIZE, compute)
                if engine == "auto" and numpy_is_faster is not None and numpy_is_faster(arrays_read):
                    return native_call.run_numpy(name, REASON_NUMPY_FASTER_FOR_SIZE, compute)
                return fused(*call_args, **call_kwargs)
            except NumPyOnly as error:
                return native_call.numpy_fallback(name, compute, *error.args)

        return functools.wraps(body)(with_dispatch_cache(numpy_function, call))  # type: ignore[return-value]

    return decorate


class NumPyOnly(Exception):
    """Raised for arguments that only NumPy supports.

    The exception's argument is the reason; without one, the reason is an unsupported dtype.
    """


def as_array(value: Any) -> Any:
    """Return arrays, lazy arrays and Dask arrays unchanged; convert anything else to an array."""
    is_array = issubclass(type(value), LazyArray) or isinstance(value, np.ndarray) or has_dask(value)
    return value if is_array else np.asarray(value)


def _replaced(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    positions: dict[str, int],
    first_is_sequence: bool,
    read: Callable[[Any], Any],
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments, with `read` applied to the array arguments."""
    new_args, new_kwargs = list(args), dict(kwargs)
    for key, position in positions.items():
        container: Any = new_args if position < len(new_args) else new_kwargs
        slot: Any = position if container is new_args else key
        if container is new_kwargs and key not in new_kwargs:
            continue
        value = container[slot]
        if value is not None:
            container[slot] = _read_many(value, read) if first_is_sequence and position == 0 else read(value)
    return new_args, new_kwargs


def _read_many(parts: Any, read: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return the parts as arrays; Python numbers stay, since they are weakly typed (NEP 50)."""
    both = [(part, read(part)) for part in parts]
    return tuple([part if type(part) in (int, float) else array for part, array in both])
