"""Print docs/reliability.md: how the library is tested against failures, with the outcomes."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import pycudakit as pk

TESTS = Path(__file__).parents[1]
INTERRUPTS = os.environ.setdefault("PYCUDAKIT_TEST_INTERRUPTS", "3000")
CRASHES = os.environ.setdefault("PYCUDAKIT_TEST_CRASHES", "20")
FAILURES = os.environ.setdefault("PYCUDAKIT_TEST_FAILURES", "3")
os.environ.setdefault("PYCUDAKIT_TEST_LARGE", "1")
AT_ONCE = 3  # runs of tests: most of them wait

# The failures, the expected behaviour, and the tests: arguments of pytest.
TRIED = [
    (
        f"a signal handler that raises anywhere, up to {int(INTERRUPTS):,} times in each of 7 works",
        "each exception arrives as it was raised; NumPy's allocator is its own again",
        ["engines/test_many_interrupts.py"],
    ),
    (
        "Ctrl-C in long calls, and in `sort`, `argsort`, `unique`, `median` of 20 million elements",
        "`KeyboardInterrupt` within 0.2 s (1 s where the machine is busy), and right answers after it",
        ["engines/test_interrupt.py"],
    ),
    (
        "Ctrl-C, and handlers that return, in kernels without end, in one block and many",
        "`KeyboardInterrupt` within 0.5 s (2 s where the machine is busy); one that goes on answers the same",
        ["kernels/test_endless_kernels.py"],
    ),
    (
        "wild pointers, null pointers, reads 2**60 elements beyond an array, with `debug=True`",
        "an error that names kernel, thread and the nearest parameter",
        ["kernels/test_debug_out_of_bounds.py"],
    ),
    (
        f"helpers: {CRASHES} crashes, timeouts, SIGSTOP, SIGKILL of either side, children of all kinds",
        "an error in time, nothing written; no zombie and no descriptor is left, and no orphan for 2 s",
        ["kernels/test_workers.py", "kernels/test_worker_exit.py"],
    ),
    (
        "static objects of a source that crash, or do not end, when a helper loads its kernels",
        "an error that names the kernel, within the timeout; this process loads nothing",
        ["kernels/test_worker_static_objects.py"],
    ),
    (
        "a compiler that does not end",
        "it is stopped with its children",
        ["kernels/test_compile_limit.py"],
    ),
    (
        "85 kinds of bad input, generators, objects, a wrong `__array__`, in all of NumPy's names",
        "NumPy's answer and type, or a plain error",
        ["interop/test_bad_input.py"],
    ),
    (
        "inputs that another thread changes during the call",
        "any answer, and no other memory",
        ["fuzz/test_scribble.py"],
    ),
    (
        "lists of requests (`pk_run_requests`): random ones, and with an invalid argument or request",
        "the bits of single calls; an error, and nothing or the calls before it are run; then right answers",
        ["abi/test_requests.py", "abi/test_request_families.py", "fuzz/test_lists.py"],
    ),
    (
        (
            f"the first {FAILURES} calls for memory, threads and files of 55 operations fail, "
            "each or all from it on"
        ),
        "`MemoryError` or the right answer, then right answers; no memory and no descriptor is lost",
        ["engines/test_system_call_failures.py"],
    ),
    (
        "64 threads in blocks of 1,024 threads that wait for each other; a stack that is not deep enough",
        "right answers, with a third of the mappings that a process may have; no other stack is met",
        ["kernels/test_stacks.py"],
    ),
    (
        "no more memory, processes, descriptors, locked memory or bytes of files; a full disk; small stacks",
        "right answers, or an error in one line that names the need; right answers when there is more",
        ["engines/test_resource_limits.py"],
    ),
    (
        "libraries that are truncated, incomplete or unreadable; invalid settings and compilers",
        "each engine says why in a line; `auto` says it once, and is right without",
        ["engines/test_broken_installations.py"],
    ),
    (
        "arrays of 2**31 + 5 elements; of 2**40 and 2**36 elements of stride 0, in 150 calls, `auto` too",
        "right answers, or `MemoryError`; whatever takes long ends when a signal comes",
        ["engines/test_large_arrays.py"],
    ),
    (
        "memmaps whose files were cut off, in functions of all families",
        "an error that names the file, before the memory is accessed",
        ["interop/test_memory_maps.py"],
    ),
    (
        "interpreters within a process, one after the other and at once",
        "right answers, or NumPy's `ImportError`; the process goes on",
        ["engines/test_subinterpreters.py"],
    ),
    (
        "the end of a process while daemon threads and handlers of `atexit` compute",
        "it ends within 5 s with its own exit code",
        ["engines/test_process_exit.py"],
    ),
]


def outcome(paths: list[str]) -> str:
    """Run tests, and return how many passed, failed and were skipped."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
            + [str(TESTS / path) for path in paths],
            check=False,
            stdout=sys.stderr,
        )
        suite = next(ET.parse(report).iter("testsuite"))
    count = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    bad = count["failures"] + count["errors"]
    told = [f"{count['tests'] - bad - count['skipped']} passed"]
    told += [f"**{bad} failed**"] if bad else []
    told += [f"{count['skipped']} skipped"] if count["skipped"] else []
    return ", ".join(told)


