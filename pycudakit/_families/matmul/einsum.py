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
    copy_function,
    with_layout_of,
)
from pycudakit._families.matmul import host_contraction
from pycudakit._families.matmul.contraction import Part, contract_pair, sum_unshared, with_distinct_labels
from pycudakit._native.dtypes import Array
from pycudakit._runtime import native_call
from pycudakit._runtime.engine_choice import Cost, choose_engine
from pycudakit._runtime.operands import as_array
from pycudakit._runtime.public_function import public_function

_EINSUM = copy_function("einsum", np.copy)


@public_function(numpy=np.einsum, one_call="einsum")
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
    parts = [with_distinct_labels(subscript, array) for subscript, array in zip(labels, arrays, strict=True)]
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
    parts = []
    for number, (subscript, array) in enumerate(zip(labels, arrays, strict=True)):
        distinct = with_distinct_labels(subscript, array)
        shared = {*result}.union(*(other for i, other in enumerate(labels) if i != number))
        part = sum_unshared(host_contraction, distinct, shared, dtype)
        moved_only = len(arrays) == 1 and part is distinct  # NumPy keeps even the byte order
        parts.append(Part(part.labels, np.asarray(part.array, None if moved_only else dtype)))
    if len(parts) > 1:
        return contract_pair(host_contraction, parts[0], parts[1], result, sizes)
    own, array = parts[0]
    return ascontiguousarray(array.transpose([own.index(c) for c in result])).reshape(
        [sizes[c] for c in result]
    )
