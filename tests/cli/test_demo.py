"""`pycudakit demo`: its checks, its times, and its silence about speed on a busy machine."""

import dataclasses
import re

import numpy as np
import pytest

import pycudakit as pk
from pycudakit.__main__ import main
from pycudakit._cli import demo, idle_processors

pytestmark = pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(demo, "COUNT", 20_000)
    monkeypatch.setattr(demo, "STARTS", 200)
    monkeypatch.setattr(demo, "are_processors_idle", lambda: True)


def test_black_scholes_is_fused_whole():
    options = np.random.default_rng(0).uniform(1, 2, (3, 20_000))
    with pk.engine("cpu"):
        assert len(pk.fuse(demo.black_scholes).explain(*options).passes) == 1


def timed(seconds):
    def times(row, engines):
        return {name: seconds.get(name, seconds["auto"]) for name in ["numpy", *engines]}

    return times


def test_ratios_are_those_of_the_times_shown(capsys, monkeypatch):
    monkeypatch.setattr(demo, "SHOWN_FROM", 0.0)
    assert main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "All results were checked: they are NumPy's."
    assert max(map(len, lines)) <= 79
    rows = [line for line in lines if line.endswith("x")]
    assert len(rows) >= 6
    for row in rows:
        times = [float(time) * UNITS[unit] for time, unit in re.findall(r"([0-9.]+) ([mun]?s)\b", row)]
        ratio = float(re.search(r"([0-9.]+)x$", row)[1])
        assert ratio == pytest.approx(times[0] / times[-1], rel=0.06, abs=0.051)  # NumPy's, and auto's


def test_rows_without_a_gain_are_left_out(capsys, monkeypatch):
    monkeypatch.setattr(demo, "_times", timed({"numpy": 1.0, "auto": 1.0}))
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert "1.0x" not in printed
    assert "As fast in NumPy, on this machine: fused Black-Scholes, pk.median(x)" in printed
    assert max(map(len, printed.splitlines())) <= 79


def test_a_busy_machine_gets_no_times(capsys, monkeypatch):
    monkeypatch.setattr(demo, "are_processors_idle", lambda: False)
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert not re.search(r"\d (ms|us|s)\b|\dx$", printed, re.MULTILINE)
    assert re.search(r"^pk.sort\(x\) +checked$", printed, re.MULTILINE)
    assert "Other programs use the processors" in printed
    assert max(map(len, printed.splitlines())) <= 79


def test_a_small_gain_is_measured_again(monkeypatch):
    taken = iter([1.01, 1.02, 3.0])
    measured = []

    def interleave(contenders, rounds, warm_up):
        measured.append(tuple(contenders))
        return {"numpy": demo_times(next(taken)), "auto": demo_times(1.0)}

    def demo_times(seconds):
        return dataclasses.make_dataclass("Times", ["median"])(seconds)

    monkeypatch.setattr(demo, "interleave", interleave)
    assert demo._times(demo._rows()[1], ["auto"]) == {"numpy": 3.0, "auto": 1.0}
    assert measured == [("numpy", "auto")] * 3


def test_a_wrong_result(capsys, monkeypatch):
    monkeypatch.setattr(demo, "_times", timed({"numpy": 1.0, "auto": 0.1}))
    monkeypatch.setattr(pk, "sort", pk.flip)
    assert main(["demo"]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"^pk.sort\(x\) +WRONG: this is not NumPy's result$", printed, re.MULTILINE)
    assert printed.endswith("1 of the checks FAILED\n")


def test_engines_side_by_side_on_a_machine_with_a_gpu(capsys, monkeypatch):
    monkeypatch.setattr(demo.common, "engines", lambda _: ["cpu", "cuda"])
    gpu = pk.Device(0, "NVIDIA H100", (9, 0), 2**36, 132, 5, 16)
    monkeypatch.setattr(pk, "devices", lambda: [gpu])
    monkeypatch.setattr(demo, "_times", timed({"numpy": 1.0, "cpu": 0.123, "cuda": 0.0123, "auto": 0.0124}))
    assert main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 79
    row = next(line for line in lines if line.startswith("pk.median(x)"))
    assert row.split()[1:] == ["1.00", "s", "123", "ms", "12.3", "ms", "12.4", "ms", "81x"]


def test_the_share_of_the_processors():
    assert 0 < idle_processors.processor_share(0.02) < 1.1


@pytest.mark.parametrize(("share", "idle"), [(0.5, False), (0.95, True)])
def test_idle(monkeypatch, share, idle):
    monkeypatch.setattr(idle_processors, "processor_share", lambda: share)
    assert idle_processors.are_processors_idle() is idle
