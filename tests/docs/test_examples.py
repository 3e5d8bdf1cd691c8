"""Every example in the package's docstrings runs and gives the shown output."""

import doctest
import importlib
import pkgutil

import pytest

import pycudakit

MODULES = ["pycudakit"] + [
    module.name
    for module in pkgutil.walk_packages(pycudakit.__path__, "pycudakit.")
    if not module.name.endswith("__main__")
]


class Finder(doctest.DocTestFinder):
    """A finder that leaves out NumPy's functions, which `pycudakit.numpy` has under their names."""

    def _from_module(self, module, object):
        return not hasattr(object, "numpy_function") and super()._from_module(module, object)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, monkeypatch):
    monkeypatch.setattr(doctest, "DocTestFinder", Finder)
    module = importlib.import_module(name)
    globs = {} if name == "pycudakit" else None  # where `all` is ours
    results = doctest.testmod(module, globs=globs, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0, (
        f"{results.failed} of {results.attempted} examples; run `python -m doctest` on {name}"
    )


PUBLIC = {name: getattr(pycudakit, name) for name in pycudakit.__all__ if not name.startswith("_")}
for room in ("image", "kernels", "linalg", "random"):
    module = getattr(pycudakit, room)
    PUBLIC.update((f"{room}.{name}", getattr(module, name)) for name in module.__all__)


def test_examples_are_found():
    """doctest finds the examples of functions that a factory makes."""
    found = doctest.DocTestFinder().find(pycudakit.clip, "clip", module=False)
    assert [len(test.examples) > 0 for test in found] == [True]
    undocumented = [
        name
        for name, thing in PUBLIC.items()
        if callable(thing) and not isinstance(thing, type) and ">>>" not in (thing.__doc__ or "")
    ]
    assert not undocumented


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_of_public_names(name):
    """doctest skips objects of other modules, so the examples of each public name are run separately."""
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    text = []
    for test in doctest.DocTestFinder().find(PUBLIC[name], name, module=False, globs={}):
        runner.run(test, out=text.append)
    assert runner.failures == 0, "".join(text)
