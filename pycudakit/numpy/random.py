"""`numpy.random`, with the generators of pycudakit."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.random import *  # noqa: F403
else:
    from pycudakit.numpy import _exports, _generators

    _exports.populate(
        __name__, Generator=lambda: _generators.Generator, default_rng=lambda: _generators.default_rng
    )
