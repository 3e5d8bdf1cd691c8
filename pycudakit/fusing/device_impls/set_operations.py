"""Set functions (`isin`, `union1d`, `intersect1d`, ...) of device-resident arrays.

They are composed of sorting, binary search, comparison and compaction on the device. Functions return
NotImplemented for calls that the host must compute.
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
    """Return the arrays as vectors; None if one is empty or of an unsupported dtype."""
    arrays_or_tracers = [a if type(a) is Tracer else np.asarray(a) for a in arrays]
    if Tracer not in map(type, arrays_or_tracers) or any(
        a.size == 0 or a.dtype not in CODES for a in arrays_or_tracers
    ):
        return None
    return [(a if type(a) is Tracer else trace.wrap(a)).ravel() for a in arrays_or_tracers]


def _as_one_type(trace: Trace, wanted: Tracer, searched: Any) -> tuple[Any, Any]:
    """Cast the elements to look up and those to search to one dtype."""
    common = np.result_type(wanted.dtype, searched.dtype)
    if common.kind == "f" and wanted.dtype.kind in "iu" and searched.dtype.kind in "iu":
        # int64 and uint64: drop the values that the other dtype cannot represent, as they cannot match.
        limits = np.iinfo(wanted.dtype)
        fits = searched >= 0 if limits.min == 0 else searched <= np.uint64(limits.max)
        searched, common = _kept(trace, fits, searched), wanted.dtype
    return tuple(a if a.dtype == common else a.astype(common) for a in (wanted, searched))  # type: ignore[return-value]


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
    wanted, searched = _as_one_type(trace, flat[0], flat[1])
    if not searched.size:
        return full(trace, element.shape, bool(invert), np.bool_)
    searched = trace.call(np.sort, (searched,), {})
    position = trace.call(np.searchsorted, (searched, wanted), {})
    nearest = take_unchecked(trace, searched, np.minimum(position, searched.size - 1))
    result = nearest != wanted if invert else nearest == wanted
    return result.reshape(element.shape)


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
    first_set, merged = flat[0], _joined(trace, flat)
    if not return_indices:
        merged = trace.call(np.sort, (merged,), {})
        return _kept(trace, merged[1:] == merged[:-1], merged[:-1])
    order = trace.call(np.argsort, (merged,), {})
    merged = take_unchecked(trace, merged, order)
    is_common = merged[1:] == merged[:-1]
    indices = [_kept(trace, is_common, order[:-1]), _kept(trace, is_common, order[1:]) - first_set.size]
    if firsts:
        indices = [take_unchecked(trace, first, index) for first, index in zip(firsts, indices, strict=True)]
    return _kept(trace, is_common, merged[:-1]), *indices


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
