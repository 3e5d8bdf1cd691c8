"""Private words stay out of the sources: the field has a word for each, and docs/glossary.md lists ours."""

import re
from pathlib import Path

import pytest

import pycudakit as pk

PACKAGE = Path(pk.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "csrc"
TOP = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT")]
PAGES = [path for path in [*TOP, *sorted((ROOT / "docs").rglob("*.md"))] if path.is_file()]
PRIVATE = re.compile(
    r"stand.?in|put_off|homeward|left_behind|harmless|\blent\b|\blend(s|ing)?\b|come_home|at_home|is_there"
    r"|lies? there|the kit\b|\bkit's|written down|stands? in (a )?line|nobody|somebody|is played"
    r"|answers first|takes more care"
    # "what" and "who" as nouns; "what to do" is a question.
    r"|\bwhat\b(?!\(| to )|\bwhat_|_what\b|\bwho\b",
    re.IGNORECASE,
)
# In pages for users, also the words for transfers, places and nouns that English has for them.
OF_PAGES = re.compile(
    PRIVATE.pattern
    + r"|everybody|where (it|they) lies?\b|\b(goes|go|went|comes?|came) (up|down) (to|from|with|once|and)\b"
    r"|\band (its|their) kin\b|\bas ever\b|\btells? (of|how|where)\b",
    re.IGNORECASE,
)
# Whole lines, stripped, where a word is meant as it is.
ALLOWED: set[str] = set()


def private_words(text, words=PRIVATE):
    """Return the lines of a text that have a private word, with their numbers."""
    lines = enumerate(text.splitlines(), 1)
    return [f"{n}: {line}" for n, line in lines if words.search(line) and line.strip() not in ALLOWED]


def words_of_a_page(text):
    """Return the private words in a page, whose programs and code are left out but counted as lines."""
    text = re.sub(
        r"^```.*?^```$", lambda code: "\n" * code[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE
    )
    return private_words(re.sub(r'`[^`\n]*`|<a id="[^"]*">', "code", text), OF_PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_private_word_in_pages(page):
    assert words_of_a_page(page.read_text(encoding="utf-8")) == []


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
    [
        "a StandIn of it",
        "memory that is lent",
        "it lies there",
        "the kit's own",
        "auto: cpu answers first",
        "# guards what follows",
        '"""What the linker takes."""',
        "def wait(what: str)",
        "the_what = 1",
        "users who wait",
    ],
)
def test_private_words_are_found(line):
    assert private_words(f"ordinary\n{line}\n") == [f"2: {line}"]


@pytest.mark.parametrize(
    "line",
    [
        "appended, blended",
        "this kitchen's",
        "it lies on a GPU",
        "pycudakit's functions",
        "the message says what to write",
        "fail(error.what());",
        "whatever",
        "whose",
    ],
)
def test_ordinary_words_are_not(line):
    assert private_words(line) == []


@pytest.mark.parametrize(
    "line",
    [
        "nobody waits",
        "the array goes up once",
        "who knows",
        "of what comes back",
        "`sum` and its kin",
        "the kit's own",
    ],
)
def test_words_of_pages_are_found(line):
    assert words_of_a_page(f"ordinary\n\n{line}\n") == [f"3: {re.sub('`.*`', 'code', line)}"]
    assert words_of_a_page(f"ordinary\n\n```text\n{line}\n```\n") == []
