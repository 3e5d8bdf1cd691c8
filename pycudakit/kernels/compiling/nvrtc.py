"""Compilation of kernels for a GPU by NVRTC, CUDA's run-time compiler."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pycudakit import errors
from pycudakit.kernels.compiling.extern_c import (
    TEMPLATE_REMEDY,
    directives,
    line_directive,
    preprocessing,
    wrapped,
)
from pycudakit.kernels.compiling.source import Compiled, Source, short_names

_INCLUDE_DIR = Path(__file__).parent / "device_include"
_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
_MISSING = 'kernels for a GPU are compiled by NVRTC, which is not installed: pip install "pycudakit[cuda13]"'

# Standard headers whose contents are in our prelude or built into the compiler.
_ASSERT = """#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \
    ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, sizeof(char)))
#endif
"""
# <cub/cub.cuh> does not compile with NVRTC; its headers for blocks and warps do.
_CUB = "#if !__has_include(<cub/block/block_reduce.cuh>)\n#error CUB is not installed\n#endif\n" + "".join(
    f"#if __has_include(<cub/{part}.cuh>)\n#include <cub/{part}.cuh>\n#endif\n"
    for part in (
        *(f"block/block_{header}" for header in ("adjacent_difference", "discontinuity", "exchange")),
        *(f"block/block_{header}" for header in ("histogram", "load", "merge_sort", "radix_sort", "reduce")),
        *(f"block/block_{header}" for header in ("run_length_decode", "scan", "shuffle", "store")),
        *(f"warp/warp_{header}" for header in ("exchange", "load", "merge_sort", "reduce", "scan", "store")),
    )
)
_EMPTY = ("stdio", "math", "stdint", "stdlib", "string", "limits", "float", "stddef", "stdbool", "inttypes")
_STUB_HEADERS = {
    **{f"{name}.h": "" for name in _EMPTY},
    **{f"c{name}": "" for name in _EMPTY},
    "assert.h": _ASSERT,
    "cassert": _ASSERT,
    "cub/cub.cuh": _CUB,
}

# Empty replacements for CUDA's headers that NVRTC has built in, for machines without them.
_BUILT_IN = (
    *("cuda_runtime.h", "cuda_runtime_api.h", "cuda.h", "device_launch_parameters.h", "device_functions.h"),
    *("vector_types.h", "vector_functions.h", "sm_20_intrinsics.h", "sm_30_intrinsics.h"),
)

_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_TEXTS, _SIZE_OUT = ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(ctypes.c_size_t)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "nvrtcVersion": (ctypes.POINTER(_INT), ctypes.POINTER(_INT)),
    "nvrtcGetNumSupportedArchs": (ctypes.POINTER(_INT),),
    "nvrtcGetSupportedArchs": (ctypes.POINTER(_INT),),
    "nvrtcCreateProgram": (ctypes.POINTER(_POINTER), _TEXT, _TEXT, _INT, _TEXTS, _TEXTS),
    "nvrtcDestroyProgram": (ctypes.POINTER(_POINTER),),
    "nvrtcAddNameExpression": (_POINTER, _TEXT),
    "nvrtcCompileProgram": (_POINTER, _INT, _TEXTS),
    "nvrtcGetLoweredName": (_POINTER, _TEXT, ctypes.POINTER(_TEXT)),
    **{
        name: arguments
        for output in ("CUBIN", "PTX", "ProgramLog")
        for name, arguments in (
            (f"nvrtcGet{output}Size", (_POINTER, _SIZE_OUT)),
            (f"nvrtcGet{output}", (_POINTER, _TEXT)),
        )
    },
}
_COMPILATION = 6  # NVRTC_ERROR_COMPILATION


# The wheels of CUDA's headers, by the prefixes of their names.
_WHEELS = {
    "curand": "nvidia-curand",
    "cub/": "nvidia-cuda-cccl",
    "cuda/": "nvidia-cuda-cccl",
    "thrust/": "nvidia-cuda-cccl",
    "nv/": "nvidia-cuda-cccl",
    "crt/": "nvidia-cuda-crt",
    "cuda_": "nvidia-cuda-runtime",
    "cooperative_groups": "nvidia-cuda-runtime",
    "mma": "nvidia-cuda-runtime",
}


def _has_pathfinder() -> bool:
    try:
        return importlib.util.find_spec("cuda.pathfinder") is not None
    except ImportError:  # the package `cuda` is missing or a different one
        return False


@functools.cache
def _opened() -> tuple[ctypes.CDLL, str]:
    """Open NVRTC once; return it, and its path if known."""
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for name, arguments in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, _INT
        library.nvrtcGetErrorString.argtypes = (_INT,)
        library.nvrtcGetErrorString.restype = _TEXT
        return library, path
    raise errors.CompileError(_MISSING)


def _candidates() -> Iterator[str]:
    if _has_pathfinder():
        try:
            pathfinder: Any = importlib.import_module("cuda.pathfinder")
            yield pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path or _NAMES[0]
        except (ImportError, RuntimeError, OSError):  # not installed by pip; the system may have it
            pass
    yield from _NAMES


def _check(status: int, call: str) -> None:
    if status:
        reason = _opened()[0].nvrtcGetErrorString(status).decode()
        raise errors.CompileError(f"{call} failed with {reason}")


def _call(name: str, *arguments: Any) -> None:
    _check(getattr(_opened()[0], name)(*arguments), name)


@functools.cache
def version() -> tuple[int, int]:
    """Return the version of NVRTC."""
    major, minor = _INT(), _INT()
    _call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


@functools.cache
def architectures() -> tuple[int, ...]:
    """Return the architectures that NVRTC supports, ascending: 90 is ``"sm_90"``."""
    count = _INT()
    _call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
    supported = (_INT * count.value)()
    _call("nvrtcGetSupportedArchs", supported)
    return tuple(sorted(supported))


@functools.cache
def _prelude() -> str:
    return (_INCLUDE_DIR / "prelude.h").read_text()


def _prelude_of(source: Source) -> str:
    """Return the prelude without the typedefs that the source has itself."""
    prelude = _prelude()
    for name in short_names(source.text):
        prelude = re.sub(rf"^typedef unsigned \w+ {name};$", "", prelude, flags=re.MULTILINE)
    return prelude


@functools.cache
def include_dirs() -> tuple[str, ...]:
    """Return the folders of CUDA's headers: for each component the first folder that has it."""
    folders: dict[str, None] = {}
    for header in ("cuda_fp16.h", "curand_kernel.h", "cub/cub.cuh"):
        directory = next((place for place in _places() if (place / header).is_file()), None)
        if directory is not None:
            folders[str(directory)] = None
    return tuple(folders)


