"""Random kernels without races, and an interpreter that runs their threads in Python.

A kernel writes its own element of shared memory, or adds to bins by atomics, up to one barrier, and reads any
element up to the next. Barriers are in loops and branches that all threads take, and threads return early.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

BINS, ITEMS = 8, 64  # of shared memory, and of the array that kernels read
OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": operator.lt,
    "==": operator.eq,
}
SHARED = ("shared", "bin")


@dataclass
class Random:
    """The source of random choices, and the names that expressions may use."""

    random: random.Random
    loops: int = 0
    depth: int = 0

    def expression(self, names: tuple[str, ...], *, reads: bool, size: int = 3):
        """Return an expression: a number, a name, an element, or an operator with two operands."""
        kind = self.random.random()
        if size == 0 or kind < 0.25:
            return self.random.choice([*names, self.random.randint(-9, 9)])
        inner = [self.expression(names, reads=reads, size=size - 1) for _ in range(2)]
        if kind < 0.4:
            return ("item", inner[0])
        if reads and kind < 0.6:
            return (self.random.choice(SHARED), inner[0])
        return (self.random.choice(list(OPERATORS)), *inner)

    def simple(self, names: tuple[str, ...], *, reads: bool):
        """Return a statement without barriers."""
        kind = self.random.random()
        values = self.expression(names, reads=reads)
        if not reads and kind < 0.35:
            return ("own", values)
        if not reads and kind < 0.5:
            return ("add", self.expression(names, reads=False, size=1), values)
        if kind < 0.75 and self.depth < 2:
            self.depth += 1
            if kind < 0.65:
                bodies = [self.statements(names, reads=reads, most=2) for _ in range(2)]
                statement = ("if", self.expression(names, reads=reads), *bodies)
            else:
                self.loops += 1
                name = f"i{self.loops}"
                body = self.statements((*names, name), reads=reads, most=2)
                kind = self.random.choice(["for", "strided"])
                statement = (
                    kind,
                    name,
                    self.random.choice([1, 3, 70, "n"]) if kind == "strided" else 3,
                    body,
                )
            self.depth -= 1
            return statement
        return ("assign", self.random.choice("abc"), values)

    def statements(self, names: tuple[str, ...], *, reads: bool, most: int):
        return [self.simple(names, reads=reads) for _ in range(self.random.randint(1, most))]

    def section(self, names: tuple[str, ...]):
        """Return statements that write, a barrier, statements that read, and a barrier."""
        return [
            *self.statements(names, reads=False, most=3),
            ("barrier",),
            *self.statements(names, reads=True, most=3),
            ("barrier",),
        ]

    def sections(self, names: tuple[str, ...], depth: int, *, top: bool = False):
        """Return sections, in loops and branches."""
        items = []
        for _ in range(self.random.randint(1, 2)):
            kind = self.random.random()
            if depth > 0 and kind < 0.3:
                self.loops += 1
                name = f"u{self.loops}"
                count = self.random.choice([self.random.randint(1, 3), "n"])
                items.append(("for", name, count, self.sections((*names, name), depth - 1)))
            elif depth > 0 and kind < 0.45:
                # The last condition is the same for all threads, which no compiler can prove.
                condition = self.random.choice([("<", "n", 3), ("==", "b", "b"), ("<", ("item", 0), 5)])
                parts = [self.sections(names, depth - 1) for _ in range(2)]
                items.append(("if", condition, *parts))
            else:
                items += self.section(names)
            if top and self.random.random() < 0.2:
                items.append(("if", self.expression(("t", "a"), reads=False, size=2), [("return",)], []))
        return items


def random_kernel(seed: int):
    """Return the statements of a kernel."""
    chosen = Random(random.Random(seed))
    return chosen.sections(("a", "b", "c", "t", "n"), 2, top=True)


# ---- CUDA C ----


def source_of(name: str, statements) -> str:
    """Return a kernel's source."""
    return f"""
__global__ void {name}(const int *x, int *out, int n, int width) {{
    __shared__ int s[64];
    __shared__ int bins[{BINS}];
    const int t = threadIdx.x + blockDim.x * threadIdx.y, first = blockIdx.x * width;
    int a = t, b = blockIdx.x;
    int c = x[(first + t) & {ITEMS - 1}];
    s[t] = t;
    if (t < {BINS}) bins[t] = 0;
    for (int i = t + width; i < {BINS}; i += width) bins[i] = 0;
    __syncthreads();
{_lines(statements)}    out[first + t] = a + 3 * b + 5 * c + 7 * s[t];
    if (t == 0) atomicAdd(&out[gridDim.x * width], bins[1]);
}}
"""


def _lines(statements) -> str:
    return "".join(f"    {line}\n" for one in statements for line in _statement(one))


