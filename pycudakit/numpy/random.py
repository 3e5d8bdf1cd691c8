"""`numpy.random`: NumPy's own, until `pycudakit.numpy.use_random` puts the generators of pycudakit in it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.random import *  # noqa: F403
else:
    from pycudakit.numpy import _exports

    _exports.populate(__name__, {})
