"""Memory-mapped files that were truncated: an error instead of a SIGBUS that ends the process."""

import json
import os
import sys

import numpy as np
import pytest
from helpers.processes import python

import pycudakit as pk
from pycudakit import errors

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="keeps such files")

CALLS = {
    "add": lambda m: pk.add(m, 1.0),
    "add into": lambda m: pk.add(np.ones(m.shape), 1.0, out=m),
    "add.reduce": pk.add.reduce,
    "isclose": lambda m: pk.isclose(m, m),
    "astype": lambda m: pk.astype(m, np.float32),
    "evaluate": lambda m: pk.evaluate("x + 1", {"x": m}),
    "sum": pk.sum,
    "sum of a slice": lambda m: pk.sum(m[::2]),
    "sum of columns": lambda m: pk.sum(m.reshape(-1, 10).T, axis=0),
    "sum where": lambda m: pk.sum(np.ones(m.shape), where=m.view(bool)[: m.size]),
    "norm": pk.linalg.norm,
    "cumsum": pk.cumsum,
    "sort": pk.sort,
    "median": pk.median,
    "histogram": lambda m: pk.histogram(m, 3),
    "interp": lambda m: pk.interp(m, [0.0, 1.0], [0.0, 1.0]),
    "take": lambda m: pk.take(m, [1]),
    "repeat": lambda m: pk.repeat(m, 2),
    "concatenate": lambda m: pk.concatenate([m, m]),
    "matmul": lambda m: pk.matmul(m, m),
    "threshold": lambda m: pk.image.threshold(m.view(np.uint8)[:400].reshape(4, 100), 3),
    "normal": lambda m: pk.random.default_rng(1).normal(m),
    "random": lambda m: pk.random.default_rng(1).random(out=m),
    "pinned_copy": pk.pinned_copy,
    "fuse": pk.fuse(lambda a: a * 2 + 1),
    "fuse a dict": lambda m: pk.fuse(lambda d: d["a"] + 1)({"a": m}),
    "In": pk.In,
    "InOut": pk.InOut,
}


def cut_off(path, name, size):
    """Return the error of a call with an array whose file was truncated."""
    np.ones(size).tofile(path)
    mapped = np.memmap(path, np.float64, "r+")
    CALLS[name](mapped)
    os.truncate(path, 8)
    try:
        CALLS[name](mapped)
    except errors.InvalidArgument as error:
        return str(error)
    return "it was answered"


@pytest.mark.parametrize("name", ["the engine", "auto"])
def test_files_that_were_cut_off(engine, name, tmp_path):
    """In a process of its own, since a SIGBUS would end it."""
    code = f"""
sys.path[:0] = {sys.path!r}
import warnings
warnings.simplefilter("ignore")
import importlib.util
spec = importlib.util.spec_from_file_location("memory_maps", {__file__!r})
tests = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tests)
tests.pk.set_engine({engine if name == "the engine" else "auto"!r})
file = {str(tmp_path / "file")!r}
print(json.dumps({{
    f"{{name}}, {{size}}": tests.cut_off(file, name, size) for name in tests.CALLS for size in (100, 400_000)
}}))
"""
    told = json.loads(python(code))
    assert len(told) == 2 * len(CALLS)
    for case, words in told.items():
        size = int(case.rpartition(",")[2])
        expected = f"{tmp_path / 'file'}, was cut off: it has 8 bytes, and {8 * size} are mapped"
        assert words.endswith(expected), case


def test_files_that_are_as_they_were(engine, tmp_path):
    """Or longer; also maps at an offset, shared maps, and maps of deleted files."""
    file = tmp_path / "file"
    x = np.arange(10_000.0)
    x.tofile(file)
    mapped = np.memmap(file, np.float64, "r", offset=8 * 1003)
    with file.open("ab") as more:
        more.write(bytes(99))
    for array in (mapped, mapped[::-3], mapped.copy(), np.add(mapped, 0), np.asarray(mapped)):
        expected = np.asarray(array).tolist()
        assert pk.sum(array) == sum(expected)
        assert pk.sort(array).tolist() == sorted(expected)
    file.unlink()
    assert pk.sum(mapped) == x[1003:].sum()
