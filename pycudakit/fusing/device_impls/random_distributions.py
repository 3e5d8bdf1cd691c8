"""Distributions whose parameters are arrays on the device, drawn there.

The generator's own methods run with tracers for the parameters: what they draw, and what they compute of
it, stays there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pycudakit._families.expression.evaluate import evaluate
from pycudakit._native.dtypes import FLOAT64, INT64, Array, DType
from pycudakit.fusing.device_impls.matmul import broadcast_copy
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.random.choice import ALL, check_bounds, integer_limits
from pycudakit.random.draw_requests import DrawKind
from pycudakit.random.generator import Generator
from pycudakit.random.generator_base import NUMPY_GENERATOR, DrawArguments, as_operand
from pycudakit.random.philox import Stream

if TYPE_CHECKING:
    from typing_extensions import Self

_NO_PARAMETERS = frozenset({"size", "dtype", "endpoint"})


def draw_on_device(trace: Trace, generator: Any, name: str, arguments: Any, keywords: Any) -> Any:
    """Return what a method draws; NotImplemented where no array there is among its parameters."""
    try:
        given = inspect.signature(getattr(generator, name)).bind(*arguments, **keywords).arguments
    except TypeError:  # which the method raises
        return NotImplemented
    out = given.pop("out", None)
    for key, value in given.items():
        is_parameter = key not in _NO_PARAMETERS
        given[key] = parameter(trace, value) if is_parameter else trace.resolved(value)
    arrays = {key: value for key, value in given.items() if type(value) is Tracer}
    size = given.get("size")
    if not arrays and (out is not None or size is None or not np.size(size)):  # or it is a number
        return NotImplemented
    if name == "integers" and size is not None and 0 in np.atleast_1d(size):  # and ends are not looked at
        return trace.on_host(generator.integers, (), given | {"low": 0, "high": 1})
    if out is not None:
        if not trace.can_write_on_device(out):
            return NotImplemented
        given |= {key: array.copy() for key, array in arrays.items() if np.may_share_memory(out, array)}
        given["out"] = trace.materialize(out)
    result = getattr(DeviceGenerator.beside(generator, trace), name)(**given)
    return result if out is None else out


def parameter(trace: Trace, value: Any) -> Any:
    """Return a parameter as a number, or as what stands for an array."""
    if type(value) is Tracer:
        return value if value.ndim else trace.resolved(value)
    if type(value) in (list, tuple, np.ndarray) and np.ndim(value):
        return trace.wrap(np.asarray(trace.resolved(value)))
    return value


# ---- What NumPy refuses ----------------------------------------------------------------------------------

# Parameters that NumPy takes, of functions that do not take 1.0 for each.
_ACCEPTED: dict[str, tuple[Any, ...]] = {
    "binomial": (1, 0.5),
    "logseries": (0.5,),
    "negative_binomial": (np.finfo(FLOAT64).tiny, 1.0),
    "triangular": (0.0, 0.5, 1.0),
}


def _mean(n: Any, p: Any) -> Any:
    """Return what NumPy does not let be too large in a negative binomial distribution."""
    mean = (1 - p) / p * (n + 10 * np.sqrt(n))
    return np.where(np.isnan(mean), 0.0, mean)


# Of several parameters: what is greatest for an element that NumPy refuses, in the order in which it looks.
_VIOLATIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "negative_binomial": (_mean,),
    "triangular": (
        lambda left, mode, _: left > mode,
        lambda _, mode, right: mode > right,
        lambda left, _, right: left == right,
    ),
    "uniform": (lambda low, high: ~np.isfinite(high - low), lambda low, high: high < low),
}
_ONLY_JOINTLY_CHECKED = frozenset({"triangular", "uniform"})


def extremes(trace: Trace, a: Tracer) -> list[Any]:
    """Return the least and the greatest element, if there are some, and NaN, if there is any."""
    if not a.size:
        return []
    found: list[Any] = trace.resolved([np.min(a), np.max(a)])
    if not np.isnan(found[0]) or trace.resolved(np.all(np.isnan(a))):
        return found
    return [found[0], *trace.resolved([np.nanmin(a), np.nanmax(a)])]


def _check(trace: Trace, name: str, parameters: Sequence[Any], accepted: Sequence[Any]) -> None:
    """Raise what NumPy raises: what it refuses of an element, it refuses of the least or the greatest."""
    if name not in _ONLY_JOINTLY_CHECKED:
        values = [_values(trace, p, usual) for p, usual in zip(parameters, accepted, strict=True)]
        _ask_numpy(name, _one_at_a_time(values, accepted))
    floats = [as_operand(p, FLOAT64) for p in parameters] if name in _VIOLATIONS else []
    is_any = 0 not in np.broadcast_shapes(*map(np.shape, parameters))
    for badness in _VIOLATIONS.get(name, ()) if is_any else ():
        with np.errstate(all="ignore"):
            bad = badness(*floats)
            worst, place = trace.resolved([np.max(bad), np.argmax(bad)])
        if worst:
            places = np.unravel_index(int(place), np.shape(bad))
            _ask_numpy(name, [np.reshape(trace.resolved(_element(p, places)), 1) for p in floats])


def _values(trace: Trace, parameter: Any, usual: Any) -> Array:
    """Return those values of a parameter that NumPy is to look at, in the type in which it does."""
    if type(parameter) is not Tracer:
        return np.ravel(as_operand(parameter, INT64 if type(usual) is int else FLOAT64))
    values = np.array(extremes(trace, parameter), parameter.dtype)
    return values if type(usual) is int else values.astype(FLOAT64)


def _one_at_a_time(values: Sequence[Array], accepted: Sequence[Any]) -> list[Array]:
    """Return arrays of parameters, of which one has its own values where the others have those taken."""
    rows = sum(map(len, values))
    columns = [np.full(rows, usual, own.dtype) for own, usual in zip(values, accepted, strict=True)]
    begin = 0
    for column, own in zip(columns, values, strict=True):
        column[begin : begin + len(own)] = own
        begin += len(own)
    return columns


def _ask_numpy(name: str, parameters: Sequence[Array]) -> None:
    with np.errstate(all="ignore"):
        getattr(NUMPY_GENERATOR, name)(*parameters, (0, len(parameters[0])))


def _element(a: Any, place: tuple[Any, ...]) -> Any:
    """Return an element of an array, by its place in one that it is broadcast with."""
    along = ((0,) * a.ndim + place)[len(place) :]
    return a[tuple(0 if length == 1 else int(at) for length, at in zip(a.shape, along, strict=True))]


# ---- Drawing ---------------------------------------------------------------------------------------------


class DeviceGenerator(Generator):
    """A generator that draws where its parameters lie; of a stream that is another's, too."""

    __slots__ = ("_trace",)
    _trace: Trace

    @classmethod
    def beside(cls, generator: Any, trace: Trace) -> Self:
        """Return one that draws what a generator would, and has that draw on."""
        made = cls.__new__(cls)
        made._stream, made._prefetched, made._trace = generator._stream, {}, trace  # noqa: SLF001
        return made

    def _at(self, stream: Stream) -> Self:
        made = super()._at(stream)
        made._trace = self._trace  # noqa: SLF001
        return made

    def _draw_arguments(self, name: str, size: Any, *parameters: Any, **rest: Any) -> DrawArguments:
        if not any(type(p) is Tracer for p in parameters):
            return super()._draw_arguments(name, size, *parameters, **rest)
        accepted = _ACCEPTED.get(name, (1.0,) * len(parameters))
        self._refuse(name, parameters, accepted)
        seen = [np.broadcast_to(usual, np.shape(p)) for usual, p in zip(accepted, parameters, strict=True)]
        return super()._draw_arguments(name, size, *parameters, seen=seen, **rest)

    def _refuse(self, name: str, parameters: Sequence[Any], accepted: Sequence[Any]) -> None:
        _check(self._trace, name, parameters, accepted)

    def _ends(self, low: Any, high: Any, dtype: Any, endpoint: bool) -> tuple[Any, Any]:
        if type(low) is not Tracer and type(high) is not Tracer:
            return super()._ends(low, high, dtype, endpoint)
        kind = np.dtype(dtype)
        if kind.kind not in "biu" or not kind.isnative:
            NUMPY_GENERATOR.integers(0, 1, 1, dtype, endpoint)  # which raises
        both = (0, low) if high is None else (low, high)
        (firsts, first), (lasts, last) = (_integers(self._trace, end) for end in both)
        with np.errstate(over="ignore"):
            last = last - np.uint64(not endpoint)
        # Those of a type are ordered as words are, but for the sign.
        sign = np.uint64((kind.kind == "i") << 63)
        are_none = np.any((first ^ sign) > (last ^ sign))
        is_below = bool(firsts.size and np.any(lasts - (not endpoint) < integer_limits(kind)[0]))
        check_bounds(kind, endpoint, firsts, lasts, is_below or bool(self._trace.resolved(are_none)))
        return first, last - first

    def _run(
        self,
        name: str,
        kind: DrawKind,
        shape: tuple[int, ...],
        dtype: DType,
        numpy: Callable[[Any], Any],
        out: Array | None,
        *parameters: Any,
    ) -> Any:
        run = super()._run

        def draw(*values: Any, out: Array | None = None) -> Any:
            return run(name, kind, shape, dtype, numpy, out, *values)

        draw.__name__ = name
        named = {} if out is None else {"out": self._trace.tracer_for(out)}
        broadcast_copy = tuple([self._spread(parameter, shape) for parameter in parameters])
        return self._trace.on_device(draw, broadcast_copy, named, num_device_args=len(broadcast_copy))

    def _spread(self, parameter: Any, shape: tuple[int, ...]) -> Any:
        """Return a parameter with an element for each that is drawn, as the device reads them."""
        if type(parameter) is not Tracer or parameter.size == 1:
            return parameter
        return broadcast_copy(self._trace, parameter, shape)

    def _computed(self, expression: str, arguments: DrawArguments, x: Any, operands: dict[str, Any]) -> Any:  # noqa: ARG002
        with np.errstate(all="ignore"):
            return evaluate(expression, {"x": x, **operands})