def _statement(one) -> Iterator[str]:
    kind, *parts = one
    if kind == "barrier":
        yield "__syncthreads();"
    elif kind == "return":
        yield "return;"
    elif kind == "own":
        yield f"s[t] = {_text(parts[0])};"
    elif kind == "add":
        yield f"atomicAdd(&bins[{_text(parts[0])} & {BINS - 1}], {_text(parts[1])});"
    elif kind == "assign":
        yield f"{parts[0]} = {_text(parts[1])};"
    elif kind == "strided":
        name, count, body = parts
        yield f"for (int {name} = t; {name} < {count}; {name} += blockDim.x * blockDim.y) {{"
        yield from ("    " + line for each in body for line in _statement(each))
        yield "}"
    elif kind == "for":
        name, count, body = parts
        yield f"for (int {name} = 0; {name} < {count}; ++{name}) {{"
        yield from ("    " + line for each in body for line in _statement(each))
        yield "}"
    else:
        condition, then, other = parts
        yield f"if ({_text(condition)}) {{"
        yield from ("    " + line for each in then for line in _statement(each))
        yield "} else {"
        yield from ("    " + line for each in other for line in _statement(each))
        yield "}"


def _text(expression) -> str:
    if not isinstance(expression, tuple):
        return f"({expression})" if isinstance(expression, int) and expression < 0 else str(expression)
    kind, *parts = expression
    if kind == "item":
        return f"x[{_text(parts[0])} & {ITEMS - 1}]"
    if kind == "shared":
        return f"s[unsigned({_text(parts[0])}) % unsigned(width)]"
    if kind == "bin":
        return f"bins[{_text(parts[0])} & {BINS - 1}]"
    return f"({_text(parts[0])} {kind} {_text(parts[1])})"


# ---- The interpreter ----


def interpreted(statements, x: np.ndarray, n: int, width: int, blocks: int) -> np.ndarray:
    """Return a kernel's results: its threads run in turns, from barrier to barrier."""
    out = np.zeros(blocks * width + 1, np.int32)
    for block in range(blocks):
        memory = {"s": list(range(width)), "bins": [0] * BINS}
        threads = [_Thread(memory, x.tolist(), n, width, block, t) for t in range(width)]
        waiting = [thread.run(statements) for thread in threads]
        while waiting:
            waiting = [thread for thread in waiting if next(thread, None) == "barrier"]
        for t, thread in enumerate(threads):
            if thread.returned:
                continue
            a, b, c = (thread.names[name] for name in "abc")
            out[block * width + t] = _wrapped(a + 3 * b + 5 * c + 7 * memory["s"][t])
        if not threads[0].returned:
            out[-1] = _wrapped(int(out[-1]) + memory["bins"][1])
    return out


def _wrapped(value: int) -> int:
    return (int(value) + 2**31) % 2**32 - 2**31


class _Thread:
    def __init__(self, memory, x: list[int], n: int, width: int, block: int, t: int) -> None:
        self.memory, self.x, self.width, self.t = memory, x, width, t
        self.names = {"a": t, "b": block, "c": x[(block * width + t) % ITEMS], "t": t, "n": n}
        self.returned = False

    def run(self, statements) -> Iterator[str]:
        for kind, *parts in statements:
            if self.returned:
                return
            if kind == "barrier":
                yield "barrier"
            elif kind == "return":
                self.returned = True
            elif kind == "own":
                self.memory["s"][self.t] = self.value(parts[0])
            elif kind == "add":
                at = self.value(parts[0]) % BINS
                self.memory["bins"][at] = _wrapped(self.memory["bins"][at] + self.value(parts[1]))
            elif kind == "assign":
                self.names[parts[0]] = self.value(parts[1])
            elif kind == "strided":
                name, count, body = parts
                for i in range(self.t, self.names["n"] if count == "n" else count, self.width):
                    self.names[name] = i
                    yield from self.run(body)
            elif kind == "for":
                name, count, body = parts
                for i in range(self.names["n"] if count == "n" else count):
                    self.names[name] = i
                    yield from self.run(body)
            else:
                yield from self.run(parts[1] if self.value(parts[0]) else parts[2])

    def value(self, expression) -> int:
        if not isinstance(expression, tuple):
            return self.names[expression] if isinstance(expression, str) else expression
        kind, *parts = expression
        values = [self.value(part) for part in parts]
        if kind == "item":
            return self.x[values[0] % ITEMS]
        if kind == "shared":
            return self.memory["s"][values[0] % 2**32 % self.width]
        if kind == "bin":
            return self.memory["bins"][values[0] % BINS]
        return _wrapped(OPERATORS[kind](*values))
