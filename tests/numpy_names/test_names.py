"""The names of `pycudakit.numpy`: all names of NumPy, pycudakit functions where they exist."""

import importlib
import inspect
import pickle
import subprocess
import sys

import numpy  # noqa: ICN001  (`np` is ours)
import pytest
from helpers.numpy_versions import has_numpy, since
from helpers.processes import python

import pycudakit as pk
import pycudakit.numpy as np

SHARED = sorted(name for name in pk.__all__ if callable(getattr(numpy, name, None)))
# Deprecated parameters that NumPy 2.4 removed.
GONE = {"quantile": {"interpolation"}, "percentile": {"interpolation"}, "corrcoef": {"bias", "ddof"}}
OTHERWISE = {"get_include", "ascontiguousarray", "flip", "swapaxes", "transpose"}


def test_all_of_numpys_names():
    assert set(np.__all__) == set(numpy.__all__)
    assert set(dir(np)) >= set(dir(numpy))
    for name in numpy.__all__:
        assert getattr(np, name) is not None or getattr(numpy, name) is None
    star = {}
    exec("from pycudakit.numpy import *", star)
    assert set(numpy.__all__) <= set(star)
    assert star["sort"] is pk.sort
    assert star["ndarray"] is numpy.ndarray


def test_ours_where_we_have_one():
    ours = {name for name in SHARED if getattr(np, name) is getattr(pk, name)}
    assert set(SHARED) - ours == OTHERWISE
    assert all(getattr(np, name) is getattr(numpy, name) for name in OTHERWISE)
    assert np.acos is pk.arccos
    assert np.pow is pk.power
    assert np.linalg.norm is pk.linalg.norm
    assert np.linalg.svd.__wrapped__ is numpy.linalg.svd
    assert np.linalg.diagonal is numpy.linalg.diagonal
    assert np.__version__ == numpy.__version__
    assert np.float32 is numpy.float32
    assert np.ma is numpy.ma


@pytest.mark.parametrize("name", sorted(set(SHARED) - OTHERWISE))
def test_ours_have_numpys_parameters(name):
    """Shared names mean the same: the same parameters, and results that share memory where NumPy's do."""
    theirs, ours = getattr(numpy, name), getattr(pk, name)
    try:
        wanted = inspect.signature(theirs).parameters
    except ValueError:  # functions written in C, before NumPy 2.4
        wanted = {}
    given = inspect.signature(ours).parameters
    if not any(p.kind is p.VAR_POSITIONAL for p in wanted.values()):
        gone = set() if has_numpy("2.4") else GONE.get(name.removeprefix("nan"), set())
        assert {p for p in wanted if p != "kwargs"} - gone <= set(given)
    x = numpy.array([[0.1, 0.2], [0.3, 0.4]])
    try:
        result = theirs(x)
    except (TypeError, ValueError):
        return
    if isinstance(result, numpy.ndarray):
        assert numpy.shares_memory(x, result) == numpy.shares_memory(x, ours(x))


def test_coverage():
    whose = np.coverage()
    assert set(whose.values()) == {"pycudakit", "numpy"}
    assert set(numpy.__all__) - {"fft", "linalg", "random"} <= set(whose)
    assert {f"linalg.{name}" for name in numpy.linalg.__all__} <= set(whose)
    assert {f"fft.{name}" for name in numpy.fft.__all__} <= set(whose)
    for name, owner in whose.items():
        room, _, last = name.rpartition(".")
        found = getattr(getattr(np, room) if room else np, last)
        own = getattr(getattr(numpy, room) if room else numpy, last)
        assert (getattr(found, "numpy_function", found) is own) == (owner == "numpy"), name


def test_names_that_numpy_has_not():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        np.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match=r"expired|removed"):
        np.float_  # noqa: B018
    with pytest.raises(ImportError, match=r"pycudakit\.numpy\.nonsense"):
        importlib.import_module("pycudakit.numpy.nonsense")


@pytest.mark.parametrize("name", ["ma", "lib.stride_tricks", "polynomial.polynomial", "testing", "typing"])
def test_numpys_modules(name):
    assert importlib.import_module(f"pycudakit.numpy.{name}") is importlib.import_module(f"numpy.{name}")
    assert sys.modules[f"numpy.{name}"].__spec__.name == f"numpy.{name}"


