"""`np.r_` and `np.c_` of arrays, in a fused function."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._native.dtypes import CODES
from pycudakit.fusing.memory.tracer import StandIn
from pycudakit.fusing.numpy_api.sequence_arguments import array_of, has_stand_in
from pycudakit.fusing.trace.current_trace import capturing
from pycudakit.fusing.trace.trace import Recording

_SCALARS = (bool, int, float, np.generic)
_array = array_of(np.array)


class Bracketed:
    """What puts arrays together that are given in brackets: rows, or columns."""

    def __init__(self, numpys: Any, are_columns: bool) -> None:
        self._numpys = numpys
        self._are_columns = are_columns

    def __getitem__(self, given: Any) -> Any:
        """Put arrays together."""
        recording = capturing()
        parts = given if type(given) is tuple else (given,)
        if recording is not None and has_stand_in(parts):
            made = recording.handled(self._together, recording, parts)
            if made is not None:
                return made
        return self._numpys[given]

    def __getattr__(self, name: str) -> Any:
        """Return what NumPy's has."""
        return getattr(self._numpys, name)

    def __len__(self) -> int:
        """Return none, as NumPy's does."""
        return 0

    def _together(self, recording: Recording, given: tuple[Any, ...]) -> Any:
        """Put arrays together; return None for what is NumPy's alone, as directions in words are."""
        parts = [self._part(recording, part) for part in given]
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
        return recording.call(np.concatenate, (arrays, -1 if self._are_columns else 0), {})

    def _part(self, recording: Recording, given: Any) -> Any:
        kind = type(given)
        if kind is StandIn:
            return given if given.ndim else given.reshape(1)
        if _is_scalar(given):
            return given
        if kind is list and has_stand_in(given):
            made = _array(given)
            return made if type(made) is StandIn else None
        if kind in (slice, list) or (kind is np.ndarray and given.ndim):
            return recording.wrap(np.r_[recording.resolved(given)])
        return None


def _is_scalar(value: Any) -> bool:
    return type(value) is not StandIn and isinstance(value, _SCALARS)
