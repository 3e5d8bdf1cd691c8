"""`pycuda._driver`: the names of PyCUDA's C++ module, by which programs find out whether it is installed."""

from __future__ import annotations

from pycudakit.pycuda import driver
from pycudakit.pycuda.driver import *  # noqa: F403
from pycudakit.pycuda.tools import (
    DeviceMemoryPool,
    PageLockedAllocator,
    PageLockedMemoryPool,
    PooledDeviceAllocation,
    PooledHostAllocation,
    bitlog2,
)

__all__ = driver.__all__ + [  # noqa: RUF005
    "DeviceMemoryPool",
    "PageLockedAllocator",
    "PageLockedMemoryPool",
    "PooledDeviceAllocation",
    "PooledHostAllocation",
    "bitlog2",
]
