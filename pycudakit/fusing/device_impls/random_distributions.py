"""Random distributions whose parameters are device-resident arrays, drawn on the device.

The methods of `Generator` run with tracers as parameters, so their draws and their arithmetic stay on the
device. Parameters are validated by their extremes, which are the only values that the host reads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pycudakit._families.expression.evaluate import evaluate
from pycudakit._native.dtypes import FLOAT64, INT64, Array, DType
from pycudakit._runtime.lru_cache import LRUCache
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
    """Draw by a generator method; return NotImplemented if no parameter is a device array."""
    try:
        bound = inspect.signature(getattr(generator, name)).bind(*arguments, **keywords).arguments
    except TypeError:  # the method raises it
        return NotImplemented
    out = bound.pop("out", None)
    for key, value in bound.items():
        is_parameter = key not in _NO_PARAMETERS
        bound[key] = parameter(trace, value) if is_parameter else trace.resolved(value)
    arrays = {key: value for key, value in bound.items() if type(value) is Tracer}
    size = bound.get("size")
    if not arrays and (out is not None or size is None or not np.size(size)):  # or the result is a scalar
        return NotImplemented
    if (
        name == "integers" and size is not None and 0 in np.atleast_1d(size)
    ):  # NumPy does not validate the bounds then
        return trace.on_host(generator.integers, (), bound | {"low": 0, "high": 1})
    if out is not None:
        if not trace.can_write_on_device(out):
            return NotImplemented
        bound |= {key: array.copy() for key, array in arrays.items() if np.may_share_memory(out, array)}
        bound["out"] = trace.materialize(out)
    result = getattr(DeviceGenerator.sharing_stream(generator, trace), name)(**bound)
    return result if out is None else out


def parameter(trace: Trace, value: Any) -> Any:
    """Return a parameter as a number or as a tracer."""
    if type(value) is Tracer:
        return value if value.ndim else trace.resolved(value)
    if type(value) in (list, tuple, np.ndarray) and np.ndim(value):
        return trace.wrap(np.asarray(trace.resolved(value)))
    return value


# ---- Validation of parameters ----------------------------------------------------------------------------

# Valid parameters of the functions for which 1.0 is not valid for each.
_ACCEPTED: dict[str, tuple[Any, ...]] = {
    "binomial": (1, 0.5),
    "logseries": (0.5,),
    "negative_binomial": (np.finfo(FLOAT64).tiny, 1.0),
    "triangular": (0.0, 0.5, 1.0),
}


def _mean(n: Any, p: Any) -> Any:
    """Return the bound on a negative binomial distribution that NumPy checks for being too large."""
    mean = (1 - p) / p * (n + 10 * np.sqrt(n))
    return np.where(np.isnan(mean), 0.0, mean)


# Checks of several parameters together, in NumPy's order: an element that NumPy rejects maximizes the value.
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
    """Return the minimum and the maximum, if there are elements, and NaN, if there is one."""
    if not a.size:
        return []
    limits: list[Any] = trace.resolved([np.min(a), np.max(a)])
    if not np.isnan(limits[0]) or trace.resolved(np.all(np.isnan(a))):
        return limits
    return [limits[0], *trace.resolved([np.nanmin(a), np.nanmax(a)])]


def _check(trace: Trace, name: str, parameters: Sequence[Any], accepted: Sequence[Any]) -> None:
    """Raise NumPy's errors: an invalid element implies that the minimum or the maximum is invalid."""
    if name not in _ONLY_JOINTLY_CHECKED:
        values = [_values(trace, p, valid) for p, valid in zip(parameters, accepted, strict=True)]
        _ask_numpy(name, _one_at_a_time(values, accepted))
    floats = [as_operand(p, FLOAT64) for p in parameters] if name in _VIOLATIONS else []
    is_any = 0 not in np.broadcast_shapes(*map(np.shape, parameters))
    for badness in _VIOLATIONS.get(name, ()) if is_any else ():
        with np.errstate(all="ignore"):
            bad = badness(*floats)
            worst, position = trace.resolved([np.max(bad), np.argmax(bad)])
        if worst:
            indices = np.unravel_index(int(position), np.shape(bad))
            _ask_numpy(name, [np.reshape(trace.resolved(_element(p, indices)), 1) for p in floats])


def _values(trace: Trace, parameter: Any, valid: Any) -> Array:
    """Return the values of a parameter that NumPy is to validate, in the dtype that it uses."""
    if type(parameter) is not Tracer:
        return np.ravel(as_operand(parameter, INT64 if type(valid) is int else FLOAT64))
    values = np.array(extremes(trace, parameter), parameter.dtype)
    return values if type(valid) is int else values.astype(FLOAT64)


def _one_at_a_time(values: Sequence[Array], accepted: Sequence[Any]) -> list[Array]:
    """Return parameter arrays in which one parameter varies at a time and the others are valid."""
    rows = sum(map(len, values))
    columns = [
        np.full(rows, valid, parameter_values.dtype)
        for parameter_values, valid in zip(values, accepted, strict=True)
    ]
    begin = 0
    for column, parameter_values in zip(columns, values, strict=True):
        column[begin : begin + len(parameter_values)] = parameter_values
        begin += len(parameter_values)
    return columns


