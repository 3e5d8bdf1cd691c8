"""NumPy's `einsum` of one operand (sums and diagonals) and of two (products of matrices or elements)."""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from pycudakit._families.elementwise.manipulation import (
    ascontiguousarray,
    contiguous,
    copy_function,
    with_layout_of,
)
from pycudakit._families.elementwise.ufuncs import multiply
from pycudakit._families.matmul.dot import as_matrix, sum_of_products
from pycudakit._families.matmul.matmul import product
from pycudakit._families.reduce import sums, truth_values
from pycudakit._native import allocator
from pycudakit._native.dtypes import Array
from pycudakit._runtime import native_call
from pycudakit._runtime.dispatch_cache import numpy_for_small
from pycudakit._runtime.engine_choice import Cost, choose_engine
from pycudakit._runtime.native_call import logged_as_one_call
from pycudakit._runtime.operands import as_array

_EINSUM = copy_function("einsum", np.copy)


@numpy_for_small(np.einsum)
@logged_as_one_call("einsum")
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    """Evaluate the Einstein summation convention on the operands.

    With one operand: sums, diagonals and transpositions; with two: products of matrices, of vectors or of
    elements, and sums of those. Calls with more operands, ellipses, lists of axes or keywords are computed by
    NumPy.

    Parameters
    ----------
    *operands : str and array_like
        The subscripts and the arguments, as for `numpy.einsum`.
    out : ndarray, optional
        Where to put the result.
    optimize, **kwargs
        As for `numpy.einsum`.

    Returns
    -------
    ndarray or scalar

    See Also
    --------
    numpy.einsum : NumPy's function.
    tensordot, matmul, inner, trace

    Differs from NumPy
    ------------------
    Sums of products are added in the order of the library that multiplies (NumPy's BLAS, cuBLAS or
    pycudakit's loops), so the last bits depend on the engine. NumPy computes three operands or more,
    ellipses and keywords other than `out`, under `auto` only.

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.einsum("ij,jk->ik", [[1, 2], [3, 4]], [[1, 0], [1, 1]])
    array([[3, 2],
           [7, 4]])
    """
    keywords = kwargs if out is None else {**kwargs, "out": out}
    numpy = functools.partial(np.einsum, *operands, optimize=optimize, **keywords)
    if not operands:
        return numpy()  # raises
    subscripts, operands = operands[0], operands[1:]
    arrays = [as_array(value) for value in operands]
    parsed = None if kwargs or optimize or len(arrays) > 2 else parse_subscripts(subscripts, arrays)
    ordinary = [array for array in arrays if array is not None]
    if parsed is None or "." in subscripts:
        if isinstance(subscripts, str) and not operands:
            return numpy()  # raises
        return native_call.numpy_fallback(
            "einsum", numpy, "einsum with such subscripts, operands or keywords"
        )
    sizes: dict[str, int] = {}
    for labels, array in zip(parsed[:-1], ordinary, strict=True):
        for label, size in zip(labels, array.shape, strict=True):
            if sizes.setdefault(label, size) != size:
                if 1 in (size, sizes[label]):  # NumPy broadcasts them
                    return native_call.numpy_fallback("einsum", numpy, "einsum of axes that broadcast")
                return numpy()  # raises
    choice = choose_engine("einsum", arrays, Cost(0.0 if _is_small(sizes) else None, 0.0, 0, 0))
    if choice.engine == "numpy":
        return native_call.run_numpy("einsum", choice.reason, numpy)
    dtype = np.result_type(*ordinary).newbyteorder("=")
    result = np.asarray(_einsum(parsed, ordinary, dtype, sizes))
    if out is None:
        return (
            with_layout_of(_EINSUM, result, _empty_in_nditer_order(parsed, ordinary, result.dtype))
            if parsed[-1]
            else result[()]
        )
    if not isinstance(out, np.ndarray) or out.shape != result.shape:
        return numpy()  # raises
    if not np.can_cast(dtype, out.dtype, "safe"):
        return numpy()  # raises
    np.copyto(out, result)
    return out


def _empty_in_nditer_order(parsed: list[str], arrays: list[Array], dtype: Any) -> Array:
    """Allocate a result in the memory layout that NumPy's iterator over the operands gives it."""
    *labels, result = parsed
    parts = [_with_diagonals(subscript, array) for subscript, array in zip(labels, arrays, strict=True)]
    axes = result + "".join(sorted({*"".join(labels)} - {*result}))
    nditer: Any = np.nditer
    iterator = nditer(
        [*(view for _, view in parts), None],
        flags=["zerosize_ok", "reduce_ok", "multi_index"],
        op_flags=[["readonly"]] * len(parts) + [["readwrite", "allocate"]],
        op_dtypes=[None] * len(parts) + [dtype],
        op_axes=[
            [subscript.find(c) for c in axes]
            for subscript in (*(subscript for subscript, _ in parts), result)
        ],
    )
    new: Array = iterator.operands[-1]
    return new


