"""Compilation of kernels for the CPU engine by the machine's C++ compiler."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pycudakit import errors
from pycudakit.kernels.compiling import (
    access_reports,
    cuda_to_cpp,
    extern_c,
    host_translation,
    inline_ptx,
)
from pycudakit.kernels.compiling.access_reports import access_checks, volatile_options
from pycudakit.kernels.compiling.compiler_process import (
    HEADERS,
    compiler_command,
    dependencies_of,
    kind,
    run,
    temporary_folder,
)
from pycudakit.kernels.compiling.extern_c import preprocessing
from pycudakit.kernels.compiling.host_translation import translated
from pycudakit.kernels.compiling.source import Compiled, Source

_FLAGS = [
    *("-std=c++17", "-fPIC", "-O3", "-pipe", "-fstack-clash-protection"),
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-exceptions"),
    *("-fno-semantic-interposition", "-fwrapv", "-fno-strict-aliasing"),
    "-fno-optimize-sibling-calls",  # the library knows a kernel's faults by the return address
    "-fvisibility=hidden",  # else static variables of templates are shared by binaries of the process
    *("-fsanitize=integer-divide-by-zero", "-fsanitize-recover=integer-divide-by-zero"),
    *("-Wno-unknown-pragmas", "-Wno-attributes"),
]
_QUIET = {"gcc": [], "clang": ["-Wno-unused-command-line-argument"]}
# Loops that GCC 12 vectorises wrongly, in its dump: the index of an element is a comparison, whose true is -1
# in vectors; or the mask of a gather is uniform, of which later passes may make 1 instead of -1.
_MISCOMPILED = re.compile(r"BIT_FIELD_REF <mask_|\bstmp_\w+ = VIEW_CONVERT_EXPR<[^>]*>\s?\(vect_cst_")
# Modules that write loops over threads.
_OF_LOOPS = ("statements", "kernel_definition", "kernel_locals", "thread_loops")
# Environment variables by which GCC and Clang find headers and their own parts.
_PLACES = ("CPATH", "CPLUS_INCLUDE_PATH")
_OTHERS = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "SDKROOT")


def compile(source: Source) -> Compiled:
    """Compile a source to a shared library.

    Raises
    ------
    CompileError
        There is no compiler, or the source does not compile: the message has the compiler's output.
    """
    with temporary_folder(source.name) as directory:
        return _compiled(source, directory)


def _compiled(source: Source, directory: str) -> Compiled:
    compiler = compiler_command()
    text, compiled, library = (str(Path(directory) / f"kernels.{end}") for end in ("cpp", "o", "so"))
    whole = translated(source, splits_kernels=not forces_fibers())
    Path(text).write_text(whole, encoding="utf-8")
    rule = str(Path(directory) / "kernels.d")
    command = [*_command(compiler, source), "-MD", "-MF", rule, "-c", text, "-o", compiled]
    try:
        log = _run_vectorising(command, source.name, directory)
    except errors.CompileError:
        without_loops = translated(source)
        if without_loops == whole:
            raise
        Path(text).write_text(without_loops, encoding="utf-8")
        log = _run_vectorising(command, source.name, directory)
    # Linked separately: the functions of the checks are in our headers, not in the sanitizer's library.
    run([*compiler, "-shared", *_linking(), compiled, "-o", library], source.name, directory)
    symbols = {kernel.name: kernel.name for kernel in source.kernels}
    try:
        return Compiled(Path(library).read_bytes(), symbols, log, dependencies_of(Path(rule), directory))
    except FileNotFoundError as error:
        raise errors.CompileError(
            f"{shlex.join(compiler)} succeeded, but did not write {Path(error.filename).name}; "
            "set CXX to GCC or Clang"
        ) from None


def _command(compiler: list[str], source: Source) -> list[str]:
    """Return the compiler and its options for a source, without files."""
    command = [*compiler, *_FLAGS, *_QUIET[kind(tuple(compiler))], *_tuning()]
    folders = [folder for option, folder in preprocessing(source.options)[0] if option == "-I"]
    command += [f"-I{os.path.abspath(folder)}" for folder in (*folders, *source.include_dirs)]
    hooks = volatile_options(source)
    if source.debug:
        command += ["-O1", "-fno-delete-null-pointer-checks", "-DPK_CHECKED"]
        hooks = hooks or access_checks(source, tuple(compiler))
    return [*command, *hooks, f"-I{HEADERS}"]


def remarks(source: Source, text: str) -> str:
    """Return the compiler's report of the vectorised loops in a translation of a source.

    Raises
    ------
    CompileError
        There is no compiler, or the translation does not compile.
    """
    compiler = compiler_command()
    option = {"gcc": "-fopt-info-vec-optimized", "clang": "-Rpass=loop-vectorize"}[kind(tuple(compiler))]
    with temporary_folder(source.name) as directory:
        path, assembly = (Path(directory) / f"kernels.{end}" for end in ("cpp", "s"))
        path.write_text(text, encoding="utf-8")
        command = [*_command(compiler, source), option, "-S", str(path), "-o", str(assembly)]
        return _run_vectorising(command, source.name, str(directory))


def compile_host_code(
    text: str, source: Source, options: Sequence[str] = (), headers: Mapping[str, str] = MappingProxyType({})
) -> Compiled:
    """Compile a translated source that has host code of its own, with exceptions and C++'s headers.

    Parameters
    ----------
    text
        The translation.
    options
        Options besides those of the source: ``["-O0"]``.
    headers
        The texts of headers that are written beside it, by their names.

    Raises
    ------
    CompileError
        There is no compiler, or the source does not compile: the message has the compiler's output.
    """
    with temporary_folder(source.name) as directory:
        for name, content in {"wrapped.cpp": text, **headers}.items():
            Path(directory, name).write_text(content, encoding="utf-8", errors="surrogateescape")
        return _host_code(source, directory, options)


def _host_code(source: Source, directory: str, options: Sequence[str]) -> Compiled:
    compiler = compiler_command()
    libraries = [option for option in source.options if option.startswith(("-l", "-L"))]
    path, compiled, library = (str(Path(directory) / f"wrapped.{end}") for end in ("cpp", "o", "so"))
    pairs, others = preprocessing(source.options)
    folders = [folder for option, folder in pairs if option == "-I"]
    rule = str(Path(directory) / "wrapped.d")
    command = [*compiler, *_FLAGS, "-fexceptions", *_QUIET[kind(tuple(compiler))], *_tuning(), *options]
    command += [option for option in others if option.startswith("-std=")]
    # Our headers are before CUDA's, which are for nvcc alone.
    folders = sorted([*folders, *source.include_dirs, str(HEADERS)], key=is_of_cuda)
    command += [f"-I{os.path.abspath(folder)}" for folder in folders]
    command += ["-DPK_HOST_CODE", "-MMD", "-MF", rule, "-c", path, "-o", compiled]
    log = _run_vectorising(command, source.name, directory)
    run([*compiler, "-shared", *_linking(), compiled, *libraries, "-o", library], source.name, directory)
    return Compiled(Path(library).read_bytes(), {}, log, dependencies_of(Path(rule), directory))


def is_of_cuda(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder has the headers of a CUDA toolkit."""
    return os.path.isfile(os.path.join(folder, "crt", "host_config.h"))


