"""Run the array API test suite on NumPy and on pycudakit.numpy, and print the tests that differ.

    python tools/array_api.py FOLDER     # a clone of data-apis/array-api-tests, with its submodule

The suite needs `pytest-json-report` and `ndindex`. The exit status is 1 if a test fails that NumPy passes.
"""

import argparse
import collections
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path


def outcomes(module, folder, engine, examples):
    """Run the suite; return the outcome of each test."""
    with tempfile.TemporaryDirectory() as reports:
        report = Path(reports, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        arguments = [f"--max-examples={examples}", "--hypothesis-seed=1", "array_api_tests"]
        subprocess.run(
            [*command, *arguments],
            cwd=folder,
            env={**os.environ, "ARRAY_API_TESTS_MODULE": module, "PYCUDAKIT_ENGINE": engine},
            check=False,
        )
        cases = list(ET.parse(report).getroot().iter("testcase"))
    found = {}
    for case in cases:
        ended = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        found[f"{case.get('classname')}::{case.get('name')}"] = ended[0] if ended else "passed"
    return found


def main():
    """Run the suite on both, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="the suite's")
    parser.add_argument("--engine", default="auto", help="the engine of pycudakit (auto)")
    parser.add_argument("--examples", type=int, default=100, help="of each test (100)")
    options = parser.parse_args()
    modules = "numpy", "pycudakit.numpy"
    found = [outcomes(module, options.folder, options.engine, options.examples) for module in modules]
    for module, tests in zip(modules, found, strict=True):
        print(f"{module:<16}", dict(collections.Counter(tests.values())))
    on_numpy, on_ours = found
    lost = 0
    for test, numpys in sorted(on_numpy.items()):
        ours = on_ours.get(test, "absent")
        if ours != numpys:
            print(f"{test}: {numpys} on NumPy, {ours} on pycudakit.numpy")
            lost += numpys == "passed"
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
