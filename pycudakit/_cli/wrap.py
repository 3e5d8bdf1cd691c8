"""``pycudakit wrap``: writes a package of the functions of a ``.cu`` file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pycudakit.kernels.wrapping import package


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command.

    Parameters
    ----------
    name
        The package's name.
    to
        Its folder; None for one of its name.
    out, inout, statuses
        The pointers that functions write, and the functions that return a status.
    force
        Whether to write into a folder that is not empty.
    check
        Whether to compare with the folder instead of writing.
    """

    name: str
    to: str | None
    out: Sequence[str]
    inout: Sequence[str]
    statuses: Sequence[str]
    force: bool
    check: bool


def run(say: Callable[[str], None], file: str, options: Options) -> int:
    """Write a package, or compare it; return the exit status: 0, or 1 if it differs."""
    to = Path(options.to or options.name)
    files = package.contents(file, options.name, options.out, options.inout, options.statuses)
    if options.check:
        lines = package.differences(files, to)
        for line in lines:
            say(line)
        if not lines:
            say(f"{to} is up to date: pycudakit wrap would write the same files")
        return 1 if lines else 0
    package.write(files, to, force=options.force)
    for name in files:
        say(f"wrote {to / name}")
    folder = to if to.is_absolute() else f"./{to}"
    say(f"next: pip install {folder}, and write the oracles in {to / 'tests' / 'test_functions.py'}")
    return 0
