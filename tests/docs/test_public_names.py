"""`dir`, help and messages show the public names, and nothing else."""

import inspect
import sys
import traceback

import pytest

import pycudakit as pk

NAMESPACES = {"": pk, "linalg": pk.linalg, "random": pk.random, "image": pk.image}


@pytest.mark.parametrize("name", NAMESPACES)
def test_dir_is_the_public_names(name):
    module = NAMESPACES[name]
    assert dir(module) == sorted({*module.__all__, *(["numpy"] if module is pk else [])})


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("meadian", "did you mean 'median'?"),
        ("xyzzy", None),
        ("zeros", "use NumPy's np.zeros"),
        ("linalg.solve", "use NumPy's np.linalg.solve"),
        ("linalg.nrm", "did you mean 'norm'?"),
        ("random.defaultrng", "did you mean 'default_rng'?"),
        ("random.normal", "use NumPy's np.random.normal"),
        ("image.gausian_blur", "did you mean 'gaussian_blur'?"),
        ("_median", None),
        ("image._crop", None),
    ],
)
def test_names_that_do_not_exist(name, suggestion):
    submodule, _, last = name.rpartition(".")
    module = NAMESPACES[submodule]
    wanted = f"module {module.__name__!r} has no attribute {last!r}"
    with pytest.raises(AttributeError) as caught:
        getattr(module, last)
    assert str(caught.value) == wanted + (f": {suggestion}" if suggestion else "")
    assert caught.value.name == last
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.lower().count("did you mean") == ("did you mean" in (suggestion or ""))
    assert not hasattr(module, last)


@pytest.mark.parametrize("name", NAMESPACES)
def test_signatures_have_no_annotation_any(name):
    module = NAMESPACES[name]
    things = [getattr(module, each) for each in module.__all__ if not each.startswith("__")]
    things += [pk.random.Generator.normal, pk.random.Generator.integers]
    signatures = [str(inspect.signature(thing)) for thing in things if inspect.isfunction(thing)]
    assert len(signatures) >= 3 or module is pk
    assert [each for each in signatures if "'Any'" in each] == []
    assert str(inspect.signature(pk.sort)).startswith("(a, axis=-1, kind=None, order=None")
    assert str(inspect.signature(pk.add)).startswith("(x1, x2, /, out=None, *, where=True")


def test_a_name_that_was_imported_stays_hidden():
    assert "pycudakit._lazy" in sys.modules
    assert "_lazy" not in dir(pk)
