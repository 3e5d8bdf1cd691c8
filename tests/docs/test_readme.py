"""README.md and docs/: every Python block runs and prints the shown output; links and lists are complete."""

import contextlib
import doctest
import io
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.numpy_versions import has_numpy

import pycudakit as pk
from pycudakit._runtime import context

ROOT = Path(__file__).resolve().parents[2]
PAGES = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if path.is_file()]
# A code fence: its language, its text, and the text of an output fence after it, if there is one.
BLOCKS = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
LINKS = re.compile(r"\]\((?!https?:)([^)#]+)?(?:#([^)]+))?\)")

pytestmark = [
    pytest.mark.skipif(not (ROOT / "README.md").is_file(), reason="README.md is not beside the tests"),
    pytest.mark.skipif(not pk.engines()["cpu"], reason="the pages show the cpu engine"),
]


@pytest.fixture(autouse=True)
def _as_a_process_starts():
    """Reset the engine and NumPy's warnings to the defaults for each page."""

    before, warnings = context.process_engine, np.seterr(all="warn", under="ignore")
    pk.set_engine("auto")
    yield
    context.process_engine = before
    np.seterr(**warnings)


def _run_session(text, page, names):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
    printed = io.StringIO()
    results = doctest.DocTestRunner(optionflags=flags).run(test, out=printed.write, clear_globs=False)
    names.update(test.globs)
    assert not results.failed, printed.getvalue()


def _run_script(text, shown, page, names):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, str(page), "exec"), names)
    assert printed.getvalue() == (shown or "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page):
    names = {"__name__": page.stem}
    for text, shown in BLOCKS.findall(page.read_text(encoding="utf-8")):
        if text.startswith(">>>"):
            _run_session(text, page, names)
            continue
        try:
            _run_script(text, shown, page, names)
        except pk.errors.CompileError as error:
            if "cannot open source file" not in str(error):  # a CUDA header that is not installed
                raise


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target, anchor in LINKS.findall(page.read_text(encoding="utf-8")):
        path = page.parent / target if target else page
        if not (ROOT / "CONTRIBUTING.md").is_file() and target.startswith("CONTRIBUTING"):
            continue
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings], (
                f"{target}#{anchor}"
            )


