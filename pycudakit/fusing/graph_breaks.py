"""Graph breaks: the lines of a fused function where Python needed a value, and what to write instead."""

from __future__ import annotations

import functools
import linecache
import os
import sys
from dataclasses import dataclass
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

LACKING = ", which pycudakit lacks,"  # ends the operation of a function of NumPy's

_INSTEAD = {
    "the truth": "use numpy.where() to choose between arrays",
    "a number": "use numbers in arithmetic, NumPy's functions, indices and `return` alone",
    "float()": "keep it as a 0-d array, which works wherever a number does",
    "int()": "keep it as a 0-d array, or use .astype()",
    "an index": "compute the index before the function, or use numpy.take()",
    "str()": "return it and print it outside of the function",
    "repr()": "return it and print it outside of the function",
    "format()": "return it and print it outside of the function",
    "numpy.asarray()": "use the array as it is",
    ".item()": "keep it as a 0-d array",
    ".tolist()": "return the array, and convert it to a list outside of the function",
}


@dataclass(frozen=True)
class Break:
    """A graph break: a line where the host needed a value during tracing.

    Attributes
    ----------
    file, line, text
        The line's position and its source.
    operation
        The operation that needed the value.
    instead
        What to write instead to avoid the break.
    """

    file: str
    line: int
    text: str
    operation: str
    instead: str

    @property
    def is_lacking(self) -> bool:
        """Whether NumPy computed a function that pycudakit lacks."""
        return self.operation.endswith(LACKING)

    @property
    def name(self) -> str:
        """The operation that needed the value, in short."""
        return self.operation.partition(",")[0]

    def __reduce__(self) -> Any:
        """Pickle the fields, under a name that stays when modules move."""
        unpickle = sys.modules["pycudakit"]._unpickle_explained  # noqa: SLF001
        return unpickle, ("Break", *vars(self).values())

    def __str__(self) -> str:
        """Return the break as one line of text."""
        return (
            f"line {self.line} of {os.path.basename(self.file)}, `{self.text}`: {self.operation} needs "
            f"the values at once; {self.instead}"
        )


def public_name(function: Any) -> str:
    """Return the name of a function of NumPy or SciPy with its module, and of others alone."""
    name = getattr(function, "__name__", str(function))
    for package in ("numpy", "scipy.special"):  # ufuncs do not name their module
        if getattr(sys.modules.get(package), name, None) is function:
            return f"{package}.{name}"
    module = str(getattr(function, "__module__", ""))
    return f"{module}.{name}" if module.partition(".")[0] == "numpy" else name


@functools.lru_cache(1024)
def is_from_package(file: str) -> bool:
    """Return True for a file of this package."""
    return os.path.abspath(file).startswith(_PACKAGE)


def break_at_caller(operation: str, instead: str = "") -> Break:
    """Return a `Break` for the current line of the caller outside of this package."""
    frame = sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and is_from_package(frame.f_code.co_filename):
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line, frame.f_globals).strip()
    if not instead:
        instead = next((hint for start, hint in _INSTEAD.items() if operation.startswith(start)), "")
    return Break(file, line, text, operation, instead or "do that outside of the function")
