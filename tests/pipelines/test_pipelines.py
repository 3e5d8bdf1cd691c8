"""The scripts in docs/pipelines.md, docs/pandas.md and docs/many_machines.md print the shown output."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pycudakit as pk

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / "pipelines.md", DOCS / "pandas.md"]
BLOCK = re.compile(r"^## ([\w -]+)\n.*?^```py\n(.*?)^```\n\n```text\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
NEEDS = {
    "scikit-learn": "sklearn",
    "Fused functions of columns": "pandas",
    "Expressions of columns": "pandas",
    "Series and DataFrames": "pandas",
    "xarray": "xarray",
    "PyTorch": "torch",
    "Jupyter": "numpy",
}
TEXT = "".join(page.read_text() for page in PAGES if page.is_file())
EXAMPLES = {name: (text, shown) for name, text, shown in BLOCK.findall(TEXT)}

pytestmark = [
    pytest.mark.skipif(not TEXT, reason="docs/ is not beside the tests"),
    pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine"),
]


def run(script, folder):
    (folder / "example.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "example.py"],
        check=False,
        capture_output=True,
        cwd=folder,
        env={**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"},
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", NEEDS)
def test_example(name, tmp_path):
    text, shown = EXAMPLES[name]
    if importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"needs {NEEDS[name]}")
    assert run(text, tmp_path) == shown


def test_a_notebook(tmp_path):
    """A cell of the page's block, one that shows a plan, and one that takes long."""
    client, formats = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    for needed in ("ipykernel", "tqdm"):
        pytest.importorskip(needed)
    text, shown = EXAMPLES["Jupyter"]
    explained = 'with pk.engine("cpu"):\n    plan = wave.explain(y)\nplan'
    slow = """
from pycudakit._runtime import progress
progress.FIRST_REPORT_SECONDS = progress.REPORT_INTERVAL = 0.0  # which are for calls of a second and more
with pk.engine("cpu", progress=True):
    pk.sort(np.arange(5e6))
"""
    cells = [formats.v4.new_code_cell(each) for each in (text, explained, slow)]
    notebook = formats.v4.new_notebook(cells=cells)
    client.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed, plan, bar = (cell.outputs for cell in notebook.cells)
    assert "".join(each["text"] for each in printed if each["output_type"] == "stream") == shown
    page = plan[0]["data"]["text/html"]
    assert page.startswith("<svg")
    assert "wave: 1 pass on cpu" in page
    told = "".join(each["text"] for each in bar if each.get("name") == "stderr")
    assert "sort" in told
    assert "100%" in told


def test_every_section_is_tested():
    assert set(EXAMPLES) == set(NEEDS) == set(re.findall(r"^## (.*)$", TEXT, re.MULTILINE))


def blocks_of(heading):
    page = (DOCS / "many_machines.md").read_text()
    section = page if heading is None else page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```py\n(.*?)^```\n", section, re.DOTALL | re.MULTILINE)


def test_the_page_on_dask(tmp_path):
    pytest.importorskip("dask.array")
    text = "\n".join(block for block in blocks_of(None) if "import ray" not in block)
    small = text.replace("1_000_000", "1_000").replace("50_000", "500").replace("10_000", "100")
    printed = run(f"{small}\nprint(noise.shape, scaled.mean().compute() < 1e-12)\n", tmp_path)
    assert printed == "(1000, 50) True\n"


@pytest.mark.thorough
def test_ray(tmp_path):
    pytest.importorskip("ray")
    (block,) = blocks_of("Ray")
    start = "import ray\nimport pycudakit as pk\n"
    start += "ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)\n"
    assert run(start + block, tmp_path).splitlines()[-1] == "6000.0"
