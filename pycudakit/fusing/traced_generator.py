"""Random generators in the body of a fused function, whose draws the trace makes.

A draw is a host call of a replay, a call of a device implementation, a call whose result stays on the device,
or a plain call with host arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import BuiltinFunctionType, MethodType
from typing import Any

from pycudakit.fusing.device_impls.random_choice import DRAWING
from pycudakit.fusing.execute.host_call import draw
from pycudakit.fusing.trace.current_trace import current_trace

_PACKAGE = __name__.partition(".")[0]
# Methods of pycudakit generators that draw from a distribution.
_NAMES = """beta binomial chisquare exponential gamma geometric integers lognormal normal poisson random
standard_exponential standard_gamma standard_normal uniform"""
_DRAWS = frozenset(_NAMES.split())
# The position of `out` among the arguments of those that have it.
_OUT = {"random": 2, "standard_exponential": 3, "standard_gamma": 3, "standard_normal": 2}


class TracedGenerator:
    """A random generator as the body of a fused function sees it."""

    def __init__(self, generator: Any, trace: Any) -> None:
        self.generator = generator
        self._life = None if trace is None else trace.life  # to find out whether tracers are alive

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The generator's class, for `isinstance`."""
        return type(self.generator)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute; methods are wrapped, so that the trace calls them."""
        member = getattr(self.generator, name)
        if not isinstance(member, (MethodType, BuiltinFunctionType)):
            if (trace := current_trace()) is not None:
                trace.mark_not_replayable()  # it depends on the state
            return member

        def call_method(*arguments: Any, **keywords: Any) -> Any:
            trace = current_trace()
            if trace is None:
                return member(*arguments, **keywords)
            at = _OUT.get(name)
            if at is not None and len(arguments) == at + 1:
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
        may_write = name == "shuffle" or "out" in keywords
        if not is_from_package or name not in _DRAWS:
            return trace.on_host(member, arguments, keywords, may_write)
        if trace.capture is not None and not may_write:
            return trace.on_host(draw, (self.generator, name, *arguments), keywords)
        return trace.on_device(member, arguments, keywords, num_device_args=0)


def default_rng_of(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `default_rng` whose generators are traced."""

    @functools.wraps(make)
    def default_rng(*arguments: Any, **keywords: Any) -> Any:
        trace = current_trace()
        if trace is None:
            return make(*arguments, **keywords)
        return TracedGenerator(make(*trace.resolved(arguments), **trace.resolved(keywords)), trace)

    return default_rng
