"""Parser of C declarations: the type of a parameter, and the corresponding dtype."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from pycudakit import errors
from pycudakit._native.dtypes import DType
from pycudakit.kernels.compiling.source import Parameter
from pycudakit.kernels.reading import preprocessor
from pycudakit.kernels.reading.preprocessor import Token

# The dtype of a type in the spelling of `_spelled`.
_BASIC = {
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned int": "uint32",
    "long": "int64",  # on all supported platforms
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
# CUDA's vector types: the type and the number of their components.
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


def first(tokens: Sequence[Token], text: str) -> int:
    """Return the index of the first token with this text, or the length."""
    return next((i for i, token in enumerate(tokens) if token.text == text), len(tokens))


def is_attribute(name: str) -> bool:
    """Return True if a name is an attribute or a macro-like annotation, which declares nothing."""
    return name in _ATTRIBUTES or (name.startswith("__") and name.endswith("__"))


def template_end(tokens: Sequence[Token], at: int) -> int:
    """Return the index of the angle bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place].text == "<") - (tokens[place].text == ">")
        if depth == 0:
            return place
    return len(tokens)


def without_attributes(tokens: Sequence[Token]) -> list[Token]:
    """Remove attributes and annotations from a declaration."""
    out: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        following = tokens[at + 1].text if at + 1 < len(tokens) else ""
        if is_attribute(token.text) and following == "(":
            at = preprocessor.closing(tokens, at + 1)
        elif token.text == "[" and following == "[":
            at = preprocessor.closing(tokens, at)
        else:
            out.append(token)
        at += 1
    return out


def parameter(tokens: Sequence[Token], types: Mapping[str, list[Token]], where: str) -> Parameter:
    """Parse the declaration of a parameter or a variable."""
    tokens = without_attributes(tokens[: first(tokens, "=")])
    base, is_const, rest = base_of(tokens)
    stars = [(token.text, i) for i, token in enumerate(rest) if token.text in ("*", "&", "&&")]
    name = next((token.text for token in rest if token.is_name and token.text not in _QUALIFIERS), "")
    if any(text != "*" for text, _ in stars):
        raise errors.CompileError(
            f"{where}: parameter {name!r} is a reference, and a kernel takes values and pointers: "
            "declare it as one of these"
        )
    if not base or any(token.text == "..." for token in tokens):
        listed = " ".join(token.text for token in tokens)
        raise errors.CompileError(
            f"{where}: parameter {listed!r} is not a declaration that pycudakit understands"
        )
    after_name = rest[_place_of(rest, name) :]
    is_array = any(token.text == "[" for token in after_name) and not any(t.text == "(" for t in rest)
    depth = len(stars) + is_array
    if len(stars) > 1:  # the pointed-to type is const if const precedes the last star
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


def _place_of(tokens: Sequence[Token], name: str) -> int:
    return next((i for i, token in enumerate(tokens) if name and token.text == name), 0)


def base_of(tokens: Sequence[Token]) -> tuple[list[Token], bool, list[Token]]:
    """Split a declaration into its base type, whether that is const, and the declarator."""
    base: list[Token] = []
    is_const = False
    at = 0
    while at < len(tokens):
        token = tokens[at]
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
            at = _rest_of_name(tokens, at, base)
            continue
        else:
            break
        at += 1
    return base, is_const, list(tokens[at:])


def _rest_of_name(tokens: Sequence[Token], at: int, base: list[Token]) -> int:
    """Append the rest of a qualified name, with template arguments, to `base`; return the next index."""
    at += 1
    while at < len(tokens):
        text, before = tokens[at].text, tokens[at - 1].text
        if text == "<":
            end = template_end(tokens, at)
            base += tokens[at : end + 1]
            at = end + 1
        elif text == "::" or before == "::":
            base.append(tokens[at])
            at += 1
        else:
            break
    return at


def _resolved(base: Sequence[Token], types: Mapping[str, list[Token]]) -> tuple[str, int, bool]:
    """Resolve aliases of a type; return its name, its number of stars, and whether it is const."""
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


def joined(tokens: Sequence[Token]) -> str:
    """Join tokens to text, with spaces between words."""
    out = ""
    for token in tokens:
        if out and token.is_name and (out[-1].isalnum() or out[-1] == "_"):
            out += " "
        out += ", " if token.text == "," else token.text
    return out
