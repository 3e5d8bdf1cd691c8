"""What tests of user kernels share: modules, compiled once for each engine."""

import functools
import re

import pytest

import pycudakit as pk
from pycudakit import SourceModule, _engine

# NVRTC's words for a header that is not installed beside it.
_NOT_INSTALLED = re.compile(r'cannot open source file "(curand_kernel|cuda_fp16|cooperative_groups)\.h"')


def module(source, **options):
    """Return the module of a source; skip where CUDA's headers that it includes are not installed."""
    try:
        return _compiled(source, _engine.checked_current(), **options)
    except pk.errors.CompileError as error:
        if missing := _NOT_INSTALLED.search(str(error)):
            pytest.skip(f"{missing[1]}.h is not installed")
        raise


@functools.cache
def _compiled(source, _engine, **options):
    return SourceModule(source, **options)
