"""Pages of docs/ are readable: short bullets, links with words of their own, tables that fit the page."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
WORDS_IN_A_BULLET = 40
WORDS_IN_A_CELL = 45
COLUMNS_OF_A_TABLE = 110  # characters of the widest words of all columns together

pytestmark = pytest.mark.skipif(not PAGES, reason="docs/ is not beside the tests")


def text_of(markdown):
    """Return a page without its programs, and links as their words."""
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"^```.*?^```$", "", markdown, flags=re.DOTALL | re.MULTILINE))


def long_bullets(markdown):
    """Return the beginnings of bullets that have too many words."""
    bullets = re.findall(
        r"^(?:- |\d+\. )(.*?)(?=^\s*(?:- |\d+\. )|\n\n|^#|\Z)", text_of(markdown), re.DOTALL | re.MULTILINE
    )
    return [bullet[:60] for bullet in bullets if len(bullet.split()) > WORDS_IN_A_BULLET]


def poor_links(markdown):
    """Return links whose text is a file name, or stands beside the link, too."""
    text = re.sub(r"^```.*?^```$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"(?<!!)\[([^]]+)\]\(([^)]+)\)( \(`?([^)`]+)`?\))?", text)
    named = [label for label, *_ in links if re.search(r"^`?[\w./-]+\.(md|py|cu|html)`?$", label)]
    return named + [label for label, _, _, doubled in links if doubled == label.strip("`")]


def wide_tables(markdown):
    """Return the first lines of tables that do not fit: long words together, or cells of many words."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text_of(markdown), re.MULTILINE):
        rows = [re.split(r"(?<!\\)\|", row.strip()[1:-1]) for row in table.splitlines() if "| ---" not in row]
        widest = [
            max(max(map(len, cell.split()), default=0) for cell in column)
            for column in zip(*rows, strict=False)
        ]
        most = max(len(cell.split()) for row in rows for cell in row)
        if sum(widest) > COLUMNS_OF_A_TABLE or most > WORDS_IN_A_CELL:
            found.append(table.splitlines()[0][:80])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_page(page):
    markdown = page.read_text(encoding="utf-8")
    assert long_bullets(markdown) == []
    assert poor_links(markdown) == []
    assert wide_tables(markdown) == []


def test_faults_are_found():
    long = "- " + "word " * 41 + "\n- short\n"
    assert long_bullets(long) == [("word " * 41)[:60]]
    assert long_bullets("- " + "word " * 39 + "[link](far/away/page.md#with-an-anchor)\n") == []
    assert poor_links("See [reduce.md](reduce.md), [a page](b.md) and [x.py](x.py) (`x.py`).") == [
        "reduce.md",
        "x.py",
        "x.py",
    ]
    assert wide_tables(f"| a | b |\n| --- | --- |\n| `{'x' * 100}` | {'y' * 30} |\n") == ["| a | b |"]
    assert wide_tables(f"| a | b |\n| --- | --- |\n| x | {'y ' * 46} |\n") == ["| a | b |"]
    assert wide_tables(f"| a | b |\n| --- | --- |\n| {'x ' * 40} | y |\n") == []
