"""Declarations of C: what type a parameter has, and what NumPy's is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from pycudakit import errors
from pycudakit._native.dtypes import DType
from pycudakit.kernels.compiling.source import Parameter
from pycudakit.kernels.reading import preprocessor
from pycudakit.kernels.reading.preprocessor import Token

# Of a type as `_spelled` writes it.
_BASIC = {
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned int": "uint32",
    "long": "int64",  # on every platform that there is a library for
    "unsigned long": "uint64",
    "long long": "int64",
    "unsigned long long": "uint64",
    "float": "float32",
    "double": "float64",
    **{f"{u}int{bits}_t": f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)},
    "size_t": "uint64",
    "ssize_t": "int64",
    "ptrdiff_t": "int64",
    "intptr_t": "int64",
    "uintptr_t": "uint64",
    "uchar": "uint8",
    "ushort": "uint16",
    "uint": "uint32",
    "ulong": "uint64",
    "clock_t": "int64",
    "half": "float16",
    "__half": "float16",
    **dict.fromkeys(("cuComplex", "cuFloatComplex", "complex<float>"), "complex64"),
    **dict.fromkeys(("cuDoubleComplex", "complex<double>"), "complex128"),
}
_VECTOR_OF = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "longlong": "int64",
    "ulonglong": "uint64",
    "float": "float32",
    "double": "float64",
}
# CUDA's vectors: the type of their components, and how many there are.
VECTORS: dict[str, tuple[DType, int]] = {
    f"{name}{count}": (np.dtype(dtype), count) for name, dtype in _VECTOR_OF.items() for count in range(1, 5)
} | {"half2": (np.dtype("float16"), 2), "__half2": (np.dtype("float16"), 2)}

_WORDS = frozenset(["signed", "unsigned", "char", "short", "int", "long", "float", "double", "bool", "void"])
_QUALIFIERS = frozenset(
    """const volatile __restrict__ __restrict restrict __grid_constant__ register struct class union enum
    typename static inline extern constexpr __constant__ __device__ __managed__ __host__ __global__ __shared__
    __forceinline__ __noinline__ __inline__""".split()  # noqa: SIM905
)
_ATTRIBUTES = frozenset("__launch_bounds__ __attribute__ __align__ alignas __declspec".split())  # noqa: SIM905


def first(given: Sequence[Token], text: str) -> int:
    """Return where a text first stands, or the end."""
    return next((i for i, token in enumerate(given) if token.text == text), len(given))


def is_attribute(name: str) -> bool:
    """Tell whether a name says something to the compiler alone."""
    return name in _ATTRIBUTES or (name.startswith("__") and name.endswith("__"))


def template_end(given: Sequence[Token], at: int) -> int:
    """Return the place behind the angle brackets that begin here."""
    depth = 0
    for place in range(at, len(given)):
        depth += (given[place].text == "<") - (given[place].text == ">")
        if depth == 0:
            return place
    return len(given)


def without_attributes(given: Sequence[Token]) -> list[Token]:
    """Leave out what says something to the compiler alone."""
    out: list[Token] = []
    at = 0
    while at < len(given):
        token = given[at]
        following = given[at + 1].text if at + 1 < len(given) else ""
        if is_attribute(token.text) and following == "(":
            at = preprocessor.closing(given, at + 1)
        elif token.text == "[" and following == "[":
            at = preprocessor.closing(given, at)
        else:
            out.append(token)
        at += 1
    return out


def parameter(given: Sequence[Token], types: Mapping[str, list[Token]], where: str) -> Parameter:
    """Return what a declaration declares."""
    given = without_attributes(given[: first(given, "=")])
    base, is_const, rest = base_of(given)
    stars = [(token.text, i) for i, token in enumerate(rest) if token.text in ("*", "&", "&&")]
    name = next((token.text for token in rest if token.is_name and token.text not in _QUALIFIERS), "")
    if any(text != "*" for text, _ in stars):
        raise errors.CompileError(
            f"{where}: parameter {name!r} is a reference, and a kernel takes values and pointers: "
            "declare it as one of these"
        )
    if not base or any(token.text == "..." for token in given):
        listed = " ".join(token.text for token in given)
        raise errors.CompileError(f"{where}: parameter {listed!r} is no declaration that is understood")
    after_name = rest[_place_of(rest, name) :]
    is_array = any(token.text == "[" for token in after_name) and not any(t.text == "(" for t in rest)
    depth = len(stars) + is_array
    if len(stars) > 1:  # the last const counts that is before the last star
        between = rest[stars[-2][1] : stars[-1][1]]
        is_const = any(token.text == "const" for token in between)
    element, own_depth, own_const = _resolved(base, types)
    depth += own_depth
    is_const = is_const or (own_const and own_depth > 0)
    spelled = element + (" " + "*" * (depth - 1) if depth > 1 else "")
    whole = f"{'const ' if is_const and depth else ''}{element}{' ' + '*' * depth if depth else ''}"
    basic = _BASIC.get(element) if depth < 2 else None
    return Parameter(
        name, whole, spelled, depth > 0, bool(is_const and depth), None if basic is None else np.dtype(basic)
    )


def _place_of(given: Sequence[Token], name: str) -> int:
    return next((i for i, token in enumerate(given) if name and token.text == name), 0)


def base_of(given: Sequence[Token]) -> tuple[list[Token], bool, list[Token]]:
    """Split a declaration into its type, whether that is const, and the declarator."""
    base: list[Token] = []
    is_const = False
    at = 0
    while at < len(given):
        token = given[at]
        if token.text == "const":
            is_const = True
        elif token.text in _QUALIFIERS:
            pass
        elif token.text in _WORDS:
            if base and base[0].text not in _WORDS:
                break
            base.append(token)
        elif (token.is_name and not base) or token.text == "::":
            base.append(token)
            at = _rest_of_name(given, at, base)
            continue
        else:
            break
        at += 1
    return base, is_const, list(given[at:])


def _rest_of_name(given: Sequence[Token], at: int, base: list[Token]) -> int:
    """Add what belongs to a qualified name, template arguments among it, and return the place after it."""
    at += 1
    while at < len(given):
        text, before = given[at].text, given[at - 1].text
        if text == "<":
            end = template_end(given, at)
            base += given[at : end + 1]
            at = end + 1
        elif text == "::" or before == "::":
            base.append(given[at])
            at += 1
        else:
            break
    return at


def _resolved(base: Sequence[Token], types: Mapping[str, list[Token]]) -> tuple[str, int, bool]:
    """Return a type without its aliases: its name, how many stars it has, and whether it is const."""
    depth, is_const = 0, False
    seen = set()
    while True:
        name = _spelled(base)
        alias = types.get(name)
        if alias is None or name in seen:
            return name, depth, is_const
        seen.add(name)
        base, own_const, rest = base_of(without_attributes(alias))
        depth += sum(token.text in ("*", "[") for token in rest)
        is_const = is_const or own_const


def _spelled(base: Sequence[Token]) -> str:
    words = [token.text for token in base]
    if not words or words[0] not in _WORDS:
        return re.sub(r"^(::)?((cuda::)?std::|thrust::)?", "", joined(base))
    if "char" in words:
        sign = next((w for w in words if w in ("signed", "unsigned")), "")
        return f"{sign} char".strip()
    kind = next((w for w in words if w in ("float", "double", "bool", "void")), "")
    if kind:
        return f"{'long ' * words.count('long')}{kind}"
    size = "short" if "short" in words else " ".join(["long"] * words.count("long")) or "int"
    return f"unsigned {size}" if "unsigned" in words else size


def joined(given: Sequence[Token]) -> str:
    """Return tokens as text, with spaces where words would run together."""
    out = ""
    for token in given:
        if out and token.is_name and (out[-1].isalnum() or out[-1] == "_"):
            out += " "
        out += ", " if token.text == "," else token.text
    return out
