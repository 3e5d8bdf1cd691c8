"""A drop-in namespace for NumPy: pycudakit functions where they exist, and NumPy's own for the rest.

Write ``import pycudakit.numpy as np`` instead of ``import numpy as np``. `coverage` tells which
implementation each name refers to. Random numbers are NumPy's, unless `use_random` is called.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import *  # noqa: F403

    from pycudakit.numpy._exports import coverage as coverage
    from pycudakit.numpy._exports import use_random as use_random
else:
    from pycudakit.numpy import _exports, _submodules

    _submodules.install_finder()
    _exports.populate(
        __name__,
        _exports.shared_names(__name__),
        coverage=lambda: _exports.coverage,
        use_random=lambda: _exports.use_random,
    )
