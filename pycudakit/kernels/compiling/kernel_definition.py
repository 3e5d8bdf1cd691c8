"""The definition of a kernel with barriers in a source, checked for all that hides its statements' effect."""

from __future__ import annotations

import re

from pycudakit.kernels.compiling import cuda_to_cpp
from pycudakit.kernels.compiling.extern_c import blanked, preprocessing
from pycudakit.kernels.compiling.source import Signature, Source
from pycudakit.kernels.compiling.statements import Statement, closing, parse, split_at

NAME = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")
UNIFORM = frozenset(
    [
        "blockDim",
        "gridDim",
        "blockIdx",
        "warpSize",
        "true",
        "false",
        "int",
        "unsigned",
        "signed",
        "long",
        "short",
        "char",
        "bool",
        "float",
        "double",
        "size_t",
        "int32_t",
        "uint32_t",
        "int64_t",
        "uint64_t",
        "sizeof",
        "min",
        "max",
        "constexpr",
        "const",
    ]
)
_BARRIER = re.compile(r"__syncthreads\s*\(\s*\)\s*;")
_REFUSED_WORDS = re.compile(
    r"\b(?:goto|asm|__asm|__asm__|try|throw|co_await|typedef|using|struct|class|union|enum)\b"
)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*(define|undef)[ \t]+(\w+)((?:[^\n\\]|\\.)*)", re.MULTILINE | re.DOTALL)
_LAMBDA = re.compile(r"(?<![\w\])\s])\s*\[(?!\[)[^\[\]]*\]\s*(?:\(|\{|mutable)|\[\[")
_STATIC = re.compile(r"\bstatic\b(?!\s+__shared__)(?<!__shared__ static)")


class RefusedError(Exception):
    """Why a kernel cannot become loops over threads; `at` is the offset in the source, or -1."""

    def __init__(self, at: int, text: str) -> None:
        super().__init__(text)
        self.at = at


