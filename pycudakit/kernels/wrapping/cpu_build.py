"""Compilation of a wrapped source for the CPU engine, by the machine's C++ compiler."""

from __future__ import annotations

import functools
import hashlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pycudakit import errors
from pycudakit.kernels.compiling import cuda_to_cpp, host_compiler, include_tracking
from pycudakit.kernels.compiling.extern_c import blanked, directives, line_directive, preprocessing
from pycudakit.kernels.compiling.source import Compiled, Signature, Source
from pycudakit.kernels.wrapping import declarations, launches, table
from pycudakit.kernels.wrapping.declarations import WrappedSource

_OWN_FILES = ("cpu_build.py", "declarations.py", "launches.py", "table.py", "include/function_table.h")


def folders() -> tuple[str, ...]:
    """Return the header folders that the environment names."""
    return host_compiler.folders()


def fingerprint() -> str:
    """Return what a binary depends on besides its source."""
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
    return host_compiler.compile_host_code(translated(wrapped, source), source)


def translated(wrapped: WrappedSource, source: Source) -> str:
    """Translate a source to C++: our headers, the source with its launches rewritten, and the table."""
    _refuse_launches_in_headers(source)
    kernels = tuple(Signature(name, (), 0) for name in wrapped.declared.kernels)
    own = _without_others_headers(
        source.text, include_tracking.folders_of(source.include_dirs, source.options)
    )
    waiting = cuda_to_cpp.kernels_with_barriers(replace(source, text=own, kernels=kernels))
    text = launches.translated(source.text, source.name, wrapped.declared, waiting)
    text = cuda_to_cpp.translated(text, checked=False)
    lines = [
        *prologue(source),
        table.header(),
        f"{line_directive(1, source.name)}{text}",
        table.text(wrapped),
    ]
    return "\n".join(lines)


def prologue(source: Source) -> Iterator[str]:
    """Yield the lines before a source: our headers, then the user's macros, which must not affect these."""
    yield '#include "pycudakit_cuda.h"'
    for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)', source.text, re.MULTILINE):
        if (host_compiler.HEADERS / name).is_file():
            yield f"#include <{name}>"
    yield from directives(preprocessing(source.options)[0])


def _without_others_headers(text: str, directories: list[Path]) -> str:
    """Return a source without the headers that are not the user's: these have no barriers."""

    def kept(match: re.Match[str]) -> str:
        return "" if include_tracking.find_included(match[1], directories) is None else match.group()

    return re.sub(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', kept, text, flags=re.MULTILINE)


def _refuse_launches_in_headers(source: Source) -> None:
    """Raise if a header of the user has a launch: headers are not translated."""
    directories = include_tracking.folders_of(source.include_dirs, source.options)
    left, seen = [source.text], set()
    while left:
        for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)', left.pop(), re.MULTILINE):
            text = None if name in seen else include_tracking.find_included(name, directories)
            seen.add(name)
            if text is None:
                continue
            at = blanked(text).find("<<<")
            if at >= 0:
                line = text.count("\n", 0, at) + 1
                raise errors.CompileError(
                    f"{name}:{line}: a launch in a header is not translated for the CPU: move it to the "
                    ".cu file "
                    f"that includes it ({shlex.quote(source.name)})"
                )
            left.append(text)
