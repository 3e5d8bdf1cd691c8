"""Configuration of `sphinx-build -W docs _site`: Markdown pages, and a reference from the docstrings."""

import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

import pycudakit as pk

project = "pycudakit"
author = copyright = "the pycudakit authors"
release = version = pk.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_site"]

html_theme = "furo"
html_title = "pycudakit"
html_show_sourcelink = False
html_static_path, html_css_files = ["_static"], ["pages.css"]
SOURCE = re.search(
    r'^Source = "(.+)"$', (Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"), re.MULTILINE
)[1]
html_theme_options = {
    "sidebar_hide_name": False,
    "source_repository": SOURCE,
    "source_branch": "main",
    "source_directory": "docs/",
    "announcement": f"pycudakit {version}, BSD-3-Clause: <a href='{SOURCE}'>sources</a>, "
    f"<a href='{SOURCE}/blob/main/CHANGELOG.md'>changelog</a>",
}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # as GitHub has them
default_role = "py:obj"
add_module_names = False
autodoc_typehints = "none"  # the docstrings describe the types
autosummary_generate = False
napoleon_numpy_docstring, napoleon_google_docstring = True, False
napoleon_custom_sections = ["Differs from NumPy"]

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "numpy": "https://numpy.org/doc/stable/reference/generated/",
    "scipy": "https://docs.scipy.org/doc/scipy/reference/generated/",
}


class Family(Directive):
    """A table of functions, then each with its docstring: one dotted name a word."""

    has_content = True

    def run(self):
        """Return the nodes of an autosummary table and of an autodoc directive for each name."""
        names = " ".join(self.content).split()
        lines = [
            ".. autosummary::",
            "   :nosignatures:",
            "",
            *(f"   ~pycudakit.{name}" for name in names),
            "",
        ]
        for name in names:
            thing = pk
            for part in name.split("."):
                thing = getattr(thing, part)
            if not isinstance(thing, type):
                lines += [f".. autofunction:: pycudakit.{name}", ""]
            elif issubclass(thing, tuple | Exception):  # inherited members of a named tuple are noise
                lines += [f".. autoclass:: pycudakit.{name}", "   :no-index-entry:", ""]
            else:
                lines += [f".. autoclass:: pycudakit.{name}", "   :members:", ""]
        container = nodes.container()
        self.state.nested_parse(StringList(lines, self.content.source(0)), self.content_offset, container)
        return container.children


def see_also(app, kind, name, thing, options, lines):
    """In See Also sections, link functions of NumPy and SciPy to their pages, and add the family's page."""
    if kind not in ("function", "class"):
        return
    for i, line in enumerate(lines):
        lines[i] = re.sub(
            r":py:obj:`((numpy|scipy)\.[\w.]+)`", lambda m: f"`{m[1]} <{PAGES[m[2]]}{m[1]}.html>`__", line
        )
    page = app.env.docname.removeprefix("api/")
    if not (ROOT / "docs" / f"{page}.md").is_file():
        return
    if ".. seealso::" in lines:
        after = lines.index(".. seealso::") + 2
        lines[after:after] = [f"   :doc:`/{page}`", ""]
    else:
        lines += ["", f".. seealso:: :doc:`/{page}`", ""]


def names_as_links(listed):
    """Return the names of a quoted list as links to the reference."""
    names = listed[1].replace(">", " ").split()
    return "> " + " ".join(f"{{py:obj}}`{name} <pycudakit.{name}>`" for name in names)


def with_titles(table):
    """Give the cells of a table of programs the titles of their columns, shown if the cells are stacked."""
    text = table[0]
    for title in re.findall(r"<th>(.*?)</th>", text):
        text = text.replace("<td>", f'<td data-title="{title}">', 1)
    return text


def to_the_tree(app, docname, source):
    """Link files outside of docs/ to the repository, and append the map of CONTRIBUTING.md to one page."""
    source[0] = re.sub(r"<table>\n<tr><th>.*?</table>", with_titles, source[0], flags=re.DOTALL)
    if docname == "architecture":
        text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        part = text.split("## Where things are\n")[1].split("\n## ")[0]
        part = part.replace("](docs/", "](").replace("](csrc/", "](../csrc/")
        source[0] += f"\n## Where things are\n{part}"
    if docname == "functions":
        source[0] = re.sub(r"^> `([^`]+)`$", names_as_links, source[0], flags=re.MULTILINE)
    page = (ROOT / "docs" / docname).parent

    def to_the_repository(link):
        target = (page / link[1]).resolve()
        outside = ROOT / "docs" not in target.parents
        return f"]({SOURCE}/blob/main/{target.relative_to(ROOT)}{link[2]})" if outside else link[0]

    source[0] = re.sub(r"\]\((\.\./[\w./-]+)((?:#[\w-]+)?)\)", to_the_repository, source[0])


def setup(app):
    """Register the directive and the event handlers."""
    app.add_directive("family", Family)
    app.connect("autodoc-process-docstring", see_also, priority=900)
    app.connect("source-read", to_the_tree)
