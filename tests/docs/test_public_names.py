"""`dir`, help and messages show the public names, and nothing else."""

import importlib.util
import inspect
import sys
import traceback
from pathlib import Path

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
    if suggestion:  # Python adds one of its own only where the message has none
        assert shown.lower().count("did you mean") == ("did you mean" in suggestion)
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


def test_the_stub_is_what_its_script_writes():
    script = Path(__file__).parents[2] / "tools" / "public_stubs.py"
    if not script.is_file():
        pytest.skip("needs tools/ beside the tests")
    spec = importlib.util.spec_from_file_location("public_stubs", script)
    public_stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(public_stubs)
    assert public_stubs.PATH.read_text(encoding="utf-8") == public_stubs.stub(), "run tools/public_stubs.py"


PROGRAM = """
import numpy as np
import pycudakit as pk
x = np.ones(3)
reveal_type(pk.sort(x))
reveal_type(pk.engines())
reveal_type(pk.wrap("add.cu"))
pk.image.gaussian_blur(x, 1.0), pk.numpy.sort(x)
pk.linalg.norm(x), pk.random.default_rng(1), pk.add(x, 1, out=x)
with pk.engine("cpu"):
    pass
pk.set_engine("gpu")
pk.meadian(x)
"""


@pytest.mark.thorough
def test_type_checkers(tmp_path):
    api = pytest.importorskip("mypy.api")
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--strict", "--cache-dir", str(tmp_path), "--follow-imports=silent"]
    told = api.run([str(tmp_path / "program.py"), *options])[0].replace("builtins.", "")
    notes = [line for line in told.splitlines() if "note: Revealed" in line]
    for note, wanted in zip(notes, ["numpy.ndarray[Any, ", "dict[str, ", "Library"], strict=True):
        assert wanted in note
    faults = [line for line in told.splitlines() if ": error:" in line]
    assert len(faults) == 2, told
    assert "Literal['auto', 'cuda', 'cpu', 'numpy']" in faults[0]
    assert "meadian" in faults[1]


def test_docstrings_have_their_sections():
    functions = {name: getattr(pk, name) for name in pk.__all__ if inspect.isfunction(getattr(pk, name))}
    lacking = [name for name, each in functions.items() if "\n    Returns\n    -------\n" not in each.__doc__]
    assert lacking == ["release", "set_engine"]  # which return nothing
    taking = [name for name, each in functions.items() if inspect.signature(each).parameters]
    assert [name for name in taking if "\n    Parameters\n" not in functions[name].__doc__] == []
