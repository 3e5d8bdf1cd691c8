"""Compilation of kernels for the CPU engine: translation to C++, and the machine's C++ compiler."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pycudakit import errors
from pycudakit.kernels.compiling import cuda_to_cpp, extern_c, inline_ptx, thread_loops
from pycudakit.kernels.compiling.extern_c import directives, line_directive, preprocessing, wrapped
from pycudakit.kernels.compiling.source import Compiled, Signature, Source, short_names

HEADERS = Path(__file__).parent / "include"  # of the dialect
_FLAGS = [
    *("-std=c++17", "-fPIC", "-O3", "-pipe", "-fstack-clash-protection"),
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-exceptions"),
    *("-fno-semantic-interposition", "-fwrapv", "-fno-strict-aliasing"),
    "-fvisibility=hidden",  # else static variables of templates are shared by binaries of the process
    *("-fsanitize=integer-divide-by-zero", "-fsanitize-recover=integer-divide-by-zero"),
    *("-Wno-unknown-pragmas", "-Wno-attributes"),
]
_QUIET = {"gcc": [], "clang": ["-Wno-unused-command-line-argument"]}
# Loops that GCC 12 vectorises wrongly, in its dump: the index of an element is a comparison, whose true is -1
# in vectors; or the mask of a gather is uniform, of which later passes may make 1 instead of -1.
_MISCOMPILED = re.compile(r"BIT_FIELD_REF <mask_|\bstmp_\w+ = VIEW_CONVERT_EXPR<[^>]*>\s?\(vect_cst_")
# Names in the C library that CUDA's headers do not declare: a source may define them itself, so they are
# renamed by macros. Names of Bessel functions, which kernels can call, only if a kernel has the name.
_RESERVED_NAMES = re.compile(
    r"abort|atexit|ato[fil]|clearerr|l?l?div|drem|exit|ffs|[fp]?[gp]et?[cs]|fput[cs]|gamma|(?:get|put)(?:c|env|w)"
    r"|index|[jy](?:0|1|n)|link|mktemp|perror|pipe|qsort|raise|s?rand|s?random|read|remove|rename|rewind|rindex"
    r"|scalb|select|setstate|signal|significand|swab|sync|system|tmpfile|ungetc|write"
)
_BESSEL = ("j0", "j1", "jn", "y0", "y1", "yn")
# AddressSanitizer's outlined instrumentation: a function call before each access, and no shadow memory.
_CHECKS = {
    "gcc": [
        "-fsanitize=kernel-address",
        *(f"--param=asan-{what}=0" for what in ("instrumentation-with-call-threshold", "stack", "globals")),
    ],
    "clang": [
        "-fsanitize=kernel-address",
        *(
            word
            for what in ("instrumentation-with-call-threshold", "stack", "globals")
            for word in ("-mllvm", f"-asan-{what}=0")
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
# Modules that write loops over threads.
_OF_LOOPS = ("statements", "kernel_definition", "kernel_locals", "thread_loops")
# Environment variables by which GCC and Clang find headers and their own parts.
_PLACES = ("CPATH", "CPLUS_INCLUDE_PATH")
_OTHERS = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "SDKROOT")
_MISSING = (
    "kernels for the CPU engine are compiled by the machine's C++ compiler, and {0} is missing: install g++ "
    "or clang++ (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install;"
    " conda: conda install cxx-compiler), or set CXX to one"
)


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
    compiler = _compiler()
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
    command = [*compiler, *_FLAGS, *_QUIET[_kind(tuple(compiler))], *_tuning()]
    folders = [folder for option, folder in preprocessing(source.options)[0] if option == "-I"]
    command += [f"-I{os.path.abspath(folder)}" for folder in (*folders, *source.include_dirs)]
    hooks = volatile_options(source)
    if source.debug:
        command += ["-O1", "-fno-delete-null-pointer-checks", "-DPK_CHECKED"]
        hooks = hooks or _checks(source, tuple(compiler))
    return [*command, *hooks, f"-I{HEADERS}"]


def remarks(source: Source, text: str) -> str:
    """Return what the compiler says that it has vectorised in a translation of a source.

    Raises
    ------
    CompileError
        There is no compiler, or the translation does not compile.
    """
    compiler = _compiler()
    option = {"gcc": "-fopt-info-vec-optimized", "clang": "-Rpass=loop-vectorize"}[_kind(tuple(compiler))]
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


@contextlib.contextmanager
def temporary_folder(name: str) -> Iterator[str]:
    """Make a folder for the files of a compiler, or raise `CompileError`; `name` is the source's."""
    try:
        with tempfile.TemporaryDirectory(prefix="pycudakit-") as directory:
            yield directory
    except OSError as error:
        raise errors.CompileError(
            f"{name}: no folder for the compiler's files: {error}; set TMPDIR to one that has room"
        ) from None


