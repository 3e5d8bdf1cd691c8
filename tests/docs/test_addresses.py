"""Addresses that pages have had stay valid: links from outside, and from older releases, lead somewhere."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
ADDRESSES = (Path(__file__).parent / "old_addresses.txt").read_text(encoding="utf-8").split()

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="docs/ is not beside the tests")


def anchors(text):
    """Return the anchors of a page: those of its headings, and `<a id="...">` for headings that it had."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    found = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return found | set(re.findall(r'<a id="([\w-]+)"></a>', text))


def dead(addresses, folder):
    """Return those addresses that are of no page, or of no anchor on it."""
    pages = {}
    for address in addresses:
        page, _, anchor = address.partition("#")
        if page not in pages:
            path = folder / page
            pages[page] = anchors(path.read_text(encoding="utf-8")) if path.is_file() else None
        if pages[page] is None or (anchor and anchor not in pages[page]):
            yield address


def test_old_addresses_resolve():
    assert len(ADDRESSES) > 250
    assert list(dead(ADDRESSES, DOCS)) == []


def test_dead_addresses_are_found(tmp_path):
    (tmp_path / "page.md").write_text(
        '# Title\n\n<a id="older"></a>\n\n## A `new` name\n\n```sh\n# comment\n```\n'
    )
    given = ["page.md", "page.md#a-new-name", "page.md#older", "page.md#comment", "page.md#gone", "lost.md"]
    assert list(dead(given, tmp_path)) == ["page.md#comment", "page.md#gone", "lost.md"]


def test_no_anchor_is_twice_on_a_page():
    for path in sorted(DOCS.rglob("*.md")):
        found = re.findall(r'<a id="([\w-]+)"></a>', path.read_text(encoding="utf-8"))
        headings = anchors(re.sub(r'<a id="[\w-]+"></a>', "", path.read_text(encoding="utf-8")))
        assert len(found) == len(set(found)), path.name
        assert headings.isdisjoint(found), path.name
