"""The table of functions that is compiled with a source: its text, and how Python reads it."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pycudakit import errors
from pycudakit._native.dtypes import DType
from pycudakit.kernels.wrapping.declarations import WrappedFunction, WrappedSource

HEADER = Path(__file__).parent / "include" / "function_table.h"

# The kinds and the statuses of function_table.h, in its order.
OTHER, VOID, BOOL, INT, UINT, FLOAT, COMPLEX, STRUCT, POINTER, REFERENCE, FUNCTION, STREAM = range(12)
OK, OUT_OF_MEMORY, CUDA_ERROR, EXCEPTION, RETURNED = range(5)
_LETTERS = {BOOL: "b", INT: "i", UINT: "u", FLOAT: "f"}

_REFUSED = {
    REFERENCE: "is a reference: make it a value or a pointer",
    FUNCTION: "is a function pointer, which Python cannot give: write the function into the source",
    STREAM: "is a cudaStream_t, which Python has none of: make the stream inside of the function",
    POINTER: "is a pointer to pointers, which no array is: take one pointer, and offsets into it",
    OTHER: (
        "has a type that no dtype describes: take numbers, pointers to numbers, or a struct of these, "
        "declared at file scope with data members alone"
    ),
    VOID: "is a pointer to void, which has no dtype: give its type",
}


class _Type(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32),
        ("components", ctypes.c_int32),
        ("is_pointer", ctypes.c_int32),
        ("is_const", ctypes.c_int32),
        ("bytes", ctypes.c_int64),
        ("layout", ctypes.c_void_p),
    )


class _Field(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", _Type),
        ("offset", ctypes.c_int64),
        ("lengths", ctypes.c_int64 * 3),
    )


class _Layout(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("bytes", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("fields", ctypes.POINTER(_Field)),
    )


class _Function(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("parameter_count", ctypes.c_int64),
        ("is_variadic", ctypes.c_int64),
        ("is_status", ctypes.c_int64),
        ("parameters", ctypes.POINTER(_Type)),
        ("result", _Type),
    )


@dataclass(frozen=True, slots=True)
class CType:
    """A type as the compiler sees it.

    Parameters
    ----------
    dtype
        That of a value, or of the elements of a pointer; None for ``void``.
    components
        The components of a vector such as float4, else 0.
    is_pointer, is_const
        Whether it is a pointer, and whether it points to const.
    struct
        The struct's name, or "".
    """

    dtype: DType | None
    components: int
    is_pointer: bool
    is_const: bool
    struct: str

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer by value."""
        return (
            not self.is_pointer and not self.components and self.dtype is not None and self.dtype.kind in "iu"
        )


@dataclass(frozen=True, slots=True)
class FunctionTypes:
    """The types of a function, the address of its call, and whether its result is a status."""

    address: int
    parameters: tuple[CType, ...]
    result: CType
    is_status: bool
    is_text: bool


def header() -> str:
    """Return the C++ that is compiled before a source, whose macros could change it."""
    text = HEADER.read_text(encoding="utf-8").replace("#pragma once\n", "\n")
    return f'#line 1 "function_table.h"\n{text}'


def text(source: WrappedSource) -> str:
    """Return the C++ that is compiled after a source: the layouts of its structs, and its functions."""
    lines = ['#line 1 "the table of functions"', *_layouts(source)]
    rows = [
        f"        PK_TABLE_FUNCTION(::{one.symbol}, {'true' if one.tags.is_status else 'false'}),"
        for one in source.functions
    ]
    lines += [
        "PK_TABLE_EXPORT const pk_table::Function *pk_table_functions(int64_t *count) {",
        "    static const pk_table::Function functions[] = {",
        *rows,
        "    };",
        f"    *count = {len(source.functions)};",
        "    return functions;",
        "}",
        "",
    ]
    return "\n".join(lines)


def _layouts(source: WrappedSource) -> list[str]:
    lines = [*_halves(source)]
    for name, members in source.structs.items():
        layout = f"{{{json.dumps(name)}, sizeof({name}), {len(members)}, fields}}"
        fields = ", ".join(f"PK_TABLE_FIELD({name}, {member})" for member in members)
        lines += [
            "template <>",
            f"struct Fields<{name}> {{",
            f"    static constexpr Field fields[] = {{{fields}}};",
            f"    static constexpr Layout value = {layout};",
            "    static constexpr const Layout *layout = &value;",
            "};",
        ]
    return ["namespace pk_table {", *lines, "}  // namespace pk_table", ""] if lines else []


