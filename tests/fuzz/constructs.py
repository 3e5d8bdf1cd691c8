"""Random programs of Python's constructs, against NumPy: closures, classes, containers, generators, `match`.

Where `aliasing` draws from few statements, here is a table of templates of what programs do with arrays. Each
program is called several times, with arguments that overlap otherwise, or alike, as replays need. Results are
compared with what shares memory with what, and so are arguments, globals, warnings and exceptions.

    python -m tests.fuzz.constructs --seconds 3600 [--seed N] [--engine cpu] [--reduce]
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import operator
import pathlib
import pickle
import random
import re
import sys
import types
import warnings
from typing import Any

import numpy as np

import pycudakit as pk

from .searching import main

SIZE = 1200  # smaller arrays are computed at once
DTYPES = ("f8", "f8", "f4", "i4", "i8", "u1")
LAYOUTS = 9
_FOLDER = pathlib.Path(__file__).parent

# In `constructs.txt`, "*3" gives a template a weight of three, and indented lines go on with one. Names in
# braces: "a" is a place that holds an array, "v" a variable of the function with one, "n" a small number,
# "i" an index, "s" a number of an array; "A" a new variable with an array, "V" one with a view or another
# array; "L", "D", "O", "F", "T" new ones with a list, a dict, an object, a function of an array, an
# iterator of arrays, and in small letters variables that hold such; "block" statements; "failing" what
# raises.
_FAILING = (
    "{a} + np.ones(7)",
    "{a}[99999]",
    "{a}.nothing",
    "data.nothing",
    "{d}['nothing']",
    "{a} += np.ones((2, 1200), {a}.dtype)",
    "{a}.reshape(7, 7)",
    "np.add({a}, 0.5, out={a}, casting='no')",
    "np.concatenate([{a}, 3])",
    "if {a}: pass",
    "{a}[1.5]",
    "{a}.sum(axis=4)",
    "{s} / 0",
    "fails({a}, {i})",
    "int({a})",
    "{a} @ {a}[:-1]",
    "np.stack([{a}, {a}[1:]])",
    "{a}['k']",
    "hash({a})",
    "{s}[0]",
    "next(iter(()))",
)

_KINDS = {"L": "lists", "D": "dicts", "O": "objects", "F": "functions", "T": "iterators"}


def _templates() -> list[tuple[float, list[str]]]:
    made: list[tuple[float, list[str]]] = []
    for line in (_FOLDER / "constructs.txt").read_text().splitlines():
        is_clause = re.match(r"(else:|except|finally:|case )", line)
        if line.startswith("    ") or is_clause:
            made[-1][1].append(line)
            continue
        found = re.match(r"\*([\d.]+) ", line)
        made.append((float(found[1]) if found else 1, [line[found.end() :] if found else line]))
    return made


_STATEMENTS = _templates()
_WEIGHTS = [weight for weight, _ in _STATEMENTS]
_COMPUTE = [k for k, (_, lines) in enumerate(_STATEMENTS) if lines[0].startswith(("{A}", "{V}"))]


class Program:
    """The source of one random program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.names: dict[str, list[str]] = {
            "arrays": ["x", "y"],
            "lists": ["more"],
            "dicts": ["options"],
            "objects": ["data"],
            "functions": ["function", "decorated"],
            "iterators": [],
        }
        self.own = ["x", "y"]  # variables of the function with arrays
        self.depth, self.in_function = 0, 0
        lines = self._block(self.random.randrange(4, 14))
        results = ", ".join(self.names["arrays"])
        body = ["def body(x, y, data, function, numbers, more, options):", "    seen = []"]
        body += ["    " + line for line in [*lines, f"return seen, [{results}], more, options"]]
        globals_ = [name for name in ("COUNT", "RESULT") if any(f"global {name}" in line for line in body)]
        body = [line.replace("global COUNT; ", "").replace("global RESULT; ", "") for line in body]
        self.source = "\n".join([body[0], *[f"    global {name}" for name in globals_], *body[1:]])
        self.dtype = self.random.choice(DTYPES)
        self.layouts = [self.random.randrange(LAYOUTS) for _ in range(3)]
        self.layouts += self.random.choice(
            [[], self.layouts[:1] * 4, self.layouts[1:2] * 3 + self.layouts[:1]]
        )
        self.errors = self.random.choice(["ignore", "ignore", "ignore", "warn", "warn", "raise"])

    def _block(self, length: int) -> list[str]:
        """Return the lines of some statements."""
        lines: list[str] = []
        for _ in range(length):
            lines += self._statement()
        return lines

    def _statement(self) -> list[str]:
        for _ in range(30):
            if self.random.random() < 0.1:
                template = _STATEMENTS[self.random.choice(_COMPUTE)][1]
            else:
                template = self.random.choices(_STATEMENTS, _WEIGHTS)[0][1]
            text = "\n".join(template)
            if self.depth >= 2 and ("{block}" in text or "{function}" in text):
                continue
            if template[0].startswith(("return", "raise")) and self.random.random() < 0.8:
                continue
            if template[0] == "{failing}" and self.random.random() < 0.9:
                continue
            needed = {
                name
                for mark, name in _KINDS.items()
                if "{" + mark.lower() + "}" in text and not self.names[name]
            }
            if needed or (re.search(r"\{v!?\}", text) and not self.own):
                continue
            if "nonlocal" in text and self.in_function:
                continue
            if "{v!}" in text and self.depth:
                continue
            return self._filled(template)
        return ["pass"]

    def _filled(self, template: list[str]) -> list[str]:
        new: list[tuple[str, str]] = []
        chosen: dict[str, str] = {}
        lines: list[str] = []
        for line in template:
            stripped = line.lstrip()
            indent = line[: len(line) - len(stripped)]
            if line.startswith("    ") and not template[0].rstrip().endswith(":"):
                indent = indent[4:]  # goes on behind a statement of one line
            if stripped == "{block}":
                lines += [indent + each for each in self._nested()]
            elif stripped == "{function}":
                lines += [indent + each for each in self._nested_function()]
            else:
                lines.append(indent + self._text(stripped, new, chosen))
        for kind, name in new:
            if kind in ("A", "V"):
                self.names["arrays"].append(name)
                self.own.append(name)
            else:
                self.names[_KINDS[kind]].append(name)
        return lines

    def _text(self, line: str, new: list[tuple[str, str]], chosen: dict[str, str]) -> str:
        def fill(match: re.Match[str]) -> str:
            mark = match[1]
            if mark in ("{", "}"):
                return mark
            return self._mark(mark, new, chosen)

        line = line.replace("{{", "\0").replace("}}", "\1")
        line = re.sub(r"\{(\w!?|failing)\}", fill, line)
        return line.replace("\0", "{").replace("\1", "}")

    def _mark(self, mark: str, new: list[tuple[str, str]], chosen: dict[str, str]) -> str:
        choose = self.random.choice
        if mark == "failing":
            return self._text(choose(_FAILING), new, chosen)
        if mark == "n":
            return choose(["1", "2", "3", "2", "numbers[0]", "data.scale"])
        if mark == "i":
            return str(self.random.randrange(9))
        if mark == "s":
            return self._text(
                choose(["{a}.sum()", "{a}.max()", "{a}[{i}]", "{a}.min()", "np.max({a})", "{a}.argmax()"]),
                new,
                {},
            )
        if mark == "a":
            return self._place()
        if mark in ("v", "v!"):
            name = chosen.setdefault("v", choose(self.own))
            if mark == "v!":
                self.own = [each for each in self.own if each != name]
                self.names["arrays"] = [each for each in self.names["arrays"] if each != name] or ["data.a"]
            return name
        if mark in "AV" or mark in _KINDS:
            if mark not in chosen:
                self.count += 1
                chosen[mark] = f"{mark.lower()}{self.count}"
                new.append((mark, chosen[mark]))
            return chosen[mark]
        return chosen.setdefault(mark, choose(self.names[_KINDS[mark.upper()]]))

    def _place(self) -> str:
        choose, names = self.random.choice, self.names
        arrays = names["arrays"]
        kind = self.random.random()
        if kind < 0.75:
            return choose(arrays[-4:]) if self.random.random() < 0.4 else choose(arrays)
        places = ["data.a", "DATA.a", "view_of_a", "x", "y"]
        places += [f"{name}[0]" for name in names["lists"]] + [f"{name}[-1]" for name in names["lists"]]
        places += [f"{name}['k']" for name in names["dicts"]] + [f"{name}.a" for name in names["objects"]]
        return choose(places)

    def _nested(self) -> list[str]:
        saved, own = {key: list(value) for key, value in self.names.items()}, list(self.own)
        self.depth += 1
        lines = self._block(self.random.randrange(1, 4))
        self.depth -= 1
        self.names, self.own = saved, own
        return lines

    def _nested_function(self) -> list[str]:
        saved, own = {key: list(value) for key, value in self.names.items()}, list(self.own)
        self.depth, self.in_function = self.depth + 1, self.in_function + 1
        self.names["arrays"].append("p")
        self.own = ["p"]
        lines = [
            line
            for line in self._block(self.random.randrange(1, 4))
            if not line.startswith(("nonlocal", "global"))
        ]
        self.depth, self.in_function = self.depth - 1, self.in_function - 1
        self.names, self.own = saved, own
        return lines or ["pass"]


