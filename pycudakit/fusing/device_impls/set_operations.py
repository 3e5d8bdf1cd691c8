"""Functions of sets where arrays stay on the device: made of sorting, searching and comparing there.

Each returns NotImplemented for what the host does.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES
from pycudakit.fusing.device_impls.take import take_unchecked
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, full, implements

SETS: dict[Any, Handler] = {}
_implements = functools.partial(implements, SETS)


def _flat(trace: Trace, *arrays: Any) -> list[Tracer] | None:
    """Return arrays as vectors; None for what is not compared as that, or of no elements."""
    found = [a if type(a) is Tracer else np.asarray(a) for a in arrays]
    if Tracer not in map(type, found) or any(a.size == 0 or a.dtype not in CODES for a in found):
        return None
    return [(a if type(a) is Tracer else trace.wrap(a)).ravel() for a in found]


def _as_one_type(trace: Trace, wanted: Tracer, known: Any) -> tuple[Any, Any]:
    """Return elements to look for, and where, in one type."""
    common = np.result_type(wanted.dtype, known.dtype)
    if common.kind == "f" and wanted.dtype.kind in "iu" and known.dtype.kind in "iu":
        # 64 bits with a sign and without: what the type of the one has no room for is not among the other.
        limits = np.iinfo(wanted.dtype)
        fits = known >= 0 if limits.min == 0 else known <= np.uint64(limits.max)
        known, common = _kept(trace, fits, known), wanted.dtype
    return tuple(a if a.dtype == common else a.astype(common) for a in (wanted, known))  # type: ignore[return-value]


def _joined(trace: Trace, parts: Any) -> Any:
    return trace.call(np.concatenate, (parts,), {})


def _kept(trace: Trace, mask: Any, a: Any) -> Any:
    return trace.call(np.compress, (mask, a), {})


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
    wanted, known = _as_one_type(trace, flat[0], flat[1])
    if not known.size:
        return full(trace, element.shape, bool(invert), np.bool_)
    known = trace.call(np.sort, (known,), {})
    place = trace.call(np.searchsorted, (known, wanted), {})
    nearest = take_unchecked(trace, known, np.minimum(place, known.size - 1))
    found = nearest != wanted if invert else nearest == wanted
    return found.reshape(element.shape)


@_implements(np.union1d)
def _union1d(trace: Trace, ar1: Any, ar2: Any) -> Any:
    flat = _flat(trace, ar1, ar2)
    if flat is None:
        return NotImplemented
    return trace.call(np.unique, (trace.call(np.concatenate, ((ar1, ar2), None), {}),), {})


@_implements(np.intersect1d)
def _intersect1d(
    trace: Trace, ar1: Any, ar2: Any, assume_unique: Any = False, return_indices: Any = False
) -> Any:
    flat = _flat(trace, ar1, ar2)
    if flat is None:
        return NotImplemented
    firsts = []
    if not assume_unique:
        distinct = [trace.call(np.unique, (each, bool(return_indices)), {}) for each in flat]
        flat = [each[0] for each in distinct] if return_indices else distinct
        firsts = [each[1] for each in distinct] if return_indices else []
    one, both = flat[0], _joined(trace, flat)
    if not return_indices:
        both = trace.call(np.sort, (both,), {})
        return _kept(trace, both[1:] == both[:-1], both[:-1])
    order = trace.call(np.argsort, (both,), {})
    both = take_unchecked(trace, both, order)
    is_common = both[1:] == both[:-1]
    places = [_kept(trace, is_common, order[:-1]), _kept(trace, is_common, order[1:]) - one.size]
    if firsts:
        places = [take_unchecked(trace, first, place) for first, place in zip(firsts, places, strict=True)]
    return _kept(trace, is_common, both[:-1]), *places


@_implements(np.setdiff1d)
def _setdiff1d(trace: Trace, ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    if type(ar1) is not Tracer or _flat(trace, ar1, ar2) is None:
        return NotImplemented
    kept = ar1.ravel() if assume_unique else trace.call(np.unique, (ar1,), {})
    return _kept(trace, trace.call(np.isin, (kept, ar2), {"invert": True}), kept)


@_implements(np.setxor1d)
def _setxor1d(trace: Trace, ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    flat = _flat(trace, ar1, ar2)
    if flat is None:
        return NotImplemented
    if not assume_unique:
        flat = [trace.call(np.unique, (each,), {}) for each in flat]
    both = trace.call(np.sort, (_joined(trace, flat),), {})
    differs = _joined(trace, [np.array([True]), both[1:] != both[:-1], np.array([True])])
    return _kept(trace, differs[1:] & differs[:-1], both)


if hasattr(np, "unique_values"):

    @_implements(np.unique_values)
    def _unique_values(trace: Trace, x: Any) -> Any:
        return trace.call(np.unique, (x,), {"equal_nan": False})
