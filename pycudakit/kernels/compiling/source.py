"""The input and output of the compilers as plain data: `Source`, `Compiled`, `Binary`, and signatures."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pycudakit._native.dtypes import DType


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel, as its source declares it.

    Parameters
    ----------
    name
        ``"a"``, or ``""`` if the source gives none.
    type
        The type in a normalized spelling: ``"const float *"``, ``"unsigned int"``, ``"Body"``.
    element
        The type without const, volatile and the last ``*``: ``"float"``.
    pointer
        Whether it is a pointer or an array.
    const
        Whether the pointed-to type is const.
    dtype
        The dtype of the element, or None for ``void``, a struct, or a pointer to a pointer.
    """

    name: str
    type: str
    element: str
    pointer: bool
    const: bool
    dtype: DType | None

    def __str__(self) -> str:
        """Return the declaration: ``"const float *a"``."""
        space = " " * (self.name != "" and not self.type.endswith("*"))
        return f"{self.type}{space}{self.name}"


@dataclass(frozen=True, slots=True)
class Signature:
    """A ``__global__`` function, or an instance of a template, such as ``"scale<float>"``.

    Parameters
    ----------
    name
        The name for `SourceModule.get_function`.
    parameters
        The parameters in order.
    line
        The line in the user's source, from 1.
    """

    name: str
    parameters: tuple[Parameter, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Source:
    """The input of a compilation.

    Parameters
    ----------
    text
        The user's source.
    name
        The file's name for messages.
    options
        The user's options for the compiler: ``("-DN=3", "-lineinfo")``.
    include_dirs
        The folders that `#include` searches before the compiler's own.
    no_extern_c
        If False, the text is wrapped in ``extern "C"``.
    debug
        Whether accesses, barriers and time are checked.
    arch
        The architecture, ``"sm_90"``; ignored by the host's compiler.
    kernels
        The kernels that can be called, including requested instances of templates.
    """

    text: str
    name: str
    options: tuple[str, ...]
    include_dirs: tuple[str, ...]
    no_extern_c: bool
    debug: bool
    arch: str
    kernels: tuple[Signature, ...]


_SHORT_NAMES = re.compile(
    r"\btypedef\b[^;{}]*\b(uint|ushort|ulong|u_(?:char|short|int|long))\s*;"
    r"|\busing\s+(uint|ushort|ulong|u_(?:char|short|int|long))\s*="
)


def short_names(text: str) -> set[str]:
    """Return those of the names in <sys/types.h>, such as `uint`, that a source defines itself."""
    return {typedef or alias for typedef, alias in _SHORT_NAMES.findall(text)}


@dataclass(frozen=True, slots=True)
class Compiled:
    """The output of a compilation.

    Parameters
    ----------
    data
        A cubin, PTX, or the bytes of a shared library.
    symbols
        The symbol of each kernel, by its name in `Source.kernels`. Variables that are not listed, such as
        ``__constant__`` ones, have their names in the source.
    log
        The compiler's warnings.
    read
        The files that the compiler read besides the source and our headers, if it lists them.
    """

    data: bytes
    symbols: dict[str, str]
    log: str
    read: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binary:
    """A compiled binary, in the form that a library loads.

    Parameters
    ----------
    data
        A cubin or PTX; for the CPU engine, the path of a shared library, encoded.
    key
        A unique key of 16 bytes.
    engine
        ``"cuda"`` or ``"cpu"``.
    """

    data: bytes = field(repr=False)
    key: bytes
    engine: str
