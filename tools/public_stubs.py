"""Writes pycudakit/__init__.pyi, the public names for type checkers, from pycudakit/__init__.py.

    python tools/public_stubs.py

The stub declares the functions in RESULTS with the type of their result, and imports other names as they are.
"""

import inspect
from pathlib import Path

import pycudakit as pk
from pycudakit import _lazy

PATH = Path(pk.__file__).with_suffix(".pyi")
ARRAYS = (  # functions that return an array for every array argument
    "argpartition argsort argwhere ascontiguousarray astype bincount compress concat concatenate "
    "convolve correlate cov cummax cummin cumprod cumsum cumulative_prod cumulative_sum diff "
    "exclusive_scan flatnonzero flip isin kron lexsort nancumprod nancumsum outer pad partition "
    "repeat roll setdiff1d setxor1d sort stack swapaxes take_along_axis tile transpose tril triu "
    "union1d unique_values"
)
RESULTS = {
    **dict.fromkeys(ARRAYS.split(), "ndarray[Any, Any]"),
    "engine": "AbstractContextManager[None]",
    "set_engine": "None",
}
TYPES = {("engine", "name"): "EngineName | None", ("set_engine", "name"): "EngineName"}
HEAD = '''"""Written by tools/public_stubs.py: change pycudakit/__init__.py, and run it."""

from contextlib import AbstractContextManager
from typing import Any

from numpy import ndarray

from pycudakit import errors as errors
from pycudakit import numpy as numpy
from pycudakit._runtime.context import EngineName'''
_STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def declaration(name):
    """Return the declaration of a function, with the type of its result."""
    parameters, kinds = [], []
    for each in inspect.signature(getattr(pk, name)).parameters.values():
        if kinds and kinds[-1] == each.POSITIONAL_ONLY != each.kind:
            parameters.append("/")
        if each.kind == each.KEYWORD_ONLY and not {each.kind, each.VAR_POSITIONAL} & set(kinds):
            parameters.append("*")
        default = "" if each.default is each.empty else " = ..."
        parameters.append(
            f"{_STARS.get(each.kind, '')}{each.name}: {TYPES.get((name, each.name), 'Any')}{default}"
        )
        kinds.append(each.kind)
    if kinds and kinds[-1] == inspect.Parameter.POSITIONAL_ONLY:
        parameters.append("/")
    return f"def {name}({', '.join(parameters)}) -> {RESULTS[name]}: ..."


def stub():
    """Return the text of the stub."""
    modules = {}
    for name, module in sorted(_lazy.MODULES_OF_NAMES["pycudakit"].items()):
        if name in pk.__all__ and name not in RESULTS:
            modules.setdefault(module, []).append(name)
    lines = [HEAD]
    for module, names in sorted(modules.items()):
        place = "pycudakit" if names == [module] else f"pycudakit.{module}"
        lines += [f"from {place} import {name} as {name}" for name in names]
    lines.append("")
    lines += [declaration(name) for name in sorted(RESULTS)]
    lines += ["def load_ipython_extension(shell: Any) -> None: ...", ""]
    lines += ["__all__ = [", *(f'    "{name}",' for name in pk.__all__), "]", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")