def _arguments(names: dict[str, Any], dtype: str, layout: int) -> tuple[Any, ...]:
    """Return new arguments whose memory overlaps as a layout says, and let globals refer to it."""
    x = (np.arange(SIZE) * 7 % 23).astype(dtype)
    y = (np.arange(SIZE) * 5 % 17).astype(dtype)
    if layout == 1:
        both = np.concatenate([x, y[:1]])
        x, y = both[:-1], both[1:]
    elif layout == 2:
        y = x
    elif layout == 3:
        x = np.repeat(x, 2)[::2]
    elif layout == 4:
        y = x[:]
    elif layout == 5:
        y = x[::-1]
    elif layout == 6:
        y.flags.writeable = False
    z = x if layout in (0, 2, 4) else y if layout in (5, 6, 7) else (x + 3) % 11
    data = names["Box"](x, y)
    data.keep = None
    names["DATA"].a = y if layout in (1, 3) else z
    names["COUNT"] = np.arange(SIZE).astype(dtype) % 9
    names["view_of_a"] = data.a
    more = [y, x] if layout % 3 else [z, np.array(x)]
    options = {"k": y if layout % 2 else z}
    return x, y, data, names["Child"](z, x).step, (3, names["decorated"]), more, options


_MODULES = (
    collections,
    contextlib,
    copy,
    dataclasses,
    functools,
    itertools,
    operator,
    pickle,
    random,
    warnings,
)


