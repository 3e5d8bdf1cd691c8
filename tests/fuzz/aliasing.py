"""Random programs that reach the memory of a fused function's arrays past its trace, against NumPy.

Arguments are also attributes, items of containers and globals, overlap each other, and leave the trace as
arrays, views of other types and buffers, through which the program then writes and reads. Numbers are small
integers, so that every result is exact. Each program is fused once, and called with `CALLS` sets of
arguments.

    python -m tests.fuzz.aliasing --seconds 3600 [--seed N] [--engine cpu]
"""

from __future__ import annotations

import collections
import dataclasses
import random
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

import pycudakit as pk

from .searching import main

SIZE = 1200  # smaller arrays are computed at once
CALLS = 8
DTYPES = ("f8", "f8", "f8", "f4", "i4", "i8")


@dataclasses.dataclass
class Data:
    """An object with plain attributes, and methods that read and write them."""

    u: Any = None
    part: Any = None
    items: Any = None
    keep: Any = None
    dt: Any = 2

    def write(self, n):
        self.u[n % 7 :: 3] = n

    def read(self):
        return int(self.u[5]) + int(self.part[1])

    def update(self, a):
        b = a * 2 - self.dt
        self.u[2:9] += 1
        return b

    @property
    def total(self):
        return int(self.u[:9].sum())


_HEADER = ("def body(x, y, data, function, numbers):", "    seen = []")
_FAILS = ("x + np.ones(7)", "fail(3)", "data.none", "pass", "x[99999]")
_HAS_COPY = "data.keep is not None and hasattr(data.keep, 'copy')"


