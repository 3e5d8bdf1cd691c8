"""NumPy's functions that choose among arrays, element by element."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from pycudakit import errors
from pycudakit._families.elementwise import non_ufuncs
from pycudakit._native.dtypes import CODES
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.trace.views_and_creation import Handler, captures, in_order

CHOICES: dict[Any, Handler] = {}
_captures = functools.partial(captures, CHOICES)

_MOST_CHOICES = 64  # as NumPy has it, and what one program takes


@_captures(np.where)
def _where(recording: Recording, condition: Any, *branches: Any) -> Any:
    if not branches and type(condition) is StandIn:
        return recording.call(np.nonzero, (condition,), {})
    if len(branches) != 2:
        return recording.by_numpy(np.where, (condition, *branches), {})
    yes, no = branches
    given = condition, non_ufuncs.as_chosen(yes, no), non_ufuncs.as_chosen(no, yes)
    chosen = recording.apply(non_ufuncs.WHERE, given)
    if type(chosen) is StandIn:  # and not of a type that NumPy alone has
        chosen.is_scalar = False
    return chosen


@_captures(np.select)
def _select(recording: Recording, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    choices = [*choicelist, default]
    are_masks = all(_is_array(mask) and mask.dtype == np.bool_ for mask in condlist)
    are_plain = all(type(choice) in (int, float) or _is_array(choice) for choice in choices)
    if not (are_masks and are_plain and condlist and len(condlist) == len(choicelist)):
        return recording.by_numpy(np.select, (condlist, choicelist, default), {})
    dtype = np.result_type(*(choice.dtype if _is_array(choice) else choice for choice in choices))
    first, *others = (choice if _is_array(choice) else np.asarray(choice, dtype) for choice in choices[::-1])
    result: Any = first.astype(dtype)
    for mask, choice in zip(condlist[::-1], others, strict=True):
        result = np.where(mask, choice.astype(dtype), result)
    return in_order(result)


def _is_array(value: Any) -> bool:
    return (type(value) is StandIn or type(value) is np.ndarray) and value.dtype in CODES


@_captures(np.choose)
def _choose(recording: Recording, a: Any, choices: Any, out: Any = None, mode: Any = "raise") -> Any:
    given = list(choices)
    arrays = [each if _is_array(each) else np.asarray(each) for each in given]
    is_plain = _is_array(a) and a.dtype.kind in "bi" and out is None and mode in ("raise", "wrap", "clip")
    if not (is_plain and 1 < len(arrays) <= _MOST_CHOICES and all(each.dtype in CODES for each in arrays)):
        raise errors.Unsupported("choose")
    try:
        np.broadcast_shapes(a.shape, *(each.shape for each in arrays))
    except ValueError:
        raise errors.Unsupported("choose, of shapes that do not match") from None
    last = len(arrays) - 1
    which = a.astype(np.intp)
    if mode == "wrap":
        which = which % len(arrays)
    elif mode == "clip":
        which = np.clip(which, 0, last)
    elif a.dtype != np.bool_ and recording.resolved(np.any((which < 0) | (which > last))):
        raise ValueError("invalid entry in choice array")
    types: list[Any] = [
        each if type(each) in (int, float) else array.dtype for each, array in zip(given, arrays, strict=True)
    ]
    dtype = np.result_type(*types)
    result: Any = arrays[last].astype(dtype)
    for place in reversed(range(last)):
        result = np.where(which == place, arrays[place].astype(dtype), result)
    return in_order(result)


@_captures(np.piecewise)
def _piecewise(
    recording: Recording, x: Any, condlist: Any, funclist: Any, *arguments: Any, **keywords: Any
) -> Any:
    # An array of more dimensions has a mask in each row.
    masks = condlist if type(condlist) in (list, tuple) else [condlist] if np.ndim(condlist) == 1 else []
    values = list(funclist)
    are_masks = all(_is_array(mask) and mask.dtype == np.bool_ and mask.shape == x.shape for mask in masks)
    are_plain = all(type(value) in (bool, int, float) or callable(value) for value in values)
    is_plain = type(x) is StandIn and x.ndim > 0 and are_masks and are_plain
    if not (is_plain and masks and len(values) in (len(masks), len(masks) + 1)):
        raise errors.Unsupported("piecewise")
    if len(values) > len(masks):
        masks = [*masks, ~functools.reduce(operator.or_, masks)]
    result: Any = np.zeros_like(x)
    for mask, value in zip(masks, values, strict=True):
        if not callable(value):
            recording.set(result, mask, value)
            continue
        chosen = recording.call(np.extract, (mask, x), {})
        if chosen.size:
            recording.set(result, mask, value(chosen, *arguments, **keywords))
    return result


@_captures(np.extract)
def _extract(recording: Recording, condition: Any, arr: Any) -> Any:
    places = recording.call(np.flatnonzero, (condition,), {})
    return recording.call(np.take, (np.ravel(arr), places), {})