@functools.cache
def _module() -> types.ModuleType:
    """Return the module of the programs, with what they call."""
    module = sys.modules["program"] = types.ModuleType("program")
    vars(module).update({each.__name__: each for each in _MODULES}, np=np, pk=pk)
    exec((_FOLDER / "constructs_module.py").read_text(), vars(module))
    return module


class World:
    """The objects of one run of a program.

    Parameters
    ----------
    source
        The program.
    dtype
        Of its arrays.
    layouts
        How the arguments of each call overlap.
    errors
        What `np.errstate` says.
    """

    def __init__(self, source: str, dtype: str, layouts: list[int], errors: str) -> None:
        self.names = vars(_module())
        self.names.update(KEPT=[], RNG=np.random.default_rng(5), RESULT=None, DATA=self.names["Box"](None))
        exec(compile(source, "<program>", "exec"), self.names)
        self.dtype, self.layouts, self.errors = dtype, layouts, errors

    def run(self, wrap: Any = lambda function: function) -> list[Any]:
        """Return the outcome of each call: results or exception, warnings, and all memory."""
        function, outcomes = wrap(self.names["body"]), []
        random.seed(3)
        for layout in self.layouts:
            arguments = _arguments(self.names, self.dtype, layout)
            with warnings.catch_warnings(record=True) as met, np.errstate(all=self.errors):
                warnings.simplefilter("always")
                try:
                    outcome = function(*arguments)
                    if hasattr(outcome, "__next__"):
                        outcome = list(outcome)
                except Exception as error:  # noqa: BLE001  (both sides must raise it)
                    outcome = [error, error.__cause__]
            said = {f"{each.category.__name__}: {each.message}".replace("in scalar ", "in ") for each in met}
            names = self.names
            outcomes.append(
                _Plain(arguments[:2]).of(
                    [
                        outcome,
                        arguments,
                        names["DATA"],
                        names["KEPT"],
                        [names["COUNT"], names.get("RESULT")],
                        sorted(said),
                    ]
                )
            )
        return outcomes


