"""Public functions of those that are written for NumPy: fused, and called as NumPy's own are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from pycudakit._interop.foreign_arrays import (
    check_nulls,
    delegate_to_override,
    has_dask,
    is_on_device,
    is_ordinary,
    overriding_argument,
    read_all,
)
from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, late_bound, native_call, operands
from pycudakit._runtime.cost_model import REASON_NUMPY_FASTER, REASON_NUMPY_FASTER_FOR_SIZE
from pycudakit._runtime.dispatch_cache import with_dispatch_cache
from pycudakit._runtime.lazy_array import LazyArray
from pycudakit.fusing import replay
from pycudakit.fusing.api import SMALL_ARRAYS, fuse
from pycudakit.fusing.trace.current_trace import current_trace

F = TypeVar("F", bound=Callable[..., Any])


def composite(
    *arrays: str,
    first_is_sequence: bool = False,
    numpy_is_faster: Callable[[list[Array]], bool] | None = None,
) -> Callable[[F], F]:
    """Make a public function of a body, which has the name, the arguments and the errors of NumPy's function.

    Parameters
    ----------
    arrays
        The arguments that the body wants as arrays; None is left as it is.
    of_many
        Whether the first of them is a sequence of arrays.
    is_numpys
        Whether NumPy's own answers first, which need not take the steps of the body, though they are large.
    """

    def decorate(body: F) -> F:
        name = body.__name__
        numpy_function = getattr(np, name)
        fused = fuse(body)
        parameters = inspect.signature(body).parameters
        places = {key: place for place, key in enumerate(parameters) if key in arrays}
        needed = [
            (key, place)
            for key, place in places.items()
            if parameters[key].default is inspect.Parameter.empty
        ]

        def call(*args: Any, **kwargs: Any) -> Any:
            trace = current_trace()
            if trace is not None:
                given, named = _replaced(args, kwargs, places, first_is_sequence, as_array)
                try:
                    return body(*given, **named)
                except NumPyOnly:
                    return trace.by_numpy(numpy_function, args, kwargs)
            compute = functools.partial(numpy_function, *args, **kwargs)
            engine = context.checked_current_engine()
            values = (*args, *kwargs.values())
            are_ordinary = all(map(is_ordinary, values))
            if not are_ordinary and any(map(has_dask, values)):
                given, named = _replaced(args, kwargs, places, first_is_sequence, as_array)
                return late_bound.call_on_dask(name, given, named)
            if context.is_only_numpy(engine):
                return native_call.numpy_fallback(name, compute)
            if not are_ordinary:
                if (answer := replay.try_replay(body, args, kwargs)) is not NotImplemented:
                    return answer
                if any(map(is_on_device, values)):
                    return replay.call(body, fused, args, kwargs)
                decider_type = overriding_argument(values)
                if decider_type is not None:
                    check_nulls(name, body, args, kwargs)
                    return delegate_to_override(name, decider_type, compute)
                args, kwargs = read_all(name, body, args, kwargs)
                compute = functools.partial(numpy_function, *args, **kwargs)
                if not all(map(is_ordinary, (*args, *kwargs.values()))):  # a masked array, under "auto"
                    return native_call.run_numpy(name, "auto: an array's class overrides NumPy", compute)
            arrays_read: list[Array] = []

            def read(value: Any) -> Any:
                array = operands.as_array(value)
                if array is None:
                    raise NumPyOnly
                arrays_read.append(array)
                return array

            if any((args[at] if at < len(args) else kwargs.get(key, ...)) is None for key, at in needed):
                return native_call.numpy_fallback(name, compute)
            try:
                given, named = _replaced(args, kwargs, places, first_is_sequence, read)
                if engine == "auto" and sum(array.size for array in arrays_read) <= SMALL_ARRAYS:
                    return native_call.run_numpy(name, REASON_NUMPY_FASTER_FOR_SIZE, compute)
                if engine == "auto" and numpy_is_faster is not None and numpy_is_faster(arrays_read):
                    return native_call.run_numpy(name, REASON_NUMPY_FASTER, compute)
                return fused(*given, **named)
            except NumPyOnly as error:
                return native_call.numpy_fallback(name, compute, *error.args)

        return functools.wraps(body)(with_dispatch_cache(numpy_function, call))  # type: ignore[return-value]

    return decorate


class NumPyOnly(Exception):
    """NumPy alone takes such arguments, for the reason given, or because of an array's type."""


def as_array(value: Any) -> Any:
    """Return an array, or what takes its place, as it is, and one of anything else."""
    is_one = issubclass(type(value), LazyArray) or isinstance(value, np.ndarray) or has_dask(value)
    return value if is_one else np.asarray(value)


def _replaced(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    places: dict[str, int],
    first_is_sequence: bool,
    read: Callable[[Any], Any],
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments with what `read` makes of those that are arrays."""
    given, named = list(args), dict(kwargs)
    for key, place in places.items():
        where: Any = given if place < len(given) else named
        at: Any = place if where is given else key
        if where is named and key not in named:
            continue
        value = where[at]
        if value is not None:
            where[at] = _read_many(value, read) if first_is_sequence and place == 0 else read(value)
    return given, named


def _read_many(parts: Any, read: Callable[[Any], Any]) -> list[Any]:
    """Return arrays; and Python numbers, whose type is that of their company, as they are."""
    both = [(part, read(part)) for part in parts]
    return [part if type(part) in (int, float) else array for part, array in both]
