"""Distributions that the native library samples by its own algorithms: normal, gamma, Poisson and others."""

from __future__ import annotations

from typing import Any

import numpy as np

from pycudakit._interop.dispatch import accept_foreign_arrays
from pycudakit._native.dtypes import FLOAT64, INT64
from pycudakit._runtime.public_function import public_function
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
    """The generator's methods for distributions that `pk_random` draws directly."""

    __slots__ = ()

    # ---- Floats -------------------------------------------------------------------------------------

    @prefetching
    @accept_foreign_arrays
    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Draw samples from a standard Normal distribution (mean=0, stdev=1).

        Each is computed by inversion: the quantile of 64 random bits (32 for float32), the highest bit of
        which is the sign.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape; by default that of `out`, or one number.
        dtype : {float64, float32}
            The type of the samples.
        out : ndarray, optional
            The array to fill, in memory order.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`.

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
        """Draw samples from a uniform distribution over [low, high): ``low + (high - low) * random()``.

        Parameters
        ----------
        low, high : float or array_like of float
            The bounds; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the bounds.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

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
        """Draw random samples from a normal (Gaussian) distribution: ``loc + scale * standard_normal()``.

        Parameters
        ----------
        loc, scale : float or array_like of float
            The mean and the standard deviation; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

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
        """Draw samples from an exponential distribution, by inversion: ``-scale * log(uniform)``.

        Parameters
        ----------
        scale : float or array_like of float
            The mean.
        size : int or tuple of int, optional
            The shape; by default that of `scale`.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

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
        """Draw samples from the standard exponential distribution, with mean 1.

        Each is minus the logarithm of 64 random bits (32 for float32), whatever the `method`.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape; by default that of `out`, or one number.
        dtype : {float64, float32}
            The type of the samples.
        method : {"zig", "inv"}
            NumPy's algorithm, on the engine ``numpy``; ignored by others.
        out : ndarray, optional
            The array to fill, in memory order.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`.

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
        """Draw samples from a log-normal distribution: the exponentials of `normal`.

        Parameters
        ----------
        mean, sigma : float or array_like of float
            The mean and the standard deviation of the logarithms; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

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
        """Draw samples from a standard Gamma distribution, of scale 1, by Marsaglia and Tsang's rejection.

        Parameters
        ----------
        shape : float or array_like of float
            The shape of the distribution.
        size : int or tuple of int, optional
            The shape of the result; by default that of `out` or `shape`.
        dtype : {float64, float32}
            The type of the samples; float32 are rounded from float64.
        out : ndarray, optional
            The array to fill, in memory order.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).standard_gamma([0.5, 3], (10000, 2))
        >>> abs(x.mean(axis=0) - [0.5, 3]) < 0.1
        array([ True,  True])
        """
        float_dtype = float_type(dtype, "standard_gamma")
        if out is not None:
            checked_out(out, size, float_dtype, must_be_c=True)
            if isinstance(shape, np.ndarray) and np.may_share_memory(shape, out):
                shape = shape.copy()  # it would be overwritten while it is read
        arguments = self._draw_arguments("standard_gamma", size, shape, out=out, others=(dtype, out))
        return self._draw(arguments, GAMMA, float_dtype, *arguments.floats(), ONE)

    @prefetching
    @accept_foreign_arrays
    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw samples from a Gamma distribution: ``scale * standard_gamma(shape)``.

        Parameters
        ----------
        shape, scale : float or array_like of float
            The shape of the distribution, and its scale; arrays are broadcast.
        size : int or tuple of int, optional
            The shape of the result; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

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
        """Draw samples from a chi-square distribution: ``gamma(df / 2, 2)``.

        Parameters
        ----------
        df : float or array_like of float
            Degrees of freedom.
        size : int or tuple of int, optional
            The shape; by default that of `df`.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

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
        """Draw samples from a Beta distribution: a gamma sample divided by the sum of two.

        Parameters
        ----------
        a, b : float or array_like of float
            The shapes of the two gamma distributions; arrays are broadcast.
        size : int or tuple of int, optional
            The shape of the result; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

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
    @public_function(one_call="multivariate_normal")
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
        """Draw random samples from a multivariate normal distribution.

        A vector is a row of `standard_normal` times a factor of `cov`. NumPy computes the factor and the
        product.

        Parameters
        ----------
        mean : array_like of float
            The mean, a vector.
        cov : array_like of float
            The covariance of its elements.
        size : int or tuple of int, optional
            The number or shape of the vectors; by default one.
        check_valid : {"warn", "raise", "ignore"}
            The reaction to a `cov` that is not symmetric and positive semidefinite.
        tol : float
            The tolerance of that check.
        method : {"svd", "eigh", "cholesky"}
            The factorization of `cov`.

        Returns
        -------
        ndarray
            Vectors, along the last axis.

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
        centre, covariance, shape = multivariate.checked_arguments(mean, cov, size, method)
        factor = multivariate.factor_of(covariance, check_valid, tol, method)
        normals = self.standard_normal(shape).reshape(-1, len(centre))
        return multivariate.from_normals(normals, factor, centre).reshape(shape)

    # ---- Integers -----------------------------------------------------------------------------------

    @prefetching
    @accept_foreign_arrays
    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        """Draw samples from a Poisson distribution.

        The algorithm is inversion if the mean is below 10, else transformed rejection (PTRS, Hörmann 1993).

        Parameters
        ----------
        lam : float or array_like of float
            The mean.
        size : int or tuple of int, optional
            The shape; by default that of `lam`.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

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
        """Draw samples from a binomial distribution: the number of successes in `n` trials.

        The algorithm is inversion if the mean of successes, or of failures if they are fewer, is below 10,
        else transformed rejection (BTRS, Hörmann 1993).

        Parameters
        ----------
        n : int or array_like of int
            The number of trials.
        p : float or array_like of float
            The probability of success in one trial.
        size : int or tuple of int, optional
            The shape; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

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
        """Draw samples from the geometric distribution: the trials until the first success, by inversion.

        Parameters
        ----------
        p : float or array_like of float
            The probability of success in one trial.
        size : int or tuple of int, optional
            The shape; by default that of `p`.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).geometric(0.25, 10000)
        >>> int(x.min()), abs(float(x.mean()) - 4) < 0.2
        (1, True)
        """
        arguments = self._draw_arguments("geometric", size, p)
        return self._draw(arguments, GEOMETRIC, INT64, *arguments.floats())