def calls_table(told: list[list[dict[str, int]]]) -> str:
    """Return a table of the output of entries.py: how often each entry was called, over all types."""
    rows: dict[str, list[int]] = {}
    for run in told:
        for place, counts in enumerate(run):
            for name, count in counts.items():
                row = rows.setdefault(re.sub(r"_([iuf]\d+|bool)$", "_*", name), [0, 0, 0])
                row[place] += count
    head = "| entry | valid calls | corrupted calls | of which refused |\n| --- | --- | --- | --- |\n"
    return head + "".join(
        f"| `{name}` | {a:,} | {b:,} | {c:,} |\n" for name, (a, b, c) in sorted(rows.items())
    )


def fuzz() -> list[dict[str, int]]:
    """Run the fuzzer over every entry."""
    calls = os.environ.get("PYCUDAKIT_FUZZ_CALLS", "100000")
    command = [sys.executable, str(TESTS / "fuzz" / "entries.py"), calls]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told: list[dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Print the page."""
    engines = ", ".join(f"`{name}`" for name, status in pk.engines().items() if status and name != "numpy")
    python = ".".join(map(str, sys.version_info[:3]))
    say = sys.stdout.write
    say(
        "# Reliability\n\n"
        "How pycudakit is tested against failures, the required outcome, and the results on one machine\n"
        f"({sys.platform}, Python {python}; engines: {engines}).\n"
        "`python tests/fuzz/reliability.py` writes this page. `PYCUDAKIT_TEST_INTERRUPTS`,\n"
        "`PYCUDAKIT_TEST_CRASHES` and `PYCUDAKIT_TEST_FAILURES` set the numbers of repetitions.\n\n"
        "| failure | required outcome | tests | result |\n| --- | --- | --- | --- |\n"
    )
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as executor:
        outcomes = executor.map(outcome, [paths for *_, paths in TRIED])
        fuzzed = executor.submit(fuzz)
        for (tried, wanted, paths), came_out in zip(TRIED, outcomes, strict=True):
            names = ", ".join(f"`tests/{path}`" for path in paths)
            say(f"| {tried} | {wanted} | {names} | {came_out} |\n")
            sys.stdout.flush()  # it takes long
    say(
        "\n## Calls of the C ABI\n\n"
        "Calls of `tests/fuzz/entries.py` with valid and with corrupted arguments. No call ended the\n"
        "process, no refused call wrote anything, and none failed by a fault of the library itself.\n"
        "`PYCUDAKIT_FUZZ_CALLS` sets the number of corrupted calls.\n\n"
    )
    say(calls_table([fuzzed.result()]))
    say("\n## PyCUDA's own tests\n\nThe summary of `tools/pycudas_tests.py` is added by hand.\n")


if __name__ == "__main__":
    main()