def test_modules_of_both():
    from pycudakit.numpy import fft, linalg, random

    assert fft is np.fft is importlib.import_module("pycudakit.numpy.fft")
    assert set(dir(fft)) >= set(dir(numpy.fft))
    assert fft.fftfreq is numpy.fft.fftfreq
    assert linalg is np.linalg is importlib.import_module("pycudakit.numpy.linalg")
    assert random is np.random
    assert set(dir(linalg)) >= set(dir(numpy.linalg))
    assert set(dir(random)) >= set(numpy.random.__all__)


def test_random_numbers_are_numpys():
    assert np.random.default_rng is numpy.random.default_rng
    assert np.random.Generator is numpy.random.Generator
    assert {owner for name, owner in np.coverage().items() if name.startswith("random.")} == {"numpy"}


USE_RANDOM = """
import pickle, numpy, pycudakit as pk, pycudakit.numpy as np
from pycudakit.numpy.random import default_rng as before
np.use_random()
np.use_random()
print([name for name, owner in np.coverage().items() if name.startswith("random.") and owner == "pycudakit"])
print(before is numpy.random.default_rng is not np.random.default_rng, np.random.seed is numpy.random.seed)
from pycudakit.numpy.random import default_rng
seeded = default_rng(5)
print(seeded == pk.random.default_rng(5), np.random.Generator(np.random.Philox(5)) == seeded)
numpys = np.random.Generator(np.random.PCG64(5))
print(type(numpys) is numpy.random.Generator, numpys.random() == numpy.random.default_rng(5).random())
kind = np.random.Generator
print(isinstance(seeded, kind) and isinstance(numpys, kind), isinstance(5, kind))
for thing in (np.random.default_rng, np.random.Generator):
    print(b"pycudakit.numpy.random" in pickle.dumps(thing), pickle.loads(pickle.dumps(thing)) is thing)
try:
    np.random.Generator(5)
except AttributeError as error:
    print(error)
"""


def test_use_random():
    lines = python(USE_RANDOM).splitlines()
    assert lines[0] == "['random.Generator', 'random.default_rng']"
    assert lines[1:7] == ["True True"] * 3 + ["True False"] + ["True True"] * 2
    assert "capsule" in lines[7]


@since("2.2")
def test_use_random_leaves_generators_that_only_numpy_has():
    code = "import pycudakit.numpy as np; np.use_random()\n"
    code += "print(type(np.random.default_rng(np.random.RandomState(5))).__module__)"
    assert python(code) == "numpy.random._generator"


@pytest.mark.parametrize(
    "thing", [np.add, np.acos, np.sum, np.fft.fft, np.linalg.norm, np.linalg.svd, np.float64, np.coverage]
)
def test_pickles(thing):
    assert pickle.loads(pickle.dumps(thing)) is thing
    assert b"._" not in pickle.dumps(thing).replace(b"numpy._core", b"")


def test_pycudakit_numpy_is_imported_lazily():
    code = "import sys, pycudakit as pk; print('pycudakit.numpy' in sys.modules, pk.numpy.sort is pk.sort)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "False True\n"


@pytest.mark.thorough
@since("2.2")  # its stubs define the names of a star import
def test_type_checkers_see_numpys_types(tmp_path):
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text(
        "import pycudakit.numpy as np\n"
        "import pycudakit.numpy.linalg as la\n"
        "x: np.ndarray = np.zeros(3, np.float32)\n"
        "reveal_type(np.fft.fft(x).dtype)\n"
        "reveal_type(np.random.default_rng(3).normal(size=3))\n"
        "reveal_type(np.coverage())\n"
        "np.add.reduce(np.sort(x)), la.norm(x), np.max(x)\n"
        "np.nonsense\n"
    )
    told, _, _ = api.run([str(program), "--cache-dir", str(tmp_path), "--follow-imports=silent"])
    assert "complex128" in told
    assert 'ndarray[tuple[Any, ...], numpy.dtype[numpy.float64]]"' in told.replace("builtins.", "")
    assert 'dict[str, str]"' in told.replace("builtins.", "")
    assert told.count("error:") == 1
    assert 'has no attribute "nonsense"' in told
