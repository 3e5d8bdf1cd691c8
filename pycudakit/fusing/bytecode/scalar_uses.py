"""Which parameters of a function are numbers that it only computes with.

A body that uses a parameter `t` as an operand of arithmetic alone, as in `x * t`, `0.5 * t` or `x > t`, does
the same for each value of `t`: a plan may take the number as an operand. Any other use may depend on its
value or its type: `if t > 0`, `range(t)`, `math.sin(t)`, `return t`, a call of a function with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pycudakit.fusing.bytecode.number_uses import NONE, Done, FrameFlow, Node, Origins
from pycudakit.fusing.bytecode.value_kinds import TRACER

# Operators of two numbers that NumPy computes as Python does; a power is computed by its exponent's value.
_SYMBOLS = frozenset("+ - * / += -= *= /=".split())  # noqa: SIM905
_NAMES = frozenset(
    f"{prefix}_{name}"  # of Python 3.10
    for prefix in ("BINARY", "INPLACE")
    for name in ("ADD", "SUBTRACT", "MULTIPLY", "TRUE_DIVIDE")
)

_REFLECTION = frozenset({"locals", "vars", "dir", "eval", "exec"})  # read variables by their names


class ScalarFlow(FrameFlow):
    """Follows the parameters of one frame, and finds those that reach a use that is no arithmetic."""

    looked_at: set[str]

    def parameters_of_arithmetic(self, parameters: Collection[str]) -> frozenset[str]:
        """Return those of the parameters that are only computed with."""
        self._parameters = parameters
        are_read_by_name = not _REFLECTION.isdisjoint(self._code.co_names)
        self.looked_at = set(parameters if are_read_by_name else self._code.co_cellvars)
        self.follow()
        return frozenset(parameters) - self.looked_at

    def _first_names(self, names: Iterable[str]) -> dict[str, Origins]:
        return {
            name: frozenset({("parameter", name)}) if name in self._parameters else NONE for name in names
        }

    def _look(self, origins: Collection[Node]) -> None:
        self.looked_at.update(name for kind, name in origins if kind == "parameter")

    def _use(self, done: Done) -> None:
        """Run an instruction that does more than move values."""
        operands = list(zip(done.before.stack[done.floor :], self.stack[done.floor :], strict=True))
        del self.stack[done.floor :]
        origins = NONE.union(*[each for _, each in operands])
        made = NONE
        rule, name, symbol = done.instruction.rule, done.instruction.name, done.instruction.symbol
        is_arithmetic = rule == "binary" and (symbol in _SYMBOLS or name in _NAMES)
        is_of_array = any(kind is TRACER for kind, _ in operands)
        if is_of_array and (is_arithmetic or rule == "compare"):
            pass
        elif is_arithmetic or (rule == "unary" and name == "UNARY_NEGATIVE"):
            made = origins  # it is such a number, too
        else:
            self._look(origins)
        self.stack += [made] * (len(done.after.stack) - done.floor)
