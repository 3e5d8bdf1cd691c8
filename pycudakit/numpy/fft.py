"""`numpy.fft`, whose transforms run in NumPy."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.fft import *  # noqa: F403
else:
    from pycudakit.numpy import _exports

    _exports.populate(__name__, {})
