"""Which NumPy is installed, for tests of what NumPy has not always answered as it does now."""

import numpy as np
import pytest

_INSTALLED = np.lib.NumpyVersion(np.__version__)


def has_numpy(version):
    """Tell whether NumPy is of a version, as "2.1", or newer."""
    return f"{version}.0" <= _INSTALLED


def since(version):
    """Mark a test or a case in which NumPy agrees with us since a version."""
    return pytest.mark.skipif(not has_numpy(version), reason=f"NumPy answers so since {version}")
