"""Set functions (`isin`, `union1d`, `intersect1d`, ...) of device-resident arrays: which calls run there.

Their bodies are those of host arrays. Functions return NotImplemented for calls that the host must compute.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES
from pycudakit._runtime import context
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, full, implements

SETS: dict[Any, Handler] = {}
_implements = functools.partial(implements, SETS)


def _flat(trace: Trace, *arrays: Any) -> list[Tracer] | None:
    """Return the arrays as vectors; None if one is empty or of an unsupported dtype."""
    arrays_or_tracers = [a if type(a) is Tracer else np.asarray(a) for a in arrays]
    if Tracer not in map(type, arrays_or_tracers) or any(
        a.size == 0 or a.dtype not in CODES for a in arrays_or_tracers
    ):
        return None
    return [(a if type(a) is Tracer else trace.wrap(a)).ravel() for a in arrays_or_tracers]


def _run_body(name: str, *arguments: Any) -> Any:
    """Run a body of the family; its indices are in bounds, which the host need not check."""
    family = importlib.import_module("pycudakit._families.sort.set_operations")
    with context.override(indices_in_bounds=True):
        return getattr(family, name)(np, *arguments)


@_implements(np.isin)
def _isin(
    trace: Trace,
    element: Any,
    test_elements: Any,
    assume_unique: Any = False,
    invert: Any = False,
    *,
    kind: Any = None,
) -> Any:
    del assume_unique
    flat = None if kind not in (None, "sort", "table") else _flat(trace, element, test_elements)
    if flat is None or type(element) is not Tracer:
        return NotImplemented
    candidates = _run_body("sorted_candidates", flat[0].dtype, flat[1])
    if not candidates.size:
        return full(trace, element.shape, bool(invert), np.bool_)
    return _run_body("is_among", flat[0], candidates, invert).reshape(element.shape)


@_implements(np.union1d)
def _union1d(trace: Trace, ar1: Any, ar2: Any) -> Any:
    if _flat(trace, ar1, ar2) is None:
        return NotImplemented
    return np.unique(np.concatenate((ar1, ar2), axis=None))


@_implements(np.intersect1d)
def _intersect1d(
    trace: Trace, ar1: Any, ar2: Any, assume_unique: Any = False, return_indices: Any = False
) -> Any:
    flat = _flat(trace, ar1, ar2)
    return NotImplemented if flat is None else _run_body("intersection", *flat, assume_unique, return_indices)


@_implements(np.setdiff1d)
def _setdiff1d(trace: Trace, ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    flat = _flat(trace, ar1, ar2) if type(ar1) is Tracer else None
    return NotImplemented if flat is None else _run_body("difference", *flat, assume_unique)


@_implements(np.setxor1d)
def _setxor1d(trace: Trace, ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    flat = _flat(trace, ar1, ar2)
    return NotImplemented if flat is None else _run_body("symmetric_difference", *flat, assume_unique)


if hasattr(np, "unique_values"):

    @_implements(np.unique_values)
    def _unique_values(_: Trace, x: Any) -> Any:
        return np.unique(x, equal_nan=False)