def _halves(source: WrappedSource) -> Iterable[str]:
    """Yield the specializations for half precision, of the types whose headers the source includes."""
    for header, name in (("cuda_fp16", "__half"),):
        if header in source.text:
            yield f"template <> struct Half<{name}> {{ static constexpr bool value = true; }};"
            yield (
                f"template <> struct Vector<{name}2> {{ using type = {name}; "
                "static constexpr int components = 2; };"
            )


def read(
    library: ctypes.CDLL, functions: Sequence[WrappedFunction], file: str
) -> tuple[dict[str, FunctionTypes], dict[str, DType]]:
    """Return the types of each function, and the dtype of each struct.

    Raises
    ------
    CompileError
        A parameter or a result has a type that Python cannot give. The message says what to write.
    """
    entry = library.pk_table_functions
    entry.restype = ctypes.POINTER(_Function)
    count = ctypes.c_int64()
    rows = entry(ctypes.byref(count))
    dtypes: dict[str, DType] = {}
    by_name = {rows[index].name.decode().removeprefix("::"): rows[index] for index in range(count.value)}
    return {one.name: _types(by_name[one.symbol], one, file, dtypes) for one in functions}, dtypes


def _types(row: _Function, one: WrappedFunction, file: str, dtypes: dict[str, DType]) -> FunctionTypes:
    where = f"{file}:{one.line}: {one.name!r}"
    if row.is_variadic:
        raise errors.CompileError(
            f"{where} has a variable number of arguments: write a function for each use"
        )
    if row.parameter_count != len(one.parameters):
        raise errors.CompileError(
            f"{where} has {row.parameter_count} parameters for the compiler, and {len(one.parameters)} as "
            "its "
            "source was read: declare them without macros"
        )
    parameters = []
    for index, parameter in enumerate(one.parameters):
        kind = row.parameters[index]
        if kind.kind in _REFUSED:
            raise errors.CompileError(
                f"{where}: parameter {parameter.name!r} ({parameter.declared}) {_REFUSED[kind.kind]}"
            )
        parameters.append(_ctype(kind, dtypes))
    result, is_text = row.result, False
    if result.is_pointer:
        is_text = bool(result.is_const) and result.kind == INT and result.bytes == 1
        if not is_text:
            raise errors.CompileError(
                f"{where} returns a pointer, whose memory Python would not own: write into a parameter, "
                "or return "
                "a number, a status, or a const char *"
            )
    elif (
        result.kind not in (VOID, BOOL, INT, UINT, FLOAT)
        or result.components
        or result.bytes == 2 == (result.kind == FLOAT)
    ):
        raise errors.CompileError(
            f"{where} returns {one.declaration.split(one.name)[0].strip()}, which is no number: write it "
            "into a "
            "parameter, and return void, a number, a status, or a const char *"
        )
    return FunctionTypes(
        int(row.call or 0),
        tuple(parameters),
        _ctype(result, dtypes),
        bool(row.is_status) or one.tags.is_status,
        is_text,
    )


def _ctype(kind: _Type, dtypes: dict[str, DType]) -> CType:
    struct = ""
    if kind.kind == STRUCT:
        layout = _layout_of(kind)
        struct = layout.name.decode()
    dtype = None if kind.kind == VOID else _dtype(kind, dtypes)
    return CType(dtype, kind.components, bool(kind.is_pointer), bool(kind.is_const), struct)


def _layout_of(kind: _Type) -> _Layout:
    return ctypes.cast(kind.layout, ctypes.POINTER(_Layout)).contents


def _dtype(kind: _Type, dtypes: dict[str, DType]) -> DType:
    """Return the dtype of a value; of a vector, that of its components."""
    if kind.kind != STRUCT:
        return np.dtype(f"{_LETTERS[kind.kind]}{kind.bytes // (kind.components or 1)}")
    layout = _layout_of(kind)
    name = layout.name.decode()
    if name not in dtypes:
        fields = [layout.fields[index] for index in range(layout.count)]
        refused = [field for field in fields if field.type.is_pointer or field.type.kind in _REFUSED]
        if refused:
            raise errors.CompileError(
                f"struct {name}: member {refused[0].name.decode()!r} is no number and no struct of "
                "numbers: pass "
                "it as a parameter of its own"
            )
        dtypes[name] = np.dtype(
            {
                "names": [field.name.decode() for field in fields],
                "formats": [_format(field, dtypes) for field in fields],
                "offsets": [field.offset for field in fields],
                "itemsize": layout.bytes,
            }
        )
    return dtypes[name]


def _format(field: _Field, dtypes: dict[str, DType]) -> DType:
    shape = tuple(length for length in field.lengths if length)
    if field.type.components > 1:
        shape += (field.type.components,)
    base = _dtype(field.type, dtypes)
    return np.dtype((base, shape)) if shape else base
