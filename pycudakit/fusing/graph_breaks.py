"""Where a fused function had to compute before it could go on, and what to write instead."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_INSTEAD = {
    "the truth": "use numpy.where() to choose between arrays",
    "float()": "leave it an array of no dimensions, which goes wherever a number does",
    "int()": "leave it an array of no dimensions, or use .astype()",
    "an index": "compute the index before the function, or use numpy.take()",
    "str()": "return it and print it outside of the function",
    "repr()": "return it and print it outside of the function",
    "format()": "return it and print it outside of the function",
    "numpy.asarray()": "use the array as it is",
    ".item()": "leave it an array of no dimensions",
    ".tolist()": "return the array, and make a list of it outside of the function",
}


@dataclass(frozen=True)
class Break:
    """A place where a value was needed at once.

    Attributes
    ----------
    file, line, text
        Where that is, and what stands there.
    what
        Who needed it.
    instead
        What to write for the function to be one plan.
    """

    file: str
    line: int
    text: str
    what: str
    instead: str

    def __reduce__(self) -> Any:
        """Pickle the fields, under a name that stays when modules move."""
        unpickle = sys.modules["pycudakit"]._unpickle_explained  # noqa: SLF001
        return unpickle, ("Break", *vars(self).values())

    def __str__(self) -> str:
        """Tell it in a line."""
        return (
            f"line {self.line} of {os.path.basename(self.file)}, `{self.text}`: {self.what} needs the values "
            f"at once; {self.instead}"
        )


def break_at_caller(what: str, instead: str = "") -> Break:
    """Return the break of the line that runs, outside of the package."""
    frame = sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line, frame.f_globals).strip()
    if not instead:
        instead = next((said for start, said in _INSTEAD.items() if what.startswith(start)), "")
    return Break(file, line, text, what, instead or "do that outside of the function")