class Program:
    """The source of one random program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.lines: list[str] = []
        self.arrays = ["x", "y"]  # names of arrays that the trace sees
        self.left: list[str] = []  # names of arrays that have left it
        self.buffers: list[str] = []
        self.fields: list[str] = []  # views as records
        self.dtype = self.random.choice(DTYPES)
        self.layout = self.random.randrange(6)
        self._block(1, self.random.randrange(4, 16))
        names = ", ".join([*self.arrays, *self.left])
        self.source = "\n".join([*_HEADER, *self.lines, f"    return seen, [{names}]"])

    def more_cases(self, count: int) -> list[Case]:
        """Draw the arguments of more calls."""
        return [Case.random(self.random) for _ in range(count)]

    def _new(self) -> str:
        self.count += 1
        return f"a{self.count}"

    def _array(self) -> str:
        return self.random.choice(self.arrays)

    def _any(self) -> str:
        return self.random.choice([*self.arrays, *self.arrays, "data.u", "DATA.part", *self.left])

    def _number(self) -> str:
        return self.random.choice(["2", "3", "data.dt", "numbers[0]", "1"])

    def _say(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def _block(self, depth: int, length: int) -> None:
        for _ in range(length):
            self.random.choice(_STATEMENTS)(self, depth)

    # ---- Statements ----------------------------------------------------------------------------------

    def compute(self, depth: int) -> None:
        a, b, n = self._array(), self._any(), self._number()
        expression = self.random.choice(
            [
                f"{a} * {n}",
                f"{a} + {b}",
                f"{a} - {n}",
                f"{a}.copy()",
                f"np.maximum({a}, {b})",
                f"-{a}",
                f"{b} + {a}",
            ]
        )
        name = self._new()
        self._say(depth, f"{name} = ({expression}) % 53")
        self.arrays.append(name)

    def reduce(self, depth: int) -> None:
        self._say(depth, f"seen.append({self._array()}.{self.random.choice(['sum', 'max', 'min'])}())")

    def view(self, depth: int) -> None:
        name, a = self._new(), self._array()
        self._say(depth, f"{name} = {a}[::-1]" if self.random.random() < 0.5 else f"{name} = {a}[:]")
        self.arrays.append(name)

    def update(self, depth: int) -> None:
        a, b, n = self._array(), self._array(), self._number()
        self._say(
            depth,
            self.random.choice(
                [
                    f"{a} += {n}",
                    f"{a}[1:-1] = ({a}[2:] + {a}[:-2]) % 19",
                    f"{a}[1:-1] = ({a}[2:] + {a}[:-2]) % 19",
                    f"{a}[2:] = {b}[:-2]",
                    f"{a}[3] = {n}",
                    f"{a}[{b} > 5] = {n}",
                    f"np.add({a}, {n}, out={a})",
                ]
            ),
        )

    def write_past(self, depth: int) -> None:
        n = self.random.randrange(9)
        self._say(
            depth,
            self.random.choice(
                [
                    f"data.u[{n}:-1] *= 2; data.u %= 31",
                    f"data.part[{n}] = {n}",
                    f"data.items[0][{n}:] = {n}",
                    "data.items[-1][1] += 1",
                    f"DATA.u[:{n + 1}] = {n}",
                    f"write_global({n})",
                    f"data.write({n})",
                    f"function({n})",
                    f"numbers[1]({n})",
                    f"np.copyto(data.u, {n})",
                    "np.add(data.u, 1, out=data.u)",
                    f"for part in data.items[:1]: part[{n}] = 3",
                    f"data.u.fill({n})",
                    "DATA.items[0].sort()",
                ]
            ),
        )

    def read_past(self, depth: int) -> None:
        n = self.random.randrange(9)
        self._say(
            depth,
            "seen.append("
            + self.random.choice(
                [
                    f"int(data.u[{n}])",
                    "data.u.sum()",
                    "data.total",
                    "data.read()",
                    f"read_global({n})",
                    f"int(DATA.part[{n}])",
                    f"data.items[0][{n}:].copy()",
                    "bytes(data.u)[:8]",
                    "np.sum(data.part)",
                    "data.u.tolist()[:4]",
                    "view_of_u[3]",
                    "function(-1)",
                ]
            )
            + ")",
        )

    def leave(self, depth: int) -> None:
        name, a = self._new(), self._array()
        self._say(
            depth,
            f"{name} = "
            + self.random.choice(
                [
                    f"np.asarray({a})",
                    f"np.asanyarray({a})[2:]",
                    f"np.ma.array({a}, copy=False)",
                    f"np.asmatrix({a})[0]",
                    f"np.lib.stride_tricks.as_strided({a})",
                    f"np.frombuffer({a}.data, {a}.dtype) if {a}.flags.c_contiguous else np.asarray({a})",
                ]
            ),
        )
        self.left.append(name)

    def leave_buffer(self, depth: int) -> None:
        name, a = self._new(), self._array()
        self._say(depth, f"{name} = " + self.random.choice([f"{a}.flat", f"memoryview(np.asarray({a}))"]))
        self.buffers.append(name)

    def leave_records(self, depth: int) -> None:
        if depth > 1:
            return
        name, a = self._new(), self._array()
        self._say(depth, f"{name} = np.ascontiguousarray({a}).view([('p', {a}.dtype)])")
        self.fields.append(name)

    def use_left(self, depth: int) -> None:
        if self.fields and depth == 1:
            b, n = self.random.choice(self.fields), self.random.randrange(5)
            self._say(depth, self.random.choice([f"{b}['p'][{n}] = 4", f"seen.append(int({b}['p'][{n}]))"]))
        if self.left:
            b, n = self.random.choice(self.left), self.random.randrange(5)
            self._say(
                depth,
                self.random.choice(
                    [f"{b} += {n}", f"{b}[..., {n}] = 4", f"seen.append({b}.sum())", f"{b}[...] = {n}"]
                ),
            )
        if self.buffers:
            b, n = self.random.choice(self.buffers), self.random.randrange(5)
            self._say(depth, self.random.choice([f"{b}[{n}] = 4", f"seen.append(int({b}[{n}]))"]))

    def keep(self, depth: int) -> None:
        a = self._array()
        self._say(
            depth,
            self.random.choice(
                [
                    f"data.keep = {a}",
                    f"KEPT.append({a})",
                    f"KEPT.append(({a}, [{a}]))",
                    f"KEPT.append({{'a': {a}}})",
                    f"DATA.keep = Data({a})",
                ]
            ),
        )

    def use_kept(self, depth: int) -> None:
        self._say(
            depth,
            self.random.choice(
                [
                    f"seen.append(data.keep[:5].copy() if {_HAS_COPY} else 0)",
                    "if isinstance(data.keep, np.ndarray): data.keep[2:4] = 11",
                    "change_kept()",
                ]
            ),
        )

    def loop(self, depth: int) -> None:
        if depth < 3:
            self._say(depth, f"for n{depth} in range({self.random.randrange(2, 5)}):")
            arrays, left, buffers = list(self.arrays), list(self.left), list(self.buffers)
            self._block(depth + 1, self.random.randrange(1, 5))
            self.arrays, self.left, self.buffers = arrays, left, buffers
            self._say(depth + 1, "pass")

    def branch(self, depth: int) -> None:
        if depth < 3:
            condition = self.random.choice(["x[3] > 4", "data.dt > 1", "data.u[2] > 7", "x.sum() > 30"])
            self._say(depth, f"if {condition}:")
            arrays, left, buffers = list(self.arrays), list(self.left), list(self.buffers)
            self._block(depth + 1, self.random.randrange(1, 4))
            self.arrays, self.left, self.buffers = arrays, left, buffers
            self._say(depth + 1, "pass")

    def attempt(self, depth: int) -> None:
        if depth < 3:
            arrays, left, buffers = list(self.arrays), list(self.left), list(self.buffers)
            self._say(depth, "try:")
            self._block(depth + 1, self.random.randrange(1, 4))
            self._say(depth + 1, self.random.choice(_FAILS))
            self._say(depth, "except (ValueError, AttributeError, IndexError):")
            self.arrays, self.left, self.buffers = list(arrays), list(left), list(buffers)
            self._block(depth + 1, self.random.randrange(0, 3))
            self.arrays, self.left, self.buffers = arrays, left, buffers
            self._say(depth + 1, "pass")

    def stop(self, depth: int) -> None:
        if self.random.random() < 0.1:
            self._say(depth, self.random.choice(["fail(5)", "x + np.ones(7)", "raise KeyError('stop')"]))

    def help(self, depth: int) -> None:
        name, a = self._new(), self._array()
        call = self.random.choice([f"helped({a}, data)", f"data.update({a})", f"plain({a})"])
        self._say(depth, f"{name} = {call} % 41")
        self.arrays.append(name)


_STATEMENTS = [
    *[Program.compute] * 5,
    *[Program.reduce] * 3,
    *[Program.update] * 5,
    *[Program.write_past] * 4,
    *[Program.read_past] * 3,
    *(Program.view, Program.leave, Program.leave, Program.leave_buffer, Program.leave_records),
    *[Program.use_left] * 3,
    *(Program.keep, Program.use_kept, Program.loop, Program.branch, Program.attempt, Program.stop),
    *[Program.help] * 2,
]


class Case(NamedTuple):
    """The arguments of one call."""

    dtype: str
    layout: int
    factors: tuple[int, int] = (7, 5)  # which the values of the arrays follow from
    dt: int = 2

    @classmethod
    def random(cls, random: random.Random) -> Case:
        """Draw the arguments of a call."""
        factors = random.randrange(1, 23), random.randrange(1, 17)
        return cls(random.choice(DTYPES), random.randrange(6), factors, random.randrange(1, 4))


class World:
    """The objects of one call of a program, some of which are globals of the program."""

    def __init__(self, case: Case, names: dict[str, Any]) -> None:
        x = (np.arange(SIZE) * case.factors[0] % 23).astype(case.dtype)
        y = (np.arange(SIZE) * case.factors[1] % 17).astype(case.dtype)
        if case.layout == 1:
            both = np.concatenate([x, y[:1]])
            x, y = both[:-1], both[1:]
        elif case.layout == 2:
            y = x
        elif case.layout == 3:
            x = np.repeat(x, 2)[::2]
        elif case.layout == 4:
            y = x.view(np.dtype(case.dtype))[:]
        elif case.layout == 5:
            x = x[::-1]
        self.data = Data(x, x[2:], collections.deque([x, y]) if case.layout % 2 else [x, y], dt=case.dt)
        self.other = Data(y, y[1:], [y, x])
        self.kept: list[Any] = []
        self.x, self.y = x, y
        names.update({"DATA": self.other, "KEPT": self.kept, "view_of_u": self.data.u})
        self.arguments = x, y, self.data, names["write_global"], (3, self.data.write)

    def run(self, function: Any) -> Any:
        """Return the outcome of a run: the values it saw, its results or exception, and all memory."""
        with np.errstate(all="ignore"):
            try:
                outcome = function(*self.arguments)
            except _EXPECTED as error:
                outcome = type(error).__name__
        return _plain([outcome, self.x, self.y, vars(self.data), vars(self.other), self.kept])


# NotImplementedError is a memory view's of several dimensions.
_EXPECTED = ValueError, KeyError, TypeError, IndexError, AttributeError, BufferError, NotImplementedError
_HELPERS = compile(
    """
