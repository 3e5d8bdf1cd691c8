"""Kernels with barriers as loops over a block's threads, one loop from barrier to barrier.

A kernel is split only if the result is provably that of each thread on a fiber, a stack of its own, which
is how all other kernels with barriers run. Barriers are statements at the top level of the kernel, or in
`for`, `while` and `if` whose conditions are uniform: they name only parameters, constants, `blockDim`,
`gridDim`, `blockIdx` and locals that are assigned from such alone. Uniform conditions and assignments run
once a block. A local of a thread that lives across a barrier becomes an array with an element a thread, or
is computed again in each region, if it follows from the indices of the thread. (Stratton et al., MCUDA,
2008.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pycudakit.kernels.compiling.extern_c import line_directive
from pycudakit.kernels.compiling.kernel_definition import NAME, RefusedError
from pycudakit.kernels.compiling.kernel_locals import KernelLocals, Local
from pycudakit.kernels.compiling.source import Source
from pycudakit.kernels.compiling.statements import Statement, UnreadableError

_MAX_SLOTS = (
    10  # locals that live across a barrier: 10 of 16 bytes, of 1,024 threads, take 160 KiB of a stack
)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a kernel runs on fibers.

    Parameters
    ----------
    line
        The line of the source.
    text
        The reason, as a clause.
    """

    line: int
    text: str


def split(source: Source, waiting: set[str]) -> tuple[str, dict[str, str], dict[str, Reason]]:
    """Split the kernels of a source that can be.

    Parameters
    ----------
    waiting
        The kernels that may reach a barrier.

    Returns
    -------
    text
        C++ for the end of the source.
    names
        The name of the function that runs a whole block, by the kernel's.
    reasons
        Why the other waiting kernels run on fibers.
    """
    parts, names, reasons = [], {}, {}
    done: dict[str, str | Reason] = {}
    for kernel in source.kernels:
        if kernel.name not in waiting:
            continue
        base = kernel.name.partition("<")[0].strip()
        if base not in done:
            try:
                parts.append(_Loops(source, base, kernel).text())
                done[base] = f"pk_loops_{base}"
            except RefusedError as error:
                line = source.text.count("\n", 0, error.at) + 1 if error.at >= 0 else kernel.line
                done[base] = Reason(line, str(error))
            except UnreadableError as error:
                done[base] = Reason(
                    source.text.count("\n", 0, error.at) + 1, "the statement is not understood"
                )
        result = done[base]
        if isinstance(result, Reason):
            reasons[kernel.name] = result
        else:
            names[kernel.name] = result + kernel.name[len(base) :]
    return "".join(parts), names, reasons