class KernelDefinition:
    """A kernel, its statements, and the macros that they use."""

    def __init__(self, source: Source, base: str, kernel: Signature) -> None:
        self.source = source
        self.text_of_source = source.text
        self.plain = blanked(source.text)
        self.base = base
        self.kernel = kernel
        self._check_source()
        self._find_definition()
        self.redefined: set[str] = set()
        self.macros = self._find_macros()
        self.statements = parse(self.plain, self.begin, self.end)
        self.scalars = {p.name for p in kernel.parameters if p.name and not p.pointer}
        self._check_body()

    def _check_source(self) -> None:
        texts = [self.plain, *self.source.options]
        if cuda_to_cpp.includes_others(self.source):
            raise RefusedError(-1, "the source includes headers of its own, which may have barriers")
        if any("cooperative_groups" in text for text in texts):
            raise RefusedError(-1, "the source has cooperative groups")
        if cuda_to_cpp.has_volatile(self.source):
            raise RefusedError(-1, "the source has volatile accesses, at which the lanes of a warp wait")
        if any(cuda_to_cpp.BARRIERS.search(option) for option in self.source.options):
            raise RefusedError(-1, "an option has a barrier")

    def _find_definition(self) -> None:
        found = []
        for match in re.finditer(rf"\b{re.escape(self.base)}\s*\(", self.plain):
            begin = max((m.end() for m in re.finditer(r"[;{}]", self.plain[: match.start()])), default=0)
            begin = max(begin, cuda_to_cpp.after_directive(self.plain, begin, match.start()))
            last = closing(self.plain, match.end() - 1)
            body = re.compile(r"\s*\{").match(self.plain, last + 1)
            if body is not None and re.search(r"\b__global__\b", self.plain[begin : match.start()]):
                found.append((begin, match, last, body.end()))
        if len(found) != 1:
            raise RefusedError(-1, "the source has no definition of it, or several")
        begin, match, last, self.begin = found[0]
        if "::" in self.base or cuda_to_cpp.depth(self.plain, begin) or "namespace" in self.plain[:begin]:
            raise RefusedError(-1, "it is in a namespace")
        self.end = closing(self.plain, self.begin - 1)
        before = self.text_of_source[begin : match.start()]
        self.head = re.sub(
            r'\bextern\s*"C"|\b(?:__global__|static|inline|__launch_bounds__\s*\([^()]*\))', "", before
        )
        self.template = set(
            re.findall(r"\b(?:int|unsigned|bool|size_t)\s+(\w+)", re.sub(r"\bvoid\b.*", "", before))
        )
        self.parameters = [
            self._const_parameter(*each) for each in split_at(self.plain, match.end(), last, ",")
        ]

    def _const_parameter(self, begin: int, end: int) -> str:
        """Return a parameter that the loops cannot change."""
        text = self.plain[begin:end]
        if not text.strip() or text.strip() == "void":
            return ""
        name = re.search(r"([A-Za-z_]\w*)\s*(\[[^\[\]]*\]\s*)*(=.*)?$", text, re.DOTALL)
        if name is None or re.search(r"[&(]", text):
            raise RefusedError(begin, "a parameter is not understood")
        last = text[: name.start()].rpartition("*")[2]
        is_const = re.search(r"\bconst\b", last) is not None or name[2] is not None
        return (
            text[: name.start()]
            + ("" if is_const else "const ")
            + text[name.start() : name.end(1)]
            + (name[2] or "")
        )

    def _check_body(self) -> None:
        body = self.plain[self.begin : self.end]
        for pattern, text in (
            (_REFUSED_WORDS, "has a {}"),
            (_STATIC, "has a static variable"),
            (_LAMBDA, "has a lambda"),
            (re.compile(r"\breturn\b(?!\s*;)"), "returns a value"),
            (re.compile(r"^[ \t]*#(?![ \t]*pragma)", re.MULTILINE), "has a directive"),
        ):
            match = pattern.search(body)
            if match is not None:
                raise RefusedError(self.begin + match.start(), text.format(match.group().strip()))
        words = cuda_to_cpp.words_by_name(self.plain)
        checked = set[str]()
        for match in re.compile(r"[A-Za-z_]\w*").finditer(self.plain, self.begin, self.end):
            name = match.group()
            if name in ("__syncthreads", self.base) or name in checked:
                continue
            checked.add(name)
            if cuda_to_cpp.reaches_barrier(name, words):
                raise RefusedError(match.start(), f"{name} waits, and is no __syncthreads()")
            if self.source.no_extern_c and self._is_overloaded_later(name):
                raise RefusedError(match.start(), f"{name} is declared after it, too")
            if name in self.macros:
                self._check_macro(name, match.start())

    def _is_overloaded_later(self, name: str) -> bool:
        later = re.compile(rf"\b{name}\s*\(").finditer(self.plain, self.end)
        return any(cuda_to_cpp.depth(self.plain, match.start()) == 0 for match in later)

    def _find_macros(self) -> dict[str, str]:
        """Return the macros of the source and its options: all definitions of each, one after the other."""
        pairs, _ = preprocessing(self.source.options)
        macros: dict[str, str] = {}
        for option, value in pairs:
            name, _, meaning = value.partition("=")
            if option == "-D":
                macros[name] = meaning if "=" in value else "1"
        for match in _DEFINE.finditer(self.plain):
            macros[match[2]] = f"{macros.get(match[2], '')} {match[3]}"
            if match.start() > self.begin or match[1] == "undef":
                self.redefined.add(match[2])
        return macros

    def _check_macro(self, name: str, at: int) -> None:
        """Refuse a macro that is more than an expression, or names a local."""
        body_names = self._names_in(self.begin, self.end)
        known = UNIFORM | {"threadIdx"} | {parameter.name for parameter in self.kernel.parameters}
        todo, seen = [name], set[str]()
        while todo:
            word = todo.pop()
            seen.add(word)
            text = self.macros[word]
            if word in self.redefined:  # the loops are at the end of the source
                raise RefusedError(at, f"the macro {word} is defined or undefined after it, too")
            if re.search(
                r"[;{}#]|\b(?:return|goto|break|continue|for|while|if|else|do|switch|static)\b", text
            ):
                raise RefusedError(at, f"the macro {name} is not an expression")
            parameters = re.match(r" \(([^()]*)\)", text)
            own = set(re.findall(r"\w+", parameters[1])) if parameters is not None else set()
            for used in set(NAME.findall(text)) - own:
                if used in self.macros:
                    todo += [used] if used not in seen else []
                elif used in body_names - known:
                    raise RefusedError(at, f"the macro {name} names a local")

    def _has_barrier(self, statement: Statement) -> bool:
        return "__syncthreads" in self.plain[statement.begin : statement.end]

    def _is_barrier(self, statement: Statement) -> bool:
        return _BARRIER.fullmatch(self.plain, statement.begin, statement.end) is not None

    def _names_in(self, begin: int, end: int) -> set[str]:
        return set(NAME.findall(self.plain[begin:end]))

    def _is_constant(self, word: str, within: tuple[str, ...] = ()) -> bool:
        """Return True if a name is a macro of numbers, or a constant at file scope."""
        if word in self.macros:
            text = self.macros[word]
            return not text.startswith(" (") and all(
                name not in within and (name in UNIFORM or self._is_constant(name, (*within, word)))
                for name in NAME.findall(text)
            )
        declared = rf"\b(?:const|constexpr)\s+(?:static\s+)?(?:unsigned\s+)?\w+\s+{word}\s*="
        place = re.search(declared, self.plain)
        return place is not None and cuda_to_cpp.depth(self.plain, place.start()) == 0