def _host_code(source: Source, directory: str, options: Sequence[str]) -> Compiled:
    compiler = _compiler()
    libraries = [option for option in source.options if option.startswith(("-l", "-L"))]
    path, compiled, library = (str(Path(directory) / f"wrapped.{end}") for end in ("cpp", "o", "so"))
    pairs, others = preprocessing(source.options)
    folders = [folder for option, folder in pairs if option == "-I"]
    rule = str(Path(directory) / "wrapped.d")
    command = [*compiler, *_FLAGS, "-fexceptions", *_QUIET[_kind(tuple(compiler))], *_tuning(), *options]
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


def dependencies_of(rule: Path, directory: str) -> tuple[str, ...]:
    """Return the dependencies in a make rule, where spaces, # and $ are escaped, except our own files."""
    _, _, files = rule.read_text(encoding="utf-8", errors="surrogateescape").partition(": ")
    found = (
        re.sub(r"\\([ #\\:])", r"\1", word).replace("$$", "$")
        for word in re.findall(r"(?:\\.|[^\s\\])+", files.replace("\\\n", " "))
    )
    read = dict.fromkeys(os.path.normpath(os.path.join(directory, path)) for path in found)
    return tuple(path for path in read if not path.startswith((directory + os.sep, str(HEADERS) + os.sep)))


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
    for word in _compiler():
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
        Path(cuda_to_cpp.__file__),
        Path(extern_c.__file__),
        Path(inline_ptx.__file__),
        *(Path(__file__).with_name(f"{name}.py") for name in _OF_LOOPS),
    )
    rule.update(b"".join(file.read_bytes() for file in our_files))
    rule.update(f"{platform.machine()} {_processor()}".encode())
    return rule.hexdigest()


def translated(source: Source, *, splits_kernels: bool = False, has_lines: bool = False) -> str:
    """Translate a source to C++: the headers of the dialect, the source, and a table of its kernels.

    Parameters
    ----------
    splits_kernels
        Whether kernels with barriers also become loops over threads, where that is proven to be the same.
    has_lines
        Whether the loops of kernels without barriers have the lines of these, for the compiler's remarks.
    """
    text = inline_ptx.translated(cuda_to_cpp.translated(source.text, checked=source.debug))
    body = line_directive(1, source.name) + text if source.no_extern_c else wrapped(text, source.name)
    waits = cuda_to_cpp.kernels_with_barriers(source)
    loops, splits = "", dict[str, str]()
    if splits_kernels and not source.debug:
        loops, splits, _ = thread_loops.split(source, waits)
        loops = inline_ptx.translated(cuda_to_cpp.translated(loops, checked=False))
    entries = [
        f"    {_entry(kernel.name, waits, splits)}({json.dumps(kernel.name)})," for kernel in source.kernels
    ]
    symbols = [
        f"    {{{json.dumps(name)}, (void *)&{name}, sizeof({name})}},"
        for name in cuda_to_cpp.variables(source.text)
    ]
    lines = [
        *_prologue(source),
        body,
        loops,
        *(
            _located(kernel, source.name)
            for kernel in source.kernels
            if has_lines and kernel.name not in waits
        ),
        line_directive(1, "the table of kernels").rstrip(),
        "namespace {",
        "const pk_image_kernel pk_kernels[] = {",
        *entries,
        "    {}};",
        "const pk_image_symbol pk_symbols[] = {",
        *symbols,
        "    {}};",
        "const pk_image_table pk_table = {PK_IMAGE_VERSION,",
        f"    {int(source.debug)}, {len(entries)}, pk_kernels, {len(symbols)}, pk_symbols}};",
        "}",
        'extern "C" __attribute__((visibility("default"))) const pk_image_table *pk_image(void) {',
        "    return &pk_table;",
        "}",
        "",
    ]
    return "\n".join(lines)


