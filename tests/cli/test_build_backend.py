"""The build backend reuses the object files of an earlier build of the package."""

import fcntl
import importlib.util
import shutil
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
    fake.get_requires_for_build_wheel = fake.get_requires_for_build_editable = lambda _: ["cmake"]
    package = types.ModuleType("scikit_build_core")
    package.build = fake
    monkeypatch.setitem(sys.modules, "scikit_build_core", package)
    monkeypatch.setitem(sys.modules, "scikit_build_core.build", fake)
    for variable in ("SKBUILD_BUILD_DIR", "CXX", "CMAKE_ARGS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name == "c++" else None)
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


HOOKS = {
    "get_requires_for_build_wheel": [],
    "get_requires_for_build_editable": [],
    "build_wheel": ["dist"],
    "build_editable": ["dist"],
}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_machine_without_a_compiler(backend, monkeypatch, hook):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(SystemExit) as caught:
        getattr(backend, hook)(*HOOKS[hook])
    (line,) = str(caught.value).splitlines()
    assert line.startswith("pycudakit: there is no C++ compiler.")
    assert all(
        each in line for each in ("apt install g++", "dnf install gcc-c++", "xcode-select --install", "CXX")
    )
    assert not FOLDER.exists()


@pytest.mark.parametrize(("compiler", "is_found"), [("c++ -m64", True), ("/opt/none/c++", False)])
def test_a_compiler_named_in_cxx(backend, monkeypatch, compiler, is_found):
    monkeypatch.setenv("CXX", compiler)
    if is_found:
        assert backend.get_requires_for_build_wheel() == ["cmake"]
    else:
        with pytest.raises(SystemExit, match="there is no C"):
            backend.get_requires_for_build_wheel()


def test_a_compiler_named_in_a_setting(backend, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    given = {"cmake.define.CMAKE_CXX_COMPILER": "/opt/c++"}
    assert backend.get_requires_for_build_wheel(given) == ["cmake"]


@pytest.mark.parametrize("hook", HOOKS)
def test_windows(backend, monkeypatch, hook):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match=r"^pycudakit: Windows is supported by WSL 2: run `wsl --install`"):
        getattr(backend, hook)(*HOOKS[hook])
