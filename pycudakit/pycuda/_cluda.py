"""`pycuda._cluda`: names by which one source of a kernel suits CUDA and OpenCL."""

from __future__ import annotations

_NAMES = {
    "local_barrier()": "__syncthreads();",
    "WITHIN_KERNEL": "__device__",
    "KERNEL": 'extern "C" __global__',
    "GLOBAL_MEM": "",
    "LOCAL_MEM": "__shared__",
    "LOCAL_MEM_ARG": "",
    "REQD_WG_SIZE(X, Y, Z)": "__launch_bounds__((X) * (Y) * (Z), 1)",
}
for _name, _value in (("LID", "threadIdx"), ("GID", "blockIdx"), ("LDIM", "blockDim"), ("GDIM", "gridDim")):
    _NAMES |= {f"{_name}_{axis}": f"{_value}.{'xyz'[axis]}" for axis in range(3)}

CLUDA_PREAMBLE = "".join(f"#define {name} {value}\n" for name, value in _NAMES.items())
