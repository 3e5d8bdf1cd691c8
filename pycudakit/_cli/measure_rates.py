"""Measurement of NumPy's and the CPU engine's rates, in nanoseconds an element, for each function and dtype.

`python -m pycudakit._cli.measure_rates` prints rows in the format of `_element_programs/measured_rates.py`,
on one thread; `pycudakit tune` reads them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

if __name__ == "__main__":  # before the library is opened, which reads the variable
    os.environ["PYCUDAKIT_THREADS"] = "1"

import numpy as np

import pycudakit as pk
from pycudakit._native import abi

ELEMENTS = 16384


def _arguments(name: str, dtype: np.dtype[Any], count: int) -> list[np.ndarray[Any, Any]]:
    """Return random arguments inside the domain of every function."""
    rng = np.random.default_rng(0)
    values: list[np.ndarray[Any, Any]]
    if dtype.kind == "b":
        values = [rng.random(ELEMENTS) < 0.5 for _ in range(count)]
    elif dtype.kind == "f":
        values = [rng.uniform(0.05, 0.95, ELEMENTS) + (name == "arccosh") for _ in range(count)]
    else:
        values = [rng.integers(1, high, ELEMENTS) for high in (100, 5)[:count]]
    return [value.astype(dtype) for value in values]


def _functions(name: str) -> tuple[Any, Any, int]:
    """Return NumPy's function and ours, both with `out`, and their number of arguments."""
    if name == "clip":
        return _clip_by(np), _clip_by(pk), 1
    if name == "where":
        return _where_by(np), _where_by(pk), 2
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


def _clip_by(library: Any) -> Any:
    """Return `clip` to limits in the middle of the arguments' range."""

    def clip(x: Any, out: Any = None) -> Any:
        limits = (False, True) if x.dtype.kind == "b" else (0.3, 0.7) if x.dtype.kind == "f" else (30, 70)
        return library.clip(x, *limits, out=out)

    return clip


def _where_by(library: Any) -> Any:
    """Return `where` by a random mask; `out` stays as it is."""
    mask = np.random.default_rng(1).random(ELEMENTS) < 0.5
    return lambda x, y, out=None: library.where(mask, x, y)  # noqa: ARG005


def _cell(name: str, dtype: np.dtype[Any], repeats: int) -> str:
    """Measure one function and dtype; return the two rates as "numpy/cpu", or "-" if unsupported."""
    numpy, ours, count = _functions(name)
    inputs = _arguments(name, dtype, count)
    with np.errstate(all="ignore"), pk.engine("cpu"):
        try:
            out = numpy(*inputs)
        except TypeError:
            return "-"
        numpy_times, our_times = [], []
        for _ in range(repeats):
            start = time.perf_counter()
            numpy(*inputs, out=out)
            numpy_times.append(time.perf_counter() - start)
            ours(*inputs, out=out)
            call = pk.last_call()
            our_times.append((call and call.seconds) or float("inf"))
    return "/".join(f"{min(times) / ELEMENTS * 1e9:.2f}" for times in (numpy_times, our_times))


def names() -> list[str]:
    """Return the names of the measured functions and casts."""
    ufuncs = {name: getattr(np, name, None) for name in sorted(pk.__all__)}
    elementwise = [n for n, ufunc in ufuncs.items() if isinstance(ufunc, np.ufunc) and not ufunc.signature]
    return [*sorted([*elementwise, "clip", "where"]), *(f"cast {dtype}" for dtype in abi.TYPES)]


def rows(repeats: int) -> Iterator[tuple[str, str]]:
    """Measure all functions; yield names and rows."""
    for name in names():
        yield name, " ".join(_cell(name, dtype, repeats) for dtype in abi.TYPES)


if __name__ == "__main__":
    for name, row in rows(int(sys.argv[1])):
        sys.stdout.write(f"{name}: {row}\n")
        sys.stdout.flush()
