"""Private words stay out of the sources: the field has a word for each, and docs/glossary.md lists ours."""

import re
from pathlib import Path

import pytest

import pycudakit as pk

PACKAGE = Path(pk.__file__).parent
SOURCES = Path(__file__).parents[2] / "csrc"
PRIVATE = re.compile(
    r"stand.?in|put_off|homeward|left_behind|harmless|\blent\b|\blend(s|ing)?\b|come_home|at_home|is_there"
    r"|lies? there|the kit\b|\bkit's|written down|stands? in (a )?line|nobody|somebody|is played"
    r"|answers first|takes more care",
    re.IGNORECASE,
)
ALLOWED: set[str] = set()  # whole lines, stripped, where a word is meant as it is


def private_words(text):
    """Return the lines of a text that have a private word, with their numbers."""
    lines = enumerate(text.splitlines(), 1)
    return [f"{n}: {line}" for n, line in lines if PRIVATE.search(line) and line.strip() not in ALLOWED]


@pytest.mark.parametrize("folder", [PACKAGE, SOURCES], ids=["pycudakit", "csrc"])
def test_no_private_word(folder):
    if not folder.is_dir():
        pytest.skip(f"no {folder.name} beside the tests")
    kinds = {".py", ".pyi", ".h", ".cuh", ".cu", ".cpp", ".def", ".md"}
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in kinds]
    assert len(paths) > 100
    found = {str(path): private_words(path.read_text(encoding="utf-8")) for path in paths}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    ["a StandIn of it", "memory that is lent", "it lies there", "the kit's own", "auto: cpu answers first"],
)
def test_private_words_are_found(line):
    assert private_words(f"ordinary\n{line}\n") == [f"2: {line}"]


@pytest.mark.parametrize(
    "line", ["appended, blended", "this kitchen's", "it lies on a GPU", "pycudakit's functions"]
)
def test_ordinary_words_are_not(line):
    assert private_words(line) == []
