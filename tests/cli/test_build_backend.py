"""The build backend reuses the object files of an earlier build of the package."""

import fcntl
import importlib.util
import sys
import types
from pathlib import Path

import pytest

BACKEND = Path(__file__).parents[2] / "tools" / "build_backend.py"
FOLDER = Path("build", "pip")


@pytest.fixture
def backend(tmp_path, monkeypatch):
    """Return the backend in an empty source folder, on a fake scikit-build-core that returns its settings."""
    if not BACKEND.exists():
        pytest.skip("needs tools/ beside the tests")
    fake = types.ModuleType("scikit_build_core.build")
    fake.build_wheel = fake.build_editable = lambda *arguments: arguments[1]
    package = types.ModuleType("scikit_build_core")
    package.build = fake
    monkeypatch.setitem(sys.modules, "scikit_build_core", package)
    monkeypatch.setitem(sys.modules, "scikit_build_core.build", fake)
    monkeypatch.delenv("SKBUILD_BUILD_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("build_backend", BACKEND)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("hook", ["build_wheel", "build_editable"])
def test_folder_stays(backend, hook):
    given = {"cmake.define.PYCUDAKIT_CUDA": "OFF"}
    assert getattr(backend, hook)("dist", given) == {**given, "build-dir": str(FOLDER)}
    assert given.keys() == {"cmake.define.PYCUDAKIT_CUDA"}


def test_objects_stay_and_configuration_goes(backend):
    kept = [FOLDER / ".ninja_log", FOLDER / "CMakeFiles" / "pycudakit_cpu.dir" / "sort.cpp.o"]
    gone = [
        FOLDER / "CMakeCache.txt",
        FOLDER / ".skbuild-info.json",
        FOLDER / "CMakeFiles/4.1.0/CMakeSystem.cmake",
    ]
    for path in kept + gone:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    backend.build_wheel("dist")
    assert all(path.exists() for path in kept)
    assert not any(path.exists() for path in gone)


def test_one_build_at_a_time(backend):
    FOLDER.mkdir(parents=True)
    cache = FOLDER / "CMakeCache.txt"
    cache.write_text("another build's")
    with (FOLDER / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert "build-dir" not in backend.build_wheel("dist")
        assert cache.exists()
    assert "build-dir" in backend.build_wheel("dist")


def test_sources_that_cannot_be_written_to(backend):
    Path("build").write_text("no folder")
    assert backend.build_wheel("dist") == {}


@pytest.mark.parametrize("name", ["build-dir", "skbuild.build-dir"])
def test_own_folder(backend, name, monkeypatch):
    assert backend.build_wheel("dist", {name: "own"}) == {name: "own"}
    assert not FOLDER.exists()
    monkeypatch.setenv("SKBUILD_BUILD_DIR", "own")
    assert backend.build_wheel("dist") == {}
    assert not FOLDER.exists()
