"""Random vectors whose parameters are arrays on the device, drawn and put together there.

Each function returns NotImplemented for what the host does, or refuses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._native.dtypes import FLOAT64, INT64
from pycudakit._runtime.ufunc_arguments import broadcasts_to
from pycudakit.fusing.device_impls.random_distributions import UncheckedDeviceGenerator, extremes, parameter
from pycudakit.fusing.memory.tracer import Tracer
from pycudakit.fusing.trace.trace import Trace
from pycudakit.fusing.trace.views_and_creation import empty
from pycudakit.random import multivariate
from pycudakit.random.compound_distributions import BREAK_STICKS_BELOW
from pycudakit.random.generator_base import NUMPY_GENERATOR, as_operand, shape_of

_MOST = 1 + 1e-12  # that probabilities may add up to, but for the last
_ROUNDED = 1e-14  # that sums of probabilities may differ by


def dirichlet(trace: Trace, generator: Any, alpha: Any, size: Any = None) -> Any:
    """Return gamma numbers over their sums, or broken sticks."""
    alpha = parameter(trace, alpha)
    if type(alpha) is not Tracer or alpha.ndim != 1 or not alpha.size:
        return NotImplemented
    found = [float(each) for each in extremes(trace, alpha)]
    if any(each < 0 for each in found):
        return NotImplemented
    shape = (*(() if size is None else shape_of(trace.resolved(size))), len(alpha))
    there, shapes = UncheckedDeviceGenerator.beside(generator, trace), as_operand(alpha, FLOAT64) + 0.0
    if len(alpha) > 1 and all(each < BREAK_STICKS_BELOW for each in found):
        drawn = empty(trace, shape, FLOAT64)
        return there._broken(shapes, drawn, np.cumsum, np.cumprod)  # noqa: SLF001
    drawn = there.standard_gamma(shapes, shape)
    return drawn / np.sum(drawn, axis=-1, keepdims=True)


def multinomial(trace: Trace, generator: Any, n: Any, pvals: Any, size: Any = None) -> Any:
    """Return binomial numbers of what is left, one outcome after the other."""
    n, pvals = (parameter(trace, each) for each in (n, pvals))
    if Tracer not in (type(n), type(pvals)) or not (np.ndim(pvals) and np.size(pvals) and np.size(n)):
        return NotImplemented
    if not np.can_cast(np.result_type(n), INT64, "safe") or np.result_type(pvals).kind not in "biuf":
        return NotImplemented
    likely = as_operand(trace.resolved(pvals) if np.ndim(pvals) == 1 else pvals, FLOAT64)
    own, size = (*np.broadcast_shapes(np.shape(n), likely.shape[:-1]),), trace.resolved(size)
    shape = own if size is None else shape_of(size)
    if 0 in shape or not broadcasts_to(own, shape):
        return NotImplemented
    least, least_share, most_share = trace.resolved([np.min(n), np.min(likely), np.max(likely)])
    if least < 0 or not (least_share >= 0 and most_share <= 1 and _are_probabilities(trace, likely)):
        return NotImplemented
    there = UncheckedDeviceGenerator.beside(generator, trace)
    words = there._taken(shape)  # noqa: SLF001
    drawn = empty(trace, (*(shape or (1,)), likely.shape[-1]), INT64)
    drawn = there._outcomes(words, as_operand(n, INT64), likely, drawn)  # noqa: SLF001
    return drawn if shape else drawn[0]


def _are_probabilities(trace: Trace, likely: Any) -> bool:
    """Tell whether no row of probabilities adds up to more than NumPy lets it."""
    rows = likely.reshape(-1, likely.shape[-1])  # whose sums stay there
    sums = np.sum(rows[:, :-1], axis=-1) if likely.shape[-1] > 1 else np.zeros(1)
    most = trace.resolved(np.max(sums))
    if not _MOST - _ROUNDED < most <= _MOST + _ROUNDED:
        return bool(most <= _MOST)
    doubtful = trace.resolved(np.compress(sums > _MOST - _ROUNDED, rows, axis=0))
    try:
        NUMPY_GENERATOR.multinomial(0, doubtful, (0, len(doubtful)))  # which adds them up its own way
    except ValueError:
        return False
    return True


def multivariate_normal(
    trace: Trace,
    generator: Any,
    mean: Any,
    cov: Any,
    size: Any = None,
    check_valid: Any = "warn",
    tol: Any = 1e-8,
    *,
    method: Any = "svd",
) -> Any:
    """Return rows of normal numbers by a factor that NumPy finds, one product after the other."""
    mean, cov, size = trace.resolved((mean, cov, size))
    centre, covariance, shape = multivariate.checked(mean, cov, size, method)
    if 0 in shape:
        return NotImplemented
    factor = multivariate.factor_of(covariance, check_valid, trace.resolved(tol), method)
    drawn = trace.on_device(generator.standard_normal, (shape,), {}, num_device_args=0)
    sums: Any = 0.0
    with np.errstate(all="ignore"):
        for number, column in enumerate(factor.T):
            sums = sums + drawn[..., number, None] * np.ascontiguousarray(column)
        return sums + centre
