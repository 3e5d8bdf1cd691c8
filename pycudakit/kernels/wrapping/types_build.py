"""Compilation of a source for its table of types alone, by the machine's C++ compiler."""

from __future__ import annotations

import re

from pycudakit.kernels.compiling import cuda_to_cpp, host_compiler, inline_ptx
from pycudakit.kernels.compiling.extern_c import blanked, line_directive
from pycudakit.kernels.compiling.source import Compiled, Source
from pycudakit.kernels.wrapping import cpu_build, declarations, table

_LAUNCH = re.compile(r"<<<[^;]*?>>>", re.DOTALL)

folders = cpu_build.folders
fingerprint = cpu_build.fingerprint


def compile(source: Source) -> Compiled:
    """Compile a source; its launches are left out.

    Raises
    ------
    CompileError
        There is no compiler, or the source does not compile.
    """
    wrapped = declarations.read(source.text, source.name, source.options, source.include_dirs)
    copies = wrapped.headers.copies(_translated)
    whole = "\n".join(
        [
            *cpu_build.prologue(source),
            "#define PK_TABLE_TYPES_ALONE 1",
            table.header(),
            f"{line_directive(1, source.name)}{copies.source(_translated(source.text, source.name))}",
            table.text(wrapped),
        ]
    )
    return host_compiler.compile_host_code(whole, source, ["-O0"], dict(copies.written()))


def _translated(text: str, _file: str) -> str:
    for match in reversed(list(_LAUNCH.finditer(blanked(text)))):
        lines = "\\\n" * match.group().count("\\\n") or "\n" * match.group().count("\n")
        text = text[: match.start()] + lines + text[match.end() :]
    return inline_ptx.translated(cuda_to_cpp.translated(text, checked=False), with_host_code=True)
