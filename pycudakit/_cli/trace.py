"""`pycudakit trace script.py`: runs a script in a profile, and reports where the time of its calls went."""

from __future__ import annotations

import os
import runpy
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import pycudakit as pk
from pycudakit import errors
from pycudakit._cli.advice import advice
from pycudakit._cli.progress import Say
from pycudakit._runtime import context
from pycudakit._runtime.profile import rows_of

LINES = 30  # of a table of single calls; more calls are summed up


class _CallsWithLines(list[pk.Call]):
    """The calls of a profile; `lines` has the line of the script that made each."""

    def __init__(self, script: str) -> None:
        super().__init__()
        self._script = script
        self.lines: list[int | None] = []

    def append(self, call: pk.Call) -> None:
        """Append a call that ends now."""
        super().append(call)
        frame: Any = sys._getframe(1)  # noqa: SLF001
        while frame is not None and frame.f_code.co_filename != self._script:
            frame = frame.f_back
        self.lines.append(frame.f_lineno if frame is not None else None)


def run(say: Say, script: str, arguments: Sequence[str], output: str | None) -> int:
    """Run a script as `python` does, print table and advice, write a trace; return the exit status."""
    if not os.path.isfile(script):
        raise errors.InvalidArgument(f"{script} does not exist or is not a file: name a Python script")
    path = os.path.abspath(output) if output else ""  # the script may change the working folder
    try:
        if path:
            with open(path, "a", encoding="utf-8"):  # fail early, before the script runs
                pass
    except OSError as error:
        raise errors.InvalidArgument(_unwritable(path, error)) from error
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [script, *arguments], os.path.dirname(os.path.abspath(script))
    try:
        calls = _CallsWithLines(os.path.abspath(script))
        profile = pk.Profile(calls)
        begin = time.perf_counter()
        with context.override(profiles=(*context.current_context.get().profiles, calls)):
            status = _status(os.path.abspath(script))
        taken = time.perf_counter() - begin
    finally:
        sys.argv, sys.path[0] = before
    say("")
    for line in _table(profile, calls.lines):
        say(line)
    if profile.calls:
        in_calls = sum(call.seconds or 0.0 for call in profile.calls)
        say(f"The script took {taken * 1e3:,.0f} ms, of which these calls {in_calls * 1e3:,.0f} ms.")
    for line in advice(profile.calls):
        say(f"- {line}")
    if not path:
        return status
    try:
        profile.save_trace(path)
    except OSError as error:
        say(_unwritable(path, error))
        return 1
    say(f"{output}: open it at https://ui.perfetto.dev")
    return status


def _unwritable(path: str, error: OSError) -> str:
    return f"{path} cannot be written ({error.strerror}): name another file, with --output"


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


def _table(profile: pk.Profile, lines: Sequence[int | None]) -> Iterator[str]:
    if not profile.calls:
        yield "The script called no function of pycudakit in its main thread."
        yield "pk.profile(), in another thread, collects the calls of that thread."
    elif len(profile.calls) <= LINES:
        numbers = ["line"]
        for call, line in zip(profile.calls, lines, strict=True):
            numbers += [_number(line), *[""] * (len(rows_of([call])) - 1)]  # then the call's fused kernels
        width = max(map(len, numbers))
        rows = str(profile).splitlines()
        numbers += [""] * (len(rows) - len(numbers))
        yield from (f"{number:>{width}}  {row}" for number, row in zip(numbers, rows, strict=True))
    else:
        yield from _sums(profile.calls, lines)


def _number(line: int | None) -> str:
    return "" if line is None else str(line)


def _sums(calls: Sequence[pk.Call], lines: Sequence[int | None]) -> Iterator[str]:
    """Yield a row for each line of the script, function and engine, sorted by time."""
    calls_by_function: dict[tuple[str, str], list[pk.Call]] = {}
    for call, line in zip(calls, lines, strict=True):
        calls_by_function.setdefault((f"{_number(line):>4}  {call.function}", call.engine), []).append(call)
    rows = [
        (sum(c.seconds or 0.0 for c in of_one), name, engine, of_one)
        for (name, engine), of_one in calls_by_function.items()
    ]
    width = max(14, *(len(name) for name, _ in calls_by_function))
    yield f"{'line  function':<{width}}  engine  {'calls':>8}  {'ms':>12}  {'MB up':>10}  {'MB down':>10}"
    for seconds, name, engine, of_one in sorted(rows, key=lambda row: -row[0]):
        up, down = (
            sum(moved) / 1e6 for moved in zip(*((c.bytes_up, c.bytes_down) for c in of_one), strict=True)
        )
        row = f"{name:<{width}}  {engine:<6}  {len(of_one):>8,}  {seconds * 1e3:>12,.3f}"
        yield f"{row}  {up:>10,.1f}  {down:>10,.1f}" if engine == "cuda" else row
    seconds = sum(row[0] for row in rows)
    yield f"{'      together':<{width}}          {len(calls):>8,}  {seconds * 1e3:>12,.3f}"
