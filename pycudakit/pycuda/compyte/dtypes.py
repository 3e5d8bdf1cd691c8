"""`pycuda.compyte.dtypes`: the C names of dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

DTYPE_TO_NAME: dict[np.dtype[Any], str] = {}  # the C name by dtype
NAME_TO_DTYPE: dict[str, np.dtype[Any]] = {}  # the dtype by C name


def get_or_register_dtype(c_names: str | list[str], dtype: Any = None) -> np.dtype[Any]:
    """Return the dtype of a C type, after registering it if the name is new.

    Parameters
    ----------
    c_names
        The type's name in C, or several; the first one is used in sources.
    dtype
        The dtype; without it the name is registered already.
    """
    names = [c_names] if isinstance(c_names, str) else list(c_names)
    if dtype is None:
        try:
            return NAME_TO_DTYPE[names[0]]
        except KeyError:
            raise ValueError(f"{names[0]} is not registered: give its dtype") from None
    wanted: np.dtype[Any] = np.dtype(dtype)
    for name in names:
        known = NAME_TO_DTYPE.setdefault(name, wanted)
        if known != wanted:
            raise RuntimeError(f"{name} is registered as {known}, not {wanted}")
    DTYPE_TO_NAME.setdefault(wanted, names[0])
    return wanted


def register_dtype(dtype: Any, c_names: str | list[str], alias_ok: bool = False) -> np.dtype[Any]:
    """Register the name of a dtype in C: that of a struct which a preamble declares.

    Parameters
    ----------
    dtype
        The dtype.
    c_names
        Its name in C, or several.
    alias_ok
        Allow a dtype that has a name already.
    """
    if not alias_ok and np.dtype(dtype) in DTYPE_TO_NAME:
        raise RuntimeError(f"{np.dtype(dtype)} is registered as {DTYPE_TO_NAME[np.dtype(dtype)]}")
    return get_or_register_dtype(c_names, dtype)


def _register_all() -> None:
    for names, dtype in (
        ("bool", np.bool_),
        ("signed char|char", np.int8),
        ("unsigned char", np.uint8),
        ("short|signed short|signed short int|short int|short signed int", np.int16),
        ("unsigned short|unsigned short int|short unsigned int", np.uint16),
        ("int|signed int|signed", np.int32),
        ("unsigned|unsigned int", np.uint32),
        ("long|long int|signed long|long long|long long int|ptrdiff_t|ssize_t", np.int64),
        ("unsigned long|unsigned long int|long unsigned int|unsigned long long|size_t", np.uint64),
        ("half|__half", np.float16),
        ("float", np.float32),
        ("double", np.float64),
        ("pycuda::complex<float>", np.complex64),
        ("pycuda::complex<double>", np.complex128),
    ):
        get_or_register_dtype(names.split("|"), dtype)
    for bits in (8, 16, 32, 64):
        get_or_register_dtype(f"int{bits}_t", f"i{bits // 8}")
        get_or_register_dtype(f"uint{bits}_t", f"u{bits // 8}")


_register_all()


def dtype_to_ctype(dtype: Any) -> str:
    """Return the C name of a dtype: ``"float"`` for float32."""
    if dtype is None:
        raise ValueError("dtype may not be None")
    try:
        return DTYPE_TO_NAME[np.dtype(dtype)]
    except KeyError:
        raise ValueError(f"{np.dtype(dtype)} has no name in C: register a struct by register_dtype") from None
