"""What a fused function takes as NumPy has it, and on each engine: what `auto` decides by, the next time."""

from __future__ import annotations

from dataclasses import dataclass

from pycudakit._calls.cost import CUDA_CALL, cuda_seconds
from pycudakit._library import present
from pycudakit._programs.estimate import CLEARLY

# Seconds
_NUMPY_CALL = 0.8e-6  # of NumPy's call for an operation
_RECORDED = 3e-6  # of ours, to write it down
_PASS = 40e-6  # of a pass, beside its work
_NUMPY_ELEMENT, _OUR_ELEMENT = 4e-9, 2e-9  # of functions that are no programs


@dataclass
class Costs:
    """The guessed seconds of a call of a fused function, which has told what it did."""

    numpy: float = 0.0
    cpu: float = 0.0
    passes: int = 0
    up: int = 0  # bytes that the GPU would read
    down: int = 0

    def operation(self, size: int, an_element: float) -> None:
        """Add an operation that was written down."""
        self.numpy += _NUMPY_CALL + size * an_element
        self.cpu += _RECORDED

    def view(self) -> None:
        """Add a view."""
        self.numpy += 0.25e-6
        self.cpu += 0.5 * _RECORDED

    def evaluated(self, seconds: float) -> None:
        """Add a pass over a program."""
        self.cpu += _PASS + seconds
        self.passes += 1

    def called(self, size: int, is_numpys: bool = False) -> None:
        """Add a function that was called at once, which may be NumPy's, too, on the CPU."""
        self.numpy += 5 * _NUMPY_CALL + size * (_OUR_ELEMENT if is_numpys else _NUMPY_ELEMENT)
        self.cpu += _PASS + size * _OUR_ELEMENT
        self.passes += 1

    def best(self) -> str:
        """Return who would answer first: "numpy", "cuda", or "cpu"."""
        if self.numpy <= self.cpu:
            return "numpy"
        if present.status("cuda"):
            on_cuda = cuda_seconds(self.up, self.down) + self.passes * CUDA_CALL
            if on_cuda < CLEARLY * self.cpu:
                return "cuda"
        return "cpu"
