"""CUDA's vector types as dtypes: `vec.float4`, `vec.make_float4(x, y, z, w)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit.pycuda.tools import get_or_register_dtype


class vec:  # noqa: N801
    """CUDA's vector types, and functions that make their values."""


def _define(name: str, base: Any, count: int) -> None:
    fields = "xyzw"[:count]
    dtype = np.dtype([(field, base) for field in fields])
    get_or_register_dtype(name, dtype)

    def make(*values: Any) -> Any:
        if len(values) != count:
            raise TypeError(f"make_{name}() takes {count} numbers, and got {len(values)}")
        return np.array(values, dtype)

    make.__name__ = make.__qualname__ = f"make_{name}"
    make.__doc__ = f"Return a {name} as an array of no axes."
    setattr(vec, name, dtype)
    setattr(vec, make.__name__, staticmethod(make))


for _name, _base, _most in (
    ("char", np.int8, 4), ("uchar", np.uint8, 4), ("short", np.int16, 4), ("ushort", np.uint16, 4),
    ("int", np.int32, 4), ("uint", np.uint32, 4), ("long", np.int64, 4), ("ulong", np.uint64, 4),
    ("longlong", np.int64, 2), ("ulonglong", np.uint64, 2),
    ("float", np.float32, 4), ("double", np.float64, 2),
):  # fmt: skip
    for _count in range(1, _most + 1):
        _define(f"{_name}{_count}", _base, _count)