def _places() -> Iterator[Path]:
    """Yield the folders that may contain CUDA's headers."""
    if _has_pathfinder():
        pathfinder: Any = importlib.import_module("cuda.pathfinder")
        for name in ("cudart", "curand", "cccl"):
            try:
                found = pathfinder.find_nvidia_header_directory(name)
            except (AttributeError, LookupError, RuntimeError, ValueError, OSError):  # an old version
                continue
            if found:
                yield Path(found)
    roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    path = Path(_opened()[1])
    roots += [str(path.parents[1])] if path.is_absolute() else []
    roots += ["/usr/local/cuda"]
    for root in roots:
        if root:
            include = Path(root) / "include"
            yield from (include, include / "cccl")


def folders() -> tuple[str, ...]:
    """Return NVRTC's own header folders besides those of the options: none."""
    return ()


@functools.cache
def fingerprint() -> str:
    """Return a fingerprint of a binary's other dependencies: the compiler and headers."""
    hashed = hashlib.sha256(repr((_prelude(), _STUB_HEADERS)).encode()).hexdigest()[:16]
    return " ".join(["nvrtc", ".".join(map(str, version())), hashed, *include_dirs()])


def target(arch: str) -> tuple[str, bool]:
    """Return the architecture to compile for, and whether the result is PTX.

    For a GPU that is newer than NVRTC, it is PTX of the newest architecture before it, which the driver
    compiles.
    """
    match = re.fullmatch(r"(sm|compute)_(\d+)([af]?)", arch)
    if match is None:
        raise errors.CompileError(f"arch is {arch!r}: it is one such as 'sm_90'")
    supported_numbers = architectures()
    number = int(match[2])
    if number in supported_numbers:
        return arch, match[1] == "compute"
    if number < supported_numbers[-1]:
        supported = ", ".join(f"sm_{one}" for one in supported_numbers)
        raise errors.CompileError(
            f"NVRTC {version()[0]}.{version()[1]} does not compile for {arch}: it knows {supported}"
        )
    return f"compute_{supported_numbers[-1]}", True


