"""`pycudakit bench`: every family runs; HTML and Markdown reports; comparison with an earlier run."""

import json
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import pycudakit as pk
from pycudakit.__main__ import main
from pycudakit._cli import bench, bench_cases, report

needs_cpu = pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    named = [f"--{form}={folder / form}" for form in ("json", "html", "markdown")]
    assert main(["bench", "--quick", *named]) == 0
    return folder


@pytest.mark.thorough
@needs_cpu
def test_every_family_is_on_the_page(files):
    run, page, text = (
        json.loads((files / "json").read_text()),
        (files / "html").read_text(),
        (files / "markdown").read_text(),
    )
    names = set(report.families(run))
    assert {*bench.FAMILIES, *bench_cases.FAMILIES} == names
    for name in names:
        assert f"<h2 id='{name}'>" in page
        assert f"## {name}\n" in text
    assert page.count("<svg") == len(names)
    assert all(word not in page for word in ("<script", "http:", "https:", "src="))  # it needs nothing else
    assert "processor" in page
    assert all(len(row["rounds"]) == 3 for row in run["rows"])


@needs_cpu
def test_a_run_against_itself(files, capsys):
    assert main(["bench", "--quick", "--only", "multiply", "--against", str(files / "json")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("multiply") and "x " in line for line in printed) >= 9
    run = json.loads((files / "json").read_text())
    lines = list(report.compared(run, run))
    assert len(lines) == 2 + len(run["rows"])
    assert all("1.00x" in line and "faster" not in line and "SLOWER" not in line for line in lines[2:])


def machine(rows, processor="one"):
    told = {"pycudakit": "0", "python": "3", "numpy": "2", "engines": {}, "devices": []}
    return {"day": "2026-01-02", "processor": processor, "machine": told, "rows": rows}


def row(by, elements, *rounds, floor=None):
    return {"family": "add", "elements": elements, "by": by, "rounds": rounds, "floor": floor}


def test_changes_stand_out_from_variation():
    old = machine([row("cpu", 10, *[1.0] * 9), row("cpu", 20, *[1.0] * 9), row("cpu", 30, 1, 2, 3, 4, 5)])
    new = machine(
        [row("cpu", 10, *[2.0] * 9), row("cpu", 20, *[0.5] * 9), row("cpu", 30, 2, 3, 4, 5, 6)], "two"
    )
    warning, _, _, slower, faster, noisy = report.compared(old, new)
    assert warning == "The old run was on another machine: one, now two."
    assert slower.endswith("SLOWER")
    assert "0.50x" in slower
    assert faster.endswith("faster")
    assert noisy.endswith("%")


RUN = machine(
    [
        *(row("NumPy", 10**n, *[10.0 ** (n - 6)] * 4, floor=10.0 ** (n - 7)) for n in (2, 4, 6)),
        *(row("cuda", 10**n, *[t] * 4, floor=10.0 ** (n - 7)) for n, t in ((2, 1e-3), (4, 1e-3), (6, 0.2))),
    ]
)


def test_the_crossover_and_the_share_of_the_floor():
    times = report.families(RUN)["add"]
    assert report.crossover(times, "cuda") == pytest.approx(1000)
    assert report.crossover({"NumPy": {1: 1.0}, "cpu": {1: 2.0}}, "cpu") is None
    assert report.crossover({"NumPy": {1: 2.0}, "cpu": {1: 1.0}}, "cpu") == 1
    text = report.markdown(RUN)
    assert "Faster than NumPy: cuda from 1,000 elements on." in text
    assert "| 1,000,000 | cuda | 200 ms | 5.00x | 0% | 0.50x |" in text


def test_the_picture_is_whole():
    floors = {10**n: 10.0 ** (n - 7) for n in (2, 4, 6)}
    picture = ET.fromstring(report.plot("add", report.families(RUN)["add"], floors))
    assert len(picture.findall("polyline")) == 3
    (mark,) = picture.findall("circle")
    assert mark.find("title").text == "cuda: 1,000 elements"
    assert {text.text for text in picture.findall("text")} >= {"NumPy", "cuda", "floor", "elements", "1e4"}


def test_wrong_arguments(tmp_path, capsys):
    (tmp_path / "old.json").write_text("[1]")
    for arguments, message in (
        (["--against", str(tmp_path / "old.json")], "is not a report of `pycudakit bench --json`"),
        (["--against", str(tmp_path / "none.json")], "none.json cannot be read (No such file or directory)"),
        (["--html", str(tmp_path / "no" / "page.html")], "page.html cannot be written: name another file"),
        (["--json", str(tmp_path)], f"{tmp_path} cannot be written: name another file"),
        (["--only", "dance"], "no function is called 'dance': choose from add, multiply"),
    ):
        assert main(["bench", *arguments]) == 2
        printed = capsys.readouterr()
        assert message in printed.err
        assert not printed.out


def test_every_element_of_a_short_result_is_compared():
    """A result shorter than its arguments, such as counts in bins, is not thinned as they would be."""

    def ours(array):
        counts = np.histogram(array, 100)[0]
        counts[1] += 1
        return counts

    def by(xp, array):
        return xp.histogram(array, 100)[0]

    family = bench_cases.Family(by, ours, "", inputs=1)
    contenders = {"right": bench.Contender(lambda a: by(np, a)), "wrong": bench.Contender(ours)}
    times, wrong = bench.race(family, 3 * bench.COMPARED, contenders, rounds=1)
    assert set(times) == {"right"}
    assert set(wrong) == {"wrong"}


def test_a_report_says_how_free_the_processors_were():
    run = {**bench.described(), "processor_share": 0.954, "rows": []}
    assert dict(report.described(run))["free processors"] == "95% when the run began"
    del run["processor_share"]  # as an older release wrote it
    assert "free processors" not in dict(report.described(run))
