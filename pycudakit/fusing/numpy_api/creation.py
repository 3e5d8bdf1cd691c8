"""New arrays, as the body of a fused function makes them: captured, though NumPy asks no stand-in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.numpy_api.index_tricks import Bracketed
from pycudakit.fusing.numpy_api.sequence_arguments import OF_ARRAYS, array_of, has_stand_in, of_arrays
from pycudakit.fusing.trace.current_trace import capturing
from pycudakit.fusing.trace.views_and_creation import empty, full


def _is_ordinary(dtype: Any, order: Any, keywords: dict[str, Any]) -> bool:
    return not keywords and order in ("C", "F") and np.dtype(dtype) in CODES


def _zeros(shape: Any, dtype: Any = float, order: Any = "C", **keywords: Any) -> Any:
    recording = capturing()
    if recording is None or not _is_ordinary(dtype, order, keywords):
        return np.zeros(shape, dtype, order, **keywords)
    return full(recording, recording.resolved(shape), 0, dtype, order)


def _ones(shape: Any, dtype: Any = None, order: Any = "C", **keywords: Any) -> Any:
    recording = capturing()
    if recording is None or not _is_ordinary(dtype, order, keywords):
        return np.ones(shape, dtype, order, **keywords)
    return full(recording, recording.resolved(shape), 1, float if dtype is None else dtype, order)


def _empty(shape: Any, dtype: Any = float, order: Any = "C", **keywords: Any) -> Any:
    recording = capturing()
    if recording is None or not _is_ordinary(dtype, order, keywords):
        return np.empty(shape, dtype, order, **keywords)
    return empty(recording, recording.resolved(shape), dtype, order)


def _full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", **keywords: Any) -> Any:
    recording = capturing()
    wanted = np.asarray(fill_value).dtype if dtype is None and type(fill_value) is not StandIn else dtype
    if type(fill_value) is StandIn:
        wanted = fill_value.dtype if dtype is None else dtype
    if recording is None or not _is_ordinary(wanted, order, keywords):
        return np.full(shape, fill_value, dtype, order, **keywords)
    if type(fill_value) is StandIn or np.ndim(fill_value):
        made = empty(recording, recording.resolved(shape), wanted, order)
        recording.set(made, ..., fill_value)
        return made
    return full(recording, recording.resolved(shape), fill_value, wanted, order)


def _take(a: Any, indices: Any, *arguments: Any, **keywords: Any) -> Any:
    recording = capturing()
    if recording is None or type(a) is StandIn or type(indices) is not StandIn:
        return np.take(a, indices, *arguments, **keywords)
    return recording.call(np.take, (np.asarray(a), indices, *arguments), keywords)  # which NumPy does not ask


def _lexsort(keys: Any, *arguments: Any, **keywords: Any) -> Any:
    if type(keys) is list and has_stand_in(keys):  # NumPy asks those in tuples alone
        keys = tuple(keys)
    return np.lexsort(keys, *arguments, **keywords)


def _by_numpy(function: Any) -> Callable[..., Any]:
    """Return what has NumPy make an array of numbers, which is a stand-in's from then on."""

    @functools.wraps(function)
    def make(*arguments: Any, **keywords: Any) -> Any:
        recording = capturing()
        if recording is None:
            return function(*arguments, **keywords)
        return recording.wrap(function(*recording.resolved(arguments), **recording.resolved(keywords)))

    return make


_MADE: dict[Any, Callable[..., Any]] = {
    np.zeros: _zeros,
    np.ones: _ones,
    np.empty: _empty,
    np.full: _full,
    np.take: _take,
    np.lexsort: _lexsort,
    **{function: array_of(function) for function in (np.array, np.asarray, np.asanyarray)},
    **{getattr(np, name): of_arrays(getattr(np, name)) for name in OF_ARRAYS.split()},
    **{
        function: _by_numpy(function)
        for function in (
            *(np.arange, np.linspace, np.logspace, np.geomspace, np.eye, np.identity, np.tri, np.indices),
            *(np.bartlett, np.blackman, np.hamming, np.hanning, np.kaiser),
        )
    },
}
MADE: dict[int, Any] = {id(function): made for function, made in _MADE.items()}
MADE |= {id(np.r_): Bracketed(np.r_, are_columns=False), id(np.c_): Bracketed(np.c_, are_columns=True)}