class UncheckedDeviceGenerator(DeviceGenerator):
    """One whose parameters need no further look."""

    __slots__ = ()

    def _refuse(self, name: str, parameters: Sequence[Any], accepted: Sequence[Any]) -> None:
        """Take them all."""


def _integers(trace: Trace, end: Any) -> tuple[Array, Any]:
    """Return an end's integers modulo 2**64, after some of them that none is less or greater than.

    They are Python's `int` of its elements, as NumPy takes them.
    """
    if type(end) is not Tracer:
        integers = np.asarray(np.frompyfunc(int, 1, 1)(end), object)
        words = np.asarray(np.frompyfunc(lambda value: value & ALL, 1, 1)(integers), np.uint64)
        return integers, trace.wrap(words) if words.ndim else words
    found = extremes(trace, end)
    if end.dtype.kind == "f" and not np.all(np.isfinite(found)):
        int(trace.resolved(end.ravel()[np.argmax(~np.isfinite(end))]))  # which raises
    return np.array([int(each) for each in found], object), _words_of(end)


def _words_of(end: Any) -> Any:
    if end.dtype.kind != "f":
        return end.astype(np.uint64)
    end = as_operand(end, FLOAT64)
    with np.errstate(all="ignore"):
        negative = np.clip(end, -(2.0**63), 0.0).astype(INT64).astype(np.uint64)
        positive = np.where((end >= 0) & (end < 2.0**64), end, 0.0).astype(np.uint64)
    return np.where(end < 0, negative, positive)
