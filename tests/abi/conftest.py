"""Fixtures of the tests of the C ABI."""

import itertools

import pytest
from helpers.request_lists import Lists
from helpers.residency import Scope

from pycudakit._native import loader

_keys = itertools.count(1 << 40)


@pytest.fixture
def scope(engine):
    return Scope(engine)


@pytest.fixture
def library(engine):
    return loader.library(engine)


@pytest.fixture
def lists():
    return Lists()


@pytest.fixture
def kept(lists):
    """Return a list with a key of its own."""
    lists.key[:] = next(_keys), 7
    return lists
