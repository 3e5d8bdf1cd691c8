"""The machine's C++ compiler, and runs of compilers in a folder of their own, with a time limit."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from pycudakit import errors
from pycudakit.kernels.compiling.extern_c import TEMPLATE_REMEDY

HEADERS = Path(__file__).parent / "include"  # of the dialect
_OF_GPUS = re.compile(r"thrust/|cub/|cu(?:blas|dnn|fft|rand|solver|sparse)")  # headers
_MISSING = (
    "kernels for the CPU engine are compiled by the machine's C++ compiler, and {0} is missing: install g++ "
    "or clang++ (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install;"
    " conda: conda install cxx-compiler), or set CXX to one"
)


def compiler_command() -> list[str]:
    """Return the command of the compiler, CXX or c++, or raise `CompileError`."""
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
    return str(shutil.which(compiler_command()[0]))


@functools.cache
def kind(compiler: tuple[str, ...]) -> str:
    """Return the family of a compiler: "gcc" or "clang"."""
    try:
        rule = output([*compiler, "--version"], None).stdout
    except OSError as error:
        raise errors.CompileError(f"{compiler[0]} does not run: {error}") from None
    return "clang" if "clang" in rule else "gcc"


@contextlib.contextmanager
def temporary_folder(name: str) -> Iterator[str]:
    """Make a folder for the files of a compiler, or raise `CompileError`; `name` is the source's."""
    try:
        # A compiler that was stopped may still create a file while the folder is removed.
        with tempfile.TemporaryDirectory(prefix="pycudakit-", ignore_cleanup_errors=True) as directory:
            yield directory
    except OSError as error:
        raise errors.CompileError(
            f"{name}: no folder for the compiler's files: {error}; set TMPDIR to one that has room"
        ) from None


def run(command: list[str], name: str, directory: str | None) -> tuple[str, str]:
    """Run a compiler; return its output and its log, or raise `CompileError` with the log."""
    try:
        done = output(command, directory)
    except OSError as error:
        raise errors.CompileError(f"{command[0]} does not run: {error}") from None
    except subprocess.TimeoutExpired as error:
        raise errors.CompileError(
            f"{name}: {command[0]} exceeded {error.timeout:g} seconds, and was stopped; set "
            "PYCUDAKIT_COMPILE_LIMIT to more seconds, or to 0 for no limit"
        ) from None
    log = _of_user(done.stderr.strip(), name)
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


def output(command: Sequence[str], directory: str | None) -> subprocess.CompletedProcess[str]:
    """Run a compiler, and kill it with its children if it exceeds the limit or an exception comes."""
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


def _of_user(log: str, name: str) -> str:
    """Return a log without the lines for the code around the source, which an unclosed brace reaches."""
    around = re.compile(r"the table of \w+:|function_table\.h:|options:\d+:\d+: note: ")
    lines = [line for line in log.splitlines() if not around.match(line)]
    if re.search(r"^the table of \w+:\d+:\d+: error: expected '}'", log, re.MULTILINE):
        lines.append(f"{name}: a brace is not closed")
    return "\n".join(lines) or log


def _remedy(log: str, command: Sequence[str]) -> str:
    """Return a hint about templates, or the folders in which a missing header was searched."""
    if re.search(r"error: template(?: with C|s must have C\+\+) linkage", log):
        return f"\n{TEMPLATE_REMEDY}"
    missing = re.search(r"fatal error: '?([^\s:']+)'?(?:: No such file or directory| file not found)", log)
    if missing is None:
        return ""
    if _OF_GPUS.match(missing[1]) and "nvcc" not in command[0]:
        return f"\n{missing[1]} is for GPUs: the CPU engine has no such library"
    searched = [word[2:] for word in command if word.startswith("-I") and word != f"-I{HEADERS}"]
    looked = ", ".join(searched) or "the compiler's own folders"
    return f"\n{missing[1]} is not in {looked}: name its folder in include_dirs"


def dependencies_of(rule: Path, directory: str) -> tuple[str, ...]:
    """Return the dependencies in a make rule, where spaces, # and $ are escaped, except our own files."""
    _, _, files = rule.read_text(encoding="utf-8", errors="surrogateescape").partition(": ")
    found = (
        re.sub(r"\\([ #\\:])", r"\1", word).replace("$$", "$")
        for word in re.findall(r"(?:\\.|[^\s\\])+", files.replace("\\\n", " "))
    )
    read = dict.fromkeys(os.path.normpath(os.path.join(directory, path)) for path in found)
    return tuple(path for path in read if not path.startswith((directory + os.sep, str(HEADERS) + os.sep)))
