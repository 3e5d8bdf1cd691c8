"""The scripts of benchmarks/ run in their quick form, or say in one line that they need a GPU."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._cli import bench, timing
from pycudakit._cli.timing import interleave

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
EXPERIMENTS = ["access", "block_size", "overlap", "stages", "transfers"]
DRAWS = importlib.util.find_spec("matplotlib") is not None

pytestmark = pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")
needs_compiler = pytest.mark.skipif(
    not shutil.which(os.environ.get("CXX", "c++")), reason="needs a C++ compiler"
)


def run(script, *arguments, folder, paths=(), **variables):
    """Run a script in a folder; return its output."""
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
        timeout=1200,  # only a hang takes so long; a busy machine needs minutes
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough
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


@pytest.mark.thorough
@pytest.mark.ci
@pytest.mark.parametrize("name", ["access", "stages", "transfers"])
def test_experiments_of_the_cpu(name, tmp_path):
    printed = run(name, "--quick", "--engine", "cpu", "--png", folder=tmp_path)
    assert len(printed.splitlines()) > 5
    assert (tmp_path / f"{name}.png").exists() == DRAWS


@pytest.mark.thorough
def test_the_experiments_as_one_page(tmp_path):
    files = ["--html", "page.html", "--markdown", "page.md"]
    run("experiments", "--quick", "--engine", "cpu", "--json", "run.json", *files, folder=tmp_path)
    ran = json.loads((tmp_path / "run.json").read_text())
    assert sorted(ran["experiments"]) == EXPERIMENTS
    measured = {name for name, found in ran["experiments"].items() if "rows" in found}
    assert measured == {"access", "stages", "transfers"}
    page, text = ((tmp_path / name).read_text() for name in files[1::2])
    for name, found in ran["experiments"].items():
        assert f"<h2 id='{name}'>" in page
        assert f"## {name}\n" in text
        for row in found.get("rows", ()):
            assert f"| {' | '.join(row)} |" in text
            assert "".join(f"<td>{cell}</td>" for cell in row) in page
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(pictures) == (3 if DRAWS else 0)
    assert all(ET.fromstring(each).tag.endswith("svg") for each in pictures)
    assert not re.search("<script|src=|@import|<link", page)  # it needs nothing else
    assert "a quick one" in page

    # The report can be made from the file alone, without a run.
    again = ["--of", "run.json", "--html", "again.html", "--markdown", "again.md"]
    run("experiments", *again, folder=tmp_path)
    assert (tmp_path / "again.html").read_text() == page
    assert (tmp_path / "again.md").read_text() == text


@pytest.mark.thorough
@pytest.mark.skipif(not DRAWS, reason="needs matplotlib")
def test_pictures_of_measurements_on_a_gpu(tmp_path):
    stages = ["stage", "upload", "kernel", "download", "unstage"]
    ways = ["off: 1 thread, 1 slot", "as usual"]
    points = {
        "block_size": {"size": 1000, "seconds": [6e-4, 5e-4, 4e-4, 3e-4, 3e-4, 3e-4]},
        "overlap": {
            "size": 1000,
            "calls": dict.fromkeys(ways, 1.0),
            "stages": {s: [0.5, 0.4] for s in stages},
        },
    }
    run("experiments", "--quick", "--engine", "cpu", "--json", "run.json", folder=tmp_path)
    ran = json.loads((tmp_path / "run.json").read_text())
    for name, found in points.items():
        ran["experiments"][name] = {"note": "", "titles": ["setting"], "rows": [["off"]], "points": found}
    (tmp_path / "run.json").write_text(json.dumps(ran))
    run("experiments", "--of", "run.json", "--html", "page.html", folder=tmp_path)
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 5
    assert all(word in page for word in ("threads a block", *stages, *ways))


NPBENCH_INFORMATION = {
    "relative_path": "stencils/halve",
    "module_name": "halve",
    "func_name": "kernel",
    "parameters": {"S": {"steps": 3, "N": 50}, "L": {"steps": 3, "N": 5000}},
    "init": {"func_name": "initialize", "input_args": ["N"], "output_args": ["A"]},
    "input_args": ["steps", "A"],
    "array_args": ["A"],
    "output_args": ["A"],
}


@pytest.mark.thorough
def test_npbench_of_a_checkout(tmp_path):
    programs = tmp_path / "npbench" / "benchmarks" / "stencils" / "halve"
    programs.mkdir(parents=True)
    (tmp_path / "bench_info").mkdir()
    information = json.dumps({"benchmark": NPBENCH_INFORMATION})
    (tmp_path / "bench_info" / "halve.json").write_text(information)
    (programs / "halve.py").write_text(
        "import numpy as np\ndef initialize(N):\n    return np.arange(N) + 0.5\n"
    )
    body = (
        "import numpy as np\ndef kernel(steps, A):\n    for _ in range(steps):\n        A[1:] = A[:-1] / 2\n"
    )
    (programs / "halve_numpy.py").write_text(body)
    arguments = ["--no-peers", "--engines", "cpu", "--json", "npbench.json", "--repeat", "2"]
    printed = run("npbench", str(tmp_path), *arguments, folder=tmp_path)
    told = json.loads((tmp_path / "npbench.json").read_text())
    assert {(row["task"], row["by"]) for row in told["rows"]} == {("halve", "NumPy"), ("halve", "cpu")}
    assert told["notes"] == []
    assert "preset S, 1 programs" in printed


@pytest.mark.thorough
@needs_compiler
def test_programs_of_pycuda(tmp_path):
    printed = run("pycuda", "--quick", "--engine", "cpu", folder=tmp_path)
    rows = dict(line.strip("| ").rsplit("|", 1) for line in printed.splitlines() if ", us" in line)
    assert len(rows) == 14
    assert all(0 < float(value.replace(",", "")) < 1e7 for value in rows.values())


def test_regret(tmp_path):
    printed = run("regret", "--quick", "--only", "add", "--json", "regret.json", folder=tmp_path)
    rows = json.loads((tmp_path / "regret.json").read_text())["rows"]
    assert {row["elements"] for row in rows if row["work"] == "add"} == {1_000, 10_000}
    for row in rows:
        assert {row["best"], row["chosen"]} <= set(pk.engines())
        assert row["regret"] == row["seconds"] / row["best_seconds"] > 0
    assert re.search(rf"all: geometric mean \d+\.\d+, \d+ of {len(rows)} above 1\.25", printed)


def test_busy_cores(tmp_path):
    printed = run("busy_cores", "--quick", "--processes", "1", folder=tmp_path)
    lines = re.findall(r"^(\w+): 99% below ([\d.]+) ms, NumPy ([\d.]+) ms: ([\d.]+)$", printed, re.MULTILINE)
    assert [engine for engine, *_ in lines] == ["auto", "cpu"]
    for _, ours, numpys, ratio in lines:
        assert float(ratio) == pytest.approx(float(ours) / float(numpys), rel=0.3)


def test_peers(tmp_path):
    arguments = ["--quick", "--sizes", "1K,64K", "--json", "peers.json", "--png", "peers.png"]
    # Skipped with a GPU, where it takes minutes.
    printed = run("peers", *arguments, folder=tmp_path, CUDA_VISIBLE_DEVICES="")
    told = json.loads((tmp_path / "peers.json").read_text())
    assert {"add", "evaluate"} <= {row["family"] for row in told["rows"]}
    assert {"pycudakit auto", "pycudakit cpu", "NumPy"} <= {row["by"] for row in told["rows"]}
    assert all(row["seconds"] > 0 for row in told["rows"])
    assert not [wrong for wrong in told["wrong"] if wrong["by"].startswith("pycudakit")]
    assert any(figure["name"].startswith("auto, add") for figure in told["figures"])
    assert "FAILED" not in printed
    assert (tmp_path / "peers.png").exists() == DRAWS


@pytest.fixture
def families(monkeypatch):
    if not FOLDER.is_dir():
        pytest.skip("benchmarks/ is not beside the tests")
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("peer_families")


@pytest.mark.thorough
def test_peers_of_large_arrays(tmp_path):
    arguments = ["--quick", "--sizes", "64K,4M", "--only", "sum", "--json", "peers.json"]
    printed = run("peers", *arguments, folder=tmp_path, CUDA_VISIBLE_DEVICES="")
    rows = json.loads((tmp_path / "peers.json").read_text())["rows"]
    assert {(row["family"], row["elements"]) for row in rows} == {("sum", 4_000_000), ("cumsum", 4_000_000)}
    assert {"pycudakit auto", "pycudakit cpu", "NumPy"} <= {row["by"] for row in rows}
    assert "WRONG" not in printed
    without = run(
        "peers", "--quick", "--sizes", "64K", "--only", "sum", folder=tmp_path, CUDA_VISIBLE_DEVICES=""
    )
    assert "cumsum" not in without


@pytest.mark.thorough
@pytest.mark.ci
def test_every_family_is_raced(families):
    libraries = importlib.import_module("libraries")
    rows = ["sum", "max", "mean + var", "cumsum", "sort", "argsort", "unique", "bincount", "histogram"]
    assert list(families.FAMILIES) == rows
    for name, family in families.FAMILIES.items():
        peers = {"NumPy": libraries.numpy(), "CuPy": libraries.numpy(), "NumExpr": None}
        racing = families.contenders(family, peers)
        assert {"pycudakit auto", "pycudakit cpu", "NumPy", "CuPy"} <= set(racing)
        assert "NumExpr" not in racing
        for size in (1, 1000, 1_200_000):
            times, wrong = families.race(family, size, racing, 1)
            assert list(times) == list(racing), name
            assert not wrong, name


def test_a_race_of_families_leaves_out_who_is_wrong(families, monkeypatch):
    def race(name, **calls):
        found = {by.replace("_", " "): bench.Contender(call) for by, call in calls.items()}
        return families.race(families.FAMILIES[name], 10_000, found, 2)

    times, wrong = race(
        "sum",
        PyTorch=lambda a: a.sum() * np.float32(1 + 1e-5),
        NumPy=lambda a: a.sum() * 1.01,
        pycudakit_cpu=lambda a: a.sum(dtype=np.float64) * (1 + 1e-5),
        JAX=lambda a: a.sum(keepdims=True),
        CuPy=lambda _: 1 / 0,
    )
    assert list(times) == ["PyTorch"]
    assert wrong["CuPy"] == "ZeroDivisionError: division by zero"
    assert all(wrong[name].startswith("WRONG by") for name in ("NumPy", "pycudakit cpu", "JAX"))
    times, wrong = race("mean + var", NumPy=lambda a: (a.mean(), a.var(ddof=9)), JAX=lambda a: (a.mean(),))
    assert set(wrong) == {"NumPy", "JAX"}
    _, wrong = race(
        "argsort", one=lambda a: a.argsort(kind="stable"), two=np.sort, three=lambda a: a.argsort()[:9]
    )
    assert set(wrong) == {"two", "three"}
    _, wrong = race("sort", one=lambda a: np.sort(a)[::-1], two=lambda a: np.where(a < 0.5, np.nan, a))
    assert set(wrong) == {"one", "two"}

    calls = []
    monkeypatch.setattr(families, "PATIENCE", 0.01)
    times, wrong = race("max", slow=lambda a: (calls.append(time.sleep(0.02)), a.max())[1], NumPy=np.max)
    assert len(times["slow"].rounds) == len(times["NumPy"].rounds) == 2
    assert not wrong
    assert len(calls) == 2


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


@pytest.mark.thorough
@pytest.mark.ci
def test_histogram(tmp_path):
    printed = run("histogram", "--quick", "--only", "bincount uint8", folder=tmp_path)
    assert "bincount uint8" in printed


@pytest.mark.thorough
@pytest.mark.ci
def test_order_statistics(tmp_path):
    assert "median" in run("select_ranks", "--quick", "--only", "median", folder=tmp_path)


@pytest.mark.thorough
def test_middle(tmp_path):
    lines = run(
        "medium_arrays", "--quick", "--engine", "auto", "--only", "cumsum", folder=tmp_path
    ).splitlines()
    assert {"cpu", "NumPy"} <= {line.split()[7] for line in lines if line.startswith("cumsum of 1M")}


@pytest.mark.thorough
@pytest.mark.ci
@pytest.mark.parametrize(
    ("script", "work"),
    [
        ("scan", "cumsum"),
        ("sort", "unique"),
        ("random_numbers", "poisson"),
        ("matmul", "transpose"),
        ("image_filters", "box 3x3 uint8"),
        ("interp", "100 points"),
        pytest.param("kernels", "launch of 1K", marks=needs_compiler),
        pytest.param("wrap", "a call", marks=needs_compiler),
    ],
)
def test_scripts_of_one_form(script, work, tmp_path):
    assert work in run(script, "--quick", "--only", work, folder=tmp_path)


@pytest.mark.thorough
@pytest.mark.ci
def test_many_machines(tmp_path):
    pytest.importorskip("distributed")
    printed = run("dask_processes", "--quick", "--measure", "run.json", folder=tmp_path).splitlines()
    assert run("dask_processes", "--from", "run.json", folder=tmp_path).splitlines() == printed
    rows = [line.split() for line in printed[3:]]
    assert {(row[0], row[-1]) for row in rows} == {
        (size, by) for size in ("20,000", "50,000") for by in ("measured", "simulated")
    }
    processors = json.loads((tmp_path / "run.json").read_text())["processors"]
    assert max(int(row[1]) for row in rows if row[-1] == "measured") <= processors
    pytest.importorskip("matplotlib")
    run("dask_processes", "--from", "run.json", "--png", "drawn.svg", folder=tmp_path)
    drawn = (tmp_path / "drawn.svg").read_text()
    assert "measured: blocks of 20,000" in drawn
    assert "simulated, a machine for each process: blocks of 20,000" in drawn


@pytest.mark.thorough
@pytest.mark.ci
def test_a_run_of_crossovers_is_drawn(tmp_path):
    printed = run("crossover", "--measure", "run.json", "--quick", "--only", "so", folder=tmp_path)
    ran = json.loads((tmp_path / "run.json").read_text())
    assert printed.splitlines()[-1] == f"wrote run.json: {len(ran['rows'])} times"
    engines = {"NumPy", *(name for name in ("cpu", "cuda") if pk.engines()[name])}
    assert {(row["call"], row["elements"], row["by"]) for row in ran["rows"]} == {
        (call, size, by)
        for call in ("sort", "argsort", "unique")
        for size in (1000, 10_000, 100_000)
        for by in engines
    }
    assert all(row["rounds"][0] > 0 for row in ran["rows"])
    assert "/" not in json.dumps(ran)  # it contains no paths of this machine
    pytest.importorskip("matplotlib")
    # A GPU that is ten times slower than NumPy for small sizes, and ten times faster for large ones.
    for row in ran["rows"][:]:
        if row["by"] == "cuda":
            ran["rows"].remove(row)
        if row["by"] == "NumPy":
            factor = {1000: 10, 10_000: 10, 100_000: 0.1}[row["elements"]]
            taken = [seconds * factor for seconds in row["rounds"]]
            ran["rows"].append({**row, "by": "cuda", "rounds": taken})
    (tmp_path / "run.json").write_text(json.dumps(ran))
    rows = run("crossover", "--from", "run.json", "pays", folder=tmp_path).splitlines()[2:]
    assert [row.split(" | ")[1] for row in rows] == ["`sort`", "`argsort`", "`unique`"]
    assert (tmp_path / "pays" / "sort.svg").read_text().count("cuda") > 0


@pytest.mark.skipif(not DRAWS, reason="needs matplotlib")
def test_where_curves_cross(families):
    pictures = importlib.import_module("crossover_plots")
    numpy, cpu = {10: 1.0, 1000: 100.0}, {10: 20.0, 1000: 50.0}
    assert pictures.first_for_good({"NumPy": numpy, "cuda": {10: 10.0, 1000: 10.0}}, "cuda") == pytest.approx(
        100
    )
    assert (
        pictures.first_for_good({"NumPy": numpy, "cpu": cpu, "cuda": {10: 9.0, 1000: 60.0}}, "cuda") is None
    )
    assert pictures.first_for_good({"NumPy": {10: 1.0}, "cuda": {10: 2.0, 1000: 3.0}}, "cuda") == 1000
    assert pictures.first_for_good({"NumPy": numpy, "cuda": {10: 0.5}}, "cuda") is None  # none of the largest
    assert pictures.left_for_good({"NumPy": numpy, "cpu": {10: 10.0, 1000: 10.0}}, "NumPy") == pytest.approx(
        100
    )
    assert pictures.left_for_good({"NumPy": numpy, "cpu": {10: 0.5, 1000: 10.0}}, "NumPy") == 10
    words = [pictures.format_size(size, 10) for size in (None, 10, 123_456.7)]
    assert words == ["never", "always", "100,000"]


@pytest.mark.thorough
@pytest.mark.ci
def test_reductions(tmp_path):
    printed = run("reduce", "--quick", "--only", "ten", folder=tmp_path)
    assert "sum of ten" in printed


@pytest.mark.thorough
@pytest.mark.ci
def test_images(tmp_path):
    printed = run("image_pixels", "--quick", "--only", "4K uint8", folder=tmp_path)
    pytest.importorskip("cv2")
    assert "grey 4K uint8" in printed


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


@pytest.fixture
def clock(monkeypatch):
    """A fake clock that only its attribute `now` advances."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def test_the_time_to_free_a_result_is_not_measured(clock):
    class Result:
        def __init__(self):
            clock.now += 0.001

        def __del__(self):
            clock.now += 0.05

    times = interleave({"slow": Result}, rounds=2)
    assert times["slow"].rounds == pytest.approx([0.001] * 2)


