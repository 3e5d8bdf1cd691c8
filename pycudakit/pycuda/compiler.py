"""`pycuda.compiler`: CUDA C, compiled by NVRTC for a GPU, or by the host's compiler for the CPU."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pycudakit import errors
from pycudakit.kernels.compiling import cache, include_tracking
from pycudakit.kernels.compiling.source import Source
from pycudakit.kernels.reading import signatures
from pycudakit.pycuda import _engine, _settings
from pycudakit.pycuda._device import current_device
from pycudakit.pycuda._errors import LogicError, absent, translated
from pycudakit.pycuda._function import Function
from pycudakit.pycuda._module import CompiledSource, Module, load

__all__ = [
    "DEFAULT_NVCC_FLAGS",
    "DynamicModule",
    "DynamicSourceModule",
    "SourceModule",
    "compile",
    "get_nvcc_version",
]

DEFAULT_NVCC_FLAGS: list[str] = os.environ.get("PYCUDA_DEFAULT_NVCC_FLAGS", "").split()

_FILE = "kernel.cu"
_INCLUDE_DIR = str(Path(__file__).parent / "include")  # <pycuda-complex.hpp>
SOURCE_MARK = b"\0pycudakit source\0"  # in an image for the CPU, before the arguments of its compilation
_TARGETS = ("cubin", "ptx", "fatbin")


def get_nvcc_version(nvcc: str = "nvcc") -> str:
    """Return the text that nvcc prints of its version; sources are compiled without it."""
    try:
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError) as error:
        raise OSError(f"{nvcc} was not found (is it on the PATH?) [{error}]") from None
    return done.stdout


def compile(
    source: str,
    nvcc: str = "nvcc",
    options: Sequence[str] | None = None,
    keep: bool = False,  # noqa: ARG001
    no_extern_c: bool = False,
    arch: str | None = None,
    code: str | None = None,
    cache_dir: Any = None,
    include_dirs: Iterable[str] | None = None,
    target: str = "cubin",
) -> CompiledSource:
    """Compile a source; return the image, which `module_from_buffer` loads.

    Parameters
    ----------
    source
        The source text. It is wrapped in ``extern "C"``, unless `no_extern_c` is set.
    nvcc, keep
        For compatibility: there is no process of a compiler, and there are no temporary files.
    options
        Options for the compiler: ``["-DN=3"]``; None for DEFAULT_NVCC_FLAGS.
    no_extern_c
        Do not wrap the text.
    arch, code
        The architecture, such as ``"sm_90"``; by default that of the device.
    cache_dir
        The folder of the disk cache; None for the default, False for none.
    include_dirs
        The folders that ``#include`` searches first.
    target
        ``"cubin"``, ``"ptx"`` or ``"fatbin"``, for compatibility: the result is the same.

    Raises
    ------
    CompileError
        The source does not compile; `stderr` has the compiler's messages, with the source's lines.
    """
    if target not in _TARGETS:
        raise ValueError(f"target is {target!r}; it is one of {_TARGETS}")
    if not isinstance(source, str):
        raise TypeError(f"source is a {type(source).__name__}; give a string")
    words = tuple(DEFAULT_NVCC_FLAGS if options is None else options)
    folders = (*map(os.fspath, include_dirs or ()), _INCLUDE_DIR)
    debug = _settings.settings.debug
    engine = _engine.current().name
    if cache_dir is None:
        cache_dir = os.environ.get("PYCUDA_CACHE_DIR")
    if "PYCUDA_DISABLE_CACHE" in os.environ:
        cache_dir = False
    try:
        found = include_tracking.folders_of(folders, words)
        texts = [source]  # and those of the user's headers

        def find_included(name: str) -> str | None:
            text = include_tracking.find_included(name, found)
            if text is not None:
                texts.append(text)
            return text

        declared = signatures.parse(*(source, _FILE, words), find_included)
        kernels = (*declared.plain, *declared.instantiated)
        target_arch = (arch or code or cache.arch(current_device())) if engine == "cuda" else ""
        whole = Source(source, _FILE, words, folders, bool(no_extern_c), debug, target_arch, kernels)
        loaded = cache.get(whole, engine, cache_dir)
    except errors.Error as error:
        failure = translated(error)
        if hasattr(failure, "command_line"):
            failure.command_line = (nvcc, *words, _FILE)
        raise failure from None
    image = loaded.binary.data
    if engine == "cuda":
        compiled = CompiledSource(image)
    else:
        # The engine's image is the path of a library. Programs keep images in files and load them later, so
        # they get the library's bytes, and the source behind them, which declares the kernels' parameters.
        keywords = {"source": source, "options": words, "no_extern_c": no_extern_c}
        behind = json.dumps({**keywords, "include_dirs": folders[:-1]}).encode()
        compiled = CompiledSource(Path(os.fsdecode(image)).read_bytes() + SOURCE_MARK + behind)
    compiled.image, compiled.key, compiled.engine = image, loaded.binary.key, engine
    compiled.symbols = loaded.symbols
    compiled.signatures = {kernel.name: kernel for kernel in kernels}
    # A header of a header may print, too.
    compiled.prints = any("printf" in text or '#include "' in text for text in texts)
    compiled.debug = debug
    return compiled


class CudaModule:
    """The base of modules that are made of sources."""

    module: Module

    def get_function(self, name: str) -> Function:
        """Return a kernel."""
        return self.module.get_function(name)

    def get_global(self, name: str) -> tuple[int, int]:
        """Return the address and the size of a variable."""
        return self.module.get_global(name)

    def get_texref(self, name: str) -> Any:
        """Raise LogicError: there are no texture references."""
        return self.module.get_texref(name)

    def get_surfref(self, name: str) -> Any:
        """Raise LogicError: there are no surface references."""
        return self.module.get_surfref(name)


class SourceModule(CudaModule):
    """A module of kernels in CUDA C.

    Parameters
    ----------
    source, nvcc, options, keep, no_extern_c, arch, code, cache_dir, include_dirs
        As for `compile`.
    """

    def __init__(
        self,
        source: str,
        nvcc: str = "nvcc",
        options: Sequence[str] | None = None,
        keep: bool = False,
        no_extern_c: bool = False,
        arch: str | None = None,
        code: str | None = None,
        cache_dir: Any = None,
        include_dirs: Iterable[str] | None = None,
    ) -> None:
        compiled = compile(*(source, nvcc, options, keep, no_extern_c, arch, code, cache_dir, include_dirs))
        self.module = load(compiled)


class DynamicSourceModule(SourceModule):
    """The same as `SourceModule`: kernels that launch kernels are not supported.

    Parameters
    ----------
    source, nvcc, options, keep, no_extern_c, arch, code, cache_dir, include_dirs
        As for `compile`.
    cuda_libdir
        For compatibility.
    """

    def __init__(
        self,
        source: str,
        nvcc: str = "nvcc",
        options: Sequence[str] | None = None,
        keep: bool = False,
        no_extern_c: bool = False,
        arch: str | None = None,
        code: str | None = None,
        cache_dir: Any = None,
        include_dirs: Iterable[str] | None = None,
        cuda_libdir: str | None = None,  # noqa: ARG002
    ) -> None:
        super().__init__(*(source, nvcc, options, keep, no_extern_c, arch, code, cache_dir, include_dirs))


class DynamicModule(CudaModule):
    """A module that is linked of several sources: not supported."""

    def __init__(self, *_arguments: Any, **_keywords: Any) -> None:
        raise LogicError("DynamicModule does not exist: put the sources into one SourceModule")

    add_source = add_file = add_stdlib = link = absent("DynamicModule", "use one SourceModule")
