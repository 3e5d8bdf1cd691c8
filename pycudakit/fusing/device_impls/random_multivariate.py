"""Multivariate random distributions that are drawn on the device.

The parameters of `dirichlet` and `multinomial` may be device-resident; `multivariate_normal` downloads its
mean and covariance. A function returns NotImplemented for a call that the host must compute or reject.
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

_MAX_SUM = 1 + 1e-12  # NumPy's limit of the sum of all probabilities but the last
_SUM_ERROR = 1e-14  # the rounding error of such a sum


def dirichlet(trace: Trace, generator: Any, alpha: Any, size: Any = None) -> Any:
    """Draw from a Dirichlet distribution: normalized gamma variates, or stick breaking for small alpha."""
    alpha = parameter(trace, alpha)
    if type(alpha) is not Tracer or alpha.ndim != 1 or not alpha.size:
        return NotImplemented
    alpha_limits = [float(each) for each in extremes(trace, alpha)]
    if any(each < 0 for each in alpha_limits):
        return NotImplemented
    shape = (*(() if size is None else shape_of(trace.resolved(size))), len(alpha))
    device_generator, gamma_shapes = (
        UncheckedDeviceGenerator.sharing_stream(generator, trace),
        as_operand(alpha, FLOAT64) + 0.0,
    )
    if len(alpha) > 1 and all(each < BREAK_STICKS_BELOW for each in alpha_limits):
        drawn = empty(trace, shape, FLOAT64)
        return device_generator._broken(gamma_shapes, drawn, np.cumsum, np.cumprod)  # noqa: SLF001
    drawn = device_generator.standard_gamma(gamma_shapes, shape)
    return drawn / np.sum(drawn, axis=-1, keepdims=True)


def multinomial(trace: Trace, generator: Any, n: Any, pvals: Any, size: Any = None) -> Any:
    """Draw from a multinomial distribution: a binomial of the remaining trials for each outcome in turn."""
    n, pvals = (parameter(trace, each) for each in (n, pvals))
    if Tracer not in (type(n), type(pvals)) or not (np.ndim(pvals) and np.size(pvals) and np.size(n)):
        return NotImplemented
    if not np.can_cast(np.result_type(n), INT64, "safe") or np.result_type(pvals).kind not in "biuf":
        return NotImplemented
    probabilities = as_operand(trace.resolved(pvals) if np.ndim(pvals) == 1 else pvals, FLOAT64)
    draw_shape, size = (*np.broadcast_shapes(np.shape(n), probabilities.shape[:-1]),), trace.resolved(size)
    shape = draw_shape if size is None else shape_of(size)
    if 0 in shape or not broadcasts_to(draw_shape, shape):
        return NotImplemented
    least, least_share, most_share = trace.resolved([np.min(n), np.min(probabilities), np.max(probabilities)])
    if least < 0 or not (least_share >= 0 and most_share <= 1 and _are_probabilities(trace, probabilities)):
        return NotImplemented
    device_generator = UncheckedDeviceGenerator.sharing_stream(generator, trace)
    words = device_generator._taken(shape)  # noqa: SLF001
    drawn = empty(trace, (*(shape or (1,)), probabilities.shape[-1]), INT64)
    drawn = device_generator._outcomes(words, as_operand(n, INT64), probabilities, drawn)  # noqa: SLF001
    return drawn if shape else drawn[0]


def _are_probabilities(trace: Trace, probabilities: Any) -> bool:
    """Return True if NumPy accepts the sum of each row of probabilities."""
    rows = probabilities.reshape(-1, probabilities.shape[-1])  # 2-d, so that the sums stay on the device
    sums = np.sum(rows[:, :-1], axis=-1) if probabilities.shape[-1] > 1 else np.zeros(1)
    largest_sum = trace.resolved(np.max(sums))
    if not _MAX_SUM - _SUM_ERROR < largest_sum <= _MAX_SUM + _SUM_ERROR:
        return bool(largest_sum <= _MAX_SUM)
    doubtful = trace.resolved(np.compress(sums > _MAX_SUM - _SUM_ERROR, rows, axis=0))
    try:
        NUMPY_GENERATOR.multinomial(
            0, doubtful, (0, len(doubtful))
        )  # NumPy decides, with sums in its own order
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
    """Draw normal vectors: standard normals times a factor of the covariance, which NumPy computes."""
    mean, cov, size = trace.resolved((mean, cov, size))
    centre, covariance, shape = multivariate.checked_arguments(mean, cov, size, method)
    if 0 in shape:
        return NotImplemented
    factor = multivariate.factor_of(covariance, check_valid, trace.resolved(tol), method)
    drawn = trace.on_device(generator.standard_normal, (shape,), {}, num_device_args=0)
    sums: Any = 0.0
    with np.errstate(all="ignore"):
        for number, column in enumerate(factor.T):
            sums = sums + drawn[..., number, None] * np.ascontiguousarray(column)
        return sums + centre
