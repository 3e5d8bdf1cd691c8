"""Functions of sets where arrays stay on the device: made of sorting, searching and comparing there.

Each returns NotImplemented for what the host does.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES
from pycudakit.fusing.device_impls.take import taken
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.trace.trace import Recording
from pycudakit.fusing.trace.views_and_creation import Handler, captures, full

SETS: dict[Any, Handler] = {}
_captures = functools.partial(captures, SETS)


def _flat(recording: Recording, *arrays: Any) -> list[StandIn] | None:
    """Return arrays as vectors; None for what is not compared as that, or of no elements."""
    found = [a if type(a) is StandIn else np.asarray(a) for a in arrays]
    if StandIn not in map(type, found) or any(a.size == 0 or a.dtype not in CODES for a in found):
        return None
    return [(a if type(a) is StandIn else recording.wrap(a)).ravel() for a in found]


def _as_one_type(recording: Recording, wanted: StandIn, known: Any) -> tuple[Any, Any]:
    """Return elements to look for, and where, in one type."""
    common = np.result_type(wanted.dtype, known.dtype)
    if common.kind == "f" and wanted.dtype.kind in "iu" and known.dtype.kind in "iu":
        # 64 bits with a sign and without: what the type of the one has no room for is not among the other.
        limits = np.iinfo(wanted.dtype)
        fits = known >= 0 if limits.min == 0 else known <= np.uint64(limits.max)
        known, common = _kept(recording, fits, known), wanted.dtype
    return tuple(a if a.dtype == common else a.astype(common) for a in (wanted, known))  # type: ignore[return-value]


def _joined(recording: Recording, parts: Any) -> Any:
    return recording.call(np.concatenate, (parts,), {})


def _kept(recording: Recording, mask: Any, a: Any) -> Any:
    return recording.call(np.compress, (mask, a), {})


@_captures(np.isin)
def _isin(
    recording: Recording,
    element: Any,
    test_elements: Any,
    assume_unique: Any = False,
    invert: Any = False,
    *,
    kind: Any = None,
) -> Any:
    del assume_unique
    flat = None if kind not in (None, "sort", "table") else _flat(recording, element, test_elements)
    if flat is None or type(element) is not StandIn:
        return NotImplemented
    wanted, known = _as_one_type(recording, flat[0], flat[1])
    if not known.size:
        return full(recording, element.shape, bool(invert), np.bool_)
    known = recording.call(np.sort, (known,), {})
    place = recording.call(np.searchsorted, (known, wanted), {})
    nearest = taken(recording, known, np.minimum(place, known.size - 1))
    found = nearest != wanted if invert else nearest == wanted
    return found.reshape(element.shape)


@_captures(np.union1d)
def _union1d(recording: Recording, ar1: Any, ar2: Any) -> Any:
    flat = _flat(recording, ar1, ar2)
    if flat is None:
        return NotImplemented
    return recording.call(np.unique, (recording.call(np.concatenate, ((ar1, ar2), None), {}),), {})


@_captures(np.intersect1d)
def _intersect1d(
    recording: Recording, ar1: Any, ar2: Any, assume_unique: Any = False, return_indices: Any = False
) -> Any:
    flat = _flat(recording, ar1, ar2)
    if flat is None:
        return NotImplemented
    firsts = []
    if not assume_unique:
        distinct = [recording.call(np.unique, (each, bool(return_indices)), {}) for each in flat]
        flat = [each[0] for each in distinct] if return_indices else distinct
        firsts = [each[1] for each in distinct] if return_indices else []
    one, both = flat[0], _joined(recording, flat)
    if not return_indices:
        both = recording.call(np.sort, (both,), {})
        return _kept(recording, both[1:] == both[:-1], both[:-1])
    order = recording.call(np.argsort, (both,), {})
    both = taken(recording, both, order)
    is_common = both[1:] == both[:-1]
    places = [_kept(recording, is_common, order[:-1]), _kept(recording, is_common, order[1:]) - one.size]
    if firsts:
        places = [taken(recording, first, place) for first, place in zip(firsts, places, strict=True)]
    return _kept(recording, is_common, both[:-1]), *places


@_captures(np.setdiff1d)
def _setdiff1d(recording: Recording, ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    if type(ar1) is not StandIn or _flat(recording, ar1, ar2) is None:
        return NotImplemented
    kept = ar1.ravel() if assume_unique else recording.call(np.unique, (ar1,), {})
    return _kept(recording, recording.call(np.isin, (kept, ar2), {"invert": True}), kept)


@_captures(np.setxor1d)
def _setxor1d(recording: Recording, ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    flat = _flat(recording, ar1, ar2)
    if flat is None:
        return NotImplemented
    if not assume_unique:
        flat = [recording.call(np.unique, (each,), {}) for each in flat]
    both = recording.call(np.sort, (_joined(recording, flat),), {})
    differs = _joined(recording, [np.array([True]), both[1:] != both[:-1], np.array([True])])
    return _kept(recording, differs[1:] & differs[:-1], both)


if hasattr(np, "unique_values"):

    @_captures(np.unique_values)
    def _unique_values(recording: Recording, x: Any) -> Any:
        return recording.call(np.unique, (x,), {"equal_nan": False})
