"""The files that a compilation reads, and those that it would read if they were there."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pycudakit.kernels.compiling.extern_c import preprocessing

# Of a file: size, two times and number, which are looked at first, and the hash of what is in it.
State = tuple[int, int, int, int, str]
States = Mapping[str, State | None]  # by path; None is no file

_MAX_BYTES = 64 << 20  # bytes of a file
_MAX_FILES = 4096
_TIMESTAMP_RESOLUTION_NS = 2_000_000_000  # nanoseconds after which a change shows in a file's times
# A name is taken wherever it may be one, since a macro may be what includes it.
_NAME = re.compile(r'"([^"\n]{1,255})"|<([^<>\n]{1,255})>')
_SPLICE_OR_COMMENT = re.compile(r"\\\r?\n|/\*.*?\*/", re.DOTALL)
_BY_MACRO = re.compile(r"(?:#|%:)[ \t]*(?:include|include_next|import)[ \t]+([A-Za-z_]\w*)([ \t]*\()?")
_MEANS_A_NAME = r'(?:define[ \t]+|^-D[ \t]*){}(?:=|[ \t]+)\\?["<]'
_UNTRACKED_INCLUDE = re.compile(r"incbin|#[ \t]*embed|__has_embed")  # what no list of headers has


def folders_of(include_dirs: Iterable[str], options: Iterable[str]) -> list[Path]:
    """Return where `include_dirs` and the compiler's options say that headers are."""
    asked = [Path(place) for option, place in preprocessing(options)[0] if option == "-I"]
    return [*(Path(folder) for folder in include_dirs), *asked]


def find_included(name: str, folders: Iterable[Path]) -> str | None:
    """Return the text of a header of the user's, or None if it is not one."""
    for folder in folders:
        found = _content(str(folder / name))
        if found is not None:
            return found.decode("utf-8", "replace")
    return None


def looked_for(text: str, options: Iterable[str], folders: Iterable[Path]) -> dict[str, State | None] | None:
    """Return what a text may include, directly or not, in any of the folders: there or not.

    Rather too much than too little: another file in front of one that is read is a change too. None if that
    cannot be told, as of a name that a macro pastes together.
    """
    places = [os.path.abspath(folder) for folder in folders]
    options = tuple(options)
    found: dict[str, State | None] = {}
    texts = [text]
    left: list[tuple[str, list[str]]] = [(text, places)]
    names_of_options = [name for option in options for name in _names(option.replace("\\", ""))]
    while left:
        text, here = left.pop()
        for name in dict.fromkeys([*_names(text), *names_of_options]):
            for folder in here:
                path = os.path.join(folder, name)
                if path in found:
                    continue
                content = _content(path)
                found[path] = None if content is None else _state(path, content)
                if content is not None:
                    texts.append(content.decode("utf-8", "replace"))
                    left.append((texts[-1], [os.path.dirname(path), *places]))
        if len(texts) > _MAX_FILES:
            return None
    return found if _are_statically_known(texts, options) else None


def read_by_compiler(paths: Iterable[str], started: int) -> dict[str, State | None] | None:
    """Return the files of a compiler's own list; None if one may have changed since it `started`."""
    found: dict[str, State | None] = {}
    for path in paths:
        content = _content(path)
        state = None if content is None else _state(path, content)
        if content is None or state is None or max(state[1:3]) >= started - 20_000_000:
            return None
        if not path.startswith("/usr/") and _UNTRACKED_INCLUDE.search(content.decode("utf-8", "replace")):
            return None
        found[path] = state
    return found


def are_unchanged(states: States, recorded: int) -> bool:
    """Tell whether all files are what they were, as recorded at a time in nanoseconds."""
    for path, was in states.items():
        signature = _signature(path)
        if signature is None or was is None:
            if signature is not None or was is not None:
                return False
        elif signature != tuple(was[:4]) or max(signature[1:3]) > recorded - _TIMESTAMP_RESOLUTION_NS:
            content = _content(path)
            if content is None or hashlib.sha256(content).hexdigest() != was[4]:
                return False
    return True


def are_unchanged_since(states: States) -> bool:
    """Tell the same, of files that may have changed just now."""
    return are_unchanged(states, 0)


def _names(text: str) -> Iterator[str]:
    for match in _NAME.finditer(text):
        name = match[1] or match[2]
        if "\0" not in name:
            yield name


def _are_statically_known(texts: list[str], options: tuple[str, ...]) -> bool:
    for text in texts:
        if _UNTRACKED_INCLUDE.search(text):
            return False
        for macro, is_call in _BY_MACRO.findall(_SPLICE_OR_COMMENT.sub(" ", text)):
            meaning = re.compile(_MEANS_A_NAME.format(macro), re.MULTILINE)
            if is_call or not any(meaning.search(one) for one in (*texts, *options)):
                return False
    return True


def _signature(path: str) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _state(path: str, content: bytes) -> State | None:
    signature = _signature(path)
    return None if signature is None else (*signature, hashlib.sha256(content).hexdigest())


def _content(path: str) -> bytes | None:
    signature = _signature(path)
    if signature is None or signature[0] > _MAX_BYTES:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None
