"""A kernels' source, as it goes to a compiler, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field

from pycudakit._native.dtypes import DType


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel's parameter, as its source declares it.

    Parameters
    ----------
    name
        ``"a"``, or ``""`` where the source gives none.
    type
        What is declared, in one spelling: ``"const float *"``, ``"unsigned int"``, ``"Body"``.
    element
        The type without const, volatile and the last ``*``: ``"float"``.
    pointer
        Whether it is a pointer, or an array, which is the same.
    const
        Whether what it points to is const.
    dtype
        NumPy's dtype of the element, or None: ``void``, a struct, a pointer to a pointer.
    """

    name: str
    type: str
    element: str
    pointer: bool
    const: bool
    dtype: DType | None


@dataclass(frozen=True, slots=True)
class Signature:
    """A ``__global__`` function; of a template, one that is given its arguments, such as ``"scale<float>"``.

    Parameters
    ----------
    name
        What `SourceModule.get_function` takes.
    parameters
        In their order.
    line
        Of the user's source, from 1.
    """

    name: str
    parameters: tuple[Parameter, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Source:
    """All that the result of a compilation depends on, beside the compiler.

    Parameters
    ----------
    text
        What the user wrote.
    name
        A file's name for messages.
    options
        For the compiler, as the user gave them: ``("-DN=3", "-lineinfo")``.
    include_dirs
        Where `#include` looks, before the compiler's own places.
    no_extern_c
        False: the text is wrapped in ``extern "C"``.
    debug
        Whether accesses, barriers and time are checked.
    arch
        ``"sm_90"``; the host's compiler has no use for it.
    kernels
        The functions that can be called, of templates those that were asked for.
    """

    text: str
    name: str
    options: tuple[str, ...]
    include_dirs: tuple[str, ...]
    no_extern_c: bool
    debug: bool
    arch: str
    kernels: tuple[Signature, ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a compiler made.

    Parameters
    ----------
    data
        A cubin, or a shared library's bytes.
    symbols
        The name in it of each kernel, by the name in `Source.kernels`; of variables that it does not know,
        such as ``__constant__`` ones, the name is the source's.
    log
        What the compiler said: warnings.
    read
        The files that it read beside the source and our headers, where it has a list of them.
    """

    data: bytes
    symbols: dict[str, str]
    log: str
    read: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binary:
    """What a compiler made, as a library takes it.

    Parameters
    ----------
    data
        A cubin; for the CPU engine, a shared library's path, encoded.
    key
        16 bytes that no other binary has.
    engine
        ``"cuda"`` or ``"cpu"``.
    """

    data: bytes = field(repr=False)
    key: bytes
    engine: str
