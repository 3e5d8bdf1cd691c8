"""`einsum` where arrays stay on the device: views for diagonals, and products of two at a time.

It returns NotImplemented for what the host does.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pycudakit.fusing.products import as_matrix, dots, family, product, stood
from pycudakit.fusing.recording import Recording
from pycudakit.fusing.shapes import Handler, captures
from pycudakit.fusing.stand_in import StandIn

EINSUM: dict[Any, Handler] = {}
_captures = functools.partial(captures, EINSUM)


class _Part(NamedTuple):
    """An array, and a letter for each of its axes."""

    labels: str
    array: Any


@_captures(np.einsum)
def _einsum(
    recording: Recording,
    subscripts: Any,
    /,
    *operands: Any,
    out: Any = None,
    optimize: Any = False,
    **keywords: Any,
) -> Any:
    # Whatever it is: how products are paired is for their sizes to say.
    is_known = not keywords and (type(optimize) is bool or str(optimize) in ("greedy", "optimal"))
    arrays = stood(recording, *operands) if is_known else None
    terms = None if arrays is None else family("tensors").terms(subscripts, arrays)
    if arrays is None or terms is None:
        return NotImplemented
    *labels, result = terms
    sizes = _sizes(labels, arrays)
    dtype = np.result_type(*(array.dtype for array in arrays)).newbyteorder("=")
    shape = None if sizes is None else tuple(sizes[label] for label in result)
    is_there = out is None or (recording.is_there(out) and (out.shape, out.dtype) == (shape, dtype))
    if sizes is None or not is_there:
        return NotImplemented
    distinct = [_distinct(recording, own, a, sizes) for own, a in zip(labels, arrays, strict=True)]
    parts = [
        _without(recording, part, {*result}.union(*(p.labels for p in distinct if p is not part)), dtype)
        for part in distinct
    ]
    found = _of_all(recording, parts, result, sizes)
    if out is None:
        return found
    recording.set(out, ..., found)
    return out


def _sizes(labels: Sequence[str], arrays: Sequence[StandIn]) -> dict[str, int] | None:
    """Return how long each label's axes are, of which some of length 1 may be repeated; None of others."""
    sizes: dict[str, int] = {}
    for own, array in zip(labels, arrays, strict=True):
        inside: dict[str, int] = {}
        for label, size in zip(own, array.shape, strict=True):
            known = sizes.get(label, 1)
            if inside.setdefault(label, size) != size or (size != known and 1 not in (size, known)):
                return None
            sizes[label] = max(size, known)
    return sizes


def _distinct(recording: Recording, labels: str, a: StandIn, sizes: dict[str, int]) -> _Part:
    """Return a view that has each label once, and none that is repeated from a length of 1."""
    distinct = "".join(dict.fromkeys(labels))
    if distinct != labels:
        a = recording.view(a, lambda array: np.einsum(f"{labels}->{distinct}", array))
    repeated = tuple(d for d, label in enumerate(distinct) if a.shape[d] != sizes[label])
    if repeated:
        a = recording.view(a, lambda array: np.squeeze(array, repeated))
    return _Part("".join(label for d, label in enumerate(distinct) if d not in repeated), a)


def _without(recording: Recording, part: _Part, others: set[str], dtype: Any) -> _Part:
    """Return a part in a type, summed along what it alone has."""
    labels, a = part
    a = a if a.dtype == dtype else a.astype(dtype)
    alone = tuple(d for d, label in enumerate(labels) if label not in others)
    if alone:
        a = recording.call(np.any if dtype.kind == "b" else np.sum, (a,), {"axis": alone})
        a = a if a.dtype == dtype else a.astype(dtype)
        labels = "".join(label for label in labels if label in others)
    return _Part(labels, a)


def _of_all(recording: Recording, parts: list[_Part], result: str, sizes: dict[str, int]) -> Any:
    if len(parts) == 1:
        return _in_order(recording, parts[0].array, parts[0].labels, result)
    while len(parts) > 2:  # those first whose product is the smallest
        _, _, first, second = min(
            (math.prod(sizes[label] for label in _made(parts, i, k, result)), i, i, k)
            for i, k in itertools.combinations(range(len(parts)), 2)
        )
        made = _made(parts, first, second, result)
        product_of = _Part(made, _of_two(recording, parts[first], parts[second], made, sizes))
        parts = [part for n, part in enumerate(parts) if n not in (first, second)] + [product_of]
    return _of_two(recording, parts[0], parts[1], result, sizes)


def _made(parts: list[_Part], first: int, second: int, result: str) -> str:
    """Return the labels that the product of two parts has, as `_of_two` makes it."""
    left, right = parts[first].labels, parts[second].labels
    others = {*result}.union(*(part.labels for n, part in enumerate(parts) if n not in (first, second)))
    stack = [c for c in left if c in right]
    rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]
    return "".join(c for c in (*stack, *rows, *columns) if c in others)


def _in_order(recording: Recording, a: Any, labels: Sequence[str], result: str) -> Any:
    """Return a new array whose axes, that have labels, are in another order."""
    if not labels:
        return a
    return recording.call(np.copy, (a.transpose(tuple(labels.index(c) for c in result)), "C"), {})


def _of_two(
    recording: Recording,
    first: _Part,
    second: _Part,
    result: str,
    sizes: dict[str, int],
) -> Any:
    (left, x), (right, y) = first, second
    both = [c for c in left if c in right]
    depth, stack = [c for c in both if c not in result], [c for c in result if c in both]
    rows, columns = [c for c in result if c not in right], [c for c in result if c not in left]

    def arranged(labels: str, array: StandIn, *groups: list[str]) -> Any:
        order = [labels.index(c) for group in groups for c in group]
        return as_matrix(recording, array, order, *(math.prod(sizes[c] for c in group) for group in groups))

    def of_elements(labels: str, array: StandIn) -> Any:
        if not labels:
            return array
        order = [labels.index(c) for c in result if c in labels]
        return array.transpose(tuple(order))[tuple(slice(None) if c in labels else None for c in result)]

    if not depth:
        with np.errstate(all="ignore"):
            return of_elements(left, x) * of_elements(right, y)
    if not rows and not columns:
        a, b = arranged(left, x, stack, depth), arranged(right, y, stack, depth)
        found = dots(recording, "einsum", a, b, warns=False)
    else:
        a, b = arranged(left, x, stack, rows, depth), arranged(right, y, stack, depth, columns)
        if not stack:
            a, b = a[0], b[0]
        found = product(recording, a, b, "einsum", None)
    made = (*stack, *rows, *columns)
    found = found.reshape([sizes[c] for c in made]) if made else found.reshape(())
    if not made:
        found.is_scalar = True
    return found if "".join(made) == result else _in_order(recording, found, made, result)
