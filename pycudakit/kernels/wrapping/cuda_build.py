"""Compilation of a wrapped source for a GPU, by nvcc."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pycudakit import errors
from pycudakit.kernels.compiling import compiler_process, host_compiler
from pycudakit.kernels.compiling.extern_c import line_directive
from pycudakit.kernels.compiling.source import Compiled, Source
from pycudakit.kernels.wrapping import cpu_build, declarations, table

_MISSING = (
    "a wrapped source is compiled for a GPU by nvcc, which is not installed: "
    'pip install "pycudakit[wrap]", or install the CUDA toolkit, or set CUDACXX to nvcc'
)
_SYSTEM = Path("/usr/local/cuda/bin/nvcc")
_FLAGS = ("-shared", "-std=c++17", "-O3", "-Xcompiler", "-fPIC,-fvisibility=hidden")


def nvcc() -> str:
    """Return the path of nvcc: that of CUDACXX, of the wheels of CUDA, or of the system.

    Raises
    ------
    CompileError
        It is not installed, or CUDACXX names no program.
    """
    named = os.environ.get("CUDACXX")
    if named:
        found = shutil.which(named)
        if found is None:
            raise errors.CompileError(
                f"CUDACXX is {named!r}, which is no program: set it to nvcc, or unset it"
            )
        return found
    for path in _places():
        if os.access(path, os.X_OK) and path.is_file():
            return str(path)
    found = shutil.which("nvcc")
    if found is not None:
        return found
    if os.access(_SYSTEM, os.X_OK):
        return str(_SYSTEM)
    raise errors.CompileError(_MISSING)


def _places() -> Iterator[Path]:
    """Yield the places of nvcc in the wheels of CUDA, and in a toolkit that the environment names."""
    try:
        spec = importlib.util.find_spec("nvidia.cu13")
    except ImportError:
        spec = None
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(root) / "bin" / "nvcc"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        toolkit = os.environ.get(variable)
        if toolkit:
            yield Path(toolkit) / "bin" / "nvcc"


def why_not() -> str | None:
    """Return why nothing can be compiled for a GPU, apart from the GPU; None if it can."""
    try:
        nvcc()
    except errors.CompileError as error:
        return str(error)
    return None


def folders() -> tuple[str, ...]:
    """Return the header folders that the environment names."""
    return host_compiler.folders()


def fingerprint() -> str:
    """Return the fingerprint of everything that a binary depends on besides its source: nvcc, the table."""
    path = os.path.realpath(nvcc())
    about = os.stat(path)
    return f"{path} {about.st_size} {about.st_mtime_ns} {_version(path)} {cpu_build.own_fingerprint()}"


@functools.cache
def _version(path: str) -> str:
    return compiler_process.run([path, "--version"], "nvcc", None)[0]


def text(source: Source) -> str:
    """Return a source with its table of functions, for nvcc."""
    wrapped = declarations.read(source.text, source.name, source.options, source.include_dirs)
    return f"{table.header()}{line_directive(1, source.name)}{source.text}\n{table.text(wrapped)}"


def compile(source: Source) -> Compiled:
    """Compile a source to a shared library with its table of functions.

    Raises
    ------
    CompileError
        nvcc is not installed, or the source does not compile: the message has nvcc's output.
    """
    whole = text(source)
    with compiler_process.temporary_folder(source.name) as directory:
        return _compiled(whole, source, directory)


def _compiled(whole: str, source: Source, directory: str) -> Compiled:
    path, library, rule = (str(Path(directory) / f"wrapped.{end}") for end in ("cu", "so", "d"))
    Path(path).write_text(whole, encoding="utf-8")
    includes = [f"-I{os.path.abspath(folder)}" for folder in source.include_dirs]
    compiler = nvcc()
    arch = [f"-arch={source.arch}"] if source.arch else []
    command = [compiler, *_FLAGS, *arch, *source.options, *includes]
    runtime = Path(compiler).parents[1] / "lib"  # of the wheels of CUDA
    if runtime.is_dir():
        command.append(f"-L{runtime}")
    _, log = compiler_process.run(
        [*command, "-MMD", "-MF", rule, path, "-o", library], source.name, directory
    )
    read = compiler_process.dependencies_of(Path(rule), directory)
    return Compiled(Path(library).read_bytes(), {}, log, read)