PARTS = ("outcome", "arguments", "DATA", "KEPT", "globals", "warnings")


class _Plain:
    """Turns values into nested lists that can be compared, with what is one object and what shares memory."""

    def __init__(self, known: Any) -> None:
        self.seen: dict[int, int] = {}
        self.memory: list[Any] = list(known)
        self.keep: list[Any] = []

    def of(self, value: Any) -> Any:
        """Return the lists of a value."""
        cls = type(value)
        if cls.__module__.startswith("pycudakit"):
            return f"a {cls.__name__}"
        if isinstance(value, np.generic):
            return [value.dtype.str, str(value)]
        if cls in (bool, int, float, str, bytes, type(None), type, range, np.dtype) or isinstance(
            value, np.dtype
        ):
            return str(value)
        if isinstance(value, tuple):
            return [cls.__name__, *map(self.of, value)]
        if id(value) in self.seen:
            return f"object {self.seen[id(value)]}"
        self.keep.append(value)
        self.seen[id(value)] = len(self.seen)
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, dict):
            return [cls.__name__, *[[str(key), self.of(part)] for key, part in value.items()]]
        if isinstance(value, (list, collections.deque)):
            return [cls.__name__, *map(self.of, value)]
        if isinstance(value, BaseException):
            said = str(value).replace("in scalar ", "in ").replace("'Tracer'", "'numpy.ndarray'")
            if said.endswith("read-only"):  # NumPy says it in several ways
                return [cls.__name__, "read-only"]
            return [cls.__name__, said, [self.of(each) for each in value.args if type(each) is not str]]
        if hasattr(value, "__slots__") and "a" in value.__slots__:
            return [cls.__name__, self.of(value.a), self.of(value.b)]
        if cls.__module__ == "program" and hasattr(value, "__dict__") and not callable(value):
            return [cls.__name__, self.of(value.__dict__)]
        if cls.__name__ in ("Box", "Child", "Sub", "Local"):
            return [cls.__name__, self.of(value.__dict__)]
        if cls.__name__ == "function":
            cells = value.__closure__ or ()
            parts = []
            for cell in cells:
                with contextlib.suppress(ValueError):
                    parts.append(self.of(cell.cell_contents))
            return ["function", value.__name__, parts, self.of(value.__defaults__)]
        if cls.__name__ == "partial":
            return ["partial", self.of(value.args), self.of(value.keywords)]
        if cls.__name__ == "method":
            return ["method", self.of(value.__self__)]
        return cls.__name__

    def array(self, value: Any) -> Any:
        """Return the description of an array."""
        shared = [k for k, other in enumerate(self.memory) if np.may_share_memory(value, other)]
        self.memory.append(value)
        offset = ""
        if shared:
            offset = value.ctypes.data - self.memory[shared[0]].ctypes.data
        values = np.ma.getdata(value)
        if value.dtype == object:
            contents: Any = [self.of(each) for each in np.asarray(values).flat]
        elif value.dtype.kind == "f":
            contents = np.where(np.isnan(values), np.nan, values).tobytes()
        else:
            contents = values.tobytes()
        return [
            type(value).__name__,
            value.dtype.str,
            value.shape,
            shared,
            offset,
            value.flags.writeable,
            value.strides if value.size else (),
            contents,
        ]


