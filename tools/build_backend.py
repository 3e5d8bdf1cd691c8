"""scikit-build-core, but without the CUDA wheels where they would not be used.

Overrides in pyproject.toml see the platform and the environment, not `-C cmake.define.PYCUDAKIT_CUDA=OFF`.
"""

import os
import re

from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403

_NO_WHEELS = re.compile(
    r"PYCUDAKIT_CUDA(:\w+)?=(off|no|n|false|0)\b|CMAKE_CUDA_COMPILER(:\w+)?=.", re.IGNORECASE
)


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
