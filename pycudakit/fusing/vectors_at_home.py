"""Random vectors whose parameters are arrays on the device, drawn and put together there.

Each function returns NotImplemented for what the host does, or refuses.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pycudakit._library.types import FLOAT64, INT64
from pycudakit.fusing.draws_at_home import ThereOfChecked, extremes, parameter
from pycudakit.fusing.recording import Recording
from pycudakit.fusing.shapes import empty
from pycudakit.fusing.stand_in import StandIn
from pycudakit.random import multivariate
from pycudakit.random.base import as_operand, shape_of
from pycudakit.random.further import FLAT

_LEAST = (
    256 << 10
)  # bytes of the vectors: of fewer, what they are made of would go up and down more than once
_ROUNDED = 1e-14  # that sums of probabilities may differ by


def dirichlet(recording: Recording, generator: Any, alpha: Any, size: Any = None) -> Any:
    """Return gamma numbers over their sums."""
    if type(alpha) is not StandIn or alpha.ndim != 1 or not alpha.size:
        return NotImplemented
    least, *_, most = extremes(recording, alpha)
    # Where sticks are broken, NumPy adds up and multiplies.
    if not least > 0 or not math.isfinite(most) or (len(alpha) > 1 and most < FLAT):
        return NotImplemented
    vectors = () if size is None else shape_of(recording.resolved(size))
    there = ThereOfChecked.beside(generator, recording)
    drawn = there.standard_gamma(as_operand(alpha, FLOAT64), (*vectors, len(alpha)))
    return drawn / np.sum(drawn, axis=-1, keepdims=True)


def multinomial(recording: Recording, generator: Any, n: Any, pvals: Any, size: Any = None) -> Any:
    """Return binomial numbers of what is left, one outcome after the other."""
    n, pvals = (parameter(recording, each) for each in (n, pvals))
    if StandIn not in (type(n), type(pvals)) or not (np.ndim(pvals) and np.size(pvals) and np.size(n)):
        return NotImplemented
    if not np.can_cast(np.result_type(n), INT64, "safe") or np.result_type(pvals).kind not in "biuf":
        return NotImplemented
    likely = as_operand(recording.resolved(pvals) if np.ndim(pvals) == 1 else pvals, FLOAT64)
    own, size = (*np.broadcast_shapes(np.shape(n), likely.shape[:-1]),), recording.resolved(size)
    shape = own if size is None else shape_of(size)
    if math.prod(shape) * INT64.itemsize < _LEAST or np.broadcast_shapes(own, shape) != shape:
        return NotImplemented
    rows = likely.reshape(-1, likely.shape[-1])  # whose sums stay there
    sums = np.max(np.sum(rows[:, :-1], axis=-1)) if likely.shape[-1] > 1 else 0.0
    least, least_share, most_share, most = recording.resolved(
        [np.min(n), np.min(likely), np.max(likely), sums]
    )
    if least < 0 or not (least_share >= 0 and most_share <= 1 and most <= 1 + 1e-12 - _ROUNDED):
        return NotImplemented
    there = ThereOfChecked.beside(generator, recording)
    words = there._taken(shape)  # noqa: SLF001
    drawn = empty(recording, (*shape, likely.shape[-1]), INT64)
    return there._outcomes(words, as_operand(n, INT64), likely, drawn)  # noqa: SLF001


def multivariate_normal(
    recording: Recording,
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
    if StandIn not in (type(mean), type(cov)):
        return NotImplemented
    mean, cov, size = recording.resolved((mean, cov, size))
    centre, covariance, shape = multivariate.checked(mean, cov, size, method)
    if math.prod(shape) * FLOAT64.itemsize < _LEAST:
        return NotImplemented
    factor = multivariate.factor_of(covariance, check_valid, recording.resolved(tol), method)
    drawn = recording.at_home(generator.standard_normal, (shape,), {}, places=0)
    sums: Any = 0.0
    with np.errstate(all="ignore"):
        for number, column in enumerate(factor.T):
            sums = sums + drawn[..., number, None] * np.ascontiguousarray(column)
        return sums + centre