def compare(source: str, dtype: str, layouts: list[int], errors: str, engine: str) -> str | None:
    """Return what differs if a program is fused; None if nothing does."""
    expected = World(source, dtype, layouts, errors).run()
    world = World(source, dtype, layouts, errors)
    with pk.engine(engine):
        got = world.run(pk.fuse)
    for call, (one, other) in enumerate(zip(got, expected, strict=True)):
        where = [name for name, a, b in zip(PARTS, one[1:], other[1:], strict=True) if a != b]
        if where:
            parts = [_first_difference(one[1:], other[1:])]
            return f"call {call}: {', '.join(where)} differ: {parts[0]}"
    return None


def _first_difference(got: Any, expected: Any, path: str = "") -> str:
    if isinstance(got, (list, tuple)) and type(got) is type(expected) and len(got) == len(expected):
        for index, (a, b) in enumerate(zip(got, expected, strict=True)):
            if a != b:
                return _first_difference(a, b, f"{path}.{index}")
    if isinstance(got, bytes) and isinstance(expected, bytes) and len(got) == len(expected):
        first = next(k for k, (a, b) in enumerate(zip(got, expected, strict=True)) if a != b)
        return f"{path}: byte {first}"
    return f"{path}: got {str(got)[:90]}, expected {str(expected)[:90]}"


def difference(seed: int, engine: str = "cpu") -> str | None:
    """Return the source of the program of a seed if fusing it changes what it does; else None."""
    program = Program(seed)
    found = compare(program.source, program.dtype, program.layouts, program.errors, engine)
    if found is None:
        return None
    setting = f"{program.dtype}, layouts {program.layouts}, errors {program.errors}"
    return f"seed {seed}, {setting}: {found}\n{program.source}"


def reduced(seed: int, engine: str = "cpu") -> str:
    """Return a shorter program that differs, too: lines are taken out as long as one does."""
    program = Program(seed)
    lines, layouts, errors, dtype = (
        program.source.splitlines(),
        program.layouts,
        program.errors,
        program.dtype,
    )

    def differs(lines: list[str], layouts: list[int], errors: str) -> str | None:
        try:
            return compare("\n".join(lines), dtype, layouts, errors, engine)
        except SyntaxError:
            return None

    for fewer in (layouts[:1], layouts[:2], layouts[1:], layouts[2:], layouts[1:2]):
        if differs(lines, fewer, errors):
            layouts = fewer
            break
    if differs(lines, layouts, "ignore"):
        errors = "ignore"
    width = len(lines)
    while width:
        k = 1
        while k < len(lines):
            shorter = lines[:k] + lines[k + width :]
            if width == 1:
                indent = len(lines[k]) - len(lines[k].lstrip())
                end = k + 1
                while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > indent:
                    end += 1
                inner = [line[4:] for line in lines[k + 1 : end]]
                for each in (lines[:k] + lines[end:], lines[:k] + inner + lines[end:], shorter):
                    if len(each) < len(lines) and differs(each, layouts, errors):
                        shorter = each
                        break
            if differs(shorter, layouts, errors):
                lines = shorter
            else:
                k += 1
        width = width // 2 if width > 1 or width == 0 else 0
    found = differs(lines, layouts, errors)
    return f"seed {seed}, {dtype}, layouts {layouts}, errors {errors}: {found}\n" + "\n".join(lines)


if __name__ == "__main__":
    main(difference, reduced)
