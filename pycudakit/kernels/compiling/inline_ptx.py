"""Inline PTX for the CPU engine: special registers, moves, pairs, and arithmetic.

An `asm` statement becomes a C++ expression statement. One with another instruction becomes a `static_assert`,
so that the compiler names its line, but only where the preprocessor leaves it in the source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pycudakit.kernels.compiling.extern_c import blanked

_ASM = re.compile(r"\b(?:asm|__asm|__asm__)\b(?:\s*\b(?:volatile|__volatile|__volatile__)\b)?\s*\(")
_STRING = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')
_MOVE = re.compile(r"mov\.(?:[usb](?:16|32|64)|f(?:32|64))\s+(\{[^{}]*\}|[^,{}]+?)\s*,\s*(\{[^{}]*\}|\S+)")
_DOTTED = re.compile(r"\b[a-z]\w*\.[a-z]")  # an instruction of PTX: those of host processors have no dots
_OPERAND = re.compile(r"%(\d+)")
_REGISTERS = {
    "laneid": "unsigned(pk_lane())",
    "warpid": "unsigned(pk_thread_of_block() / PK_WARP)",
    "clock": "unsigned(clock64())",
    "clock64": "(unsigned long long)clock64()",
    "globaltimer": "pk_nanoseconds()",
    "lanemask_eq": "(1u << pk_lane())",
    "lanemask_lt": "((1u << pk_lane()) - 1u)",
    "lanemask_le": "(~0u >> (PK_WARP - 1 - pk_lane()))",
    "lanemask_ge": "(~0u << pk_lane())",
    "lanemask_gt": "(~1u << pk_lane())",
    **{
        f"{register}.{axis}": f"unsigned({variable}.{axis})"
        for register, variable in (
            ("tid", "threadIdx"),
            ("ntid", "blockDim"),
            ("ctaid", "blockIdx"),
            ("nctaid", "gridDim"),
        )
        for axis in "xyz"
    },
}
_ARITHMETIC = re.compile(r"([a-z]+(?:\.(?:lo|hi|wide|rn))?)\.([usbf])(16|32|64)\s+([^{}]+)")
# Instructions of the kinds of types after them, which `pk_ptx_<name>` of `pycudakit_warps.h` computes.
_INSTRUCTIONS = {
    "add sub min max": "usf",
    "mul.lo mul.hi mul.wide mad.lo div rem": "us",
    "neg abs": "sf",
    "add.rn sub.rn mul mul.rn div.rn fma.rn sqrt.rn": "f",
    "and or xor not shl": "b",
    "shr": "usb",
}
_KINDS = {name: kinds for names, kinds in _INSTRUCTIONS.items() for name in names.split()}
_TYPES = {"u": "uint{}_t", "b": "uint{}_t", "s": "int{}_t", "f16": "", "f32": "float", "f64": "double"}


def translated(text: str, *, with_host_code: bool = False) -> str:
    """Replace the `asm` statements of a source by C++; line numbers are unchanged.

    Parameters
    ----------
    with_host_code
        Whether the source has host code, whose `asm` statements are left to the host's assembler.
    """
    plain = blanked(text)
    parts: list[str] = []
    done = counted = open_braces = 0
    for match in _ASM.finditer(plain):
        between = counted, match.start()
        open_braces += plain.count("{", *between) - plain.count("}", *between)
        counted = match.start()
        if match.start() < done or open_braces == 0:  # at file scope, it is the host assembler's
            continue
        end = _closing(plain, match.end() - 1)
        replaced = text[match.start() : end + 1]
        if with_host_code and _DOTTED.search(_strings(text[match.end() : end], 0)[0]) is None:
            continue
        statement = _statement(text[match.end() : end])
        if statement is None:
            continue
        ending = "\\\n" if "\\\n" in replaced else "\n"
        parts += [text[done : match.start()], statement, ending * replaced.count("\n")]
        done = end + 1
    return "".join([*parts, text[done:]])


def _closing(plain: str, at: int) -> int:
    """Return the index of the parenthesis that closes the one at `at`, or of the end."""
    depth = 0
    for match in re.compile(r"[()]").finditer(plain, at):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return match.start()
    return len(plain)


def _statement(inside: str) -> str | None:
    """Return the C++ of the text in the parentheses of an `asm`; None for an empty barrier of memory."""
    template, at = _strings(inside, 0)
    if not template.strip():
        return None
    lists = list(_operand_lists(inside, at))
    outputs, inputs = (*lists, [], [])[:2]
    lines = [f"auto &pk_{index} = {expression};" for index, expression in enumerate(outputs)]
    lines += [
        f"const auto pk_{len(outputs) + index} = {expression};" for index, expression in enumerate(inputs)
    ]
    for instruction in re.sub(r"\\[nt]", " ", template).split(";"):
        if not instruction.strip():
            continue
        counts = len(outputs), len(outputs) + len(inputs)
        line = _move(instruction.strip(), *counts) or _arithmetic(instruction.strip(), *counts)
        if line is None:
            message = json.dumps(
                f"inline PTX {instruction.strip()!r}: a GPU runs this, the CPU engine does not"
            )
            return f"static_assert(false, {message})"
        lines.append(line)
    return f"(void)__extension__({{ {' '.join(lines)} }})"


def _strings(text: str, at: int) -> tuple[str, int]:
    """Return the literals at a place, concatenated, and where they end."""
    parts = []
    while match := _STRING.match(text, at):
        parts.append(match[1])
        at = match.end()
    return "".join(parts), at


def _operand_lists(text: str, at: int) -> Iterator[list[str]]:
    """Yield the expressions of the outputs, and of the inputs."""
    plain = blanked(text)
    while match := re.compile(r"\s*:").match(plain, at):
        at, expressions = match.end(), []
        while operand := re.compile(r'\s*,?\s*(?:\[\w+\]\s*)?"[^"]*"\s*\(').match(text, at):
            end = _closing(plain, operand.end() - 1)
            expressions.append(text[operand.end() - 1 : end + 1].replace("\\\n", " ").replace("\n", " "))
            at = end + 1
        yield expressions


def _move(instruction: str, outputs: int, operands: int) -> str | None:
    match = _MOVE.fullmatch(instruction)
    if match is None:
        return None
    target, source = match[1].strip(), match[2].strip()
    if target.startswith("{"):
        parts = [_operand(part, outputs) for part in _pack(target)]
        value = _value(source, operands)
        if len(parts) != 2 or None in parts or value is None:
            return None
        return f"pk_unpack({parts[0]}, {parts[1]}, {value});"
    written = _operand(target, outputs)
    if source.startswith("{"):
        values = [_value(part, operands) for part in _pack(source)]
        if len(values) != 2 or None in values or written is None:
            return None
        return f"pk_pack({written}, {values[0]}, {values[1]});"
    value = _value(source, operands)
    return None if written is None or value is None else f"pk_move({written}, {value});"


def _arithmetic(instruction: str, outputs: int, operands: int) -> str | None:
    match = _ARITHMETIC.fullmatch(instruction)
    if match is None or match[2] not in _KINDS.get(match[1], ""):
        return None
    name, kind, bits, listed = match.groups()
    computed = _TYPES["f" + bits if kind == "f" else kind].format(bits)
    target, *sources = [part.strip() for part in listed.split(",")]
    written, values = _operand(target, outputs), [_value(source, operands) for source in sources]
    if not computed or written is None or None in values:
        return None
    read = [f"pk_read<{computed}>({value})" for value in values]
    if name in ("shl", "shr") and len(read) == 2:
        read[1] = f"pk_read<uint32_t>({values[1]})"
    function = name.replace(".", "_").removesuffix("_rn")
    return f"pk_move({written}, pk_ptx_{function}<{computed}>({', '.join(read)}));"


def _pack(text: str) -> list[str]:
    return [part.strip() for part in text.strip("{}").split(",")]


def _operand(text: str, count: int) -> str | None:
    match = _OPERAND.fullmatch(text)
    return f"pk_{match[1]}" if match is not None and int(match[1]) < count else None


def _value(text: str, operands: int) -> str | None:
    """Return the C++ of an operand, a special register or a number."""
    if re.fullmatch(r"-?(?:0[xX][0-9a-fA-F]+|\d+)U?", text):
        return text
    register = re.fullmatch(r"%{1,2}([a-z][\w.]*)", text)
    return _operand(text, operands) if register is None else _REGISTERS.get(register[1])
