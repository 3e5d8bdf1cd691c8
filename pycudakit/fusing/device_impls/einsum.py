"""`einsum` on device-resident arrays: diagonals are views, and operands are contracted two at a time.

Each contraction is transposed to a (batched) matrix product. Functions return NotImplemented for calls that
the host must compute.
"""

from __future__ import annotations

import functools
import itertools
import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._families.matmul.contraction import Part, contract_pair, sum_unshared, with_distinct_labels
from pycudakit._native.dtypes import CODES
from pycudakit.fusing.device_impls.matmul import DeviceContraction, as_tracers, family
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import Handler, implements

EINSUM: dict[Any, Handler] = {}
_implements = functools.partial(implements, EINSUM)

_NONE: Any = np._NoValue  # noqa: SLF001
_ORDERED = string.ascii_uppercase + string.ascii_lowercase  # in the order of the characters
_PATHS = ("greedy", "optimal")
_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
# Before NumPy 2.4, some contractions along a path ignored `dtype=`.
_PATHS_HEED_TYPES = np.lib.NumpyVersion(np.__version__) >= "2.4.0"


@_implements(np.einsum)
def _einsum(
    trace: Trace,
    *operands: Any,
    out: Any = None,
    optimize: Any = False,
    dtype: Any = None,
    order: Any = "K",
    casting: Any = _NONE,
    **keywords: Any,
) -> Any:
    if not operands or keywords or type(operands[0]) is not str:
        return NotImplemented
    subscripts, *rest = operands
    arrays = as_tracers(trace, *rest)
    terms = None if arrays is None else family("einsum").parse_subscripts(subscripts, arrays)
    path = _path(optimize, len(rest))
    if arrays is None or terms is None or path is None or order not in ("A", "C", "F", "K"):
        return NotImplemented
    if order == "A":
        order = "F" if all(trace.materialize(array).flags.f_contiguous for array in arrays) else "C"
    paired: set[int] = set()
    if dtype is not None and optimize is not False:
        if not _PATHS_HEED_TYPES:
            return NotImplemented
        path = _numpys_path(subscripts, arrays, optimize)
        paired = _contracted_in_pairs(path, len(arrays))
    *labels, result = terms
    sizes = _sizes(labels, arrays)
    kind = np.dtype(np.result_type(*(array.dtype for array in arrays)) if dtype is None else dtype)
    if kind not in CODES or not (casting is _NONE or casting in _CASTINGS):
        return NotImplemented
    dtype = kind.newbyteorder("=")
    for number, array in enumerate(arrays):
        default_casting: Any = "same_kind" if number in paired else "safe"
        if not np.can_cast(array.dtype, dtype, default_casting if casting is _NONE else casting):
            return NotImplemented
    if sizes is None or out is not None:
        return NotImplemented
    distinct = [
        _without_repeats(with_distinct_labels(*part), sizes) for part in zip(labels, arrays, strict=True)
    ]
    xp = DeviceContraction(trace)
    parts = []
    for number, part in enumerate(distinct):
        others = {*result}.union(*(p.labels for p in distinct if p is not part))
        own = part.array.dtype.newbyteorder("=") if number in paired else dtype
        parts.append(_typed(sum_unshared(xp, _typed(part, own), others, own), dtype))
    contracted = _contract_all(xp, parts, result, sizes, path)
    is_as_asked = order == "K" or not result or trace.materialize(contracted).flags[order]
    return contracted if is_as_asked else trace.call(np.copy, (contracted, order), {})


def _to_subscripts(operands: Sequence[Any]) -> Sequence[Any]:
    """Convert operands with lists of axes to subscripts (None if NumPy raises) and arrays."""
    arrays, lists = list(operands[::2]), list(operands[1::2])
    result = _letters(arrays.pop()) if len(operands) % 2 else None
    labels = [_letters(each) for each in lists]
    if not arrays or None in labels or (len(operands) % 2 and result is None):
        return (None, *arrays)
    inputs = ",".join(map(str, labels))
    if result is not None:
        return (f"{inputs}->{result}", *arrays)
    # With more axes than capital letters, NumPy has two orders of result axes.
    return (None if any(c.islower() for c in inputs) else inputs, *arrays)


def _letters(axes: Any) -> str | None:
    """Return the letters of a list of axis numbers; larger numbers get later letters."""
    if type(axes) not in (list, tuple):
        return None
    are_known = all(each is ... or (_is_number(each) and 0 <= each < len(_ORDERED)) for each in axes)
    return "".join("..." if each is ... else _ORDERED[each] for each in axes) if are_known else None


def _is_number(each: Any) -> bool:
    return issubclass(type(each), (int, np.integer)) and type(each) is not bool


def _path(optimize: Any, count: int) -> list[Sequence[int]] | None:
    """Return the contraction path that `optimize` gives explicitly; an empty one if it gives none.

    It is None if NumPy raises. Operands that the path does not pair are paired by size.
    """
    if type(optimize) is bool or (type(optimize) is str and optimize in _PATHS):
        return []
    if type(optimize) not in (list, tuple) or not optimize:
        return None
    name, *steps = optimize
    if type(name) is not str:
        return None
    if name in _PATHS:  # the second element is a memory limit
        return [] if len(steps) == 1 and type(steps[0]) in (int, float) else None
    if name != "einsum_path":
        return None
    for step in steps:
        is_known = type(step) in (list, tuple) and len(step) > 0 and len({*step}) == len(step)
        if not is_known or not all(type(n) is int and 0 <= n < count for n in step):
            return None
        count -= len(step) - 1
    return steps if count == 1 else None