def _located(kernel: Signature, name: str) -> str:
    """Return a loop over a kernel's threads that has the line of the kernel."""
    loop = f"template <> struct pk_loop<(&{kernel.name})> {{ PK_LOOP({kernel.name}) }};"
    return line_directive(kernel.line, name) + loop.replace("\n", " ")


def _entry(kernel: str, waits: set[str], splits: dict[str, str]) -> str:
    """Return the function that makes a kernel's entry in the table."""
    entry = f"pk_entry<(&{kernel})>::"
    if kernel in splits:
        return f"{entry}pk_splits<(&{splits[kernel]})>"
    return f"{entry}pk_{'waits' if kernel in waits else 'loops'}"


def _compiler() -> list[str]:
    try:
        chosen = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    except ValueError as error:
        raise errors.CompileError(
            f"CXX is {os.environ['CXX']!r}, which is not a command ({error}); set it to a C++ compiler"
        ) from None
    if shutil.which(chosen[0]) is None:
        raise errors.CompileError(_MISSING.format(f"CXX={chosen[0]}" if os.environ.get("CXX") else "c++"))
    return chosen


def path() -> str:
    """Return the path of the compiler, or raise `CompileError`."""
    return str(shutil.which(_compiler()[0]))


@functools.cache
def _kind(compiler: tuple[str, ...]) -> str:
    try:
        rule = _output([*compiler, "--version"], None).stdout
    except OSError as error:
        raise errors.CompileError(f"{compiler[0]} does not run: {error}") from None
    return "clang" if "clang" in rule else "gcc"


