"""C programs that call the libraries build and run as docs/abi.md says."""

import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.sanitizers import SANITIZED

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import loader

CLIENT = Path(__file__).parents[2] / "examples" / "c_client"
SUM = "51 42 33 24 15\n"


def run(*command, **keywords):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **keywords)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def compiler():
    """Return the C compiler."""
    found = shutil.which("cc")
    if found is None or not CLIENT.is_dir():
        pytest.skip("needs a C compiler, and examples/ beside the tests")
    if SANITIZED:
        pytest.skip("a sanitizer's library needs its runtime")
    return found


@pytest.mark.parametrize("language", ["-xc -std=c99", "-xc++ -std=c++17"])
def test_by_hand(engine, compiler, tmp_path, language):
    program, folder = tmp_path / "add", pk.get_library_dir()
    flags = [*language.split(), "-Wall", "-Wextra", "-Werror", f"-I{pk.get_include()}"]
    library = [f"-L{folder}", f"-lpycudakit_{engine}", f"-Wl,-rpath,{folder}"]
    run(compiler, *flags, str(CLIENT / "add.c"), "-o", str(program), "-xnone", *library)
    assert run(str(program)) == SUM


def test_by_pkg_config(engine, compiler, tmp_path):
    pkg_config = shutil.which("pkg-config")
    if pkg_config is None:
        pytest.skip("needs pkg-config")
    path = {"PKG_CONFIG_PATH": f"{pk.get_library_dir()}/pkgconfig"}
    name = f"pycudakit_{engine}"
    flags = run(pkg_config, "--cflags", "--libs", name, env=path).split()
    run(compiler, str(CLIENT / "add.c"), *flags, "-o", str(tmp_path / "add"))
    assert run(str(tmp_path / "add")) == SUM
    assert run(pkg_config, "--modversion", name, env=path).strip() == pk.__version__


@pytest.mark.parametrize("place", ["pycudakit_DIR={}/cmake/pycudakit", "CMAKE_PREFIX_PATH={}/.."])
def test_by_cmake(engine, compiler, tmp_path, place):
    cmake = shutil.which("cmake")
    if cmake is None or shutil.which("make") is None:
        pytest.skip("needs CMake and make")
    package = "-D" + place.format(pk.get_library_dir())
    run(cmake, "-S", str(CLIENT), "-B", str(tmp_path), "-G", "Unix Makefiles", package)
    run(cmake, "--build", str(tmp_path))
    assert run(str(tmp_path / f"add_{engine}")) == SUM


def test_where_nothing_is_built(monkeypatch, tmp_path):
    monkeypatch.setenv("PYCUDAKIT_LIBRARY_DIR", str(tmp_path))
    for place in (pk.get_library_dir, pk.get_include):
        with pytest.raises(errors.NoDevice, match="no library built"):
            place()
    (tmp_path / loader.file_name("cpu")).touch()
    assert pk.get_library_dir() == str(tmp_path)
    with pytest.raises(errors.NoDevice, match="install pycudakit again"):
        pk.get_include()
