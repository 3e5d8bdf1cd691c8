"""Run NumPy's tests on NumPy and on pycudakit.numpy, and print the tests that differ.

    python tools/numpys_tests.py                            # of NumPy's functions, some minutes
    python tools/numpys_tests.py numpy/lib/tests/test_nanfunctions.py --engine cpu

The test files are those installed with NumPy. Their imports of NumPy return pycudakit.numpy, which has
NumPy's functions where pycudakit has none. These, and calls that a named engine refuses, run in NumPy. The
exit status is 1 if a test fails that passes on NumPy.
"""

import argparse
import builtins
import collections
import importlib
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import pycudakit

SITE = Path(np.__file__).parents[1]
FILES = """
_core: einsum function_base half indexing item_selection longdouble mem_overlap multiarray
_core: nep50_promotions numeric overrides regression scalarmath shape_base ufunc umath umath_accuracy
_core: umath_complex
lib: arraypad arraysetops function_base histograms index_tricks nanfunctions regression shape_base
lib: stride_tricks twodim_base type_check ufunclike
linalg: linalg regression
matrixlib: defmatrix interaction masked_matrix matrix_linalg multiarray numeric regression
ma: core extras old_ma regression subclassing
fft: helper pocketfft
polynomial: chebyshev classes hermite hermite_e laguerre legendre polynomial polyutils
"""
OURS = {f"numpy{room}": f"pycudakit.numpy{room}" for room in ("", ".fft", ".linalg", ".random")}


def usual_files():
    """Return the paths of the tests of functions that pycudakit has, and of modules that use them."""
    found = []
    for part in FILES.strip().splitlines():
        folder, _, names = part.partition(": ")
        found += [f"numpy/{folder}/tests/test_{name}.py" for name in names.split()]
    return found


class Replaced:
    """A pytest plugin: test modules that import NumPy get pycudakit.numpy."""

    def __init__(self):
        pycudakit.set_engine(os.environ["PYCUDAKIT_ENGINE"], fallback="numpy")
        self._import = builtins.__import__
        builtins.__import__ = self.import_

    def import_(self, name, globals=None, locals=None, fromlist=(), level=0):
        found = self._import(name, globals, locals, fromlist, level)
        file = Path((globals or {}).get("__file__") or "")
        if level or name.partition(".")[0] != "numpy" or file.parent.name != "tests":
            return found
        if not fromlist:
            return importlib.import_module(OURS["numpy"])
        return importlib.import_module(OURS[name]) if name in OURS else found


def run(file, report, is_replaced):
    """Run pytest in this process."""
    arguments = ["-q", "--tb=short", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(SITE)]
    arguments += ["-W", "ignore::pytest.PytestUnknownMarkWarning", f"--junitxml={report}"]
    arguments += ["-m", "not slow", str(SITE / file)]
    return pytest.main(arguments, [Replaced()] if is_replaced else [])


def outcomes(file, is_replaced, engine, log):
    """Return the outcome of each test of a file; write the output of pytest to `log`."""
    with tempfile.TemporaryDirectory() as reports:
        report = Path(reports, "report.xml")
        command = [sys.executable, __file__, file, "--report", str(report), *["--replaced"] * is_replaced]
        # Tests with arrays of gigabytes are skipped without enough memory.
        environment = {**os.environ, "PYCUDAKIT_ENGINE": engine, "NPY_AVAILABLE_MEM": "1 GB"}
        ended = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False).returncode
        if not report.exists():
            return {file: f"ended with {ended}"}
        cases = list(ET.parse(report).getroot().iter("testcase"))
    found = {}
    for case in cases:
        ended = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        name = f"{case.get('classname')}::{case.get('name')}"
        while name in found:  # parameters with the same text
            name += "'"
        found[name] = ended[0] if ended else "passed"
    return found


def main():
    """Run the tests on both, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", help="as numpy/lib/tests/test_histograms.py")
    parser.add_argument("--engine", default="auto", help="the engine of pycudakit (auto)")
    parser.add_argument("--log", default="numpys_tests.log", help="the file for pytest's output")
    parser.add_argument("--report", help=argparse.SUPPRESS)
    parser.add_argument("--replaced", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.report:
        return run(options.files[0], options.report, options.replaced)
    on_numpy, on_ours = {}, {}
    with open(options.log, "w") as log, open(os.devnull, "w") as nowhere:
        for file in options.files or usual_files():
            on_numpy |= outcomes(file, False, "numpy", nowhere)
            on_ours |= outcomes(file, True, options.engine, log)
    for name, found in (("numpy", on_numpy), ("pycudakit.numpy", on_ours)):
        print(f"{name:<16}", dict(collections.Counter(found.values())))
    lost = 0
    for test, numpys in sorted(on_numpy.items()):
        ours = on_ours.get(test, "absent")
        if ours != numpys:
            print(f"{test}: {numpys} on NumPy, {ours} on pycudakit.numpy")
            lost += numpys == "passed"
    passed = sum(found == "passed" for found in on_numpy.values())
    print(f"{passed - lost} of {passed} that pass on NumPy pass on pycudakit.numpy")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