class _Loops(KernelLocals):
    """The text of a kernel's loops."""

    def text(self) -> str:
        """Return the function that runs a block."""
        last = self.regions if self.statements and not self._has_barrier(self.statements[-1]) else -1
        self.has_done = any(self._region_at(at) != last for at in self.returns)
        slots = [local for local in self.locals if local.lives_across]
        if len(slots) > _MAX_SLOTS:
            raise RefusedError(slots[-1].at, f"more than {_MAX_SLOTS} locals live across a barrier")
        for local in slots:
            if local.fault is not None:
                raise RefusedError(local.at, f"{local.name} lives across a barrier, and {local.fault}")
        parameters = ", ".join(["const dim3 pk_size", *filter(None, self.parameters)])
        lines = [
            f"\n{self.head.strip()} pk_loops_{self.base}({parameters}) {{",
            "PK_BEGIN_LOOPS;",
            *(["unsigned char pk_done[PK_MAX_THREADS] = {};"] if self.has_done else []),
        ]
        self._head_check()
        return "\n".join([*lines, *self._emitted(self.statements), "}", ""])

    def _head_check(self) -> None:
        if re.search(r"\bvoid\s*$", self.head.strip()) is None:
            raise RefusedError(-1, "its declaration is not understood")

    def _emitted(self, statements: list[Statement]) -> Iterator[str]:
        region: list[Statement] = []
        pragmas: list[Statement] = []
        for statement in statements:
            if statement.kind == "directive":
                pragmas.append(statement)
                continue
            shared = (
                statement.kind == "simple" and "__shared__" in self.plain[statement.begin : statement.end]
            )
            is_uniform = shared or statement.begin in self.assigned or self._is_uniform_declaration(statement)
            if not self._has_barrier(statement) and not is_uniform and statement.begin not in self.strided:
                for local in self._declared_by(statement) if statement.kind == "simple" else ():
                    if local.is_uniform:
                        yield self._line(statement.begin) + self._once_declaration(local)
                region += [*pragmas, statement]
                pragmas = []
                continue
            pragmas = []
            if shared or self._is_uniform_declaration(statement):
                yield self._once_text(
                    statement.begin, statement.end
                )  # before the region, which does not change it
                continue
            yield from self._region_text(region)
            region = []
            if statement.begin in self.strided:
                yield from self._strided_text(statement)
            elif statement.begin in self.assigned:
                yield self._once_text(statement.begin, statement.end)
            elif not self._is_barrier(statement):
                yield from self._control_text(statement)
        yield from self._region_text(region)

    def _is_uniform_declaration(self, statement: Statement) -> bool:
        declared = self._declared_by(statement)
        return statement.kind == "simple" and bool(declared) and all(one.is_uniform for one in declared)

    def _control_text(self, statement: Statement) -> Iterator[str]:
        if statement.kind == "block":
            yield "{"
            yield from self._emitted(statement.children)
            yield "}"
            return
        word = (
            "if constexpr" if re.match(r"if\s+constexpr", self.plain[statement.begin :]) else statement.kind
        )
        yield f"{self._line(statement.begin)}{word} ({self._once_text(*statement.header, line=False)}) {{"
        for number, child in enumerate(statement.children):
            if number == 1:
                yield "} else {"
            yield from self._emitted(child.children if child.kind == "block" else [child])
        yield "}"

    def _line(self, at: int) -> str:
        return "\n" + line_directive(self.text_of_source.count("\n", 0, at) + 1, self.source.name)

    def _once_text(self, begin: int, end: int, *, line: bool = True) -> str:
        """Return text that runs once a block: uniform locals that change have a name of their own there."""
        text = self._replaced(
            begin, end, lambda at, name: f"pk_once_{name}" if self._is_variable(name, at) else name
        )
        return (self._line(begin) if line else "") + text

    def _is_variable(self, name: str, at: int) -> bool:
        local = self._visible(name, at)
        return local is not None and local.is_uniform and not local.is_const

    def _replaced(self, begin: int, end: int, name_for: Callable[[int, str], str]) -> str:
        parts, done = [], begin
        for match in NAME.finditer(self.plain, begin, end):
            parts += [self.text_of_source[done : match.start()], name_for(match.start(), match.group())]
            done = match.end()
        return "".join([*parts, self.text_of_source[done:end]])

    def _region_text(self, region: list[Statement]) -> Iterator[str]:
        statements = [one for one in region if one.kind != "directive"]
        if not statements:
            return
        begin, end = region[0].begin, region[-1].end
        number = self.region_of[statements[0].begin]
        names = {name for one in statements for name in self._names_in(one.begin, one.end)}
        declared = [one for one in self.locals if begin <= one.at < end]
        for local in self.locals:
            if local in declared and local.lives_across:
                yield f"pk_slots<{local.type}> pk_slots_{local.name};"
        yield f"{self._line(statements[0].begin)}PK_EACH_THREAD {{"
        yield from self._prologue(begin, names, declared)
        yield "{"
        has_return = False
        for statement in region:
            if statement.kind == "directive":
                yield self.text_of_source[statement.begin : statement.end]
                continue
            has_return = has_return or any(statement.begin <= at < statement.end for at in self.returns)
            yield self._line(statement.begin) + self._thread_text(statement, number)
        yield "}"
        if has_return:
            yield f"pk_next_{number}:;"
        yield "}"

    def _strided_text(self, statement: Statement) -> Iterator[str]:
        """Yield a loop in whose rounds the threads take turns."""
        loop = self.strided[statement.begin]
        first, condition, step = (
            self.text_of_source[slice(*each)] for each in (loop.first, loop.condition, loop.step)
        )
        value = f"({loop.type})({first}) + ({loop.type})pk_round * ({loop.type})({step})"
        yield "{"
        yield "unsigned char pk_ended[PK_MAX_THREADS] = {};"
        yield "for (uint64_t pk_round = 0, pk_left = 1; pk_left != 0; ++pk_round) {"
        yield f"pk_left = 0;{self._line(statement.begin)}PK_EACH_THREAD {{"
        yield "if (pk_ended[pk_thread]) continue;"
        yield from self._prologue(statement.begin, self._names_in(statement.begin, statement.end), [])
        yield f"{{ const {loop.type} {loop.name} = {value};"
        yield f"if (!({condition})) {{ pk_ended[pk_thread] = 1; continue; }}"
        yield f"pk_left = 1;{self._line(loop.body.begin)}"
        yield self._thread_text(loop.body, 0)
        yield "} } } }"

    def _prologue(self, begin: int, names: set[str], declared: list[Local]) -> Iterator[str]:
        """Yield the declarations of the locals' names in a region that begins at an index."""
        if self.has_done:
            yield "if (pk_done[pk_thread]) continue;"
        names = set(names)
        for local in reversed(self.locals):
            if local.is_recomputed and local.name in names and local not in declared:
                names |= self._names_in(*(local.value or (0, 0)))
        for local in self.locals:
            if local.name not in names or local in declared or not local.scope[0] <= begin < local.scope[1]:
                continue
            if local.is_uniform and not local.is_const:
                yield f"const auto {local.name} = pk_once_{local.name};"
            elif local.is_recomputed:
                yield self._declaration_text(local, is_const=True)
            elif local.lives_across:
                const = "const " if local.is_const else ""
                yield f"{const}auto &{local.name} = pk_slots_{local.name}[pk_thread];"

    def _thread_text(self, statement: Statement, number: int) -> str:
        declared = [one for one in self.locals if statement.begin <= one.at < statement.end]
        if any(one.lives_across or one.is_uniform or one.is_recomputed_elsewhere for one in declared):
            return " ".join(self._declaration_text(one) for one in declared)
        text = self._replaced(
            statement.begin, statement.end, lambda _, name: "\x01" if name == "return" else name
        )
        mark = "pk_done[pk_thread] = 1; " if self.has_done else ""
        return re.sub("\x01\\s*;", f"{{ {mark}goto pk_next_{number}; }}", text)

    def _once_declaration(self, local: Local) -> str:
        value = f" = {self._once_text(*local.value, line=False)}" if local.value is not None else ""
        return (
            f"const {local.type} {local.name}{value};"
            if local.is_const
            else f"{local.type} pk_once_{local.name}{value};"
        )

    def _declaration_text(self, local: Local, *, is_const: bool = False) -> str:
        value = self.text_of_source[slice(*local.value)] if local.value is not None else None
        const = "const " if local.is_const or is_const or local.is_recomputed_elsewhere else ""
        if local.is_uniform:
            return "" if local.is_const else f"const auto {local.name} = pk_once_{local.name};"
        if not local.lives_across:
            is_pointer = local.type.endswith("*")
            kind = f"{local.type} {const}" if is_pointer else f"{const}{local.type} "
            return f"{kind}{local.name}{f' = {value}' if value is not None else ''};"
        slot = f"pk_slots_{local.name}[pk_thread]"
        assigned = f"{slot} = {value}; " if value is not None else ""
        return f"{assigned}{const}auto &{local.name} = {slot};"
