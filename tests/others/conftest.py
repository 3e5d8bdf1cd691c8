"""What tests of other libraries' arrays share."""

import pytest
from helpers.there import LIBRARIES, Library

import pycudakit as pk


@pytest.fixture(params=LIBRARIES)
def library(request):
    pytest.importorskip(request.param)
    with pk.engine("cuda"):
        yield Library(request.param)
