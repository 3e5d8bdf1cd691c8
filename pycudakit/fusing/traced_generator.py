"""Random generators whose draws are recorded into the trace."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import BuiltinFunctionType, MethodType
from typing import Any

from pycudakit.fusing.device_impls.random_choice import DRAWING
from pycudakit.fusing.execute.host_call import draw
from pycudakit.fusing.trace.current_trace import current_trace

_PACKAGE = __name__.partition(".")[0]
# Methods of pycudakit generators that return new arrays.
_NAMES = """beta binomial chisquare exponential gamma geometric integers lognormal normal poisson random
standard_exponential standard_gamma standard_normal uniform"""
_DRAWS = frozenset(_NAMES.split())


class TracedGenerator:
    """A random generator whose draws are recorded into the trace."""

    def __init__(self, generator: Any, trace: Any) -> None:
        self.generator = generator
        self._life = None if trace is None else trace.life

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The generator's class, for `isinstance`."""
        return type(self.generator)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute; methods are wrapped to record their calls."""
        member = getattr(self.generator, name)
        if not isinstance(member, (MethodType, BuiltinFunctionType)):
            if (trace := current_trace()) is not None:
                trace.mark_not_replayable()  # a part of the state
            return member

        def draw_now(*arguments: Any, **keywords: Any) -> Any:
            trace = current_trace()
            if trace is None:
                return member(*arguments, **keywords)
            is_from_package = type(self.generator).__module__.partition(".")[0] == _PACKAGE
            if is_from_package and name in DRAWING and trace.buffers.scope.is_open:
                result = DRAWING[name](trace, self.generator, *arguments, **keywords)
                if result is not NotImplemented:
                    return result
            if is_from_package and name in _DRAWS and trace.capture is not None:
                result = trace.on_host(draw, (self.generator, name, *arguments), keywords)
            elif is_from_package and name in _DRAWS:
                result = trace.on_device(member, arguments, keywords, num_device_args=0)
            else:
                may_write = name == "shuffle" or "out" in keywords
                result = trace.on_host(member, arguments, keywords, may_write)
            return result if keywords.get("out") is None else keywords["out"]

        return draw_now


def default_rng_of(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `default_rng` whose generators are traced."""

    @functools.wraps(make)
    def default_rng(*arguments: Any, **keywords: Any) -> Any:
        trace = current_trace()
        if trace is None:
            return make(*arguments, **keywords)
        return TracedGenerator(make(*trace.resolved(arguments), **trace.resolved(keywords)), trace)

    return default_rng
