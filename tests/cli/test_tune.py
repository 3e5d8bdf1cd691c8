"""`pycudakit tune` saves constants of this machine; an invalid file is ignored with a warning."""

import functools
import json
import re
import subprocess
import sys

import pytest

import pycudakit as pk
from pycudakit.__main__ import main
from pycudakit._cli import measure_rates, tune
from pycudakit._native import calibration_file
from pycudakit._native.version import __version__

CONSTANTS = {"CALL": 1e-3, "SINGLE_THREAD_BANDWIDTH": 5e9, "SINGLE_THREAD_CALL": 2e-5}
ON_CPU = (
    "SINGLE_THREAD_CALL",
    "SINGLE_THREAD_BANDWIDTH",
    "THREAD_BANDWIDTH",
    "HOST_BANDWIDTH",
    "CALL",
)
ROWS = {"add": " ".join(["9.00/0.10"] * 12)}
USED = """
import json, sys
import pycudakit as pk
from pycudakit._runtime import cost_model
from pycudakit._element_programs import program_cost
measured = program_cost.measured("add", 3)
alone = cost_model.SINGLE_THREAD_CALL
print(json.dumps([cost_model.CALL, cost_model.SINGLE_THREAD_BANDWIDTH, alone, measured]))
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("PYCUDAKIT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PYCUDAKIT_TUNED", raising=False)
    return tmp_path


def python(*arguments):
    done = subprocess.run(
        [sys.executable, *arguments], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done


def used(*options):
    done = python(*options, "-c", USED)
    return json.loads(done.stdout), done.stderr


@functools.cache
def usual():
    return used("-W", "ignore")[0]


@pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")
def test_it_measures_keeps_tells_and_forgets(folder, capsys, monkeypatch):
    monkeypatch.setattr(tune, "are_processors_idle", lambda: True)
    monkeypatch.setattr(tune, "REPEATS", 3)  # the least of them: other tests run beside this one
    monkeypatch.setattr(tune, "LARGE", 1 << 20)
    defaults = usual()
    assert tune.run(print) == 0
    out = capsys.readouterr().out
    assert "auto decides by them in new processes" in out
    found = calibration_file.parse((folder / "times.txt").read_text())
    assert set(found.rates) == set(measure_rates.names())
    # A difference of two times may be below 0 here, since other tests run beside this one.
    defaults_kept = {
        name for name, words in tune._WORDS.items() if re.search(f"{words}: .* is impossible", out)
    }
    assert set(ON_CPU) <= defaults_kept | set(found.constants)
    assert not defaults_kept & set(found.constants)
    assert all(value > 0 for value in found.constants.values())
    expected = dict(zip(CONSTANTS, defaults, strict=False)) | found.constants
    assert used()[0][:3] == [expected[name] for name in CONSTANTS]
    told = json.loads(python("-m", "pycudakit", "info", "--json").stdout)["times"]
    assert told.startswith(f"of this machine, by `pycudakit tune` on {found.day}")
    assert tune.run(print, reset=True) == 0
    assert not (folder / "times.txt").exists()
    assert "package's own" in json.loads(python("-m", "pycudakit", "info", "--json").stdout)["times"]
    assert tune.run(print, reset=True) == 0
    assert "Nothing was measured here" in capsys.readouterr().out


@pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")
def test_a_busy_machine_is_refused(folder, capsys, monkeypatch):
    monkeypatch.setattr(tune, "are_processors_idle", lambda: False)
    assert main(["tune"]) == 1
    printed = capsys.readouterr().out
    assert "Nothing was measured: run it on an idle machine, or give --force." in printed
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")
def test_impossible_values_are_rejected(folder, capsys, monkeypatch):
    monkeypatch.setattr(tune, "are_processors_idle", lambda: False)
    monkeypatch.setattr(tune, "_rates", lambda _: dict.fromkeys(measure_rates.names(), ROWS["add"]))
    measured = [("CALL", -1e-6), ("HOST_BANDWIDTH", float("nan")), ("SINGLE_THREAD_BANDWIDTH", 5e9)]
    monkeypatch.setattr(tune, "_constants", lambda _: iter(measured))
    assert main(["tune", "--force"]) == 0
    printed = capsys.readouterr().out
    assert "call that wakes the threads: -1e-06 is impossible, and the default is kept" in printed
    assert "memory, all threads: nan is impossible, and the default is kept" in printed
    kept = calibration_file.parse((folder / "times.txt").read_text()).constants
    assert kept == {"SINGLE_THREAD_BANDWIDTH": 5e9}


def test_measured_times_are_used_unless_turned_off(folder, monkeypatch):
    before = usual()
    (folder / "times.txt").write_text(calibration_file.serialize("2026-01-02", CONSTANTS, ROWS))
    assert used() == ([1e-3, 5e9, 2e-5, [9.0, 0.1]], "")
    monkeypatch.setenv("PYCUDAKIT_TUNED", "0")
    assert used() == (before, "")


def test_a_file_with_the_old_names_of_constants_is_read(folder):
    old = {"CALL": 1e-3, "ALONE_BANDWIDTH": 5e9, "ALONE": 2e-5, "LINK_TIMES": 1.5}
    text = calibration_file.serialize("2026-01-02", old, ROWS)
    assert calibration_file.parse(text).constants == {**CONSTANTS, "LINK_OVERHEAD_FACTOR": 1.5}
    (folder / "times.txt").write_text(text)
    assert used() == ([1e-3, 5e9, 2e-5, [9.0, 0.1]], "")


RIGHT = calibration_file.serialize("2026-01-02", CONSTANTS, ROWS)


def sealed(text):
    """Replace the checksum of a text by the right one."""
    body = text.rstrip("\n").rpartition("\n")[0]
    return f"{body}\n{calibration_file._checksum(body)}\n"


INVALID = [
    ("", "it is damaged"),
    ("\0\xff" * 99, "it is damaged"),
    (RIGHT[:-40], "it is damaged"),
    (RIGHT.replace("0.001", "0.002"), "it is damaged"),
    (sealed(RIGHT.replace("CALL: 0.001", "CALL: fast")), "it is damaged"),
    (sealed(RIGHT.replace("CALL: 0.001", "CALL: nan")), "it is damaged"),
    (sealed(RIGHT.replace(__version__, "0.0.9")), "it is of pycudakit 0.0.9"),
    (
        sealed(RIGHT.replace(f"times {calibration_file.FORMAT_VERSION}", "times 99")),
        "it has another format version",
    ),
    (sealed(RIGHT.replace("processors", "abaci")), "it is of another machine"),
]


@pytest.mark.parametrize(("text", "why"), INVALID)
def test_a_file_that_is_not_right_is_ignored_with_one_line(folder, text, why):
    (folder / "times.txt").write_bytes(text.encode("latin-1"))
    with pytest.warns(RuntimeWarning, match=f"times.txt is ignored: {why}") as warned:
        calibration = calibration_file._read()
    assert calibration == calibration_file.Calibration(ignored=calibration.ignored)
    assert calibration.ignored.startswith(why)
    assert "run `pycudakit tune` again, or `pycudakit tune --reset`" in str(warned.pop().message)
    assert not warned.list


@pytest.mark.parametrize(
    ("text", "why"), [INVALID[0], *(pytest.param(*each, marks=pytest.mark.thorough) for each in INVALID[1:])]
)
def test_a_process_that_ignores_a_file(folder, text, why):
    before = usual()
    (folder / "times.txt").write_bytes(text.encode("latin-1"))
    values, warned = used()
    assert values == before
    assert warned.count("RuntimeWarning") == 1
    assert f"times.txt is ignored: {why}" in warned
    assert "run `pycudakit tune` again, or `pycudakit tune --reset`" in warned
    assert used("-W", "error") == (before, "")  # the import does not fail
    told = json.loads(python("-W", "ignore", "-m", "pycudakit", "info", "--json").stdout)["times"]
    assert why in told


def test_a_folder_that_cannot_be_written(folder, monkeypatch, capsys):
    (folder / "file").write_text("")
    monkeypatch.setenv("PYCUDAKIT_CACHE_DIR", str(folder / "file"))
    monkeypatch.setattr(tune, "_rates", lambda _: {"exp": "1/1"})
    monkeypatch.setattr(tune, "_constants", lambda _: [("CALL", 1e-4)])
    if pk.engines()["cpu"]:
        assert tune.run(print, force=True) == 1
        assert "set PYCUDAKIT_CACHE_DIR to a writable folder" in capsys.readouterr().out
    assert calibration_file._read() == calibration_file.Calibration()  # as with HOME=/dev/null: no warning
    assert tune.run(print, reset=True) == 0
    assert "Nothing was measured here" in capsys.readouterr().out


def test_unreadable_calibration_file(folder, capsys):
    (folder / "times.txt").mkdir()
    with pytest.warns(RuntimeWarning, match="it cannot be read"):
        calibration_file._read()
    assert tune.run(print, reset=True) == 1
    assert f"{folder / 'times.txt'} cannot be removed: " in capsys.readouterr().out


def test_impossible_values_are_refused():
    assert tune._clamped("CALL", -1.0) == pytest.approx(75e-6 / tune.PLAUSIBLE_FACTOR)
    assert tune._clamped("CALL", 99.0) == pytest.approx(75e-6 * tune.PLAUSIBLE_FACTOR)
    assert tune._clamped("CALL", 5e-5) == 5e-5


def test_importing_costs_next_to_nothing(folder):
    """Reading the file takes less than two milliseconds of CPU time."""
    (folder / "times.txt").write_text(
        calibration_file.serialize("2026-01-02", CONSTANTS, dict.fromkeys(measure_rates.names(), ROWS["add"]))
    )
    code = "import time, pycudakit\nfrom pycudakit._native import calibration_file\n"
    code += (
        "def read():\n    t = time.thread_time(); calibration_file._read(); return time.thread_time() - t\n"
    )
    code += "print(min(read() for _ in range(50)))"
    assert float(python("-c", code).stdout) < 2e-3
