"""The overhead of a call of a function of `pk.wrap`, beside ctypes with ndpointer by hand, in one process."""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pycudakit as pk

SOURCE = """
extern "C" void nothing(const float *a, const float *b, float *out, int n) {}
"""
ROUNDS, CALLS = 15, 20_000


def by_hand(folder: Path) -> Any:
    """Return the function, built and declared as tutorials do."""
    (folder / "nothing.cpp").write_text(SOURCE)
    library = folder / "nothing.so"
    compiler = shutil.which("c++") or "c++"
    subprocess.run([compiler, "-O3", "-shared", "-fPIC", folder / "nothing.cpp", "-o", library], check=True)
    function = ctypes.CDLL(str(library)).nothing
    array = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
    function.argtypes = (array, array, array, ctypes.c_int)
    function.restype = None
    return function


def seconds(function: Callable[..., Any], arguments: tuple[Any, ...], calls: int) -> float:
    """Return the time of a call."""
    begin = time.perf_counter()
    for _ in range(calls):
        function(*arguments)
    return (time.perf_counter() - begin) / calls


def main() -> None:
    """Print the times, and whether the overhead is at most 1.2 times that of ctypes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="few calls, to try the script")
    options = parser.parse_args()
    rounds, calls = (3, 200) if options.quick else (ROUNDS, CALLS)
    a, b, out = np.ones((3, 1024), np.float32)
    arguments = (a, b, out, 1024)
    with pk.engine("cpu"), tempfile.TemporaryDirectory() as folder:
        wrapped, hand = pk.wrap(SOURCE).nothing, by_hand(Path(folder))
        times: dict[str, list[float]] = {"pk.wrap": [], "ctypes": []}
        for _ in range(rounds):  # in turn, so that both see the machine as it is
            times["pk.wrap"].append(seconds(wrapped, arguments, calls))
            times["ctypes"].append(seconds(hand, arguments, calls))
        begin = time.perf_counter()
        for _ in range(20):
            pk.wrap(SOURCE)
        again = (time.perf_counter() - begin) / 20
    best = {name: min(values) for name, values in times.items()}
    ratio = statistics.median(w / h for w, h in zip(times["pk.wrap"], times["ctypes"], strict=True))
    if options.json:
        print(json.dumps({**best, "ratio": ratio, "again": again}))
        return
    for name, value in best.items():
        print(f"{name:<10} {value * 1e6:7.2f} us a call")
    print(f"ratio      {ratio:7.2f}    {'ok' if ratio <= 1.2 else 'SHORT'} (at most 1.20)")
    print(f"again      {again * 1e3:7.2f} ms {'ok' if again <= 1e-3 else 'SHORT'} (at most 1 ms)")


if __name__ == "__main__":
    main()
