"""scikit-build-core, but without the CUDA wheels where they would not be used, and in a folder that stays.

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
    """Keep the objects alone, which ninja compares: tools and settings may be others than last time."""
    # By the latter, scikit-build-core would find that the environment is another, and remove the objects.
    for name in ("CMakeCache.txt", ".skbuild-info.json"):
        (folder / name).unlink(missing_ok=True)
    for compilers in folder.glob("CMakeFiles/[0-9]*"):
        shutil.rmtree(compilers)


@contextlib.contextmanager
def _kept_objects(config_settings):
    """Yield settings by which objects of an earlier build are used, if nobody else builds with them."""
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
        except OSError:  # sources that cannot be written to, or another build: a temporary folder serves
            pass
        yield settings


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with _kept_objects(config_settings) as settings:
        return build.build_wheel(wheel_directory, settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    with _kept_objects(config_settings) as settings:
        return build.build_editable(wheel_directory, settings, metadata_directory)
