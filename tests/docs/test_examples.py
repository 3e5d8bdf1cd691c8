"""Every example in the package's docstrings gives what it says."""

import doctest
import importlib
import pkgutil

import pytest

import pycudakit
from pycudakit._families.elementwise import compound

MODULES = ["pycudakit"] + [
    module.name
    for module in pkgutil.walk_packages(pycudakit.__path__, "pycudakit.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    results = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0, (
        f"{results.failed} of {results.attempted} examples; run `python -m doctest` on {name}"
    )


def test_examples_are_found():
    """Functions made by a factory keep their examples in __doc__, where doctest finds them."""
    finder = doctest.DocTestFinder()
    found = {t.name for t in finder.find(compound) if t.examples}
    assert "pycudakit._families.elementwise.compound.clip" in found
    undocumented = [
        name
        for name in pycudakit.__all__
        if callable(getattr(pycudakit, name))
        and not isinstance(getattr(pycudakit, name), type)
        and ">>>" not in (getattr(pycudakit, name).__doc__ or "")
    ]
    assert not undocumented


@pytest.mark.parametrize("name", [n for n in pycudakit.__all__ if not n.startswith("_")])
def test_examples_of_public_names(name):
    """doctest skips functions whose __module__ is another's, so each public one is run by itself."""
    thing = getattr(pycudakit, name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    text = []
    for test in doctest.DocTestFinder(recurse=False).find(thing, name, module=False, globs={}):
        runner.run(test, out=text.append)
    assert runner.failures == 0, "".join(text)
