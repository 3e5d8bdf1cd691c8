"""Which parameters of a function are numbers that it only computes with.

A body that uses a parameter `t` as an operand of arithmetic alone, as in `x * t`, `0.5 * t` or `x > t`, does
the same for each value of `t`: a plan may take the number as an operand. Any other use may depend on its
value or its type: `if t > 0`, `range(t)`, `math.sin(t)`, `return t`. A function of the user's that gets the
number is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from pycudakit.fusing.bytecode.number_flow import NONE, Node, NumberFlow, Origins
from pycudakit.fusing.bytecode.number_uses import Done, FrameFlow, Operands, is_arithmetic
from pycudakit.fusing.bytecode.value_kinds import NULL, TRACER, Known, LocalFunction

_REFLECTION = frozenset({"locals", "vars", "dir", "eval", "exec"})  # read variables by their names


class ScalarFlow(FrameFlow):
    """Follows the parameters of one frame, and finds those that reach a use that is no arithmetic.

    Parameters
    ----------
    frame
        The frame's number, its code, and more, as for FrameFlow.
    callee
        Returns the flow of an analysed function that the frame calls, by its frame's number.

    Attributes
    ----------
    looked_at, returned
        The parameters that reach another use, and those that the result may be computed from.
    """

    def __init__(self, frame: tuple[Any, ...], callee: Callable[[int], ScalarFlow]) -> None:
        super().__init__(NumberFlow(), *frame)
        self._callee = callee
        code = self._code
        count = code.co_argcount
        self.parameters = code.co_varnames[: count + code.co_kwonlyargcount]
        self._by_position = self.parameters[:count]
        self._by_name = self.parameters[code.co_posonlyargcount :]
        are_read_by_name = not _REFLECTION.isdisjoint(code.co_names)
        self.looked_at = set(self.parameters if are_read_by_name else code.co_cellvars)
        self.returned: set[str] = set()
        self.follow()

    def _first_names(self, names: Iterable[str]) -> dict[str, Origins]:
        return {name: frozenset({("parameter", name)}) if name in self.parameters else NONE for name in names}

    @staticmethod
    def _parameters_in(origins: Collection[Node]) -> set[str]:
        return {name for kind, name in origins if kind == "parameter"}

    def _call(self, done: Done, operands: Operands) -> Origins:
        """Follow a call; return the parameters that its result may be computed from."""
        rule, count, keywords = done.instruction.rule, done.instruction.arg, done.before.keyword_names
        if rule in ("call_with_names", "call_function_with_names"):
            keywords, operands = operands[-1][0].fields, operands[:-1]
        elif rule == "call_unpacked":
            count = 0
        called, arguments = operands[: len(operands) - count], operands[len(operands) - count :]
        kinds = [kind for kind, _ in called if kind is not NULL]
        if done.frame is None or len(kinds) != 1 or type(kinds[0]) not in (Known, LocalFunction):
            self.looked_at |= self._parameters_in(NONE.union(*[origins for _, origins in operands]))
            return NONE
        callee, made = self._callee(done.frame), NONE
        for name, (_, origins) in zip(callee.names_of(count, keywords), arguments, strict=True):
            if not name or name in callee.looked_at:
                self.looked_at |= self._parameters_in(origins)
            elif name in callee.returned:
                made |= origins
        return made

    def names_of(self, count: int, keywords: Sequence[str]) -> list[str]:
        """Return the parameter of each argument of a call, keywords last; "" for `*args` and `**kwargs`."""
        positional = count - len(keywords)
        by_position = [*self._by_position[:positional], *[""] * (positional - len(self._by_position))]
        return [*by_position, *(name if name in self._by_name else "" for name in keywords)]

    def _use(self, done: Done) -> None:
        """Run an instruction that does more than move values."""
        operands = list(zip(done.before.stack[done.floor :], self.stack[done.floor :], strict=True))
        del self.stack[done.floor :]
        origins = NONE.union(*[each for _, each in operands])
        made = NONE
        rule = done.instruction.rule
        is_computed = rule in ("binary", "unary") and is_arithmetic(done.instruction)
        is_of_array = any(kind is TRACER for kind, _ in operands)
        if is_of_array and (is_computed or rule == "compare"):
            pass
        elif is_computed:
            made = origins  # it is such a number, too
        elif rule == "return":
            self.returned |= self._parameters_in(origins)
        elif origins and rule.startswith("call"):
            made = self._call(done, operands)
        else:
            self.looked_at |= self._parameters_in(origins)
        self.stack += [made] * (len(done.after.stack) - done.floor)