def _with_diagonals(labels: str, array: Array) -> tuple[str, Array]:
    """Take diagonals of an operand for repeated labels; return the distinct labels and the view."""
    distinct = "".join(dict.fromkeys(labels))
    return distinct, array if distinct == labels else np.einsum(f"{labels}->{distinct}", array)


def _is_small(sizes: dict[str, int]) -> bool:
    return math.prod(sizes.values()) < 100_000


def parse_subscripts(subscripts: Any, arrays: Sequence[Any]) -> list[str] | None:
    """Parse subscripts to labels of each operand and of the result; None if only NumPy supports them.

    The axes of an ellipsis get letters that are not used elsewhere.
    """
    if not isinstance(subscripts, str) or any(array is None for array in arrays):
        return None
    before, arrow, after = subscripts.replace(" ", "").partition("->")
    labels = before.split(",")
    if len(labels) != len(arrays):
        return None
    more = [
        a.ndim - len(subscript) + 3 if "..." in subscript else 0
        for subscript, a in zip(labels, arrays, strict=True)
    ]
    letters = [c for c in string.ascii_letters if c not in subscripts]
    most = max(more)
    if min(more) < 0 or most > len(letters) or (arrow and most and "..." not in after):
        return None
    if not arrow:
        after = "..." + "".join(sorted(c for c in {*before} - {*".,"} if before.count(c) == 1))
    further = "".join(letters[:most])
    labels = [
        subscript.replace("...", further[most - n :], 1) for subscript, n in zip(labels, more, strict=True)
    ]
    after, joined = after.replace("...", further, 1), "".join(labels)
    if not all(c.isascii() and c.isalpha() for c in joined + after):
        return None
    fits = all(a.ndim == len(subscript) for subscript, a in zip(labels, arrays, strict=True))
    return [*labels, after] if fits and len({*after}) == len(after) and {*after} <= {*joined} else None


def _einsum(parsed: list[str], arrays: list[Array], dtype: Any, sizes: dict[str, int]) -> Any:
    *labels, result = parsed
    views = []
    for number, (subscript, array) in enumerate(zip(labels, arrays, strict=True)):
        distinct, view = _with_diagonals(subscript, array)
        others = {*result}.union(*(other for i, other in enumerate(labels) if i != number))
        alone = tuple(i for i, label in enumerate(distinct) if label not in others)
        if alone and (len(arrays) > 1 or len(alone) <= len(distinct)):
            view = _sum(view, alone, dtype)
            distinct = "".join(label for label in distinct if label in others)
        moved_only = len(arrays) == 1 and not alone  # NumPy keeps even the byte order
        views.append((distinct, np.asarray(view, None if moved_only else dtype)))
    if len(views) == 1:
        distinct, view = views[0]
        return ascontiguousarray(view.transpose([distinct.index(c) for c in result])).reshape(
            [sizes[c] for c in result]
        )
    return _contract_two(views[0], views[1], result, sizes)


def _sum(view: Array, axes: tuple[int, ...], dtype: Any) -> Any:
    if dtype.kind == "b":
        return truth_values.any(view, axes)
    return sums.sum(view, axes, dtype=dtype)


def _contract_two(
    first: tuple[str, Array], second: tuple[str, Array], result: str, sizes: dict[str, int]
) -> Any:
    (left, x), (right, y) = first, second
    both = [c for c in left if c in right]
    depth, stack = [c for c in both if c not in result], [c for c in result if c in both]
    rows, columns = [c for c in result if c not in right], [c for c in result if c not in left]

    def arranged(labels: str, array: Array, *groups: list[str]) -> Array:
        order = [labels.index(c) for group in groups for c in group]
        shape = [math.prod(sizes[c] for c in group) for group in groups]
        return as_matrix(array, order, *shape)

    def of_elements(labels: str, array: Array) -> Array:
        order = [labels.index(c) for c in result if c in labels]
        shape = [sizes[c] if c in labels else 1 for c in result]
        return np.asarray(array.transpose(order)).reshape(shape)

    shape = [sizes[c] for c in (*stack, *rows, *columns)]
    if not depth:
        with np.errstate(all="ignore"):
            out = allocator.empty([sizes[c] for c in result], x.dtype)
            return multiply(of_elements(left, x), of_elements(right, y), out=out)
    if not rows and not columns:
        a, b = arranged(left, x, stack, depth), arranged(right, y, stack, depth)
        contracted = sum_of_products("einsum", lambda: np.vecdot(a, b), a, b, -1, warns=False)
    else:
        a, b = arranged(left, x, stack, rows, depth), arranged(right, y, stack, depth, columns)
        if not stack:
            a, b = a[0], b[0]
        contracted = product("einsum", lambda: np.matmul(a, b), a, b, warns=None)
    order = [(*stack, *rows, *columns).index(c) for c in result]
    return contiguous(np.asarray(contracted).reshape(shape).transpose(order))