def folders() -> tuple[str, ...]:
    """Return the header folders that the environment names."""
    words = [word for name in _PLACES for word in os.environ.get(name, "").split(os.pathsep)]
    return tuple(
        word for word in words if os.path.isabs(word)
    )  # relative ones refer to the compiler's working folder


def forces_fibers() -> bool:
    """Return True if no kernel with barriers becomes loops over threads."""
    return os.environ.get("PYCUDAKIT_FIBERS", "0") not in ("", "0")


def fingerprint() -> str:
    """Return a fingerprint of a binary's other dependencies: the compiler, our headers, the processor."""
    names = ("CXX", "PATH", "PYCUDAKIT_FIBERS", *_PLACES, *_OTHERS)
    return _fingerprint(*(os.environ.get(name, "") for name in names))


@functools.lru_cache(maxsize=8)
def _fingerprint(*environment: str) -> str:
    rule = hashlib.sha256(repr(environment[2:]).encode())
    for word in compiler_command():
        executable = shutil.which(word)
        rule.update(word.encode())
        if executable is not None:
            real = os.path.realpath(executable)
            about = os.stat(real)
            rule.update(f"{real} {about.st_size} {about.st_mtime_ns}".encode())
    for file in sorted(path for path in HEADERS.rglob("*") if path.is_file()):
        rule.update(file.read_bytes())
    our_files = (
        Path(__file__),
        Path(access_reports.__file__),
        Path(cuda_to_cpp.__file__),
        Path(extern_c.__file__),
        Path(host_translation.__file__),
        Path(inline_ptx.__file__),
        *(Path(__file__).with_name(f"{name}.py") for name in _OF_LOOPS),
    )
    rule.update(b"".join(file.read_bytes() for file in our_files))
    rule.update(f"{platform.machine()} {_processor()}".encode())
    return rule.hexdigest()


def _run_vectorising(command: list[str], name: str, directory: str) -> str:
    """Run a compiler, without vectorisation of loops if GCC is wrong there; return its log."""
    if kind(tuple(compiler_command())) != "gcc":
        return run(command, name, directory)[1]
    dump = Path(directory) / "kernels.vect"
    _, log = run([*command, f"-fdump-tree-vect={dump}"], name, directory)
    if dump.exists() and _MISCOMPILED.search(dump.read_text(encoding="utf-8", errors="replace")):
        _, log = run([*command, "-fno-tree-loop-vectorize"], name, directory)
    return log


def _tuning() -> list[str]:
    return ["-march=native"] if platform.machine() in ("x86_64", "AMD64") and sys.platform == "linux" else []


def _linking() -> list[str]:
    return [] if sys.platform == "darwin" else ["-Wl,-Bsymbolic"]


def _processor() -> str:
    """Return the processor's features, on which `-march=native` depends."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = itertools.takewhile(str.strip, file)  # of many processors
            lines = {line for line in first if line.startswith(("flags", "Features", "model", "cpu family"))}
    except OSError:
        return platform.processor()
    return " ".join(sorted(lines))
