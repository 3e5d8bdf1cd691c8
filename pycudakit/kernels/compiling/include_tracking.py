"""Tracking of the headers that a compilation depends on, including those that do not exist yet.

A new file in an earlier include folder changes a compilation, so candidates that are missing count, too.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pycudakit.kernels.compiling.extern_c import preprocessing

# The state of a file: size, mtime, ctime and inode, which are compared first, and a hash of the contents.
State = tuple[int, int, int, int, str]
States = Mapping[str, State | None]  # by path; None if the file does not exist

_MAX_BYTES = 64 << 20  # limit of a file
_MAX_FILES = 4096
_TIMESTAMP_RESOLUTION_NS = 2_000_000_000  # later changes are visible in a file's times
# A header's name is recognized anywhere in the text, since a macro may include it.
_NAME = re.compile(r'"([^"\n]{1,255})"|<([^<>\n]{1,255})>')
_SPLICE_OR_COMMENT = re.compile(r"\\\r?\n|/\*.*?\*/", re.DOTALL)
_BY_MACRO = re.compile(r"(?:#|%:)[ \t]*(?:include|include_next|import)[ \t]+([A-Za-z_]\w*)([ \t]*\()?")
_MEANS_A_NAME = r'(?:define[ \t]+|^-D[ \t]*){}(?:=|[ \t]+)\\?["<]'
_UNTRACKED_INCLUDE = re.compile(r"incbin|#[ \t]*embed|__has_embed")  # not in any list of headers


def folders_of(include_dirs: Iterable[str], options: Iterable[str]) -> list[Path]:
    """Return the header folders of `include_dirs` and of the compiler's options."""
    option_folders = [
        Path(folder_name) for option, folder_name in preprocessing(options)[0] if option == "-I"
    ]
    return [*(Path(folder) for folder in include_dirs), *option_folders]


def find_included(name: str, folders: Iterable[Path]) -> str | None:
    """Return the text of a header in the user's folders, or None."""
    for folder in folders:
        content = _content(str(folder / name))
        if content is not None:
            return content.decode("utf-8", "replace")
    return None


def looked_for(text: str, options: Iterable[str], folders: Iterable[Path]) -> dict[str, State | None] | None:
    """Return the states of all files that a text may include, directly or not, in any of the folders.

    The result is conservative: it includes files that do not exist, since a new one may hide one that is
    read. It is None if the includes are not statically known, as for names that a macro pastes.
    """
    roots = [os.path.abspath(folder) for folder in folders]
    options = tuple(options)
    states: dict[str, State | None] = {}
    texts = [text]
    left: list[tuple[str, list[str]]] = [(text, roots)]
    names_of_options = [name for option in options for name in _names(option.replace("\\", ""))]
    while left:
        text, search_folders = left.pop()
        for name in dict.fromkeys([*_names(text), *names_of_options]):
            for folder in search_folders:
                path = os.path.join(folder, name)
                if path in states:
                    continue
                content = _content(path)
                states[path] = None if content is None else _state(path, content)
                if content is not None:
                    texts.append(content.decode("utf-8", "replace"))
                    left.append((texts[-1], [os.path.dirname(path), *roots]))
        if len(texts) > _MAX_FILES:
            return None
    return states if _are_statically_known(texts, options) else None


def read_by_compiler(paths: Iterable[str], started: int) -> dict[str, State | None] | None:
    """Return the states of the files in a compiler's list; None if one may have changed since `started`."""
    states: dict[str, State | None] = {}
    for path in paths:
        content = _content(path)
        state = None if content is None else _state(path, content)
        if content is None or state is None or max(state[1:3]) >= started - 20_000_000:
            return None
        if not path.startswith("/usr/") and _UNTRACKED_INCLUDE.search(content.decode("utf-8", "replace")):
            return None
        states[path] = state
    return states


def are_unchanged(states: States, recorded: int) -> bool:
    """Return True if no file has changed since its state was recorded, at a time in nanoseconds."""
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
    """Return True if no file has changed, by contents, since timestamps may be too recent to tell."""
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
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


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