def _keeps_views(optimize: Any = False, order: Any = "K", **others: Any) -> bool:
    """Return True if NumPy returns a view for a call that sums nothing, as it does for any order."""
    return not others and _path(optimize, 1) is not None and order in ("A", "C", "F", "K")


def _numpys_path(subscripts: str, arrays: Sequence[Tracer], optimize: Any) -> list[Sequence[int]]:
    """Return the contraction path that NumPy chooses, as `_path` does."""
    shapes = [np.broadcast_to(np.zeros((), array.dtype), array.shape) for array in arrays]
    _, *steps = np.einsum_path(subscripts, *shapes, optimize=optimize)[0]
    return steps


def _contracted_in_pairs(path: Sequence[Sequence[int]], count: int) -> set[int]:
    """Return the numbers of the operands that NumPy contracts in pairs.

    NumPy sums the axes that only one of them has in the operand's own dtype, whatever `dtype=` is.
    """
    remaining = [*range(count)]
    paired: set[int] = set()
    for step in path:
        group = [remaining.pop(n) for n in sorted(step, reverse=True)]
        paired.update(group if len(group) == 2 else ())
        remaining.append(-1)
    return paired


def view_or(fallback: Handler) -> Handler:
    """Wrap a handler: convert lists of axes to letters, and return a view if nothing is summed."""

    def handle(trace: Trace, *operands: Any, **keywords: Any) -> Any:
        if operands and type(operands[0]) is not str:
            subscripts, *arrays = _to_subscripts(operands)
            operands = operands if subscripts is None else (subscripts, *arrays)
        if operands and type(operands[0]) is str and _keeps_views(**keywords):
            subscripts, *arrays = operands
            if len(arrays) == 1 and type(arrays[0]) is Tracer and arrays[0].ndim:
                terms = family("einsum").parse_subscripts(subscripts, arrays)
                if terms is not None and {*terms[0]} == {*terms[1]}:
                    return trace.view(arrays[0], lambda array: np.einsum("->".join(terms), array))
        return fallback(trace, *operands, **keywords)

    return handle


def _sizes(labels: Sequence[str], arrays: Sequence[Tracer]) -> dict[str, int] | None:
    """Return the length of each label's axes, where 1 broadcasts; None if the lengths do not match."""
    sizes: dict[str, int] = {}
    for operand_labels, array in zip(labels, arrays, strict=True):
        operand_sizes: dict[str, int] = {}
        for label, size in zip(operand_labels, array.shape, strict=True):
            known = sizes.get(label, 1)
            if operand_sizes.setdefault(label, size) != size or (size != known and 1 not in (size, known)):
                return None
            sizes[label] = max(size, known)
    return sizes


def _without_repeats(part: Part, sizes: dict[str, int]) -> Part:
    """Return a view without the axes of length 1 that broadcast."""
    labels, a = part
    repeated = tuple(d for d, label in enumerate(labels) if a.shape[d] != sizes[label])
    if not repeated:
        return part
    return Part("".join(c for d, c in enumerate(labels) if d not in repeated), np.squeeze(a, repeated))


def _typed(part: Part, dtype: Any) -> Part:
    return part if part.array.dtype == dtype else Part(part.labels, part.array.astype(dtype))


def _contract_all(
    xp: DeviceContraction,
    parts: list[Part],
    result: str,
    sizes: dict[str, int],
    path: Sequence[Sequence[int]],
) -> Any:
    if len(parts) == 1:
        ((labels, a),) = parts
        return xp.contiguous(a.transpose(tuple(labels.index(c) for c in result))) if labels else a
    for step in path:
        group = [parts.pop(n) for n in sorted(step, reverse=True)]
        while len(group) > 1:
            first, second = group.pop(), group.pop()
            group.append(_contract_parts(xp, first, second, [*group, *parts], result, sizes))
        parts += group
    while len(parts) > 1:  # greedily: the pair with the smallest product first
        pairs = itertools.combinations(range(len(parts)), 2)
        i, k = min(pairs, key=lambda pair: _product_size(parts, pair, result, sizes))
        second, first = parts.pop(k), parts.pop(i)
        parts.append(_contract_parts(xp, first, second, parts, result, sizes))
    return parts[0].array


def _product_size(parts: list[Part], pair: tuple[int, int], result: str, sizes: dict[str, int]) -> int:
    first, second = (parts[n] for n in pair)
    others = [part for n, part in enumerate(parts) if n not in pair]
    return math.prod(sizes[label] for label in _contracted_labels(first, second, others, result))


def _contract_parts(
    xp: DeviceContraction,
    first: Part,
    second: Part,
    others: Sequence[Part],
    result: str,
    sizes: dict[str, int],
) -> Part:
    """Contract two operands; keep the labels that the other operands or the result need."""
    labels = _contracted_labels(first, second, others, result) if others else result
    contracted = contract_pair(xp, first, second, labels, sizes)
    if not labels:
        contracted.is_scalar = True
    return Part(labels, contracted)


def _contracted_labels(first: Part, second: Part, others: Sequence[Part], result: str) -> str:
    """Return the labels of the contraction of two operands, in the order of `contract_pair`."""
    left, right = first.labels, second.labels
    needed = {*result}.union(*(part.labels for part in others))
    stack = [c for c in left if c in right]
    rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]
    return "".join(c for c in (*stack, *rows, *columns) if c in needed)
