"""`pycudakit trace script.py`: runs a script in a profile, and reports where the time of its calls went."""

from __future__ import annotations

import os
import runpy
import sys
import time
import traceback
from collections.abc import Iterator, Sequence

import pycudakit as pk
from pycudakit._cli.advice import advice
from pycudakit._cli.progress import Say

LINES = 30  # of a table of single calls; more calls are summed up


def run(say: Say, script: str, arguments: Sequence[str], output: str) -> int:
    """Run a script as `python` does, write the trace, print table and advice; return the exit status."""
    if not os.path.isfile(script):
        say(f"{script} does not exist or is not a file: name a Python script")
        return 1
    path = os.path.abspath(output)  # the script may change the working folder
    try:
        with open(path, "a", encoding="utf-8"):  # fail early, before the script runs
            pass
    except OSError as error:
        return _refused(say, output, error)
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [script, *arguments], os.path.dirname(os.path.abspath(script))
    try:
        begin = time.perf_counter()
        with pk.profile() as profile:
            status = _status(os.path.abspath(script))
        taken = time.perf_counter() - begin
    finally:
        sys.argv, sys.path[0] = before
    say("")
    for line in _table(profile):
        say(line)
    if profile.calls:
        in_calls = sum(call.seconds or 0.0 for call in profile.calls)
        say(f"The script took {taken * 1e3:,.0f} ms, of which these calls {in_calls * 1e3:,.0f} ms.")
    for line in advice(profile.calls):
        say(f"- {line}")
    try:
        profile.save_trace(path)
    except OSError as error:
        return _refused(say, output, error)
    say(f"{output}: open it at https://ui.perfetto.dev")
    return status


def _refused(say: Say, output: str, error: OSError) -> int:
    say(f"{output} cannot be written ({error.strerror}): name another file, with --output")
    return 1


def _status(script: str) -> int:
    """Run a script; return its exit status. An exception is printed, and the calls until then are traced."""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        sys.stderr.write(f"{error.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001  (of the script)
        script_traceback = error.__traceback__
        while (
            script_traceback and script_traceback.tb_frame.f_code.co_filename != script
        ):  # without the frames of this module and runpy
            script_traceback = script_traceback.tb_next
        traceback.print_exception(error.with_traceback(script_traceback))
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _table(profile: pk.Profile) -> Iterator[str]:
    if not profile.calls:
        yield "The script made no call in its main thread; pk.profile() inside it collects those of another."
    elif len(profile.calls) <= LINES:
        yield from str(profile).splitlines()
    else:
        yield from _sums(profile.calls)


def _sums(calls: Sequence[pk.Call]) -> Iterator[str]:
    """Yield a line for each function and engine, sorted by time."""
    calls_by_function: dict[tuple[str, str], list[pk.Call]] = {}
    for call in calls:
        calls_by_function.setdefault((call.function, call.engine), []).append(call)
    rows = [
        (sum(c.seconds or 0.0 for c in of_one), name, engine, of_one)
        for (name, engine), of_one in calls_by_function.items()
    ]
    width = max(8, *(len(name) for name, _ in calls_by_function))
    yield f"{'function':<{width}}  engine  {'calls':>8}  {'ms':>12}  {'MB up':>10}  {'MB down':>10}"
    for seconds, name, engine, of_one in sorted(rows, key=lambda row: -row[0]):
        up, down = (
            sum(moved) / 1e6 for moved in zip(*((c.bytes_up, c.bytes_down) for c in of_one), strict=True)
        )
        line = f"{name:<{width}}  {engine:<6}  {len(of_one):>8,}  {seconds * 1e3:>12,.3f}"
        yield f"{line}  {up:>10,.1f}  {down:>10,.1f}" if engine == "cuda" else line
    seconds = sum(row[0] for row in rows)
    yield f"{'together':<{width}}          {len(calls):>8,}  {seconds * 1e3:>12,.3f}"
