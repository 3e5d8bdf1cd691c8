"""`np.r_` and `np.c_` of arrays, in a fused function."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.numpy_api.sequence_arguments import contains_tracer, creation_of
from pycudakit.fusing.trace.current_trace import trace_if_tracing
from pycudakit.fusing.trace.trace import Trace

_SCALARS = (bool, int, float, np.generic)
_array = creation_of(np.array)


class IndexTrick:
    """What puts arrays together that are given in brackets: rows, or columns."""

    def __init__(self, numpy_function: Any, are_columns: bool) -> None:
        self._numpy_ufunc = numpy_function
        self._are_columns = are_columns

    def __getitem__(self, given: Any) -> Any:
        """Put arrays together."""
        trace = trace_if_tracing()
        parts = given if type(given) is tuple else (given,)
        if trace is not None and contains_tracer(parts):
            made = trace.run_handler(self._together, trace, parts)
            if made is not None:
                return made
        return self._numpy_ufunc[given]

    def __getattr__(self, name: str) -> Any:
        """Return what NumPy's has."""
        return getattr(self._numpy_ufunc, name)

    def __len__(self) -> int:
        """Return none, as NumPy's does."""
        return 0

    def _together(self, trace: Trace, given: tuple[Any, ...]) -> Any:
        """Put arrays together; return None for what is NumPy's alone, as directions in words are."""
        parts = [self._part(trace, part) for part in given]
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

    def _part(self, trace: Trace, given: Any) -> Any:
        kind = type(given)
        if kind is Tracer:
            return given if given.ndim else given.reshape(1)
        if _is_scalar(given):
            return given
        if kind is list and contains_tracer(given):
            made = _array(given)
            return made if type(made) is Tracer else None
        if kind in (slice, list) or (kind is np.ndarray and given.ndim):
            return trace.wrap(np.r_[trace.resolved(given)])
        return None


def _is_scalar(value: Any) -> bool:
    return type(value) is not Tracer and isinstance(value, _SCALARS)