def test_a_page_names_every_function():
    page = ROOT / "docs" / "functions.md"
    listed = re.findall(r"^> `(.*?)`$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    listed = set(" ".join(listed).replace("\n>", " ").split())
    public = {name for name in pk.__all__ if callable(getattr(pk, name)) and hasattr(np, name)}
    newer = set() if has_numpy("2.1") else {"cumulative_prod", "cumulative_sum"}
    assert listed == public - {"get_include"} | newer  # get_include is not a function of arrays


def test_the_readme_fits_three_screens():
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 90


@pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="pyproject.toml is not beside the tests")
def test_the_readme_renders_on_a_package_index():
    """Links and pictures are absolute, of the address in pyproject.toml; files exist; pictures are no SVG."""
    source = re.search(r'^Source = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)[1]
    raw = source.replace("//github.com", "//raw.githubusercontent.com")
    links = re.findall(r"(!?)\[[^]]*\]\(([^\s)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 10
    for picture, link in links:
        base = f"{raw}/main/" if picture else f"{source}/blob/main/"
        if link == f"{source}/issues":
            continue
        assert link.startswith(base), link
        assert (ROOT / link.removeprefix(base)).is_file(), link
        assert not picture or link.endswith(".png"), link


def test_every_page_is_in_a_table_of_contents():
    """All pages except index.md are listed; an entry may be a pattern, as for Sphinx."""
    wanted = {path.relative_to(ROOT / "docs").with_suffix("") for path in PAGES[1:]} - {Path("index")}
    for page in PAGES[1:]:
        for entries in re.findall(
            r"^```{toctree}\n(?::[^\n]*\n)*\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
        ):
            for entry in entries.split():
                found = {path for path in wanted if (ROOT / "docs" / path).match(str(page.parent / entry))}
                wanted -= found
    assert not wanted


def test_the_reference_has_every_public_name():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md"))
    listed = re.findall(r"^ {3}((?:[\w.]+ ?)+)$", text, re.MULTILINE)
    listed = " ".join(listed).split()
    assert len(listed) == len(set(listed))
    rooms = {"errors", "image", "linalg", "random"}
    wanted = {name for name in pk.__all__ if not name.startswith("__")} - rooms
    wanted |= {f"{room}.{name}" for room in rooms for name in getattr(pk, room).__all__}
    assert wanted - set(listed) == set()
    assert set(listed) - wanted == {"kernels.Function", "kernels.Library"}


def test_every_script_is_named():
    """Scripts of examples/ are named on some page, and those of benchmarks/ in the table."""
    pages = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    everywhere = "".join(pages.values())
    unnamed = [path.name for path in sorted((ROOT / "examples").glob("*.py")) if path.name not in everywhere]
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        runs = '__name__ == "__main__"' in path.read_text(encoding="utf-8")
        if runs and f"| `{path.name}` |" not in pages["benchmarks.md"]:
            unnamed.append(path.name)
    assert unnamed == []


@pytest.mark.skipif(not (ROOT / "pycudakit").is_dir(), reason="needs the whole tree")
def test_messages_are_those_of_the_code():
    """Each message in the first column of the tables of docs/troubleshooting.md is in the sources."""
    code = ""
    for folder, kinds in (("pycudakit", ("py",)), ("csrc", ("cpp", "cu", "h", "cuh"))):
        for path in (path for kind in kinds for path in sorted((ROOT / folder).rglob(f"*.{kind}"))):
            code += path.read_text(encoding="utf-8")
    code = re.sub(r'"\s*f?"', "", code)  # joins the parts of a string
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `([^`]{20,})` \|", page, re.MULTILINE)
    parts = [part.strip() for message in shown for part in message.split("...") if len(part.strip()) > 6]
    assert len(shown) > 15
    assert [part for part in parts if part not in code] == []


def test_documented_bounds_are_those_tested():
    from elementwise.test_accuracy import BOUNDS

    page = ROOT / "docs" / "elementwise.md"
    rows = re.findall(r"^\| `(\w+)` \|((?: *[\d.]*(?: \([\d.]+\))? \|){3})$", page.read_text(), re.MULTILINE)
    assert {name for name, _ in rows} == set(BOUNDS)
    for name, cells in rows:
        for cell, bound in zip(cells.split("|"), BOUNDS[name], strict=False):
            stated, _, met = cell.strip().rstrip(")").partition(" (")
            assert not stated or float(stated) == bound, f"{name}: {stated}, tested {bound}"
            assert not met or float(met) <= float(stated), f"{name}: met {met}, stated {stated}"


@pytest.mark.skipif(
    not (ROOT / "CONTRIBUTING.md").is_file(), reason="CONTRIBUTING.md is not beside the tests"
)
def test_excerpts_are_of_the_files():
    """The excerpts of CONTRIBUTING.md are in the files that it names, in that order."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    guide = text.split("## Adding a kernel to the library\n")[1].split("\n## ")[0]
    shown = re.findall(r"\]\(([\w./]+)\)(?:(?!```|\]\().)*?```\w+\n(.*?)```", guide, re.DOTALL)
    assert len(shown) == 8
    installed = Path(pk.__file__).parents[1]  # the package is not always beside the tests
    for name, block in shown:
        path = (installed if name.startswith("pycudakit/") else ROOT) / name
        lines = iter([line.strip() for line in path.read_text(encoding="utf-8").splitlines()])
        wanted = [line.strip() for line in block.splitlines() if line.strip() not in ("", "...")]
        missing = [line for line in wanted if not any(line in own for own in lines)]
        assert not missing, f"{name}: {missing[0]}"


def test_the_map_names_existing_files():
    """Each file and folder in the map of CONTRIBUTING.md exists."""
    if not (ROOT / "csrc").is_dir() or not (ROOT / "pycudakit").is_dir():
        pytest.skip("needs the whole tree")
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    start, end = (text.index(f"\n## {title}\n") for title in ("Where things are", "Testing"))
    named = re.findall(r"`([\w./]+(?:/|\.(?:py|cpp|cuh?|h))\*?)`", text[start:end])
    bases = (
        "",
        "benchmarks",
        "csrc",
        "csrc/common",
        "pycudakit",
        "pycudakit/_families/elementwise",
        "pycudakit/_element_programs",
    )
    bases += (
        "pycudakit/_runtime",
        "pycudakit/_native",
        "pycudakit/fusing",
        "pycudakit/kernels",
        "pycudakit/kernels/running",
        "pycudakit/kernels/compiling",
        "pycudakit/kernels/wrapping",
    )
    missing = [name for name in named if not any((ROOT / base / name).exists() for base in bases)]
    assert len(named) > 60
    assert missing == []
