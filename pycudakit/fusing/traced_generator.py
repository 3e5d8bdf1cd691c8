"""Random generators in the body of a fused function, whose draws the trace makes.

A draw is a host call of a replay, a call of a device implementation, a call whose result stays on the device,
or a plain call with host arrays.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from types import BuiltinFunctionType, MethodType
from typing import Any

from pycudakit.fusing.device_impls.random_choice import DRAWING
from pycudakit.fusing.execute.host_call import draw
from pycudakit.fusing.memory.pytree import map_arguments
from pycudakit.fusing.trace.current_trace import current_trace

_PACKAGE = __name__.partition(".")[0]
# Methods of pycudakit generators that draw from a distribution.
_NAMES = """beta binomial chisquare exponential gamma geometric integers lognormal normal poisson random
standard_exponential standard_gamma standard_normal uniform"""
_DRAWS = frozenset(_NAMES.split())
# The position of `out` among the arguments of those that have it.
_OUT = {"random": 2, "standard_exponential": 3, "standard_gamma": 3, "standard_normal": 2}


class TracedGenerator:
    """A random generator as the body of a fused function sees it.

    Calls that depend on its state, other than draws, are not replayed.
    """

    __slots__ = ("__weakref__", "_life", "generator")

    def __init__(self, generator: Any, trace: Any) -> None:
        object.__setattr__(self, "generator", generator)
        # To find out whether tracers are alive.
        object.__setattr__(self, "_life", None if trace is None else trace.life)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The generator's class, for `isinstance`."""
        return type(self.generator)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the generator."""
        setattr(_looked_at(self), name, value)

    def __eq__(self, other: object) -> bool:
        """Compare the generators."""
        return bool(_looked_at(self) == _looked_at(other))

    def __hash__(self) -> int:
        """Return the generator's hash, if it has one."""
        return hash(self.generator)

    def __repr__(self) -> str:
        """Show the generator."""
        return repr(_looked_at(self))

    def __str__(self) -> str:
        """Show the generator."""
        return str(_looked_at(self))

    def __copy__(self) -> Any:
        """Return a copy of the generator."""
        return copy.copy(_looked_at(self))

    def __deepcopy__(self, memo: Any) -> Any:
        """Return a copy of the generator and of its state."""
        return copy.deepcopy(_looked_at(self), memo)

    def __reduce__(self) -> Any:
        """Pickle the generator."""
        return copy.copy, (_looked_at(self),)

    def __getstate__(self) -> Any:
        """Return the generator's state."""
        return _looked_at(self).__getstate__()

    def __setstate__(self, state: Any) -> None:
        """Set the generator's state."""
        _looked_at(self).__setstate__(state)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute; methods are wrapped, so that the trace calls them."""
        member = getattr(self.generator, name)
        if not isinstance(member, (MethodType, BuiltinFunctionType)):
            return getattr(_looked_at(self), name)

        @functools.wraps(member)
        def call_method(*arguments: Any, **keywords: Any) -> Any:
            trace = current_trace()
            if trace is None:
                return member(*arguments, **keywords)
            at = _OUT.get(name)
            if at is not None and len(arguments) == at + 1 and "out" not in keywords:
                arguments, keywords = arguments[:at], {**keywords, "out": arguments[at]}
            result = self._call(trace, name, member, arguments, keywords)
            return result if keywords.get("out") is None else keywords["out"]

        return call_method

    def _call(self, trace: Any, name: str, member: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
        is_from_package = type(self.generator).__module__.partition(".")[0] == _PACKAGE
        if is_from_package and name in DRAWING and trace.buffers.scope.is_open:
            result = DRAWING[name](trace, self.generator, *arguments, **keywords)
            if result is not NotImplemented:
                return result
        if name == "shuffle" and arguments and type(arguments[0]) is list:
            trace.mark_not_replayable()
            return member(*arguments, **keywords)
        may_write = name == "shuffle" or "out" in keywords
        if not is_from_package or name not in _DRAWS:
            return trace.on_host(member, arguments, keywords, may_write)
        if trace.capture is not None and not may_write:
            return trace.on_host(draw, (self.generator, name, *arguments), keywords)
        return trace.on_device(member, arguments, keywords, num_device_args=0)


def _looked_at(value: Any) -> Any:
    """Return the generator itself, for code that looks at its state."""
    if type(value) is not TracedGenerator:
        return value
    if (trace := current_trace()) is not None:
        trace.mark_not_replayable()
    return value.generator


def default_rng_of(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `default_rng` whose generators are traced."""

    @functools.wraps(make)
    def default_rng(*arguments: Any, **keywords: Any) -> Any:
        trace = current_trace()
        if trace is None:
            return make(*arguments, **keywords)
        given = map_arguments((arguments, keywords), _looked_at)
        positional, named = trace.resolved(given)
        return TracedGenerator(make(*positional, **named), trace)

    return default_rng