# nvcc's options that NVRTC does not know: without a value, or with one, after = or as the next word.
_IGNORED_FLAGS = re.compile(
    r"-O[0-3s]?|-g|-m64|-c|--?(cubin|ptx|fatbin|keep|compile|shared|debug|verbose)"
    r"|--?((expt-)?extended-lambda|expt-relaxed-constexpr)|--?std=(c|gnu)\+\+(98|03|0x|11)"
)
_IGNORED_WITH_VALUE = re.compile(
    r"(-Xcompiler|--compiler-options|-Xlinker|--linker-options|-ccbin|--compiler-bindir|-o|--output-file|-O"
    r"|--optimize|-m|--machine|--?keep-dir|-gencode|--generate-code|--?default-stream|-code|--gpu-code)(=|$)"
)
_REWRITTEN_OPTIONS = {
    "--resource-usage": "--ptxas-options=-v",
    "-res-usage": "--ptxas-options=-v",
}


def split_options(options: tuple[str, ...]) -> tuple[list[str], str | None, list[str]]:
    """Split the options into those for NVRTC, the architecture, and those that NVRTC does not know.

    Examples
    --------
    >>> split_options(("-O3", "-arch=sm_90", "-DN=3", "-Xcompiler", "-Wall"))
    (['-DN=3'], 'sm_90', ['-O3', '-Xcompiler', '-Wall'])
    """
    kept_options: list[str] = []
    dropped: list[str] = []
    arch = None
    remaining = iter(options)
    for option in remaining:
        name, is_joined, value = option.partition("=")
        if name in ("-arch", "--gpu-architecture"):
            arch = value or next(remaining, "")
        elif name in ("-std", "--std") and not is_joined:
            kept_options.append(f"-std={next(remaining, '')}")
        elif _IGNORED_WITH_VALUE.match(option):
            dropped += [option] if is_joined else [option, next(remaining, "")]
        elif _IGNORED_FLAGS.fullmatch(option):
            dropped.append(option)
        else:
            kept_options.append(_REWRITTEN_OPTIONS.get(option, option))
    return kept_options, arch, dropped


_DEFAULT_OPTIONS = {
    # The names of an option, and its default. Without fma contraction the results have the CPU engine's bits.
    r"-std|--std": "-std=c++17",
    r"-fmad|--fmad|--?use_fast_math": "-fmad=false",
    r"-default-device|--device-as-default-execution-space": "-default-device",
}


def _all_options(source: Source) -> tuple[list[str], list[tuple[str, str]], bool, str]:
    """Return NVRTC's options, those for macros, whether the result is PTX, and a note for the log."""
    kept_options, arch, dropped = split_options(source.options)
    architecture, is_ptx = target(arch or source.arch)
    macro_options, kept_options = preprocessing(kept_options)
    options = [f"--gpu-architecture={architecture}", *kept_options]
    options += [f"-I{place}" for option, place in macro_options if option == "-I"]
    for names, usual in _DEFAULT_OPTIONS.items():
        if not any(re.match(rf"({names})(=|$)", option) for option in kept_options):
            options.append(usual)
    if source.debug and "-lineinfo" not in kept_options:
        options.append("-lineinfo")
    # Without any folder NVRTC would report a missing header in other words.
    options += [f"-I{directory}" for directory in (*source.include_dirs, *include_dirs(), _INCLUDE_DIR)]
    note = f"without effect on a GPU's code: {' '.join(dropped)}\n" if dropped else ""
    return options, macro_options, is_ptx, note


