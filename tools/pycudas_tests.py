"""Run PyCUDA's own tests and examples with pycudakit in PyCUDA's place, on each engine; print the failures.

    python tools/pycudas_tests.py FOLDER [--engine cpu]     # a clone of inducer/pycuda

The tests of features that CUDA 12 has removed (textures, surfaces), or that pycudakit refuses, are left out.
The exit status is 1 if a test or an example fails.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import pycudakit as pk

# The tests that are not run: their files, and parts of their names.
LEFT_OUT = {
    "test_driver.py": ("texture", "surf", "recursive_launch", "jit_link_module"),
    "test_gpuarray.py": ("texture", "big_array"),
    "test_cumath.py": (),
}
# On the CPU arrays have no __cuda_array_interface__, by which other libraries would take them to be on a GPU.
LEFT_OUT_ON_CPU = ("gpuarray_cai",)
EXAMPLES = (
    *("demo", "hello_gpu", "demo_struct", "demo_elementwise", "dump_properties"),
    *(
        f"from-wiki/{name}"
        for name in (
            *("arithmetic_example", "c++_function_templates", "demo_complex", "distance_element_wise3d"),
            *("kernel_concurrency", "manhattan_distance_for_2D_array", "matrixmul_simple", "matrixmul_tiled"),
            *("multiple_threads", "select_to_list", "threads_and_blocks", "using_printf"),
        )
    ),
)
RUN = "-m", "pycudakit", "pycuda"


def outcomes(folder, name, engine):
    """Run a file of tests; return the outcome of each test, and the reason of a failure."""
    parts = (*LEFT_OUT[name], *(LEFT_OUT_ON_CPU if engine == "cpu" else ()))
    wanted = " and ".join(f"not {part}" for part in parts)
    with tempfile.TemporaryDirectory() as reports:
        report = Path(reports, "report.xml")
        # Settings of a project that the folder lies in do not hold for it.
        words = [
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            f"--rootdir={folder.resolve()}",
        ]
        words += [f"--junitxml={report}", name]
        command = [sys.executable, *RUN, "--engine", engine, *words, "-k", wanted or "test"]
        subprocess.run(command, cwd=folder / "test", stdout=subprocess.DEVNULL, check=False)
        cases = list(ET.parse(report).getroot().iter("testcase")) if report.exists() else []
    found = {}
    for case in cases:
        ended = [child for child in case if child.tag in ("failure", "error", "skipped")]
        reason = ended[0].get("message", "").partition("\n")[0] if ended else ""
        found[case.get("name")] = (ended[0].tag if ended else "passed", reason)
    return found or {"all": ("error", "the tests did not run")}


def example(folder, name, engine, timeout):
    """Run an example; return its outcome, and the reason of a failure."""
    path = folder / "examples" / f"{name}.py"
    command = [sys.executable, *RUN, "--engine", engine, path.name]
    try:
        done = subprocess.run(
            command,
            cwd=path.parent,
            env={**os.environ, "MPLBACKEND": "Agg"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "error", f"it took more than {timeout} s"
    if done.returncode == 0:
        return "passed", ""
    return "failure", (done.stderr.strip().splitlines() or ["no message"])[-1]


def main():
    """Run everything on the engines; print a line for each failure, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", choices=("cpu", "cuda"), action="append")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for an example")
    arguments = parser.parse_args()
    engines = arguments.engine or [name for name in ("cpu", "cuda") if pk.engines()[name]]
    failed = False
    for engine in engines:
        for name in LEFT_OUT:
            found = outcomes(arguments.folder, name, engine)
            failed |= report(engine, name, found)
        ends = {name: example(arguments.folder, name, engine, arguments.timeout) for name in EXAMPLES}
        failed |= report(engine, "examples", ends)
    return 1 if failed else 0


def report(engine, name, found):
    """Print the failures and the counts of a file; return whether there are failures."""
    bad = {case: end for case, end in found.items() if end[0] in ("failure", "error")}
    for case, (_, reason) in bad.items():
        print(f"{engine}  {name}  {case}: {reason}")
    passed = sum(kind == "passed" for kind, _ in found.values())
    skipped = sum(kind == "skipped" for kind, _ in found.values())
    print(f"{engine}  {name}: {passed} passed, {skipped} skipped, {len(bad)} failed", flush=True)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
