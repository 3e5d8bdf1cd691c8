"""The locals of a kernel: which are equal for all threads, and which live across a barrier."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pycudakit.kernels.compiling.kernel_definition import NAME, UNIFORM, KernelDefinition, RefusedError
from pycudakit.kernels.compiling.source import Signature, Source
from pycudakit.kernels.compiling.statements import Statement, split_at

_UNIFORM_TEXT = re.compile(r"[\w\s.+\-*/%<>=!&|^~?:(),]*")
_SIDE_EFFECT = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|(?:^|[^\w)\s])\s*[&*]\s*\w")
_ASSIGNED = re.compile(
    r"(?:(?:\+\+|--)\s*(\w+)|(\w+)\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=)\s*([^;]*)))\s*;?\s*"
)
_DECLARED = re.compile(
    r"(?P<type>(?:(?:const|constexpr|unsigned|signed|long|short|int|char|bool|float|double|auto|register)\b\s*)+"
    r"|(?:const\s+)?(?!(?:return|delete|else|new)\b)[A-Za-z_]\w*(?:\s*::\s*\w+)*(?:\s*<[\w\s,:*]*>)?(?:\s+const\b)?)"
    r"(?P<rest>[\s*&]+(?:(?:const|__restrict__|__restrict)\b[\s*&]*)*[A-Za-z_]\w*\s*(?:[=;,\[({].*)?)",
    re.DOTALL,
)
_COUNTER = re.compile(
    r"\s*(?P<type>(?:(?:unsigned|long|int|size_t)\s+)+)(?P<name>[A-Za-z_]\w*)\s*=(?P<first>[^,]*)", re.DOTALL
)
_LEAVES = re.compile(r"\b(?:break|continue|return|__shared__)\b")
_DECLARATOR = re.compile(
    r"\s*(?P<pointer>(?:\*\s*(?:(?:const|__restrict__|__restrict)\b\s*)*)*)(?P<reference>&{0,2})\s*"
    r"(?P<name>[A-Za-z_]\w*)\s*(?:(?P<other>[\[({].*)|=\s*(?P<value>.*))?",
    re.DOTALL,
)


def _has_side_effect(text: str) -> bool:
    """Return True if an expression assigns, or has the unary * or &."""
    return _SIDE_EFFECT.search(text.replace("&&", "||")) is not None


@dataclass(slots=True)
class Local:
    """A local that is declared where the kernel is split, not inside a statement that stays whole."""

    name: str
    type: str
    is_const: bool
    value: tuple[int, int] | None
    fault: str | None  # why it cannot live across a barrier
    region: int
    scope: tuple[int, int]  # where it is visible
    at: int
    uses: set[int] = field(default_factory=set)  # regions
    is_uniform: bool = False
    is_recomputed: bool = False  # in each region, from the indices of the thread

    @property
    def is_recomputed_elsewhere(self) -> bool:
        """Whether regions other than its own need it, so that it must not change."""
        return self.is_recomputed and bool(self.uses - {self.region})

    @property
    def lives_across(self) -> bool:
        """Whether it keeps a value of each thread from one region to another."""
        return not self.is_uniform and not self.is_recomputed and bool(self.uses - {self.region})


@dataclass(frozen=True, slots=True)
class StridedLoop:
    """A loop that each thread runs from an index of its own, by a step that contains the size of the block.

    Threads that take turns in each round read elements that follow each other.
    """

    type: str
    name: str
    first: tuple[int, int]
    condition: tuple[int, int]
    step: tuple[int, int]
    body: Statement


class KernelLocals(KernelDefinition):
    """The statements of a kernel in regions between barriers, and its locals."""

    def __init__(self, source: Source, base: str, kernel: Signature) -> None:
        super().__init__(source, base, kernel)
        self.locals: list[Local] = []
        self.assigned: dict[int, str] = {}  # uniform locals that statements assign, by where these begin
        self.regions = 0
        self.region_of: dict[int, int] = {}
        self.strided: dict[int, StridedLoop] = {}  # by where they begin
        self.returns = [
            self.begin + one.start() for one in re.finditer(r"\breturn\b", self.plain[self.begin : self.end])
        ]
        self.scan(self.statements, (self.begin, self.end), in_loop=False)
        self._find_uniform()
        self._find_recomputed()
        # Again, now that uniform assignments and strided loops end regions.
        self.regions = 0
        self.region_of.clear()
        self.scan(self.statements, (self.begin, self.end), in_loop=False, again=True)
        self._find_uses()

    def _region_at(self, at: int) -> int:
        return max((region for begin, region in self.region_of.items() if begin <= at), default=0)

    def scan(
        self, statements: list[Statement], scope: tuple[int, int], *, in_loop: bool, again: bool = False
    ) -> None:
        """Find the regions between barriers, and the locals that they declare."""
        self.regions += 1
        for statement in statements:
            if self._is_barrier(statement):
                self.regions += 1
            elif self._has_barrier(statement):
                self._scan_control(statement, in_loop=in_loop, again=again)
            elif statement.begin in self.assigned:
                self.regions += 1
            elif again and (loop := self._strided_loop(statement)) is not None:
                self.strided[statement.begin] = loop
                self.region_of[statement.begin] = self.regions + 1
                self.regions += 2
            else:
                self.region_of[statement.begin] = self.regions
                if statement.kind == "label":
                    raise RefusedError(statement.begin, "has a label")
                if in_loop:
                    self._check_in_loop(statement)
                if statement.kind == "simple" and not again:
                    self._declare(statement.begin, statement.end, (statement.begin, scope[1]))
                elif statement.kind == "simple":
                    for local in self.locals:
                        if statement.begin <= local.at < statement.end:
                            local.region = self.regions

    def _scan_control(self, statement: Statement, *, in_loop: bool, again: bool) -> None:
        if statement.kind not in ("for", "while", "if", "block"):
            raise RefusedError(statement.begin, "a barrier is in a statement other than for, while and if")
        is_loop = statement.kind in ("for", "while")
        if is_loop and any(statement.begin <= at < statement.end for at in self.returns):
            raise RefusedError(statement.begin, "a loop with a barrier has a return")
        if statement.kind == "for" and not again:
            parts = list(split_at(self.plain, *statement.header, ";"))
            if len(parts) != 3:
                raise RefusedError(statement.begin, "the loop is not understood")
            before = len(self.locals)
            self._declare(parts[0][0], parts[0][1], (statement.begin, statement.end))
            for local in self.locals[before:]:
                local.region = -1
        if statement.kind == "block":
            self.scan(statement.children, (statement.begin, statement.end), in_loop=in_loop, again=again)
        for child in statement.children if statement.kind != "block" else ():
            inner = child.children if child.kind == "block" else [child]
            self.scan(inner, (child.begin, child.end), in_loop=is_loop or in_loop, again=again)
        self.regions += 1

    def _check_in_loop(self, statement: Statement) -> None:
        """Refuse a `break` or `continue` of a loop that is no longer the threads' own."""
        text = self.plain[statement.begin : statement.end]
        if statement.kind in ("for", "while", "other"):
            if text.startswith("switch") and "continue" in text:
                raise RefusedError(statement.begin, "continue leaves a loop with a barrier")
            return
        if statement.kind in ("if", "block"):
            for child in statement.children:
                self._check_in_loop(child)
            return
        match = re.match(r"(?:break|continue)\b", text)
        if match is not None:
            raise RefusedError(statement.begin, f"{match.group()} leaves a loop with a barrier")

    def _declare(self, begin: int, end: int, scope: tuple[int, int]) -> None:
        text = self.plain[begin:end].rstrip("; \n\t")
        if "__shared__" in text:
            return
        lead = len(text) - len(text.lstrip())
        match = _DECLARED.fullmatch(text, lead)
        if match is None:
            return
        kind = match["type"]
        ranges = list(split_at(self.plain, begin + match.start("rest"), begin + match.end("rest"), ","))
        for first, last in ranges:
            declarator = _DECLARATOR.fullmatch(self.plain, first, last)
            if declarator is None:
                raise RefusedError(begin, "the declaration is not understood")
            pointer = declarator["pointer"]
            type_text = kind + pointer
            is_const = (
                re.search(r"\b(?:const|constexpr)\b", pointer.rpartition("*")[2] if pointer else kind)
                is not None
            )
            fault = (
                "is a reference"
                if declarator["reference"]
                else "is an array, or has a constructor"
                if declarator["other"]
                else "is auto"
                if "auto" in kind.split()
                else None
            )
            if pointer:
                type_text = re.sub(r"\bconst\s*$", "", type_text.rstrip())
                type_text = re.sub(r"__restrict(?:__)?\s*$", "", type_text.rstrip())
            else:
                type_text = re.sub(r"\b(?:const|constexpr|register)\b", "", type_text)
            value = declarator.span("value") if declarator["value"] is not None else None
            name = declarator["name"]
            if any(local.name == name and local.scope[0] <= begin < local.scope[1] for local in self.locals):
                raise RefusedError(begin, f"{name} is declared again")
            if name in self.scalars or any(name == p.name for p in self.kernel.parameters):
                raise RefusedError(begin, f"{name} is declared again")
            self.locals.append(
                Local(
                    name,
                    type_text.strip(),
                    is_const,
                    value,
                    fault,
                    self.regions,
                    scope,
                    declarator.start("name"),
                )
            )

    def _declared_by(self, statement: Statement) -> list[Local]:
        return [one for one in self.locals if statement.begin <= one.at < statement.end]

    def _visible(self, name: str, at: int) -> Local | None:
        return next(
            (one for one in self.locals if one.name == name and one.scope[0] <= at < one.scope[1]), None
        )

    def _find_uniform(self) -> None:
        """Find the locals on which conditions and sizes depend, and prove that they are uniform."""
        sizes = set(self._sizes_of_shared(self.statements))  # which the compiler checks
        # Ranges of expressions, and where the code that depends on them begins.
        todo = [(each, each[0]) for each in (*self._uniform_ranges(self.statements), *sizes)]
        while todo:
            (begin, end), origin = todo.pop()
            for match in NAME.finditer(self.plain, begin, end):
                local = self._visible(match.group(), match.start())
                if local is None or local.is_uniform:
                    continue
                if local.fault is not None or "*" in local.type:
                    raise RefusedError(origin, f"a barrier depends on {local.name}, which is no number")
                local.is_uniform = True
                if local.value is not None:
                    todo.append((local.value, origin))
                assigned = list(self._assignments(local))
                local.is_const = local.is_const or not assigned
                todo += [(each, origin) for each in assigned]
            if (begin, end) not in sizes:
                self._check_uniform(begin, end, origin)

    def _sizes_of_shared(self, statements: list[Statement]) -> Iterator[tuple[int, int]]:
        for statement in statements:
            if statement.kind == "simple" and "__shared__" in self.plain[statement.begin : statement.end]:
                for match in re.compile(r"\[([^\[\]]+)\]").finditer(
                    self.plain, statement.begin, statement.end
                ):
                    yield match.span(1)
            elif self._has_barrier(statement):
                yield from self._sizes_of_shared(statement.children)

    def _uniform_ranges(self, statements: list[Statement]) -> Iterator[tuple[int, int]]:
        for statement in statements:
            if not self._has_barrier(statement) or self._is_barrier(statement):
                continue
            if statement.kind == "for":
                first, condition, step = split_at(self.plain, *statement.header, ";")
                yield condition
                yield from self._steps(first if self._assigned_in(*first) else None, step, statement)
            elif statement.kind in ("while", "if"):
                yield statement.header
            inner = statement.children
            for child in inner if statement.kind != "block" else [statement]:
                yield from self._uniform_ranges(child.children if child.kind == "block" else [child])

    def _assigned_in(self, begin: int, end: int) -> str | None:
        match = _ASSIGNED.fullmatch(self.plain[begin:end].strip())
        return (match[1] or match[2]) if match is not None else None

    def _steps(
        self, first: tuple[int, int] | None, step: tuple[int, int], statement: Statement
    ) -> Iterator[tuple[int, int]]:
        for part in ([first] if first else []) + list(split_at(self.plain, *step, ",")):
            if not self.plain[slice(*part)].strip():
                continue
            name = self._assigned_in(*part)
            if name is None or self._visible(name, statement.begin) is None:
                raise RefusedError(statement.begin, "the loop's step is not an assignment to a local")
            yield part

    def _assignments(self, local: Local) -> Iterator[tuple[int, int]]:
        """Yield the range of each assignment to a local, and note it as one for the block; refuse others."""
        once = self._once(self.statements)
        for match in re.finditer(
            rf"(?<![\w.])(?<!->){local.name}\b", self.plain[local.scope[0] : local.scope[1]]
        ):
            at, end = local.scope[0] + match.start(), local.scope[0] + match.end()
            if at == local.at or not self._changes(at, end):
                continue
            place = next(((b, e, is_step) for b, e, is_step in once if b <= at < e), None)
            if place is None or self._assigned_in(place[0], place[1]) != local.name:
                raise RefusedError(at, f"a barrier depends on {local.name}, which threads change")
            if not place[2]:
                self.assigned[place[0]] = local.name
            yield place[0], place[1]

    def _changes(self, at: int, end: int) -> bool:
        before, after = self.plain[:at].rstrip(), self.plain[end : end + 16].lstrip()
        if before.endswith(("++", "--")) or re.search(r"(?<![\w)\]\s&])\s*&$", before[-16:]):
            return True
        return re.match(r"\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=)", after) is not None

    def _once(self, statements: list[Statement]) -> list[tuple[int, int, bool]]:
        """Return the ranges of simple statements, and of steps of loops, outside of loops over threads."""
        found = []
        for statement in statements:
            if statement.kind == "simple" and not self._is_barrier(statement):
                found.append((statement.begin, statement.end, False))
            elif self._has_barrier(statement) and not self._is_barrier(statement):
                if statement.kind == "for":
                    first, _, step = split_at(self.plain, *statement.header, ";")
                    found += [(*part, True) for part in (first, *split_at(self.plain, *step, ","))]
                for child in statement.children:
                    found += self._once(child.children if child.kind == "block" else [child])
        return [
            (begin + len(text) - len(text.lstrip()), end, step)
            for begin, end, step in found
            for text in [self.plain[begin:end]]
        ]

    def _check_uniform(self, begin: int, end: int, origin: int) -> None:
        """Refuse an expression that may differ between threads, or has side effects beyond one assignment."""
        text = self.plain[begin:end].strip().rstrip(";")
        match = _ASSIGNED.fullmatch(text)
        inside = (match[3] or "") if match is not None else text
        if _UNIFORM_TEXT.fullmatch(inside) is None or _has_side_effect(inside):
            raise RefusedError(origin, f"a barrier depends on '{text}', which may differ between threads")
        for name in NAME.finditer(self.plain, begin, end):
            word = name.group()
            local = self._visible(word, name.start())
            calls = self.plain[name.end() :].lstrip()[:1] == "("
            if local is not None:
                continue
            if (
                word in UNIFORM
                or (word in self.scalars | self.template and not calls)
                or self._is_constant(word)
            ):
                continue
            raise RefusedError(origin, f"a barrier depends on {word}, which may differ between threads")

    def _find_uses(self) -> None:
        for local in self.locals:
            if local.is_uniform:
                continue
            for match in re.finditer(
                rf"(?<![\w.])(?<!->){local.name}\b", self.plain[local.scope[0] : local.scope[1]]
            ):
                at = local.scope[0] + match.start()
                local.uses.add(self._region_at(at))
                if local.uses - {local.region} and re.search(
                    r"(?:^|[^\w)\]\s&])\s*&\s*$", self.plain[self.begin : at]
                ):
                    local.fault = "has its address taken"

    def _find_recomputed(self) -> None:
        """Find the locals that follow from the indices of the thread, and do not change."""
        for local in self.locals:
            if local.is_uniform or local.value is None or local.fault not in (None, "is auto"):
                continue
            changing = re.finditer(rf"(?<![\w.])(?<!->){local.name}\b", self.plain[local.at : local.scope[1]])
            local.is_recomputed = self._is_expression_of_thread(*local.value) and not any(
                self._changes(local.at + one.start(), local.at + one.end()) for one in changing if one.start()
            )

    def _strided_loop(self, statement: Statement) -> StridedLoop | None:
        if statement.kind != "for":
            return None
        body = statement.children[0]
        parts = list(split_at(self.plain, *statement.header, ";"))
        if len(parts) != 3 or _LEAVES.search(self.plain, body.begin, body.end):
            return None
        declared = _COUNTER.fullmatch(self.plain, *parts[0])
        if declared is None:
            return None
        name = declared["name"]
        condition = re.compile(rf"\s*{name}\s*<(?!<)(.*)", re.DOTALL).fullmatch(self.plain, *parts[1])
        step = re.compile(rf"\s*{name}\s*\+=(.*)", re.DOTALL).fullmatch(self.plain, *parts[2])
        if condition is None or step is None or "blockDim" not in self._with_values(*step.span(1)):
            return None
        spans = [declared.span("first"), condition.span(1), step.span(1)]
        if not all(self._is_expression_of_thread(*span) for span in spans):
            return None
        uses = re.compile(rf"(?<![\w.])(?<!->){name}\b").finditer(self.plain, body.begin, body.end)
        if any(self._changes(use.start(), use.end()) for use in uses):
            return None
        return StridedLoop(declared["type"].strip(), name, spans[0], parts[1], spans[2], body)

    def _with_values(self, begin: int, end: int) -> str:
        """Return an expression, and the values of the locals that it names."""
        locals_of = [self._visible(one.group(), one.start()) for one in NAME.finditer(self.plain, begin, end)]
        values = [
            self._with_values(*one.value) for one in locals_of if one is not None and one.value is not None
        ]
        return " ".join([self.plain[begin:end], *values])

    def _is_expression_of_thread(self, begin: int, end: int) -> bool:
        text = self.plain[begin:end]
        if _UNIFORM_TEXT.fullmatch(text) is None or _has_side_effect(text):
            return False
        return all(
            self._is_of_thread(one.group(), one.start(), one.end())
            for one in NAME.finditer(self.plain, begin, end)
        )

    def _is_of_thread(self, name: str, at: int, end: int) -> bool:
        """Return True if a name has, for one thread, the same value in every region."""
        local = self._visible(name, at)
        if local is not None:
            return local.is_recomputed or (local.is_uniform and local.is_const)
        if self.plain[end:].lstrip()[:1] == "(" and name not in ("min", "max", "int", "unsigned", "float"):
            return False
        is_parameter = any(name == parameter.name for parameter in self.kernel.parameters)
        return (
            name == "threadIdx"
            or name in UNIFORM
            or is_parameter
            or name in self.template
            or self._is_constant(name)
        )
