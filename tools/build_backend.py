"""Build backend: scikit-build-core, without unused CUDA wheels, in a build folder that is kept.

Overrides in pyproject.toml see the platform and the environment, not `-C cmake.define.PYCUDAKIT_CUDA=OFF`.
"""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, which _check_machine refuses
    fcntl = None

from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403

_NO_WHEELS = re.compile(
    r"PYCUDAKIT_CUDA(:\w+)?=(off|no|n|false|0)\b|CMAKE_CUDA_COMPILER(:\w+)?=.", re.IGNORECASE
)
_FOLDER = Path("build", "pip")


_NO_COMPILER = (
    "pycudakit: there is no C++ compiler. Install one: `sudo apt install g++` on Debian and Ubuntu, "
    "`sudo dnf install gcc-c++` on Fedora, `xcode-select --install` on macOS; or name yours in CXX."
)
_WINDOWS = (
    "pycudakit: Windows is supported by WSL 2: run `wsl --install`, and install pycudakit in its Linux."
)


def _has_compiler(settings):
    named = shlex.split(os.environ.get("CXX", ""))
    if named:
        return shutil.which(named[0]) is not None
    if any("CMAKE_CXX_COMPILER" in each or "CMAKE_TOOLCHAIN_FILE" in each for each in settings):
        return True
    if sys.platform == "darwin":  # where c++ exists, and asks for the command line tools
        return subprocess.run(["xcode-select", "-p"], capture_output=True, check=False).returncode == 0
    return any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def _check_machine(config_settings):
    """End with one line where nothing can be built, before CUDA's wheels are downloaded."""
    if sys.platform == "win32":
        raise SystemExit(_WINDOWS)
    if not _has_compiler(_settings(config_settings)):
        raise SystemExit(_NO_COMPILER)


def _settings(config_settings):
    """Return the settings of the build, as `name=value`."""
    variables = ("CMAKE_ARGS", "SKBUILD_CMAKE_ARGS", "SKBUILD_CMAKE_DEFINE")
    given = [f"{key}={value}" for key, value in (config_settings or {}).items()]
    return given + [os.environ.get(name, "") for name in variables]


def _without_cuda(requirements):
    return [requirement for requirement in requirements if not requirement.startswith("cuda-toolkit")]


def _without_unused(requirements, config_settings):
    is_unused = any(map(_NO_WHEELS.search, _settings(config_settings)))
    return _without_cuda(requirements) if is_unused else requirements


def get_requires_for_build_sdist(config_settings=None):
    return _without_cuda(build.get_requires_for_build_sdist(config_settings))


def get_requires_for_build_wheel(config_settings=None):
    _check_machine(config_settings)
    return _without_unused(build.get_requires_for_build_wheel(config_settings), config_settings)


def get_requires_for_build_editable(config_settings=None):
    _check_machine(config_settings)
    return _without_unused(build.get_requires_for_build_editable(config_settings), config_settings)


def _forget_configuration(folder):
    """Delete the CMake configuration, since tools and settings may have changed; keep the object files."""
    # By this file, scikit-build-core would detect a new build environment, and remove the objects.
    for name in ("CMakeCache.txt", ".skbuild-info.json"):
        (folder / name).unlink(missing_ok=True)
    for compilers in folder.glob("CMakeFiles/[0-9]*"):
        shutil.rmtree(compilers)


@contextlib.contextmanager
def _kept_objects(config_settings):
    """Yield settings that reuse the object files of an earlier build, unless another build uses them."""
    settings = dict(config_settings or {})
    if {"build-dir", "skbuild.build-dir"} & settings.keys() or "SKBUILD_BUILD_DIR" in os.environ:
        yield settings
        return
    with contextlib.ExitStack() as stack:
        try:
            _FOLDER.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((_FOLDER / "lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _forget_configuration(_FOLDER)
            settings["build-dir"] = str(_FOLDER)
        except OSError:  # read-only sources, or a concurrent build: use a temporary folder
            pass
        yield settings


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _check_machine(config_settings)
    with _kept_objects(config_settings) as settings:
        return build.build_wheel(wheel_directory, settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _check_machine(config_settings)
    with _kept_objects(config_settings) as settings:
        return build.build_editable(wheel_directory, settings, metadata_directory)
