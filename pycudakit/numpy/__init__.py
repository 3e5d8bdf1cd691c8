"""NumPy's names: pycudakit's functions where it has them, and NumPy's own for the rest.

``import pycudakit.numpy as np`` takes the place of ``import numpy as np``. `coverage` tells whose a name is.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import *  # noqa: F403

    from pycudakit.numpy._exports import coverage
else:
    from pycudakit.numpy import _exports, _submodules

    _submodules.install_finder()
    _exports.populate(__name__, coverage=lambda: _exports.coverage)
