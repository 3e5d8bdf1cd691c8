"""The distributions that a generator draws from."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._interop.foreign_arrays import accept_foreign_arrays
from pycudakit._native.dtypes import FLOAT64, INT64
from pycudakit._runtime.native_call import logged_as_one_call
from pycudakit.random import multivariate
from pycudakit.random.draw_requests import (
    BETA,
    BINOMIAL,
    EXPONENTIAL,
    GAMMA,
    GEOMETRIC,
    LOGNORMAL,
    NORMAL,
    POISSON,
    UNIFORM,
)
from pycudakit.random.generator_base import GeneratorBase, as_operand, checked_out, float_type
from pycudakit.random.prefetch import prefetching

ONE, TWO = np.array(1.0), np.array(2.0)


class Distributions(GeneratorBase):
    """A generator's methods for distributions of a name."""

    __slots__ = ()

    # ---- Floats -------------------------------------------------------------------------------------

    @prefetching
    @accept_foreign_arrays
    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Return normally distributed floats of mean 0 and standard deviation 1.

        Each is the quantile of its own 64 bits, or 32 for float32, the highest of which is the sign.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape; without it and `out`, one number.
        dtype : {float64, float32}
            Their type.
        out : ndarray, optional
            What to fill, in the order of its memory.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).standard_normal(10000, dtype="float32")
        >>> abs(float(x.mean())) < 0.05 and abs(float(x.std()) - 1) < 0.05
        True
        """
        return self._floats("standard_normal", NORMAL, size, dtype, out, (size, dtype, out))

    @prefetching
    @accept_foreign_arrays
    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Return floats from `low` on, below `high`: ``low + (high - low) * random()``.

        Parameters
        ----------
        low, high : float or array_like of float
            The ends; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; without it, that of the ends.

        Examples
        --------
        >>> import pycudakit as pk
        >>> pk.random.default_rng(1).uniform(10, 20, 3)
        array([10.66802009, 10.79012982, 10.05777118])
        """
        arguments = self._draw_arguments("uniform", size, low, high)
        low, high = arguments.floats()
        return self._draw(arguments, UNIFORM, FLOAT64, low, high - low)

    @prefetching
    @accept_foreign_arrays
    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Return normally distributed floats: ``loc + scale * standard_normal()``.

        Parameters
        ----------
        loc, scale : float or array_like of float
            The mean and the standard deviation; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; without it, that of the parameters.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).normal([0, 100], 1, (1000, 2))
        >>> abs(x.mean(axis=0) - [0, 100]) < 0.2
        array([ True,  True])
        """
        arguments = self._draw_arguments("normal", size, loc, scale)
        return self._draw(arguments, NORMAL, FLOAT64, *arguments.floats())

    @prefetching
    @accept_foreign_arrays
    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Return exponentially distributed floats: the logarithm of a uniform number, times ``-scale``.

        Parameters
        ----------
        scale : float or array_like of float
            The mean.
        size : int or tuple of int, optional
            The shape; without it, that of `scale`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).exponential(3, 10000)
        >>> abs(float(x.mean()) - 3) < 0.1
        True
        """
        arguments = self._draw_arguments("exponential", size, scale)
        return self._draw(arguments, EXPONENTIAL, FLOAT64, *arguments.floats())

    @prefetching
    @accept_foreign_arrays
    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: Any = "zig", out: Any = None
    ) -> Any:
        """Return exponentially distributed floats of mean 1.

        Each is minus the logarithm of its own 64 bits, or 32 for float32, whatever the `method`.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape; without it and `out`, one number.
        dtype : {float64, float32}
            Their type.
        method : {"zig", "inv"}
            What NumPy draws by, on the engine ``numpy``.
        out : ndarray, optional
            What to fill, in the order of its memory.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).standard_exponential(10000, dtype="float32")
        >>> abs(float(x.mean()) - 1) < 0.05
        True
        """
        arguments = size, dtype, method, out
        return self._floats("standard_exponential", EXPONENTIAL, size, dtype, out, arguments)

    @prefetching
    @accept_foreign_arrays
    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
        """Return floats whose logarithms are normally distributed: the exponentials of `normal`.

        Parameters
        ----------
        mean, sigma : float or array_like of float
            The mean and the standard deviation of the logarithms; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; without it, that of the parameters.

        Examples
        --------
        >>> import numpy as np
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).lognormal(0, 0.5, 10001)
        >>> abs(float(np.median(x)) - 1) < 0.05
        True
        """
        arguments = self._draw_arguments("lognormal", size, mean, sigma)
        return self._draw(arguments, LOGNORMAL, FLOAT64, *arguments.floats())

    @prefetching
    @accept_foreign_arrays
    def standard_gamma(self, shape: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Return floats of a gamma distribution of scale 1, by Marsaglia and Tsang's rejection.

        Parameters
        ----------
        shape : float or array_like of float
            The shape of the distribution.
        size : int or tuple of int, optional
            The shape of the result; without it, that of `out` or `shape`.
        dtype : {float64, float32}
            Their type; float32 are those of float64, rounded.
        out : ndarray, optional
            What to fill, in the order of its memory.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).standard_gamma([0.5, 3], (10000, 2))
        >>> abs(x.mean(axis=0) - [0.5, 3]) < 0.1
        array([ True,  True])
        """
        wanted = float_type(dtype, "standard_gamma")
        if out is not None:
            checked_out(out, size, wanted, must_be_c=True)
            if isinstance(shape, np.ndarray) and np.may_share_memory(shape, out):
                shape = shape.copy()  # or some would be overwritten before they are read
        arguments = self._draw_arguments("standard_gamma", size, shape, out=out, others=(dtype, out))
        return self._draw(arguments, GAMMA, wanted, *arguments.floats(), ONE)

    @prefetching
    @accept_foreign_arrays
    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        """Return floats of a gamma distribution: ``scale * standard_gamma(shape)``.

        Parameters
        ----------
        shape, scale : float or array_like of float
            The shape of the distribution, and its scale; arrays are broadcast.
        size : int or tuple of int, optional
            The shape of the result; without it, that of the parameters.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).gamma(2, 3, 10000)
        >>> abs(float(x.mean()) - 6) < 0.2
        True
        """
        arguments = self._draw_arguments("gamma", size, shape, scale)
        return self._draw(arguments, GAMMA, FLOAT64, *arguments.floats())

    @prefetching
    @accept_foreign_arrays
    def chisquare(self, df: Any, size: Any = None) -> Any:
        """Return floats of a chi-square distribution: ``gamma(df / 2, 2)``.

        Parameters
        ----------
        df : float or array_like of float
            Degrees of freedom.
        size : int or tuple of int, optional
            The shape; without it, that of `df`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).chisquare(5, 10000)
        >>> abs(float(x.mean()) - 5) < 0.2
        True
        """
        arguments = self._draw_arguments("chisquare", size, df)
        (freedom,) = arguments.floats()
        return self._draw(arguments, GAMMA, FLOAT64, freedom / 2, TWO)

    @prefetching
    @accept_foreign_arrays
    def beta(self, a: Any, b: Any, size: Any = None) -> Any:
        """Return floats of a beta distribution: the share of one gamma number in the sum of two.

        Parameters
        ----------
        a, b : float or array_like of float
            The shapes of the two; arrays are broadcast.
        size : int or tuple of int, optional
            The shape of the result; without it, that of the parameters.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).beta(1, 3, 10000)
        >>> abs(float(x.mean()) - 0.25) < 0.02
        True
        """
        arguments = self._draw_arguments("beta", size, a, b)
        return self._draw(arguments, BETA, FLOAT64, *arguments.floats())

    @accept_foreign_arrays
    @logged_as_one_call("multivariate_normal")
    def multivariate_normal(
        self,
        mean: Any,
        cov: Any,
        size: Any = None,
        check_valid: str = "warn",
        tol: float = 1e-8,
        *,
        method: str = "svd",
    ) -> Any:
        """Return vectors of normally distributed floats: rows of `standard_normal`, by a factor of `cov`.

        NumPy finds the factor, and multiplies by it, one column after the other.

        Parameters
        ----------
        mean : array_like of float
            The mean, a vector.
        cov : array_like of float
            The covariance of its elements.
        size : int or tuple of int, optional
            How many vectors; without it, one.
        check_valid : {"warn", "raise", "ignore"}
            What to do about a `cov` that is not symmetric and positive semidefinite.
        tol : float
            How far from that it may be.
        method : {"svd", "eigh", "cholesky"}
            How the factor is found.

        Examples
        --------
        >>> import numpy as np
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).multivariate_normal([0, 9], [[1, 0.5], [0.5, 1]], 10000)
        >>> abs(x.mean(axis=0) - [0, 9]) < 0.1
        array([ True,  True])
        >>> abs(float(np.corrcoef(x.T)[0, 1]) - 0.5) < 0.05
        True
        """
        if self._is_numpys():
            return self._by_numpy(
                "multivariate_normal",
                lambda g: g.multivariate_normal(mean, cov, size, check_valid, tol, method=method),
            )
        centre, covariance, shape = multivariate.checked(mean, cov, size, method)
        factor = multivariate.factor_of(covariance, check_valid, tol, method)
        normals = self.standard_normal(shape).reshape(-1, len(centre))
        return multivariate.combined(normals, factor, centre).reshape(shape)

    # ---- Integers -----------------------------------------------------------------------------------

    @prefetching
    @accept_foreign_arrays
    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        """Return integers of a Poisson distribution.

        By inversion where the mean is below 10, and else by transformed rejection (PTRS).

        Parameters
        ----------
        lam : float or array_like of float
            The mean.
        size : int or tuple of int, optional
            The shape; without it, that of `lam`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).poisson(20, 10000)
        >>> abs(float(x.mean()) - 20) < 0.2
        True
        """
        arguments = self._draw_arguments("poisson", size, lam)
        return self._draw(arguments, POISSON, INT64, *arguments.floats())

    @prefetching
    @accept_foreign_arrays
    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Return how many of `n` trials succeed, each with probability `p`.

        By inversion where the mean of successes, or of failures if they are fewer, is below 10, and else by
        transformed rejection (BTRS).

        Parameters
        ----------
        n : int or array_like of int
            Trials.
        p : float or array_like of float
            The probability that one succeeds.
        size : int or tuple of int, optional
            The shape; without it, that of the parameters.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).binomial(100, 0.3, 10000)
        >>> abs(float(x.mean()) - 30) < 0.2
        True
        """
        arguments = self._draw_arguments("binomial", size, n, p)
        return self._draw(arguments, BINOMIAL, INT64, as_operand(n, INT64), as_operand(p, FLOAT64))

    @prefetching
    @accept_foreign_arrays
    def geometric(self, p: Any, size: Any = None) -> Any:
        """Return how many trials it takes to succeed once: an exponential number, in whole steps.

        Parameters
        ----------
        p : float or array_like of float
            The probability that one trial succeeds.
        size : int or tuple of int, optional
            The shape; without it, that of `p`.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).geometric(0.25, 10000)
        >>> int(x.min()), abs(float(x.mean()) - 4) < 0.2
        (1, True)
        """
        arguments = self._draw_arguments("geometric", size, p)
        return self._draw(arguments, GEOMETRIC, INT64, *arguments.floats())
