"""Options by which a host compiler calls a function before each access to memory, or each volatile one."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from pathlib import Path

from pycudakit import errors
from pycudakit.kernels.compiling import cuda_to_cpp
from pycudakit.kernels.compiling.compiler_process import compiler_command, kind, output, temporary_folder
from pycudakit.kernels.compiling.source import Source

# AddressSanitizer's outlined instrumentation: a function call before each access, and no shadow memory.
_CHECKS = {
    "gcc": [
        "-fsanitize=kernel-address",
        *(f"--param=asan-{check}=0" for check in ("instrumentation-with-call-threshold", "stack", "globals")),
    ],
    "clang": [
        "-fsanitize=kernel-address",
        *(
            word
            for check in ("instrumentation-with-call-threshold", "stack", "globals")
            for word in ("-mllvm", f"-asan-{check}=0")
        ),
    ],
}
# ThreadSanitizer's instrumentation, with the accesses of volatile lvalues told apart: a function call before
# each access, which pycudakit_volatile.h defines.
_VOLATILE = {
    "gcc": [
        "-fsanitize=thread",
        *("--param=tsan-distinguish-volatile=1", "--param=tsan-instrument-func-entry-exit=0"),
    ],
    "clang": [
        "-fsanitize=thread",
        *(
            word
            for setting in ("distinguish-volatile=1", "instrument-func-entry-exit=0")
            for word in ("-mllvm", f"-tsan-{setting}")
        ),
    ],
}
_PROBE = """
int read(int *x) { return *x; }
void write(int *x) { *x = 1; }
int volatile_read(volatile int *x) { return *x; }
void volatile_write(volatile int *x) { *x = 1; }
"""
# The calls that _PROBE becomes, which the functions of the headers answer.
_CALLS = {
    "-fsanitize=thread": tuple(
        f"__tsan_{access}4" for access in ("read", "write", "volatile_read", "volatile_write")
    ),
    "-fsanitize=kernel-address": ("__asan_load4_noabort", "__asan_store4_noabort"),
}


def access_checks(source: Source, compiler: tuple[str, ...]) -> list[str]:
    """Return the options for checked accesses; compilers for macOS have none.

    Raises
    ------
    CompileError
        The compiler calls no function before accesses.
    """
    if sys.platform == "darwin":
        return []
    family = kind(compiler)
    every_access = (*_VOLATILE[family], "-DPK_VOLATILE")
    # AddressSanitizer leaves out a write after a read of the same value, and ThreadSanitizer memcpy().
    has_copies = re.search(r"\bmem(?:cpy|move|set)\b|#[ \t]*include", source.text) is not None
    if not has_copies and _reports_accesses(compiler, every_access):
        return [*every_access]
    if _reports_accesses(compiler, tuple(_CHECKS[family])):
        return _CHECKS[family]
    raise errors.CompileError(
        f"debug=True checks each access to memory, and {compiler[0]} does not report accesses by "
        f"{_CHECKS[family][0]}: set CXX to GCC or Clang, or drop debug=True"
    )


def volatile_options(source: Source) -> list[str]:
    """Return the options by which the compiler reports volatile accesses, if the source has any.

    Raises
    ------
    CompileError
        The compiler is too old for that, and the source may share volatile memory within a warp.
    """
    if not cuda_to_cpp.has_volatile(source):
        return []
    compiler = tuple(compiler_command())
    options = [*_VOLATILE[kind(compiler)], "-DPK_VOLATILE"]
    if _reports_accesses(compiler, tuple(options)):
        return options
    if not cuda_to_cpp.has_shared(source):
        return []
    raise errors.CompileError(
        f"{source.name} has volatile shared memory, by which the lanes of a warp stay in step, and "
        f"{compiler[0]} is too old to report volatile accesses: install GCC 11 or Clang 11, or newer, and "
        "set CXX to it; or write __syncwarp() between the statements, and drop the volatile"
    )


@functools.lru_cache(maxsize=8)
def _reports_accesses(compiler: tuple[str, ...], options: tuple[str, ...]) -> bool:
    """Return True if a compiler with these options calls a function before each access."""
    with temporary_folder("a probe of the compiler") as directory:
        probe, assembly = (Path(directory, "probe").with_suffix(end) for end in (".cpp", ".s"))
        probe.write_text(_PROBE, encoding="utf-8")
        command = [*compiler, *options, "-O1", "-S", str(probe), "-o", str(assembly)]
        try:
            if output(command, directory).returncode != 0:
                return False
            called = set(re.findall(r"__[at]san_\w+", assembly.read_text(encoding="utf-8", errors="replace")))
        except (OSError, subprocess.TimeoutExpired):
            return False
    return called.issuperset(_CALLS[options[0]])
