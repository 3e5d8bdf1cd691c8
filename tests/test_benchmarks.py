"""The scripts of benchmarks/, in their quick form: they run, and say so in a line where they need a GPU."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._cli import bench
from pycudakit._cli.measure import interleave

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
EXPERIMENTS = ["access", "block_size", "overlap", "stages", "transfers"]
DRAWS = importlib.util.find_spec("matplotlib") is not None

pytestmark = pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")


def run(script, *arguments, folder, paths=(), **variables):
    """Run a script in a folder; return what it printed."""
    if not FOLDER.is_dir():
        pytest.skip("benchmarks/ is not beside the tests")
    found = [str(path) for path in (*paths, Path(pk.__file__).parents[1])]
    path = os.pathsep.join([*found, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{script}.py"), *arguments],
        check=False,
        env={**os.environ, "PYTHONPATH": path, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment(name, tmp_path):
    printed = run(name, "--quick", "--png", folder=tmp_path)
    if pk.engines()["cuda"]:
        assert len(printed.splitlines()) > 5
        assert (tmp_path / f"{name}.png").exists() == DRAWS
    else:
        assert len(printed.splitlines()) == 1
        assert printed.startswith("This experiment needs a GPU: ")
        assert not list(tmp_path.iterdir())


def test_peers(tmp_path):
    arguments = ["--quick", "--sizes", "1K,64K", "--json", "peers.json", "--png", "peers.png"]
    # With a GPU it takes minutes, and is run for its figures.
    printed = run("peers", *arguments, folder=tmp_path, CUDA_VISIBLE_DEVICES="")
    told = json.loads((tmp_path / "peers.json").read_text())
    assert {"add", "evaluate"} <= {row["family"] for row in told["rows"]}
    assert {"pycudakit auto", "pycudakit cpu", "NumPy"} <= {row["by"] for row in told["rows"]}
    assert all(row["seconds"] > 0 for row in told["rows"])
    assert not [wrong for wrong in told["wrong"] if wrong["by"].startswith("pycudakit")]
    assert any(figure["name"].startswith("auto, add") for figure in told["figures"])
    assert "FAILED" not in printed
    assert (tmp_path / "peers.png").exists() == DRAWS


def test_a_missing_matplotlib_costs_only_the_picture(tmp_path):
    (tmp_path / "matplotlib.py").write_text('raise ImportError("there is no matplotlib")\n')
    printed = run(
        "peers",
        "--quick",
        "--only=exp",
        "--sizes=1K",
        "--png",
        folder=tmp_path,
        paths=[tmp_path],
        CUDA_VISIBLE_DEVICES="",
    )
    assert printed.splitlines()[-1] == "peers.png was not drawn: there is no matplotlib"


def test_elementwise(tmp_path):
    printed = run("elementwise", "--quick", "--only", "evaluate", folder=tmp_path)
    assert "evaluate float32" in printed


def test_histogram(tmp_path):
    printed = run("histogram", "--quick", "--only", "bincount uint8", folder=tmp_path)
    assert "bincount uint8" in printed


def test_reductions(tmp_path):
    printed = run("reductions", "--quick", "--only", "ten", folder=tmp_path)
    assert "sum of ten" in printed


def test_every_round_has_new_arrays():
    seen = {"one": [], "two": []}
    contenders = {
        name: bench.Contender(lambda array, s=s: s.append(array.copy())) for name, s in seen.items()
    }
    count = iter(range(100))
    times = bench.timed(contenders, lambda: (np.array([next(count)]),), rounds=3)
    assert len(times["one"].rounds) == 3
    assert {int(array[0]) for array in seen["one"]} == {0, 1, 2, 3}
    assert {int(array[0]) for array in seen["two"]} == {0, 1, 2, 3}


def test_a_race_leaves_out_who_is_wrong():
    add = bench.FAMILIES["add"]
    contenders = {
        "right": bench.Contender(np.add),
        "wrong": bench.Contender(np.subtract),
        "failing": bench.Contender(lambda *_: 1 / 0),
        "not compared": bench.Contender(lambda *_: None, ulps=None),
    }
    times, wrong = bench.race(add, 1000, contenders, rounds=1)
    assert set(times) == {"right", "not compared"}
    assert wrong["wrong"].startswith("WRONG")
    assert wrong["failing"] == "ZeroDivisionError: division by zero"


def test_the_engine_is_as_before():
    pk.set_engine("numpy")
    try:
        bench.race(bench.FAMILIES["add"], 10, {"cpu": bench.Contender(pk.add, "cpu")}, rounds=1)
        pk.add(np.ones(3), 1)
        assert pk.last_call().engine == "numpy"
    finally:
        pk.set_engine("auto")


def test_what_a_result_costs_to_give_back_is_not_measured():
    class Result:
        def __init__(self):
            time.sleep(0.001)

        def __del__(self):
            time.sleep(0.05)

    times = interleave({"slow": Result}, rounds=2)
    assert max(times["slow"].rounds) < 0.04
