"""Random numbers with NumPy's names: the same bits on every engine, each element's from its own place.

`Generator.random` and `Generator.bytes` give the numbers of ``np.random.Generator(np.random.Philox(seed))``.
"""

from pycudakit import _lazy
from pycudakit.random.dask_arrays import on_dask
from pycudakit.random.generator import Generator, default_rng

__all__ = ["Generator", "default_rng", "on_dask"]

_lazy.set_public_module(__name__, __all__)
