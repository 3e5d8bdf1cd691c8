"""`np.r_` and `np.c_` with tracers among the indices, in a fused function."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.numpy_api.sequence_arguments import contains_tracer, replacement_for
from pycudakit.fusing.trace.current_trace import trace_if_tracing
from pycudakit.fusing.trace.trace import Trace

_SCALARS = (bool, int, float, np.generic)
_array = replacement_for(np.array)


class IndexTrick:
    """A replacement for `np.r_` or `np.c_` that concatenates tracers; everything else goes to NumPy's."""

    def __init__(self, numpy_object: Any, are_columns: bool) -> None:
        self._numpy_object = numpy_object
        self._are_columns = are_columns

    def __getitem__(self, index: Any) -> Any:
        """Concatenate the arrays in the brackets."""
        trace = trace_if_tracing()
        parts = index if type(index) is tuple else (index,)
        if trace is not None and contains_tracer(parts):
            result = trace.run_handler(self._concatenated, trace, parts)
            if result is not None:
                return result
        return self._numpy_object[index]

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of NumPy's object."""
        return getattr(self._numpy_object, name)

    def __len__(self) -> int:
        """Return 0, as NumPy's object does."""
        return 0

    def _concatenated(self, trace: Trace, index_parts: tuple[Any, ...]) -> Any:
        """Concatenate the parts; return None if only NumPy supports them, such as the directive "r,0,2"."""
        parts = [self._part(trace, part) for part in index_parts]
        if any(part is None for part in parts):
            return None
        dtype = np.result_type(*(part if _is_scalar(part) else part.dtype for part in parts))
        if dtype not in CODES:
            return None
        arrays = [
            np.array(part, dtype, ndmin=1) if _is_scalar(part) else part.astype(dtype, copy=False)
            for part in parts
        ]
        if self._are_columns:
            arrays = [array[:, None] if array.ndim == 1 else array for array in arrays]
        return trace.call(np.concatenate, (arrays, -1 if self._are_columns else 0), {})

    def _part(self, trace: Trace, value: Any) -> Any:
        kind = type(value)
        if kind is Tracer:
            return value if value.ndim else value.reshape(1)
        if _is_scalar(value):
            return value
        if kind is list and contains_tracer(value):
            array = _array(value)
            return array if type(array) is Tracer else None
        if kind in (slice, list) or (kind is np.ndarray and value.ndim):
            return trace.wrap(np.r_[trace.resolved(value)])
        return None


def _is_scalar(value: Any) -> bool:
    return type(value) is not Tracer and isinstance(value, _SCALARS)