def test_to_be_the_first_of_a_round_costs_nothing(clock):
    new = False

    def call():
        nonlocal new
        clock.now += 1.0 if new else 1e-3
        new = False

    def new_round():
        nonlocal new
        new = True

    times = interleave({"one": call, "other": call}, rounds=9, new_round=new_round)
    assert [*times["one"].rounds, *times["other"].rounds] == pytest.approx([1e-3] * 18)


def test_interleaving_no_calls():
    assert interleave({}, new_round=pytest.fail) == {}


@pytest.mark.parametrize(
    ("fast", "slow", "count"), [(3e-6, 1e-4, 66), (3e-6, 7e-4, 28), (3e-6, 0.03, 1), (1e-3, 2e-3, 1)]
)
def test_a_sample_is_as_many_calls_of_one_as_of_another(clock, fast, slow, count):
    calls = {"fast": 0, "slow": 0}

    def call(name, seconds):
        clock.now += seconds
        calls[name] += 1

    contenders = {"fast": lambda: call("fast", fast), "slow": lambda: call("slow", slow)}
    times = interleave(contenders, rounds=2, warm_up=1)
    assert calls == {"fast": 3 + 2 * (1 + count), "slow": 3 + 2 * count}  # each round begins with a fast one
    assert times["fast"].median == pytest.approx(fast)
    assert times["slow"].median == pytest.approx(slow)


