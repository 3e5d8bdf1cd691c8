"""Prefetching of small draws: numbers of a repeated call are drawn many at once, and handed out in parts.

This is exact, as an element depends on its index alone. It serves calls under `auto` with the same plain
arguments as an earlier one that ran on the CPU engine. The engines of larger draws are measured.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import NoneType
from typing import Any, TypeVar

import numpy as np

from pycudakit._native.dtypes import Array
from pycudakit._runtime import context, native_call
from pycudakit._runtime.autotuner import Autotuner, autotuner_of
from pycudakit._runtime.context import Preference
from pycudakit._runtime.dispatch_cache import measure, preference_of, run_preferring
from pycudakit._runtime.engine_choice import choice_is_final
from pycudakit._runtime.lru_cache import LRUCache
from pycudakit.random.draw_requests import PREFETCH_ELEMENTS, DrawRequest, draw
from pycudakit.random.philox import Stream

F = TypeVar("F", bound=Callable[..., Any])

_current_context = context.current_context
_PLAIN = frozenset({bool, float, int, str, tuple, type, NoneType})
_PYTHON_NUMBERS = frozenset({bool, float, int})
# Of larger draws, by the key of the call: an autotuner, the fastest engine, or False if it is not measured.
_tuned: LRUCache[tuple[Any, ...], Autotuner | Preference | bool] = LRUCache(2000)
_MAX_NANOSECONDS = 40_000  # of drawing ahead, without the overhead of the call


class Prefetched:
    """The numbers that were drawn ahead for one call, from a word of a stream on."""

    def __init__(self, request: DrawRequest, result: Any) -> None:
        self._request = request
        self._shape = np.shape(result)
        self._size = int(np.prod(self._shape))
        self._is_number, self._is_pythons = type(result) is not np.ndarray, type(result) in _PYTHON_NUMBERS
        self._most = max(self._size, min(PREFETCH_ELEMENTS, int(_MAX_NANOSECONDS / request.kind.nanoseconds)))
        self._kept: tuple[int, Array, Callable[[], object]] | None = None

    def take(self, stream: Stream) -> Any:
        """Return the next numbers, and log the call that drew them."""
        size = self._size
        word = stream.take_index(size)
        drawn = self._kept
        first = -1 if drawn is None else word - drawn[0]
        if drawn is None or first < 0 or first + size > len(drawn[1]):
            first, drawn = 0, self._draw(Stream(stream.key, word))
        _, values, record = drawn
        record()
        if self._is_number:
            return values.item(first) if self._is_pythons else values[first]
        return values[first : first + size].reshape(self._shape).copy()

    def _draw(self, stream: Stream) -> tuple[int, Array, Callable[[], object]]:
        """Draw twice as many as before, so that programs that draw little prefetch little."""
        choice, kind, dtype, parameters = self._request
        before = 8 if self._kept is None else len(self._kept[1])
        begin, count = stream.word, max(self._size, min(2 * before, self._most))
        values = draw(choice, kind, stream, None, (count,), dtype, *parameters)
        self._kept = drawn = begin, values, native_call.call_logger(native_call.last_record())
        return drawn


def _key_of(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return the cache key of a call, or None if its arguments are not plain."""
    if named:
        arguments += (*named.values(),)
    kinds: tuple[Any, ...] = (*map(type, arguments),)
    if not _PLAIN.issuperset(kinds):
        return None
    if tuple in kinds:
        inner = [(*map(type, value),) for value in arguments if type(value) is tuple]
        if not all(_PYTHON_NUMBERS.issuperset(types) for types in inner):
            return None
        kinds += (*inner,)
    if float in kinds and 0 in arguments:  # -0.0 equals it
        kinds += (*map(repr, arguments),)
    return name, arguments, kinds, *named


def prefetching(method: F) -> F:
    """Serve a method's repeated small calls from numbers that were drawn ahead."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (_current_context.get().fast_path_engine or context.process_engine) != "auto" or (
            key := _key_of(name, args, kwargs)
        ) is None:
            return method(self, *args, **kwargs)
        ahead = self._prefetched[key]
        if ahead is not None:
            return ahead.take(self._stream)
        tuned = _tuned[key]
        if isinstance(tuned, Autotuner):
            result, best = measure(tuned, None, method, self, *args, **kwargs)
            if best is not None:
                _tuned[key] = preference_of(tuned, best.engine, best) or False
            return result
        preference = tuned if isinstance(tuned, Preference) else None
        result, offered = run_preferring(preference, method, self, *args, **kwargs)
        if offered is not None:
            drawn, request = offered
            if drawn is result or np.ndim(result) == drawn.ndim == 0:
                self._prefetched[key] = Prefetched(request, result)
        elif tuned is None and choice_is_final() and (logged := native_call.last_record()) is not None:
            estimates = native_call.estimates_of(logged)
            _tuned[key] = autotuner_of(name, estimates, may_be_numpy=False) or False
        return result

    return call  # type: ignore[return-value]
