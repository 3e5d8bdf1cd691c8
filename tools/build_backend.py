"""Build backend: scikit-build-core, without unused CUDA wheels, in a build folder that is kept.

Overrides in pyproject.toml see the platform and the environment, not `-C cmake.define.PYCUDAKIT_CUDA=OFF`.
"""

import contextlib
import fcntl
import os
import re
import shutil
from pathlib import Path

from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403

_NO_WHEELS = re.compile(
    r"PYCUDAKIT_CUDA(:\w+)?=(off|no|n|false|0)\b|CMAKE_CUDA_COMPILER(:\w+)?=.", re.IGNORECASE
)
_FOLDER = Path("build", "pip")


def _without_cuda(requirements):
    return [requirement for requirement in requirements if not requirement.startswith("cuda-toolkit")]


def _without_unused(requirements, config_settings):
    settings = [f"{key}={value}" for key, value in (config_settings or {}).items()]
    settings += [
        os.environ.get(name, "") for name in ("CMAKE_ARGS", "SKBUILD_CMAKE_ARGS", "SKBUILD_CMAKE_DEFINE")
    ]
    return _without_cuda(requirements) if any(map(_NO_WHEELS.search, settings)) else requirements


def get_requires_for_build_sdist(config_settings=None):
    return _without_cuda(build.get_requires_for_build_sdist(config_settings))


def get_requires_for_build_wheel(config_settings=None):
    return _without_unused(build.get_requires_for_build_wheel(config_settings), config_settings)


def get_requires_for_build_editable(config_settings=None):
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
    with _kept_objects(config_settings) as settings:
        return build.build_wheel(wheel_directory, settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    with _kept_objects(config_settings) as settings:
        return build.build_editable(wheel_directory, settings, metadata_directory)
