"""`numpy.linalg`, with pycudakit functions where they exist."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.linalg import *  # noqa: F403
else:
    from pycudakit.numpy import _exports

    _exports.populate(__name__, _exports.shared_names(__name__))
