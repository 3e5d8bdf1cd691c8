"""The arguments of `integers`, and `shuffle`, `permuted` and `choice`, in terms of what a generator draws."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._families.sort import sorting
from pycudakit._native.dtypes import FLOAT64, INT64, Array, DType


class SupportsDraws(Protocol):
    """What choosing draws from: a `Generator`."""

    @property
    def integers(self) -> Callable[..., Any]:
        """Draw integers below a limit."""
        ...

    @property
    def random(self) -> Callable[..., Any]:
        """Draw floats of [0, 1)."""
        ...

    @property
    def exponential(self) -> Callable[..., Any]:
        """Draw waiting times."""
        ...

    @property
    def permutation(self) -> Callable[..., Any]:
        """Draw an order."""
        ...

    @property
    def shuffle(self) -> Callable[..., Any]:
        """Put an array in such an order."""
        ...


ALL = (1 << 64) - 1  # bits of a word
# Of a population so many times as large as the sample, and larger than this.
_RARE, _FEW = 50, 10_000


def integer_bounds(numpys: Any, low: Any, high: Any, dtype: Any, endpoint: bool) -> tuple[Array, Array]:
    """Return the least of the integers to draw, and how much more the greatest is, modulo 2**64."""
    kind = np.dtype(dtype)
    if np.ndim(low) == 0 and (high is None or np.ndim(high) == 0):
        numpys.integers(low, high, None, dtype, endpoint)  # raises what there is to raise
        first, last = (0, low) if high is None else (low, high)
        first, last = int(first), int(last) - (not endpoint)
        return np.array(first & ALL, np.uint64), np.array(last - first, np.uint64)
    if kind.kind not in "biu" or not kind.isnative:
        numpys.integers(low, high, 1, dtype, endpoint)
    if high is None:
        low, high = 0, low
    # As Python's integers, which hold all: NumPy's own way for its widest types.
    firsts, lasts = (np.asarray(end) for end in (low, high))
    wide = any(a.dtype.kind not in "bi" for a in (firsts, lasts)) or kind == np.uint64
    if wide:
        integer = np.frompyfunc(int, 1, 1)
        firsts, lasts = (np.asarray(integer(a), object) for a in (firsts, lasts))
    else:
        firsts, lasts = (a.astype(INT64, copy=False) for a in (firsts, lasts))
    are_none = np.any(firsts > lasts if endpoint else firsts >= lasts)
    check_bounds(kind, endpoint, firsts, lasts, bool(are_none))
    if wide:
        to_word = np.frompyfunc(lambda value: value & ALL, 1, 1)
        spans = to_word(lasts - firsts - (not endpoint))
        return np.asarray(to_word(firsts), np.uint64), np.asarray(spans, np.uint64)
    spans = lasts.view(np.uint64) - firsts.view(np.uint64)  # which wrap as they must
    return firsts.view(np.uint64), spans - np.uint64(not endpoint)


def integer_limits(kind: DType) -> tuple[int, int]:
    """Return the least and the greatest integer of a type."""
    return (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))


def check_bounds(kind: DType, endpoint: bool, firsts: Array, lasts: Array, are_none: bool) -> None:
    """Refuse ends, or the least and the greatest of each, that NumPy refuses; and ends with none between."""
    least, most = integer_limits(kind)
    if np.any(firsts < least) or np.any(firsts > most):
        raise ValueError(f"low is out of bounds for {kind}")
    if np.any(lasts > (most if endpoint else most + 1)):
        raise ValueError(f"high is out of bounds for {kind}")
    if are_none:
        raise ValueError("low > high" if endpoint else "low >= high")


def shuffle(x: Any, axis: int, order_of: Callable[[int], Array]) -> None:
    """Reorder in place."""
    if isinstance(x, np.ndarray):
        if x.ndim == 0:
            raise TypeError("len() of unsized object")
        along = normalize_axis_index(axis, x.ndim)
        if not x.flags.writeable:
            raise ValueError("array is read-only")
        x[...] = np.take(x, order_of(x.shape[along]), along)
        return
    if axis != 0:  # as NumPy refuses it
        raise NotImplementedError("Axis argument is only supported on ndarray objects")
    values = [x[i] for i in range(len(x))]
    if values:
        x[0] = values[0]  # raises before anything is drawn, if it takes none
    for place, source in enumerate(order_of(len(values)).tolist()):
        x[place] = values[source]


def permuted(x: Any, axis: Any, out: Any, order_of: Callable[..., Array]) -> Array:
    """Return the elements along an axis in orders of their own, as `Generator.permuted` says."""
    array = np.asarray(x)
    if out is not None:
        if type(out) is not np.ndarray:
            raise TypeError("out must be a numpy array")
        if out.shape != array.shape:
            raise ValueError("out must have the same shape as x")
        np.copyto(np.empty(0, out.dtype), np.empty(0, array.dtype), casting="safe")
        if not out.flags.writeable:
            raise ValueError("out is read-only")
    if axis is None:
        if array.ndim == 0:
            raise TypeError("len() of unsized object")
        result = array.reshape(-1)[order_of(array.size)].reshape(array.shape)
    else:
        along = normalize_axis_index(axis, array.ndim)
        result = np.take_along_axis(array, order_of(*array.shape, axis=along), along)
    if out is None:
        return result
    np.copyto(out, result)
    return out  # type: ignore[no-any-return]


def choose(
    generator: SupportsDraws, a: Any, size: Any, replace: bool, p: Any, axis: int, shuffled: bool
) -> Any:
    """Choose elements, as `Generator.choice` says."""
    array = np.asanyarray(a)
    count = sample_count(size)
    population = _population(a, array, axis, count)
    if p is not None:
        p = checked_probabilities(p, population)
    if replace:
        if p is None:
            chosen: Any = generator.integers(0, population, size) if population else np.empty(size, INT64)
        else:
            chosen = sorting.searchsorted(cumulative_probabilities(p), generator.random(size), side="right")
    else:
        check_sample(population, count, p)
        found = _without_replacement(generator, population, count, p, shuffled)
        chosen = found if size is None else found.reshape(size)
    chosen = np.asarray(chosen)
    if size is None:
        chosen = int(chosen.item())
    if array.ndim == 0:
        return chosen
    if size is not None and chosen.ndim == 0 and array.ndim == 1:
        result = np.empty((), array.dtype)
        result[()] = array[chosen]
        return result
    return array.take(chosen, axis)


def sample_count(size: Any) -> int:
    """Return how many are chosen."""
    return 1 if size is None else int(np.prod(size, dtype=np.intp))


def _population(a: Any, array: Array, axis: int, count: int) -> int:
    if array.ndim == 0:
        try:
            population: int = operator.index(array.item())
        except TypeError:
            raise ValueError(f"a must be a sequence or an integer, not {type(a)}") from None
        if population <= 0 and count != 0:
            raise ValueError("a must be a positive integer unless no samples are taken")
        return population
    population = int(array.shape[axis])
    if population == 0 and count != 0:
        raise ValueError("a cannot be empty unless no samples are taken")
    return population


def checked_probabilities(p: Any, population: int) -> Array:
    """Return what is given as probabilities, refusing what NumPy refuses."""
    tolerance = math.sqrt(np.finfo(FLOAT64).eps)
    if isinstance(p, np.ndarray) and np.issubdtype(p.dtype, np.floating):
        tolerance = max(tolerance, math.sqrt(np.finfo(p.dtype).eps))
    probabilities = np.asarray(p, FLOAT64)
    if probabilities.ndim != 1:
        raise ValueError("p must be 1-dimensional")
    if probabilities.size != population:
        raise ValueError("a and p must have same size")
    total = math.fsum(probabilities)
    if np.isnan(total):
        raise ValueError("Probabilities contain NaN")
    if np.any(probabilities < 0):
        raise ValueError("Probabilities are not non-negative")
    if abs(total - 1.0) > tolerance:
        raise ValueError(
            "Probabilities do not sum to 1. See Notes section of docstring for more information."
        )
    return probabilities


def cumulative_probabilities(p: Array) -> Array:
    """Return the ends of the intervals of [0, 1) that have these lengths, one after the other."""
    sums: Array = p.cumsum()
    sums /= sums[-1]
    return sums


def check_sample(population: int, count: int, p: Array | None) -> None:
    """Refuse to choose so many without replacement where NumPy refuses it."""
    if count > population:
        raise ValueError("Cannot take a larger sample than population when replace is False")
    if count < 0:
        raise ValueError("negative dimensions are not allowed")
    if p is not None and np.count_nonzero(p > 0) < count:
        raise ValueError("Fewer non-zero entries in p than size")


def is_small_sample(population: int, count: int) -> bool:
    """Tell whether a sample is so small that its elements are drawn, and not keys for all."""
    return population > _FEW and population > _RARE * count


def _without_replacement(
    generator: SupportsDraws, population: int, count: int, p: Array | None, shuffled: bool
) -> Array:
    if p is not None:
        # Whoever comes first of exponential waiting times, and then who comes next.
        waiting = generator.exponential(1.0, population)
        with np.errstate(divide="ignore"):
            waiting /= p
        first: Array = sorting.argsort(waiting, kind="stable")[:count]
        return first
    if is_small_sample(population, count):
        return _floyd(generator, population, count, shuffled)
    return generator.permutation(population)[:count]  # type: ignore[no-any-return]


def _floyd(generator: SupportsDraws, population: int, count: int, shuffled: bool) -> Array:
    """Choose few of many: each time one of one more, and the last of these if it has been chosen."""
    tops = np.arange(population - count, population, dtype=INT64)
    drawn = generator.integers(0, tops, endpoint=True).tolist() if count else []
    chosen: dict[int, None] = {}
    for top, index in zip(tops.tolist(), drawn, strict=True):
        chosen[top if index in chosen else index] = None
    result = np.array(list(chosen), INT64)
    if shuffled:
        generator.shuffle(result)
    return result
