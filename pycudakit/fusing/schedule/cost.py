"""What a fused function takes as NumPy has it, and on each engine: what `auto` decides by, the next time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pycudakit._element_programs.program_cost import GPU_MARGIN
from pycudakit._native import engine_status
from pycudakit._runtime.cost_model import CUDA_CALL, cuda_seconds

# Seconds
_NUMPY_CALL = 0.8e-6  # of NumPy's call for an operation
_TRACE_OP = 3e-6  # of ours, to write it down
_KERNEL = 40e-6  # of a pass, beside its work
_NUMPY_ELEMENT, _OUR_ELEMENT = 4e-9, 2e-9  # of functions that are no programs
_GIVE_UP_SECONDS = 4e-3  # of what is worth leaving to NumPy halfway
_GIVE_UP_SECONDS_SMALL = 1e-3  # and where arguments are small

_GIVE_UP_RATIO = 4  # times NumPy's seconds: what takes longer is left to NumPy halfway
_MEASURED_CALLS = 2  # calls of each, where somebody measures
_CONCLUSIVE_RATIO = 3  # times ours: where NumPy takes longer, by what is guessed, nobody measures


@dataclass
class Costs:
    """The guessed seconds of a call of a fused function, which has told what it did."""

    numpy: float = 0.0
    cpu: float = 0.0
    passes: int = 0
    up: int = 0  # bytes that the GPU would read
    down: int = 0
    has_small_arguments: bool = False  # arguments, which NumPy is likely to be the best for

    def operation(self, size: int, an_element: float) -> None:
        """Add an operation that was written down."""
        self.numpy += _NUMPY_CALL + size * an_element
        self.cpu += _TRACE_OP

    def view(self) -> None:
        """Add a view."""
        self.numpy += 0.25e-6
        self.cpu += 0.5 * _TRACE_OP

    def concretization(self) -> None:
        """Add a look of Python's at a value."""
        self.numpy += 0.1e-6
        self.cpu += 3 * _TRACE_OP

    def evaluated(self, seconds: float) -> None:
        """Add a pass over a program."""
        self.cpu += _KERNEL + seconds
        self.passes += 1

    def called(self, size: int, is_numpys: bool = False) -> None:
        """Add a function that was called at once, which may be NumPy's, too, on the CPU."""
        self.numpy += 5 * _NUMPY_CALL + size * (_OUR_ELEMENT if is_numpys else _NUMPY_ELEMENT)
        self.cpu += _KERNEL + size * _OUR_ELEMENT
        self.passes += 1

    @property
    def is_far_slower_than_numpy(self) -> bool:
        """Whether passes have taken far longer than NumPy would have, which is to do the rest."""
        long = _GIVE_UP_SECONDS_SMALL if self.has_small_arguments else _GIVE_UP_SECONDS
        return self.cpu > long and self.cpu > _GIVE_UP_RATIO * self.numpy

    @property
    def is_conclusive(self) -> bool:
        """Whether who answers first is beyond doubt."""
        return not self.cpu < self.numpy < _CONCLUSIVE_RATIO * self.cpu

    def best(self) -> str:
        """Return who would answer first: "numpy", "cuda", or "cpu"."""
        if self.numpy <= self.cpu:
            return "numpy"
        if engine_status.status("cuda"):
            on_cuda = cuda_seconds(self.up, self.down) + self.passes * CUDA_CALL
            if on_cuda < GPU_MARGIN * self.cpu:
                return "cuda"
        return "cpu"


class Autotuner:
    """Measured calls, where guesses leave it open whether NumPy answers before the CPU engine.

    First some run pass by pass, then as many in NumPy. Only those count that have the first one's numbers
    among their arguments, for one may say how many steps there are.

    Parameters
    ----------
    numbers
        Those of the first call.
    """

    def __init__(self, numbers: tuple[Any, ...]) -> None:
        self._numbers = numbers
        self._seconds: dict[str, list[float]] = {"cpu": [], "numpy": []}

    def next_engine(self, numbers: tuple[Any, ...]) -> str | None:
        """Return who runs a call that is measured; None for one that is not."""
        if numbers != self._numbers:
            return None
        return "cpu" if len(self._seconds["cpu"]) < _MEASURED_CALLS else "numpy"

    def record_time(self, engine: str, seconds: float) -> str | None:
        """Note what a call took, and return who answers first, once that is known."""
        self._seconds[engine].append(seconds)
        cpu, numpy = self._seconds["cpu"], self._seconds["numpy"]
        if len(numpy) < _MEASURED_CALLS:
            return None
        return "cpu" if min(cpu) <= min(numpy) else "numpy"


def scalars_in(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return the numbers among arguments."""
    return tuple([value for value in values if type(value) in (int, float, bool)])
