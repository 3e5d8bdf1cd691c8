"""An abstract interpretation of bytecode, which finds instructions that may reach memory past the trace.

A trace is the list of deferred operations of a fused function. An instruction is *risky* if it may write to
memory that a deferred operation reads, or read memory that a deferred write is to change, and the trace
does not see it: a store to an item of an object that is no tracer, a call of an unknown function, an
attribute with code of its own. Deferred operations on memory that other code can reach are therefore
computed at the last traced operation before a risky instruction.

A number that a reduction makes stays a tracer if all of its uses compute with it. Else it is *concrete*: the
trace computes it where it is made, and the body gets NumPy's scalar.

An analysis holds for the kinds of arguments, globals and attributes that it has read (`facts`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from pycudakit.fusing.bytecode.analysis import MAY_RETURN, RISK_AHEAD, RISK_ON_RAISE, Analysis, Risk
from pycudakit.fusing.bytecode.effects import Effects
from pycudakit.fusing.bytecode.facts import Facts
from pycudakit.fusing.bytecode.interpreter import Interpreter
from pycudakit.fusing.bytecode.known_calls import Effect, module_of
from pycudakit.fusing.bytecode.number_flow import NumberFlow
from pycudakit.fusing.bytecode.number_uses import Done, FrameFlow
from pycudakit.fusing.bytecode.opcodes import (
    Instruction,
    UnanalysedError,
    code_size,
)
from pycudakit.fusing.bytecode.scalar_uses import ScalarFlow
from pycudakit.fusing.bytecode.sources import ArgumentSource, FunctionSource, ObjectSource, type_attribute
from pycudakit.fusing.bytecode.step import Step
from pycudakit.fusing.bytecode.value_kinds import (
    ARRAY,
    PLAIN,
    SUPPORTED_ARRAY,
    UNKNOWN,
    Container,
    ContentsOf,
    Each,
    Generated,
    Items,
    Known,
    Listed,
    LocalFunction,
    join,
    kind_of,
)

_MAX_ROUNDS = 8  # until the kinds in containers and attributes are stable
_MAX_DEPTH = 24  # of calls
_MAX_INSTRUCTIONS = 20_000  # interpreted in one round
_OUTERMOST = 1  # the number of the fused function's frame
_GENERATOR_FLAG = inspect.CO_GENERATOR
_COROUTINE_FLAGS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def analyse(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Analysis:
    """Return the analysis of a call of a function with tracers for arrays."""
    analysis = Analysis()
    facts = Facts(lambda source: source.read(arguments, keywords))
    call = function, arguments, keywords
    try:
        flow = _repeat(analysis, facts, call, concrete=None)
        bits = analysis.bits_beside_concrete = analysis.bits
        if analysis.risks and flow.concrete_sites():
            risks = analysis.risks
            flow = _repeat(analysis, facts, call, concrete=flow.concrete_sites())
            analysis.bits, analysis.bits_beside_concrete = bits, analysis.bits
            analysis.risks = list(dict.fromkeys([*risks, *analysis.risks]))
        analysis.set_concrete_numbers(flow)
        analysis.set_deferred_floats(flow)
    except (UnanalysedError, RecursionError) as error:
        analysis.unanalysed = str(error)
    analysis.set_facts(facts, arguments, keywords)
    if analysis.unanalysed:
        analysis.bits, analysis.bits_beside_concrete = {}, {}
        analysis.scalar_parameters = frozenset()
    return analysis


def _repeat(
    analysis: Analysis, facts: Facts, call: tuple[Any, Any, Any], concrete: set[tuple[int, int]] | None
) -> NumberFlow:
    """Analyse a call until no kinds change, nor the sites of the concrete numbers, if given."""
    for _ in range(_MAX_ROUNDS):
        facts.has_changed = False
        analysis.bits, analysis.codes, analysis.risks, analysis.dispatched = {}, [], [], {}
        this_round = _Round(facts, analysis, concrete or frozenset())
        try:
            this_round.run(*call)
            if facts.has_changed:
                continue
            flow = this_round.number_flow()
            analysis.scalar_parameters = this_round.scalar_parameters()
        finally:
            this_round.forget()  # break the reference cycle that keeps the arguments alive
        if concrete is None or (sites := flow.concrete_sites()) <= concrete:
            return flow
        concrete = concrete | sites
    raise UnanalysedError("its variables have too many kinds")


class _Summary(NamedTuple):
    kind: Any
    frame: int
    risk_at_entry: str
    risk: str  # anywhere
    may_pass: bool  # may return without an operation that is surely recorded
    dispatches: bool


class _Round:
    """One pass over a function and those that it calls."""

    def __init__(
        self,
        facts: Facts,
        analysis: Analysis,
        concrete: Collection[tuple[int, int]],
    ) -> None:
        self.flows: list[Callable[[NumberFlow], None]] = []  # of the frames
        self.concrete = concrete  # the sites of numbers that are NumPy's scalars
        self._facts = facts
        self._analysis = analysis
        self.frames: dict[int, tuple[Any, ...]] = {}  # for ScalarFlow, by the frame's number
        self._scalar_flows: dict[int, ScalarFlow] = {}
        self._summaries: dict[Any, _Summary | None] = {}  # None: it is being analysed
        self._package = ""  # of the fused function
        self._depth = 0
        self._instructions = 0

    def run(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Analyse the body of a fused function."""
        bound: list[Any] = []  # the object of a method, and the arguments of a `functools.partial`
        bound_names: dict[str, Any] = {}
        while type(function) is functools.partial:
            kind = self._owner(function)
            bound, bound_names = [*kind.arguments, *bound], {**dict(kind.keywords), **bound_names}
            function = function.func
        if type(function) is MethodType and type(function.__func__) is FunctionType:
            bound, function = [self._owner(function.__self__), *bound], function.__func__
        elif type(type_attribute(type(function), "__call__")) is FunctionType:
            bound, function = [self._owner(function), *bound], type_attribute(type(function), "__call__")
        if type(function) is not FunctionType:
            raise UnanalysedError(f"it is no Python function, but of type {type(function).__name__}")
        if function.__code__.co_flags & _GENERATOR_FLAG:
            raise UnanalysedError("it is a generator")
        self._package = module_of(function).partition(".")[0]
        kinds = [self._argument(ArgumentSource(index)) for index in range(len(arguments))]
        named = {name: self._argument(ArgumentSource(name)) for name in keywords}
        effect = self._call(Known(function), [*bound, *kinds], {**bound_names, **named})
        if effect is None:
            raise UnanalysedError("its arguments do not fit its parameters")

    def number_flow(self) -> NumberFlow:
        """Return how numbers flow, once the kinds are stable."""
        flow = NumberFlow()
        for follow in self.flows:
            follow(flow)
        return flow

    def forget(self) -> None:
        """Drop the frames and all that refers to them."""
        self.flows.clear()
        self.frames.clear()
        self._scalar_flows.clear()

    def scalar_parameters(self) -> frozenset[str]:
        """Return the parameters that the fused function only computes with."""
        flow = self._scalar_flow(_OUTERMOST)
        return frozenset(flow.parameters) - flow.looked_at - flow.returned

    def _scalar_flow(self, frame: int) -> ScalarFlow:
        if frame not in self._scalar_flows:
            self._scalar_flows[frame] = ScalarFlow(self.frames[frame], self._scalar_flow)
        return self._scalar_flows[frame]

    def _owner(self, value: Any) -> Any:
        return self._facts.kind_at(ObjectSource(value))

    def _argument(self, source: ArgumentSource) -> Any:
        kind = self._facts.kind_at(source)
        return self._of_argument(kind, source, ContentsOf(source))

    def _of_argument(self, kind: Any, site: Any, within: Any) -> Any:
        """Return the kind of an argument, or of a part: with containers for lists, dicts and sets."""
        if type(kind) is Items:
            return Items(tuple([self._of_argument(each, within, within) for each in kind.kinds]), kind.fields)
        return self._container(site, kind) if type(kind) is Listed else kind

    def _container(self, site: Any, listed: Listed) -> Container:
        """Return the container for a list, dict or set among the arguments.

        Those in it share a site, since two of them may be one object.
        """
        is_shared = listed.kind in (ARRAY, SUPPORTED_ARRAY)  # not copied for the call
        self._facts.store(site, UNKNOWN if is_shared else listed.kind)
        within = site if type(site) is ContentsOf else ContentsOf(site)
        for inner in listed.inner:
            self._facts.store(site, self._container(within, inner))
        return Container(site)

    def call(self, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Effect | None:
        """Return the effect of calling a Python function; None if it cannot be analysed."""
        if self._depth >= _MAX_DEPTH:
            return None
        self._depth += 1
        try:
            return self._call(function, arguments, keywords)
        except UnanalysedError:
            return None
        finally:
            self._depth -= 1

    def _call(self, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Effect | None:
        if type(function) is LocalFunction:
            code, defaults, cells, owner = function.code, function.defaults, function.cells, function.frame
            named_defaults = dict(function.named_defaults)
        else:
            owner, cells = function.value, None
            if type(owner) is not FunctionType:
                owner = owner.__wrapped__
            code = owner.__code__
            self._facts.kinds.setdefault(FunctionSource(owner, "__code__"), Known(code))
            defaults = self._defaults(owner)
            named_defaults = {name: kind_of(value) for name, value in (owner.__kwdefaults__ or {}).items()}
        if not self._is_own(owner) and type(function) is not LocalFunction:
            is_fused = getattr(type(function.value), "is_fused_function", False)
            if not is_fused and self._depth:  # it gets arrays in place of tracers
                return None
        names, more = bind(code, arguments, keywords, defaults, named_defaults) or (None, {})
        if names is None or code.co_flags & _COROUTINE_FLAGS:
            return None
        for kind in more.values():
            self._facts.store((id(code), "keywords"), kind)
        key = code, tuple(names.items()), cells, owner
        if key not in self._summaries:
            self._summaries[key] = None
            effects = Effects(self._facts, code, owner, cells, self.call)
            self._summaries[key] = _Frame(self, len(self._summaries), code, effects, names).run()
        summary = self._summaries[key]
        if summary is None:  # a recursive call
            return None
        if code.co_flags & _GENERATOR_FLAG:  # which runs where it is iterated over
            kind, risk = summary.kind, summary.risk
            made = Generated(kind, risk) if risk else Each(kind)
            return Effect(made, dispatches=summary.dispatches, frame=summary.frame)
        recorded = not summary.may_pass
        return Effect(summary.kind, summary.risk_at_entry, recorded, summary.dispatches, summary.frame)

    def _is_own(self, function: FunctionType) -> bool:
        """Return True for a function of the fused function's package."""
        names = module_of(function), function.__module__ or ""
        return all(name.partition(".")[0] == self._package for name in names)

    def _defaults(self, function: FunctionType) -> tuple[Any, ...]:
        if not function.__defaults__:
            return ()
        kind = self._facts.kind_at(FunctionSource(function, "__defaults__"))
        return kind.kinds if type(kind) is Items else (UNKNOWN,) * len(function.__defaults__)

    def count(self, instructions: int) -> None:
        """Count interpreted instructions."""
        self._instructions += instructions
        if self._instructions > _MAX_INSTRUCTIONS:
            raise UnanalysedError("it and the functions that it calls are too large")

    def store(
        self,
        code: CodeType,
        instructions: list[Instruction],
        bits: list[int],
        risks: list[str],
        dispatched: set[int],
    ) -> None:
        """Join the bits of a code object to those of its other calls."""
        analysis = self._analysis
        if dispatched:
            analysis.dispatched.setdefault(code, set()).update(dispatched)
        stored = analysis.bits.get(id(code))
        if stored is None:
            stored = analysis.bits[id(code)] = bytearray(code_size(code) + 2)
            analysis.codes.append(code)
        for instruction, each, reason in zip(instructions, bits, risks, strict=True):
            for offset in range(instruction.begin, instruction.end):
                stored[offset] |= each
            if reason:
                risk = Risk(code.co_filename, instruction.line, reason)
                if risk not in analysis.risks:
                    analysis.risks.append(risk)


def bind(
    code: CodeType,
    arguments: list[Any],
    keywords: dict[str, Any],
    defaults: tuple[Any, ...],
    named_defaults: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the kinds of a function's parameters, and of its other keywords; None if they do not fit."""
    count, only_named = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames[: count + only_named]
    bound = dict(zip(names[count - len(defaults) : count], defaults, strict=True))
    bound.update({name: kind for name, kind in named_defaults.items() if name in names[count:]})
    rest: list[Any] = arguments[count:]
    more: dict[str, Any] = {}
    bound.update(zip(names[:count], arguments, strict=False))
    for name, kind in keywords.items():
        if name in names[code.co_posonlyargcount :]:
            bound[name] = kind
        else:
            more[name] = kind
    after = code.co_varnames[count + only_named :]
    if code.co_flags & inspect.CO_VARARGS:
        bound[after[0]], after = Items(tuple(rest)), after[1:]
    elif rest:
        return None
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[after[0]] = Container((id(code), "keywords"))
    elif more:
        return None
    return (bound, more) if all(name in bound for name in names) else None


class _Frame(Interpreter):
    """The interpretation of one code object with parameters of given kinds."""

    def __init__(
        self, owner: _Round, number: int, code: CodeType, effects: Effects, names: dict[str, Any]
    ) -> None:
        super().__init__(code, Step(effects), names)
        self._owner = owner
        self._number = number
        self._effects = effects
        for name in code.co_cellvars:
            if name in names:
                effects.store_cell_value(name, names[name])
        count = len(self._instructions)
        self._risks = [""] * count
        self._is_recorded = [True] * count
        self._is_return = [False] * count
        self._dispatched: set[int] = set()
        self._done: list[Done | None] = [None] * count
        self._result: Any = None

    def run(self) -> _Summary:
        """Interpret the code, and return the summary of a call."""
        self._interpret()
        self._owner.flows.append(self._follow)
        self._owner.frames[self._number] = self._frame()
        return self._summary()

    def _follow(self, flow: NumberFlow) -> None:
        FrameFlow(flow, *self._frame()).follow()

    def _frame(self) -> tuple[Any, ...]:
        return self._number, self._code, self._done, self._caught, self._effects

    def _visit(self, index: int) -> None:
        self._owner.count(1)
        step = self._step
        if (id(self._code), self._instructions[index].begin) in self._owner.concrete:
            step.take_concrete_numbers()
        self._risks[index] = step.risk
        self._is_recorded[index] = step.is_recorded
        if step.dispatches:
            self._dispatched.add(index)
        state = self._states[index]
        assert state is not None  # noqa: S101
        self._done[index] = Done.of(step, self._instructions[index], state)
        is_generator = self._code.co_flags & _GENERATOR_FLAG
        result = step.yielded if is_generator else step.returned
        if step.returned is not None or result is not None:
            self._is_return[index] = True
            self._result = join(self._result, result)

    def _summary(self) -> _Summary:
        count = len(self._instructions)
        reached = [index for index in range(count) if self._states[index] is not None]
        # Whether a risky instruction, or the end, may come: at an instruction, and after it.
        risk, returns = [False] * count, [False] * count
        risk_after, return_after = [False] * count, [False] * count
        has_changed = True
        while has_changed:
            has_changed = False
            for index in reversed(reached):
                after = ends = False
                for each in self._successors[index]:
                    after, ends = after or risk[each], ends or returns[each]
                goes_on = not self._is_recorded[index]
                is_risky = bool(self._risks[index]) or (goes_on and after)
                for each in self._raises_to[index]:
                    is_risky = is_risky or risk[each]
                is_end = self._is_return[index] or (goes_on and ends)
                new = after, ends, is_risky, is_end
                if new != (risk_after[index], return_after[index], risk[index], returns[index]):
                    risk_after[index], return_after[index], risk[index], returns[index] = new
                    has_changed = True
        bits = [0] * count
        for index in reached:
            on_raise = any(risk[each] for each in self._raises_to[index])
            bits[index] = (
                RISK_AHEAD * risk_after[index] + MAY_RETURN * return_after[index] + RISK_ON_RAISE * on_raise
            )
        self._owner.store(self._code, self._instructions, bits, self._risks, self._dispatched)
        reason = next((self._risks[index] for index in reached if self._risks[index]), "")
        result = PLAIN if self._result is None else self._result
        at_entry = (reason or "it calls a function that may run other code") if risk[0] else ""
        dispatches = bool(self._dispatched)
        return _Summary(result, self._number, at_entry, reason, returns[0], dispatches)
