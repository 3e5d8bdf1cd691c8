"""Replacements for NumPy's creation functions while a fused function is traced.

NumPy dispatches to a tracer only if one is among the arguments. `zeros(shape)` has none, so names such as
`np.zeros` resolve to these functions in the body of a fused function, and the new array is a tracer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES
from pycudakit.fusing.memory.nodes import DEFAULT_OPTIONS, Node, leaf
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.numpy_api.index_tricks import IndexTrick
from pycudakit.fusing.numpy_api.sequence_arguments import (
    SEQUENCE_FUNCTIONS,
    accepting_sequences,
    contains_tracer,
    replacement_for,
)
from pycudakit.fusing.trace.current_trace import current_trace, trace_if_tracing
from pycudakit.fusing.trace.elementwise import conversion
from pycudakit.fusing.trace.views_and_creation import empty, full


def _can_be_traced(dtype: Any, order: Any, keywords: dict[str, Any]) -> bool:
    return not keywords and order in ("C", "F") and np.dtype(dtype) in CODES


def _zeros(shape: Any, dtype: Any = float, order: Any = "C", **keywords: Any) -> Any:
    trace = trace_if_tracing()
    if trace is None or not _can_be_traced(dtype, order, keywords):
        return np.zeros(shape, dtype, order, **keywords)
    return full(trace, trace.resolved(shape), 0, dtype, order)


def _ones(shape: Any, dtype: Any = None, order: Any = "C", **keywords: Any) -> Any:
    trace = trace_if_tracing()
    if trace is None or not _can_be_traced(dtype, order, keywords):
        return np.ones(shape, dtype, order, **keywords)
    return full(trace, trace.resolved(shape), 1, float if dtype is None else dtype, order)


def empty_array(shape: Any, dtype: Any = float, order: Any = "C", **keywords: Any) -> Any:
    """Stand for `np.empty`."""
    trace = trace_if_tracing()
    if trace is None or not _can_be_traced(dtype, order, keywords):
        return np.empty(shape, dtype, order, **keywords)
    return empty(trace, trace.resolved(shape), dtype, order)


def _full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", **keywords: Any) -> Any:
    trace = trace_if_tracing()
    result_dtype = np.asarray(fill_value).dtype if dtype is None and type(fill_value) is not Tracer else dtype
    if type(fill_value) is Tracer:
        result_dtype = fill_value.dtype if dtype is None else dtype
    if trace is None or not _can_be_traced(result_dtype, order, keywords):
        return np.full(shape, fill_value, dtype, order, **keywords)
    if type(fill_value) is Tracer or np.ndim(fill_value):
        result = empty(trace, trace.resolved(shape), result_dtype, order)
        trace.set(result, ..., fill_value)
        return result
    return full(trace, trace.resolved(shape), fill_value, result_dtype, order)


def _take(a: Any, indices: Any, *arguments: Any, **keywords: Any) -> Any:
    trace = trace_if_tracing()
    if trace is None or type(a) is Tracer or type(indices) is not Tracer:
        return np.take(a, indices, *arguments, **keywords)
    if isinstance(a, np.ndarray) and type(a) is not np.ndarray:  # which a subclass computes
        return trace.on_host(np.take, (a, indices, *arguments), keywords)
    return trace.call(np.take, (np.asarray(a), indices, *arguments), keywords)  # NumPy dispatches on `a` only


def _lexsort(keys: Any, *arguments: Any, **keywords: Any) -> Any:
    if type(keys) is list and contains_tracer(keys):  # NumPy dispatches on tuples only
        keys = tuple(keys)
    return np.lexsort(keys, *arguments, **keywords)


def _asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    if type(a) is not Tracer or current_trace() is None:
        return np.asarray_chkfinite(a, dtype, order)
    array = _REPLACEMENTS[np.asarray](a, dtype, order)
    if array.dtype.char in np.typecodes["AllFloat"] and not np.isfinite(array).all():
        raise ValueError("array must not contain infs or NaNs")
    return array


def _by_numpy(function: Any) -> Callable[..., Any]:
    """Return a function that creates an array with NumPy and wraps it in a tracer."""

    @functools.wraps(function)
    def make(*arguments: Any, **keywords: Any) -> Any:
        trace = trace_if_tracing()
        if trace is None:
            return function(*arguments, **keywords)
        result = function(*trace.resolved(arguments), **trace.resolved(keywords))
        if type(result) is np.ndarray and result.dtype in CODES and (capture := trace.capture) is not None:
            capture.add_constant(result)  # and a copy, which the body may write
            node = Node(
                conversion(result.dtype), (leaf(result),), DEFAULT_OPTIONS, result.dtype, result.shape
            )
            return trace.deferred.add(Tracer(trace, node))
        return trace.wrap(result)

    return make


_OF_ARRAYS = np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require
_REPLACEMENTS: dict[Any, Callable[..., Any]] = {
    np.zeros: _zeros,
    np.ones: _ones,
    np.empty: empty_array,
    np.full: _full,
    np.asarray_chkfinite: _asarray_chkfinite,
    np.take: _take,
    np.lexsort: _lexsort,
    **{function: replacement_for(function) for function in _OF_ARRAYS},
    **{getattr(np, name): accepting_sequences(getattr(np, name)) for name in SEQUENCE_FUNCTIONS.split()},
    **{
        function: _by_numpy(function)
        for function in (
            *(np.arange, np.linspace, np.logspace, np.geomspace, np.eye, np.identity, np.tri, np.indices),
            *(np.bartlett, np.blackman, np.hamming, np.hanning, np.kaiser),
        )
    },
}
REPLACEMENTS_BY_ID: dict[int, Any] = {id(function): made for function, made in _REPLACEMENTS.items()}
REPLACEMENTS_BY_ID |= {
    id(np.r_): IndexTrick(np.r_, are_columns=False),
    id(np.c_): IndexTrick(np.c_, are_columns=True),
}
