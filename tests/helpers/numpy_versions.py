"""Checks of the NumPy version, for behaviour that changed between releases."""

import numpy as np
import pytest

_INSTALLED = np.lib.NumpyVersion(np.__version__)


def has_numpy(version):
    """Return True if NumPy is of a version, such as "2.1", or newer."""
    return f"{version}.0" <= _INSTALLED


def since(version):
    """Skip a test or a case before the NumPy version that agrees with pycudakit."""
    return pytest.mark.skipif(not has_numpy(version), reason=f"NumPy answers so since {version}")
