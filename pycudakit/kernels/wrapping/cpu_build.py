"""Compilation of a wrapped source for the CPU engine, by the machine's C++ compiler."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pycudakit.kernels.compiling import (
    access_reports,
    cuda_to_cpp,
    host_compiler,
    inline_ptx,
)
from pycudakit.kernels.compiling.extern_c import directives, line_directive, preprocessing
from pycudakit.kernels.compiling.source import Compiled, Signature, Source
from pycudakit.kernels.wrapping import declarations, launches, table
from pycudakit.kernels.wrapping.declarations import WrappedSource

_OWN_FILES = (
    *("cpu_build.py", "declarations.py", "headers.py", "launches.py", "table.py", "tags.py"),
    "include/function_table.h",
)


def folders() -> tuple[str, ...]:
    """Return the header folders that the environment names."""
    return host_compiler.folders()


def fingerprint() -> str:
    """Return the fingerprint of everything that a binary depends on besides its source."""
    return f"{host_compiler.fingerprint()} {own_fingerprint()}"


@functools.cache
def own_fingerprint() -> str:
    """Return a hash of the files by which a wrapped source is built."""
    folder = Path(__file__).parent
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in _OWN_FILES)).hexdigest()


def compile(source: Source) -> Compiled:
    """Compile a source to a shared library with its table of functions.

    Raises
    ------
    CompileError
        There is no compiler, or the source does not compile: the message has the compiler's output.
    """
    wrapped = declarations.read(source.text, source.name, source.options, source.include_dirs)
    text, headers = translated(wrapped, source)
    whole = wrapped.headers.whole()
    # A header that a macro names may have volatile accesses.
    text_or_any = "volatile __shared__" if whole is None else whole
    options = access_reports.volatile_options(replace(source, text=text_or_any))
    return host_compiler.compile_host_code(text, source, options, headers)


def translated(wrapped: WrappedSource, source: Source) -> tuple[str, dict[str, str]]:
    """Translate a source to C++: our headers, the source with its launches rewritten, and the table.

    Returns
    -------
    text : str
    headers : dict of str to str
        Translated headers of the user, by the names of their files, which are beside the source's.
    """
    waiting = _kernels_that_wait(wrapped, source)

    def translate(text: str, file: str) -> str:
        text = launches.translated(text, file, wrapped.declared, waiting)
        return inline_ptx.translated(cuda_to_cpp.translated(text, checked=False), with_host_code=True)

    copies = wrapped.headers.copies(translate)
    lines = [
        *prologue(source),
        table.header(),
        f"{line_directive(1, source.name)}{copies.source(translate(source.text, source.name))}",
        table.text(wrapped),
    ]
    return "\n".join(lines), dict(copies.written())


def _kernels_that_wait(wrapped: WrappedSource, source: Source) -> set[str]:
    """Return the kernels that may reach a barrier; all, if a macro names a header."""
    text = wrapped.headers.whole()
    kernels = tuple(Signature(name, (), 0) for name in wrapped.declared.kernels)
    if text is None:
        return {kernel.name for kernel in kernels}
    return cuda_to_cpp.kernels_with_barriers(replace(source, text=text, kernels=kernels))


def prologue(source: Source) -> Iterator[str]:
    """Yield the lines before a source: our headers, then the user's macros, which must not affect these."""
    yield '#include "pycudakit_cuda.h"'
    yield from cuda_to_cpp.own_includes(source)
    yield from directives(preprocessing(source.options)[0])
