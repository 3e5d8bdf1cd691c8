"""Ufuncs with `where=`: elements of `out` where the mask is False keep their values."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._element_programs.builder import Builder
from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._element_programs.values import Value, WeakScalar
from pycudakit._native.dtypes import BOOL, DType
from pycudakit._runtime.ufunc_arguments import broadcasts_to


@functools.lru_cache(1024)
def masked(function: ElementFunction, dtype: DType | None, casting: str) -> ElementFunction:
    """Return a function of the arguments, a mask and the old values; masked elements raise no FP flags."""

    def write(builder: Builder, *arguments: Value | WeakScalar, **_: Any) -> tuple[Value]:
        *inputs, mask_argument, old = arguments
        mask = builder.cast(mask_argument, BOOL)
        assert isinstance(old, Value)  # noqa: S101
        with builder.masking(mask, function.neutral_value):
            masked_inputs = [a if isinstance(a, WeakScalar) else builder.masked(a) for a in inputs]
            (result,) = function.write(
                builder, *masked_inputs, out=(old.dtype,), dtype=dtype, casting=casting
            )
        with builder.naming(function.name):
            return (builder.select(mask, builder.convert(result, old.dtype), old),)

    def numpy(*arguments: Any, out: Any = None, **_: Any) -> Any:
        *inputs, mask, old = arguments
        out = np.array(old) if out is None else out
        function.numpy(*inputs, out=out, where=mask, dtype=dtype, casting=casting)
        return out

    return ElementFunction(function.name, numpy, write)


def is_mask_of(where: Any, shape: Sequence[int]) -> bool:
    """Return True if `where` is a bool array that broadcasts to `shape`."""
    is_mask = isinstance(where, np.ndarray) and where.dtype == BOOL
    return is_mask and broadcasts_to(where.shape, tuple(shape))
