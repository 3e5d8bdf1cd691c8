"""The composite `pad`: all modes of `np.pad` but callables and odd reflections."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit.fusing.composites.decorator import NumPyOnly, composite

_KEYWORDS = {
    "constant": "constant_values",
    "empty": "",
    "edge": "",
    "wrap": "",
    "linear_ramp": "end_values",
    **dict.fromkeys(("reflect", "symmetric"), "reflect_type"),
    **dict.fromkeys(("maximum", "mean", "median", "minimum"), "stat_length"),
}


@composite("array")
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """Pad an array at both ends of its axes.

    Parameters
    ----------
    array : array_like
        The array.
    pad_width : int, sequence of ints or dict
        The number of elements to add before and after each axis.
    mode : str or callable
        A mode of `np.pad`; NumPy itself runs the call if it is a callable.
    **kwargs
        ``constant_values``, ``end_values``, ``stat_length`` or ``reflect_type``, depending on the mode.

    Returns
    -------
    ndarray

    See Also
    --------
    numpy.pad : NumPy's function.
    concatenate, tile

    Differs from NumPy
    ------------------
    NumPy computes a function as `mode` and ``reflect_type="odd"``, under `auto` only.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.pad([1, 2, 3], 2, mode="reflect")
    array([3, 2, 1, 2, 3, 2, 1])
    """
    if callable(mode) or kwargs.get("reflect_type", "even") != "even":
        raise NumPyOnly("a callable mode or an odd reflection")
    widths = _widths(array.ndim, pad_width)
    if mode not in _KEYWORDS:
        raise ValueError(f"mode '{mode}' is not supported")
    unknown = kwargs.keys() - {_KEYWORDS[mode]}
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    if mode == "empty" or (mode == "constant" and np.ndim(kwargs.get("constant_values", 0)) == 0):
        return _embedded(array, widths, kwargs.get("constant_values", 0))
    mode_values = _pairs(kwargs.get(_KEYWORDS[mode]), array.ndim)
    order: Any = "F" if array.flags.fnc else "C"
    if not np.any(widths):
        return array.copy(order)
    for axis, (width, values) in enumerate(zip(widths, mode_values, strict=True)):
        if width == (0, 0):
            continue
        if array.shape[axis] == 0 and mode != "constant":
            raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
        border = _BORDERS[mode]
        before, after = border(array, axis, width, values)
        array = _joined_borders(array, axis, before, after, order)
    return array


def _widths(ndim: int, pad_width: Any) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        per_axis: Any = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            per_axis[axis] = width if np.ndim(width) else (width, width)
        pad_width = per_axis
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    if (widths < 0).any():
        raise ValueError("index can't contain negative values")
    return [(int(before), int(after)) for before, after in np.broadcast_to(widths, (ndim, 2))]


def _pairs(value: Any, ndim: int) -> list[Any]:
    """Return a (before, after) pair of values for each axis."""
    if value is None:
        return [(None, None)] * ndim
    return [tuple(pair) for pair in np.broadcast_to(np.asarray(value), (ndim, 2))]


def _embedded(array: Any, widths: list[tuple[int, int]], value: Any) -> Any:
    """Return an array filled with a value, with `array` inside."""
    shape = tuple(before + n + after for n, (before, after) in zip(array.shape, widths, strict=True))
    result = np.full_like(array, value, order="A", shape=shape)
    result[tuple(slice(before, before + n) for n, (before, _) in zip(array.shape, widths, strict=True))] = (
        array
    )
    return result


def _joined_borders(array: Any, axis: int, before: list[Any], after: list[Any], order: Any) -> Any:
    """Return the parts and the array joined along an axis."""
    parts = [*before, array, *after]
    length = sum(part.shape[axis] for part in parts)
    shape = (*array.shape[:axis], length, *array.shape[axis + 1 :])
    result = np.empty_like(array, order=order, shape=shape)
    first = 0
    for part in parts:
        last = first + part.shape[axis]
        _part(result, axis, first, last)[...] = part
        first = last
    return result


# ---- Borders before and after an axis, by mode ----------------------------------------------------------


def _part(array: Any, axis: int, first: int | None, last: int | None) -> Any:
    return array[((slice(None),) * axis) + (slice(first, last),)]


def _repeated(edge: Any, axis: int, count: int, like: Any) -> list[Any]:
    shape = (*like.shape[:axis], count, *like.shape[axis + 1 :])
    return [np.broadcast_to(edge, shape)] if count else []


def _constant(array: Any, axis: int, width: tuple[int, int], values: Any) -> Any:
    numbers = (np.asarray(value).astype(array.dtype) for value in values)
    return [_repeated(number, axis, n, array) for number, n in zip(numbers, width, strict=True)]


def _edge(array: Any, axis: int, width: tuple[int, int], _: Any) -> Any:
    edges = _part(array, axis, None, 1), _part(array, axis, -1, None)
    return [_repeated(edge, axis, n, array) for edge, n in zip(edges, width, strict=True)]


def _of_statistic(
    statistic: Callable[..., Any], array: Any, axis: int, width: tuple[int, int], lengths: Any
) -> Any:
    sides = []
    for side, (count, length_given) in enumerate(zip(width, lengths, strict=True)):
        size = array.shape[axis]
        length = size if length_given is None else min(int(length_given), size)
        if length == 0 and statistic in (np.max, np.min):
            raise ValueError("stat_length of 0 yields no value for padding")
        part = _part(array, axis, None, length) if side == 0 else _part(array, axis, size - length, None)
        value = statistic(part, axis=axis, keepdims=True)
        if array.dtype.kind in "iu" and statistic in (np.mean, np.median):
            value = np.round(value)
        sides.append(_repeated(value.astype(array.dtype), axis, count, array))
    return sides


def _ramp(array: Any, axis: int, width: tuple[int, int], ends: Any) -> Any:
    edges = _part(array, axis, None, 1), _part(array, axis, -1, None)
    sides: list[Any] = []
    for side, (edge, end, count) in enumerate(zip(edges, ends, width, strict=True)):
        if count == 0:
            sides.append([])
            continue
        start = np.int64(0) if end is None else end
        shape = [count if each == axis else 1 for each in range(array.ndim)]
        steps = np.arange(count).reshape(shape)
        ramp = start + steps * ((edge - start) / count)
        ramp = np.floor(ramp) if array.dtype.kind in "iu" else ramp
        ramp = ramp.astype(array.dtype)
        sides.append([ramp if side == 0 else np.flip(ramp, axis)])
    return sides


def _mirrored(has_edge: bool, array: Any, axis: int, width: tuple[int, int], _: Any) -> Any:
    size = array.shape[axis]
    if size == 1:
        return _edge(array, axis, width, None)
    # One period is the array backwards, then forwards, each without the end that the next part repeats.
    skipped = 0 if has_edge else 1
    back = _part(np.flip(array, axis), axis, skipped, None)
    forth = _part(array, axis, skipped, None)
    before = _filled([forth, back], axis, width[0])
    return _turned(before, axis), _filled([back, forth], axis, width[1])


def _wrap(array: Any, axis: int, width: tuple[int, int], _: Any) -> Any:
    before = _filled([np.flip(array, axis)], axis, width[0])
    return _turned(before, axis), _filled([array], axis, width[1])


def _turned(parts: list[Any], axis: int) -> list[Any]:
    return [np.flip(part, axis) for part in reversed(parts)]


def _filled(period: list[Any], axis: int, count: int) -> list[Any]:
    """Return parts with `count` elements in all: the period repeated, the last part cut."""
    parts: list[Any] = []
    while count > 0:
        part = _part(period[len(parts) % len(period)], axis, None, count)
        parts.append(part)
        count -= part.shape[axis]
    return parts


_BORDERS: dict[Any, Callable[..., Any]] = {
    "constant": _constant,
    "edge": _edge,
    "linear_ramp": _ramp,
    "reflect": functools.partial(_mirrored, False),
    "symmetric": functools.partial(_mirrored, True),
    "wrap": _wrap,
    "maximum": functools.partial(_of_statistic, np.max),
    "mean": functools.partial(_of_statistic, np.mean),
    "median": functools.partial(_of_statistic, np.median),
    "minimum": functools.partial(_of_statistic, np.min),
}
