"""NumPy's elementwise functions of two results: `divmod`, `frexp` and `modf`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._element_programs.element_function import ElementFunction
from pycudakit._families.elementwise.fast_path import call
from pycudakit._families.elementwise.general_path import (
    call_with_keywords,
    resolve_signature,
    warn_uninitialized,
)
from pycudakit._families.elementwise.ufunc_methods import as_ufunc
from pycudakit._runtime.dispatch_cache import with_dispatch_cache

_DIVMOD, _FREXP, _MODF = (
    ElementFunction(name, getattr(np, name), outputs=2) for name in ("divmod", "frexp", "modf")
)
_NO_OUTS = (None, None)


def _part(function: ElementFunction, index: int) -> ElementFunction:
    """Return the function that computes one of the two results."""

    @functools.wraps(function.numpy)
    def numpy(*inputs: Any, **keywords: Any) -> Any:
        return function.numpy(*inputs, **keywords)[index]

    def write(*arguments: Any, out: Any = None, **keywords: Any) -> tuple[Any]:  # noqa: ARG001
        return (function.write(*arguments, out=_NO_OUTS, **keywords)[index],)

    return ElementFunction(function.name, numpy, write)


PARTS = {f.name: (_part(f, 0), _part(f, 1)) for f in (_DIVMOD, _FREXP, _MODF)}


def _dispatched(function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(function)(with_dispatch_cache(getattr(np, function.__name__), function))


def _call(
    function: ElementFunction,
    inputs: tuple[Any, ...],
    outs: tuple[Any, Any],
    out: Any,
    where: Any,
    dtype: Any,
    casting: str,
    order: str,
    subok: bool,
    signature: Any,
) -> tuple[Any, Any]:
    if out is _NO_OUTS:
        out = None
        if where is not True and outs[0] is outs[1] is None:
            warn_uninitialized(*inputs, where)
    if outs[0] is not None or outs[1] is not None:
        if out is not None:
            raise TypeError("cannot specify 'out' as both a positional and keyword argument")
        out = outs
    if order == "K" and subok is True and signature is None and out is not ...:
        return call(function, inputs, out, where, dtype, casting)  # type: ignore[no-any-return]
    return call_with_keywords(function, inputs, out, where, dtype, casting, order, subok, signature)  # type: ignore[no-any-return]


@as_ufunc
@_dispatched
def divmod(
    x1: Any,
    x2: Any,
    out1: Any = None,
    out2: Any = None,
    /,
    *,
    out: Any = _NO_OUTS,
    where: Any = True,
    casting: str = "same_kind",
    order: str = "K",
    dtype: Any = None,
    subok: bool = True,
    signature: Any = None,
    sig: Any = None,
) -> tuple[Any, Any]:
    """Return element-wise quotient and remainder simultaneously.

    Parameters
    ----------
    x1, x2 : array_like
        The arguments, broadcast together.
    out1, out2, out : ndarrays, or a tuple of two ndarrays or None, optional
        Where to put the results.
    where, casting, order, dtype, subok, signature, sig
        As for `numpy.divmod`.

    Returns
    -------
    tuple of two ndarrays or scalars
        Quotients and remainders.

    See Also
    --------
    numpy.divmod : NumPy's function.
    floor_divide, remainder

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.divmod([7, -7], 4)
    (array([ 1, -2]), array([3, 1]))
    """
    resolved = resolve_signature(signature, sig)
    return _call(_DIVMOD, (x1, x2), (out1, out2), out, where, dtype, casting, order, subok, resolved)


@as_ufunc
@_dispatched
def frexp(
    x: Any,
    out1: Any = None,
    out2: Any = None,
    /,
    *,
    out: Any = _NO_OUTS,
    where: Any = True,
    casting: str = "same_kind",
    order: str = "K",
    dtype: Any = None,
    subok: bool = True,
    signature: Any = None,
    sig: Any = None,
) -> tuple[Any, Any]:
    """Decompose the elements of x into mantissa and twos exponent.

    The mantissa is in [0.5, 1) in absolute value.

    Parameters
    ----------
    x : array_like
        The argument.
    out1, out2, out : ndarrays, or a tuple of two ndarrays or None, optional
        Where to put the results.
    where, casting, order, dtype, subok, signature, sig
        As for `numpy.frexp`.

    Returns
    -------
    tuple of two ndarrays or scalars
        Mantissas and exponents.

    See Also
    --------
    numpy.frexp : NumPy's function.
    ldexp, modf

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.frexp([6.0, -0.5])
    (array([ 0.75, -0.5 ]), array([3, 0], dtype=int32))
    """
    resolved = resolve_signature(signature, sig)
    return _call(_FREXP, (x,), (out1, out2), out, where, dtype, casting, order, subok, resolved)


@as_ufunc
@_dispatched
def modf(
    x: Any,
    out1: Any = None,
    out2: Any = None,
    /,
    *,
    out: Any = _NO_OUTS,
    where: Any = True,
    casting: str = "same_kind",
    order: str = "K",
    dtype: Any = None,
    subok: bool = True,
    signature: Any = None,
    sig: Any = None,
) -> tuple[Any, Any]:
    """Return the fractional and integral parts of an array, element-wise, both with the argument's sign.

    Parameters
    ----------
    x : array_like
        The argument.
    out1, out2, out : ndarrays, or a tuple of two ndarrays or None, optional
        Where to put the results.
    where, casting, order, dtype, subok, signature, sig
        As for `numpy.modf`.

    Returns
    -------
    tuple of two ndarrays or scalars
        Fractional and integral parts.

    See Also
    --------
    numpy.modf : NumPy's function.
    frexp, trunc

    Examples
    --------
    >>> import pycudakit as pk
    >>> pk.modf([3.5, -0.25])
    (array([ 0.5 , -0.25]), array([ 3., -0.]))
    """
    resolved = resolve_signature(signature, sig)
    return _call(_MODF, (x,), (out1, out2), out, where, dtype, casting, order, subok, resolved)
