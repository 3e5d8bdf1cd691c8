"""`%%cuda` of IPython and Jupyter: the kernels of a cell become functions of NumPy arrays."""

from __future__ import annotations

import shlex
from typing import Any

from pycudakit import errors
from pycudakit.kernels.module import SourceModule


def register(shell: Any) -> None:
    """Add the cell magic to an IPython shell."""

    def cuda(line: str, cell: str) -> None:
        """Compile the cell's CUDA C; each `__global__` function becomes a function of the notebook.

        Compiler options may follow `%%cuda`, such as `-DSIZE=16`. A call gives the threads of a block, and
        the blocks, `twice(x, x.size, block=256, grid=pk.grid_for(x.size, 256))`, or the number of threads,
        `twice.launch(x.size, x, x.size)`.
        """
        # A blank line in place of `%%cuda`: the compiler's line numbers are the cell's.
        module = SourceModule(f"\n{cell}", options=shlex.split(line), name="cell.cu")
        kernels = [name for name in module.functions if "<" not in name]
        if not kernels:
            raise errors.InvalidArgument(
                "%%cuda: the cell has no __global__ function, or only templates: these need pk.SourceModule"
            )
        shell.push({name: module.get_function(name) for name in kernels})

    shell.register_magic_function(cuda, magic_kind="cell", magic_name="cuda")
