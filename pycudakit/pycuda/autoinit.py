"""`import pycuda.autoinit`: a context of the default device becomes current."""

from __future__ import annotations

import os

from pycudakit.pycuda import driver

driver.init()
device = driver.Device(int(os.environ.get("CUDA_DEVICE", "0")))
context = device.make_context()
