"""The site: `sphinx-build -W docs _site`. Every page is Markdown, and the reference is the docstrings."""

import re
from pathlib import Path

import numpy as np
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

import pycudakit as pk

project = "pycudakit"
author = "the pycudakit authors"
release = version = pk.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_site"]

html_theme = "furo"
html_title = "pycudakit"
html_show_sourcelink = False
html_theme_options = {"sidebar_hide_name": False}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # as GitHub has them
default_role = "py:obj"
add_module_names = False
autodoc_typehints = "none"  # the docstrings say it in words
autosummary_generate = False
napoleon_numpy_docstring, napoleon_google_docstring = True, False

ROOT = Path(__file__).resolve().parents[1]
NUMPY = "https://numpy.org/doc/stable/reference/generated/numpy."


class Family(Directive):
    """A table of functions, then each with its docstring: one dotted name a word."""

    has_content = True

    def run(self):
        """Write it as autosummary and autodoc take it."""
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
            elif issubclass(thing, tuple | Exception):  # what a named tuple inherits says nothing
                lines += [f".. autoclass:: pycudakit.{name}", "   :no-index-entry:", ""]
            else:
                lines += [f".. autoclass:: pycudakit.{name}", "   :members:", ""]
        made = nodes.container()
        self.state.nested_parse(StringList(lines, self.content.source(0)), self.content_offset, made)
        return made.children


def see_also(app, what, name, thing, options, lines):
    """Lead from a function to NumPy's of its name, and to its family's page."""
    if what not in ("function", "class"):
        return
    page = app.env.docname.removeprefix("api/")
    found = []
    path = name.removeprefix("pycudakit.")
    owner = np
    for part in path.split("."):
        owner = getattr(owner, part, None)
    if callable(owner) and path not in ("random.Generator", "linalg", "random"):
        found.append(f"`numpy.{path} <{NUMPY}{path}.html>`__")
    if (ROOT / "docs" / f"{page}.md").is_file():
        found.append(f":doc:`/{page}`")
    if found:
        lines += ["", f".. seealso:: {', '.join(found)}", ""]


def to_the_tree(app, docname, source):
    """Write links to files outside of docs/ as text, as the site has the pages alone; fetch the map."""
    if docname == "architecture":
        text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        part = text.split("## Where things are\n")[1].split("\n## ")[0]
        source[0] += "\n## Where things are\n" + part.replace("](docs/", "](")
    page = (ROOT / "docs" / docname).parent

    def written(link):
        outside = ROOT / "docs" not in (page / link[2]).resolve().parents
        return f"{link[1]} (`{link[2].replace('../', '')}`)" if outside else link[0]

    source[0] = re.sub(r"(?<!!)\[([^\[\]]+)\]\((\.\./[\w./-]+)(?:#[\w-]+)?\)", written, source[0])


def setup(app):
    """Register what is above."""
    app.add_directive("family", Family)
    app.connect("autodoc-process-docstring", see_also, priority=900)
    app.connect("source-read", to_the_tree)
