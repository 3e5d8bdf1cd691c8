"""NumPy's functions that choose among arrays, element by element."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pycudakit._families.elementwise import compound
from pycudakit._library.types import CODES
from pycudakit.fusing.recording import Recording
from pycudakit.fusing.shapes import Handler, captures, outline
from pycudakit.fusing.stand_in import StandIn

CHOICES: dict[Any, Handler] = {}
_captures = functools.partial(captures, CHOICES)


@_captures(np.where)
def _where(recording: Recording, condition: Any, *branches: Any) -> Any:
    if not branches and type(condition) is StandIn:
        return recording.call(np.nonzero, (condition,), {})
    if len(branches) != 2:
        return recording.by_numpy(np.where, (condition, *branches), {})
    chosen = recording.apply(compound.WHERE, (condition, *branches))
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
    return result if outline(result).flags.c_contiguous else result.copy()


def _is_array(value: Any) -> bool:
    return (type(value) is StandIn or type(value) is np.ndarray) and value.dtype in CODES
