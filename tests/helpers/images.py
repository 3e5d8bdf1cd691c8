"""Helpers for image tests: dtypes, values, resize methods, and a test image."""

import numpy as np
from hypothesis import strategies as st

TYPES = ["uint8", "uint16", "float32"]
METHODS = ["nearest", "bilinear", "area"]  # resize methods
types = st.sampled_from(TYPES)
kinds = st.sampled_from(["bits", "special", "small"])


def scene(dtype, shape, seed=0):
    """Return an image with a dark and a bright part, and noise."""
    rng = np.random.default_rng(seed)
    a = np.where(rng.random(shape) < 0.3, 0.7, 0.2) + rng.normal(0, 0.06, shape)
    most = 1 if dtype == "float32" else np.iinfo(dtype).max
    return (np.clip(a, 0, 1) * most).astype(dtype)
