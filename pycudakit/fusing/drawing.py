"""Arrays on the device that a generator of the kit's chooses from, or puts in another order, there.

Each function returns NotImplemented for what the host does. What is drawn is drawn there, too.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit.fusing.recording import Recording
from pycudakit.fusing.shapes import Handler
from pycudakit.fusing.stand_in import StandIn

DRAWING: dict[str, Handler] = {}


def _draws(handler: Handler) -> Handler:
    DRAWING[handler.__name__.removeprefix("_")] = handler
    return handler


def _order(recording: Recording, generator: Any, shape: tuple[int, ...], axis: int = -1) -> Any:
    """Return the order along an axis of as many random words."""
    words = recording.at_home(generator._words, shape, {}, places=0)  # noqa: SLF001
    return recording.call(np.argsort, (words, axis), {})


def _axis_of(x: Any, axis: Any) -> int | None:
    """Return an axis along which elements can be put in another order there, or None."""
    if type(x) is not StandIn or not x.ndim or not x.size or type(axis) is not int:
        return None
    return normalize_axis_index(axis, x.ndim)


@_draws
def _permutation(recording: Recording, generator: Any, x: Any, axis: Any = 0) -> Any:
    along = _axis_of(x, axis)
    if along is None:
        return NotImplemented
    return recording.call(np.take, (x, _order(recording, generator, (x.shape[along],)), along), {})


@_draws
def _shuffle(recording: Recording, generator: Any, x: Any, axis: Any = 0) -> Any:
    if _axis_of(x, axis) is None:
        return NotImplemented
    if not x.flags.writeable:
        raise ValueError("array is read-only")
    recording.set(x, ..., _permutation(recording, generator, x, axis))
    return None


@_draws
def _permuted(recording: Recording, generator: Any, x: Any, *, axis: Any = None, out: Any = None) -> Any:
    along = _axis_of(x, 0 if axis is None else axis)
    may_be_written = out is None or (
        recording.is_there(out) and out.shape == x.shape and np.can_cast(x.dtype, out.dtype, "safe")
    )
    if along is None or not may_be_written:
        return NotImplemented
    if axis is None:
        order = _order(recording, generator, (x.size,))
        result = recording.call(np.take, (x.ravel(), order), {}).reshape(x.shape)
    elif along == x.ndim - 1:
        order = _order(recording, generator, x.shape)
        result = recording.call(np.take_along_axis, (x, order, along), {})
    else:
        # The words are those of the elements in C order, whatever the axis.
        order = _order(recording, generator, x.shape, along).swapaxes(along, -1)
        turned = [recording.call(np.copy, (each, "C"), {}) for each in (x.swapaxes(along, -1), order)]
        result = recording.call(np.take_along_axis, (*turned, -1), {}).swapaxes(along, -1)
    if out is None:
        return result if axis is None else recording.call(np.copy, (result, "C"), {})
    recording.set(out, ..., result)
    return out


@_draws
def _choice(
    recording: Recording,
    generator: Any,
    a: Any,
    size: Any = None,
    replace: Any = True,
    p: Any = None,
    axis: Any = 0,
    shuffle: Any = True,
) -> Any:
    along = _axis_of(a, axis)
    if along is None or size == ():
        return NotImplemented
    given = (a.shape[along], size, replace, p, 0, shuffle)
    if replace and p is None:
        place = recording.at_home(generator.choice, given, {}, places=0)
    else:
        place = recording.on_host(generator.choice, given, {})
    if size is None:
        return recording.get(a, (*(slice(None),) * along, int(place))).copy()
    return recording.call(np.take, (a, place, along), {})


# ---- Distributions whose parameters are arrays there -----------------------------------------------------

_NO_PARAMETERS = ("size", "dtype", "out")


def _base() -> Any:
    return importlib.import_module("pycudakit.random.base")


def _parameters(generator: Any, name: str, arguments: Any, keywords: Any) -> dict[str, Any] | None:
    """Return what a method is given, by name; None where no array there is among the parameters."""
    try:
        bound = inspect.signature(getattr(generator, name)).bind(*arguments, **keywords)
    except TypeError:  # which the method raises
        return None
    given = dict(bound.arguments)
    asked = {key: value for key, value in given.items() if key not in _NO_PARAMETERS}
    arrays = [value for value in asked.values() if type(value) is StandIn]
    are_usable = arrays and all(a.size and a.ndim and a.dtype.kind in "biuf" for a in arrays)
    are_alone = all(type(value) is StandIn or np.ndim(value) == 0 for value in asked.values())
    return given if are_usable and are_alone and given.get("out") is None else None


def _ends(recording: Recording, a: Any) -> list[Any]:
    """Return the least and the greatest element, and NaN, if there is any."""
    found = recording.resolved([np.min(a), np.max(a)])
    if not np.isnan(found[0]):
        return found  # type: ignore[no-any-return]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NaN alone
        return [found[0], *recording.resolved([np.nanmin(a), np.nanmax(a)])]


def _check(recording: Recording, name: str, given: dict[str, Any]) -> None:
    """Raise what NumPy raises: what it refuses of an element, it refuses of the least or the greatest."""
    ends = {
        key: _ends(recording, value) if type(value) is StandIn else value
        for key, value in given.items()
        if key not in _NO_PARAMETERS
    }
    numbers = [np.ravel(value) for value in ends.values()]
    for places in np.ndindex(*map(len, numbers)):
        chosen = {key: own[[place]] for key, own, place in zip(ends, numbers, places, strict=True)}
        getattr(_base().NUMPYS, name)(**chosen, size=(0, 1))


def _distribution(name: str) -> Handler:
    def handle(recording: Recording, generator: Any, *arguments: Any, **keywords: Any) -> Any:
        given = _parameters(generator, name, arguments, keywords)
        if given is None:
            return NotImplemented
        _check(recording, name, given)
        arrays = {key: value for key, value in given.items() if type(value) is StandIn}
        doubles = [a if a.dtype == np.float64 else a.astype(np.float64) for a in arrays.values()]
        rest = {key: recording.resolved(value) for key, value in given.items() if key not in arrays}

        def draw(*values: Any) -> Any:
            token = _base().are_seen.set(True)
            try:
                return getattr(generator, name)(**dict(zip(arrays, values, strict=True)), **rest)
            finally:
                _base().are_seen.reset(token)

        draw.__name__ = name
        return recording.at_home(draw, doubles, {}, places=len(doubles))  # type: ignore[arg-type]

    return handle


for _name in "beta exponential gamma geometric lognormal normal poisson standard_gamma".split():  # noqa: SIM905
    DRAWING[_name] = _distribution(_name)


@_draws
def _uniform(recording: Recording, generator: Any, *arguments: Any, **keywords: Any) -> Any:
    given = _parameters(generator, "uniform", arguments, keywords)
    if given is None:
        return NotImplemented
    low, high, size = given.get("low", 0.0), given.get("high", 1.0), given.get("size")
    if size is not None or not all(type(end) in (int, float, StandIn) for end in (low, high)):
        return NotImplemented
    low, high = (end.astype(np.float64) if type(end) is StandIn else float(end) for end in (low, high))
    span: Any = high - low
    _check(recording, "uniform", {"low": 0.0, "high": span})
    return low + span * recording.at_home(generator.random, (span.shape,), {}, places=0)
