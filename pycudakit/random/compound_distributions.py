"""Distributions that need several draws for each number or vector: noncentral, Dirichlet, multinomial, ..."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pycudakit._families.reduce.sums import sum
from pycudakit._families.scan.cumulative import cumprod, cumsum
from pycudakit._interop.dispatch import accept_foreign_arrays
from pycudakit._native.dtypes import FLOAT64, INT64
from pycudakit._runtime.lazy_array import LazyArray
from pycudakit._runtime.public_function import public_function
from pycudakit.random.generator_base import NUMPY_GENERATOR, shape_of
from pycudakit.random.philox import Stream
from pycudakit.random.transform_distributions import TransformedDistributions, named_engine

# If all of alpha are below this, gamma samples may all be 0: NumPy breaks sticks by beta samples instead.
BREAK_STICKS_BELOW = 0.1
_MAX_COUNT = 9e18  # the largest Poisson mean for int64, close to NumPy's limit
_LARGEST = float(np.finfo(FLOAT64).max)


def _check(draw: Callable[[Any], Any], shape: tuple[int, ...], size: Any) -> None:
    """Raise NumPy's errors, by drawing an array without elements."""
    try:
        draw((0, *shape))
    except (TypeError, ValueError, OverflowError):
        draw(size)  # its error names the size that was passed
        raise


