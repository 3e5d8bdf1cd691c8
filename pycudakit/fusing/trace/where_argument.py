"""Elementwise functions of the elements that a mask keeps: `out=` has the others as they were."""

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
    """Return what takes the function's arguments, a mask and the old values; of the rest it does not warn."""

    def write(builder: Builder, *arguments: Value | WeakScalar, **_: Any) -> tuple[Value]:
        *inputs, given, old = arguments
        mask = builder.cast(given, BOOL)
        assert isinstance(old, Value)  # noqa: S101
        with builder.masking(mask, function.neutral_value):
            kept = [a if isinstance(a, WeakScalar) else builder.masked(a) for a in inputs]
            (result,) = function.write(builder, *kept, out=(old.dtype,), dtype=dtype, casting=casting)
        with builder.naming(function.name):
            return (builder.select(mask, builder.convert(result, old.dtype), old),)

    def numpy(*arguments: Any, **_: Any) -> Any:
        *inputs, mask, old = arguments
        out = np.array(old)
        function.numpy(*inputs, out=out, where=mask, dtype=dtype, casting=casting)
        return out

    return ElementFunction(function.name, numpy, write)


def is_mask_of(where: Any, shape: Sequence[int]) -> bool:
    """Tell whether a mask is an array of bools that fits."""
    is_mask = isinstance(where, np.ndarray) and where.dtype == BOOL
    return is_mask and broadcasts_to(where.shape, tuple(shape))
