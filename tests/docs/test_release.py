"""Release metadata: the same version everywhere, and the files that belong to a release."""

import ast
import re
from pathlib import Path

import pytest

import pycudakit as pk

ROOT = Path(__file__).resolve().parents[2]
PLACES = {
    "CITATION.cff": r"^version: (.+)$",
    "conda/recipe.yaml": r'^  version: "(.+)"$',
}


def text_of(name):
    path = ROOT / name
    if not path.is_file():
        pytest.skip(f"{name} is not beside the tests")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PLACES)
def test_the_version(name):
    assert re.findall(PLACES[name], text_of(name), re.MULTILINE) == [pk.__version__]


def test_the_changelog_has_it():
    assert f"\n## [{pk.__version__}]\n" in text_of("CHANGELOG.md")


def test_ci_has_every_python_that_is_promised():
    promised = re.search(r'^requires-python = ">=3\.(\d+)"$', text_of("pyproject.toml"), re.MULTILINE)
    tested = ast.literal_eval(
        re.search(r"^        python: (\[.*\])$", text_of(".github/workflows/tests.yml"), re.MULTILINE)[1]
    )
    assert tested == [f"3.{minor}" for minor in range(int(promised[1]), int(promised[1]) + len(tested))]
    assert f"| Python | {tested[0]} to {tested[-1]} |" in text_of("docs/compatibility.md")


def test_the_workflows_name_existing_steps():
    steps = ast.literal_eval(
        re.search(r"^        steps: (\[.*\])$", text_of(".github/workflows/tests.yml"), re.MULTILINE)[1]
    )
    there = set(re.findall(r"^(\w+)\(\) \{", text_of(".ci/run"), re.MULTILINE))
    assert {step for named in steps for step in named.split()} <= there


def test_wheels_are_for_the_gpus_that_are_promised():
    assert "PYCUDAKIT_ALL_GPUS=ON" in text_of(".github/workflows/wheels.yml")
    built = re.search(r"^all_gpus\(\) \{ build '(\S+)'", text_of(".ci/run"), re.MULTILINE)[1]
    page = text_of("docs/compatibility.md")
    for number in re.findall(r"\d+", built):
        major, minor = number[:-1], number[-1]
        assert f"{major}.{minor}" in page or f"{major}.x" in page


def test_wheels_are_for_the_macos_that_is_promised():
    built = re.search(
        r"MACOSX_DEPLOYMENT_TARGET=(\d+)\.0$", text_of(".github/workflows/wheels.yml"), re.MULTILINE
    )[1]
    assert f"| macOS | the CPU engine, {built} and newer |" in text_of("docs/compatibility.md")
