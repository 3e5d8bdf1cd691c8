"""The command line runs each command, and the scripts of examples/ run."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pycudakit as pk
from pycudakit.__main__ import main
from pycudakit._cli import bench

ROOT = Path(__file__).resolve().parents[2]
needs_cpu = pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")


def run(*arguments, **variables):
    environment = {**os.environ, **{k: str(v) for k, v in variables.items()}}
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_info_tells_engines_and_versions(capsys):
    assert main(["info"]) == 0
    printed = capsys.readouterr().out
    assert pk.__version__ in printed
    assert all(name in printed for name in ("cuda", "cpu", "numpy", "driver 580"))


def test_info_without_any_library(tmp_path):
    done = run("-m", "pycudakit", "info", PYCUDAKIT_LIBRARY_DIR=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "missing" in done.stdout
    assert "pip install ." in done.stdout
    assert f"PYCUDAKIT_LIBRARY_DIR={tmp_path}" in done.stdout


def test_info_tells_every_variable_that_is_set(tmp_path):
    """Those of docs/settings.md, but the ones that are about building."""
    page = ROOT / "docs" / "settings.md"
    if not page.is_file():
        pytest.skip("docs/ is not beside the tests")
    found = re.findall(r"^\| `(PYCUDAKIT_\w+)(?:<NAME>)?` \| (?!for builds)", page.read_text(), re.MULTILINE)
    names = [name + "RUN" * name.endswith("_") for name in found]
    assert len(names) > 10
    done = run("-m", "pycudakit", "info", **dict.fromkeys(names, "1"))
    assert [name for name in names if f"  {name}=1  (" not in done.stdout] == []


@pytest.mark.parametrize(
    ("architectures", "tells"), [("compute_75", True), ("sm_80 sm_90 compute_90", False)]
)
def test_info_of_a_library_that_the_driver_compiles(capsys, monkeypatch, architectures, tells):
    built = {"cuda": {"path": "libpycudakit_cuda.so", "architectures": architectures}}
    monkeypatch.setattr(pk, "build_info", lambda: built)
    assert main(["info"]) == 0
    assert ("PYCUDAKIT_ALL_GPUS" in capsys.readouterr().out) == tells


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["info", pytest.param("selftest", marks=needs_cpu)])
def test_output_that_cannot_be_written(command):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pycudakit", command],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
    assert done.returncode == 1
    assert re.fullmatch(r"pycudakit: .*No space left on device\n", done.stderr)


def test_info_of_a_misspelt_engine():
    done = run("-m", "pycudakit", "info", PYCUDAKIT_ENGINE="gpu")
    assert done.returncode == 0
    assert "PYCUDAKIT_ENGINE is 'gpu'" in done.stdout


@pytest.mark.parametrize("command", ["demo", "bench", "selftest"])
def test_without_any_library_the_others_say_what_to_do(tmp_path, command):
    done = run("-m", "pycudakit", command, PYCUDAKIT_LIBRARY_DIR=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "pip install ." in done.stdout


def test_no_command_prints_help(capsys):
    assert main([]) == 0
    assert "selftest" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["dance"], ["info", "--loud"], ["bench", "3"]])
def test_misuse(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert "usage:" in capsys.readouterr().err


@needs_cpu
def test_selftest(capsys):
    assert main(["selftest"]) == 0
    assert "selftest passed" in capsys.readouterr().out


@needs_cpu
def test_selftest_notices_a_wrong_result(capsys, monkeypatch):
    monkeypatch.setattr(pk, "sqrt", pk.cbrt)
    assert main(["selftest"]) == 1
    printed = capsys.readouterr().out
    assert "sqrt of float32: WRONG" in printed
    assert "FAILED" in printed


@needs_cpu
def test_selftest_checks_families(capsys, monkeypatch):
    monkeypatch.setattr(pk, "sort", pk.flip)
    assert main(["selftest"]) == 1
    printed = capsys.readouterr().out
    assert "sort of int16: WRONG" in printed
    assert "argsort" not in printed


@needs_cpu
@pytest.mark.parametrize(("share", "is_busy"), [(0.89, True), (0.9, False), (1.01, False)])
def test_bench_warns_on_a_busy_machine(capsys, monkeypatch, share, is_busy):
    monkeypatch.setattr(bench, "processor_share", lambda: share)
    assert main(["bench", "--quick", "--only", "add"]) == 0
    warning = "This machine is busy: 89% of the processors are free, so times mean little."
    assert (warning in capsys.readouterr().out) == is_busy


@needs_cpu
def test_bench(capsys):
    before = pk.engines(), os.environ.get("PYCUDAKIT_ENGINE")
    assert main(["bench", "--quick"]) == 0
    assert re.search(r"^evaluate +1,000,000 ", capsys.readouterr().out, re.MULTILINE)
    assert before == (pk.engines(), os.environ.get("PYCUDAKIT_ENGINE"))


@needs_cpu
def test_bench_notices_a_wrong_result(capsys, monkeypatch):
    wrong = dataclasses.replace(bench.FAMILIES["add"], ours=pk.subtract)
    monkeypatch.setattr(bench, "FAMILIES", {"add": wrong})
    assert main(["bench", "--quick"]) == 1
    assert "cpu WRONG" in capsys.readouterr().out


@needs_cpu
@pytest.mark.parametrize("name", ["quickstart", "expression", "fused", "monte_carlo"])
def test_example(name):
    script = ROOT / "examples" / f"{name}.py"
    if not script.is_file():
        pytest.skip("examples/ is not beside the tests")
    done = run(str(script))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@needs_cpu
@pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "c++")), reason="needs a C++ compiler")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my_first_kernel", "right: True"),
        pytest.param(
            "game_of_life",
            "116 cells, where 116 are known to be left",
            marks=[pytest.mark.thorough, pytest.mark.ci],
        ),
        ("heat", "degrees from the solution on paper"),
    ],
)
def test_example_of_kernels(name, said):
    script = ROOT / "examples" / f"{name}.py"
    if not script.is_file():
        pytest.skip("examples/ is not beside the tests")
    done = run(str(script))
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
    found = re.search(r"at most (\S+) degrees", done.stdout)
    assert found is None or float(found[1]) < 0.01


@needs_cpu
def test_example_of_images(tmp_path, monkeypatch):
    script = ROOT / "examples" / "image_pipeline.py"
    if not script.is_file():
        pytest.skip("examples/ is not beside the tests")
    monkeypatch.chdir(tmp_path)  # where it writes
    done = run(str(script))
    assert (done.returncode, done.stderr) == (0, "")
    written = Path("contact_sheet.png").read_bytes()
    assert written.startswith(b"\x89PNG")
    assert len(written) > 10000
