"""A drop-in namespace for NumPy: pycudakit functions where they exist, and NumPy's own for the rest.

Write ``import pycudakit.numpy as np`` instead of ``import numpy as np``. `coverage` tells which
implementation each name refers to.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import *  # noqa: F403

    from pycudakit.numpy._exports import coverage as coverage
else:
    from pycudakit.numpy import _exports, _submodules

    _submodules.install_finder()
    _exports.populate(__name__, coverage=lambda: _exports.coverage)