def _ask_numpy(name: str, parameters: Sequence[Array]) -> None:
    with np.errstate(all="ignore"):
        getattr(NUMPY_GENERATOR, name)(*parameters, (0, len(parameters[0])))


def _element(a: Any, index: tuple[Any, ...]) -> Any:
    """Return an element of an array by its index in the broadcast shape."""
    own_index = ((0,) * a.ndim + index)[len(index) :]
    return a[
        tuple(
            0 if length == 1 else int(position) for length, position in zip(a.shape, own_index, strict=True)
        )
    ]


# ---- Drawing ---------------------------------------------------------------------------------------------


class DeviceGenerator(Generator):
    """A generator that draws on the device, with traced parameters; it shares another generator's stream."""

    __slots__ = ("_trace",)
    _trace: Trace

    @classmethod
    def sharing_stream(cls, generator: Any, trace: Trace) -> Self:
        """Return a device generator that shares the stream of `generator` and advances it."""
        shared = cls.__new__(cls)
        shared._stream, shared._trace = generator._stream, trace  # noqa: SLF001
        shared._prefetched = LRUCache(2)  # noqa: SLF001
        return shared

    def _at(self, stream: Stream) -> Self:
        made = super()._at(stream)
        made._trace = self._trace  # noqa: SLF001
        return made

    def _draw_arguments(self, name: str, size: Any, *parameters: Any, **rest: Any) -> DrawArguments:
        if not any(type(p) is Tracer for p in parameters):
            return super()._draw_arguments(name, size, *parameters, **rest)
        accepted = _ACCEPTED.get(name, (1.0,) * len(parameters))
        self._refuse(name, parameters, accepted)
        placeholders = [
            np.broadcast_to(usual, np.shape(p)) for usual, p in zip(accepted, parameters, strict=True)
        ]
        return super()._draw_arguments(name, size, *parameters, placeholders=placeholders, **rest)

    def _refuse(self, name: str, parameters: Sequence[Any], accepted: Sequence[Any]) -> None:
        _check(self._trace, name, parameters, accepted)

    def _ends(self, low: Any, high: Any, dtype: Any, endpoint: bool) -> tuple[Any, Any]:
        if type(low) is not Tracer and type(high) is not Tracer:
            return super()._ends(low, high, dtype, endpoint)
        kind = np.dtype(dtype)
        if kind.kind not in "biu" or not kind.isnative:
            NUMPY_GENERATOR.integers(0, 1, 1, dtype, endpoint)  # raises
        both = (0, low) if high is None else (low, high)
        (firsts, first), (lasts, last) = (_integers(self._trace, end) for end in both)
        with np.errstate(over="ignore"):
            last = last - np.uint64(not endpoint)
        # With the sign bit flipped, signed integers compare as unsigned words.
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
        out_keyword = {} if out is None else {"out": self._trace.tracer_for(out)}
        spread = tuple([self._spread(parameter, shape) for parameter in parameters])
        return self._trace.on_device(draw, spread, out_keyword, num_device_args=len(spread))

    def _spread(self, parameter: Any, shape: tuple[int, ...]) -> Any:
        """Broadcast a parameter to the shape of the draws, with memory for each element."""
        if type(parameter) is not Tracer or parameter.size == 1:
            return parameter
        return broadcast_copy(self._trace, parameter, shape)

    def _computed(self, expression: str, arguments: DrawArguments, x: Any, operands: dict[str, Any]) -> Any:  # noqa: ARG002
        with np.errstate(all="ignore"):
            return evaluate(expression, {"x": x, **operands})


class UncheckedDeviceGenerator(DeviceGenerator):
    """A device generator whose parameters are validated already."""

    __slots__ = ()

    def _refuse(self, name: str, parameters: Sequence[Any], accepted: Sequence[Any]) -> None:
        """Accept all parameters."""


def _integers(trace: Trace, end: Any) -> tuple[Array, Any]:
    """Return the extremes of a bound, and all its integers modulo 2**64.

    The integers are `int()` of the elements, as NumPy converts them.
    """
    if type(end) is not Tracer:
        integers = np.asarray(np.frompyfunc(int, 1, 1)(end), object)
        words = np.asarray(np.frompyfunc(lambda value: value & ALL, 1, 1)(integers), np.uint64)
        return integers, trace.wrap(words) if words.ndim else words
    limits = extremes(trace, end)
    if end.dtype.kind == "f" and not np.all(np.isfinite(limits)):
        int(trace.resolved(end.ravel()[np.argmax(~np.isfinite(end))]))  # raises
    return np.array([int(each) for each in limits], object), _words_of(end)


def _words_of(end: Any) -> Any:
    if end.dtype.kind != "f":
        return end.astype(np.uint64)
    end = as_operand(end, FLOAT64)
    with np.errstate(all="ignore"):
        negative = np.clip(end, -(2.0**63), 0.0).astype(INT64).astype(np.uint64)
        positive = np.where((end >= 0) & (end < 2.0**64), end, 0.0).astype(np.uint64)
    return np.where(end < 0, negative, positive)
