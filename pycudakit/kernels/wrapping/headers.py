"""The headers of the user that a wrapped source includes, and copies of those that the CPU engine changes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pycudakit.kernels.compiling.extern_c import line_directive
from pycudakit.kernels.compiling.host_compiler import is_of_cuda

_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)("[^"\n]+"|<[^>\n]+>)', re.MULTILINE)
_BY_MACRO = re.compile(r"^[ \t]*#[ \t]*include[ \t]+[A-Za-z_]", re.MULTILINE)

Included = dict[str, str]  # the paths of the headers that a text includes, by their spelling: '"scale.cuh"'


@dataclass(frozen=True, slots=True)
class Header:
    """A header of the user.

    Parameters
    ----------
    name
        The name by which it is included first.
    included
        The headers of the user that it includes itself.
    """

    name: str
    path: str
    text: str
    included: Included


class UserHeaders:
    """The headers in the user's folders that a source includes, directly or not.

    Conditions are not evaluated, so that there may be some that no compiler reads.

    Attributes
    ----------
    included
        The headers that the source itself includes.
    headers
        All headers, by their paths.
    """

    def __init__(self, text: str, folders: Sequence[Path]) -> None:
        self._folders = [os.path.abspath(folder) for folder in folders if not is_of_cuda(folder)]
        self._by_name: dict[str, str] = {}
        self.headers: dict[str, Header] = {}
        self._texts = [text]
        left: list[tuple[str, str]] = []
        self.included = self._of(text, None, left)
        while left:
            name, path = left.pop()
            if path not in self.headers:
                content = _read(path)
                self._texts.append(content)
                self.headers[path] = Header(name, path, content, self._of(content, path, left))

    def _of(self, text: str, path: str | None, left: list[tuple[str, str]]) -> Included:
        """Return the headers that a text includes, and append them to those that are left to read."""
        included: Included = {}
        for _, spelling in _INCLUDE.findall(text):
            beside = [os.path.dirname(path)] if path is not None and spelling[0] == '"' else []
            name = spelling[1:-1]
            candidates = (os.path.join(folder, name) for folder in (*beside, *self._folders))
            found = next((one for one in candidates if "\0" not in one and os.path.isfile(one)), None)
            if found is not None:
                included[spelling] = os.path.normpath(found)
                self._by_name.setdefault(name, included[spelling])
                left.append((name, included[spelling]))
        return included

    def find(self, name: str) -> str | None:
        """Return the text of a header, or None if it is not the user's."""
        path = self._by_name.get(name)
        return None if path is None else self.headers[path].text

    def whole(self) -> str | None:
        """Return the source with the headers after it, and no includes; None if a macro includes one."""
        if any(_BY_MACRO.search(text) for text in self._texts):
            return None
        return "\n".join(_INCLUDE.sub("", text) for text in self._texts)

    def copies(self, translate: Callable[[str, str], str]) -> Copies:
        """Translate the headers; those that change, or include one that does, are copied.

        Parameters
        ----------
        translate
            The translation of a text, given its name.
        """
        texts = {path: translate(header.text, header.name) for path, header in self.headers.items()}
        copied = {path for path, header in self.headers.items() if texts[path] != header.text}
        more = copied
        while more:
            more = {
                path
                for path, header in self.headers.items()
                if path not in copied and not copied.isdisjoint(header.included.values())
            }
            copied |= more
        files = {path: f"header{number}_{Path(path).name}" for number, path in enumerate(sorted(copied))}
        return Copies(self, texts, files)


def _read(path: str) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8", "surrogateescape")
    except OSError:  # which the compiler reports, where it reads the header
        return ""


@dataclass(frozen=True, slots=True)
class Copies:
    """Translated headers, which are written beside the translated source.

    Parameters
    ----------
    texts
        The translation of each header, by its path.
    files
        The file of each copy, by the path of its header.
    """

    user: UserHeaders
    texts: dict[str, str]
    files: dict[str, str]

    def source(self, text: str) -> str:
        """Return a translated source that includes the copies."""
        return self._redirected(text, self.user.included, is_copy=False)

    def written(self) -> Iterator[tuple[str, str]]:
        """Yield the file and the text of each copy."""
        for path, file in self.files.items():
            header = self.user.headers[path]
            text = self._redirected(self.texts[path], header.included, is_copy=True)
            yield file, f"{line_directive(1, header.name)}{text}"

    def _redirected(self, text: str, included: Included, *, is_copy: bool) -> str:
        def spelled(match: re.Match[str]) -> str:
            path = included.get(match[2])
            if path in self.files:
                return f'{match[1]}"{self.files[path]}"'
            # Another header is not beside the copy.
            return f'{match[1]}"{path}"' if path is not None and is_copy else match.group()

        return _INCLUDE.sub(spelled, text)
