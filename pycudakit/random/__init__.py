"""Random numbers with NumPy's names, by the counter-based generator Philox4x64-10 (Salmon et al. 2011).

Each element is computed from its own counter, so the bits are the same on every engine.
`Generator.random` and `Generator.bytes` give the numbers of ``np.random.Generator(np.random.Philox(seed))``.
"""

from pycudakit import _lazy
from pycudakit.random.dask_arrays import on_dask
from pycudakit.random.generator import Generator, default_rng

__all__ = ["Generator", "default_rng", "on_dask"]

_lazy.set_public_names(__name__, __all__)
