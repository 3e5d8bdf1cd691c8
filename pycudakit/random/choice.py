"""`shuffle`, `permuted` and `choice` in terms of a generator's draws, and the bounds of `integers`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from pycudakit._families.sort import searching, sorting
from pycudakit._native.dtypes import FLOAT64, INT64, Array, DType


class SupportsDraws(Protocol):
    """The methods of a `Generator` that choosing uses."""

    @property
    def integers(self) -> Callable[..., Any]:
        """Draw integers within bounds."""
        ...

    @property
    def random(self) -> Callable[..., Any]:
        """Draw floats in [0, 1)."""
        ...

    @property
    def exponential(self) -> Callable[..., Any]:
        """Draw exponential samples."""
        ...

    @property
    def permutation(self) -> Callable[..., Any]:
        """Draw a permutation."""
        ...

    @property
    def shuffle(self) -> Callable[..., Any]:
        """Shuffle an array in place."""
        ...


ALL = (1 << 64) - 1  # bits of a word
# A sample is small if the population exceeds both `_RARE` times the sample and `_FEW`.
_RARE, _FEW = 50, 10_000


def integer_bounds(
    numpy_generator: Any, low: Any, high: Any, dtype: Any, endpoint: bool
) -> tuple[Array, Array]:
    """Return the least integer to draw, and the difference of the greatest from it, modulo 2**64."""
    kind = np.dtype(dtype)
    if np.ndim(low) == 0 and (high is None or np.ndim(high) == 0):
        numpy_generator.integers(low, high, None, dtype, endpoint)  # raises NumPy's errors
        first, last = (0, low) if high is None else (low, high)
        first, last = int(first), int(last) - (not endpoint)
        return np.array(first & ALL, np.uint64), np.array(last - first, np.uint64)
    if kind.kind not in "biu" or not kind.isnative:
        numpy_generator.integers(low, high, 1, dtype, endpoint)
    if high is None:
        low, high = 0, low
    # Computed with Python's integers, which cannot overflow, as NumPy does for its widest types.
    firsts, lasts = (np.asarray(end) for end in (low, high))
    wide = any(a.dtype.kind not in "bi" for a in (firsts, lasts)) or kind == np.uint64
    if wide:
        integer = np.frompyfunc(int, 1, 1)
        firsts, lasts = (np.asarray(integer(a), object) for a in (firsts, lasts))
    else:
        firsts, lasts = (a.astype(INT64, copy=False) for a in (firsts, lasts))
    is_empty = np.any(firsts > lasts if endpoint else firsts >= lasts)
    check_bounds(kind, endpoint, firsts, lasts, bool(is_empty))
    if wide:
        to_word = np.frompyfunc(lambda value: value & ALL, 1, 1)
        spans = to_word(lasts - firsts - (not endpoint))
        return np.asarray(to_word(firsts), np.uint64), np.asarray(spans, np.uint64)
    spans = lasts.view(np.uint64) - firsts.view(np.uint64)  # modulo 2**64
    return firsts.view(np.uint64), spans - np.uint64(not endpoint)


def integer_limits(kind: DType) -> tuple[int, int]:
    """Return the least and the greatest integer of a type."""
    return (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))


def check_bounds(kind: DType, endpoint: bool, firsts: Array, lasts: Array, is_empty: bool) -> None:
    """Raise NumPy's errors for bounds out of a type's range, and for empty intervals."""
    least, most = integer_limits(kind)
    if np.any(firsts < least) or np.any(firsts > most):
        raise ValueError(f"low is out of bounds for {kind}")
    if np.any(lasts > (most if endpoint else most + 1)):
        raise ValueError(f"high is out of bounds for {kind}")
    if is_empty:
        raise ValueError("low > high" if endpoint else "low >= high")


def shuffle(x: Any, axis: int, order_of: Callable[[int], Array]) -> None:
    """Shuffle an array or a list in place."""
    if isinstance(x, np.ndarray):
        if x.ndim == 0:
            raise TypeError("len() of unsized object")
        along = normalize_axis_index(axis, x.ndim)
        if not x.flags.writeable:
            raise ValueError("array is read-only")
        x[...] = np.take(x, order_of(x.shape[along]), along)
        return
    if axis != 0:  # NumPy's error
        raise NotImplementedError("Axis argument is only supported on ndarray objects")
    values = [x[i] for i in range(len(x))]
    if values:
        x[0] = values[0]  # raises before anything is drawn, if x is not writable
    for index, source in enumerate(order_of(len(values)).tolist()):
        x[index] = values[source]


def permuted(x: Any, axis: Any, out: Any, order_of: Callable[..., Array]) -> Array:
    """Permute the slices along an axis independently: the implementation of `Generator.permuted`."""
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
    """Choose elements of an array: the implementation of `Generator.choice`."""
    array = np.asanyarray(a)
    count = sample_count(size)
    population = _population(a, array, axis, count)
    if p is not None:
        p = checked_probabilities(p, population)
    if replace:
        if p is None:
            chosen: Any = generator.integers(0, population, size) if population else np.empty(size, INT64)
        else:
            chosen = searching.searchsorted(cumulative_probabilities(p), generator.random(size), side="right")
    else:
        check_sample(population, count, p)
        sampled = _without_replacement(generator, population, count, p, shuffled)
        chosen = sampled if size is None else sampled.reshape(size)
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
    """Return the number of elements to choose."""
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
    """Return the probabilities as float64; raise NumPy's errors."""
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
    """Return the cumulative probabilities, scaled to end at 1."""
    sums: Array = p.cumsum()
    sums /= sums[-1]
    return sums


def check_sample(population: int, count: int, p: Array | None) -> None:
    """Raise NumPy's error for a sample without replacement that is too large."""
    if count > population:
        raise ValueError("Cannot take a larger sample than population when replace is False")
    if count < 0:
        raise ValueError("negative dimensions are not allowed")
    if p is not None and np.count_nonzero(p > 0) < count:
        raise ValueError("Fewer non-zero entries in p than size")


def is_small_sample(population: int, count: int) -> bool:
    """Return True if a sample is drawn element by element, instead of permuting the population."""
    return population > _FEW and population > _RARE * count


def _without_replacement(
    generator: SupportsDraws, population: int, count: int, p: Array | None, shuffled: bool
) -> Array:
    if p is not None:
        # The `count` smallest of exponential samples with rates p are a weighted sample.
        waiting = generator.exponential(1.0, population)
        with np.errstate(divide="ignore"):
            waiting /= p
        first: Array = sorting.argsort(waiting, kind="stable")[:count]
        return first
    if is_small_sample(population, count):
        return _floyd(generator, population, count, shuffled)
    return generator.permutation(population)[:count]  # type: ignore[no-any-return]


def _floyd(generator: SupportsDraws, population: int, count: int, shuffled: bool) -> Array:
    """Draw a small sample without replacement by Floyd's algorithm (Bentley and Floyd 1987)."""
    tops = np.arange(population - count, population, dtype=INT64)
    drawn = generator.integers(0, tops, endpoint=True).tolist() if count else []
    chosen: dict[int, None] = {}
    for top, index in zip(tops.tolist(), drawn, strict=True):
        chosen[top if index in chosen else index] = None
    result = np.array(list(chosen), INT64)
    if shuffled:
        generator.shuffle(result)
    return result
