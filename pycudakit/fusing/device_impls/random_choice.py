"""Generator methods on device-resident arrays: `choice`, `permutation`, `shuffle`, `permuted`.

The random numbers are drawn on the device, too. A permutation is the argsort of random words. This module
also registers the distributions whose parameters are device arrays. Functions return NotImplemented for calls
that the host must compute.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._native.dtypes import INT64
from pycudakit.fusing.device_impls.take import take_along_unchecked, take_unchecked
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, empty, full

DRAWING: dict[str, Handler] = {}


def _draws(handler: Handler) -> Handler:
    DRAWING[handler.__name__.removeprefix("_")] = handler
    return handler


def _order(trace: Trace, generator: Any, shape: tuple[int, ...], axis: int = -1) -> Any:
    """Return a random permutation of indices along an axis: the argsort of random words."""
    words = trace.on_device(generator._words, shape, {}, num_device_args=0)  # noqa: SLF001
    return trace.call(np.argsort, (words, axis), {})


def _axis_of(x: Any, axis: Any) -> int | None:
    """Return the normalized axis along which a device array can be permuted, or None."""
    if type(x) is not Tracer or not x.ndim or not x.size or not isinstance(axis, (int, np.integer)):
        return None
    return normalize_axis_index(int(axis), x.ndim)


@_draws
def _permutation(trace: Trace, generator: Any, x: Any, axis: Any = 0) -> Any:
    along = _axis_of(x, axis)
    if along is None:
        return NotImplemented
    return take_unchecked(trace, x, _order(trace, generator, (x.shape[along],)), along)


@_draws
def _shuffle(trace: Trace, generator: Any, x: Any, axis: Any = 0) -> Any:
    if _axis_of(x, axis) is None:
        return NotImplemented
    if not x.flags.writeable:
        raise ValueError("array is read-only")
    trace.set(x, ..., _permutation(trace, generator, x, axis))
    return None


@_draws
def _permuted(trace: Trace, generator: Any, x: Any, *, axis: Any = None, out: Any = None) -> Any:
    along = _axis_of(x, 0 if axis is None else axis)
    may_be_written = out is None or (
        type(out) is Tracer
        and out.shape == x.shape
        and np.can_cast(x.dtype, out.dtype, "safe")
        and out.flags.writeable
    )
    if along is None or not may_be_written:
        return NotImplemented
    if axis is None:
        order = _order(trace, generator, (x.size,))
        result = take_unchecked(trace, x.ravel(), order).reshape(x.shape)
    elif along == x.ndim - 1:
        order = _order(trace, generator, x.shape)
        result = take_along_unchecked(trace, x, order, along)
    else:
        # The words are those of the elements in C order, whatever the axis.
        order = _order(trace, generator, x.shape, along).swapaxes(along, -1)
        turned = [trace.call(np.copy, (each, "C"), {}) for each in (x.swapaxes(along, -1), order)]
        result = take_along_unchecked(trace, *turned).swapaxes(along, -1)
    if out is None:
        return result if axis is None else trace.call(np.copy, (result, "C"), {})
    trace.set(out, ..., result)
    return out


@_draws
def _choice(
    trace: Trace,
    generator: Any,
    a: Any,
    size: Any = None,
    replace: Any = True,
    p: Any = None,
    axis: Any = 0,
    shuffle: Any = True,
) -> Any:
    size, p = trace.resolved(size), trace.resolved(p)
    if size is not None and not np.size(size):
        chosen = _choice(trace, generator, a, 1, replace, p, axis, shuffle)
        return chosen if type(chosen) is not Tracer else np.squeeze(chosen, _axis_of(a, axis) or 0)
    if type(a) is Tracer and not a.ndim:
        a = np.asarray(trace.resolved(a)).item()
    if isinstance(a, (int, np.integer)) and a > 0:
        return _chosen_indices(trace, generator, int(a), size, replace, p, shuffle)
    population = a.shape[axis] if type(a) is Tracer and a.ndim else 0
    along = _axis_of(a, axis)
    if along is None:
        return NotImplemented
    index = _chosen_indices(trace, generator, population, size, replace, p, shuffle)
    if size is None:
        return trace.get(a, (*(slice(None),) * along, index)).copy()
    return take_unchecked(trace, a, index, along)


def _chosen_indices(
    trace: Trace, generator: Any, population: int, size: Any, replace: Any, p: Any, shuffle: Any
) -> Any:
    """Draw the indices of the chosen elements; an integer if `size` is None."""
    rules: Any = importlib.import_module("pycudakit.random.choice")
    count = rules.sample_count(size)
    if p is not None:
        p = rules.checked_probabilities(p, population)
    if not replace:
        rules.check_sample(population, count, p)
    if size is None and (replace or p is None):
        index = trace.on_host(generator.choice, (population, None, replace, p, 0, shuffle), {})
        return int(trace.resolved(index))
    if replace and p is None:
        return trace.on_device(generator.integers, (0, population, size), {}, num_device_args=0)
    if replace:
        drawn = trace.on_device(generator.random, (size,), {}, num_device_args=0)
        return trace.call(
            np.searchsorted, (trace.wrap(rules.cumulative_probabilities(p)), drawn), {"side": "right"}
        )
    if p is None and rules.is_small_sample(population, count):
        order = _floyd_sample(trace, generator, population, count, shuffle)
    elif p is None:
        order = _order(trace, generator, (population,))
    else:
        arrival_times = trace.on_device(generator.exponential, (1.0, population), {}, num_device_args=0)
        with np.errstate(divide="ignore"):
            order = trace.call(np.argsort, (arrival_times / trace.wrap(p),), {"kind": "stable"})
    return int(trace.resolved(order[0])) if size is None else order[:count].reshape(size)


def _floyd_sample(trace: Trace, generator: Any, population: int, count: int, shuffle: Any) -> Any:
    """Draw a few of many indices by Floyd's sampling algorithm (Bentley and Floyd 1987), in parallel.

    Draw j is from 0 to top j; if that index was chosen before, top j is taken instead.
    """
    if not count:
        return empty(trace, (0,), INT64)
    draws: Any = importlib.import_module("pycudakit.fusing.device_impls.random_distributions")
    nth = np.cumsum(full(trace, (count,), 1, INT64)) - 1
    tops = nth + (population - count)
    drawn = draws.DeviceGenerator.sharing_stream(generator, trace).integers(0, tops, endpoint=True)
    # An index was chosen before if an earlier draw gave it, or if it is the top that an earlier draw took.
    order = trace.call(np.argsort, (drawn,), {"kind": "stable"})
    first = take_unchecked(trace, order, np.searchsorted(drawn[order], drawn))
    was_chosen = first < nth
    link = np.where(drawn < population - count, nth, drawn - (population - count))
    while True:
        propagated = was_chosen | take_unchecked(trace, was_chosen, link)
        if not trace.resolved(np.any(propagated != was_chosen)):
            break
        was_chosen = propagated
    chosen = np.where(was_chosen, tops, drawn)
    return _permutation(trace, generator, chosen) if shuffle else chosen


# ---- Distributions whose parameters are arrays on the device ---------------------------------------------

_NAMES = """beta binomial chisquare exponential f gamma geometric gumbel integers laplace logistic lognormal
logseries negative_binomial noncentral_chisquare noncentral_f normal pareto poisson power rayleigh
standard_cauchy standard_gamma standard_t triangular uniform wald weibull"""


def _distribution(name: str) -> Handler:
    def handle(trace: Trace, generator: Any, *arguments: Any, **keywords: Any) -> Any:
        draws: Any = importlib.import_module("pycudakit.fusing.device_impls.random_distributions")
        return draws.draw_on_device(trace, generator, name, arguments, keywords)

    return handle


def _filling_fortran_order(name: str) -> Handler:
    def handle(trace: Trace, generator: Any, *arguments: Any, **keywords: Any) -> Any:
        """Draw into an array in Fortran order, which is filled in memory order."""
        method = getattr(generator, name)
        try:
            given = inspect.signature(method).bind(*arguments, **keywords).arguments
        except TypeError:  # the method raises it
            return NotImplemented
        out, size = given.get("out"), trace.resolved(given.pop("size", None))
        if trace.can_write_on_device(out) or type(out) is not Tracer or not trace.can_write_on_device(out.T):
            return NotImplemented
        if size is not None and tuple(np.atleast_1d(size)) != out.shape:
            return NotImplemented
        trace.on_device(method, (), {**given, "out": out.T}, num_device_args=0)
        return out

    return handle


def _multivariate(name: str) -> Handler:
    def handle(trace: Trace, generator: Any, *arguments: Any, **keywords: Any) -> Any:
        draws: Any = importlib.import_module("pycudakit.fusing.device_impls.random_multivariate")
        try:
            inspect.signature(getattr(generator, name)).bind(*arguments, **keywords)
        except TypeError:  # the method raises it
            return NotImplemented
        return getattr(draws, name)(trace, generator, *arguments, **keywords)

    return handle


for _name in _NAMES.split():
    DRAWING[_name] = _distribution(_name)
for _name in ("random", "standard_exponential", "standard_normal"):
    DRAWING[_name] = _filling_fortran_order(_name)
for _name in ("dirichlet", "multinomial", "multivariate_normal"):
    DRAWING[_name] = _multivariate(_name)
