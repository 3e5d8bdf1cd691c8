"""`dir`, help and messages show the public names, and nothing else."""

import importlib.util
import inspect
import operator
import re
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import pycudakit as pk

NAMESPACES = {"": pk, "linalg": pk.linalg, "random": pk.random, "image": pk.image, "errors": pk.errors}


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
        ("solve", "use NumPy's np.linalg.solve"),
        ("rfft", "use NumPy's np.fft.rfft"),
        ("norm", "did you mean 'linalg.norm'?"),
        ("linalg.nrm", "did you mean 'norm'?"),
        ("random.defaultrng", "did you mean 'default_rng'?"),
        ("random.normal", "use NumPy's np.random.normal"),
        ("image.gausian_blur", "did you mean 'gaussian_blur'?"),
        ("errors.Unsuported", "did you mean 'Unsupported'?"),
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


@pytest.mark.parametrize("name", ["", "linalg", "random", "image"])
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


def test_the_stub_is_the_output_of_its_script():
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


SECTIONS = ["Parameters", "Returns", "Raises", "See Also", "Differs from NumPy", "Notes", "Examples"]


def sections(function):
    """Return the headings of a docstring."""
    return re.findall(r"^(\w[\w ]*)\n-{3,}$", inspect.getdoc(function), re.MULTILINE)


def public_functions():
    return {
        f"{name}.{each}".lstrip("."): getattr(module, each)
        for name, module in NAMESPACES.items()
        for each in module.__all__
        if inspect.isfunction(getattr(module, each))
    }


def test_docstrings_have_their_sections():
    found = {name: sections(each) for name, each in public_functions().items()}
    assert len(found) > 240
    assert {name: each for name, each in found.items() if each != [s for s in SECTIONS if s in each]} == {}
    assert [name for name, each in found.items() if "Returns" not in each] == ["release", "set_engine"]
    assert [name for name, each in found.items() if {"See Also", "Examples"} - set(each)] == []
    taking = [name for name, each in public_functions().items() if inspect.signature(each).parameters]
    assert [name for name in taking if "Parameters" not in found[name]] == []


def test_docstrings_name_every_parameter():
    for name, function in public_functions().items():
        text = inspect.getdoc(function).partition("Parameters\n----------\n")[2].partition("\n\n")[0]
        entries = re.findall(r"^(\S.*?)(?: :.*)?$", text, re.MULTILINE)
        described = {each.lstrip("*") for entry in entries for each in entry.split(", ")}
        assert set(inspect.signature(function).parameters) - described == set(), name


def test_see_also_names_existing_functions():
    """Names are found as Sphinx finds them: in the function's own module, or from its beginning."""
    for name, function in public_functions().items():
        text = inspect.getdoc(function).split("See Also\n--------\n")[1].split("\n\n")[0]
        for other in re.findall(r"[\w.]+(?=,|$| : )", re.sub(r" : .*", "", text), re.MULTILINE):
            if other.startswith("scipy."):
                continue
            roots = {"numpy": np, "pycudakit": pk}
            root, _, rest = other.partition(".")
            owner, path = (
                (roots[root], rest) if root in roots else (NAMESPACES[name.rpartition(".")[0]], other)
            )
            assert operator.attrgetter(path)(owner) is not function, f"{name}: {other} is itself"


def test_docstrings_say_how_functions_differ():
    differing = [name for name, each in public_functions().items() if "Differs from NumPy" in sections(each)]
    assert {"sort", "transpose", "flip", "sum", "exp", "astype", "random.default_rng"} <= set(differing)
    assert {"add", "where", "take", "searchsorted", "evaluate", "fuse"}.isdisjoint(differing)


def test_methods_of_generators_describe_their_results():
    methods = inspect.getmembers(pk.random.Generator, inspect.isfunction)
    public = {name: sections(each) for name, each in methods if not name.startswith("_")}
    assert len(public) > 35
    assert [name for name, each in public.items() if "Returns" not in each] == ["shuffle"]