@pytest.mark.thorough
@pytest.mark.ci
def test_small_calls(tmp_path):
    told = json.loads(run("small", "--quick", "--only", "sum", "--json", folder=tmp_path))
    assert {"sum", "cumsum", "sum(axis=0)"} <= {row["work"] for row in told["rows"]}
    assert all(row["seconds"] > 0 and row["verdict"] in ("ok", "SHORT") for row in told["rows"])
    printed = run("small", "--quick", "--only", "cumsum", folder=tmp_path)
    assert "figures met" in printed.splitlines()[-1]


@needs_compiler
@pytest.mark.thorough
@pytest.mark.ci
def test_gallery(tmp_path):
    pytest.importorskip("scipy")
    lines = run("gallery", "--quick", "--json", "gallery.json", folder=tmp_path).splitlines()
    assert len(lines) == 10
    assert all(" Times" in line and "NumPy" in line and " cores " in line for line in lines)
    told = json.loads((tmp_path / "gallery.json").read_text())
    assert list(told) == [line.split()[0] for line in lines]
    assert all(seconds > 0 for times in told.values() for seconds in times.values())


def test_gallery_writes_a_line_below_the_picture(tmp_path, monkeypatch):
    pytest.importorskip("scipy")
    if not FOLDER.is_dir():
        pytest.skip("benchmarks/ is not beside the tests")
    monkeypatch.syspath_prepend(str(FOLDER))
    gallery = importlib.import_module("gallery")
    monkeypatch.setattr(gallery, "PAGES", tmp_path)
    page = tmp_path / "heat.md"
    page.write_text("# Heat\n\n![Heat](heat.png)\n\nText.\n")
    for seconds, shown in ((9.1, "9.10 s"), (0.25, "250 ms")):
        gallery.write("heat", {"NumPy": seconds, "2 cores": 0.1})
        wanted = f"# Heat\n\n![Heat](heat.png)\n\nTimes: NumPy {shown}, 2 cores 100 ms.\n\nText.\n"
        assert page.read_text() == wanted


@needs_compiler
@pytest.mark.thorough
def test_first_results(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs PyTorch")
    lines = run("first_result", "--only", "pk.", folder=tmp_path).splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["pk.SourceModule", "pk.evaluate"]
    for line in lines:
        first, used, again, _ = (float(word) for word in line.split()[1::2])
        assert 0 < first < 60
        assert 0 < used < 60
        assert 0 < again < 60