class CompoundDistributions(TransformedDistributions):
    """The generator's methods for distributions that need several draws per sample."""

    __slots__ = ()

    def _taken(self, shape: tuple[int, ...]) -> Stream:
        """Take a word per element, and return the stream of these words."""
        position = self._stream.take_words(math.prod(shape))
        return Stream(position.key, position.word)

    @accept_foreign_arrays
    @public_function(one_call="noncentral_chisquare")
    def noncentral_chisquare(self, df: Any, nonc: Any, size: Any = None) -> Any:
        """Draw samples from a noncentral chi-square distribution, from a Poisson and a gamma sample each.

        Parameters
        ----------
        df, nonc : float or array_like of float
            The degrees of freedom and the noncentrality; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).noncentral_chisquare(3, 2, 10000)
        >>> abs(float(x.mean()) - 5) < 0.2
        True
        """
        arguments = self._draw_arguments("noncentral_chisquare", size, df, nonc)
        if self._is_numpys():
            return self._by_numpy("noncentral_chisquare", arguments.by_numpy)
        x = self._halves(self._taken(arguments.shape), arguments.shape, *arguments.floats())
        return self._computed("2 * x", arguments, x, {})

    @accept_foreign_arrays
    @public_function(one_call="noncentral_f")
    def noncentral_f(self, dfnum: Any, dfden: Any, nonc: Any, size: Any = None) -> Any:
        """Draw samples from the noncentral F distribution: ratios of noncentral and central chi-squares.

        Parameters
        ----------
        dfnum, dfden : float or array_like of float
            The degrees of freedom of both.
        nonc : float or array_like of float
            The noncentrality of the numerator; arrays are broadcast.
        size : int or tuple of int, optional
            The shape; by default that of the parameters.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).noncentral_f(5, 20, 2, 10000)
        >>> abs(float(x.mean()) - 20 * 7 / (5 * 18)) < 0.05
        True
        """
        arguments = self._draw_arguments("noncentral_f", size, dfnum, dfden, nonc)
        if self._is_numpys():
            return self._by_numpy("noncentral_f", arguments.by_numpy)
        a, b, nonc = arguments.floats()
        words = self._taken(arguments.shape)
        x = self._halves(words, arguments.shape, a, nonc)
        y = self._at(words.beside(2)).standard_gamma(b / 2, arguments.shape)
        return self._computed("(x * b) / (y * a)", arguments, x, {"a": a, "b": b, "y": y})

    def _halves(self, words: Stream, shape: tuple[int, ...], df: Any, nonc: Any) -> Any:
        """Draw noncentral chi-square samples, divided by 2."""
        is_nan = np.isnan(nonc)
        means = np.where(is_nan, 0.0, nonc) / 2
        most = np.minimum(means, _MAX_COUNT)
        counts = self._at(words).poisson(most, shape)
        is_beyond = means > most
        if isinstance(is_beyond, LazyArray) or is_beyond.any():
            # For so large a mean, Poisson is normal: scale the deviation of a sample of the largest mean.
            scale = np.sqrt(np.minimum(means, _LARGEST) / _MAX_COUNT)
            counts = np.where(is_beyond, means + (counts - most) * scale, counts)
        return self._at(words.beside(1)).standard_gamma(counts + np.where(is_nan, nonc, df / 2), shape)

    @accept_foreign_arrays
    @public_function(one_call="logseries")
    def logseries(self, p: Any, size: Any = None) -> Any:
        """Draw samples from a logarithmic series distribution, by Kemp's algorithm (1981).

        Parameters
        ----------
        p : float or array_like of float
            The parameter of the series.
        size : int or tuple of int, optional
            The shape; by default that of `p`.

        Returns
        -------
        ndarray or scalar
            A scalar without `size`, for parameters that are numbers.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).logseries(0.5, 10000)
        >>> int(x.min()), abs(float(x.mean()) - 1.4427) < 0.05
        (1, True)
        """
        arguments = self._draw_arguments("logseries", size, p)
        if self._is_numpys():
            return self._by_numpy("logseries", arguments.by_numpy)
        words = self._taken(arguments.shape)
        (ratio,) = arguments.floats()
        other = self._at(words.beside(1)).uniform(size=arguments.shape)
        q = self._computed("-expm1(log1p(-p) * (1 - x))", arguments, other, {"p": ratio})
        x = self._at(words).uniform(size=arguments.shape)
        # If q is 0 (p is 0), all samples are 1.
        expression = "1 + floor(log(1 - x) / log(q)) if 1 - x <= q * q else (1.0 if 1 - x >= q else 2.0)"
        x = self._computed(expression, arguments, x, {"q": q})
        return int(x) if arguments.is_scalar else x.astype(INT64)

    # ---- Vectors ------------------------------------------------------------------------------------

    @accept_foreign_arrays
    @public_function(one_call="dirichlet")
    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        """Draw samples from the Dirichlet distribution: gamma samples, divided by their sum.

        Parameters
        ----------
        alpha : array_like of float
            The shape parameters of the gamma samples, a vector.
        size : int or tuple of int, optional
            The number or shape of the vectors; by default one.

        Returns
        -------
        ndarray
            Vectors, along the last axis.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).dirichlet([1, 2, 5], 10000)
        >>> abs(x.mean(axis=0) - [1 / 8, 2 / 8, 5 / 8]) < 0.01
        array([ True,  True,  True])
        """
        if self._is_numpys():
            return self._by_numpy("dirichlet", lambda g: g.dirichlet(alpha, size))
        shape = () if size is None else shape_of(size)
        _check(lambda size_: NUMPY_GENERATOR.dirichlet(alpha, size_), shape, size)
        shapes = np.asarray(alpha, FLOAT64) + 0.0  # turns -0.0, which gamma refuses, into 0.0
        if len(shapes) > 1 and shapes.max() < BREAK_STICKS_BELOW:
            with named_engine():
                return self._broken(shapes, np.empty((*shape, len(shapes))), cumsum, cumprod)
        drawn = self.standard_gamma(shapes, (*shape, len(shapes)))
        with named_engine():
            drawn /= sum(drawn, axis=-1, keepdims=True)
        return drawn

    def _broken(self, shapes: Any, drawn: Any, sums: Callable[..., Any], products: Callable[..., Any]) -> Any:
        """Fill an array of vectors by stick breaking: each element is a beta share of the rest."""
        shapes = np.maximum(shapes, np.finfo(FLOAT64).tiny)  # beta's parameters must be positive
        rests = sums(shapes[:0:-1])[::-1]
        shares = self.beta(shapes[:-1], rests, (*drawn.shape[:-1], len(rests)))
        left = products(1 - shares, axis=-1)
        drawn[..., 0] = shares[..., 0]
        drawn[..., 1:-1] = left[..., :-1] * shares[..., 1:]
        drawn[..., -1] = left[..., -1]
        return drawn

    @accept_foreign_arrays
    @public_function(one_call="multinomial")
    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        """Draw samples from a multinomial distribution, by conditional binomial samples.

        Parameters
        ----------
        n : int or array_like of int
            The number of trials.
        pvals : array_like of float
            The probability of each outcome, along the last axis; that of the last is the rest to 1.
        size : int or tuple of int, optional
            The number or shape of the vectors; by default the broadcast shape of `n` and `pvals` without its
            last axis.

        Returns
        -------
        ndarray
            Vectors, along the last axis.

        Examples
        --------
        >>> import pycudakit as pk
        >>> x = pk.random.default_rng(1).multinomial(100, [0.2, 0.3, 0.5], 10000)
        >>> set(x.sum(axis=1).tolist()), abs(x.mean(axis=0) - [20, 30, 50]) < 0.5
        ({100}, array([ True,  True,  True]))
        """
        if self._is_numpys():
            return self._by_numpy("multinomial", lambda g: g.multinomial(n, pvals, size))
        likely = np.asarray(pvals, FLOAT64)
        own_shape = np.broadcast_shapes(np.shape(n), likely.shape[:-1])
        shape = own_shape if size is None else shape_of(size)
        _check(lambda size_: NUMPY_GENERATOR.multinomial(n, pvals, size_), shape, size)
        words = self._taken(shape)
        drawn = np.empty((*shape, likely.shape[-1]), INT64)
        return self._outcomes(words, np.asarray(n).astype(INT64), likely, drawn)

    def _outcomes(self, words: Stream, trials: Any, likely: Any, drawn: Any) -> Any:
        """Fill an array of vectors with the counts of each outcome, by conditional binomial samples."""
        left, rest = trials, np.ones(())
        for outcome in range(likely.shape[-1] - 1):
            share = likely[..., outcome]
            with np.errstate(invalid="ignore", divide="ignore"):
                now = np.where(rest > 0, np.clip(share / rest, 0, 1), 0)
            counts = self._at(words.beside(outcome)).binomial(left, now, drawn.shape[:-1])
            drawn[..., outcome] = counts
            left, rest = left - counts, rest - share
        drawn[..., -1] = left
        return drawn