def _missing(source: Source) -> dict[str, str]:
    """Return replacements for headers that no folder has and that NVRTC does not need."""
    directories = [Path(directory) for directory in (*source.include_dirs, *include_dirs())]
    return {
        name: ""
        for name in _BUILT_IN
        if name in source.text and not any((directory / name).is_file() for directory in directories)
    }


def _text_of(source: Source, macros: list[tuple[str, str]]) -> str:
    if source.no_extern_c:
        text = line_directive(1, source.name) + source.text
    else:
        text = wrapped(source.text, source.name)
    defined = "\n".join(directives(macros))
    return f"{line_directive(1, 'pycudakit/prelude.h')}{_prelude_of(source)}\n{defined}\n{text}\n"


def compile(source: Source) -> Compiled:
    """Compile a source for a GPU: to a cubin, or to PTX if the GPU is newer than NVRTC.

    Raises
    ------
    CompileError
        The source does not compile; the message has the compiler's log.
    """
    options, macros, is_ptx, note = _all_options(source)
    program, text = _POINTER(), _text_of(source, macros).encode()
    stub_headers = {**_STUB_HEADERS, **_missing(source)}
    headers = [text.encode() for text in stub_headers.values()]
    names = [name.encode() for name in stub_headers]
    _call(
        *("nvrtcCreateProgram", ctypes.byref(program), text, source.name.encode()),
        *(len(headers), (_TEXT * len(headers))(*headers), (_TEXT * len(names))(*names)),
    )
    try:
        return _compiled(program, source, options, is_ptx, note)
    finally:
        _opened()[0].nvrtcDestroyProgram(ctypes.byref(program))


def _compiled(program: Any, source: Source, options: list[str], is_ptx: bool, note: str) -> Compiled:
    # C++ names are mangled; names in extern "C" are not.
    mangled = [kernel.name for kernel in source.kernels if source.no_extern_c]
    for name in mangled:
        _call("nvrtcAddNameExpression", program, name.encode())
    encoded_options = [option.encode() for option in options]
    status = _opened()[0].nvrtcCompileProgram(
        program, len(encoded_options), (_TEXT * len(encoded_options))(*encoded_options)
    )
    log = note + _read(program, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
    if status == _COMPILATION or (status and log):
        raise errors.CompileError(f"{source.name} does not compile:\n{log}{_remedy(log)}")
    _check(status, "nvrtcCompileProgram")
    symbols = {kernel.name: kernel.name for kernel in source.kernels}
    for name in mangled:
        lowered = _TEXT()
        _call("nvrtcGetLoweredName", program, name.encode(), ctypes.byref(lowered))
        symbols[name] = (lowered.value or b"").decode()
    return Compiled(_read(program, "PTX" if is_ptx else "CUBIN"), symbols, log)


def _remedy(log: str) -> str:
    """Return a hint about templates, or the wheel to install if a header of CUDA is missing."""
    if re.search(r'may not have extern "C" linkage', log):
        return f"\n{TEMPLATE_REMEDY}\n"
    missing = re.search(r'cannot open source file "([^"]+)"', log)
    if missing is None:
        return "\nCUB is in: pip install nvidia-cuda-cccl\n" if "CUB is not installed" in log else ""
    wheel = next((wheel for start, wheel in _WHEELS.items() if missing[1].startswith(start)), None)
    searched = ", ".join(include_dirs()) or "nowhere"
    remedy = f"pip install {wheel}, or " if wheel else ""
    return f"\nCUDA's headers are in: {searched}; {remedy}name its directory in include_dirs\n"


def _read(program: Any, output: str) -> bytes:
    size = ctypes.c_size_t()
    _call(f"nvrtcGet{output}Size", program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    _call(f"nvrtcGet{output}", program, data)
    return data.raw
