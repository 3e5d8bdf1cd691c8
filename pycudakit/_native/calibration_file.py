"""The file in which `pycudakit tune` keeps the constants that it measured on this machine.

They replace the cost model's default constants. The package reads the file at import, so the format is plain
lines, which are cheap to parse.
"""

from __future__ import annotations

import binascii
import contextlib
import os
import sys
import warnings
from collections.abc import Mapping
from typing import NamedTuple

from pycudakit._native.version import __version__

FORMAT_VERSION = 1  # of the file
_MAX_FILE_BYTES = 1 << 20
RETUNE_HINT = "run `pycudakit tune` again, or `pycudakit tune --reset`"
# Keys of files that were written before the constants were renamed.
_OLD_KEYS = {
    "ALONE": "SINGLE_THREAD_CALL",
    "ALONE_BANDWIDTH": "SINGLE_THREAD_BANDWIDTH",
    "LINK_TIMES": "LINK_OVERHEAD_FACTOR",
}


class Calibration(NamedTuple):
    """The constants that were measured on this machine, or the reason why there are none.

    Parameters
    ----------
    day
        The date of the measurement; empty if the package's defaults are in force.
    constants
        Seconds and bytes a second, by the names that they have in the cost model.
    rates
        Rows of `_element_programs/measured_rates.py`.
    ignored
        Why an existing file is not used.
    """

    day: str = ""
    constants: Mapping[str, float] = {}
    rates: Mapping[str, str] = {}
    ignored: str = ""


def cache_folder() -> str:
    """Return the folder for compiled kernels and measured constants."""
    cache_dir = os.environ.get("PYCUDAKIT_CACHE_DIR")
    if cache_dir:
        return cache_dir
    base = os.environ.get("XDG_CACHE_HOME")
    return os.path.join(base or os.path.expanduser("~/.cache"), "pycudakit")


def path() -> str:
    """Return the path of the calibration file."""
    return os.path.join(cache_folder(), "times.txt")


def machine() -> str:
    """Return a description of this machine's processor; a file from another processor is not used."""
    model = ""
    with contextlib.suppress(OSError):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read(4096).splitlines()
        model = next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model
        )
    architecture = os.uname().machine if hasattr(os, "uname") else sys.platform
    return f"{architecture}, {os.cpu_count()} processors, {model or 'of no name'}"


def serialize(day: str, constants: Mapping[str, float], rates: Mapping[str, str]) -> str:
    """Return the text of a calibration file."""
    lines = [f"pycudakit {__version__} times {FORMAT_VERSION}", machine(), day]
    lines += [f"{name}: {value!r}" for name, value in constants.items()]
    lines += [f"rate {name}: {row}" for name, row in rates.items()]
    body = "\n".join(lines)
    return f"{body}\n{_checksum(body)}\n"


def _checksum(text: str) -> str:
    return f"{binascii.crc32(text.encode()):08x}"


def parse(text: str) -> Calibration:
    """Parse the text of a file; the result says why it is not used, if so."""
    body, _, checksum = text.rstrip("\n").rpartition("\n")
    if not body.startswith("pycudakit ") or _checksum(body) != checksum:
        return Calibration(ignored="it is damaged")
    title, machine_name, day, *rest = body.split("\n")
    version, _, format_version = title.removeprefix("pycudakit ").partition(" times ")
    if version != __version__:
        return Calibration(ignored=f"it is of pycudakit {version}, and this is {__version__}")
    if format_version != str(FORMAT_VERSION):
        return Calibration(ignored="it has another format version")
    if machine_name != machine():
        return Calibration(ignored=f"it is of another machine ({machine_name})")
    constants, rates = {}, {}
    try:
        for line in rest:
            name, _, value = line.removeprefix("rate ").partition(": ")
            if line.startswith("rate "):
                rates[name] = value
            else:
                constants[_OLD_KEYS.get(name, name)] = float(value)
    except ValueError:
        return Calibration(ignored="it is damaged")
    if not all(0 < value < float("inf") for value in constants.values()):
        return Calibration(ignored="it is damaged")
    return Calibration(day, constants, rates)


def is_enabled() -> bool:
    """Return True unless the environment variable PYCUDAKIT_TUNED disables measured constants."""
    return os.environ.get("PYCUDAKIT_TUNED") != "0"


def _read() -> Calibration:
    if not is_enabled():
        return Calibration()
    try:
        with open(path(), "rb") as file:
            calibration = parse(file.read(_MAX_FILE_BYTES).decode("ascii", "replace"))
    except OSError as error:
        if not os.path.lexists(path()):  # the path does not exist, or its folder cannot be searched
            return Calibration()
        calibration = Calibration(ignored=f"it cannot be read ({error.strerror})")
    if calibration.ignored:
        # Where warnings are errors, the import does not fail; `pycudakit info` still reports it.
        with contextlib.suppress(RuntimeWarning):
            warnings.warn(
                f"{path()} is ignored: {calibration.ignored}; {RETUNE_HINT}", RuntimeWarning, stacklevel=2
            )
    return calibration


CALIBRATION = _read()