def write_global(n):
    if n < 0:
        return int(DATA.u[4])
    DATA.u[n::2] = n

def read_global(n):
    return int(DATA.u[n])

def fail(n):
    DATA.u[n] = 1
    raise ValueError(n)

def helped(a, data):
    b = a + 1
    data.u[3:6] = 2
    return b * data.dt

def plain(a):
    return (a + 1) * 2

def change_kept():
    for each in KEPT:
        if isinstance(each, np.ndarray):
            each[1:3] = 5
""",
    "<helpers>",
    "exec",
)


def _plain(value: Any) -> Any:
    """Return nested lists of plain numbers."""
    if type(value).__module__.startswith("pycudakit"):
        return "a tracer"
    if type(value) not in (bool, int, float, str, bytes, type(None)) and not isinstance(
        value, (np.ndarray, np.generic, tuple, list, dict, collections.deque, Data, np.flatiter, memoryview)
    ):
        return type(value).__name__
    if isinstance(value, (np.ndarray, np.generic)):
        is_array = isinstance(value, np.ndarray)
        return (value.dtype.str, value.shape, np.ma.getdata(value).tobytes()) if is_array else value.item()
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, Data):
        return _plain(vars(value))
    if isinstance(value, (tuple, list, collections.deque)):
        return [_plain(part) for part in value]
    return value if not isinstance(value, (np.flatiter, memoryview)) else list(value)


def difference(seed: int, engine: str = "cpu") -> str | None:
    """Return the source of the program of a seed if fusing changes its behaviour; else None."""
    program = Program(seed)
    code = compile(program.source, "<program>", "exec")
    wanted, fused = _function(code), _function(code)
    function = pk.fuse(fused)
    for case in [Case(program.dtype, program.layout), *program.more_cases(CALLS - 1)]:
        expected = World(case, wanted.__globals__).run(wanted)
        world = World(case, fused.__globals__)
        with pk.engine(engine):
            got = world.run(function)
        if got != expected:
            return _described(seed, program, case, got, expected)
    return None


def _function(code: CodeType) -> Any:
    """Return the function of a program, in a namespace of its own."""
    names: dict[str, Any] = {"np": np, "pk": pk, "Data": Data}
    exec(_HELPERS, names)
    exec(code, names)
    return names["body"]


def _described(seed: int, program: Program, case: Case, got: Any, expected: Any) -> str:
    parts = ["outcome", "x", "y", "data", "DATA", "KEPT"]
    where = [name for name, a, b in zip(parts, got, expected, strict=True) if a != b]
    note = ""
    if "outcome" in where and (type(got[0]) is str or type(expected[0]) is str):
        note = f" got {str(got[0])[:60]}, expected {str(expected[0])[:60]}"
    return f"seed {seed}, {case}: {', '.join(where)} differ{note}\n{program.source}"


if __name__ == "__main__":
    main(difference)
