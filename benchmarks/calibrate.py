"""Measure what NumPy and the CPU engine take an element, and write pycudakit/_programs/rates.py.

Run it alone on a quiet machine whose NumPy is at its fastest (AVX-512), so that `auto` never leaves NumPy
where NumPy would have answered first:

    PYCUDAKIT_THREADS=1 python benchmarks/calibrate.py
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from pycudakit._library import abi

os.environ["PYCUDAKIT_THREADS"] = "1"

import numpy as np

import pycudakit as pk

ELEMENTS = 16384
REPEATS = 40
TARGET = Path(__file__).parent.parent / "pycudakit" / "_programs" / "rates.py"

HEADER = '''"""Nanoseconds an element of NumPy / of the CPU engine, on one core, in cache, by type.

Written by benchmarks/calibrate.py; the types are in the order of pk_type, "-" where NumPy has no loop.
"""

NANOSECONDS = {
'''


def arguments(name: str, dtype: np.dtype[Any], count: int) -> list[np.ndarray[Any, Any]]:
    """Return ordinary values that no function objects to."""
    rng = np.random.default_rng(0)
    if dtype.kind == "b":
        values = [rng.random(ELEMENTS) < 0.5 for _ in range(count)]
    elif dtype.kind == "f":
        values = [rng.uniform(0.05, 0.95, ELEMENTS) + (name == "arccosh") for _ in range(count)]
    else:
        values = [rng.integers(1, high, ELEMENTS) for high in (100, 5)[:count]]
    return [value.astype(dtype) for value in values]


def functions(name: str) -> tuple[Any, Any, int]:
    """Return NumPy's function and ours, both taking `out`, and their number of arguments."""
    if not name.startswith("cast "):
        return getattr(np, name), getattr(pk, name), getattr(np, name).nin
    target = np.dtype(name.removeprefix("cast "))

    def copy(x: Any, out: Any = None) -> Any:
        if out is None:
            return x.astype(target)
        out[...] = x
        return out

    def cast(x: Any, out: Any) -> None:  # noqa: ARG001
        pk.astype(x, target)

    return copy, cast, 1


def cell(name: str, dtype: np.dtype[Any]) -> str:
    """Return one function's and type's two numbers."""
    numpy, ours, count = functions(name)
    inputs = arguments(name, dtype, count)
    with np.errstate(all="ignore"):
        try:
            out = numpy(*inputs)
        except TypeError:
            return "-"
        numpy_times, our_times = [], []
        for _ in range(REPEATS):
            start = time.perf_counter()
            numpy(*inputs, out=out)
            numpy_times.append(time.perf_counter() - start)
            with pk.engine("cpu"):
                ours(*inputs, out=out)
            call = pk.last_call()
            assert call is not None
            assert call.seconds is not None
            our_times.append(call.seconds)
    return "/".join(f"{min(times) / ELEMENTS * 1e9:.2f}" for times in (numpy_times, our_times))


def main() -> None:
    """Measure, and write the file."""
    names = sorted(n for n in pk.__all__ if isinstance(getattr(np, n, None), np.ufunc))
    names += [f"cast {dtype}" for dtype in abi.TYPES]
    rows = []
    for name in names:
        cells = " ".join(cell(name, dtype) for dtype in abi.TYPES)
        rows.append(f'    "{name}": "{cells}",')
        print(rows[-1], flush=True)
    TARGET.write_text(HEADER + "\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