def _checks(source: Source, compiler: tuple[str, ...]) -> list[str]:
    """Return the options for checked accesses; compilers for macOS have none.

    Raises
    ------
    CompileError
        The compiler calls no function before accesses.
    """
    if sys.platform == "darwin":
        return []
    kind = _kind(compiler)
    every_access = (*_VOLATILE[kind], "-DPK_VOLATILE")
    # AddressSanitizer leaves out a write after a read of the same value, and ThreadSanitizer memcpy().
    has_copies = re.search(r"\bmem(?:cpy|move|set)\b|#[ \t]*include", source.text) is not None
    if not has_copies and _reports_accesses(compiler, every_access):
        return [*every_access]
    if _reports_accesses(compiler, tuple(_CHECKS[kind])):
        return _CHECKS[kind]
    raise errors.CompileError(
        f"debug=True checks each access to memory, and {compiler[0]} does not report accesses by "
        f"{_CHECKS[kind][0]}: set CXX to GCC or Clang, or drop debug=True"
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
    compiler = tuple(_compiler())
    options = [*_VOLATILE[_kind(compiler)], "-DPK_VOLATILE"]
    if _reports_accesses(compiler, tuple(options)):
        return options
    if not cuda_to_cpp.has_shared(source):
        return []
    raise errors.CompileError(
        f"{source.name} has volatile shared memory, by which the lanes of a warp stay in step, and "
        f"{compiler[0]} is too old to report volatile accesses: install GCC 11 or Clang 11, or newer, and "
        "set CXX to it; or write __syncwarp() between the statements, and drop the volatile"
    )


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


@functools.lru_cache(maxsize=8)
def _reports_accesses(compiler: tuple[str, ...], options: tuple[str, ...]) -> bool:
    """Return True if a compiler with these options calls a function before each access."""
    with temporary_folder("a probe of the compiler") as directory:
        probe, assembly = (Path(directory, "probe").with_suffix(end) for end in (".cpp", ".s"))
        probe.write_text(_PROBE, encoding="utf-8")
        command = [*compiler, *options, "-O1", "-S", str(probe), "-o", str(assembly)]
        try:
            if _output(command, directory).returncode != 0:
                return False
            called = set(re.findall(r"__[at]san_\w+", assembly.read_text(encoding="utf-8", errors="replace")))
        except (OSError, subprocess.TimeoutExpired):
            return False
    return called.issuperset(_CALLS[options[0]])


def _run_vectorising(command: list[str], name: str, directory: str) -> str:
    """Run a compiler, without vectorisation of loops if GCC is wrong there; return its log."""
    if _kind(tuple(_compiler())) != "gcc":
        return run(command, name, directory)[1]
    dump = Path(directory) / "kernels.vect"
    _, log = run([*command, f"-fdump-tree-vect={dump}"], name, directory)
    if dump.exists() and _MISCOMPILED.search(dump.read_text(encoding="utf-8", errors="replace")):
        _, log = run([*command, "-fno-tree-loop-vectorize"], name, directory)
    return log


def _output(command: Sequence[str], directory: str | None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C"}
    environment.pop("LD_PRELOAD", None)  # a preloaded library, e.g. a sanitizer, is not for the compiler
    with subprocess.Popen(  # noqa: S603  (the user's compiler)
        command,
        cwd=directory,
        encoding="utf-8",
        env=environment,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that its children are killed, too
    ) as process:
        try:
            rule, log = process.communicate(timeout=_limit())
        except BaseException:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, rule, log)


def _limit() -> float | None:
    """Return the time limit of the compiler in seconds, or None."""
    setting = os.environ.get("PYCUDAKIT_COMPILE_LIMIT", "600")
    try:
        seconds = float(setting)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < threading.TIMEOUT_MAX:
        raise errors.InvalidArgument(
            f"PYCUDAKIT_COMPILE_LIMIT is {setting!r}; give seconds, such as 600, or 0 for no limit"
        )
    return seconds or None


def run(command: list[str], name: str, directory: str | None) -> tuple[str, str]:
    """Run a compiler; return its output and its log, or raise `CompileError` with the log."""
    try:
        done = _output(command, directory)
    except OSError as error:
        raise errors.CompileError(f"{command[0]} does not run: {error}") from None
    except subprocess.TimeoutExpired as error:
        raise errors.CompileError(
            f"{name}: {command[0]} exceeded {error.timeout:g} seconds, and was stopped; set "
            "PYCUDAKIT_COMPILE_LIMIT to more seconds, or to 0 for no limit"
        ) from None
    log = done.stderr.strip()
    if done.returncode != 0:
        rule = log or (
            f"no output, exit status {done.returncode}"
            if done.returncode > 0
            else f"killed by signal {-done.returncode}"
        )
        raise errors.CompileError(
            f"{name} does not compile with {command[0]}:\n{rule}{_remedy(log, command)}"
        )
    return done.stdout, log


def _remedy(log: str, command: Sequence[str]) -> str:
    """Return a hint that lists the folders in which a missing header was searched."""
    missing = re.search(r"fatal error: '?([^\s:']+)'?(?:: No such file or directory| file not found)", log)
    if missing is None:
        return ""
    searched = [word[2:] for word in command if word.startswith("-I") and word != f"-I{HEADERS}"]
    looked = ", ".join(searched) or "the compiler's own folders"
    return f"\n{missing[1]} is not in {looked}: name its folder in include_dirs"


def _prologue(source: Source) -> Iterator[str]:
    """Yield the lines before a source: our headers, then the user's macros, which must not affect these."""
    yield '#include "pycudakit_cuda.h"'
    for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)', source.text, re.MULTILINE):
        if (HEADERS / name).is_file():
            yield f"#include <{name}>"
    yield from directives(preprocessing(source.options)[0])
    names = set(re.findall(r"\b[A-Za-z_]\w*", source.text)) - set(_BESSEL)
    names -= set(re.findall(r"(?:\.|->|::)\s*(\w+)", source.text))  # members do not conflict
    for name in sorted(names | {kernel.name for kernel in source.kernels}):
        if _RESERVED_NAMES.fullmatch(name):
            yield f"#define {name} pk_own_{name}"
    for name in sorted(short_names(source.text)):
        yield f"#define {name} pk_own_{name}"


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
