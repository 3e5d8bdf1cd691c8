"""`numpy.random`, with pycudakit's generators where it has them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.random import *  # noqa: F403
else:
    from pycudakit.numpy import _exports, _generators

    _exports.populate(
        __name__, Generator=lambda: _generators.Generator, default_rng=lambda: _generators.default_rng
    )
