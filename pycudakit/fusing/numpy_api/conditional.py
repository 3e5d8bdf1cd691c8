"""Handlers for selection in a fused function: `where`, `select`, `choose`, `piecewise` and `extract`."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._families.elementwise import non_ufuncs
from pycudakit._native.dtypes import CODES
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, as_c_ordered, implements

CHOICES: dict[Any, Handler] = {}
_implements = functools.partial(implements, CHOICES)

_MOST_CHOICES = 64  # NumPy's limit; as many fit in one program


@_implements(np.where)
def _where(trace: Trace, condition: Any, *branches: Any) -> Any:
    if not branches and type(condition) is Tracer:
        return trace.call(np.nonzero, (condition,), {})
    if len(branches) != 2:
        return trace.by_numpy(np.where, (condition, *branches), {})
    yes, no = branches
    operands = condition, non_ufuncs.weak_integer(yes, no), non_ufuncs.weak_integer(no, yes)
    chosen = trace.apply(non_ufuncs.WHERE, operands)
    if type(chosen) is Tracer:  # not so for dtypes that only NumPy has
        chosen.is_scalar = False
    return chosen


@_implements(np.select)
def _select(trace: Trace, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    choices = [*choicelist, default]
    are_masks = all(_is_array(mask) and mask.dtype == np.bool_ for mask in condlist)
    are_plain = all(type(choice) in (int, float) or _is_array(choice) for choice in choices)
    if not (are_masks and are_plain and condlist and len(condlist) == len(choicelist)):
        return trace.by_numpy(np.select, (condlist, choicelist, default), {})
    dtype = np.result_type(*(choice.dtype if _is_array(choice) else choice for choice in choices))
    first, *others = (choice if _is_array(choice) else np.asarray(choice, dtype) for choice in choices[::-1])
    result: Any = first.astype(dtype)
    for mask, choice in zip(condlist[::-1], others, strict=True):
        result = np.where(mask, choice.astype(dtype), result)
    return as_c_ordered(result)


def _is_array(value: Any) -> bool:
    return (type(value) is Tracer or type(value) is np.ndarray) and value.dtype in CODES


@_implements(np.choose)
def _choose(trace: Trace, a: Any, choices: Any, out: Any = None, mode: Any = "raise") -> Any:
    values = list(choices)
    arrays = [each if _is_array(each) else np.asarray(each) for each in values]
    is_plain = _is_array(a) and a.dtype.kind in "bi" and out is None and mode in ("raise", "wrap", "clip")
    if not (is_plain and 1 < len(arrays) <= _MOST_CHOICES and all(each.dtype in CODES for each in arrays)):
        raise errors.Unsupported("choose")
    try:
        np.broadcast_shapes(a.shape, *(each.shape for each in arrays))
    except ValueError:
        raise errors.Unsupported("choose with shapes that do not broadcast") from None
    last = len(arrays) - 1
    selector = a.astype(np.intp)
    if mode == "wrap":
        selector = selector % len(arrays)
    elif mode == "clip":
        selector = np.clip(selector, 0, last)
    elif a.dtype != np.bool_ and trace.branches_on(np.any((selector < 0) | (selector > last))):
        raise ValueError("invalid entry in choice array")
    types: list[Any] = [
        each if type(each) in (int, float) else array.dtype
        for each, array in zip(values, arrays, strict=True)
    ]
    dtype = np.result_type(*types)
    result: Any = arrays[last].astype(dtype)
    for index in reversed(range(last)):
        result = np.where(selector == index, arrays[index].astype(dtype), result)
    return as_c_ordered(result)


@_implements(np.piecewise)
def _piecewise(trace: Trace, x: Any, condlist: Any, funclist: Any, *arguments: Any, **keywords: Any) -> Any:
    # `condlist` may be one mask. Each row of an array of two or more dimensions is a mask: left to NumPy.
    masks = condlist if type(condlist) in (list, tuple) else [condlist] if np.ndim(condlist) == 1 else []
    values = list(funclist)
    are_masks = all(_is_array(mask) and mask.dtype == np.bool_ and mask.shape == x.shape for mask in masks)
    are_plain = all(type(value) in (bool, int, float) or callable(value) for value in values)
    is_plain = type(x) is Tracer and x.ndim > 0 and are_masks and are_plain
    if not (is_plain and masks and len(values) in (len(masks), len(masks) + 1)):
        raise errors.Unsupported("piecewise")
    if len(values) > len(masks):
        masks = [*masks, ~functools.reduce(operator.or_, masks)]
    result: Any = np.zeros_like(x)
    for mask, value in zip(masks, values, strict=True):
        if not callable(value):
            trace.set(result, mask, value)
            continue
        chosen = trace.call(np.extract, (mask, x), {})
        if chosen.size:
            trace.set(result, mask, value(chosen, *arguments, **keywords))
    return result


@_implements(np.extract)
def _extract(trace: Trace, condition: Any, arr: Any) -> Any:
    indices = trace.call(np.flatnonzero, (condition,), {})
    return trace.call(np.take, (np.ravel(arr), indices), {})
